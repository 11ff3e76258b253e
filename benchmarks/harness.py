"""The one way in which times are taken: all contenders in turn, in one process, and ratios alone told.

A machine that is busy slows everything down, but not evenly over time. So every contender runs once in
each round, in an order that rotates, and is compared with the reference of that round only. What is told
is the median of these ratios, and how far the middle half of them lies apart.

Processor time of this process is taken, not time on the wall: no contender sleeps, and what other programs
do meanwhile is none of our business.
"""

import gc
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from statistics import median, quantiles
from typing import final

import trio
from attrs import frozen

__all__ = [
    "LEAST_ROUNDS",
    "AsyncContender",
    "Contender",
    "Ratio",
    "interleave",
    "on_trio",
    "ratio_of",
    "timed",
]

Contender = Callable[[int], int]
"""Does its work as often as it is told, and returns how many nanoseconds of it count."""

AsyncContender = Callable[[int], Awaitable[int]]
"""The same, to be run in a loop of its own."""

LEAST_ROUNDS = 13

_TURN_NS = 20_000_000
_FEWEST, _MOST = 10, 2_000


@final
@frozen
class Ratio:
    """How many times the reference something cost.

    Attributes:
        median: over all rounds.
        spread: the distance between the quartiles, as a fraction of the median.
    """

    median: float
    spread: float


def ratio_of(costs: Sequence[float], references: Sequence[float]) -> Ratio:
    """Compare each round's cost with the reference of the same round."""
    ratios = [cost / reference for cost, reference in zip(costs, references, strict=True)]
    low, _, high = quantiles(ratios, n=4)
    middle = median(ratios)
    return Ratio(middle, (high - low) / middle)


async def timed(work: Callable[[], Awaitable[object]]) -> int:
    """Await ``work()`` and return the nanoseconds of processor time that it took."""
    begun = time.process_time_ns()
    await work()
    return time.process_time_ns() - begun


def on_trio(contender: AsyncContender) -> Contender:
    """Return the contender that runs in a trio run of its own; starting the run is not timed."""

    async def turn(repeat: int) -> int:
        return await contender(repeat)

    return lambda repeat: trio.run(turn, repeat)


def interleave(
    contenders: Mapping[str, Contender], *, rounds: int, repeat: int | None = None
) -> dict[str, list[float]]:
    """Run all contenders in each of ``rounds`` rounds; return what one piece of work cost in each, in ns.

    Args:
        contenders: what is to be compared stands side by side, so that little time lies in between.
        rounds: at least `LEAST_ROUNDS`; one more is run first and thrown away.
        repeat: how often each does its work in one round; by default as often as takes some 20 ms, judged
            for each contender by the round that is thrown away.
    """
    if rounds < LEAST_ROUNDS:
        raise ValueError(f"a median takes at least {LEAST_ROUNDS} rounds, not {rounds}")
    often = dict.fromkeys(contenders, _FEWEST if repeat is None else repeat)
    for name, contender in contenders.items():
        cost = contender(often[name])
        if repeat is None:
            often[name] = min(max(_FEWEST * _TURN_NS // max(cost, 1), _FEWEST), _MOST)
    # What was imported and set up lives on: nobody's collector is to look at it again and again.
    gc.collect()
    gc.freeze()
    try:
        return _in_turn(contenders, often, rounds)
    finally:
        gc.unfreeze()


def _in_turn(
    contenders: Mapping[str, Contender], often: Mapping[str, int], rounds: int
) -> dict[str, list[float]]:
    names = list(contenders)
    costs: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            # Nobody pays for the garbage of the one before.
            gc.collect()
            costs[name].append(contenders[name](often[name]) / often[name])
    return costs
