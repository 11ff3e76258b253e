"""Gates, approval, guards and review: who may refuse a call, or withhold what came of it."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Generic, TypeGuard, TypeVar, TypeVarTuple, cast, final

import trio
from attrs import evolve

from ._classification import Came, Place, Verdict, classify
from ._content import Content, Context, content_of, context_of
from ._decisions import UNSET, Accept, Allow, Approval, Ask, Block, Deny, GateDecision, ReviewDecision
from ._errors import DENIED, PolicyError, standard_failure
from ._execution import view_of
from ._fusion import FusedScope
from ._layer import Approver, Gate, Reviewer, hooks_of, layer_of
from ._leaves import Captured, await_foreign, capture, capture_sync, close_coroutine
from ._life import Life, Phase
from ._output import InvalidOutputError, make_output
from ._result import ToolOutcome, ToolResult
from ._verdicts import (
    LOSSY,
    Decided,
    aborted,
    blocked,
    failed,
    invalid_output,
    policy_error,
    stray,
    unknown_tool,
)

__all__ = ["ask_gates", "ask_guards", "review"]

# What the end of a chain decides.
_ALLOW: Final = Allow()
_ACCEPT: Final = Accept()

D = TypeVar("D")
Ts = TypeVarTuple("Ts")


@final
class _Chain(Generic[D]):
    """What a gate or a reviewer awaits for the decision of the rest; valid while its hook runs (`LA-8`)."""

    __slots__ = ("_args", "_open", "_rest")

    def __init__(self, rest: Callable[[*Ts], Awaitable[D]], *args: *Ts) -> None:
        self._rest: Final = cast("Callable[..., Awaitable[D]]", rest)
        self._args: Final = args
        self._open = True

    @trio.lowlevel.enable_ki_protection
    async def __call__(self) -> D:
        if not self._open:
            raise RuntimeError("proceed was awaited after its hook had ended")
        return await self._rest(*self._args)

    def close(self) -> None:
        self._open = False


async def ask_gates(life: Life) -> Decided | None:
    """Put the call to the gates and, where they ask, to the approver; None lets it go on (`GA-1`)."""
    gates = hooks_of(life).gates
    if not gates:
        return None
    life.enter(Phase.GATES)
    life.stale = True
    captured = await capture(_ask_all, life, gates)
    return _decide(life, Place.APPROVAL if life.phase is Phase.APPROVAL else Place.GATES, captured)


async def _ask_all(life: Life, gates: tuple[Gate, ...]) -> GateDecision | Approval:
    """Ask the gates, and the approver if they ask, where the caller's cancellation reaches both."""
    with FusedScope(life.sources, life.spans):
        decision = await _ask_gate(life, gates, 0)
        if not isinstance(decision, Ask):
            return decision
        life.enter(Phase.APPROVAL)
        # No check, which would decide: the approver shall see a cancellation, and be asked all the same.
        life.cause_now()
        return await _ask_approver(life, decision)


async def _ask_gate(life: Life, gates: tuple[Gate, ...], index: int) -> GateDecision:
    if index == len(gates):
        return _ALLOW
    proceed = _Chain(_ask_gate, life, gates, index + 1)
    try:
        decision = await await_foreign(gates[index], view_of(life), proceed)
    finally:
        proceed.close()
    if _is_decision(decision):
        return decision
    close_coroutine(decision)
    raise PolicyError(
        f"a gate decides Allow, Deny or Ask, with a text for a reason, not {type(decision).__name__}"
    )


def _is_decision(answer: object) -> TypeGuard[GateDecision]:
    # By type: a stand-in, such as a mock, says of itself that it is a decision.
    if type(answer) is Deny:
        return _is_text(answer.reason)
    if type(answer) is Ask:
        return answer.reason is None or _is_text(answer.reason)
    return type(answer) is Allow


def _is_text(reason: object) -> bool:
    return issubclass(type(reason), str)


async def _ask_approver(life: Life, ask: Ask) -> GateDecision | Approval:
    name = life.name
    approver = cast("Approver | None", life.settings.approver)
    if approver is None:
        no_approver = f'tool "{name}" requires approval, but no approver is configured'
        return Deny(no_approver if ask.reason is None else ask.reason)
    answer = await await_foreign(approver, view_of(life), ask.reason)
    # By identity: what merely compares equal to a grant, or says that it is an approval, is none.
    if answer is Approval.ALLOWED_ONCE:
        return Allow()
    if answer is Approval.REJECTED:
        return Deny(f'the user rejected tool "{name}"')
    if answer is Approval.UNAVAILABLE:
        return Deny(f'tool "{name}" requires approval, but no approval channel is available')
    if answer is Approval.CANCELLED:
        return answer
    close_coroutine(answer)
    raise PolicyError(f"an approver answers with an Approval, not {type(answer).__name__}")


def _decide(life: Life, place: Place, captured: Captured[GateDecision | Approval]) -> Decided | None:
    life.stale = True
    came, decision = captured.came, captured.answer
    # No check lies here: only what a `trio.Cancelled`, or the approver's word for one, means has to be asked.
    asks = came is Came.CANCELLED or decision is Approval.CANCELLED
    cause = life.cause_now() if asks else None
    if decision is Approval.CANCELLED:
        # The approver's own word for it: a cancellation only if the caller's is behind it (`GA-9`).
        came = Came.FAILURE if cause is None else Came.CANCELLED
        decision = Deny(f'approval for tool "{life.name}" was cancelled')
    elif isinstance(decision, Deny):
        came = Came.FAILURE
    verdict, path = classify(place, came, cause is not None)
    match verdict:
        case Verdict.GO if isinstance(decision, Deny):
            return failed(life, standard_failure(DENIED, reason=str.__str__(decision.reason))), path
        case Verdict.GO:
            return None
        case Verdict.ERROR:
            return policy_error(life, *captured.errors), path
        case Verdict.STRAY:
            return stray(life, "a gate" if place is Place.GATES else "the approver"), path
        case _:
            return aborted(life, cause, ()), path


