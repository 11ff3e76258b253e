# ruff: noqa: BLE001
"""Who may refuse a call, or withhold what came of it: gates, the approver, guards, reviewers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from unittest.mock import ANY

import pytest
import trio
from attrs import evolve
from trio.testing import MockClock

from tests.helpers import (
    GateRest,
    Proceed,
    Recorder,
    ReviewRest,
    at,
    call,
    facts,
    hold_loop,
    observed,
    stray_cancelled,
)
from trio_tools import (
    Accept,
    Allow,
    Approval,
    Artifact,
    ArtifactType,
    Ask,
    Block,
    Bounds,
    Context,
    Deny,
    DispatchExecution,
    FrozenDict,
    Gate,
    GateDecision,
    ImageContent,
    Registry,
    ReviewDecision,
    Reviewer,
    TextContent,
    ToolCall,
    ToolContext,
    ToolError,
    ToolExecution,
    ToolResult,
    WriteKind,
    open_call_scope,
    tool,
)


def gate_of(decision: Any, log: list[str] | None = None) -> Gate:
    """Make a gate that decides ``decision`` by itself."""

    async def gate(_execution: ToolExecution, _proceed: GateRest) -> GateDecision:
        if log is not None:
            log.append("gate")
        return decision

    return gate


def reviewer_of(decision: Any) -> Reviewer:
    """Make a reviewer that decides ``decision`` by itself."""

    async def review(_execution: ToolExecution, _result: ToolResult, _proceed: ReviewRest) -> ReviewDecision:
        return decision

    return review


class Witness:
    """Notes which phases of a call are run after its gates, and what the review is shown."""

    def __init__(self, registry: Registry) -> None:
        self.phases: list[str] = []
        self.reviewed: list[ToolResult] = []

        async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
            self.phases.append("wrapper")
            return await proceed(execution)

        async def review(
            _execution: ToolExecution, result: ToolResult, proceed: ReviewRest
        ) -> ReviewDecision:
            self.phases.append("review")
            self.reviewed.append(result)
            return await proceed()

        def finalize(_execution: ToolExecution, _result: ToolResult) -> None:
            self.phases.append("finalizer")

        @registry.tool(finalize=finalize)
        async def work(number: int = 1) -> str:  # pyright: ignore[reportUnusedFunction]
            self.phases.append("body")
            return f"worked {number}"

        registry.guard(self.guard)
        registry.wrap(wrapper)
        registry.review(review)

    def guard(self, _execution: ToolExecution) -> str | None:
        self.phases.append("guard")
        return None


def witnessed(**options: Any) -> tuple[Registry, Recorder, Witness]:
    registry, seen = observed(**options)
    return registry, seen, Witness(registry)


def approver_of(answer: Any) -> Callable[[ToolExecution, str | None], Awaitable[Approval]]:
    async def approver(_execution: ToolExecution, _reason: str | None) -> Approval:
        return answer

    return approver


WHOLE = ["guard", "wrapper", "body", "review", "finalizer"]
DENIED = ["review", "finalizer"]
ERROR = ["finalizer"]


@pytest.mark.rule("GA-1", "LA-7")
async def test_a_gate_decides_or_awaits_the_decision_of_the_rest(autojump_clock: MockClock) -> None:
    registry, _, witness = witnessed()
    heard: list[str] = []

    def listening(name: str) -> Gate:
        async def gate(_execution: ToolExecution, proceed: GateRest) -> GateDecision:
            heard.append(f"{name} in")
            decision = await proceed()
            heard.append(f"{name} out {decision}")
            return decision

        return gate

    registry.gate(listening("first"))
    registry.gate(listening("second"))
    async with open_call_scope() as scope:
        result = await registry.execute(call(scope, "work"))

    assert heard == ["first in", "second in", "second out Allow()", "first out Allow()"]
    assert facts(result) == "ok returned"
    assert witness.phases == WHOLE


@pytest.mark.rule("GA-1")
async def test_a_gate_that_decides_by_itself_leaves_the_later_ones_unasked(autojump_clock: MockClock) -> None:
    registry, _, witness = witnessed()
    log: list[str] = []
    registry.gate(gate_of(Allow()))
    registry.gate(gate_of(Deny("never asked"), log))
    async with open_call_scope() as scope:
        result = await registry.execute(call(scope, "work"))

    assert log == []
    assert facts(result) == "ok returned"
    assert witness.phases == WHOLE


@pytest.mark.rule("GA-1")
@pytest.mark.parametrize("inner", [Allow(), Deny("inner"), Ask("inner")])
async def test_an_outer_gate_may_overrule_the_rest_either_way(
    autojump_clock: MockClock, inner: GateDecision
) -> None:
    registry, _, _ = witnessed()
    overruled: list[GateDecision] = []
    verdict: list[GateDecision] = [Allow(), Deny("outer")]

    async def outer(_execution: ToolExecution, proceed: GateRest) -> GateDecision:
        overruled.append(await proceed())
        return verdict.pop(0)

    registry.gate(outer)
    registry.gate(gate_of(inner))
    async with open_call_scope() as scope:
        results = [await registry.execute(call(scope, "work")) for _ in range(2)]

    assert overruled == [inner, inner]
    assert [facts(result) for result in results] == ["ok returned", "failed DENIED not_dispatched"]
    assert results[1].text == "Error: outer"


@pytest.mark.rule("GA-1")
async def test_a_gate_may_ask_the_rest_again_while_it_runs(autojump_clock: MockClock) -> None:
    registry, _ = observed()
    asked: list[int] = []

    async def counting(_execution: ToolExecution, _proceed: GateRest) -> GateDecision:
        asked.append(len(asked))
        return Deny("not yet") if len(asked) < 3 else Allow()

    async def patient(_execution: ToolExecution, proceed: GateRest) -> GateDecision:
        for _ in range(2):
            assert await proceed() == Deny("not yet")
        return await proceed()

    @registry.tool
    async def work() -> str:
        return "worked"

    registry.gate(patient)
    registry.gate(counting)
    async with open_call_scope() as scope:
        result = await registry.execute(call(scope, "work"))

    assert asked == [0, 1, 2]
    assert result.text == "worked"


@pytest.mark.rule("GA-2", "NE-1", "MA-2")
async def test_gates_approver_and_guards_see_one_token_and_the_frozen_arguments(
    autojump_clock: MockClock,
) -> None:
    views: list[ToolExecution] = []

    async def gate(execution: ToolExecution, proceed: GateRest) -> GateDecision:
        views.append(execution)
        await proceed()
        return Ask("may it?")

    async def approver(execution: ToolExecution, _reason: str | None) -> Approval:
        views.append(execution)
        return Approval.ALLOWED_ONCE

    def guard(execution: ToolExecution) -> None:
        views.append(execution)

    registry, _, _ = witnessed(approver=approver)
    registry.gate(gate)
    registry.guard(guard)
    given = {"number": 7}
    async with open_call_scope() as scope:
        result = await registry.execute(ToolCall(name="work", arguments=given, scope=scope))

    assert result.text == "worked 7"
    assert len(views) == 3
    assert len({id(view.token) for view in views}) == 1
    assert {view.name for view in views} == {"work"}
    assert all(isinstance(view.arguments, FrozenDict) for view in views)
    assert all(view.arguments == given and view.arguments is views[0].arguments for view in views)


@pytest.mark.rule("GA-2", "MA-15", "SC-14")
@pytest.mark.parametrize("hook", ["gate", "approver", "guard"])
async def test_no_gate_approver_or_guard_can_change_the_call(autojump_clock: MockClock, hook: str) -> None:
    refused: list[str] = []

    def tamper(execution: ToolExecution) -> None:
        view: Any = execution
        for change in (
            lambda: setattr(view, "name", "other"),
            lambda: setattr(view, "arguments", {"number": 2}),
            lambda: setattr(view, "scope", None),
            lambda: setattr(view, "token", None),
            lambda: view.arguments.update(number=2),
            lambda: view.arguments.__setitem__("number", 2),
            lambda: view.arguments["deep"]["list"].append(3),
            lambda: view.scope.cancel("no"),
            lambda: setattr(view.scope, "deadline", 0.0),
        ):
            try:
                change()
            except Exception as error:
                refused.append(type(error).__name__)

    async def approver(execution: ToolExecution, _reason: str | None) -> Approval:
        if hook == "approver":
            tamper(execution)
        return Approval.ALLOWED_ONCE

    async def gate(execution: ToolExecution, _proceed: GateRest) -> GateDecision:
        if hook == "gate":
            tamper(execution)
        return Ask()

    def guard(execution: ToolExecution) -> None:
        if hook == "guard":
            tamper(execution)

    received: list[Any] = []
    registry, _ = observed(approver=approver)

    @registry.tool
    async def work(number: int, deep: dict[str, list[int]]) -> str:
        received.append((number, deep))
        return "worked"

    registry.gate(gate)
    registry.guard(guard)
    async with open_call_scope() as scope:
        result = await registry.execute(call(scope, "work", number=1, deep={"list": [1, 2]}))

    assert len(refused) == 9
    assert facts(result) == "ok returned"
    assert received == [(1, {"list": [1, 2]})]


@pytest.mark.rule("GA-2")
async def test_an_approval_holds_for_the_arguments_that_were_shown(autojump_clock: MockClock) -> None:
    """A caller that changes its arguments while a person looks at them changes nothing (case 33)."""
    given: dict[str, Any] = {"number": 1}
    shown: list[Any] = []

    async def approver(execution: ToolExecution, _reason: str | None) -> Approval:
        shown.append(execution.arguments)
        await trio.sleep(5)
        given["number"] = 666
        return Approval.ALLOWED_ONCE

    registry, _, _ = witnessed(approver=approver)
    registry.gate(gate_of(Ask()))
    async with open_call_scope() as scope:
        result = await registry.execute(ToolCall(name="work", arguments=given, scope=scope))

    assert shown == [{"number": 1}]
    assert result.text == "worked 1"


@pytest.mark.rule("GA-3")
async def test_gates_run_for_an_unknown_name_which_is_decided_at_dispatch(autojump_clock: MockClock) -> None:
    registry, _, witness = witnessed()
    asked: list[Any] = []

    async def gate(execution: ToolExecution, proceed: GateRest) -> GateDecision:
        asked.append((execution.name, execution.tool))
        return await proceed()

    registry.gate(gate)
    async with open_call_scope() as scope:
        unknown = await registry.execute(call(scope, "nobody"))
        known = await registry.execute(call(scope, "work"))

    assert asked == [("nobody", None), ("work", registry.get("work"))]
    assert facts(unknown) == "failed UNKNOWN_TOOL not_dispatched"
    assert witness.phases == ["guard", "wrapper", "review", *WHOLE]
    assert facts(known) == "ok returned"


@pytest.mark.rule("GA-3", "BO-1")
async def test_a_gate_may_register_the_tool_that_it_is_asked_for(autojump_clock: MockClock) -> None:
    registry, _ = observed()

    @tool
    async def late() -> str:
        return "just in time"

    async def gate(execution: ToolExecution, proceed: GateRest) -> GateDecision:
        if execution.tool is None:
            registry.register(late)
        return await proceed()

    registry.gate(gate)
    async with open_call_scope() as scope:
        result = await registry.execute(call(scope, "late"))

    assert result.text == "just in time"


@pytest.mark.rule("GA-4", "JS-12")
@pytest.mark.parametrize("reason", ["not today", "", "Error: twice", "two\nlines"])
@pytest.mark.parametrize("name", ["work", "nobody"])
async def test_a_denial_is_a_reviewed_failure_with_the_reason_as_message(
    autojump_clock: MockClock, reason: str, name: str
) -> None:
    registry, seen, witness = witnessed()
    registry.gate(gate_of(Deny(reason)))
    async with open_call_scope() as scope:
        result = await registry.execute(call(scope, name))

    assert facts(result) == "failed DENIED not_dispatched"
    assert result.error is not None
    assert (result.error.message, result.error.name) == (reason, "DeniedError")
    assert result.text == f"Error: {reason}"
    assert witness.phases == (DENIED if name == "work" else ["review"])
    assert seen.results == [result]


@pytest.mark.rule("GA-5")
@pytest.mark.parametrize("who", ["gate", "outer gate", "approver", "guard"])
@pytest.mark.parametrize("coded", [False, True])
async def test_a_raising_gate_approver_or_guard_starts_nothing_and_is_not_reviewed(
    autojump_clock: MockClock, who: str, coded: bool
) -> None:
    error = ToolError("broken", code="MINE") if coded else ValueError("broken")

    async def gate(_execution: ToolExecution, _proceed: GateRest) -> GateDecision:
        if "gate" in who:
            raise error
        return Ask() if who == "approver" else Allow()

    async def outer(_execution: ToolExecution, proceed: GateRest) -> GateDecision:
        return await proceed()

    async def approver(_execution: ToolExecution, _reason: str | None) -> Approval:
        raise error

    def guard(_execution: ToolExecution) -> str | None:
        raise error

    registry, seen = observed(approver=approver)
    if who == "guard":
        registry.guard(guard)
    witness = Witness(registry)
    if who == "outer gate":
        registry.gate(outer)
    registry.gate(gate)
    async with open_call_scope() as scope:
        result = await registry.execute(call(scope, "work"))

    assert facts(result) == f"failed {'MINE' if coded else 'POLICY_ERROR'} not_dispatched"
    assert result.text == "Error: broken"
    assert result.error is not None
    assert result.error.name == ("ToolError" if coded else "ValueError")
    assert result.contexts == ()
    assert witness.phases == ERROR
    assert seen.results == [result]


@pytest.mark.rule("GA-5")
async def test_a_gate_may_turn_the_error_of_an_inner_one_into_a_denial(autojump_clock: MockClock) -> None:
    registry, _, witness = witnessed()

    async def outer(_execution: ToolExecution, proceed: GateRest) -> GateDecision:
        try:
            return await proceed()
        except ValueError as error:
            return Deny(f"to be safe: {error}")

    async def inner(_execution: ToolExecution, _proceed: GateRest) -> GateDecision:
        raise ValueError("broken")

    registry.gate(outer)
    registry.gate(inner)
    async with open_call_scope() as scope:
        result = await registry.execute(call(scope, "work"))

    assert facts(result) == "failed DENIED not_dispatched"
    assert result.text == "Error: to be safe: broken"
    assert witness.phases == DENIED


class Subversive:
    """Pretends to be everything."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


