"""What goes into a call and what comes out of it, as JSON: read once, checked, rendered, projected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

import pytest
from attrs import evolve
from trio.testing import MockClock

from tests.helpers import GateRest, Proceed, ReviewRest, call, facts, observed
from trio_tools import (
    Allow,
    Bounds,
    DispatchExecution,
    FrozenDict,
    GateDecision,
    ImageContent,
    ReviewDecision,
    TextContent,
    ToolCall,
    ToolContext,
    ToolError,
    ToolExecution,
    ToolResult,
    open_call_scope,
    tool,
)


@tool
async def plain(number: int = 1) -> str:
    """Say the number."""
    return f"number {number}"


@pytest.mark.rule("MA-1", "MA-2")
async def test_each_field_of_a_call_is_read_once_at_entry(autojump_clock: MockClock) -> None:
    registry, seen = observed(plain)
    given: dict[str, Any] = {"number": 1}
    async with open_call_scope() as scope, open_call_scope(name="other") as other:
        made = ToolCall(name="plain", arguments=given, scope=scope, call_id="mine", root_call_id="root")

        async def gate(_execution: ToolExecution, _proceed: GateRest) -> GateDecision:
            # Behind the back of the type, which is frozen.
            for name, value in (
                ("name", "other"),
                ("arguments", {"number": 2}),
                ("scope", other),
                ("call_id", "other"),
                ("root_call_id", "other"),
            ):
                object.__setattr__(made, name, value)
            given["number"] = 3
            given["more"] = object()
            other.cancel()
            return Allow()

        registry.gate(gate)
        result = await registry.execute(made)

    view = seen.executions[0]
    assert (view.name, view.call_id, view.root_call_id, view.arguments) == (
        "plain",
        "mine",
        "root",
        {"number": 1},
    )
    assert facts(result) == "ok returned"
    assert result.text == "number 1"


@pytest.mark.rule("MA-2")
async def test_the_arguments_of_the_caller_are_neither_frozen_nor_kept(autojump_clock: MockClock) -> None:
    registry, seen = observed()
    received: list[Any] = []

    @registry.tool
    async def takes(inner: dict[str, list[int]]) -> None:
        received.append(inner)

    given = {"inner": {"list": [1]}}
    async with open_call_scope() as scope:
        await registry.execute(ToolCall(name="takes", arguments=given, scope=scope))
    given["inner"]["list"].append(2)

    assert given == {"inner": {"list": [1, 2]}}
    assert received == [{"list": [1]}]
    assert seen.executions[0].arguments == {"inner": {"list": [1]}}
    assert type(given["inner"]) is dict


NOT_JSON: dict[str, Any] = {
    "set": {1},
    "tuple": {"a": (1,)},
    "object": object(),
    "nan": {"a": float("nan")},
    "infinity": float("inf"),
    "key": {1: 2},
    "bytes": b"x",
    "surrogate": {"a": "\ud800"},
}


@pytest.mark.rule("MA-8", "MA-3", "CA-10")
@pytest.mark.parametrize("what", NOT_JSON)
@pytest.mark.parametrize("cancelled", [False, True])
@pytest.mark.parametrize("name", ["plain", "nobody"])
async def test_refused_arguments_beat_the_caller_and_everybody_else(
    autojump_clock: MockClock, what: str, cancelled: bool, name: str
) -> None:
    registry, seen = observed()
    ran: list[str] = []

    def finalize(execution: ToolExecution, _result: ToolResult) -> None:
        ran.append(f"finalizer {execution.arguments}")

    async def gate(_execution: ToolExecution, proceed: GateRest) -> GateDecision:
        ran.append("gate")
        return await proceed()

    async def review(_execution: ToolExecution, _result: ToolResult, proceed: ReviewRest) -> ReviewDecision:
        ran.append("review")
        return await proceed()

    registry.tool(name="plain", finalize=finalize)(plain.function)
    registry.gate(gate)
    registry.review(review)
    async with open_call_scope() as scope:
        if cancelled:
            scope.cancel()
        made = ToolCall(name=name, arguments=NOT_JSON[what], scope=scope)
        result = await registry.execute(made)

    view = seen.executions[0]
    assert facts(result) == "failed NOT_JSON not_dispatched"
    assert ran == (["finalizer None"] if name == "plain" else [])
    assert view.arguments is None
    assert (view.call_id, view.name, view.root_call_id, view.parent) == (
        made.call_id,
        name,
        made.call_id,
        None,
    )
    assert view.token is not None


@pytest.mark.rule("MA-8", "NE-3")
async def test_refused_arguments_of_a_nested_call_leave_its_parent(autojump_clock: MockClock) -> None:
    registry, seen = observed(plain)

    @registry.tool
    async def outer(*, ctx: ToolContext) -> str:
        return (await ctx.call("plain", {"number": {1}})).text

    async with open_call_scope() as scope:
        await registry.execute(call(scope, "outer"))

    nested, enclosing = seen.executions
    assert seen.results[0].code == "NOT_JSON"
    assert nested.parent is enclosing.token
    assert nested.arguments is None


@pytest.mark.rule("MA-6", "MA-8")
@pytest.mark.parametrize(("depth", "fine"), [(1, True), (4, True), (5, False), (10_000, False)])
async def test_arguments_deeper_than_the_bounds_are_refused(
    autojump_clock: MockClock, depth: int, fine: bool
) -> None:
    registry, seen = observed(bounds=Bounds(json_depth=4))

    async def body(_arguments: Any) -> None:
        return None

    registry.register(
        type(plain).from_schema(name="raw", description="", parameters=True, output=True, body=body)
    )
    nested: Any = 1
    for _ in range(depth):
        nested = [nested]
    async with open_call_scope() as scope:
        await registry.execute(ToolCall(name="raw", arguments=nested, scope=scope))

    assert seen.only.code == (None if fine else "NOT_JSON")
    assert fine or seen.only.text == ("Error: tool execution arguments are nested deeper than 4 levels")


@pytest.mark.rule("MA-9", "MA-14")
async def test_render_and_meta_are_given_frozen_arguments_and_the_checked_value(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed()
    given: list[Any] = []

    def render(arguments: Any, value: Any) -> str:
        given.append(("render", arguments, value))
        return "rendered"

    def meta(arguments: Any, value: Any) -> dict[str, Any]:
        given.append(("meta", arguments, value))
        return {"length": len(value["list"])}

    @registry.tool(render=render, meta=meta)
    async def work(number: int) -> dict[str, list[int]]:
        return {"list": [number]}

    async with open_call_scope() as scope:
        await registry.execute(call(scope, "work", number=7))

    assert [entry[0] for entry in given] == ["render", "meta"]
    assert all(type(entry[1]) is type(entry[2]) is FrozenDict for entry in given)
    assert given[0][1:] == ({"number": 7}, {"list": [7]})
    assert given[0][2] is given[1][2] is seen.only.value
    assert (seen.only.text, seen.only.meta) == ("rendered", {"length": 1})


async def broken(*_args: Any) -> Any:
    return "nobody awaits this"


def type_of(value: object) -> str:
    return type(value).__name__


BAD_RENDERS: dict[str, tuple[Callable[..., Any], str]] = {
    "raises": (lambda _a, _v: 1 / 0, "render failed: division by zero"),  # pyright: ignore[reportUnknownLambdaType]
    "silent": (lambda _a, _v: exec("raise ValueError"), "render failed: ValueError"),  # pyright: ignore[reportUnknownLambdaType]
    "none": (lambda _a, _v: None, "render returned non-lossless JSON"),  # pyright: ignore[reportUnknownLambdaType]
    "number": (lambda _a, _v: 7, "render returned non-lossless JSON"),  # pyright: ignore[reportUnknownLambdaType]
    "object": (lambda _a, _v: {"text": "x"}, "render returned non-lossless JSON"),  # pyright: ignore[reportUnknownLambdaType]
    "bad part": (lambda _a, _v: ["x", 7], "render returned non-lossless JSON"),  # pyright: ignore[reportUnknownLambdaType]
    "coroutine": (broken, "render returned non-lossless JSON"),
}
BAD_METAS: dict[str, tuple[Callable[..., Any], str]] = {
    "raises": (lambda _a, _v: 1 / 0, "meta failed: division by zero"),  # pyright: ignore[reportUnknownLambdaType]
    "set": (lambda _a, _v: {1}, "meta returned non-lossless JSON"),  # pyright: ignore[reportUnknownLambdaType]
    "tuple": (lambda _a, _v: (1,), "meta returned non-lossless JSON"),  # pyright: ignore[reportUnknownLambdaType]
    "nan": (lambda _a, _v: float("nan"), "meta returned non-lossless JSON"),  # pyright: ignore[reportUnknownLambdaType]
    "coroutine": (broken, "meta returned non-lossless JSON"),
}


@pytest.mark.rule("MA-12", "JS-14")
@pytest.mark.parametrize(
    ("option", "what"),
    [*(("render", what) for what in BAD_RENDERS), *(("meta", what) for what in BAD_METAS)],
)
async def test_a_bad_rendering_or_projection_is_invalid_output(
    autojump_clock: MockClock, option: str, what: str
) -> None:
    bad = BAD_RENDERS if option == "render" else BAD_METAS
    registry, seen = observed()
    options: dict[str, Any] = {option: bad[what][0]}

    @registry.tool(**options)
    async def work(*, ctx: ToolContext) -> str:  # pyright: ignore[reportUnusedFunction]
        ctx.defer_context("kept")
        return "secret value"

    async with open_call_scope() as scope:
        await registry.execute(call(scope, "work"))

    result = seen.only
    assert facts(result) == "failed INVALID_TOOL_OUTPUT returned"
    assert result.error is not None
    assert result.error.message == f'tool "work" returned invalid output: {bad[what][1]}'
    assert result.text == f"Error: {result.error.message}"
    assert result.contexts == ("kept",)
    assert "secret" not in result.text


@pytest.mark.rule("MA-12", "JS-10")
@pytest.mark.parametrize("option", ["render", "meta"])
async def test_not_even_a_coded_error_of_render_or_meta_is_anything_else(
    autojump_clock: MockClock, option: str
) -> None:
    def raises(_arguments: object, _value: object) -> str:
        raise ToolError("on purpose", code="MINE")

    registry, seen = observed()
    options: dict[str, Any] = {option: raises}

    @registry.tool(**options)
    async def work() -> str:  # pyright: ignore[reportUnusedFunction]
        return "value"

    async with open_call_scope() as scope:
        await registry.execute(call(scope, "work"))

    assert facts(seen.only) == "failed INVALID_TOOL_OUTPUT returned"
    assert f"{option} failed: on purpose" in seen.only.text


@pytest.mark.rule("MA-11", "JS-14")
@pytest.mark.parametrize(
    "value",
    [{1}, (1,), object(), float("nan"), {"a": float("-inf")}, {1: 2}],
    ids=type_of,
)
async def test_a_value_that_json_would_lose_is_told_as_such(autojump_clock: MockClock, value: Any) -> None:
    registry, seen = observed()

    async def body(_arguments: Any) -> Any:
        return value

    registry.register(
        type(plain).from_schema(name="raw", description="", parameters=True, output=True, body=body)
    )
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "raw"))

    assert seen.only.error is not None
    assert seen.only.error.message == 'tool "raw" returned invalid output: value is not lossless JSON'


@pytest.mark.rule("MA-12", "MA-13")
@pytest.mark.parametrize(
    ("answer", "content"),
    [
        ("text", (TextContent("text"),)),
        ([], ()),
        (["a", ImageContent("aGk=", "image/png")], (TextContent("a"), ImageContent("aGk=", "image/png"))),
    ],
)
async def test_render_may_give_text_and_parts(autojump_clock: MockClock, answer: Any, content: Any) -> None:
    registry, seen = observed()

    def render(_arguments: object, _value: object) -> Any:
        return answer

    registry.tool(name="work", render=render)(plain.function)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "work"))

    assert seen.only.content == content
    assert seen.only.value == "number 1"


@pytest.mark.rule("MA-14")
async def test_meta_is_computed_for_root_calls_only(autojump_clock: MockClock) -> None:
    registry, seen = observed()
    computed: list[str] = []

    def meta(arguments: Any, value: Any) -> dict[str, Any]:
        computed.append(value)
        return {"of": value}

    registry.tool(name="inner", meta=meta)(plain.function)

    @registry.tool(meta=meta)
    async def outer(*, ctx: ToolContext) -> str:
        return (await ctx.call("inner", {})).text + "!"

    registry.tool(name="bare")(plain.function)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "outer"))
        await registry.execute(call(scope, "inner"))
        await registry.execute(call(scope, "bare"))

    assert [result.meta for result in seen.results] == [None, {"of": "number 1!"}, {"of": "number 1"}, None]
    assert computed == ["number 1!", "number 1"]


@pytest.mark.rule("MA-14")
@pytest.mark.parametrize("nothing", [None, 0, "", [], {}])
async def test_any_json_is_a_meta(autojump_clock: MockClock, nothing: Any) -> None:
    registry, seen = observed()

    def meta(_arguments: object, _value: object) -> Any:
        return nothing

    registry.tool(name="work", meta=meta)(plain.function)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "work"))

    assert seen.only.meta == nothing
    assert facts(seen.only) == "ok returned"


@pytest.mark.rule("MA-15")
@pytest.mark.parametrize("who", ["gate", "wrapper", "body", "observer"])
async def test_no_attribute_of_a_view_can_be_set_or_deleted(autojump_clock: MockClock, who: str) -> None:
    refused: list[str] = []
    views: list[Any] = []
    registry, _ = observed()

    def tamper(phase: str, view: Any) -> None:
        if phase != who:
            return
        views.append(view)
        names = [name for name in dir(view) if not name.startswith("_")]
        for name in names:
            try:
                setattr(view, name, None)
            except AttributeError:
                refused.append(name)
        try:
            view.something_new = 1
        except AttributeError:
            refused.append("new")
        assert refused == [*names, "new"]

    async def gate(execution: ToolExecution, proceed: GateRest) -> GateDecision:
        tamper("gate", execution)
        return await proceed()

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        tamper("wrapper", execution)
        return await proceed(execution)

    @registry.tool
    async def work(*, ctx: ToolContext) -> str:
        tamper("body", ctx)
        return "worked"

    registry.gate(gate)
    registry.wrap(wrapper)
    registry.observe(lambda execution, _result: tamper("observer", execution))
    async with open_call_scope() as scope:
        result = await registry.execute(call(scope, "work"))

    assert len(views) == 1
    assert len(refused) > 5
    assert facts(result) == "ok returned"


LOSSY: dict[str, Callable[[ToolResult], ToolResult]] = {
    "contexts of a success": lambda result: evolve(result, contexts=[{"a": {1}}]),
    "contexts of a failure": lambda _result: ToolResult.failed("x", contexts=[{"a": float("nan")}]),  # type: ignore[list-item]
    "a context that is none": lambda _result: ToolResult.failed("x", contexts=[7]),  # type: ignore[list-item]
    "a key": lambda _result: ToolResult.failed("x", code="MINE", contexts=[{1: "a"}]),  # type: ignore[dict-item]
    "meta of a failure": lambda _result: evolve(ToolResult.failed("x"), meta={1}),
}


@pytest.mark.rule("MA-16", "JS-12")
@pytest.mark.parametrize("what", LOSSY)
async def test_a_wrappers_result_that_json_would_lose_fails_closed(
    autojump_clock: MockClock, what: str
) -> None:
    registry, seen = observed(plain)
    reviewed: list[str] = []

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        return LOSSY[what](await proceed(execution))

    async def review(_execution: ToolExecution, result: ToolResult, proceed: ReviewRest) -> ReviewDecision:
        reviewed.append(facts(result))
        return await proceed()

    registry.wrap(wrapper)
    registry.review(review)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "plain"))

    assert facts(seen.only) == "failed POLICY_ERROR returned"
    assert seen.only.text == "Error: tool result must be losslessly JSON-serializable"
    assert seen.only.contexts == ()
    assert seen.only.meta is None
    assert reviewed == []


@pytest.mark.rule("MA-16", "BD-4")
async def test_broken_text_in_a_wrappers_content_is_repaired_not_refused(autojump_clock: MockClock) -> None:
    registry, seen = observed(plain)

    async def wrapper(_execution: DispatchExecution, _proceed: Proceed) -> ToolResult:
        return ToolResult.failed("broken \ud800 text", code="MINE")

    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "plain"))

    assert facts(seen.only) == "failed MINE not_dispatched"
    assert seen.only.text == "broken \ufffd text"


class Named(str, Enum):  # noqa: UP042  (one whose format is not its value)
    PLAIN = "plain"
    ABSENT = "absent"


@pytest.mark.rule("MA-1", "JS-12")
async def test_names_and_ids_of_a_call_are_plain_text_in_all_that_follows(autojump_clock: MockClock) -> None:
    registry, seen = observed(plain)
    async with open_call_scope() as scope:
        for name in Named:
            await registry.execute(
                ToolCall(name=name, arguments={}, scope=scope, call_id=name, root_call_id=name)
            )

    told = {type(text) for each in seen.executions for text in (each.name, each.call_id, each.root_call_id)}
    assert told == {str}
    assert [facts(result) for result in seen.results] == ["ok returned", "failed UNKNOWN_TOOL not_dispatched"]
    assert seen.results[1].text == 'Error: unknown tool "absent"'


class Meddling:
    """A field that does something when it is read."""

    acts: ClassVar[list[Callable[[], None]]] = []

    def __get__(self, instance: object, _owner: object = None) -> int:
        if instance is not None:
            Meddling.acts.pop()()
        return 1

    def __set__(self, _instance: object, _value: int) -> None:
        pass


@dataclass
class Reading:
    """A value whose field is such a one."""

    number: int = 1


Reading.number = Meddling()  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.rule("CA-2", "CA-3", "MA-10")
async def test_a_value_that_cancels_while_it_is_read_is_withheld(autojump_clock: MockClock) -> None:
    registry, seen = observed()

    @registry.tool
    async def reads() -> Reading:  # pyright: ignore[reportUnusedFunction]
        return Reading()

    async with open_call_scope() as scope:
        Meddling.acts.append(scope.cancel)
        await registry.execute(call(scope, "reads"))

    assert facts(seen.only) == "cancelled ABORTED returned caller:caller"
