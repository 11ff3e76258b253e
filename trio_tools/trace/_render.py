"""Timelines and lists of runs, rendered for people and programs."""

import json
from typing import Literal, TypeAlias

from ._labels import LANGUAGES, Language
from ._timeline import OUTCOMES, RunTimeline, TimelineEntry

__all__ = ["Format", "render"]

Format: TypeAlias = Literal["text", "html", "json"]


def render(
    timeline: RunTimeline,
    *,
    language: Language = "en",
    format: Format = "text",  # noqa: A002
    outcome: str | None = None,
) -> str:
    """Returns a timeline as text, as one self-contained HTML page, or as JSON.

    No message, argument, result or artifact appears in any of them, whatever the store holds (`TL-8`). It is
    total: whatever the rows hold, they are listed (`TL-9`).

    Args:
        timeline: what `RunTimeline.load` returned.
        language: ``en`` or ``de``; the page holds both and can be switched. JSON does not depend on it.
        format: ``text``, ``html`` or ``json``.
        outcome: list only what ended ``ok``, ``failed``, ``cancelled`` or ``unknown``. Counts and failure
            rate stay those of the run; the page holds everything, and opens with this filter set.

    Raises:
        ValueError: another language, format or outcome.
    """
    if language not in LANGUAGES:
        raise ValueError(f"there are labels in {', '.join(LANGUAGES)}, not in {language!r}")
    if outcome is not None and outcome not in OUTCOMES:
        raise ValueError(f"an entry ends {', '.join(OUTCOMES)}, not {outcome!r}")
    match format:
        case "text":
            from ._text import text_of

            return text_of(timeline, language, outcome)
        case "html":
            from ._page import page_of

            return page_of(timeline, language, outcome)
        case "json":
            return _json_of(timeline, outcome)
        case _:
            raise ValueError(f"a timeline is rendered as text, html or json, not as {format!r}")


def _json_of(timeline: RunTimeline, outcome: str | None) -> str:
    run, counts = timeline.run, timeline.counts
    document = {
        "run": run.run_id,
        "startedAt": run.started_at,
        "endedAt": run.finished_at,
        "cancelRequestedAt": run.cancel_requested_at,
        "counts": {
            "ok": counts.ok,
            "failed": counts.failed,
            "cancelled": counts.cancelled,
            "unknown": counts.unknown,
            "none": counts.none,
        },
        "failureRate": counts.failure_rate,
        "shown": outcome,
        "entries": [_entry(entry) for entry in timeline.shown(outcome)],
    }
    # ASCII only, so no control character gets through, but for the one that is ASCII and that JSON allows.
    return json.dumps(document, indent=2, allow_nan=False).replace("\x7f", "\\u007f") + "\n"


def _entry(entry: TimelineEntry) -> dict[str, object]:
    span = entry.span
    return {
        "sequence": entry.sequence,
        "second": entry.second,
        "kind": entry.kind,
        "outcome": entry.outcome or "",
        "tool": entry.tool or "",
        "round": entry.round,
        "durationMs": entry.duration_ms,
        "details": dict(entry.details),
        "callId": span.call_id,
        "parentCallId": span.parent_call_id,
        "layer": span.layer,
        "effect": span.effect,
        "beganMs": span.began_ms,
        "endedMs": span.ended_ms,
        "deadlineMs": span.deadline_ms,
    }
