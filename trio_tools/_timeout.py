"""The wrapper that enforces the timeout a tool declares, as one more source of cancellation (`TI-1`)."""

from collections.abc import Awaitable, Callable

from ._errors import TOOL_TIMEOUT, standard_failure
from ._execution import DispatchExecution, life_of_view
from ._result import CancelCause, CauseKind, ToolResult
from ._verdicts import failed

__all__ = ["enforce_timeouts"]


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
    tool = execution.tool
    if tool is None or tool.timeout is None:
        return await proceed(execution)
    at = life_of_view(execution).clock.current_time() + tool.timeout
    derived = execution.with_deadline(at, name="timeout")
    result = await proceed(derived)
    cause = derived.scope.cause
    if cause is None:
        return result
    outer = execution.scope.cause
    budget = CancelCause(CauseKind.DEADLINE, "timeout", None, at)
    # At the same instant the caller, or a wrapper further out, was first (`TI-15`).
    if cause != budget or (outer is not None and outer.at <= at):
        return result
    life = life_of_view(execution)
    failure = standard_failure(TOOL_TIMEOUT, milliseconds=round(tool.timeout * 1000))
    return failed(life, failure, contexts=life.body_contexts(), cause=cause)
