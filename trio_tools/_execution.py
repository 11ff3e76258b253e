"""One call as it is seen: by its caller, by hooks, by wrappers, by its body, and by the registry.

`Life` holds the mutable facts of a call in flight and belongs to the registry. Everybody else sees it
through a view: `ToolExecution` for gates, guards, reviewers and observers, `DispatchExecution` for
wrappers, who alone may add to the cancellation, and `ToolContext` for the body.
"""

import itertools
import math
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, Final, Protocol, final

import trio
from attrs import field, frozen

from ._bounding import Bounds
from ._content import Artifact, Context, WriteKind, WriteTarget, context_of
from ._errors import ABORTED, ABORTED_BEFORE_DISPATCH, INVALID_ARGS, UNKNOWN_TOOL
from ._fusion import Ambient, DeadlineSource, FusedScope, Source, earliest
from ._json import JsonValue, NotLossless
from ._result import CancelCause, Settlement, ToolResult
from ._schema import Violations
from ._scope import CallScope, Lifetime, ScopeView, lifetime_of
from ._tool import BodyContext, Tool

__all__ = [
    "Attempt",
    "DispatchExecution",
    "ExecutionToken",
    "LayerView",
    "Life",
    "Phase",
    "Progress",
    "Settings",
    "ToolCall",
    "ToolContext",
    "ToolExecution",
    "fresh_call_id",
    "governed",
    "life_of",
    "life_of_view",
    "sources_of",
]

_ids: Final = itertools.count(1)
_process: Final = f"{os.getpid():x}-{os.urandom(4).hex()}"


def fresh_call_id() -> str:
    """Return a call id that no other call of any run has; cheaper than a UUID, and as unique."""
    return f"{_process}-{next(_ids):x}"


@final
class ExecutionToken:
    """An opaque mark of one execution, minted by the registry and compared by identity (`NE-1`)."""

    __slots__ = ("__weakref__", "_life")
    _life: "Life | None"

    def __init__(self) -> None:
        raise TypeError("a token is minted by the registry, one for each execution")

    def __repr__(self) -> str:
        return f"<ExecutionToken {id(self):#x}>"


def _is_call_scope(_call: object, _attribute: object, value: object) -> None:
    if not isinstance(value, CallScope):
        raise TypeError(
            f"a ToolCall needs a CallScope, not {type(value).__name__}: "
            "`async with open_call_scope() as scope:` opens one"
        )


@final
@frozen(kw_only=True, repr=False)
class ToolCall:
    """What to call, with what, and for how long it may live.

    Attributes:
        name: the tool's name.
        arguments: must be lossless JSON; `Layer.execute` checks that, the constructor does not.
        scope: the caller's scope. Required: a call without a lifetime cannot be written (`SC-1`).
        call_id: unique by default.
        parent: the token of the enclosing execution, for a nested call.
        root_call_id: the id of the outermost call; a root call's is its own by default (`NE-3`).

    Raises:
        TypeError: when ``scope`` is missing or anything but a `CallScope`.
    """

    name: str
    arguments: object
    scope: CallScope = field(validator=_is_call_scope)
    call_id: str = field(factory=fresh_call_id)
    parent: ExecutionToken | None = None
    root_call_id: str | None = None

    def __repr__(self) -> str:
        return f"<ToolCall {self.name!r}, call_id={self.call_id!r}>"


class LayerView(Protocol):
    """What a hook or a body may ask of the layer that a call is executed through."""

    @property
    def name(self) -> str:
        """The layer's label."""
        ...

    def get(self, name: str) -> Tool | None:
        """Return the visible tool of that name, or None."""
        ...

    def schemas(self) -> list[Mapping[str, JsonValue]]:
        """Return what a model may see of the visible tools."""
        ...

    async def execute(self, call: ToolCall) -> ToolResult:
        """Execute a call through the layer."""
        ...


class Phase(Enum):
    """Where in its life a call is."""

    ENTRY = "entry"
    GATES = "gates"
    APPROVAL = "approval"
    GUARDS = "guards"
    WRAPPERS = "wrappers"
    DISPATCH = "dispatch"
    BODY = "body"
    REVIEW = "review"
    FINAL = "final"
    PUBLISHED = "published"


@final
@frozen
class Settings:
    """What a registry was made with."""

    approver: Callable[..., object] | None
    mask_errors: bool
    bounds: Bounds


