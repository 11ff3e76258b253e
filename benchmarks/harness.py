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

from attrs import frozen

__all__ = ["LEAST_ROUNDS", "Contender", "Ratio", "interleave", "ratio_of", "timed"]

Contender = Callable[[int], Awaitable[int]]
"""Does its work as often as it is told, and returns how many nanoseconds of it count."""

LEAST_ROUNDS = 13


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


async def interleave(
    contenders: Mapping[str, Contender], *, repeat: int, rounds: int
) -> dict[str, list[int]]:
    """Run all contenders in each of ``rounds`` rounds and return what each cost in each of them.

    Args:
        contenders: what is to be compared stands side by side, so that little time lies in between.
        repeat: how often each does its work in one round, the same for all.
        rounds: at least `LEAST_ROUNDS`; one more is run first and thrown away.
    """
    if rounds < LEAST_ROUNDS:
        raise ValueError(f"a median takes at least {LEAST_ROUNDS} rounds, not {rounds}")
    names = list(contenders)
    costs: dict[str, list[int]] = {name: [] for name in names}
    for number in range(rounds + 1):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            # Nobody pays for the garbage of the one before.
            gc.collect()
            cost = await contenders[name](repeat)
            if number > 0:
                costs[name].append(cost)
    return costs
