"""Whether a line is part of a cleanup: code that runs while an error is on its way out."""

import ast
import contextlib
import linecache
from collections.abc import Iterable, Sequence
from functools import cache
from types import CodeType
from typing import Final

from ._site import is_foreign

__all__ = ["in_cleanup"]

_EXITS: Final = frozenset({"__aexit__", "__exit__", "aclose", "close"})


def in_cleanup(frames: Iterable[tuple[CodeType, int]]) -> bool:
    """Return whether one of ``frames`` that belongs to a tool stands in a cleanup.

    A cleanup is the body of a ``finally``, an ``except`` block that ends by raising, or the exit of a
    context manager. An ``except`` block that may go on, as one that waits before it tries again does, is
    none: there the error has been dealt with. What a tool has pushed on an exit stack is its cleanup too.
    """
    given = list(frames)
    return _in_exit_stack([code for code, _ in given]) or any(
        code.co_name in _EXITS or line in _cleanup_lines(code.co_filename)
        for code, line in given
        if not is_foreign(code.co_filename)
    )


def _in_exit_stack(codes: Sequence[CodeType]) -> bool:
    stack = contextlib.AsyncExitStack.__aexit__.__code__
    if stack not in codes:
        return False
    # A library's own context manager waits where its author meant it to, on a stack or not.
    called = [code for code in codes[codes.index(stack) :] if code.co_filename != stack.co_filename]
    return not any(code.co_name in _EXITS and is_foreign(code.co_filename) for code in called)


@cache
def _cleanup_lines(filename: str) -> frozenset[int]:
    try:
        tree = ast.parse("".join(linecache.getlines(filename)))
    except SyntaxError:
        return frozenset()
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Try | ast.TryStar):
            blocks = [node.finalbody]
            blocks += [handler.body for handler in node.handlers if isinstance(handler.body[-1], ast.Raise)]
            for block in blocks:
                for statement in block:
                    lines.update(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))
    return frozenset(lines)
