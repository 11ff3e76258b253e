"""What a program may do: every schedule tried, each state visited once."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from ._code import lay_out
from ._machine import Machine
from ._outcome import Cancelled, Event, Failed, Outcome, Returned, ScopeFlags, group_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from ._machine import Exc
    from ._outcome import Raised
    from ._program import Program


class Order(StrEnum):
    """How much freedom a scheduler has between the tasks that could run at one moment."""

    PASSES = "passes"
    """Trio's: each of them runs once, in any order; then deadlines are looked at, and so on."""
    FREE = "free"
    """What programs may rely on: any of them runs next, or deadlines that are due are acted on."""


class TooManyStatesError(RuntimeError):
    """A program can be scheduled in more ways than the limit lets the interpreter try."""


def allowed(
    program: Program, *, order: Order = Order.PASSES, interleaving: bool = False, limit: int = 100_000
) -> frozenset[Outcome]:
    """Returns the outcomes that the semantics permits: each is reached by some schedule, and no other is.

    With `interleaving` the order of events between tasks counts as part of an outcome. Pure: no trio, no
    clock, no I/O. Raises `TooManyStatesError` past `limit` states.
    """
    code = lay_out(program)
    names = code.scope_names
    found: set[Outcome] = set()
    seen: set[Hashable] = set()
    first = Machine(code)
    first.shuffled = () if interleaving else None
    todo = [first]
    successors = _by_passes if order is Order.PASSES else _freely
    while todo:
        for machine in successors(todo.pop()):
            if machine.finished:
                found.add(_outcome(machine, names))
            elif (key := machine.key()) not in seen:
                seen.add(key)
                todo.append(machine)
        if len(seen) > limit:
            raise TooManyStatesError(f"more than {limit} states; this program is {program!r}")
    return frozenset(found)


def _by_passes(machine: Machine) -> Iterator[Machine]:
    """Runs a machine on to its next choice between tasks of one pass, and yields what may come of it."""
    while len(machine.due) < 2:
        if machine.due:
            (task,) = machine.due
            machine.due = ()
            machine.step(task)
            if machine.finished:
                yield machine
                return
        else:
            machine.expire()
            if not machine.ready:
                machine.jump()
            machine.due, machine.ready = machine.ready, ()
    for task in machine.due:
        after = machine.copy()
        after.due = tuple(other for other in machine.due if other != task)
        after.step(task)
        yield after


def _freely(machine: Machine) -> Iterator[Machine]:
    while not machine.ready:
        if not machine.overdue():
            machine.jump()
        machine.expire()
    if machine.overdue():
        after = machine.copy()
        after.expire()
        yield after
    for task in machine.ready:
        after = machine.copy()
        after.ready = tuple(other for other in machine.ready if other != task)
        hasty = after.copy() if machine.code.may_be_hasty else None
        after.step(task, by_passes=False)
        yield after
        if hasty is not None:
            hasty.step(task, by_passes=False, hasty=True)
            yield hasty


def _outcome(machine: Machine, names: list[str | None]) -> Outcome:
    events = tuple(tuple(Event(label, at) for label, at in of_task) for of_task in machine.events)
    scopes = tuple(
        ScopeFlags(name, machine.called[s], machine.caught[s])
        for s, name in enumerate(names)
        if name is not None
    )
    ending = Returned() if machine.ends is None else public_form(machine.ends)
    return Outcome(events, ending, scopes, machine.now, machine.shuffled)


def public_form(exc: Exc) -> Raised:
    """Turns the interpreter's form of an exception into the public one."""
    kind, *rest = exc
    if kind == "cancelled":
        return Cancelled()
    if kind == "error":
        return Failed(rest[0])
    return group_of([public_form(member) for member in rest[0]])
