"""Tools: what a function or two schemas declare, and what is refused when they are defined."""

from __future__ import annotations

import datetime as dt
import functools
import itertools
import threading
from collections.abc import AsyncIterator, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, ForwardRef, cast

import pytest
from attrs import evolve
from attrs.exceptions import FrozenInstanceError
from trio.testing import MockClock

from tests.helpers import call, facts, observed
from trio_tools import (
    DefinitionError,
    DispatchExecution,
    Effect,
    FunctionTool,
    Registry,
    Tool,
    ToolContext,
    ToolExecution,
    open_call_scope,
    tool,
)


async def greet(name: Annotated[str, "whom to greet"], times: int = 1, *, ctx: ToolContext) -> str:
    """Greet somebody.

    As often as you like.
    """
    return f"hello {name} " * times


async def plain() -> str:
    return "plain"


@pytest.mark.rule("JS-1", "LA-12")
def test_a_bare_decorator_takes_everything_from_the_function() -> None:
    made = tool(greet)

    assert isinstance(made, FunctionTool)
    assert made.name == "greet"
    assert made.description == "Greet somebody.\n\nAs often as you like."
    assert (made.timeout, made.effect, made.concurrency_safe) == (None, Effect.UNKNOWN, False)
    assert (made.render, made.meta, made.finalize) == (None, None, None)
    assert made.function is greet
    assert list(made.parameters["properties"]) == ["name", "times"]  # type: ignore[index]


@pytest.mark.rule("JS-1", "LA-12")
def test_options_replace_what_the_function_says() -> None:
    def render(_arguments: object, _value: object) -> str:
        return "rendered"

    made = tool(
        name="other",
        description="Another description.",
        timeout=3,
        effect=Effect.READ_ONLY,
        concurrency_safe=True,
        render=render,
    )(greet)

    assert (made.name, made.description) == ("other", "Another description.")
    assert (made.timeout, type(made.timeout)) == (3.0, float)
    assert (made.effect, made.concurrency_safe, made.render) == (Effect.READ_ONLY, True, render)
    assert set(made.schema()) == {"name", "description", "parameters"}


def test_the_empty_description_is_kept_and_a_missing_docstring_is_empty() -> None:
    assert tool(description="")(greet).description == ""
    assert tool(plain).description == ""


def test_the_decorator_and_both_constructors_agree() -> None:
    by_options = tool(timeout=2)(greet)
    by_constructor = Tool.from_function(greet, timeout=2)

    assert by_options.schema() == by_constructor.schema()
    assert by_options.timeout == by_constructor.timeout == 2.0


async def test_a_tool_of_a_function_stays_callable_as_it_was() -> None:
    made = tool(timeout=5)(plain)

    assert await made() == "plain"


@pytest.mark.parametrize("text", ["read_only", "idempotent_write", "non_idempotent_write", "unknown"])
def test_an_effect_may_be_given_as_its_word(text: Any) -> None:
    assert tool(effect=text)(plain).effect is Effect(text)


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


BAD_OPTIONS: list[tuple[str, Any]] = [
    ("name", ""),
    ("name", 7),
    ("name", b"name"),
    ("name", "lone \ud800"),
    ("name", "pair \ud83d\ude00"),
    ("description", 7),
    ("description", "lone \udfff"),
    ("timeout", 0),
    ("timeout", -1),
    ("timeout", float("inf")),
    ("timeout", float("nan")),
    ("timeout", True),
    ("timeout", "5"),
    ("timeout", 10**5000),
    ("timeout", Decimal(5)),
    ("timeout", Fraction(5)),
    ("timeout", dt.timedelta(seconds=5)),
    ("timeout", Unprintable()),
    ("effect", "harmless"),
    ("effect", None),
    ("effect", []),
    ("effect", Unprintable()),
    ("concurrency_safe", "yes"),
    ("concurrency_safe", 1),
    ("concurrency_safe", None),
    ("render", "text"),
    ("render", 7),
    ("meta", {}),
    ("finalize", "no"),
]


@pytest.mark.rule("TI-2", "JS-7")
@pytest.mark.parametrize(("option", "bad"), BAD_OPTIONS, ids=itertools.count())
@pytest.mark.parametrize("way", ["decorator", "from_function", "from_schema"])
def test_an_option_that_cannot_be_kept_is_a_definition_error(option: str, bad: Any, way: str) -> None:
    options: dict[str, Any] = {option: bad}
    if way == "from_schema":
        options = {
            "name": "x",
            "description": "",
            "parameters": True,
            "output": True,
            "body": plain,
        } | options
    makers: dict[str, Any] = {
        "decorator": lambda: tool(**options)(plain),
        "from_function": lambda: Tool.from_function(plain, **options),
        "from_schema": lambda: Tool.from_schema(**options),
    }
    with pytest.raises(DefinitionError):
        makers[way]()


