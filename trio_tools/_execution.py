"""One call as others see it: gates and guards, reviewers and observers, wrappers, and its body.

Every view reads the same `Life` and can change nothing of it. Wrappers alone are given one with which
they may add to the cancellation; nobody is given one that takes away from it.
"""

import math
import threading
from collections.abc import Mapping
from typing import Final, final

import trio

from ._call import ExecutionToken, LayerView
from ._content import Artifact, Context, WriteKind, WriteTarget, context_of
from ._errors import ABORTED, ABORTED_BEFORE_DISPATCH, INVALID_ARGS, UNKNOWN_TOOL
from ._fusion import DeadlineSource, Source
from ._json import JsonValue
from ._life import Attempt, Life, Progress
from ._result import ToolResult
from ._schema import Violations
from ._scope import CallScope, ScopeView, lifetime_of
from ._tool import BodyContext, Tool

__all__ = [
    "DispatchExecution",
    "ToolContext",
    "ToolExecution",
    "derives_from",
    "life_of_view",
    "sources_of",
    "view_of",
]


class _View:
    """What all views of one call have in common; every attribute is read-only (`MA-15`)."""

    __slots__ = ("_life",)

    _life: Life

    @property
    def token(self) -> ExecutionToken:
        """The mark of this execution, one object in all phases (`NE-1`)."""
        return self._life.token

    @property
    def call_id(self) -> str:
        """The call's id."""
        return self._life.call_id

    @property
    def root_call_id(self) -> str:
        """The id of the outermost call that this one is nested in; its own for a root call (`NE-3`)."""
        return self._life.root_call_id

    @property
    def name(self) -> str:
        """The name that was called, whether or not a tool of that name is visible."""
        return self._life.name

    @property
    def arguments(self) -> JsonValue | None:
        """The frozen arguments; None when they could not be materialized (`MA-8`)."""
        return self._life.arguments

    @property
    def parent(self) -> ExecutionToken | None:
        """The token of the enclosing execution; None for a root call."""
        return self._life.parent

    @property
    def layer(self) -> LayerView:
        """The layer that the call is executed through."""
        return self._life.layer

    @property
    def dispatched(self) -> bool:
        """Whether the body was invoked at least once."""
        return self._life.dispatched

    @property
    def started_at(self) -> float | None:
        """The trio time, in seconds, at which the body was first invoked; None if it never was."""
        return self._life.started_at

    @property
    def settled_at(self) -> float | None:
        """The trio time, in seconds, at which the body last settled; None while it has not."""
        return self._life.settled_at

    @property
    def last_progress(self) -> Progress | None:
        """What the body last said about how far it is; None if it said nothing."""
        return self._life.progress

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}, call_id={self.call_id!r}>"


@final
class ToolExecution(_View):
    """The read-only view of a call that gates, guards, reviewers and observers are given."""

    __slots__ = ("_scope",)

    def __init__(self, life: Life) -> None:
        self._life = life
        self._scope: ScopeView | None = None

    @property
    def scope(self) -> ScopeView:
        """Whether the caller is cancelled, and why; it cannot cancel (`SC-14`)."""
        if self._scope is None:
            self._scope = ScopeView(self._life.sources, self._life.clock)
        return self._scope

    @property
    def tool(self) -> Tool | None:
        """The tool that was invoked last; before that the visible one, None for an unknown name."""
        return self._life.tool or self._life.layer.get(self._life.name)


def view_of(life: Life) -> ToolExecution:
    """Return the one view that gates, guards, reviewers, finalizer and observers are given."""
    if life.view is None:
        life.view = ToolExecution(life)
    return life.view  # pyright: ignore[reportReturnType]  (nothing else is ever put there)


