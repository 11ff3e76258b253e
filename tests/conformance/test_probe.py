"""What a run of a tool shows: its steps, its tasks, and what was sent into them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
import trio

from trio_tools import Tool, tool
from trio_tools.conformance import Case, Kind, Mode, Profile, Way
from trio_tools.conformance._observation import Observation
from trio_tools.conformance._runner import Runner, Subject


@pytest.fixture(autouse=True)
def own_temporary_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A worker has one of its own; here, what other programs leave would be taken for the tool's.
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def observed(checked: Tool, *cases: Case) -> list[Observation]:
    found: list[Observation] = []
    runner = Runner(Subject(tool=checked, setup=None, profile=Profile()))
    runner.run(cases or (Case(kind=Kind.REFERENCE, arguments={}),), found.append)
    return found


def cancelled(step: int, mode: Mode = Mode.BLOCK, way: Way = Way.CALLER, **options: Any) -> Case:
    return Case(kind=Kind.CANCEL, arguments={}, step=step, mode=mode, way=way, **options)


@tool
async def three_steps() -> str:
    for _ in range(3):
        await trio.sleep(1)
    return "done"


def test_each_wait_is_a_step() -> None:
    (seen,) = observed(three_steps)

    assert (seen.steps, seen.resumes, seen.body) == (3, 3, "returned")
    assert [str(ending) for ending in seen.endings] == ["ok with 'done'"]
    assert seen.ended_at == 3


@pytest.mark.parametrize("way", Way)
@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("step", range(4))
def test_a_cancellation_lands_at_the_step_it_is_meant_for(way: Way, mode: Mode, step: int) -> None:
    (seen,) = observed(three_steps, cancelled(step, mode, way))

    assert seen.fired
    if (step, mode) == (0, Mode.BLOCK) and way is not Way.SIBLING:
        assert (seen.entered, seen.endings[0].settlement) == (0, "not_dispatched")
    elif (step, mode) == (3, Mode.RESUME) and way is Way.SIBLING:
        # The sibling fails in the next pass, when the last wait is over already.
        assert seen.body == "returned"
    else:
        assert (seen.body, seen.endings[0].outcome) == ("cancelled", "cancelled")
        assert seen.endings[0].code == "ABORTED"


def test_the_tasks_of_a_body_count_wherever_they_are_started() -> None:
    @tool
    async def starts_two() -> None:
        trio.lowlevel.spawn_system_task(trio.sleep, 1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 1)

    (seen,) = observed(starts_two)

    # One wait each, and the body's own for its nursery.
    assert seen.steps == 3
    assert seen.tasks == [] or seen.tasks[0][0].name.endswith("sleep")


def test_a_second_cancellation_lands_in_the_cleanup() -> None:
    reached: list[str] = []

    @tool
    async def cleans_up() -> None:
        try:
            await trio.sleep(1)
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(1)
            reached.append("behind the shield")
            await trio.sleep(1)

    (seen,) = observed(cleans_up, cancelled(1, second=(Mode.BLOCK, 2)))

    assert reached == ["behind the shield"]
    assert seen.body == "cancelled"
    assert len([delivery for delivery in seen.deliveries if delivery.ours]) == 2


def test_a_scope_of_the_tool_is_told_apart_from_the_cancellation() -> None:
    @tool
    async def has_a_limit() -> None:
        with trio.move_on_after(1):
            await trio.sleep_forever()
        await trio.sleep(1)

    (seen,) = observed(has_a_limit, cancelled(2))

    assert [delivery.ours for delivery in seen.deliveries] == [False, True]


def test_a_tool_that_ends_before_its_step_is_not_cancelled() -> None:
    (seen,) = observed(three_steps, cancelled(99))

    assert not seen.fired
    assert seen.endings[0].outcome == "ok"


def test_a_reference_run_that_never_ends_is_stopped_and_says_so() -> None:
    @tool
    async def serves_for_ever() -> None:
        await trio.sleep_forever()

    (seen,) = observed(serves_for_ever)

    assert seen.unended == "forever"
    assert seen.endings[0].outcome in {"cancelled", "interrupted"}


def test_a_def_body_takes_a_step_for_each_of_its_lines() -> None:
    @tool
    def adds_up() -> int:
        total = 0
        total += 1
        return total

    plain, stopped = observed(adds_up, Case(kind=Kind.REFERENCE, arguments={}), cancelled(2))

    assert (plain.steps, plain.body) == (3, "returned")
    assert stopped.fired_site is not None
    assert stopped.fired_site.text == "total += 1"
    assert stopped.endings[0].code == "ABORTED"


def test_cases_in_one_run_do_not_see_one_another() -> None:
    first = observed(
        three_steps, cancelled(2), cancelled(1, Mode.RESUME), Case(kind=Kind.REFERENCE, arguments={})
    )
    alone = [observed(three_steps, seen.case)[0] for seen in first]

    assert [(seen.steps, seen.ended_at, seen.endings) for seen in first] == [
        (seen.steps, seen.ended_at, seen.endings) for seen in alone
    ]
