"""The order of runnable tasks, put under control: the one place here that names trio's private parts.

trio runs all tasks that are runnable in one pass as a batch, in an order of its own choice. With a
virtual clock and no real input or output that choice is the only freedom a run has left. `ordered`
takes it over: tasks run in the order in which they were spawned, except where a `Schedule` says
otherwise, so that a run is a function of its schedule.
"""

import random
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, final

from trio._core import _run  # pyright: ignore[reportPrivateUsage]

__all__ = ["Schedule", "ScheduleError", "check_schedule_names", "ordered"]

_RANDOM: Final = "_r"
_SORTED: Final = "_ALLOW_DETERMINISTIC_SCHEDULING"


class ScheduleError(RuntimeError):
    """The installed trio keeps its order of tasks elsewhere than this library knows."""


def check_schedule_names() -> None:
    """Raise `ScheduleError` unless the installed trio still has both private names and uses them."""
    names = vars(_run)
    read = _run.unrolled_run.__code__.co_names
    if (
        not isinstance(names.get(_RANDOM), random.Random)
        or not isinstance(names.get(_SORTED), bool)
        or not {_RANDOM, _SORTED, "shuffle"} <= set(read)
    ):
        raise ScheduleError(
            f"this version of trio no longer orders its tasks by trio._core._run.{_RANDOM} and {_SORTED}; "
            "use a version of trio that this library is tested with"
        )


@final
class Schedule(random.Random):
    """A schedule: at which choices the order departs from first spawned, first run.

    Only batches of two or more tasks are choices; they are numbered from 0. Its parent class is there
    because trio holds a `random.Random` in its place.

    Attributes:
        deviations: choice number to the position of the task that is pulled to the front.
        sizes: how many tasks each choice had, filled while it runs.
    """

    def __init__(self, deviations: tuple[tuple[int, int], ...] = ()) -> None:
        super().__init__(0)
        self.deviations: dict[int, int] = dict(deviations)
        self.sizes: list[int] = []

    def restart(self, deviations: tuple[tuple[int, int], ...]) -> None:
        """Begin a new run with ``deviations``, counting choices from 0 again."""
        self.deviations = dict(deviations)
        self.sizes.clear()

    def shuffle(self, x: list[object]) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Order one batch, which trio has sorted by spawning and will take from the end."""
        x.reverse()
        size = len(x)
        if size < 2:
            return
        position = self.deviations.get(len(self.sizes))
        self.sizes.append(size)
        if position is not None and 0 < position < size:
            x.append(x.pop(size - 1 - position))


@contextmanager
def ordered(schedule: Schedule) -> Generator[None]:
    """Make every order of tasks inside the block follow from ``schedule``.

    Raises:
        ScheduleError: when trio has changed.
    """
    check_schedule_names()
    names = _run.__dict__
    before = names[_RANDOM], names[_SORTED]
    names[_RANDOM], names[_SORTED] = schedule, True
    try:
        yield
    finally:
        names[_RANDOM], names[_SORTED] = before