@final
@frozen
class Progress:
    """What a body last said about how far it is."""

    done: float
    total: float | None
    message: str | None = field(repr=False)


class Nest(Protocol):
    """Executes a call nested in ``life``, handing its contexts on before it returns or raises."""

    async def __call__(
        self, life: "Life", name: str, arguments: object, forward: Callable[[Iterable[Context]], None], /
    ) -> ToolResult: ...


@final
class Life:
    """The mutable facts of one call in flight; the registry's own.

    What stands on the class is what a call begins with, so that it pays only for what happens to it.
    """

    arguments: JsonValue | None = None
    refusal: NotLossless | None = None
    tool: Tool | None = None
    phase: Phase = Phase.ENTRY
    task: trio.lowlevel.Task | None = None
    dispatched: bool = False
    settled: bool = False
    settlement: Settlement = Settlement.NOT_DISPATCHED
    delegation: tuple[Source, ...] = ()
    lexical: Ambient | None = None
    derived: "tuple[DispatchExecution, ...]" = ()
    writes: tuple[WriteTarget, ...] = ()
    unreviewed: ToolResult | None = None
    abandoned: bool = False
    scheduled: bool = False
    stale: bool = True
    started_at: float | None = None
    settled_at: float | None = None
    checked_at: float = -math.inf
    decided_by: CancelCause | None = None
    decided_at: float = -math.inf
    progress: Progress | None = None
    on_begun: Callable[[], None] | None = None
    _view: "ToolExecution | None" = None

    def __init__(
        self,
        *,
        call_id: str,
        root_call_id: str,
        name: str,
        raw: object,
        parent: ExecutionToken | None,
        layer: LayerView,
        lifetime: Lifetime,
        finalizer: Callable[..., object] | None,
        ambient: Ambient,
        settings: Settings,
        flights: "dict[Life, None]",
        nest: Nest,
    ) -> None:
        self.call_id: Final = call_id
        self.root_call_id: Final = root_call_id
        self.name: Final = name
        self.raw = raw
        self.parent: Final = parent
        self.layer: Final = layer
        self.lifetime: Final = lifetime
        self.finalizer = finalizer
        self.ambient: Final = ambient
        self.sources: Final[tuple[Source, ...]] = (lifetime, ambient)
        self.clock: Final = lifetime.clock
        self.settings: Final = settings
        self.flights: Final = flights
        self.nest: Final = nest
        self.token: Final = ExecutionToken.__new__(ExecutionToken)
        self.token._life = self  # pyright: ignore[reportPrivateUsage]
        self.spans: Final[list[FusedScope]] = []
        self.contexts: Final[list[Context | list[Context]]] = []
        self.proceeded: Final[list[ToolResult]] = []
        self.since: float = self.clock.current_time()

    @property
    def view(self) -> "ToolExecution":
        """The one view that gates, guards, reviewers, finalizer and observers are given."""
        if self._view is None:
            self._view = ToolExecution(self)
        return self._view

    def end(self) -> None:
        """Let go of the call, which is published: nothing may be nested in it any more."""
        self.token._life = None  # pyright: ignore[reportPrivateUsage]
        self.lifetime.dismiss(self)
        self.flights.pop(self, None)

    def enter(self, phase: Phase) -> None:
        """Note that a phase begins."""
        self.phase = phase
        self.since = self.clock.current_time()

    def invoked(self, tool: Tool) -> None:
        """Mark, in the step that calls the body, that it is invoked (`BO-2`)."""
        self.enter(Phase.BODY)
        self.tool = tool
        self.dispatched = True
        self.settled = False
        if self.started_at is None:
            self.started_at = self.since

    def begun(self) -> None:
        """Tell a batch that the function itself runs now (`BA-5`)."""
        if self.on_begun is not None:
            self.on_begun()

    def settle(self, settlement: Settlement) -> None:
        """Mark that the body has settled, and how."""
        self.settlement = settlement
        self.settled = True
        self.settled_at = self.clock.current_time()

    def cause_now(self, sources: tuple[Source, ...] | None = None) -> CancelCause | None:
        """Ask, synchronously and in a frame of the call, whether it is cancelled, and by what (`CA-1`).

        Args:
            sources: those of a delegation, which wrappers may have added to; by default the caller's.
        """
        self.checked_at = now = self.clock.current_time()
        effective = trio.current_effective_deadline()
        sources = self.sources if sources is None else sources
        if not self.spans:
            self.ambient.observe(effective, now)
        elif effective <= now or earliest(sources, now) is not None:
            self._observe_within_spans(sources, effective, now)
        cause = earliest(sources, now)
        self.stale = cause is not None
        return cause

    def cause_if_stale(self, sources: tuple[Source, ...] | None = None) -> CancelCause | None:
        """Ask as `cause_now` does, unless nothing foreign has run since it was last asked, and answered no.

        Between two questions in one step of the scheduler, with only code of the library between them,
        nobody can have cancelled.
        """
        return self.cause_now(sources) if self.stale else None

    def _observe_within_spans(self, sources: tuple[Source, ...], effective: float, now: float) -> None:
        """Tell apart the ambient scopes, ours, and those of wrappers, all of which the frame reads."""
        ours = tuple(source for source in sources if not isinstance(source, Ambient))
        if effective <= now and earliest(ours, now) is None:
            self._observe_not_ours(now)
        # Whatever else is hidden behind the scope that was told: a deadline read before still counts.
        self.ambient.observe_hidden(now)
        if self.lexical is not None:
            self.lexical.observe_hidden(now)

    def _observe_not_ours(self, now: float) -> None:
        """Note which scope cancels the frame, which none of our sources does: a wrapper's, or an outer."""
        told, other = self.ambient, self.lexical
        # A notice before the deadline of a wrapper's scope was not that scope's, though it is cancelled now.
        noticed_before = (
            other is not None and other.noticed is not None and other.noticed < other.deadline < now
        )
        if self._cancelled_within(self.spans[0], now) and not noticed_before:
            told, other = other, told
        if told is not None:
            told.observe(-math.inf, now)
        if other is not None:
            other.noticed = None

    def _cancelled_within(self, span: FusedScope, now: float) -> bool:
        """Return whether the frame would be cancelled if nothing around ``span`` reached it (`WR-7`)."""
        span.trio_scope.shield = True
        effective = trio.current_effective_deadline()
        span.trio_scope.shield = False
        return effective <= now

    def cause_within(self, now: float, /) -> CancelCause | None:
        """Return why the body is being cancelled, asked in a frame that may be within it (`NE-4`)."""
        cause = self.cause_at(now)
        unsure = cause is None or self.ambient.noticed is not None
        if unsure and self.delegation and not self._cancelled_within(self.spans[-1], now):
            self._observe_within_spans(self.delegation, trio.current_effective_deadline(), now)
            return self.cause_at(now)
        return cause

    def cause_at(self, now: float, /) -> CancelCause | None:
        """Return why the body, or before and after it the call, is being cancelled."""
        return earliest(self.delegation or self.sources, now)

    def notice(self) -> None:
        """Take note that trio wants to cancel the task that is parked for the body (`SC-14`)."""
        now = self.clock.current_time()
        if earliest(self.delegation, now) is not None:
            return
        if self.ambient.enclosing is None and self.lexical is None:
            self.ambient.observe(-math.inf, now)
            return
        known = (self.ambient,) if self.lexical is None else (self.ambient, self.lexical)
        passed = [each for each in known if each.enclosing is None and each.deadline <= now]
        for each in passed:
            each.observe_hidden(now)
        for each in () if passed else known:
            each.notice(now)

    def body_contexts(self) -> tuple[Context, ...]:
        """Return what bodies of this call deferred, nested contexts where they were forwarded (`NE-6`)."""
        if not self.contexts:
            return ()
        return tuple(
            itertools.chain.from_iterable(
                entry if isinstance(entry, list) else (entry,) for entry in self.contexts
            )
        )

    def stuck_at(self, now: float, /) -> str | None:
        """Describe since when the call has been cancelled and where it waits, None while it is not."""
        cause = self.cause_at(now)
        if cause is None:
            return None
        return (
            f"tool call {self.name!r} ({self.call_id}) was cancelled {now - cause.at:.1f} s ago "
            f"({cause.kind} {cause.name!r}) and is still in phase {self.phase.value}, at {self.await_line()}"
        )

    def await_line(self) -> str | None:
        """Return where the call's task is parked, ``file:line, in function``, None where unknown."""
        if self.task is None:
            return None
        frames = list(self.task.iter_await_frames())
        ours = [frame for frame in frames if "/trio/" not in frame[0].f_code.co_filename] or frames
        if not ours:
            return None
        frame, line = ours[-1]
        return f"{frame.f_code.co_filename}:{line}, in {frame.f_code.co_qualname}"


