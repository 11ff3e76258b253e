"""Wrappers around dispatch: what each delegates, under which sources, and what may come back."""

from collections.abc import Awaitable
from typing import Final, final

import trio

from ._body import run_body
from ._classification import Came, Path, Place, Verdict, classify
from ._content import Context, context_of
from ._errors import INVALID_ARGS, PolicyError, standard_failure
from ._execution import DispatchExecution, derives_from, sources_of
from ._fusion import Ambient, FusedScope, Source, earliest
from ._json import NotLossless, freeze_value
from ._layer import Wrapper, hooks_of
from ._leaves import Captured, await_foreign, captured_of, close_coroutine, leaves_of
from ._life import Life, Phase
from ._output import InvalidOutputError, make_output
from ._result import CancelCause, ToolOutcome, ToolResult
from ._schema import Violations
from ._timeout import declared, enforce_timeouts, out_of_time, within
from ._verdicts import LOSSY, Decided, aborted, failed, invalid_output, policy_error, stray, unknown_tool

__all__ = ["run_wrappers"]


_LEFT_RUNNING: Final = "a wrapper ended while a delegation it had started was still running"


async def run_wrappers(life: Life) -> Decided:
    """Run the wrappers around dispatch and decide what came out of them (`CA-14` to `CA-17`)."""
    chain = hooks_of(life).wrappers
    try:
        result = await _delegate(life, chain, 0, DispatchExecution(life, life.sources))
    except BaseException as raised:
        return _escaped(life, captured_of(raised))
    came = Came.SUCCESS if result.outcome is ToolOutcome.OK else Came.FAILURE
    # A failure stays as it is, whoever is cancelled (`CA-3`).
    cause = life.cause_if_stale() if came is Came.SUCCESS else None
    verdict, path = classify(Place.WRAPPERS, came, cause is not None)
    if verdict is Verdict.CUT:
        return aborted(life, cause, result.contexts), path
    return result, Path.F if result is life.unreviewed else path


def _escaped(life: Life, captured: Captured[ToolResult]) -> Decided:
    """Decide what is left of a call whose wrappers let an exception out."""
    cause = life.cause_if_stale()
    verdict, path = classify(Place.WRAPPERS, captured.came, cause is not None)
    match verdict:
        case Verdict.KEPT:
            return _cut_short(life, cause), path
        case Verdict.ERROR:
            return policy_error(life, *captured.errors), path
        case _:
            return stray(life, "a wrapper"), path


def _delegate(
    life: Life, chain: tuple[Wrapper, ...], index: int, view: DispatchExecution
) -> Awaitable[ToolResult]:
    """Return what runs the wrapper at ``index``, or dispatches where there is none left."""
    if index == len(chain):
        return _dispatch(life, sources_of(view))
    # The library's own wrapper never waits for anything but what it delegates to.
    if chain[index] is enforce_timeouts:
        return _within_budget(life, chain, index + 1, view)
    return _wrap(life, chain, index, view)


async def _within_budget(
    life: Life, chain: tuple[Wrapper, ...], index: int, received: DispatchExecution
) -> ToolResult:
    """Do as `enforce_timeouts` does, but for the checks of a ``proceed`` that somebody could misuse."""
    seconds = declared(received)
    if seconds is None:
        return await _delegate(life, chain, index, received)
    view = within(received, seconds)
    result = await _proceed(life, chain, index, view, received)
    return out_of_time(received, view, seconds) or result


async def _proceed(
    life: Life, chain: tuple[Wrapper, ...], index: int, view: DispatchExecution, received: DispatchExecution
) -> ToolResult:
    """Delegate ``view``, under the sources that were added since it was ``received`` (`WR-4`, `WR-9`)."""
    scope = None if view is received else view.scope
    if scope is not None:
        life.derived = (*life.derived, scope)
        scope.reopen()
    try:
        return await _delegate(life, chain, index, view)
    except BaseException as raised:
        return _ended_by_own_source(life, view, received, raised)
    finally:
        if scope is not None:
            if index < len(chain):
                life.cause_now(sources_of(view))
            scope.settle(_first_of(life, view))


