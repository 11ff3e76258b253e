"""TT-14 and TT-15: holding the loop, and keeping it busy afterwards."""

from __future__ import annotations

import time

import trio

from tests.conformance.zoo.specimen import breaks, keeps
from trio_tools import tool
from trio_tools.conformance import Profile

IMPATIENT = Profile(block_seconds=0.02, max_cases=12, second_cancels=False)


@breaks("TT-14", profile=IMPATIENT)
@tool
async def sleeps_on_the_loop() -> None:
    await trio.lowlevel.checkpoint()
    time.sleep(0.03)  # noqa: ASYNC251
    await trio.lowlevel.checkpoint()


@breaks("TT-14", profile=IMPATIENT)
@tool
async def computes_on_the_loop() -> int:
    await trio.lowlevel.checkpoint()
    end = time.perf_counter() + 0.03
    rounds = 0
    while time.perf_counter() < end:
        rounds += 1
    return min(rounds, 1)


@keeps("TT-14", profile=Profile(max_cases=12, second_cancels=False))
@tool
async def sleeps_in_a_thread() -> None:
    await trio.to_thread.run_sync(time.sleep, 0.03)


@keeps("TT-14")
@tool
async def computes_a_little_at_a_time() -> int:
    total = 0
    for number in range(5):
        total += sum(range(number * 100))
        await trio.lowlevel.checkpoint()
    return total


@breaks("TT-15")
@tool
async def keeps_calling_itself() -> None:
    token = trio.lowlevel.current_trio_token()

    def again() -> None:
        token.run_sync_soon(again)

    again()
    await trio.lowlevel.checkpoint()


@breaks("TT-15")
@tool
async def polls_for_ever_once_it_is_cancelled() -> None:
    token = trio.lowlevel.current_trio_token()

    def ping() -> None:
        token.run_sync_soon(pong)

    def pong() -> None:
        token.run_sync_soon(ping)

    try:
        await trio.sleep(1)
    except trio.Cancelled:
        ping()
        raise


@keeps("TT-15")
@tool
async def calls_itself_three_times() -> None:
    token = trio.lowlevel.current_trio_token()
    called = trio.Event()

    def again(left: int) -> None:
        if left:
            token.run_sync_soon(again, left - 1)
        else:
            called.set()

    again(3)
    with trio.CancelScope(shield=True):
        await called.wait()


@keeps("TT-15")
@tool
async def polls_until_it_is_cancelled() -> int:
    polls = 0
    with trio.move_on_after(5):
        while True:
            await trio.sleep(1)
            polls += 1
    return polls
