"""Many calls at once: gates one by one, wrappers and bodies side by side, commits in call order.

The driver runs in the task that executes the batch. It starts each call in a task of its own, in order,
as soon as the call may start (`BA-3`, `BA-4`); the call tells when it is admitted, invoked and settled,
and waits for its place to commit (`BA-6`). Everybody waits shielded, for what is started is drained, and
what is not started is published too (`BA-9`, `BA-10`).

Each call lives under a child of its call scope's lifetime, so that the batch can cancel siblings as
their caller would, and nothing else has to know about it (`BA-11`).
"""

import math
from collections.abc import Iterable

import trio
from attrs import define, field

from ._call import ExecutionToken, ToolCall
from ._decisions import BatchPolicy
from ._fusion import Ambient, Sentry
from ._layer import Layer
from ._leaves import capture_sync, close_coroutine, one_of
from ._life import Life, Phase, Settings
from ._lifetime import Lifetime
from ._pipeline import admit, ambient_cancelled, live, publish_unstarted, read_arguments
from ._result import CancelCause, CauseKind, ToolOutcome, ToolResult
from ._scope import lifetime_of

__all__ = ["execute_batch"]

_PASSES_TO_DISPATCH = 2
"""Scheduler passes after which a call that is still in its wrappers is taken to wait there."""


@trio.lowlevel.enable_ki_protection
async def execute_batch(
    layer: Layer,
    calls: Iterable[ToolCall],
    settings: Settings,
    flights: dict[Life, None],
    max_parallel: int,
    on_failure: BatchPolicy,
) -> list[ToolResult]:
    """Execute ``calls`` through ``layer``; see `Layer.execute_batch`."""
    if type(max_parallel) is not int or max_parallel < 1:
        raise ValueError(f"max_parallel is an integer above zero, not {max_parallel!r}")
    batch = _Batch(layer, max_parallel, BatchPolicy(on_failure))
    batch.admit(list(calls), settings, flights)
    async with trio.open_nursery() as nursery:
        await batch.drive(nursery)
    if batch.interrupts:
        raise one_of(batch.interrupts)
    results = [entry.result for entry in batch.entries if entry.result is not None]
    # Each of them holds its batch: what was called would wait for the collector.
    batch.entries.clear()
    if ambient_cancelled() and any(map(_ended_by_ambient, results)):
        await trio.lowlevel.checkpoint()
    return results


def _ended_by_ambient(result: ToolResult) -> bool:
    cause = result.cause
    return result.outcome is ToolOutcome.CANCELLED and cause is not None and cause.kind is CauseKind.AMBIENT


@define(eq=False, repr=False)
class _Entry:
    """One call of a batch, and its turn in it."""

    batch: "_Batch"
    index: int
    life: Life
    exclusive: bool = True
    admitted_at_last: bool = False
    begun: bool = False
    settled: bool = False
    skipped: CancelCause | None = None
    done: bool = False
    result: ToolResult | None = None
    place: Sentry = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.place = Sentry(self.batch.asked_to_end)

    def admitted(self) -> None:
        self.admitted_at_last = True
        self.batch.notify()

    def note_begun(self) -> None:
        self.begun = True
        self.batch.notify()

    async def commit(self, result: ToolResult, interrupt: BaseException | None) -> None:
        if interrupt is not None:
            self.batch.interrupted(interrupt)
        self.batch.settle(self, result)
        if not self.place.released:
            await self.place.park()

    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        try:
            self.result = await live(self.life, self)
        except BaseException as interrupt:
            self.batch.interrupted(interrupt)
        self.batch.published(self)


