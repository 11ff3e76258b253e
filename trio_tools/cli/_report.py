"""Results as people and programs read them: lines, tables, JSON."""

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from typing import TextIO

from trio_tools import ImageContent, ToolResult

from ._failure import one_line

__all__ = ["cause_of", "cause_to_json", "print_table", "result_to_json"]


def cause_of(result: ToolResult) -> str:
    """Say what cancelled the call, as ``kind:name`` and the reason if there is one; else nothing."""
    cause = result.cause
    if cause is None:
        return ""
    reason = f" ({one_line(cause.reason)})" if cause.reason else ""
    return f"{cause.kind}:{cause.name}{reason}"


def cause_to_json(result: ToolResult) -> dict[str, str | None] | None:
    """Return the cause as JSON, or None; its time means nothing outside its run."""
    cause = result.cause
    return None if cause is None else {"kind": str(cause.kind), "name": cause.name, "reason": cause.reason}


def result_to_json(result: ToolResult) -> dict[str, object]:
    """Return all of a result that means something outside its run, as JSON."""
    return {
        "outcome": str(result.outcome),
        "code": result.code,
        "settlement": str(result.settlement),
        "dispatched": result.dispatched,
        "cause": cause_to_json(result),
        "message": None if result.error is None else result.error.message,
        "content": [
            {"type": "image", "data": part.data, "mimeType": part.mime_type}
            if isinstance(part, ImageContent)
            else {"type": "text", "text": part.text}
            for part in result.content
        ],
        "value": result.value,
        "meta": result.meta,
    }


def print_table(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    colours: Mapping[str, str],
    out: TextIO | None = None,
) -> None:
    """Print a table: coloured on a terminal where `rich` is installed, plain text anywhere else.

    Args:
        colours: a style for each cell whose text is exactly one of the keys.
        out: where to print; standard output by default.
    """
    stream = sys.stdout if out is None else out
    if stream.isatty() and importlib.util.find_spec("rich") is not None:
        _print_rich(headers, rows, colours, stream)
        return
    widths = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]
    for row in (headers, *rows):
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip(),
            file=stream,
        )


def _print_rich(
    headers: Sequence[str], rows: Sequence[Sequence[str]], colours: Mapping[str, str], stream: TextIO
) -> None:
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    console = Console(file=stream, highlight=False)
    widths = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]
    # What does not fit stands below its row: no word of a table is broken to keep its columns.
    below = sum(widths) + 2 * (len(widths) - 1) > console.width
    for number, row in enumerate((headers, *rows)):
        # As text, for what a server says must not be read as markup.
        cells = [
            Text(cell.ljust(width), style="bold" if number == 0 else colours.get(cell, ""))
            for cell, width in zip(row, widths, strict=True)
        ]
        line = Text("  ").join(cells[:-1] if below else cells)
        line.rstrip()
        console.print(line)
        if below and number and row[-1]:
            console.print(Padding(Text(row[-1], style="dim"), (0, 0, 0, widths[0] + 2)))
