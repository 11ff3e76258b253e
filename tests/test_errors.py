"""What went wrong, told in words: texts of exceptions, codes, masks, and the messages of each rule."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable
from enum import StrEnum
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.helpers import GateRest, Proceed, Recorder, ReviewRest, call, facts, observed, stray_cancelled
from trio_tools import (
    Accept,
    Allow,
    Bounds,
    DefinitionError,
    DispatchExecution,
    GateDecision,
    RegistrationError,
    Registry,
    ReviewDecision,
    ToolCall,
    ToolContext,
    ToolError,
    ToolExecution,
    ToolFailure,
    ToolResult,
    TransportError,
    open_call_scope,
    tool,
)
from trio_tools._errors import text_of


class EmptyError(Exception):
    def __str__(self) -> str:
        return ""


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text of me")


class NoTextError(Exception):
    def __str__(self) -> str:
        wrong: Any = 7
        return wrong


class Sly(str):
    __slots__ = ()

    def __format__(self, _spec: str) -> str:
        raise RuntimeError("no format of me")

    def __str__(self) -> str:
        raise RuntimeError("no text of me")


class SlyError(Exception):
    def __str__(self) -> str:
        return Sly("sly text")


TEXTS = [
    (ValueError("the text"), "the text"),
    (ValueError(), "ValueError"),
    (trio.TooSlowError(), "TooSlowError"),
    (EmptyError("ignored"), "EmptyError"),
    (UnprintableError("x"), "<unprintable UnprintableError>"),
    (NoTextError("x"), "<unprintable NoTextError>"),
    (SlyError("x"), "sly text"),
    (KeyError("key"), "'key'"),
    (OSError(2, "No such file"), "[Errno 2] No such file"),
    (ValueError("two\nlines"), "two\nlines"),
]


@pytest.mark.rule("JS-9")
@pytest.mark.parametrize(("error", "text"), TEXTS, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("who", ["body", "gate", "guard", "wrapper", "reviewer"])
async def test_the_text_of_an_exception_is_the_message(
    autojump_clock: MockClock, error: Exception, text: str, who: str
) -> None:
    registry, seen = raising(who, error)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "work"))

    result = seen.only
    assert result.outcome.value == "failed"
    code = "TOOL_ERROR" if who == "body" else "POLICY_ERROR"
    assert result.text == f"Error: {text}"
    assert result.error == ToolFailure(text, code, type(error).__name__)


def raising(who: str, error: Exception, **options: Any) -> tuple[Registry, Recorder]:
    """Make a registry whose ``who`` raises ``error`` in every call of ``work``."""
    registry, seen = observed(**options)

    def raise_if(name: str) -> None:
        if name == who:
            raise error

    def finalize(_execution: ToolExecution, _result: ToolResult) -> None:
        raise_if("finalizer")

    async def gate(_execution: ToolExecution, _proceed: GateRest) -> GateDecision:
        raise_if("gate")
        return Allow()

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        raise_if("wrapper")
        return await proceed(execution)

    async def review(_execution: ToolExecution, _result: ToolResult, _proceed: ReviewRest) -> ReviewDecision:
        raise_if("reviewer")
        return Accept()

    @registry.tool(finalize=finalize)
    async def work() -> str:  # pyright: ignore[reportUnusedFunction]
        raise_if("body")
        return "worked"

    registry.gate(gate)
    registry.guard(lambda _execution: raise_if("guard"))
    registry.wrap(wrapper)
    registry.review(review)
    return registry, seen


@pytest.mark.rule("JS-9")
@pytest.mark.parametrize(("error", "text"), TEXTS, ids=lambda each: type(each).__name__)
def test_the_text_of_an_exception_is_an_honest_string(error: Exception, text: str) -> None:
    told = text_of(error)

    assert told == text
    assert type(told) is str
    assert f"{told}" == text


class RefusalError(ToolError):
    """A subclass with a code of its own."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="REFUSED")


class LookalikeError(Exception):
    code = "ABORTED"
    message = "looks like one"


@pytest.mark.rule("JS-10", "OU-3")
@pytest.mark.parametrize("who", ["body", "gate", "guard", "wrapper", "reviewer", "finalizer"])
@pytest.mark.parametrize("code", ["MINE", "ok", "cancelled", "ABORTED", "not a name at all", "\N{SNOWMAN}"])
async def test_a_coded_error_keeps_code_and_message_and_is_a_failure_all_the_same(
    autojump_clock: MockClock, who: str, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    registry, seen = raising(who, ToolError("on purpose", code=code))
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "work"))

    result = seen.only
    assert (result.outcome.value, result.code, result.text) == ("failed", code, "Error: on purpose")
    assert caplog.records == []


