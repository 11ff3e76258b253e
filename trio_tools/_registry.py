"""The registry: the root layer, and what all its layers share."""

from collections.abc import Coroutine, Iterable
from typing import Any, final

from attrs import define, field, frozen

from ._batch import execute_batch
from ._bounding import Bounds
from ._call import ToolCall
from ._decisions import BatchPolicy
from ._layer import Approver, Layer, Revision, refuse_wrong_kind
from ._life import Life, Progress, Settings
from ._pipeline import execute
from ._result import ToolResult
from ._text import shown
from ._timeout import enforce_timeouts

__all__ = ["CallStatistics", "Registry", "RegistryStatistics"]


@final
@frozen(kw_only=True)
class CallStatistics:
    """A call in flight, as it was when it was looked at.

    Attributes:
        name: the name that was called.
        call_id: the call's id.
        phase: where in its life it is: ``entry``, ``gates``, ``approval``, ``guards``, ``wrappers``,
            ``dispatch``, ``body``, ``review``, ``final``, or ``published`` while observers are told.
        since: the trio time, in seconds, at which that phase began.
        cancelled_since: the trio time at which it was cancelled; None while it is not.
        await_line: where a call that is cancelled and still pending is parked, as
            ``file:line, in function``; None for any other.
        progress: what its body last said about how far it is.
    """

    name: str
    call_id: str
    phase: str
    since: float
    cancelled_since: float | None
    await_line: str | None
    progress: Progress | None


@final
@frozen(kw_only=True)
class RegistryStatistics:
    """What a registry was doing when it was asked.

    Attributes:
        calls: the calls in flight, in order of entry.
    """

    calls: tuple[CallStatistics, ...]

    @property
    def in_flight(self) -> int:
        """The number of calls that are not published yet."""
        return len(self.calls)


@define(eq=False, repr=False)
class _Calls:
    """Executes calls for all layers of a registry, and knows which are in flight."""

    settings: Settings
    flights: dict[Life, None] = field(factory=dict[Life, None], init=False)

    def execute(self, layer: Layer, call: ToolCall) -> Coroutine[Any, Any, ToolResult]:
        return execute(layer, call, self.settings, self.flights)

    def execute_batch(
        self, layer: Layer, calls: Iterable[ToolCall], max_parallel: int, on_failure: BatchPolicy
    ) -> Coroutine[Any, Any, list[ToolResult]]:
        return execute_batch(layer, calls, self.settings, self.flights, max_parallel, on_failure)


@final
class Registry(Layer):
    """The root layer: tools, hooks, and the execution of calls.

    It holds no state of a loop and owns no nursery, so it may be made anywhere and serve any number of
    trio runs, one after another (`LA-14`).

    Args:
        approver: answers what gates ask (`GA-7`); without one an ask is a denial.
        mask_errors: whether the texts of uncoded exceptions are kept from results (`JS-11`).
        bounds: how much of a result is published.
        default_wrappers: whether `enforce_timeouts` is installed, outermost (`TI-6`).

    Raises:
        RegistrationError: when the approver cannot be one (`LA-13`).
        TypeError: when another argument is of another kind.
    """

    def __init__(
        self,
        *,
        approver: Approver | None = None,
        mask_errors: bool = False,
        bounds: Bounds = Bounds(),  # noqa: B008  (frozen)
        default_wrappers: bool = True,
    ) -> None:
        if approver is not None:
            refuse_wrong_kind("an approver", approver, takes=2, awaited=True)
        for name, flag in (("mask_errors", mask_errors), ("default_wrappers", default_wrappers)):
            if type(flag) is not bool:
                raise TypeError(f"{name} is a bool, not {shown(flag)}")
        if not isinstance(bounds, Bounds):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"bounds are Bounds, not {shown(bounds)}")
        self._calls = _Calls(Settings(approver, mask_errors, bounds))
        super().__init__("root", None, self._calls, Revision())
        if default_wrappers:
            self.wrap(enforce_timeouts)

    def statistics(self) -> RegistryStatistics:
        """Return a frozen snapshot of the calls in flight; for a stuck one, where it waits."""
        return RegistryStatistics(calls=tuple(_statistics_of(life) for life in tuple(self._calls.flights)))


def _statistics_of(life: Life) -> CallStatistics:
    cause = life.cause_at(life.clock.current_time())
    return CallStatistics(
        name=life.name,
        call_id=life.call_id,
        phase=life.phase.value,
        since=life.since,
        cancelled_since=None if cause is None else cause.at,
        await_line=None if cause is None else life.await_line(),
        progress=life.progress,
    )
