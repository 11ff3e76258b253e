"""The registry: its settings, what it knows of the calls in flight, and what it says of stuck ones."""

from __future__ import annotations

import functools
import linecache
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any

import pytest
import trio
from attrs.exceptions import FrozenInstanceError
from trio.testing import MockClock

from tests.helpers import GateRest, Proceed, ReviewRest, at, call, facts, observed
from trio_tools import (
    Approval,
    Ask,
    BatchPolicy,
    Bounds,
    CallScope,
    CallStatistics,
    DispatchExecution,
    GateDecision,
    Progress,
    RegistrationError,
    Registry,
    RegistryStatistics,
    ReviewDecision,
    ToolContext,
    ToolError,
    ToolExecution,
    ToolResult,
    open_call_scope,
)

PHASES = ["gates", "approval", "guards", "wrappers", "body", "helper", "tail", "review", "final"]
WAITING = [phase for phase in PHASES if phase not in ("guards", "final")]


def visiting(
    visit: Callable[[str], None], linger: Callable[[str], Awaitable[None]], **tool_options: Any
) -> Registry:
    """Make a registry whose calls of ``work`` visit, and linger in, each phase."""

    async def approver(_execution: ToolExecution, _reason: str | None) -> Approval:
        visit("approval")
        await linger("approval")
        return Approval.ALLOWED_ONCE

    registry = Registry(approver=approver)

    async def gate(execution: ToolExecution, proceed: GateRest) -> GateDecision:
        if execution.name != "work":
            return await proceed()
        visit("gates")
        await linger("gates")
        return Ask()

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        if execution.name != "work":
            return await proceed(execution)
        visit("wrappers")
        await linger("wrappers")
        result = await proceed(execution)
        visit("tail")
        await linger("tail")
        return result

    async def review(execution: ToolExecution, _result: ToolResult, proceed: ReviewRest) -> ReviewDecision:
        if execution.name == "work":
            visit("review")
            await linger("review")
        return await proceed()

    def finalize(_execution: ToolExecution, _result: ToolResult) -> None:
        visit("final")

    @registry.tool(finalize=finalize, **tool_options)
    async def work(*, ctx: ToolContext) -> str:  # pyright: ignore[reportUnusedFunction]
        visit("body")
        await linger("body")
        ctx.nursery.start_soon(helper)
        return "worked"

    async def helper() -> None:
        visit("helper")
        await linger("helper")

    registry.gate(gate)
    registry.guard(lambda execution: visit("guards") if execution.name == "work" else None)
    registry.wrap(wrapper)
    registry.review(review)
    return registry


def lingering_in(where: str, seconds: float) -> Callable[[str], Awaitable[None]]:
    """Make what waits, whoever is cancelled, in the phase ``where``."""

    async def linger(phase: str) -> None:
        if phase == where:
            with trio.CancelScope(shield=True):
                await trio.sleep(seconds)

    return linger


async def test_statistics_name_the_phase_of_each_call_in_flight(autojump_clock: MockClock) -> None:
    shown: dict[str, CallStatistics] = {}

    def visit(phase: str) -> None:
        (shown[phase],) = registry.statistics().calls

    async def linger(_phase: str) -> None:
        await trio.sleep(1)

    registry = visiting(visit, linger)
    async with open_call_scope() as scope:
        made = call(scope, "work")
        await registry.execute(made)

    assert list(shown) == PHASES
    assert {each.name for each in shown.values()} == {"work"}
    assert {each.call_id for each in shown.values()} == {made.call_id}
    assert {(each.cancelled_since, each.await_line) for each in shown.values()} == {(None, None)}
    told = {phase: each.phase for phase, each in shown.items() if phase not in ("helper", "tail")}
    assert told == {phase: phase for phase in PHASES if phase not in ("helper", "tail")}
    assert shown["helper"].phase == "body"
    assert [
        shown[phase].since for phase in ("gates", "approval", "guards", "wrappers", "body", "review")
    ] == [
        0.0,
        1.0,
        2.0,
        2.0,
        3.0,
        6.0,
    ]
    assert registry.statistics() == RegistryStatistics(calls=())