@pytest.mark.rule("JS-10")
async def test_a_code_comes_from_a_tool_error_or_a_subclass_alone(autojump_clock: MockClock) -> None:
    results: list[ToolResult] = []
    for error in (RefusalError("no"), LookalikeError("no")):
        registry, seen = raising("body", error)
        async with open_call_scope() as scope:
            await registry.execute(call(scope, "work"))
        results.append(seen.only)

    assert [result.code for result in results] == ["REFUSED", "TOOL_ERROR"]
    assert [result.text for result in results] == ["Error: no", "Error: no"]
    assert [result.error and result.error.name for result in results] == ["RefusalError", "LookalikeError"]


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.rule("JS-10")
@pytest.mark.parametrize("code", ["", None, 7, b"MINE", ["MINE"], 10**5000, Unprintable()], ids=range(7))
def test_a_code_is_a_string_that_is_not_empty(code: Any) -> None:
    with pytest.raises(ValueError, match="code"):
        ToolError("message", code=code)


class Code(StrEnum):
    MINE = "mine"


class Evil(str):
    __slots__ = ()

    def __bool__(self) -> bool:
        raise RuntimeError("no")

    def __str__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.rule("JS-10")
@pytest.mark.parametrize("code", [Code.MINE, Evil("mine")], ids=["enum", "evil"])
def test_a_code_of_a_class_of_its_own_is_kept_as_plain_text(code: str) -> None:
    error = ToolError("message", code=code)

    assert error.code == "mine"
    assert type(error.code) is str


@pytest.mark.rule("JS-10")
def test_a_tool_error_survives_pickling() -> None:
    error = RefusalError("no")
    plain = ToolError("no", code="MINE")
    for original in (error, plain):
        copied = pickle.loads(pickle.dumps(original))
        assert type(copied) is type(original)
        assert (str(copied), copied.message, copied.code) == (str(original), original.message, original.code)


@pytest.mark.rule("JS-11")
@pytest.mark.parametrize("who", ["body", "gate", "guard", "wrapper", "reviewer", "finalizer"])
@pytest.mark.parametrize("coded", [False, True])
async def test_masking_replaces_the_text_of_uncoded_errors_alone(
    autojump_clock: MockClock, who: str, coded: bool, caplog: pytest.LogCaptureFixture
) -> None:
    error = ToolError("told", code="MINE") if coded else ValueError("SECRET")
    registry, seen = raising(who, error, mask_errors=True)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "work"))

    what = 'tool "work" failed' if who == "body" else 'policy for tool "work" failed'
    message = "told" if coded else what
    result = seen.only
    assert result.error is not None
    assert (result.error.message, result.text) == (message, f"Error: {message}")
    assert "SECRET" not in f"{result.error.message}{result.text}"
    # The people who run the program are told all the same.
    assert ("SECRET" in caplog.text) is not coded


@pytest.mark.rule("JS-11", "BO-8")
async def test_masking_reaches_into_exception_groups(autojump_clock: MockClock) -> None:
    group = ExceptionGroup("SECRET", [ValueError("SECRET"), ToolError("told", code="MINE")])
    registry, seen = raising("body", group, mask_errors=True)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "work"))

    result = seen.only
    assert result.error is not None
    assert result.error.message == 'tool "work" failed; told'
    assert result.code == "TOOL_ERROR"


@pytest.mark.rule("JS-11")
@pytest.mark.parametrize("what", ["render", "meta"])
async def test_masking_reaches_render_and_meta(autojump_clock: MockClock, what: str) -> None:
    registry, seen = observed(mask_errors=True)

    def broken(_arguments: object, _value: object) -> str:
        raise ValueError("SECRET")

    options: dict[str, Any] = {what: broken}

    @registry.tool(**options)
    async def work() -> str:  # pyright: ignore[reportUnusedFunction]
        return "worked"

    async with open_call_scope() as scope:
        await registry.execute(call(scope, "work"))

    assert seen.only.code == "INVALID_TOOL_OUTPUT"
    assert seen.only.error is not None
    assert "SECRET" not in f"{seen.only.error.message}{seen.only.text}"