@define(eq=False, repr=False)
class _Batch:
    layer: Layer
    max_parallel: int
    on_failure: BatchPolicy
    entries: list[_Entry] = field(factory=list[_Entry])
    interrupts: list[BaseException] = field(factory=list[BaseException])
    _in_flight: int = 0
    _committed: int = 0
    _news: Sentry | None = None
    _barrier: int = -1
    _stopped: bool = False

    def admit(self, calls: list[ToolCall], settings: Settings, flights: dict[Life, None]) -> None:
        """Attach every call to its scope, or none (`SC-12`, `BA-1`)."""
        for call in calls:
            if type(call) is not ToolCall:
                raise TypeError(f"a batch is made of ToolCalls, not of {type(call).__name__}")
        if len({call.call_id for call in calls}) != len(calls):
            raise ValueError("each call of a batch has an id of its own, but two are equal")
        surroundings: dict[ExecutionToken | None, Ambient] = {}
        try:
            for index, call in enumerate(calls):
                ambient = surroundings.setdefault(call.parent, Ambient())
                caller = lifetime_of(call.scope)
                child = Lifetime(caller.name, math.inf, caller)
                try:
                    life = admit(self.layer, call, settings, flights, child, ambient)
                except BaseException:
                    child.forget()
                    raise
                entry = _Entry(self, index, life)
                life.on_begun = entry.note_begun
                self.entries.append(entry)
            now = trio.current_time()
            for ambient in surroundings.values():
                ambient.observe(trio.current_effective_deadline(), now)
        except BaseException:
            for entry in self.entries:
                entry.life.end()
                entry.life.lifetime.forget()
            raise

    async def drive(self, nursery: trio.Nursery) -> None:
        """Start each call in order, or skip it."""
        self._advance()
        for entry in self.entries:
            await self._until_startable(entry)
            if entry.skipped is not None:
                self._advance()
                continue
            self._in_flight += 1
            if entry.exclusive:
                self._barrier = entry.index
            nursery.start_soon(entry.run, name=f"batch call {entry.life.name!r}")
            await self._until_begun(entry)
        await self._until_all_published()

    async def _until_startable(self, entry: _Entry) -> None:
        while True:
            entry.skipped = entry.life.cause_now()
            if entry.skipped is not None:
                return
            try:
                entry.exclusive = not self._is_parallel(entry)
            except BaseException as interrupt:
                # Which cancels this call too.
                self.interrupted(interrupt)
                continue
            if self._may_start(entry):
                return
            await self._next_news()

    def _is_parallel(self, entry: _Entry) -> bool:
        """Classify against the registry as it is now; anything unclear is exclusive (`BA-2`, `BA-7`)."""
        life = entry.life
        read_arguments(life)
        tool = self.layer.get(life.name)
        if life.refusal is not None or tool is None:
            return False
        if isinstance(tool.concurrency_safe, bool):
            return tool.concurrency_safe
        answer = capture_sync(tool.concurrency_safe, life.arguments).answer
        close_coroutine(answer)
        return answer is True

    def _may_start(self, entry: _Entry) -> bool:
        if entry.exclusive:
            return self._committed == entry.index
        return self._committed > self._barrier and self._in_flight < self.max_parallel

    async def _until_begun(self, entry: _Entry) -> None:
        """Wait until the next call may be put to the gates, with bodies begun in call order (`BA-5`)."""
        while not (entry.admitted_at_last or entry.settled):
            await self._next_news()
        for _ in range(_PASSES_TO_DISPATCH):
            if entry.life.phase is not Phase.WRAPPERS:
                break
            await trio.lowlevel.cancel_shielded_checkpoint()
        # A body may still have to wait for a thread; a wrapper that waits holds nobody up.
        while entry.life.phase in (Phase.DISPATCH, Phase.BODY) and not (entry.begun or entry.settled):
            await self._next_news()

    async def _until_all_published(self) -> None:
        while self._committed < len(self.entries):
            await self._next_news()

    async def _next_news(self) -> None:
        self._news = Sentry(self.asked_to_end)
        await self._news.park()
        # It holds this batch.
        self._news = None

    def notify(self) -> None:
        """Have the driver look again."""
        if self._news is not None:
            self._news.release()

    def asked_to_end(self, interrupt: BaseException | None) -> None:
        """Take note of what interrupts a task that waits; cancelled it is only by what its calls see too."""
        if interrupt is not None:
            self.interrupted(interrupt)

    def settle(self, entry: _Entry, result: ToolResult) -> None:
        """Give the call's place among the dispatches free; a failure may end its siblings (`BA-3`)."""
        if not entry.settled:
            entry.settled = True
            self._in_flight -= 1
            self._after(result)
            self.notify()

    def published(self, entry: _Entry) -> None:
        """Let the next call commit."""
        entry.done = True
        entry.life.lifetime.forget()
        if entry.result is not None:
            self._after(entry.result)
        self._advance()

    def _after(self, result: ToolResult) -> None:
        if self.on_failure is BatchPolicy.FAIL_FAST and result.outcome is ToolOutcome.FAILED:
            self._cancel_siblings()

    def interrupted(self, interrupt: BaseException) -> None:
        """Keep an interrupt for the end, and let nothing more start (`BA-13`)."""
        if all(interrupt is not known for known in self.interrupts):
            self.interrupts.append(interrupt)
        self._cancel_siblings()

    def _cancel_siblings(self) -> None:
        """Cancel, once, every call that has not settled, as its caller would (`BA-11`)."""
        if self._stopped:
            return
        self._stopped = True
        for entry in self.entries:
            if not entry.settled:
                entry.life.lifetime.cancel(CauseKind.SIBLING, "batch", None, trio.current_time())

    def _advance(self) -> None:
        """Publish skipped calls whose place has come, and let the next started one commit (`BA-6`)."""
        while self._committed < len(self.entries):
            entry = self.entries[self._committed]
            if entry.skipped is not None:
                entry.settled = entry.done = True
                entry.result, interrupts = publish_unstarted(entry.life, entry.skipped)
                entry.life.lifetime.forget()
                for interrupt in interrupts:
                    self.interrupted(interrupt)
            if not entry.done:
                entry.place.release()
                break
            self._committed += 1
        self.notify()