def test_an_unknown_option_is_refused_at_once_and_the_known_ones_are_named() -> None:
    options: Any = {"time_out": 5}
    with pytest.raises(DefinitionError, match=r"time_out.*timeout"):
        tool(**options)
    with pytest.raises(TypeError):
        Tool.from_function(plain, **options)


async def stream() -> AsyncIterator[int]:
    yield 1


def steps() -> Iterator[int]:
    yield 1


def no_generator(_self: object) -> None: ...
def no_argument() -> None: ...
def by_name_alone(*, arguments: Any) -> None: ...
def takes_anything(*_: Any) -> Any: ...


class Stream:
    async def __call__(self) -> AsyncIterator[int]:
        yield 1

    def steps(self) -> Iterator[int]:
        yield 1

    @classmethod
    def made(cls) -> Iterator[int]:
        yield 1


@pytest.mark.rule("JS-7")
@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (None, "made of a function, not of None"),
        (7, "made of a function, not of 7"),
        ("name", r"@tool\(name=\.\.\.\)"),
        (vars(Stream)["made"], "made of a function"),
        (property(no_generator), "made of a function"),
        (tool(plain), "'plain' is a tool already"),
        (stream, "collect the items in a list"),
        (steps, "collect the items in a list"),
        (Stream(), "collect the items in a list"),
        (Stream().steps, "collect the items in a list"),
        (Stream.made, "collect the items in a list"),
        (functools.partial(stream), "collect the items in a list"),
        (functools.partial(functools.partial(Stream())), "collect the items in a list"),
    ],
)
def test_what_cannot_be_a_body_is_refused(bad: Any, words: str) -> None:
    with pytest.raises(DefinitionError, match=words):
        Tool.from_function(bad)
    with pytest.raises(DefinitionError, match=words):
        Tool.from_schema(name="x", description="", parameters=True, output=True, body=bad)
    with pytest.raises(DefinitionError, match=words):
        Registry().tool(name="x")(bad)


def test_a_wrapper_that_collects_what_a_generator_yields_is_a_body() -> None:
    @functools.wraps(steps)
    def collected() -> list[int]:
        return list(steps())

    collected.__annotations__ = {"return": list[int]}
    del collected.__wrapped__.__annotations__["return"]

    assert tool(collected)() == [1]


async def test_a_partial_of_an_async_object_is_awaited(autojump_clock: MockClock) -> None:
    class Greeter:
        async def __call__(self, word: str, name: str) -> str:
            return f"{word} {name}"

    registry, seen = observed(tool(name="greet")(functools.partial(Greeter(), "hello")))
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "greet", name="you"))

    assert seen.only.value == "hello you"


def test_options_beside_the_function_are_options() -> None:
    # A type checker refuses them there. At run time nothing that was asked for is dropped.
    registry, loose = Registry(), cast("Any", tool)

    assert loose(plain, name="other").name == "other"
    assert cast("Any", registry.tool)(plain, name="other").name == "other"
    assert registry.get("other") is not None
    with pytest.raises(DefinitionError, match="no option fn"):
        loose(fn=plain)


async def no_arguments() -> None: ...
async def two_arguments(arguments: Any, more: Any) -> None: ...
async def by_name(*, arguments: Any) -> None: ...
async def only_options(**options: Any) -> None: ...
async def one_more_by_name(arguments: Any, *, needed: Any) -> None: ...
async def context_first(ctx: Any, arguments: Any) -> None: ...
async def only_context(ctx: ToolContext) -> None: ...
async def context_by_position(arguments: Any, ctx: ToolContext, /) -> None: ...
async def context_and_ctx(arguments: Any, mine: ToolContext, ctx: Any) -> None: ...
async def arguments_alone(arguments: Any) -> None: ...
async def anything(*args: Any, **options: Any) -> None: ...
async def options_called_ctx(arguments: Any, **ctx: Any) -> None: ...
async def context_second(arguments: Any, ctx: Any) -> None: ...
async def one_more_at_will(arguments: Any, *, limit: int = 3) -> None: ...


def given(body: Any) -> Tool:
    return Tool.from_schema(name="x", description="", parameters=True, output=True, body=body)


