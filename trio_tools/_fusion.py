"""Where all the sources that may cancel a call meet in one trio scope, and which of them was first."""

import math
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Protocol, Self, final

import trio

from ._result import CancelCause, CauseKind

__all__ = ["Ambient", "DeadlineSource", "FusedScope", "Sentry", "Source", "earliest"]


class Source(Protocol):
    """Something that can cancel the code it governs.

    Every source is asked again and again, and nearly always has nothing to tell. So it shows a `horizon`,
    which costs one comparison, and is asked for a cause only once the clock has reached that.
    """

    @property
    def horizon(self) -> float:
        """The time before which it has not cancelled: its deadline, and minus infinity once it has.

        Minus infinity also for one that has to be asked each time.
        """
        ...

    @property
    def fused(self) -> "dict[FusedScope, None] | None":
        """The scopes that it cancels directly; None where trio does: deadlines and ambient scopes."""
        ...

    def cause_at(self, now: float, /) -> CancelCause | None:
        """Return the cause of this source's cancellation, exact at ``now``, or None."""
        ...

    def deadline_at(self, now: float, /) -> float:
        """Return the time at which this source cancels by itself, infinity when it does not."""
        ...


class Enclosing(Protocol):
    """A call with a body in which another call is nested (`NE-4`)."""

    def cause_at(self, now: float, /) -> CancelCause | None:
        """Return why the body is being cancelled, as far as it is known."""
        ...

    def cause_within(self, now: float, /) -> CancelCause | None:
        """Return the same, asked in a frame within the body, which is read to know more."""
        ...


def earliest(sources: Iterable[Source], now: float) -> CancelCause | None:
    """Return the cause that came first; of several at one instant, that of the first source (`WR-6`)."""
    first: CancelCause | None = None
    for source in sources:
        if source.horizon <= now:
            cause = source.cause_at(now)
            if cause is not None and (first is None or cause.at < first.at):
                first = cause
    return first


@final
class DeadlineSource:
    """A deadline that a wrapper added (`WR-3`).

    Args:
        horizon: the trio time at which it passes, in seconds.
        name: what its cause is called.
    """

    __slots__ = ("horizon", "name")
    fused: "dict[FusedScope, None] | None" = None

    def __init__(self, horizon: float, name: str) -> None:
        self.horizon: Final = horizon
        self.name: Final = name

    def cause_at(self, now: float, /) -> CancelCause | None:
        """Return the cause once the clock has reached the deadline."""
        return CancelCause(CauseKind.DEADLINE, self.name, None, self.horizon) if self.horizon <= now else None

    def deadline_at(self, _now: float, /) -> float:
        """Return the deadline."""
        return self.horizon


@final
class FusedScope:
    """One trio scope that all of its sources cancel directly (`WR-5`); a context manager.

    Args:
        sources: in order of precedence, the caller first and then from the outermost wrapper inwards.
        spans: where it is listed, last, while it is open.
        trio_scope: a scope that is entered already; by default one is made, and entered with this.
    """

    __slots__ = ("_borrowed", "_spans", "sources", "trio_scope")
    trio_scope: trio.CancelScope

    def __init__(
        self,
        sources: tuple[Source, ...],
        spans: list["FusedScope"] | None = None,
        trio_scope: trio.CancelScope | None = None,
    ) -> None:
        self.sources: Final = sources
        self._borrowed: Final = trio_scope
        self._spans: Final = spans

    def _attach(self) -> float:
        """Have every source cancel this scope, and return the earliest time at which one would by itself."""
        horizon = math.inf
        for source in self.sources:
            if source.fused is not None:
                source.fused[self] = None
            # Ambient scopes reach what they surround by nesting; a shield in between keeps them off (`WR-8`).
            if source.horizon < horizon and type(source) is not Ambient:
                horizon = source.horizon
        if horizon > -math.inf:
            return horizon
        # One has cancelled, or cannot say beforehand that it has not.
        now = trio.current_time()
        ours = [source for source in self.sources if type(source) is not Ambient]
        if earliest(ours, now) is not None:
            return -math.inf
        return min([source.deadline_at(now) for source in ours])

    def __enter__(self) -> Self:
        horizon = self._attach()
        if self._borrowed is None:
            # A deadline given here costs half of one that is assigned.
            self.trio_scope = trio.CancelScope(deadline=horizon)
            self.trio_scope.__enter__()
        else:
            self.trio_scope = self._borrowed
            if horizon < math.inf:
                # Where it has passed, trio cancels before the next task runs.
                self.trio_scope.deadline = horizon
        if self._spans is not None:
            self._spans.append(self)
        return self

    def __exit__(self, *_error: object) -> None:
        if self._spans is not None:
            self._spans.remove(self)
        for source in self.sources:
            if source.fused is not None:
                source.fused.pop(self, None)
        if self._borrowed is None:
            # It absorbs nothing: what a `trio.Cancelled` means is for the call to say.
            self.trio_scope.__exit__(None, None, None)

    def refresh(self) -> None:
        """Set the trio deadline to the earliest of all sources."""
        self.trio_scope.deadline = self._attach()


