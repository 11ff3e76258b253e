"""The life of one call, from entry to publication.

Theory of operation
-------------------
Everything that can happen to a call happens in `live`, top to bottom. A phase either decides, and then
says which path is left (review and the final path, or the final path alone), or lets the call go on.
What a cancellation makes of a phase's answer stands in one table, in ``_classification``; a phase asks
that table and decides nothing by itself.

=============  ========================================  ===========================================
phase          waits                                     may decide
=============  ========================================  ===========================================
materialize    never                                     NOT_JSON
check          never                                     BEFORE
gates          under the caller's cancellation           DENIED, BEFORE, POLICY_ERROR
guards, check  never                                     DENIED, BEFORE, POLICY_ERROR
wrappers       under the caller's and what they add      anything a wrapper returns
body, quiet    in its own nursery, under the same        OK, ABORTED, TOOL_ERROR, ...
review         shielded                                  BLOCKED, or what it replaced
check          never                                     ABORTED, for a success
finalize       never                                     POLICY_ERROR, or other content
bound          never                                     how much is published
publish        never                                     nothing any more
=============  ========================================  ===========================================

Cancellation is asked for synchronously, at the places named *check* and inside the phases, and never
read off a flag that trio sets when it gets round to it (`CA-1`, `CA-2`). Between the last check and the
publication there is no checkpoint, so nothing can happen in between (`PU-1`).

An interrupt, that is anything that is neither an `Exception` nor `trio.Cancelled`, may come out of every
phase. The call then ends as cancelled, is published like any other, and the interrupt goes on (`PU-9`).
"""

from collections.abc import Callable, Iterable
from typing import Final, Protocol

import trio
from attrs import evolve

from ._call import ToolCall
from ._classification import Came, Path, Place, Verdict, classify
from ._content import Context, content_of
from ._delegation import run_wrappers
from ._errors import NOT_JSON, PolicyError, ToolFailure, standard_failure, text_of
from ._execution import view_of
from ._fusion import Ambient
from ._json import NotLossless, TooDeep, freeze_arguments
from ._layer import Layer, hooks_of, layer_of
from ._leaves import capture_sync, close_coroutine, leaves_of, log_error, one_of
from ._life import Life, Phase, Settings, life_of
from ._lifetime import Lifetime
from ._policy import ask_gates, ask_guards, review
from ._result import CancelCause, ToolOutcome, ToolResult
from ._schema import GAVE_UP
from ._scope import handle_on, lifetime_of
from ._verdicts import Decided, aborted, failed, policy_error, stray

__all__ = ["Turn", "admit", "execute", "live", "publish_unstarted", "read_arguments"]


_READ: Final = object()
"""Takes the place of the raw arguments once they were read."""


class Turn(Protocol):
    """What a batch has a call wait for, and is told by it; a call of its own has no turn."""

    def admitted(self) -> None:
        """Take note that gates and guards are done with the call."""
        ...

    async def commit(self, result: ToolResult, interrupt: BaseException | None) -> None:
        """Take note that the call is settled, then wait, shielded, until its place has come (`BA-6`)."""
        ...


async def live(life: Life, turn: Turn | None = None) -> ToolResult:
    """Lead a call through its whole life and return the one result that was published for it.

    An interrupt is raised after the publication; nothing else is.
    """
    life.task = trio.lowlevel.current_task()
    try:
        result, path = (
            materialize(life)
            or check_at_entry(life)
            or await ask_gates(life)
            or ask_guards(life)
            or announce(turn)
            or await run_wrappers(life)  # in their midst: the body, and the wait until it is quiet
        )
        if turn is not None:
            await turn.commit(result, None)
            life.stale = True
        if path is Path.R:
            result = await review(life, result)
        if not life.scheduled:
            await schedule(life)
        if path is Path.R:
            result = check_after_review(life, result)
        return conclude(life, result)
    except BaseException as interrupt:
        if life.phase is Phase.PUBLISHED:
            raise
        result = aborted(life, None, life.body_contexts())
        if turn is not None:
            await turn.commit(result, interrupt)
        conclude(life, result)
        raise


