"""The retry policy: what is safe is tried again, and what is not says why."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import trio

from trio_tools import (
    DispatchExecution,
    Effect,
    Registry,
    ToolCall,
    ToolError,
    ToolOutcome,
    ToolResult,
    open_call_scope,
)
from trio_tools.trace import RetryDecision, retry_policy


def registry_of(
    effect: Effect, failures: int, *, code: str = "BUSY", timeout: float | None = None
) -> tuple[Registry, list[float]]:
    registry = Registry()
    attempts: list[float] = []

    @registry.tool(effect=effect, timeout=timeout)
    async def act() -> int:
        attempts.append(trio.current_time())
        if len(attempts) <= failures:
            raise ToolError("not yet", code=code)
        return len(attempts)

    return registry, attempts


async def call(registry: Registry, name: str = "act") -> ToolResult:
    async with open_call_scope() as scope:
        return await registry.execute(ToolCall(name=name, arguments={}, scope=scope))


@pytest.mark.rule("WR-13")
@pytest.mark.parametrize("effect", Effect)
async def test_a_dispatched_call_is_tried_again_only_if_its_effect_allows(
    autojump_clock: object, effect: Effect
) -> None:
    registry, attempts = registry_of(effect, failures=1)
    decisions: list[RetryDecision] = []
    registry.wrap(retry_policy(report=decisions.append))
    result = await call(registry)

    safe = effect in {Effect.READ_ONLY, Effect.IDEMPOTENT_WRITE}
    assert len(attempts) == (2 if safe else 1)
    assert result.outcome is (ToolOutcome.OK if safe else ToolOutcome.FAILED)
    assert [decision.again for decision in decisions] == [safe]
    assert safe or decisions[0].why == f"its body was invoked, and its effect is {effect}"


@pytest.mark.rule("WR-13")
async def test_a_call_that_was_not_dispatched_may_be_tried_again_whatever_its_effect(
    autojump_clock: object,
) -> None:
    registry, attempts = registry_of(Effect.UNKNOWN, failures=0)
    refusals: list[int] = []

    async def busy(execution: DispatchExecution, proceed: Any) -> ToolResult:
        if len(refusals) < 2:
            refusals.append(1)
            return ToolResult.failed("no connection yet", code="NOT_CONNECTED")
        return await proceed(execution)

    registry.wrap(retry_policy())
    registry.wrap(busy)
    result = await call(registry)

    assert result.outcome is ToolOutcome.OK
    assert len(attempts) == 1


async def test_the_waits_grow_on_trios_clock(autojump_clock: object) -> None:
    registry, attempts = registry_of(Effect.READ_ONLY, failures=9)
    decisions: list[RetryDecision] = []
    registry.wrap(retry_policy(attempts=5, wait=1, factor=3, max_wait=8, jitter=0, report=decisions.append))
    result = await call(registry)

    assert [at - attempts[0] for at in attempts] == [0, 1, 4, 12, 20]
    assert result.code == "BUSY"
    assert [decision.wait for decision in decisions] == [1, 3, 8, 8, 0]
    assert decisions[-1].why == "it was attempt 5 of 5"


async def test_jitter_only_adds(autojump_clock: object) -> None:
    registry, attempts = registry_of(Effect.READ_ONLY, failures=1)
    registry.wrap(retry_policy(wait=10, jitter=0.5))
    await call(registry)

    assert 10 <= attempts[1] - attempts[0] <= 15


@pytest.mark.parametrize(
    "code", ["UNKNOWN_TOOL", "INVALID_ARGS", "DENIED", "POLICY_ERROR", "INVALID_TOOL_OUTPUT"]
)
async def test_what_would_end_the_same_way_is_not_tried_again(autojump_clock: object, code: str) -> None:
    registry, attempts = registry_of(Effect.READ_ONLY, failures=1, code=code)
    decisions: list[RetryDecision] = []
    registry.wrap(retry_policy(report=decisions.append))
    await call(registry)

    assert len(attempts) == 1
    assert decisions[0].why == f"{code} would end the same way again"


async def test_a_cancelled_call_is_never_tried_again(autojump_clock: object) -> None:
    registry = Registry()
    attempts: list[int] = []
    decisions: list[RetryDecision] = []

    @registry.tool(effect=Effect.READ_ONLY)
    async def wait() -> int:
        attempts.append(1)
        try:
            await trio.sleep(5)
        except trio.Cancelled:
            return 1
        return 2

    async def limit(execution: DispatchExecution, proceed: Any) -> ToolResult:
        return await proceed(execution.with_timeout(1, name="limit"))

    registry.wrap(retry_policy(report=decisions.append))
    registry.wrap(limit)
    result = await call(registry, "wait")

    assert result.outcome is ToolOutcome.CANCELLED
    assert len(attempts) == 1
    assert [decision.why for decision in decisions] == ["the call was cancelled"]


async def test_no_wait_begins_that_the_deadline_would_end(autojump_clock: object) -> None:
    registry, attempts = registry_of(Effect.READ_ONLY, failures=9, timeout=5)
    decisions: list[RetryDecision] = []
    registry.wrap(retry_policy(wait=4, jitter=0, report=decisions.append))
    started = trio.current_time()
    result = await call(registry)

    assert result.code == "BUSY"
    assert len(attempts) == 2
    assert trio.current_time() - started == 4
    assert decisions[-1].why == "the call's deadline comes before another attempt"


@pytest.mark.rule("WR-18")
async def test_cancelled_while_it_waits_the_call_keeps_the_failure_it_had(autojump_clock: object) -> None:
    registry, attempts = registry_of(Effect.READ_ONLY, failures=9)
    registry.wrap(retry_policy(wait=10, jitter=0))
    results: list[ToolResult] = []
    async with open_call_scope() as scope:

        async def run() -> None:
            results.append(await registry.execute(ToolCall(name="act", arguments={}, scope=scope)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            await trio.sleep(1)
            scope.cancel()

    assert (results[0].outcome, results[0].code) == ("failed", "BUSY")
    assert len(attempts) == 1


async def test_a_tool_that_was_replaced_by_an_unsafe_one_is_not_run(autojump_clock: object) -> None:
    registry = Registry()
    ran: list[str] = []
    layer = registry.layer("inner")

    @registry.tool(effect=Effect.READ_ONLY)
    async def act() -> int:
        @layer.tool(name="act")
        async def unsafe() -> int:  # pyright: ignore[reportUnusedFunction]
            ran.append("unsafe")
            return 1

        raise ToolError("not yet", code="BUSY")

    layer.wrap(retry_policy())
    async with open_call_scope() as scope:
        result = await layer.execute(ToolCall(name="act", arguments={}, scope=scope))

    assert result.code == "BUSY"
    assert ran == []


async def test_every_decision_is_logged_and_quotes_nothing(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "trio_tools")
    registry, _ = registry_of(Effect.READ_ONLY, failures=1)
    registry.wrap(retry_policy())
    await call(registry)

    messages = [record.getMessage() for record in caplog.records if "attempt" in record.getMessage()]
    assert len(messages) == 1
    assert "trying again" in messages[0]
    assert "not yet" not in messages[0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempts": 0},
        {"attempts": True},
        {"attempts": 1.5},
        {"wait": -1},
        {"factor": float("nan")},
        {"max_wait": float("inf")},
        {"jitter": -0.1},
    ],
)
def test_wrong_numbers_are_refused_where_they_are_given(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        retry_policy(**wrong)
