"""A timeline as one self-contained HTML page: a table, a picture, filters, two languages.

The page is a template with a style sheet, a script and the data in it, and fetches nothing. The data are
columns, with each text that occurs often written once, so that a long run stays small; the script draws
only the rows in view.
"""

import html
import json
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from string import Template
from typing import Final, final

from trio_tools import Settlement, ToolOutcome

from ._labels import LANGUAGES, Language, labels, outcome_key
from ._step import EventKind
from ._text import escape, state_key, utc
from ._timeline import OUTCOMES, OutcomeCounts, RunTimeline, TimelineEntry

__all__ = ["page_of"]

_LANGUAGE_NAMES: Final[Mapping[Language, str]] = {"en": "English", "de": "Deutsch"}
_TILES: Final = (*OUTCOMES, "none")

# Calls that were cancelled by one cause within this time make one line in the picture.
_ONE_CUT_MS: Final = 1000.0
_MOST_CUTS: Final = 8
_SETTLED_AFTER: Final = frozenset({str(Settlement.CANCELLED), str(Settlement.NOT_DISPATCHED)})


def page_of(timeline: RunTimeline, language: Language, outcome: str | None) -> str:
    """Returns the page, in a language and with a filter that it begins with and can be switched from."""
    words = labels(language)
    run, counts = timeline.run, timeline.counts
    page = files("trio_tools.trace").joinpath("page")
    title = words["runs.title"].format(run=escape(run.run_id))
    subtitle = f"{words['runs.started']} {utc(run.started_at)} UTC, {words[state_key(run)]}"
    return Template(page.joinpath("timeline.html").read_text("utf-8")).substitute(
        language=language,
        title=html.escape(title),
        subtitle=html.escape(subtitle),
        tiles=_tiles(counts, words),
        noscript=html.escape(words["runs.noscript"]),
        style=page.joinpath("timeline.css").read_text("utf-8").strip(),
        script=page.joinpath("timeline.js").read_text("utf-8").strip(),
        data=_data(timeline, language, counts, outcome),
    )


def _tiles(counts: OutcomeCounts, words: Mapping[str, str]) -> str:
    tiles: list[str] = []
    for outcome in _TILES:
        number: int = getattr(counts, outcome)
        zero = "" if number else " data-zero"
        tiles.append(
            f'<button type="button" class="tile" data-outcome="{outcome}" aria-pressed="false"{zero}>'
            f'<span class="number">{number}</span>'
            f'<span class="name"><span class="mark"></span><span class="word">'
            f"{html.escape(words[outcome_key(outcome)])}</span></span></button>"
        )
    rate = counts.failure_rate
    shown = "–" if rate is None else f"{rate * 100:.1f} %"  # noqa: RUF001
    tiles.append(
        f'<div class="tile" id="rate"><span class="number">{shown}</span>'
        f'<span class="name"><span class="word">{html.escape(words["runs.failureRate"])}</span></span></div>'
    )
    return "".join(tiles)


@final
class _Texts:
    """What occurs in a column, each once, and the number by which a row refers to it."""

    def __init__(self, first: Iterable[str] = ()) -> None:
        self._numbers: Final[dict[str, int]] = {text: number for number, text in enumerate(first)}

    def number(self, text: str | None) -> int:
        """Return the number of a text, -1 for None."""
        return -1 if text is None else self._numbers.setdefault(text, len(self._numbers))

    def all(self) -> list[str]:
        """Return the texts in the order of their numbers."""
        return list(map(escape, self._numbers))


@final
class _Details:
    """The details that occur, each once."""

    def __init__(self) -> None:
        self._numbers: Final[dict[tuple[tuple[str, str], ...], int]] = {}

    def number(self, details: Mapping[str, str]) -> int:
        """Return the number of some details."""
        return self._numbers.setdefault(tuple(details.items()), len(self._numbers))

    def all(self) -> list[list[tuple[str, str]]]:
        """Return them in the order of their numbers."""
        return [[(key, escape(text)) for key, text in pairs] for pairs in self._numbers]


