"""Print the table: ``python -m benchmarks [--rounds N]``."""

import argparse
import platform
from collections.abc import Sequence
from functools import partial
from importlib.metadata import version

import trio
from attrs import frozen

from .harness import LEAST_ROUNDS, Contender, Ratio, interleave, ratio_of
from .scale import batch, bytes_by_hand, bytes_per_call, cancel_bare_tasks, cancel_by_hand, cancel_calls
from .subjects import ROWS, add, by_hand, by_hand_failing, echo, fail, full, hooked, pause, through

IN_FLIGHT = 1_000
REPEAT = 200
WEIGHT = 6 * 1024


@frozen
class Line:
    """One line of the table; a goal of None means that none was set."""

    what: str
    against: str
    value: str
    spread: str
    goal: str
    reached: str


def line(what: str, against: str, ratio: Ratio, goal: float | None) -> Line:
    reached = "" if goal is None else "yes" if ratio.median <= goal else "no"
    return Line(
        what,
        against,
        f"{ratio.median:.2f}",
        f"{ratio.spread:.0%}",
        "" if goal is None else f"<= {goal:.2f}",
        reached,
    )


async def calls(rounds: int) -> list[Line]:
    """Compare single calls, each with the same body in a nursery by hand."""
    registry, all_hooks = full(), hooked()
    add_by_hand, echo_by_hand = by_hand(partial(add, 2, 3)), by_hand(partial(echo, ROWS))
    subjects: list[tuple[str, Contender, Contender, float]] = [
        ("`add`", add_by_hand, through(registry, "add"), 1.30),
        ("`add`, one checkpoint", by_hand(partial(pause, 2, 3)), through(registry, "pause"), 1.25),
        ("2 KB of JSON in and out, typed", echo_by_hand, through(registry, "echo"), 2.6),
        ("2 KB of JSON in and out, given schema", echo_by_hand, through(registry, "echo_as_given"), 2.6),
        ("a failing body", by_hand_failing(partial(fail, 2, 3)), through(registry, "fail"), 1.35),
        ("`add`, one of each hook", add_by_hand, through(all_hooks, "add"), 1.45),
    ]
    contenders: dict[str, Contender] = {}
    for what, reference, ours, _goal in subjects:
        contenders |= {f"{what}, by hand": reference, what: ours}
    costs = await interleave(contenders, repeat=REPEAT, rounds=rounds)
    return [
        line(what, "nursery and child", ratio_of(costs[what], costs[f"{what}, by hand"]), goal)
        for what, _reference, _ours, goal in subjects
    ]


async def many(rounds: int) -> list[Line]:
    """Compare what is done to many calls at once."""
    registry = full()
    costs = await interleave(
        {
            "bare": cancel_bare_tasks,
            "cancel": cancel_calls(registry),
            "cancel by hand": cancel_by_hand,
            "by hand": by_hand(partial(add, 2, 3)),
            "batch": batch(registry, "add"),
        },
        repeat=IN_FLIGHT,
        rounds=rounds,
    )
    number = f"{IN_FLIGHT:,}"
    weight, weight_by_hand = await bytes_per_call(registry, IN_FLIGHT), await bytes_by_hand(IN_FLIGHT)
    return [
        line(f"cancel {number} calls in flight", "bare task", ratio_of(costs["cancel"], costs["bare"]), 2.5),
        line(
            f"cancel {number} nurseries with a child",
            "bare task",
            ratio_of(costs["cancel by hand"], costs["bare"]),
            None,
        ),
        line(
            f"a batch of {number} `add`",
            "nursery and child",
            ratio_of(costs["batch"], costs["by hand"]),
            None,
        ),
        Line(
            "memory of a call in flight, its task included",
            f"nursery and child: {_kilobytes(weight_by_hand)}",
            _kilobytes(weight),
            "",
            f"<= {_kilobytes(WEIGHT)}",
            "yes" if weight <= WEIGHT else "no",
        ),
    ]


def _kilobytes(number: float) -> str:
    return f"{number / 1024:.1f} KB"


def table(lines: Sequence[Line]) -> str:
    """Return the lines as a Markdown table."""
    head = "| what | against | times | spread | goal | reached |\n|---|---|--:|--:|--:|---|"
    rows = [
        f"| {each.what} | {each.against} | {each.value} | {each.spread} | {each.goal} | {each.reached} |"
        for each in lines
    ]
    return "\n".join([head, *rows])


async def measure(rounds: int) -> list[Line]:
    return [*await calls(rounds), *await many(rounds)]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Print what calls cost, as ratios."
    )
    parser.add_argument("--rounds", type=int, default=15, help=f"at least {LEAST_ROUNDS}")
    rounds: int = parser.parse_args(arguments).rounds
    lines = trio.run(measure, rounds)
    print(table(lines))
    print(
        f"\n{platform.python_implementation()} {platform.python_version()}, trio {version('trio')}, "
        f"medians of {rounds} rounds; spread: between the quartiles."
    )


if __name__ == "__main__":
    main()