@final
class governed:  # noqa: N801  (reads as the statement it is: `with governed(life, sources):`)
    """A span in which code of a call waits, cancelled directly by every one of its sources."""

    __slots__ = ("_fused", "_life")

    def __init__(
        self, life: Life, sources: tuple[Source, ...], trio_scope: trio.CancelScope | None = None
    ) -> None:
        self._life: Final = life
        self._fused: Final = FusedScope(sources, trio_scope)

    def __enter__(self) -> FusedScope:
        self._life.spans.append(self._fused)
        self._fused.__enter__()
        if self._life.abandoned:
            self._fused.trio_scope.cancel()
        return self._fused

    def __exit__(self, *error: object) -> None:
        self._life.spans.remove(self._fused)
        self._fused.__exit__(None, None, None)


def life_of(token: ExecutionToken) -> Life | None:
    """Return the call that ``token`` marks while it is in flight; for the registry alone."""
    return token._life  # pyright: ignore[reportPrivateUsage]


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


@final
class DispatchExecution(_View):
    """The view of a call that wrappers are given, and nobody else: it may add to the cancellation.

    Each ``with_*`` method returns a new view with one more source and changes no old one. The source
    governs inner wrappers and the body from ``proceed(view)`` until that returns (`WR-4`). No method
    removes a source.
    """

    __slots__ = ("_base", "_scope", "_sources")

    def __init__(
        self, life: Life, sources: tuple[Source, ...], base: "DispatchExecution | None" = None
    ) -> None:
        self._life = life
        self._base: Final = base
        self._sources: Final = sources
        self._scope: Final = ScopeView(sources, life.clock)

    @property
    def scope(self) -> ScopeView:
        """What governs the delegation: the caller and every source added so far."""
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
        if life.cause_now(self._sources) is not None:
            return ABORTED if life.dispatched else ABORTED_BEFORE_DISPATCH
        tool = self.tool
        if tool is None:
            return UNKNOWN_TOOL
        try:
            tool.arguments_plan.bind(life.arguments)
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
        if not isinstance(scope, CallScope):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"with_scope takes an open CallScope, not {type(scope).__name__}")
        lifetime = lifetime_of(scope)
        lifetime.check_run()
        if lifetime.closing:
            raise ValueError(f"call scope {scope.name!r} is not open any more")
        return self._with(lifetime)

    def reopen(self) -> None:
        """Forget how an earlier delegation of this view ended; for the registry alone."""
        self._scope.reopen()

    def settle(self, cause: CancelCause | None) -> None:
        """Keep what came first in a delegation that has ended (`WR-10`); for the registry alone."""
        self._scope.settle(cause)

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
    while isinstance(view, DispatchExecution) and view is not received:
        view = view._base  # pyright: ignore[reportPrivateUsage]
    return view is received


