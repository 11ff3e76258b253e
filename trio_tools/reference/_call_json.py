"""Call programs and traces as JSON, for vectors that any implementation can read.

An action is an object whose ``do`` names it in snake case, ``{"do": "sleep", "seconds": 8}``; so is a
request to cancel. Everything else is known by its place. What has its default value is left out.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, cast

from attrs import AttrsInstance, fields, has

from . import _call_program as p
from ._call_tables import Published, Trace
from ._call_time import Cause

__all__ = ["program_from_json", "program_to_json", "trace_from_json", "trace_to_json"]

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

_PLACES: Final[dict[str, type]] = {
    "tools": p.ToolScript,
    "finalizer": p.FinalizerScript,
    "calls": p.CallSpec,
    "scopes": p.ScopeSpec,
    "outer": p.Ambient,
    "inner": p.Ambient,
    "gates": p.GateScript,
    "approver": p.ApproverScript,
    "guards": p.GuardScript,
    "wrappers": p.WrapperScript,
    "reviewers": p.ReviewScript,
    "observers": p.ObserverScript,
}


def _tag(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


_TAGGED: Final[dict[str, type]] = {
    _tag(cls.__name__): cls
    for cls in (
        p.Checkpoint,
        p.Sleep,
        p.Shielded,
        p.Hold,
        p.CancelCaller,
        p.MoveDeadline,
        p.Fail,
        p.FailGroup,
        p.Stray,
        p.Attempt,
        p.Cleanup,
        p.Spawn,
        p.CancelNursery,
        p.LeaveOpen,
        p.Defer,
        p.Conclude,
        p.Nested,
        p.Return,
        p.Unregister,
        p.Register,
        p.Restrict,
        p.Lift,
        p.Consult,
        p.Proceed,
        p.CancelAt,
        p.CancelAtStep,
        p.At,
    )
}


def program_to_json(program: p.CallProgram) -> dict[str, Json]:
    """Return ``program`` as JSON; `program_from_json` inverts it."""
    return cast("dict[str, Json]", _encoded(program))


def _encoded(value: object) -> Json:
    if isinstance(value, tuple):
        return [_encoded(item) for item in cast("tuple[object, ...]", value)]
    if not has(type(value)):
        return cast("Json", value)
    tree = cast("AttrsInstance", value)
    tag = _tag(type(value).__name__)
    encoded: dict[str, Json] = {"do": tag} if tag in _TAGGED else {}
    for attribute in fields(type(tree)):
        current = getattr(tree, attribute.name)
        if attribute.default != current or type(attribute.default) is not type(current):
            encoded[attribute.name] = _encoded(current)
    return encoded


def program_from_json(encoded: Mapping[str, Json]) -> p.CallProgram:
    """Return the program that ``encoded`` describes.

    Raises:
        KeyError: for an action that does not exist.
        TypeError: for a key that does not belong where it stands, or one that is missing.
    """
    return cast("p.CallProgram", _decoded_node(p.CallProgram, encoded))


def _decoded_node(cls: type, encoded: Mapping[str, Json]) -> object:
    make = cast("Callable[..., object]", cls)
    return make(**{name: _decoded(name, value) for name, value in encoded.items() if name != "do"})


def _decoded(place: str, value: Json) -> object:
    if isinstance(value, list):
        return tuple(_decoded(place, item) for item in value)
    if not isinstance(value, dict):
        return value
    return _decoded_node(_TAGGED[cast("str", value["do"])] if "do" in value else _PLACES[place], value)


def trace_to_json(trace: Trace) -> dict[str, Json]:
    """Return ``trace`` as JSON; `trace_from_json` inverts it."""
    return {
        "published": [_published(result) for result in trace.published],
        "ends": dict(trace.ends),
    }


def _published(result: Published) -> Json:
    cause = result.cause
    return {
        "call": result.call,
        "outcome": result.outcome,
        "code": result.code,
        "settlement": result.settlement,
        "cause": None
        if cause is None
        else {"kind": cause.kind, "name": cause.name, "at": [cause.since, cause.until]},
        "contexts": list(result.contexts),
        "concludes": result.concludes,
    }


def trace_from_json(encoded: Mapping[str, Json]) -> Trace:
    """Return the trace that ``encoded`` describes."""
    published = [_result(entry) for entry in cast("Sequence[dict[str, Json]]", encoded["published"])]
    ends = cast("dict[str, str]", encoded["ends"])
    return Trace(tuple(published), tuple(sorted(ends.items())))


def _result(entry: dict[str, Json]) -> Published:
    found = cast("dict[str, Json] | None", entry["cause"])
    cause = None
    if found is not None:
        since, until = cast("list[float]", found["at"])
        cause = Cause(cast("str", found["kind"]), cast("str", found["name"]), since, until)
    return Published(
        call=cast("str", entry["call"]),
        outcome=cast("str", entry["outcome"]),
        code=cast("str | None", entry["code"]),
        settlement=cast("str", entry["settlement"]),
        cause=cause,
        contexts=tuple(cast("list[str]", entry["contexts"])),
        concludes=cast("bool", entry["concludes"]),
    )
