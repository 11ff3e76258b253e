"""Programs with all that they may do, as JSON: for an implementation in any language to be held against."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from attrs import fields

from ._explore import Order, allowed
from ._generate import Grammar, draw_program
from ._outcome import Cancelled, Failed, Outcome, Returned
from ._program import (
    Cancel,
    CancelPoint,
    Catch,
    Checkpoint,
    Emit,
    Finally,
    MoveDeadline,
    Nursery,
    Program,
    ProgramError,
    Raise,
    Return,
    SchedulePoint,
    Scope,
    SetShield,
    Sleep,
    Start,
    Started,
    StartSoon,
)
from ._properties import PROPERTIES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from ._outcome import Ending
    from ._program import Op

Json: TypeAlias = dict[str, Any]

VERSION: Final = 1
"""Raised when a reader of the older vectors would misread the newer ones."""

_OPERATIONS: Final[dict[str, type]] = {
    "cancel": Cancel,
    "cancel_point": CancelPoint,
    "catch": Catch,
    "checkpoint": Checkpoint,
    "emit": Emit,
    "finally": Finally,
    "move_deadline": MoveDeadline,
    "nursery": Nursery,
    "raise": Raise,
    "return": Return,
    "schedule_point": SchedulePoint,
    "scope": Scope,
    "set_shield": SetShield,
    "sleep": Sleep,
    "start": Start,
    "start_soon": StartSoon,
    "started": Started,
}
_NAMES: Final = {kind: name for name, kind in _OPERATIONS.items()}
_BODIES: Final = ("body", "handler", "cleanup")


def program_to_json(program: Program) -> list[Json]:
    """Returns a program as a list of operations, each an object whose `op` says which one it is."""
    return _body_to_json(program.body)


def _body_to_json(body: Sequence[Op]) -> list[Json]:
    written: list[Json] = []
    for op in body:
        values: Json = {field.name: getattr(op, field.name) for field in fields(type(op))}
        for name in values.keys() & set(_BODIES):
            values[name] = _body_to_json(values[name])
        written.append({"op": _NAMES[type(op)], **values})
    return written


def program_from_json(operations: Sequence[Json]) -> Program:
    """Returns the program that such a list describes. Raises `ProgramError` if it describes none."""
    return Program(*map(_op_from_json, operations))


def _op_from_json(data: Json) -> Op:
    values = dict(data)
    kind = _OPERATIONS.get(values.pop("op", ""))
    if kind is None:
        raise ProgramError(f"there is no such operation as {data!r}")
    for name in values.keys() & set(_BODIES):
        values[name] = tuple(map(_op_from_json, values[name]))
    try:
        if kind in (Scope, Nursery, StartSoon, Start):
            name = values.pop("nursery" if kind in (StartSoon, Start) else "name")
            return kind(name, *values.pop("body"), **values)
        return kind(**values)
    except (KeyError, TypeError) as error:
        raise ProgramError(f"{data!r} is not all that its operation needs: {error}") from None


def outcome_to_json(outcome: Outcome) -> Json:
    """Returns an outcome as JSON, equal for equal outcomes; `interleaving` is there only if it was kept."""
    written: Json = {
        "events": [[[event.label, event.at] for event in events] for events in outcome.events],
        "ending": _ending_to_json(outcome.ending),
        "scopes": {
            flags.name: {"cancel_called": flags.cancel_called, "cancelled_caught": flags.cancelled_caught}
            for flags in outcome.scopes
        },
        "end_time": outcome.end_time,
    }
    if outcome.interleaving is not None:
        written["interleaving"] = list(outcome.interleaving)
    return written


def _ending_to_json(ending: Ending) -> str | Json:
    match ending:
        case Returned():
            return "returned"
        case Cancelled():
            return "cancelled"
        case Failed():
            return {"error": ending.error}
        case _:
            return {"group": [_ending_to_json(member) for member in ending.members]}


def program_vectors(*, drawn: int = 200, seed: int = 1) -> Json:
    """Returns the vectors of the language: the programs of every property, and random ones from a seed.

    Each has a name, the property that it shows (None for a random one), the program, and the outcomes that
    are permitted under any order (`Order.FREE`). If its outcomes hold an `interleaving`, then the order of
    events between tasks counts as well.
    """
    return {"version": VERSION, "vectors": [*_shown(), *_drawn(drawn, seed)]}


def write_program_vectors(folder: Path) -> None:
    """Writes the vectors as `programs.json` into a folder: the same bytes each time, one vector a line."""
    document = program_vectors()
    lines = [json.dumps(vector, ensure_ascii=False, separators=(",", ":")) for vector in document["vectors"]]
    text = f'{{"version":{document["version"]},"vectors":[\n' + ",\n".join(lines) + "\n]}\n"
    (folder / "programs.json").write_text(text, encoding="utf-8")


def _shown() -> Iterator[Json]:
    for prop in PROPERTIES:
        for position, program in enumerate(prop.shown_by, start=1):
            yield _vector(f"{prop.id}-{position}", prop.id, program, interleaving=prop.interleaving)


def _drawn(count: int, seed: int) -> Iterator[Json]:
    """Draws programs of which half may end in more than one way, and none in too many to read."""
    rng = random.Random(seed)
    wanted = {False: count - count // 2, True: count // 2}
    seen: set[Program] = set()
    grammar = Grammar(size=12, tasks=3, crowded=True)
    while any(wanted.values()):
        program = draw_program(lambda most: int(rng.random() * (most + 1)), grammar)
        permitted = allowed(program, order=Order.FREE)
        has_choice = len(permitted) > 1
        if program not in seen and len(permitted) <= 8 and wanted[has_choice]:
            wanted[has_choice] -= 1
            seen.add(program)
            yield _vector(f"drawn-{len(seen)}", None, program, interleaving=False)


def _vector(name: str, shows: str | None, program: Program, *, interleaving: bool) -> Json:
    permitted = allowed(program, order=Order.FREE, interleaving=interleaving)
    return {
        "name": name,
        "property": shows,
        "program": program_to_json(program),
        "permitted": sorted(map(outcome_to_json, permitted), key=repr),
    }
