"""Vectors: programs with everything the semantics permits for them, as JSON for any implementation.

Most are built systematically: one phase of a call, one way for it to end, one thing that cancels it.
The rest are drawn by the generator from a fixed seed, which reaches combinations nobody thinks of.
"""

import json
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, final

from attrs import evolve, frozen

from . import _call_program as p
from ._call_cases import KINDS, Case, batches, layers, nested, phases, registrations, timeouts
from ._call_generate import Dice, generated
from ._call_json import Json, program_from_json, program_to_json, trace_to_json
from ._call_predict import predict
from ._call_run import observe

__all__ = ["Vector", "observe_call_program", "vector_files", "vectors", "write_call_vectors"]

VERSION: Final = 1
"""Raised when a reader of the older vectors would misread the newer ones."""

DRAWN: Final = 120
"""How many vectors are drawn."""


@final
@frozen
class Vector:
    """One program under a name, and the rules that it is about."""

    name: str
    rules: tuple[str, ...]
    program: p.CallProgram


def _crossed(group: Iterator[Case]) -> Iterator[Vector]:
    """Yield each program once for each kind of cancellation."""
    for rule, name, program in group:
        for kind, what in KINDS.items():
            yield Vector(f"{name}-under-{kind}", (rule,), evolve(program, **what))


def _plain(group: Iterator[Case]) -> Iterator[Vector]:
    for rule, name, program in group:
        yield Vector(name, (rule,), program)


def _drawn() -> Iterator[Vector]:
    seed = count = 0
    while count < DRAWN:
        program = generated(Dice(random.Random(seed)))
        if predict(program, limit=64).complete:
            count += 1
            yield Vector(f"seed-{seed}", (), program)
        seed += 1


def vectors() -> dict[str, list[Vector]]:
    """Return all vectors, by the name of their file."""
    return {
        "classification": list(_crossed(phases())),
        "timeouts": list(_plain(timeouts())),
        "nested": list(_crossed(nested())),
        "batch": list(_crossed(batches())),
        "registrations": list(_plain(registrations())),
        "layers": list(_plain(layers())),
        "drawn": list(_drawn()),
    }


def vector_files() -> dict[str, str]:
    """Return the text of each vector file, by file name; the same text each time."""
    return {f"{name}.json": _text(group) for name, group in vectors().items()}


def _text(group: list[Vector]) -> str:
    # One vector a line: a change to the model shows as the lines that it changes.
    lines = [json.dumps(_vector(vector), ensure_ascii=False, separators=(",", ":")) for vector in group]
    return f'{{"version":{VERSION},"vectors":[\n' + ",\n".join(lines) + "\n]}\n"


def _vector(vector: Vector) -> Json:
    prediction = predict(vector.program, limit=20_000)
    assert prediction.complete, f"{vector.name} has more orders than are explored"
    return {
        "name": vector.name,
        "rules": list(vector.rules),
        "program": program_to_json(vector.program),
        "permitted": [trace_to_json(trace) for trace in prediction.traces],
    }


def write_call_vectors(folder: Path) -> None:
    """Write every vector file into ``folder``."""
    for name, text in vector_files().items():
        (folder / name).write_text(text, encoding="utf-8")


def observe_call_program(program: Mapping[str, Json]) -> dict[str, Json]:
    """Carry a program in JSON out on the runtime and return the trace in JSON, as in the vectors.

    Starts a trio run of its own.

    Raises:
        RuntimeError: when the run showed what no program may show, such as two results of one call.
    """
    observation = observe(program_from_json(program))
    if observation.faults:
        raise RuntimeError("; ".join(observation.faults))
    return trace_to_json(observation.trace)