@pytest.mark.rule("JS-11", "JS-12")
async def test_masking_leaves_the_words_of_the_library(autojump_clock: MockClock) -> None:
    stray = await stray_cancelled()
    registry, seen = observed(mask_errors=True)

    @registry.tool
    async def strays() -> str:
        raise stray

    async def gate(execution: ToolExecution, _proceed: GateRest) -> GateDecision:
        wrong: Any = None
        return wrong if execution.name == "odd" else Allow()

    registry.gate(gate)
    async with open_call_scope() as scope:
        for name in ("strays", "nobody", "odd"):
            await registry.execute(call(scope, name))

    assert [result.text for result in seen.results[:2]] == [
        "Error: stray Cancelled escaped the tool body",
        'Error: unknown tool "nobody"',
    ]
    assert seen.results[2].code == "POLICY_ERROR"


TIMEOUTS = [(1, 1000), (0.25, 250), (0.0016, 2), (0.0004, 0), (2.5, 2500), (1.2344, 1234), (12.0, 12000)]


@pytest.mark.rule("JS-12", "TI-4")
@pytest.mark.parametrize(("budget", "milliseconds"), TIMEOUTS)
async def test_the_message_of_a_timeout_names_whole_milliseconds(
    autojump_clock: MockClock, budget: float, milliseconds: int
) -> None:
    registry, seen = observed()

    @registry.tool(timeout=budget)
    async def slow() -> str:
        await trio.sleep_forever()
        return "never"

    async with open_call_scope() as scope:
        await registry.execute(call(scope, "slow"))

    message = f"tool call timed out after {milliseconds}ms"
    assert seen.only.error == ToolFailure(message, "TOOL_TIMEOUT", "ToolTimeoutError")
    assert seen.only.text == f"Error: {message}"


MESSAGES: dict[str, ToolFailure] = {
    "aborted": ToolFailure("tool call aborted", "ABORTED", "AbortError"),
    "before": ToolFailure("tool call aborted before dispatch", "ABORTED_BEFORE_DISPATCH", "AbortError"),
    "unknown": ToolFailure('unknown tool "nobody"', "UNKNOWN_TOOL", "ToolNotFoundError"),
    "invalid": ToolFailure(
        'invalid arguments: "number" must be an integer; "word" must be a string',
        "INVALID_ARGS",
        "ToolArgsError",
    ),
    "output": ToolFailure(
        'tool "output" returned invalid output: "a[0]" must be a string; "a[2]" must be a string',
        "INVALID_TOOL_OUTPUT",
        "ToolOutputError",
    ),
    "not json": ToolFailure(
        "tool execution arguments must be losslessly JSON-serializable", "NOT_JSON", "NotJsonError"
    ),
    "too deep": ToolFailure(
        "tool execution arguments are nested deeper than 3 levels", "NOT_JSON", "NotJsonError"
    ),
    "stray": ToolFailure("stray Cancelled escaped the tool body", "TOOL_ERROR", "ToolError"),
    "self": ToolFailure("tool cancelled itself", "TOOL_ERROR", "ToolError"),
    "open": ToolFailure("tool left a scope open", "TOOL_ERROR", "ToolError"),
}


@pytest.mark.rule("JS-12")
@pytest.mark.parametrize("what", MESSAGES)
async def test_each_rule_has_its_name_and_its_words(autojump_clock: MockClock, what: str) -> None:
    stray = await stray_cancelled()
    registry, seen = observed(bounds=Bounds(json_depth=3))
    async with open_call_scope() as scope:

        @registry.tool
        async def aborted() -> str:
            scope.cancel()
            return "withheld"

        @registry.tool
        async def invalid(number: int, word: str) -> str:
            return "never"

        @registry.tool
        async def output() -> dict[str, list[str]]:
            wrong: Any = {"a": [1, "fine", None]}
            return wrong

        async def strays() -> str:
            raise stray

        async def cancels(*, ctx: ToolContext) -> str:
            ctx.nursery.cancel_scope.cancel()
            await trio.sleep_forever()
            return "never"

        async def leaves() -> str:
            trio.CancelScope().__enter__()
            return "open"

        registry.tool(name="stray")(strays)
        registry.tool(name="self")(cancels)
        registry.tool(name="open")(leaves)
        if what == "before":
            scope.cancel()
        arguments: Any = {
            "invalid": {"number": "x", "word": 1},
            "not json": {1},
            "too deep": {"a": {"b": {"c": {}}}},
        }
        name = {"unknown": "nobody", "before": "nobody", "not json": "nobody", "too deep": "nobody"}
        await registry.execute(
            ToolCall(name=name.get(what, what), arguments=arguments.get(what, {}), scope=scope)
        )

    assert seen.only.error == MESSAGES[what]
    assert seen.only.text == f"Error: {MESSAGES[what].message}"


