# pyright: strict, reportUnnecessaryTypeIgnoreComment=true
"""Promises that only a type checker can see; nothing here is ever run.

Each line that must be refused carries an ignore for the very error that refuses it. An ignore that
nothing needs is an error itself, so a promise that is lost fails in the other direction too.
"""

from collections.abc import Awaitable, Callable
from typing import assert_never, assert_type

import trio

from trio_tools import (
    Accept,
    Allow,
    Ask,
    Block,
    CallScope,
    CancelCause,
    Content,
    Deny,
    DispatchExecution,
    FunctionTool,
    GateDecision,
    ImageContent,
    Layer,
    Registration,
    Registry,
    ReviewDecision,
    ScopeView,
    TextContent,
    Tool,
    ToolCall,
    ToolContext,
    ToolExecution,
    ToolOutcome,
    ToolResult,
    open_call_scope,
    tool,
)

registry = Registry()


async def a_call_names_its_scope(scope: CallScope) -> None:
    ToolCall(name="read", arguments={}, scope=scope)
    ToolCall(name="read", arguments={})  # pyright: ignore[reportCallIssue]
    ToolCall(name="read", arguments={}, scope=None)  # pyright: ignore[reportArgumentType]
    CallScope()

    async with open_call_scope(name="turn", timeout=5) as opened:
        assert_type(opened, CallScope)
        assert_type(opened.cause, CancelCause | None)
        opened.deadline = 5.0
        opened.cause = None  # pyright: ignore[reportAttributeAccessIssue]
        opened.cancel_called = True  # pyright: ignore[reportAttributeAccessIssue]


def views_are_read_only(execution: ToolExecution, result: ToolResult, call: ToolCall) -> None:
    assert_type(execution.scope, ScopeView)
    execution.name = "other"  # pyright: ignore[reportAttributeAccessIssue]
    execution.arguments = {}  # pyright: ignore[reportAttributeAccessIssue]
    execution.scope = execution.scope  # pyright: ignore[reportAttributeAccessIssue]
    execution.scope.cancel()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    result.outcome = ToolOutcome.OK  # pyright: ignore[reportAttributeAccessIssue]
    call.name = "other"  # pyright: ignore[reportAttributeAccessIssue]


def only_a_wrapper_may_add_to_the_cancellation(
    seen: ToolExecution, dispatched: DispatchExecution, context: ToolContext, scope: CallScope
) -> None:
    assert_type(dispatched.with_timeout(5, name="mine"), DispatchExecution)
    assert_type(dispatched.with_deadline(5, name="mine"), DispatchExecution)
    assert_type(dispatched.with_scope(scope), DispatchExecution)
    seen.with_timeout(5, name="mine")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    context.with_timeout(5, name="mine")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    dispatched.without_scope()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    assert_type(context.nursery, trio.Nursery)


@tool
async def read_file(path: str, limit: int = 100, *, ctx: ToolContext) -> list[str]:
    return [path, str(limit), ctx.name]


@tool(timeout=5)
def count(words: list[str]) -> int:
    return len(words)


@tool
async def lies(path: str) -> int:
    return path  # pyright: ignore[reportReturnType]


async def a_body_keeps_its_types(context: ToolContext) -> None:
    assert_type(await read_file("a", 3, ctx=context), list[str])
    assert_type(count(["a"]), int)
    assert_type(count.function(["a"]), int)
    assert_type(count.timeout, float | None)
    await read_file(3, ctx=context)  # pyright: ignore[reportArgumentType]
    count("a")  # pyright: ignore[reportArgumentType]


def a_registry_keeps_them_too(layer: Layer) -> None:
    @layer.tool
    async def double(x: int) -> int:
        return 2 * x

    @layer.tool(name="triple")
    def triple(x: int) -> int:
        return 3 * x

    assert_type(triple(3), int)
    assert_type(double.name, str)
    assert_type(layer.get("double"), Tool | None)
    assert_type(layer.register(triple), Registration)
    _: FunctionTool[[int], int] = triple


async def a_gate(execution: ToolExecution, proceed: Callable[[], Awaitable[GateDecision]]) -> GateDecision:
    return Deny("no") if execution.name == "rm" else await proceed()


def a_sync_gate(execution: ToolExecution, proceed: Callable[[], Awaitable[GateDecision]]) -> GateDecision:
    return Allow()


async def a_wrapper(
    execution: DispatchExecution, proceed: Callable[[DispatchExecution], Awaitable[ToolResult]]
) -> ToolResult:
    await proceed(execution.scope)  # pyright: ignore[reportArgumentType]
    return await proceed(execution.with_timeout(1, name="short"))


async def a_reviewer(
    execution: ToolExecution, result: ToolResult, proceed: Callable[[], Awaitable[ReviewDecision]]
) -> ReviewDecision:
    return Block("secret") if "key" in result.text else await proceed()


async def an_async_guard(execution: ToolExecution) -> str | None:
    return None


def hooks_are_told_apart() -> None:
    registry.gate(a_gate)
    registry.wrap(a_wrapper)
    registry.review(a_reviewer)
    registry.guard(lambda execution: None)
    registry.observe(lambda execution, result: None)
    registry.gate(a_sync_gate)  # pyright: ignore[reportArgumentType]
    registry.gate(a_wrapper)  # pyright: ignore[reportArgumentType]
    registry.wrap(a_gate)  # pyright: ignore[reportArgumentType]
    registry.guard(an_async_guard)  # pyright: ignore[reportArgumentType]


def every_outcome_and_decision_is_told(
    outcome: ToolOutcome, gate: GateDecision, review: ReviewDecision, part: Content
) -> None:
    match outcome:
        case ToolOutcome.OK | ToolOutcome.FAILED | ToolOutcome.CANCELLED:
            pass
        case _:
            assert_never(outcome)
    match gate:
        case Allow() | Deny() | Ask():
            pass
        case _:
            assert_never(gate)
    match review:
        case Accept() | Block():
            pass
        case _:
            assert_never(review)
    match part:
        case TextContent() | ImageContent():
            pass
        case _:
            assert_never(part)
