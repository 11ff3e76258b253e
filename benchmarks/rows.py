"""The rows with goals: what a call costs against the same body in a nursery by hand, and many at once."""

from functools import partial
from typing import final

import trio
from attrs import frozen

from .harness import AsyncContender, Contender, Ratio, interleave, on_trio, ratio_of
from .scale import (
    batch,
    bytes_by_hand,
    bytes_left,
    bytes_per_call,
    cancel_bare_tasks,
    cancel_by_hand,
    cancel_calls,
)
from .subjects import (
    ROWS,
    add,
    by_hand,
    by_hand_as_ruled,
    by_hand_failing,
    echo,
    fail,
    full,
    hooked,
    pause,
    through,
)

__all__ = ["IN_FLIGHT", "Row", "calls", "many", "row_of"]

IN_FLIGHT = 1_000
ENDED = 5_000
WEIGHT = 6.0


@final
@frozen
class Row:
    """One line of the table.

    Attributes:
        what: was measured.
        against: it is compared with this.
        value: how many times that, or a number of ``unit``.
        spread: see `Ratio`; None where something was weighed or counted, once.
        goal: None where none was set.
        at_least: whether the goal is a floor rather than a ceiling.
    """

    what: str
    against: str
    value: float
    spread: float | None = None
    goal: float | None = None
    unit: str = ""
    at_least: bool = False

    @property
    def reached(self) -> bool | None:
        if self.goal is None:
            return None
        return self.value >= self.goal if self.at_least else self.value <= self.goal


def row_of(
    what: str, against: str, ratio: Ratio, goal: float | None = None, *, at_least: bool = False
) -> Row:
    return Row(what, against, ratio.median, ratio.spread, goal, at_least=at_least)


def calls(rounds: int) -> list[Row]:
    """Compare single calls, each with the same body in a nursery by hand."""
    registry, all_hooks = full(), hooked()
    add_by_hand, echo_by_hand = by_hand(partial(add, 2, 3)), by_hand(partial(echo, ROWS))
    subjects: list[tuple[str, AsyncContender, AsyncContender, float | None]] = [
        ("what trio takes to keep the rules", add_by_hand, by_hand_as_ruled(partial(add, 2, 3)), None),
        ("`add`", add_by_hand, through(registry, "add"), 1.30),
        ("`add`, one checkpoint", by_hand(partial(pause, 2, 3)), through(registry, "pause"), 1.25),
        ("`add`, one of each hook", add_by_hand, through(all_hooks, "add"), 1.45),
        ("2 KB of JSON in and out, typed", echo_by_hand, through(registry, "echo"), 2.6),
        ("2 KB of JSON in and out, given schema", echo_by_hand, through(registry, "echo_as_given"), 2.6),
        ("a failing body", by_hand_failing(partial(fail, 2, 3)), through(registry, "fail"), 1.35),
    ]
    contenders: dict[str, Contender] = {}
    for what, reference, ours, _goal in subjects:
        contenders |= {f"{what}, by hand": on_trio(reference), what: on_trio(ours)}
    costs = interleave(contenders, rounds=rounds)
    return [
        row_of(what, "nursery and child", ratio_of(costs[what], costs[f"{what}, by hand"]), goal)
        for what, _reference, _ours, goal in subjects
    ]


def many(rounds: int) -> list[Row]:
    """Compare what is done to many calls at once, and weigh one of them."""
    registry = full()
    costs = interleave(
        {
            "bare": on_trio(cancel_bare_tasks),
            "cancel": on_trio(cancel_calls(registry)),
            "cancel by hand": on_trio(cancel_by_hand),
            "by hand": on_trio(by_hand(partial(add, 2, 3))),
            "batch": on_trio(batch(registry, "add")),
        },
        repeat=IN_FLIGHT,
        rounds=rounds,
    )

    def against(what: str, reference: str) -> Ratio:
        return ratio_of(costs[what], costs[reference])

    number = f"{IN_FLIGHT:,}"
    return [
        row_of(f"cancel {number} calls in flight", "bare tasks", against("cancel", "bare"), 2.5),
        row_of(f"cancel {number} nurseries with a child", "bare tasks", against("cancel by hand", "bare")),
        row_of(f"a batch of {number} `add`, per call", "nursery and child", against("batch", "by hand")),
        Row(
            "memory of a call in flight, its task included",
            f"nursery and child: {trio.run(bytes_by_hand, IN_FLIGHT) / 1024:.1f} KB",
            trio.run(bytes_per_call, registry, IN_FLIGHT) / 1024,
            goal=WEIGHT,
            unit="KB",
        ),
        Row(
            f"memory that each of {ENDED:,} ended calls leaves in an open scope",
            "",
            trio.run(bytes_left, registry, ENDED),
            goal=1,
            unit="bytes",
        ),
    ]
