"""What hostile or careless code hands in: hooks, bodies, answers, errors and calls of every strange kind."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any
from unittest.mock import Mock

import pytest
import trio

from tests.helpers import GateRest, Proceed, ReviewRest, call, facts, observed, run
from trio_tools import (
    Accept,
    Allow,
    Approval,
    Artifact,
    Ask,
    CallScope,
    DefinitionError,
    Deny,
    DispatchExecution,
    ExecutionToken,
    GateDecision,
    RegistrationError,
    Registry,
    ReviewDecision,
    TextContent,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    ToolExecution,
    ToolResult,
    open_call_scope,
    tool,
)


class Text(str):  # noqa: SLOT000  (as careless code has it)
    """A string that fails wherever it is formatted or asked about itself."""

    def __format__(self, spec: str, /) -> str:
        raise ValueError("format")

    def isascii(self) -> bool:
        raise ValueError("isascii")


class Unbound:
    """A proxy outside its context: even its class cannot be read."""

    @property
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        raise RuntimeError("outside of context")


class Items(list[str]):
    def __iter__(self) -> Iterator[str]:
        raise ValueError("iter")


class CarelessError(ToolError):
    def __init__(self, account: int) -> None:
        self.account = account


class ClasslessError(ValueError):
    """An error whose class cannot be read."""

    @property
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        raise OSError("class")


class SecretiveGroup(ExceptionGroup[Exception]):
    """A group that does not show its members."""

    @property
    def exceptions(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        raise OSError("exceptions")


class EndlessGroup(ExceptionGroup[Exception]):
    """A group that has itself for a member."""

    @property
    def exceptions(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return (self,)


class MuteError(RuntimeError):
    def __str__(self) -> str:
        raise OSError("str")


def executed(registry: Registry, name: str, **arguments: object) -> ToolResult:
    async def main() -> ToolResult:
        async with open_call_scope() as scope:
            return await registry.execute(call(scope, name, **arguments))

    return run(main)


def show(arguments: object, value: object) -> TextContent:
    return TextContent(Text("shown"))


def lose(execution: object, result: object) -> list[str]:
    return Items(["lost"])


@tool
async def fine() -> str:
    return "fine"


@pytest.mark.rule("GA-10", "GA-11", "LA-5")
def test_a_guard_that_closes_a_registration_hides_no_other_guard() -> None:
    registry, _ = observed(fine)
    first = registry.guard(lambda execution: first.close())
    registry.guard(lambda execution: "veto")

    assert executed(registry, "fine").code == "DENIED"


@pytest.mark.rule("BO-5", "BO-7", "JS-9")
@pytest.mark.parametrize("leaves_open", [True, False])
@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: ClasslessError("told"), "told"),
        (lambda: SecretiveGroup("x", [ValueError("inside")]), "inside"),
        (lambda: EndlessGroup("x", [ValueError("inside")]), "inside"),
        (MuteError, "<unprintable MuteError>"),
    ],
    ids=["class", "members", "itself", "text"],
)
def test_a_body_that_raises_what_lies_about_itself_has_raised(
    make: Callable[[], Exception], text: str, leaves_open: bool
) -> None:
    registry, _ = observed()

    @registry.tool
    async def hostile() -> None:
        if leaves_open:
            await trio.open_nursery().__aenter__()
        raise make()

    result = executed(registry, "hostile")

    assert facts(result) == "failed TOOL_ERROR raised"
    assert result.text == f"Error: {text}"


@pytest.mark.rule("PU-6", "PU-5")
def test_what_an_observer_returns_cannot_hold_up_the_call() -> None:
    registry, seen = observed(fine)
    registry.observe(lambda execution, result: Unbound())  # pyright: ignore[reportArgumentType]

    assert executed(registry, "fine") is seen.only
    assert registry.statistics().in_flight == 0


@pytest.mark.rule("MA-11")
def test_a_body_that_returns_a_proxy_without_a_class_has_returned_no_json() -> None:
    @tool
    async def proxied() -> Any:
        return Unbound()

    registry, _ = observed(proxied)

    assert executed(registry, "proxied").code == "INVALID_TOOL_OUTPUT"


@pytest.mark.rule("JS-10", "GA-5")
def test_a_tool_error_without_a_code_is_an_error_like_any_other() -> None:
    @tool
    async def raises() -> str:
        raise CarelessError(7)

    registry, _ = observed(raises, fine)

    async def gate(execution: object, proceed: object) -> Deny:
        raise CarelessError(7)

    assert executed(registry, "raises").code == "TOOL_ERROR"
    registry.gate(gate)
    result = executed(registry, "fine")
    assert (result.outcome, result.code) == ("failed", "POLICY_ERROR")


@pytest.mark.rule("GA-4", "GA-10", "PU-3", "MA-12", "BD-8")
def test_texts_of_a_class_of_their_own_are_taken_as_plain_text() -> None:
    @tool(render=show)
    async def shown() -> str:
        return "value"

    @tool(finalize=lose)
    async def final() -> str:
        return "value"

    registry, _ = observed(shown, final, fine)

    assert executed(registry, "shown").text == "shown"
    assert executed(registry, "final").code == "POLICY_ERROR"
    registry.guard(lambda execution: Text("no"))
    assert executed(registry, "fine").text == "Error: no"


@pytest.mark.rule("JS-12", "MA-1")
def test_a_name_of_a_class_of_its_own_is_taken_as_plain_text() -> None:
    class Name(str, Enum):  # noqa: UP042  (it prints as itself, not as its value)
        READ = "read"

    registry, seen = observed()

    async def main() -> str:
        async with open_call_scope() as scope:
            made = ToolCall(
                name=Name.READ, arguments={}, scope=scope, call_id=Name.READ, root_call_id=Name.READ
            )
            return (await registry.execute(made)).text

    assert run(main) == 'Error: unknown tool "read"'
    (execution,) = seen.executions
    assert {type(text) for text in (execution.name, execution.call_id, execution.root_call_id)} == {str}


@pytest.mark.rule("JS-9", "BO-13")
def test_a_stop_iteration_keeps_its_name_and_text() -> None:
    @tool
    def stops() -> int:
        raise StopIteration("no more")

    registry, _ = observed(stops)
    result = executed(registry, "stops")

    assert result.error is not None
    assert (result.error.name, result.error.message) == ("StopIteration", "no more")
    assert result.settlement == "raised"


@pytest.mark.rule("JS-9")
def test_a_message_can_always_be_encoded(caplog: pytest.LogCaptureFixture) -> None:
    # The traceback in the log holds the text as it was raised.
    caplog.set_level(logging.CRITICAL + 1, logger="trio_tools")

    @tool
    async def broken() -> int:
        raise ValueError("\ud800")

    registry, _ = observed(broken)
    result = executed(registry, "broken")

    assert result.error is not None
    assert result.error.message.encode()


@pytest.mark.rule("SC-1", "MA-1")
async def test_a_call_is_refused_where_it_is_made_not_where_it_is_executed() -> None:
    async with open_call_scope() as scope:
        with pytest.raises(TypeError, match="name of a ToolCall is a string"):
            ToolCall(name=["x"], arguments={}, scope=scope)  # pyright: ignore[reportArgumentType]
        with pytest.raises(TypeError, match="call_id of a ToolCall is a string"):
            ToolCall(name="x", arguments={}, scope=scope, call_id=[])  # pyright: ignore[reportArgumentType]
        with pytest.raises(TypeError, match="token of an execution"):
            ToolCall(name="x", arguments={}, scope=scope, parent="x")  # pyright: ignore[reportArgumentType]


@pytest.mark.rule("OU-1")
def test_one_text_is_not_several_contexts() -> None:
    with pytest.raises(TypeError, match="several messages"):
        ToolResult.ok(1, contexts="abc")


@pytest.mark.rule("TI-2")
def test_a_timeout_beyond_any_clock_is_refused_at_definition() -> None:
    async def body() -> int:
        return 1

    with pytest.raises(DefinitionError, match="timeout"):
        Tool.from_function(body, timeout=10**400)


@pytest.mark.rule("LA-11", "LA-13")
def test_strange_names_and_hooks_are_refused_in_our_words() -> None:
    layer = Registry().layer("below")
    refused: list[Any] = [5, [[]]]
    for names in refused:
        with pytest.raises(RegistrationError, match="restrict takes names"):
            layer.restrict(allow=names)


@pytest.mark.rule("LA-3")
def test_a_partial_is_named_after_its_function() -> None:
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    made = Tool.from_function(functools.partial(add, b=1))

    assert (made.name, made.description) == ("add", "Add.")


def posing_as(kind: type[Any], **attributes: object) -> Any:
    """Make a stand-in that says it is of a class, as a mock with a ``spec`` does, and is not."""
    return Mock(spec=kind, **attributes)


POSES: list[Any] = [
    posing_as(Allow),
    posing_as(Deny, reason="no"),
    posing_as(Ask, reason=None),
    Deny(posing_as(str)),
    Ask(posing_as(str)),
]


@pytest.mark.rule("GA-5", "GA-6")
@pytest.mark.parametrize("decision", POSES, ids=["allow", "deny", "ask", "text of a deny", "text of an ask"])
@pytest.mark.parametrize("has_approver", [True, False])
def test_what_poses_as_a_decision_of_a_gate_starts_no_body(decision: Any, has_approver: bool) -> None:
    async def approver(_execution: ToolExecution, _reason: str | None) -> Approval:
        return Approval.ALLOWED_ONCE

    async def gate(_execution: ToolExecution, _proceed: GateRest) -> GateDecision:
        return decision

    registry, seen = observed(fine, approver=approver if has_approver else None)
    registry.gate(gate)
    result = executed(registry, "fine")

    assert facts(result) == "failed POLICY_ERROR not_dispatched"
    assert seen.only is result


@pytest.mark.rule("GA-6")
def test_what_poses_as_an_approval_starts_no_body() -> None:
    async def approver(_execution: ToolExecution, _reason: str | None) -> Approval:
        return posing_as(Approval)

    async def gate(_execution: ToolExecution, _proceed: GateRest) -> GateDecision:
        return Ask()

    registry, _ = observed(fine, approver=approver)
    registry.gate(gate)

    assert facts(executed(registry, "fine")) == "failed POLICY_ERROR not_dispatched"


@pytest.mark.rule("RE-7", "WR-17")
@pytest.mark.parametrize("hook", ["wrapper", "reviewer"])
def test_what_poses_as_the_answer_of_a_hook_is_malformed(hook: str) -> None:
    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        await proceed(execution)
        return posing_as(ToolResult)

    async def reviewer(_execution: object, _result: object, _proceed: ReviewRest) -> ReviewDecision:
        return posing_as(Accept, contexts=())

    registry, _ = observed(fine)
    if hook == "wrapper":
        registry.wrap(wrapper)
    else:
        registry.review(reviewer)
    result = executed(registry, "fine")

    assert facts(result) == "failed POLICY_ERROR returned"
    assert ("returns a ToolResult" if hook == "wrapper" else "decides Accept or Block") in result.text


@pytest.mark.rule("BO-15", "OU-1")
def test_what_poses_as_an_artifact_is_refused_at_once() -> None:
    registry, _ = observed()

    @registry.tool
    async def attaches(*, ctx: ToolContext) -> str:
        with pytest.raises(TypeError, match="attach takes an Artifact"):
            ctx.attach(posing_as(Artifact))
        return "fine"

    with pytest.raises(TypeError, match="Artifact"):
        ToolResult.ok(1, artifacts=[posing_as(Artifact)])
    assert facts(executed(registry, "attaches")) == "ok returned"


@pytest.mark.rule("WR-2", "WR-3")
def test_what_poses_as_a_view_or_a_scope_delegates_nothing() -> None:
    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        with pytest.raises(ValueError, match="open CallScope"):
            execution.with_scope(posing_as(CallScope))
        with pytest.raises(TypeError, match="derived from it"):
            await proceed(posing_as(DispatchExecution, _base=execution))
        return await proceed(execution)

    registry, _ = observed(fine)
    registry.wrap(wrapper)

    assert facts(executed(registry, "fine")) == "ok returned"


@pytest.mark.rule("SC-1", "NE-9")
def test_what_poses_as_a_scope_a_token_or_a_call_is_refused() -> None:
    registry, seen = observed(fine)

    async def main() -> None:
        async with open_call_scope() as scope:
            with pytest.raises(TypeError, match="needs a CallScope"):
                ToolCall(name="fine", arguments={}, scope=posing_as(CallScope))
            with pytest.raises(TypeError, match="token of an execution"):
                ToolCall(name="fine", arguments={}, scope=scope, parent=posing_as(ExecutionToken))
            with pytest.raises(TypeError, match="takes a ToolCall"):
                await registry.execute(posing_as(ToolCall))
            with pytest.raises(TypeError, match="made of ToolCalls"):
                await registry.execute_batch([posing_as(ToolCall)])

    run(main)

    assert seen.results == []