def _data(timeline: RunTimeline, language: Language, counts: OutcomeCounts, outcome: str | None) -> str:
    entries, run = timeline.entries, timeline.run
    kinds, tools, layers, effects = _Texts(), _Texts(), _Texts(), _Texts()
    outcomes, details = _Texts(_TILES), _Details()
    rows: dict[str, Sequence[object]] = {
        "sequence": [-1 if entry.sequence is None else entry.sequence for entry in entries],
        "second": [entry.second for entry in entries],
        "kind": [kinds.number(entry.kind) for entry in entries],
        "tool": [tools.number(entry.tool) for entry in entries],
        "layer": [layers.number(entry.span.layer) for entry in entries],
        "effect": [effects.number(entry.span.effect) for entry in entries],
        "outcome": [outcomes.number(entry.outcome or "none") for entry in entries],
        "round": [entry.round or 0 for entry in entries],
        "ms": [entry.duration_ms or 0 for entry in entries],
        "began": [_began(entry) for entry in entries],
        "ended": [entry.span.ended_ms for entry in entries],
        "deadline": [entry.span.deadline_ms for entry in entries],
        "call": [None if entry.span.call_id is None else escape(entry.span.call_id) for entry in entries],
        "parent": _parents(entries),
        "details": [details.number(entry.details) for entry in entries],
    }
    document = {
        "run": {"id": escape(run.run_id), "started": run.started_at, "state": state_key(run)},
        "language": language,
        "outcome": outcome,
        "languages": _LANGUAGE_NAMES,
        "labels": {name: dict(labels(name)) for name in LANGUAGES},
        "counts": {outcome: getattr(counts, outcome) for outcome in _TILES},
        "failureRate": counts.failure_rate,
        "cuts": _cuts(timeline),
        "tables": {
            "kind": kinds.all(),
            "tool": tools.all(),
            "layer": layers.all(),
            "effect": effects.all(),
            "outcome": outcomes.all(),
            "details": details.all(),
        },
        "rows": rows,
    }
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # Nothing in the data can end the script element, or begin anything else.
    return text.replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e")


def _began(entry: TimelineEntry) -> float | None:
    span = entry.span
    if entry.kind == EventKind.TOOL_WRITE:
        return span.ended_ms
    if span.began_ms is None and span.ended_ms is not None and entry.duration_ms is not None:
        # A step of the program's own was recorded when it was over.
        return max(0.0, span.ended_ms - entry.duration_ms)
    return span.began_ms


def _parents(entries: Sequence[TimelineEntry]) -> list[int]:
    """Return for each entry the index of the one that it belongs under, -1 for none."""
    calls: dict[str, list[int]] = {}
    for index, entry in enumerate(entries):
        if entry.span.call_id is not None and entry.kind == EventKind.TOOL:
            calls.setdefault(entry.span.call_id, []).append(index)
    parents: list[int] = []
    for index, entry in enumerate(entries):
        if entry.kind == EventKind.TOOL_WRITE:
            # A write stands behind the call that reported it.
            own = calls.get(entry.span.call_id or "", [])
            parents.append(own[bisect_left(own, index) - 1] if own and own[0] < index else -1)
            continue
        above = calls.get(entry.span.parent_call_id or "", [])
        # An enclosing call is published after the calls in it, unless its end is not recorded.
        parents.append(above[min(bisect_left(above, index), len(above) - 1)] if above else -1)
    return parents


def _cuts(timeline: RunTimeline) -> list[dict[str, object]]:
    """Return where the run was cut: the request to cancel, and the first call that each cause ended.

    The time of a cause is not stored. A body that was cancelled settled after its cause, and so did a call
    that never started; the earliest of them is as near as the record comes.
    """
    run = timeline.run
    cuts: list[dict[str, object]] = []
    if run.cancel_requested_at is not None:
        cuts.append({"at": max(0.0, (run.cancel_requested_at - run.started_at) * 1000), "cause": ""})
    ended: dict[str, list[float]] = {}
    groups: list[tuple[int, float, str]] = []
    for entry in timeline.entries:
        cause = entry.details.get("toolCause")
        if entry.outcome != ToolOutcome.CANCELLED or cause is None or entry.span.ended_ms is None:
            continue
        if entry.details.get("toolSettlement") in _SETTLED_AFTER:
            ended.setdefault(cause, []).append(entry.span.ended_ms)
    for cause, times in ended.items():
        times.sort()
        first = 0
        for number in range(1, len(times) + 1):
            if number == len(times) or times[number] - times[number - 1] >= _ONE_CUT_MS:
                groups.append((number - first, times[first], cause))
                first = number
    # Where there are many, those that ended most calls are the ones to look at.
    groups.sort(key=lambda group: -group[0])
    return cuts + [{"at": at, "cause": escape(cause)} for _, at, cause in groups[:_MOST_CUTS]]
