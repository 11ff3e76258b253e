"""What a cancellation makes of a call, phase by phase: the rows of the table, each cell by itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal

import pytest
import trio
from trio.testing import MockClock

from tests.helpers import (
    GateRest,
    Proceed,
    ReviewRest,
    call,
    caused_at,
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
    CallScope,
    Deny,
    DispatchExecution,
    GateDecision,
    ReviewDecision,
    ToolCall,
    ToolContext,
    ToolError,
    ToolExecution,
    ToolOutcome,
    ToolResult,
    WriteKind,
    open_call_scope,
)
from trio_tools._classification import Came, Path, Place, Verdict, classify

BEFORE = "cancelled ABORTED_BEFORE_DISPATCH not_dispatched"
ABORTED = "cancelled ABORTED returned"

Who = Literal["caller", "deadline", "ambient", "nobody"]
CAUSES = {
    "caller": " caller:caller",
    "deadline": " deadline:caller",
    "ambient": " ambient:ambient",
    "nobody": "",
}
CANCELLERS: tuple[Who, ...] = ("caller", "deadline", "ambient")


class Stage:
    """One call that is cancelled, or not, in the phase where `cancel` is called, and what was seen of it."""

    def __init__(self, who: Who, **options: Any) -> None:
        self.who: Who = who
        self.registry, self.seen = observed(**options)
        self.reviewed: list[str] = []
        self.log: list[str] = []
        self.scope: CallScope | None = None
        self.outer = trio.CancelScope()
        self.returned: ToolResult | None = None
        self.block: object = None

        @self.registry.tool
        async def work(ctx: ToolContext) -> str:
            self.log.append("body")
            ctx.defer_context("from the body")
            ctx.attach(Artifact(ArtifactType.TEXT, "a", "artifact"))
            ctx.wrote("orders", 1, WriteKind.CREATED)
            ctx.conclude()
            return "worked"

        async def review(
            _execution: ToolExecution, result: ToolResult, proceed: ReviewRest
        ) -> ReviewDecision:
            self.reviewed.append(facts(result))
            return await proceed()

        self.registry.review(review)

    def cancel(self) -> None:
        """Cancel as this stage says, without giving way."""
        assert self.scope is not None
        match self.who:
            case "caller":
                self.scope.cancel()
            case "deadline":
                self.scope.deadline = trio.current_time()
            case "ambient":
                self.outer.cancel()
            case "nobody":
                pass

    async def run(self, name: str = "work", arguments: object = None) -> ToolResult:
        """Execute the call, and return what was published."""
        async with open_call_scope() as self.scope:
            with self.outer:
                self.returned = await self.registry.execute(
                    ToolCall(name=name, arguments={} if arguments is None else arguments, scope=self.scope)
                )
        return self.seen.only

    def ends(self, start: str) -> str:
        """Complete the facts of a cancelled result by the cause of this stage."""
        return start + CAUSES[self.who] if start.startswith("cancelled") else start


@pytest.mark.rule("CA-1")
@pytest.mark.parametrize("who", CANCELLERS)
@pytest.mark.parametrize("late", [0.0, 1.0])
async def test_the_caller_is_asked_and_never_read_off_a_flag(
    autojump_clock: MockClock, who: Who, late: float
) -> None:
    registry, seen = observed()

    @registry.tool
    async def hog() -> str:
        hold_loop(3 + late)
        return "held"

    async with open_call_scope() as scope:
        if who == "caller":

            @registry.tool(name="hog and cancel")
            async def hog_and_cancel() -> str:
                hold_loop(3)
                scope.cancel()
                return "held"

            await registry.execute(call(scope, "hog and cancel"))
        elif who == "deadline":
            scope.deadline = 3.0
            await registry.execute(call(scope, "hog"))
        else:
            with trio.move_on_at(3):
                await registry.execute(call(scope, "hog"))

    assert facts(seen.only) == ABORTED + CAUSES[who]
    assert caused_at(seen.only) == 3.0


@pytest.mark.rule("CA-2", "CA-1")
@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("entry", BEFORE),
        ("guard", BEFORE),
        ("wrapper", BEFORE),
        ("body", ABORTED),
        ("tail", ABORTED),
        ("review", ABORTED),
        ("finalizer", "ok returned"),
        ("observer", "ok returned"),
    ],
)
@pytest.mark.parametrize("who", ["deadline", "ambient"])
async def test_time_that_passes_in_a_phase_counts_at_the_next_check(
    autojump_clock: MockClock, place: str, expected: str, who: Who
) -> None:
    registry, seen = observed()

    def hold(where: str) -> None:
        if where == place:
            hold_loop(5)

    def finalize(_execution: ToolExecution, _result: ToolResult) -> None:
        hold("finalizer")

    @registry.tool(finalize=finalize)
    async def work() -> str:
        hold("body")
        return "worked"

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        hold("wrapper")
        result = await proceed(execution)
        hold("tail")
        return result

    async def review(_execution: ToolExecution, _result: ToolResult, proceed: ReviewRest) -> ReviewDecision:
        hold("review")
        return await proceed()

    registry.guard(lambda _execution: hold("guard"))
    registry.wrap(wrapper)
    registry.review(review)
    registry.observe(lambda _execution, _result: hold("observer"))
    async with open_call_scope(timeout=3 if who == "deadline" else float("inf")) as scope:
        with trio.move_on_at(3 if who == "ambient" else float("inf")):
            hold("entry")
            await registry.execute(call(scope, "work"))

    cause = CAUSES[who] if expected.startswith("cancelled") else ""
    assert facts(seen.only) == expected + cause
    if cause:
        assert caused_at(seen.only) == 3.0


@pytest.mark.rule("CA-2", "WR-4", "WR-10")
@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("before invocation", BEFORE + " deadline:mine"),
        ("in the body", ABORTED + " deadline:mine"),
        ("after settlement", "ok returned"),
        ("in review", "ok returned"),
    ],
)
async def test_added_sources_count_before_invocation_and_at_settlement_alone(
    autojump_clock: MockClock, place: str, expected: str
) -> None:
    registry, seen = observed()

    @registry.tool
    async def work() -> str:
        if place == "in the body":
            hold_loop(5)
        return "worked"

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        derived = execution.with_timeout(3, name="mine")
        if place == "before invocation":
            hold_loop(5)
        result = await proceed(derived)
        if place == "after settlement":
            hold_loop(5)
        return result

    async def review(_execution: ToolExecution, _result: ToolResult, proceed: ReviewRest) -> ReviewDecision:
        if place == "in review":
            await trio.sleep(5)
        return await proceed()

    registry.wrap(wrapper)
    registry.review(review)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "work"))

    assert facts(seen.only) == expected


@pytest.mark.rule("CA-2", "MA-9")
@pytest.mark.parametrize("option", ["render", "meta"])
@pytest.mark.parametrize("who", CANCELLERS)
async def test_a_cancellation_from_the_rendering_of_a_value_counts(
    autojump_clock: MockClock, option: str, who: Who
) -> None:
    stage = Stage(who)

    def project(_arguments: object, _value: object) -> str:
        stage.cancel()
        return "projected"

    @stage.registry.tool(name="rendered", **{option: project})  # pyright: ignore[reportArgumentType]
    async def rendered() -> str:  # pyright: ignore[reportUnusedFunction]
        return "worked"

    result = await stage.run("rendered")

    assert facts(result) == stage.ends(ABORTED)


@pytest.mark.rule("CA-3", "CA-5", "CA-16")
@pytest.mark.parametrize("who", CANCELLERS)
async def test_a_body_that_finishes_under_cancellation_is_never_ok(
    autojump_clock: MockClock, who: Who
) -> None:
    stage = Stage(who)

    @stage.registry.tool
    async def finishes() -> str:  # pyright: ignore[reportUnusedFunction]
        with trio.CancelScope(shield=True):
            stage.cancel()
            await trio.sleep(3)
        return "finished"

    result = await stage.run("finishes")

    assert facts(result) == stage.ends(ABORTED)


@pytest.mark.rule("CA-4", "CA-17")
@pytest.mark.parametrize("who", CANCELLERS)
@pytest.mark.parametrize("where", ["body", "tail", "review"])
async def test_a_replaced_success_keeps_contexts_and_settlement_alone(
    autojump_clock: MockClock, who: Who, where: str
) -> None:
    stage = Stage(who)

    @stage.registry.tool(meta=lambda _arguments, _value: {"m": 1})  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    async def rich(ctx: ToolContext) -> str:  # pyright: ignore[reportUnusedFunction]
        ctx.defer_context("kept")
        ctx.attach(Artifact(ArtifactType.TEXT, "a", "artifact"))
        ctx.wrote("orders", 1, WriteKind.CREATED)
        ctx.conclude()
        if where == "body":
            stage.cancel()
        return "worked"

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        result = await proceed(execution)
        if where == "tail":
            stage.cancel()
        return result

    async def review(_execution: ToolExecution, _result: ToolResult, _proceed: ReviewRest) -> ReviewDecision:
        if where == "review":
            stage.cancel()
        return Accept(contexts=("reviewed",))

    stage.registry.wrap(wrapper)
    stage.registry.review(review)
    result = await stage.run("rich")

    assert facts(result) == stage.ends(ABORTED)
    assert result.text == "Error: tool call aborted"
    assert result.contexts == ("kept", "reviewed")
    assert (result.value, result.meta, result.concludes, result.artifacts, result.write) == (
        None,
        None,
        False,
        (),
        None,
    )


@pytest.mark.rule("CA-5", "PU-8")
@pytest.mark.parametrize("who", CANCELLERS)
@pytest.mark.parametrize("invoked", [False, True])
async def test_all_callers_classify_alike_and_only_cause_and_end_differ(
    autojump_clock: MockClock, who: Who, invoked: bool
) -> None:
    stage = Stage(who)

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        if not invoked:
            stage.cancel()
        result = await proceed(execution)
        stage.cancel()
        return result

    stage.registry.wrap(wrapper)
    result = await stage.run()

    assert facts(result) == stage.ends(ABORTED if invoked else BEFORE)
    assert result.text == f"Error: tool call aborted{'' if invoked else ' before dispatch'}"
    assert (stage.returned is None) is (who == "ambient")
    assert stage.outer.cancelled_caught is (who == "ambient")


@pytest.mark.rule("CA-6")
@pytest.mark.parametrize(("how", "expected"), [("fails", "failed MINE raised"), ("works", "ok returned")])
async def test_failures_and_successes_carry_no_cause(
    autojump_clock: MockClock, how: str, expected: str
) -> None:
    stage = Stage("caller")

    @stage.registry.tool
    async def either() -> str:  # pyright: ignore[reportUnusedFunction]
        if how == "fails":
            stage.cancel()
            raise ToolError("mine", code="MINE")
        return "worked"

    result = await stage.run("either")

    assert facts(result) == expected
    assert result.cause is None


@pytest.mark.rule("CA-10", "CA-22", "MA-8")
@pytest.mark.parametrize("who", [*CANCELLERS, "nobody"])
async def test_refused_arguments_at_entry(autojump_clock: MockClock, who: Who) -> None:
    stage = Stage(who)
    async with open_call_scope() as stage.scope:
        with stage.outer:
            stage.cancel()
            stage.returned = await stage.registry.execute(
                ToolCall(name="work", arguments={"bad": {1, 2}}, scope=stage.scope)
            )

    assert facts(stage.seen.only) == "failed NOT_JSON not_dispatched"
    assert stage.reviewed == []
    assert stage.returned is stage.seen.only


@pytest.mark.rule("CA-11", "CA-2")
@pytest.mark.parametrize("who", CANCELLERS)
@pytest.mark.parametrize("name", ["work", "nobody"])
async def test_fine_arguments_of_a_caller_cancelled_at_entry(
    autojump_clock: MockClock, who: Who, name: str
) -> None:
    stage = Stage(who)
    asked: list[str] = []

    async def gate(_execution: ToolExecution, proceed: GateRest) -> GateDecision:
        asked.append("gate")
        return await proceed()

    stage.registry.gate(gate)
    async with open_call_scope() as stage.scope:
        with stage.outer:
            stage.cancel()
            await stage.registry.execute(call(stage.scope, name))

    assert facts(stage.seen.only) == stage.ends(BEFORE)
    assert (asked, stage.reviewed, stage.log) == ([], [], [])


def gate_that(stage: Stage, then: Callable[[], Awaitable[Any]]) -> None:
    """Register a gate in whose phase the call is cancelled, and which then answers without waiting."""

    async def gate(_execution: ToolExecution, _proceed: GateRest) -> GateDecision:
        stage.cancel()
        return await then()

    stage.registry.gate(gate)


def answering(answer: object) -> Callable[[], Awaitable[Any]]:
    """Return what gives ``answer``, raises it if it is an exception, or waits if it is ``wait``."""

    async def answer_it() -> Any:
        if answer == "wait":
            await trio.sleep_forever()
        if answer == "stray":
            raise await stray_cancelled()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return answer_it


@pytest.mark.rule("CA-12", "GA-13", "GA-14")
@pytest.mark.parametrize("who", CANCELLERS)
@pytest.mark.parametrize(
    ("answer", "guard", "expected", "reviewed"),
    [
        (Allow(), None, BEFORE, True),
        (Allow(), "no", "failed DENIED not_dispatched", True),
        (Allow(), ValueError("oops"), "failed POLICY_ERROR not_dispatched", False),
        (Deny("no"), None, "failed DENIED not_dispatched", True),
        (ValueError("oops"), None, "failed POLICY_ERROR not_dispatched", False),
        (ToolError("oops", code="MINE"), None, "failed MINE not_dispatched", False),
        ("wait", None, BEFORE, True),
    ],
)
async def test_a_caller_cancelled_in_the_gates(
    autojump_clock: MockClock, who: Who, answer: object, guard: object, expected: str, reviewed: bool
) -> None:
    stage = Stage(who)
    asked: list[str] = []

    def ask_guard(_execution: ToolExecution) -> Any:
        asked.append("guard")
        if isinstance(guard, Exception):
            raise guard
        return guard

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        stage.log.append("wrapper")
        return await proceed(execution)

    gate_that(stage, answering(answer))
    stage.registry.guard(ask_guard)
    stage.registry.wrap(wrapper)
    result = await stage.run()

    assert facts(result) == stage.ends(expected)
    assert stage.reviewed == ([stage.ends(expected)] if reviewed else [])
    assert asked == (["guard"] if isinstance(answer, Allow) else [])
    assert stage.log == []


@pytest.mark.rule("CA-12")
@pytest.mark.parametrize("who", CANCELLERS)
async def test_a_caller_cancelled_in_a_guard(autojump_clock: MockClock, who: Who) -> None:
    stage = Stage(who)
    stage.registry.guard(lambda _execution: stage.cancel())
    result = await stage.run()

    assert facts(result) == stage.ends(BEFORE)
    assert stage.reviewed == [stage.ends(BEFORE)]
    assert stage.log == []


@pytest.mark.rule("CA-13", "GA-9", "GA-12")
@pytest.mark.parametrize("when", ["in the gate", "in the approval"])
@pytest.mark.parametrize("who", CANCELLERS)
@pytest.mark.parametrize(
    ("answer", "guard", "expected", "reviewed"),
    [
        (Approval.ALLOWED_ONCE, None, BEFORE, True),
        (Approval.ALLOWED_ONCE, "no", "failed DENIED not_dispatched", True),
        (Approval.CANCELLED, "no", BEFORE, True),
        (Approval.REJECTED, None, "failed DENIED not_dispatched", True),
        (Approval.UNAVAILABLE, None, "failed DENIED not_dispatched", True),
        (ValueError("oops"), None, "failed POLICY_ERROR not_dispatched", False),
        ("nonsense", None, "failed POLICY_ERROR not_dispatched", False),
        ("wait", None, BEFORE, True),
    ],
)
async def test_a_caller_cancelled_in_the_approval(
    autojump_clock: MockClock,
    when: str,
    who: Who,
    answer: object,
    guard: str | None,
    expected: str,
    reviewed: bool,
) -> None:
    asked: list[str] = []

    async def approve(execution: ToolExecution, _reason: str | None) -> Approval:
        asked.append("approver")
        if when == "in the approval":
            stage.cancel()
        return await answering(answer)()

    stage = Stage(who, approver=approve)

    async def gate(_execution: ToolExecution, _proceed: GateRest) -> GateDecision:
        if when == "in the gate":
            stage.cancel()
        return Ask("why")

    def ask_guard(_execution: ToolExecution) -> str | None:
        asked.append("guard")
        return guard

    stage.registry.gate(gate)
    stage.registry.guard(ask_guard)
    result = await stage.run()

    assert facts(result) == stage.ends(expected)
    assert stage.reviewed == ([stage.ends(expected)] if reviewed else [])
    assert asked[1:] == (["guard"] if answer is Approval.ALLOWED_ONCE else [])
    assert stage.log == []


@pytest.mark.rule("CA-14", "WR-14", "WR-17", "WR-18")
@pytest.mark.parametrize("who", CANCELLERS)
@pytest.mark.parametrize(
    ("answer", "expected", "reviewed"),
    [
        ("delegate", BEFORE, True),
        (ToolResult.ok("mine", contexts=("wrapper",)), BEFORE, True),
        (ToolResult.failed("mine", code="MINE", contexts=("wrapper",)), "failed MINE not_dispatched", True),
        (ValueError("oops"), "failed POLICY_ERROR not_dispatched", False),
        ("wait", BEFORE, True),
    ],
)
async def test_a_caller_cancelled_in_a_wrapper_before_it_delegates(
    autojump_clock: MockClock, who: Who, answer: Any, expected: str, reviewed: bool
) -> None:
    stage = Stage(who)

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        stage.cancel()
        if answer == "delegate":
            return await proceed(execution)
        return await answering(answer)()

    stage.registry.wrap(wrapper)
    result = await stage.run()

    assert facts(result) == stage.ends(expected)
    assert stage.reviewed == ([stage.ends(expected)] if reviewed else [])
    assert result.contexts == (("wrapper",) if isinstance(answer, ToolResult) else ())
    assert stage.log == []


@pytest.mark.rule("CA-15", "BO-1")
@pytest.mark.parametrize("who", CANCELLERS)
@pytest.mark.parametrize(("name", "arguments"), [("work", {}), ("nobody", {}), ("strict", {"number": "x"})])
async def test_a_caller_cancelled_between_delegation_and_invocation(
    autojump_clock: MockClock, who: Who, name: str, arguments: object
) -> None:
    stage = Stage(who)

    @stage.registry.tool
    async def strict(number: int) -> str:  # pyright: ignore[reportUnusedFunction]
        stage.log.append("body")
        return "strict"

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        stage.cancel()
        return await proceed(execution)

    stage.registry.wrap(wrapper)
    result = await stage.run(name, arguments)

    assert facts(result) == stage.ends(BEFORE)
    assert stage.reviewed == [stage.ends(BEFORE)]
    assert stage.log == []


@pytest.mark.rule("CA-16", "BO-6", "BO-7")
@pytest.mark.parametrize("who", CANCELLERS)
@pytest.mark.parametrize("where", ["function", "task"])
@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("valid", "cancelled ABORTED returned"),
        ("invalid", "failed INVALID_TOOL_OUTPUT returned"),
        ("raises", "failed MINE raised"),
        ("lets go", "cancelled ABORTED cancelled"),
    ],
)
async def test_a_caller_cancelled_in_the_body_or_its_tasks(
    autojump_clock: MockClock, who: Who, where: str, how: str, expected: str
) -> None:
    stage = Stage(who)

    async def act() -> None:
        stage.cancel()
        if how == "raises":
            raise ToolError("mine", code="MINE")

    @stage.registry.tool
    async def acts(ctx: ToolContext) -> str:  # pyright: ignore[reportUnusedFunction]
        ctx.defer_context("kept")
        if where == "function":
            await act()
        else:
            ctx.nursery.start_soon(act)
            if how != "lets go":
                with trio.CancelScope(shield=how != "raises"):
                    await trio.sleep(1)
        if how == "lets go":
            await trio.sleep_forever()
        value: Any = 7 if how == "invalid" else "value"
        return value

    result = await stage.run("acts")

    assert facts(result) == stage.ends(expected)
    assert stage.reviewed == [stage.ends(expected)]
    assert result.contexts == ("kept",)


@pytest.mark.rule("CA-17", "WR-18")
@pytest.mark.parametrize("who", CANCELLERS)
@pytest.mark.parametrize("body", ["returns", "raises"])
@pytest.mark.parametrize(
    ("answer", "expected", "reviewed"),
    [
        ("same", {"returns": ABORTED, "raises": "failed BODY raised"}, True),
        (
            ToolResult.ok("mended", contexts=("wrapper",)),
            {"returns": ABORTED, "raises": "cancelled ABORTED raised"},
            True,
        ),
        (
            ToolResult.failed("mine", code="MINE", contexts=("wrapper",)),
            {"returns": "failed MINE returned", "raises": "failed MINE raised"},
            True,
        ),
        (
            ValueError("oops"),
            {"returns": "failed POLICY_ERROR returned", "raises": "failed POLICY_ERROR raised"},
            False,
        ),
        ("wait", {"returns": ABORTED, "raises": "failed BODY raised"}, True),
    ],
)
async def test_a_caller_cancelled_in_a_wrapper_after_delegating(
    autojump_clock: MockClock, who: Who, body: str, answer: Any, expected: dict[str, str], reviewed: bool
) -> None:
    stage = Stage(who)

    @stage.registry.tool
    async def acts(ctx: ToolContext) -> str:  # pyright: ignore[reportUnusedFunction]
        ctx.defer_context("body")
        if body == "raises":
            raise ToolError("body", code="BODY")
        return "value"

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        result = await proceed(execution)
        stage.cancel()
        return result if answer == "same" else await answering(answer)()

    stage.registry.wrap(wrapper)
    result = await stage.run("acts")

    end = stage.ends(expected[body])
    assert facts(result) == end
    assert stage.reviewed == ([end] if reviewed else [])
    if isinstance(answer, ToolResult):
        assert result.contexts == ("wrapper",)
    else:
        assert result.contexts == (("body",) if reviewed else ())


@pytest.mark.rule("CA-18", "RE-8")
@pytest.mark.parametrize("who", CANCELLERS)
@pytest.mark.parametrize("name", ["work", "fails", "nobody"])
@pytest.mark.parametrize("answer", ["accept", "replace", "block", "raise", "stray"])
async def test_a_caller_cancelled_in_review(
    autojump_clock: MockClock, who: Who, name: str, answer: str
) -> None:
    stage = Stage(who)

    @stage.registry.tool
    async def fails() -> str:  # pyright: ignore[reportUnusedFunction]
        raise ToolError("body", code="BODY")

    async def review(_execution: ToolExecution, _result: ToolResult, _proceed: ReviewRest) -> ReviewDecision:
        stage.cancel()
        await trio.sleep(3)
        match answer:
            case "accept":
                return Accept(contexts=("review",))
            case "replace":
                return Accept(content="replaced")
            case "block":
                return Block("blocked", contexts=("review",))
            case "raise":
                raise ValueError("oops")
            case _:
                raise await stray_cancelled()

    stage.registry.review(review)
    result = await stage.run(name)

    settled = {"work": "returned", "fails": "raised", "nobody": "not_dispatched"}[name]
    kept = {"work": "", "fails": "failed BODY raised", "nobody": "failed UNKNOWN_TOOL not_dispatched"}[name]
    expected = {
        "accept": kept or stage.ends(ABORTED),
        "replace": kept or stage.ends(ABORTED),
        "block": f"failed BLOCKED {settled}",
        "raise": f"failed POLICY_ERROR {settled}",
        "stray": f"failed POLICY_ERROR {settled}",
    }[answer]
    assert facts(result) == expected
    if answer == "replace" and kept:
        assert result.text == "replaced"
    if answer == "replace" and not kept:
        assert result.text == "Error: tool call aborted"
    body = ("from the body",) if name == "work" else ()
    assert (
        result.contexts
        == {
            "accept": (*body, "review"),
            "replace": body,
            "block": ("review",),
            "raise": (),
            "stray": (),
        }[answer]
    )


@pytest.mark.rule("CA-18", "RE-8")
async def test_a_success_without_dispatch_cancelled_in_review_is_before_dispatch(
    autojump_clock: MockClock,
) -> None:
    stage = Stage("caller")

    async def wrapper(_execution: DispatchExecution, _proceed: Proceed) -> ToolResult:
        return ToolResult.ok("cached", contexts=("wrapper",))

    async def review(_execution: ToolExecution, _result: ToolResult, proceed: ReviewRest) -> ReviewDecision:
        stage.cancel()
        return await proceed()

    stage.registry.wrap(wrapper)
    stage.registry.review(review)
    result = await stage.run()

    assert facts(result) == stage.ends(BEFORE)
    assert result.contexts == ("wrapper",)


@pytest.mark.rule("CA-19", "PU-7", "PU-8")
@pytest.mark.parametrize("who", CANCELLERS)
@pytest.mark.parametrize("place", ["finalizer", "observer", "later"])
@pytest.mark.parametrize("how", ["works", "fails"])
async def test_a_caller_cancelled_in_the_finalizer_or_later(
    autojump_clock: MockClock, who: Who, place: str, how: str
) -> None:
    stage = Stage(who)

    def finalize(_execution: ToolExecution, _result: ToolResult) -> None:
        if place == "finalizer":
            stage.cancel()

    @stage.registry.tool(finalize=finalize)
    async def acts() -> str:  # pyright: ignore[reportUnusedFunction]
        if how == "fails":
            raise ToolError("body", code="BODY")
        return "worked"

    def observer(_execution: ToolExecution, _result: ToolResult) -> None:
        if place == "observer":
            stage.cancel()

    stage.registry.observe(observer)
    result = await stage.run("acts")
    if place == "later":
        stage.cancel()

    assert facts(result) == ("ok returned" if how == "works" else "failed BODY raised")
    assert stage.returned is result


@pytest.mark.rule("CA-19", "PU-3", "CA-22")
@pytest.mark.parametrize("who", CANCELLERS)
async def test_a_finalizer_that_cancels_and_raises_is_an_error(autojump_clock: MockClock, who: Who) -> None:
    stage = Stage(who)

    def finalize(_execution: ToolExecution, _result: ToolResult) -> None:
        stage.cancel()
        raise ValueError("oops")

    @stage.registry.tool(finalize=finalize)
    async def acts() -> str:  # pyright: ignore[reportUnusedFunction]
        return "worked"

    result = await stage.run("acts")

    assert facts(result) == "failed POLICY_ERROR returned"
    assert stage.returned is result


@pytest.mark.rule("CA-20", "BA-10")
async def test_a_batch_sibling_that_never_started_is_published_before_dispatch(
    autojump_clock: MockClock,
) -> None:
    stage = Stage("caller")
    asked: list[str] = []

    @stage.registry.tool
    async def cancels() -> str:
        stage.cancel()
        return "worked"

    async def gate(execution: ToolExecution, proceed: GateRest) -> GateDecision:
        asked.append(execution.name)
        return await proceed()

    stage.registry.gate(gate)
    async with open_call_scope() as stage.scope:
        results = await stage.registry.execute_batch(
            [call(stage.scope, "cancels"), call(stage.scope, "work", late=True)]
        )

    assert asked == ["cancels"]
    assert [facts(result) for result in results] == [ABORTED + " caller:caller", BEFORE + " caller:caller"]
    assert stage.reviewed == [ABORTED + " caller:caller"]
    assert stage.seen.executions[1].arguments is None


@pytest.mark.rule("CA-21")
@pytest.mark.parametrize(
    ("place", "answer", "expected", "reviewed"),
    [
        ("gate", Allow(), "ok returned", True),
        ("gate", Deny("no"), "failed DENIED not_dispatched", True),
        ("gate", ValueError("oops"), "failed POLICY_ERROR not_dispatched", False),
        ("gate", "stray", "failed POLICY_ERROR not_dispatched", False),
        ("approver", Approval.ALLOWED_ONCE, "ok returned", True),
        ("approver", Approval.CANCELLED, "failed DENIED not_dispatched", True),
        ("approver", ValueError("oops"), "failed POLICY_ERROR not_dispatched", False),
        ("approver", "stray", "failed POLICY_ERROR not_dispatched", False),
        ("guard", None, "ok returned", True),
        ("guard", "no", "failed DENIED not_dispatched", True),
        ("guard", ValueError("oops"), "failed POLICY_ERROR not_dispatched", False),
        ("wrapper", ToolResult.ok("mine"), "ok not_dispatched", True),
        ("wrapper", ToolResult.failed("mine", code="MINE"), "failed MINE not_dispatched", True),
        ("wrapper", ValueError("oops"), "failed POLICY_ERROR not_dispatched", False),
        ("wrapper", "stray", "failed POLICY_ERROR not_dispatched", False),
        ("body", "worked", "ok returned", True),
        ("body", ValueError("oops"), "failed TOOL_ERROR raised", True),
        ("body", "stray", "failed TOOL_ERROR cancelled", True),
        ("reviewer", Accept(), "ok returned", True),
        ("reviewer", Block("no"), "failed BLOCKED returned", True),
        ("reviewer", ValueError("oops"), "failed POLICY_ERROR returned", True),
        ("reviewer", "stray", "failed POLICY_ERROR returned", True),
    ],
)
async def test_the_results_where_nothing_is_cancelled(
    autojump_clock: MockClock, place: str, answer: Any, expected: str, reviewed: bool
) -> None:
    async def approve(_execution: ToolExecution, _reason: str | None) -> Approval:
        return await answering(answer)()

    stage = Stage("nobody", approver=approve)

    async def gate(_execution: ToolExecution, _proceed: GateRest) -> GateDecision:
        if place == "approver":
            return Ask()
        return await answering(answer)() if place == "gate" else Allow()

    def guard(_execution: ToolExecution) -> Any:
        if place == "guard" and isinstance(answer, Exception):
            raise answer
        return answer if place == "guard" else None

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        return await answering(answer)() if place == "wrapper" else await proceed(execution)

    @stage.registry.tool
    async def acts() -> str:  # pyright: ignore[reportUnusedFunction]
        return await answering(answer)() if place == "body" else "worked"

    async def review(_execution: ToolExecution, _result: ToolResult, _proceed: ReviewRest) -> ReviewDecision:
        return await answering(answer)() if place == "reviewer" else Accept()

    stage.registry.gate(gate)
    stage.registry.guard(guard)
    stage.registry.wrap(wrapper)
    stage.registry.review(review)
    result = await stage.run("acts")

    assert facts(result) == expected
    assert bool(stage.reviewed) is reviewed
    assert stage.returned is result


@pytest.mark.rule("CA-21", "GA-13")
@pytest.mark.parametrize("place", ["guard", "finalizer"])
async def test_a_cancelled_out_of_a_synchronous_phase_is_always_stray(
    autojump_clock: MockClock, place: str
) -> None:
    for who in ("nobody", "caller"):
        stage = Stage(who)
        stray = await stray_cancelled()

        def raise_stray(*_arguments: object, stage: Stage = stage, stray: BaseException = stray) -> None:
            stage.cancel()
            raise stray

        @stage.registry.tool(finalize=raise_stray if place == "finalizer" else None)
        async def acts() -> str:
            return "worked"

        if place == "guard":
            stage.registry.guard(raise_stray)
        result = await stage.run("acts")
        settled = "returned" if place == "finalizer" else "not_dispatched"
        assert facts(result) == f"failed POLICY_ERROR {settled}"
        assert stage.returned is result


@pytest.mark.rule("CA-22")
@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("interrupt", "finalizer", "cancelled ABORTED raised"),
        ("finalizer", "review", "POLICY_ERROR finalizer"),
        ("finalizer", "not json", "POLICY_ERROR finalizer"),
        ("finalizer", "body", "POLICY_ERROR finalizer"),
        ("finalizer", "cancel", "POLICY_ERROR finalizer"),
        ("not json", "cancel at entry", "NOT_JSON"),
        ("review", "body", "POLICY_ERROR review"),
        ("review", "cancel", "POLICY_ERROR review"),
        ("block", "body", "BLOCKED"),
        ("block", "cancel", "BLOCKED"),
        ("wrapper", "body", "POLICY_ERROR wrapper"),
        ("wrapper", "cancel", "POLICY_ERROR wrapper"),
        ("denial", "cancel", "DENIED"),
        ("body", "cancel", "TOOL_ERROR body"),
    ],
)
async def test_the_precedence_of_what_may_decide(
    autojump_clock: MockClock, first: str, second: str, expected: str
) -> None:
    both = {first, second}
    stage = Stage("caller")

    def finalize(_execution: ToolExecution, _result: ToolResult) -> None:
        if "finalizer" in both and "interrupt" not in both:
            raise ValueError("finalizer")

    @stage.registry.tool(finalize=finalize)
    async def acts() -> str:  # pyright: ignore[reportUnusedFunction]
        if "cancel" in both:
            stage.cancel()
        if "interrupt" in both:
            raise KeyboardInterrupt
        if "body" in both:
            raise ValueError("body")
        return "worked"

    async def gate(_execution: ToolExecution, _proceed: GateRest) -> GateDecision:
        if "denial" in both:
            stage.cancel()
            return Deny("no")
        return Allow()

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        result = await proceed(execution)
        if "wrapper" in both:
            raise ValueError("wrapper")
        return result

    async def review(_execution: ToolExecution, _result: ToolResult, _proceed: ReviewRest) -> ReviewDecision:
        if "review" in both:
            raise ValueError("review")
        return Block("blocked") if "block" in both else Accept()

    stage.registry.gate(gate)
    stage.registry.wrap(wrapper)
    stage.registry.review(review)
    interrupted = False
    async with open_call_scope() as stage.scope:
        if "cancel at entry" in both:
            stage.cancel()
        arguments: Any = {"bad": {1}} if "not json" in both else {}
        try:
            await stage.registry.execute(ToolCall(name="acts", arguments=arguments, scope=stage.scope))
        except KeyboardInterrupt:
            interrupted = True
        except BaseExceptionGroup as group:
            interrupted = group.split(KeyboardInterrupt)[1] is None

    result = stage.seen.only
    assert interrupted is ("interrupt" in both)
    if interrupted:
        assert facts(result) == expected
    else:
        code, _, message = expected.partition(" ")
        assert result.code == code
        assert not message or result.text == f"Error: {message}"


@pytest.mark.rule("CA-1")
async def test_the_callers_own_shield_hides_scopes_outside_of_it_from_the_predicate(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed()

    @registry.tool
    async def work() -> str:
        return "worked"

    with trio.CancelScope() as outer, trio.CancelScope(shield=True):
        async with open_call_scope() as scope:
            outer.cancel()
            await registry.execute(call(scope, "work"))

    assert facts(seen.only) == "ok returned"


@pytest.mark.rule("CA-2", "CA-5")
@pytest.mark.parametrize("passes", range(14))
@pytest.mark.parametrize("who", ["caller", "ambient"])
async def test_a_cancellation_after_any_number_of_passes_is_classified_consistently(
    autojump_clock: MockClock, passes: int, who: Who
) -> None:
    stage = Stage(who)

    async def gate(_execution: ToolExecution, _proceed: GateRest) -> GateDecision:
        await trio.lowlevel.checkpoint()
        return Allow()

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        await trio.lowlevel.checkpoint()
        result = await proceed(execution)
        await trio.lowlevel.checkpoint()
        return result

    stage.registry.gate(gate)
    stage.registry.wrap(wrapper)

    async def cancel_after_passes() -> None:
        for _ in range(passes):
            await trio.lowlevel.checkpoint()
        stage.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(cancel_after_passes)
        result = await stage.run()

    if stage.log:
        assert facts(result) in (stage.ends(ABORTED), "ok returned")
    else:
        assert facts(result) == stage.ends(BEFORE)
    assert (stage.returned is None) is (who == "ambient" and result.outcome is ToolOutcome.CANCELLED)


def test_the_table_never_lets_a_cancelled_caller_have_a_success() -> None:
    for place in Place:
        verdict, path = classify(place, Came.SUCCESS, True)
        if verdict is Verdict.GO:
            assert path is Path.ON
        else:
            assert verdict is Verdict.CUT


def test_the_table_never_replaces_a_failure() -> None:
    for place in Place:
        for cancelled in (False, True):
            for came in (Came.FAILURE, Came.RAISED):
                verdict, path = classify(place, came, cancelled)
                assert verdict in (Verdict.GO, Verdict.ERROR)
                assert path is not Path.ON
