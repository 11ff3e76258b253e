"""What stands behind a call scope: a source of cancellation, and the calls that it waits for."""

import math
from typing import Protocol, final

import trio
from attrs import define, field

from ._fusion import FusedScope
from ._result import CancelCause, CauseKind

__all__ = ["AttachedCall", "Lifetime", "Watcher"]


class AttachedCall(Protocol):
    """A call as its lifetime sees it: something that has not published yet."""

    def cancelled_since(self, now: float, /) -> float | None:
        """Return the time at which the call was cancelled, None while it is not."""
        ...

    def describe_stuck(self, now: float, /) -> str:
        """Say since when the call has been cancelled and where it waits."""
        ...


class Watcher(Protocol):
    """Who reports the calls of a lifetime that stay cancelled without settling."""

    def alarm(self) -> None:
        """Look whether there is such a call now."""
        ...


@final
@define(eq=False, repr=False)
class Lifetime:
    """A source of cancellation that calls attach to; what a `CallScope` is the handle of."""

    name: str
    deadline: float
    parent: "Lifetime | None" = None
    closing: bool = False
    run: trio.lowlevel.TrioToken = field(factory=trio.lowlevel.current_trio_token)
    clock: trio.abc.Clock = field(factory=trio.lowlevel.current_clock)
    cause: CancelCause | None = field(default=None, init=False)
    horizon: float = field(default=math.inf, init=False)
    _left: bool = field(default=False, init=False)
    _children: dict["Lifetime", None] = field(factory=dict, init=False)  # pyright: ignore[reportUnknownVariableType]
    fused: dict[FusedScope, None] = field(factory=dict[FusedScope, None], init=False)
    _calls: dict[AttachedCall, None] = field(factory=dict[AttachedCall, None], init=False)
    _change: trio.Event | None = field(default=None, init=False)
    _watch: "Watcher | None" = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        if self.parent is not None:
            # Whatever run it is made in: only that of its parent may use it.
            self.run = self.parent.run
            self.parent._children[self] = None
        self._look_ahead()

    def _look_ahead(self) -> None:
        """Note until when there is nothing to ask; see `Source`."""
        if self.cause is not None or self._left:
            self.horizon = -math.inf
        elif self.parent is None:
            self.horizon = self.deadline
        else:
            self.horizon = min(self.deadline, self.parent.horizon)

    def forget(self) -> None:
        """Leave the parent's care, now that no call is attached any more.

        The parent tells it nothing from then on; whoever still holds a view of it has to ask. Where a
        delegation that it was added to goes on, here or in a child, the parent goes on cancelling that
        too (`WR-4`).
        """
        if self.parent is not None and not self.fused and not self._children:
            self.parent._children.pop(self, None)
            self._left = True
            self._look_ahead()

    def check_run(self) -> None:
        """Raise `RuntimeError` outside the trio run that this lifetime belongs to (`SC-2`)."""
        try:
            current = trio.lowlevel.current_trio_token()
        except RuntimeError:
            current = None
        if current is not self.run:
            raise RuntimeError(f"call scope {self.name!r} belongs to another trio run or to another thread")

    def cause_at(self, now: float, /) -> CancelCause | None:
        """Return the first cause, settling every deadline that the clock has reached (`SC-4`, `SC-5`)."""
        if self.cause is None:
            cause = None if self.parent is None else self.parent.cause_at(now)
            if self.deadline <= now and (cause is None or self.deadline < cause.at):
                cause = CancelCause(CauseKind.DEADLINE, self.name, None, self.deadline)
            self.cause = cause
        return self.cause

    def deadline_at(self, now: float, /) -> float:
        """Return the earliest deadline of this lifetime and its parents."""
        if self.parent is None:
            return self.deadline
        return min(self.deadline, self.parent.deadline_at(now))

    def cancel(self, kind: CauseKind, name: str, reason: str | None, at: float) -> None:
        """Cancel; the first cause is kept, whatever is requested later (`SC-4`)."""
        if self.cause_at(trio.current_time()) is None:
            self.cause = CancelCause(kind, name, reason, at)
        self._fire()

    def move_deadline(self, at: float) -> None:
        """Set the deadline, at once for running calls, unless the old one has passed (`SC-7`, `SC-8`)."""
        now = trio.current_time()
        self.cause_at(now)
        self.deadline = at
        if self.cause_at(now) is not None:
            self._fire()
        else:
            self._refresh()

    def _fire(self) -> None:
        self._look_ahead()
        for fused in tuple(self.fused):
            fused.trio_scope.cancel()
        for child in tuple(self._children):
            child._fire()
        self.alarm()

    def _refresh(self) -> None:
        self._look_ahead()
        for fused in tuple(self.fused):
            fused.refresh()
        for child in tuple(self._children):
            child._refresh()

    def alarm(self) -> None:
        """Have calls that stay cancelled without settling reported."""
        watched = self
        while watched._watch is None:
            assert watched.parent is not None, "whoever opens a call scope watches its lifetime"
            watched = watched.parent
        watched._watch.alarm()

    def is_or_encloses(self, other: "Lifetime | None") -> bool:
        """Return whether ``other`` is this lifetime or was opened, at any depth, as its child."""
        while other is not None and other is not self:
            other = other.parent
        return other is not None

    def admit(self, call: AttachedCall, within: "Lifetime | None") -> None:
        """Attach ``call`` here and to every parent (`SC-12`).

        Args:
            within: the lifetime of the enclosing call, None for a root call.

        Raises:
            RuntimeError: in another run (`SC-2`), or when a block is being left and the call is not
                nested in one that is attached there (`SC-13`).
        """
        # A scope and its parents belong to one run.
        self.check_run()
        lifetime: Lifetime | None = self
        while lifetime is not None:
            if lifetime.closing and not lifetime.is_or_encloses(within):
                raise RuntimeError(
                    f"call scope {lifetime.name!r} is being left: only calls nested in its calls may start"
                )
            lifetime = lifetime.parent
        lifetime = self
        while lifetime is not None:
            lifetime._calls[call] = None
            lifetime = lifetime.parent

    def dismiss(self, call: AttachedCall) -> None:
        """Detach ``call``: it has published."""
        lifetime: Lifetime | None = self
        while lifetime is not None:
            lifetime._calls.pop(call, None)
            lifetime.changed()
            lifetime = lifetime.parent

    async def drain(self) -> None:
        """Wait until every attached call has published (`SC-10`)."""
        while self._calls:
            await self.next_change()

    async def next_change(self) -> None:
        """Wait until a call has published, or one more is cancelled."""
        if self._change is None or self._change.is_set():
            self._change = trio.Event()
        await self._change.wait()

    def changed(self) -> None:
        """Wake whoever waits for the next change."""
        if self._change is not None:
            self._change.set()

    def watched_by(self, watch: "Watcher") -> None:
        """Let ``watch`` report the calls of this lifetime."""
        self._watch = watch

    def stuck_calls(self, now: float) -> dict[AttachedCall, float]:
        """Return the attached calls that are cancelled and have not settled, and since when."""
        calls = tuple(self._calls)
        return {call: since for call in calls if (since := call.cancelled_since(now)) is not None}
