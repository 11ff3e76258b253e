"""What the tests of the core share: a run on a virtual clock, a registry that is watched, short names."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, TypeVar, final

import trio
from attrs import define, field
from trio.testing import MockClock

from trio_tools import (
    CallScope,
    DispatchExecution,
    GateDecision,
    Registry,
    ReviewDecision,
    Tool,
    ToolCall,
    ToolExecution,
    ToolResult,
)

T = TypeVar("T")

Proceed: TypeAlias = Callable[[DispatchExecution], Awaitable[ToolResult]]
GateRest: TypeAlias = Callable[[], Awaitable[GateDecision]]
ReviewRest: TypeAlias = Callable[[], Awaitable[ReviewDecision]]


def run(main: Callable[[], Awaitable[T]]) -> T:
    """Run a program of its own on a clock that jumps whenever everybody waits."""
    return trio.run(main, clock=MockClock(autojump_threshold=0))


@final
@define(eq=False)
class Recorder:
    """An observer that keeps what was published, in order."""

    executions: list[ToolExecution] = field(factory=list[ToolExecution])
    results: list[ToolResult] = field(factory=list[ToolResult])

    def __call__(self, execution: ToolExecution, result: ToolResult) -> None:
        self.executions.append(execution)
        self.results.append(result)

    @property
    def only(self) -> ToolResult:
        """The one result that was published; fails if there is none, or another one."""
        (result,) = self.results
        return result

    @property
    def published(self) -> list[str]:
        """What was published, as `facts` says it, each after the name that was called."""
        pairs = zip(self.executions, self.results, strict=True)
        return [f"{execution.name}: {facts(result)}" for execution, result in pairs]


def observed(*tools: Tool, **options: Any) -> tuple[Registry, Recorder]:
    """Make a registry with ``tools`` whose published results are recorded."""
    registry, recorder = Registry(**options), Recorder()
    registry.observe(recorder)
    for tool in tools:
        registry.register(tool)
    return registry, recorder


def call(scope: CallScope, name: str, /, **arguments: object) -> ToolCall:
    """Make a call of the tool ``name``."""
    return ToolCall(name=name, arguments=arguments, scope=scope)


def facts(result: ToolResult) -> str:
    """Say outcome, code, settlement and cause (``kind:name``) of a result on one line, as far as there."""
    cause = result.cause
    words = (
        result.outcome.value,
        result.code,
        result.settlement.value,
        None if cause is None else f"{cause.kind.value}:{cause.name}",
    )
    return " ".join(filter(None, words))


def caused_at(result: ToolResult) -> float:
    """Return the time of a result's cause; fails if it has none."""
    assert result.cause is not None
    return result.cause.at


def hold_loop(seconds: float) -> None:
    """Let time pass while code that does not give way holds the loop."""
    clock = trio.lowlevel.current_clock()
    assert isinstance(clock, MockClock)
    clock.jump(seconds)


async def at(when: float, act: Callable[[], object]) -> None:
    """Wait until the trio time ``when``, then act."""
    await trio.sleep_until(when)
    act()


async def stray_cancelled() -> trio.Cancelled:
    """Return a `trio.Cancelled` of a scope that is no more, to be raised where nothing is cancelled."""
    caught: list[trio.Cancelled] = []
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.lowlevel.checkpoint()
        except trio.Cancelled as cancelled:
            caught.append(cancelled)
            raise
    return caught[0]


@final
@define(eq=False)
class Tripwire:
    """A wait that notes the very step in which it is cancelled, before any task is scheduled."""

    tripped: bool = False
    waiting: trio.Event = field(factory=trio.Event)

    async def wait(self) -> None:
        """Wait until cancelled."""

        def abort(_raise_cancel: Callable[[], Any]) -> trio.lowlevel.Abort:
            self.tripped = True
            return trio.lowlevel.Abort.SUCCEEDED

        self.waiting.set()
        await trio.lowlevel.wait_task_rescheduled(abort)


@final
@define(eq=False)
class Steps(trio.abc.Instrument):
    """Counts how often one task was scheduled, and so whether something was a schedule point."""

    task: trio.lowlevel.Task = field(factory=trio.lowlevel.current_task)
    taken: int = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self.task:
            self.taken += 1

    def __enter__(self) -> Steps:
        trio.lowlevel.add_instrument(self)
        return self

    def __exit__(self, *_error: object) -> None:
        trio.lowlevel.remove_instrument(self)
