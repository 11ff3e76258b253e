"""Where code waits: the line that its author can act on."""

from __future__ import annotations

import threading
from pathlib import Path

import trio

from trio_tools._parked import line_of_task, line_of_thread


async def test_a_task_is_where_its_own_code_waits() -> None:
    async def waits() -> None:
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(waits, name="waits")
        await trio.testing.wait_all_tasks_blocked()
        (task,) = nursery.child_tasks
        line = line_of_task(task)
        nursery.cancel_scope.cancel()

    assert line == f"{__file__}:{waits.__code__.co_firstlineno + 1}, in {waits.__qualname__}"


async def test_a_task_of_nobody_but_trio_is_where_trio_waits() -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever)
        await trio.testing.wait_all_tasks_blocked()
        (task,) = nursery.child_tasks
        line = line_of_task(task)
        nursery.cancel_scope.cancel()

    assert line.startswith(str(Path(trio.__file__).parent))


def test_a_thread_is_where_its_own_code_is() -> None:
    line = line_of_thread(threading.get_ident())

    assert line is not None
    assert line.endswith(f", in {test_a_thread_is_where_its_own_code_is.__name__}")


def test_a_thread_that_has_ended_is_nowhere() -> None:
    ended = threading.Thread(target=int)
    ended.start()
    ended.join()

    assert ended.ident is not None
    assert line_of_thread(ended.ident) is None