@pytest.mark.rule("JS-12")
@pytest.mark.parametrize("who", ["gate", "approval", "wrapper", "review", "guard", "finalizer"])
async def test_a_malformed_answer_is_named_policy_error(autojump_clock: MockClock, who: str) -> None:
    odd: Any = object()
    registry, seen = observed()

    def finalize(_execution: ToolExecution, _result: ToolResult) -> Any:
        return odd if who == "finalizer" else None

    @registry.tool(finalize=finalize)
    async def work() -> str:
        return "worked"

    async def gate(_execution: ToolExecution, _proceed: GateRest) -> GateDecision:
        return odd if who == "gate" else Allow()

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        return odd if who == "wrapper" else await proceed(execution)

    async def review(_execution: ToolExecution, _result: ToolResult, _proceed: ReviewRest) -> ReviewDecision:
        return odd if who == "review" else Accept()

    registry.gate(gate)
    registry.wrap(wrapper)
    registry.review(review)
    if who in ("guard", "approval"):
        registry.guard(lambda _execution: odd)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "work"))

    assert seen.only.error is not None
    assert (seen.only.code, seen.only.error.name) == ("POLICY_ERROR", "PolicyError")
    assert seen.only.text == f"Error: {seen.only.error.message}"
    assert len(seen.only.error.message) > 10


@pytest.mark.rule("JS-9", "PU-10")
async def test_an_unprintable_error_is_logged_and_harms_nobody(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    registry, seen = raising("body", UnprintableError("x"))
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "work"))

    assert facts(seen.only) == "failed TOOL_ERROR raised"
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert "UnprintableError" in caplog.records[0].getMessage()


def test_errors_of_programmers_are_type_and_value_errors() -> None:
    kinds: list[Callable[..., Exception]] = [DefinitionError, RegistrationError]
    for kind in kinds:
        error = kind("message")
        assert isinstance(error, TypeError)
        assert isinstance(error, ValueError)
        assert not isinstance(error, ToolError)


@pytest.mark.rule("OU-6")
def test_a_failure_prints_code_and_name_alone() -> None:
    assert repr(ToolFailure("SECRET", "CODE", "Name")) == "ToolFailure(code='CODE', name='Name')"


@pytest.mark.rule("TP-1")
def test_one_constructor_alone_makes_a_transport_error_a_cancellation() -> None:
    flagged = TransportError.for_cancelled_call("files")
    error: Any = TransportError("the call to files was cancelled")
    with pytest.raises(AttributeError):
        error.cancelled = True

    assert flagged.cancelled
    assert not error.cancelled
    assert str(flagged) == str(error) == "the call to files was cancelled"


@attrs.frozen
class Picky:
    x: int

    def __attrs_post_init__(self) -> None:
        if self.x == 0:
            raise ValueError("the password is hunter2")
        raise ToolError("one is taken", code="TAKEN")


@pytest.mark.rule("JS-11")
async def test_masking_reaches_the_classes_of_arguments(autojump_clock: MockClock) -> None:
    registry, seen = observed(mask_errors=True)

    async def work(places: list[Picky]) -> str:
        return "never"

    work.__annotations__["places"] = list[Picky]
    registry.tool(work)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "work", places=[{"x": 0}, {"x": 1}]))

    assert seen.only.text == (
        'Error: invalid arguments: "places[0]": tool "work" failed; "places[1]": one is taken'
    )
    assert seen.only.error is not None
    assert "hunter2" not in seen.only.error.message


@pytest.mark.rule("JS-11", "JS-14")
@pytest.mark.parametrize("option", ["render", "meta"])
@pytest.mark.parametrize(
    ("error", "told"),
    [(ValueError("hunter2"), 'tool "work" failed'), (ToolError("no colours", code="MINE"), "no colours")],
)
async def test_masking_spares_what_a_tool_says_on_purpose_of_its_output(
    autojump_clock: MockClock, option: str, error: Exception, told: str
) -> None:
    registry, seen = observed(mask_errors=True)

    def fails(_arguments: object, _value: object) -> object:
        raise error

    async def work() -> str:
        return "fine"

    options: Any = {option: fails}
    registry.register(tool(**options)(work))
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "work"))

    assert seen.only.text == f'Error: tool "work" returned invalid output: {option} failed: {told}'