@pytest.mark.rule("JS-8")
@pytest.mark.parametrize(
    ("body", "how"),
    [
        (no_arguments, r"body\(arguments\), .*too many"),
        (two_arguments, r"body\(arguments\), .*missing.*more"),
        (by_name, r"body\(arguments\)"),
        (only_options, r"body\(arguments\)"),
        (one_more_by_name, r"body\(arguments\), .*needed"),
        (context_first, r"body\(arguments, ctx=\.\.\.\)"),
        (only_context, r"body\(arguments, ctx=\.\.\.\)"),
        (context_by_position, r"body\(arguments, ctx=\.\.\.\)"),
        (context_and_ctx, r"body\(arguments, mine=\.\.\.\), .*ctx"),
        (Stream, r"body\(arguments\)"),
    ],
)
def test_a_raw_body_that_cannot_take_the_arguments_is_refused(body: Any, how: str) -> None:
    with pytest.raises(DefinitionError, match=how):
        given(body)


@pytest.mark.rule("JS-8")
@pytest.mark.parametrize("validate", [None, 0, "no", Unprintable()], ids=range(4))
def test_whether_arguments_are_validated_is_a_bool(validate: Any) -> None:
    with pytest.raises(DefinitionError, match="validate_arguments is a bool"):
        Tool.from_schema(
            name="x",
            description="",
            parameters=True,
            output=True,
            body=arguments_alone,
            validate_arguments=validate,
        )


@pytest.mark.rule("JS-8")
@pytest.mark.parametrize(
    ("body", "context"),
    [
        (arguments_alone, None),
        (anything, None),
        (options_called_ctx, None),
        (one_more_at_will, None),
        (context_second, "ctx"),
        (functools.partial(two_arguments, 1), None),
        (len, None),
    ],
)
def test_a_raw_body_may_take_the_arguments_in_any_way(body: Any, context: str | None) -> None:
    assert given(body).context_parameter == context


def yields_two(arguments: Any, value: Any) -> Iterator[Any]:
    yield value


async def streams_two(arguments: Any, value: Any) -> AsyncIterator[Any]:
    yield value


BAD_CALLABLES: list[Any] = [no_argument, by_name_alone, no_arguments, yields_two, streams_two]
GOOD_CALLABLES: list[Any] = [takes_anything, functools.partial(max, 1), max, str]


@pytest.mark.parametrize("option", ["render", "meta", "finalize"])
@pytest.mark.parametrize("bad", BAD_CALLABLES)
def test_an_option_that_cannot_be_called_as_it_would_be_is_refused(option: str, bad: Any) -> None:
    options: Any = {option: bad}
    with pytest.raises(DefinitionError, match=option):
        tool(plain, **options)


@pytest.mark.parametrize("option", ["render", "meta", "finalize"])
@pytest.mark.parametrize("good", GOOD_CALLABLES)
def test_an_option_may_take_what_it_is_given_in_any_way(option: str, good: Any) -> None:
    options: Any = {option: good}

    assert getattr(tool(plain, **options), option) is good


def test_a_tool_shows_no_schema_that_is_not_kept() -> None:
    made = tool(plain)

    assert evolve(made, name="other", timeout=3).parameters is made.parameters
    wrong: list[dict[str, Any]] = [
        {"parameters": {}},
        {"output": {}},
        {"parameters": None, "arguments_plan": None},
        {"body": None},
        {"is_async": None},
    ]
    for changes in wrong:
        with pytest.raises(DefinitionError, match=r"Tool\.from_schema"):
            evolve(made, **changes)


async def test_a_context_is_known_by_its_annotation_evaluated_or_not(autojump_clock: MockClock) -> None:
    registry, seen = observed()

    async def body(word: str, mine: Any) -> str:
        return f"{word} {mine.name}"

    async def named(word: str, mine: Any) -> str:
        return f"{word} {mine.name}"

    body.__annotations__ = {"word": str, "mine": ToolContext, "return": str}
    named.__annotations__ = {"word": "str", "mine": "trio_tools.ToolContext", "return": "str"}
    registry.tool(name="objects")(body)
    registry.tool(name="strings")(named)
    async with open_call_scope() as scope:
        for name in ("objects", "strings"):
            await registry.execute(call(scope, name, word="in"))

    assert [result.text for result in seen.results] == ["in objects", "in strings"]


@pytest.mark.rule("JS-7")
def test_a_body_takes_one_context() -> None:
    async def two(*, first: ToolContext, second: ToolContext) -> str:
        return "never"

    with pytest.raises(DefinitionError, match="first, second"):
        tool(two)


