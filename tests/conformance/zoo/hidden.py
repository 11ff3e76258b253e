"""Defects that hide: in a thread, in a child task, behind a fork, in the first run only, by chance."""

from __future__ import annotations

import os
import random
import socket
import time
import uuid
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from types import TracebackType
from typing import Self

import trio

from tests.conformance.zoo.leaving import FEW
from tests.conformance.zoo.loop import IMPATIENT
from tests.conformance.zoo.specimen import breaks, keeps
from trio_tools import Effect, ToolContext, tool


@breaks("TT-02")
@tool
def goes_on_in_its_thread(ctx: ToolContext) -> int:
    missed = 0
    for _ in range(4):
        try:
            ctx.check_cancelled()
        except BaseException:  # noqa: BLE001
            missed += 1
    return missed


@keeps("TT-02")
@tool
def cleans_up_in_its_thread(ctx: ToolContext) -> int:
    noted: list[str] = []
    try:
        for _ in range(4):
            ctx.check_cancelled()
    except trio.Cancelled:
        noted.append("cancelled")
        raise
    return len(noted)


@breaks("TT-02")
@tool
async def has_a_child_that_finishes_its_work() -> list[str]:
    log: list[str] = []

    async def child() -> None:
        try:
            await trio.sleep(5)
        except BaseException:  # noqa: ASYNC103, BLE001
            log.append("written after all")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(child)
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    return log


@keeps("TT-02")
@tool
async def has_a_child_with_a_scope_of_its_own() -> list[str]:
    log: list[str] = []
    scope = trio.CancelScope()

    async def child() -> None:
        with scope:
            await trio.sleep_forever()
        log.append("stopped")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(child)
        await trio.sleep(1)
        scope.cancel()
    return log


@breaks("TT-03")
@tool
def says_in_its_thread_that_it_was_aborted(ctx: ToolContext) -> str:
    try:
        ctx.check_cancelled()
    except BaseException:  # noqa: BLE001
        return "aborted by the user"
    return "done"


@breaks("TT-03")
@tool
async def drops_the_cancellations_of_its_children() -> str:
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 1)
            nursery.start_soon(trio.sleep, 1)
    except* trio.Cancelled:  # noqa: ASYNC103
        pass
    return "done"


connection: list[str] = []


@breaks("TT-03")
@tool
async def gives_up_connecting_when_it_is_used_for_the_first_time() -> str:
    if not connection:
        try:
            await trio.sleep(1)
        except trio.Cancelled:  # noqa: ASYNC103
            return "no connection"
        connection.append("open")
    return connection[0]


cached: list[int] = []


@keeps("TT-03")
@tool
async def keeps_what_it_fetched_for_next_time() -> int:
    if not cached:
        await trio.sleep(1)
        cached.append(1)
    await trio.lowlevel.checkpoint()
    return cached[0]


@breaks("TT-05")
@tool
async def has_a_system_task_started_for_it() -> None:
    token = trio.lowlevel.current_trio_token()
    token.run_sync_soon(trio.lowlevel.spawn_system_task, trio.sleep_forever)
    await trio.sleep(1)


@keeps("TT-05")
@tool
async def has_a_system_task_that_ends() -> None:
    ended = trio.Event()

    async def work() -> None:
        await trio.lowlevel.checkpoint()
        ended.set()

    trio.lowlevel.current_trio_token().run_sync_soon(trio.lowlevel.spawn_system_task, work)
    with trio.CancelScope(shield=True):
        await ended.wait()


@breaks("TT-07", profile=FEW)
@tool
async def leaves_a_grandchild() -> None:
    await trio.run_process(["sh", "-c", "sleep 30 </dev/null >/dev/null 2>&1 &"])


@breaks("TT-07", profile=FEW)
@tool
async def leaves_a_daemon() -> None:
    await trio.run_process(["setsid", "-f", "sleep", "30"])


@breaks("TT-07", profile=FEW)
@tool
async def leaves_a_fork_of_itself() -> None:
    if os.fork() == 0:
        time.sleep(30)  # noqa: ASYNC251
        os._exit(0)  # pyright: ignore[reportPrivateUsage]
    await trio.sleep(1)


@breaks("TT-07", profile=FEW)
@tool
async def leaves_a_daemon_that_is_a_fork_of_itself() -> None:
    if (child := os.fork()) == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(30)  # noqa: ASYNC251
        os._exit(0)  # pyright: ignore[reportPrivateUsage]
    os.waitpid(child, 0)  # noqa: ASYNC222


@keeps("TT-07", profile=FEW)
@tool
async def awaits_a_fork_that_has_forked() -> None:
    if (child := os.fork()) == 0:
        os.setsid()
        if (grandchild := os.fork()) != 0:
            os.waitpid(grandchild, 0)  # noqa: ASYNC222
        os._exit(0)  # pyright: ignore[reportPrivateUsage]
    os.waitpid(child, 0)  # noqa: ASYNC222


