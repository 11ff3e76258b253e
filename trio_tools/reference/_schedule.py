"""Trio's order of tasks, drawn from a seed: the one place that names trio's private parts.

Trio runs the tasks of one pass in an order of its own choice, and takes that choice from a private random
generator. To try many orders, and the same order twice, the generator must be seeded, and for the length of
one run the batch must be fully shuffled, as trio itself does once Hypothesis is imported.
"""

from __future__ import annotations

import random
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Generator

_RUN: Final = import_module("trio._core._run")
_RANDOM: Final = "_r"
_SHUFFLES: Final = "_ALLOW_DETERMINISTIC_SCHEDULING"


class ScheduleError(RuntimeError):
    """The installed trio keeps its order of tasks elsewhere than this library knows."""


def check_schedule_hooks() -> None:
    """Raises `ScheduleError` unless trio has the two private names that `seeded_schedule` sets."""
    generator, shuffles = getattr(_RUN, _RANDOM, None), getattr(_RUN, _SHUFFLES, None)
    if not isinstance(generator, random.Random) or not isinstance(shuffles, bool):
        raise ScheduleError(
            f"this version of trio no longer orders its tasks by trio._core._run.{_RANDOM} and {_SHUFFLES}; "
            "use a version of trio that this library is tested with"
        )


@contextmanager
def seeded_schedule(seed: int) -> Generator[None]:
    """Makes every order of tasks that trio chooses inside the block follow from the seed.

    Not for use while a trio run is under way in another thread. Raises `ScheduleError` if trio has changed.
    """
    check_schedule_hooks()
    before = {name: getattr(_RUN, name) for name in (_RANDOM, _SHUFFLES)}
    setattr(_RUN, _RANDOM, random.Random(seed))
    setattr(_RUN, _SHUFFLES, True)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(_RUN, name, value)
