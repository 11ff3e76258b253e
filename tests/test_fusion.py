"""The one scope around a body in which all sources meet, and which of them was first."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.helpers import Proceed, ReviewRest, Tripwire, at, call, caused_at, facts, hold_loop, observed
from trio_tools import (
    CallScope,
    CancelCause,
    CauseKind,
    DispatchExecution,
    Registry,
    ReviewDecision,
    ToolCall,
    ToolContext,
    ToolExecution,
    ToolOutcome,
    ToolResult,
    open_call_scope,
    tool,
)
from trio_tools._fusion import Ambient, Source
from trio_tools._lifetime import Lifetime
from trio_tools._scope import lifetime_of


@tool
async def nap(seconds: float) -> str:
    """Sleep, and say so."""
    await trio.sleep(seconds)
    return "slept"


@tool
async def hog(seconds: float) -> str:
    """Hold the loop, and say so."""
    hold_loop(seconds)
    return "held"


@tool
async def hog_and_wait(seconds: float) -> str:
    """Hold the loop, then wait until cancelled."""
    hold_loop(seconds)
    await trio.sleep_forever()
    return "never"


def add_deadlines(registry: Registry, *deadlines: tuple[str, float]) -> None:
    """Register wrappers, outermost first, that each add one deadline."""

    def adding(name: str, when: float) -> Callable[[DispatchExecution, Proceed], object]:
        async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
            return await proceed(execution.with_deadline(when, name=name))

        return wrapper

    for name, when in deadlines:
        registry.wrap(adding(name, when))  # pyright: ignore[reportArgumentType]


@pytest.mark.rule("WR-5")
@pytest.mark.parametrize("nearest", ["caller", "outer", "inner", "scope", "ambient"])
async def test_the_effective_deadline_of_a_body_is_the_earliest_of_all(
    autojump_clock: MockClock, nearest: str
) -> None:
    registry, _ = observed()
    shown: list[float] = []

    @registry.tool
    async def look(ctx: ToolContext) -> str:
        shown.append(trio.current_effective_deadline())
        ctx.nursery.start_soon(look_again)
        return "looked"

    async def look_again() -> None:
        shown.append(trio.current_effective_deadline())

    def when(name: str) -> float:
        return 5.0 if name == nearest else 50.0

    async with (
        open_call_scope(timeout=when("scope")) as extra,
        open_call_scope(timeout=when("caller")) as scope,
    ):

        async def with_extra(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
            return await proceed(execution.with_scope(extra))

        registry.wrap(with_extra)
        add_deadlines(registry, ("outer", when("outer")), ("inner", when("inner")))
        with trio.CancelScope(deadline=when("ambient")):
            await registry.execute(call(scope, "look"))

    assert shown == [5.0, 5.0]


@pytest.mark.rule("WR-5", "SC-7")
async def test_moving_the_deadline_of_an_added_scope_shows_in_the_body(autojump_clock: MockClock) -> None:
    registry, _ = observed()
    shown: list[float] = []

    async with open_call_scope() as extra:

        @registry.tool
        async def look() -> str:
            for when in (7.0, math.inf, 3.0):
                extra.deadline = when
                shown.append(trio.current_effective_deadline())
            return "looked"

        async def with_extra(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
            return await proceed(execution.with_scope(extra))

        registry.wrap(with_extra)
        async with open_call_scope(timeout=9) as scope:
            await registry.execute(call(scope, "look"))

    assert shown == [7.0, 9.0, 3.0]


@pytest.mark.rule("WR-5", "SC-3", "WR-8")
@pytest.mark.parametrize("shield", [False, True])
@pytest.mark.parametrize("source", ["caller", "added"])
async def test_every_source_cancels_the_body_directly_in_the_same_step(
    autojump_clock: MockClock, source: str, shield: bool
) -> None:
    registry, seen = observed()
    wire = Tripwire()
    tripped: list[bool] = []

    @registry.tool
    async def waits() -> str:
        await wire.wait()
        return "never"

    async with open_call_scope(name="extra") as extra, open_call_scope() as scope:

        async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
            with trio.CancelScope(shield=shield):
                return await proceed(execution.with_scope(extra))
            raise AssertionError

        registry.wrap(wrapper)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(registry.execute, call(scope, "waits"))
            await wire.waiting.wait()
            (scope if source == "caller" else extra).cancel()
            tripped.append(wire.tripped)

    assert tripped == [True]
    name = "caller" if source == "caller" else "extra"
    assert seen.published == [f"waits: cancelled ABORTED cancelled caller:{name}"]


ORDERS = list(itertools.permutations((2.0, 3.0, 4.0)))


@pytest.mark.rule("WR-6", "SC-9")
@pytest.mark.parametrize("times", ORDERS)
@pytest.mark.parametrize("name", ["nap", "hog", "hog_and_wait"])
async def test_the_first_source_in_time_is_the_cause_whenever_it_is_noticed(
    autojump_clock: MockClock, name: str, times: tuple[float, float, float]
) -> None:
    registry, seen = observed(nap, hog, hog_and_wait)
    caller, outer, inner = times
    add_deadlines(registry, ("outer", outer), ("inner", inner))
    async with open_call_scope(timeout=caller) as scope:
        await registry.execute(call(scope, name, seconds=9))

    winner = {caller: "caller", outer: "outer", inner: "inner"}[2.0]
    settled = "returned" if name == "hog" else "cancelled"
    assert seen.published == [f"{name}: cancelled ABORTED {settled} deadline:{winner}"]
    assert caused_at(seen.only) == 2.0


@pytest.mark.rule("WR-6")
@pytest.mark.parametrize("name", ["nap", "hog"])
@pytest.mark.parametrize(
    ("caller", "outer", "inner", "winner"),
    [
        (2.0, 2.0, 2.0, "caller"),
        (2.0, 9.0, 2.0, "caller"),
        (9.0, 2.0, 2.0, "outer"),
        (2.0, 2.0, 9.0, "caller"),
    ],
)
async def test_ties_go_to_the_caller_and_then_to_the_outermost_wrapper(
    autojump_clock: MockClock, name: str, caller: float, outer: float, inner: float, winner: str
) -> None:
    registry, seen = observed(nap, hog)
    add_deadlines(registry, ("outer", outer), ("inner", inner))
    async with open_call_scope(timeout=caller) as scope:
        await registry.execute(call(scope, name, seconds=20))

    assert seen.only.cause == CancelCause(CauseKind.DEADLINE, winner, None, 2.0)


@pytest.mark.rule("WR-6")
@pytest.mark.parametrize("name", ["nap", "hog"])
async def test_an_ambient_deadline_wins_a_tie_with_a_wrapper(autojump_clock: MockClock, name: str) -> None:
    registry, seen = observed(nap, hog)
    add_deadlines(registry, ("mine", 2.0))
    async with open_call_scope() as scope:
        with trio.move_on_at(2):
            await registry.execute(call(scope, name, seconds=9))

    assert seen.only.cause == CancelCause(CauseKind.AMBIENT, "ambient", None, 2.0)


@pytest.mark.rule("WR-6")
@pytest.mark.parametrize(("ambient", "mine", "winner"), [(2.0, 3.0, "ambient"), (3.0, 2.0, "mine")])
@pytest.mark.parametrize("name", ["nap", "hog"])
async def test_ambient_and_added_deadlines_are_told_apart_by_time(
    autojump_clock: MockClock, name: str, ambient: float, mine: float, winner: str
) -> None:
    registry, seen = observed(nap, hog)
    add_deadlines(registry, ("mine", mine))
    async with open_call_scope() as scope:
        with trio.move_on_at(ambient):
            await registry.execute(call(scope, name, seconds=9))

    assert seen.only.cause is not None
    assert (seen.only.cause.name, seen.only.cause.at) == (winner, 2.0)


@pytest.mark.rule("WR-6")
async def test_a_cancel_requested_after_an_unnoticed_deadline_came_second(autojump_clock: MockClock) -> None:
    registry, seen = observed()
    add_deadlines(registry, ("mine", 2.0))
    async with open_call_scope() as scope:

        @registry.tool
        async def work() -> str:
            hold_loop(3)
            scope.cancel()
            await trio.lowlevel.checkpoint()
            return "never"

        await registry.execute(call(scope, "work"))

    assert seen.only.cause == CancelCause(CauseKind.DEADLINE, "mine", None, 2.0)


@pytest.mark.rule("WR-6")
async def test_a_cancel_requested_before_a_deadline_came_first(autojump_clock: MockClock) -> None:
    registry, seen = observed()
    add_deadlines(registry, ("mine", 2.0))
    async with open_call_scope() as scope:

        @registry.tool
        async def work() -> str:
            hold_loop(1)
            scope.cancel("why")
            hold_loop(5)
            return "held"

        await registry.execute(call(scope, "work"))

    assert seen.only.cause == CancelCause(CauseKind.CALLER, "caller", "why", 1.0)


@pytest.mark.rule("WR-6")
async def test_the_cause_is_final_while_the_body_cleans_up(autojump_clock: MockClock) -> None:
    registry, seen = observed()
    told: list[str | None] = []

    @registry.tool
    async def slow_to_leave(ctx: ToolContext) -> str:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                for _ in range(3):
                    told.append(ctx.scope.cause and ctx.scope.cause.name)
                    await trio.sleep(2)
        return "never"

    add_deadlines(registry, ("mine", 2.0), ("later", 3.0))
    async with open_call_scope(timeout=5) as scope:
        with trio.move_on_at(6):
            await registry.execute(call(scope, "slow_to_leave"))

    assert told == ["mine"] * 3
    assert seen.only.cause == CancelCause(CauseKind.DEADLINE, "mine", None, 2.0)


@pytest.mark.rule("WR-7")
@pytest.mark.parametrize("how", ["deadline", "cancel"])
@pytest.mark.parametrize("placed", ["outer", "inner"])
async def test_a_trio_scope_of_a_wrapper_reaches_the_body_by_nesting(
    autojump_clock: MockClock, how: str, placed: str
) -> None:
    registry, seen = observed(nap)
    told: list[str] = []

    async def through(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        return await proceed(execution)

    async with trio.open_nursery() as nursery:

        async def lexical(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
            with trio.move_on_after(2 if how == "deadline" else math.inf) as mine:
                if how == "cancel":
                    nursery.start_soon(at, 2.0, mine.cancel)
                result = await proceed(execution)
                told.append(facts(result))
                return result
            raise AssertionError

        registry.wrap(lexical if placed == "outer" else through)
        registry.wrap(through if placed == "outer" else lexical)
        async with open_call_scope() as scope:
            await registry.execute(call(scope, "nap", seconds=9))
            cancelled = scope.cancel_called

    assert not cancelled
    assert told == ["cancelled ABORTED cancelled ambient:wrapper"]
    assert seen.only.cause == CancelCause(CauseKind.AMBIENT, "wrapper", None, 2.0)


@pytest.mark.rule("WR-7")
async def test_a_trio_scope_of_a_wrapper_is_seen_when_the_body_held_the_loop(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed(hog)

    async def lexical(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        with trio.move_on_after(2):
            return await proceed(execution)
        raise AssertionError

    registry.wrap(lexical)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "hog", seconds=9))

    assert facts(seen.only) == "cancelled ABORTED returned ambient:wrapper"
    assert caused_at(seen.only) == 2.0


@pytest.mark.rule("WR-7")
async def test_a_wrapper_may_translate_what_its_trio_scope_ended(autojump_clock: MockClock) -> None:
    registry, seen = observed(nap)

    async def lexical(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        with trio.move_on_after(2):
            result = await proceed(execution)
            if result.cause is None:
                return result
        await trio.sleep(1)
        return ToolResult.ok("fallback")

    registry.wrap(lexical)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "nap", seconds=9))

    assert facts(seen.only) == "ok cancelled"


@pytest.mark.rule("WR-7", "WR-9")
async def test_a_trio_scope_of_a_wrapper_ends_a_waiting_inner_wrapper_by_cancelled(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed(nap)
    log: list[str] = []

    async def lexical(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        with trio.move_on_after(2) as mine:
            try:
                await proceed(execution)
            except trio.Cancelled:
                log.append("Cancelled")
                raise
        log.append(f"caught {mine.cancelled_caught}")
        return ToolResult.failed("too slow", code="SLOW")

    async def waits(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        await trio.sleep_forever()
        return await proceed(execution)

    registry.wrap(lexical)
    registry.wrap(waits)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "nap", seconds=9))

    assert log == ["Cancelled", "caught True"]
    assert seen.published == ["nap: failed SLOW not_dispatched"]


@pytest.mark.rule("WR-7")
@pytest.mark.parametrize(
    ("lexical", "caller", "expected"),
    [
        (2.0, 3.0, "ambient:wrapper"),
        (3.0, 2.0, "deadline:caller"),
        (2.0, 2.0, "deadline:caller"),
    ],
)
@pytest.mark.parametrize("name", ["nap", "hog"])
async def test_a_trio_scope_of_a_wrapper_is_a_source_like_any_other(
    autojump_clock: MockClock, name: str, lexical: float, caller: float, expected: str
) -> None:
    registry, seen = observed(nap, hog)
    told: list[str] = []

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        with trio.move_on_at(lexical):
            result = await proceed(execution)
            told.append(facts(result))
            return result
        raise AssertionError

    registry.wrap(wrapper)
    async with open_call_scope(timeout=caller) as scope:
        await registry.execute(call(scope, name, seconds=9))

    assert told[0].endswith(expected)
    assert facts(seen.only).endswith(expected)


@pytest.mark.rule("WR-7", "WR-6")
@pytest.mark.parametrize(("lexical", "ambient", "expected"), [(2.0, 3.0, "wrapper"), (3.0, 2.0, "ambient")])
@pytest.mark.parametrize("name", ["nap", "hog"])
async def test_scopes_of_a_wrapper_and_scopes_around_the_call_are_told_apart(
    autojump_clock: MockClock, name: str, lexical: float, ambient: float, expected: str
) -> None:
    registry, seen = observed(nap, hog)
    told: list[str] = []

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        with trio.move_on_at(lexical):
            result = await proceed(execution)
            told.append(facts(result))
            return result
        raise AssertionError

    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        with trio.move_on_at(ambient):
            await registry.execute(call(scope, name, seconds=9))

    assert told[0].endswith(f"ambient:{expected}")
    assert seen.only.cause == CancelCause(CauseKind.AMBIENT, expected, None, 2.0)


@pytest.mark.rule("WR-7", "WR-6")
@pytest.mark.parametrize("who", ["wrapper", "ambient"])
async def test_explicit_cancels_of_a_wrapper_and_around_the_call_are_told_apart(
    autojump_clock: MockClock, who: str
) -> None:
    registry, seen = observed(nap)

    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as outer:

            async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
                with trio.CancelScope() as mine:
                    nursery.start_soon(at, 2.0, (mine if who == "wrapper" else outer).cancel)
                    return await proceed(execution)
                raise AssertionError

            registry.wrap(wrapper)
            async with open_call_scope() as scope:
                await registry.execute(call(scope, "nap", seconds=9))

    assert seen.only.cause is not None
    assert seen.only.cause.kind is CauseKind.AMBIENT
    assert (seen.only.cause.name, seen.only.cause.at) == (who, 2.0)


@pytest.mark.rule("WR-8")
@pytest.mark.parametrize("nested", [False, True])
async def test_a_shield_does_not_detach_the_owners_ambient_cancellation(
    autojump_clock: MockClock, nested: bool
) -> None:
    registry, seen = observed(nap)

    async def shielding(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        with trio.CancelScope(shield=True):
            return await proceed(execution)
        raise AssertionError

    registry.wrap(shielding)
    if nested:
        registry.wrap(shielding)
    with trio.move_on_after(3):
        async with open_call_scope() as scope:
            await registry.execute(call(scope, "nap", seconds=9))
    left = trio.current_time()

    assert left == 3.0
    assert facts(seen.only) == "cancelled ABORTED cancelled ambient:ambient"
    assert caused_at(seen.only) == 3.0


@pytest.mark.rule("WR-8")
async def test_a_shield_does_not_detach_the_call_scopes_deadline(autojump_clock: MockClock) -> None:
    registry, seen = observed()
    shown: list[float] = []

    @registry.tool
    async def waits() -> str:
        shown.append(trio.current_effective_deadline())
        await trio.sleep_forever()
        return "never"

    async def shielding(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        with trio.CancelScope(shield=True):
            return await proceed(execution)
        raise AssertionError

    registry.wrap(shielding)
    async with open_call_scope(timeout=3) as scope:
        await registry.execute(call(scope, "waits"))
        returned = trio.current_time()

    assert (shown, returned) == ([3.0], 3.0)
    assert facts(seen.only) == "cancelled ABORTED cancelled deadline:caller"


@pytest.mark.rule("WR-8", "CA-17")
async def test_a_shield_hides_other_ambient_scopes_until_it_is_left(autojump_clock: MockClock) -> None:
    registry, seen = observed(nap)
    told: list[str] = []

    async def shielding(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        with trio.CancelScope(shield=True):
            result = await proceed(execution)
            told.append(f"{facts(result)} at {trio.current_time()}")
            return result
        raise AssertionError

    registry.wrap(shielding)
    async with open_call_scope() as scope:
        with trio.move_on_at(3) as outer:
            await registry.execute(call(scope, "nap", seconds=9))

    assert told == ["ok returned at 9.0"]
    assert outer.cancelled_caught
    assert facts(seen.only) == "cancelled ABORTED returned ambient:ambient"
    assert caused_at(seen.only) == 3.0


@pytest.mark.rule("WR-4", "WR-6")
async def test_a_scope_that_is_added_twice_or_is_the_callers_own_governs_once(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed(nap)

    async with open_call_scope() as scope:

        async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
            return await proceed(execution.with_scope(scope).with_scope(scope))

        registry.wrap(wrapper)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(at, 2.0, partial(scope.cancel, "why"))
            await registry.execute(call(scope, "nap", seconds=9))

    assert seen.only.cause == CancelCause(CauseKind.CALLER, "caller", "why", 2.0)


@pytest.mark.rule("SC-10", "SC-11")
async def test_a_scope_inside_a_wrapper_is_cancelled_with_the_call(autojump_clock: MockClock) -> None:
    registry, seen = observed(nap)
    told: list[str] = []

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        async with open_call_scope(name="inner") as inner:
            result = await proceed(execution.with_scope(inner))
            told.append(facts(result))
            return result

    registry.wrap(wrapper)
    async with open_call_scope(timeout=3) as scope:
        await registry.execute(call(scope, "nap", seconds=9))

    assert told == ["cancelled ABORTED cancelled deadline:caller"]
    assert facts(seen.only) == "cancelled ABORTED cancelled deadline:caller"


@pytest.mark.rule("WR-6", "SC-9")
@pytest.mark.parametrize("who", ["caller", "deadline", "ambient", "mine", "wrapper"])
async def test_the_cause_of_the_result_is_the_cause_that_the_body_saw(
    autojump_clock: MockClock, who: str
) -> None:
    registry, seen = observed()
    shown: list[CancelCause | None] = []

    @registry.tool
    async def looks(ctx: ToolContext) -> str:
        try:
            await trio.sleep_forever()
        finally:
            shown.append(ctx.scope.cause)
        return "never"

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        if who == "mine":
            return await proceed(execution.with_timeout(2, name="mine"))
        with trio.move_on_after(2 if who == "wrapper" else math.inf):
            return await proceed(execution)
        raise AssertionError

    registry.wrap(wrapper)
    async with open_call_scope(timeout=2 if who == "deadline" else math.inf) as scope:
        with trio.move_on_after(2 if who == "ambient" else math.inf):
            async with trio.open_nursery() as nursery:
                if who == "caller":
                    nursery.start_soon(at, 2.0, scope.cancel)
                await registry.execute(call(scope, "looks"))

    assert [result.cause for result in seen.results] == shown
    assert shown[0] is not None
    assert (shown[0].name, shown[0].at) == ("caller" if who == "deadline" else who, 2.0)


@pytest.mark.rule("NE-4", "WR-6")
@pytest.mark.parametrize(("own", "expected"), [(5.0, "timeout"), (2.0, "own")])
@pytest.mark.parametrize("name", ["nap", "hog"])
async def test_a_nested_call_under_a_scope_of_its_own_is_ended_by_what_was_first(
    autojump_clock: MockClock, name: str, own: float, expected: str
) -> None:
    registry, seen = observed(nap, hog)

    async with open_call_scope(name="own", timeout=own) as other:

        @registry.tool(timeout=3)
        async def outer(ctx: ToolContext) -> str:
            nested = ToolCall(name=name, arguments={"seconds": 9}, scope=other, parent=ctx.token)
            await registry.execute(nested)
            await trio.sleep_forever()
            return "never"

        async with open_call_scope() as scope:
            await registry.execute(call(scope, "outer"))

    assert seen.results[0].cause is not None
    assert (seen.results[0].cause.name, seen.results[0].cause.at) == (expected, min(own, 3.0))
    assert facts(seen.results[1]) == "failed TOOL_TIMEOUT cancelled deadline:timeout"


@pytest.mark.rule("NE-4", "WR-6")
@pytest.mark.parametrize("how", ["shields", "is cancelled"])
async def test_a_nested_call_that_lingers_keeps_the_cause_of_the_enclosing_one(
    autojump_clock: MockClock, how: str
) -> None:
    registry, seen = observed()

    @registry.tool
    async def lingers() -> str:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(7)
        return "never"

    async with open_call_scope(name="own", timeout=3) as other:

        @registry.tool
        async def outer(ctx: ToolContext) -> str:
            nested = ToolCall(name="lingers", arguments={}, scope=other, parent=ctx.token)
            with trio.CancelScope(shield=how == "shields"):
                await registry.execute(nested)
            await trio.sleep_forever()
            return "never"

        async with open_call_scope() as scope, trio.open_nursery() as nursery:
            nursery.start_soon(at, 2.0, scope.cancel)
            await registry.execute(call(scope, "outer"))

    cause = "deadline:own" if how == "shields" else "caller:caller"
    assert seen.published == [
        f"lingers: cancelled ABORTED cancelled {cause}",
        "outer: cancelled ABORTED cancelled caller:caller",
    ]


@pytest.mark.rule("WR-6", "WR-7", "SC-9")
async def test_a_notice_before_the_deadline_of_a_wrappers_scope_is_the_callers(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed()

    @registry.tool
    async def lingers() -> str:
        with trio.CancelScope(shield=True):
            await trio.sleep(10)
        return "lingered"

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        with trio.move_on_at(2):
            return await proceed(execution)
        raise AssertionError

    registry.wrap(wrapper)
    async with trio.open_nursery() as nursery, open_call_scope() as scope:
        with trio.CancelScope() as outer:
            nursery.start_soon(at, 1.0, outer.cancel)
            await registry.execute(call(scope, "lingers"))

    assert seen.only.cause == CancelCause(CauseKind.AMBIENT, "ambient", None, 1.0)


def asked_in_time(source: Source, now: float) -> bool:
    """Return whether a source that has a cause is asked for it: its horizon has been reached."""
    return source.horizon <= now or source.cause_at(now) is None


MOMENTS = st.lists(
    st.tuples(
        st.sampled_from(["observe", "observe_hidden", "notice", "disregard", "wait"]),
        st.sampled_from([0, 1, 3]),
    ),
    max_size=12,
)


@pytest.mark.rule("WR-6", "SC-9")
@given(moments=MOMENTS)
def test_what_is_known_of_the_scopes_around_a_call_never_hides_behind_its_horizon(
    moments: list[tuple[str, int]],
) -> None:
    ambient, now = Ambient(), 0.0
    for what, ahead in moments:
        match what:
            case "observe":
                ambient.observe(now + ahead if ahead else -math.inf, now)
            case "observe_hidden":
                ambient.observe_hidden(now)
            case "notice":
                ambient.notice(now)
            case "disregard":
                ambient.disregard()
            case _:
                now += ahead

        assert asked_in_time(ambient, now), (what, now)


ACTS = st.lists(
    st.tuples(
        st.sampled_from(["cancel", "move", "child", "wait"]),
        st.integers(0, 3),
        st.sampled_from([-1.0, 0.0, 1.0, 4.0, math.inf]),
    ),
    max_size=14,
)


@pytest.mark.rule("SC-5", "SC-8", "SC-15")
@given(acts=ACTS)
def test_no_cause_of_a_call_scope_or_its_children_hides_behind_a_horizon(
    acts: list[tuple[str, int, float]],
) -> None:
    late: list[tuple[str, float]] = []

    async def main() -> None:
        async with open_call_scope(timeout=5) as scope:
            lifetimes = [lifetime_of(scope)]
            for what, which, seconds in acts:
                lifetime = lifetimes[which % len(lifetimes)]
                now = trio.current_time()
                match what:
                    case "cancel":
                        lifetime.cancel(CauseKind.CALLER, "x", None, now)
                    case "move":
                        lifetime.move_deadline(now + seconds)
                    case "child":
                        lifetimes.append(Lifetime("child", now + max(seconds, 0), lifetime))
                    case _:
                        await trio.sleep(max(seconds, 0) if seconds < math.inf else 2)
                now = trio.current_time()
                late.extend((what, now) for each in lifetimes if not asked_in_time(each, now))

    trio.run(main, clock=MockClock(autojump_threshold=0))

    assert late == []


@pytest.mark.rule("WR-7", "SC-14")
async def test_a_cancellation_that_a_shield_hides_afterwards_has_cancelled_the_body(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed()
    later: list[bool] = []

    @registry.tool
    async def body() -> str:
        with trio.CancelScope(shield=True):
            await trio.sleep(1)
            around.cancel()
            await trio.sleep(1)
            within.shield = True
            await trio.sleep(1)
        return "done"

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        with around, within:
            return await proceed(execution)
        raise AssertionError

    async def review(execution: ToolExecution, _result: ToolResult, proceed: ReviewRest) -> ReviewDecision:
        later.append(execution.scope.cancel_called)
        return await proceed()

    around, within = trio.CancelScope(), trio.CancelScope()
    registry.wrap(wrapper)
    registry.review(review)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "body"))

    assert (seen.only.code, seen.only.settlement.value) == ("ABORTED", "returned")
    assert caused_at(seen.only) == 1.0
    assert later == [False]


@pytest.mark.rule("WR-8")
async def test_a_shield_keeps_a_known_ambient_cancellation_from_inner_wrappers(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed()
    registry.register(nap)
    waited: list[float] = []

    async def again(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        results = [await proceed(execution)]
        with trio.CancelScope(shield=True):
            results.append(await proceed(execution))
        return results[-1]

    async def inner(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        result = await proceed(execution)
        if result.outcome is ToolOutcome.CANCELLED and waited:
            await trio.sleep(2)
        waited.append(trio.current_time())
        return result

    registry.wrap(again)
    registry.wrap(inner)
    async with open_call_scope() as scope:
        with trio.move_on_at(1):
            await registry.execute(call(scope, "nap", seconds=5))

    assert waited == [1.0, 3.0]
    assert facts(seen.only) == "cancelled ABORTED cancelled ambient:ambient"


@pytest.mark.rule("WR-4", "SC-15")
@pytest.mark.parametrize(
    ("act", "expected"),
    [
        pytest.param("cancel", CancelCause(CauseKind.CALLER, "parent", None, 2.0), id="cancelled"),
        pytest.param("move", CancelCause(CauseKind.DEADLINE, "parent", None, 3.0), id="moved"),
    ],
)
async def test_an_added_child_scope_that_is_left_goes_on_following_its_parent(
    act: str, expected: CancelCause, autojump_clock: MockClock
) -> None:
    registry, seen = observed(nap)
    opened: list[CallScope] = []

    async def owner(parent: CallScope) -> None:
        async with parent.open_child(name="child") as child:
            opened.append(child)
            await trio.sleep(1)

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        return await proceed(execution.with_scope(opened[0]))

    registry.wrap(wrapper)
    async with (
        open_call_scope(name="parent") as parent,
        open_call_scope() as scope,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(owner, parent)
        await wait_all_tasks_blocked()
        nursery.start_soon(registry.execute, call(scope, "nap", seconds=9.0))
        await trio.sleep(2)
        if act == "cancel":
            parent.cancel()
        else:
            parent.deadline = 3.0

    assert facts(seen.only) == f"cancelled ABORTED cancelled {expected.kind}:parent"
    assert seen.only.cause == expected


@pytest.mark.rule("WR-3", "WR-4")
async def test_a_scope_that_was_left_before_it_governs_still_counts_by_its_deadline(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed()
    registry.register(nap)
    shown: list[float] = []

    async def adds(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        async with scope.open_child(name="left", timeout=3) as child:
            derived = execution.with_scope(child)
        return await proceed(derived)

    async def looks(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        shown.append(trio.current_effective_deadline())
        return await proceed(execution)

    registry.wrap(adds)
    registry.wrap(looks)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "nap", seconds=5))

    assert shown == [3.0]
    assert facts(seen.only) == "cancelled ABORTED cancelled deadline:left"
