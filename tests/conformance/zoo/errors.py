"""TT-16 and TT-17: errors that are lost, and timeouts that are somebody else's."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

import trio
import trio.testing

from tests.conformance.zoo.specimen import breaks, keeps
from trio_tools import tool


@breaks("TT-16")
@tool
async def waits_in_finally() -> None:
    try:
        raise ConnectionError("refused")
    finally:
        await trio.sleep(0.1)


@breaks("TT-16")
@tool
async def waits_before_it_raises_again() -> None:
    try:
        await trio.lowlevel.checkpoint()
        raise ConnectionError("refused")
    except ConnectionError:
        await trio.sleep(0.1)
        raise


@breaks("TT-16")
@tool
async def waits_in_what_is_on_its_exit_stack() -> None:
    async with AsyncExitStack() as stack:
        stack.push_async_callback(trio.sleep, 0.1)
        raise ConnectionError("refused")


@keeps("TT-16")
@tool
async def closes_a_stream_on_its_exit_stack() -> None:
    near, far = trio.testing.memory_stream_pair()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(near)
        await stack.enter_async_context(far)
        raise ConnectionError("refused")


@keeps("TT-16")
@tool
async def waits_in_finally_behind_a_shield() -> None:
    try:
        raise ConnectionError("refused")
    finally:
        with trio.move_on_after(1, shield=True):
            await trio.sleep(0.1)


@keeps("TT-16")
@tool
async def tries_three_times() -> None:
    for attempt in range(3):
        try:
            raise ConnectionError("refused")
        except ConnectionError:
            if attempt == 2:
                raise
            await trio.sleep(0.1)


@breaks("TT-17")
@tool
async def calls_every_cancellation_a_timeout() -> str:
    try:
        await trio.sleep(1)
    except trio.Cancelled:  # noqa: ASYNC103
        raise TimeoutError("took too long") from None  # noqa: ASYNC104
    return "done"


@asynccontextmanager
async def time_limit(seconds: float) -> AsyncGenerator[None]:
    scope = trio.CancelScope(deadline=trio.current_time() + seconds)
    try:
        with scope:
            yield
    except BaseException as error:  # noqa: ASYNC103
        raise trio.TooSlowError from error  # noqa: ASYNC104


@breaks("TT-17")
@tool
async def has_a_time_limit_that_takes_the_blame() -> str:
    async with time_limit(5):
        await trio.sleep(1)
    return "done"


@keeps("TT-17")
@tool
async def is_too_slow_by_its_own_clock() -> str:
    with trio.fail_after(0.5):
        await trio.sleep(2)
    return "done"


@keeps("TT-17")
@tool
async def asks_its_own_scope() -> str:
    with trio.move_on_after(0.5) as scope:
        await trio.sleep(2)
    if scope.cancelled_caught:
        raise TimeoutError("took too long")
    return "done"