def ask_guards(life: Life) -> Decided | None:
    """Ask every guard, then whether the caller is cancelled by now; None lets the call go on (`GA-14`)."""
    for guard in layer_of(life).guards() if hooks_of(life).guards else ():
        life.enter(Phase.GUARDS)
        life.stale = True
        captured = capture_sync(_ask_guard, guard, life)
        came = captured.came
        if came is Came.SUCCESS and captured.answer is None:
            continue
        came = Came.FAILURE if came is Came.SUCCESS else came
        verdict, path = classify(Place.GUARDS, came, False)
        match verdict:
            case Verdict.ERROR:
                return policy_error(life, *captured.errors), path
            case Verdict.STRAY:
                return stray(life, "a guard"), path
            case _:
                return failed(life, standard_failure(DENIED, reason=captured.answer)), path
    cause = life.cause_if_stale()
    verdict, path = classify(Place.GUARDED, Came.SUCCESS, cause is not None)
    return (aborted(life, cause, ()), path) if verdict is Verdict.CUT else None


def _ask_guard(guard: Callable[..., object], life: Life) -> str | None:
    answer = guard(view_of(life))
    if answer is None:
        return None
    if isinstance(answer, str):
        return str.__str__(answer)
    close_coroutine(answer)
    raise PolicyError(f"a guard answers with a reason or None, not {type(answer).__name__}")


async def review(life: Life, result: ToolResult) -> ToolResult:
    """Put a result to the reviewers, shielded, and return what their decision makes of it (`RE-2`)."""
    reviewers = hooks_of(life).reviewers
    if not reviewers:
        return result
    life.enter(Phase.REVIEW)
    life.cause_if_stale()
    captured = await capture(_ask_shielded, life, result, reviewers)
    life.stale = True
    if captured.came is Came.CANCELLED:
        return stray(life, "a reviewer")
    if captured.came is Came.RAISED:
        return policy_error(life, *captured.errors)
    if captured.answer is _ACCEPT:
        return result
    reviewed = capture_sync(_apply, life, result, captured.value())
    return reviewed.value() if reviewed.came is Came.SUCCESS else policy_error(life, *reviewed.errors)


async def _ask_shielded(life: Life, result: ToolResult, reviewers: tuple[Reviewer, ...]) -> ReviewDecision:  # pyright: ignore[reportReturnType]  # a scope that nobody cancels swallows nothing
    """Ask out of reach of the caller and the ambient scopes, and without a limit of time (`RE-3`)."""
    with trio.CancelScope(shield=True):
        return await _ask_reviewer(life, result, reviewers, 0)


async def _ask_reviewer(
    life: Life, result: ToolResult, reviewers: tuple[Reviewer, ...], index: int
) -> ReviewDecision:
    if index == len(reviewers):
        return _ACCEPT
    proceed = _Chain(_ask_reviewer, life, result, reviewers, index + 1)
    try:
        decision = await await_foreign(reviewers[index], view_of(life), result, proceed)
    finally:
        proceed.close()
    if type(decision) is not Accept and type(decision) is not Block:
        close_coroutine(decision)
        raise PolicyError(f"a reviewer decides Accept or Block, not {type(decision).__name__}")
    return decision


def _apply(life: Life, result: ToolResult, decision: ReviewDecision) -> ToolResult:
    contexts = _contexts_of(decision.contexts)
    if isinstance(decision, Block):
        return blocked(life, _content_of(decision.feedback, "feedback"), contexts)
    if not contexts and decision.value is UNSET and decision.content is UNSET:
        return result
    contexts = (*result.contexts, *contexts)
    if decision.value is UNSET:
        content = result.content if decision.content is UNSET else _content_of(decision.content, "content")
        return evolve(result, content=content, contexts=contexts)
    if decision.content is not UNSET:
        raise PolicyError("a reviewer replaces the content or the value, not both")
    if result.outcome is not ToolOutcome.OK:
        raise PolicyError(f"a reviewer gave a value to a result that is {result.outcome}")
    return _revalued(life, result, decision.value, contexts)


def _revalued(life: Life, result: ToolResult, value: object, contexts: tuple[Context, ...]) -> ToolResult:
    tool = life.layer.get(life.name)
    if tool is None:
        return unknown_tool(life, contexts)
    try:
        value, content, meta = make_output(life, tool, value)
    except InvalidOutputError as invalid:
        return invalid_output(life, str(invalid), contexts)
    return evolve(result, value=value, content=content, meta=meta, contexts=contexts)


def _contexts_of(contexts: Iterable[object]) -> tuple[Context, ...]:
    if isinstance(contexts, str | bytes):
        raise PolicyError("the contexts of a review decision are several messages, not one text")
    try:
        return tuple(map(context_of, contexts))
    except TypeError:
        raise PolicyError(LOSSY) from None


def _content_of(answer: object, what: str) -> tuple[Content, ...]:
    try:
        return content_of(answer)
    except TypeError as error:
        raise PolicyError(f"the {what} of a review decision is malformed: {error}") from None
