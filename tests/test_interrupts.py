"""A Ctrl-C at every line of the library that runs while a call does.

The signal is sent at the first such line, then in a run of its own at the second, and so on, until a run
ends before the signal is due. It is a real SIGINT, so trio decides as it always does: it raises in the
frame at hand, or, where that is protected, tells the main task at its next wait.
"""

from __future__ import annotations

import itertools
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, final

import pytest
import trio
from attrs import define, field
from trio._core import _run as scheduler  # pyright: ignore[reportPrivateUsage]

import trio_tools
from tests.helpers import GateRest, Proceed, Recorder, ReviewRest, call, facts, run
from trio_tools import (
    Approval,
    Ask,
    BatchPolicy,
    CallScope,
    DispatchExecution,
    GateDecision,
    Registry,
    ReviewDecision,
    ToolContext,
    ToolExecution,
    ToolResult,
    open_call_scope,
    tool,
)
from trio_tools._leaves import leaves_of
from trio_tools._scope import lifetime_of

LIBRARY = f"{Path(trio_tools.__file__).parent}/"
HUNG = 20
"""Seconds after which a run that takes a hundredth of one is taken to hang."""


@final
@define(eq=False)
class Striker:
    """Presses Ctrl-C at the n-th line of the library that runs in this thread, and perhaps once more."""

    due: int
    again_after: int = 0
    struck: str | None = field(default=None, init=False)
    protected: bool = field(default=False, init=False)
    on_strike: Callable[[], None] = field(default=lambda: None, init=False)
    _lines: int = field(default=0, init=False)
    _before: Any = field(default=None, init=False)

    def _enter(self, frame: FrameType, _event: str, _arg: object) -> Any:
        return self._step if frame.f_code.co_filename.startswith(LIBRARY) else None

    def _step(self, frame: FrameType, event: str, _arg: object) -> Any:
        if event == "line":
            self._lines += 1
            if self._lines == self.due:
                self.struck = f"{frame.f_code.co_filename.removeprefix(LIBRARY)}:{frame.f_lineno}"
                self.protected = trio.lowlevel.currently_ki_protected()
                self.on_strike()
            if self._lines == self.due + self.again_after:
                sys.settrace(None)
            if self._lines in (self.due, self.due + self.again_after):
                # An exception that a trace function raises is raised at the line it was called for.
                signal.raise_signal(signal.SIGINT)
        return self._step

    def __enter__(self) -> Striker:
        self._before = sys.gettrace()
        sys.settrace(self._enter)
        return self

    def __exit__(self, *_error: object) -> None:
        sys.settrace(self._before)


@final
@define(eq=False)
class Stage:
    """What one run leaves behind: which foreign code began, what was published, what is still there."""

    begun: list[str] = field(factory=list[str])
    seen: Recorder = field(factory=Recorder)
    left: list[str] = field(factory=list[str])
    waited: list[str] = field(factory=list[str])
    waited_at_strike: int | None = None
    published_at_strike: int | None = None

    async def wait(self, who: str) -> None:
        """Note that foreign code began, and wait, so that whatever is due is delivered."""
        self.begun.append(who)
        self.waited.append(who)
        await trio.sleep(1)

    def note(self, who: str) -> None:
        """Note that foreign code that cannot wait was called."""
        self.begun.append(who)


