"""A line that shows what is running, for the person who waits."""

import os
import sys
from collections.abc import Awaitable, Callable
from typing import Final, TextIO, final

import trio
from attrs import define, field

from trio_tools import DispatchExecution, ToolResult

__all__ = ["ProgressLine"]

_TICK_SECONDS: Final = 0.1
_ERASE: Final = "\r\x1b[2K"


@final
@define(eq=False)
class ProgressLine:
    """What is running, in one line that is drawn over itself; on no terminal, a line for each start.

    Its `wrap` is a wrapper: registered on a layer, it sees the calls of the layer begin and end.
    """

    _out: TextIO = field(factory=lambda: sys.stderr)
    _running: dict[object, tuple[str, float]] = field(factory=dict[object, tuple[str, float]], init=False)

    @property
    def _drawable(self) -> bool:
        return self._out.isatty() and os.environ.get("TERM") != "dumb"

    async def wrap(
        self,
        execution: DispatchExecution,
        proceed: Callable[[DispatchExecution], Awaitable[ToolResult]],
    ) -> ToolResult:
        """Show the call while it runs."""
        self._running[execution.token] = (execution.name, trio.current_time())
        if not self._drawable:
            print(f"running {execution.name} ...", file=self._out)
        try:
            return await proceed(execution)
        finally:
            del self._running[execution.token]

    async def draw(self) -> None:
        """Draw the line again and again, until cancelled; on no terminal, do nothing."""
        if not self._drawable:
            await trio.sleep_forever()
        try:
            while True:  # noqa: ASYNC110  (a clock is drawn)
                now = trio.current_time()
                words = [f"{name} {now - since:.1f}s" for name, since in self._running.values()]
                self._out.write(_ERASE + ("running: " + ", ".join(words) if words else ""))
                self._out.flush()
                await trio.sleep(_TICK_SECONDS)
        finally:
            self._out.write(_ERASE)
            self._out.flush()
