"""The tools that are measured, the registries they run in, and what a person would write by hand."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypedDict

import trio

from trio_tools import (
    DispatchExecution,
    GateDecision,
    JsonValue,
    Registry,
    ReviewDecision,
    Tool,
    ToolCall,
    ToolError,
    ToolExecution,
    ToolResult,
    open_call_scope,
    tool,
)

from .harness import AsyncContender, timed

__all__ = [
    "ARGUMENTS",
    "DOCUMENT",
    "TOOLS",
    "by_hand",
    "by_hand_as_ruled",
    "by_hand_failing",
    "full",
    "hooked",
    "through",
]

TIMEOUT = 60.0


class Place(TypedDict):
    country: str
    city: str
    at: list[float]


class Row(TypedDict):
    id: int
    name: str
    price: float
    tags: list[str]
    shipped: bool
    place: Place


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def pause(a: int, b: int) -> int:
    """Add two numbers after one checkpoint."""
    await trio.lowlevel.checkpoint()
    return a + b


async def echo(rows: list[Row]) -> list[Row]:
    """Return what came in."""
    return rows


async def fail(a: int, b: int) -> int:
    """Refuse on purpose: what nobody raised on purpose is logged too, and a log is not what we measure."""
    raise ToolError(f"{a} and {b} do not go together", code="NO_SUM")


async def sleep() -> None:
    """Wait to be cancelled."""
    await trio.sleep_forever()


ROWS: list[Row] = [
    {
        "id": number,
        "name": f"a thing of kind {number}",
        "price": number * 1.25,
        "tags": ["new", "blue", "heavy"],
        "shipped": number % 2 == 0,
        "place": {"country": "Iceland", "city": "Akureyri", "at": [65.68, -18.09]},
    }
    for number in range(12)
]
"""Two kilobytes of JSON text, three containers deep."""

DOCUMENT: dict[str, object] = {"rows": ROWS}

_ROWS_SCHEMA: dict[str, Any] = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "name": {"type": "string"},
            "price": {"type": "number"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "shipped": {"type": "boolean"},
            "place": {
                "type": "object",
                "properties": {
                    "country": {"type": "string"},
                    "city": {"type": "string"},
                    "at": {"type": "array", "items": {"type": "number"}},
                },
                "required": ["country", "city", "at"],
            },
        },
        "required": ["id", "name", "price", "tags", "shipped", "place"],
    },
}


async def echo_as_given(arguments: Mapping[str, JsonValue]) -> JsonValue:
    return arguments["rows"]


_declared = tool(timeout=TIMEOUT, concurrency_safe=True)

TOOLS: tuple[Tool, ...] = (
    _declared(add),
    _declared(pause),
    _declared(echo),
    _declared(fail),
    _declared(sleep),
    Tool.from_schema(
        name="echo_as_given",
        description="Return what came in.",
        parameters={"type": "object", "properties": {"rows": _ROWS_SCHEMA}, "required": ["rows"]},
        output=_ROWS_SCHEMA,
        body=echo_as_given,
        timeout=TIMEOUT,
    ),
)

ARGUMENTS: Mapping[str, dict[str, object]] = {
    "add": {"a": 2, "b": 3},
    "pause": {"a": 2, "b": 3},
    "echo": DOCUMENT,
    "echo_as_given": DOCUMENT,
    "fail": {"a": 2, "b": 3},
    "sleep": {},
}


def _observe(_execution: ToolExecution, _result: ToolResult) -> None:
    pass


async def _gate(_execution: ToolExecution, proceed: Callable[[], Awaitable[GateDecision]]) -> GateDecision:
    return await proceed()


def _guard(_execution: ToolExecution) -> str | None:
    return None


async def _wrap(
    execution: DispatchExecution, proceed: Callable[[DispatchExecution], Awaitable[ToolResult]]
) -> ToolResult:
    return await proceed(execution)


async def _review(
    _execution: ToolExecution, _result: ToolResult, proceed: Callable[[], Awaitable[ReviewDecision]]
) -> ReviewDecision:
    return await proceed()


def full() -> Registry:
    """Return a registry with all tools, their timeouts enforced, and one observer."""
    registry = Registry()
    for each in TOOLS:
        registry.register(each)
    registry.observe(_observe)
    return registry


def hooked() -> Registry:
    """Return the same with one gate, one guard, one wrapper and one reviewer as well."""
    registry = full()
    registry.gate(_gate)
    registry.guard(_guard)
    registry.wrap(_wrap)
    registry.review(_review)
    return registry


def through(registry: Registry, name: str) -> AsyncContender:
    """Return the contender that executes calls of one tool, one after another."""
    arguments = ARGUMENTS[name]

    async def run(repeat: int) -> int:
        async with open_call_scope() as scope:

            async def work() -> None:
                for _ in range(repeat):
                    await registry.execute(ToolCall(name=name, arguments=arguments, scope=scope))

            return await timed(work)

    return run


def by_hand(body: Callable[[], Awaitable[object]]) -> AsyncContender:
    """Return the reference: a nursery with one child task that awaits the body."""

    async def child() -> None:
        await body()

    async def run(repeat: int) -> int:
        async def work() -> None:
            for _ in range(repeat):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(child)

        return await timed(work)

    return run


def by_hand_as_ruled(body: Callable[[], Awaitable[object]]) -> AsyncContender:
    """Return what trio takes to keep the rules, and nothing of the library: the least that a call can cost.

    A deadline on the nursery; a scope in the body's task, without which trio is silent about one that is left
    open; and a parked task that notices when the scopes around it are cancelled, without being interrupted.
    """

    async def child(parked: list[trio.lowlevel.Task]) -> None:
        with trio.CancelScope():
            await body()
        trio.lowlevel.reschedule(parked.pop())

    def decline(_raise_cancel: object) -> trio.lowlevel.Abort:
        return trio.lowlevel.Abort.FAILED

    async def run(repeat: int) -> int:
        async def work() -> None:
            for _ in range(repeat):
                async with trio.open_nursery() as nursery:
                    nursery.cancel_scope.deadline = trio.current_time() + TIMEOUT
                    nursery.start_soon(child, [trio.lowlevel.current_task()])
                    await trio.lowlevel.wait_task_rescheduled(decline)

        return await timed(work)

    return run


def by_hand_failing(body: Callable[[], Awaitable[object]]) -> AsyncContender:
    """Return the reference for a body that fails: its error is kept where it is cheapest, in the child."""
    kept: list[ToolError] = []

    async def child() -> None:
        try:
            await body()
        except ToolError as error:
            kept.append(error)

    async def run(repeat: int) -> int:
        async def work() -> None:
            for _ in range(repeat):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(child)
                kept.clear()

        return await timed(work)

    return run