async def _wrap(life: Life, chain: tuple[Wrapper, ...], index: int, view: DispatchExecution) -> ToolResult:
    """Run the wrapper at ``index`` within a span of its own, and check what it returns."""
    life.enter(Phase.WRAPPERS)
    # Never one span for two wrappers: the outer one may shield the inner one, or run it in another task.
    with FusedScope(sources_of(view), life.spans) as span:
        if life.abandoned:
            span.trio_scope.cancel()
        proceed = _Proceed(life, chain, index + 1, view)
        try:
            answer = await await_foreign(chain[index], view, proceed)
        except BaseException as raised:
            if proceed.close():
                await proceed.drain()
                if not leaves_of(raised).interrupts:
                    raise PolicyError(_LEFT_RUNNING) from raised
            raise
        finally:
            life.stale = True
        if proceed.close():
            await proceed.drain()
            raise PolicyError(_LEFT_RUNNING)
    return _checked(life, view, answer)


@final
class _Proceed:
    """What a wrapper awaits to delegate: valid while the wrapper runs, one delegation at a time."""

    __slots__ = ("_chain", "_closed", "_depth", "_ended", "_index", "_life", "_received", "_running")

    def __init__(
        self, life: Life, chain: tuple[Wrapper, ...], index: int, received: DispatchExecution
    ) -> None:
        self._life: Final = life
        self._chain: Final = chain
        self._index: Final = index
        self._received: Final = received
        self._depth: Final = len(life.spans)
        self._closed = False
        self._running = False
        self._ended: trio.Event | None = None

    @trio.lowlevel.enable_ki_protection
    async def __call__(self, view: DispatchExecution | None = None, /) -> ToolResult:
        if self._closed:
            raise RuntimeError("proceed was awaited after its wrapper had ended")
        if view is None or not derives_from(view, self._received):
            raise TypeError("proceed takes the execution its wrapper received, or one derived from it")
        if self._running:
            raise RuntimeError("a wrapper delegates once at a time: await the last proceed first")
        life = self._life
        # Who asks may have cancelled in the line before.
        life.stale = True
        try:
            self._running = True
            result = await _proceed(life, self._chain, self._index, view, self._received)
        finally:
            self._running = False
            if self._ended is not None:
                self._ended.set()
        life.proceeded.append(result)
        return result

    def close(self) -> bool:
        """Let nobody delegate any more, and say whether the wrapper left a delegation running (`WR-20`)."""
        self._closed = True
        return self._running

    async def drain(self) -> None:
        """End the delegation that is running in another task."""
        # A number, for a wrapper further in may do the same; whoever is around may delegate again (`WR-11`).
        self._life.abandoned += 1
        self._ended = trio.Event()
        for span in self._life.spans[self._depth :]:
            span.trio_scope.cancel()
        with trio.CancelScope(shield=True):
            await self._ended.wait()
        self._life.abandoned -= 1


def _ended_by_own_source(
    life: Life, view: DispatchExecution, received: DispatchExecution, raised: BaseException
) -> ToolResult:
    """Return a result if a source that a delegation added ended it, else raise on (`WR-9`)."""
    leaves = leaves_of(raised)
    if leaves.errors or leaves.interrupts:
        raise raised
    sources = sources_of(view)
    life.cause_now(sources)
    now = life.checked_at
    cause = earliest(sources, now)
    outer = earliest(sources_of(received), now)
    if cause is None or (outer is not None and outer.at <= cause.at):
        raise raised
    return _cut_short(life, _or_what_decided(life, cause))


def _first_of(life: Life, view: DispatchExecution) -> CancelCause | None:
    """Return what came first in a delegation that has ended (`WR-6`, `WR-10`).

    A source that was added further in may have decided what was dispatched before any of the view's
    sources came; those that came while that settled change nothing any more (`TI-18`).
    """
    if not life.stale:
        return None
    return _or_what_decided(life, earliest(sources_of(view), life.checked_at))


def _or_what_decided(life: Life, cause: CancelCause | None) -> CancelCause | None:
    inner = life.decided_by
    if cause is not None and inner is not None and inner.at < cause.at <= life.decided_at:
        return inner
    return cause


def _cut_short(life: Life, cause: CancelCause | None) -> ToolResult:
    """Return what a cancellation makes of wrappers that it ended: the latest failure stays (`WR-18`)."""
    if not life.proceeded:
        return aborted(life, cause, life.body_contexts())
    latest = life.proceeded[-1]
    if latest.outcome is ToolOutcome.FAILED:
        return latest
    if latest.outcome is ToolOutcome.CANCELLED:
        cause = _or_what_decided(life, cause)
    return aborted(life, cause, latest.contexts)


