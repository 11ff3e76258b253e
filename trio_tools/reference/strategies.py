"""Programs as a Hypothesis strategy, and the smallest program that does what one looks for."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, Phase, find, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from ._generate import Grammar, draw_program

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis.strategies import DrawFn, SearchStrategy

    from ._program import Program


@st.composite
def _programs(draw: DrawFn, grammar: Grammar) -> Program:
    return draw_program(lambda most: draw(st.integers(0, most)), grammar)


def programs(grammar: Grammar | None = None) -> SearchStrategy[Program]:
    """Returns a strategy for programs, which shrinks towards few and simple operations."""
    return _programs(grammar or Grammar())


def smallest(
    grammar: Grammar, condition: Callable[[Program], bool], *, examples: int, seed: int
) -> Program | None:
    """Returns the smallest program found that fulfils a condition, or None if none of the examples does."""
    rules = settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=(HealthCheck.too_slow, HealthCheck.filter_too_much),
    )
    try:
        return find(programs(grammar), condition, settings=rules, random=random.Random(seed))
    except NoSuchExample:
        return None
