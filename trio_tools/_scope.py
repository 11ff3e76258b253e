"""Who may end a call, and how they are told apart: the caller's handle and what stands behind it.

Theory of operation
-------------------
A `CallScope` governs calls, not code: whoever opens one keeps running when it is cancelled, so that it
can store what became of its calls. The handle is small on purpose. What it holds on to, a `Lifetime`,
is a *source* of cancellation; a wrapper may add further sources, a deadline or another call scope, and
nobody can take one away. A `ScopeView` reads sources and leads back to no handle.

Where code of a call waits, a `FusedScope` surrounds it: a single `trio.CancelScope` that every source
cancels directly, in the step in which the source itself is cancelled (`SC-3`, `WR-5`). "Directly" is
what makes it impossible to detach. A shield, or another task, between the caller and the body stands
between two trio scopes, but not between a source and the fused scopes attached to it (`WR-8`). The
deadline of the trio scope is the earliest of all sources, so `trio.current_effective_deadline()` tells
a body the truth::

    Lifetime "caller" ------+--------------------+
                            |                    |  cancel directly
    DeadlineSource "timeout" --------------------+
                            v                    v
    ambient scopes > [fused: wrappers] > ... > [fused: body] > nursery > the body's task

Who came first is never read off a scope. trio delivers cancellations and deadlines when it gets round
to them, in an order of its own, so a flag says that something was delivered, not what was first. Each
source knows the time of its own cause; `earliest` compares the times, and breaks a tie in favour of
the caller and then of the outermost wrapper (`WR-6`).

The *ambient* scopes, those around ``execute()`` in its own task, are not ours and have no callback.
They are read synchronously at each check, and within one pass while a task of ours is parked: trio
calls the abort function of a parked task when it wants to cancel it, and a `Sentry` is parked for
just that. One watches the owner of each call scope; no call needs one of its own.

A lifetime is settled against the clock before anything about it changes, so a deadline that has passed
stays passed although trio has not noticed it yet (`SC-5`, `SC-8`).
"""

import logging
import math
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Final, Protocol, TypeAlias, cast, final
from weakref import WeakKeyDictionary

import trio
from attrs import define, field

from ._fusion import Ambient, FusedScope, Sentry, Source, earliest
from ._result import CancelCause, CauseKind

__all__ = ["AttachedCall", "CallScope", "Lifetime", "ScopeView", "lifetime_of", "open_call_scope"]

logger: Final = logging.getLogger("trio_tools")

STUCK_AFTER: Final = 10.0
"""Seconds after which a cancelled call that has not settled is reported; then twice as long, and so on."""


_NAMED: Final = 10
"""How many stuck calls are described at once; of the others, the number is told."""


class AttachedCall(Protocol):
    """A call as its lifetime sees it: something that has not published yet."""

    def cancelled_since(self, now: float, /) -> float | None:
        """Return the time at which the call was cancelled, None while it is not."""
        ...

    def describe_stuck(self, now: float, /) -> str:
        """Say since when the call has been cancelled and where it waits."""
        ...


_Schedule: TypeAlias = WeakKeyDictionary[AttachedCall, tuple[float, float]]
"""Of each call that is cancelled and has not settled: since when, and when that is to be told next."""


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
    _watch: "_Watch | None" = field(default=None, init=False)

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

    def watched_by(self, watch: "_Watch") -> None:
        """Let ``watch`` report the calls of this lifetime."""
        self._watch = watch

    def stuck_calls(self, now: float) -> dict[AttachedCall, float]:
        """Return the attached calls that are cancelled and have not settled, and since when."""
        calls = tuple(self._calls)
        return {call: since for call in calls if (since := call.cancelled_since(now)) is not None}


