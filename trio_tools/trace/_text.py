"""A timeline as text: plain columns for a file or a pipe, a coloured table for a terminal."""

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from ._labels import Language, labels, outcome_key
from ._rows import RunRow
from ._timeline import UNKNOWN, RunTimeline, TimelineEntry

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["columns_of", "escape", "print_timeline", "state_key", "text_of", "utc"]

_STYLES: Final = {"ok": "green", "failed": "bold red", "cancelled": "yellow", UNKNOWN: "bold magenta"}

Column: TypeAlias = tuple[str, Literal["left", "right"]]


def escape(text: str) -> str:
    """Returns text whose control characters are written as escapes (`TL-8`)."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_escaped, text))


def _escaped(char: str) -> str:
    # Format characters too: some of them reverse what a terminal shows.
    if unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"}:
        return char.encode("unicode_escape").decode("ascii")
    return char


def utc(second: float) -> str:
    """Returns date and time, UTC; what no calendar holds is written as the number it is."""
    try:
        return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, OSError, ValueError):
        return str(second)


def state_key(run: RunRow) -> str:
    """Returns the key of the label that says how a run stands."""
    if run.finished_at is not None:
        return "runs.state.ended"
    return "runs.state.open" if run.cancel_requested_at is None else "runs.state.asked"


def text_of(timeline: RunTimeline, language: Language, outcome: str | None) -> str:
    """Returns the timeline as plain text, one line for each entry shown, never wrapped or cut."""
    words = labels(language)
    shown = timeline.shown(outcome)
    unknown = _any_unknown(shown)
    rows = [[text for text, _ in _cells(entry, words, unknown=unknown)] for entry in shown]
    lines = [
        "  ".join(text for text, _ in _title(timeline.run, words)),
        "",
        *columns_of(_columns(words, unknown=unknown), rows),
        "",
        "   ".join(text for text, _ in _summary(timeline, words)),
    ]
    if outcome is not None:
        lines.append(_left_out(timeline, shown, words))
    if unknown:
        lines.append(words["runs.unknown.hint"])
    return "".join(f"{line}\n" for line in lines)


def columns_of(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table whose columns are as wide as what they hold."""
    table = [[title for title, _ in columns], *rows]
    widths = [max(map(_width, cells)) for cells in zip(*table, strict=True)]
    for number, row in enumerate(table):
        cells = (
            _padded(text, width, right=justify == "right")
            for text, width, (_, justify) in zip(row, widths, columns, strict=True)
        )
        yield "  ".join(cells).rstrip()
        if number == 0:
            yield "  ".join("─" * width for width in widths)


def _padded(text: str, width: int, *, right: bool) -> str:
    space = " " * (width - _width(text))
    return space + text if right else text + space


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(unicodedata.combining(char) > 0 for char in text)


def print_timeline(
    timeline: RunTimeline, language: Language, console: "Console", *, outcome: str | None = None
) -> None:
    """Print the timeline on a terminal; colours are the console's to allow, and ``NO_COLOR`` is heard.

    What is short stands in columns, and the details of an entry below it, wrapped to the terminal. Only what
    ended with ``outcome`` is listed, if one is given; counts and failure rate stay those of the run.
    """
    from rich.padding import Padding
    from rich.text import Text

    words = labels(language)
    shown = timeline.shown(outcome)
    unknown = _any_unknown(shown)
    columns = _columns(words, unknown=unknown)[:-1]
    rows: list[list[tuple[str, str]]] = []
    for entry in shown:
        cells = _cells(entry, words, unknown=unknown)[:-1]
        cells[1] = (cells[1][0][-8:], "dim")
        rows.append(cells)
    table = [[(title, "dim") for title, _ in columns], *rows]
    widths = [max(_width(text) for text, _ in cells) for cells in zip(*table, strict=True)]
    console.print(Text("  ").join(Text(text, style=style) for text, style in _title(timeline.run, words)))
    console.print()
    for number, row in enumerate(table):
        line = Text("  ").join(
            Text(_padded(text, width, right=justify == "right"), style=style)
            for (text, style), width, (_, justify) in zip(row, widths, columns, strict=True)
        )
        line.rstrip()
        console.print(line)
        if number and (details := escape(shown[number - 1].details_text)):
            console.print(Padding(Text(details, style="dim"), (0, 0, 0, widths[0] + 2)))
    console.print()
    console.print(Text("   ").join(Text(text, style=style) for text, style in _summary(timeline, words)))
    if outcome is not None:
        console.print(Text(_left_out(timeline, shown, words), style="dim"))
    if unknown:
        console.print(Text(words["runs.unknown.hint"], style="dim"))


def _title(run: RunRow, words: Mapping[str, str]) -> list[tuple[str, str]]:
    state = f"{words['runs.started']} {utc(run.started_at)} UTC, {words[state_key(run)]}"
    return [(words["runs.title"].format(run=escape(run.run_id)), "bold"), (state, "dim")]


def _columns(words: Mapping[str, str], *, unknown: bool) -> list[Column]:
    right = {"sequence", "round", "milliseconds"}
    names = ["sequence", "time", "kind", "tool", "outcome", "round", "milliseconds", "details"]
    if unknown:
        names.insert(-1, "effect")
    return [(words[f"runs.detail.{name}"], "right" if name in right else "left") for name in names]


def _cells(entry: TimelineEntry, words: Mapping[str, str], *, unknown: bool) -> list[tuple[str, str]]:
    outcome = entry.outcome
    cells = [
        ("" if entry.sequence is None else str(entry.sequence), "dim"),
        (utc(entry.second), ""),
        (words.get(f"runs.detail.kind.{entry.kind}") or escape(entry.kind), ""),
        (escape(entry.tool or ""), "bold"),
        ("", "") if outcome is None else (words[outcome_key(outcome)], _STYLES[outcome]),
        ("" if entry.round is None else str(entry.round), ""),
        ("" if entry.duration_ms is None else str(entry.duration_ms), ""),
        (escape(entry.details_text), ""),
    ]
    if unknown:
        # What a call might have done is asked where nobody knows whether it did.
        effect = (entry.span.effect or "") if outcome == UNKNOWN else ""
        cells.insert(-1, (words.get(f"runs.detail.effect.{effect}") or escape(effect), ""))
    return cells


def _any_unknown(entries: Iterable[TimelineEntry]) -> bool:
    return any(entry.outcome == UNKNOWN for entry in entries)


def _left_out(timeline: RunTimeline, shown: Sequence[TimelineEntry], words: Mapping[str, str]) -> str:
    return words["runs.detail.shown"].format(shown=len(shown), total=len(timeline.entries))


def _summary(timeline: RunTimeline, words: Mapping[str, str]) -> list[tuple[str, str]]:
    counts = timeline.counts
    pairs = (
        ("ok", counts.ok),
        ("failed", counts.failed),
        ("cancelled", counts.cancelled),
        (UNKNOWN, counts.unknown),
        ("none", counts.none),
    )
    parts = [
        (f"{words[outcome_key(outcome)]} {number}", _STYLES.get(outcome, "") if number else "dim")
        for outcome, number in pairs
    ]
    rate = counts.failure_rate
    shown = "-" if rate is None else f"{rate * 100:.1f} %"
    return [*parts, (f"{words['runs.failureRate']} {shown}", "")]
