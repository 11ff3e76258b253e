"""Tools that use trio the way trio is meant to be used are clean, whatever they use."""

from __future__ import annotations

import math
import subprocess
import tempfile
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from functools import partial

import pytest
import trio
from trio.testing import open_stream_to_socket_listener

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


@fine
@tool
async def shares_work_among_clones_of_a_channel() -> list[int]:
    send, receive = trio.open_memory_channel[int](2)
    got: list[int] = []

    async def work(mine: trio.MemoryReceiveChannel[int]) -> None:
        async with mine:
            async for item in mine:
                await trio.sleep(0.1)
                got.append(item)

    async with trio.open_nursery() as nursery, send, receive:
        for _ in range(3):
            nursery.start_soon(work, receive.clone())
        for item in range(6):
            await send.send(item)
        await send.aclose()
    return sorted(got)


@fine
@tool
async def keeps_its_nursery_and_its_scope_on_a_stack() -> int:
    async with AsyncExitStack() as stack:
        nursery = await stack.enter_async_context(trio.open_nursery())
        stack.enter_context(trio.move_on_after(5))
        nursery.start_soon(trio.sleep, 1)
        await trio.sleep(0.5)
    return 1


@fine
@tool
async def serves_itself_over_tcp() -> str:
    async def echo(stream: trio.SocketStream) -> None:
        async for data in stream:
            await stream.send_all(data)

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, echo, 0, host="127.0.0.1"))
        async with await open_stream_to_socket_listener(listeners[0]) as stream:
            await stream.send_all(b"hello")
            got = await stream.receive_some(10)
        nursery.cancel_scope.cancel()
    return got.decode()


@fine
@tool
async def talks_to_a_process_and_ends_it() -> str:
    process = await trio.lowlevel.open_process(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        await process.stdin.send_all(b"hello")
        return (await process.stdout.receive_some(10)).decode()
    finally:
        with trio.CancelScope(shield=True):
            process.kill()
            await process.wait()
            await process.stdin.aclose()
            await process.stdout.aclose()


@fine
@tool
async def is_called_back_from_its_thread() -> list[int]:
    got: list[int] = []

    def work() -> None:
        trio.from_thread.run(trio.sleep, 0)
        trio.from_thread.run_sync(got.append, 1)
        trio.from_thread.check_cancelled()

    await trio.to_thread.run_sync(work)
    return got


@fine
@tool
async def writes_and_reads_in_a_directory_of_its_own() -> int:
    with tempfile.TemporaryDirectory() as place:
        path = trio.Path(place) / "file"
        async with await trio.open_file(path, "w") as stream:
            await stream.write("hello")
        return len(await path.read_text())


@fine
@tool
async def borrows_on_behalf_of_another() -> int:
    limiter = trio.CapacityLimiter(1)
    await limiter.acquire_on_behalf_of("another")
    try:
        await trio.sleep(1)
    finally:
        limiter.release_on_behalf_of("another")
    return 1


@fine
@tool
async def cleans_up_by_a_clock_behind_a_shield() -> str:
    try:
        await trio.sleep(1)
    finally:
        with trio.move_on_after(2) as scope:
            scope.shield = True
            await trio.sleep(1)
    return "done"


@fine
@tool
async def reads_a_generator_that_cleans_up() -> int:
    async def source() -> AsyncGenerator[int]:
        try:
            for item in range(3):
                await trio.sleep(1)
                yield item
        finally:
            with trio.move_on_after(1, shield=True):
                await trio.sleep(0.1)

    async with aclosing(source()) as items:
        return sum([item async for item in items])


@pytest.mark.parametrize("each", TOOLS, ids=lambda each: each.name)
def test_a_tool_that_uses_trio_as_it_is_meant_to_be_used_is_clean(each: Tool) -> None:
    report = check_tool(each, profile=Profile(max_cases=150), seed=1)

    report.raise_for_failures()
