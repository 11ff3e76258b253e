"""Calls within calls: whose token, whose scope, whose cause, and what travels outwards."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.helpers import (
    GateRest,
    Proceed,
    Recorder,
    ReviewRest,
    at,
    call,
    caused_at,
    facts,
    observed,
    run,
)
from trio_tools import (
    Accept,
    Allow,
    Artifact,
    ArtifactType,
    Block,
    Deny,
    DispatchExecution,
    ExecutionToken,
    GateDecision,
    Registry,
    ReviewDecision,
    ToolCall,
    ToolContext,
    ToolError,
    ToolExecution,
    ToolResult,
    WriteKind,
    open_call_scope,
    tool,
)


@tool
async def inner(label: str = "inner", seconds: float = 0, fails: bool = False, *, ctx: ToolContext) -> str:
    """Wait, and leave everything behind that a call can leave."""
    ctx.defer_context(f"of {label}")
    ctx.attach(Artifact(ArtifactType.TEXT, label, {"text": label}))
    ctx.wrote("inner", 1, WriteKind.CREATED)
    await trio.sleep(seconds)
    if fails:
        raise ToolError(f"{label} failed", code="INNER")
    return label


@tool
async def concluding(fails: bool = False, *, ctx: ToolContext) -> str:
    """Conclude."""
    ctx.conclude()
    if fails:
        raise ToolError("failed after concluding", code="INNER")
    return "concluded"


@tool
async def outer(seconds: float = 0, *, ctx: ToolContext) -> str:
    """Call the inner tool and give its text."""
    return (await ctx.call("inner", {"seconds": seconds})).text


@pytest.mark.rule("NE-1")
async def test_one_token_object_is_shown_in_all_phases_of_an_execution(autojump_clock: MockClock) -> None:
    tokens: dict[str, ExecutionToken] = {}

    def note(phase: str, view: ToolExecution | DispatchExecution | ToolContext) -> None:
        tokens[phase] = view.token

    def finalize(execution: ToolExecution, _result: ToolResult) -> None:
        note("finalizer", execution)

    async def gate(execution: ToolExecution, proceed: GateRest) -> GateDecision:
        note("gate", execution)
        return await proceed()

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        note("wrapper", execution)
        derived = execution.with_timeout(5, name="mine")
        note("derived", derived)
        return await proceed(derived)

    async def review(execution: ToolExecution, _result: ToolResult, proceed: ReviewRest) -> ReviewDecision:
        note("review", execution)
        return await proceed()

    registry, seen = observed()

    @registry.tool(finalize=finalize)
    async def work(*, ctx: ToolContext) -> str:
        note("body", ctx)
        return "worked"

    registry.gate(gate)
    registry.guard(lambda execution: note("guard", execution))
    registry.wrap(wrapper)
    registry.review(review)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "work"))

    assert list(tokens) == ["gate", "guard", "wrapper", "derived", "body", "review", "finalizer"]
    assert all(token is seen.executions[0].token for token in tokens.values())
    assert seen.executions[0].parent is None


@pytest.mark.rule("NE-1")
async def test_each_execution_of_the_same_call_has_a_fresh_token(autojump_clock: MockClock) -> None:
    registry, seen = observed(inner)
    async with open_call_scope() as scope:
        again = call(scope, "inner")
        await registry.execute(again)
        await registry.execute(again)

    first, second = (execution.token for execution in seen.executions)
    assert first is not second
    assert first != second
    assert len({first, second}) == 2


@pytest.mark.rule("NE-1")
def test_nobody_but_the_registry_makes_a_token() -> None:
    with pytest.raises(TypeError, match="minted"):
        ExecutionToken()
    with pytest.raises(TypeError):
        ToolCall(name="x", arguments={}, scope=None, token=object())  # type: ignore[call-arg, arg-type]

    assert "token" not in ToolCall.__annotations__


@pytest.mark.rule("NE-1", "NE-3")
async def test_a_token_leads_nowhere(autojump_clock: MockClock) -> None:
    registry, seen = observed(inner)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "inner", label="secret"))
    token = seen.executions[0].token

    assert [name for name in dir(token) if not name.startswith("_")] == []
    assert "secret" not in repr(token)


@pytest.mark.rule("NE-2", "NE-3")
async def test_a_nested_call_runs_the_whole_pipeline_with_scope_and_token_of_the_enclosing_one(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed(inner, outer)
    near = registry.layer("near")
    log: list[str] = []

    @near.tool(name="inner")
    async def nearer(seconds: float) -> str:
        return "from the near layer"

    async def gate(execution: ToolExecution, proceed: GateRest) -> GateDecision:
        log.append(f"gate {execution.name}")
        return await proceed()

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        log.append(f"wrapper {execution.name}")
        return await proceed(execution)

    async def review(execution: ToolExecution, _result: ToolResult, proceed: ReviewRest) -> ReviewDecision:
        log.append(f"review {execution.name}")
        return await proceed()

    near.gate(gate)
    near.guard(lambda execution: log.append(f"guard {execution.name}"))
    near.wrap(wrapper)
    near.review(review)
    async with open_call_scope(name="mine") as scope:
        root = call(scope, "outer")
        result = await near.execute(root)

    nested, enclosing = seen.executions
    assert result.text == "from the near layer"
    assert log == [
        "gate outer",
        "guard outer",
        "wrapper outer",
        "gate inner",
        "guard inner",
        "wrapper inner",
        "review inner",
        "review outer",
    ]
    assert nested.layer is enclosing.layer is near
    assert nested.parent is enclosing.token
    assert nested.token is not enclosing.token
    assert nested.call_id != enclosing.call_id == root.call_id


@pytest.mark.rule("NE-2")
async def test_a_nested_call_answers_to_the_scope_of_the_enclosing_one(autojump_clock: MockClock) -> None:
    registry, seen = observed()
    seen_in_body: list[Any] = []

    @registry.tool
    async def outermost(*, ctx: ToolContext) -> str:
        return (await ctx.call("peeks", {})).text

    @registry.tool
    async def peeks(*, ctx: ToolContext) -> str:
        seen_in_body.append((ctx.scope.deadline, trio.current_effective_deadline()))
        return "peeked"

    async with open_call_scope(timeout=7) as scope:
        await registry.execute(call(scope, "outermost"))

    assert seen_in_body == [(7.0, 7.0)]
    assert [facts(result) for result in seen.results] == ["ok returned"] * 2


@pytest.mark.rule("NE-3")
@pytest.mark.parametrize("given", [None, "root of something larger"])
async def test_the_root_id_is_inherited_inwards(autojump_clock: MockClock, given: str | None) -> None:
    registry, seen = observed(inner, outer)

    @registry.tool
    async def outermost(*, ctx: ToolContext) -> str:
        return (await ctx.call("outer", {})).text

    async with open_call_scope() as scope:
        root = ToolCall(name="outermost", arguments={}, scope=scope, root_call_id=given)
        await registry.execute(root)

    assert [execution.name for execution in seen.executions] == ["inner", "outer", "outermost"]
    assert {execution.root_call_id for execution in seen.executions} == {given or root.call_id}
    assert len({execution.call_id for execution in seen.executions}) == 3
    assert seen.executions[0].parent is seen.executions[1].token
    assert seen.executions[1].parent is seen.executions[2].token
    assert isinstance(seen.executions[0].parent, ExecutionToken)


@pytest.mark.rule("NE-3", "NE-9")
async def test_a_call_with_a_running_parent_is_a_nested_one(autojump_clock: MockClock) -> None:
    registry, seen = observed(inner)
    async with open_call_scope() as scope, open_call_scope(name="other") as other:

        @registry.tool
        async def by_hand(*, ctx: ToolContext) -> str:
            nested = ToolCall(name="inner", arguments={}, scope=other, parent=ctx.token)
            return (await registry.execute(nested)).text

        root = call(scope, "by_hand")
        result = await registry.execute(root)

    assert result.text == "inner"
    assert seen.executions[0].parent is seen.executions[1].token
    assert seen.executions[0].root_call_id == root.call_id


SOURCES = ["caller", "deadline", "ambient", "timeout", "wrapper's deadline", "wrapper's scope"]


@pytest.mark.rule("NE-4", "NE-5", "NE-8", "TI-19")
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("depth", [1, 2])
async def test_what_ends_the_enclosing_call_ends_the_nested_one_with_the_same_cause(
    autojump_clock: MockClock, source: str, depth: int
) -> None:
    registry, seen = observed(inner)
    after: list[str] = []

    @registry.tool(timeout=1 if source == "timeout" else None)
    async def enclosing(*, ctx: ToolContext) -> str:
        await ctx.call("inner" if depth == 1 else "middle", {"seconds": 9.0})
        after.append("never")
        return "never"

    @registry.tool
    async def middle(seconds: float, *, ctx: ToolContext) -> str:
        await ctx.call("inner", {"seconds": seconds})
        after.append("never")
        return "never"

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        if execution.name != "enclosing":
            return await proceed(execution)
        if source == "wrapper's deadline":
            return await proceed(execution.with_deadline(1.0, name="mine"))
        if source == "wrapper's scope":
            async with open_call_scope(name="added", timeout=1) as added:
                return await proceed(execution.with_scope(added))
        return await proceed(execution)

    registry.wrap(wrapper)
    with trio.CancelScope() as around:
        async with (
            trio.open_nursery() as nursery,
            open_call_scope(timeout=1 if source == "deadline" else float("inf")) as scope,
        ):
            if source in ("caller", "ambient"):
                nursery.start_soon(at, 1.0, scope.cancel if source == "caller" else around.cancel)
            await registry.execute(call(scope, "enclosing"))

    cause = {
        "caller": "caller:caller",
        "deadline": "deadline:caller",
        "ambient": "ambient:ambient",
        "timeout": "deadline:timeout",
        "wrapper's deadline": "deadline:mine",
        "wrapper's scope": "deadline:added",
    }[source]
    last = f"failed TOOL_TIMEOUT cancelled {cause}" if source == "timeout" else None
    assert after == []
    assert [facts(result) for result in seen.results[:-1]] == [f"cancelled ABORTED cancelled {cause}"] * depth
    assert facts(seen.results[-1]) == (last or f"cancelled ABORTED cancelled {cause}")
    assert {caused_at(result) for result in seen.results} == {1.0}
    assert all(result.cause == seen.results[-1].cause for result in seen.results)


@pytest.mark.rule("NE-4", "TI-19")
async def test_the_budget_of_a_nested_call_is_its_own(autojump_clock: MockClock) -> None:
    registry, seen = observed()

    @registry.tool(timeout=1)
    async def slow() -> str:
        await trio.sleep_forever()
        return "never"

    @registry.tool(timeout=5)
    async def enclosing(*, ctx: ToolContext) -> str:
        result = await ctx.call("slow", {})
        return f"{result.code} at {trio.current_time():g}"

    async with open_call_scope() as scope:
        await registry.execute(call(scope, "enclosing"))

    assert seen.published == [
        "slow: failed TOOL_TIMEOUT cancelled deadline:timeout",
        "enclosing: ok returned",
    ]
    assert seen.results[1].text == "TOOL_TIMEOUT at 1"


@pytest.mark.rule("NE-5")
async def test_a_nested_call_returns_results_of_every_outcome(autojump_clock: MockClock) -> None:
    registry, seen = observed(inner)

    async def gate(execution: ToolExecution, _proceed: GateRest) -> GateDecision:
        return Deny("no") if execution.name == "denied" else Allow()

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        limited = execution.arguments == {"label": "limited", "seconds": 9}
        return await proceed(execution.with_timeout(1, name="mine") if limited else execution)

    registry.gate(gate)
    registry.wrap(wrapper)
    returned: list[str] = []

    @registry.tool
    async def tries(*, ctx: ToolContext) -> str:
        bad: Any = {"x": {1}}
        for name, arguments in (
            ("inner", {}),
            ("inner", {"fails": True}),
            ("inner", {"label": 7}),
            ("inner", bad),
            ("denied", {}),
            ("nobody", {}),
            ("inner", {"label": "limited", "seconds": 9}),
        ):
            returned.append(facts(await ctx.call(name, arguments)))
        return "tried"

    async with open_call_scope() as scope:
        result = await registry.execute(call(scope, "tries"))

    assert returned == [
        "ok returned",
        "failed INNER raised",
        "failed INVALID_ARGS not_dispatched",
        "failed NOT_JSON not_dispatched",
        "failed DENIED not_dispatched",
        "failed UNKNOWN_TOOL not_dispatched",
        "cancelled ABORTED cancelled deadline:mine",
    ]
    assert facts(result) == "ok returned"
    assert [facts(each) for each in seen.results] == [*returned, "ok returned"]


@pytest.mark.rule("NE-5")
async def test_a_loop_over_nested_calls_ends_under_cancellation(autojump_clock: MockClock) -> None:
    registry, seen = observed(inner)

    @registry.tool
    async def loops(*, ctx: ToolContext) -> str:
        while True:
            await ctx.call("inner", {"seconds": 1, "fails": True})

    async with open_call_scope(timeout=3.5) as scope:
        result = await registry.execute(call(scope, "loops"))

    assert facts(result) == "cancelled ABORTED cancelled deadline:caller"
    assert [each.code for each in seen.results] == ["INNER"] * 3 + ["ABORTED"] * 2
    assert result.contexts == ("of inner",) * 4


@pytest.mark.rule("NE-5", "PU-8")
async def test_a_nested_failure_is_returned_even_in_a_cancelled_body(autojump_clock: MockClock) -> None:
    registry, seen = observed()
    returned: list[str] = []

    @registry.tool
    async def clumsy() -> str:
        try:
            await trio.sleep_forever()
        finally:
            raise ToolError("lost the lock", code="LOCK")

    @registry.tool
    async def outermost(*, ctx: ToolContext) -> str:
        returned.append(facts(await ctx.call("clumsy", {})))
        return "done"

    async with open_call_scope(timeout=1) as scope:
        await registry.execute(call(scope, "outermost"))

    assert returned == ["failed LOCK raised"]
    assert seen.published == [
        "clumsy: failed LOCK raised",
        "outermost: cancelled ABORTED returned deadline:caller",
    ]


@pytest.mark.rule("NE-5", "NE-6")
async def test_contexts_are_forwarded_and_the_result_is_out_before_cancelled_is_raised(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed(inner)
    published: list[int] = []

    @registry.tool
    async def enclosing(*, ctx: ToolContext) -> str:
        try:
            await ctx.call("inner", {"seconds": 9})
        except trio.Cancelled:
            published.append(len(seen.results))
            raise
        return "never"

    async with open_call_scope(timeout=1) as scope:
        result = await registry.execute(call(scope, "enclosing"))

    assert published == [1]
    assert result.contexts == seen.results[0].contexts == ("of inner",)


@pytest.mark.rule("NE-6")
@pytest.mark.parametrize("ends", ["ok", "fails", "invalid", "cancelled"])
async def test_nested_contexts_stand_where_the_nested_call_was_entered(
    autojump_clock: MockClock, ends: str
) -> None:
    registry, seen = observed(inner)

    @registry.tool
    async def enclosing(*, ctx: ToolContext) -> str:
        ctx.defer_context("first")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ctx.call, "inner", {"label": "slow", "seconds": 3})
            await trio.sleep(1)
            ctx.defer_context("between")
            nursery.start_soon(ctx.call, "inner", {"label": "quick", "seconds": 1})
            await trio.sleep(0.5)
            ctx.defer_context("while both run")
        await ctx.call("inner", {"label": "failed", "fails": True})
        ctx.defer_context("last")
        if ends == "fails":
            raise ToolError("failed", code="OUTER")
        if ends == "cancelled":
            await trio.sleep_forever()
        wrong: Any = 7
        return wrong if ends == "invalid" else "fine"

    async with open_call_scope(timeout=5) as scope:
        result = await registry.execute(call(scope, "enclosing"))

    assert result.contexts == (
        "first",
        "of slow",
        "between",
        "of quick",
        "while both run",
        "of failed",
        "last",
    )
    assert result.outcome.value == {"ok": "ok", "cancelled": "cancelled"}.get(ends, "failed")
    assert [each.contexts for each in seen.results[:3]] == [("of quick",), ("of slow",), ("of failed",)]


@pytest.mark.rule("NE-6", "WR-21")
async def test_contexts_that_hooks_give_a_nested_result_travel_too(autojump_clock: MockClock) -> None:
    registry, _ = observed(inner, outer)

    async def review(execution: ToolExecution, _result: ToolResult, _proceed: ReviewRest) -> ReviewDecision:
        return Accept(contexts=[f"reviewed {execution.name}"])

    registry.review(review)
    async with open_call_scope() as scope:
        result = await registry.execute(call(scope, "outer"))

    assert result.contexts == ("of inner", "reviewed inner", "reviewed outer")


@pytest.mark.rule("NE-6", "RE-6", "WR-17")
@pytest.mark.parametrize("by", ["block", "wrapper"])
async def test_what_drops_the_contexts_of_a_call_drops_those_nested_in_it(
    autojump_clock: MockClock, by: str
) -> None:
    registry, _ = observed(inner, outer)

    async def review(execution: ToolExecution, _result: ToolResult, _proceed: ReviewRest) -> ReviewDecision:
        return Block("no") if execution.name == "outer" else Accept()

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        result = await proceed(execution)
        if execution.name == "outer":
            raise ValueError("broken")
        return result

    if by == "block":
        registry.review(review)
    else:
        registry.wrap(wrapper)
    async with open_call_scope() as scope:
        result = await registry.execute(call(scope, "outer"))

    assert result.contexts == ()
    assert result.code == ("BLOCKED" if by == "block" else "POLICY_ERROR")


@pytest.mark.rule("NE-6", "RE-6")
async def test_a_blocked_nested_result_hands_on_the_contexts_of_the_block_alone(
    autojump_clock: MockClock,
) -> None:
    registry, _ = observed(inner, outer)

    async def review(execution: ToolExecution, _result: ToolResult, _proceed: ReviewRest) -> ReviewDecision:
        return Block("no", contexts=["blocked"]) if execution.name == "inner" else Accept()

    registry.review(review)
    async with open_call_scope() as scope:
        result = await registry.execute(call(scope, "outer"))

    assert result.contexts == ("blocked",)
    assert facts(result) == "ok returned"


@pytest.mark.rule("NE-7")
@pytest.mark.parametrize("nested", ["ok", "fails", "blocked"])
@pytest.mark.parametrize("enclosing", ["ok", "fails", "cancelled", "blocked"])
async def test_a_conclusion_travels_from_ok_to_ok(
    autojump_clock: MockClock, nested: str, enclosing: str
) -> None:
    registry, seen = observed(concluding)

    @registry.tool
    async def outermost(*, ctx: ToolContext) -> str:
        await ctx.call("concluding", {"fails": nested == "fails"})
        if enclosing == "fails":
            raise ToolError("failed", code="OUTER")
        if enclosing == "cancelled":
            await trio.sleep_forever()
        return "fine"

    async def review(execution: ToolExecution, _result: ToolResult, proceed: ReviewRest) -> ReviewDecision:
        which = nested if execution.name == "concluding" else enclosing
        return Block("no") if which == "blocked" else await proceed()

    registry.review(review)
    async with open_call_scope(timeout=5) as scope:
        await registry.execute(call(scope, "outermost"))

    inside, outside = seen.results
    assert inside.concludes == (nested == "ok")
    assert outside.concludes == (nested == enclosing == "ok")


@pytest.mark.rule("NE-8")
@pytest.mark.parametrize("ends", ["returns", "raises", "is cancelled"])
async def test_nested_calls_in_the_nursery_are_awaited_or_ended_with_the_body(
    autojump_clock: MockClock, ends: str
) -> None:
    registry, seen = observed(inner)

    @registry.tool
    async def enclosing(*, ctx: ToolContext) -> str:
        ctx.nursery.start_soon(ctx.call, "inner", {"seconds": 9})
        await trio.sleep(1)
        if ends == "raises":
            raise ToolError("failed", code="OUTER")
        if ends == "is cancelled":
            await trio.sleep_forever()
        return "returned"

    async with open_call_scope(timeout=2 if ends == "is cancelled" else 100) as scope:
        await registry.execute(call(scope, "enclosing"))
        ended = trio.current_time()

    assert [execution.name for execution in seen.executions] == ["inner", "enclosing"]
    assert [result.outcome.value for result in seen.results] == {
        "returns": ["ok", "ok"],
        "raises": ["cancelled", "failed"],
        "is cancelled": ["cancelled", "cancelled"],
    }[ends]
    assert ended == {"returns": 9.0, "raises": 1.0, "is cancelled": 2.0}[ends]


@pytest.mark.rule("NE-8", "BO-4")
async def test_a_nested_call_that_takes_long_to_end_is_published_first_all_the_same(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed()

    @registry.tool
    async def lingers() -> str:
        with trio.CancelScope(shield=True):
            await trio.sleep(9)
        return "lingered"

    @registry.tool
    async def enclosing(*, ctx: ToolContext) -> str:
        ctx.nursery.start_soon(ctx.call, "lingers", dict[str, int]())
        await trio.sleep(1)
        raise ToolError("failed", code="OUTER")

    async with open_call_scope() as scope:
        await registry.execute(call(scope, "enclosing"))
        ended = trio.current_time()

    assert [execution.name for execution in seen.executions] == ["lingers", "enclosing"]
    assert [result.code for result in seen.results] == ["ABORTED", "OUTER"]
    assert ended == 9.0


@pytest.mark.rule("NE-9")
async def test_a_settled_parent_refuses_new_calls_and_nothing_is_published(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed(inner)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "inner"))
        token = seen.executions[0].token
        with pytest.raises(RuntimeError, match="parent"):
            await registry.execute(ToolCall(name="inner", arguments={}, scope=scope, parent=token))

    assert len(seen.results) == 1
    assert registry.statistics().calls == ()


@pytest.mark.rule("NE-9")
@pytest.mark.parametrize("phase", ["wrapper", "review", "observer"])
async def test_a_parent_refuses_new_calls_once_its_body_has_settled(
    autojump_clock: MockClock, phase: str
) -> None:
    registry, seen = observed(inner)
    refused: list[str] = []
    async with open_call_scope() as scope:

        async def try_it(token: ExecutionToken) -> None:
            try:
                await registry.execute(ToolCall(name="inner", arguments={}, scope=scope, parent=token))
            except RuntimeError:
                refused.append(phase)

        async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
            result = await proceed(execution)
            if phase == "wrapper":
                await try_it(execution.token)
            return result

        async def review(
            execution: ToolExecution, _result: ToolResult, proceed: ReviewRest
        ) -> ReviewDecision:
            if phase == "review":
                await try_it(execution.token)
            return await proceed()

        registry.wrap(wrapper)
        registry.review(review)
        async with trio.open_nursery() as nursery:
            if phase == "observer":
                registry.observe(
                    lambda execution, _result: (
                        nursery.start_soon(try_it, execution.token) if not refused else None
                    )
                )
            await registry.execute(call(scope, "inner"))

    assert refused == [phase]
    assert len(seen.results) == 1


@pytest.mark.rule("NE-9", "SC-2")
def test_a_parent_of_another_run_refuses_new_calls() -> None:
    registry, seen = observed(inner)
    kept: list[ExecutionToken] = []
    refused: list[str] = []

    @registry.tool
    async def elsewhere(*, ctx: ToolContext) -> str:
        kept.append(ctx.token)
        await trio.to_thread.run_sync(run, second)
        return "done"

    async def second() -> None:
        async with open_call_scope() as scope:
            try:
                await registry.execute(ToolCall(name="inner", arguments={}, scope=scope, parent=kept[0]))
            except RuntimeError as error:
                refused.append(str(error))

    async def first() -> None:
        async with open_call_scope() as scope:
            await registry.execute(call(scope, "elsewhere"))

    run(first)

    assert len(refused) == 1
    assert "run" in refused[0]
    assert [execution.name for execution in seen.executions] == ["elsewhere"]


@pytest.mark.rule("NE-10")
@pytest.mark.parametrize("fails", [False, True])
async def test_value_artifacts_write_target_and_code_stay_with_the_nested_call(
    autojump_clock: MockClock, fails: bool
) -> None:
    registry, seen = observed(inner)

    @registry.tool
    async def enclosing(*, ctx: ToolContext) -> str:
        await ctx.call("inner", {"fails": fails})
        return "of its own"

    async with open_call_scope() as scope:
        result = await registry.execute(call(scope, "enclosing"))

    nested = seen.results[0]
    assert (result.value, result.text, result.code) == ("of its own", "of its own", None)
    assert (result.artifacts, result.write, result.concludes) == ((), None, False)
    if fails:
        assert (nested.code, nested.artifacts, nested.write) == ("INNER", (), None)
    else:
        assert nested.write is not None
        assert [artifact.label for artifact in nested.artifacts] == ["inner"]


@pytest.mark.rule("NE-2", "NE-10")
async def test_calls_nest_as_deep_as_a_body_calls_itself(autojump_clock: MockClock) -> None:
    registry, seen = observed()

    @registry.tool
    async def descend(depth: int, *, ctx: ToolContext) -> int:
        if depth == 0:
            return 0
        nested = await ctx.call("descend", {"depth": depth - 1})
        assert isinstance(nested.value, int)
        return nested.value + 1

    async with open_call_scope() as scope:
        result = await registry.execute(call(scope, "descend", depth=20))

    assert result.value == 20
    assert [each.value for each in seen.results] == list(range(21))


@pytest.mark.rule("NE-8", "NE-4")
async def test_a_failing_task_beside_a_nested_call_ends_it(autojump_clock: MockClock) -> None:
    registry, seen = observed(inner)

    @registry.tool
    async def enclosing(*, ctx: ToolContext) -> str:
        async def fails() -> None:
            await trio.sleep(1)
            raise ToolError("helper failed", code="HELPER")

        ctx.nursery.start_soon(fails)
        await ctx.call("inner", {"seconds": 9})
        return "never"

    async with open_call_scope() as scope:
        await registry.execute(call(scope, "enclosing"))

    assert [result.outcome.value for result in seen.results] == ["cancelled", "failed"]
    assert seen.results[1].code == "HELPER"


def published_names(seen: Recorder) -> list[str]:
    return [execution.name for execution in seen.executions]


@pytest.mark.rule("NE-2", "LA-7")
async def test_a_nested_call_is_subject_to_the_timeout_wrapper_and_to_restrictions(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed(inner, outer)
    limited = registry.layer("limited")
    limited.restrict(deny=["inner"])
    async with open_call_scope() as scope:
        free = await registry.execute(call(scope, "outer"))
        restricted = await limited.execute(call(scope, "outer"))

    assert free.text == "inner"
    assert restricted.text == 'Error: unknown tool "inner"'
    assert published_names(seen) == ["inner", "outer"] * 2
    assert isinstance(seen.executions[0].layer, Registry)


@pytest.mark.rule("NE-4", "NE-9")
async def test_a_wrapper_may_nest_a_call_before_there_is_a_body_and_its_cause_is_that_of_the_call(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed(inner)

    @registry.tool
    async def outer() -> str:
        return "outer"

    async def looks_up_first(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        if execution.name == "outer":
            made = ToolCall(name="inner", arguments={"seconds": 9}, scope=scope, parent=execution.token)
            await registry.execute(made)
        return await proceed(execution)

    registry.wrap(looks_up_first)
    async with open_call_scope() as scope:
        with trio.move_on_after(3):
            await registry.execute(call(scope, "outer"))

    assert seen.published == [
        "inner: cancelled ABORTED cancelled ambient:ambient",
        "outer: cancelled ABORTED_BEFORE_DISPATCH not_dispatched ambient:ambient",
    ]
    assert [caused_at(result) for result in seen.results] == [3.0, 3.0]
