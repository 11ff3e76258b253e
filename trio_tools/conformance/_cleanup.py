"""Whether a line is part of a cleanup: code that runs while an error is on its way out."""

import ast
import linecache
from functools import cache
from types import TracebackType
from typing import Final

from ._site import is_foreign

__all__ = ["has_tool_frame", "in_cleanup"]

_EXITS: Final = frozenset({"__aexit__", "__exit__", "aclose", "close"})


def in_cleanup(trace: TracebackType | None) -> bool:
    """Return whether a frame of ``trace`` that belongs to a tool stands in a cleanup.

    A cleanup is the body of a ``finally``, an ``except`` block that ends by raising, or the exit of a
    context manager. An ``except`` block that may go on, as one that waits before it tries again does, is
    none: there the error has been dealt with.
    """
    while trace is not None:
        code = trace.tb_frame.f_code
        if not is_foreign(code.co_filename) and (
            code.co_name in _EXITS or trace.tb_lineno in _cleanup_lines(code.co_filename)
        ):
            return True
        trace = trace.tb_next
    return False


def has_tool_frame(trace: TracebackType | None) -> bool:
    """Return whether an error came as far as a line that belongs to a tool rather than a library."""
    while trace is not None:
        if not is_foreign(trace.tb_frame.f_code.co_filename):
            return True
        trace = trace.tb_next
    return False


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
