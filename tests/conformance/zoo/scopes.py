"""TT-12 and TT-13: scopes that are left open, misnested, or yielded from."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import ExitStack, aclosing, asynccontextmanager

import trio

from tests.conformance.zoo.specimen import breaks, keeps
from trio_tools import tool


@breaks("TT-12")
@tool
async def leaves_a_scope_open() -> str:
    trio.CancelScope().__enter__()
    await trio.lowlevel.checkpoint()
    return "done"


@breaks("TT-12")
@tool
async def closes_its_scopes_in_the_wrong_order() -> str:
    outer, inner = trio.CancelScope(), trio.CancelScope()
    outer.__enter__()
    inner.__enter__()
    await trio.lowlevel.checkpoint()
    outer.__exit__(None, None, None)
    inner.__exit__(None, None, None)
    return "done"


@keeps("TT-12")
@tool
async def closes_its_scopes() -> str:
    with trio.CancelScope(), trio.CancelScope():
        await trio.lowlevel.checkpoint()
    return "done"


@keeps("TT-12")
@tool
async def keeps_its_scopes_on_a_stack() -> str:
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(trio.CancelScope())
        await trio.lowlevel.checkpoint()
    return "done"


async def yields_in_a_time_limit() -> AsyncGenerator[int]:
    with trio.move_on_after(10):
        for item in range(3):
            await trio.lowlevel.checkpoint()
            yield item


async def yields_in_a_deadline() -> AsyncGenerator[int]:
    with trio.fail_after(10):
        for item in range(3):
            yield item
            await trio.lowlevel.checkpoint()


async def yields_after_a_time_limit() -> AsyncGenerator[int]:
    for item in range(3):
        with trio.move_on_after(10):
            await trio.lowlevel.checkpoint()
        yield item


@breaks("TT-13")
@tool
async def reads_from_a_generator_with_a_time_limit() -> int:
    total = 0
    async with aclosing(yields_in_a_time_limit()) as items:
        async for item in items:
            await trio.lowlevel.checkpoint()
            total += item
    return total


@breaks("TT-13")
@tool
async def reads_from_a_generator_with_a_deadline() -> int:
    total = 0
    async with aclosing(yields_in_a_deadline()) as items:
        async for item in items:
            await trio.lowlevel.checkpoint()
            total += item
    return total


@keeps("TT-13")
@tool
async def reads_from_a_generator_that_closes_first() -> int:
    total = 0
    async with aclosing(yields_after_a_time_limit()) as items:
        async for item in items:
            await trio.lowlevel.checkpoint()
            total += item
    return total


@asynccontextmanager
async def background() -> AsyncGenerator[trio.Nursery]:
    async with trio.open_nursery() as nursery:
        yield nursery
        nursery.cancel_scope.cancel()


@keeps("TT-13")
@tool
async def uses_a_context_manager_made_of_a_generator() -> str:
    async with background() as nursery:
        nursery.start_soon(trio.sleep_forever)
        await trio.sleep(1)
    return "done"
