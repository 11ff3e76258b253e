"""A program carried out for real: the walk over its operations, which is the same on every backend."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

from ._outcome import Cancelled, Event, Failed, Outcome, Returned, ScopeFlags, group_of
from ._program import (
    Cancel,
    CancelPoint,
    Catch,
    Caught,
    Checkpoint,
    Emit,
    MoveDeadline,
    Nursery,
    Raise,
    Return,
    SchedulePoint,
    Scope,
    SetShield,
    Sleep,
    Start,
    Started,
    StartSoon,
    bodies,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from ._outcome import Ending, Raised
    from ._program import Op, Program


class NotExpressible(Exception):  # noqa: N818 - it is the backend's limit, not somebody's error
    """A program has no counterpart on a backend; the message says which operation, and why."""


class NamedError(Exception):
    """What a `Raise` raises, known by its name."""


class TaskStatus(Protocol):
    """What a backend hands to a task for its `Started()`."""

    def started(self) -> None: ...


Child: TypeAlias = "Callable[..., Coroutine[object, object, None]]"


class Execution(ABC):
    """One run of one program; a subclass says how each primitive is done on its backend."""

    cancelled: type[BaseException]
    """What the backend raises at a cancel point."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.scopes = [op for op in program.walk() if isinstance(op, Scope | Nursery)]
        self._tasks_in: dict[int, int] = {}
        self.interleaving: list[int] = []
        self._coroutines: list[Coroutine[object, object, None]] = []
        self.events: list[list[Event]] = [[] for _ in range(self._count(program.body) + 1)]

    async def main(self, *, interleaving: bool = False) -> Outcome:
        """Runs the program to its end and returns what was observed; raises nothing of the program's own."""
        ending: Ending = Returned()
        try:
            await self._body(self.program.body, 0, 0, None)
        except BaseException as error:  # noqa: BLE001 - how the program ends is the very thing observed
            ending = self._normal_form(error)
        for coroutine in self._coroutines:
            coroutine.close()  # one that a backend refused was never awaited
        flags = tuple(ScopeFlags(op.name, *self.flags(op.name)) for op in self.scopes)
        order = tuple(self.interleaving) if interleaving else None
        return Outcome(tuple(map(tuple, self.events)), ending, flags, self.now(), order)

    # Primitives. Those that are `async` may block; `Scope` and `Nursery` run their own bodies so that each
    # backend can put its own statement around them.

    @abstractmethod
    def now(self) -> int: ...
    @abstractmethod
    async def checkpoint(self) -> None: ...
    @abstractmethod
    async def cancel_point(self) -> None: ...
    @abstractmethod
    async def schedule_point(self) -> None: ...
    @abstractmethod
    async def sleep(self, seconds: int) -> None: ...
    @abstractmethod
    async def in_scope(self, op: Scope, body: Callable[[], Awaitable[bool]]) -> bool: ...
    @abstractmethod
    async def in_nursery(self, op: Nursery, body: Callable[[], Awaitable[bool]]) -> bool: ...
    @abstractmethod
    def start_soon(self, nursery: str, child: Child) -> None: ...
    @abstractmethod
    async def start(self, nursery: str, child: Child) -> None: ...
    @abstractmethod
    def cancel(self, scope: str) -> None: ...
    @abstractmethod
    def move_deadline(self, scope: str, seconds: int | None) -> None: ...
    @abstractmethod
    def set_shield(self, scope: str, shield: bool) -> None: ...
    @abstractmethod
    def flags(self, scope: str) -> tuple[bool | None, bool | None]: ...

    def progress(self) -> None:
        """Is called before each operation."""
        return

    def _count(self, body: tuple[Op, ...]) -> int:
        return sum(map(self._tasks_of, body))

    def _tasks_of(self, op: Op) -> int:
        count = self._tasks_in.get(id(op))
        if count is None:
            count = sum(map(self._count, bodies(op))) + isinstance(op, StartSoon | Start)
            self._tasks_in[id(op)] = count
        return count

    async def _body(self, body: tuple[Op, ...], task: int, before: int, status: TaskStatus | None) -> bool:
        """Carries out a body whose text follows `before` tasks; says whether it ran into a `Return`."""
        for op in body:
            self.progress()
            if await self._op(op, task, before, status):
                return True
            before += self._tasks_of(op)
        return False

    async def _op(self, op: Op, task: int, before: int, status: TaskStatus | None) -> bool:
        match op:
            case Checkpoint():
                await self.checkpoint()
            case CancelPoint():
                await self.cancel_point()
            case SchedulePoint():
                await self.schedule_point()
            case Sleep():
                await self.sleep(op.seconds)
            case Emit():
                self.events[task].append(Event(op.label, self.now()))
                self.interleaving.append(task)
            case Raise():
                raise NamedError(op.error)
            case Return():
                return True
            case Cancel():
                self.cancel(op.scope)
            case MoveDeadline():
                self.move_deadline(op.scope, op.seconds)
            case SetShield():
                self.set_shield(op.scope, op.shield)
            case Scope():
                return await self.in_scope(op, lambda: self._body(op.body, task, before, status))
            case Nursery():
                return await self.in_nursery(op, lambda: self._body(op.body, task, before, status))
            case StartSoon():
                self.start_soon(op.nursery, self._child(op.body, before + 1))
            case Start():
                await self.start(op.nursery, self._child(op.body, before + 1))
            case Started():
                assert status is not None
                status.started()
            case Catch():
                return await self._catch(op, task, before, status)
            case _:
                try:
                    returned = await self._body(op.body, task, before, status)
                finally:
                    if await self._body(op.cleanup, task, before + self._count(op.body), status):
                        return True  # noqa: B012 - as in Python, it takes the place of what was raised
                return returned
        return False

    async def _catch(self, op: Catch, task: int, before: int, status: TaskStatus | None) -> bool:
        kinds: dict[Caught, type[BaseException]] = {
            Caught.ERROR: Exception,
            Caught.CANCELLED: self.cancelled,
            Caught.ANY: BaseException,
        }
        try:
            return await self._body(op.body, task, before, status)
        except kinds[op.catches]:
            return await self._body(op.handler, task, before + self._count(op.body), status)

    def _child(self, body: tuple[Op, ...], number: int) -> Child:
        async def run(task_status: TaskStatus | None) -> None:
            await self._body(body, number, number, task_status)

        def child(*, task_status: TaskStatus | None = None) -> Coroutine[object, object, None]:
            coroutine = run(task_status)
            self._coroutines.append(coroutine)
            return coroutine

        return child

    def _normal_form(self, error: BaseException) -> Raised:
        if isinstance(error, self.cancelled):
            return Cancelled()
        if isinstance(error, NamedError):
            return Failed(str(error))
        if isinstance(error, BaseExceptionGroup):
            group = cast("BaseExceptionGroup[BaseException]", error)
            return group_of([self._normal_form(member) for member in group.exceptions])
        return Failed(type(error).__name__)
