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


# What cancels the caller while a phase runs from 0 to 8, and the rule that names the cause.
_KINDS: Final[dict[str, dict[str, object]]] = {
    "nothing": {},
    "request": {"cancels": (p.CancelAt(3),)},
    "deadline": {"scopes": (p.ScopeSpec(timeout=4),)},
    "ambient-request": {"inner": p.Ambient(), "cancels": (p.CancelAt(3, "inner"),)},
    "ambient-deadline": {"inner": p.Ambient(timeout=3)},
    "owner": {"outer": p.Ambient(timeout=7)},
}

_SLOW: Final = (p.Defer("x"), p.Sleep(8))
_LONG: Final = (p.Defer("x"), p.Shielded(8))
_QUICK: Final = p.ToolScript("a", (p.Defer("x"), p.Conclude()))


def _program(*tools: p.ToolScript, **more: object) -> p.CallProgram:
    return evolve(p.CallProgram(tools, (p.CallSpec("a"),)), **more)


def _phases() -> Iterator[tuple[str, str, p.CallProgram]]:
    """Yield one program for each phase and each way it can end, with nothing that cancels it."""
    sleep, shielded = (p.Sleep(8),), (p.Shielded(8),)
    for choice in ("allow", "deny", "ask", "delegate", "malformed"):
        for how, script in (("waits", sleep), ("shields", shielded)):
            gate = p.GateScript(script, choice)
            yield (
                "CA-12",
                f"gate-{how}-{choice}",
                _program(_QUICK, gates=(gate,), approver=p.ApproverScript()),
            )
    for answer in ("allowed_once", "rejected", "cancelled", "unavailable", "malformed"):
        for how, script in (("waits", sleep), ("shields", shielded)):
            approver = p.ApproverScript(script, answer)
            asked = (p.GateScript((), "ask"),)
            yield "CA-13", f"approval-{how}-{answer}", _program(_QUICK, gates=asked, approver=approver)
    for finish in ("last", "context", "success", "failure", "translate", "invalid", "malformed"):
        for how, script in (("waits", sleep), ("shields", shielded)):
            first = p.WrapperScript((*script, p.Proceed()), finish)
            then = p.WrapperScript((p.Proceed(), *script), finish)
            yield "CA-14", f"wrapper-{how}-then-delegates-{finish}", _program(_QUICK, wrappers=(first,))
            yield "CA-17", f"wrapper-delegates-then-{how}-{finish}", _program(_QUICK, wrappers=(then,))
    for name, body in _bodies():
        yield "CA-16", f"body-{name}", _program(p.ToolScript("a", body))
    for decision in ("accept", "content", "value", "invalid", "both", "block", "malformed", "delegate"):
        review = p.ReviewScript(sleep, decision, "r")
        yield "CA-18", f"review-{decision}", _program(_QUICK, reviewers=(review,))
        failing = p.ToolScript("a", (p.Fail("MINE"),))
        yield "CA-18", f"review-of-a-failure-{decision}", _program(failing, reviewers=(review,))


def _bodies() -> Iterator[tuple[str, tuple[p.Action, ...]]]:
    yield "waits", _SLOW
    yield "shields", _LONG
    yield "swallows", (p.Defer("x"), p.Attempt((p.Sleep(8),)))
    yield "converts", (p.Defer("x"), p.Attempt((p.Sleep(8),), (p.Fail("MINE"),)))
    yield "fails", (*_LONG, p.Fail())
    yield "refuses", (*_LONG, p.Fail("MINE"))
    yield "fails-as-a-group", (*_LONG, p.FailGroup(("MINE", "MINE"), cancelled=True))
    yield "fails-as-a-mixed-group", (*_LONG, p.FailGroup(("MINE", None)))
    yield "returns-what-does-not-fit", (*_LONG, p.Return(valid=False))
    yield "leaves-a-scope-open", (*_LONG, p.LeaveOpen(), p.Return())
    yield "lets-a-stray-out", (*_LONG, p.Stray())
    yield "cancels-its-caller", (p.CancelCaller(), p.Sleep(8))
    yield "cancels-its-helpers", (p.Spawn((p.Sleep(24),)), p.Shielded(8), p.CancelNursery(), p.Return())
    yield "cancels-itself", (p.Spawn((p.Sleep(24),)), p.Shielded(8), p.CancelNursery(), p.Sleep(8))
    yield "has-a-failing-helper", (p.Spawn((p.Shielded(8), p.Fail("MINE"))), p.Sleep(24))
    yield "has-a-slow-helper", (p.Spawn(_LONG), p.Return())
    yield "holds-the-loop", (p.Defer("x"), p.Hold(8))