@final
class Ambient:
    """What was observed of trio scopes that are not ours but surround a call (`SC-9`); a source.

    Attributes:
        name: the name of the cause: ``ambient``, or ``wrapper`` for scopes that a wrapper opened.
        enclosing: for a nested call, the one around it, which tells why its body is being cancelled.
        deadline: the ambient deadline last read; infinity when none was.
        noticed: when a parked task was asked to cancel, while it could not be told by whom.
        cause: the cause once one was observed; it is final.
    """

    fused: "dict[FusedScope, None] | None" = None
    name: str = "ambient"
    enclosing: "Enclosing | None" = None
    horizon: float = math.inf
    deadline: float = math.inf
    noticed: float | None = None
    cause: CancelCause | None = None

    def __init__(self, name: str | None = None) -> None:
        # What stands on the class is what every call begins with; most calls change none of it.
        if name is not None:
            self.name = name

    def observe(self, effective: float, now: float) -> CancelCause | None:
        """Take note of the effective deadline that a frame reads; return the cause if it has passed."""
        if self.cause is None:
            if effective > now:
                self.deadline = effective
                if self.noticed is not None:
                    self.disregard()
            else:
                self._keep(self._cause(effective, now))
        return self.cause

    def observe_hidden(self, now: float) -> None:
        """Count what was read before, where a scope of ours that is cancelled too hides the rest."""
        if self.cause is None and self.deadline <= now:
            self._keep(self._cause(-math.inf, now))
        elif self.cause is None and self.enclosing is not None:
            self._keep(self.enclosing.cause_within(now))

    def notice(self, now: float) -> None:
        """Take note that a parked task was asked to cancel; nobody may read a frame at that moment."""
        self.noticed = now
        self.horizon = -math.inf

    def disregard(self) -> None:
        """Take back a notice: it was about another scope, or nothing cancels any more."""
        self.noticed = None
        if self.cause is None:
            self.horizon = math.inf

    def _keep(self, cause: CancelCause | None) -> None:
        if cause is not None:
            self.cause = cause
            self.horizon = -math.inf

    def _cause(self, effective: float, now: float) -> CancelCause:
        if self.enclosing is not None and (cause := self.enclosing.cause_within(now)) is not None:
            return cause
        return self._own_cause(effective, now)

    def _own_cause(self, effective: float, now: float) -> CancelCause:
        read = now if effective == -math.inf else effective
        noticed = now if self.noticed is None else self.noticed
        return CancelCause(CauseKind.AMBIENT, self.name, None, min(self.deadline, read, noticed, now))

    def cause_at(self, now: float, /) -> CancelCause | None:
        """Return what was observed, or, until it can be told, what was noticed."""
        if self.cause is None and self.noticed is not None:
            enclosing = None if self.enclosing is None else self.enclosing.cause_at(now)
            return enclosing or self._own_cause(-math.inf, now)
        return self.cause

    def deadline_at(self, _now: float, /) -> float:
        """Return infinity: trio itself keeps the deadlines of ambient scopes."""
        return math.inf


@final
class Sentry:
    """Parks a task until it is released, and notices, within one pass, that it is being cancelled.

    The parked task itself is never interrupted: trio asks its abort function, which reports and then
    declines. What is not a `trio.Cancelled`, such as a `KeyboardInterrupt`, is handed to the report.
    """

    __slots__ = ("_report", "_task", "released")

    def __init__(self, report: Callable[[BaseException | None], None]) -> None:
        self._report: Final = report
        self._task: trio.lowlevel.Task | None = None
        self.released = False

    def park(self) -> Awaitable[object]:
        """Return what waits until `release`, which is yet to come; a checkpoint that nothing cancels."""
        self._task = trio.lowlevel.current_task()
        return trio.lowlevel.wait_task_rescheduled(self._abort)  # noqa: ASYNC105  (one coroutine less)

    @trio.lowlevel.enable_ki_protection
    def _abort(self, raise_cancel: Callable[[], object]) -> trio.lowlevel.Abort:
        try:
            raise_cancel()
        except trio.Cancelled:
            self._report(None)
        except BaseException as interrupt:
            self._report(interrupt)
        return trio.lowlevel.Abort.FAILED

    @trio.lowlevel.enable_ki_protection
    def release(self) -> None:
        """Let the task go on that is parked, or let none be parked any more."""
        if self._task is not None and not self.released:
            trio.lowlevel.reschedule(self._task)
        self.released = True
