"""The hooks of a program on the real runtime: each makes a function of a script."""

from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Never, cast

import trio
from attrs import evolve

from trio_tools import (
    Accept,
    Allow,
    Approval,
    Approver,
    Ask,
    Block,
    CancelCause,
    Deny,
    DispatchExecution,
    Gate,
    GateDecision,
    Guard,
    Observer,
    ReviewDecision,
    Reviewer,
    ToolExecution,
    ToolOutcome,
    ToolResult,
    Wrapper,
)

from . import _call_program as p
from ._call_act import Actor, nowhere

__all__ = ["approver", "gate", "guard", "observer", "reviewer", "wrapper"]


def gate(actor: Actor, script: p.GateScript) -> Gate:
    """Return the gate that carries out ``script``."""

    async def gate(execution: ToolExecution, proceed: Callable[[], Awaitable[GateDecision]]) -> GateDecision:
        if script.only and execution.name not in script.only:
            return await proceed()

        async def bound(action: p.Action) -> None:
            assert isinstance(action, p.Consult)
            await proceed()

        await actor.carry_out(script.script, bound)
        match script.decision:
            case "allow":
                return Allow()
            case "deny":
                return Deny("denied")
            case "ask":
                return Ask("may I")
            case "delegate":
                return await proceed()
            case "malformed":
                return cast("Never", "yes")

    return gate


def approver(actor: Actor, script: p.ApproverScript) -> Approver:
    """Return the approver that carries out ``script``."""

    async def approve(_execution: ToolExecution, _reason: str | None) -> Approval:
        await actor.carry_out(script.script, nowhere)
        if script.answer == "malformed":
            return cast("Never", "certainly")
        return Approval[script.answer.upper()]

    return approve


def guard(actor: Actor, script: p.GuardScript) -> Guard:
    """Return the guard that carries out ``script``."""

    def guard(execution: ToolExecution) -> str | None:
        if script.only and execution.name not in script.only:
            return None
        actor.at_once(script.script)
        match script.answer:
            case "pass":
                return None
            case "deny":
                return "guarded"
            case "malformed":
                return cast("Never", 7)

    return guard


def wrapper(actor: Actor, script: p.WrapperScript) -> Wrapper:
    """Return the wrapper that carries out ``script``."""

    async def wrapper(
        execution: DispatchExecution,
        proceed: Callable[[DispatchExecution], Awaitable[ToolResult]],
    ) -> ToolResult:
        if script.only and execution.name not in script.only:
            return await proceed(execution)
        last: ToolResult | None = None
        own: CancelCause | None = None

        async def bound(action: p.Action) -> None:
            nonlocal last, own
            assert isinstance(action, p.Proceed)
            for _ in range(action.attempts):
                derived = _derived(actor, execution, action, script.name)
                result = await _delegated(action, derived, proceed)
                if result is None:
                    break
                # What the view it received tells as well is the caller's, an enclosing call's of that name.
                last, own = result, derived.scope.cause
                if own == execution.scope.cause:
                    own = None
                if not result.is_error:
                    break

        await actor.carry_out(script.script, bound)
        return _finished(script, last, own)

    return wrapper


def _derived(actor: Actor, execution: DispatchExecution, action: p.Proceed, name: str) -> DispatchExecution:
    if action.timeout is not None:
        execution = execution.with_timeout(action.timeout, name=name)
    if action.deadline is not None:
        execution = execution.with_deadline(action.deadline, name=name)
    if action.scope is not None:
        execution = execution.with_scope(actor.scopes[action.scope])
    return execution


def reviewer(actor: Actor, script: p.ReviewScript) -> Reviewer:
    """Return the reviewer that carries out ``script``."""
    contexts = () if script.context is None else (script.context,)

    async def reviewer(
        execution: ToolExecution,
        _result: ToolResult,
        proceed: Callable[[], Awaitable[ReviewDecision]],
    ) -> ReviewDecision:
        if script.only and execution.name not in script.only:
            return await proceed()

        async def bound(action: p.Action) -> None:
            assert isinstance(action, p.Consult)
            await proceed()

        await actor.carry_out(script.script, bound)
        match script.decision:
            case "accept":
                return Accept(contexts=contexts)
            case "delegate":
                return await proceed()
            case "content":
                return Accept(content="replaced", contexts=contexts)
            case "value":
                return Accept(value=8, contexts=contexts)
            case "invalid":
                return Accept(value="bad", contexts=contexts)
            case "both":
                return Accept(content="replaced", value=8, contexts=contexts)
            case "block":
                return Block("blocked", contexts=contexts)
            case "malformed":
                return cast("Never", "fine")

    return reviewer


def observer(actor: Actor, script: p.ObserverScript) -> Observer:
    """Return the observer that carries out ``script``."""

    def observer(_execution: ToolExecution, _result: ToolResult) -> None:
        actor.at_once(script.script)

    return observer


async def _delegated(
    action: p.Proceed,
    derived: DispatchExecution,
    proceed: Callable[[DispatchExecution], Awaitable[ToolResult]],
) -> ToolResult | None:
    """Delegate under the scopes that the wrapper opens; None where its own absorbed the ``Cancelled``."""
    with ExitStack() as stack:
        if action.shield:
            stack.enter_context(trio.CancelScope(shield=True))
        if action.lexical is not None:
            stack.enter_context(trio.move_on_after(action.lexical))
        return await proceed(derived)
    return None


def _finished(script: p.WrapperScript, last: ToolResult | None, own: CancelCause | None) -> ToolResult:
    finish = script.finish
    if finish in {"last", "context", "translate"} and last is None:
        finish = "failure"
    contexts = (script.name,)
    match finish:
        case "translate" if own is not None and own.name == script.name:
            return ToolResult.failed("translated", code=script.name, contexts=contexts, cause=own)
        case "context" if last is not None and last.outcome is not ToolOutcome.CANCELLED:
            return evolve(last, contexts=(*last.contexts, script.name))
        case "last" | "translate" | "context":
            assert last is not None
            return last
        case "success":
            return ToolResult.ok(7, contexts=contexts)
        case "invalid":
            return ToolResult.ok("bad", contexts=contexts)
        case "failure":
            return ToolResult.failed("own", code=script.name, contexts=contexts)
        case "cancelled":
            return ToolResult.cancelled("own", contexts=contexts)
        case "malformed":
            return cast("Never", "fine")
