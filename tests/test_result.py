"""The result of a call: immutable, free of contradictions, silent about what it holds."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from typing import Any

import pytest
import trio
from attrs import evolve, fields
from attrs.exceptions import FrozenInstanceError
from trio.testing import MockClock

from tests.helpers import Proceed, ReviewRest, call, facts, observed
from trio_tools import (
    Artifact,
    ArtifactType,
    CancelCause,
    CauseKind,
    Context,
    DispatchExecution,
    FrozenDict,
    FrozenList,
    ImageContent,
    ReviewDecision,
    Settlement,
    TextContent,
    ToolCall,
    ToolContext,
    ToolError,
    ToolExecution,
    ToolFailure,
    ToolOutcome,
    ToolResult,
    WriteKind,
    WriteTarget,
    open_call_scope,
    tool,
)

MEMBERS = [field.name for field in fields(ToolResult)]
FAILURE = ToolFailure("message", "CODE", "Name")
NOTE = Artifact(ArtifactType.TEXT, "note", {"text": "noted"})
TARGET = WriteTarget("notes", 7, WriteKind.CREATED)

EXAMPLES: dict[str, Callable[[], ToolResult]] = {
    "ok": lambda: ToolResult.ok({"a": [1]}, content="text", contexts=["c"], artifacts=[NOTE], write=TARGET),
    "failed": lambda: ToolResult.failed("message", code="CODE"),
    "cancelled": lambda: ToolResult.cancelled("message"),
}


@pytest.mark.rule("OU-1", "MA-15")
@pytest.mark.parametrize("example", EXAMPLES)
@pytest.mark.parametrize("name", MEMBERS)
def test_no_member_of_a_result_can_be_assigned_or_deleted(example: str, name: str) -> None:
    result = EXAMPLES[example]()
    before = getattr(result, name)
    with pytest.raises(FrozenInstanceError):
        setattr(result, name, before)
    with pytest.raises(FrozenInstanceError):
        delattr(result, name)

    assert getattr(result, name) is before


@pytest.mark.rule("OU-1")
@pytest.mark.parametrize(("example", "is_error"), [("ok", False), ("failed", True), ("cancelled", True)])
def test_is_error_is_derived_and_there_is_no_second_flag(example: str, is_error: bool) -> None:
    result: Any = EXAMPLES[example]()
    with pytest.raises((AttributeError, FrozenInstanceError)):
        result.is_error = not is_error
    with pytest.raises(TypeError):
        evolve(result, is_error=not is_error)

    assert result.is_error is is_error
    assert "is_error" not in MEMBERS


@pytest.mark.rule("OU-1", "MA-15")
def test_what_a_result_is_made_of_is_copied_and_frozen() -> None:
    value: Any = {"list": [1]}
    contexts: list[Context] = ["one"]
    artifacts = [NOTE]
    result = ToolResult.ok(value, meta=value, contexts=contexts, artifacts=artifacts)
    value["list"].append(2)
    contexts.append("two")
    artifacts.clear()

    assert result.value == result.meta == {"list": [1]}
    assert isinstance(result.value, FrozenDict)
    assert isinstance(result.value["list"], FrozenList)
    assert result.contexts == ("one",)
    assert result.artifacts == (NOTE,)


CONTRADICTIONS: list[dict[str, Any]] = [
    {"outcome": "ok", "error": FAILURE},
    {"outcome": "failed"},
    {"outcome": "failed", "error": ToolFailure("message", "", "Name")},
    {"outcome": "failed", "error": FAILURE, "value": 1},
    {"outcome": "failed", "error": FAILURE, "value": False},
    {"outcome": "failed", "error": FAILURE, "artifacts": [NOTE]},
    {"outcome": "failed", "error": FAILURE, "write": TARGET},
    {"outcome": "failed", "error": FAILURE, "concludes": True},
    {"outcome": "cancelled"},
    {"outcome": "cancelled", "error": FAILURE, "value": ""},
    {"outcome": "cancelled", "error": FAILURE, "artifacts": [NOTE]},
    {"outcome": "cancelled", "error": FAILURE, "write": TARGET},
    {"outcome": "cancelled", "error": FAILURE, "concludes": True},
    {"outcome": "unknown"},
    {"outcome": None},
    {"outcome": "ok", "settlement": "never"},
]


@pytest.mark.rule("OU-2")
@pytest.mark.parametrize("members", CONTRADICTIONS, ids=lambda each: ",".join(map(str, each)))
def test_contradictions_raise_from_the_constructor_and_from_evolve(members: dict[str, Any]) -> None:
    sound = EXAMPLES["failed" if members["outcome"] == "ok" else "ok"]()
    bare: dict[str, Any] = {"value": None, "artifacts": (), "write": None, "error": None, "concludes": False}
    with pytest.raises(ValueError):  # noqa: PT011
        ToolResult(content="text", **members)
    with pytest.raises(ValueError):  # noqa: PT011
        evolve(sound, **(bare | members))


@pytest.mark.rule("OU-2")
def test_evolve_between_sound_results_is_allowed() -> None:
    failed = evolve(EXAMPLES["ok"](), outcome="failed", error=FAILURE, value=None, artifacts=(), write=None)
    other = evolve(failed, content="other words")

    assert failed.outcome is ToolOutcome.FAILED
    assert (other.text, other.code) == ("other words", "CODE")


@pytest.mark.rule("OU-2")
@pytest.mark.parametrize("content", [None, 7, {"text": "x"}, [7], [None], object()])
def test_content_that_is_none_is_refused(content: Any) -> None:
    with pytest.raises(TypeError):
        ToolResult(outcome=ToolOutcome.OK, content=content)


@pytest.mark.rule("OU-3")
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ToolError("tool call aborted", code="ABORTED"), "ABORTED"),
        (ToolError("x", code="ABORTED_BEFORE_DISPATCH"), "ABORTED_BEFORE_DISPATCH"),
        (ToolError("cancelled", code="cancelled"), "cancelled"),
        (ToolError("fine", code="ok"), "ok"),
        (TimeoutError("timed out after 30 s"), "TOOL_ERROR"),
        (trio.TooSlowError(), "TOOL_ERROR"),
        (concurrent.futures.CancelledError(), "TOOL_ERROR"),
        (RuntimeError("Cancelled"), "TOOL_ERROR"),
    ],
    ids=lambda each: each if isinstance(each, str) else type(each).__name__,
)
async def test_no_code_text_or_type_of_an_exception_makes_a_failure_a_cancellation(
    autojump_clock: MockClock, error: Exception, code: str
) -> None:
    """A tool's own TimeoutError is no timeout of the tool (case 28)."""
    registry, seen = observed()

    @registry.tool(timeout=30)
    async def raises() -> str:
        raise error

    async with open_call_scope() as scope:
        await registry.execute(call(scope, "raises"))

    assert facts(seen.only) == f"failed {code} raised"
    assert seen.only.cause is None
    assert trio.current_time() == 0.0


