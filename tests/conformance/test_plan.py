"""Which runs a tool gets."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from trio_tools import Effect, Tool, tool
from trio_tools.conformance import Case, Kind, Mode, Profile, Way
from trio_tools.conformance._plan import Reference, first_wave, references, sampled, second_wave
from trio_tools.conformance._runner import Subject


@tool
async def plain() -> None:
    await trio.lowlevel.checkpoint()


@tool(timeout=1, effect=Effect.IDEMPOTENT_WRITE, concurrency_safe=True)
async def claims_all() -> None:
    await trio.lowlevel.checkpoint()


def subject(checked: Tool, **limits: Any) -> Subject:
    return Subject(tool=checked, setup=dict, profile=Profile(**limits))


def reference(steps: int, resumes: int, *choices: int) -> Reference:
    return Reference(arguments={}, steps=steps, resumes=resumes, choices=choices)


@given(st.integers(0, 20), st.integers(0, 20))
def test_every_place_is_cancelled_in_every_way(steps: int, resumes: int) -> None:
    cases = first_wave(subject(plain), [reference(steps, resumes)], seed=0)
    swept = {(case.mode, case.step, case.way) for case in cases if case.kind is Kind.CANCEL}

    assert swept == {
        (mode, step, way)
        for mode, last in ((Mode.BLOCK, steps), (Mode.RESUME, resumes))
        for step in range(last + 1)
        for way in Way
    }


def test_what_a_tool_does_not_claim_is_not_tried() -> None:
    kinds = {case.kind for case in first_wave(subject(plain), [reference(2, 2)], seed=0)}
    claimed = {case.kind for case in first_wave(subject(claims_all), [reference(2, 2)], seed=0)}

    assert kinds == {Kind.CANCEL, Kind.ROUTES}
    assert claimed == set(Kind) - {Kind.REFERENCE}


def test_orders_are_tried_one_departure_first_and_up_to_the_bound() -> None:
    cases = first_wave(subject(plain, max_schedules=7), [reference(1, 1, 2, 3, 2)], seed=0)
    orders = [case.deviations for case in cases if case.kind is Kind.REFERENCE]

    assert orders[:4] == [((0, 1),), ((1, 1),), ((1, 2),), ((2, 1),)]
    assert all(len(order) == 2 for order in orders[4:])
    assert len(orders) == len(set(orders)) == 7


@pytest.mark.parametrize("way", Way)
def test_a_second_cancellation_is_tried_at_each_step_of_a_cleanup(way: Way) -> None:
    case = Case(kind=Kind.CANCEL, arguments={}, way=way, step=2, mode=Mode.BLOCK)
    answer = {"n": 4, "r": 5, "fs": 2, "fr": 3}

    assert [again.second for again in second_wave(subject(plain), [case], [answer])] == [
        (Mode.BLOCK, 3),
        (Mode.BLOCK, 4),
        (Mode.RESUME, 4),
        (Mode.RESUME, 5),
    ]
    assert second_wave(subject(plain, second_cancels=False), [case], [answer]) == []


@given(st.integers(0, 60), st.integers())
def test_a_sample_is_of_the_size_asked_for_in_order_and_keeps_each_kind(most: int, seed: int) -> None:
    cases = first_wave(subject(claims_all), [reference(3, 3)], seed=0)
    chosen, complete = sampled(cases, most, seed=seed)

    assert len(chosen) == min(most, len(cases))
    assert complete == (most >= len(cases))
    assert [case for case in cases if case in chosen] == chosen
    if most >= 8:
        assert {case.kind for case in chosen} == {case.kind for case in cases}


def test_the_references_come_first_one_for_each_arguments_object() -> None:
    assert references([{"a": 1}, {"a": 2}]) == [
        Case(kind=Kind.REFERENCE, arguments={"a": 1}),
        Case(kind=Kind.REFERENCE, arguments={"a": 2}),
    ]
