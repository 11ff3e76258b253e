"""The model against trio in volume: `python -m trio_tools.reference.soak --programs 100000 --seed N`.

Every program is run once for real, its tasks in an order drawn from the seed, and what was observed must be
among the outcomes that the model permits, the order of events between tasks included. A disagreement is
printed as a program that can be pasted, made as small as it gets. The same seed gives the same programs.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from typing import TYPE_CHECKING, Final, final

from attrs import define, field

from ._compare import describe
from ._explore import TooManyStatesError, allowed
from ._generate import ALL, Grammar, draw_program
from ._program import (
    Cancel,
    CancelPoint,
    Catch,
    Checkpoint,
    Finally,
    MoveDeadline,
    Nursery,
    SchedulePoint,
    Scope,
    SetShield,
    Sleep,
    StartSoon,
)
from ._run import run
from ._shrink import shrink

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ._outcome import Outcome
    from ._program import Program

# Small programs meet every pair of rules often; large ones meet what nobody thought of.
SHIELDS: Final = frozenset({Checkpoint, Sleep, Scope, SetShield, Cancel, Nursery, StartSoon})

GRAMMARS: Final = (
    Grammar(size=8, tasks=3),
    Grammar(size=14),
    Grammar(size=16, crowded=True),
    Grammar(size=24, tasks=5, depth=8, crowded=True),
    Grammar(size=12, kinds=ALL - {StartSoon, Catch, Finally, CancelPoint, SchedulePoint, MoveDeadline}),
    Grammar(size=12, kinds=SHIELDS, crowded=True, depth=4),
)


@final
@define
class SoakReport:
    """What a soak did: how many programs, how fast, and every disagreement."""

    seed: int
    programs: int = 0
    """Programs that were run and compared."""
    with_choice: int = 0
    """Of these, how many may end in more than one way."""
    outcomes: int = 0
    """Permitted outcomes of all programs together."""
    too_large: int = 0
    """Programs with too many schedules to try them all; not counted among the others."""
    fault_of_trio: int = 0
    """Programs that met the one known fault of trio (see `is_fault_of_trio`); no disagreements."""
    seconds: float = 0.0
    disagreements: list[Program] = field(factory=list["Program"])

    def to_text(self) -> str:
        """Renders the report."""
        rate = self.programs / self.seconds if self.seconds else 0.0
        lines = [
            f"{self.programs} programs, seed {self.seed}: {self.seconds:.1f} s, {rate:.0f} programs/s",
            f"{self.with_choice} of them may end in more than one way",
            f"{self.outcomes} outcomes permitted in all",
            f"{self.too_large} more were left out, with too many schedules to try",
            f"{self.fault_of_trio} met the known fault of trio in checkpoint_if_cancelled",
            f"{len(self.disagreements)} disagreements",
        ]
        for program in self.disagreements:
            lines += ["", repr(program), f"    observed:  {describe(run(program, interleaving=True))}"]
            lines += [f"    permitted: {describe(each)}" for each in allowed(program, interleaving=True)]
        return "\n".join(lines)


def soak(
    programs: int,
    seed: int = 0,
    *,
    grammars: Sequence[Grammar] = GRAMMARS,
    until: float = math.inf,
    limit: int = 50_000,
    tell: Callable[[SoakReport], None] | None = None,
    every: int = 10_000,
) -> SoakReport:
    """Compares trio with the model on so many random programs.

    The schedule of each run is drawn from the seed as well, and the grammars take turns. After `until`
    disagreements the soak ends early. Programs of more than `limit` states are left out. `tell` is called
    with the report so far after `every` so many programs. Not to be called inside a running loop.
    """
    rng = random.Random(seed)
    report = SoakReport(seed)
    began = time.perf_counter()
    drawn = 0
    while report.programs < programs and len(report.disagreements) < until:
        program = draw_program(lambda most: int(rng.random() * (most + 1)), grammars[drawn % len(grammars)])
        drawn += 1
        try:
            permitted = allowed(program, interleaving=True, limit=limit)
        except TooManyStatesError:
            report.too_large += 1
            continue
        schedule = rng.getrandbits(32)
        observed = run(program, seed=schedule, interleaving=True)
        if is_fault_of_trio(program, observed):
            report.fault_of_trio += 1
        elif observed not in permitted:
            report.disagreements.append(shrink(program, _disagrees(schedule, limit)))
        report.programs += 1
        report.with_choice += len(permitted) > 1
        report.outcomes += len(permitted)
        report.seconds = time.perf_counter() - began
        if tell is not None and report.programs % every == 0:
            tell(report)
    return report


def is_fault_of_trio(program: Program, observed: Outcome) -> bool:
    """Says whether trio stumbled over an assertion of its own in `checkpoint_if_cancelled`.

    It holds that a task which found itself cancelled will raise at the checkpoint that follows. If another
    task raises a shield in between, that checkpoint ends well, and the next line says that this should never
    happen. The model lets the cancel point end well too.
    """
    kinds = {type(op) for op in program.walk()}
    return {CancelPoint, SetShield} <= kinds and "AssertionError" in repr(observed.ending)


def _disagrees(schedule: int, limit: int) -> Callable[[Program], bool]:
    def check(program: Program) -> bool:
        observed = run(program, seed=schedule, interleaving=True)
        if is_fault_of_trio(program, observed):
            return False
        return observed not in allowed(program, interleaving=True, limit=limit)

    return check


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a soak from the command line; returns 0 if nothing disagreed, else 1."""
    parser = argparse.ArgumentParser(prog="python -m trio_tools.reference.soak", description=__doc__)
    parser.add_argument("--programs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every", type=int, default=10_000, help="tell so often how far it is")
    options = parser.parse_args(arguments)

    def tell(report: SoakReport) -> None:
        print(f"... {report.programs}, {len(report.disagreements)} disagreements", file=sys.stderr)

    report = soak(options.programs, options.seed, tell=tell, every=options.every)
    print(report.to_text())
    return 1 if report.disagreements else 0


if __name__ == "__main__":
    sys.exit(main())