@pytest.mark.rule("OU-3")
@pytest.mark.parametrize("code", ["ABORTED", "ABORTED_BEFORE_DISPATCH", "TOOL_TIMEOUT"])
async def test_a_wrapper_that_fails_a_call_with_the_code_of_a_cancellation_fails_it(
    autojump_clock: MockClock, code: str
) -> None:
    registry, seen = observed()

    async def wrapper(_execution: DispatchExecution, _proceed: Proceed) -> ToolResult:
        return ToolResult.failed("tool call aborted", code=code)

    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "anything"))

    assert facts(seen.only) == f"failed {code} not_dispatched"


@pytest.mark.rule("OU-4")
async def test_nothing_but_the_rendering_of_the_value_gets_into_the_content(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed()

    def render(_arguments: object, _value: object) -> str:
        return "for the model"

    def meta(_arguments: object, _value: object) -> dict[str, str]:
        return {"meta": "SECRET"}

    @registry.tool(render=render, meta=meta)
    async def rich(*, ctx: ToolContext) -> dict[str, str]:
        ctx.attach(Artifact(ArtifactType.TEXT, "SECRET", {"text": "SECRET"}))
        ctx.wrote("SECRET", 7, WriteKind.UPDATED)
        ctx.defer_context("SECRET")
        ctx.conclude()
        return {"value": "SECRET"}

    async with open_call_scope() as scope:
        await registry.execute(call(scope, "rich"))

    assert facts(seen.only) == "ok returned"
    assert seen.only.content == (TextContent("for the model"),)


@pytest.mark.rule("OU-5")
@pytest.mark.parametrize("text", ["", "plain", "Error: already", "two\nlines"])
def test_failed_and_cancelled_use_text_verbatim(text: str) -> None:
    failed, cancelled = ToolResult.failed(text), ToolResult.cancelled(text)

    for result in (failed, cancelled):
        assert result.content == (TextContent(text),)
        assert result.error is not None
        assert result.error.message == result.text == text
    assert (failed.code, cancelled.code) == ("TOOL_ERROR", "ABORTED")
    assert (failed.outcome, cancelled.outcome) == (ToolOutcome.FAILED, ToolOutcome.CANCELLED)
    assert failed.settlement is cancelled.settlement is Settlement.NOT_DISPATCHED


@pytest.mark.rule("OU-5", "WR-16")
async def test_the_registry_adds_no_word_to_a_failure_that_a_wrapper_made(autojump_clock: MockClock) -> None:
    registry, seen = observed()

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        if execution.name == "raises":
            return await proceed(execution)
        return ToolResult.failed("as it is", code="MINE")

    @registry.tool
    async def raises() -> str:
        raise ValueError("as it was")

    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "anything"))
        await registry.execute(call(scope, "raises"))

    assert [result.text for result in seen.results] == ["as it is", "Error: as it was"]


