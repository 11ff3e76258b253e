"""Layers: what is visible where, what runs for whom, and how it is taken back."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.helpers import GateRest, Proceed, ReviewRest, call, facts, observed, run
from trio_tools import (
    Allow,
    DispatchExecution,
    GateDecision,
    Layer,
    RegistrationError,
    Registry,
    ReviewDecision,
    Tool,
    ToolExecution,
    ToolResult,
    open_call_scope,
    tool,
)


def named(name: str, text: str | None = None) -> Tool:
    """Make a tool that gives ``text``, its name by default."""

    @tool(name=name, description=f"Gives {text or name}.")
    async def body() -> str:
        return text or name

    return body


async def said(layer: Layer, name: str) -> str:
    """Execute a call through ``layer`` and return its text."""
    async with open_call_scope() as scope:
        return (await layer.execute(call(scope, name))).text


def names(layer: Layer) -> list[str]:
    return [str(schema["name"]) for schema in layer.schemas()]


@pytest.mark.rule("LA-1")
async def test_a_layer_sees_the_tools_of_its_ancestors(autojump_clock: MockClock) -> None:
    registry = Registry()
    child = registry.layer("child")
    grandchild = child.layer("grandchild")
    registry.register(named("root"))
    child.register(named("middle"))
    grandchild.register(named("leaf"))

    assert isinstance(registry, Layer)
    assert sorted(names(grandchild)) == ["leaf", "middle", "root"]
    assert [await said(grandchild, name) for name in ("root", "middle", "leaf")] == ["root", "middle", "leaf"]


@pytest.mark.rule("LA-1")
async def test_names_of_layers_are_labels_and_need_not_be_unique(autojump_clock: MockClock) -> None:
    registry = Registry()
    first, second = registry.layer("same"), registry.layer("same")
    nested = first.layer("same")
    first.register(named("tool", "first"))

    assert first is not second
    assert first.name == second.name == nested.name == "same"
    assert second.get("tool") is None
    assert await said(nested, "tool") == "first"


@pytest.mark.rule("LA-2")
async def test_a_tool_is_visible_in_its_layer_and_below_alone(autojump_clock: MockClock) -> None:
    registry = Registry()
    child, sibling = registry.layer("child"), registry.layer("sibling")
    below = child.layer("below")
    registered = named("tool")
    child.register(registered)

    assert child.get("tool") is below.get("tool") is registered
    assert registry.get("tool") is sibling.get("tool") is None
    assert names(registry) == names(sibling) == []


@pytest.mark.rule("LA-2")
async def test_a_nearer_tool_hides_a_farther_one_until_it_is_closed(autojump_clock: MockClock) -> None:
    registry = Registry()
    child = registry.layer("child")
    below = child.layer("below")
    registry.register(named("tool", "far"))
    near = child.register(named("tool", "near"))
    described = [schema["description"] for schema in below.schemas()]
    with_near = [await said(layer, "tool") for layer in (registry, child, below)]
    near.close()
    without = [await said(layer, "tool") for layer in (registry, child, below)]

    assert described == ["Gives near."]
    assert with_near == ["far", "near", "near"]
    assert without == ["far", "far", "far"]


@pytest.mark.rule("LA-3")
def test_a_name_twice_in_one_layer_is_refused_and_the_first_stays() -> None:
    registry = Registry()
    first = named("tool", "first")
    registry.register(first)
    with pytest.raises(RegistrationError, match="child layer"):
        registry.register(named("tool", "second"))
    with pytest.raises(RegistrationError, match="child layer"):
        registry.register(first)
    with pytest.raises(RegistrationError, match="child layer"):
        registry.tool(name="tool")(first.body)

    assert registry.get("tool") is first


@pytest.mark.rule("LA-3", "LA-5")
def test_a_name_is_free_again_once_its_registration_is_closed() -> None:
    registry = Registry()
    registry.register(named("tool")).close()
    second = named("tool")
    registry.register(second)

    assert registry.get("tool") is second


def test_what_is_no_tool_is_not_registered() -> None:
    registry = Registry()

    async def body() -> str:
        return "no tool"

    for bad in (body, "tool", None, Tool):
        with pytest.raises(RegistrationError, match="Tool"):
            registry.register(bad)  # type: ignore[arg-type]

    assert registry.schemas() == []


@pytest.mark.rule("LA-4")
@pytest.mark.parametrize("why", ["other layer", "restricted", "restricted above", "closed", "never there"])
async def test_invisible_is_the_same_as_unknown(autojump_clock: MockClock, why: str) -> None:
    registry, seen = observed()
    child = registry.layer("child")
    below = child.layer("below")
    registry.register(named("other"))
    if why == "other layer":
        registry.layer("sibling").register(named("tool"))
    elif why != "never there":
        registration = registry.register(named("tool"))
        if why == "closed":
            registration.close()
        else:
            (below if why == "restricted" else child).restrict(deny=["tool"])
    text = await said(below, "tool")

    assert below.get("tool") is None
    assert names(below) == ["other"]
    assert facts(seen.only) == "failed UNKNOWN_TOOL not_dispatched"
    assert text == 'Error: unknown tool "tool"'
    assert seen.executions[0].tool is None


@pytest.mark.rule("LA-5")
def test_closing_twice_does_not_remove_what_came_later() -> None:
    registry = Registry()
    same = named("tool")
    first = registry.register(same)
    first.close()
    registry.register(same)
    first.close()

    assert registry.get("tool") is same


@pytest.mark.rule("LA-5")
def test_one_tool_in_two_layers_is_two_entries() -> None:
    registry = Registry()
    child = registry.layer("child")
    same = named("tool")
    above = registry.register(same)
    below = child.register(same)
    above.close()

    assert registry.get("tool") is None
    assert child.get("tool") is same
    below.close()
    assert child.get("tool") is None


@pytest.mark.rule("LA-5")
def test_a_registration_is_a_context_manager() -> None:
    registry = Registry()
    with registry.register(named("tool")) as registration:
        inside = registry.get("tool")
    with pytest.raises(LookupError), registry.register(named("tool")):
        raise LookupError

    assert inside is not None
    assert registry.get("tool") is None
    registration.close()


@pytest.mark.rule("LA-5")
@pytest.mark.parametrize("kind", ["gate", "guard", "wrap", "review", "observe"])
async def test_a_function_registered_twice_is_two_entries(autojump_clock: MockClock, kind: str) -> None:
    registry = Registry()
    registry.register(named("tool"))
    ran: list[str] = []

    async def gate(_execution: ToolExecution, proceed: GateRest) -> GateDecision:
        ran.append("gate")
        return await proceed()

    async def wrap(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        ran.append("wrap")
        return await proceed(execution)

    async def review(_execution: ToolExecution, _result: ToolResult, proceed: ReviewRest) -> ReviewDecision:
        ran.append("review")
        return await proceed()

    hooks: dict[str, Any] = {
        "gate": gate,
        "guard": lambda _execution: ran.append("guard"),  # pyright: ignore[reportUnknownLambdaType]
        "wrap": wrap,
        "review": review,
        "observe": lambda _execution, _result: ran.append("observe"),  # pyright: ignore[reportUnknownLambdaType]
    }
    first, second = (getattr(registry, kind)(hooks[kind]) for _ in range(2))
    counts: list[int] = []
    for act in (lambda: None, first.close, first.close, second.close):
        act()
        ran.clear()
        await said(registry, "tool")
        counts.append(len(ran))

    assert counts == [2, 1, 1, 0]


@pytest.mark.rule("LA-5", "LA-6")
@pytest.mark.parametrize("then", ["removed", "replaced", "hidden"])
async def test_a_running_body_is_spared_and_its_value_judged_by_its_own_definition(
    autojump_clock: MockClock, then: str
) -> None:
    registry, seen = observed()
    child = registry.layer("child")

    def render(_arguments: object, value: int) -> str:
        return f"rendered {value}"

    def meta(_arguments: object, value: int) -> dict[str, int]:
        return {"old": value}

    @tool(name="tool", render=render, meta=meta)
    async def old() -> int:
        await trio.sleep(2)
        return 7

    registration = registry.register(old)
    async with trio.open_nursery() as nursery, open_call_scope() as scope:
        nursery.start_soon(child.execute, call(scope, "tool"))
        await trio.sleep(1)
        if then == "hidden":
            child.restrict(deny=["tool"])
            child.register(named("tool", "new"))
        else:
            registration.close()
            if then == "replaced":
                registry.register(named("tool", "new"))

    assert facts(seen.only) == "ok returned"
    assert (seen.only.value, seen.only.text, seen.only.meta) == (7, "rendered 7", {"old": 7})
    assert trio.current_time() == 2.0
    assert seen.executions[0].tool is old


@pytest.mark.rule("LA-7", "PU-5")
async def test_hooks_run_root_layer_first_and_no_others_run(autojump_clock: MockClock) -> None:
    registry = Registry()
    child, sibling = registry.layer("child"), registry.layer("sibling")
    below = child.layer("below")
    registry.register(named("tool"))
    ran: list[str] = []

    def add_hooks(layer: Layer, name: str) -> None:
        async def gate(_execution: ToolExecution, proceed: GateRest) -> GateDecision:
            ran.append(f"gate {name}")
            return await proceed()

        async def wrap(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
            ran.append(f"wrap {name}")
            return await proceed(execution)

        async def review(
            _execution: ToolExecution, _result: ToolResult, proceed: ReviewRest
        ) -> ReviewDecision:
            ran.append(f"review {name}")
            return await proceed()

        layer.gate(gate)
        layer.guard(lambda _execution: ran.append(f"guard {name}"))
        layer.wrap(wrap)
        layer.review(review)
        layer.observe(lambda _execution, _result: ran.append(f"observe {name}"))

    # Not in the order in which they are to run.
    add_hooks(child, "child")
    add_hooks(below, "below")
    add_hooks(sibling, "sibling")
    add_hooks(registry, "root 1")
    add_hooks(registry, "root 2")
    await said(child, "tool")

    kinds = ("gate", "guard", "wrap", "review", "observe")
    assert ran == [f"{kind} {name}" for kind in kinds for name in ("root 1", "root 2", "child")]


@pytest.mark.rule("LA-7")
async def test_hooks_go_by_the_layer_of_the_call_not_by_that_of_the_tool(autojump_clock: MockClock) -> None:
    registry = Registry()
    child = registry.layer("child")
    registry.register(named("tool"))
    ran: list[str] = []
    child.guard(lambda _execution: ran.append("child"))
    await said(registry, "tool")
    at_root = list(ran)
    await said(child, "tool")

    assert at_root == []
    assert ran == ["child"]


@pytest.mark.rule("LA-8")
@pytest.mark.parametrize("kind", ["gate", "wrapper", "reviewer"])
@pytest.mark.parametrize("ended", ["returned", "raised"])
async def test_a_proceed_is_dead_once_its_hook_has_ended(
    autojump_clock: MockClock, kind: str, ended: str
) -> None:
    registry, _ = observed()
    registry.register(named("tool"))
    kept: list[Callable[[], Any]] = []

    async def gate(_execution: ToolExecution, proceed: GateRest) -> GateDecision:
        kept.append(proceed)
        if ended == "raised":
            raise ValueError("broken")
        return Allow()

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        kept.append(lambda: proceed(execution))
        if ended == "raised":
            raise ValueError("broken")
        return await proceed(execution)

    async def review(_execution: ToolExecution, _result: ToolResult, proceed: ReviewRest) -> ReviewDecision:
        kept.append(proceed)
        if ended == "raised":
            raise ValueError("broken")
        return await proceed()

    match kind:
        case "gate":
            registry.gate(gate)
        case "wrapper":
            registry.wrap(wrapper)
        case _:
            registry.review(review)
    await said(registry, "tool")
    with pytest.raises(RuntimeError, match="proceed"):
        await kept[0]()

    assert len(kept) == 1


@pytest.mark.rule("LA-8")
async def test_a_proceed_may_be_awaited_again_while_its_hook_runs(autojump_clock: MockClock) -> None:
    registry, _ = observed()
    registry.register(named("tool"))
    asked: list[str] = []

    async def twice_gate(_execution: ToolExecution, proceed: GateRest) -> GateDecision:
        await proceed()
        return await proceed()

    async def twice_review(
        _execution: ToolExecution, _result: ToolResult, proceed: ReviewRest
    ) -> ReviewDecision:
        await proceed()
        return await proceed()

    async def gate(_execution: ToolExecution, proceed: GateRest) -> GateDecision:
        asked.append("gate")
        return await proceed()

    async def review(_execution: ToolExecution, _result: ToolResult, proceed: ReviewRest) -> ReviewDecision:
        asked.append("review")
        return await proceed()

    registry.gate(twice_gate)
    registry.gate(gate)
    registry.review(twice_review)
    registry.review(review)

    assert await said(registry, "tool") == "tool"
    assert asked == ["gate", "gate", "review", "review"]


def three_tools() -> tuple[Registry, Layer, Layer]:
    registry = Registry()
    for name in "abc":
        registry.register(named(name))
    child = registry.layer("child")
    return registry, child, child.layer("below")


@pytest.mark.rule("LA-9")
@pytest.mark.parametrize("how", ["allow", "deny"])
async def test_a_restriction_filters_what_is_inherited_here_and_below(
    autojump_clock: MockClock, how: str
) -> None:
    registry, child, below = three_tools()
    child.restrict(**{how: ["a"]})  # pyright: ignore[reportArgumentType]
    left = ["a"] if how == "allow" else ["b", "c"]

    assert names(registry) == ["a", "b", "c"]
    assert names(child) == names(below) == left
    assert [name for name in "abc" if child.get(name) is not None] == left
    assert [name for name in "abc" if below.get(name) is not None] == left
    assert await said(registry, "a") == "a"
    assert await said(below, "a") == ("a" if how == "allow" else 'Error: unknown tool "a"')


@pytest.mark.rule("LA-9")
async def test_a_restriction_never_filters_the_layers_own_tools(autojump_clock: MockClock) -> None:
    registry, child, below = three_tools()
    child.register(named("a", "own a"))
    child.register(named("d", "own d"))
    child.restrict(deny=["a", "b"])
    child.restrict(allow=["c"])
    below.register(named("b", "below b"))

    assert await said(child, "a") == await said(below, "a") == "own a"
    assert await said(child, "d") == await said(below, "d") == "own d"
    assert await said(below, "b") == "below b"
    assert child.get("b") is None
    assert sorted(names(child)) == ["a", "c", "d"]
    assert sorted(names(below)) == ["a", "b", "c", "d"]
    assert await said(registry, "a") == "a"


@pytest.mark.rule("LA-9")
def test_a_restriction_below_filters_what_the_layer_above_adds() -> None:
    _, child, below = three_tools()
    child.register(named("d"))
    below.restrict(deny=["d", "a"])

    assert names(below) == ["b", "c"]
    assert sorted(names(child)) == ["a", "b", "c", "d"]


@pytest.mark.rule("LA-10")
def test_filters_intersect_and_each_is_lifted_by_its_own_close() -> None:
    _, child, below = three_tools()
    first = child.restrict(allow=["a", "b"])
    second = child.restrict(allow=["b", "c"])
    both = names(child)
    third = below.restrict(deny=["b"])
    none = names(below)
    first.close()
    first.close()
    lifted = names(child), names(below)
    third.close()
    second.close()

    assert both == ["b"]
    assert none == []
    assert lifted == (["b", "c"], ["c"])
    assert names(child) == names(below) == ["a", "b", "c"]


@pytest.mark.rule("LA-10", "LA-5")
def test_two_equal_filters_are_two() -> None:
    _, child, _ = three_tools()
    first, second = child.restrict(deny=["a"]), child.restrict(deny=["a"])
    first.close()
    once = names(child)
    second.close()

    assert once == ["b", "c"]
    assert names(child) == ["a", "b", "c"]


@pytest.mark.rule("LA-10")
def test_allow_and_deny_of_one_restriction_intersect() -> None:
    _, child, _ = three_tools()
    with child.restrict(allow=["a", "b"], deny=["b"]):
        inside = names(child)

    assert inside == ["a"]
    assert names(child) == ["a", "b", "c"]


@pytest.mark.rule("LA-10")
@pytest.mark.parametrize("how", ["allow", "deny"])
def test_the_names_of_a_restriction_are_copied(how: str) -> None:
    _, child, _ = three_tools()
    given = ["a"]
    child.restrict(**{how: given})  # pyright: ignore[reportArgumentType]
    given[:] = ["b"]

    assert names(child) == (["a"] if how == "allow" else ["b", "c"])


@pytest.mark.rule("LA-10")
def test_names_may_come_from_an_iterator() -> None:
    _, child, _ = three_tools()
    child.restrict(allow=iter(["a", "b"]), deny=(name for name in "b"))

    assert names(child) == ["a"]


@pytest.mark.rule("LA-10")
async def test_a_deny_admits_later_tools_and_an_allow_does_not(autojump_clock: MockClock) -> None:
    registry, child, _ = three_tools()
    other = registry.layer("other")
    child.restrict(deny=["a"])
    other.restrict(allow=["a"])
    registry.register(named("late"))

    assert names(child) == ["b", "c", "late"]
    assert names(other) == ["a"]
    assert await said(child, "late") == "late"
    assert await said(other, "late") == 'Error: unknown tool "late"'


@pytest.mark.rule("LA-10")
def test_a_denied_name_stays_denied_when_it_is_registered_again() -> None:
    registry = Registry()
    child = registry.layer("child")
    registration = registry.register(named("a"))
    child.restrict(deny=["a"])
    registration.close()
    registry.register(named("a"))

    assert child.get("a") is None


@pytest.mark.rule("LA-11")
@pytest.mark.parametrize(
    "bad",
    [
        {},
        {"allow": "a"},
        {"deny": "abc"},
        {"deny": b"a"},
        {"allow": ["a", "nobody"]},
        {"deny": ["nobody"]},
        {"allow": ["a"], "deny": ["nobody"]},
        {"allow": [7]},
    ],
    ids=repr,
)
def test_a_refused_restriction_lists_the_known_names_and_changes_nothing(bad: Any) -> None:
    _, child, _ = three_tools()
    with pytest.raises(RegistrationError, match="a, b, c"):
        child.restrict(**bad)

    assert names(child) == ["a", "b", "c"]


@pytest.mark.rule("LA-11")
@pytest.mark.parametrize("name", ["own", "below", "hidden"])
def test_a_name_that_is_not_inherited_cannot_be_restricted(name: str) -> None:
    registry, child, below = three_tools()
    registry.register(named("hidden"))
    child.restrict(deny=["hidden"])
    below.register(named("own"))
    below.layer("further").register(named("below"))
    with pytest.raises(RegistrationError, match="a, b, c"):
        below.restrict(deny=[name])

    assert below.get("own") is not None


@pytest.mark.rule("LA-11")
@pytest.mark.parametrize("arguments", [{}, {"allow": ["a"]}, {"deny": ["a"]}, {"allow": ()}], ids=repr)
def test_the_root_cannot_be_restricted(arguments: Any) -> None:
    registry, _, _ = three_tools()
    with pytest.raises(RegistrationError, match=r"root.*a, b, c"):
        registry.restrict(**arguments)

    assert names(registry) == ["a", "b", "c"]


@pytest.mark.rule("LA-11")
@pytest.mark.parametrize("empty", [(), list[str](), set[str](), iter(list[str]())])
def test_an_empty_allow_is_legal_and_hides_all(empty: Any) -> None:
    _, child, below = three_tools()
    child.register(named("own"))
    registration = child.restrict(allow=empty)
    hidden = names(child), names(below)
    registration.close()

    assert hidden == (["own"], ["own"])
    assert sorted(names(child)) == ["a", "b", "c", "own"]


@pytest.mark.rule("LA-11")
def test_an_empty_deny_is_legal_and_hides_nothing() -> None:
    _, child, _ = three_tools()
    child.restrict(deny=())

    assert names(child) == ["a", "b", "c"]


@pytest.mark.rule("LA-12", "TI-2", "OU-4")
def test_schemas_give_three_fields_as_detached_copies() -> None:
    registry = Registry()

    @registry.tool(timeout=5, name="shown", description="Shown to a model.")
    async def shown(path: str, limit: int = 10) -> list[str]:
        return [path] * limit

    (schema,) = registry.schemas()
    mutable: Any = schema
    mutable["parameters"]["properties"]["path"]["type"] = "number"
    mutable["name"] = "changed"
    mutable["parameters"].clear()
    (again,) = registry.schemas()

    assert set(again) == {"name", "description", "parameters"}
    assert (again["name"], again["description"]) == ("shown", "Shown to a model.")
    parameters: Any = again["parameters"]
    assert parameters["properties"]["path"] == {"type": "string"}
    assert parameters["required"] == ["path"]
    assert parameters.__class__ is parameters["properties"].__class__ is dict
    assert shown.schema() == again
    assert shown.schema() is not shown.schema()


async def async_gate(_execution: Any, proceed: Any) -> Any:
    return await proceed()


async def async_three(_execution: Any, _result: Any, proceed: Any) -> Any:
    return await proceed()


async def async_one(_execution: Any) -> None:
    return None


async def async_two(_execution: Any, _result: Any) -> None:
    return None


def sync_one(_execution: Any) -> None:
    return None


def sync_two(_execution: Any, _proceed: Any) -> Any:
    return Allow()


def sync_three(_execution: Any, _result: Any, _proceed: Any) -> Any:
    return Allow()


def hidden_async(fn: Callable[..., Any], *args: Any) -> Any:
    """A plain function that gives a coroutine: nothing tells before it is called."""
    return fn(*args)


class AsyncCallable:
    async def __call__(self, _execution: Any, *_rest: Any) -> None:
        return None


class Methods:
    def sync_gate(self, _execution: Any, _proceed: Any) -> Any:
        return Allow()

    async def async_guard(self, _execution: Any) -> None:
        return None

    def yielding_guard(self, _execution: Any) -> Iterator[str]:
        yield "denied"


def yielding(_first: Any, _second: Any) -> Iterator[None]:
    yield None


async def streaming(_first: Any, _second: Any) -> AsyncIterator[None]:
    yield None


WRONG: list[tuple[str, Any]] = [
    ("gate", sync_two),
    ("gate", Methods().sync_gate),
    ("gate", functools.partial(sync_three, None)),
    ("gate", async_one),
    ("gate", async_three),
    ("gate", streaming),
    ("gate", yielding),
    ("gate", functools.partial(streaming)),
    ("gate", "gate"),
    ("gate", None),
    ("gate", Allow()),
    ("guard", async_one),
    ("guard", Methods().async_guard),
    ("guard", functools.partial(async_two, None)),
    ("guard", AsyncCallable()),
    ("guard", Methods().yielding_guard),
    ("guard", sync_two),
    ("guard", 7),
    ("wrap", sync_two),
    ("wrap", streaming),
    ("wrap", functools.partial(Methods().sync_gate)),
    ("wrap", async_three),
    ("wrap", None),
    ("review", sync_three),
    ("review", async_gate),
    ("review", functools.partial(streaming, None)),
    ("review", 7),
    ("observe", async_two),
    ("observe", yielding),
    ("observe", streaming),
    ("observe", AsyncCallable()),
    ("observe", sync_one),
    ("observe", "log"),
]


@pytest.mark.rule("LA-13")
@pytest.mark.parametrize(("kind", "hook"), WRONG)
async def test_a_hook_of_the_wrong_kind_is_refused_where_it_can_be_told(
    autojump_clock: MockClock, kind: str, hook: Any
) -> None:
    registry, seen = observed()
    registry.register(named("tool"))
    with pytest.raises(RegistrationError):
        getattr(registry, kind)(hook)
    text = await said(registry, "tool")

    assert text == "tool"
    assert len(seen.results) == 1


@pytest.mark.rule("LA-13")
async def test_a_hook_that_claims_to_wrap_itself_is_admitted_and_runs(autojump_clock: MockClock) -> None:
    registry, _ = observed()
    registry.register(named("tool"))

    def guard(_execution: ToolExecution) -> str:
        return "refused"

    guard.__dict__["__wrapped__"] = guard
    registry.guard(guard)

    assert await said(registry, "tool") == "Error: refused"


@pytest.mark.parametrize("name", [None, 7, b"name", Layer, ["name"]])
def test_the_name_of_a_layer_is_a_string(name: Any) -> None:
    with pytest.raises(RegistrationError, match="the name of a layer is a string"):
        Registry().layer(name)


@pytest.mark.rule("LA-13")
@pytest.mark.parametrize("kind", ["gate", "guard", "wrap", "review"])
async def test_a_hook_of_the_wrong_kind_fails_closed_where_it_cannot_be_told(
    autojump_clock: MockClock, kind: str
) -> None:
    registry, seen = observed()
    ran: list[str] = []

    @registry.tool
    async def work() -> str:
        ran.append("body")
        return "secret"

    hooks: dict[str, Any] = {
        "gate": lambda _execution, _proceed: Allow(),  # pyright: ignore[reportUnknownLambdaType]
        "guard": functools.partial(hidden_async, async_one),
        "wrap": lambda _execution, _proceed: ToolResult.ok("made up"),  # pyright: ignore[reportUnknownLambdaType]
        "review": lambda _execution, _result, _proceed: Allow(),  # pyright: ignore[reportUnknownLambdaType]
    }
    getattr(registry, kind)(hooks[kind])
    text = await said(registry, "work")

    assert seen.only.code == "POLICY_ERROR"
    assert "secret" not in text
    assert "made up" not in text
    assert ran == (["body"] if kind == "review" else [])


@pytest.mark.rule("LA-13", "PU-6")
async def test_an_observer_that_returns_a_coroutine_is_closed_and_logged(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    registry, seen = observed()
    registry.register(named("tool"))
    registry.observe(functools.partial(hidden_async, async_two))
    text = await said(registry, "tool")

    assert text == "tool"
    assert len(seen.results) == 1
    assert [record.name for record in caplog.records] == ["trio_tools"]


@pytest.mark.rule("LA-13")
async def test_hooks_may_be_methods_partials_and_callable_objects(autojump_clock: MockClock) -> None:
    registry, _ = observed()
    registry.register(named("tool"))
    ran: list[str] = []

    class Hooks:
        async def gate(self, _execution: ToolExecution, proceed: GateRest) -> GateDecision:
            ran.append("gate")
            return await proceed()

        def guard(self, _execution: ToolExecution) -> None:
            ran.append("guard")

        async def __call__(self, execution: DispatchExecution, proceed: Proceed) -> ToolResult:
            ran.append("wrapper")
            return await proceed(execution)

    def observer(word: str, _execution: ToolExecution, _result: ToolResult) -> None:
        ran.append(word)

    hooks = Hooks()
    registry.gate(hooks.gate)
    registry.guard(hooks.guard)
    registry.wrap(hooks)
    registry.observe(functools.partial(observer, "observer"))
    await said(registry, "tool")

    assert ran == ["gate", "guard", "wrapper", "observer"]


@pytest.mark.rule("LA-13")
async def test_a_hook_whose_signature_cannot_be_read_is_given_the_benefit_of_the_doubt(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed()
    registry.register(named("tool"))

    registry.guard(iter)  # type: ignore[arg-type]
    text = await said(registry, "tool")

    assert seen.only.code == "POLICY_ERROR"
    assert text.startswith("Error: ")


@pytest.mark.rule("LA-14")
def test_a_registry_made_outside_serves_any_number_of_runs() -> None:
    registry, seen = observed(named("tool"))
    child = registry.layer("child")
    registry.guard(lambda _execution: None)

    async def main() -> str:
        return await said(child, "tool")

    texts = [run(main) for _ in range(3)]

    assert texts == ["tool"] * 3
    assert len(seen.results) == 3
    assert registry.statistics().calls == ()


@pytest.mark.rule("LA-14")
def test_a_run_that_ends_badly_leaves_nothing_in_the_registry() -> None:
    registry, seen = observed()

    @registry.tool
    async def interrupts() -> str:
        raise KeyboardInterrupt

    registry.register(named("tool"))

    async def bad() -> str:
        return await said(registry, "interrupts")

    async def good() -> str:
        return await said(registry, "tool")

    with pytest.raises((KeyboardInterrupt, BaseExceptionGroup)):
        run(bad)

    assert registry.statistics().calls == ()
    assert run(good) == "tool"
    assert len(seen.results) == 2


def test_the_decorator_of_a_layer_defines_and_registers(autojump_clock: MockClock) -> None:
    registry = Registry()
    child = registry.layer("child")

    @child.tool
    async def plain() -> str:
        return "plain"

    @child.tool(name="other", timeout=3)
    async def optioned() -> str:
        return "optioned"

    assert child.get("plain") is plain
    assert child.get("other") is optioned
    assert optioned.timeout == 3.0
    assert registry.get("plain") is None
    assert repr(child) == "<Layer 'child'>"
    assert repr(registry) == "<Registry 'root'>"