def read_arguments(life: Life) -> None:
    """Take a frozen copy of the arguments, once (`MA-1`, `MA-2`); what JSON would lose is refused."""
    if life.raw is _READ:
        return
    raw, life.raw = life.raw, _READ
    depth = life.settings.bounds.json_depth
    taken = GAVE_UP if life.taker is None else life.taker.take(raw, depth=depth)
    if taken is not GAVE_UP:
        life.arguments = taken
    else:
        life.taker = None
        try:
            life.arguments = freeze_arguments(raw, depth=depth)
        except NotLossless as refusal:
            life.refusal = refusal


def materialize(life: Life) -> Decided | None:
    """Decide NOT_JSON for refused arguments, even under a cancelled caller (`MA-8`)."""
    read_arguments(life)
    if life.refusal is None:
        return None
    failure = standard_failure(NOT_JSON)
    if isinstance(life.refusal, TooDeep):
        message = f"tool execution arguments are nested deeper than {life.refusal.levels} levels"
        failure = ToolFailure(message, failure.code, failure.name)
    _verdict, path = classify(Place.ENTRY, Came.FAILURE, False)
    return failed(life, failure), path


def check_at_entry(life: Life) -> Decided | None:
    """Decide BEFORE for a caller that is cancelled already (`CA-11`)."""
    cause = life.cause_now()
    verdict, path = classify(Place.ENTRY, Came.SUCCESS, cause is not None)
    return (aborted(life, cause, ()), path) if verdict is Verdict.CUT else None


def announce(turn: Turn | None) -> None:
    """Tell a batch that the next call may be put to the gates (`BA-5`)."""
    if turn is not None:
        turn.admitted()


async def schedule(life: Life) -> None:
    """Give way, on a path that has not done so yet: every call is a schedule point (`PU-1`)."""
    life.scheduled = life.stale = True
    await trio.lowlevel.cancel_shielded_checkpoint()


def check_after_review(life: Life, result: ToolResult) -> ToolResult:
    """Replace a success of a caller that is cancelled by now; a failure stays (`RE-8`, `PU-1`)."""
    if result.outcome is not ToolOutcome.OK:
        return result
    cause = life.cause_if_stale()
    verdict, _path = classify(Place.REVIEW, Came.SUCCESS, cause is not None)
    return aborted(life, cause, result.contexts) if verdict is Verdict.CUT else result


@trio.lowlevel.enable_ki_protection
def conclude(life: Life, result: ToolResult) -> ToolResult:
    """Finalize, bound and publish: the final path, on which nothing can come in between (`PU-4`)."""
    life.enter(Phase.FINAL)
    result, interrupts = finalize(life, result)
    result = result.with_bounded_channels(life.settings.bounds)
    interrupts += publish(life, result)
    if interrupts:
        raise one_of(interrupts)
    return result


def finalize(life: Life, result: ToolResult) -> tuple[ToolResult, list[BaseException]]:
    """Let the finalizer captured at entry replace the content of any result (`PU-2`, `PU-3`)."""
    finalizer, life.finalizer = life.finalizer, None
    if finalizer is None:
        return result, []
    try:
        captured = capture_sync(finalizer, view_of(life), result)
    except BaseException as interrupt:
        return aborted(life, None, ()), [interrupt]
    if captured.came is Came.RAISED:
        return policy_error(life, *captured.errors), []
    if captured.came is Came.CANCELLED:
        return stray(life, "a finalizer"), []
    if captured.answer is None:
        return result, []
    try:
        return evolve(result, content=content_of(captured.answer)), []
    except Exception as error:
        close_coroutine(captured.answer)
        return policy_error(life, PolicyError(f"a finalizer returned no content: {text_of(error)}")), []


def publish(life: Life, result: ToolResult) -> list[BaseException]:
    """Show the result to every observer, exactly once (`PU-5`), and let go of the call.

    Returns:
        The interrupts that came out of observers; their errors are logged (`PU-6`).
    """
    life.phase = Phase.PUBLISHED
    interrupts: list[BaseException] = []
    try:
        for observer in hooks_of(life).observers:
            interrupts += _show(observer, life, result)
    finally:
        life.end()
    return interrupts


