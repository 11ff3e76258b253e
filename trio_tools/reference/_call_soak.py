"""Runs programs in bulk: as many as fit into a time, or a given number, from one seed."""

import math
import random
import time
from collections.abc import Callable
from typing import final

from attrs import define, field

from ._call_check import Coverage, Judgement, judge
from ._call_generate import Dice, generated
from ._call_predict import predictions
from ._call_program import CallProgram
from ._call_shrink import shrink
from ._call_tables import REACHABLE

__all__ = ["SoakReport", "cover_calls", "program_of_seed", "soak_calls"]


@final
@define(eq=False)
class SoakReport:
    """What a soak has shown.

    Attributes:
        seed: the seed of the first program; program number ``n`` has seed ``seed + n``.
        programs: how many were run.
        seconds: of processor time.
        coverage: the cells that the runs touched.
        unsure: the seeds whose orders were too many to explore; neither agreement nor disagreement.
        disagreements: shrunk, each with its seed.
    """

    seed: int
    programs: int = 0
    seconds: float = 0.0
    coverage: Coverage = field(factory=Coverage)
    unsure: list[int] = field(factory=list[int])
    disagreements: list[tuple[int, Judgement]] = field(factory=list[tuple[int, Judgement]])

    def __str__(self) -> str:
        """Return the report as text."""
        return self.to_text()

    @property
    def rate(self) -> float:
        """Programs per second of processor time, model and run together."""
        return self.programs / self.seconds if self.seconds else 0.0

    @property
    def in_short(self) -> str:
        """The report in a few words."""
        reached = len(REACHABLE) - len(self.coverage.missing())
        return (
            f"{reached} of {len(REACHABLE)} cells, {len(self.disagreements)} disagreements, "
            f"{self.rate:.0f}/s and core"
        )

    def add(self, other: "SoakReport") -> None:
        """Add what another soak has shown."""
        self.programs += other.programs
        self.seconds += other.seconds
        self.coverage.add(other.coverage.counts)
        self.unsure += other.unsure
        self.disagreements += other.disagreements

    def to_text(self) -> str:
        """Return the report as text, disagreements as programs that can be pasted."""
        missing = self.coverage.missing()
        took = f"{self.seconds:.1f} s of processor time, {self.rate:.0f} programs/s"
        lines = [
            f"{self.programs} programs, seed {self.seed}: {took}",
            f"{len(self.disagreements)} disagreements, {len(self.unsure)} with too many orders to explore",
            f"{len(REACHABLE) - len(missing)} of {len(REACHABLE)} cells reached"
            + "".join(f"\n    not: {cell.row} {cell.column} {cell.kind}" for cell in missing),
            "",
            str(self.coverage),
        ]
        return "\n\n".join(["\n".join(lines), *self.told()])

    def told(self) -> list[str]:
        """Return each disagreement as text."""
        return [f"disagreement, seed {seed}:\n{judgement}" for seed, judgement in self.disagreements]


def soak_calls(
    *,
    seconds: float | None = None,
    programs: int | None = None,
    seed: int = 0,
    most: int = 10,
    progress: Callable[[SoakReport], None] | None = None,
) -> SoakReport:
    """Run random call programs on the runtime and hold each against the model.

    Args:
        seconds: how long to go on, in real seconds; None for no limit.
        programs: how many programs to run; None for no limit. One of the two is needed.
        seed: the seed of the first program.
        most: stop after this many disagreements.
        progress: called after each thousand programs.

    Raises:
        ValueError: when neither ``seconds`` nor ``programs`` is given.
    """
    if seconds is None and programs is None:
        raise ValueError("a soak needs an end: seconds, programs, or both")
    report = SoakReport(seed)
    began, ends = time.process_time(), math.inf if seconds is None else time.monotonic() + seconds
    while time.monotonic() < ends and (programs is None or report.programs < programs):
        number = seed + report.programs
        judgement = judge(program_of_seed(number), schedule=number)
        report.programs += 1
        report.seconds = time.process_time() - began
        report.coverage.add(judgement.cells)
        if judgement.open:
            report.unsure.append(number)
        elif not judgement.agrees:
            smallest = shrink(judgement.program, disagrees)
            report.disagreements.append((number, _differing(smallest) or judgement))
            if len(report.disagreements) >= most:
                break
        if progress is not None and report.programs % 1000 == 0:
            progress(report)
    return report


def cover_calls(*, seed: int = 0, programs: int = 60_000) -> SoakReport:
    """Run programs until every reachable cell of the tables was touched, choosing them by the model.

    The model alone is quick: of up to ``programs`` seeds only those are run that promise a cell which no
    run has touched yet. Disagreements are reported as they are, not shrunk.
    """
    report = SoakReport(seed)
    began = time.process_time()
    for number in range(seed, seed + programs):
        missing = report.coverage.missing()
        if not missing:
            break
        program = program_of_seed(number)
        _, promised = next(predictions(program))
        if promised.keys().isdisjoint(missing):
            continue
        judgement = judge(program, schedule=number)
        report.programs += 1
        report.coverage.add(judgement.cells)
        if judgement.open:
            report.unsure.append(number)
        elif not judgement.agrees:
            report.disagreements.append((number, judgement))
    report.seconds = time.process_time() - began
    return report


def program_of_seed(seed: int) -> CallProgram:
    """Return the program of a seed."""
    return generated(Dice(random.Random(seed)))


def disagrees(program: CallProgram) -> bool:
    """Whether runtime and model differ on ``program`` for certain, under one of a few schedules."""
    return _differing(program) is not None


def _differing(program: CallProgram) -> Judgement | None:
    for schedule in range(SCHEDULES):
        judgement = judge(program, schedule=schedule)
        if not judgement.agrees and not judgement.open:
            return judgement
    return None


SCHEDULES = 4
"""How many orders of tasks a smaller program is tried with."""
