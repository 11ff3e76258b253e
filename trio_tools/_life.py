"""One call in flight, as the registry knows it: what it is, where it is, and what has become of it."""

import itertools
import math
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, Final, Protocol, final

import trio
from attrs import define, field, frozen

from ._bounding import Bounds
from ._call import ExecutionToken, LayerView
from ._content import Artifact, Context, WriteTarget
from ._fusion import Ambient, FusedScope, Source, earliest
from ._json import JsonValue, NotLossless
from ._lifetime import Lifetime
from ._parked import line_of_task, line_of_thread
from ._result import CancelCause, Settlement, ToolResult
from ._schema import PlanOfArguments
from ._scope import ScopeView
from ._tool import Tool

__all__ = ["Attempt", "Life", "Phase", "Progress", "Settings", "governed", "life_of"]


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
@frozen(eq=False, repr=False)
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
@define(init=False, eq=False, repr=False)
class Life:
    """The mutable facts of one call in flight; the registry's own."""

    # What was asked for, and by whom.
    call_id: Final[str]
    root_call_id: Final[str]
    name: Final[str]
    parent: Final[ExecutionToken | None]
    token: Final[ExecutionToken]
    raw: object
    arguments: JsonValue | None
    refusal: NotLossless | None
    # The plan of the tool that was visible at entry; once the arguments are read, the plan that took them.
    taker: PlanOfArguments | None

    # What it runs in.
    layer: Final[LayerView]
    settings: Final[Settings]
    flights: Final["dict[Life, None]"]
    nest: Final[Nest]
    finalizer: Callable[..., object] | None
    on_begun: Callable[[], None] | None
    view: object

    # What may cancel it: the caller's sources, those of a delegation while it lasts, and what was found.
    lifetime: Final[Lifetime]
    ambient: Final[Ambient]
    clock: Final[trio.abc.Clock]
    sources: Final[tuple[Source, ...]]
    delegation: tuple[Source, ...]
    lexical: Ambient | None
    derived: tuple[ScopeView, ...]
    spans: Final[list[FusedScope]]
    abandoned: bool
    stale: bool
    checked_at: float
    decided_by: CancelCause | None
    decided_at: float

    # Where it is.
    phase: Phase
    since: float
    scheduled: bool
    task: trio.lowlevel.Task | None
    nursery: trio.Nursery | None
    thread: int | None
    progress: Progress | None

    # What has come of it so far.
    tool: Tool | None
    dispatched: bool
    settled: bool
    settlement: Settlement
    started_at: float | None
    settled_at: float | None
    contexts: Final[list[Context | list[Context]]]
    writes: tuple[WriteTarget, ...]
    proceeded: Final[list[ToolResult]]
    unreviewed: ToolResult | None

    def __init__(
        self,
        *,
        call_id: str,
        root_call_id: str,
        name: str,
        raw: object,
        taker: PlanOfArguments | None,
        parent: ExecutionToken | None,
        layer: LayerView,
        lifetime: Lifetime,
        finalizer: Callable[..., object] | None,
        ambient: Ambient,
        settings: Settings,
        flights: "dict[Life, None]",
        nest: Nest,
    ) -> None:
        self.call_id = call_id
        self.root_call_id = root_call_id
        self.name = name
        self.parent = parent
        self.token = ExecutionToken.__new__(ExecutionToken)
        self.token._execution = self  # pyright: ignore[reportPrivateUsage]
        self.raw = raw
        self.arguments = self.refusal = None
        self.taker = taker
        self.layer = layer
        self.settings = settings
        self.flights = flights
        self.nest = nest
        self.finalizer = finalizer
        self.on_begun = self.view = None
        self.lifetime = lifetime
        self.ambient = ambient
        self.clock = lifetime.clock
        self.sources = (lifetime, ambient)
        self.delegation = self.derived = ()
        self.lexical = self.decided_by = None
        self.spans = []
        self.abandoned = False
        self.stale = True
        self.checked_at = self.decided_at = -math.inf
        self.phase = Phase.ENTRY
        self.since = self.clock.current_time()
        self.scheduled = False
        self.task = self.nursery = self.thread = self.progress = None
        self.tool = None
        self.dispatched = self.settled = False
        self.settlement = Settlement.NOT_DISPATCHED
        self.started_at = self.settled_at = None
        self.contexts = []
        self.writes = ()
        self.proceeded = []
        self.unreviewed = None

    def end(self) -> None:
        """Let go of the call, which is published: nothing may be nested in it any more."""
        # The view lives as long as somebody holds it; with this reference both would wait for the collector,
        # and so would a call and its place in a batch.
        self.view = self.on_begun = None
        self.token._execution = None  # pyright: ignore[reportPrivateUsage]
        self.lifetime.dismiss(self)
        self.flights.pop(self, None)

    def enter(self, phase: Phase) -> None:
        """Note that a phase begins."""
        self.phase = phase
        self.since = self.clock.current_time()

    def invoked(self, tool: Tool) -> None:
        """Mark, in the step that checked and calls the body, that it is invoked (`BO-2`)."""
        self.phase = Phase.BODY
        self.since = self.checked_at
        self.tool = tool
        self.dispatched = True
        self.settled = False
        if self.started_at is None:
            self.started_at = self.since

    def begun(self) -> None:
        """Tell a batch that the function itself runs now, or never will in this dispatch (`BA-5`)."""
        if self.on_begun is not None:
            self.on_begun()

    def settle(self, settlement: Settlement) -> None:
        """Mark, in the step that asked for the cause, that the body has settled, and how."""
        self.settlement = settlement
        self.settled = True
        self.settled_at = self.checked_at

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
        cause = earliest(sources, now)
        if self.spans and (effective <= now or cause is not None):
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
        self._observe_hidden(now)

    def _observe_hidden(self, now: float) -> None:
        """Count deadlines that were read before, of scopes that are hidden behind the one that was told."""
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
            other.disregard()

    def _cancelled_within(self, span: FusedScope, now: float) -> bool:
        """Return whether the frame would be cancelled if nothing around ``span`` reached it (`WR-7`)."""
        span.trio_scope.shield = True
        effective = trio.current_effective_deadline()
        span.trio_scope.shield = False
        return effective <= now

    def cause_within(self, now: float, /) -> CancelCause | None:
        """Return why the body is being cancelled, asked in a frame that may be within it (`NE-4`)."""
        if self.delegation:
            unsure = self.cause_at(now) is None or self.ambient.noticed is not None
            if unsure and not self._cancelled_within(self.spans[-1], now):
                self._observe_within_spans(self.delegation, trio.current_effective_deadline(), now)
            elif self.cause_at(now) is not None:
                self._observe_hidden(now)
        return self.cause_at(now)

    def cause_at(self, now: float, /) -> CancelCause | None:
        """Return why the body, or before and after it the call, is being cancelled."""
        return earliest(self.delegation or self.sources, now)

    def notice(self, now: float) -> None:
        """Take note that trio, though no source, wants to cancel the task parked for the body (`SC-14`)."""
        if self.ambient.enclosing is None and self.lexical is None:
            self.ambient.observe(-math.inf, now)
            return
        known = (self.ambient,) if self.lexical is None else (self.ambient, self.lexical)
        passed = [each for each in known if each.enclosing is None and each.deadline <= now]
        for each in passed:
            each.observe_hidden(now)
        for each in () if passed else known:
            each.notice(now)

    def bind(self, tool: Tool) -> Any:
        """Return what the body of ``tool`` is called with; raises `Violations` (`BO-1`, `JS-2`)."""
        plan = tool.arguments_plan
        return plan.bind(self.arguments, taken=plan is self.taker)

    def masking_text(self) -> str | None:
        """Return what takes the place of an uncoded exception's text; None where that is shown (`JS-11`)."""
        return f'tool "{self.name}" failed' if self.settings.mask_errors else None

    def body_contexts(self) -> tuple[Context, ...]:
        """Return what bodies of this call deferred, nested contexts where they were forwarded (`NE-6`)."""
        if not self.contexts:
            return ()
        return tuple(
            itertools.chain.from_iterable(
                entry if isinstance(entry, list) else (entry,) for entry in self.contexts
            )
        )

    def cancelled_since(self, now: float, /) -> float | None:
        """Return the time at which the call was cancelled, None while it is not."""
        cause = self.cause_at(now)
        return None if cause is None else cause.at

    def describe_stuck(self, now: float, /) -> str:
        """Say since when the call has been cancelled, by what, and where it waits."""
        cause = self.cause_at(now)
        assert cause is not None
        return (
            f"tool call {self.name!r} ({self.call_id}) was cancelled {now - cause.at:.1f} s ago "
            f"({cause.kind} {cause.name!r}) and is still in phase {self.phase.value}, at {self.await_line()}"
        )

    def await_line(self) -> str | None:
        """Return where the call is parked, as ``file:line, in function``, None where that cannot be told.

        In its body, in the thread of its body, in a task that the body left to its nursery, or in a hook.
        """
        if self.thread is not None and (line := line_of_thread(self.thread)) is not None:
            return line
        tasks = () if self.nursery is None else tuple(self.nursery.child_tasks)
        return next((line_of_task(task) for task in (self.task, *tasks) if task is not None), None)


