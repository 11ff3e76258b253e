"""Many calls at once: what cancelling them costs, what one in flight weighs, and what a batch costs."""

import gc
import time
import tracemalloc
from collections.abc import Callable

import trio

from trio_tools import Registry, ToolCall, open_call_scope

from .harness import AsyncContender, timed
from .subjects import ARGUMENTS

__all__ = [
    "batch",
    "bytes_by_hand",
    "bytes_left",
    "bytes_per_call",
    "cancel_bare_tasks",
    "cancel_by_hand",
    "cancel_calls",
]


async def _cancelled(
    start: Callable[[trio.Nursery], None], cancel: Callable[[trio.Nursery], None], until_parked: int
) -> int:
    """Start what sleeps, let it come to rest, cancel it, and time from there to the end."""
    async with trio.open_nursery() as nursery:
        start(nursery)
        for _ in range(until_parked):
            await trio.lowlevel.checkpoint()
        begun = time.process_time_ns()
        cancel(nursery)
    return time.process_time_ns() - begun


# Scheduler passes until everything sleeps; more than are needed, for nobody pays for them.
_PASSES = 20


async def cancel_bare_tasks(number: int) -> int:
    """Cancel tasks that sleep, and nothing else."""

    def start(nursery: trio.Nursery) -> None:
        for _ in range(number):
            nursery.start_soon(trio.sleep_forever)

    return await _cancelled(start, lambda nursery: nursery.cancel_scope.cancel(), _PASSES)


async def _nursery_and_child() -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever)


async def cancel_by_hand(number: int) -> int:
    """Cancel tasks that each wait for a child in a nursery of their own."""

    def start(nursery: trio.Nursery) -> None:
        for _ in range(number):
            nursery.start_soon(_nursery_and_child)

    return await _cancelled(start, lambda nursery: nursery.cancel_scope.cancel(), _PASSES)


def cancel_calls(registry: Registry) -> AsyncContender:
    """Return the contender that cancels calls in flight under one scope, until all are published."""

    async def run(number: int) -> int:
        async with open_call_scope() as scope:

            def start(nursery: trio.Nursery) -> None:
                for _ in range(number):
                    nursery.start_soon(registry.execute, ToolCall(name="sleep", arguments={}, scope=scope))

            return await _cancelled(start, lambda _nursery: scope.cancel(), _PASSES)

    return run


async def _weighed(number: int, start: Callable[[trio.Nursery], None]) -> float:
    """Return the bytes that each of ``number`` things in flight holds, the task it runs in included."""
    async with trio.open_nursery() as nursery:
        gc.collect()
        tracemalloc.start()
        try:
            before, _peak = tracemalloc.get_traced_memory()
            start(nursery)
            for _ in range(_PASSES):
                await trio.lowlevel.checkpoint()
            gc.collect()
            after, _peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        nursery.cancel_scope.cancel()
    return (after - before) / number


async def bytes_per_call(registry: Registry, number: int) -> float:
    """Return what one call in flight weighs, and the task that executes it."""
    async with open_call_scope() as scope:

        def start(nursery: trio.Nursery) -> None:
            for _ in range(number):
                nursery.start_soon(registry.execute, ToolCall(name="sleep", arguments={}, scope=scope))

        return await _weighed(number, start)


async def bytes_by_hand(number: int) -> float:
    """Return what a task with a nursery and a child in it weighs."""

    def start(nursery: trio.Nursery) -> None:
        for _ in range(number):
            nursery.start_soon(_nursery_and_child)

    return await _weighed(number, start)


def batch(registry: Registry, name: str) -> AsyncContender:
    """Return the contender that executes calls of one tool as one batch, ten at a time."""

    async def run(repeat: int) -> int:
        async with open_call_scope() as scope:

            async def work() -> None:
                calls = [ToolCall(name=name, arguments=ARGUMENTS[name], scope=scope) for _ in range(repeat)]
                await registry.execute_batch(calls)

            return await timed(work)

    return run


async def bytes_left(registry: Registry, number: int) -> float:
    """Return what each of ``number`` calls leaves behind once it has ended, while its scope is still open."""
    async with open_call_scope() as scope:

        async def work() -> None:
            for _ in range(number):
                await registry.execute(ToolCall(name="add", arguments=ARGUMENTS["add"], scope=scope))

        await work()
        gc.collect()
        tracemalloc.start()
        try:
            await work()
            gc.collect()
            before, _peak = tracemalloc.get_traced_memory()
            await work()
            gc.collect()
            after, _peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    return (after - before) / number
