"""What a tool is measured against."""

import math
from collections.abc import Callable
from typing import final

from attrs import Attribute, field, frozen

__all__ = ["Profile"]


def _seconds(_profile: object, attribute: "Attribute[float]", value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ValueError(f"{attribute.name} is a finite number of seconds above zero, not {value!r}")


def _count(least: int) -> Callable[[object, "Attribute[int]", object], None]:
    def count(_profile: object, attribute: "Attribute[int]", value: object) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"{attribute.name} is a whole number of {least} or more, not {value!r}")

    return count


def _flag(_profile: object, attribute: "Attribute[bool]", value: object) -> None:
    if not isinstance(value, bool):
        raise ValueError(f"{attribute.name} is true or false, not {value!r}")


@final
@frozen(kw_only=True)
class Profile:
    """The limits and the budget of a check. Seconds are virtual unless they are called real.

    Attributes:
        stop_seconds: within how many seconds a cancelled call ends.
        cleanup_seconds: how many seconds the cleanup after a cancellation may take.
        cleanup_steps: how many steps it may take.
        timeout_grace: by how many seconds a declared timeout may be overrun.
        block_seconds: real seconds that one step may hold the loop.
        wall_seconds: real seconds for one run, after which its process is ended.
        run_seconds: seconds after which a run that is not cancelled counts as one that does not end.
        run_steps: steps after which it does.
        max_cases: how many runs a tool gets; a complete sweep that is larger is sampled.
        max_schedules: how many orders of tasks are tried for two calls at once.
        second_cancels: whether another cancellation is tried inside the cleanup.
    """

    stop_seconds: float = field(default=5.0, validator=_seconds)
    cleanup_seconds: float = field(default=5.0, validator=_seconds)
    cleanup_steps: int = field(default=1_000, validator=_count(1))
    timeout_grace: float = field(default=0.5, validator=_seconds)
    block_seconds: float = field(default=0.1, validator=_seconds)
    wall_seconds: float = field(default=5.0, validator=_seconds)
    run_seconds: float = field(default=3_600.0, validator=_seconds)
    run_steps: int = field(default=2_000, validator=_count(1))
    max_cases: int = field(default=2_000, validator=_count(1))
    max_schedules: int = field(default=64, validator=_count(0))
    second_cancels: bool = field(default=True, validator=_flag)
