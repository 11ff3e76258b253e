"""Waiting for what runs in nurseries that a body left open.

When the last task of a nursery ends while somebody waits at the end of its block, trio wakes the task
that opened the nursery. For a block in an async generator that was dropped, these are two: the body's task,
and one of trio's own, which finalizes the generator. So the opener is parked here where it may be woken in
the place of the other, and then wakes it. Parked anywhere else, both would come to grief, and the run with
them.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import trio

from ._watch import abandon

__all__ = ["alone_in", "empty"]

_POLL: Final = 0.001
"""Seconds between two looks at the tasks: nothing else tells their end, where nobody waits for it."""


async def alone_in(nursery: trio.Nursery) -> None:
    """Wait, shielded, until the current task is the only one of a nursery that another opened."""
    with trio.CancelScope(shield=True):
        while len(nursery.child_tasks) > 1:  # noqa: ASYNC110  (trio has no event for it)
            await trio.sleep(_POLL)


async def empty(nurseries: list[trio.Nursery]) -> None:
    """Cancel and wait, shielded, for the tasks of nurseries that the current task left open."""
    for nursery in nurseries:
        abandon(nursery)
        nursery.cancel_scope.cancel()
    here = trio.lowlevel.current_task()
    parked = False

    async def wake() -> None:
        nonlocal parked
        with trio.CancelScope(shield=True):
            while _busy(nurseries):  # noqa: ASYNC110
                await trio.sleep(_POLL)
            # After two passes of the scheduler, a task that trio woke has run.
            await trio.lowlevel.checkpoint()
            await trio.lowlevel.checkpoint()
        if parked:
            parked = False
            trio.lowlevel.reschedule(here)

    busy = _busy(nurseries)
    if busy:
        trio.lowlevel.spawn_system_task(wake, name="trio_tools: waits for what a body left open")
    while busy:
        parked = True
        await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.FAILED)
        if parked:
            parked = False
            _wake_who_leaves(nursery for nursery in busy if not nursery.child_tasks)
        busy = _busy(nurseries)


def _busy(nurseries: list[trio.Nursery]) -> list[trio.Nursery]:
    return [nursery for nursery in nurseries if nursery.child_tasks]


def _wake_who_leaves(ended: Iterable[trio.Nursery]) -> None:
    """Wake the task that waits at the end of the block of a nursery, wherever it is."""
    for nursery in ended:
        for task in _tasks():
            if any(frame.f_locals.get("self") is nursery for frame, _ in task.iter_await_frames()):
                trio.lowlevel.reschedule(task)


def _tasks() -> Iterator[trio.lowlevel.Task]:
    """Yield all tasks of the run."""
    root = trio.lowlevel.current_root_task()
    assert root is not None
    tasks = [root]
    for task in tasks:
        yield task
        for nursery in task.child_nurseries:
            tasks.extend(nursery.child_tasks)
