"""A line that shows what is running, for the person who waits."""

import os
import shutil
import sys
from collections.abc import Awaitable, Callable
from typing import Final, TextIO, final

import trio
from attrs import define, field

from trio_tools import DispatchExecution, Progress, RegistryStatistics, ToolResult

from ._failure import one_line

__all__ = ["ProgressBar", "ProgressLine"]

_TICK_SECONDS: Final = 0.1
_ERASE: Final = "\r\x1b[2K"


@final
@define(eq=False)
class ProgressLine:
    """What is running, in one line that is drawn over itself; on no terminal, a line for each start.

    Its `wrap` is a wrapper: registered on a layer, it sees the calls of the layer begin and end. How far
    they are, if they tell, is read from the statistics of the registry.
    """

    _out: TextIO = field(factory=lambda: sys.stderr)
    statistics: Callable[[], RegistryStatistics] | None = None
    _running: dict[str, tuple[str, float]] = field(factory=dict[str, tuple[str, float]], init=False)

    @property
    def _drawable(self) -> bool:
        return self._out.isatty() and os.environ.get("TERM") != "dumb"

    async def wrap(
        self,
        execution: DispatchExecution,
        proceed: Callable[[DispatchExecution], Awaitable[ToolResult]],
    ) -> ToolResult:
        """Show the call while it runs."""
        self._running[execution.call_id] = (execution.name, trio.current_time())
        if not self._drawable:
            print(f"running {execution.name} ...", file=self._out)
        try:
            return await proceed(execution)
        finally:
            del self._running[execution.call_id]

    def _line(self) -> str:
        now = trio.current_time()
        calls = () if self.statistics is None else self.statistics().calls
        progress = {call.call_id: call.progress for call in calls}
        words = [
            f"{name} {now - since:.1f}s{_how_far(progress.get(call_id))}"
            for call_id, (name, since) in self._running.items()
        ]
        line = "running: " + ", ".join(words) if words else ""
        # A line that wraps cannot be drawn over.
        return line[: max(0, shutil.get_terminal_size().columns - 1)]

    async def draw(self) -> None:
        """Draw the line again and again, until cancelled; on no terminal, do nothing."""
        if not self._drawable:
            await trio.sleep_forever()
        try:
            while True:  # noqa: ASYNC110  (a clock is drawn)
                self._out.write(_ERASE + self._line())
                self._out.flush()
                await trio.sleep(_TICK_SECONDS)
        finally:
            self._out.write(_ERASE)
            self._out.flush()


def _how_far(progress: Progress | None) -> str:
    if progress is None:
        return ""
    total = "" if progress.total is None else f"/{_number(progress.total)}"
    message = "" if progress.message is None else f" {one_line(str(progress.message))}"
    return f" ({_number(progress.done)}{total}{message})"


def _number(value: object) -> str:
    return f"{value:g}" if isinstance(value, int | float) else "?"


@final
@define(eq=False)
class ProgressBar:
    """How far long work is, in one line that is drawn over itself; nothing where that is no terminal."""

    name: str
    unit: str = "runs"
    _out: TextIO = field(factory=lambda: sys.stderr)
    _shown: int = field(default=-1, init=False)

    def show(self, done: int, planned: int) -> None:
        """Draw the bar, if it has moved."""
        percent = done * 100 // max(planned, 1)
        if not self._out.isatty() or percent == self._shown:
            return
        self._shown = percent
        width = max(10, min(40, shutil.get_terminal_size().columns - len(self.name) - 24))
        filled = "#" * (percent * width // 100)
        self._out.write(f"\r\x1b[2K{self.name} [{filled:.<{width}}] {done} of {planned} {self.unit}")
        self._out.flush()

    def clear(self) -> None:
        """Take the bar away."""
        if self._out.isatty():
            self._out.write("\r\x1b[2K")
            self._out.flush()
