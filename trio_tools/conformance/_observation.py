"""What was seen in one run of one tool."""

from collections.abc import Sequence
from typing import Any, final

from attrs import define, field, frozen

from ._case import Case
from ._census import NOTHING_LEFT, Leftovers
from ._probe import Delivery, Lane, Tick
from ._site import Site

__all__ = ["Ending", "Observation"]


@final
@frozen(kw_only=True)
class Ending:
    """How one call ended for its caller, in plain values.

    Attributes:
        outcome: ``ok``, ``failed`` or ``cancelled``; ``interrupted`` when ``execute`` raised and no
            result was seen.
        code: which rule decided, None for a success.
        settlement: what the body did.
        value: what a success carries.
        message: the text of the error.
        name: the class of the error.
        cause: kind of the cancellation that decided.
    """

    outcome: str
    code: str | None = None
    settlement: str = ""
    value: Any = None
    message: str | None = None
    name: str | None = None
    cause: str | None = None

    def __str__(self) -> str:
        if self.outcome == "ok":
            return f"ok with {_clipped(self.value)}"
        detail = self.code or ""
        if self.outcome == "failed" and self.message:
            detail += f" ({_clipped(self.message)})"
        return f"{self.outcome} {detail}, body {self.settlement}"


def _clipped(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


@final
@define(eq=False, kw_only=True)
class Observation:
    """What was seen; everything that a requirement is decided by.

    Attributes:
        case: what was run.
        endings: how each call ended, in order; empty when none did.
        stuck: why the run was given up: ``time``, ``steps``, ``forever``, ``spin``, ``wall``,
            ``died`` or ``""``.
        unended: the same for a reference run that had to be stopped.
        fired: whether the cancellation was made; a run that ended before its step has none.
        fired_at: when, in virtual seconds.
        fired_site: where the tool was.
        ended_at: when the last call ended.
        reached: how far a run that was ended from outside had come, see `Runner`.
        steps: steps of the family in all.
        resumes: resumptions of the family in all.
        fired_step: how many steps there were at the cancellation.
        fired_resume: how many resumptions there were then.
        after_steps: steps after the cancellation.
        entered: how many times the body was begun.
        body: how the body ended: ``returned``, ``raised``, ``cancelled`` or ``""``.
        error: what it raised.
        deliveries: the cancellations that were sent in.
        ours: those of them that are the suite's.
        tasks: lanes that outlived the call.
        left: what else outlived it.
        generators: asynchronous generators that were begun and not finished.
        yields: generators that yielded inside a scope.
        slowest: real seconds of the slowest step, and if it is slower than allowed, where it began.
        idle: whether the loop was quiet after the call.
        real: whether real time passed.
        invariant: what the fixture's invariant said, None when it held.
        invariants: how many times it was asked.
        snapshots: what the fixture's snapshot gave: before, and after each call.
        choices: sizes of the batches of tasks, for schedules.
        ticks: the picture.
        lanes: the names of its lanes.
    """

    case: Case
    endings: list[Ending] = field(factory=list[Ending])
    stuck: str = ""
    unended: str = ""
    fired: bool = False
    fired_at: float = 0.0
    fired_site: Site | None = None
    ended_at: float = 0.0
    reached: int = 0
    steps: int = 0
    resumes: int = 0
    fired_step: int = 0
    fired_resume: int = 0
    after_steps: int = 0
    entered: int = 0
    body: str = ""
    error: BaseException | None = None
    deliveries: Sequence[Delivery] = ()
    ours: Sequence[Delivery] = ()
    tasks: Sequence[tuple[Lane, Site | None]] = ()
    left: Leftovers = NOTHING_LEFT
    generators: Sequence[str] = ()
    yields: Sequence[tuple[str, Site | None]] = ()
    slowest: float = 0.0
    slowest_site: Site | None = None
    idle: bool = True
    real: bool = False
    invariant: str | None = None
    invariants: int = 0
    snapshots: list[Any] = field(factory=list[Any])
    choices: Sequence[int] = ()
    ticks: Sequence[Tick] = ()
    lanes: Sequence[str] = ()