async def test_statistics_list_calls_in_order_of_entry_until_they_are_published(
    autojump_clock: MockClock,
) -> None:
    registry, _ = observed()
    counts: list[int] = []

    @registry.tool(concurrency_safe=True)
    async def sleeps(seconds: float) -> str:
        await trio.sleep(seconds)
        return "slept"

    @registry.tool
    async def outer(*, ctx: ToolContext) -> str:
        return (await ctx.call("sleeps", {"seconds": 9})).text

    async with trio.open_nursery() as nursery, open_call_scope() as scope:
        nursery.start_soon(registry.execute, call(scope, "outer"))
        await trio.sleep(1)
        batch = [call(scope, "sleeps", seconds=seconds) for seconds in (4, 1)]
        nursery.start_soon(registry.execute_batch, [*batch, call(scope, "outer")])
        await trio.sleep(1)
        snapshot = registry.statistics()
        for _ in range(4):
            counts.append(registry.statistics().in_flight)
            await trio.sleep(3.2)

    assert [each.name for each in snapshot.calls] == ["outer", "sleeps", "sleeps", "sleeps", "outer"]
    assert [each.phase for each in snapshot.calls] == ["body", "body", "body", "body", "entry"]
    assert [each.since for each in snapshot.calls] == [0.0, 0.0, 1.0, 1.0, 1.0]
    assert snapshot.in_flight == 5
    assert counts == [5, 4, 4, 2]


def test_a_snapshot_is_frozen() -> None:
    snapshot: Any = RegistryStatistics(calls=())
    entry: Any = CallStatistics(
        name="x", call_id="1", phase="body", since=0.0, cancelled_since=None, await_line=None, progress=None
    )
    with pytest.raises(FrozenInstanceError):
        snapshot.calls = ()
    with pytest.raises(FrozenInstanceError):
        entry.phase = "review"
    with pytest.raises(AttributeError):
        snapshot.in_flight = 3

    assert snapshot.in_flight == 0


async def test_statistics_show_what_a_body_said_of_its_progress(autojump_clock: MockClock) -> None:
    registry = Registry()
    shown: list[Any] = []

    @registry.tool
    async def counts(*, ctx: ToolContext) -> str:
        shown.append(registry.statistics().calls[0].progress)
        ctx.progress(1)
        shown.append(registry.statistics().calls[0].progress)
        ctx.progress(2, 10, "SECRET")
        shown.append(registry.statistics().calls[0].progress)
        return "counted"

    async with open_call_scope() as scope:
        await registry.execute(call(scope, "counts"))

    assert shown == [None, Progress(1, None, None), Progress(2, 10, "SECRET")]
    assert "SECRET" not in repr(shown)


@pytest.mark.parametrize("phase", WAITING)
@pytest.mark.parametrize("who", ["caller", "owner"])
async def test_a_call_that_is_pending_after_its_cancellation_shows_where_it_is_parked(
    autojump_clock: MockClock, phase: str, who: str
) -> None:
    registry = visiting(lambda _phase: None, lingering_in(phase, 50))
    snapshots: list[RegistryStatistics] = []
    with trio.CancelScope() as around:
        async with trio.open_nursery() as nursery, open_call_scope() as scope:
            nursery.start_soon(registry.execute, call(scope, "work"))
            await trio.sleep(1)
            snapshots.append(registry.statistics())
            (scope if who == "caller" else around).cancel()
            with trio.CancelScope(shield=True):
                await trio.sleep(1)
            snapshots.append(registry.statistics())

    (before,), (shown,) = (snapshot.calls for snapshot in snapshots)
    assert (before.cancelled_since, before.await_line) == (None, None)
    assert shown.cancelled_since == 1.0
    assert shown.await_line is not None
    file, _, function = shown.await_line.partition(", in ")
    assert file.rpartition(":")[0].endswith("test_registry.py")
    assert function.endswith("linger")