@pytest.mark.rule("OU-6")
async def test_printing_shows_nothing_that_a_call_or_result_holds(autojump_clock: MockClock) -> None:
    registry, seen = observed()
    printed: list[object] = []

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        printed.extend([execution, execution.with_timeout(5, name="mine")])
        return await proceed(execution)

    async def review(execution: ToolExecution, result: ToolResult, proceed: ReviewRest) -> ReviewDecision:
        printed.extend([execution, result])
        return await proceed()

    @registry.tool
    async def rich(word: str, fails: bool, *, ctx: ToolContext) -> dict[str, str]:
        printed.append(ctx)
        artifact = Artifact(ArtifactType.TEXT, "SECRET", {"text": "SECRET"})
        ctx.attach(artifact)
        ctx.defer_context("SECRET")
        ctx.progress(1, 2, "SECRET")
        printed.extend([artifact, registry.statistics()])
        if fails:
            raise ToolError("SECRET", code="MINE")
        return {"word": word}

    registry.wrap(wrapper)
    registry.review(review)
    async with open_call_scope() as scope:
        for fails in (False, True):
            made = call(scope, "rich", word="SECRET", fails=fails)
            printed.append(made)
            await registry.execute(made)
    printed += [
        *seen.results,
        *(result.error for result in seen.results),
        TextContent("SECRET"),
        ImageContent("SECRET", "image/png"),
        ToolResult.failed("SECRET"),
        ToolResult.cancelled("SECRET"),
        ToolResult.ok("SECRET", content="SECRET", meta="SECRET", contexts=["SECRET"]),
        ToolCall(name="x", arguments=["SECRET"], scope=scope),
    ]

    for each in printed:
        for text in (repr(each), str(each), f"{each}", f"{[each]}"):
            assert "SECRET" not in text, text


@pytest.mark.rule("OU-6")
def test_printing_shows_the_facts() -> None:
    cause = CancelCause(CauseKind.DEADLINE, "timeout", None, 3.0)
    result = ToolResult.failed("text", code="TOOL_TIMEOUT", settlement=Settlement.RETURNED, cause=cause)

    assert repr(result) == (
        "<ToolResult failed, code='TOOL_TIMEOUT', settlement=returned, cause=deadline:timeout>"
    )
    assert repr(ToolResult.ok(7)) == "<ToolResult ok, settlement=not_dispatched>"


@pytest.mark.rule("OU-9")
@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("one", "one"),
        ([], ""),
        (["one", "two"], "one\ntwo"),
        (["one", ImageContent("aGk=", "image/png"), TextContent("three")], "one\nthree"),
        ([ImageContent("aGk=", "image/png")], ""),
        (["", ""], "\n"),
        (b"caf\xc3\xa9 \xff", "café \ufffd"),
    ],
)
def test_text_joins_the_text_parts(content: Any, text: str) -> None:
    assert ToolResult.ok(content=content).text == text


