"""The edges of a batch: which ends raise, what is dated when, and what a refused batch leaves behind."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from tests.helpers import GateRest, Proceed, Recorder, call, caused_at, facts, observed, run
from trio_tools import (
    BatchPolicy,
    CallScope,
    Deny,
    DispatchExecution,
    GateDecision,
    Registry,
    ToolCall,
    ToolContext,
    ToolError,
    ToolExecution,
    ToolResult,
    open_call_scope,
    tool,
)
from trio_tools._scope import lifetime_of


@tool
async def linger(seconds: float) -> str:
    """Wait, whatever happens meanwhile."""
    with trio.CancelScope(shield=True):
        await trio.sleep(seconds)
    return "lingered"


@tool(concurrency_safe=True)
async def quick() -> str:
    """Return at once."""
    return "quick"


@pytest.mark.rule("BA-12")
async def test_a_batch_that_the_caller_ended_returns_although_its_task_is_cancelled_meanwhile(
    autojump_clock: MockClock,
) -> None:
    registry, _seen = observed(linger)
    results: list[ToolResult] = []
    with trio.move_on_after(2):
        async with open_call_scope(timeout=1) as scope:
            results += await registry.execute_batch([call(scope, "linger", seconds=3)])

    assert list(map(facts, results)) == ["cancelled ABORTED returned deadline:caller"]


@pytest.mark.rule("BA-12", "CA-6")
async def test_a_failure_that_names_the_ambient_cause_does_not_make_a_batch_raise(
    autojump_clock: MockClock,
) -> None:
    registry, _seen = observed(linger)
    results: list[ToolResult] = []

    async def translate(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        result = await proceed(execution)
        return ToolResult.failed("gave up", code="GAVE_UP", cause=result.cause)

    registry.wrap(translate)
    with trio.move_on_after(1):
        async with open_call_scope() as scope:
            results += await registry.execute_batch([call(scope, "linger", seconds=2)])

    assert list(map(facts, results)) == ["failed GAVE_UP returned ambient:ambient"]


@pytest.mark.rule("SC-12", "NE-9")
async def test_a_refused_batch_leaves_nothing_with_its_call_scope(autojump_clock: MockClock) -> None:
    registry, seen = observed(quick)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "quick"))
        orphan = ToolCall(name="quick", arguments={}, scope=scope, parent=seen.executions[0].token)
        with pytest.raises(RuntimeError, match="parent"):
            await registry.execute_batch([call(scope, "quick"), orphan])
        left = dict(lifetime_of(scope)._children)

    assert left == {}


@pytest.mark.rule("SC-12", "BA-10")
async def test_a_batch_that_ran_or_was_skipped_leaves_nothing_with_its_call_scope(
    autojump_clock: MockClock,
) -> None:
    registry, _seen = observed(quick)
    async with open_call_scope() as scope:
        await registry.execute_batch([call(scope, "quick")])
        after_running = dict(lifetime_of(scope)._children)
        scope.cancel()
        await registry.execute_batch([call(scope, "quick")])
        after_skipping = dict(lifetime_of(scope)._children)

    assert after_running == {}
    assert after_skipping == {}


async def _mixed(registry: Registry, elsewhere: CallScope) -> None:
    """Run a tool that executes a batch of a call nested in it and one that is not, nor in its scope."""

    @registry.tool
    async def mixing(ctx: ToolContext) -> str:
        async with open_call_scope() as scope:
            nested = ToolCall(name="linger", arguments={"seconds": 3}, scope=scope, parent=ctx.token)
            await registry.execute_batch([nested, call(elsewhere, "quick")])
        return "mixed"

    async with open_call_scope() as scope:
        await registry.execute(call(scope, "mixing"))


@pytest.mark.rule("SC-9", "BA-9")
async def test_every_call_of_a_batch_dates_an_ambient_deadline_as_it_stood_when_the_batch_was_entered(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed(linger, quick)

    async def gate(execution: ToolExecution, proceed: GateRest) -> GateDecision:
        if execution.name == "linger":
            with trio.CancelScope(shield=True):
                await trio.sleep(3)
        return await proceed()

    registry.gate(gate)
    async with open_call_scope() as elsewhere:
        with trio.move_on_after(1):
            await _mixed(registry, elsewhere)

    assert _times(seen) == {"linger": 1.0, "quick": 1.0, "mixing": 1.0}


def _times(seen: Recorder) -> dict[str, float]:
    pairs = zip(seen.executions, seen.results, strict=True)
    return {execution.name: caused_at(result) for execution, result in pairs}


@pytest.mark.rule("BA-12", "CA-12")
async def test_a_batch_whose_only_call_was_denied_returns_in_a_cancelled_task(
    autojump_clock: MockClock,
) -> None:
    registry, _seen = observed(quick)
    results: list[ToolResult] = []

    async def deny_late(_execution: ToolExecution, _proceed: GateRest) -> GateDecision:
        with trio.CancelScope(shield=True):
            await trio.sleep(2)
        return Deny("not today")

    registry.gate(deny_late)
    with trio.move_on_after(1):
        async with open_call_scope() as scope:
            results += await registry.execute_batch([call(scope, "quick")])

    assert list(map(facts, results)) == ["failed DENIED not_dispatched"]


@pytest.mark.rule("BA-5", "BA-8")
async def test_a_call_that_is_refused_at_dispatch_holds_the_next_one_up_for_nothing(
    autojump_clock: MockClock,
) -> None:
    registry, _seen = observed()
    begun: list[float] = []

    @registry.tool(concurrency_safe=True)
    async def wait(seconds: float) -> None:
        begun.append(trio.current_time())
        await trio.sleep(seconds)

    start = trio.current_time()
    async with open_call_scope() as scope:
        results = await registry.execute_batch(
            [call(scope, "wait", seconds=5), call(scope, "wait", seconds="x"), call(scope, "wait", seconds=5)]
        )

    assert begun == [start, start]
    assert [result.code for result in results] == [None, "INVALID_ARGS", None]


@pytest.mark.rule("BA-9", "RE-8", "PU-1")
async def test_a_success_whose_caller_is_cancelled_while_it_waits_for_its_place_is_none(
    autojump_clock: MockClock,
) -> None:
    registry, _seen = observed(quick)

    @registry.tool(concurrency_safe=True)
    async def wait(seconds: float) -> None:
        await trio.sleep(seconds)

    async with open_call_scope() as first, open_call_scope(timeout=2) as second:
        results = await registry.execute_batch([call(first, "wait", seconds=5), call(second, "quick")])

    assert list(map(facts, results)) == ["ok returned", "cancelled ABORTED returned deadline:caller"]


@pytest.mark.rule("BA-5")
def test_a_wrapper_that_merely_gives_way_does_not_upset_the_order_of_bodies() -> None:
    """trio runs tasks that are ready in arbitrary order, so this is tried many times."""

    async def main() -> list[str]:
        registry, _seen = observed()
        begun: list[str] = []

        @registry.tool(concurrency_safe=True)
        async def note(label: str) -> None:
            begun.append(label)

        async def giving_way(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
            if execution.arguments == {"label": "a"}:
                await trio.lowlevel.checkpoint()
                await trio.lowlevel.checkpoint()
            return await proceed(execution)

        registry.wrap(giving_way)
        async with open_call_scope() as scope:
            await registry.execute_batch(call(scope, "note", label=label) for label in "abcd")
        return begun

    orders = [run(main) for _ in range(10)]

    assert orders == [list("abcd")] * 10


@pytest.mark.rule("BA-11")
async def test_cancelled_siblings_that_linger_in_their_gates_are_reported_in_each_batch(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    registry, _seen = observed(quick)

    @registry.tool(concurrency_safe=True)
    async def fail() -> None:
        await trio.sleep(1)
        raise ToolError("failed", code="MINE")

    async def gate(execution: ToolExecution, proceed: GateRest) -> GateDecision:
        if execution.name == "quick":
            with trio.CancelScope(shield=True):
                await trio.sleep(15)
        return await proceed()

    registry.gate(gate)
    async with open_call_scope() as scope:
        for _ in range(2):
            await registry.execute_batch(
                [call(scope, "fail"), call(scope, "quick")], on_failure=BatchPolicy.FAIL_FAST
            )

    warnings = [record.getMessage() for record in caplog.records if "quick" in record.getMessage()]
    assert len(warnings) == 2
    for warning in warnings:
        assert "was cancelled 10.0 s ago (sibling 'batch') and is still in phase gates" in warning


@pytest.mark.rule("SC-14", "SC-9")
async def test_the_view_of_a_batched_call_reports_its_call_scope_also_afterwards(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed(quick)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "quick"))
        await registry.execute_batch([call(scope, "quick")])
        before = [each.scope.cancel_called for each in seen.executions]
        scope.deadline = 0.0
        after = [each.scope.cause for each in seen.executions]

    assert before == [False, False]
    assert after == [scope.cause, scope.cause]