@pytest.mark.parametrize(
    "where",
    [
        "nested",
        "nested def",
        "thread",
        "waiting thread",
        "child",
        "child of a thread",
        "own nursery",
        "generator",
        "trio",
    ],
)
async def test_a_stuck_body_is_shown_at_the_line_of_its_author(where: str) -> None:
    """Not at a line of Python, trio or the library, which tells nobody what to do."""
    registry = Registry()
    go_on, released = threading.Event(), trio.Event()

    async def wait() -> None:
        with trio.CancelScope(shield=True):
            await released.wait()  # waits

    @registry.tool
    async def inner() -> str:
        await wait()
        return "done"

    @registry.tool(name="inner def")
    def inner_def() -> str:
        go_on.wait(3)
        return "done"

    @registry.tool
    async def nested(*, ctx: ToolContext) -> str:
        return (await ctx.call("inner", {})).text  # waits

    @registry.tool(name="nested def")
    async def nested_def(*, ctx: ToolContext) -> str:
        return (await ctx.call("inner def", {})).text  # waits

    @registry.tool
    def thread() -> str:
        go_on.wait(3)  # waits
        return "done"

    @registry.tool(name="waiting thread")
    def waiting_thread(*, ctx: ToolContext) -> str:
        arguments: dict[str, object] = {}
        trio.from_thread.run(ctx.call, "inner def", arguments)  # waits
        return "done"

    @registry.tool
    async def child(*, ctx: ToolContext) -> str:
        ctx.nursery.start_soon(wait)
        return "done"

    @registry.tool(name="child of a thread")
    def child_of_thread(*, ctx: ToolContext) -> str:
        trio.from_thread.run_sync(ctx.nursery.start_soon, wait)
        return "done"

    @registry.tool(name="own nursery")
    async def own_nursery() -> str:
        async with trio.open_nursery() as nursery:  # waits
            nursery.start_soon(wait)
        return "done"

    @registry.tool
    async def generator() -> str:
        async def numbers() -> AsyncIterator[int]:
            await wait()
            yield 1

        return str([number async for number in numbers()])

    @registry.tool(name="trio")
    async def bare() -> str:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(go_on.wait, 3)  # waits
        return "done"

    def shown_line() -> str:
        place = str(registry.statistics().calls[0].await_line).partition(", in ")[0]
        file, _, line = place.rpartition(":")
        return linecache.getline(file, int(line)) if file == __file__ else place

    async with trio.open_nursery() as nursery, open_call_scope() as scope:
        nursery.start_soon(registry.execute, call(scope, where))
        await trio.testing.wait_all_tasks_blocked(0.002)
        scope.cancel()
        with trio.move_on_after(2):
            while "# waits" not in shown_line():  # noqa: ASYNC110  (nothing tells where a thread is)
                await trio.sleep(0.001)
        shown = shown_line()
        go_on.set()
        released.set()

    assert "# waits" in shown


async def test_a_thread_that_does_not_end_is_visible(autojump_clock: MockClock) -> None:
    registry = Registry()
    go_on = threading.Event()

    @registry.tool
    def stubborn() -> str:
        go_on.wait(30)
        return "done"

    async with trio.open_nursery() as nursery, open_call_scope() as scope:
        nursery.start_soon(registry.execute, call(scope, "stubborn"))
        await trio.testing.wait_all_tasks_blocked()
        scope.cancel()
        (shown,) = registry.statistics().calls
        go_on.set()

    assert (shown.phase, shown.cancelled_since is not None) == ("body", True)
    assert shown.await_line is not None


@contextmanager
def warnings_logged() -> Generator[list[tuple[float, str]]]:
    """Collect when the library warned, in trio time, and how."""
    warned: list[tuple[float, str]] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.levelno == logging.WARNING:
                warned.append((trio.current_time(), record.getMessage()))

    handler = Handler()
    logger = logging.getLogger("trio_tools")
    logger.addHandler(handler)
    try:
        yield warned
    finally:
        logger.removeHandler(handler)


@pytest.mark.rule("SC-3", "PU-6")
async def test_a_logging_handler_that_cannot_tell_of_stuck_calls_leaves_their_block_alone(
    autojump_clock: MockClock,
) -> None:
    registry = visiting(lambda _phase: None, lingering_in("body", 80))
    tried: list[float] = []
    left_alone = False

    class BrokenHandler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            tried.append(trio.current_time())
            raise OSError("the disk is full")

    handler = BrokenHandler()
    logger = logging.getLogger("trio_tools")
    logger.addHandler(handler)
    try:
        async with trio.open_nursery() as nursery, open_call_scope(timeout=5) as scope:
            for _ in range(11):
                nursery.start_soon(registry.execute, call(scope, "work"))
            await trio.sleep(60)
            left_alone = True
    finally:
        logger.removeHandler(handler)

    assert left_alone
    assert tried == [15.0] * 11 + [35.0] * 11 + [75.0] * 11


