"""The wrapper that enforces the timeout a tool declares, as one more source of cancellation (`TI-1`)."""

import math
from collections.abc import Awaitable, Callable

from ._errors import TOOL_TIMEOUT, standard_failure
from ._execution import DispatchExecution, life_of_view, sources_of
from ._fusion import DeadlineSource
from ._result import ToolResult
from ._verdicts import failed

__all__ = ["declared", "enforce_timeouts", "out_of_time", "within"]


async def enforce_timeouts(
    execution: DispatchExecution, proceed: Callable[[DispatchExecution], Awaitable[ToolResult]]
) -> ToolResult:
    """Give what it delegates to the time that the tool declares, and say TOOL_TIMEOUT if that came first.

    A registry installs it as its outermost wrapper, so that retries registered later share one budget
    (`TI-6`). With ``default_wrappers=False`` it can be placed elsewhere: inside a retry, each attempt
    has a budget of its own.

    The budget covers inner wrappers and the body (`TI-3`), and is judged by time: it decides if it came
    before every other source (`TI-4`, `TI-13` to `TI-16`). It adds no checkpoint of its own.
    """
    seconds = declared(execution)
    if seconds is None:
        return await proceed(execution)
    derived = within(execution, seconds)
    result = await proceed(derived)
    return out_of_time(execution, derived, seconds) or result


def declared(execution: DispatchExecution) -> float | None:
    """Return the seconds that the tool declares, None where there is no limit or no tool."""
    tool = execution.tool
    return None if tool is None else tool.timeout


def within(execution: DispatchExecution, seconds: float) -> DispatchExecution:
    """Return the view that is delegated, with the budget as its last source."""
    life = life_of_view(execution)
    budget = DeadlineSource(life.clock.current_time() + seconds, "timeout")
    return DispatchExecution(life, (*sources_of(execution), budget), execution)


def out_of_time(
    execution: DispatchExecution, derived: DispatchExecution, seconds: float
) -> ToolResult | None:
    """Return what takes the place of the result if the budget came first (`TI-4`), once all has settled."""
    cause = derived.scope.cause
    if cause is None:
        return None
    if cause != sources_of(derived)[-1].cause_at(math.inf):
        return None
    outer = execution.scope.cause
    # At the same instant the caller, or a wrapper further out, was first (`TI-15`).
    if outer is not None and outer.at <= cause.at:
        return None
    life = life_of_view(execution)
    failure = standard_failure(TOOL_TIMEOUT, milliseconds=round(seconds * 1000))
    return failed(life, failure, contexts=life.body_contexts(), cause=cause)
