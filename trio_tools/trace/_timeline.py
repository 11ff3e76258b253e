"""A run as people read it: what happened, in order, how each call ended, and what nobody knows."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, cast, final

from attrs import frozen

from trio_tools import ToolOutcome

from ._rows import EventRow, FenceRow, RunRow, RunRows, Span
from ._step import EventKind
from ._store import RunStore
from ._wire import parse_payload, read_outcome

__all__ = [
    "OUTCOMES",
    "UNKNOWN",
    "OutcomeCounts",
    "RunTimeline",
    "TimelineEntry",
    "counts_of",
    "details_text",
]

UNKNOWN: Final = "unknown"
"""What a call reads as that was dispatched and has no end in the store; no `ToolOutcome` (`TR-8`)."""

OUTCOMES: Final = (*map(str, ToolOutcome), UNKNOWN)
"""How an entry may have ended, if it has an outcome (`TL-2`)."""

# Everything that may be shown of a payload. What a message, an argument, a result or an artifact says is
# not in here, so no format can show it (`TL-6`, `TL-8`).
_SHOWN: Final = (
    "toolName",
    "toolIsError",
    "toolOutcome",
    "finishReason",
    "promptTokens",
    "completionTokens",
    "totalTokens",
    "estimatedCost",
    "messagesSentCount",
    "contentLength",
    "thinkingLength",
    "toolResultLength",
    "toolArtifactsCount",
    "toolArtifactTypes",
    "toolSpecs",
    "requestedToolNames",
    "contentRedacted",
    "approved",
    "decidedBy",
    "droppedSources",
    "writeTargetTable",
    "writeTargetUid",
    "toolSettlement",
    "toolDispatched",
    "toolCode",
    "toolCause",
)


_MOST: Final = 10**15


@final
@frozen(kw_only=True)
class OutcomeCounts:
    """How the entries of a timeline ended; the five counts add up to the entries (`TL-5`).

    Attributes:
        ok: calls that ended well.
        failed: calls that failed.
        cancelled: calls that somebody, or a deadline, cancelled.
        unknown: calls that were dispatched and whose end is not recorded.
        none: entries that have no outcome, such as requests, and rows that cannot be read.
    """

    ok: int = 0
    failed: int = 0
    cancelled: int = 0
    unknown: int = 0
    none: int = 0

    @property
    def failure_rate(self) -> float | None:
        """The share of failed among ok and failed; cancelled calls count in neither. None for 0/0."""
        ended = self.ok + self.failed
        return self.failed / ended if ended else None


@final
@frozen(kw_only=True)
class TimelineEntry:
    """One line of a timeline.

    Attributes:
        sequence: the number of the event; None for a standing fence.
        second: when it was recorded, in whole seconds since 1970 UTC.
        kind: an `EventKind`, or what a damaged row says.
        outcome: ``ok``, ``failed``, ``cancelled``, ``unknown``, or None (`TL-2`).
        tool: the name of the tool; None where there is none.
        round: the round; None where it is zero or cannot be read (`TL-9`).
        duration_ms: milliseconds; None where they are zero or cannot be read.
        details: what else may be shown, key by key, as text, in a fixed order (`TL-6`, `TL-7`).
        span: where a call stood in its run.
    """

    sequence: int | None
    second: int
    kind: str
    outcome: str | None
    tool: str | None
    round: int | None
    duration_ms: float | None
    details: Mapping[str, str]
    span: Span

    @property
    def details_text(self) -> str:
        """The details as ``key=value``, joined by ``; ``."""
        return details_text(self.details)


@final
@frozen
class RunTimeline:
    """Everything that a store knows about a run, in order.

    Attributes:
        run: when it began and ended, and whether somebody asked to cancel it.
        entries: ordered by second, then sequence; those without a sequence come last in theirs (`TL-1`).
    """

    run: RunRow
    entries: tuple[TimelineEntry, ...]

    @classmethod
    async def load(cls, store: RunStore, run_id: str) -> "RunTimeline":
        """Load a run: its steps, and the fences that still stand, as ``unknown`` (`TL-1`, `TR-8`).

        Whatever is in the rows, they are listed; a damaged one has no outcome and no details (`TL-9`).
        It waits for the store on a worker thread.

        Raises:
            LookupError: no such run.
        """
        return cls.of(await store.load(run_id))

    @classmethod
    def of(cls, rows: RunRows) -> "RunTimeline":
        """Make a timeline of rows that were loaded already."""
        entries = [*map(_event_entry, rows.events), *map(_fence_entry, rows.fences)]
        entries.sort(key=_position)
        return cls(rows.run, tuple(entries))

    def shown(self, outcome: str | None) -> tuple[TimelineEntry, ...]:
        """Return the entries that have an outcome, all of them for None."""
        if outcome is None:
            return self.entries
        return tuple(entry for entry in self.entries if entry.outcome == outcome)

    @property
    def counts(self) -> OutcomeCounts:
        """How many entries ended how."""
        return counts_of(entry.outcome or "" for entry in self.entries)


def counts_of(outcomes: Iterable[str]) -> OutcomeCounts:
    """Returns how many of these are which outcome; ``""`` is none."""
    counts = Counter(outcomes)
    return OutcomeCounts(none=counts[""], **{outcome: counts[outcome] for outcome in OUTCOMES})


def details_text(details: Mapping[str, str]) -> str:
    """Returns details as ``key=value``, joined by ``; `` (`TL-7`)."""
    return "; ".join(f"{key}={text}" for key, text in details.items())


def _position(entry: TimelineEntry) -> tuple[int, bool, int]:
    return entry.second, entry.sequence is None, entry.sequence or 0


def _event_entry(row: EventRow) -> TimelineEntry:
    payload = parse_payload(row.payload)
    return TimelineEntry(
        sequence=row.sequence,
        second=row.second,
        kind=row.kind,
        outcome=read_outcome(payload) or None,
        tool=_name(payload.get("toolName")),
        round=_above_zero(payload.get("round"), int),
        duration_ms=_above_zero(payload.get("durationMs"), int, float),
        details=_details(payload),
        span=row.span,
    )


def _fence_entry(row: FenceRow) -> TimelineEntry:
    return TimelineEntry(
        sequence=None,
        second=row.second,
        kind=str(EventKind.TOOL),
        outcome=UNKNOWN,
        tool=row.tool,
        round=_above_zero(row.round, int),
        duration_ms=None,
        details=_details({"toolName": row.tool}),
        span=row.span,
    )


def _name(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _above_zero(value: object, *types: type) -> int | None:
    # Also no infinity, and nothing that only a damaged row can claim.
    return cast("int", value) if type(value) in types and 0 < cast("int", value) <= _MOST else None


def _details(payload: Mapping[str, object]) -> dict[str, str]:
    details: dict[str, str] = {}
    for key in _SHOWN:
        value = payload.get(key)
        if value is None:
            continue
        text = _cause(value) if key == "toolCause" else _shown(value)
        if text is not None:
            details[key] = text
    return details


def _cause(value: object) -> str | None:
    if not isinstance(value, Mapping):
        return None
    row = cast("Mapping[str, object]", value)
    kind, name = row.get("kind"), row.get("name")
    return f"{kind}:{name}" if isinstance(kind, str) and isinstance(name, str) else None


def _shown(value: object) -> str | None:
    if not isinstance(value, list):
        return _scalar(value)
    texts = [_scalar(item) for item in cast("Sequence[object]", value)]
    return ",".join(text for text in texts if text is not None) if None not in texts else None


def _scalar(value: object) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, int | float):
        try:
            return str(value)
        except ValueError:
            # An integer with more digits than `str` agrees to print.
            return None
    return None
