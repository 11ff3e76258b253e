"""Virtual time jumps over nothing but waiting."""

from __future__ import annotations

import math
import time

import trio
import trio.testing

from trio_tools.conformance._clock import VirtualClock, busy_threads


class StrandedError(Exception):
    pass


def run(main: object, clock: VirtualClock) -> object:
    async def watched() -> object:
        await trio.lowlevel.checkpoint()
        clock.watch_from_here()
        return await main()  # type: ignore[operator]

    return trio.run(watched, clock=clock, instruments=[_Steps(clock)])


class _Steps(trio.abc.Instrument):
    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.clock.ran = True


def test_a_sleep_takes_no_real_time_and_exact_virtual_time() -> None:
    clock = VirtualClock()
    real = time.perf_counter()

    async def main() -> float:
        await trio.sleep(3_000)
        return trio.current_time()

    assert run(main, clock) == 3_000
    assert time.perf_counter() - real < 30
    assert not clock.moved


def test_the_clock_does_not_jump_while_a_thread_works() -> None:
    # Case 35.
    clock = VirtualClock()

    async def main() -> bool:
        with trio.move_on_after(60) as scope:
            await trio.to_thread.run_sync(time.sleep, 0.05)
        return scope.cancelled_caught

    assert run(main, clock) is False
    assert clock.moved
    assert clock.now < 30


def test_the_clock_does_not_jump_while_a_descriptor_is_awaited() -> None:
    clock = VirtualClock()

    async def main() -> bytes:
        one, other = trio.socket.socketpair()
        with one, other, trio.fail_after(60):

            async def answer() -> None:
                await trio.to_thread.run_sync(time.sleep, 0.02)
                await other.send(b"answer")

            async with trio.open_nursery() as nursery:
                nursery.start_soon(answer)
                return await one.recv(100)

    assert run(main, clock) == b"answer"
    assert clock.now < 30


def test_an_idle_thread_of_the_cache_is_not_busy() -> None:
    clock = VirtualClock()

    async def main() -> float:
        await trio.to_thread.run_sync(int)
        await trio.sleep(100)
        return trio.current_time()

    assert run(main, clock) >= 100  # type: ignore[operator]
    assert busy_threads() == []


def test_a_wait_for_nothing_is_told_rather_than_waited_for() -> None:
    clock = VirtualClock()
    told: list[str] = []
    scope = trio.CancelScope()

    def stranded(why: str) -> None:
        told.append(why)
        scope.cancel()

    clock.stranded = stranded

    async def main() -> None:
        with scope:
            await trio.sleep_forever()

    run(main, clock)

    assert told == ["forever"]


def test_a_deadline_behind_the_horizon_is_told() -> None:
    clock = VirtualClock()
    clock.horizon = 50
    told: list[str] = []

    def stranded(why: str) -> None:
        told.append(why)
        clock.horizon = math.inf

    clock.stranded = stranded

    async def main() -> None:
        await trio.sleep(49)
        await trio.sleep(10)

    run(main, clock)

    assert told == ["time"]


def test_waiting_until_all_tasks_are_blocked_still_works() -> None:
    clock = VirtualClock()

    async def main() -> float:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        return trio.current_time()

    assert run(main, clock) == 0