def make_registry(stage: Stage, *, hooks: bool) -> Registry:
    """Make a registry with one tool of each kind and, where asked for, one hook of each kind."""

    async def approve(_execution: ToolExecution, _reason: str | None) -> Approval:
        await stage.wait("approver")
        return Approval.ALLOWED_ONCE

    registry = Registry(approver=approve)

    def render(_arguments: object, value: str) -> str:
        stage.note("render")
        return value

    def finalize(_execution: ToolExecution, _result: ToolResult) -> None:
        stage.note("finalizer")

    @tool(name="plain", concurrency_safe=True, timeout=100, finalize=finalize if hooks else None)
    async def plain(number: int = 0) -> str:
        await stage.wait("plain")
        return str(number)

    @tool(name="owner", render=render)
    async def owner(ctx: ToolContext) -> str:
        async def child() -> None:
            await stage.wait("child")

        stage.note("owner")
        ctx.nursery.start_soon(child)
        ctx.defer_context("deferred")
        return (await ctx.call("plain", {"number": 1})).text

    @tool(name="threaded")
    def threaded(ctx: ToolContext) -> str:
        stage.note("threaded")
        trio.from_thread.run(trio.sleep, 1)
        return "threaded"

    for each in (plain, owner, threaded):
        registry.register(each)
    if hooks:
        hook_up(registry, stage)
    registry.observe(stage.seen)
    return registry


def hook_up(registry: Registry, stage: Stage) -> None:
    async def gate(_execution: ToolExecution, proceed: GateRest) -> GateDecision:
        await stage.wait("gate")
        await proceed()
        return Ask()

    def guard(_execution: ToolExecution) -> None:
        stage.note("guard")

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        await stage.wait("wrapper")
        result = await proceed(execution.with_timeout(50, name="wrapper"))
        await stage.wait("tail")
        return result

    async def review(_execution: ToolExecution, _result: ToolResult, proceed: ReviewRest) -> ReviewDecision:
        await stage.wait("review")
        return await proceed()

    registry.gate(gate)
    registry.guard(guard)
    registry.wrap(wrapper)
    registry.review(review)
    registry.observe(lambda _execution, _result: stage.note("observer"))


async def execute(registry: Registry, scope: CallScope, name: str) -> None:
    if name == "batch":
        calls = [call(scope, "plain", number=number) for number in range(3)]
        await registry.execute_batch(calls, max_parallel=2, on_failure=BatchPolicy.FAIL_FAST)
    elif name == "served":
        async with trio.open_nursery() as nursery:
            nursery.start_soon(registry.execute, call(scope, "plain"))
    else:
        await registry.execute(call(scope, "plain" if name == "hooked" else name))


@final
@define
class Program:
    """What is interrupted, what is published of it in order, and which causes that may name."""

    name: str
    published: list[str]
    causes: set[str | None]
    sample: int
    hooks: bool = False


PROGRAMS = [
    Program("plain", ["plain"], {None}, sample=37),
    Program("owner", ["plain", "owner"], {None, "ambient:ambient"}, sample=73),
    Program("threaded", ["threaded"], {None}, sample=37),
    Program("hooked", ["plain"], {None}, sample=73, hooks=True),
    Program("served", ["plain"], {None, "ambient:ambient"}, sample=37),
    Program("batch", ["plain"] * 3, {None, "sibling:batch"}, sample=149),
]


def tasks_below(task: trio.lowlevel.Task) -> Iterator[str]:
    """Yield the names of the tasks that live in nurseries of ``task``, at any depth."""
    for nursery in task.child_nurseries:
        for child in nursery.child_tasks:
            yield child.name
            yield from tasks_below(child)


def perform(program: Program, striker: Striker) -> tuple[Stage, BaseException | None]:
    """Run one program under ``striker``; what it raises is returned."""
    stage = Stage()
    registry = make_registry(stage, hooks=program.hooks)

    def strike() -> None:
        stage.waited_at_strike = len(stage.waited)
        stage.published_at_strike = len(stage.seen.results)

    striker.on_strike = strike

    async def main() -> None:
        me = trio.lowlevel.current_task()
        try:
            async with open_call_scope() as scope:
                watches = set(tasks_below(me))
                try:
                    await execute(registry, scope, program.name)
                finally:
                    lifetime = lifetime_of(scope)
                    reports = f"stuck calls of {scope.name!r}"
                    stage.left += [each for each in tasks_below(me) if each not in (*watches, reports)]
                    stage.left += [f"attached: {each}" for each in lifetime._calls]
                    stage.left += [f"child: {each.name}" for each in lifetime._children]
        finally:
            stage.left += [f"{len(each.child_tasks)} tasks" for each in me.child_nurseries]
            stage.left += [f"in flight: {each.name}" for each in registry.statistics().calls]

    with deadline(), striker:
        try:
            run(main)
        except BaseException as error:  # noqa: BLE001  (what came out is judged)
            return stage, error
    return stage, None