@final
class DispatchExecution(_View):
    """The view of a call that wrappers are given, and nobody else: it may add to the cancellation.

    Each ``with_*`` method returns a new view with one more source and changes no old one. The source
    governs inner wrappers and the body from ``proceed(view)`` until that returns (`WR-4`). No method
    removes a source.
    """

    __slots__ = ("_base", "_scope", "_sources")

    _scope: ScopeView | None

    def __init__(
        self, life: Life, sources: tuple[Source, ...], base: "DispatchExecution | None" = None
    ) -> None:
        self._life = life
        self._base: Final = base
        self._sources: Final = sources
        self._scope = None

    @property
    def scope(self) -> ScopeView:
        """What governs the delegation: the caller and every source added so far."""
        if self._scope is None:
            self._scope = ScopeView(self._sources, self._life.clock)
        return self._scope

    @property
    def tool(self) -> Tool | None:
        """The tool of that name that is visible now; None for an unknown name."""
        return self._life.layer.get(self._life.name)

    def objection(self) -> str | None:
        """Return the code that dispatch would give the call now, None if it would invoke the body (`BO-1`).

        For a wrapper that does something on account of the body, such as noting that it may write. It
        is no checkpoint and changes nothing; a moment later the answer may be another.
        """
        life = self._life
        cause = life.cause_now(self._sources)
        # Who asks may cancel in the next line.
        life.stale = True
        if cause is not None:
            return ABORTED if life.dispatched else ABORTED_BEFORE_DISPATCH
        tool = self.tool
        if tool is None:
            return UNKNOWN_TOOL
        try:
            life.bind(tool)
        except Violations:
            return INVALID_ARGS
        return None

    def with_timeout(self, seconds: float, *, name: str) -> "DispatchExecution":
        """Return a view with a deadline ``seconds`` from now (`WR-3`).

        Raises:
            ValueError: unless ``seconds`` is a finite number above zero.
        """
        if not _is_number(seconds) or not 0 < seconds < math.inf:
            raise ValueError(f"a timeout is a finite number of seconds above zero, not {seconds!r}")
        return self.with_deadline(trio.current_time() + seconds, name=name)

    def with_deadline(self, at: float, *, name: str) -> "DispatchExecution":
        """Return a view with a deadline at the trio time ``at``, in seconds (`WR-3`).

        Raises:
            ValueError: unless ``at`` is a number and ``name`` a string.
        """
        if not _is_number(at) or math.isnan(at):
            raise ValueError(f"a deadline is a trio time in seconds, not {at!r}")
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"the name of a deadline is a string, not {name!r}")
        return self._with(DeadlineSource(float(at), name))

    def with_scope(self, scope: CallScope) -> "DispatchExecution":
        """Return a view that ``scope``, too, may cancel, with its own cause (`WR-3`).

        Raises:
            ValueError: unless ``scope`` is an open `CallScope`.
            RuntimeError: when it belongs to another run (`SC-2`).
        """
        if type(scope) is not CallScope:
            raise ValueError(f"with_scope takes an open CallScope, not {type(scope).__name__}")
        lifetime = lifetime_of(scope)
        lifetime.check_run()
        if lifetime.closing:
            raise ValueError(f"call scope {scope.name!r} is not open any more")
        return self._with(lifetime)

    def _with(self, source: Source) -> "DispatchExecution":
        return DispatchExecution(self._life, (*self._sources, source), self)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def sources_of(view: DispatchExecution) -> tuple[Source, ...]:
    """Return what governs a delegation of ``view``, in order of precedence; for the registry alone."""
    return view._sources  # pyright: ignore[reportPrivateUsage]


def life_of_view(view: DispatchExecution) -> Life:
    """Return the call that ``view`` shows; for the registry alone."""
    return view._life  # pyright: ignore[reportPrivateUsage]


def derives_from(view: object, received: DispatchExecution) -> bool:
    """Return whether ``view`` is ``received`` or was derived from it (`WR-2`)."""
    while type(view) is DispatchExecution and view is not received:
        view = view._base  # pyright: ignore[reportPrivateUsage]
    return view is received


