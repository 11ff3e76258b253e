"""The watch over one call scope: its owner, whose cancellation is the calls', and calls that stay stuck."""

import math
from contextlib import AbstractAsyncContextManager
from typing import Final, TypeAlias, cast
from weakref import WeakKeyDictionary, WeakValueDictionary

import trio
from attrs import define, field

from ._fusion import Ambient, FusedScope, Sentry
from ._leaves import log_warning
from ._lifetime import AttachedCall, Lifetime
from ._result import CauseKind

__all__ = ["Watch", "abandon"]

STUCK_AFTER: Final = 10.0
"""Seconds after which a cancelled call that has not settled is reported; then twice as long, and so on."""


_NAMED: Final = 10
"""How many stuck calls are described at once; of the others, the number is told."""

_Schedule: TypeAlias = WeakKeyDictionary[AttachedCall, tuple[float, float]]
"""Of each call that is cancelled and has not settled: since when, and when that is to be told next."""


@define(eq=False, repr=False)
class Watch:
    """Watches the owner of a call scope, and reports calls that stay cancelled without settling.

    One task is parked for the owner. A second one exists only once something was cancelled.
    """

    lifetime: Lifetime
    _ambient: Ambient = field(factory=Ambient, init=False)
    _left: trio.Event = field(factory=trio.Event, init=False)
    _alarmed: bool = field(default=False, init=False)
    _sentry: Sentry = field(init=False)
    _manager: AbstractAsyncContextManager[trio.Nursery] = field(factory=trio.open_nursery, init=False)
    _nursery: trio.Nursery = field(init=False)

    async def begin(self) -> None:
        self._sentry = Sentry(self._notice)
        self._nursery = await self._manager.__aenter__()
        _WATCHES[self._nursery] = self
        self.lifetime.watched_by(self)
        if self._ambient.observe(trio.current_effective_deadline(), trio.current_time()) is not None:
            self._cancel_as_ambient()
        self._nursery.start_soon(self._stand, name=f"owner of call scope {self.lifetime.name!r}")

    @trio.lowlevel.enable_ki_protection
    async def _stand(self) -> None:
        # The lifetime's own deadline has no callback either; its fused scope reports that one too.
        with FusedScope((self.lifetime,)):
            if not self._sentry.released:
                await self._sentry.park()

    def _notice(self, _interrupt: BaseException | None) -> None:
        now = trio.current_time()
        if self.lifetime.cause_at(now) is None:
            self._ambient.observe(-math.inf, now)
            self._cancel_as_ambient()
        self.alarm()

    def _cancel_as_ambient(self) -> None:
        cause = self._ambient.cause
        assert cause is not None
        self.lifetime.cancel(cause.kind, cause.name, cause.reason, cause.at)

    def is_innermost(self) -> bool:
        """Return whether nothing is open in the owner, which asks, that was opened within the block."""
        return trio.lowlevel.current_task().child_nurseries[-1] is self._nursery

    async def end(self, error: BaseException | None) -> None:
        self.lifetime.closing = True
        if error is not None:
            self._cancel_for(error)
        interrupt = await self._drain()
        self._left.set()
        self._sentry.release()
        try:
            # Nothing of the block passes through the nursery, which would wrap it in a group.
            await self._manager.__aexit__(None, None, None)
        finally:
            self.lifetime.forget()
        if interrupt is not None:
            raise interrupt

    def abandon(self) -> None:
        """End: the task that owns the block has returned from it without leaving it, and never will."""
        self.lifetime.closing = True
        self.lifetime.cancel(CauseKind.CALLER, self.lifetime.name, "left open", trio.current_time())
        self._left.set()
        self._sentry.release()
        self.lifetime.forget()

    async def _drain(self) -> BaseException | None:
        """Wait for the attached calls; what interrupts the wait cancels them, and is returned."""
        interrupt: BaseException | None = None
        while True:
            try:
                with trio.CancelScope(shield=True):
                    await self.lifetime.drain()
            except BaseException as raised:
                interrupt = raised
                self._cancel_for(raised)
            else:
                return interrupt

    def _cancel_for(self, error: BaseException) -> None:
        now = trio.current_time()
        owner_cancelled = self._ambient.observe(trio.current_effective_deadline(), now) is not None
        if owner_cancelled and _only_cancelled(error):
            self._cancel_as_ambient()
        else:
            self.lifetime.cancel(CauseKind.CALLER, self.lifetime.name, type(error).__name__, now)

    def alarm(self) -> None:
        if self._alarmed:
            self.lifetime.changed()
        elif not self._left.is_set():
            self._alarmed = True
            self._nursery.start_soon(self._report_stuck_calls, name=f"stuck calls of {self.lifetime.name!r}")

    @trio.lowlevel.enable_ki_protection
    async def _report_stuck_calls(self) -> None:
        """Say, again and again, which cancelled calls have not settled: waiting is visible.

        Each is told 10 seconds after it was cancelled, then after 20 more, 40 more, and so on.
        """
        # Told weakly: a task that waits must not keep alive what has been published meanwhile.
        due: _Schedule = WeakKeyDictionary()
        while (at := self._next_warning(due)) is not None:
            with trio.CancelScope(deadline=at, shield=True):
                await self.lifetime.next_change()
            self._warn(due)
        self._alarmed = False

    def _next_warning(self, due: _Schedule) -> float | None:
        stuck = self.lifetime.stuck_calls(trio.current_time())
        for call, since in stuck.items():
            # A wrapper's cancellation may be over, and the call be cancelled again: that is another one.
            if call not in due or due[call][0] != since:
                due[call] = since, since + STUCK_AFTER
        return min((due[call][1] for call in stuck), default=None)

    def _warn(self, due: _Schedule) -> None:
        now = trio.current_time()
        told: list[AttachedCall] = []
        for call, since in self.lifetime.stuck_calls(now).items():
            known, at = due.get(call, (since, math.inf))
            if known == since and at <= now:
                due[call] = since, at + (at - since) + STUCK_AFTER
                told.append(call)
        # What this task raised would cancel the block of the scope: a handler that fails is kept from that.
        for call in told[:_NAMED]:
            log_warning("%s", call.describe_stuck(now))
        if len(told) > _NAMED:
            log_warning(
                "%d more calls of call scope %r are cancelled and have not settled",
                len(told) - _NAMED,
                self.lifetime.name,
            )


# A watch holds its nursery, so it is the watch that must not be kept alive here.
_WATCHES: Final[WeakValueDictionary[trio.Nursery, Watch]] = WeakValueDictionary()


def abandon(nursery: trio.Nursery) -> None:
    """End the watch over a call scope that was left open, if that is what ``nursery`` belongs to."""
    if (watch := _WATCHES.get(nursery)) is not None:
        watch.abandon()


def _only_cancelled(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        leaves = cast("BaseExceptionGroup[BaseException]", error)
        return leaves.split(trio.Cancelled)[1] is None
    return isinstance(error, trio.Cancelled)
