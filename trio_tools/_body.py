"""The body of a tool: invoked in one step, owned until it is quiet, and classified only then.

Two nurseries stand around a body that asked for its context::

    execute's task:   own nursery, whose scope is the fused scope
                        `- keeper: ctx.nursery
                             `- the body's task, within a sentinel scope
                             `- whatever the body started there

A body can do anything to ``ctx.nursery``, even leave its scope, and wrecks nothing but the keeper's
task. A body without a context is given neither, and runs where the keeper would. Meanwhile the task
that executes the call is parked with a `Sentry`: it cannot be interrupted, and takes note when it is
asked to cancel.
"""

import math
import threading
from functools import partial
from typing import Final

import trio

from ._classification import Came, Place, Verdict, classify
from ._emptying import alone_in, empty
from ._errors import TOOL_ERROR, TransportError, is_kind, standard_failure, text_of
from ._execution import ToolContext
from ._fusion import FusedScope, Sentry, Source
from ._leaves import Leaves, failure_of_errors, leaves_of, log_uncoded, one_of
from ._life import Attempt, Life
from ._output import InvalidOutputError, make_output
from ._result import CancelCause, CauseKind, Settlement, ToolOutcome, ToolResult
from ._tool import Tool
from ._verdicts import aborted, failed, invalid_output

__all__ = ["run_body"]


async def run_body(life: Life, sources: tuple[Source, ...], tool: Tool, bound: object) -> ToolResult:
    """Invoke the body of ``tool``, wait until all it owns is quiet, and return what that means.

    Args:
        sources: what governs the delegation, in order of precedence.
        bound: the arguments as the tool's plan bound them.
    """
    attempt = Attempt(life, tool, bound, sources)
    life.delegation = sources
    executing = life.task
    sentry = Sentry(partial(_asked_to_cancel, attempt))
    try:
        async with trio.open_nursery() as own:
            attempt.scope = own.cancel_scope
            with FusedScope(sources, life.spans, own.cancel_scope):
                run = _run_alone if tool.context_parameter is None else _keep
                own.start_soon(run, attempt, sentry, name=tool.name)
                await sentry.park()
    except BaseException as raised:
        attempt.errors.append(raised)
    life.task, life.nursery = executing, None
    life.scheduled = True
    return _settle(attempt)


def _asked_to_cancel(attempt: Attempt, interrupt: BaseException | None) -> None:
    life = attempt.life
    now = life.clock.current_time()
    assert attempt.scope is not None
    if interrupt is not None:
        attempt.interrupt = interrupt
        attempt.scope.cancel()
    elif life.cause_at(now) is None:
        if not attempt.scope.cancel_called:
            life.notice(now)
        elif life.abandoned:
            # The wrapper that delegated has ended (`WR-20`); no scope around the call was cancelled.
            assert life.lexical is not None
            life.lexical.observe(-math.inf, now)
        else:
            # None of its sources did, so the body found the scope that is around it, or broke its nursery.
            attempt.cancelled_itself = True
    life.lifetime.alarm()


@trio.lowlevel.enable_ki_protection
async def _run_alone(attempt: Attempt, sentry: Sentry) -> None:
    """Run a body that has no context."""
    own = trio.lowlevel.current_task().parent_nursery
    assert own is not None
    try:
        await _invoke(attempt, None)
        # It is given no nursery, but may have found the one that it runs in.
        if len(own.child_tasks) > 1:
            await alone_in(own)
    finally:
        sentry.release()


@trio.lowlevel.enable_ki_protection
async def _keep(attempt: Attempt, sentry: Sentry) -> None:
    """Hold the call's nursery open for the body, where it can be wrecked without harm to the caller."""
    try:
        async with trio.open_nursery() as nursery:
            attempt.nursery = attempt.life.nursery = nursery
            nursery.start_soon(_run_in_nursery, attempt, nursery, name=attempt.tool.name)
    except BaseException as raised:
        attempt.errors.append(raised)
    finally:
        sentry.release()


@trio.lowlevel.enable_ki_protection
async def _run_in_nursery(attempt: Attempt, nursery: trio.Nursery) -> None:
    """Run a body in the call's nursery, which ends with it unless it returned (`BO-11`, `NE-8`)."""
    await _invoke(attempt, ToolContext(attempt))
    if not attempt.returned:
        attempt.cancelled_itself |= nursery.cancel_scope.cancel_called
        nursery.cancel_scope.cancel()


async def _invoke(attempt: Attempt, context: ToolContext | None) -> None:
    """Run the body, and clean up after one that left a scope or a nursery open (`BO-10`).

    trio is silent when a task ends with a scope left open; leaving one around it makes it an error.
    """
    attempt.life.task = task = trio.lowlevel.current_task()
    sentinel = trio.CancelScope()
    sentinel.__enter__()
    try:
        if not attempt.tool.is_async:
            await _invoke_in_thread(attempt, context)
        elif _may_invoke(attempt):
            attempt.life.begun()
            attempt.value = await _call(attempt, context)
            attempt.returned = True
    except BaseException as raised:
        attempt.raised = raised
    finally:
        # A thread opens them in the task that waits for it.
        if task.child_nurseries:
            attempt.left_open = True
            await empty(task.child_nurseries)
        attempt.life.task = None
        try:
            sentinel.__exit__(None, None, None)
        except RuntimeError:
            attempt.left_open = True


def _may_invoke(attempt: Attempt) -> bool:
    """Ask for the last time, and mark: this, and the call of the function, are one step (`BO-2`)."""
    life = attempt.life
    if life.cause_now(attempt.sources) is not None:
        return False
    attempt.invoked = True
    life.invoked(attempt.tool)
    return True


