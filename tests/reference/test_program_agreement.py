"""The model against trio: random programs, many schedules."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from trio_tools.reference import (
    Cancel,
    Catch,
    Checkpoint,
    Emit,
    Nursery,
    Order,
    Program,
    SchedulePoint,
    Scope,
    SetShield,
    StartSoon,
    allowed,
    run,
)
from trio_tools.reference._generate import ALL, Grammar, draw_program
from trio_tools.reference.strategies import programs


@given(program=programs(Grammar(kinds=ALL - {SetShield})), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=100)
def test_what_trio_does_is_permitted_whoever_draws_the_program(program: Program, seed: int) -> None:
    assert run(program, seed=seed, interleaving=True) in allowed(program, interleaving=True)


def test_what_trio_does_is_always_permitted() -> None:
    rng = random.Random(20)
    grammar = Grammar(size=18, tasks=5)
    wrong: list[str] = []
    for seed in range(1200):
        program = draw_program(lambda most: rng.randint(0, most), grammar)
        outcome = run(program, "trio", seed=seed, interleaving=True)
        if outcome not in allowed(program, interleaving=True):
            wrong.append(repr(program))

    assert wrong == []


def test_what_is_permitted_is_what_trio_does_under_some_schedule() -> None:
    """The other direction: a model that permits too much would pass the first test for ever."""
    rng = random.Random(21)
    unreached: list[str] = []
    choices = 0
    for _ in range(300):
        program = draw_program(lambda most: rng.randint(0, most), Grammar(size=14, tasks=3))
        permitted = set(allowed(program, interleaving=True))
        seen = {run(program, "trio", interleaving=True)}
        seed = 0
        while seen != permitted and seed < 300:
            seed += 1
            seen.add(run(program, "trio", seed=seed, interleaving=True))
        choices += len(permitted) > 1
        if seen != permitted:
            unreached.append(repr(program))

    assert choices > 20
    assert unreached == []


def test_a_cancelled_checkpoint_takes_two_passes_and_freedom_does_not_count_them() -> None:
    program = Program(
        Nursery(
            "n",
            StartSoon("n", Scope("s", Cancel("s"), Catch("cancelled", (Checkpoint(),), (Emit("third"),)))),
            StartSoon("n", SchedulePoint(), Emit("second")),
        )
    )
    by_passes = allowed(program, interleaving=True)
    freely = allowed(program, order=Order.FREE, interleaving=True)
    on_trio = {run(program, seed=seed, interleaving=True) for seed in range(10)}

    assert {outcome.interleaving for outcome in by_passes} == {(2, 1)}
    assert {outcome.interleaving for outcome in freely} == {(1, 2), (2, 1)}
    assert on_trio == by_passes


def test_passes_are_one_of_the_orders_that_freedom_allows() -> None:
    rng = random.Random(22)
    for _ in range(300):
        program = draw_program(lambda most: rng.randint(0, most), Grammar(size=12, tasks=3))

        assert allowed(program, order=Order.PASSES) <= allowed(program, order=Order.FREE)