@pytest.mark.rule("JS-7")
@pytest.mark.parametrize(
    "annotation",
    [
        ToolContext | None,
        Annotated[ToolContext, "the context"],
        list[ToolContext],
        "ToolContext | None",
        "Optional[trio_tools.ToolContext]",
        list[cast("Any", ForwardRef("ToolContext"))],
    ],
    ids=range(6),
)
def test_a_context_that_is_annotated_with_more_is_told_how_to_ask(annotation: Any) -> None:
    async def body(word: str, mine: Any = None) -> str:
        return word

    body.__annotations__["mine"] = annotation
    with pytest.raises(DefinitionError, match=r'parameter "mine" .*write mine: ToolContext'):
        tool(body)


def test_a_callable_whose_signature_cannot_be_read_is_refused() -> None:
    with pytest.raises(DefinitionError, match="signature"):
        Tool.from_schema(name="x", description="", parameters=True, output=True, body=iter)


@pytest.mark.rule("JS-8")
@pytest.mark.parametrize("style", ["annotated", "named ctx", "none"])
async def test_a_raw_body_is_given_the_arguments_and_the_context_if_it_takes_one(
    autojump_clock: MockClock, style: str
) -> None:
    registry, seen = observed()
    given: list[Any] = []

    async def annotated(arguments: Any, *, mine: ToolContext) -> str:
        given.append((arguments, mine.name))
        return "done"

    async def named(arguments: Any, *, ctx: Any) -> str:
        given.append((arguments, ctx.name))
        return "done"

    async def without(arguments: Any) -> str:
        given.append((arguments, "raw"))
        return "done"

    body = {"annotated": annotated, "named ctx": named, "none": without}[style]
    registry.register(
        Tool.from_schema(name="raw", description="", parameters={"type": "object"}, output=True, body=body)
    )
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "raw", a=1))

    assert facts(seen.only) == "ok returned"
    assert given == [({"a": 1}, "raw")]


async def test_methods_partials_and_callable_objects_are_bodies(autojump_clock: MockClock) -> None:
    registry, seen = observed()

    class Greeter:
        def __init__(self, word: str) -> None:
            self.word = word

        async def method(self, name: str) -> str:
            return f"{self.word} {name}"

        async def __call__(self, name: str, *, ctx: ToolContext) -> str:
            return f"{self.word}, {name} ({ctx.name})"

    async def partially(word: str, name: str, *, ctx: ToolContext) -> str:
        return f"{word}; {name}; {ctx.name}"

    hello = Greeter("hello")
    registry.tool(name="method")(hello.method)
    registry.tool(name="object")(hello)
    registry.tool(name="partial")(functools.partial(partially, "hello"))
    async with open_call_scope() as scope:
        for name in ("method", "object", "partial"):
            await registry.execute(call(scope, name, name="you"))

    assert [result.value for result in seen.results] == [
        "hello you",
        "hello, you (object)",
        "hello; you; partial",
    ]


@pytest.mark.rule("MA-15", "OU-6")
def test_a_tool_is_frozen_and_prints_its_name_and_effect() -> None:
    made: Any = tool(effect=Effect.READ_ONLY)(plain)
    with pytest.raises(FrozenInstanceError):
        made.name = "other"
    with pytest.raises(TypeError):
        made.parameters["properties"] = {}

    assert repr(made) == "<Tool 'plain', read_only>"


@pytest.mark.rule("LA-5")
def test_tools_are_compared_by_identity() -> None:
    first, second = tool(plain), tool(plain)

    assert first != second
    assert len({first, second, first}) == 2


def test_a_view_that_is_no_tool_context_is_not_taken_for_one() -> None:
    async def wrong(execution: ToolExecution) -> str:
        return "never"

    async def wrong_too(execution: DispatchExecution) -> str:
        return "never"

    bodies: list[Any] = [wrong, wrong_too]
    for body in bodies:
        with pytest.raises(DefinitionError):
            tool(body)


@pytest.mark.rule("BO-13", "JS-8")
async def test_a_class_is_a_body_that_runs_in_a_thread_though_its_instances_are_async() -> None:
    threads: list[int] = []

    class Made:
        def __new__(cls, arguments: object) -> Any:
            threads.append(threading.get_ident())
            return "made"

        async def __call__(self, arguments: object) -> None:
            """Never called."""

    registry, seen = observed(
        Tool.from_schema(name="made", description="", parameters={}, output={"type": "string"}, body=Made)
    )
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "made"))

    assert facts(seen.only) == "ok returned"
    assert seen.only.value == "made"
    assert threads != [threading.get_ident()]
