"""Random programs: one grammar, driven by whoever chooses the numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrs import define, evolve, field, frozen

from ._program import (
    Cancel,
    CancelPoint,
    Catch,
    Caught,
    Checkpoint,
    Emit,
    Finally,
    MoveDeadline,
    Nursery,
    Program,
    Raise,
    Return,
    SchedulePoint,
    Scope,
    SetShield,
    Sleep,
    Start,
    Started,
    StartSoon,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._program import Op

ALL: Final = frozenset(
    {
        Checkpoint,
        CancelPoint,
        SchedulePoint,
        Sleep,
        Emit,
        Raise,
        Return,
        Cancel,
        MoveDeadline,
        SetShield,
        Scope,
        Nursery,
        StartSoon,
        Start,
        Started,
        Catch,
        Finally,
    }
)


@frozen(kw_only=True)
class Grammar:
    """Which programs are drawn: the operations they are made of, and how large they get."""

    kinds: frozenset[type] = ALL
    size: int = 14
    tasks: int = 4
    depth: int = 6
    crowded: bool = False
    """Whether each program is a nursery of two or three tasks with something to do, so that orders matter."""
    shields: bool = True
    deadlines: bool = True
    scopes_before_entry: bool = True
    cancel_nurseries: bool = True
    catches: tuple[Caught, ...] = tuple(Caught)


@frozen
class _Place:
    """What is in reach at one place of the text."""

    depth: int
    nurseries: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    may_say_started: bool = False


@define
class _Drawing:
    """A program being drawn; `pick(n)` chooses a number from 0 to n, both included."""

    grammar: Grammar
    pick: Callable[[int], int]
    left: int = field(init=False)
    tasks: int = 0
    names: int = 0
    all_scopes: list[str] = field(factory=list[str])

    def __attrs_post_init__(self) -> None:
        self.left = self.grammar.size

    def name(self, letter: str) -> str:
        self.names += 1
        return f"{letter}{self.names}"

    def choices(self, place: _Place) -> list[type]:
        """Returns the operations that may stand here, simplest first."""
        kinds = self.grammar.kinds
        # Repeated by weight: programs worth running have tasks that meet, and few early ends.
        plain: list[type] = [Emit] * 6 + [Checkpoint] * 3 + [Sleep] * 3 + [CancelPoint, SchedulePoint]
        if place.depth > 0:
            plain += [Raise, Raise]
        if place.depth > 1 and self.pick(2) == 2:
            plain.append(Return)
        if self.targets(place):
            plain += [Cancel, Cancel, Cancel]
        if self.all_scopes:
            plain += [MoveDeadline, SetShield, SetShield]
        if place.may_say_started:
            plain.append(Started)
        if place.depth < self.grammar.depth and self.left > 0:
            plain += [Scope, Scope, Nursery, Nursery, Catch, Finally]
            if place.nurseries and self.tasks < self.grammar.tasks:
                plain += [StartSoon, StartSoon, Start]
        return [kind for kind in plain if kind in kinds]

    def targets(self, place: _Place) -> tuple[str, ...]:
        scopes = tuple(self.all_scopes) if self.grammar.scopes_before_entry else place.scopes
        return scopes + (place.nurseries if self.grammar.cancel_nurseries else ())

    def body(self, place: _Place, longest: int = 4, least: int = 0) -> tuple[Op, ...]:
        most = min(longest, max(self.left, 0))
        count = min(least + self.pick(max(most - least, 0)), most)
        ops: list[Op] = []
        for _ in range(count):
            choices = self.choices(place)
            if not choices or self.left <= 0:
                break
            self.left -= 1
            ops.append(self.op(choices[self.pick(len(choices) - 1)], place))
        return tuple(ops)

    def arena(self) -> tuple[Op, ...]:
        """Draws a nursery in which two or three tasks meet, with a scope around it for them to cancel."""
        place = _Place(0)
        before = self.body(place, 1)
        scope, nursery = self.name("s"), self.name("n")
        wraps = Scope in self.grammar.kinds and self.pick(3) > 0
        if wraps:
            self.all_scopes.append(scope)
        inner = evolve(place, depth=1, nurseries=(nursery,), scopes=(scope,) if wraps else ())
        tasks = self.tasks_in(nursery, inner, 2 + self.pick(1) if self.grammar.crowded else self.pick(3))
        block: Op = Nursery(nursery, *tasks, *self.body(inner, 2))
        if wraps:
            seconds = self.pick(7) if self.grammar.deadlines else 7
            block = Scope(scope, block, deadline=seconds if seconds < 4 else None)
        return (*before, block, *self.body(place, 1))

    def tasks_in(self, nursery: str, place: _Place, count: int) -> tuple[Op, ...]:
        """Draws some tasks of a nursery, each with an equal part of what may still be written."""
        if StartSoon not in self.grammar.kinds:
            return ()
        inner = evolve(place, depth=place.depth + 1)
        ops: list[Op] = []
        count = min(count, self.grammar.tasks - self.tasks)
        for position in range(count):
            kept = self.left - self.left // (count - position + 1)
            self.left -= kept
            start = Start in self.grammar.kinds and self.pick(3) == 3
            kind = Start if start else StartSoon
            ops.append(self.task(kind, nursery, inner, 3 if self.grammar.crowded else 1))
            self.left += kept - 1
        return tuple(ops)

    def task(self, kind: type, nursery: str, place: _Place, least: int) -> Op:
        self.tasks += 1
        if kind is StartSoon:
            return StartSoon(nursery, *self.body(evolve(place, may_say_started=False), least=least))
        body = self.body(evolve(place, may_say_started=True), least=least)
        # Left to chance alone, few tasks would say that they are up.
        how = self.pick(4) if Started in self.grammar.kinds else 0
        if how > 0:
            at = self.pick(len(body))
            body = (*body[:at], Started(), *body[at:])
        if how == 4 and Scope in self.grammar.kinds:
            scope = self.name("s")
            self.all_scopes.append(scope)
            body = (Scope(scope, *body),)
        return Start(nursery, *body)

    def one_of(self, names: tuple[str, ...] | list[str]) -> str:
        return names[self.pick(len(names) - 1)]

    def op(self, kind: type, place: _Place) -> Op:
        inner = evolve(place, depth=place.depth + 1)
        if kind is Checkpoint:
            return Checkpoint()
        if kind is CancelPoint:
            return CancelPoint()
        if kind is SchedulePoint:
            return SchedulePoint()
        if kind is Sleep:
            return Sleep(1 + self.pick(2))
        if kind is Emit:
            return Emit(self.name("e"))
        if kind is Raise:
            return Raise(self.name("x"))
        if kind is Return:
            return Return()
        if kind is Started:
            return Started()
        if kind is Cancel:
            return Cancel(self.one_of(self.targets(place)))
        if kind is MoveDeadline:
            seconds = self.pick(4)
            return MoveDeadline(self.one_of(self.all_scopes), None if seconds == 4 else seconds)
        if kind is SetShield:
            return SetShield(self.one_of(self.all_scopes), self.pick(1) == 1)
        if kind is Scope:
            name = self.name("s")
            self.all_scopes.append(name)
            seconds = self.pick(7) if self.grammar.deadlines else 7
            shield = self.grammar.shields and self.pick(2) == 2
            body = self.body(evolve(inner, scopes=(*place.scopes, name)))
            return Scope(name, *body, deadline=seconds if seconds < 4 else None, shield=shield)
        if kind is Nursery:
            name = self.name("n")
            inside = evolve(inner, nurseries=(*place.nurseries, name))
            tasks = self.tasks_in(name, inside, self.pick(2))
            return Nursery(name, *tasks, *self.body(inside))
        if kind is StartSoon or kind is Start:
            return self.task(kind, self.one_of(place.nurseries), inner, 0)
        if kind is Catch:
            catches = self.grammar.catches[self.pick(len(self.grammar.catches) - 1)]
            return Catch(catches, self.body(inner), self.body(inner, 2))
        assert kind is Finally
        return Finally(self.body(inner), self.body(inner, 2))


def draw_program(pick: Callable[[int], int], grammar: Grammar | None = None) -> Program:
    """Returns a program each of whose choices is a call of `pick(n)`, answered by a number from 0 to n."""
    grammar = grammar or Grammar()
    drawing = _Drawing(grammar, pick)
    if Nursery in grammar.kinds and (grammar.crowded or pick(3) > 0):
        return Program(*drawing.arena())
    return Program(*drawing.body(_Place(0), longest=5))
