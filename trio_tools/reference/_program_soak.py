"""The model of structured concurrency against trio, in volume.

Every program is run once for real, its tasks in an order drawn from the seed, and what was observed must be
among the outcomes that the model permits, the order of events between tasks included. A disagreement is
printed as a program that can be pasted, made as small as it gets. The same seed gives the same programs.
"""

from __future__ import annotations

import math
import random
import time
from collections import Counter
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
    Program,
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

FATES: Final = {(False, False): "left alone", (True, False): "cancelled", (True, True): "absorbed"}
CELLS: Final = (
    *(
        (kind.__name__, ending)
        for kind in sorted(ALL, key=repr)
        for ending in ("returned", "failed", "group")
    ),
    *(("scope", fate) for fate in FATES.values()),
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
    """Of processor time."""
    cells: Counter[tuple[str, str]] = field(factory=Counter[tuple[str, str]])
    """How often each operation stood in a program that ended so, and what became of scopes and nurseries."""
    disagreements: list[Program] = field(factory=list[Program])

    @property
    def rate(self) -> float:
        """Programs per second of processor time, model and run together."""
        return self.programs / self.seconds if self.seconds else 0.0

    def missing(self) -> tuple[tuple[str, str], ...]:
        """Returns the cells that no program has reached."""
        return tuple(cell for cell in CELLS if not self.cells[cell])

    @property
    def in_short(self) -> str:
        """The report in a few words."""
        return (
            f"{len(CELLS) - len(self.missing())} of {len(CELLS)} cells, "
            f"{len(self.disagreements)} disagreements, {self.rate:.0f}/s and core"
        )

    def add(self, other: SoakReport) -> None:
        """Adds what another soak has shown."""
        self.programs += other.programs
        self.with_choice += other.with_choice
        self.outcomes += other.outcomes
        self.too_large += other.too_large
        self.fault_of_trio += other.fault_of_trio
        self.seconds += other.seconds
        self.cells.update(other.cells)
        self.disagreements += other.disagreements

    def count(self, program: Program, observed: Outcome) -> None:
        """Counts the cells that a run has touched."""
        ending = type(observed.ending).__name__.lower()
        self.cells.update((kind.__name__, ending) for kind in {type(op) for op in program.walk()})
        for flags in observed.scopes:
            self.cells["scope", FATES[bool(flags.cancel_called), bool(flags.cancelled_caught)]] += 1

    def to_text(self) -> str:
        """Renders the report."""
        took = f"{self.seconds:.1f} s of processor time, {self.rate:.0f} programs/s"
        lines = [
            f"{self.programs} programs, seed {self.seed}: {took}",
            f"{len(CELLS) - len(self.missing())} of {len(CELLS)} cells reached"
            + "".join(f"\n    not: {operation}, {ending}" for operation, ending in self.missing()),
            f"{self.with_choice} of them may end in more than one way",
            f"{self.outcomes} outcomes permitted in all",
            f"{self.too_large} more were left out, with too many schedules to try",
            f"{self.fault_of_trio} met the known fault of trio in checkpoint_if_cancelled",
            f"{len(self.disagreements)} disagreements",
        ]
        return "\n\n".join(["\n".join(lines), *self.told()])

    def told(self) -> list[str]:
        """Renders each disagreement."""
        return [
            "\n".join(
                [
                    repr(program),
                    f"    observed:  {describe(run(program, interleaving=True))}",
                    *(f"    permitted: {describe(each)}" for each in allowed(program, interleaving=True)),
                ]
            )
            for program in self.disagreements
        ]


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
    began = time.process_time()
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
        report.count(program, observed)
        report.with_choice += len(permitted) > 1
        report.outcomes += len(permitted)
        report.seconds = time.process_time() - began
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