NO_DECISIONS: list[Any] = [
    None,
    True,
    "allow",
    "",
    Allow,
    Approval.ALLOWED_ONCE,
    Accept(),
    Deny(None),  # type: ignore[arg-type]
    Deny(7),  # type: ignore[arg-type]
    Ask(7),  # type: ignore[arg-type]
    Ask(b"bytes"),  # type: ignore[arg-type]
    Subversive(),
    ToolResult.ok("allowed"),
]


@pytest.mark.rule("GA-6")
@pytest.mark.parametrize("decision", NO_DECISIONS, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_malformed_decision_starts_no_body(
    autojump_clock: MockClock, decision: Any, cancelled: bool
) -> None:
    registry, seen, witness = witnessed(approver=approver_of(Approval.ALLOWED_ONCE))
    async with open_call_scope() as scope:

        async def gate(_execution: ToolExecution, _proceed: GateRest) -> GateDecision:
            if cancelled:
                scope.cancel()
            return decision

        registry.gate(gate)
        result = await registry.execute(call(scope, "work"))

    assert facts(result) == "failed POLICY_ERROR not_dispatched"
    assert witness.phases == ERROR
    assert seen.results == [result]


@pytest.mark.rule("GA-6")
@pytest.mark.parametrize(
    "answer",
    [None, True, "allowed_once", "ALLOWED_ONCE", Allow(), 1, "unknown", ANY, Subversive()],
    ids=lambda each: f"{type(each).__name__}",
)
async def test_an_unknown_approval_starts_no_body(autojump_clock: MockClock, answer: Any) -> None:
    registry, _, witness = witnessed(approver=approver_of(answer))
    registry.gate(gate_of(Ask()))
    async with open_call_scope() as scope:
        result = await registry.execute(call(scope, "work"))

    assert facts(result) == "failed POLICY_ERROR not_dispatched"
    assert witness.phases == ERROR


@pytest.mark.rule("GA-6")
@pytest.mark.parametrize("answer", [False, True, 0, b"no", [], Deny("no"), Allow()], ids=repr)
async def test_an_answer_of_a_guard_that_is_no_text_starts_no_body(
    autojump_clock: MockClock, answer: Any
) -> None:
    registry, _ = observed()
    registry.guard(lambda _execution: answer)
    witness = Witness(registry)
    async with open_call_scope() as scope:
        result = await registry.execute(call(scope, "work"))

    assert facts(result) == "failed POLICY_ERROR not_dispatched"
    assert witness.phases == ERROR


@pytest.mark.rule("GA-6", "RE-7", "LA-13")
@pytest.mark.parametrize("hook", ["gate", "approver", "guard", "reviewer"])
async def test_the_coroutine_that_a_hook_decides_is_closed(autojump_clock: MockClock, hook: str) -> None:
    coroutines: list[Any] = []

    async def never() -> None:
        raise AssertionError("nobody awaits a decision")

    def decide() -> Any:
        coroutines.append(never())
        return coroutines[0]

    async def approver(_execution: ToolExecution, _reason: str | None) -> Approval:
        return decide()

    async def gate(_execution: ToolExecution, _proceed: GateRest) -> GateDecision:
        return decide() if hook == "gate" else Ask()

    def guard(_execution: ToolExecution) -> Any:
        return decide()

    async def review(_execution: ToolExecution, _result: ToolResult, _proceed: ReviewRest) -> ReviewDecision:
        return decide()

    registry, _ = observed(approver=approver)
    if hook == "reviewer":
        registry.review(review)
    elif hook == "guard":
        registry.guard(guard)
    else:
        registry.gate(gate)
    witness = Witness(registry)
    async with open_call_scope() as scope:
        result = await registry.execute(call(scope, "work"))

    assert result.code == "POLICY_ERROR"
    assert hook == "reviewer" or witness.phases == ERROR
    with pytest.raises(RuntimeError, match="cannot reuse"):
        coroutines[0].send(None)


@pytest.mark.rule("GA-7")
@pytest.mark.parametrize("reason", [None, "", "it deletes things"])
async def test_an_ask_is_put_to_the_approver_with_view_and_reason(
    autojump_clock: MockClock, reason: str | None
) -> None:
    asked: list[tuple[ToolExecution, str | None]] = []
    gated: list[ToolExecution] = []

    async def approver(execution: ToolExecution, reason: str | None) -> Approval:
        asked.append((execution, reason))
        return Approval.ALLOWED_ONCE

    async def gate(execution: ToolExecution, _proceed: GateRest) -> GateDecision:
        gated.append(execution)
        return Ask(reason)

    registry, _, witness = witnessed(approver=approver)
    registry.gate(gate)
    async with open_call_scope() as scope:
        result = await registry.execute(call(scope, "work"))

    assert [said for _, said in asked] == [reason]
    assert type(asked[0][0]) is ToolExecution
    assert asked[0][0].token is gated[0].token
    assert facts(result) == "ok returned"
    assert witness.phases == WHOLE


@pytest.mark.rule("GA-7")
async def test_only_the_outermost_decision_is_put_to_the_approver(autojump_clock: MockClock) -> None:
    asked: list[str | None] = []

    async def approver(_execution: ToolExecution, reason: str | None) -> Approval:
        asked.append(reason)
        return Approval.ALLOWED_ONCE

    async def outer(_execution: ToolExecution, proceed: GateRest) -> GateDecision:
        assert isinstance(await proceed(), Ask)
        assert asked == []
        return Ask("outer")

    registry, _, _ = witnessed(approver=approver)
    registry.gate(outer)
    registry.gate(gate_of(Ask("inner")))
    async with open_call_scope() as scope:
        result = await registry.execute(call(scope, "work"))

    assert asked == ["outer"]
    assert facts(result) == "ok returned"


@pytest.mark.rule("GA-7", "JS-13")
@pytest.mark.parametrize(
    ("reason", "message"),
    [
        (None, 'tool "work" requires approval, but no approver is configured'),
        ("", ""),
        ("it deletes things", "it deletes things"),
    ],
)
async def test_an_ask_without_an_approver_is_a_reviewed_denial(
    autojump_clock: MockClock, reason: str | None, message: str
) -> None:
    registry, _, witness = witnessed()
    registry.gate(gate_of(Ask(reason)))
    async with open_call_scope() as scope:
        result = await registry.execute(call(scope, "work"))

    assert facts(result) == "failed DENIED not_dispatched"
    assert result.error is not None
    assert result.error.message == message
    assert result.text == f"Error: {message}"
    assert witness.phases == DENIED


@pytest.mark.rule("GA-7", "CA-13")
async def test_the_approver_is_reached_by_the_cancellation(autojump_clock: MockClock) -> None:
    ended: list[float] = []

    async def approver(_execution: ToolExecution, _reason: str | None) -> Approval:
        try:
            await trio.sleep_forever()
        finally:
            ended.append(trio.current_time())
        return Approval.ALLOWED_ONCE

    registry, _, witness = witnessed(approver=approver)
    registry.gate(gate_of(Ask()))
    async with open_call_scope(timeout=3) as scope:
        result = await registry.execute(call(scope, "work"))

    assert ended == [3.0]
    assert facts(result) == "cancelled ABORTED_BEFORE_DISPATCH not_dispatched deadline:caller"
    assert witness.phases == DENIED


@pytest.mark.rule("GA-8", "JS-13")
@pytest.mark.parametrize(
    ("approval", "message"),
    [
        (Approval.REJECTED, 'the user rejected tool "work"'),
        (
            Approval.UNAVAILABLE,
            'tool "work" requires approval, but no approval channel is available',
        ),
    ],
)
async def test_a_rejection_and_a_missing_channel_deny_without_asking_guards(
    autojump_clock: MockClock, approval: Approval, message: str
) -> None:
    registry, _, witness = witnessed(approver=approver_of(approval))
    registry.gate(gate_of(Ask("a reason of the gate, which is not the message")))
    async with open_call_scope() as scope:
        result = await registry.execute(call(scope, "work"))

    assert facts(result) == "failed DENIED not_dispatched"
    assert result.error is not None
    assert result.error.message == message
    assert result.text == f"Error: {message}"
    assert witness.phases == DENIED


@pytest.mark.rule("GA-8")
async def test_an_approval_counts_once(autojump_clock: MockClock) -> None:
    answers = [Approval.ALLOWED_ONCE, Approval.REJECTED]

    async def approver(_execution: ToolExecution, _reason: str | None) -> Approval:
        return answers.pop(0)

    registry, seen, witness = witnessed(approver=approver)
    registry.gate(gate_of(Ask()))
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "work"))
        await registry.execute(call(scope, "work"))

    assert [facts(result) for result in seen.results] == ["ok returned", "failed DENIED not_dispatched"]
    assert witness.phases == [*WHOLE, *DENIED]


