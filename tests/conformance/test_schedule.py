"""The order of tasks follows from the schedule, and a trio that has changed is noticed."""

from __future__ import annotations

import random

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio._core import _run  # pyright: ignore[reportPrivateUsage]

from trio_tools.conformance import ScheduleError
from trio_tools.conformance._schedule import Schedule, check_schedule_names, ordered


def order_of_four(schedule: Schedule) -> list[int]:
    seen: list[int] = []

    async def child(number: int) -> None:
        seen.append(number)
        await trio.lowlevel.checkpoint()
        seen.append(number)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for number in range(4):
                nursery.start_soon(child, number)

    with ordered(schedule):
        trio.run(main)
    return seen


def test_the_installed_trio_has_the_names_that_the_schedule_sets() -> None:
    check_schedule_names()


def test_a_trio_without_the_names_is_refused_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_run, "_r", object())

    with pytest.raises(ScheduleError, match="no longer orders its tasks"), ordered(Schedule()):
        pass


def test_the_plain_order_is_first_spawned_first() -> None:
    assert order_of_four(Schedule()) == [0, 1, 2, 3, 0, 1, 2, 3]


def test_one_departure_pulls_one_task_to_the_front() -> None:
    plain = Schedule()
    order_of_four(plain)
    first = plain.sizes.index(4)

    assert order_of_four(Schedule(((first, 2),))) == [2, 0, 1, 3, 0, 1, 2, 3]
    assert order_of_four(Schedule(((first + 1, 3),))) == [0, 1, 2, 3, 3, 0, 1, 2]


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 5)), max_size=4))
def test_every_schedule_is_a_permutation_and_the_same_twice(deviations: list[tuple[int, int]]) -> None:
    once = order_of_four(Schedule(tuple(deviations)))
    again = order_of_four(Schedule(tuple(deviations)))

    assert once == again
    assert sorted(once[:4]) == [0, 1, 2, 3]


def test_the_generator_of_trio_is_put_back() -> None:
    before = vars(_run)["_r"]
    order_of_four(Schedule())

    assert vars(_run)["_r"] is before
    assert isinstance(before, random.Random)
