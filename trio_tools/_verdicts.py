"""The results that the registry itself makes, and the texts it puts in them (`JS-12`)."""

from typing import Final, TypeAlias

from ._classification import Path
from ._content import Content, Context, TextContent
from ._errors import (
    ABORTED,
    ABORTED_BEFORE_DISPATCH,
    BLOCKED,
    INVALID_TOOL_OUTPUT,
    POLICY_ERROR,
    UNKNOWN_TOOL,
    PolicyError,
    ToolFailure,
    standard_failure,
)
from ._json import JsonValue
from ._leaves import failure_of_errors, log_uncoded
from ._life import Life
from ._result import CancelCause, ToolOutcome, ToolResult

__all__ = ["Decided", "aborted", "blocked", "failed", "invalid_output", "policy_error", "unknown_tool"]

LOSSY = "tool result must be losslessly JSON-serializable"
"""What a wrapper's result or a review decision is told that JSON would not keep whole (`MA-16`)."""


Decided: TypeAlias = tuple[ToolResult, Path]
"""A result that no later phase but those on its path can change."""


def _told(failure: ToolFailure) -> tuple[Content, ...]:
    return (TextContent(f"Error: {failure.message}"),)


def _ready(code: str) -> tuple[ToolFailure, tuple[Content, ...]]:
    failure = standard_failure(code)
    return failure, _told(failure)


# The same for every call, and asked for by many at once when a scope is cancelled.
_ABORTED: Final = _ready(ABORTED)
_BEFORE: Final = _ready(ABORTED_BEFORE_DISPATCH)


def failed(
    life: Life,
    failure: ToolFailure,
    *,
    contexts: tuple[Context, ...] = (),
    cause: CancelCause | None = None,
    meta: JsonValue | None = None,
) -> ToolResult:
    """Return a failed result whose content is ``Error: `` and the message."""
    return ToolResult.made(
        ToolOutcome.FAILED,
        _told(failure),
        life.settlement,
        error=failure,
        meta=meta,
        contexts=contexts,
        cause=cause,
    )


def aborted(life: Life, cause: CancelCause | None, contexts: tuple[Context, ...]) -> ToolResult:
    """Return what a cancellation makes of a call: ABORTED once invoked, else BEFORE (`CA-5`)."""
    failure, content = _ABORTED if life.dispatched else _BEFORE
    return ToolResult.made(
        ToolOutcome.CANCELLED,
        content,
        life.settlement,
        error=failure,
        contexts=contexts,
        cause=cause,
    )


def policy_error(life: Life, *errors: Exception) -> ToolResult:
    """Return what a raising or malformed hook makes of a call: no contexts, no cause (`GA-5`, `WR-17`)."""
    log_uncoded(f"the policy for tool call {life.name!r} ({life.call_id})", errors)
    masked = f'policy for tool "{life.name}" failed' if life.settings.mask_errors else None
    return failed(life, failure_of_errors(errors, code=POLICY_ERROR, masked=masked))


def stray(life: Life, who: str) -> ToolResult:
    """Return what a `trio.Cancelled` of nobody's makes of a call when ``who`` lets it out."""
    return policy_error(life, PolicyError(f"stray Cancelled escaped {who}"))


def unknown_tool(life: Life, contexts: tuple[Context, ...]) -> ToolResult:
    """Return what a name that is not visible makes of a call (`LA-4`)."""
    return failed(life, standard_failure(UNKNOWN_TOOL, tool=life.name), contexts=contexts)


def invalid_output(life: Life, violations: str, contexts: tuple[Context, ...]) -> ToolResult:
    """Return what a value that breaks its schema makes of a call (`MA-11`, `BO-6`)."""
    failure = standard_failure(INVALID_TOOL_OUTPUT, tool=life.name, violations=violations)
    return failed(life, failure, contexts=contexts)


def blocked(life: Life, feedback: tuple[Content, ...], contexts: tuple[Context, ...]) -> ToolResult:
    """Return what a reviewer's block leaves: its feedback, its contexts, the settlement (`RE-6`)."""
    lines = [part.text if isinstance(part, TextContent) else f"[{part.type} content]" for part in feedback]
    message = "\n".join(lines) or "tool result blocked by review"
    return ToolResult.made(
        ToolOutcome.FAILED,
        feedback or (TextContent(message),),
        life.settlement,
        error=standard_failure(BLOCKED, feedback=message),
        contexts=contexts,
    )
