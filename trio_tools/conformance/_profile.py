"""What a tool is measured against."""

from typing import final

from attrs import field, frozen
from attrs.validators import ge, gt

__all__ = ["Profile"]


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

    stop_seconds: float = field(default=5.0, validator=gt(0))
    cleanup_seconds: float = field(default=5.0, validator=gt(0))
    cleanup_steps: int = field(default=1_000, validator=gt(0))
    timeout_grace: float = field(default=0.5, validator=gt(0))
    block_seconds: float = field(default=0.1, validator=gt(0))
    wall_seconds: float = field(default=5.0, validator=gt(0))
    run_seconds: float = field(default=3_600.0, validator=gt(0))
    run_steps: int = field(default=2_000, validator=gt(0))
    max_cases: int = field(default=2_000, validator=gt(0))
    max_schedules: int = field(default=64, validator=ge(0))
    second_cancels: bool = True
