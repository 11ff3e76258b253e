"""Calls of every kind for a long time: ``python -m benchmarks.soak --minutes 30`` fails when anything grows.

Calls that end, fail, are cancelled from outside or by a deadline, nest, run in a thread, and batches of all
of these, under scopes that come and go, through layers and hooks that come and go. Between them, when nothing
is in flight, it is weighed what the process holds: memory that Python allocated, file descriptors, objects
that the collector knows. After a first part, in which caches fill, none of them may grow.
"""

import argparse
import gc
import random
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Final, final

import trio
from attrs import define, frozen

from trio_tools import (
    BatchPolicy,
    CallScope,
    Registry,
    ToolCall,
    ToolContext,
    ToolExecution,
    ToolOutcome,
    ToolResult,
    open_call_scope,
)

from .subjects import DOCUMENT, TOOLS

__all__ = ["Limits", "Sample", "grown", "main", "soak"]

_EVERY: Final = 10.0
_FEWEST: Final = 3
_DESCRIPTORS: Final = Path("/proc/self/fd")


@final
@frozen
class Sample:
    """What the process held while no call was in flight.

    Attributes:
        calls: that have ended by then.
        memory: in bytes, as Python's allocators know it.
        descriptors: open ones of the operating system.
        objects: that the collector knows.
    """

    calls: int
    memory: int
    descriptors: int
    objects: int


@final
@frozen
class Limits:
    """How much may come on top between the middle of a soak and its end, as its noise has it."""

    memory: int = 64 * 1024
    descriptors: int = 0
    objects: int = 200


def grown(samples: Sequence[Sample], limits: Limits = Limits()) -> list[str]:
    """Return a sentence for whatever has grown, told from the medians of the second and the last third."""
    third = len(samples) // 3
    if len(samples) < _FEWEST:
        raise ValueError(f"growth takes three samples at least, not {len(samples)}")
    before, after = samples[third : 2 * third], samples[-third:]
    told: list[str] = []
    readings: list[tuple[str, Callable[[Sample], int], int]] = [
        ("bytes of memory", lambda sample: sample.memory, limits.memory),
        ("file descriptors", lambda sample: sample.descriptors, limits.descriptors),
        ("objects", lambda sample: sample.objects, limits.objects),
    ]
    for what, reading, limit in readings:
        first, last = median(map(reading, before)), median(map(reading, after))
        if last - first > limit:
            told.append(f"{what}: {first:,.0f} in the middle, {last:,.0f} at the end")
    return told


@define
class _Tally:
    calls: int = 0
    cancelled: int = 0
    failed: int = 0

    def note(self, _execution: ToolExecution, result: ToolResult) -> None:
        self.calls += 1
        self.cancelled += result.outcome is ToolOutcome.CANCELLED
        self.failed += result.outcome is ToolOutcome.FAILED


def _registry(tally: _Tally) -> Registry:
    registry = Registry()
    for each in TOOLS:
        registry.register(each)

    @registry.tool(timeout=0.002, concurrency_safe=True)
    async def too_slow() -> None:  # pyright: ignore[reportUnusedFunction]
        """Wait for longer than its timeout."""
        await trio.sleep(1)

    @registry.tool(concurrency_safe=True)
    async def nest(depth: int, *, ctx: ToolContext) -> int:  # pyright: ignore[reportUnusedFunction]
        """Call itself, and others beside."""
        ctx.nursery.start_soon(trio.sleep, 0)
        if depth > 0:
            await ctx.call("nest", {"depth": depth - 1})
            await ctx.call("fail", {"a": 1, "b": 2})
        return depth

    @registry.tool(concurrency_safe=True)
    def threaded(a: int) -> int:  # pyright: ignore[reportUnusedFunction]
        """Return what came in, from a thread."""
        return a

    registry.observe(tally.note)
    return registry


_KINDS: Final[Sequence[tuple[str, dict[str, object]]]] = (
    ("add", {"a": 1, "b": 2}),
    ("pause", {"a": 1, "b": 2}),
    ("echo", DOCUMENT),
    ("echo_as_given", DOCUMENT),
    ("fail", {"a": 1, "b": 2}),
    ("sleep", {}),
    ("too_slow", {}),
    ("nest", {"depth": 3}),
    ("threaded", {"a": 1}),
    ("unheard of", {}),
    ("add", {"a": "one", "b": 2}),
)


def _call(random_: random.Random, scope: CallScope) -> ToolCall:
    name, arguments = random_.choice(_KINDS)
    return ToolCall(name=name, arguments=arguments, scope=scope)


async def _some_calls(registry: Registry, random_: random.Random) -> None:
    """Make a few dozen calls under a scope of their own, and have all of them end."""
    layer = registry.layer("for a while")
    with layer.wrap(lambda execution, proceed: proceed(execution)), layer.guard(lambda _execution: None):
        timeout = random_.choice((0.002, 0.05, 0.1))
        async with (
            open_call_scope(timeout=timeout) as scope,
            scope.open_child(name="part") as part,
            trio.open_nursery() as nursery,
        ):
            for _ in range(20):
                nursery.start_soon(layer.execute, _call(random_, random_.choice((scope, part))))
            policy = random_.choice(tuple(BatchPolicy))
            batch = [_call(random_, scope) for _ in range(20)]
            nursery.start_soon(lambda: layer.execute_batch(batch, on_failure=policy))
            await trio.sleep(random_.choice((0, 0.03)))
            part.cancel("enough of this part")
            if random_.random() < 0.2:
                # What goes on around a call is cancelled, rather than its caller.
                nursery.cancel_scope.cancel()


def _sample(calls: int) -> Sample:
    gc.collect()
    memory, _peak = tracemalloc.get_traced_memory()
    return Sample(calls, memory, sum(1 for _ in _DESCRIPTORS.iterdir()), len(gc.get_objects()))


async def soak(
    seconds: float, seed: int, every: float, tell: Callable[[Sample, _Tally], None]
) -> list[Sample]:
    """Make calls for so long, and return what was weighed in between."""
    random_, tally, samples = random.Random(seed), _Tally(), list[Sample]()
    registry = _registry(tally)
    end = time.monotonic() + seconds
    tracemalloc.start()
    try:
        while time.monotonic() < end or len(samples) < _FEWEST:
            until = time.monotonic() + every
            while time.monotonic() < until:
                await _some_calls(registry, random_)
            if registry.statistics().in_flight:
                raise AssertionError("calls are in flight although all their scopes are closed")
            samples.append(_sample(tally.calls))
            tell(samples[-1], tally)
    finally:
        tracemalloc.stop()
    return samples


def main(arguments: Sequence[str] | None = None) -> int:
    """Soak, print a line a minute, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    seconds: float = 60 * options.minutes
    every = min(_EVERY, seconds / 6)
    told_at = begun = time.monotonic()

    def tell(sample: Sample, tally: _Tally) -> None:
        nonlocal told_at
        now = time.monotonic()
        if now - told_at < min(60.0, seconds / 3) - every / 2:
            return
        told_at = now
        print(
            f"{(now - begun) / 60:5.1f} min: {tally.calls:,} calls ({tally.cancelled:,} cancelled, "
            f"{tally.failed:,} failed), {sample.memory / 1024:,.0f} KB, {sample.descriptors} descriptors, "
            f"{sample.objects:,} objects",
            flush=True,
        )

    told = grown(trio.run(soak, seconds, options.seed, every, tell))
    print(*(["it grows:", *told] if told else ["nothing grows"]), sep="\n")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
