"""Ctrl-C, and a polite request to end: cancel what runs, wait for it, and say so with the exit code.

The first signal becomes the cancellation of everything the command does, so that an interrupted run is
recorded like any other and leaves nothing behind. A second one does what it would do without us.
"""

import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Final, cast

import trio

from ._failure import INTERRUPTED

__all__ = ["run_until_interrupted"]

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def run_until_interrupted(main: Callable[[], Awaitable[int]]) -> int:
    """Run ``main`` in trio and return its exit code, or 130 if a signal ended it.

    Raises:
        Exception: what ``main`` raised; a group that holds one exception only is replaced by it.
    """
    try:
        return trio.run(_supervise, main)
    except BaseExceptionGroup as group:
        raise _only_leaf(group) from None


def _only_leaf(error: BaseException) -> BaseException:
    if isinstance(error, BaseExceptionGroup):
        inner = cast("BaseExceptionGroup[BaseException]", error).exceptions
        return _only_leaf(inner[0]) if len(inner) == 1 else cast("BaseException", error)
    return error


async def _supervise(main: Callable[[], Awaitable[int]]) -> int:
    status = INTERRUPTED
    with trio.CancelScope() as everything:
        async with trio.open_nursery() as nursery:
            await nursery.start(_listen, everything)
            status = await main()
            nursery.cancel_scope.cancel()
    if everything.cancelled_caught:
        print("trio-tools: interrupted; what was running has ended", file=sys.stderr)
        return INTERRUPTED
    return status


async def _listen(everything: trio.CancelScope, task_status: trio.TaskStatus[None]) -> None:
    with trio.open_signal_receiver(*_SIGNALS) as signals:
        task_status.started()
        async for _ in signals:
            everything.cancel()
            return
