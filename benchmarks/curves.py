"""What a call costs as there is more of something: calls in flight, tools, layers, wrappers, finished calls.

Every point is a ratio to the same thing by hand, taken right before or after it. Where a cost must not grow,
the curve says so, and by how much it has grown from its first point to its last.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from statistics import median
from typing import Final, final

import trio
from attrs import evolve, frozen

from trio_tools import DispatchExecution, Layer, Registry, ToolCall, ToolResult, open_call_scope

from .harness import AsyncContender, timed
from .scale import bytes_by_hand, bytes_per_call, cancel_bare_tasks, cancel_calls
from .subjects import ARGUMENTS, TOOLS, add, by_hand, full, pause

__all__ = ["Curve", "Point", "curves"]

_ADD: Final = next(tool for tool in TOOLS if tool.name == "add")
_REPEAT: Final = 300
_LARGEST: Final = 100_000
_QUICK: Final = 1_000


@final
@frozen
class Point:
    """One point of a curve.

    Attributes:
        size: how much there was of it.
        value: what a call cost, in the unit of the curve.
        own: what it cost in microseconds, or in KB, to see how the curve itself grows.
        by_hand: the same by hand.
    """

    size: int
    value: float
    own: float
    by_hand: float


@final
@frozen
class Curve:
    """What a call costs, over how much there is of something.

    Attributes:
        name: short, for the picture's data.
        title: what is measured.
        axis: what there is more and more of.
        unit: of the values.
        points: by size.
        since: the size from which growth is judged.
        limit: how far the value may grow from there to the largest size; None where it is meant to grow.
    """

    name: str
    title: str
    axis: str
    unit: str
    points: tuple[Point, ...]
    since: int = 0
    limit: float | None = None

    @property
    def growth(self) -> float | None:
        """How many times the first value the highest of the others is; None where there is but one."""
        first, *others = [point.value for point in self.points if point.size >= self.since] or [0.0]
        return max(others) / first if others else None

    @property
    def flat(self) -> bool | None:
        growth = self.growth
        return None if self.limit is None or growth is None else growth <= self.limit


At = Callable[[int], AsyncContender]
"""Makes the contender for a size."""


def _rounds(size: int) -> int:
    return 7 if size <= _QUICK else 5 if size < _LARGEST else 3


def _points(
    sizes: Sequence[int], ours: At, reference: At, repeat: Callable[[int], int] = lambda _size: _REPEAT
) -> tuple[Point, ...]:
    """Measure each size in each round, with its reference beside it."""
    contenders = [(size, ours(size), reference(size)) for size in sizes]
    taken: dict[int, list[tuple[float, float]]] = {size: [] for size in sizes}
    for number in range(max(map(_rounds, sizes))):
        for size, mine, theirs in contenders:
            if number >= _rounds(size):
                continue
            often = repeat(size)
            pair = (mine, theirs) if number % 2 else (theirs, mine)
            costs = {each: trio.run(each, often) / often for each in pair}
            taken[size].append((costs[mine], costs[theirs]))
    return tuple(
        Point(
            size,
            median(mine / theirs for mine, theirs in costs),
            median(mine for mine, _ in costs) / 1_000,
            median(theirs for _, theirs in costs) / 1_000,
        )
        for size, costs in taken.items()
    )


def _executing(layer: Layer, names: Sequence[str], warm_up: int = 1) -> AsyncContender:
    """Return the contender that calls the named tools in turn, after other calls under the same scope."""

    async def run(repeat: int) -> int:
        async with open_call_scope() as scope:

            async def work(times: int) -> None:
                for number in range(times):
                    name = names[number % len(names)]
                    await layer.execute(ToolCall(name=name, arguments=ARGUMENTS["add"], scope=scope))

            await work(warm_up)
            return await timed(partial(work, repeat))

    return run


def _add_by_hand(_size: int) -> AsyncContender:
    return by_hand(partial(add, 2, 3))


def _with_tools(size: int) -> AsyncContender:
    registry = Registry()
    tools = [evolve(_ADD, name=f"add_{number}") for number in range(size)]
    for each in tools:
        registry.register(each)
    # From all over the registry, and not so many that the processor's caches are what is measured.
    return _executing(registry, [each.name for each in tools[:: max(size // 10, 1)]])


def _in_layers(size: int) -> AsyncContender:
    layer: Layer = full()
    for number in range(size):
        layer = layer.layer(f"layer {number}")
    return _executing(layer, ["add"])


async def _pass_on(
    execution: DispatchExecution, proceed: Callable[[DispatchExecution], Awaitable[ToolResult]]
) -> ToolResult:
    return await proceed(execution)


def _in_wrappers(size: int) -> AsyncContender:
    registry = full()
    for _ in range(size):
        registry.wrap(_pass_on)
    return _executing(registry, ["add"])


def _after_finished(size: int) -> AsyncContender:
    return _executing(full(), ["add"], warm_up=size)


def _at_once(_size: int) -> AsyncContender:
    registry = full()

    async def run(repeat: int) -> int:
        async with open_call_scope() as scope:

            async def work() -> None:
                async with trio.open_nursery() as nursery:
                    for _ in range(repeat):
                        call = ToolCall(name="pause", arguments=ARGUMENTS["pause"], scope=scope)
                        nursery.start_soon(registry.execute, call)

            return await timed(work)

    return run


def _at_once_by_hand(_size: int) -> AsyncContender:
    async def child() -> None:
        await pause(2, 3)

    async def nursery_and_child() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(child)

    async def run(repeat: int) -> int:
        async def work() -> None:
            async with trio.open_nursery() as nursery:
                for _ in range(repeat):
                    nursery.start_soon(nursery_and_child)

        return await timed(work)

    return run


def _as_batch(_size: int) -> AsyncContender:
    registry = full()

    async def run(repeat: int) -> int:
        async with open_call_scope() as scope:

            async def work() -> None:
                await registry.execute_batch(
                    [ToolCall(name="add", arguments=ARGUMENTS["add"], scope=scope) for _ in range(repeat)]
                )

            return await timed(work)

    return run


def _in_memory(sizes: Sequence[int]) -> tuple[Point, ...]:
    registry = full()
    points: list[Point] = []
    for size in sizes:
        own = trio.run(bytes_per_call, registry, size) / 1024
        points.append(Point(size, own, own, trio.run(bytes_by_hand, size) / 1024))
    return tuple(points)


_BY_HAND, _BARE, _NURSERY = "times nurseries by hand", "times bare tasks", "times a nursery and child"


def curves(*, largest: int = _LARGEST) -> list[Curve]:
    """Measure every curve, up to the largest number of calls."""
    many = [size for size in (10, 100, 1_000, 10_000, 100_000) if size <= largest]
    tools = [size for size in (10, 100, 1_000, 10_000) if size <= largest]
    weighed = [size for size in (10, 100, 1_000, 10_000) if size <= largest]

    def all_of_them(size: int) -> int:
        return size

    def cancelling(_size: int) -> AsyncContender:
        return cancel_calls(full())

    def bare(_size: int) -> AsyncContender:
        return cancel_bare_tasks

    at_once = _points(many, _at_once, _at_once_by_hand, all_of_them)
    cancelled = _points(many, cancelling, bare, all_of_them)
    batched = _points(many, _as_batch, _add_by_hand, all_of_them)
    ended = _points(many, _after_finished, _add_by_hand)
    among_tools = _points(tools, _with_tools, _add_by_hand)
    layered = _points((1, 5, 10, 15, 20), _in_layers, _add_by_hand)
    wrapped = _points((0, 5, 10, 20, 35, 50), _in_wrappers, _add_by_hand)
    return [
        Curve("in_flight", "calls at once", "calls in flight", _BY_HAND, at_once, 1_000, 1.3),
        Curve("cancel", "cancelling them all", "calls in flight", _BARE, cancelled, 1_000, 1.3),
        Curve("batch", "one batch, ten at a time", "calls in the batch", _NURSERY, batched, 1_000, 1.3),
        Curve("finished", "after others, in one scope", "calls that have ended", _NURSERY, ended, 0, 1.1),
        Curve("tools", "among many tools", "tools in the registry", _NURSERY, among_tools, 0, 1.1),
        Curve("layers", "from the innermost layer", "layers", _NURSERY, layered, 0, 1.1),
        Curve("wrappers", "through wrappers", "wrappers", _NURSERY, wrapped),
        Curve("memory", "memory of a call in flight", "calls in flight", "KB", _in_memory(weighed), 100, 1.3),
    ]
