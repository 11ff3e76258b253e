# One statement per scope shows the order in which they are opened and left.
# ruff: noqa: SIM117, BLE001, PT012
"""Call scopes: whose lifetime a call has, what ends it, and what leaving the block waits for."""

from __future__ import annotations

import gc
import math
import signal
import weakref
from contextlib import suppress
from functools import partial
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.helpers import (
    GateRest,
    Proceed,
    Recorder,
    ReviewRest,
    Tripwire,
    at,
    call,
    caused_at,
    facts,
    hold_loop,
    observed,
    run,
    stray_cancelled,
)
from trio_tools import (
    Accept,
    Allow,
    Approval,
    Ask,
    CallScope,
    CancelCause,
    CauseKind,
    DispatchExecution,
    GateDecision,
    Registry,
    ReviewDecision,
    ScopeView,
    ToolCall,
    ToolContext,
    ToolExecution,
    ToolOutcome,
    ToolResult,
    open_call_scope,
    tool,
)
from trio_tools._scope import lifetime_of


@tool
async def forever() -> str:
    """Wait until cancelled."""
    await trio.sleep_forever()
    raise AssertionError


@tool
async def nap(seconds: float) -> str:
    """Sleep, and say so."""
    await trio.sleep(seconds)
    return "slept"


@tool
async def linger(seconds: float) -> str:
    """Sleep, and when cancelled clean up for five seconds."""
    try:
        await trio.sleep(seconds)
    finally:
        with trio.CancelScope(shield=True):
            await trio.sleep(5)
    return "lingered"


@pytest.mark.rule("SC-1")
@pytest.mark.parametrize("missing", [{}, {"scope": None}, {"scope": "caller"}, {"scope": open_call_scope()}])
def test_a_call_without_a_call_scope_cannot_be_made(missing: dict[str, object]) -> None:
    with pytest.raises(TypeError):
        ToolCall(name="forever", arguments={}, **missing)  # pyright: ignore[reportArgumentType, reportCallIssue]


@pytest.mark.rule("SC-1")
async def test_nothing_stands_in_for_a_call_scope(autojump_clock: MockClock) -> None:
    async with open_call_scope() as scope:
        good = call(scope, "forever")
        registry, seen = observed(forever)
        with pytest.raises(TypeError):
            ToolCall(name="x", arguments={}, scope=trio.CancelScope())  # pyright: ignore[reportArgumentType]
        with pytest.raises(TypeError):
            attrs.evolve(good, scope=None)
        scope.cancel()
        await registry.execute(good)
        with pytest.raises(TypeError):
            ToolCall(name="x", arguments={}, scope=seen.executions[0].scope)  # pyright: ignore[reportArgumentType]


@pytest.mark.rule("SC-1")
def test_a_call_scope_is_opened_and_never_constructed() -> None:
    with pytest.raises(TypeError):
        CallScope()


@pytest.mark.rule("SC-2")
async def test_one_scope_serves_calls_at_once_and_in_turn_from_any_task(autojump_clock: MockClock) -> None:
    registry, seen = observed(nap)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "nap", seconds=1))
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(registry.execute, call(scope, "nap", seconds=1))
        done = trio.Event()

        async def elsewhere() -> None:
            await registry.execute(call(scope, "nap", seconds=1))
            done.set()

        trio.lowlevel.spawn_system_task(elsewhere)
        await done.wait()
        finished = trio.current_time()

    assert finished == 3.0
    assert seen.published == ["nap: ok returned"] * 5


async def _use(what: str, scope: CallScope, registry: Registry) -> None:
    match what:
        case "cancel":
            scope.cancel()
        case "deadline":
            scope.deadline = 1.0
        case "child":
            async with scope.open_child(name="child"):
                pass
        case "execute":
            await registry.execute(call(scope, "forever"))
        case _:
            await registry.execute_batch([call(scope, "forever")])


@pytest.mark.rule("SC-2")
@pytest.mark.parametrize("what", ["cancel", "deadline", "child", "execute", "batch"])
async def test_another_run_cannot_use_a_scope(what: str) -> None:
    registry, seen = observed(forever)

    def another_run(scope: CallScope) -> None:
        with pytest.raises(RuntimeError):
            run(partial(_use, what, scope, registry))

    async with open_call_scope() as scope:
        await trio.to_thread.run_sync(another_run, scope)
        cancelled, deadline = scope.cancel_called, scope.deadline

    assert (cancelled, deadline) == (False, math.inf)
    assert seen.published == []


@pytest.mark.rule("SC-2")
async def test_a_foreign_thread_cannot_use_a_scope_by_itself() -> None:
    def in_thread(scope: CallScope) -> None:
        with pytest.raises(RuntimeError):
            scope.cancel()
        with pytest.raises(RuntimeError):
            scope.deadline = 0.0

    async with open_call_scope() as scope:
        await trio.to_thread.run_sync(in_thread, scope)
        before = scope.cancel_called
        await trio.to_thread.run_sync(lambda: trio.from_thread.run_sync(scope.cancel))
        after = scope.cancel_called

    assert (before, after) == (False, True)


def _waits_in(place: str, wire: Tripwire) -> Registry:
    """Make a registry whose calls wait on ``wire`` in one phase of their lives."""

    async def approve(_execution: ToolExecution, _reason: str | None) -> Approval:
        await wire.wait()
        return Approval.ALLOWED_ONCE

    registry = Registry(approver=approve)

    @registry.tool
    async def work() -> str:  # pyright: ignore[reportUnusedFunction]
        if place == "body":
            await wire.wait()
        return "worked"

    async def gate(_execution: ToolExecution, proceed: GateRest) -> GateDecision:
        if place == "gate":
            await wire.wait()
        return Ask() if place == "approval" else await proceed()

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        if place == "wrapper":
            await wire.wait()
        result = await proceed(execution)
        if place == "tail":
            await wire.wait()
        return result

    registry.gate(gate)
    registry.wrap(wrapper)
    return registry


@pytest.mark.rule("SC-3")
@pytest.mark.parametrize("way", ["cancel", "deadline", "parent"])
@pytest.mark.parametrize("place", ["gate", "approval", "wrapper", "body", "tail"])
async def test_a_cancellation_reaches_a_waiting_phase_in_the_same_step(
    autojump_clock: MockClock, place: str, way: str
) -> None:
    wires = [Tripwire(), Tripwire()]
    results: list[ToolResult] = []

    async def execute(wire: Tripwire, scope: CallScope) -> None:
        results.append(await _waits_in(place, wire).execute(call(scope, "work")))

    async with open_call_scope(name="parent") as parent, parent.open_child(name="child") as scope:
        async with trio.open_nursery() as nursery:
            for wire in wires:
                nursery.start_soon(execute, wire, scope)
            for wire in wires:
                await wire.waiting.wait()
            before = [wire.tripped for wire in wires]
            if way == "cancel":
                scope.cancel()
            elif way == "deadline":
                scope.deadline = trio.current_time()
            else:
                parent.cancel()
            at_once = [wire.tripped for wire in wires]

    assert before == [False, False]
    assert at_once == [True, True]
    assert [result.outcome for result in results] == [ToolOutcome.CANCELLED] * 2


