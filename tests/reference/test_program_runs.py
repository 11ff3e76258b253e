"""Programs on real backends: the seeded schedule, the virtual loop, and what cannot be expressed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
import trio
from trio._core import _run

from trio_tools.reference import (
    Backend,
    Cancel,
    Cancelled,
    CancelPoint,
    Catch,
    Emit,
    Event,
    Failed,
    Group,
    MoveDeadline,
    NotExpressible,
    Nursery,
    Op,
    Program,
    Raise,
    Returned,
    ScheduleError,
    SchedulePoint,
    Scope,
    ScopeFlags,
    SetShield,
    Sleep,
    Start,
    Started,
    StartSoon,
    allowed,
    run,
)
from trio_tools.reference._plain_asyncio import AsyncioExecution
from trio_tools.reference._schedule import check_schedule_hooks, seeded_schedule
from trio_tools.reference._virtual_loop import StuckError, VirtualLoop

if TYPE_CHECKING:
    pass

RACE = Program(
    Nursery(
        "n",
        StartSoon("n", Emit("a")),
        StartSoon("n", Emit("b")),
        StartSoon("n", Emit("c")),
    )
)


def test_the_private_names_of_trio_are_where_they_were() -> None:
    """The canary: fails first, and alone, if a new trio orders its tasks by other means."""
    check_schedule_hooks()


@pytest.mark.parametrize(("name", "value"), [("_r", object()), ("_ALLOW_DETERMINISTIC_SCHEDULING", None)])
def test_a_trio_that_has_changed_is_told_plainly(
    name: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_run, name, value)

    with pytest.raises(ScheduleError, match="no longer orders its tasks by"):
        run(RACE)


def test_a_seed_fixes_the_order_and_seeds_reach_every_order() -> None:
    orders = {run(RACE, seed=seed, interleaving=True).interleaving for seed in range(60)}
    again = [run(RACE, seed=7, interleaving=True) for _ in range(3)]

    assert len(orders) == 6
    assert again[0] == again[1] == again[2]
    assert {outcome.interleaving for outcome in allowed(RACE, interleaving=True)} == orders


def test_the_schedule_is_given_back_as_it_was() -> None:
    names = ("_r", "_ALLOW_DETERMINISTIC_SCHEDULING")
    before = [getattr(_run, name) for name in names]
    with pytest.raises(KeyError), seeded_schedule(1):
        raise KeyError

    assert [getattr(_run, name) for name in names] == before


@pytest.mark.parametrize("backend", list(Backend))
def test_an_hour_passes_at_once_on_every_backend(backend: Backend) -> None:
    program = Program(Nursery("n", StartSoon("n", Sleep(3600), Emit("late"))), Emit("end"))
    outcome = run(program, backend)

    assert outcome.events == ((Event("end", 3600),), (Event("late", 3600),))
    assert outcome.ending == Returned()
    assert outcome.end_time == 3600


def test_a_backend_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="curio"):
        run(RACE, "curio")


@pytest.mark.parametrize(
    ("op", "reason"),
    [
        (Scope("s", shield=True), "cannot shield a block"),
        (Scope("s", SetShield("s", False)), "cannot shield a block"),
        (Nursery("n", Cancel("n")), "cannot be cancelled from outside"),
        (Nursery("n", Start("n", Started())), "no start"),
        (CancelPoint(), "no half checkpoints"),
        (SchedulePoint(), "no half checkpoints"),
    ],
)
def test_asyncio_says_what_it_has_no_words_for(op: Op, reason: str) -> None:
    with pytest.raises(NotExpressible, match=reason):
        run(Program(op), "asyncio")


def test_asyncio_cannot_tell_of_a_nursery_whether_it_was_cancelled() -> None:
    outcome = run(Program(Scope("s", Nursery("n"), Cancel("s"))), "asyncio")

    assert outcome.scopes == (ScopeFlags("s", True, False), ScopeFlags("n", None, None))


def test_asyncio_moves_deadlines_and_cancels_before_and_after_the_block() -> None:
    program = Program(
        MoveDeadline("s", 1),
        Scope("s", Sleep(5)),
        MoveDeadline("s", 9),
        Cancel("s"),
        Cancel("t"),
        Scope("t", Sleep(5), deadline=3),
        Scope("u", MoveDeadline("u", None), Sleep(5), deadline=3),
        Emit("end"),
    )
    outcome = run(program, "asyncio")

    assert outcome.events == ((Event("end", 6),),)
    assert outcome.scopes == (
        ScopeFlags("s", True, True),
        ScopeFlags("t", True, True),
        ScopeFlags("u", False, False),
    )


@pytest.mark.parametrize("backend", list(Backend))
def test_a_task_refused_by_a_closed_nursery_leaves_no_coroutine_behind(backend: Backend) -> None:
    late = StartSoon("in", Emit("no"))
    program = Program(
        Nursery("out", Nursery("in", StartSoon("out", Sleep(1), Catch("error", (late,), (Raise("late"),)))))
    )
    outcome = run(program, backend)

    assert "Failed(error='late')" in repr(outcome.ending)
    assert outcome.events == ((), (), ())


def test_the_virtual_loop_jumps_though_something_repeats_itself_for_ever() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()

        def again() -> None:
            loop.call_soon(again)

        again()
        await asyncio.sleep(60)
        return loop.time()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        assert runner.run(main()) == 60


def test_the_virtual_loop_forgets_timers_that_were_called_off() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        loop.call_later(5, print).cancel()
        await asyncio.sleep(7)
        return loop.time()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        assert runner.run(main()) == 7


def test_the_virtual_loop_waits_a_while_for_what_repeats_itself() -> None:
    async def main() -> int:
        turns = 0
        while turns < 300:
            await asyncio.sleep(0)
            turns += 1
        return turns

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        assert runner.run(main()) == 300


def test_an_asyncio_scope_that_an_error_leaves_keeps_its_flags() -> None:
    outcome = run(Program(Scope("s", Raise("x"), deadline=3)), "asyncio")

    assert outcome.ending == Failed("x")
    assert outcome.scopes == (ScopeFlags("s", False, False),)


def test_cancellation_has_a_normal_form_though_no_program_ends_with_it() -> None:
    loop = VirtualLoop()
    group = BaseExceptionGroup("", [asyncio.CancelledError(), ValueError()])

    assert AsyncioExecution(Program(), loop)._normal_form(group) == Group((Cancelled(), Failed("ValueError")))
    loop.close()


async def test_the_primitives_that_asyncio_lacks_refuse() -> None:
    execution = AsyncioExecution(Program(), VirtualLoop())

    async def child() -> None:
        raise AssertionError

    for primitive in (execution.cancel_point(), execution.schedule_point(), execution.start("n", child)):
        with pytest.raises(NotExpressible):
            await primitive
    with pytest.raises(NotExpressible):
        execution.set_shield("s", True)
    execution.loop.close()


def test_the_virtual_loop_says_that_nothing_can_wake_it() -> None:
    loop = VirtualLoop()
    with pytest.raises(StuckError, match="nothing is left"):
        loop.run_forever()
    loop.close()


def test_errors_of_the_machinery_are_known_by_their_class() -> None:
    outcome = run(Program(Nursery("n", Catch("error", (Start("n"),), (Raise("x"),)))))

    assert repr(outcome.ending) == "Group(members=(Failed(error='x'),))"
    assert run(Program(Raise("x"))).ending == Failed("x")


def test_a_run_inside_a_running_loop_is_refused_by_trio() -> None:
    async def main() -> None:
        run(RACE)

    with pytest.raises(RuntimeError, match="Attempted to call run"):
        trio.run(main)