@pytest.mark.parametrize("phase", WAITING)
@pytest.mark.parametrize("who", ["caller", "deadline", "owner"])
async def test_a_stuck_call_is_told_after_ten_seconds_and_then_at_doubling_intervals(
    autojump_clock: MockClock, phase: str, who: str
) -> None:
    registry = visiting(lambda _phase: None, lingering_in(phase, 80))
    with warnings_logged() as warned, trio.CancelScope() as around:
        if who == "owner":
            around.deadline = 5.0
        async with (
            trio.open_nursery() as nursery,
            open_call_scope(name="mine", timeout=5 if who == "deadline" else float("inf")) as scope,
        ):
            if who == "caller":
                nursery.start_soon(at, 5.0, scope.cancel)
            await registry.execute(call(scope, "work"))

    assert [when for when, _ in warned] == [15.0, 35.0, 75.0]
    for _, message in warned:
        assert "'work'" in message
        assert "linger" in message
        assert phase in message or phase in ("helper", "tail")


@pytest.mark.parametrize("who", ["timeout", "added", "ambient", "sibling"])
async def test_a_body_that_does_not_end_is_told_whoever_cancelled_it(
    autojump_clock: MockClock, who: str
) -> None:
    registry = visiting(
        lambda _phase: None,
        lingering_in("body", 80),
        concurrency_safe=True,
        timeout=5 if who == "timeout" else None,
    )

    async def limits(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        return await proceed(execution.with_timeout(5, name="mine") if who == "added" else execution)

    @registry.tool(concurrency_safe=True)
    async def fails() -> str:
        await trio.sleep(5)
        raise ToolError("failed", code="MINE")

    registry.wrap(limits)
    with warnings_logged() as warned:
        async with open_call_scope() as scope:
            if who == "sibling":
                calls = [call(scope, "work"), call(scope, "fails")]
                await registry.execute_batch(calls, on_failure=BatchPolicy.FAIL_FAST)
            else:
                with trio.move_on_at(5 if who == "ambient" else float("inf")):
                    await registry.execute(call(scope, "work"))

    assert [when for when, _ in warned] == [15.0, 35.0, 75.0]


async def test_calls_that_end_meanwhile_do_not_put_a_warning_off(autojump_clock: MockClock) -> None:
    registry = visiting(lambda _phase: None, lingering_in("body", 50))

    async def again_and_again(scope: CallScope) -> None:
        for _ in range(9):
            await trio.sleep(5)
            await registry.execute(call(scope, "nobody"))

    with warnings_logged() as warned:
        async with trio.open_nursery() as nursery, open_call_scope() as scope:
            nursery.start_soon(registry.execute, call(scope, "work"))
            nursery.start_soon(at, 1.0, scope.cancel)
            await again_and_again(scope)

    assert [when for when, _ in warned] == [11.0, 31.0]


async def test_each_stuck_call_is_told_on_a_schedule_of_its_own(autojump_clock: MockClock) -> None:
    registry = visiting(lambda _phase: None, lingering_in("body", 40))
    with warnings_logged() as warned:
        async with trio.open_nursery() as nursery, open_call_scope() as first, open_call_scope() as second:
            mine, yours = call(first, "work"), call(second, "work")
            nursery.start_soon(registry.execute, mine)
            nursery.start_soon(registry.execute, yours)
            nursery.start_soon(at, 1.0, first.cancel)
            nursery.start_soon(at, 4.0, second.cancel)
            await trio.sleep(5)

    told = [(when, mine.call_id in message) for when, message in warned]
    assert told == [(11.0, True), (14.0, False), (31.0, True), (34.0, False)]


async def test_a_call_that_is_cancelled_a_second_time_is_told_on_a_new_schedule(
    autojump_clock: MockClock,
) -> None:
    """The first cancellation was that of a wrapper, and was over; a schedule must not run on from it."""
    registry = visiting(lambda _phase: None, lingering_in("body", 80))

    @registry.tool
    async def brief() -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(7)

    async def limits(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        result = await proceed(execution.with_timeout(5 if execution.name == "brief" else 1, name="mine"))
        if execution.name == "brief":
            with trio.CancelScope(shield=True):
                await trio.sleep_until(60)
        return result

    registry.wrap(limits)
    with warnings_logged() as warned, trio.fail_after(200):
        async with trio.open_nursery() as nursery, open_call_scope() as scope:
            nursery.start_soon(registry.execute, call(scope, "work"))
            nursery.start_soon(registry.execute, call(scope, "brief"))
            nursery.start_soon(at, 36.0, scope.cancel)
            await trio.sleep(40)

    told = [(when, "'brief'" in message) for when, message in warned]
    assert told == [(11.0, False), (31.0, False), (46.0, True), (71.0, False)]


@pytest.mark.parametrize("stuck", [10, 11, 13])
async def test_many_stuck_calls_are_named_in_part_and_counted(autojump_clock: MockClock, stuck: int) -> None:
    registry = visiting(lambda _phase: None, lingering_in("body", 25))
    with warnings_logged() as warned:
        async with trio.open_nursery() as nursery, open_call_scope(name="mine") as scope:
            for _ in range(stuck):
                nursery.start_soon(registry.execute, call(scope, "work"))
            nursery.start_soon(at, 1.0, scope.cancel)
            await trio.sleep(2)

    counted = f"{stuck - 10} more calls of call scope 'mine' are cancelled and have not settled"
    assert {when for when, _ in warned} == {11.0}
    assert all("'work'" in message for _, message in warned[:10])
    assert [message for _, message in warned[10:]] == ([counted] if stuck > 10 else [])


@pytest.mark.rule("PU-10")
async def test_a_call_that_ends_soon_after_its_cancellation_is_not_told(autojump_clock: MockClock) -> None:
    registry = visiting(lambda _phase: None, lingering_in("body", 14))
    with warnings_logged() as warned:
        async with open_call_scope(timeout=5) as scope:
            result = await registry.execute(call(scope, "work"))
        await trio.sleep(100)

    assert facts(result) == "cancelled ABORTED returned deadline:caller"
    assert warned == []


async def test_a_slow_call_that_nobody_cancelled_is_not_told(autojump_clock: MockClock) -> None:
    registry = visiting(lambda _phase: None, lingering_in("body", 500))
    with warnings_logged() as warned:
        async with open_call_scope() as scope:
            await registry.execute(call(scope, "work"))

    assert warned == []


@pytest.mark.parametrize(
    "options",
    [
        {"approver": "yes"},
        {"approver": 7},
        {"bounds": 50_000},
        {"bounds": None},
        {"bounds": {}},
        {"mask_errors": "no"},
        {"mask_errors": None},
        {"mask_errors": 1},
        {"default_wrappers": []},
        {"default_wrappers": None},
        {"default_wrappers": 0},
    ],
    ids=repr,
)
def test_settings_of_another_kind_are_refused(options: Any) -> None:
    with pytest.raises(TypeError, match="|".join(options)):
        Registry(**options)


def sync_approver(_execution: Any, _reason: Any) -> Any:
    return Approval.ALLOWED_ONCE


async def approver_of_one(_execution: Any) -> Any: ...
async def approver_of_three(_execution: Any, _reason: Any, _more: Any) -> Any: ...


async def streaming_approver(_execution: Any, _reason: Any) -> Any:
    yield Approval.ALLOWED_ONCE


@pytest.mark.rule("LA-13", "GA-7")
@pytest.mark.parametrize(
    ("approver", "words"),
    [
        (sync_approver, "`async def`"),
        (functools.partial(sync_approver), "`async def`"),
        (approver_of_one, "takes 2"),
        (approver_of_three, "takes 2"),
        (functools.partial(approver_of_one, None), "takes 2"),
        (streaming_approver, "generator"),
        (Registry, "takes 2"),
    ],
)
def test_an_approver_that_cannot_be_one_is_refused(approver: Any, words: str) -> None:
    with pytest.raises(RegistrationError, match=f"an approver .*{words}"):
        Registry(approver=approver)


@pytest.mark.rule("LA-13")
def test_an_approver_that_may_be_one_is_taken() -> None:
    async def bound(_word: Any, _execution: Any, _reason: Any) -> Approval:
        return Approval.REJECTED

    Registry(approver=functools.partial(bound, "x"))
    Registry(approver=lambda execution, reason: bound("x", execution, reason))


@pytest.mark.rule("TI-6")
async def test_the_settings_of_a_registry(autojump_clock: MockClock) -> None:
    registry, seen = observed(bounds=Bounds(content_bytes=40), default_wrappers=False, mask_errors=True)

    @registry.tool(timeout=1)
    async def slow() -> str:
        await trio.sleep(2)
        return "x" * 100

    @registry.tool
    async def fails() -> str:
        raise ValueError("SECRET")

    async with open_call_scope() as scope:
        for name in ("slow", "fails"):
            await registry.execute(call(scope, name))

    assert facts(seen.results[0]) == "ok returned"
    assert len(seen.results[0].text) == 40
    assert seen.results[1].text == 'Error: tool "fails" failed'