@pytest.mark.rule("GA-9", "JS-13")
@pytest.mark.parametrize("by", ["nobody", "caller", "deadline", "ambient"])
async def test_a_cancelled_approval_is_a_cancellation_only_if_the_caller_is_cancelled(
    autojump_clock: MockClock, by: str
) -> None:
    acts: dict[str, Callable[[], None]] = {"nobody": lambda: None, "deadline": lambda: hold_loop(2)}

    async def approver(_execution: ToolExecution, _reason: str | None) -> Approval:
        acts[by]()
        return Approval.CANCELLED

    registry, seen, witness = witnessed(approver=approver)
    registry.gate(gate_of(Ask("reason")))
    with trio.CancelScope() as outer:
        async with open_call_scope(timeout=2 if by == "deadline" else float("inf")) as scope:
            acts |= {"caller": scope.cancel, "ambient": outer.cancel}
            await registry.execute(call(scope, "work"))

    result = seen.only
    assert witness.phases == DENIED
    if by == "nobody":
        assert facts(result) == "failed DENIED not_dispatched"
        assert result.text == 'Error: approval for tool "work" was cancelled'
        assert result.error is not None
        assert result.error.message == 'approval for tool "work" was cancelled'
    else:
        kind = {"caller": "caller:caller", "deadline": "deadline:caller", "ambient": "ambient:ambient"}[by]
        assert facts(result) == f"cancelled ABORTED_BEFORE_DISPATCH not_dispatched {kind}"
        assert result.text == "Error: tool call aborted before dispatch"