@keeps("TT-07", profile=FEW)
@tool
async def runs_a_pipeline() -> str:
    done = await trio.run_process(["sh", "-c", "echo hello | cat"], capture_stdout=True)
    return done.stdout.decode()


class Pool:
    """Connections that a tool opens and the fixture closes."""

    async def __aenter__(self) -> Self:
        self.open: list[socket.socket] = []
        pool[:] = [self]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in self.open:
            each.close()
        pool.clear()


pool: list[Pool] = []


@keeps("TT-09", setup=Pool)
@tool
async def opens_a_connection_that_its_pool_owns() -> int:
    if not pool[0].open:
        pool[0].open.extend(socket.socketpair())
    await trio.lowlevel.checkpoint()
    return len(pool[0].open)


@breaks("TT-10")
@tool
async def forgets_a_file_where_all_programs_have_theirs() -> None:
    Path(f"/tmp/trio-tools-zoo-{uuid.uuid4()}").touch()  # noqa: ASYNC240
    await trio.lowlevel.checkpoint()


@keeps("TT-10")
@tool
async def removes_a_file_where_all_programs_have_theirs() -> None:
    path = Path(f"/tmp/trio-tools-zoo-{uuid.uuid4()}")
    path.touch()  # noqa: ASYNC240
    try:
        await trio.lowlevel.checkpoint()
    finally:
        path.unlink()  # noqa: ASYNC240


@breaks("TT-12")
@tool
async def has_a_child_that_leaves_a_scope_open() -> None:
    async def child() -> None:
        trio.CancelScope().__enter__()
        await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(child)


@keeps("TT-12")
@tool
async def has_a_service_that_starts_within_a_scope() -> str:
    async def serve(task_status: trio.TaskStatus[str]) -> None:
        with trio.CancelScope(), trio.move_on_after(100):
            await trio.sleep(1)
            task_status.started("ready")
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        said = await nursery.start(serve)
        nursery.cancel_scope.cancel()
    return said


async def yields_in_a_nursery() -> AsyncGenerator[int]:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep, 1)
        yield 1
        yield 2


@breaks("TT-13")
@tool
async def reads_without_a_pause_from_a_generator_with_a_nursery() -> int:
    total = 0
    async with aclosing(yields_in_a_nursery()) as items:
        async for item in items:
            total += item
    return total


async def yields_with_a_stack() -> AsyncGenerator[int]:
    async with AsyncExitStack() as stack:
        stack.enter_context(trio.move_on_after(10))
        yield 1
        await trio.lowlevel.checkpoint()


@breaks("TT-13")
@tool
async def reads_from_a_generator_with_a_scope_on_its_stack() -> int:
    total = 0
    async with aclosing(yields_with_a_stack()) as items:
        async for item in items:
            await trio.lowlevel.checkpoint()
            total += item
    return total


@breaks("TT-14", profile=IMPATIENT)
@tool
async def has_the_loop_held_for_it() -> None:
    trio.lowlevel.current_trio_token().run_sync_soon(time.sleep, 0.03)
    await trio.sleep(1)


class Live:
    """A world whose snapshot is its state itself."""

    def __enter__(self) -> Self:
        self.rows: dict[str, int] = {}
        self.locks = trio.Lock(), trio.Lock()
        live[:] = [self]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        live.clear()

    def snapshot(self) -> object:
        return self.rows


live: list[Live] = []


@keeps("TT-19", setup=Live)
@tool(effect=Effect.IDEMPOTENT_WRITE)
async def writes_the_time_of_the_first_write() -> None:
    await trio.lowlevel.checkpoint()
    live[0].rows.setdefault("written", time.time_ns())


@breaks("TT-20", setup=Live)
@tool(effect=Effect.READ_ONLY)
async def changes_what_the_snapshot_shows() -> None:
    await trio.lowlevel.checkpoint()
    live[0].rows["changed"] = 1


@breaks("TT-21", setup=Live, arguments=[{"first": 0}, {"first": 1}])
@tool(concurrency_safe=True)
async def locks_in_the_order_it_is_told(first: int) -> None:
    async with live[0].locks[first]:
        await trio.lowlevel.checkpoint()
        async with live[0].locks[1 - first]:
            await trio.lowlevel.checkpoint()


@keeps("TT-21", setup=Live, arguments=[{"first": 0}, {"first": 1}])
@tool(concurrency_safe=True)
async def locks_in_one_order(first: int) -> int:
    async with live[0].locks[0]:
        await trio.lowlevel.checkpoint()
        async with live[0].locks[1]:
            await trio.lowlevel.checkpoint()
    return first


@keeps("TT-21")
@tool(concurrency_safe=True)
async def draws_a_number() -> float:
    await trio.lowlevel.checkpoint()
    return random.random()


@keeps("TT-24")
@tool
async def makes_up_a_name() -> str:
    await trio.lowlevel.checkpoint()
    return uuid.uuid4().hex
