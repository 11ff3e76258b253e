"""One call in flight, as the registry knows it: what it is, where it is, and what has become of it."""

import itertools
import math
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, Final, Protocol, final

import trio
from attrs import field, frozen

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

__all__ = ["Attempt", "Life", "Phase", "Progress", "Settings", "life_of"]


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
class Life:
    """The mutable facts of one call in flight; the registry's own."""

    # Written out: to have attrs read forty annotations takes as long as half of the package to import.
    __slots__ = (
        "__weakref__",
        "abandoned",
        "ambient",
        "arguments",
        "call_id",
        "checked_at",
        "clock",
        "contexts",
        "decided_at",
        "decided_by",
        "delegation",
        "derived",
        "dispatched",
        "effective",
        "finalizer",
        "flights",
        "layer",
        "lexical",
        "lifetime",
        "name",
        "nest",
        "nursery",
        "on_begun",
        "parent",
        "phase",
        "proceeded",
        "progress",
        "raw",
        "refusal",
        "root_call_id",
        "scheduled",
        "settings",
        "settled",
        "settled_at",
        "settlement",
        "since",
        "sources",
        "spans",
        "stale",
        "started_at",
        "taker",
        "task",
        "thread",
        "token",
        "tool",
        "unreviewed",
        "view",
        "writes",
    )

    def __init__(
        self,
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
        # What was asked for, and by whom.
        self.call_id: Final = call_id
        self.root_call_id: Final = root_call_id
        self.name: Final = name
        self.parent: Final = parent
        self.token: Final = ExecutionToken.__new__(ExecutionToken)
        self.token._execution = self  # pyright: ignore[reportPrivateUsage]
        self.raw: object = raw
        self.arguments: JsonValue | None = None
        self.refusal: NotLossless | None = None
        # The plan of the tool that was visible at entry; later the one that took the arguments, if any did.
        self.taker: PlanOfArguments | None = taker

        # What it runs in.
        self.layer: Final = layer
        self.settings: Final = settings
        self.flights: Final = flights
        self.nest: Final = nest
        self.finalizer: Callable[..., object] | None = finalizer
        self.on_begun: Callable[[], None] | None = None
        self.view: object = None

        # What may cancel it: the caller's sources, those of a delegation while it lasts, and what was found.
        self.lifetime: Final = lifetime
        self.ambient: Final = ambient
        self.clock: Final = lifetime.clock
        self.sources: Final[tuple[Source, ...]] = (lifetime, ambient)
        self.delegation: tuple[Source, ...] = ()
        self.lexical: Ambient | None = None
        self.derived: tuple[ScopeView, ...] = ()
        self.spans: Final[list[FusedScope]] = []
        self.abandoned: int = 0
        self.stale: bool = True
        self.checked_at: float = -math.inf
        self.effective: float = math.inf
        self.decided_by: CancelCause | None = None
        self.decided_at: float = -math.inf

        # Where it is.
        self.phase: Phase = Phase.ENTRY
        self.since: float = self.clock.current_time()
        self.scheduled: bool = False
        self.task: trio.lowlevel.Task | None = None
        self.nursery: trio.Nursery | None = None
        self.thread: int | None = None
        self.progress: Progress | None = None

        # What has come of it so far.
        self.tool: Tool | None = None
        self.dispatched: bool = False
        self.settled: bool = False
        self.settlement: Settlement = Settlement.NOT_DISPATCHED
        self.started_at: float | None = None
        self.settled_at: float | None = None
        self.contexts: Final[list[Context | list[Context]]] = []
        self.writes: tuple[WriteTarget, ...] = ()
        self.proceeded: Final[list[ToolResult]] = []
        self.unreviewed: ToolResult | None = None

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
        # A check that still holds was in this very step, and reading a clock takes its time.
        self.since = self.clock.current_time() if self.stale else self.checked_at

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
        self.effective = effective = trio.current_effective_deadline()
        if sources is None:
            sources = self.sources
        for source in sources:
            if source.horizon <= now:
                break
        else:
            if effective > now:
                # As nearly always: nothing has come, and nobody but the ambient scopes was asked.
                if not self.spans:
                    self.ambient.deadline = effective
                self.stale = False
                return None
        cause = self._cause_among(sources, effective, now)
        self.stale = cause is not None
        return cause

    def cause_if_stale(self, sources: tuple[Source, ...] | None = None) -> CancelCause | None:
        """Ask as `cause_now` does, unless nothing foreign has run since it was last asked, and answered no.

        Between two questions in one step of the scheduler, with only code of the library between them,
        nobody can have cancelled.
        """
        return self.cause_now(sources) if self.stale else None

    def _cause_among(self, sources: tuple[Source, ...], effective: float, now: float) -> CancelCause | None:
        if not self.spans:
            self.ambient.observe(effective, now)
            return earliest(sources, now)
        if effective <= now or earliest(sources, now) is not None:
            self._observe_within_spans(sources, effective, now)
        return earliest(sources, now)

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


def life_of(token: ExecutionToken) -> Life | None:
    """Return the call that ``token`` marks while it is in flight; for the registry alone."""
    life = token._execution  # pyright: ignore[reportPrivateUsage]
    return life if isinstance(life, Life) else None


@final
class Attempt:
    """One invocation of a body: what it produced, and how it settled."""

    __slots__ = (
        "artifacts",
        "bound",
        "cancelled_itself",
        "concludes",
        "errors",
        "interrupt",
        "invoked",
        "left_open",
        "life",
        "nursery",
        "raised",
        "returned",
        "scope",
        "settled",
        "sources",
        "tool",
        "value",
        "write",
    )

    def __init__(self, life: Life, tool: Tool, bound: Any, sources: tuple[Source, ...]) -> None:
        self.life: Final = life
        self.tool: Final = tool
        self.bound: Final = bound
        self.sources: Final = sources
        self.scope: trio.CancelScope | None = None
        self.nursery: trio.Nursery | None = None
        self.invoked: bool = False
        self.returned: bool = False
        self.value: object = None
        self.left_open: bool = False
        self.cancelled_itself: bool = False
        self.raised: BaseException | None = None
        self.errors: Final[list[BaseException]] = []
        self.interrupt: BaseException | None = None
        self.settled: bool = False
        self.concludes: bool = False
        self.artifacts: tuple[Artifact, ...] = ()
        self.write: WriteTarget | None = None
