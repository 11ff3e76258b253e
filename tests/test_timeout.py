"""The timeout that a tool declares: what it covers, whom it loses to, and what it leaves."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.helpers import (
    GateRest,
    Proceed,
    ReviewRest,
    at,
    call,
    facts,
    hold_loop,
    observed,
)
from trio_tools import (
    Accept,
    Allow,
    Approval,
    Ask,
    CancelCause,
    CauseKind,
    DefinitionError,
    DispatchExecution,
    GateDecision,
    Registry,
    ReviewDecision,
    Tool,
    ToolContext,
    ToolError,
    ToolExecution,
    ToolOutcome,
    ToolResult,
    enforce_timeouts,
    open_call_scope,
    tool,
)

BUDGET = CancelCause(CauseKind.DEADLINE, "timeout", None, 5.0)


@tool(timeout=5)
async def slow(seconds: float) -> str:
    """Sleep within five seconds."""
    await trio.sleep(seconds)
    return "slept"


@tool(timeout=5)
async def stubborn(how: str) -> str:
    """Sleep for ever, and end as told when cancelled."""
    try:
        await trio.sleep_forever()
    except trio.Cancelled:
        if how == "raises":
            raise ToolError("on the way out", code="OUT") from None
        if how == "lets go":
            raise
    return "anyway"


@tool(timeout=5)
async def cleans_up(how: str) -> str:
    """Take ten seconds to clean up, then end as told."""
    try:
        await trio.sleep_forever()
    finally:
        with trio.CancelScope(shield=True):
            await trio.sleep(10)
        if how == "raises":
            raise ToolError("on the way out", code="OUT")
    return "never"


@pytest.mark.rule("TI-1")
async def test_a_declared_timeout_shows_as_a_deadline_called_timeout(autojump_clock: MockClock) -> None:
    registry, _ = observed()
    shown: list[float] = []

    @registry.tool(timeout=5)
    async def look(ctx: ToolContext) -> str:
        shown.append(trio.current_effective_deadline())
        await trio.sleep_until(5)
        return "never"

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        shown.append(execution.scope.deadline)
        result = await proceed(execution)
        cause = execution.scope.cause
        assert cause == BUDGET
        return result

    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        result = await registry.execute(call(scope, "look"))

    assert shown == [5.0, 5.0]
    assert facts(result) == "failed TOOL_TIMEOUT cancelled deadline:timeout"


@pytest.mark.rule("TI-1")
async def test_without_a_timeout_the_call_is_delegated_untouched(autojump_clock: MockClock) -> None:
    registry, seen = observed()
    shown: list[float] = []

    @registry.tool
    async def look() -> str:
        shown.append(trio.current_effective_deadline())
        await trio.sleep(80_000)
        return "looked"

    async with open_call_scope() as scope:
        await registry.execute(call(scope, "look"))

    assert shown == [math.inf]
    assert facts(seen.only) == "ok returned"


@pytest.mark.rule("TI-1", "LA-6")
async def test_the_timeout_is_that_of_the_tool_visible_when_the_wrapper_runs(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed()
    first = registry.register(slow)

    @tool(name="slow", timeout=50)
    async def patient(seconds: float) -> str:
        await trio.sleep(seconds)
        return "patient"

    async def gate(_execution: ToolExecution, _proceed: GateRest) -> GateDecision:
        first.close()
        registry.register(patient)
        return Allow()

    registry.gate(gate)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "slow", seconds=20))

    assert seen.only.value == "patient"


@pytest.mark.rule("TI-2")
@pytest.mark.parametrize("timeout", [0, -1, 0.0, -0.0, math.inf, -math.inf, math.nan, True, False, "5", [5]])
def test_a_timeout_is_a_finite_number_above_zero(timeout: Any) -> None:
    def body() -> str:
        return ""

    with pytest.raises(DefinitionError):
        Tool.from_function(body, timeout=timeout)
    with pytest.raises(DefinitionError):
        tool(timeout=timeout)(body)
    with pytest.raises(DefinitionError):
        Tool.from_schema(name="x", description="", parameters={}, output={}, body=body, timeout=timeout)


@pytest.mark.rule("TI-2")
def test_a_timeout_never_appears_in_the_schema() -> None:
    def without(seconds: float) -> str:
        """Sleep within five seconds."""
        return ""

    plain = Tool.from_function(without, name="slow")

    assert slow.timeout == 5
    assert slow.schema() == plain.schema()
    assert set(slow.schema()) == {"name", "description", "parameters"}


@pytest.mark.rule("TI-3")
async def test_the_budget_covers_neither_gates_approval_nor_review(autojump_clock: MockClock) -> None:
    async def approve(_execution: ToolExecution, _reason: str | None) -> Approval:
        await trio.sleep(10)
        return Approval.ALLOWED_ONCE

    async def gate(_execution: ToolExecution, _proceed: GateRest) -> GateDecision:
        await trio.sleep(10)
        return Ask()

    async def review(_execution: ToolExecution, _result: ToolResult, _proceed: ReviewRest) -> ReviewDecision:
        await trio.sleep(10)
        return Accept()

    registry, seen = observed(slow, approver=approve)
    registry.gate(gate)
    registry.review(review)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "slow", seconds=4))
        returned = trio.current_time()

    assert returned == 34.0
    assert facts(seen.only) == "ok returned"


@pytest.mark.rule("TI-3")
async def test_the_budget_covers_neither_finalizer_nor_observers(autojump_clock: MockClock) -> None:
    registry, seen = observed()

    def finalize(_execution: ToolExecution, _result: ToolResult) -> None:
        hold_loop(10)

    @registry.tool(timeout=5, finalize=finalize)
    async def work() -> str:
        return "worked"

    registry.observe(lambda _execution, _result: hold_loop(10))
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "work"))

    assert facts(seen.only) == "ok returned"


@pytest.mark.rule("TI-3", "TI-6")
async def test_inner_wrappers_and_body_share_one_budget(autojump_clock: MockClock) -> None:
    registry, seen = observed(slow)

    async def dawdle(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        await trio.sleep(3)
        return await proceed(execution)

    registry.wrap(dawdle)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "slow", seconds=3))

    assert facts(seen.only) == "failed TOOL_TIMEOUT cancelled deadline:timeout"
    assert seen.only.cause == BUDGET


@pytest.mark.rule("TI-4", "TI-11", "JS-12")
async def test_the_result_of_a_budget_that_is_first(autojump_clock: MockClock) -> None:
    registry, seen = observed(slow)
    async with open_call_scope() as scope:
        result = await registry.execute(call(scope, "slow", seconds=9))
        returned = trio.current_time()
        cancelled = scope.cancel_called

    assert returned == 5.0
    assert facts(result) == "failed TOOL_TIMEOUT cancelled deadline:timeout"
    assert result.cause == BUDGET
    assert result.error is not None
    assert result.error.name == "ToolTimeoutError"
    assert result.text == "Error: tool call timed out after 5000ms"
    assert seen.only is result
    assert not cancelled


@pytest.mark.rule("TI-4", "JS-12")
@pytest.mark.parametrize(("timeout_s", "told"), [(0.0004, "0ms"), (1.2346, "1235ms"), (60, "60000ms")])
async def test_a_timeout_is_told_in_whole_milliseconds_rounded(
    autojump_clock: MockClock, timeout_s: float, told: str
) -> None:
    registry, seen = observed()

    @registry.tool(timeout=timeout_s)
    async def waits() -> str:
        await trio.sleep_forever()
        return "never"

    async with open_call_scope() as scope:
        await registry.execute(call(scope, "waits"))

    assert seen.only.text == f"Error: tool call timed out after {told}"


@pytest.mark.rule("TI-4", "TI-11")
@pytest.mark.parametrize(
    ("how", "settled"), [("returns", "returned"), ("raises", "raised"), ("lets go", "cancelled")]
)
async def test_a_budget_that_is_first_replaces_whatever_the_body_does(
    autojump_clock: MockClock, how: str, settled: str
) -> None:
    registry, seen = observed(stubborn)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "stubborn", how=how))

    assert facts(seen.only) == f"failed TOOL_TIMEOUT {settled} deadline:timeout"
    assert seen.only.cause == BUDGET


@pytest.mark.rule("TI-4")
async def test_a_timeout_is_told_only_after_the_body_is_quiet(autojump_clock: MockClock) -> None:
    registry, seen = observed(cleans_up)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "cleans_up", how="lets go"))
        returned = trio.current_time()

    assert returned == 15.0
    assert facts(seen.only) == "failed TOOL_TIMEOUT cancelled deadline:timeout"
    assert seen.only.cause == BUDGET


@pytest.mark.rule("TI-5")
async def test_contexts_of_the_body_survive_a_timeout_those_of_inner_wrappers_do_not(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed()

    @registry.tool(timeout=5)
    async def explains(ctx: ToolContext) -> str:
        ctx.defer_context("from the body")
        await trio.sleep_forever()
        return "never"

    async def adding(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        result = await proceed(execution)
        return attrs.evolve(result, contexts=(*result.contexts, "from the wrapper"))

    registry.wrap(adding)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "explains"))

    assert facts(seen.only) == "failed TOOL_TIMEOUT cancelled deadline:timeout"
    assert seen.only.contexts == ("from the body",)


@pytest.mark.rule("TI-5")
async def test_an_exception_of_an_inner_wrapper_passes_a_budget_that_is_over(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed(slow)

    async def fails(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        await proceed(execution)
        raise ToolError("policy", code="MINE")

    registry.wrap(fails)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "slow", seconds=9))

    assert facts(seen.only) == "failed MINE cancelled"


@pytest.mark.rule("TI-6")
async def test_retries_registered_later_share_one_budget(autojump_clock: MockClock) -> None:
    registry, seen = observed()
    started: list[float] = []

    @registry.tool(timeout=5)
    async def flaky() -> str:
        started.append(trio.current_time())
        await trio.sleep(2)
        raise ToolError("again", code="AGAIN")

    async def retry(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        while True:
            result = await proceed(execution)
            if result.outcome is not ToolOutcome.FAILED:
                return result

    registry.wrap(retry)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "flaky"))
        returned = trio.current_time()

    assert started == [0.0, 2.0, 4.0]
    assert returned == 5.0
    assert facts(seen.only) == "failed TOOL_TIMEOUT cancelled deadline:timeout"


@pytest.mark.rule("TI-6")
async def test_without_default_wrappers_nothing_enforces_timeouts(autojump_clock: MockClock) -> None:
    registry, seen = observed(slow, default_wrappers=False)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "slow", seconds=9))

    assert facts(seen.only) == "ok returned"


@pytest.mark.rule("TI-6", "TI-4")
async def test_placed_inside_a_retry_each_attempt_has_its_own_budget(autojump_clock: MockClock) -> None:
    registry, seen = observed(default_wrappers=False)
    started: list[float] = []

    @registry.tool(timeout=5)
    async def slow_at_first() -> str:
        started.append(trio.current_time())
        await trio.sleep(9 if len(started) < 3 else 4)
        return "at last"

    async def retry(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        result = await proceed(execution)
        while result.code == "TOOL_TIMEOUT":
            result = await proceed(execution)
        return result

    registry.wrap(retry)
    registry.wrap(enforce_timeouts)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "slow_at_first"))

    assert started == [0.0, 5.0, 10.0]
    assert facts(seen.only) == "ok returned"


@pytest.mark.rule("TI-1", "TI-4", "TI-6")
@pytest.mark.parametrize("seconds", [1, 9])
async def test_a_wrapper_may_enforce_timeouts_itself(autojump_clock: MockClock, seconds: float) -> None:
    registry = Registry(default_wrappers=False)
    registry.register(slow)
    enforced: list[str | None] = []

    async def wrap(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        result = await enforce_timeouts(execution, proceed)
        enforced.append(result.code)
        return result

    registry.wrap(wrap)
    async with open_call_scope() as scope:
        result = await registry.execute(call(scope, "slow", seconds=seconds))
        unknown = await registry.execute(call(scope, "nowhere"))

    in_time = "ok returned" if seconds < 5 else "failed TOOL_TIMEOUT cancelled deadline:timeout"
    assert facts(result) == in_time
    assert enforced == [result.code, "UNKNOWN_TOOL"]
    assert unknown.code == "UNKNOWN_TOOL"


@pytest.mark.rule("TI-10")
@pytest.mark.parametrize("how", ["sleeps", "holds the loop"])
async def test_a_budget_that_passes_before_the_invocation(autojump_clock: MockClock, how: str) -> None:
    registry, seen = observed(slow)

    async def dawdle(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        if how == "sleeps":
            await trio.sleep(9)
        else:
            hold_loop(9)
        return await proceed(execution)

    registry.wrap(dawdle)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "slow", seconds=1))

    assert facts(seen.only) == "failed TOOL_TIMEOUT not_dispatched deadline:timeout"
    assert seen.only.cause == BUDGET


@pytest.mark.rule("TI-12")
@pytest.mark.parametrize("how", ["sleeps", "holds the loop", "shields"])
async def test_a_budget_that_passes_in_an_inner_wrapper_after_the_settlement(
    autojump_clock: MockClock, how: str
) -> None:
    registry, seen = observed(slow)

    async def dawdle(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        result = await proceed(execution)
        if how == "holds the loop":
            hold_loop(9)
        else:
            with trio.CancelScope(shield=how == "shields"):
                await trio.sleep(9)
        return result

    registry.wrap(dawdle)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "slow", seconds=1))

    assert facts(seen.only) == "failed TOOL_TIMEOUT returned deadline:timeout"
    assert seen.only.cause == BUDGET


def _ends(scope: Any, outer: trio.CancelScope, who: str) -> Callable[[], object]:
    return scope.cancel if who == "caller" else outer.cancel


@pytest.mark.rule("TI-13")
@pytest.mark.parametrize("who", ["caller", "ambient"])
@pytest.mark.parametrize("how", ["lets go", "raises"])
async def test_a_caller_who_is_first_keeps_the_budget_out(
    autojump_clock: MockClock, how: str, who: str
) -> None:
    registry, seen = observed(cleans_up)
    async with trio.open_nursery() as nursery, open_call_scope() as scope:
        with trio.CancelScope() as outer:
            nursery.start_soon(at, 4.0, _ends(scope, outer, who))
            await registry.execute(call(scope, "cleans_up", how=how))

    if how == "raises":
        assert facts(seen.only) == "failed OUT raised"
    else:
        cause = "caller:caller" if who == "caller" else "ambient:ambient"
        assert facts(seen.only) == f"cancelled ABORTED cancelled {cause}"
        assert seen.only.cause is not None
        assert seen.only.cause.at == 4.0


@pytest.mark.rule("TI-14")
@pytest.mark.parametrize("who", ["caller", "ambient"])
@pytest.mark.parametrize(("how", "settled"), [("lets go", "cancelled"), ("raises", "raised")])
async def test_a_caller_who_is_second_does_not_change_the_timeout(
    autojump_clock: MockClock, how: str, settled: str, who: str
) -> None:
    registry, seen = observed(cleans_up)
    returned: list[ToolResult] = []
    async with trio.open_nursery() as nursery, open_call_scope() as scope:
        with trio.CancelScope() as outer:
            nursery.start_soon(at, 7.0, _ends(scope, outer, who))
            returned.append(await registry.execute(call(scope, "cleans_up", how=how)))

    assert facts(seen.only) == f"failed TOOL_TIMEOUT {settled} deadline:timeout"
    assert seen.only.cause == BUDGET
    assert returned == seen.results


@pytest.mark.rule("TI-15", "WR-6")
@pytest.mark.parametrize("who", ["caller", "ambient"])
@pytest.mark.parametrize("how", ["sleeps", "holds the loop"])
async def test_at_the_same_instant_the_caller_wins(autojump_clock: MockClock, how: str, who: str) -> None:
    registry, seen = observed()

    @registry.tool(timeout=5)
    async def work() -> str:
        if how == "sleeps":
            await trio.sleep_forever()
        hold_loop(9)
        return "worked"

    async with open_call_scope(timeout=5 if who == "caller" else math.inf) as scope:
        with trio.move_on_after(5 if who == "ambient" else math.inf):
            await registry.execute(call(scope, "work"))

    settled = "cancelled" if how == "sleeps" else "returned"
    cause = "deadline:caller" if who == "caller" else "ambient:ambient"
    assert facts(seen.only) == f"cancelled ABORTED {settled} {cause}"
    assert seen.only.cause is not None
    assert seen.only.cause.at == 5.0


@pytest.mark.rule("TI-15")
@pytest.mark.parametrize("who", ["caller", "ambient"])
@pytest.mark.parametrize("how", ["lets go", "returns"])
async def test_a_cancel_at_the_very_instant_of_the_budget_wins(
    autojump_clock: MockClock, who: str, how: str
) -> None:
    registry, seen = observed(stubborn)
    async with trio.open_nursery() as nursery, open_call_scope() as scope:
        with trio.CancelScope() as outer:
            nursery.start_soon(at, 5.0, _ends(scope, outer, who))
            await registry.execute(call(scope, "stubborn", how=how))

    settled = "cancelled" if how == "lets go" else "returned"
    cause = "caller:caller" if who == "caller" else "ambient:ambient"
    assert facts(seen.only) == f"cancelled ABORTED {settled} {cause}"


@pytest.mark.rule("TI-16")
@pytest.mark.parametrize(("seconds", "expected"), [(4.875, "ok returned"), (5.0, None), (6.0, None)])
async def test_a_body_that_held_the_loop_past_its_budget_timed_out(
    autojump_clock: MockClock, seconds: float, expected: str | None
) -> None:
    registry, seen = observed()

    @registry.tool(timeout=5)
    async def hog() -> str:
        hold_loop(seconds)
        return "held"

    async with open_call_scope() as scope:
        await registry.execute(call(scope, "hog"))

    assert facts(seen.only) == (expected or "failed TOOL_TIMEOUT returned deadline:timeout")


@pytest.mark.rule("TI-16")
async def test_a_body_that_held_the_loop_and_raised_timed_out_all_the_same(autojump_clock: MockClock) -> None:
    registry, seen = observed()

    @registry.tool(timeout=5)
    async def hog() -> str:
        hold_loop(6)
        raise ToolError("mine", code="MINE")

    async with open_call_scope() as scope:
        await registry.execute(call(scope, "hog"))

    assert facts(seen.only) == "failed TOOL_TIMEOUT raised deadline:timeout"


@pytest.mark.rule("TI-17")
@pytest.mark.parametrize("where", ["body", "wrapper"])
async def test_the_deadline_of_the_call_scope_is_never_a_tool_timeout(
    autojump_clock: MockClock, where: str
) -> None:
    registry, seen = observed(slow)

    async def dawdle(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        if where == "wrapper":
            await trio.sleep_forever()
        return await proceed(execution)

    registry.wrap(dawdle)
    async with open_call_scope(name="timeout", timeout=3) as scope:
        await registry.execute(call(scope, "slow", seconds=9))

    code = "ABORTED cancelled" if where == "body" else "ABORTED_BEFORE_DISPATCH not_dispatched"
    assert facts(seen.only) == f"cancelled {code} deadline:timeout"
    assert seen.only.cause == CancelCause(CauseKind.DEADLINE, "timeout", None, 3.0)


@pytest.mark.rule("TI-17", "TI-4")
async def test_a_call_scope_that_looks_like_the_budget_is_not_taken_for_it(autojump_clock: MockClock) -> None:
    registry, seen = observed(slow)
    async with open_call_scope(name="timeout", timeout=5) as scope:
        await registry.execute(call(scope, "slow", seconds=9))

    assert facts(seen.only) == "cancelled ABORTED cancelled deadline:timeout"


@pytest.mark.rule("TI-18")
@pytest.mark.parametrize("name", ["mine", "timeout"])
@pytest.mark.parametrize("translate", [False, True])
async def test_the_deadline_of_another_wrapper_is_never_a_tool_timeout(
    autojump_clock: MockClock, name: str, translate: bool
) -> None:
    registry, seen = observed(slow)

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        result = await proceed(execution.with_timeout(3, name=name))
        return ToolResult.ok("fallback") if translate else result

    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "slow", seconds=9))

    assert facts(seen.only) == (
        "ok cancelled" if translate else f"cancelled ABORTED cancelled deadline:{name}"
    )


@pytest.mark.rule("TI-18")
async def test_the_deadline_of_an_inner_wrapper_after_the_budget_changes_nothing(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed(slow)

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        await proceed(execution.with_timeout(7, name="mine"))
        return ToolResult.ok("fallback")

    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "slow", seconds=9))

    assert facts(seen.only) == "failed TOOL_TIMEOUT cancelled deadline:timeout"


@pytest.mark.rule("TI-19", "NE-4")
@pytest.mark.parametrize("where", ["body", "before"])
async def test_the_budget_of_an_enclosing_call_ends_a_nested_one(
    autojump_clock: MockClock, where: str
) -> None:
    registry, seen = observed()

    @registry.tool
    async def inner() -> str:
        await trio.sleep_forever()
        return "never"

    @registry.tool(timeout=5)
    async def outer(ctx: ToolContext) -> str:
        if where == "before":
            hold_loop(6)
        await ctx.call("inner", {})
        return "never"

    async with open_call_scope() as scope:
        await registry.execute(call(scope, "outer"))

    code = "ABORTED cancelled" if where == "body" else "ABORTED_BEFORE_DISPATCH not_dispatched"
    assert seen.published == [
        f"inner: cancelled {code} deadline:timeout",
        "outer: failed TOOL_TIMEOUT cancelled deadline:timeout",
    ]
    assert [result.cause for result in seen.results] == [BUDGET, BUDGET]


@pytest.mark.rule("TI-19")
async def test_a_nested_budget_of_its_own_times_out_the_nested_call_alone(autojump_clock: MockClock) -> None:
    registry, seen = observed(slow)

    @registry.tool(timeout=50)
    async def outer(ctx: ToolContext) -> str:
        return (await ctx.call("slow", {"seconds": 9})).text

    async with open_call_scope() as scope:
        await registry.execute(call(scope, "outer"))

    assert seen.published == [
        "slow: failed TOOL_TIMEOUT cancelled deadline:timeout",
        "outer: ok returned",
    ]


async def test_a_tools_own_timeout_error_is_its_own_failure(autojump_clock: MockClock) -> None:
    registry, seen = observed()

    @registry.tool(timeout=30)
    async def gives_up(how: str) -> str:
        if how == "builtin":
            raise TimeoutError("the peer was slow")
        with trio.fail_after(1):
            await trio.sleep_forever()
        return "never"

    async with open_call_scope() as scope:
        await registry.execute(call(scope, "gives_up", how="builtin"))
        await registry.execute(call(scope, "gives_up", how="trio"))

    assert seen.published == ["gives_up: failed TOOL_ERROR raised"] * 2
    assert [result.text for result in seen.results] == ["Error: the peer was slow", "Error: TooSlowError"]


async def test_the_innermost_of_nested_deadlines_runs_its_cleanup(autojump_clock: MockClock) -> None:
    registry, seen = observed(slow)
    cleaned: list[str] = []

    def adding(name: str, seconds: float) -> Callable[[DispatchExecution, Proceed], object]:
        async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
            try:
                return await proceed(execution.with_timeout(seconds, name=name))
            finally:
                cleaned.append(name)

        return wrapper

    registry.wrap(adding("outer", 2))  # pyright: ignore[reportArgumentType]
    registry.wrap(adding("inner", 2))  # pyright: ignore[reportArgumentType]
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "slow", seconds=9))

    assert cleaned == ["inner", "outer"]
    assert facts(seen.only) == "cancelled ABORTED cancelled deadline:outer"


async def test_the_default_wrapper_may_be_registered_twice(autojump_clock: MockClock) -> None:
    registry = Registry()
    registry.register(slow)
    registry.wrap(enforce_timeouts)
    async with open_call_scope() as scope:
        result = await registry.execute(call(scope, "slow", seconds=9))
        scope.deadline = 7
        again = await registry.execute(call(scope, "slow", seconds=1))

    assert facts(result) == "failed TOOL_TIMEOUT cancelled deadline:timeout"
    assert facts(again) == "ok returned"


@pytest.mark.rule("TI-14", "PU-8")
async def test_a_timeout_under_cancelled_ambient_scopes_is_returned(autojump_clock: MockClock) -> None:
    registry, _ = observed(cleans_up)
    returned: list[str] = []
    async with open_call_scope() as scope:
        with trio.move_on_after(8) as outer:
            returned.append(facts(await registry.execute(call(scope, "cleans_up", how="lets go"))))
            await trio.lowlevel.checkpoint()

    assert returned == ["failed TOOL_TIMEOUT cancelled deadline:timeout"]
    assert outer.cancelled_caught


@pytest.mark.rule("TI-18", "TI-4", "WR-10")
@pytest.mark.parametrize("how", ["shields", "holds the loop", "raises"])
@pytest.mark.parametrize("added", ["deadline", "scope", "trio scope"])
async def test_another_source_that_was_first_is_not_taken_for_the_budget(
    autojump_clock: MockClock, how: str, added: str
) -> None:
    registry, seen = observed()

    @registry.tool(timeout=3)
    async def lingers() -> str:
        if how == "holds the loop":
            hold_loop(10)
        else:
            with trio.CancelScope(shield=True):
                await trio.sleep(10)
        if how == "raises":
            raise ToolError("on the way out", code="OUT")
        return "lingered"

    async with open_call_scope(name="mine", timeout=1) as extra:

        async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
            if added == "deadline":
                return await proceed(execution.with_timeout(1, name="mine"))
            if added == "scope":
                return await proceed(execution.with_scope(extra))
            with trio.move_on_at(1):
                return await proceed(execution)
            raise AssertionError

        registry.wrap(wrapper)
        async with open_call_scope() as scope:
            await registry.execute(call(scope, "lingers"))

    if how == "raises":
        assert facts(seen.only) == "failed OUT raised"
    else:
        cause = "ambient:wrapper" if added == "trio scope" else "deadline:mine"
        assert facts(seen.only) == f"cancelled ABORTED returned {cause}"
        assert seen.only.cause is not None
        assert seen.only.cause.at == 1.0


@pytest.mark.rule("TI-18", "TI-4", "TI-6")
@pytest.mark.parametrize("translate", [False, True])
async def test_an_attempt_that_ended_before_does_not_keep_the_budget_out(
    autojump_clock: MockClock, translate: bool
) -> None:
    registry, seen = observed()

    @registry.tool(timeout=3)
    async def waits() -> str:
        await trio.sleep_forever()
        return "never"

    async def retry(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        await proceed(execution.with_timeout(1, name="mine"))
        if translate:
            await trio.sleep_forever()
        return await proceed(execution)

    registry.wrap(retry)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "waits"))

    assert facts(seen.only) == "failed TOOL_TIMEOUT cancelled deadline:timeout"
    assert seen.only.cause == CancelCause(CauseKind.DEADLINE, "timeout", None, 3.0)


@pytest.mark.rule("TI-13", "WR-8")
async def test_a_caller_hidden_by_a_shield_was_still_before_the_budget(autojump_clock: MockClock) -> None:
    registry, seen = observed()

    @registry.tool(timeout=3)
    async def waits() -> str:
        await trio.sleep_forever()
        return "never"

    async def shielding(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        with trio.CancelScope(shield=True):
            return await proceed(execution)
        raise AssertionError

    registry.wrap(shielding)
    async with open_call_scope() as scope:
        with trio.move_on_at(2):
            await registry.execute(call(scope, "waits"))

    assert seen.only.cause == CancelCause(CauseKind.AMBIENT, "ambient", None, 2.0)
