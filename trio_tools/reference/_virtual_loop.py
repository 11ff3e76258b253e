"""An asyncio event loop whose clock jumps: an hour of sleep costs nothing, and all runs are alike."""

from __future__ import annotations

import asyncio
import selectors
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context

_PATIENCE = 100


class StuckError(RuntimeError):
    """A run has nothing left that could ever wake it."""


class _Selector(selectors.SelectSelector):
    """Never waits for a file; where the loop would sleep, its clock jumps."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._loop.idle(timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time, from 0. It jumps to the next timer once nothing is left to do.

    anyio repeats a cancellation in every turn of the loop for as long as it finds no taker, so its loop is
    never idle then. Turns in which the program makes no progress (see `progress`) are counted, and enough
    of them count as idle.
    """

    def __init__(self) -> None:
        self._virtual_now = 0.0
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._turns = 0
        super().__init__(_Selector(self))
        self.mishaps: list[dict[str, Any]] = []
        self.set_exception_handler(lambda _loop, context: self.mishaps.append(context))

    def time(self) -> float:
        """Returns the virtual time, in seconds."""
        return self._virtual_now

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Calls back at a virtual time."""
        handle = super().call_at(when, callback, *args, context=context)
        heappush(self._timers, (when, id(handle), handle))
        return handle

    def progress(self) -> None:
        """Is told that the program did something in this turn."""
        self._turns = 0

    def idle(self, timeout: float | None) -> None:
        """Is told, once a turn, how long the loop would sleep now."""
        self._turns += 1
        if timeout == 0 and self._turns < _PATIENCE:
            return
        while self._timers and (self._timers[0][0] <= self._virtual_now or self._timers[0][2].cancelled()):
            heappop(self._timers)
        if self._timers:
            self._virtual_now = self._timers[0][0]
            self._turns = 0
        elif timeout is None or self._turns > 10 * _PATIENCE:
            raise StuckError("nothing is left that could wake this run")
