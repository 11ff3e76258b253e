"""What a property looks at: parts of an outcome, and the families of programs it is sought in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._outcome import Failed, Group, Outcome
from ._program import (
    Cancel,
    Checkpoint,
    Emit,
    Finally,
    MoveDeadline,
    Nursery,
    Program,
    Raise,
    Scope,
    Sleep,
    Start,
    Started,
    StartSoon,
    bodies,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from ._outcome import Ending
    from ._program import Op


def events(_program: Program, outcome: Outcome) -> Hashable:
    return outcome.events


def shuffle(_program: Program, outcome: Outcome) -> Hashable:
    return outcome.events, outcome.interleaving


def course(_program: Program, outcome: Outcome) -> Hashable:
    return outcome.events, outcome.ending, outcome.end_time


def ending(_program: Program, outcome: Outcome) -> Hashable:
    return outcome.ending


def everything(_program: Program, outcome: Outcome) -> Hashable:
    return outcome


def scope_names(program: Program) -> set[str]:
    return {op.name for op in program.walk() if isinstance(op, Scope)}


def events_of_others(_program: Program, outcome: Outcome) -> Hashable:
    return outcome.events[1:]


def scope_flags(program: Program, outcome: Outcome) -> Hashable:
    names = scope_names(program)
    return tuple(flags for flags in outcome.scopes if flags.name in names)


def nursery_flags(program: Program, outcome: Outcome) -> Hashable:
    names = scope_names(program)
    return tuple(flags for flags in outcome.scopes if flags.name not in names)


def course_and_flags(program: Program, outcome: Outcome) -> Hashable:
    return course(program, outcome), scope_flags(program, outcome)


def begun(program: Program, outcome: Outcome) -> Hashable:
    """Tells which tasks that begin with an `Emit` came as far as that."""
    starts = [op for op in program.walk() if isinstance(op, StartSoon | Start)]
    return tuple(
        bool(outcome.events[number])
        for number, op in enumerate(starts, start=1)
        if op.body and isinstance(op.body[0], Emit)
    )


def errors(ending: Ending) -> frozenset[str]:
    match ending:
        case Group():
            return frozenset[str]().union(*map(errors, ending.members))
        case Failed():
            return frozenset({ending.error})
        case _:
            return frozenset()


def errors_that_came_out(_program: Program, outcome: Outcome) -> Hashable:
    return errors(outcome.ending)


def failure(_program: Program, outcome: Outcome) -> Hashable:
    """Leaves out how errors are grouped, which is a matter of its own (`SCP-11`)."""
    return outcome.events, outcome.end_time, errors(outcome.ending)


def has(*kinds: type[Op]) -> Callable[[Program], bool]:
    return lambda program: all(any(isinstance(op, kind) for op in program.walk()) for kind in kinds)


def has_deadline(least: int, most: int) -> Callable[[Program], bool]:
    def check(program: Program) -> bool:
        scopes = (op for op in program.walk() if isinstance(op, Scope))
        moved = (op.seconds for op in program.walk() if isinstance(op, MoveDeadline))
        seconds = [*(op.deadline for op in scopes), *moved]
        return any(each is not None and least <= each <= most for each in seconds)

    return check


def has_shield(program: Program) -> bool:
    return any(isinstance(op, Scope) and op.shield for op in program.walk())


def cancels_before_entry(program: Program) -> bool:
    seen: set[str] = set()
    for op in program.walk():
        if isinstance(op, Scope) and op.name in seen:
            return True
        if isinstance(op, Cancel):
            seen.add(op.scope)
    return False


def raises_late(program: Program) -> bool:
    """Says whether whatever raises has slept before, so that every task has begun by then (`SCP-2`)."""
    first_ops = [program.body, *(body for op in program.walk() for body in bodies(op))]
    return all(
        any(isinstance(earlier, Sleep) for earlier in body[:at])
        for body in first_ops
        for at, op in enumerate(body)
        if isinstance(op, Raise)
    )


def raises_in_cleanup(program: Program) -> bool:
    """Says whether only cleanups raise, each after a sleep, and all is asleep when something is cancelled."""
    blocks = [program.body, *(body for op in program.walk() for body in bodies(op))]
    cleanups = [op for op in program.walk() if isinstance(op, Finally)]
    raises = sum(isinstance(op, Raise) for op in program.walk())
    return (
        all(bool(op.body) and isinstance(op.body[0], Sleep) for op in cleanups)
        and sum(isinstance(op, Raise) for cleanup in cleanups for op in cleanup.cleanup[:1]) == raises
        and all(
            any(isinstance(earlier, Sleep) for earlier in body[:at])
            for body in blocks
            for at, op in enumerate(body)
            if isinstance(op, Cancel)
        )
    )


def tasks_begin_with_a_checkpoint(program: Program) -> bool:
    """Says whether no task does anything before its first cancel point, in one nursery (`SCP-13`)."""
    starts = [op for op in program.walk() if isinstance(op, StartSoon)]
    return (
        bool(starts)
        and all(bool(op.body) and isinstance(op.body[0], Checkpoint) for op in starts)
        and sum(isinstance(op, Nursery) for op in program.walk()) == 1
    )


def nurseries_are_outermost(program: Program) -> bool:
    """Says whether no cancellation reaches the end of a nursery (`SCP-13`)."""
    return all(op in program.body for op in program.walk() if isinstance(op, Nursery))


def starts_with_sleep(program: Program) -> bool:
    """Says whether each task of a start that is cancelled raises Cancelled (see `SCP-24` for the others)."""
    return all(op.body and isinstance(op.body[0], Sleep) for op in program.walk() if isinstance(op, Start))


def has_wrong_start(program: Program) -> bool:
    starts = (op for op in program.walk() if isinstance(op, Start))
    return any(times_started(op.body) != 1 for op in starts)


def times_started(body: tuple[Op, ...]) -> int:
    inside = (inner for op in body if not isinstance(op, Start | StartSoon) for inner in bodies(op))
    return sum(isinstance(op, Started) for op in body) + sum(map(times_started, inside))