@pytest.mark.rule("GA-10")
@pytest.mark.parametrize("way", ["no gate", "allow", "grant"])
@pytest.mark.parametrize("reason", ["", "too risky"])
async def test_the_first_guard_with_a_reason_denies_however_it_was_allowed(
    autojump_clock: MockClock, way: str, reason: str
) -> None:
    registry, _ = observed(approver=approver_of(Approval.ALLOWED_ONCE))
    asked: list[str] = []

    def guard_of(name: str, answer: str | None) -> Callable[[ToolExecution], str | None]:
        def guard(_execution: ToolExecution) -> str | None:
            asked.append(name)
            return answer

        return guard

    if way != "no gate":
        registry.gate(gate_of(Allow() if way == "allow" else Ask()))
    registry.guard(guard_of("first", None))
    registry.guard(guard_of("second", reason))
    registry.guard(guard_of("third", "another reason"))
    witness = Witness(registry)
    async with open_call_scope() as scope:
        result = await registry.execute(call(scope, "work"))

    assert asked == ["first", "second"]
    assert facts(result) == "failed DENIED not_dispatched"
    assert result.text == f"Error: {reason}"
    assert result.error is not None
    assert (result.error.message, result.error.name) == (reason, "DeniedError")
    assert witness.phases == DENIED


@pytest.mark.rule("GA-10", "LA-7")
async def test_every_guard_is_asked_root_layer_first(autojump_clock: MockClock) -> None:
    registry, _ = observed()
    child = registry.layer("child")
    asked: list[str] = []

    def guard_of(name: str) -> Callable[[ToolExecution], None]:
        return lambda _execution: asked.append(name)

    child.guard(guard_of("child 1"))
    registry.guard(guard_of("root 1"))
    child.guard(guard_of("child 2"))
    registry.guard(guard_of("root 2"))
    Witness(registry)
    async with open_call_scope() as scope:
        await child.execute(call(scope, "work"))

    assert asked == ["root 1", "root 2", "child 1", "child 2"]


@pytest.mark.rule("GA-11")
@pytest.mark.parametrize("by", ["same layer", "last of the root", "child", "child, to the root"])
async def test_a_guard_appended_during_the_pass_is_asked_in_it(autojump_clock: MockClock, by: str) -> None:
    registry, _ = observed()
    child = registry.layer("child")
    late: list[str] = []

    def refuses(_execution: ToolExecution) -> str:
        late.append("asked")
        return "too late is in time"

    def appends(_execution: ToolExecution) -> None:
        if not late:
            (registry if by in ("same layer", "child, to the root") else child).guard(refuses)

    (child if by.startswith("child") else registry).guard(appends)
    witness = Witness(registry)
    async with open_call_scope() as scope:
        result = await child.execute(call(scope, "work"))

    assert late == ["asked"]
    assert facts(result) == "failed DENIED not_dispatched"
    assert "body" not in witness.phases


@pytest.mark.rule("GA-11")
async def test_a_guard_that_closes_itself_does_not_hide_the_next_one_for_good(
    autojump_clock: MockClock,
) -> None:
    """Guards are walked by position: one removed before it shifts the rest; the next call asks all."""
    registry, _ = observed()
    asked: list[str] = []

    def first(_execution: ToolExecution) -> None:
        asked.append("first")

    def second(_execution: ToolExecution) -> str:
        asked.append("second")
        return "no"

    registry.guard(first)
    registry.guard(second)
    Witness(registry)
    async with open_call_scope() as scope:
        results = [await registry.execute(call(scope, "work")) for _ in range(2)]

    assert asked == ["first", "second"] * 2
    assert [result.code for result in results] == ["DENIED", "DENIED"]


@pytest.mark.rule("GA-11")
@pytest.mark.parametrize("kind", ["gate", "wrapper", "reviewer", "observer"])
async def test_other_hooks_are_those_that_are_there_when_their_phase_begins(
    autojump_clock: MockClock, kind: str
) -> None:
    registry, _ = observed()
    ran: list[str] = []

    async def late_gate(_execution: ToolExecution, proceed: GateRest) -> GateDecision:
        ran.append("gate")
        return await proceed()

    async def late_wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        ran.append("wrapper")
        return await proceed(execution)

    async def late_review(
        _execution: ToolExecution, _result: ToolResult, proceed: ReviewRest
    ) -> ReviewDecision:
        ran.append("reviewer")
        return await proceed()

    def add() -> None:
        match kind:
            case "gate":
                registry.gate(late_gate)
            case "wrapper":
                registry.wrap(late_wrapper)
            case "reviewer":
                registry.review(late_review)
            case _:
                registry.observe(lambda _execution, _result: ran.append("observer"))

    added: list[str] = []

    def once(where: str) -> None:
        if where == kind and not added:
            added.append(where)
            add()

    async def gate(_execution: ToolExecution, proceed: GateRest) -> GateDecision:
        once("gate")
        return await proceed()

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        once("wrapper")
        return await proceed(execution)

    async def review(_execution: ToolExecution, _result: ToolResult, proceed: ReviewRest) -> ReviewDecision:
        once("reviewer")
        return await proceed()

    registry.gate(gate)
    registry.wrap(wrapper)
    registry.review(review)
    registry.observe(lambda _execution, _result: once("observer"))
    Witness(registry)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "work"))
        first = list(ran)
        await registry.execute(call(scope, "work"))

    assert first == []
    assert ran == [kind]


@pytest.mark.rule("GA-11")
async def test_a_hook_added_in_an_earlier_phase_runs_in_its_own(autojump_clock: MockClock) -> None:
    registry, _ = observed()
    ran: list[str] = []

    async def late_wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        ran.append("wrapper")
        return await proceed(execution)

    async def late_review(
        _execution: ToolExecution, _result: ToolResult, proceed: ReviewRest
    ) -> ReviewDecision:
        ran.append("reviewer")
        registry.observe(lambda _execution, _result: ran.append("observer"))
        return await proceed()

    async def gate(_execution: ToolExecution, proceed: GateRest) -> GateDecision:
        registry.wrap(late_wrapper)
        return await proceed()

    @registry.tool
    async def work() -> str:
        registry.review(late_review)
        return "worked"

    registry.gate(gate)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "work"))

    assert ran == ["wrapper", "reviewer", "observer"]