@final
class ToolContext(_View, BodyContext):
    """The view of its call that a body is given, with what it may do about it.

    Valid until the body has settled; afterwards every method but `progress` raises `RuntimeError`
    (`BO-17`).
    """

    __slots__ = ("_attempt", "_scope")

    def __init__(self, attempt: Attempt) -> None:
        self._life = attempt.life
        self._attempt: Final = attempt
        self._scope: Final = ScopeView(attempt.sources, attempt.life.clock)

    @property
    def scope(self) -> ScopeView:
        """What governs this body: the caller and what wrappers added; it cannot cancel (`SC-14`)."""
        return self._scope

    @property
    def tool(self) -> Tool:
        """The tool whose body this is."""
        return self._attempt.tool

    @property
    def nursery(self) -> trio.Nursery:
        """The call's own nursery: the call settles only when every task in it has ended (`BO-4`)."""
        nursery = self._live().nursery
        assert nursery is not None
        return nursery

    def _live(self) -> Attempt:
        if self._attempt.settled:
            raise RuntimeError(f"the body of tool call {self.name!r} has settled: its context is closed")
        return self._attempt

    async def call(self, name: str, arguments: object) -> ToolResult:
        """Call another tool through the whole pipeline, within this call (`NE-2`).

        Checkpoints. Results of every outcome are returned; in a cancelled body a nested call that was
        cancelled raises `trio.Cancelled` instead, after its contexts were forwarded (`NE-5`).

        Raises:
            RuntimeError: when the body has settled.
        """
        attempt = self._live()
        place: list[Context] = []
        self._life.contexts.append(place)
        result = await self._life.nest(self._life, name, arguments, place.extend)
        if result.concludes:
            attempt.concludes = True
        return result

    def defer_context(self, message: str | Mapping[str, object]) -> None:
        """Add a message to the result's contexts, frozen as it is now (`BO-16`).

        Raises:
            TypeError: when it is neither text nor a JSON object, or JSON would lose something of it.
            RuntimeError: when the body has settled.
        """
        self._live()
        self._life.contexts.append(context_of(message))

    def conclude(self) -> None:
        """Ask whoever runs the call to stop here; counts only if the call ends OK (`NE-7`)."""
        self._live().concludes = True

    def attach(self, artifact: Artifact) -> None:
        """Attach an artifact, in order; dropped unless the call ends OK (`BO-15`).

        Raises:
            TypeError: when it is no `Artifact`.
            RuntimeError: when the body has settled.
        """
        if type(artifact) is not Artifact:
            raise TypeError(f"attach takes an Artifact, not {type(artifact).__name__}")
        attempt = self._live()
        attempt.artifacts = (*attempt.artifacts, artifact)

    def wrote(self, table: str, uid: int, kind: WriteKind) -> None:
        """Name the record that a write produced; the last one counts, if the call ends OK (`BO-15`).

        Raises:
            ValueError: as `WriteTarget` does.
            RuntimeError: when the body has settled.
        """
        target = WriteTarget(table, uid, kind)
        self._live().write = target

    def check_cancelled(self) -> None:
        """Raise `trio.Cancelled` once the call is cancelled; for a ``def`` body in its thread (`BO-14`).

        Raises:
            RuntimeError: anywhere else, or when the body has settled.
        """
        if self._live().life.thread != threading.get_ident():
            raise RuntimeError("check_cancelled is for a `def` body, in the thread that runs it")
        trio.from_thread.check_cancelled()
        if self._scope.cancel_called:
            # trio tells the thread only once the task that waits for it is parked again, which it is not
            # yet when that task itself has just cancelled, at the thread's own request.
            trio.from_thread.run(trio.lowlevel.checkpoint)

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Say how far the body is; never changes a result, and is dropped after settlement (`BO-17`)."""
        if not self._attempt.settled:
            self._life.progress = Progress(done, total, message)
