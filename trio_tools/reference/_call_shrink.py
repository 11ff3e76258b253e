"""Makes a failing program small: what is not needed for the failure is taken away.

The programs that Hypothesis draws are shrunk by Hypothesis; this is for those of a soak.
"""

import math
import re
from collections.abc import Callable, Iterator
from typing import Final, cast

from attrs import NOTHING, AttrsInstance, evolve, fields, has

from ._call_program import CallProgram

__all__ = ["shrink"]

# Without these a program has nothing left to say.
_NEEDED: Final = frozenset({"tools", "calls", "scopes"})


def shrink(program: CallProgram, fails: Callable[[CallProgram], bool], *, tries: int = 600) -> CallProgram:
    """Return a small program that still ``fails``, after asking at most about ``tries`` programs."""
    left = tries
    found = True
    while found and left > 0:
        found = False
        for smaller in _smaller(program):
            left -= 1
            if left < 0:
                break
            if _meaningful(smaller) and fails(smaller):
                program, found = smaller, True
                break
    return program


def _meaningful(program: CallProgram) -> bool:
    """Return whether names and numbers still refer to something; actions are looked up by text."""
    names = {tool.name for tool in program.tools}
    scopes = len(program.scopes)
    text = repr(program)
    targets = {cancel.target for cancel in program.cancels}
    return (
        all(call.tool in names and call.scope < scopes for call in program.calls)
        and set(re.findall(r"tool='(\w+)'", text)) <= names
        and all(spec.parent is None or spec.parent < index for index, spec in enumerate(program.scopes))
        and ("outer" not in targets or program.outer is not None)
        and ("inner" not in targets or program.inner is not None)
        and all(isinstance(target, str) or target < scopes for target in targets)
        and (scopes > 1 or "scope=1" not in text)
        and max(map(int, re.findall(r"layer=(\d+)", text)), default=0) < program.layers
        and (program.layers > 1 or not re.search(r"Restrict\(|Lift\(", text))
        and "codes=()" not in text
        and bool(program.calls)
    )


def _smaller(program: CallProgram) -> Iterator[CallProgram]:
    for value in _variants(program):
        yield cast("CallProgram", value)


def _variants(value: object) -> Iterator[object]:
    """Yield values that are one step smaller: the large steps first."""
    if isinstance(value, tuple):
        items = cast("tuple[object, ...]", value)
        for index in range(len(items)):
            yield (*items[:index], *items[index + 1 :])
        for index, item in enumerate(items):
            for inner in getattr(item, "script", ()), getattr(item, "then", ()), getattr(item, "last", ()):
                # What stands inside an action may do alone.
                if inner and type(item).__name__ in {"Attempt", "Cleanup", "Spawn"}:
                    yield (*items[:index], *inner, *items[index + 1 :])
            for smaller in _variants(item):
                yield (*items[:index], smaller, *items[index + 1 :])
    elif has(type(value)):
        tree = cast("AttrsInstance", value)
        for attribute in fields(type(tree)):
            current = getattr(tree, attribute.name)
            if current == attribute.default:
                continue
            if attribute.default is not NOTHING and attribute.name not in _NEEDED:
                yield evolve(tree, **{attribute.name: attribute.default})
            for smaller in _variants(current):
                yield evolve(tree, **{attribute.name: smaller})
    elif isinstance(value, int) and not isinstance(value, bool) and value > 1:
        yield 1
        if value > 8:
            yield 8
        if value > 2:
            yield value // 2
            yield value - 1
    elif isinstance(value, float) and value != math.inf:
        yield math.inf