@pytest.mark.rule("GA-12", "SC-14")
@pytest.mark.parametrize("who", ["caller", "deadline", "ambient"])
async def test_an_ask_under_a_cancelled_caller_is_still_put(autojump_clock: MockClock, who: str) -> None:
    asked: list[Any] = []

    async def approver(execution: ToolExecution, _reason: str | None) -> Approval:
        cause = execution.scope.cause
        asked.append((execution.scope.cancel_called, cause and cause.kind.value))
        return Approval.REJECTED

    registry, seen, witness = witnessed(approver=approver)
    with trio.CancelScope() as outer:
        async with open_call_scope(timeout=1 if who == "deadline" else float("inf")) as scope:

            async def gate(_execution: ToolExecution, _proceed: GateRest) -> GateDecision:
                if who == "caller":
                    scope.cancel()
                elif who == "ambient":
                    outer.cancel()
                else:
                    hold_loop(1)
                return Ask()

            registry.gate(gate)
            await registry.execute(call(scope, "work"))

    assert asked == [(True, who)]
    assert facts(seen.only) == "failed DENIED not_dispatched"
    assert witness.phases == DENIED


@pytest.mark.rule("GA-13", "CA-12", "CA-13")
@pytest.mark.parametrize("who", ["gate", "approver"])
@pytest.mark.parametrize("cancelled", [False, True])
async def test_cancelled_out_of_gate_or_approver_is_the_callers_or_stray(
    autojump_clock: MockClock, who: str, cancelled: bool
) -> None:
    stray = await stray_cancelled()
    registry, seen, witness = witnessed(approver=None)
    async with open_call_scope() as scope:

        async def approver(_execution: ToolExecution, _reason: str | None) -> Approval:
            return await leave()

        async def gate(_execution: ToolExecution, _proceed: GateRest) -> GateDecision:
            return Ask() if who == "approver" else await leave()

        async def leave() -> Any:
            if cancelled:
                scope.cancel()
                await trio.sleep_forever()
            raise stray

        registry, seen, witness = witnessed(approver=approver)
        registry.gate(gate)
        await registry.execute(call(scope, "work"))

    if cancelled:
        assert facts(seen.only) == "cancelled ABORTED_BEFORE_DISPATCH not_dispatched caller:caller"
        assert witness.phases == DENIED
    else:
        assert facts(seen.only) == "failed POLICY_ERROR not_dispatched"
        assert seen.only.text == f"Error: stray Cancelled escaped {'a' if who == 'gate' else 'the'} {who}"
        assert witness.phases == ERROR


@pytest.mark.rule("GA-13")
async def test_a_gate_that_lets_out_the_end_of_its_own_scope_fails_closed(autojump_clock: MockClock) -> None:
    """A time limit of the gate's own is no cancellation of the call."""
    registry, seen, witness = witnessed()

    async def gate(_execution: ToolExecution, proceed: GateRest) -> GateDecision:
        with trio.move_on_after(1):
            await trio.sleep_forever()
        return Deny("the policy server did not answer")

    async def strict(_execution: ToolExecution, _proceed: GateRest) -> GateDecision:
        with trio.fail_after(1):
            await trio.sleep_forever()
        return Allow()

    registration = registry.gate(gate)
    async with open_call_scope() as scope:
        denied = await registry.execute(call(scope, "work"))
        registration.close()
        registry.gate(strict)
        failed = await registry.execute(call(scope, "work"))

    assert facts(denied) == "failed DENIED not_dispatched"
    assert facts(failed) == "failed POLICY_ERROR not_dispatched"
    assert failed.error is not None
    assert failed.error.name == "TooSlowError"
    assert failed.text == "Error: TooSlowError"
    assert witness.phases == [*DENIED, *ERROR]
    assert len(seen.results) == 2


@pytest.mark.rule("GA-14")
@pytest.mark.parametrize("where", ["gate", "approver", "guard", "guard alone"])
@pytest.mark.parametrize("way", ["passes", "denied", "error"])
async def test_a_caller_cancelled_by_the_end_of_the_guards_enters_no_wrapper(
    autojump_clock: MockClock, where: str, way: str
) -> None:
    registry, seen = observed()
    async with open_call_scope() as scope:

        async def approver(_execution: ToolExecution, _reason: str | None) -> Approval:
            if where == "approver":
                scope.cancel()
            return Approval.ALLOWED_ONCE

        async def gate(_execution: ToolExecution, _proceed: GateRest) -> GateDecision:
            if where == "gate":
                scope.cancel()
            return Ask()

        def guard(_execution: ToolExecution) -> str | None:
            if where.startswith("guard"):
                scope.cancel()
            if way == "error":
                raise ValueError("broken")
            return "no" if way == "denied" else None

        registry, seen = observed(approver=approver)
        if where != "guard alone":
            registry.gate(gate)
        registry.guard(guard)
        witness = Witness(registry)
        await registry.execute(call(scope, "work"))

    expected = {
        "passes": "cancelled ABORTED_BEFORE_DISPATCH not_dispatched caller:caller",
        "denied": "failed DENIED not_dispatched",
        "error": "failed POLICY_ERROR not_dispatched",
    }
    phases = {"passes": ["guard", *DENIED], "denied": DENIED, "error": ERROR}
    assert facts(seen.only) == expected[way]
    assert witness.phases == phases[way]


def on_path(registry: Registry, path: str, cancel: Callable[[], None]) -> None:
    """Lead the calls of ``work`` along ``path``."""

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        match path:
            case "wrapper error":
                raise ValueError("broken")
            case "wrapper failure":
                return ToolResult.failed("made", code="MADE")
            case "before in wrapper":
                cancel()
                await trio.sleep_forever()
            case _:
                pass
        return await proceed(execution)

    @registry.tool
    async def work(number: int = 1) -> str:  # pyright: ignore[reportUnusedFunction]
        match path:
            case "body error":
                raise ValueError("broken")
            case "aborted":
                cancel()
                await trio.lowlevel.checkpoint()
            case "invalid value":
                wrong: Any = 7
                return wrong
            case _:
                pass
        return "worked"

    async def gate(_execution: ToolExecution, _proceed: GateRest) -> GateDecision:
        match path:
            case "denied":
                return Deny("no")
            case "gate error":
                raise ValueError("broken")
            case "before after gates":
                cancel()
            case _:
                pass
        return Allow()

    registry.gate(gate)
    registry.wrap(wrapper)


REVIEWED = {
    "ok": "ok returned",
    "denied": "failed DENIED not_dispatched",
    "before after gates": "cancelled ABORTED_BEFORE_DISPATCH not_dispatched caller:caller",
    "before in wrapper": "cancelled ABORTED_BEFORE_DISPATCH not_dispatched caller:caller",
    "wrapper failure": "failed MADE not_dispatched",
    "unknown": "failed UNKNOWN_TOOL not_dispatched",
    "invalid": "failed INVALID_ARGS not_dispatched",
    "body error": "failed TOOL_ERROR raised",
    "invalid value": "failed INVALID_TOOL_OUTPUT returned",
    "aborted": "cancelled ABORTED cancelled caller:caller",
}
UNREVIEWED = {
    "not json": "failed NOT_JSON not_dispatched",
    "before at entry": "cancelled ABORTED_BEFORE_DISPATCH not_dispatched caller:caller",
    "gate error": "failed POLICY_ERROR not_dispatched",
    "wrapper error": "failed POLICY_ERROR not_dispatched",
}


