"""The trace of a run: a fence before what may write, a step for every result, and the store behind both."""

import logging
import time
from collections.abc import Awaitable, Callable
from inspect import iscoroutine
from math import inf, isfinite
from typing import Final, TypeAlias, final

import trio
from attrs import define, frozen

from trio_tools import (
    CallScope,
    DispatchExecution,
    Effect,
    ExecutionToken,
    Layer,
    Progress,
    Registration,
    Settlement,
    ToolExecution,
    ToolOutcome,
    ToolResult,
    WriteTarget,
    repair_text,
)

from ._privacy import PrivacyLevel, text_writer
from ._rows import Columns, FenceRow, column_text, span_of
from ._sql import RunStoreError
from ._step import RunStep, StepKind, checks, made_of
from ._store import RunStore
from ._writing import RunWriter, Unit

__all__ = ["CallUnderWay", "FenceError", "LiveListener", "RunTrace"]

_logger: Final = logging.getLogger("trio_tools")

# Looked up once: up to Python 3.11 a member of an enum takes as long to find as a step to make.
_TOOL: Final = StepKind.TOOL
_OK: Final = ToolOutcome.OK
_NOT_DISPATCHED: Final = Settlement.NOT_DISPATCHED

LiveListener: TypeAlias = Callable[[RunStep], object]
"""What is told of each step as it is recorded."""


class FenceError(Exception):
    """A call that may write was not started, because the store could not record it first (`TR-5`).

    It reaches the caller as a failure with code ``POLICY_ERROR`` and this class's name.
    """


@final
@define(eq=False)
class _OpenCall:
    """What the trace knows of a call between its wrappers and its publication."""

    call_id: str
    execution: DispatchExecution | None = None
    deadline: float = inf
    fenced: bool = False
    fences: tuple[int, ...] = ()


@final
@frozen(kw_only=True)
class CallUnderWay:
    """A call that is recorded and has not been published yet.

    Attributes:
        call_id: the call's id.
        tool: the name that was called.
        started_at: the trio time, in seconds, at which its body was first invoked; None if it was not yet.
        progress: what its body last said about how far it is; None if it said nothing.
    """

    call_id: str
    tool: str
    started_at: float | None
    progress: Progress | None


