"""TT-18 and TT-24: values that are not what was declared, or not the same by every route."""

from __future__ import annotations

from typing import cast

import trio

from tests.conformance.zoo.specimen import breaks, keeps
from trio_tools import ToolContext, tool


@breaks("TT-18")
@tool
async def returns_a_tuple_for_a_list() -> list[int]:
    await trio.lowlevel.checkpoint()
    return cast("list[int]", (1, 2))


@breaks("TT-18")
@tool
async def returns_nothing_when_it_is_late() -> int:
    count = None
    with trio.move_on_after(1):
        await trio.sleep(2)
        count = 1
    return cast("int", count)


@keeps("TT-18")
@tool
async def returns_a_list() -> list[int]:
    await trio.lowlevel.checkpoint()
    return [1, 2]


@keeps("TT-18")
@tool
async def may_return_nothing() -> int | None:
    with trio.move_on_after(1):
        await trio.sleep(2)
        return 1
    return None


@breaks("TT-24")
@tool
async def answers_otherwise_when_nested(ctx: ToolContext) -> str:
    await trio.lowlevel.checkpoint()
    return "root" if ctx.parent is None else "nested"


@breaks("TT-24")
@tool
async def answers_with_its_layer(ctx: ToolContext) -> str:
    await trio.lowlevel.checkpoint()
    return ctx.layer.name


@keeps("TT-24")
@tool
async def reports_progress(ctx: ToolContext) -> str:
    for done in range(3):
        ctx.progress(done, 3)
        await trio.lowlevel.checkpoint()
    return "done"


@keeps("TT-24")
@tool
async def defers_a_context(ctx: ToolContext) -> str:
    ctx.defer_context("on the side")
    await trio.lowlevel.checkpoint()
    return ctx.name