def governed(
    life: Life, sources: tuple[Source, ...], trio_scope: trio.CancelScope | None = None
) -> FusedScope:
    """Return a span in which code of ``life`` waits, cancelled directly by every one of its sources."""
    fused = FusedScope(sources, trio_scope, life.spans)
    if life.abandoned:
        fused.trio_scope.cancel()
    return fused


def life_of(token: ExecutionToken) -> Life | None:
    """Return the call that ``token`` marks while it is in flight; for the registry alone."""
    life = token._execution  # pyright: ignore[reportPrivateUsage]
    return life if isinstance(life, Life) else None


@final
@define(init=False, eq=False, repr=False)
class Attempt:
    """One invocation of a body: what it produced, and how it settled."""

    life: Final[Life]
    tool: Final[Tool]
    bound: Final[Any]
    sources: Final[tuple[Source, ...]]
    scope: trio.CancelScope | None
    nursery: trio.Nursery | None
    thread: int | None
    invoked: bool
    refused: CancelCause | None
    returned: bool
    value: object
    left_open: bool
    cancelled_itself: bool
    raised: BaseException | None
    errors: Final[list[BaseException]]
    interrupt: BaseException | None
    settled: bool
    concludes: bool
    artifacts: tuple[Artifact, ...]
    write: WriteTarget | None

    def __init__(self, life: Life, tool: Tool, bound: Any, sources: tuple[Source, ...]) -> None:
        self.life = life
        self.tool = tool
        self.bound = bound
        self.sources = sources
        self.scope = self.nursery = self.refused = self.value = None
        self.invoked = self.returned = self.left_open = self.cancelled_itself = False
        self.raised = self.interrupt = None
        self.errors = []
        self.settled = self.concludes = False
        self.artifacts = ()
        self.write = None