@pytest.mark.rule("RE-1")
@pytest.mark.parametrize("path", [*REVIEWED, *UNREVIEWED])
async def test_review_sees_every_result_on_its_path_and_no_other(
    autojump_clock: MockClock, path: str
) -> None:
    registry, seen = observed()
    reviewed: list[str] = []

    async def review(_execution: ToolExecution, result: ToolResult, proceed: ReviewRest) -> ReviewDecision:
        reviewed.append(facts(result))
        return await proceed()

    registry.review(review)
    async with open_call_scope() as scope:
        on_path(registry, path, scope.cancel)
        if path == "before at entry":
            scope.cancel()
        arguments: Any = {"not json": {"number": {1}}, "invalid": {"number": "x"}}.get(path, {})
        name = "nobody" if path == "unknown" else "work"
        await registry.execute(ToolCall(name=name, arguments=arguments, scope=scope))

    assert facts(seen.only) == (REVIEWED | UNREVIEWED)[path]
    assert reviewed == ([REVIEWED[path]] if path in REVIEWED else [])


@pytest.mark.rule("RE-2", "LA-7")
async def test_reviewers_are_a_chain_over_one_unchanging_result(autojump_clock: MockClock) -> None:
    registry, seen = observed()
    child = registry.layer("child")
    shown: list[ToolResult] = []
    heard: list[str] = []

    def reviewer(name: str, content: str | None) -> Reviewer:
        async def review(
            _execution: ToolExecution, result: ToolResult, proceed: ReviewRest
        ) -> ReviewDecision:
            shown.append(result)
            rest = await proceed()
            assert isinstance(rest, Accept)
            heard.append(f"{name} {rest == Accept()}")
            return rest if content is None else Accept(content=content, contexts=[name])

        return review

    @registry.tool
    async def work() -> str:
        return "worked"

    child.review(reviewer("inmost", "from the child"))
    registry.review(reviewer("outermost", None))
    registry.review(reviewer("middle", "from the middle"))
    async with open_call_scope() as scope:
        result = await child.execute(call(scope, "work"))

    assert heard == ["inmost True", "middle False", "outermost False"]
    assert [each.text for each in shown] == ["worked"] * 3
    assert shown[0] is shown[1] is shown[2]
    assert result.text == "from the middle"
    assert result.contexts == ("middle",)
    assert seen.only is result


@pytest.mark.rule("RE-2")
async def test_a_reviewer_may_decide_without_the_rest(autojump_clock: MockClock) -> None:
    registry, _, witness = witnessed()
    later = registry.layer("later")

    async def unasked(_execution: ToolExecution, _result: ToolResult, _proceed: ReviewRest) -> ReviewDecision:
        raise AssertionError("an outer reviewer decided")

    async def decides(_execution: ToolExecution, _result: ToolResult, proceed: ReviewRest) -> ReviewDecision:
        return Block("blocked early")

    later.review(decides)
    later.review(unasked)
    async with open_call_scope() as scope:
        result = await later.execute(call(scope, "work"))

    assert facts(result) == "failed BLOCKED returned"
    assert result.text == "blocked early"
    assert witness.phases == WHOLE


@pytest.mark.rule("RE-2")
async def test_an_outer_reviewer_may_lift_the_block_of_an_inner_one(autojump_clock: MockClock) -> None:
    registry, _ = observed()

    async def lenient(_execution: ToolExecution, _result: ToolResult, proceed: ReviewRest) -> ReviewDecision:
        assert isinstance(await proceed(), Block)
        return Accept()

    registry.review(lenient)
    registry.review(reviewer_of(Block("no")))
    Witness(registry)
    async with open_call_scope() as scope:
        result = await registry.execute(call(scope, "work"))

    assert facts(result) == "ok returned"
    assert result.text == "worked 1"


@pytest.mark.rule("RE-3", "RE-8", "TI-3")
@pytest.mark.parametrize("who", ["caller", "deadline", "ambient", "tool timeout"])
async def test_a_review_is_awaited_to_its_end_whoever_is_cancelled(
    autojump_clock: MockClock, who: str
) -> None:
    registry, seen = observed()
    log: list[str] = []

    async def review(_execution: ToolExecution, _result: ToolResult, proceed: ReviewRest) -> ReviewDecision:
        await trio.sleep(100)
        log.append(f"reviewed at {trio.current_time():.0f}")
        return await proceed()

    @registry.tool(timeout=5)
    async def work() -> str:
        return "worked"

    registry.review(review)
    with trio.CancelScope() as outer:
        async with (
            trio.open_nursery() as nursery,
            open_call_scope(timeout=5 if who == "deadline" else float("inf")) as scope,
        ):
            if who in ("caller", "ambient"):
                nursery.start_soon(at, 5.0, scope.cancel if who == "caller" else outer.cancel)
            await registry.execute(call(scope, "work"))

    expected = {
        "caller": "cancelled ABORTED returned caller:caller",
        "deadline": "cancelled ABORTED returned deadline:caller",
        "ambient": "cancelled ABORTED returned ambient:ambient",
        "tool timeout": "ok returned",
    }
    assert log == ["reviewed at 100"]
    assert facts(seen.only) == expected[who]


@pytest.mark.rule("RE-3", "PU-9")
async def test_a_keyboard_interrupt_passes_the_shield_of_a_review(autojump_clock: MockClock) -> None:
    registry, seen = observed()

    async def review(_execution: ToolExecution, _result: ToolResult, _proceed: ReviewRest) -> ReviewDecision:
        await trio.sleep(1)
        raise KeyboardInterrupt

    @registry.tool
    async def work() -> str:
        return "worked"

    registry.review(review)
    async with open_call_scope() as scope:
        with pytest.raises(KeyboardInterrupt):
            await registry.execute(call(scope, "work"))

    assert facts(seen.only) == "cancelled ABORTED returned"


def length_of(_arguments: object, value: str) -> dict[str, int]:
    return {"length": len(value)}


@tool(meta=length_of)
async def rich(*, ctx: ToolContext) -> str:
    """Return a value with everything that can go with it."""
    ctx.defer_context("from the body")
    ctx.conclude()
    ctx.attach(Artifact(ArtifactType.TEXT, "note", {"text": "noted"}))
    ctx.wrote("notes", 7, WriteKind.CREATED)
    return "rich"


def same_but(result: ToolResult, original: ToolResult, *changed: str) -> bool:
    """Whether two results differ in the members named ``changed`` alone."""
    return evolve(result, **{name: getattr(original, name) for name in changed}) == original


async def reviewed_as(decision: Any, **options: Any) -> tuple[ToolResult, ToolResult]:
    """Return what ``rich`` gives before and after a review that decides ``decision``."""
    registry, _ = observed(rich, **options)
    before: list[ToolResult] = []

    async def review(_execution: ToolExecution, result: ToolResult, _proceed: ReviewRest) -> ReviewDecision:
        before.append(result)
        return decision

    registry.review(review)
    async with open_call_scope() as scope:
        after = await registry.execute(call(scope, "rich"))
    return before[0], after


@pytest.mark.rule("RE-4", "WR-21")
async def test_accept_appends_its_contexts_and_changes_nothing_else(autojump_clock: MockClock) -> None:
    before, after = await reviewed_as(Accept(contexts=["one", {"two": [2]}]))

    assert after.contexts == ("from the body", "one", {"two": [2]})
    assert same_but(after, before, "contexts")


