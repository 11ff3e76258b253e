"""Whether a line is part of a cleanup: code that runs while an error is on its way out."""

import ast
import linecache
from collections.abc import Iterable
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
    none: there the error has been dealt with.
    """
    return any(
        code.co_name in _EXITS or line in _cleanup_lines(code.co_filename)
        for code, line in frames
        if not is_foreign(code.co_filename)
    )


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