async def _dispatch(life: Life, sources: tuple[Source, ...]) -> ToolResult:
    """Ask whether the body may be invoked, and invoke it (`BO-1`); the first objection decides."""
    life.enter(Phase.DISPATCH)
    if life.spans:
        life.lexical = Ambient("wrapper")
        sources = (*sources, life.lexical)
    cause = life.cause_if_stale(sources)
    if life.lexical is not None:
        _read_wrapper_scopes(life, sources, life.lexical)
    life.decided_by, life.decided_at = cause, life.checked_at
    tool = life.layer.get(life.name)
    if cause is not None or life.abandoned:
        result = aborted(life, cause, life.body_contexts())
    elif tool is None:
        result = unknown_tool(life, life.body_contexts())
    else:
        try:
            bound = life.bind(tool)
        except Violations as violations:
            masked = life.masking_text()
            items = violations.items if masked is None else violations.masked(masked)
            failure = standard_failure(INVALID_ARGS, violations="; ".join(items))
            result = failed(life, failure, contexts=life.body_contexts())
        else:
            result = await run_body(life, sources, tool, bound)
    life.begun()
    life.enter(Phase.WRAPPERS)
    return result


def _read_wrapper_scopes(life: Life, sources: tuple[Source, ...], lexical: Ambient) -> None:
    """Note the deadline that trio scopes have which wrappers opened, if the frame tells one (`WR-7`)."""
    now, effective = life.checked_at, life.effective
    ours = min([source.deadline_at(now) for source in sources])
    if now < effective < min(ours, life.ambient.deadline):
        lexical.observe(effective, now)


def _checked(life: Life, received: DispatchExecution, answer: object) -> ToolResult:
    """Return what a wrapper returned, checked unless it is untouched from a delegation (`WR-14`)."""
    for result in life.proceeded:
        if answer is result:
            return result
    if type(answer) is not ToolResult:
        close_coroutine(answer)
        raise PolicyError(f"a wrapper returns a ToolResult, not {type(answer).__name__}")
    contexts = _frozen_contexts(answer)
    if answer.outcome is ToolOutcome.OK:
        return _made_success(life, answer, contexts)
    cause = answer.cause if answer.cause in _causes(life) else None
    if answer.outcome is ToolOutcome.CANCELLED:
        cause = cause or life.cause_now(sources_of(received))
        if cause is None:
            raise PolicyError("a wrapper made a cancelled result while nothing was cancelled")
    try:
        meta = freeze_value(answer.meta, depth=life.settings.bounds.json_depth)
    except NotLossless:
        raise PolicyError(LOSSY) from None
    return ToolResult(
        outcome=answer.outcome,
        content=answer.content,
        error=answer.error,
        meta=meta,
        contexts=contexts,
        settlement=life.settlement,
        cause=cause,
    )


def _made_success(life: Life, answer: ToolResult, contexts: tuple[Context, ...]) -> ToolResult:
    tool = life.layer.get(life.name)
    if tool is None:
        life.unreviewed = unknown_tool(life, contexts)
        return life.unreviewed
    try:
        value, content, meta = make_output(life, tool, answer.value)
    except InvalidOutputError as invalid:
        return invalid_output(life, str(invalid), contexts)
    return ToolResult(
        outcome=ToolOutcome.OK,
        content=content,
        value=value,
        meta=meta,
        contexts=contexts,
        concludes=answer.concludes is True,
        artifacts=answer.artifacts,
        write=answer.write if answer.write in life.writes else None,
        settlement=life.settlement,
    )


def _frozen_contexts(answer: ToolResult) -> tuple[Context, ...]:
    try:
        return tuple(map(context_of, answer.contexts))
    except TypeError:
        raise PolicyError(LOSSY) from None


def _causes(life: Life) -> list[CancelCause]:
    """Return what has cancelled this call, or a delegation of it while it lasted (`WR-4`, `CA-6`)."""
    now = trio.current_time()
    lexical = () if life.lexical is None else (life.lexical,)
    causes = [source.cause_at(now) for source in (*life.sources, *lexical)]
    causes += [scope.cause for scope in life.derived]
    return [cause for cause in causes if cause is not None]