@trio.lowlevel.disable_ki_protection
async def _call(attempt: Attempt, context: ToolContext | None) -> object:
    """Run the function itself, which a Ctrl-C may interrupt anywhere; the code around it, it may not."""
    # In one line, so that an interrupt between two lines cannot come between the call and the await.
    return await attempt.tool.invoke(attempt.bound, context)  # pyright: ignore[reportGeneralTypeIssues, reportUnknownVariableType]


async def _invoke_in_thread(attempt: Attempt, context: ToolContext | None) -> None:
    """Run a ``def`` body in a thread that is waited for, whatever happens (`BO-13`)."""
    limiter = trio.to_thread.current_default_thread_limiter()
    try:
        await limiter.acquire()
    except trio.Cancelled:
        return
    try:
        if not _may_invoke(attempt):
            return
        # The token is held here, so that nothing cancellable lies between the mark and the thread.
        ours = trio.CapacityLimiter(1)
        attempt.value, stopped = await trio.to_thread.run_sync(_in_thread, attempt, context, limiter=ours)
        attempt.returned = stopped is None
        attempt.raised = stopped
    except BaseException as raised:
        attempt.raised = raised
    finally:
        limiter.release()


def _in_thread(attempt: Attempt, context: ToolContext | None) -> tuple[object, Exception | None]:
    attempt.life.thread = threading.get_ident()
    if attempt.life.on_begun is not None:
        attempt.life.lifetime.run.run_sync_soon(attempt.life.begun)
    try:
        # In a tuple, for trio refuses a function that returns a coroutine before we can say what is wrong.
        return attempt.tool.invoke(attempt.bound, context), None
    except StopIteration as error:
        # Raised through a coroutine it would become another error, with another text.
        return None, error
    finally:
        attempt.life.thread = None


def _settle(attempt: Attempt) -> ToolResult:
    """Classify a body that is quiet (`BO-4` to `BO-10`); only an interrupt is raised."""
    life = attempt.life
    attempt.settled = True
    leaves = _NOTHING if attempt.raised is None and not attempt.errors else _leaves(attempt)
    cause = life.cause_now(attempt.sources)
    if attempt.invoked:
        life.settle(_settlement(attempt, leaves.errors or leaves.interrupts))
    life.decided_by, life.decided_at = cause, life.checked_at
    life.delegation = ()
    interrupts = leaves.interrupts if attempt.interrupt is None else (attempt.interrupt, *leaves.interrupts)
    if interrupts:
        raise one_of(interrupts)
    if not attempt.invoked:
        return aborted(life, cause, life.body_contexts())
    if leaves.errors:
        return _raised(attempt, leaves.errors, cause)
    if attempt.left_open:
        return _body_error(life, "tool left a scope open")
    if attempt.returned:
        return _returned(attempt, cause)
    verdict, _path = classify(Place.BODY, Came.CANCELLED, cause is not None)
    if verdict is Verdict.CUT:
        return aborted(life, cause, life.body_contexts())
    text = "tool cancelled itself" if attempt.cancelled_itself else "stray Cancelled escaped the tool body"
    return _body_error(life, text)


_NOTHING: Final = Leaves((), ())


def _leaves(attempt: Attempt) -> Leaves:
    """Take apart what came out of the function and of the nurseries around it."""
    own = () if attempt.raised is None else (attempt.raised,)
    leaves = leaves_of(*own, *attempt.errors)
    attempt.raised = None
    attempt.errors.clear()
    if not attempt.left_open:
        return leaves
    errors = tuple(error for error in leaves.errors if not _is_about_nursery(error))
    return Leaves(errors, leaves.interrupts)


def _is_about_nursery(error: Exception) -> bool:
    """Return whether this is what trio says of a nursery left open, when the task has ended."""
    return is_kind(error, RuntimeError) and text_of(error).startswith("Nursery stack corrupted")


def _settlement(attempt: Attempt, errors: tuple[BaseException, ...]) -> Settlement:
    if errors:
        return Settlement.RAISED
    return Settlement.RETURNED if attempt.returned else Settlement.CANCELLED


def _raised(attempt: Attempt, errors: tuple[Exception, ...], cause: CancelCause | None) -> ToolResult:
    life = attempt.life
    if len(errors) == 1 and is_kind(error := errors[0], TransportError) and error.cancelled:
        transport = CancelCause(CauseKind.AMBIENT, "transport", None, life.checked_at)
        return aborted(life, cause or transport, life.body_contexts())
    log_uncoded(f"the body of tool call {life.name!r} ({life.call_id})", errors)
    failure = failure_of_errors(errors, code=TOOL_ERROR, masked=life.masking_text())
    return failed(life, failure, contexts=life.body_contexts())


def _body_error(life: Life, reason: str) -> ToolResult:
    return failed(life, standard_failure(TOOL_ERROR, reason=reason), contexts=life.body_contexts())


def _returned(attempt: Attempt, cause: CancelCause | None) -> ToolResult:
    life = attempt.life
    value, attempt.value = attempt.value, None
    try:
        value, content, meta = make_output(life, attempt.tool, value)
    except InvalidOutputError as invalid:
        return invalid_output(life, str(invalid), life.body_contexts())
    verdict, _path = classify(Place.BODY, Came.SUCCESS, cause is not None)
    if verdict is Verdict.CUT:
        return aborted(life, cause, life.body_contexts())
    if attempt.write is not None:
        life.writes = (*life.writes, attempt.write)
    return ToolResult.made(
        ToolOutcome.OK,
        content,
        life.settlement,
        value=value,
        meta=meta,
        contexts=life.body_contexts(),
        concludes=attempt.concludes,
        artifacts=attempt.artifacts,
        write=attempt.write,
    )
