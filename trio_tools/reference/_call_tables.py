"""The tables of the semantics, as tables, and the facts that a call of the model ends with.

A phase ends in one of four ways: it gives a *success* (or allows), it gives a *failure* (or denies),
it *raises*, or it lets a *Cancelled* out. The row is the place where the caller became cancelled,
``CA-21`` if it did not. What the two decide is a `Ruling`: what becomes of the result, and by which
path it goes on.
"""

from enum import StrEnum
from typing import Final, final

from attrs import frozen

from ._call_time import Cause

__all__ = [
    "CLASSIFICATION",
    "REACHABLE",
    "TIMEOUTS",
    "Cell",
    "Column",
    "Published",
    "Ruling",
    "Trace",
    "Verdict",
    "permits",
    "permits_result",
    "why_unreachable",
]


@final
class Column(StrEnum):
    """How a phase ended."""

    SUCCESS = "success"
    FAILURE = "failure"
    RAISES = "raises"
    CANCELLED = "cancelled"


@final
class Ruling(StrEnum):
    """What becomes of a phase's result.

    ``before`` and ``aborted`` are the two cancelled codes, ``withheld`` whichever of them fits: the
    one if the body was never invoked, the other if it was. ``ok`` and ``kept`` leave the result
    alone, ``error`` is the pipeline error. The letter is the path: review and final path (r), final
    path only (f), or the next phase (n).
    """

    BEFORE_F = "before/f"
    BEFORE_R = "before/r"
    ABORTED_R = "aborted/r"
    WITHHELD_R = "withheld/r"
    WITHHELD_F = "withheld/f"
    OK_N = "ok/n"
    OK_R = "ok/r"
    OK_F = "ok/f"
    KEPT_R = "kept/r"
    KEPT_F = "kept/f"
    ERROR_R = "error/r"
    ERROR_F = "error/f"


# CA-22: what comes later in the life of a call rules on what came before it, and is the more specific.
# CA-3: no entry turns a failure into a cancelled result, and none leaves a success that was reached
# under cancellation. CA-5: the kind of cancellation is not asked.
CLASSIFICATION: Final[dict[str, dict[Column, Ruling]]] = {
    # At entry, refused arguments: NOT_JSON (MA-8).
    "CA-10": {Column.RAISES: Ruling.KEPT_F},
    # At entry, arguments fine.
    "CA-11": {Column.SUCCESS: Ruling.BEFORE_F},
    # In gates (GA-13, GA-14). The guards are asked in between: their own denial or error is ruled by
    # the columns failure and raises.
    "CA-12": {
        Column.SUCCESS: Ruling.BEFORE_R,
        Column.FAILURE: Ruling.KEPT_R,
        Column.RAISES: Ruling.ERROR_F,
        Column.CANCELLED: Ruling.BEFORE_R,
    },
    # In the approval. `Approval.CANCELLED` counts as letting Cancelled out (GA-9).
    "CA-13": {
        Column.SUCCESS: Ruling.BEFORE_R,
        Column.FAILURE: Ruling.KEPT_R,
        Column.RAISES: Ruling.ERROR_F,
        Column.CANCELLED: Ruling.BEFORE_R,
    },
    # In a wrapper, before it delegates.
    "CA-14": {
        Column.SUCCESS: Ruling.WITHHELD_R,
        Column.FAILURE: Ruling.KEPT_R,
        Column.RAISES: Ruling.ERROR_F,
        Column.CANCELLED: Ruling.WITHHELD_R,
    },
    # After delegation, before invocation (BO-1, BO-2). A later attempt is ABORTED (WR-12).
    "CA-15": {Column.SUCCESS: Ruling.WITHHELD_R},
    # In the body or its tasks (BO-6, BO-7). An invalid value is a failure.
    "CA-16": {
        Column.SUCCESS: Ruling.ABORTED_R,
        Column.FAILURE: Ruling.KEPT_R,
        Column.RAISES: Ruling.KEPT_R,
        Column.CANCELLED: Ruling.ABORTED_R,
    },
    # In a wrapper after delegating (WR-17, WR-18).
    "CA-17": {
        Column.SUCCESS: Ruling.WITHHELD_R,
        Column.FAILURE: Ruling.KEPT_R,
        Column.RAISES: Ruling.ERROR_F,
        Column.CANCELLED: Ruling.WITHHELD_R,
    },
    # In review (RE-7, RE-8). A Cancelled out of a shielded phase is stray.
    "CA-18": {
        Column.SUCCESS: Ruling.WITHHELD_F,
        Column.FAILURE: Ruling.KEPT_F,
        Column.RAISES: Ruling.ERROR_F,
        Column.CANCELLED: Ruling.ERROR_F,
    },
    # In the finalizer or later (PU-3, PU-7).
    "CA-19": {
        Column.SUCCESS: Ruling.OK_F,
        Column.FAILURE: Ruling.KEPT_F,
        Column.RAISES: Ruling.ERROR_F,
    },
    # A batch sibling that never started (BA-10).
    "CA-20": {Column.SUCCESS: Ruling.BEFORE_F},
    # Nowhere. A stray Cancelled is an error of the phase that let it out.
    "CA-21": {
        Column.SUCCESS: Ruling.OK_R,
        Column.FAILURE: Ruling.KEPT_R,
        Column.RAISES: Ruling.ERROR_F,
        Column.CANCELLED: Ruling.ERROR_F,
    },
}