def _show(observer: Callable[..., object], life: Life, result: ToolResult) -> tuple[BaseException, ...]:
    """Show a result to one observer, and return the interrupts that came out of it."""
    try:
        try:
            answer = observer(view_of(life), result)
        except BaseException as raised:
            if leaves_of(raised).interrupts:
                raise
            log_error("an observer of tool call %r raised", life.name, error=raised)
        else:
            if answer is not None:
                close_coroutine(answer)
                log_error("an observer of tool call %r returned a %s", life.name, type(answer).__name__)
    except BaseException as raised:
        # It may also be a logging handler that interrupts.
        return leaves_of(raised).interrupts
    return ()


def publish_unstarted(life: Life, cause: CancelCause | None) -> tuple[ToolResult, list[BaseException]]:
    """Publish a call of a batch that never started: no other phase runs (`BA-10`)."""
    life.arguments = None
    result = aborted(life, cause, ()).with_bounded_channels(life.settings.bounds)
    return result, publish(life, result)


# Names are often enums of strings, and a subclass of str may format itself as it likes (`JS-12`).
_plain: Final = str.__str__


def admit(
    layer: Layer,
    call: ToolCall,
    settings: Settings,
    flights: dict[Life, None],
    lifetime: Lifetime | None = None,
    ambient: Ambient | None = None,
) -> Life:
    """Read each field of ``call`` once, mint its token, and attach it to its scope (`MA-1`, `SC-12`).

    Args:
        flights: where the call is listed until it is published.
        lifetime: takes the place of the call scope's own, of which it is a child.
        ambient: shared by the calls of a batch, so that what one observes holds for all.

    Raises:
        TypeError: when it is no `ToolCall`.
        RuntimeError: as `Layer.execute` says; nothing was attached then.
    """
    if type(call) is not ToolCall:
        raise TypeError(f"execute takes a ToolCall, not {type(call).__name__}")
    parent = None
    if call.parent is not None:
        parent = life_of(call.parent)
        if parent is None or parent.settled or parent.lifetime.run is not trio.lowlevel.current_trio_token():
            raise RuntimeError("the parent of a nested call has settled, or belongs to another run")
    lifetime = lifetime_of(call.scope) if lifetime is None else lifetime
    name, call_id = _plain(call.name), _plain(call.call_id)
    tool = layer.get(name)
    if ambient is None:
        ambient = Ambient()
    if parent is not None:
        ambient.enclosing = parent
    life = Life(
        call_id,
        _plain(call.root_call_id or (call_id if parent is None else parent.root_call_id)),
        name,
        call.arguments,
        None if tool is None else tool.arguments_plan,
        call.parent,
        layer,
        lifetime,
        None if tool is None else tool.finalize,
        ambient,
        settings,
        flights,
        _nest,
    )
    lifetime.admit(life, None if parent is None else parent.lifetime)
    flights[life] = None
    return life


@trio.lowlevel.enable_ki_protection
async def execute(layer: Layer, call: ToolCall, settings: Settings, flights: dict[Life, None]) -> ToolResult:
    """Execute one call of its own."""
    result = await live(admit(layer, call, settings, flights))
    if must_unwind(result):
        await trio.lowlevel.checkpoint()
    return result


@trio.lowlevel.enable_ki_protection
async def _nest(
    life: Life, name: str, arguments: object, forward: Callable[[Iterable[Context]], None], /
) -> ToolResult:
    call = ToolCall(name=name, arguments=arguments, scope=handle_on(life.lifetime), parent=life.token)
    result = await live(admit(layer_of(life), call, life.settings, life.flights))
    forward(result.contexts)
    if must_unwind(result):
        await trio.lowlevel.checkpoint()
    return result


def must_unwind(result: ToolResult) -> bool:
    """Return whether the code around a call may not run on, so that `trio.Cancelled` is due (`PU-8`)."""
    return result.outcome is ToolOutcome.CANCELLED and ambient_cancelled()


def ambient_cancelled() -> bool:
    """Return whether the scopes around the current frame are cancelled, exact by the clock (`CA-1`)."""
    return trio.current_effective_deadline() <= trio.current_time()