@pytest.mark.rule("RE-4")
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("replaced", (TextContent("replaced"),)),
        ("", (TextContent(""),)),
        ([], ()),
        (TextContent("part"), (TextContent("part"),)),
        (["a", ImageContent("aGk=", "image/png")], (TextContent("a"), ImageContent("aGk=", "image/png"))),
    ],
)
async def test_accepted_content_replaces_content_only(
    autojump_clock: MockClock, content: Any, expected: Any
) -> None:
    before, after = await reviewed_as(Accept(content=content))

    assert after.content == expected
    assert same_but(after, before, "content")


@pytest.mark.rule("RE-4", "MA-9")
async def test_an_accepted_value_is_frozen_and_content_and_meta_are_made_anew(
    autojump_clock: MockClock,
) -> None:
    before, after = await reviewed_as(Accept(value="other value", contexts=["c"]))

    assert before.meta == {"length": 4}
    assert (after.value, after.text, after.meta) == ("other value", "other value", {"length": 11})
    assert after.contexts == ("from the body", "c")
    assert same_but(after, before, "value", "content", "meta", "contexts")


@pytest.mark.rule("RE-4")
async def test_none_is_a_value_like_any_other(autojump_clock: MockClock) -> None:
    registry, _ = observed()

    @registry.tool
    async def maybe() -> str | None:
        return "something"

    registry.review(reviewer_of(Accept(value=None)))
    async with open_call_scope() as scope:
        result = await registry.execute(call(scope, "maybe"))

    assert facts(result) == "ok returned"
    assert result.value is None
    assert result.text == "null"


@pytest.mark.rule("RE-4")
@pytest.mark.parametrize("path", ["denied", "body error", "aborted"])
async def test_content_of_a_failure_may_be_replaced_and_its_facts_stay(
    autojump_clock: MockClock, path: str
) -> None:
    registry, _ = observed()
    registry.review(reviewer_of(Accept(content="in other words", contexts=["added"])))
    async with open_call_scope() as scope:
        on_path(registry, path, scope.cancel)
        result = await registry.execute(call(scope, "work"))

    assert facts(result) == REVIEWED[path]
    assert result.text == "in other words"
    assert result.contexts == ("added",)


@pytest.mark.rule("RE-5")
@pytest.mark.parametrize("path", ["denied", "body error", "aborted", "unknown"])
async def test_a_value_for_a_result_that_is_not_ok_is_a_policy_error(
    autojump_clock: MockClock, path: str
) -> None:
    registry, seen = observed()
    registry.review(reviewer_of(Accept(value="made up")))
    async with open_call_scope() as scope:
        on_path(registry, path, scope.cancel)
        await registry.execute(call(scope, "nobody" if path == "unknown" else "work"))

    result = seen.only
    assert result.code == "POLICY_ERROR"
    assert result.outcome == "failed"
    assert result.cause is None
    assert "made up" not in result.text


@pytest.mark.rule("RE-5")
async def test_content_and_value_together_are_a_policy_error(autojump_clock: MockClock) -> None:
    _, after = await reviewed_as(Accept(content="content", value="value"))

    assert facts(after) == "failed POLICY_ERROR returned"
    assert after.contexts == ()
    assert "rich" not in after.text


@pytest.mark.rule("RE-5", "MA-11")
@pytest.mark.parametrize("value", [7, None, ["rich"], ("t",), {1}, float("nan")], ids=repr)
async def test_an_accepted_value_that_breaks_the_schema_is_invalid_output(
    autojump_clock: MockClock, value: Any
) -> None:
    _, after = await reviewed_as(Accept(value=value, contexts=["reviewed"]))

    assert facts(after) == "failed INVALID_TOOL_OUTPUT returned"
    assert after.value is None
    assert "rich" not in after.text.replace('tool "rich"', "")


@pytest.mark.rule("RE-5")
async def test_a_value_for_a_tool_that_is_gone_is_unknown_tool(autojump_clock: MockClock) -> None:
    registry, seen = observed()
    registration = registry.register(rich)

    async def review(_execution: ToolExecution, _result: ToolResult, _proceed: ReviewRest) -> ReviewDecision:
        registration.close()
        return Accept(value="other")

    registry.review(review)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "rich"))

    assert facts(seen.only) == "failed UNKNOWN_TOOL returned"


@pytest.mark.rule("RE-6", "JS-12")
@pytest.mark.parametrize(
    ("feedback", "message"),
    [
        ("say it politely", "say it politely"),
        ("", "tool result blocked by review"),
        ([], "tool result blocked by review"),
        (["one", TextContent("two")], "one\ntwo"),
        (["one", ImageContent("aGk=", "image/png"), "three"], "one\n[image content]\nthree"),
        (ImageContent("aGk=", "image/png"), "[image content]"),
    ],
)
async def test_of_a_blocked_result_only_feedback_own_contexts_and_settlement_remain(
    autojump_clock: MockClock, feedback: Any, message: str
) -> None:
    _, after = await reviewed_as(Block(feedback, ["of the block"]))

    assert facts(after) == "failed BLOCKED returned"
    assert after.contexts == ("of the block",)
    assert after.error is not None
    assert (after.error.message, after.error.name) == (message, "BlockedError")
    assert (after.value, after.meta, after.artifacts, after.write) == (None, None, (), None)
    assert not after.concludes
    assert after.content == (ToolResult.ok(content=feedback).content or (TextContent(message),))
    assert "rich" not in after.text


@pytest.mark.rule("RE-6")
@pytest.mark.parametrize("path", ["denied", "body error", "before after gates", "aborted", "ok"])
async def test_a_block_takes_the_place_of_any_result_and_leaves_no_cause(
    autojump_clock: MockClock, path: str
) -> None:
    registry, seen = observed()
    registry.review(reviewer_of(Block("blocked")))
    async with open_call_scope() as scope:
        on_path(registry, path, scope.cancel)
        await registry.execute(call(scope, "work"))

    assert facts(seen.only) == f"failed BLOCKED {seen.only.settlement.value}"
    assert seen.only.settlement.value in REVIEWED[path]
    assert seen.only.contexts == ()
    assert seen.only.text == "blocked"


@pytest.mark.rule("RE-7")
@pytest.mark.parametrize(
    "bad",
    [
        "raises",
        "raises coded",
        "stray",
        None,
        "accept",
        True,
        Allow(),
        Accept,
        ToolResult.ok("x"),
        Block(7),
        Block(None),
        Accept(content=7),
        Accept(content=[7]),
        Accept(contexts=[7]),  # type: ignore[list-item]
        Accept(contexts=7),  # type: ignore[arg-type]
        Accept(contexts="one text"),
        Block("x", contexts="one text"),
        Block("x", contexts=[{"bad": {1}}]),  # type: ignore[dict-item]
    ],
    ids=lambda each: f"{type(each).__name__}",
)
async def test_a_review_that_goes_wrong_releases_no_content(autojump_clock: MockClock, bad: Any) -> None:
    stray = await stray_cancelled()
    registry, seen = observed(rich)

    async def review(_execution: ToolExecution, _result: ToolResult, _proceed: ReviewRest) -> ReviewDecision:
        match bad:
            case "raises":
                raise ValueError("broken")
            case "raises coded":
                raise ToolError("broken", code="MINE")
            case "stray":
                raise stray
            case _:
                return bad

    registry.review(review)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "rich"))

    result = seen.only
    assert facts(result) == f"failed {'MINE' if bad == 'raises coded' else 'POLICY_ERROR'} returned"
    assert result.contexts == ()
    assert "rich" not in result.text
    assert (result.value, result.meta, result.artifacts, result.write) == (None, None, (), None)
    if type(bad) is Block and not bad.contexts:
        assert result.text.startswith("Error: the feedback of a review decision is malformed: ")