@final
class Attempt:
    """One invocation of a body: what it produced, and how it settled."""

    scope: trio.CancelScope | None = None
    nursery: trio.Nursery | None = None
    thread: int | None = None
    invoked: bool = False
    returned: bool = False
    value: object = None
    left_open: bool = False
    raised: BaseException | None = None
    interrupt: BaseException | None = None
    cancelled_itself: bool = False
    refused: CancelCause | None = None
    settled: bool = False
    concludes: bool = False
    artifacts: tuple[Artifact, ...] = ()
    write: WriteTarget | None = None

    def __init__(self, life: Life, tool: Tool, bound: Any, sources: tuple[Source, ...]) -> None:
        self.life: Final = life
        self.tool: Final = tool
        self.bound: Final = bound
        self.sources: Final = sources
        self.errors: Final[list[BaseException]] = []


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
        if not isinstance(artifact, Artifact):  # pyright: ignore[reportUnnecessaryIsInstance]
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
        if self._live().thread != threading.get_ident():
            raise RuntimeError("check_cancelled is for a `def` body, in the thread that runs it")
        trio.from_thread.check_cancelled()

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Say how far the body is; never changes a result, and is dropped after settlement (`BO-17`)."""
        if not self._attempt.settled:
            self._life.progress = Progress(done, total, message)