@final
class RunTrace:
    """Records one run: what was called, how each call ended, and what may have happened otherwise.

    Args:
        run_id: the run's id; in a store it has one writer, and another one fails (`TR-10`).
        store: where rows go; without one there are no fences, and the steps live in memory alone.
        privacy: how much content the stored copies keep (`TR-12`).
        live: told of each step at once, in the task that recorded it: the same object, unfiltered. What it
            raises is logged and contained (`TR-2`).

    Raises:
        RunStoreError: the store is closed.

    Recording never changes a result and never blocks, but for the fence: before a tool that is not declared
    ``READ_ONLY`` is dispatched, a row that says so is committed (`TR-4`).
    """

    def __init__(
        self,
        run_id: str,
        *,
        store: RunStore | None = None,
        privacy: PrivacyLevel = PrivacyLevel.METADATA,
        live: LiveListener | None = None,
    ) -> None:
        self.run_id: Final = run_id
        self._round: int = 0
        self._store: Final = store
        self._writer: Final[RunWriter | None] = None if store is None else store.writer(run_id)
        self._stored_text: Final = text_writer(PrivacyLevel(privacy))
        self._live: Final = live
        self._steps: Final[list[RunStep]] = []
        self._open: Final[dict[ExecutionToken, _OpenCall]] = {}
        self._origin: float | None = None
        self._last_published: ExecutionToken | None = None

    @property
    def round(self) -> int:
        """The round of the program's loop that the next tool steps belong to, at least 0; assign it."""
        return self._round

    @round.setter
    def round(self, number: int) -> None:
        # Said here, to whoever assigns it: later there is only a call, which must not suffer for it.
        if type(number) is not int or number < 0:
            raise ValueError(f"a round is an integer of at least 0, not {number!r}")
        self._round = number

    @property
    def steps(self) -> tuple[RunStep, ...]:
        """The steps so far, unfiltered, in order of recording (`TR-2`)."""
        return tuple(self._steps)

    @property
    def under_way(self) -> tuple[CallUnderWay, ...]:
        """The calls that have come to their wrappers and are not published yet, in order, as they are now."""
        return tuple(
            CallUnderWay(
                call_id=call.call_id,
                tool=call.execution.name,
                started_at=call.execution.started_at,
                progress=call.execution.last_progress,
            )
            for call in self._open.values()
            if call.execution is not None
        )

    def attach(self, layer: Layer) -> Registration:
        """Record every call that is executed through a layer or one below it, from now on (`TR-1`).

        Returns:
            A registration that detaches; calls under way are still recorded if they were fenced.
        """
        wrapper = layer.wrap(self._fence)
        observer = layer.observe(self._observe)

        def detach() -> None:
            wrapper.close()
            observer.close()

        return Registration(detach)

    def record(self, step: RunStep) -> None:
        """Add a step of the program's own: a request, an answer of a model, dropped context. Does not block.

        It is listed, told to the listener and stored like a tool step, and keeps the round that it has.
        """
        self._tell(step)
        if self._writer is not None:
            span = (None, None, None, None, None, self._now_ms(), None)
            self._writer.put(Unit(self._writer, None, (), (self._columns(step) + span,)))

    def cancel_on_request(self, scope: CallScope) -> Registration:
        """Cancel a call scope once somebody asks for this run to be cancelled, from whatever process.

        The store is asked at once, and then at most once a second; a store that cannot be read is no cancel.
        An ask that was seen stays: a scope that is added later is cancelled at once.

        The cause of the calls that it cancels has the reason that was given, or says that it was requested
        through the store.

        Returns:
            A registration that stops watching for this scope.

        Raises:
            ValueError: the trace has no store, so nobody could ask.
        """
        if self._store is None:
            raise ValueError("a run is asked to cancel through its store, and this trace has none")

        def cancel(reason: str | None) -> None:
            scope.cancel("requested through the store" if reason is None else reason)

        watch = self._store.watch(self.run_id, cancel)
        return Registration(watch.close)

    async def _fence(
        self,
        execution: DispatchExecution,
        proceed: Callable[[DispatchExecution], Awaitable[ToolResult]],
    ) -> ToolResult:
        call = self._open.get(execution.token)
        if call is None:
            call = self._open[execution.token] = _OpenCall(execution.call_id, execution)
        call.deadline = execution.scope.deadline
        if self._writer is not None and not call.fenced and _may_write(execution):
            await self._commit_fence(self._writer, execution, call)
        return await proceed(execution)

    async def _commit_fence(self, writer: RunWriter, execution: DispatchExecution, call: _OpenCall) -> None:
        number = writer.new_fence()
        # Noted before it is committed: a call that is cancelled while it waits takes its fence with it.
        call.fences = (*call.fences, number)
        span = span_of(self._span(execution, trio.current_time(), None, call.deadline))
        row = FenceRow(second=int(time.time()), tool=column_text(execution.name), round=self.round, span=span)
        try:
            await writer.commit(Unit(writer, fence=(number, row)))
        except RunStoreError as error:
            raise FenceError(f"tool {execution.name!r} may write and was not started: {error}") from error
        call.fenced = True

    def _observe(self, execution: ToolExecution, result: ToolResult) -> None:
        token = execution.token
        if token is self._last_published:
            # Attached to two layers of one line; observers of one result run one right after the other.
            return
        self._last_published = token
        call = self._open.pop(token, None)
        started, ended = execution.started_at, execution.settled_at
        if ended is None:
            ended = trio.current_time()
        milliseconds = 0 if started is None else round(max(0.0, ended - started) * 1000, 2)
        step = self._tool_step(execution, result, milliseconds)
        self._tell(step)
        write = None if result.write is None else self._write_step(execution, result.write)
        if write is not None:
            self._tell(write)
        writer = self._writer
        if writer is None:
            return
        deadline, fences = (inf, ()) if call is None else (call.deadline, call.fences)
        span = self._span(execution, ended if started is None else started, ended, deadline)
        rows = (self._columns(step) + span,)
        if write is not None:
            rows += (self._columns(write) + span,)
        writer.put(Unit(writer, None, fences, rows))

    def _tool_step(self, execution: ToolExecution, result: ToolResult, milliseconds: float) -> RunStep:
        # All of this was checked and frozen by the registry, except that its text may be broken. It stands in
        # the order of the fields of a step.
        members: dict[str, object] = {
            "kind": _TOOL,
            "round": self._round,
            "duration_ms": milliseconds,
            "tool_name": repair_text(execution.name),
        }
        arguments, outcome, settlement = execution.arguments, result.outcome, result.settlement
        if arguments is not None:
            members["tool_arguments"] = arguments
        members["tool_result"] = repair_text(result.text)
        if result.artifacts:
            members["tool_artifacts"] = checks["tool_artifacts"](result.artifacts)
        members["tool_is_error"] = outcome is not _OK
        members["tool_outcome"] = outcome
        members["tool_settlement"] = settlement
        members["tool_dispatched"] = settlement is not _NOT_DISPATCHED
        if result.error is not None:
            members["tool_code"] = repair_text(result.error.code)
        if result.cause is not None:
            members["tool_cause"] = checks["tool_cause"](result.cause)
        return made_of(members)

    def _write_step(self, execution: ToolExecution, target: WriteTarget) -> RunStep:
        return RunStep(
            kind=StepKind.TOOL_WRITE,
            round=self._round,
            tool_name=execution.name,
            write_target_table=target.table,
            write_target_uid=target.uid,
        )

    def _tell(self, step: RunStep) -> None:
        self._steps.append(step)
        if self._live is None:
            return
        try:
            answer = self._live(step)
            if iscoroutine(answer):
                answer.close()
                raise TypeError("a live listener is a plain function, and this one is async")
        except Exception as error:
            _logger.log(logging.ERROR, "run %s: the live listener failed", self.run_id, exc_info=error)

    def _columns(self, step: RunStep) -> Columns:
        return int(time.time()), str(step.kind), self._stored_text(step)

    def _span(
        self,
        execution: ToolExecution | DispatchExecution,
        began: float,
        ended: float | None,
        deadline: float,
    ) -> Columns:
        """Return where a call stands in the run, as the columns of a `Span`."""
        token, tool = execution.parent, execution.tool
        parent = None if token is None else self._open.get(token)
        began_ms = self._ms(began)
        return (
            column_text(execution.call_id),
            None if parent is None else column_text(parent.call_id),
            column_text(execution.layer.name),
            None if tool is None else str(tool.effect),
            began_ms,
            None if ended is None else self._ms(ended),
            self._ms(deadline) if isfinite(deadline) else None,
        )

    def _now_ms(self) -> float | None:
        try:
            return self._ms(trio.current_time())
        except RuntimeError:
            # Recorded before or after the run of the event loop: a step without a place in the picture.
            return None

    def _ms(self, at: float) -> float:
        if self._origin is None:
            self._origin = at
        return (at - self._origin) * 1000


def _may_write(execution: DispatchExecution) -> bool:
    """Tell whether this dispatch will invoke a body that may write (`TR-4`, `TR-6`)."""
    tool = execution.tool
    return tool is not None and tool.effect is not Effect.READ_ONLY and execution.objection() is None
