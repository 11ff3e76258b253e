"""A call as it is seen: by its caller, by hooks, by wrappers, by its body."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from attrs.exceptions import FrozenInstanceError
from trio.testing import MockClock

from tests.helpers import GateRest, Proceed, call, facts, observed
from trio_tools import (
    DispatchExecution,
    GateDecision,
    Progress,
    ToolCall,
    ToolContext,
    ToolExecution,
    ToolResult,
    open_call_scope,
    tool,
)

ALL = {
    "token",
    "call_id",
    "root_call_id",
    "name",
    "arguments",
    "parent",
    "scope",
    "tool",
    "layer",
    "dispatched",
}
ADDING = {"with_timeout", "with_deadline", "with_scope"}
BODY = {
    "nursery",
    "call",
    "defer_context",
    "conclude",
    "attach",
    "wrote",
    "check_cancelled",
    "progress",
}


@tool
async def plain(number: int = 1) -> str:
    """Say the number."""
    return f"number {number}"


@pytest.mark.rule("SC-1")
@pytest.mark.parametrize("scope", [None, trio.CancelScope, "caller", 5.0, ...])
async def test_a_call_names_a_call_scope_and_nothing_in_its_place(scope: Any) -> None:
    missing: Any = ToolCall
    with pytest.raises(TypeError, match="CallScope"):
        ToolCall(name="plain", arguments={}, scope=scope)
    with pytest.raises(TypeError):
        missing(name="plain", arguments={})
    with pytest.raises(TypeError, match="CallScope"):
        missing(name="plain", arguments={}, scope=trio.CancelScope())


@pytest.mark.rule("MA-1")
@pytest.mark.parametrize("member", ["name", "call_id", "root_call_id"])
async def test_name_and_ids_of_a_call_are_strings(member: str) -> None:
    given: dict[str, Any] = {"name": "plain", member: 7}
    async with open_call_scope() as scope:
        with pytest.raises(TypeError, match=f"{member} of a ToolCall is a string, not int"):
            ToolCall(arguments={}, scope=scope, **given)


@pytest.mark.rule("MA-1", "OU-6")
async def test_a_call_is_frozen_and_prints_no_arguments(autojump_clock: MockClock) -> None:
    async with open_call_scope() as scope:
        made: Any = ToolCall(name="plain", arguments={"word": "SECRET"}, scope=scope, call_id="mine")
        for name in ("name", "arguments", "scope", "call_id", "parent", "root_call_id"):
            with pytest.raises(FrozenInstanceError):
                setattr(made, name, None)

    assert repr(made) == "<ToolCall 'plain', call_id='mine'>"
    assert (made.parent, made.root_call_id) == (None, None)


async def test_call_ids_are_unique_by_default(autojump_clock: MockClock) -> None:
    async with open_call_scope() as scope:
        ids = {call(scope, "plain").call_id for _ in range(1000)}

    assert len(ids) == 1000
    assert all(isinstance(each, str) and each for each in ids)


@pytest.mark.rule("MA-3")
async def test_the_constructor_does_not_look_at_the_arguments(autojump_clock: MockClock) -> None:
    async with open_call_scope() as scope:
        made = ToolCall(name="plain", arguments={1, 2}, scope=scope)

    assert made.arguments == {1, 2}


@pytest.mark.rule("GA-2", "SC-14")
async def test_each_view_offers_what_its_holder_may_do_and_no_more(autojump_clock: MockClock) -> None:
    registry, _ = observed()
    views: dict[str, Any] = {}

    async def gate(execution: ToolExecution, proceed: GateRest) -> GateDecision:
        views["gate"] = execution
        return await proceed()

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        views["wrapper"] = execution
        return await proceed(execution)

    @registry.tool
    async def work(*, ctx: ToolContext) -> str:
        views["body"] = ctx
        return "worked"

    registry.gate(gate)
    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "work"))

    offers = {who: {name for name in dir(view) if not name.startswith("_")} for who, view in views.items()}
    assert all(offer >= ALL for offer in offers.values())
    assert not offers["gate"] & (ADDING | BODY)
    assert offers["wrapper"] >= ADDING
    assert not offers["wrapper"] & BODY
    assert offers["body"] >= BODY
    assert not offers["body"] & ADDING
    scopes = [{name for name in dir(view.scope) if not name.startswith("_")} for view in views.values()]
    assert all(offer >= {"cancel_called", "cause", "deadline"} for offer in scopes)
    assert all("cancel" not in offer for offer in scopes)
    assert not any(isinstance(view.scope, type(scope)) for view in views.values())


@pytest.mark.rule("BO-2", "WR-12")
async def test_dispatched_and_the_times_of_the_body_are_told_by_every_view(autojump_clock: MockClock) -> None:
    registry, seen = observed()
    told: list[Any] = []

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        told.append((execution.dispatched, execution.started_at, execution.settled_at))
        await trio.sleep(1)
        result = await proceed(execution)
        told.append((execution.dispatched, execution.started_at, execution.settled_at))
        await trio.sleep(1)
        return result

    @registry.tool
    async def work(*, ctx: ToolContext) -> str:
        told.append((ctx.dispatched, ctx.started_at, ctx.settled_at))
        await trio.sleep(2)
        return "worked"

    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "work"))
    view = seen.executions[0]

    assert told == [(False, None, None), (True, 1.0, None), (True, 1.0, 3.0)]
    assert (view.dispatched, view.started_at, view.settled_at) == (True, 1.0, 3.0)


@pytest.mark.rule("BO-1")
@pytest.mark.parametrize(
    ("case", "objection"),
    [
        ("fine", None),
        ("unknown", "UNKNOWN_TOOL"),
        ("invalid", "INVALID_ARGS"),
        ("cancelled", "ABORTED_BEFORE_DISPATCH"),
        ("again", "ABORTED"),
        ("own source", "ABORTED_BEFORE_DISPATCH"),
    ],
)
async def test_a_wrapper_may_ask_what_dispatch_would_say(
    autojump_clock: MockClock, case: str, objection: str | None
) -> None:
    registry, seen = observed(plain)
    told: list[str | None] = []
    async with open_call_scope() as scope:

        async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
            if case == "again":
                await proceed(execution)
            if case in ("cancelled", "again"):
                scope.cancel()
            if case == "own source":
                execution = execution.with_deadline(trio.current_time(), name="mine")
            told.append(execution.objection())
            return await proceed(execution)

        registry.wrap(wrapper)
        arguments: dict[str, Any] = {"number": "x"} if case == "invalid" else {}
        await registry.execute(call(scope, "nobody" if case == "unknown" else "plain", **arguments))

    assert told == [objection]
    assert seen.only.code == objection


@pytest.mark.rule("WR-3")
@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("with_deadline", ("soon",)),
        ("with_deadline", (float("nan"),)),
        ("with_deadline", (True,)),
        ("with_timeout", (0,)),
        ("with_timeout", (float("inf"),)),
        ("with_scope", (None,)),
    ],
)
async def test_what_is_no_source_is_refused_where_it_is_added(
    autojump_clock: MockClock, method: str, arguments: tuple[Any, ...]
) -> None:
    registry, seen = observed(plain)
    refused: list[str] = []

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        options = {} if method == "with_scope" else {"name": "mine"}
        try:
            getattr(execution, method)(*arguments, **options)
        except ValueError as error:
            refused.append(str(error))
        return await proceed(execution)

    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "plain"))

    assert len(refused) == 1
    assert facts(seen.only) == "ok returned"


@pytest.mark.rule("WR-3")
async def test_the_name_of_a_deadline_is_text(autojump_clock: MockClock) -> None:
    registry, seen = observed(plain)

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        unnamed: Any = None
        return await proceed(execution.with_deadline(5.0, name=unnamed))

    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "plain"))

    assert facts(seen.only) == "failed POLICY_ERROR not_dispatched"
    assert "name of a deadline" in seen.only.text


@pytest.mark.rule("GA-3")
async def test_the_tool_of_a_view(autojump_clock: MockClock) -> None:
    registry, seen = observed(plain)
    shown: list[Any] = []

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        shown.append(execution.tool)
        return await proceed(execution)

    @registry.tool
    async def work(*, ctx: ToolContext) -> str:
        shown.append(ctx.tool)
        return "worked"

    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        for name in ("work", "nobody"):
            await registry.execute(call(scope, name))

    assert shown == [work, work, None]
    assert [execution.tool for execution in seen.executions] == [work, None]
    assert facts(seen.results[1]) == "failed UNKNOWN_TOOL not_dispatched"


@pytest.mark.rule("OU-6")
async def test_views_print_name_and_id(autojump_clock: MockClock) -> None:
    registry, seen = observed(plain)
    async with open_call_scope() as scope:
        made = call(scope, "plain", number=123456789)
        await registry.execute(made)

    assert repr(seen.executions[0]) == f"<ToolExecution 'plain', call_id={made.call_id!r}>"
    assert "123456789" not in f"{seen.executions[0]}"


async def test_the_views_of_hooks_tell_how_far_the_body_said_it_is(autojump_clock: MockClock) -> None:
    registry, _ = observed()
    told: list[object] = []

    async def gate(execution: ToolExecution, proceed: GateRest) -> GateDecision:
        told.append(execution.last_progress)
        return await proceed()

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        result = await proceed(execution)
        told.append(execution.last_progress)
        return result

    @registry.tool
    async def work(ctx: ToolContext) -> str:
        ctx.progress(1, 2, "half of it")
        return "worked"

    registry.gate(gate)
    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "work"))

    assert told == [None, Progress(1, 2, "half of it")]
