"""Who may end a call, and how they are told apart: the caller's handle, and what others are shown of it.

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

import math
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Final, final

import trio
from attrs import define, field

from ._fusion import Source, earliest
from ._lifetime import Lifetime
from ._result import CancelCause, CauseKind
from ._watch import Watch

__all__ = ["CallScope", "ScopeView", "handle_on", "lifetime_of", "open_call_scope"]


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
        RuntimeError: when the block is left in another task than entered it, or before a call scope or
            nursery that was opened within it, which changes nothing.
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
    _watch: Watch | None = field(default=None, init=False)
    _owner: trio.lowlevel.Task | None = field(default=None, init=False)

    @trio.lowlevel.enable_ki_protection
    async def __aenter__(self) -> CallScope:
        if self._watch is not None:
            raise RuntimeError("each open_call_scope() may be entered once")
        if self.parent is not None:
            self.parent.check_run()
        lifetime = Lifetime(self.name, trio.current_time() + self.timeout, self.parent)
        self._watch = Watch(lifetime)
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
        if not self._watch.is_innermost():
            raise RuntimeError(
                f"call scope {self.name!r} is left before a call scope or nursery that was opened within it: "
                "leave them in the reverse order, or open each in a task of its own"
            )
        await self._watch.end(error)