@pytest.mark.rule("SC-3")
async def test_a_phase_that_does_not_wait_is_cancelled_at_its_next_checkpoint(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed()
    reached: list[str] = []
    async with open_call_scope() as scope:

        @registry.tool
        async def work() -> str:
            scope.cancel()
            reached.append("after cancel")
            await trio.lowlevel.checkpoint()
            reached.append("after checkpoint")
            return "worked"

        await registry.execute(call(scope, "work"))

    assert reached == ["after cancel"]
    assert seen.published == ["work: cancelled ABORTED cancelled caller:caller"]


@pytest.mark.rule("SC-3")
async def test_cancelling_leaves_the_block_alone(autojump_clock: MockClock) -> None:
    registry, _ = observed(forever)
    async with open_call_scope() as scope, trio.open_nursery() as nursery:
        nursery.start_soon(registry.execute, call(scope, "forever"))
        await trio.sleep(1)
        scope.cancel()
        await trio.sleep(2)
        woke = trio.current_time()
        visible = trio.current_effective_deadline()

    assert woke == 3.0
    assert visible == math.inf


@pytest.mark.rule("SC-3")
async def test_a_cancellation_does_not_interrupt_the_review(autojump_clock: MockClock) -> None:
    registry, seen = observed(nap)
    reviewed: list[float] = []
    async with open_call_scope() as scope:

        async def review(
            _execution: ToolExecution, _result: ToolResult, proceed: ReviewRest
        ) -> ReviewDecision:
            scope.cancel()
            await trio.sleep(4)
            reviewed.append(trio.current_time())
            return await proceed()

        registry.review(review)
        await registry.execute(call(scope, "nap", seconds=1))

    assert reviewed == [5.0]
    assert seen.published == ["nap: cancelled ABORTED returned caller:caller"]


@pytest.mark.rule("SC-4")
async def test_the_first_cause_stays_whatever_is_requested_or_passes_later(autojump_clock: MockClock) -> None:
    causes: list[CancelCause | None] = []
    with trio.CancelScope() as outer:
        async with open_call_scope(name="mine", timeout=5) as scope:
            await trio.sleep(1)
            scope.cancel("first")
            causes.append(scope.cause)
            await trio.sleep(1)
            scope.cancel("second")
            await trio.sleep(7)
            causes.append(scope.cause)
            outer.cancel()
            with trio.CancelScope(shield=True):
                await trio.sleep(1)
                causes.append(scope.cause)

    assert causes == [CancelCause(CauseKind.CALLER, "mine", "first", 1.0)] * 3


@pytest.mark.rule("SC-4", "SC-5", "SC-9")
@pytest.mark.parametrize("late", [0.0, 0.5])
async def test_a_deadline_that_trio_has_not_noticed_comes_before_a_cancel(
    autojump_clock: MockClock, late: float
) -> None:
    async with open_call_scope(name="mine", timeout=5) as scope:
        hold_loop(5 + late)
        scope.cancel("too late")
        cause = scope.cause

    assert cause is not None
    assert (cause.kind, cause.name, cause.reason, cause.at) == (CauseKind.DEADLINE, "mine", None, 5.0)


@pytest.mark.rule("SC-4")
async def test_a_result_carries_the_first_cause(autojump_clock: MockClock) -> None:
    registry, seen = observed(linger)
    async with open_call_scope(timeout=3) as scope, trio.open_nursery() as nursery:
        nursery.start_soon(registry.execute, call(scope, "linger", seconds=9))
        nursery.start_soon(at, 2.0, partial(scope.cancel, "first"))
        nursery.start_soon(at, 4.0, partial(scope.cancel, "second"))

    assert seen.only.cause is not None
    assert (seen.only.cause.kind, seen.only.cause.reason, seen.only.cause.at) == (
        CauseKind.CALLER,
        "first",
        2.0,
    )


@pytest.mark.rule("SC-5")
async def test_cancel_called_turns_true_at_the_deadline_to_the_instant(autojump_clock: MockClock) -> None:
    async with open_call_scope(timeout=5) as scope:
        hold_loop(4.875)
        before = scope.cancel_called
        hold_loop(0.125)
        exactly = scope.cancel_called

    assert (before, exactly) == (False, True)


@pytest.mark.rule("SC-5")
async def test_cancel_called_is_true_at_once_after_cancel(autojump_clock: MockClock) -> None:
    async with open_call_scope() as scope:
        before = scope.cancel_called, scope.cause
        scope.cancel()
        after = scope.cancel_called

    assert before == (False, None)
    assert after is True


@pytest.mark.rule("SC-5", "CA-1", "CA-11")
async def test_an_unnoticed_deadline_already_stops_the_next_call(autojump_clock: MockClock) -> None:
    registry, seen = observed(nap)
    async with open_call_scope(timeout=5) as scope:
        hold_loop(6)
        result = await registry.execute(call(scope, "nap", seconds=0))

    assert facts(result) == "cancelled ABORTED_BEFORE_DISPATCH not_dispatched deadline:caller"
    assert caused_at(result) == 5.0
    assert seen.only is result


@pytest.mark.rule("SC-6")
async def test_a_timeout_counts_from_entry(autojump_clock: MockClock) -> None:
    block = open_call_scope(timeout=5)
    hold_loop(3)
    async with block as scope:
        child_block = scope.open_child(name="child", timeout=1)
        hold_loop(1)
        async with child_block as child:
            deadlines = scope.deadline, child.deadline

    assert deadlines == (8.0, 5.0)


@pytest.mark.rule("SC-6")
async def test_a_timeout_of_zero_cancels_at_once(autojump_clock: MockClock) -> None:
    registry, seen = observed(nap)
    async with open_call_scope(timeout=0) as scope:
        cancelled = scope.cancel_called
        await registry.execute(call(scope, "nap", seconds=0))

    assert cancelled
    assert seen.published == [
        "nap: cancelled ABORTED_BEFORE_DISPATCH not_dispatched deadline:caller",
    ]


@pytest.mark.rule("SC-6")
async def test_an_infinite_timeout_is_none(autojump_clock: MockClock) -> None:
    async with open_call_scope(timeout=math.inf) as scope, open_call_scope() as default:
        hold_loop(1e12)
        deadlines = scope.deadline, default.deadline
        cancelled = scope.cancel_called, default.cancel_called

    assert deadlines == (math.inf, math.inf)
    assert cancelled == (False, False)


@pytest.mark.rule("SC-6")
@pytest.mark.parametrize("seconds", [-1, -1e-9, -math.inf, math.nan])
async def test_a_timeout_that_is_negative_or_no_number_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  (the rule names the type alone)
        async with open_call_scope(timeout=seconds):
            raise AssertionError
    async with open_call_scope() as scope:
        with pytest.raises(ValueError):  # noqa: PT011
            async with scope.open_child(name="child", timeout=seconds):
                raise AssertionError


@pytest.mark.rule("SC-7", "WR-5")
async def test_a_body_sees_each_new_deadline_at_once(autojump_clock: MockClock) -> None:
    registry, _ = observed()
    shown: list[float] = []
    async with open_call_scope(timeout=10) as parent, parent.open_child(name="child") as scope:

        @registry.tool
        async def look() -> str:
            for when in (5.0, 20.0, math.inf):
                shown.append(trio.current_effective_deadline())
                parent.deadline = when
            shown.append(trio.current_effective_deadline())
            scope.deadline = 7.0
            shown.append(trio.current_effective_deadline())
            return "looked"

        result = await registry.execute(call(scope, "look"))

    assert facts(result) == "ok returned"
    assert shown == [10.0, 5.0, 20.0, math.inf, 7.0]


@pytest.mark.rule("SC-7")
async def test_a_nearer_deadline_ends_a_running_call_sooner(autojump_clock: MockClock) -> None:
    registry, seen = observed(forever)
    async with open_call_scope(timeout=100) as scope, trio.open_nursery() as nursery:
        nursery.start_soon(registry.execute, call(scope, "forever"))
        await trio.sleep(1)
        scope.deadline = 3.0
    finished = trio.current_time()

    assert finished == 3.0
    assert facts(seen.only) == "cancelled ABORTED cancelled deadline:caller"
    assert caused_at(seen.only) == 3.0


@pytest.mark.rule("SC-7")
@pytest.mark.parametrize("later", [8.0, math.inf])
async def test_a_farther_deadline_lets_a_running_call_live(autojump_clock: MockClock, later: float) -> None:
    registry, seen = observed(nap)
    async with open_call_scope(timeout=3) as scope, trio.open_nursery() as nursery:
        nursery.start_soon(registry.execute, call(scope, "nap", seconds=5))
        await trio.sleep(1)
        scope.deadline = later

    assert seen.published == ["nap: ok returned"]


@pytest.mark.rule("SC-7")
async def test_a_deadline_that_is_not_a_number_is_refused(autojump_clock: MockClock) -> None:
    async with open_call_scope(timeout=3) as scope:
        with pytest.raises(ValueError):  # noqa: PT011
            scope.deadline = math.nan
        deadline = scope.deadline

    assert deadline == 3.0


@pytest.mark.rule("SC-8")
@pytest.mark.parametrize("late", [0.0, 1.0])
async def test_a_passed_deadline_cannot_be_moved_into_the_future(
    autojump_clock: MockClock, late: float
) -> None:
    registry, seen = observed(forever)
    async with open_call_scope(name="mine", timeout=5) as scope, trio.open_nursery() as nursery:
        nursery.start_soon(registry.execute, call(scope, "forever"))
        await wait_all_tasks_blocked()
        hold_loop(5 + late)
        scope.deadline = 100.0
        cancelled = scope.cancel_called

    assert cancelled
    assert facts(seen.only) == "cancelled ABORTED cancelled deadline:mine"
    assert caused_at(seen.only) == 5.0


@pytest.mark.rule("SC-8", "SC-15")
async def test_a_childs_share_in_a_passed_deadline_is_final_too(autojump_clock: MockClock) -> None:
    async with open_call_scope(name="parent", timeout=5) as parent, parent.open_child(name="child") as child:
        hold_loop(6)
        parent.deadline = 100.0
        cause = child.cause

    assert cause is not None
    assert (cause.name, cause.at) == ("parent", 5.0)


@pytest.mark.rule("SC-8", "SC-7")
async def test_a_deadline_set_into_the_past_cancels_with_that_time(autojump_clock: MockClock) -> None:
    async with open_call_scope() as scope:
        await trio.sleep(4)
        scope.deadline = 3.0
        cause = scope.cause

    assert cause is not None
    assert (cause.kind, cause.at) == (CauseKind.DEADLINE, 3.0)


@pytest.mark.rule("SC-9")
async def test_a_cancel_has_the_scopes_name_a_reason_and_its_time(autojump_clock: MockClock) -> None:
    registry, seen = observed(forever)
    async with open_call_scope(name="nightly") as scope, trio.open_nursery() as nursery:
        nursery.start_soon(registry.execute, call(scope, "forever"))
        nursery.start_soon(at, 2.0, partial(scope.cancel, "enough"))

    cause = seen.only.cause
    assert cause is not None
    assert (cause.kind, cause.name, cause.reason, cause.at) == (CauseKind.CALLER, "nightly", "enough", 2.0)


@pytest.mark.rule("SC-9")
async def test_a_deadline_has_the_scopes_name_and_the_deadline(autojump_clock: MockClock) -> None:
    registry, _ = observed()

    @registry.tool
    async def hog() -> str:
        hold_loop(5)
        await trio.lowlevel.checkpoint()
        return "held"

    async with open_call_scope(name="nightly", timeout=3) as scope:
        result = await registry.execute(call(scope, "hog"))

    assert facts(result) == "cancelled ABORTED cancelled deadline:nightly"
    assert (caused_at(result), result.cause and result.cause.reason) == (3.0, None)


async def _ends_under_ambient(
    seen: Recorder, registry: Registry, name: str, outer: trio.CancelScope
) -> ToolResult:
    async with open_call_scope() as scope:
        with outer:
            await registry.execute(call(scope, name))
    return seen.only


@pytest.mark.rule("SC-9")
async def test_an_ambient_deadline_is_the_time_of_the_cause(autojump_clock: MockClock) -> None:
    registry, seen = observed(forever)
    result = await _ends_under_ambient(seen, registry, "forever", trio.move_on_after(4))

    assert facts(result) == "cancelled ABORTED cancelled ambient:ambient"
    assert (caused_at(result), result.cause and result.cause.reason) == (4.0, None)


@pytest.mark.rule("SC-9")
async def test_an_ambient_deadline_passed_long_ago_is_still_the_time_of_the_cause(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed()

    @registry.tool
    async def hog() -> str:
        hold_loop(9)
        return "held"

    result = await _ends_under_ambient(seen, registry, "hog", trio.move_on_after(4))

    assert facts(result) == "cancelled ABORTED returned ambient:ambient"
    assert caused_at(result) == 4.0


@pytest.mark.rule("SC-9")
async def test_an_ambient_cancel_is_dated_when_it_is_first_observed(autojump_clock: MockClock) -> None:
    registry, seen = observed(forever)
    outer = trio.move_on_after(100)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(at, 3.0, outer.cancel)
        result = await _ends_under_ambient(seen, registry, "forever", outer)

    assert facts(result) == "cancelled ABORTED cancelled ambient:ambient"
    assert caused_at(result) == 3.0


@pytest.mark.rule("SC-9")
async def test_an_ambient_deadline_moved_after_it_was_read_is_dated_by_observation(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed(forever)
    outer = trio.move_on_after(10)

    def move() -> None:
        outer.deadline = 3.0

    async with trio.open_nursery() as nursery:
        nursery.start_soon(at, 2.0, move)
        result = await _ends_under_ambient(seen, registry, "forever", outer)

    assert facts(result) == "cancelled ABORTED cancelled ambient:ambient"
    assert caused_at(result) == 3.0


@pytest.mark.rule("SC-10")
async def test_leaving_the_block_waits_for_every_call_and_cancels_none(autojump_clock: MockClock) -> None:
    registry, seen = observed(nap)
    async with trio.open_nursery() as nursery:
        async with open_call_scope() as scope:
            nursery.start_soon(registry.execute, call(scope, "nap", seconds=2))
            nursery.start_soon(registry.execute, call(scope, "nap", seconds=4))
            await wait_all_tasks_blocked()
        left, published = trio.current_time(), list(seen.published)
        cancelled = scope.cancel_called

    assert left == 4.0
    assert published == ["nap: ok returned"] * 2
    assert not cancelled


@pytest.mark.rule("SC-10")
async def test_leaving_the_block_waits_for_the_review_too(autojump_clock: MockClock) -> None:
    registry, seen = observed(nap)

    async def review(_execution: ToolExecution, _result: ToolResult, _proceed: ReviewRest) -> ReviewDecision:
        await trio.sleep(10)
        return Accept()

    registry.review(review)
    async with trio.open_nursery() as nursery:
        async with open_call_scope() as scope:
            nursery.start_soon(registry.execute, call(scope, "nap", seconds=2))
            await wait_all_tasks_blocked()
        left, published = trio.current_time(), list(seen.published)

    assert (left, published) == (12.0, ["nap: ok returned"])


@pytest.mark.rule("SC-10")
async def test_the_wait_is_shielded_from_the_owners_cancellation(autojump_clock: MockClock) -> None:
    registry, seen = observed(linger)
    async with trio.open_nursery() as nursery:
        with trio.move_on_after(3):
            async with open_call_scope() as scope:
                nursery.start_soon(registry.execute, call(scope, "linger", seconds=100))
                await wait_all_tasks_blocked()
        left, published = trio.current_time(), list(seen.published)

    assert left == 8.0
    assert published == ["linger: cancelled ABORTED cancelled ambient:ambient"]


class OwnError(Exception):
    """An error that the block raises."""


class OwnInterrupt(BaseException):
    """Something that is not even an error."""


@pytest.mark.rule("SC-10")
@pytest.mark.parametrize("error", [OwnError("mine"), OwnInterrupt(), KeyboardInterrupt()])
async def test_an_error_in_the_block_cancels_the_calls_and_propagates_unchanged(
    autojump_clock: MockClock, error: BaseException
) -> None:
    registry, seen = observed(linger)
    raised: list[BaseException] = []
    async with trio.open_nursery() as nursery:
        try:
            async with open_call_scope(name="mine") as scope:
                nursery.start_soon(registry.execute, call(scope, "linger", seconds=100))
                await trio.sleep(2)
                raise error
        except BaseException as caught:
            raised.append(caught)
        left, published = trio.current_time(), list(seen.published)

    assert raised == [error]
    assert left == 7.0
    assert published == ["linger: cancelled ABORTED cancelled caller:mine"]
    assert seen.only.cause is not None
    assert (seen.only.cause.reason, seen.only.cause.at) == (type(error).__name__, 2.0)


@pytest.mark.rule("SC-10")
async def test_a_group_in_the_block_propagates_unchanged(autojump_clock: MockClock) -> None:
    group = ExceptionGroup("several", [OwnError("one"), OwnError("two")])
    scopes: list[CallScope] = []
    with pytest.raises(ExceptionGroup) as raised:
        async with open_call_scope() as scope:
            scopes.append(scope)
            raise group

    assert raised.value is group
    assert scopes[0].cause is not None
    assert scopes[0].cause.reason == "ExceptionGroup"


@pytest.mark.rule("SC-10", "SC-11")
async def test_the_owners_own_cancellation_is_ambient_and_propagates_unchanged(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed(forever)
    left: list[BaseException] = []
    async with trio.open_nursery() as nursery:
        with trio.move_on_after(3) as outer:
            try:
                async with open_call_scope() as scope:
                    nursery.start_soon(registry.execute, call(scope, "forever"))
                    await trio.sleep_forever()
            except BaseException as caught:
                left.append(caught)
                raise

    assert [type(error) for error in left] == [trio.Cancelled]
    assert outer.cancelled_caught
    assert seen.published == ["forever: cancelled ABORTED cancelled ambient:ambient"]
    assert caused_at(seen.only) == 3.0


@pytest.mark.rule("SC-11")
async def test_a_shield_in_the_block_does_not_hide_the_owners_cancellation(autojump_clock: MockClock) -> None:
    registry, seen = observed(forever)
    passes: list[int] = []
    wire = Tripwire()

    @registry.tool
    async def watch() -> str:
        await wire.wait()
        raise AssertionError

    with trio.CancelScope() as outer:
        async with trio.open_nursery() as inside, open_call_scope() as scope:
            with trio.CancelScope(shield=True):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(registry.execute, call(scope, "watch"))
                    await wire.waiting.wait()
                    await trio.sleep(2)
                    outer.cancel()
                    for number in range(5):
                        if wire.tripped:
                            passes.append(number)
                            break
                        await trio.lowlevel.cancel_shielded_checkpoint()
            inside.cancel_scope.cancel()

    assert passes
    assert passes[0] <= 2
    assert seen.published == ["watch: cancelled ABORTED cancelled ambient:ambient"]
    assert caused_at(seen.only) == 2.0


@pytest.mark.rule("SC-11", "PU-8")
async def test_a_call_in_a_task_that_is_not_cancelled_returns_what_its_owner_ended(
    autojump_clock: MockClock,
) -> None:
    registry, _ = observed(forever)
    returned: list[str] = []

    async def execute(scope: CallScope) -> None:
        returned.append(facts(await registry.execute(call(scope, "forever"))))

    async with trio.open_nursery() as nursery:
        with trio.move_on_after(3):
            async with open_call_scope() as scope:
                nursery.start_soon(execute, scope)
                await trio.sleep_forever()

    assert returned == ["cancelled ABORTED cancelled ambient:ambient"]


@pytest.mark.rule("SC-11")
async def test_a_scope_opened_in_a_cancelled_task_is_cancelled(autojump_clock: MockClock) -> None:
    registry, seen = observed(forever)
    with trio.move_on_after(0):
        with trio.CancelScope(shield=True) as shield:
            async with open_call_scope() as scope:
                shield.shield = False
                with trio.CancelScope(shield=True):
                    await trio.sleep(1)
                    await registry.execute(call(scope, "forever"))

    assert seen.published == [
        "forever: cancelled ABORTED_BEFORE_DISPATCH not_dispatched ambient:ambient",
    ]


@pytest.mark.rule("SC-12")
async def test_a_call_runs_in_the_task_that_executes_it(autojump_clock: MockClock) -> None:
    registry, _ = observed(nap)
    tasks: list[trio.lowlevel.Task] = []

    async def gate(_execution: ToolExecution, _proceed: GateRest) -> GateDecision:
        tasks.append(trio.lowlevel.current_task())
        return Allow()

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        tasks.append(trio.lowlevel.current_task())
        return await proceed(execution)

    def observer(_execution: ToolExecution, _result: ToolResult) -> None:
        tasks.append(trio.lowlevel.current_task())

    registry.gate(gate)
    registry.wrap(wrapper)
    registry.observe(observer)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "nap", seconds=0))

    assert tasks == [trio.lowlevel.current_task()] * 3


@pytest.mark.rule("SC-12")
async def test_no_exception_of_a_call_travels_through_its_scope(autojump_clock: MockClock) -> None:
    registry, seen = observed()
    caught: list[BaseException] = []

    @registry.tool
    async def interrupted() -> str:
        await trio.sleep(1)
        raise OwnInterrupt

    async def execute(scope: CallScope) -> None:
        try:
            await registry.execute(call(scope, "interrupted"))
        except BaseException as error:
            caught.append(error)

    async with trio.open_nursery() as nursery:
        async with open_call_scope() as scope:
            nursery.start_soon(execute, scope)
            await trio.sleep(3)
        cancelled = scope.cancel_called

    assert not cancelled
    assert len(caught) == 1
    assert seen.published == ["interrupted: cancelled ABORTED raised"]


@pytest.mark.rule("SC-12", "SC-10")
@pytest.mark.parametrize("place", ["gate", "approval", "wrapper", "body", "tail"])
async def test_a_call_is_attached_in_every_phase(autojump_clock: MockClock, place: str) -> None:
    wire = Tripwire()
    registry = _waits_in(place, wire)
    seen = Recorder()
    registry.observe(seen)
    async with trio.open_nursery() as nursery:
        nursery.cancel_scope.shield = True
        scopes: list[CallScope] = []

        async def cancel_later() -> None:
            await trio.sleep(3)
            scopes[0].cancel()

        async with open_call_scope() as scope:
            scopes.append(scope)
            nursery.start_soon(registry.execute, call(scope, "work"))
            await wire.waiting.wait()
            nursery.start_soon(cancel_later)
        left, published = trio.current_time(), len(seen.results)

    assert (left, published) == (3.0, 1)


@pytest.mark.rule("SC-12")
async def test_all_calls_of_a_batch_are_attached_from_its_entry(autojump_clock: MockClock) -> None:
    registry, seen = observed(nap)
    async with trio.open_nursery() as nursery:
        async with open_call_scope() as first, open_call_scope() as second:
            calls = [call(first, "nap", seconds=2), call(second, "nap", seconds=3)]
            nursery.start_soon(registry.execute_batch, calls)
            await wait_all_tasks_blocked()
        left, published = trio.current_time(), list(seen.published)

    assert (left, published) == (5.0, ["nap: ok returned"] * 2)


@pytest.mark.rule("SC-10")
async def test_a_call_scope_that_was_left_is_forgotten() -> None:
    async with open_call_scope() as scope:
        left = weakref.ref(lifetime_of(scope))
    del scope
    gc.collect()

    assert left() is None


@pytest.mark.rule("SC-13")
@pytest.mark.parametrize("way", ["execute", "batch"])
@pytest.mark.parametrize("through", ["itself", "its child"])
async def test_no_call_may_start_once_the_block_is_being_left(
    autojump_clock: MockClock, way: str, through: str
) -> None:
    registry, seen = observed(nap)
    refused: list[str] = []
    ready = trio.Event()

    async def late(scope: CallScope) -> None:
        async with scope.open_child(name="child") as child:
            ready.set()
            await trio.sleep(1)
            late_call = call(scope if through == "itself" else child, "nap", seconds=0)
            try:
                if way == "execute":
                    await registry.execute(late_call)
                else:
                    await registry.execute_batch([late_call])
            except RuntimeError:
                refused.append("refused")

    async with trio.open_nursery() as nursery:
        async with open_call_scope() as scope:
            nursery.start_soon(registry.execute, call(scope, "nap", seconds=5))
            nursery.start_soon(late, scope)
            await ready.wait()
            await wait_all_tasks_blocked()

    assert refused == ["refused"]
    assert seen.published == ["nap: ok returned"]
    assert registry.statistics().calls == ()


@pytest.mark.rule("SC-13")
async def test_no_call_may_start_after_the_block_was_left(autojump_clock: MockClock) -> None:
    registry, seen = observed(nap)
    async with open_call_scope() as scope:
        pass
    with pytest.raises(RuntimeError):
        await registry.execute(call(scope, "nap", seconds=0))

    assert seen.published == []


@pytest.mark.rule("SC-13", "NE-2")
async def test_nested_calls_may_still_start_while_the_block_is_being_left(autojump_clock: MockClock) -> None:
    registry, seen = observed(nap)

    @registry.tool
    async def outer(ctx: ToolContext) -> str:
        await trio.sleep(1)
        return (await ctx.call("middle", {})).text

    @registry.tool
    async def middle(ctx: ToolContext) -> str:
        await trio.sleep(1)
        return (await ctx.call("nap", {"seconds": 1})).text

    async with trio.open_nursery() as nursery:
        async with open_call_scope() as scope:
            nursery.start_soon(registry.execute, call(scope, "outer"))
            await wait_all_tasks_blocked()
        left = trio.current_time()

    assert left == 3.0
    assert seen.published == ["nap: ok returned", "middle: ok returned", "outer: ok returned"]


@pytest.mark.rule("SC-13")
async def test_a_call_nested_in_a_call_of_another_scope_may_not_start_there(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed(nap)
    refused: list[str] = []
    async with open_call_scope() as other, trio.open_nursery() as nursery:
        async with open_call_scope() as scope:

            @registry.tool
            async def stranger(ctx: ToolContext) -> str:
                await trio.sleep(1)
                try:
                    await registry.execute(
                        ToolCall(name="nap", arguments={"seconds": 0}, scope=scope, parent=ctx.token)
                    )
                except RuntimeError:
                    refused.append("refused")
                return "tried"

            nursery.start_soon(registry.execute, call(scope, "nap", seconds=3))
            nursery.start_soon(registry.execute, call(other, "stranger"))
            await wait_all_tasks_blocked()

    assert refused == ["refused"]
    assert seen.published == ["stranger: ok returned", "nap: ok returned"]


@pytest.mark.rule("SC-14")
async def test_a_view_shows_the_call_scope_exactly(autojump_clock: MockClock) -> None:
    registry, _ = observed()
    looks: list[tuple[str, bool, bool]] = []

    def look(place: str, view: ScopeView, passing: float) -> None:
        before = view.cancel_called
        hold_loop(passing)
        looks.append((place, before, view.cancel_called))

    @registry.tool
    async def work(ctx: ToolContext) -> str:
        look("body", ctx.scope, 0.5)
        look("body", ctx.scope, 0.5)
        return "worked"

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        look("wrapper", execution.scope, 0.5)
        return await proceed(execution)

    async def gate(execution: ToolExecution, _proceed: GateRest) -> GateDecision:
        look("gate", execution.scope, 0.5)
        return Allow()

    registry.gate(gate)
    registry.wrap(wrapper)
    async with open_call_scope(timeout=2) as scope:
        result = await registry.execute(call(scope, "work"))

    assert looks == [
        ("gate", False, False),
        ("wrapper", False, False),
        ("body", False, False),
        ("body", False, True),
    ]
    assert facts(result) == "cancelled ABORTED returned deadline:caller"


@pytest.mark.rule("SC-14")
async def test_the_views_of_body_and_wrapper_show_added_sources_exactly(autojump_clock: MockClock) -> None:
    registry, _ = observed()
    looks: list[tuple[bool, str | None]] = []

    @registry.tool
    async def work(ctx: ToolContext) -> str:
        for _ in range(2):
            looks.append((ctx.scope.cancel_called, ctx.scope.cause and ctx.scope.cause.name))
            hold_loop(2)
        return "worked"

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        derived = execution.with_timeout(2, name="mine")
        deadlines.append(derived.scope.deadline)
        result = await proceed(derived)
        looks.append((execution.scope.cancel_called, None))
        return result

    deadlines: list[float] = []
    registry.wrap(wrapper)
    async with open_call_scope(timeout=50) as scope:
        await registry.execute(call(scope, "work"))

    assert deadlines == [2.0]
    assert looks == [(False, None), (True, "mine"), (False, None)]


@pytest.mark.rule("SC-14")
async def test_a_running_body_is_shown_an_ambient_cancellation_within_one_pass(
    autojump_clock: MockClock,
) -> None:
    registry, _ = observed()
    looks: list[bool] = []

    @registry.tool
    async def shielded(ctx: ToolContext) -> str:
        with trio.CancelScope(shield=True):
            await trio.sleep(1)
            looks.append(ctx.scope.cancel_called)
            outer.cancel()
            for _ in range(2):
                await trio.lowlevel.checkpoint()
            looks.append(ctx.scope.cancel_called)
        return "done"

    async with open_call_scope() as scope:
        with trio.CancelScope() as outer:
            await registry.execute(call(scope, "shielded"))

    assert looks == [False, True]


@pytest.mark.rule("SC-14")
@pytest.mark.parametrize("when", ["in a wrapper's tail", "in the review", "never"])
async def test_the_review_is_shown_ambient_cancellation_as_of_its_start(
    autojump_clock: MockClock, when: str
) -> None:
    registry, _ = observed(nap)
    looks: list[bool] = []

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        result = await proceed(execution)
        if when == "in a wrapper's tail":
            outer.cancel()
        return result

    async def review(execution: ToolExecution, _result: ToolResult, _proceed: ReviewRest) -> ReviewDecision:
        looks.append(execution.scope.cancel_called)
        if when == "in the review":
            outer.cancel()
        await trio.sleep(1)
        looks.append(execution.scope.cancel_called)
        return Accept()

    registry.wrap(wrapper)
    registry.review(review)
    async with open_call_scope() as scope:
        with trio.CancelScope() as outer:
            await registry.execute(call(scope, "nap", seconds=0))

    assert looks == [when == "in a wrapper's tail"] * 2


@pytest.mark.rule("SC-14")
async def test_a_view_cannot_cancel_and_leads_to_no_call_scope(autojump_clock: MockClock) -> None:
    registry, _ = observed()
    found: list[object] = []
    views: list[ScopeView] = []

    @registry.tool
    async def work(ctx: ToolContext) -> str:
        views.append(ctx.scope)
        return "worked"

    async def gate(execution: ToolExecution, _proceed: GateRest) -> GateDecision:
        views.append(execution.scope)
        return Allow()

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        views.append(execution.scope)
        return await proceed(execution)

    registry.gate(gate)
    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "work"))
    for view in views:
        for name in (name for name in dir(view) if not name.startswith("_")):
            found.append(getattr(view, name))
            with pytest.raises(AttributeError):
                setattr(view, name, 1.0)
        with pytest.raises(AttributeError):
            view.cancel  # type: ignore[attr-defined]  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]

    assert len(views) == 3
    assert [thing for thing in found if isinstance(thing, CallScope)] == []


@pytest.mark.rule("SC-15")
async def test_a_child_is_cancelled_with_its_parent_by_the_parents_cause(autojump_clock: MockClock) -> None:
    async with (
        open_call_scope(name="parent") as parent,
        parent.open_child(name="child") as child,
        child.open_child(name="grandchild") as grandchild,
    ):
        await trio.sleep(2)
        parent.cancel("enough")
        causes = parent.cause, child.cause, grandchild.cause

    assert causes[0] is not None
    assert (causes[0].kind, causes[0].name, causes[0].reason, causes[0].at) == (
        CauseKind.CALLER,
        "parent",
        "enough",
        2.0,
    )
    assert causes[0] == causes[1] == causes[2]


@pytest.mark.rule("SC-15")
async def test_cancelling_a_child_does_not_touch_the_parent(autojump_clock: MockClock) -> None:
    registry, seen = observed(forever, nap)
    async with open_call_scope(name="parent") as parent, trio.open_nursery() as nursery:
        nursery.start_soon(registry.execute, call(parent, "nap", seconds=5))
        async with parent.open_child(name="child") as child, parent.open_child(name="sibling") as sibling:
            nursery.start_soon(registry.execute, call(child, "forever"))
            await trio.sleep(1)
            child.cancel()
            cancelled = parent.cancel_called, child.cancel_called, sibling.cancel_called

    assert cancelled == (False, True, False)
    assert seen.published == ["forever: cancelled ABORTED cancelled caller:child", "nap: ok returned"]


@pytest.mark.rule("SC-15")
@pytest.mark.parametrize(("parent_at", "child_at", "winner"), [(3, 5, "parent"), (5, 3, "child")])
async def test_the_earlier_of_two_deadlines_is_a_childs_cause(
    autojump_clock: MockClock, parent_at: float, child_at: float, winner: str
) -> None:
    registry, seen = observed(forever)
    async with (
        open_call_scope(name="parent", timeout=parent_at) as parent,
        parent.open_child(name="child", timeout=child_at) as child,
    ):
        await registry.execute(call(child, "forever"))
        hold_loop(10)
        cause = child.cause

    assert seen.published == [f"forever: cancelled ABORTED cancelled deadline:{winner}"]
    assert caused_at(seen.only) == 3.0
    assert cause == seen.only.cause


@pytest.mark.rule("SC-15", "SC-4")
async def test_an_earlier_cause_of_the_child_stays_its_own(autojump_clock: MockClock) -> None:
    async with open_call_scope(name="parent") as parent, parent.open_child(name="child") as child:
        child.cancel("mine")
        await trio.sleep(1)
        parent.cancel("later")
        cause = child.cause

    assert cause is not None
    assert (cause.name, cause.reason, cause.at) == ("child", "mine", 0.0)


@pytest.mark.rule("SC-15")
async def test_a_child_of_a_cancelled_parent_is_cancelled_from_the_start(autojump_clock: MockClock) -> None:
    registry, seen = observed(nap)
    async with open_call_scope(name="parent") as parent:
        parent.cancel()
        async with parent.open_child(name="child") as child:
            cancelled = child.cancel_called
            await registry.execute(call(child, "nap", seconds=0))

    assert cancelled
    assert seen.published == ["nap: cancelled ABORTED_BEFORE_DISPATCH not_dispatched caller:parent"]


@pytest.mark.rule("SC-15")
async def test_the_parents_block_waits_for_the_calls_of_its_children(autojump_clock: MockClock) -> None:
    registry, seen = observed(nap)
    ready = trio.Event()

    async def owns_child(parent: CallScope) -> None:
        async with parent.open_child(name="child") as child:
            ready.set()
            await registry.execute(call(child, "nap", seconds=4))

    async with trio.open_nursery() as nursery:
        async with open_call_scope(name="parent") as parent:
            nursery.start_soon(owns_child, parent)
            await ready.wait()
            await wait_all_tasks_blocked()
        left, published = trio.current_time(), list(seen.published)

    assert (left, published) == (4.0, ["nap: ok returned"])


@pytest.mark.rule("SC-10", "SC-15")
async def test_an_error_in_the_parents_block_cancels_the_calls_of_its_children(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed(forever)

    async def owns_child(parent: CallScope) -> None:
        async with parent.open_child(name="child") as child:
            await registry.execute(call(child, "forever"))

    async with trio.open_nursery() as nursery:
        with pytest.raises(OwnError):
            async with open_call_scope(name="parent") as parent:
                nursery.start_soon(owns_child, parent)
                await trio.sleep(1)
                raise OwnError

    assert seen.published == ["forever: cancelled ABORTED cancelled caller:parent"]


async def test_each_block_is_entered_once(autojump_clock: MockClock) -> None:
    block = open_call_scope()
    async with block:
        with pytest.raises(RuntimeError):
            await block.__aenter__()


def test_the_repr_of_a_scope_names_it_and_nothing_else() -> None:
    async def main() -> str:
        async with open_call_scope(name="nightly") as scope:
            return repr(scope)

    assert run(main) == "<CallScope 'nightly'>"


@pytest.mark.rule("SC-10")
@pytest.mark.parametrize("calls", [0, 1])
async def test_an_error_of_a_cancelled_owner_propagates_unchanged(
    autojump_clock: MockClock, calls: int
) -> None:
    registry, seen = observed(linger)
    error = OwnError("mine")
    raised: list[BaseException] = []
    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as outer:
            try:
                async with open_call_scope() as scope:
                    for _ in range(calls):
                        nursery.start_soon(registry.execute, call(scope, "linger", seconds=9))
                    await trio.sleep(1)
                    outer.cancel()
                    raise error
            except BaseException as caught:
                raised.append(caught)

    assert raised == [error]
    assert len(seen.results) == calls


@pytest.mark.rule("SC-10")
async def test_a_value_leaves_the_block_of_a_scope_that_was_cancelled(autojump_clock: MockClock) -> None:
    registry, _ = observed(forever)

    async def work() -> str:
        async with open_call_scope(timeout=3) as scope:
            return facts(await registry.execute(call(scope, "forever")))

    assert await work() == "cancelled ABORTED cancelled deadline:caller"


@pytest.mark.rule("SC-10", "SC-11")
async def test_the_owner_cancelled_while_it_waits_to_leave_still_waits_and_then_unwinds(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed(linger)
    left: list[float] = []
    async with trio.open_nursery() as nursery:
        with trio.move_on_after(3) as outer:
            try:
                async with open_call_scope() as scope:
                    nursery.start_soon(registry.execute, call(scope, "linger", seconds=100))
                    await wait_all_tasks_blocked()
            finally:
                left.append(trio.current_time())
            await trio.lowlevel.checkpoint()

    assert left == [8.0]
    assert outer.cancelled_caught
    assert facts(seen.only) == "cancelled ABORTED cancelled ambient:ambient"


async def test_a_scope_that_was_left_may_be_cancelled_without_effect(autojump_clock: MockClock) -> None:
    async with open_call_scope() as scope, scope.open_child(name="child") as child:
        pass
    scope.cancel()
    scope.deadline = 0.0
    child.cancel()
    await trio.sleep(100)

    assert scope.cancel_called


@pytest.mark.rule("SC-2", "SC-12")
async def test_the_same_call_may_be_executed_again(autojump_clock: MockClock) -> None:
    registry, seen = observed(nap)
    async with open_call_scope() as scope, trio.open_nursery() as nursery:
        same = call(scope, "nap", seconds=1)
        nursery.start_soon(registry.execute, same)
        nursery.start_soon(registry.execute, same)

    assert seen.published == ["nap: ok returned"] * 2
    assert seen.executions[0].token is not seen.executions[1].token


@pytest.mark.rule("SC-10")
@pytest.mark.parametrize("mixed", [False, True])
async def test_a_group_of_the_owners_cancellation_is_ambient_one_with_an_error_is_not(
    autojump_clock: MockClock, mixed: bool
) -> None:
    scopes: list[CallScope] = []
    raised: list[BaseException] = []
    with trio.CancelScope() as outer:
        outer.cancel()
        try:
            async with open_call_scope() as scope:
                scopes.append(scope)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(trio.sleep_forever)
                    if mixed:
                        raise OwnError("mine")
        except BaseException as error:
            raised.append(error)
            if not mixed:
                raise

    cause = scopes[0].cause
    assert cause is not None
    assert cause.kind is CauseKind.AMBIENT
    assert len(raised) == 1
    assert outer.cancelled_caught is not mixed


async def test_a_view_prints_whether_it_is_cancelled_and_no_more(autojump_clock: MockClock) -> None:
    registry, seen = observed(forever)
    async with open_call_scope(name="secret") as scope:
        scope.cancel("secret")
        await registry.execute(call(scope, "forever"))

    assert repr(seen.executions[0].scope) == "<ScopeView, cancelled>"


@pytest.mark.rule("SC-10", "PU-9")
def test_an_interrupt_while_leaving_cancels_the_calls_and_still_waits() -> None:
    registry, seen = observed(linger)
    left: list[str] = []

    async def press_ctrl_c() -> None:
        await trio.sleep(1)
        signal.raise_signal(signal.SIGINT)

    async def main() -> None:
        trio.lowlevel.spawn_system_task(press_ctrl_c)
        async with trio.open_nursery() as nursery:
            try:
                async with open_call_scope() as scope:
                    nursery.start_soon(registry.execute, call(scope, "linger", seconds=100))
                    await wait_all_tasks_blocked()
            except BaseException as error:
                left.append(f"{type(error).__name__} at {trio.current_time()}, {seen.published}")
                raise

    with pytest.raises((KeyboardInterrupt, BaseExceptionGroup)):
        run(main)

    published = "['linger: cancelled ABORTED cancelled caller:caller']"
    assert left == [f"KeyboardInterrupt at 6.0, {published}"]
    assert seen.only.cause is not None
    assert (seen.only.cause.reason, seen.only.cause.at) == ("KeyboardInterrupt", 1.0)


@pytest.mark.parametrize(
    ("own", "parents", "first"), [(1.0, 2.0, "child"), (2.0, 1.0, "parent"), (1.0, 1.0, "parent")]
)
@pytest.mark.rule("SC-15", "SC-5", "WR-6")
async def test_the_earlier_of_two_deadlines_that_nobody_noticed_is_a_childs_cause(
    autojump_clock: MockClock, own: float, parents: float, first: str
) -> None:
    start = trio.current_time()
    async with open_call_scope(name="parent", timeout=parents) as parent:
        async with parent.open_child(name="child", timeout=own) as child:
            hold_loop(3)
            cause = child.cause

    assert cause == CancelCause(CauseKind.DEADLINE, first, None, start + 1.0)


@pytest.mark.rule("SC-12")
async def test_a_call_that_has_ended_leaves_nothing_with_its_scope(autojump_clock: MockClock) -> None:
    registry, _seen = observed(nap)
    async with open_call_scope() as scope:
        await wait_all_tasks_blocked()
        lifetime = lifetime_of(scope)
        before = set(lifetime.fused), set(lifetime._calls), set(lifetime._children)
        async with scope.open_child(name="child") as child:
            await registry.execute(call(child, "nap", seconds=1))
        await registry.execute(call(scope, "nap", seconds=1))
        after = set(lifetime.fused), set(lifetime._calls), set(lifetime._children)

    assert before == after


@pytest.mark.rule("SC-11", "SC-5")
async def test_a_scope_opened_in_a_cancelled_task_says_so_before_any_checkpoint() -> None:
    causes: list[CancelCause | None] = []
    with trio.CancelScope() as outer:
        outer.cancel()
        async with open_call_scope() as scope:
            causes.append(scope.cause)

    assert [cause and cause.kind for cause in causes] == [CauseKind.AMBIENT]


@pytest.mark.rule("SC-14", "WR-10")
async def test_a_view_that_is_delegated_to_again_shows_what_is_and_not_what_was(
    autojump_clock: MockClock,
) -> None:
    registry, _seen = observed(nap)
    causes: list[str | None] = []

    async def twice(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        view = execution.with_deadline(trio.current_time() + 2, name="patience")
        await proceed(view)
        return await proceed(view)

    async def looking(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        cause = execution.scope.cause
        causes.append(None if cause is None else cause.name)
        with trio.CancelScope(shield=True):
            await trio.sleep(1.5)
        cause = execution.scope.cause
        causes.append(None if cause is None else cause.name)
        return await proceed(execution)

    registry.wrap(twice)
    registry.wrap(looking)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "nap", seconds=0))

    assert causes == [None, None, None, "patience"]


@pytest.mark.parametrize(
    ("held", "error", "expected"),
    [
        (2.0, "Cancelled", CancelCause(CauseKind.AMBIENT, "ambient", None, 1.0)),
        (2.0, "BaseExceptionGroup", CancelCause(CauseKind.AMBIENT, "ambient", None, 1.0)),
        (2.0, "ValueError", CancelCause(CauseKind.CALLER, "caller", "ValueError", 2.0)),
        (0.5, "Cancelled", CancelCause(CauseKind.CALLER, "caller", "Cancelled", 0.5)),
    ],
)
@pytest.mark.rule("SC-10", "SC-11", "SC-9")
async def test_what_leaves_the_block_names_the_owners_cancellation_only_if_it_is_one(
    autojump_clock: MockClock, held: float, error: str, expected: CancelCause
) -> None:
    stray = await stray_cancelled()
    errors = (stray, BaseExceptionGroup("several", [stray]), ValueError("wrong"))
    (raised,) = [each for each in errors if type(each).__name__ == error]
    start = trio.current_time()
    scopes: list[CallScope] = []
    with suppress(ValueError, trio.Cancelled, BaseExceptionGroup):
        # Nothing waits before the block is left, so trio has noticed nothing.
        with trio.CancelScope(deadline=start + 1.0):
            async with open_call_scope() as scope:
                scopes.append(scope)
                hold_loop(held)
                raise raised

    assert scopes[0].cause == attrs.evolve(expected, at=start + expected.at)


@pytest.mark.rule("SC-4", "SC-9")
async def test_what_a_cause_says_is_text(autojump_clock: MockClock) -> None:
    foreign: Any = ValueError("no text")
    with pytest.raises(TypeError, match="name of a call scope is a string, not ValueError"):
        open_call_scope(name=foreign)
    async with open_call_scope() as scope:
        with pytest.raises(TypeError, match="name of a call scope is a string, not ValueError"):
            scope.open_child(name=foreign)
        with pytest.raises(TypeError, match="reason of a cancellation is a string, not ValueError"):
            scope.cancel(foreign)

        assert scope.cause is None

        scope.cancel(CauseKind.SIBLING)

    assert scope.cause is not None
    assert type(scope.cause.reason) is str
    assert scope.cause.reason == "sibling"


@pytest.mark.rule("SC-7", "SC-9")
async def test_the_time_of_a_moved_deadline_is_a_float(autojump_clock: MockClock) -> None:
    async with open_call_scope() as scope:
        scope.deadline = 0

    assert scope.cause is not None
    assert type(scope.deadline) is float
    assert type(scope.cause.at) is float


@pytest.mark.rule("SC-10")
async def test_a_scope_is_left_by_the_task_that_opened_it(autojump_clock: MockClock) -> None:
    registry, seen = observed(nap)
    manager = open_call_scope()
    scope = await manager.__aenter__()

    async def leave() -> None:
        with pytest.raises(RuntimeError, match="'caller' is left by the task that opened it"):
            await manager.__aexit__(None, None, None)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(leave)
    await registry.execute(call(scope, "nap", seconds=1.0))
    await manager.__aexit__(None, None, None)

    assert facts(seen.only) == "ok returned"


@pytest.mark.rule("SC-10")
async def test_case_22_scopes_left_out_of_order_are_told_and_can_still_be_left(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed(nap)
    outer = open_call_scope(name="outer")
    scope = await outer.__aenter__()
    for inner in (open_call_scope(), trio.open_nursery()):
        await inner.__aenter__()
        with pytest.raises(RuntimeError, match="'outer' is left before a call scope or nursery"):
            await outer.__aexit__(None, None, None)
        await inner.__aexit__(None, None, None)
    await registry.execute(call(scope, "nap", seconds=1.0))
    await outer.__aexit__(None, None, None)

    assert facts(seen.only) == "ok returned"
