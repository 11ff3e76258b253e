"""Tools that use trio the way trio is meant to be used are clean, whatever they use."""

from __future__ import annotations

import math
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio

from trio_tools import Effect, Tool, ToolContext, ToolError, tool
from trio_tools.conformance import Profile, check_tool

pytestmark = pytest.mark.slow

TOOLS: list[Tool] = []


def fine(each: Tool) -> Tool:
    TOOLS.append(each)
    return each


@fine
@tool(concurrency_safe=True, effect=Effect.READ_ONLY)
async def takes_the_first_answer() -> int:
    send, receive = trio.open_memory_channel[int](0)

    async def ask(seconds: int) -> None:
        await trio.sleep(seconds)
        await send.send(seconds)

    async with trio.open_nursery() as nursery:
        for seconds in (3, 1, 2):
            nursery.start_soon(ask, seconds)
        first = await receive.receive()
        nursery.cancel_scope.cancel()
    return first


@fine
@tool
async def passes_items_through_a_channel() -> list[int]:
    send, receive = trio.open_memory_channel[int](1)
    got: list[int] = []

    async def produce() -> None:
        async with send:
            for item in range(4):
                await send.send(item)

    async with trio.open_nursery() as nursery, receive:
        nursery.start_soon(produce)
        async for item in receive:
            got.append(item)  # noqa: PERF401
    return got


@trio.as_safe_channel
async def ticks() -> AsyncGenerator[int]:
    with trio.move_on_after(3.5):
        for tick in range(10):
            await trio.sleep(1)
            yield tick


@fine
@tool
async def reads_a_safe_channel() -> int:
    total = 0
    async with ticks() as channel:
        async for tick in channel:
            total += tick
    return total


@asynccontextmanager
async def connection() -> AsyncGenerator[trio.Lock]:
    lock = trio.Lock()
    await trio.sleep(0.1)
    try:
        yield lock
    finally:
        with trio.move_on_after(1, shield=True):
            await trio.sleep(0.1)


@fine
@tool(timeout=5)
async def works_under_a_lock_on_a_connection() -> str:
    async with connection() as lock, lock:
        await trio.sleep(1)
    return "done"


@fine
@tool
async def limits_how_many_run_at_once() -> int:
    limiter = trio.CapacityLimiter(2)
    done: list[int] = []

    async def one(number: int) -> None:
        async with limiter:
            await trio.sleep(1)
            done.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(one, number)
    return len(done)


@fine
@tool
async def starts_a_service_and_uses_it() -> str:
    async def serve(task_status: trio.TaskStatus[str]) -> None:
        await trio.sleep(0.5)
        task_status.started("ready")
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        said = await nursery.start(serve)
        nursery.cancel_scope.cancel()
    return said


@fine
@tool
async def retries_with_a_pause() -> int:
    for attempt in range(3):
        try:
            with trio.fail_after(1):
                await trio.sleep(2 - attempt)
        except trio.TooSlowError:
            await trio.sleep(0.1 * 2**attempt)
        else:
            return attempt
    raise ToolError("it is always late", code="LATE")


@fine
@tool
async def waits_on_a_condition() -> str:
    condition = trio.Condition()
    ready: list[bool] = []

    async def set_ready() -> None:
        await trio.sleep(1)
        async with condition:
            ready.append(True)
            condition.notify_all()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(set_ready)
        async with condition:
            while not ready:
                await condition.wait()
    return "ready"


@fine
@tool
async def fails_with_a_group() -> None:
    async def fail(seconds: float) -> None:
        await trio.sleep(seconds)
        raise ValueError(f"after {seconds}")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(fail, 1)
        nursery.start_soon(fail, 2)


@fine
@tool
async def uses_the_context(ctx: ToolContext) -> str:
    ctx.nursery.start_soon(trio.sleep, 0.5)
    ctx.progress(1, 2, "half")
    ctx.defer_context("a note")
    await trio.sleep(1)
    if not math.isinf(ctx.scope.deadline):
        return "with a deadline"
    return "done"


@fine
@tool
async def waits_for_an_optional_answer() -> str | None:
    with trio.move_on_after(1) as scope:
        await trio.sleep_forever()
    return None if scope.cancelled_caught else "answer"


@fine
@tool
async def runs_a_command() -> str:
    done = await trio.run_process(["echo", "hello"], capture_stdout=True, stdin=subprocess.DEVNULL)
    return done.stdout.decode()


@fine
@tool
async def reads_a_file() -> int:
    async with await trio.open_file("/dev/null", "rb") as stream:
        return len(await stream.read())


@fine
@tool
def counts_in_a_thread(ctx: ToolContext) -> int:
    total = 0
    for number in range(5):
        ctx.check_cancelled()
        total += number
    return total


@pytest.mark.parametrize("each", TOOLS, ids=lambda each: each.name)
def test_a_tool_that_uses_trio_as_it_is_meant_to_be_used_is_clean(each: Tool) -> None:
    report = check_tool(each, profile=Profile(max_cases=150), seed=1)

    report.raise_for_failures()
