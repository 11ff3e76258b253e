"""What a store holds: runs, events and fences, as plain rows that know nothing of their database."""

from collections.abc import Sequence
from math import isfinite
from typing import Final, TypeAlias, final

from attrs import field, frozen

from trio_tools import repair_text

__all__ = [
    "Columns",
    "EventRow",
    "FenceRow",
    "RunRow",
    "RunRows",
    "Span",
    "column_text",
    "columns_of_event",
    "columns_of_span",
    "span_of",
]

# PostgreSQL takes no NUL in a text; a visible substitute keeps both databases alike (`TR-13`).
_NUL: Final = "\0"


def column_text(text: str) -> str:
    """Returns the text as any database takes it: valid Unicode without NUL."""
    if text.isascii() and _NUL not in text:
        return text
    return repair_text(text).replace(_NUL, "\N{REPLACEMENT CHARACTER}")


@final
@frozen(kw_only=True)
class Span:
    """Where a call stood in its run; for the picture, apart from what its step says.

    Attributes:
        call_id: the call's id; None for steps that are no calls.
        parent_call_id: the id of the enclosing call, None for a root call.
        layer: the label of the layer it was executed through.
        effect: the declared effect of the tool.
        began_ms: milliseconds from the start of the trace to the first invocation; of a call that was never
            invoked, to its publication; of a fence, to its commit.
        ended_ms: milliseconds from the start of the trace to the last settlement, else to publication.
        deadline_ms: milliseconds from the start of the trace to the deadline of the call's scope.
    """

    call_id: str | None = None
    parent_call_id: str | None = None
    layer: str | None = None
    effect: str | None = None
    began_ms: float | None = None
    ended_ms: float | None = None
    deadline_ms: float | None = None


@final
@frozen(kw_only=True)
class EventRow:
    """One event of a run.

    Attributes:
        sequence: from 0 without gaps per run (`TR-10`); None where the row has none.
        second: when it was recorded, in whole seconds since 1970 UTC.
        kind: an `EventKind`, or whatever a damaged row says.
        payload: the JSON text of the step; hidden by repr.
        span: where the call stood.
    """

    sequence: int | None
    second: int
    kind: str
    payload: object = field(repr=False)
    span: Span = Span()


@final
@frozen(kw_only=True)
class FenceRow:
    """A call that may write and was about to be dispatched (`TR-4`); a standing one is unknown (`TR-8`)."""

    second: int
    tool: str
    round: int
    span: Span


@final
@frozen(kw_only=True)
class RunRow:
    """One run: when it began, when its store was closed, and whether somebody asked to cancel it.

    Times are seconds since 1970 UTC; None where it has not happened.
    """

    run_id: str
    started_at: float
    finished_at: float | None = None
    cancel_requested_at: float | None = None


@final
@frozen
class RunRows:
    """Everything that is stored about one run."""

    run: RunRow
    events: tuple[EventRow, ...]
    fences: tuple[FenceRow, ...]


Columns: TypeAlias = tuple[object, ...]
"""An event on its way into the database: everything but its run and its sequence, in the order of columns."""


def columns_of_event(second: int, kind: str, payload: str, span: Span) -> Columns:
    """Returns an event as the columns that are stored."""
    return (second, kind, payload, *columns_of_span(span))


def columns_of_span(span: Span) -> Columns:
    """Returns a span as the columns that are stored."""
    return (
        span.call_id,
        span.parent_call_id,
        span.layer,
        span.effect,
        span.began_ms,
        span.ended_ms,
        span.deadline_ms,
    )


def span_of(columns: Sequence[object]) -> Span:
    """Returns a span from columns in the order of its members; what does not fit reads as absent (`TL-9`)."""
    call_id, parent, layer, effect, began, ended, deadline = columns
    return Span(
        call_id=_text(call_id),
        parent_call_id=_text(parent),
        layer=_text(layer),
        effect=_text(effect),
        began_ms=_number(began),
        ended_ms=_number(ended),
        deadline_ms=_number(deadline),
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and isfinite(value) else None
