"""A wrapper that dispatches a failed call again, where that is safe, and says why where it is not."""

import logging
import random
from collections.abc import Awaitable, Callable
from math import isfinite
from typing import Final, final

import trio
from attrs import frozen

from trio_tools import DispatchExecution, Effect, Tool, ToolOutcome, ToolResult, Wrapper

__all__ = ["RetryDecision", "is_transient", "retry_policy"]

_logger: Final = logging.getLogger("trio_tools")

_SAFE: Final = frozenset({Effect.READ_ONLY, Effect.IDEMPOTENT_WRITE})
# What would end the same way again: the call is wrong, or somebody decided.
_FINAL: Final = frozenset(
    {
        "BLOCKED",
        "DENIED",
        "INVALID_ARGS",
        "INVALID_TOOL_OUTPUT",
        "NOT_JSON",
        "POLICY_ERROR",
        "UNKNOWN_TOOL",
    }
)


@final
@frozen(kw_only=True)
class RetryDecision:
    """What the policy decided after an attempt, and why.

    Attributes:
        call_id: the call.
        tool: the name that was called.
        attempt: which attempt it was, from 1.
        again: whether there is another one.
        wait: seconds of trio time until it.
        why: the reason, in words; it quotes nothing of the result.
    """

    call_id: str
    tool: str
    attempt: int
    again: bool
    wait: float
    why: str


def is_transient(result: ToolResult) -> bool:
    """Return whether another attempt may end differently: failed, and not because the call is wrong."""
    return result.outcome is ToolOutcome.FAILED and result.code not in _FINAL


def retry_policy(
    *,
    attempts: int = 3,
    wait: float = 0.1,
    factor: float = 2.0,
    max_wait: float = 30.0,
    jitter: float = 0.1,
    retry_if: Callable[[ToolResult], bool] = is_transient,
    report: Callable[[RetryDecision], None] | None = None,
) -> Wrapper:
    """Return a wrapper that tries failed calls again, where that cannot do harm (`WR-13`).

    A call whose body was invoked is dispatched again only if its tool is declared ``READ_ONLY`` or
    ``IDEMPOTENT_WRITE``; one with any other effect, the default included, never is. A cancelled call is
    never tried again, and no wait begins that the call's deadline would end. The wait is a checkpoint;
    cancelled in it, the call keeps the failure it had (`WR-18`).

    Args:
        attempts: how many there are at most, the first one included.
        wait: seconds before the second attempt.
        factor: what the wait is multiplied with each time.
        max_wait: seconds that no wait exceeds.
        jitter: the share of a wait that is added at random, so that callers do not come back all at once.
        retry_if: whether a failed result is worth another attempt; asked only where one would be safe.
        report: told of each decision after an attempt that was not ok; also logged, at INFO.

    Raises:
        ValueError: ``attempts`` is not an integer above zero, or one of the numbers is negative or not
            finite.
    """
    if type(attempts) is not int or attempts < 1:
        raise ValueError(f"attempts is an integer above zero, not {attempts!r}")
    for name, number in (("wait", wait), ("factor", factor), ("max_wait", max_wait), ("jitter", jitter)):
        if not isfinite(number) or number < 0:
            raise ValueError(f"{name} is a finite number of at least zero, not {number!r}")

    async def retry(
        execution: DispatchExecution, proceed: Callable[[DispatchExecution], Awaitable[ToolResult]]
    ) -> ToolResult:
        pause = wait
        attempt = 1
        while True:
            before = execution.tool
            result = await proceed(execution)
            if result.outcome is ToolOutcome.OK:
                return result
            delay = min(pause, max_wait) * (1 + jitter * random.random())
            objection = _objection(execution, result, (before, execution.tool))
            if objection is None and not retry_if(result):
                objection = f"{result.code} would end the same way again"
            if objection is None and attempt == attempts:
                objection = f"it was attempt {attempt} of {attempts}"
            if objection is None and trio.current_time() + delay >= execution.scope.deadline:
                objection = "the call's deadline comes before another attempt"
            decision = RetryDecision(
                call_id=execution.call_id,
                tool=execution.name,
                attempt=attempt,
                again=objection is None,
                wait=delay if objection is None else 0.0,
                why=objection or f"{result.code} may not happen again, and another attempt is safe",
            )
            _logger.info(
                "call %s of tool %r: attempt %d ended with %s, %s: %s",
                decision.call_id,
                decision.tool,
                attempt,
                result.code,
                "trying again" if decision.again else "not tried again",
                decision.why,
            )
            if report is not None:
                report(decision)
            if not decision.again:
                return result
            await trio.sleep(delay)
            pause *= factor
            attempt += 1

    return retry


def _objection(
    execution: DispatchExecution, result: ToolResult, tools: tuple[Tool | None, Tool | None]
) -> str | None:
    """Say why another attempt would not be safe; None if it would be."""
    if result.outcome is ToolOutcome.CANCELLED:
        return "the call was cancelled"
    # The tool may have been replaced meanwhile: both the one that ran and the one that would run must be
    # safe.
    unsafe = next((tool for tool in tools if tool is not None and tool.effect not in _SAFE), None)
    if execution.dispatched and unsafe is not None:
        return f"its body was invoked, and its effect is {unsafe.effect}"
    return None
