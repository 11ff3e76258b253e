"""TT-05 to TT-11: what a call leaves behind."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import trio

from tests.conformance.zoo.specimen import breaks, keeps
from trio_tools import ToolContext, tool
from trio_tools.conformance import Profile

FEW = Profile(max_cases=24, second_cancels=False)

kept: list[object] = []


@breaks("TT-05")
@tool
async def starts_a_system_task() -> None:
    trio.lowlevel.spawn_system_task(trio.sleep_forever)
    await trio.lowlevel.checkpoint()


foreign: list[trio.Nursery] = []


@asynccontextmanager
async def foreign_nursery() -> AsyncGenerator[None]:
    async with trio.open_nursery() as nursery:
        foreign[:] = [nursery]
        yield
        nursery.cancel_scope.cancel()


@breaks("TT-05", setup=foreign_nursery)
@tool
async def starts_a_task_in_a_foreign_nursery() -> None:
    foreign[0].start_soon(trio.sleep_forever)
    await trio.lowlevel.checkpoint()


@keeps("TT-05")
@tool
async def starts_a_task_in_its_own_nursery() -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever)
        await trio.sleep(1)
        nursery.cancel_scope.cancel()


@keeps("TT-05")
@tool
async def starts_a_task_in_the_nursery_of_the_call(ctx: ToolContext) -> None:
    ctx.nursery.start_soon(trio.sleep, 2)
    await trio.sleep(1)


def nap() -> None:
    time.sleep(0.03)


@breaks("TT-06", profile=FEW)
@tool
async def abandons_its_thread() -> None:
    await trio.to_thread.run_sync(nap, abandon_on_cancel=True)


@breaks("TT-06", profile=FEW)
@tool
async def starts_a_thread_and_returns() -> None:
    threading.Thread(target=nap, daemon=True).start()
    await trio.lowlevel.checkpoint()


@keeps("TT-06", profile=FEW)
@tool
async def waits_for_its_thread() -> None:
    await trio.to_thread.run_sync(nap)


@keeps("TT-06", profile=FEW)
@tool
async def joins_its_thread() -> None:
    thread = threading.Thread(target=nap, daemon=True)
    thread.start()
    with trio.CancelScope(shield=True):
        await trio.to_thread.run_sync(thread.join)


@breaks("TT-07", profile=FEW)
@tool
async def leaves_a_process_running() -> None:
    kept.append(
        subprocess.Popen(  # noqa: ASYNC220
            ["sleep", "30"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    )
    await trio.lowlevel.checkpoint()


@breaks("TT-07", profile=FEW)
@tool
async def does_not_wait_for_its_process() -> None:
    process = subprocess.Popen(  # noqa: ASYNC220
        ["sleep", "30"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    process.kill()
    kept.append(process)
    await trio.lowlevel.checkpoint()


@keeps("TT-07", profile=FEW)
@tool
async def runs_a_process_to_its_end() -> int:
    done = await trio.run_process(["true"])
    return done.returncode


@keeps("TT-07", profile=FEW)
@tool
async def kills_and_awaits_its_process() -> None:
    process = await trio.lowlevel.open_process(["sleep", "30"])
    try:
        await trio.lowlevel.checkpoint()
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()


@breaks("TT-08")
@tool
async def keeps_a_file_open() -> None:
    kept.append(Path(os.devnull).open())  # noqa: ASYNC230, SIM115
    await trio.lowlevel.checkpoint()


@breaks("TT-08")
@tool
async def leaves_closing_to_the_garbage_collector() -> int:
    content = Path(os.devnull).open().read()  # noqa: ASYNC230, SIM115
    await trio.lowlevel.checkpoint()
    return len(content)


@breaks("TT-08")
@tool
async def closes_its_pipe_only_if_all_goes_well() -> None:
    one, other = os.pipe()
    await trio.sleep(1)
    os.close(one)
    os.close(other)


@keeps("TT-08")
@tool
async def closes_its_file() -> None:
    with Path(os.devnull).open():  # noqa: ASYNC230
        await trio.sleep(1)


@keeps("TT-08")
@tool
async def closes_its_pipe_whatever_happens() -> None:
    one, other = os.pipe()
    try:
        await trio.sleep(1)
    finally:
        os.close(one)
        os.close(other)


@breaks("TT-09")
@tool
async def keeps_a_socket_open() -> None:
    kept.append(socket.socket())
    await trio.lowlevel.checkpoint()


@breaks("TT-09")
@tool
async def closes_its_sockets_only_if_all_goes_well() -> None:
    one, other = trio.socket.socketpair()
    await trio.sleep(1)
    one.close()
    other.close()
    kept.extend((one, other))


@keeps("TT-09")
@tool
async def closes_its_socket() -> None:
    with trio.socket.socket():
        await trio.sleep(1)


@keeps("TT-09")
@tool
async def talks_to_itself_and_closes() -> str:
    one, other = trio.socket.socketpair()
    with one, other:
        await one.send(b"hello")
        return (await other.recv(100)).decode()


@breaks("TT-10")
@tool
async def forgets_its_temporary_file() -> None:
    descriptor, _ = tempfile.mkstemp()
    os.close(descriptor)
    await trio.lowlevel.checkpoint()


@breaks("TT-10")
@tool
async def removes_its_directory_only_if_all_goes_well() -> None:
    path = tempfile.mkdtemp()
    await trio.sleep(1)
    shutil.rmtree(path)


@keeps("TT-10")
@tool
async def removes_its_directory() -> None:
    with tempfile.TemporaryDirectory():
        await trio.sleep(1)


@keeps("TT-10")
@tool
async def removes_its_file_whatever_happens() -> None:
    descriptor, name = tempfile.mkstemp()
    os.close(descriptor)
    try:
        await trio.sleep(1)
    finally:
        Path(name).unlink()  # noqa: ASYNC240


async def ticks() -> AsyncGenerator[int]:
    for tick in range(5):
        await trio.sleep(1)
        yield tick


@breaks("TT-11")
@tool
async def breaks_out_of_a_generator() -> int:
    async for tick in ticks():
        if tick == 2:
            break
    return 2


@breaks("TT-11")
@tool
async def takes_one_step_of_a_generator() -> int:
    source = ticks()
    return await anext(source)


@keeps("TT-11")
@tool
async def closes_the_generator_it_breaks_out_of() -> int:
    async with aclosing(ticks()) as source:
        async for tick in source:
            if tick == 2:
                break
    return 2


@keeps("TT-11")
@tool
async def runs_a_generator_to_its_end() -> list[int]:
    return [tick async for tick in ticks()]
