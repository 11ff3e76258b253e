"""The one table that decides what a cancellation turns a phase's answer into (`CA-3`, `CA-10` to `CA-22`).

Read a row as: while the call was in this phase, the caller was (or was not) cancelled; the phase gave a
success or an allow, a failure or a denial, it raised, or it let `trio.Cancelled` out. The cell says what
becomes of that and which path follows: ``R``, review and then the final path; ``F``, the final path
alone; ``ON``, the next phase. Nothing else in the package decides it.
"""

from collections.abc import Mapping
from enum import Enum, IntEnum, StrEnum
from typing import Final, final

__all__ = ["Came", "Path", "Place", "Verdict", "classify"]


@final
class Came(IntEnum):
    """What came out of a phase: the columns of the table, in order."""

    SUCCESS = 0
    FAILURE = 1
    RAISED = 2
    CANCELLED = 3


@final
class Path(Enum):
    """What follows."""

    ON = "the next phase"
    R = "review, then the final path"
    F = "the final path alone"


@final
class Verdict(Enum):
    """What becomes of what came."""

    GO = "it stands"
    CUT = "ABORTED if the body was invoked, else ABORTED_BEFORE_DISPATCH"
    KEPT = "the latest failure if there is one, else as CUT"
    ERROR = "the exception decides"
    STRAY = "a Cancelled of nobody's: an error of the phase that let it out"


@final
class Place(StrEnum):
    """Where in the life of a call the question is asked."""

    ENTRY = "entry"
    GATES = "gates"
    APPROVAL = "approval"
    GUARDS = "guards"
    GUARDED = "after the guards"
    BODY = "body"
    WRAPPERS = "wrappers"
    REVIEW = "review"


_GO, _CUT, _KEPT, _ERROR, _STRAY = Verdict.GO, Verdict.CUT, Verdict.KEPT, Verdict.ERROR, Verdict.STRAY
_ON, _R, _F = Path.ON, Path.R, Path.F

Row = tuple[tuple[Verdict, Path], ...]

# A sync phase lets no Cancelled out that is not stray; a phase with nothing to refuse gives no failure.
_CALLER_CANCELLED: Final[Mapping[Place, Row]] = {
    #                 success       failure      raises         Cancelled
    Place.ENTRY:     ((_CUT, _F),   (_GO, _F),   (_ERROR, _F),  (_STRAY, _F)),   # CA-10, CA-11
    Place.GATES:     ((_GO, _ON),   (_GO, _R),   (_ERROR, _F),  (_CUT, _R)),     # CA-12
    Place.APPROVAL:  ((_GO, _ON),   (_GO, _R),   (_ERROR, _F),  (_CUT, _R)),     # CA-13
    Place.GUARDS:    ((_GO, _ON),   (_GO, _R),   (_ERROR, _F),  (_STRAY, _F)),   # CA-12
    Place.GUARDED:   ((_CUT, _R),   (_GO, _R),   (_ERROR, _F),  (_STRAY, _F)),   # GA-14
    Place.BODY:      ((_CUT, _R),   (_GO, _R),   (_GO, _R),     (_CUT, _R)),     # CA-15, CA-16
    Place.WRAPPERS:  ((_CUT, _R),   (_GO, _R),   (_ERROR, _F),  (_KEPT, _R)),    # CA-14, CA-17
    Place.REVIEW:    ((_CUT, _F),   (_GO, _F),   (_ERROR, _F),  (_STRAY, _F)),   # CA-18
}  # fmt: skip

_CALLER_FINE: Final[Mapping[Place, Row]] = {
    #                 success       failure      raises         Cancelled
    Place.ENTRY:     ((_GO, _ON),   (_GO, _F),   (_ERROR, _F),  (_STRAY, _F)),   # CA-21, every row
    Place.GATES:     ((_GO, _ON),   (_GO, _R),   (_ERROR, _F),  (_STRAY, _F)),
    Place.APPROVAL:  ((_GO, _ON),   (_GO, _R),   (_ERROR, _F),  (_STRAY, _F)),
    Place.GUARDS:    ((_GO, _ON),   (_GO, _R),   (_ERROR, _F),  (_STRAY, _F)),
    Place.GUARDED:   ((_GO, _ON),   (_GO, _R),   (_ERROR, _F),  (_STRAY, _F)),
    Place.BODY:      ((_GO, _R),    (_GO, _R),   (_GO, _R),     (_STRAY, _R)),
    Place.WRAPPERS:  ((_GO, _R),    (_GO, _R),   (_ERROR, _F),  (_STRAY, _F)),
    Place.REVIEW:    ((_GO, _F),    (_GO, _F),   (_ERROR, _F),  (_STRAY, _F)),
}  # fmt: skip


def classify(place: Place, came: Came, cancelled: bool, /) -> tuple[Verdict, Path]:
    """Return what becomes of what came out of ``place``.

    Args:
        cancelled: whether the caller is cancelled; for the body, whether its delegation is.
    """
    table = _CALLER_CANCELLED if cancelled else _CALLER_FINE
    return table[place][came]