# Who fires, when, and what the timeout wrapper makes of it (TI-4).
TIMEOUTS: Final[dict[str, tuple[str, str, str]]] = {
    "TI-10": ("budget only", "before the invocation", "TOOL_TIMEOUT"),
    "TI-11": ("budget only", "during the body", "TOOL_TIMEOUT"),
    "TI-12": ("budget only", "in an inner wrapper after settlement", "TOOL_TIMEOUT"),
    "TI-13": ("caller, then budget", "strictly later", "as the caller"),
    "TI-14": ("budget, then caller", "strictly later", "TOOL_TIMEOUT"),
    "TI-15": ("caller and budget", "same instant", "as the caller"),
    "TI-16": ("nobody in time", "the loop was held past the deadline", "TOOL_TIMEOUT"),
    "TI-17": ("the scope's own deadline", "any", "as the caller"),
    "TI-18": ("another wrapper's deadline", "before the budget", "as that source"),
    "TI-19": ("the budget of an enclosing call", "in a nested call", "as the caller"),
}

KINDS: Final = ("caller", "deadline", "ambient", "sibling", "none")


@final
@frozen(order=True)
class Cell:
    """One cell of the coverage table: where, what the phase had given, what cancelled."""

    row: str
    column: str
    kind: str


def why_unreachable(row: str, kind: str) -> str | None:
    """Return why no program reaches the cells of ``kind`` in ``row``, None if some programs do.

    A failing neighbour (`BA-11`) meets calls that run. What has not entered by then is skipped, and what has
    settled is let be; but a call nested in the body of a running one is cancelled with it (`NE-4`), whether
    it is at its entry or in its review by then.
    """
    if row == "CA-21":
        return None if kind == "none" else "the row is of calls that nothing cancels"
    if kind == "none":
        return "the row is of calls that something cancels"
    if (row, kind) == ("CA-19", "sibling"):
        return "a finalizer is synchronous, and no neighbour can fail meanwhile"
    return None


REACHABLE: Final = frozenset(
    Cell(row, column, kind)
    for row, columns in CLASSIFICATION.items()
    for column in columns
    for kind in KINDS
    if why_unreachable(row, kind) is None
) | frozenset(Cell(row, "result", "timeout") for row in TIMEOUTS)
"""The cells that some program reaches."""


@final
@frozen
class Verdict:
    """A result inside the model; identity tells an untouched one from an equal copy (`WR-14`)."""

    outcome: str
    code: str | None
    settlement: str
    cause: Cause | None = None
    contexts: tuple[str, ...] = ()
    concludes: bool = False


@final
@frozen
class Published:
    """One published result, and whose it is.

    Attributes:
        call: ``c0`` for a call from outside, ``c0/name`` for a nested call of tool ``name`` in it.
    """

    call: str
    outcome: str
    code: str | None
    settlement: str
    cause: Cause | None = None
    contexts: tuple[str, ...] = ()
    concludes: bool = False


@final
@frozen
class Trace:
    """What one run shows: the results in order of publication, and how each `execute` ended.

    Attributes:
        ends: for each call from outside that was begun, its id and ``returned`` or ``raised``; for
            a batch one entry, ``batch``.
    """

    published: tuple[Published, ...]
    ends: tuple[tuple[str, str], ...]


def permits(allowed: Trace, seen: Trace) -> bool:
    """Whether a trace that was seen is the permitted one; times of causes lie within their bounds."""
    return (
        len(allowed.published) == len(seen.published)
        and allowed.ends == seen.ends
        and all(map(permits_result, allowed.published, seen.published))
    )


def permits_result(allowed: Published, seen: Published) -> bool:
    """Whether a result that was seen is the permitted one."""
    left, right = allowed.cause, seen.cause
    if (
        allowed.call != seen.call
        or allowed.outcome != seen.outcome
        or allowed.code != seen.code
        or allowed.settlement != seen.settlement
        or allowed.contexts != seen.contexts
        or allowed.concludes != seen.concludes
    ):
        return False
    if left is None or right is None:
        return left is right
    return left.kind == right.kind and left.name == right.name and left.since <= right.since <= left.until
