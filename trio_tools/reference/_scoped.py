"""Programs on trio, and on anyio over trio or asyncio: the two libraries have the same words for it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Protocol

import trio
from attrs import frozen
from trio.testing import MockClock

from ._execute import Execution
from ._program import Nursery, Scope
from ._schedule import seeded_schedule
from ._virtual_loop import VirtualLoop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ._execute import Child
    from ._outcome import Outcome
    from ._program import Program


@frozen
class Library:
    """The words of a library that knows cancel scopes."""

    cancelled: type[BaseException]
    time: Callable[[], float]
    checkpoint: Callable[[], Awaitable[None]]
    cancel_point: Callable[[], Awaitable[None]]
    schedule_point: Callable[[], Awaitable[None]]
    sleep: Callable[[float], Awaitable[None]]
    scope: Callable[..., Any]
    nursery: Callable[[], Any]


class _AnyScope(Protocol):
    deadline: float
    cancel_called: bool
    cancelled_caught: bool

    def cancel(self) -> None: ...


class ScopedExecution(Execution):
    """One run of a program on a library with cancel scopes and nurseries."""

    def __init__(self, program: Program, library: Library) -> None:
        super().__init__(program)
        self._library = library
        self.cancelled = library.cancelled
        self._nurseries: dict[str, Any] = {}
        self._open: dict[str, Any] = {}
        self._unentered: dict[str, int | None] = {}
        for op in self.scopes:
            if isinstance(op, Scope):
                self._open[op.name] = library.scope(shield=op.shield)
                self._unentered[op.name] = op.deadline

    def now(self) -> int:
        return int(self._library.time())

    async def checkpoint(self) -> None:
        await self._library.checkpoint()

    async def cancel_point(self) -> None:
        await self._library.cancel_point()

    async def schedule_point(self) -> None:
        await self._library.schedule_point()

    async def sleep(self, seconds: int) -> None:
        await self._library.sleep(seconds)

    async def in_scope(self, op: Scope, body: Callable[[], Awaitable[bool]]) -> bool:
        scope = self._open[op.name]
        seconds = self._unentered.pop(op.name)
        if seconds is not None:
            scope.deadline = self._library.time() + seconds
        with scope:
            return await body()
        return False

    async def in_nursery(self, op: Nursery, body: Callable[[], Awaitable[bool]]) -> bool:
        async with self._library.nursery() as nursery:
            self._nurseries[op.name] = nursery
            self._open[op.name] = nursery.cancel_scope
            return await body()
        return False

    def start_soon(self, nursery: str, child: Child) -> None:
        self._nurseries[nursery].start_soon(child)

    async def start(self, nursery: str, child: Child) -> None:
        await self._nurseries[nursery].start(child)

    def cancel(self, scope: str) -> None:
        self._open[scope].cancel()

    def move_deadline(self, scope: str, seconds: int | None) -> None:
        if scope in self._unentered:
            self._unentered[scope] = seconds
        else:
            self._open[scope].deadline = math.inf if seconds is None else self._library.time() + seconds

    def set_shield(self, scope: str, shield: bool) -> None:
        self._open[scope].shield = shield

    def flags(self, scope: str) -> tuple[bool | None, bool | None]:
        found: _AnyScope | None = self._open.get(scope)
        return (False, False) if found is None else (found.cancel_called, found.cancelled_caught)


def trio_library() -> Library:
    """Returns trio's words."""
    return Library(
        trio.Cancelled,
        trio.current_time,
        trio.lowlevel.checkpoint,
        trio.lowlevel.checkpoint_if_cancelled,
        trio.lowlevel.cancel_shielded_checkpoint,
        trio.sleep,
        trio.CancelScope,
        trio.open_nursery,
    )


def anyio_library() -> Library:
    """Returns anyio's words, on whichever loop it runs: to be called inside a run."""
    import anyio
    import anyio.lowlevel

    return Library(
        anyio.get_cancelled_exc_class(),
        anyio.current_time,
        anyio.lowlevel.checkpoint,
        anyio.lowlevel.checkpoint_if_cancelled,
        anyio.lowlevel.cancel_shielded_checkpoint,
        anyio.sleep,
        anyio.CancelScope,
        anyio.create_task_group,
    )


def run_on_trio(program: Program, seed: int, interleaving: bool) -> Outcome:
    """Runs a program on trio under a virtual clock, its tasks in an order that follows from the seed."""
    return _run_under_trio(lambda: ScopedExecution(program, trio_library()), seed, interleaving)


def run_on_anyio_over_trio(program: Program, seed: int, interleaving: bool) -> Outcome:
    """Runs a program on anyio over trio, in the same way."""
    return _run_under_trio(lambda: ScopedExecution(program, anyio_library()), seed, interleaving)


def run_on_anyio_over_asyncio(program: Program, interleaving: bool) -> Outcome:
    """Runs a program on anyio over asyncio, in virtual time."""
    import anyio

    async def main() -> Outcome:
        return await ScopedExecution(program, anyio_library()).main(interleaving=interleaving)

    return anyio.run(main, backend="asyncio", backend_options={"loop_factory": VirtualLoop})


def _run_under_trio(execution: Callable[[], ScopedExecution], seed: int, interleaving: bool) -> Outcome:
    async def main() -> Outcome:
        return await execution().main(interleaving=interleaving)

    with seeded_schedule(seed):
        return trio.run(main, clock=MockClock(autojump_threshold=0))