@pytest.mark.rule("RE-7")
@pytest.mark.parametrize("path", ["denied", "aborted", "body error"])
async def test_a_raising_reviewer_takes_code_and_cause_and_leaves_the_settlement(
    autojump_clock: MockClock, path: str
) -> None:
    registry, seen = observed()

    async def review(_execution: ToolExecution, _result: ToolResult, _proceed: ReviewRest) -> ReviewDecision:
        raise ValueError("broken review")

    registry.review(review)
    async with open_call_scope() as scope:
        on_path(registry, path, scope.cancel)
        await registry.execute(call(scope, "work"))

    settlement = REVIEWED[path].split()[2]
    assert facts(seen.only) == f"failed POLICY_ERROR {settlement}"
    assert seen.only.text == "Error: broken review"


@pytest.mark.rule("RE-7")
@pytest.mark.parametrize("who", ["caller", "ambient"])
async def test_a_cancelled_of_a_reviewer_is_stray_even_under_a_cancelled_caller(
    autojump_clock: MockClock, who: str
) -> None:
    stray = await stray_cancelled()
    registry, seen = observed(rich)
    with trio.CancelScope() as outer:
        async with open_call_scope() as scope:

            async def review(
                _execution: ToolExecution, _result: ToolResult, _proceed: ReviewRest
            ) -> ReviewDecision:
                (scope if who == "caller" else outer).cancel()
                raise stray

            registry.review(review)
            await registry.execute(call(scope, "rich"))

    assert facts(seen.only) == "failed POLICY_ERROR returned"


@pytest.mark.rule("RE-8", "CA-18")
@pytest.mark.parametrize("decision", ["accept", "content", "value"])
@pytest.mark.parametrize("when", ["before it decides", "after the rest"])
async def test_a_success_reviewed_under_a_cancelled_caller_becomes_aborted_with_all_contexts(
    autojump_clock: MockClock, decision: str, when: str
) -> None:
    registry, seen = observed(rich)
    async with open_call_scope() as scope:

        async def review(
            _execution: ToolExecution, _result: ToolResult, proceed: ReviewRest
        ) -> ReviewDecision:
            if when == "before it decides":
                scope.cancel()
            await proceed()
            scope.cancel()
            contexts: list[Context] = ["of the review"]
            match decision:
                case "content":
                    return Accept(content="other", contexts=contexts)
                case "value":
                    return Accept(value="other", contexts=contexts)
                case _:
                    return Accept(contexts=contexts)

        registry.review(review)
        await registry.execute(call(scope, "rich"))

    result = seen.only
    assert facts(result) == "cancelled ABORTED returned caller:caller"
    assert result.text == "Error: tool call aborted"
    assert result.contexts == ("from the body", "of the review")
    assert (result.value, result.meta, result.artifacts, result.write) == (None, None, (), None)


@pytest.mark.rule("RE-8", "CA-5")
async def test_a_success_without_a_body_cancelled_in_review_is_before_dispatch(
    autojump_clock: MockClock,
) -> None:
    registry, seen, _ = witnessed()
    near = registry.layer("near")

    async def cached(_execution: DispatchExecution, _proceed: Proceed) -> ToolResult:
        return ToolResult.ok("cached")

    async with open_call_scope() as scope:

        async def review(
            _execution: ToolExecution, _result: ToolResult, proceed: ReviewRest
        ) -> ReviewDecision:
            scope.cancel()
            return await proceed()

        near.wrap(cached)
        near.review(review)
        await near.execute(call(scope, "work"))

    assert facts(seen.only) == "cancelled ABORTED_BEFORE_DISPATCH not_dispatched caller:caller"
    assert seen.only.text == "Error: tool call aborted before dispatch"


@pytest.mark.rule("RE-8", "CA-3")
@pytest.mark.parametrize("path", ["denied", "body error", "invalid value", "wrapper failure"])
async def test_a_failure_stays_as_the_review_left_it_under_a_cancelled_caller(
    autojump_clock: MockClock, path: str
) -> None:
    registry, seen = observed()
    async with open_call_scope() as scope:

        async def review(
            _execution: ToolExecution, _result: ToolResult, _proceed: ReviewRest
        ) -> ReviewDecision:
            scope.cancel()
            return Accept(content="as reviewed", contexts=["added"])

        registry.review(review)
        on_path(registry, path, scope.cancel)
        await registry.execute(call(scope, "work"))

    assert facts(seen.only) == REVIEWED[path]
    assert seen.only.text == "as reviewed"
    assert seen.only.contexts == ("added",)


@pytest.mark.rule("MA-16")
@pytest.mark.parametrize(
    "decision",
    [
        Accept(contexts=[{"bad": float("nan")}]),
        Accept(contexts=[{"bad": (1, 2)}]),  # type: ignore[dict-item]
        Accept(contexts=[{1: "bad"}]),  # type: ignore[dict-item]
        Block("no", contexts=[{"bad": {1}}]),  # type: ignore[dict-item]
        Accept(contexts=["\ud800"]),
    ],
    ids=range(5),
)
@pytest.mark.parametrize("path", ["ok", "body error"])
async def test_contexts_of_a_review_that_json_would_lose_are_a_policy_error(
    autojump_clock: MockClock, decision: ReviewDecision, path: str
) -> None:
    registry, seen = observed()
    registry.review(reviewer_of(decision))
    async with open_call_scope() as scope:
        on_path(registry, path, scope.cancel)
        await registry.execute(call(scope, "work"))

    result = seen.only
    lossless = decision == Accept(contexts=["\ud800"])
    if lossless and result.code in (None, "TOOL_ERROR"):
        assert result.contexts[0].encode() == "\ufffd".encode()  # type: ignore[union-attr]
        return
    assert result.code == "POLICY_ERROR"
    assert result.error is not None
    assert result.error.message == "tool result must be losslessly JSON-serializable"
    assert result.contexts == ()
    assert result.settlement.value == REVIEWED[path].split()[-1]


@pytest.mark.rule("MA-15", "RE-2")
async def test_a_reviewer_cannot_change_the_result_it_is_shown(autojump_clock: MockClock) -> None:
    refused: list[str] = []
    registry, _ = observed()

    @registry.tool
    async def nested(*, ctx: ToolContext) -> dict[str, list[int]]:
        ctx.defer_context({"deep": [1]})
        ctx.attach(Artifact(ArtifactType.TABLE, "t", {"columns": ["a"], "rows": [[1]]}))
        return {"list": [1]}

    async def review(_execution: ToolExecution, result: ToolResult, proceed: ReviewRest) -> ReviewDecision:
        shown: Any = result
        for change in (
            lambda: setattr(shown, "content", ()),
            lambda: setattr(shown, "outcome", "failed"),
            lambda: setattr(shown.content[0], "text", "changed"),
            lambda: shown.value["list"].append(2),
            lambda: shown.value.pop("list"),
            lambda: shown.contexts[0]["deep"].append(2),
            lambda: shown.artifacts[0].data["rows"][0].append(2),
            lambda: setattr(shown.artifacts[0], "label", "x"),
        ):
            try:
                change()
            except Exception as error:
                refused.append(type(error).__name__)
        return await proceed()

    registry.review(review)
    async with open_call_scope() as scope:
        result = await registry.execute(call(scope, "nested"))

    assert len(refused) == 8
    assert result.value == {"list": [1]}
    assert result.contexts == ({"deep": [1]},)
    assert result.artifacts[0].data == {"columns": ["a"], "rows": [[1]]}


async def test_bounds_do_not_touch_what_a_review_is_shown(autojump_clock: MockClock) -> None:
    before, after = await reviewed_as(Accept(content="x" * 500), bounds=Bounds(content_bytes=100))

    assert before.text == "rich"
    assert after.text.endswith("100 bytes]")