@contextmanager
def deadline() -> Generator[None]:
    """End a run that hangs: an error out of the scheduler itself leaves everything as it is."""

    def hung(_number: int, _frame: FrameType | None) -> None:
        raise RuntimeError("hung")

    before = signal.signal(signal.SIGALRM, hung)
    signal.setitimer(signal.ITIMER_REAL, HUNG)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def faults_of(program: Program, stage: Stage, error: BaseException | None, protected: bool) -> list[str]:
    """Return what is wrong with a run in which Ctrl-C was pressed once."""
    faults: list[str] = [f"left: {each}" for each in stage.left]
    leaves = leaves_of(*([] if error is None else [error]))
    faults += [f"raised: {each!r} from {each.__cause__!r}" for each in leaves.errors]
    if {type(each) for each in leaves.interrupts} != {KeyboardInterrupt}:
        faults.append(f"no KeyboardInterrupt came out, but {error!r}")
    published = [execution.name for execution in stage.seen.executions]
    # A call that was not admitted is not published, nor is a nested one that was not reached.
    expected = [program.published]
    if program.name == "owner" and "plain" not in stage.begun:
        expected.append(["owner"])
    if not stage.begun:
        expected.append([])
    if published not in expected:
        faults.append(f"published {published} after {stage.begun}")
    assert stage.waited_at_strike is not None
    assert stage.published_at_strike is not None
    for result in stage.seen.results[stage.published_at_strike :]:
        cause = None if result.cause is None else f"{result.cause.kind}:{result.cause.name}"
        # What was told at a wait that came after the last one of a call found nothing to interrupt.
        finished = protected and not stage.waited[stage.waited_at_strike :]
        if cause not in program.causes or (result.outcome.value != "cancelled" and not finished):
            faults.append(f"published as {facts(result)}")
    return faults


def strike_every(
    step: int, program: Program, *, first: int = 1, again_after: int = 0
) -> tuple[int, list[str]]:
    """Press Ctrl-C at every ``step``-th line; return how many runs that took, and what was wrong.

    Args:
        first: the line to begin with.
        again_after: press it once more so many lines later.
    """
    faults: list[str] = []
    for runs in itertools.count():
        striker = Striker(first + runs * step, again_after)
        # The same line is the n-th in every run only if trio takes tasks in the same order.
        scheduler._r.seed(0)
        stage, error = perform(program, striker)
        if striker.struck is None:
            assert error is None
            return runs, faults
        where = f"{striker.struck}{' (protected)' if striker.protected else ''}"
        faults += [f"{where}: {each}" for each in faults_of(program, stage, error, striker.protected)]
    raise AssertionError


named = pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)


@named
@pytest.mark.rule("PU-9", "BA-13")
def test_an_interrupt_at_a_line_of_the_library_publishes_once_and_goes_on(program: Program) -> None:
    runs, faults = strike_every(program.sample, program)

    assert faults == []
    assert runs > 10


@named
@pytest.mark.slow
@pytest.mark.rule("PU-9", "BA-13")
@pytest.mark.parametrize("again_after", [1, 40])
def test_who_presses_again_while_a_call_is_ending_changes_nothing(program: Program, again_after: int) -> None:
    runs, faults = strike_every(17, program, again_after=again_after)

    assert faults == []
    assert runs > 20


@named
@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.rule("PU-9", "BA-13")
@pytest.mark.parametrize("first", range(1, 5))
def test_an_interrupt_at_any_line_of_the_library_publishes_once_and_goes_on(
    program: Program, first: int
) -> None:
    runs, faults = strike_every(4, program, first=first)

    assert faults == []
    assert runs > 125