@final
class CallScope:
    """The caller's handle on the lifetime of its calls; opened by `open_call_scope`.

    One scope serves many calls, at once or in turn, from any task of its trio run (`SC-2`).
    """

    __slots__ = ("_lifetime",)
    _lifetime: Lifetime

    def __init__(self) -> None:
        raise TypeError("a CallScope is opened, not constructed: `async with open_call_scope() as scope:`")

    @property
    def name(self) -> str:
        """The label that becomes the name of the cause when this scope cancels."""
        return self._lifetime.name

    @property
    def deadline(self) -> float:
        """The trio time, in seconds, at which this scope cancels itself; infinity for never.

        Assigning it acts at once on running calls (`SC-7`), and never undoes a deadline that has passed
        (`SC-8`).

        Raises:
            ValueError: when NaN is assigned.
            RuntimeError: when assigned from a foreign thread or another trio run (`SC-2`).
        """
        return self._lifetime.deadline

    @deadline.setter
    @trio.lowlevel.enable_ki_protection
    def deadline(self, at: float) -> None:
        if math.isnan(at):
            raise ValueError("a deadline is a trio time in seconds, not NaN")
        self._lifetime.check_run()
        self._lifetime.move_deadline(float(at))

    @property
    def cancel_called(self) -> bool:
        """Whether this scope was cancelled or its deadline has passed; exact, without lag (`SC-5`)."""
        return self.cause is not None

    @property
    def cause(self) -> CancelCause | None:
        """The first cause of this scope's cancellation, None while there is none (`SC-4`)."""
        return self._lifetime.cause_at(self._lifetime.clock.current_time())

    @trio.lowlevel.enable_ki_protection
    def cancel(self, reason: str | None = None) -> None:
        """Cancel every call under this scope, in this step (`SC-3`); idempotent, and no checkpoint.

        The block that opened the scope is left alone.

        Args:
            reason: what the cause shall say about why.

        Raises:
            TypeError: when ``reason`` is neither a string nor None.
            RuntimeError: when called from a foreign thread or another trio run (`SC-2`).
        """
        if reason is not None:
            reason = _text(reason, "the reason of a cancellation")
        self._lifetime.check_run()
        self._lifetime.cancel(CauseKind.CALLER, self.name, reason, trio.current_time())

    def open_child(self, *, name: str, timeout: float = math.inf) -> AbstractAsyncContextManager["CallScope"]:
        """Open a scope that is also cancelled whenever this one is, with this one's cause (`SC-15`).

        Cancelling the child does not touch this scope. Leaving this scope's block also waits for the
        calls of its children.

        Args:
            name: the child's label.
            timeout: seconds from entry until the child cancels itself, as for `open_call_scope`.

        Raises:
            ValueError: when ``timeout`` is negative or NaN.
            TypeError: when ``name`` is no string.
        """
        return _OpenCallScope(name, timeout, self._lifetime)

    def __repr__(self) -> str:
        return f"<CallScope {self.name!r}>"


def lifetime_of(scope: CallScope) -> Lifetime:
    """Return what ``scope`` is the handle of; for the registry alone."""
    return scope._lifetime  # pyright: ignore[reportPrivateUsage]


def handle_on(lifetime: Lifetime) -> CallScope:
    """Return a handle on ``lifetime``; for the registry alone."""
    scope = CallScope.__new__(CallScope)
    scope._lifetime = lifetime  # pyright: ignore[reportPrivateUsage]
    return scope


@final
class ScopeView:
    """What a hook or a body may know of its call's lifetime (`SC-14`): it reads, and cannot cancel.

    Its properties may also be read from a worker thread.
    """

    __slots__ = ("_clock", "_latched", "_sources")

    def __init__(self, sources: tuple[Source, ...], clock: trio.abc.Clock) -> None:
        self._sources: Final = sources
        self._clock: Final = clock
        self._latched: tuple[CancelCause | None] | None = None

    @property
    def cancel_called(self) -> bool:
        """Whether the lifetime has been cancelled; exact for the call scope and added sources."""
        return self.cause is not None

    @property
    def cause(self) -> CancelCause | None:
        """What came first, None while nothing has cancelled.

        A wrapper's derived view is settled when ``proceed`` returns: a source that fires later did not
        govern the delegation (`WR-10`).
        """
        if self._latched is not None:
            return self._latched[0]
        return earliest(self._sources, self._clock.current_time())

    def reopen(self) -> None:
        """Show what is, not what was when a delegation ended (internal)."""
        self._latched = None

    def settle(self, cause: CancelCause | None) -> None:
        """Show from now on what came first (internal)."""
        self._latched = (cause,)

    @property
    def deadline(self) -> float:
        """The earliest deadline of the call scope and the added sources, in trio seconds."""
        now = self._clock.current_time()
        return min([source.deadline_at(now) for source in self._sources])

    def __repr__(self) -> str:
        return f"<ScopeView, {'cancelled' if self.cancel_called else 'not cancelled'}>"


