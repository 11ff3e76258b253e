"""Holds one run of a program against the model, and counts where cancellation landed."""

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import product
from typing import final

from attrs import define, field, frozen

from ._call_predict import LIMIT, explain, predictions
from ._call_program import CallProgram
from ._call_run import Observation, observe
from ._call_tables import CLASSIFICATION, KINDS, REACHABLE, TIMEOUTS, Cell, Trace, why_unreachable

__all__ = ["Coverage", "Judgement", "judge", "reachable_cells"]


@final
@frozen
class Judgement:
    """What came of holding a run against the model.

    Attributes:
        program: the program.
        observed: what the run showed.
        agrees: whether a permitted trace is the observed one, and nothing else was at fault.
        open: whether no permitted trace was found but not every order was explored either.
        cells: the cells of the permitted trace that the run followed; empty without one.
    """

    program: CallProgram
    observed: Observation
    agrees: bool
    open: bool
    cells: Mapping[Cell, int]

    def __str__(self) -> str:
        """Return the program, what was observed and what was permitted, ready to paste."""
        lines = [f"program = {self.program!r}", "observed:", *_lines(self.observed.trace)]
        lines += [f"  fault: {fault}" for fault in self.observed.faults]
        permitted, _ = next(predictions(self.program))
        return "\n".join([*lines, "permitted, for one:", *_lines(permitted)])


def _lines(trace: Trace) -> list[str]:
    lines: list[str] = []
    for result in trace.published:
        cause = result.cause
        at = "" if cause is None else f"{cause.since:g}"
        if cause is not None and cause.until != cause.since:
            at += f"..{cause.until:g}"
        why = "" if cause is None else f", cause {cause.kind}:{cause.name} at {at}"
        lines.append(
            f"  {result.call}: {result.outcome}, {result.code}, {result.settlement}{why}, "
            f"contexts {list(result.contexts)}{', concludes' if result.concludes else ''}"
        )
    return [*lines, f"  ends: {', '.join(f'{call} {end}' for call, end in trace.ends)}"]


def judge(program: CallProgram, *, schedule: int = 0, limit: int = LIMIT) -> Judgement:
    """Run ``program`` on the runtime and look for a permitted trace that is the observed one.

    Starts a trio run of its own, with the order of tasks that ``schedule`` seeds. Permitted orders are
    explored until one fits, ``limit`` of them at most.
    """
    observed = observe(program, schedule=schedule)
    found = explain(program, observed.trace, limit=limit)
    if found.cells is not None:
        return Judgement(program, observed, not observed.faults, False, found.cells)
    unsure = not found.complete and not observed.faults
    return Judgement(program, observed, False, unsure, {})


def reachable_cells() -> frozenset[Cell]:
    """Return the cells of the tables that the semantics calls reachable."""
    return REACHABLE


@final
@define(eq=False)
class Coverage:
    """Counts of (phase, prior outcome, kind of cancellation), one for each cell."""

    counts: Counter[Cell] = field(factory=Counter[Cell])

    def add(self, cells: Mapping[Cell, int]) -> None:
        """Count the cells of one run."""
        self.counts.update(cells)

    def missing(self, among: Iterable[Cell] = REACHABLE) -> tuple[Cell, ...]:
        """Return the cells ``among`` the reachable ones that no run has touched, in order."""
        return tuple(sorted(cell for cell in among if not self.counts[cell]))

    def __str__(self) -> str:
        """Return the table as text: rows of the classification, then rows of the timeouts."""
        lines = [f"{'row':6} {'phase gives':11}" + "".join(f"{kind:>10}" for kind in KINDS)]
        for row, columns in CLASSIFICATION.items():
            for column in columns:
                counts = "".join(f"{self._count(Cell(row, column, kind)):>10}" for kind in KINDS)
                lines.append(f"{row:6} {column:11}{counts}")
        reasons: dict[str, list[str]] = {}
        for row, kind in product(CLASSIFICATION, KINDS):
            if (why := why_unreachable(row, kind)) is not None:
                reasons.setdefault(why, []).append(f"{row} {kind}")
        lines += [
            f"- {cells[0]}{' and the like' * (len(cells) > 1)}: {why}" for why, cells in reasons.items()
        ]
        lines += ["", f"{'row':6} {'timeouts: who':32} {'when':36} {'runs':>8}"]
        for row, (who, when, _) in TIMEOUTS.items():
            count = self.counts[Cell(row, "result", "timeout")]
            lines.append(f"{row:6} {who:32} {when:36} {count:>8}")
        return "\n".join(lines)

    def _count(self, cell: Cell) -> str:
        count = self.counts[cell]
        return str(count) if count or cell in REACHABLE else "-"
