"""The runs of a store at a glance: one line each, with how its calls ended."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from typing import TYPE_CHECKING, final

from attrs import frozen

from ._labels import Language, labels, outcome_key
from ._rows import RunRow
from ._store import RunStore
from ._text import Column, columns_of, escape, state_key, utc
from ._timeline import OUTCOMES, UNKNOWN, OutcomeCounts, counts_of
from ._wire import read_outcome

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["RunOverview", "overview_of", "print_runs", "render_runs"]


@final
@frozen
class RunOverview:
    """One run and how its calls ended.

    Attributes:
        run: when it began and ended.
        counts: how many of its entries ended how.
    """

    run: RunRow
    counts: OutcomeCounts

    @property
    def steps(self) -> int:
        """How many entries there are."""
        counts = self.counts
        return counts.ok + counts.failed + counts.cancelled + counts.unknown + counts.none


async def overview_of(
    store: RunStore, *, limit: int | None = None, outcome: str | None = None
) -> list[RunOverview]:
    """Return the runs of a store, the newest first; waits for the store on a worker thread.

    Args:
        limit: how many at most; None for all.
        outcome: only runs in which something ended so: ``ok``, ``failed``, ``cancelled`` or ``unknown``.
    """
    found: list[RunOverview] = []
    for run in await store.runs():
        if limit is not None and len(found) >= limit:
            break
        payloads, fences = await store.payloads(run.run_id)
        counts = counts_of(chain(map(read_outcome, payloads), repeat(UNKNOWN, fences)))
        if outcome is None or getattr(counts, outcome):
            found.append(RunOverview(run, counts))
    return found


def render_runs(runs: Sequence[RunOverview], *, language: Language = "en") -> str:
    """Return a table of runs as plain text."""
    words = labels(language)
    if not runs:
        return words["runs.list.empty"] + "\n"
    return "".join(f"{line}\n" for line in columns_of(_columns(words), _rows(runs, words)))


def print_runs(runs: Sequence[RunOverview], language: Language, console: "Console") -> None:
    """Print a table of runs on a terminal, or two lines for each where it is too narrow for a table."""
    from rich.text import Text

    words = labels(language)
    columns, rows = _columns(words), list(_rows(runs, words))
    lines = list(columns_of(columns, rows))
    if not runs:
        console.print(words["runs.list.empty"])
    elif max(map(len, lines)) <= console.width:
        for number, line in enumerate(lines):
            console.print(Text(line, style="bold" if number == 0 else ""))
    else:
        for row in rows:
            console.print(Text("  ").join([Text(row[0], style="bold"), Text("  ".join(row[1:3]))]))
            pairs = zip(columns[3:], row[3:], strict=True)
            console.print(Text("  " + "  ".join(f"{title} {cell}" for (title, _), cell in pairs)))


def _columns(words: Mapping[str, str]) -> list[Column]:
    return [
        (words["runs.list.run"], "left"),
        (words["runs.list.started"], "left"),
        (words["runs.list.state"], "left"),
        (words["runs.list.steps"], "right"),
        *((words[outcome_key(outcome)], "right") for outcome in OUTCOMES),
        (words["runs.failureRate"], "right"),
    ]


def _rows(runs: Iterable[RunOverview], words: Mapping[str, str]) -> Iterator[list[str]]:
    for overview in runs:
        run, counts = overview.run, overview.counts
        rate = counts.failure_rate
        yield [
            escape(run.run_id),
            utc(run.started_at),
            words[state_key(run)],
            str(overview.steps),
            *(str(getattr(counts, outcome)) for outcome in OUTCOMES),
            "-" if rate is None else f"{rate * 100:.1f} %",
        ]