def open_call_scope(
    *, name: str = "caller", timeout: float = math.inf
) -> AbstractAsyncContextManager[CallScope]:
    """Open a scope for calls; leaving the block waits, shielded, for every call still attached (`SC-10`).

    Cancelling the scope never raises in the block, so what became of the calls can still be stored. An
    exception in the block cancels the calls first, then propagates unchanged. When the task that owns
    the block is itself cancelled from outside, so are the calls, with a cause of kind ``ambient``, even
    while the block is shielded (`SC-11`).

    Args:
        name: a label, which becomes the name of the cause.
        timeout: seconds from entry until the scope cancels itself. Zero cancels at once, infinity
            means never (`SC-6`).

    Raises:
        ValueError: when ``timeout`` is negative or NaN.
        TypeError: when ``name`` is no string.
        RuntimeError: when the block is left in another task than entered it, which changes nothing.
    """
    return _OpenCallScope(name, timeout, None)


def _seconds(_instance: object, _attribute: object, value: float) -> None:
    if not value >= 0:
        raise ValueError(f"a timeout is zero or more seconds, not {value!r}")


def _text(value: object, what: str) -> str:
    """Return ``value`` as a plain string: what a cause says is stored and shown, end to end."""
    if not isinstance(value, str):
        raise TypeError(f"{what} is a string, not {type(value).__name__}")
    return str.__str__(value)


@define(eq=False, repr=False)
class _OpenCallScope:
    """The block of one call scope."""

    name: str = field(converter=lambda name: _text(name, "the name of a call scope"))
    timeout: float = field(validator=_seconds)
    parent: Lifetime | None
    _watch: "_Watch | None" = field(default=None, init=False)
    _owner: trio.lowlevel.Task | None = field(default=None, init=False)

    @trio.lowlevel.enable_ki_protection
    async def __aenter__(self) -> CallScope:
        if self._watch is not None:
            raise RuntimeError("each open_call_scope() may be entered once")
        if self.parent is not None:
            self.parent.check_run()
        lifetime = Lifetime(self.name, trio.current_time() + self.timeout, self.parent)
        self._watch = _Watch(lifetime)
        self._owner = trio.lowlevel.current_task()
        await self._watch.begin()
        return handle_on(lifetime)

    @trio.lowlevel.enable_ki_protection
    async def __aexit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        assert self._watch is not None
        # Nothing is touched: the owner can still leave it, and trio would take the whole run down.
        if trio.lowlevel.current_task() is not self._owner:
            raise RuntimeError(f"call scope {self.name!r} is left by the task that opened it, and no other")
        await self._watch.end(error)


@define(eq=False, repr=False)
class _Watch:
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
        self.lifetime.watched_by(self)
        if self._ambient.observe(trio.current_effective_deadline(), trio.current_time()) is not None:
            self._cancel_as_ambient()
        self._nursery.start_soon(self._stand, name=f"owner of call scope {self.lifetime.name!r}")

    @trio.lowlevel.enable_ki_protection
    async def _stand(self) -> None:
        # The lifetime's own deadline has no callback either; its fused scope reports that one too.
        with FusedScope((self.lifetime,)):
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
        with trio.CancelScope(shield=True):
            while (at := self._next_warning(due)) is not None:
                with trio.move_on_at(at):
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
        for call in told[:_NAMED]:
            logger.warning("%s", call.describe_stuck(now))
        if len(told) > _NAMED:
            logger.warning(
                "%d more calls of call scope %r are cancelled and have not settled",
                len(told) - _NAMED,
                self.lifetime.name,
            )


def _only_cancelled(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        leaves = cast("BaseExceptionGroup[BaseException]", error)
        return leaves.split(trio.Cancelled)[1] is None
    return isinstance(error, trio.Cancelled)
