"""The Hypothesis strategy for call programs; the generator itself is `_call_generate`."""

from collections.abc import Callable, Sequence
from typing import TypeVar, final

from attrs import define
from hypothesis import strategies as st

from . import _call_program as p
from ._call_generate import Maker, generated

__all__ = ["call_parts", "call_programs"]

T = TypeVar("T")


@final
@define
class _Drawn:
    """Answers that Hypothesis draws, and shrinks towards the first option and the lowest number."""

    draw: st.DrawFn

    def integer(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def choose(self, options: Sequence[T]) -> T:
        return options[self.draw(st.integers(0, len(options) - 1))]

    def chance(self, percent: int) -> bool:
        return self.draw(st.integers(0, 99)) >= 100 - percent


@st.composite
def _programs(draw: st.DrawFn) -> p.CallProgram:
    return generated(_Drawn(draw))


@st.composite
def _parts(draw: st.DrawFn, make: Callable[[Maker], T], ties: bool) -> T:
    return make(Maker(_Drawn(draw), ties=ties, tools=("a", "b", "c"), inner=("b", "c")))


def call_parts(make: Callable[[Maker], T], *, ties: bool = False) -> st.SearchStrategy[T]:
    """Return a strategy for a part of a program with tools ``a``, ``b`` and ``c`` and one call scope.

    Args:
        make: names the part, as in ``lambda maker: maker.wrapper(0)``.
        ties: whether times are drawn without regard to whether they coincide.
    """
    return _parts(make, ties)


def call_programs() -> st.SearchStrategy[p.CallProgram]:
    """Return a strategy for whole call programs, each of which means something."""
    return _programs()