@pytest.mark.rule("OU-9")
def test_the_words_of_settlement_and_outcome() -> None:
    assert [each.value for each in Settlement] == ["not_dispatched", "returned", "raised", "cancelled"]
    assert [each.value for each in ToolOutcome] == ["ok", "failed", "cancelled"]
    assert [each.value for each in CauseKind] == ["caller", "deadline", "ambient", "sibling"]


@pytest.mark.rule("OU-9", "ST-7")
@pytest.mark.parametrize("settlement", list(Settlement))
@pytest.mark.parametrize("make", [ToolResult.ok, ToolResult.failed, ToolResult.cancelled])
def test_dispatched_is_derived_from_the_settlement(settlement: Settlement, make: Any) -> None:
    result = make("text", settlement=settlement)

    assert result.settlement is settlement
    assert result.dispatched is (settlement is not Settlement.NOT_DISPATCHED)


@pytest.mark.rule("OU-1")
def test_results_with_equal_members_are_equal() -> None:
    assert EXAMPLES["ok"]() == EXAMPLES["ok"]()
    assert EXAMPLES["ok"]() != evolve(EXAMPLES["ok"](), content="other")


@pytest.mark.rule("OU-2")
def test_a_value_that_json_would_lose_is_kept_for_the_registry_to_refuse() -> None:
    lossy: Any = {1, 2}

    assert ToolResult.ok(lossy).value is lossy


@tool
async def plain() -> str:
    """Return at once."""
    return "plain"


@pytest.mark.rule("OU-3", "WR-16")
async def test_a_cancelled_result_is_never_made_out_of_nothing(autojump_clock: MockClock) -> None:
    registry, seen = observed(plain)

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        await proceed(execution)
        return ToolResult.cancelled("tool call aborted")

    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "plain"))

    assert facts(seen.only) == "failed POLICY_ERROR returned"


@pytest.mark.rule("OU-2")
@pytest.mark.parametrize("member", ["message", "code", "name"])
def test_what_a_failure_says_is_text(member: str) -> None:
    wrong: dict[str, Any] = {member: 5}
    with pytest.raises(TypeError, match="strings, not 5"):
        evolve(FAILURE, **wrong)

    named = evolve(FAILURE, code=CauseKind.SIBLING)

    assert (type(named.code), named.code) == (str, "sibling")


@pytest.mark.rule("OU-2")
def test_an_error_that_is_no_failure_is_none() -> None:
    wrong: Any = "message"
    with pytest.raises(ValueError, match="needs an error with a code"):
        evolve(EXAMPLES["failed"](), error=wrong)


@pytest.mark.rule("OU-1", "MA-15")
def test_the_contexts_of_a_result_made_by_hand_are_detached_and_frozen() -> None:
    message: Any = {"list": [1]}
    result = ToolResult.ok(contexts=["text", message])
    message["list"].append(2)
    kept: Any = result.contexts[1]

    assert result.contexts == ("text", {"list": [1]})
    with pytest.raises(TypeError):
        kept["list"].append(2)


@pytest.mark.rule("BD-8", "PU-5", "WR-17")
@pytest.mark.parametrize("foreign", [3, None, "ab", {"type": "text"}])
async def test_what_is_no_artifact_does_not_get_as_far_as_the_bounds(
    foreign: Any, autojump_clock: MockClock
) -> None:
    registry, seen = observed(plain)

    async def wrapper(_execution: DispatchExecution, _proceed: Proceed) -> ToolResult:
        return ToolResult.ok("plain", artifacts=[NOTE, foreign])

    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        result = await registry.execute(call(scope, "plain"))

    assert facts(result) == "failed POLICY_ERROR not_dispatched"
    assert seen.only is result


@pytest.mark.rule("WR-14")
async def test_a_conclusion_made_by_a_wrapper_is_true_or_none(autojump_clock: MockClock) -> None:
    registry, seen = observed(plain)
    sure: Any = "yes"

    async def wrapper(_execution: DispatchExecution, _proceed: Proceed) -> ToolResult:
        return ToolResult.ok("plain", concludes=sure)

    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "plain"))

    assert seen.only.concludes is False
