"""Programs on plain asyncio, as far as its blocks go: `timeout` for a scope, `TaskGroup` for a nursery."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NoReturn

from ._execute import Execution, NotExpressible
from ._program import (
    Cancel,
    CancelPoint,
    Nursery,
    SchedulePoint,
    Scope,
    SetShield,
    Start,
)
from ._virtual_loop import VirtualLoop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ._execute import Child
    from ._outcome import Outcome
    from ._program import Program


def check_expressible(program: Program) -> None:
    """Raises `NotExpressible` if an operation of the program has no counterpart in asyncio."""
    nurseries = {op.name for op in program.walk() if isinstance(op, Nursery)}
    for op in program.walk():
        reason = ""
        match op:
            case Scope(shield=True) | SetShield():
                reason = "asyncio cannot shield a block; asyncio.shield() detaches a task instead"
            case Start():
                reason = "a TaskGroup has no start() that waits for its task to be up"
            case Cancel() if op.scope in nurseries:
                reason = "a TaskGroup cannot be cancelled from outside"
            case CancelPoint() | SchedulePoint():
                reason = "asyncio delivers a cancellation wherever a task waits; it has no half checkpoints"
            case _:
                continue
        raise NotExpressible(f"{type(op).__name__}: {reason}")


class AsyncioExecution(Execution):
    """One run of a program on asyncio's own blocks."""

    cancelled = asyncio.CancelledError

    def __init__(self, program: Program, loop: VirtualLoop) -> None:
        super().__init__(program)
        self.loop = loop
        self._groups: dict[str, asyncio.TaskGroup] = {}
        self._unentered: dict[str, int | None] = {
            op.name: op.deadline for op in self.scopes if isinstance(op, Scope)
        }
        self._open: dict[str, asyncio.Timeout] = {}
        self._called: set[str] = set()
        self._caught: set[str] = set()
        self._left: set[str] = set()

    def now(self) -> int:
        return int(self.loop.time())

    def progress(self) -> None:
        self.loop.progress()

    async def checkpoint(self) -> None:
        await asyncio.sleep(0)

    async def cancel_point(self) -> NoReturn:
        raise NotExpressible

    async def schedule_point(self) -> NoReturn:
        raise NotExpressible

    async def sleep(self, seconds: int) -> None:
        await asyncio.sleep(seconds)

    async def in_scope(self, op: Scope, body: Callable[[], Awaitable[bool]]) -> bool:
        seconds = self._unentered.pop(op.name)
        when = None if seconds is None else self.loop.time() + seconds
        if op.name in self._called:
            when = self.loop.time()
        try:
            async with asyncio.timeout_at(when) as timeout:
                self._open[op.name] = timeout
                return await body()
        except TimeoutError:
            self._caught.add(op.name)
        finally:
            self._left.add(op.name)
            self._called.update({op.name} if self._open[op.name].expired() else ())
        return False

    async def in_nursery(self, op: Nursery, body: Callable[[], Awaitable[bool]]) -> bool:
        async with asyncio.TaskGroup() as group:
            self._groups[op.name] = group
            return await body()

    def start_soon(self, nursery: str, child: Child) -> None:
        self._groups[nursery].create_task(child())

    async def start(self, nursery: str, child: Child) -> NoReturn:
        raise NotExpressible(nursery, child)

    def cancel(self, scope: str) -> None:
        self._called.add(scope)
        self._reschedule(scope, self.loop.time())

    def move_deadline(self, scope: str, seconds: int | None) -> None:
        if scope in self._unentered:
            self._unentered[scope] = seconds
        elif scope not in self._called:
            self._reschedule(scope, None if seconds is None else self.loop.time() + seconds)

    def _reschedule(self, scope: str, when: float | None) -> None:
        timeout = self._open.get(scope)
        if timeout is not None and scope not in self._left and not timeout.expired():
            timeout.reschedule(when)

    def set_shield(self, scope: str, shield: bool) -> NoReturn:
        raise NotExpressible(scope, shield)

    def flags(self, scope: str) -> tuple[bool | None, bool | None]:
        if scope in self._unentered or scope in self._open:
            return scope in self._called, scope in self._caught
        return None, None


def run_on_asyncio(program: Program, interleaving: bool) -> Outcome:
    """Runs a program on asyncio, in virtual time. Raises `NotExpressible` where asyncio has no words."""
    check_expressible(program)
    loop = VirtualLoop()

    async def main() -> Outcome:
        return await AsyncioExecution(program, loop).main(interleaving=interleaving)

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(main())
