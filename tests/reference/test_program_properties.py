"""The numbered properties: what each small program does, written down by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from trio_tools.reference import PROPERTIES, Order, Program, _machine, allowed, run
from trio_tools.reference._compare import describe
from trio_tools.reference._properties import Property

# What the programs of each property do, in order; nothing in them is left to chance, so one outcome each.
EXPECTED = {
    "SCP-1": ["returned; at 0; task 0 parent@0; task 1 child@0; in order 0, 1"],
    "SCP-2": [
        "returned; at 0; task 1 begun@0; n cancelled; n absorbed",
        "[x]; at 0; task 1 begun@0; n cancelled",
    ],
    "SCP-3": ["returned; at 0; s cancelled; s absorbed", "returned; at 1; s cancelled; s absorbed"],
    "SCP-4": [
        "returned; at 0; task 0 yes@0; s cancelled; s absorbed; in order 0",
        "returned; at 0; task 0 first@0; task 1 second@0; in order 0, 1",
    ],
    "SCP-5": ["returned; at 0; task 0 after@0; out cancelled; out absorbed; in cancelled"],
    "SCP-6": [
        "returned; at 1; task 0 at 1@1; s cancelled; s absorbed",
        "returned; at 1; s cancelled; s absorbed",
    ],
    "SCP-7": ["returned; at 0; task 0 yes@0; s cancelled; s absorbed", "returned; at 0; s cancelled"],
    "SCP-8": [
        "returned; at 1; task 0 yes@1, still@1; s cancelled; s absorbed",
        "returned; at 2; s cancelled; shield cancelled; shield absorbed",
    ],
    "SCP-9": ["returned; at 2; task 0 at 2@2; task 1 at 2@2"],
    "SCP-10": [
        "[x]; at 1; n cancelled; n absorbed",
        "[x]; at 1; n cancelled; n absorbed",
        "[x]; at 0; n cancelled; n absorbed",
    ],
    "SCP-11": ["[x]; at 1; n cancelled", "[[x]]; at 1; out cancelled; in cancelled"],
    "SCP-12": [
        "[x]; at 1; s cancelled; s absorbed; n cancelled",
        "returned; at 1; s cancelled; s absorbed; n cancelled",
    ],
    "SCP-13": ["returned; at 0; task 0 yes@0; s cancelled", "returned; at 0; task 0 yes@0; s cancelled"],
    "SCP-14": ["x; at 0; s cancelled", "[x]; at 0; s cancelled; s absorbed; n cancelled"],
    "SCP-15": ["returned; at 3; task 0 at 1@1; task 1 at 3@3", "returned; at 0; task 0 caught@0"],
    "SCP-16": [
        "returned; at 1; s cancelled; s absorbed",
        "returned; at 3; task 1 at 3@3; s cancelled; s absorbed",
        "returned; at 2; task 1 at 2@2; s cancelled; s absorbed",
        "returned; at 0; n cancelled; n absorbed",
    ],
    "SCP-17": ["[RuntimeError]; at 0; n cancelled", "[RuntimeError]; at 0; n cancelled"],
    "SCP-18": [
        "returned; at 1; task 2 yes@1",
        "[RuntimeError]; at 1; out cancelled",
        "[RuntimeError]; at 1; out cancelled",
        "returned; at 0; task 1 yes@0; n cancelled",
        "[x]; at 1; task 2 yes@1; n cancelled",
    ],
    "SCP-19": [
        "returned; at 2; task 0 yes@2",
        "returned; at 1; s cancelled; s absorbed",
        "returned; at 1; task 0 at 1@1; s cancelled; s absorbed",
        "returned; at 0; s cancelled; s absorbed",
    ],
    "SCP-20": ["returned; at 0; task 0 yes@0, after@0; s cancelled; s absorbed"],
    "SCP-21": ["returned; at 0; s cancelled", "returned; at 0; s cancelled"],
    "SCP-22": [
        "returned; at 0",
        "[x]; at 0; n cancelled",
        "[x]; at 1; n cancelled; n absorbed",
        "returned; at 0; s cancelled; s absorbed; n cancelled",
    ],
    "SCP-23": [
        "returned; at 0; task 0 yes@0, after@0; s cancelled",
        "returned; at 0; task 0 yes@0; s cancelled; s absorbed; n cancelled",
    ],
    "SCP-24": ["returned; at 0; task 0 yes@0; s cancelled"],
    "SCP-25": ["returned; at 0; s cancelled; s absorbed; n cancelled", "[x]; at 0; n cancelled; n absorbed"],
    "SCP-26": [
        "returned; at 1; task 0 yes@1; s cancelled",
        "returned; at 2; s cancelled; s absorbed",
        "returned; at 1; s cancelled; s absorbed",
    ],
}

CASES = [
    pytest.param(prop, program, expected, id=f"{prop.id}-{position}")
    for prop in PROPERTIES
    for position, (program, expected) in enumerate(
        zip(prop.shown_by, EXPECTED.get(prop.id, ()), strict=True), start=1
    )
]


def test_every_property_is_numbered_in_order_and_shown() -> None:
    numbered = [prop.id for prop in PROPERTIES]

    assert numbered == [*(f"SCP-{number}" for number in range(1, 27)), "SCP"]
    assert list(EXPECTED) == numbered[:-1]


@pytest.mark.parametrize(("prop", "program", "expected"), CASES)
def test_a_program_of_a_property_does_just_that(prop: Property, program: Program, expected: str) -> None:
    permitted = allowed(program, order=Order.FREE, interleaving=prop.interleaving)

    assert {describe(outcome) for outcome in permitted} == {expected}


@pytest.mark.parametrize("backend", ["trio", "anyio-trio"])
@pytest.mark.parametrize(("prop", "program", "expected"), CASES)
def test_trio_keeps_every_property(prop: Property, program: Program, expected: str, backend: str) -> None:
    seen = {describe(run(program, backend, seed=seed, interleaving=prop.interleaving)) for seed in range(4)}

    assert seen == {expected}


def test_the_model_names_each_rule_where_it_is_carried_out() -> None:
    text = Path(_machine.__file__).read_text(encoding="utf-8")
    silent = [prop.id for prop in PROPERTIES[:-1] if f"`{prop.id}`" not in text]

    assert silent == []
