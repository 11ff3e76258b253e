"""The language of programs: a small tree of structured-concurrency operations.

A program is data. Three readers walk it: the pure interpreter, which knows what it may do; the executor,
which does it on a real backend; and a person, for whom `repr` is code that evaluates to an equal program.

There are no loops and no calls, so each operation is carried out at most once. That is what keeps
everything finite: every task, scope and nursery of a run can be named before the run by its place in the
text. Times are whole numbers of virtual seconds. Names of scopes and nurseries share one space and are
unique in a program.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias, final

from attrs import field, frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class ProgramError(ValueError):
    """A program that means nothing: a name unknown, used twice, or out of reach where it is used."""


class Caught(StrEnum):
    """What a `Catch` catches, as an `except` clause of Python would."""

    ERROR = "error"
    """`except Exception`: errors, and groups of nothing but errors."""
    CANCELLED = "cancelled"
    """`except Cancelled`: the bare exception, never a group that contains it."""
    ANY = "any"
    """`except BaseException`."""


def _call(name: str, *arguments: object, **options: object) -> str:
    parts = [repr(argument) for argument in arguments]
    parts += [f"{key}={value!r}" for key, value in options.items()]
    return f"{name}({', '.join(parts)})"


def _seconds(value: int) -> int:
    if value < 0:
        raise ProgramError(f"a time in a program is a whole number of seconds, not below zero: got {value!r}")
    return value


def _fill(op: object, **values: object) -> None:
    """Sets the fields of a frozen operation whose own `__init__` takes its body as positional arguments."""
    for name, value in values.items():
        object.__setattr__(op, name, value)


def _ops(value: Iterable[Op]) -> tuple[Op, ...]:
    return tuple(value)


@final
@frozen(repr=False)
class Checkpoint:
    """A full checkpoint: first a schedule point, then a cancel point."""

    def __repr__(self) -> str:
        return "Checkpoint()"


@final
@frozen(repr=False)
class CancelPoint:
    """A cancel point alone: nothing unless the task is cancelled, and then a full checkpoint (`SCP-4`)."""

    def __repr__(self) -> str:
        return "CancelPoint()"


@final
@frozen(repr=False)
class SchedulePoint:
    """A schedule point alone: other tasks may run, no cancellation is delivered (`SCP-4`)."""

    def __repr__(self) -> str:
        return "SchedulePoint()"


@final
@frozen(repr=False, init=False)
class Sleep:
    """Waits the given whole number of virtual seconds, unless cancelled; `Sleep(0)` is a `Checkpoint()`."""

    seconds: int

    def __init__(self, seconds: int) -> None:
        _fill(self, seconds=_seconds(seconds))

    def __repr__(self) -> str:
        return _call("Sleep", self.seconds)


@final
@frozen(repr=False)
class Emit:
    """Records an observable event: this label, in this task, at this virtual time. No checkpoint."""

    label: str

    def __repr__(self) -> str:
        return _call("Emit", self.label)


@final
@frozen(repr=False)
class Raise:
    """Raises an error (a subclass of `Exception`) that is known by its name."""

    error: str

    def __repr__(self) -> str:
        return _call("Raise", self.error)


@final
@frozen(repr=False)
class Return:
    """Returns from the body of the task, leaving the blocks around it without an exception."""

    def __repr__(self) -> str:
        return "Return()"


@final
@frozen(repr=False)
class Cancel:
    """Cancels a scope, or the scope of a nursery. The caller itself runs on to its next cancel point.

    A scope may be cancelled before it is entered, while it is open, and after it was left. A nursery can
    only be named inside its own block, in whatever task.
    """

    scope: str

    def __repr__(self) -> str:
        return _call("Cancel", self.scope)


@final
@frozen(repr=False, init=False)
class MoveDeadline:
    """Moves the deadline of a scope to the given number of seconds from now; `None` takes it away.

    Before the scope is entered the seconds count from its entry. A cancelled scope stays cancelled.
    """

    scope: str
    seconds: int | None

    def __init__(self, scope: str, seconds: int | None) -> None:
        _fill(self, scope=scope, seconds=None if seconds is None else _seconds(seconds))

    def __repr__(self) -> str:
        return _call("MoveDeadline", self.scope, self.seconds)


@final
@frozen(repr=False)
class SetShield:
    """Raises or lowers the shield of a scope, at once for all that is inside it; before its entry too."""

    scope: str
    shield: bool

    def __repr__(self) -> str:
        return _call("SetShield", self.scope, self.shield)


@final
@frozen(repr=False, init=False)
class Scope:
    """A cancel scope around a body, with an optional deadline in seconds from its entry, and a shield."""

    name: str
    body: tuple[Op, ...]
    deadline: int | None
    shield: bool

    def __init__(self, name: str, *body: Op, deadline: int | None = None, shield: bool = False) -> None:
        seconds = None if deadline is None else _seconds(deadline)
        _fill(self, name=name, body=body, deadline=seconds, shield=shield)

    def __repr__(self) -> str:
        options: dict[str, object] = {}
        if self.deadline is not None:
            options["deadline"] = self.deadline
        if self.shield:
            options["shield"] = True
        return _call("Scope", self.name, *self.body, **options)


@final
@frozen(repr=False, init=False)
class Nursery:
    """A nursery around a body. Its end waits for every task started in it; its scope goes by its name."""

    name: str
    body: tuple[Op, ...]

    def __init__(self, name: str, *body: Op) -> None:
        _fill(self, name=name, body=body)

    def __repr__(self) -> str:
        return _call("Nursery", self.name, *self.body)


@final
@frozen(repr=False, init=False)
class StartSoon:
    """Starts a task in an enclosing nursery and runs on; the task begins after the next schedule point."""

    nursery: str
    body: tuple[Op, ...]

    def __init__(self, nursery: str, *body: Op) -> None:
        _fill(self, nursery=nursery, body=body)

    def __repr__(self) -> str:
        return _call("StartSoon", self.nursery, *self.body)


@final
@frozen(repr=False, init=False)
class Start:
    """Starts a task in an enclosing nursery and waits until it says `Started()`, as `nursery.start` does."""

    nursery: str
    body: tuple[Op, ...]

    def __init__(self, nursery: str, *body: Op) -> None:
        _fill(self, nursery=nursery, body=body)

    def __repr__(self) -> str:
        return _call("Start", self.nursery, *self.body)


@final
@frozen(repr=False)
class Started:
    """Tells the `Start` of this very task that it is up; stands in that task, in none inside it."""

    def __repr__(self) -> str:
        return "Started()"


@final
@frozen(repr=False)
class Catch:
    """Runs a body, and a handler in place of what the body raised if the clause catches that."""

    catches: Caught = field(converter=Caught)
    body: tuple[Op, ...] = field(converter=_ops)
    handler: tuple[Op, ...] = field(converter=_ops, default=())

    def __repr__(self) -> str:
        rest = (self.handler,) if self.handler else ()
        return _call("Catch", self.catches.value, self.body, *rest)


@final
@frozen(repr=False)
class Finally:
    """Runs a body, then a cleanup however that ended; what the cleanup raises or returns takes its place."""

    body: tuple[Op, ...] = field(converter=_ops)
    cleanup: tuple[Op, ...] = field(converter=_ops)

    def __repr__(self) -> str:
        return _call("Finally", self.body, self.cleanup)


Op: TypeAlias = (
    Checkpoint
    | CancelPoint
    | SchedulePoint
    | Sleep
    | Emit
    | Raise
    | Return
    | Cancel
    | MoveDeadline
    | SetShield
    | Scope
    | Nursery
    | StartSoon
    | Start
    | Started
    | Catch
    | Finally
)
"""One operation of a program."""


@final
@frozen(repr=False, init=False)
class Program:
    """A whole program: the body of the main task.

    Tasks are numbered in the order in which the text starts them; the main task is number 0.
    Raises `ProgramError` if the program means nothing.
    """

    body: tuple[Op, ...]

    def __init__(self, *body: Op) -> None:
        _fill(self, body=body)
        _check(self)

    def __repr__(self) -> str:
        return _call("Program", *self.body)

    def walk(self) -> Iterator[Op]:
        """Yields every operation in the order of the text, those inside blocks and tasks included."""
        yield from _walk(self.body)

    @property
    def size(self) -> int:
        """The number of operations."""
        return sum(1 for _ in self.walk())


def bodies(op: Op) -> tuple[tuple[Op, ...], ...]:
    """Returns the bodies that an operation has, in the order of the text."""
    match op:
        case Scope() | Nursery() | StartSoon() | Start():
            return (op.body,)
        case Catch():
            return (op.body, op.handler)
        case Finally():
            return (op.body, op.cleanup)
        case _:
            return ()


def _walk(body: tuple[Op, ...]) -> Iterator[Op]:
    for op in body:
        yield op
        for inner in bodies(op):
            yield from _walk(inner)


def _check(program: Program) -> None:
    named = [op.name for op in program.walk() if isinstance(op, Scope | Nursery)]
    if len(named) != len(set(named)):
        twice = next(name for name in named if named.count(name) > 1)
        raise ProgramError(f"two scopes or nurseries are called {twice!r}; give each its own name")
    scopes = frozenset(op.name for op in program.walk() if isinstance(op, Scope))
    _check_body(program.body, scopes, frozenset(), may_say_started=False)


def _check_body(
    body: tuple[Op, ...], scopes: frozenset[str], nurseries: frozenset[str], *, may_say_started: bool
) -> None:
    for op in body:
        match op:
            case Cancel() if op.scope not in scopes | nurseries:
                raise ProgramError(f"{op!r} names no scope of the program and no nursery around it")
            case MoveDeadline() | SetShield() if op.scope not in scopes:
                raise ProgramError(f"{op!r} names no scope of the program")
            case StartSoon() | Start() if op.nursery not in nurseries:
                raise ProgramError(f"{op!r} stands in no nursery called {op.nursery!r}")
            case Started() if not may_say_started:
                raise ProgramError("Started() stands outside the body of the task of a Start")
            case _:
                pass
        reach = nurseries | {op.name} if isinstance(op, Nursery) else nurseries
        started = may_say_started
        if isinstance(op, Start | StartSoon):
            started = isinstance(op, Start)
        for inner in bodies(op):
            _check_body(inner, scopes, reach, may_say_started=started)