def _timeouts() -> Iterator[tuple[str, str, p.CallProgram]]:
    """Yield the table of timeouts, row by row."""
    slow, long = p.ToolScript("a", _SLOW, timeout=5), p.ToolScript("a", _LONG, timeout=5)
    quick = p.ToolScript("a", (p.Defer("x"),), timeout=5)
    for how, script in (("waits", (p.Sleep(8),)), ("shields", (p.Shielded(8),))):
        before = p.WrapperScript((*script, p.Proceed()), "context")
        after = p.WrapperScript((p.Proceed(), *script), "context")
        yield "TI-10", f"budget-before-invocation-{how}", _program(quick, wrappers=(before,))
        yield "TI-12", f"budget-after-settlement-{how}", _program(quick, wrappers=(after,))
    yield "TI-11", "budget-in-a-body-that-waits", _program(slow)
    yield "TI-11", "budget-in-a-body-that-shields", _program(long)
    yield "TI-11", "budget-in-a-body-that-fails", _program(evolve(long, body=(*_LONG, p.Fail("MINE"))))
    yield "TI-13", "caller-then-budget", _program(long, cancels=(p.CancelAt(3),))
    yield "TI-14", "budget-then-caller", _program(long, cancels=(p.CancelAt(7),))
    yield "TI-14", "budget-then-ambient", _program(long, inner=p.Ambient(timeout=7))
    yield "TI-15", "caller-and-budget-at-once", _program(slow, scopes=(p.ScopeSpec(timeout=5),))
    yield "TI-16", "loop-held-past-the-budget", _program(evolve(slow, body=(p.Hold(8),)))
    yield "TI-17", "deadline-of-the-scope", _program(slow, scopes=(p.ScopeSpec("turn", 4),))
    for finish in ("last", "translate"):
        wrapper = p.WrapperScript((p.Proceed(timeout=3),), finish, "mine")
        yield "TI-18", f"deadline-of-a-wrapper-{finish}", _program(slow, wrappers=(wrapper,))
    retry = p.WrapperScript((p.Proceed(timeout=3, attempts=3),), "last", "mine")
    yield "TI-6", "retries-share-the-budget", _program(slow, wrappers=(retry,))
    enclosing = p.ToolScript("a", (p.Defer("1"), p.Nested("b"), p.Defer("3")), timeout=5)
    yield "TI-19", "budget-of-an-enclosing-call", _program(enclosing, p.ToolScript("b", _SLOW))


def _nested() -> Iterator[tuple[str, str, p.CallProgram]]:
    inner = p.ToolScript("b", (p.Defer("2"), p.Sleep(8), p.Conclude()))
    outer = p.ToolScript("a", (p.Defer("1"), p.Nested("b"), p.Defer("3")))
    yield "NE-6", "contexts-join-in-place", _program(outer, inner)
    yield (
        "NE-5",
        "a-shielded-body-goes-on",
        _program(evolve(outer, body=(p.Attempt(outer.body), *_LONG)), inner),
    )
    yield "NE-8", "in-the-nursery", _program(evolve(outer, body=(p.Spawn(outer.body), p.Defer("0"))), inner)
    failing = evolve(outer, body=(p.Spawn(outer.body), p.Sleep(4), p.Fail("MINE")))
    yield "NE-8", "cancelled-by-a-failing-body", _program(failing, inner)


def _batches() -> Iterator[tuple[str, str, p.CallProgram]]:
    tools = (
        p.ToolScript("a", (p.Defer("x"), p.Sleep(16)), parallel=True),
        p.ToolScript("b", (p.Sleep(8), p.Fail("MINE")), parallel=True),
        p.ToolScript("c", (p.Sleep(8),)),
    )
    orders = {"abc": (0, 1, 2), "cab": (2, 0, 1), "aab": (0, 0, 1), "bac": (1, 0, 2)}
    for name, order in orders.items():
        calls = tuple(p.CallSpec(tools[index].name) for index in order)
        for parallel in (1, 10):
            for fail_fast in (False, True):
                policy = "fail-fast" if fail_fast else "collect"
                yield (
                    "BA-11",
                    f"{name}-{parallel}-{policy}",
                    _program(*tools, calls=calls, mode="batch", max_parallel=parallel, fail_fast=fail_fast),
                )


def _crossed(group: Iterator[tuple[str, str, p.CallProgram]]) -> Iterator[Vector]:
    """Yield each program once for each kind of cancellation."""
    for rule, name, program in group:
        for kind, what in _KINDS.items():
            yield Vector(f"{name}-under-{kind}", (rule,), evolve(program, **what))


def _plain(group: Iterator[tuple[str, str, p.CallProgram]]) -> Iterator[Vector]:
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
        "classification": list(_crossed(_phases())),
        "timeouts": list(_plain(_timeouts())),
        "nested": list(_crossed(_nested())),
        "batch": list(_crossed(_batches())),
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
