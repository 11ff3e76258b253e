# ruff: noqa: BLE001
"""The end of a call: finalized, bounded and published once, and then returned or unwound."""

from __future__ import annotations

import gc
import logging
import signal
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.helpers import (
    GateRest,
    Proceed,
    Recorder,
    ReviewRest,
    Steps,
    at,
    call,
    facts,
    hold_loop,
    observed,
    run,
    stray_cancelled,
)
from trio_tools import (
    Accept,
    Allow,
    Approval,
    Ask,
    Block,
    Bounds,
    Deny,
    DispatchExecution,
    GateDecision,
    ImageContent,
    Registry,
    ReviewDecision,
    TextContent,
    ToolCall,
    ToolContext,
    ToolError,
    ToolExecution,
    ToolOutcome,
    ToolResult,
    open_call_scope,
    tool,
)


@tool
async def work() -> str:
    """Return at once."""
    return "worked"


@tool
async def forever() -> str:
    """Wait until cancelled."""
    await trio.sleep_forever()
    return "never"


@tool
async def fails() -> str:
    """Fail."""
    raise ToolError("failed", code="MINE")


PATHS = [
    "ok",
    "fails",
    "not json",
    "before at entry",
    "denied",
    "guarded",
    "gate error",
    "unknown",
    "invalid",
    "cached",
]


def on_path(path: str, **options: Any) -> tuple[Registry, Recorder]:
    """Make a registry whose call of ``work`` takes one of `PATHS`."""
    registry, seen = observed(**options)

    @registry.tool(name="work")
    async def body(number: int = 1) -> str:  # pyright: ignore[reportUnusedFunction]
        if path == "fails":
            raise ToolError("failed", code="MINE")
        return "worked"

    async def gate(_execution: ToolExecution, _proceed: GateRest) -> GateDecision:
        if path == "gate error":
            raise ValueError("gate")
        return Deny("no") if path == "denied" else Allow()

    async def cached(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        return ToolResult.ok("cached") if path == "cached" else await proceed(execution)

    if path in ("denied", "gate error"):
        registry.gate(gate)
    if path == "guarded":
        registry.guard(lambda _execution: "no")
    if path == "cached":
        registry.wrap(cached)
    return registry, seen


async def take(path: str, registry: Registry) -> ToolResult:
    """Execute the call of ``work`` that takes ``path``."""
    arguments: Any = {"not json": {"bad": {1}}, "invalid": {"number": "x"}}.get(path, {})
    name = "nobody" if path == "unknown" else "work"
    async with open_call_scope() as scope:
        if path == "before at entry":
            scope.cancel()
        return await registry.execute(ToolCall(name=name, arguments=arguments, scope=scope))


@pytest.mark.rule("PU-1")
@pytest.mark.parametrize("path", PATHS)
async def test_every_path_has_a_schedule_point(autojump_clock: MockClock, path: str) -> None:
    registry, _ = on_path(path)
    arguments: Any = {"not json": {"bad": {1}}, "invalid": {"number": "x"}}.get(path, {})
    name = "nobody" if path == "unknown" else "work"
    async with open_call_scope() as scope:
        if path == "before at entry":
            scope.cancel()
        with Steps() as steps:
            await registry.execute(ToolCall(name=name, arguments=arguments, scope=scope))

    assert steps.taken >= 1


@pytest.mark.rule("PU-1")
@pytest.mark.parametrize("path", PATHS)
async def test_nothing_can_come_between_the_last_check_and_the_end(
    autojump_clock: MockClock, path: str
) -> None:
    registry, _ = on_path(path)
    taken: list[int] = []

    with Steps() as steps:
        registry.observe(lambda _execution, _result: taken.append(steps.taken))
        arguments: Any = {"not json": {"bad": {1}}, "invalid": {"number": "x"}}.get(path, {})
        name = "nobody" if path == "unknown" else "work"
        async with open_call_scope() as scope:
            if path == "before at entry":
                scope.cancel()
            await registry.execute(ToolCall(name=name, arguments=arguments, scope=scope))
            taken.append(steps.taken)

    assert taken[0] == taken[1]


@pytest.mark.rule("PU-1", "CA-18")
@pytest.mark.parametrize("who", ["caller", "ambient"])
async def test_the_last_check_follows_the_review_outside_its_shield(
    autojump_clock: MockClock, who: str
) -> None:
    registry, seen = observed(work)
    finalized: list[str] = []

    async with open_call_scope() as scope:
        with trio.CancelScope() as outer:

            async def review(
                _execution: ToolExecution, _result: ToolResult, proceed: ReviewRest
            ) -> ReviewDecision:
                decision = await proceed()
                (scope if who == "caller" else outer).cancel()
                return decision

            def finalize(_execution: ToolExecution, result: ToolResult) -> None:
                finalized.append(facts(result))

            @registry.tool(finalize=finalize)
            async def watched() -> str:
                return "worked"

            registry.review(review)
            await registry.execute(call(scope, "watched"))

    expected = f"cancelled ABORTED returned {'caller:caller' if who == 'caller' else 'ambient:ambient'}"
    assert finalized == [expected]
    assert facts(seen.only) == expected


@pytest.mark.rule("PU-2")
@pytest.mark.parametrize("path", [path for path in PATHS if path != "unknown"])
async def test_the_finalizer_runs_once_on_every_path(autojump_clock: MockClock, path: str) -> None:
    registry, seen = observed()
    finalized: list[ToolResult] = []
    plain, _ = on_path(path)

    def finalize(_execution: ToolExecution, result: ToolResult) -> str:
        finalized.append(result)
        return "finalized"

    layer = plain.layer("near")

    @layer.tool(name="work", finalize=finalize)
    async def body(number: int = 1) -> str:
        if path == "fails":
            raise ToolError("failed", code="MINE")
        return "worked"

    plain.observe(seen)
    arguments: Any = {"not json": {"bad": {1}}, "invalid": {"number": "x"}}.get(path, {})
    async with open_call_scope() as scope:
        if path == "before at entry":
            scope.cancel()
        result = await layer.execute(ToolCall(name="work", arguments=arguments, scope=scope))

    assert registry.get("work") is None
    assert len(finalized) == 1
    assert result.text == "finalized"
    assert facts(result) == facts(finalized[0])


@pytest.mark.rule("PU-2")
@pytest.mark.parametrize("when", ["gate", "body"])
async def test_the_finalizer_captured_at_entry_runs_though_the_tool_is_replaced(
    autojump_clock: MockClock, when: str
) -> None:
    registry, seen = observed()
    finalized: list[str] = []

    def finalize(name: str) -> Callable[[ToolExecution, ToolResult], None]:
        return lambda _execution, _result: finalized.append(name)

    @tool(name="work", finalize=finalize("replacement"))
    async def replacement() -> str:
        return "replacement"

    def swap() -> None:
        registration.close()
        registry.register(replacement)

    @tool(name="work", finalize=finalize("original"))
    async def original() -> str:
        if when == "body":
            swap()
        return "original"

    async def gate(_execution: ToolExecution, _proceed: GateRest) -> GateDecision:
        if when == "gate":
            swap()
        return Allow()

    registration = registry.register(original)
    registry.gate(gate)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "work"))

    assert finalized == ["original"]
    assert seen.only.value == ("replacement" if when == "gate" else "original")


@pytest.mark.rule("PU-2")
async def test_a_tool_unknown_at_entry_is_not_finalized(autojump_clock: MockClock) -> None:
    registry, seen = observed()
    finalized: list[str] = []

    def finalize(_execution: ToolExecution, _result: ToolResult) -> None:
        finalized.append("finalized")

    @tool(finalize=finalize)
    async def late() -> str:
        return "late"

    async def gate(_execution: ToolExecution, _proceed: GateRest) -> GateDecision:
        registry.register(late)
        return Allow()

    registry.gate(gate)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "late"))

    assert finalized == []
    assert facts(seen.only) == "ok returned"


@pytest.mark.rule("PU-3")
@pytest.mark.parametrize(
    ("answer", "content"),
    [
        (None, (TextContent("worked"),)),
        ("other", (TextContent("other"),)),
        ("", (TextContent(""),)),
        (TextContent("other"), (TextContent("other"),)),
        ([TextContent("a"), "b"], (TextContent("a"), TextContent("b"))),
    ],
)
async def test_a_finalizer_may_replace_content_and_nothing_else(
    autojump_clock: MockClock, answer: object, content: tuple[object, ...]
) -> None:
    registry, seen = observed()
    finalized: list[ToolResult] = []

    def finalize(_execution: ToolExecution, result: ToolResult) -> object:
        finalized.append(result)
        return answer

    @registry.tool(name="work", finalize=finalize)
    async def body(ctx: ToolContext) -> str:
        ctx.defer_context("context")
        ctx.conclude()
        return "worked"

    async with open_call_scope() as scope:
        await registry.execute(call(scope, "work"))

    result = seen.only
    assert result.content == content
    assert finalized[0].content == (TextContent("worked"),)
    assert (result.value, result.contexts, result.concludes) == ("worked", ("context",), True)
    assert (finalized[0].value, finalized[0].contexts) == ("worked", ("context",))


class NoContent:
    """Something that no model could be shown."""


async def _coroutine() -> str:
    return "never awaited"


@pytest.mark.rule("PU-3")
@pytest.mark.parametrize("bad", ["raises", "coroutine", "number", "object", "list"])
@pytest.mark.parametrize("body_fails", [False, True])
async def test_a_finalizer_that_fails_is_a_policy_error(
    autojump_clock: MockClock, bad: str, body_fails: bool
) -> None:
    registry, seen = observed()
    calls: list[str] = []

    def finalize(_execution: ToolExecution, _result: ToolResult) -> object:
        calls.append("finalize")
        match bad:
            case "raises":
                raise ValueError("oops")
            case "coroutine":
                return _coroutine()
            case "number":
                return 7
            case "object":
                return NoContent()
            case _:
                return ["fine", 7]

    @registry.tool(name="work", finalize=finalize)
    async def body(ctx: ToolContext) -> str:
        ctx.defer_context("context")
        if body_fails:
            raise ToolError("mine", code="MINE")
        return "worked"

    async with open_call_scope() as scope:
        result = await registry.execute(call(scope, "work"))

    assert facts(result) == f"failed POLICY_ERROR {'raised' if body_fails else 'returned'}"
    assert result.contexts == ()
    assert calls == ["finalize"]
    assert seen.only is result


@pytest.mark.rule("PU-3")
async def test_a_coded_error_of_a_finalizer_keeps_its_code(autojump_clock: MockClock) -> None:
    registry, seen = observed()

    def finalize(_execution: ToolExecution, _result: ToolResult) -> None:
        raise ToolError("mine", code="MINE")

    @registry.tool(name="work", finalize=finalize)
    async def body() -> str:
        return "worked"

    async with open_call_scope() as scope:
        await registry.execute(call(scope, "work"))

    assert facts(seen.only) == "failed MINE returned"
    assert seen.only.text == "Error: mine"


@pytest.mark.rule("PU-3")
async def test_an_async_finalizer_fails_and_leaves_no_coroutine_behind(autojump_clock: MockClock) -> None:
    registry, seen = observed()

    async def finalize(_execution: ToolExecution, _result: ToolResult) -> str:
        return "never"

    @registry.tool(name="work", finalize=finalize)
    async def body() -> str:
        return "worked"

    async with open_call_scope() as scope:
        await registry.execute(call(scope, "work"))
    gc.collect()

    assert facts(seen.only) == "failed POLICY_ERROR returned"


@pytest.mark.rule("PU-4")
async def test_what_is_finalized_is_then_bounded_and_then_observed(autojump_clock: MockClock) -> None:
    registry, seen = observed(bounds=Bounds(content_bytes=100))
    sizes: list[int] = []

    def finalize(_execution: ToolExecution, result: ToolResult) -> str:
        sizes.append(len(result.text))
        return "y" * 1000

    @registry.tool(name="work", finalize=finalize)
    async def body() -> str:
        return "x" * 500

    async with open_call_scope() as scope:
        result = await registry.execute(call(scope, "work"))

    assert sizes == [500]
    assert len(seen.only.text.encode()) <= 100
    assert seen.only.text.startswith("y")
    assert seen.only is result


@pytest.mark.rule("PU-4")
@pytest.mark.parametrize("path", PATHS)
async def test_the_object_returned_is_the_object_observed(autojump_clock: MockClock, path: str) -> None:
    registry, seen = on_path(path)
    result = await take(path, registry)

    assert seen.only is result


@pytest.mark.rule("PU-5", "LA-7")
async def test_observers_run_last_and_synchronously_root_layer_first(autojump_clock: MockClock) -> None:
    registry, _ = observed(work)
    log: list[str] = []

    def observer(name: str) -> Callable[[ToolExecution, ToolResult], None]:
        return lambda _execution, _result: log.append(name)

    async def review(_execution: ToolExecution, _result: ToolResult, proceed: ReviewRest) -> ReviewDecision:
        log.append("review")
        return await proceed()

    def finalize(_execution: ToolExecution, _result: ToolResult) -> None:
        log.append("finalize")

    near = registry.layer("near")
    near.observe(observer("near"))
    registry.observe(observer("first"))
    registry.observe(observer("second"))
    registry.review(review)

    @near.tool(finalize=finalize)
    async def watched() -> str:
        return "watched"

    async with open_call_scope() as scope:
        await near.execute(call(scope, "watched"))
        log.append("returned")

    assert log == ["review", "finalize", "first", "second", "near", "returned"]


@pytest.mark.rule("PU-5", "PU-8")
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("ambient", [False, True])
async def test_exactly_one_result_is_published_on_every_path(
    autojump_clock: MockClock, path: str, ambient: bool
) -> None:
    registry, seen = on_path(path)
    with trio.CancelScope() as outer:
        if ambient:
            outer.cancel()
        await take(path, registry)

    assert len(seen.results) == 1
    assert registry.statistics().calls == ()


@pytest.mark.rule("PU-6")
async def test_an_observer_that_raises_is_logged_and_the_others_run(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    registry, _ = observed(work)
    log: list[str] = []

    def bad(_execution: ToolExecution, _result: ToolResult) -> None:
        log.append("bad")
        raise ValueError("oops")

    stray = await stray_cancelled()

    def worse(_execution: ToolExecution, _result: ToolResult) -> None:
        log.append("worse")
        raise stray

    async def never_awaited(_execution: ToolExecution, _result: ToolResult) -> None:
        log.append("never")

    def returns_a_coroutine(execution: ToolExecution, result: ToolResult) -> Any:
        log.append("returns")
        return never_awaited(execution, result)

    for observer in (bad, worse, returns_a_coroutine):
        registry.observe(observer)
    registry.observe(lambda _execution, _result: log.append("last"))
    async with open_call_scope() as scope:
        result = await registry.execute(call(scope, "work"))
    gc.collect()

    assert log == ["bad", "worse", "returns", "last"]
    assert facts(result) == "ok returned"
    assert [record.name for record in caplog.records] == ["trio_tools"] * 3
    assert caplog.records[0].exc_info is not None


class BrokenHandler(logging.Handler):
    """A logging handler that raises instead of writing."""

    def emit(self, record: logging.LogRecord) -> None:
        raise OSError("the disk is full")


@pytest.mark.rule("PU-6")
@pytest.mark.parametrize("who", ["observer", "body", "finalizer", "gate"])
async def test_a_logging_handler_that_raises_changes_nothing(autojump_clock: MockClock, who: str) -> None:
    registry, seen = observed()

    def fail(*_arguments: object) -> None:
        raise ValueError("oops")

    @registry.tool(name="work", finalize=fail if who == "finalizer" else None)
    async def body() -> str:
        if who == "body":
            fail()
        return "worked"

    async def gate(_execution: ToolExecution, _proceed: GateRest) -> GateDecision:
        if who == "gate":
            fail()
        return Allow()

    registry.gate(gate)
    if who == "observer":
        registry.observe(fail)
    handler = BrokenHandler()
    logging.getLogger("trio_tools").addHandler(handler)
    try:
        async with open_call_scope() as scope:
            result = await registry.execute(call(scope, "work"))
    finally:
        logging.getLogger("trio_tools").removeHandler(handler)

    assert (
        facts(result)
        == {
            "observer": "ok returned",
            "body": "failed TOOL_ERROR raised",
            "finalizer": "failed POLICY_ERROR returned",
            "gate": "failed POLICY_ERROR not_dispatched",
        }[who]
    )
    assert seen.only is result


class ExitingHandler(logging.Handler):
    """A logging handler that ends the program instead of writing."""

    def emit(self, record: logging.LogRecord) -> None:
        raise SystemExit("the disk is full")


@pytest.mark.rule("PU-5", "PU-6", "PU-9", "SC-10")
@pytest.mark.parametrize("how", ["raises", "returns a coroutine", "raises after the body did"])
async def test_an_interrupt_from_a_logging_handler_passes_once_everybody_was_told(
    autojump_clock: MockClock, how: str
) -> None:
    registry, seen = observed()

    @registry.tool(name="work")
    async def body() -> str:
        if "body" in how:
            raise ValueError("oops")
        return "worked"

    async def never() -> None:
        raise AssertionError("nobody awaits what an observer returns")

    def careless(_execution: ToolExecution, _result: ToolResult) -> Any:
        if "coroutine" in how:
            return never()
        raise ValueError("oops")

    registry.observe(careless)
    last = Recorder()
    registry.observe(last)
    handler = ExitingHandler()
    logging.getLogger("trio_tools").addHandler(handler)
    try:
        with pytest.raises(SystemExit):
            async with open_call_scope() as scope:
                await registry.execute(call(scope, "work"))
    finally:
        logging.getLogger("trio_tools").removeHandler(handler)

    assert last.only is seen.only
    assert facts(last.only) == ("cancelled ABORTED raised" if "body" in how else "ok returned")
    assert registry.statistics().calls == ()


@pytest.mark.rule("PU-7")
async def test_registrations_of_an_observer_affect_later_calls(autojump_clock: MockClock) -> None:
    registry, _ = observed(work)
    log: list[str] = []

    def late(_execution: ToolExecution, _result: ToolResult) -> None:
        log.append("late")

    def registering(_execution: ToolExecution, _result: ToolResult) -> None:
        log.append("registering")
        if len(log) == 1:
            registry.observe(late)

    registry.observe(registering)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "work"))
        after_first = list(log)
        await registry.execute(call(scope, "work"))

    assert after_first == ["registering"]
    assert log == ["registering", "registering", "late"]


@pytest.mark.rule("PU-7")
@pytest.mark.parametrize("place", ["finalizer", "observer"])
@pytest.mark.parametrize("who", ["caller", "ambient"])
async def test_a_cancellation_requested_after_the_last_check_changes_no_result(
    autojump_clock: MockClock, place: str, who: str
) -> None:
    registry, seen = observed()
    returned: list[ToolResult] = []
    async with open_call_scope() as scope:
        with trio.CancelScope() as outer:

            def cancel(*_arguments: object) -> None:
                (scope if who == "caller" else outer).cancel()

            @registry.tool(name="work", finalize=cancel if place == "finalizer" else None)
            async def body() -> str:
                return "worked"

            if place == "observer":
                registry.observe(cancel)
            returned.append(await registry.execute(call(scope, "work")))

    assert returned == seen.results
    assert facts(seen.only) == "ok returned"


@pytest.mark.rule("PU-8")
@pytest.mark.parametrize("ambient", [False, True])
@pytest.mark.parametrize("caller", [False, True])
@pytest.mark.parametrize("outcome", list(ToolOutcome))
async def test_execute_raises_only_a_cancelled_result_under_cancelled_ambient_scopes(
    autojump_clock: MockClock, outcome: ToolOutcome, caller: bool, ambient: bool
) -> None:
    registry, seen = observed()
    returned: list[ToolResult] = []

    async with open_call_scope() as scope:
        with trio.CancelScope() as outer:

            def finalize(_execution: ToolExecution, _result: ToolResult) -> None:
                if outcome is ToolOutcome.OK:
                    cancel()

            def cancel() -> None:
                if caller:
                    scope.cancel()
                if ambient:
                    outer.cancel()

            @registry.tool(finalize=finalize)
            async def ends() -> str:
                if outcome is not ToolOutcome.OK:
                    cancel()
                if outcome is ToolOutcome.FAILED:
                    raise ToolError("mine", code="MINE")
                return "worked"

            async def make_cancelled(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
                return await proceed(execution)

            registry.wrap(make_cancelled)
            returned.append(await registry.execute(call(scope, "ends")))

    cancelled = outcome is ToolOutcome.CANCELLED and (caller or ambient)
    assert len(seen.results) == 1
    assert (seen.only.outcome is ToolOutcome.CANCELLED) is cancelled
    assert returned == ([] if cancelled and ambient else seen.results)
    assert outer.cancelled_caught is (cancelled and ambient)


@pytest.mark.rule("PU-8")
async def test_the_result_is_published_before_cancelled_is_raised(autojump_clock: MockClock) -> None:
    registry, _ = observed(forever)
    log: list[str] = []
    registry.observe(lambda _execution, _result: log.append("published"))
    async with open_call_scope() as scope:
        with trio.move_on_after(1):
            try:
                await registry.execute(call(scope, "forever"))
            except trio.Cancelled:
                log.append("Cancelled")
                raise

    assert log == ["published", "Cancelled"]


@pytest.mark.rule("PU-8")
async def test_a_cancelled_result_of_the_caller_is_returned_until_ambient_scopes_are_cancelled_too(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed(forever)
    returned: list[str] = []
    async with open_call_scope(timeout=1) as scope:
        with trio.CancelScope(shield=True):
            returned.append(facts(await registry.execute(call(scope, "forever"))))

    assert returned == ["cancelled ABORTED cancelled deadline:caller"]
    assert len(seen.results) == 1


class OwnInterrupt(BaseException):
    """Neither an error nor a cancellation."""


INTERRUPTS = [KeyboardInterrupt, SystemExit, OwnInterrupt, GeneratorExit]
PLACES = {
    "gate": "cancelled ABORTED_BEFORE_DISPATCH not_dispatched",
    "approver": "cancelled ABORTED_BEFORE_DISPATCH not_dispatched",
    "guard": "cancelled ABORTED_BEFORE_DISPATCH not_dispatched",
    "wrapper": "cancelled ABORTED_BEFORE_DISPATCH not_dispatched",
    "body": "cancelled ABORTED raised",
    "plain body": "cancelled ABORTED raised",
    "task": "cancelled ABORTED raised",
    "render": "cancelled ABORTED returned",
    "tail": "cancelled ABORTED returned",
    "review": "cancelled ABORTED returned",
    "finalizer": "cancelled ABORTED returned",
}


def interrupted_in(place: str, interrupt: BaseException) -> tuple[Registry, Recorder, list[str]]:
    """Make a registry in one phase of whose call of ``work`` an interrupt is raised."""

    def strike(where: str) -> None:
        if where == place:
            raise interrupt

    async def approve(_execution: ToolExecution, _reason: str | None) -> Approval:
        strike("approver")
        return Approval.ALLOWED_ONCE

    registry = Registry(approver=approve)
    reviewed: list[str] = []

    def render(_arguments: object, value: str) -> str:
        strike("render")
        return value

    def finalize(_execution: ToolExecution, _result: ToolResult) -> None:
        strike("finalizer")

    if place == "plain body":

        @registry.tool(name="work", render=render, finalize=finalize)
        async def plain() -> str:  # pyright: ignore[reportUnusedFunction]
            strike("plain body")
            return "worked"

    else:

        @registry.tool(name="work", render=render, finalize=finalize)
        async def body(ctx: ToolContext) -> str:  # pyright: ignore[reportUnusedFunction]
            async def task() -> None:
                await trio.lowlevel.checkpoint()
                strike("task")

            ctx.nursery.start_soon(task)
            strike("body")
            if place == "task":
                await trio.sleep_forever()
            return "worked"

    async def gate(_execution: ToolExecution, _proceed: GateRest) -> GateDecision:
        strike("gate")
        return Ask()

    def guard(_execution: ToolExecution) -> None:
        strike("guard")

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        strike("wrapper")
        result = await proceed(execution)
        strike("tail")
        return result

    async def review(_execution: ToolExecution, result: ToolResult, proceed: ReviewRest) -> ReviewDecision:
        reviewed.append(facts(result))
        strike("review")
        return await proceed()

    registry.gate(gate)
    registry.guard(guard)
    registry.wrap(wrapper)
    registry.review(review)
    registry.observe(lambda _execution, _result: strike("observer"))
    late = Recorder()
    registry.observe(late)
    return registry, late, reviewed


async def interrupts_of(run_it: Callable[[], Awaitable[object]]) -> list[BaseException]:
    """Await, and return the leaves of what is raised."""
    try:
        await run_it()
    except BaseExceptionGroup as group:
        pending: list[BaseException] = list(group.exceptions)
        leaves: list[BaseException] = []
        while pending:
            error = pending.pop()
            if isinstance(error, BaseExceptionGroup):
                pending.extend(error.exceptions)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
            else:
                leaves.append(error)
        return leaves
    except BaseException as error:
        return [error]
    return []


@pytest.mark.rule("PU-9", "CA-22")
@pytest.mark.parametrize("kind", INTERRUPTS)
@pytest.mark.parametrize(("place", "expected"), PLACES.items())
def test_an_interrupt_in_any_phase_is_published_once_and_goes_on(
    place: str, expected: str, kind: type[BaseException]
) -> None:
    interrupt = kind()
    registry, late, reviewed = interrupted_in(place, interrupt)
    leaves: list[BaseException] = []

    async def main() -> None:
        async with open_call_scope() as scope:
            leaves.extend(await interrupts_of(lambda: registry.execute(call(scope, "work"))))

    run(main)

    assert leaves == [interrupt]
    assert facts(late.only) == expected
    assert late.only.cause is None
    assert reviewed == (["ok returned"] if place in ("review", "finalizer") else [])


@pytest.mark.rule("PU-9", "PU-5")
@pytest.mark.parametrize("kind", INTERRUPTS)
def test_an_interrupt_in_an_observer_leaves_the_result_and_the_other_observers_alone(
    kind: type[BaseException],
) -> None:
    interrupt = kind()
    registry, late, _ = interrupted_in("observer", interrupt)
    leaves: list[BaseException] = []

    async def main() -> None:
        async with open_call_scope() as scope:
            leaves.extend(await interrupts_of(lambda: registry.execute(call(scope, "work"))))

    run(main)

    assert leaves == [interrupt]
    assert facts(late.only) == "ok returned"


@pytest.mark.rule("PU-9")
@pytest.mark.parametrize("kind", [KeyboardInterrupt, OwnInterrupt])
def test_an_interrupt_in_a_thread_settles_it_and_goes_on(kind: type[BaseException]) -> None:
    registry, seen = observed()

    @registry.tool
    def threaded() -> str:
        raise kind

    async def main() -> list[BaseException]:
        async with open_call_scope() as scope:
            return await interrupts_of(lambda: registry.execute(call(scope, "threaded")))

    leaves = run(main)

    assert [type(leaf) for leaf in leaves] == [kind]
    assert facts(seen.only) == "cancelled ABORTED raised"
    assert seen.only.cause is None


@pytest.mark.rule("PU-9", "BO-8")
def test_an_interrupt_among_errors_of_a_group_decides(autojump_clock: MockClock) -> None:
    registry, seen = observed()

    @registry.tool
    async def mixed() -> str:
        raise BaseExceptionGroup("mixed", [ValueError("one"), KeyboardInterrupt()])

    async def main() -> list[BaseException]:
        async with open_call_scope() as scope:
            return await interrupts_of(lambda: registry.execute(call(scope, "mixed")))

    leaves = run(main)

    assert any(isinstance(leaf, KeyboardInterrupt) for leaf in leaves)
    assert facts(seen.only) == "cancelled ABORTED raised"


@pytest.mark.rule("PU-9")
@pytest.mark.parametrize("where", ["plain", "with context", "gate", "wrapper", "tail", "review"])
def test_a_real_interrupt_while_the_call_waits_ends_the_body_and_is_published_once(where: str) -> None:
    registry, seen = observed()
    ended: list[str] = []

    async def wait_here(place: str) -> None:
        if place == where:
            try:
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    await trio.sleep(2)
                ended.append(f"{place} at {trio.current_time()}")

    @registry.tool
    async def plain() -> str:
        await wait_here("plain")
        return "worked"

    @registry.tool(name="with context")
    async def with_context(ctx: ToolContext) -> str:
        await wait_here("with context")
        return "worked"

    async def gate(_execution: ToolExecution, _proceed: GateRest) -> GateDecision:
        await wait_here("gate")
        return Allow()

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        await wait_here("wrapper")
        result = await proceed(execution)
        await wait_here("tail")
        return result

    async def review(_execution: ToolExecution, _result: ToolResult, proceed: ReviewRest) -> ReviewDecision:
        await wait_here("review")
        return await proceed()

    registry.gate(gate)
    registry.wrap(wrapper)
    registry.review(review)

    async def press_ctrl_c() -> None:
        await trio.sleep(1)
        signal.raise_signal(signal.SIGINT)

    async def main() -> None:
        trio.lowlevel.spawn_system_task(press_ctrl_c)
        async with open_call_scope() as scope:
            await registry.execute(call(scope, where if where in ("plain", "with context") else "plain"))

    with pytest.raises((KeyboardInterrupt, BaseExceptionGroup)) as raised:
        run(main)

    assert isinstance(raised.value, KeyboardInterrupt) or (
        isinstance(raised.value, BaseExceptionGroup) and raised.value.split(KeyboardInterrupt)[1] is None  # pyright: ignore[reportUnknownMemberType]
    )
    assert ended == [f"{where} at 3.0"]
    expected = {
        "gate": "cancelled ABORTED_BEFORE_DISPATCH not_dispatched",
        "wrapper": "cancelled ABORTED_BEFORE_DISPATCH not_dispatched",
        "tail": "cancelled ABORTED returned",
        "review": "cancelled ABORTED returned",
    }.get(where, "cancelled ABORTED cancelled")
    assert facts(seen.only) == expected
    assert seen.only.cause is None


@pytest.mark.rule("PU-10")
@pytest.mark.parametrize("who", ["body", "gate", "wrapper", "review", "finalizer"])
@pytest.mark.parametrize("coded", [False, True])
async def test_uncoded_errors_are_logged_with_traceback_coded_ones_are_not(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, who: str, coded: bool
) -> None:
    registry, seen = observed()

    def fail(where: str) -> None:
        if where == who:
            raise ToolError("on purpose", code="MINE") if coded else ValueError("oops")

    def finalize(_execution: ToolExecution, _result: ToolResult) -> None:
        fail("finalizer")

    @registry.tool(name="work", finalize=finalize)
    async def body() -> str:
        fail("body")
        return "worked"

    async def gate(_execution: ToolExecution, _proceed: GateRest) -> GateDecision:
        fail("gate")
        return Allow()

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        fail("wrapper")
        return await proceed(execution)

    async def review(_execution: ToolExecution, _result: ToolResult, _proceed: ReviewRest) -> ReviewDecision:
        fail("review")
        return Accept()

    registry.gate(gate)
    registry.wrap(wrapper)
    registry.review(review)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "work"))

    assert seen.only.outcome is ToolOutcome.FAILED
    if coded:
        assert caplog.records == []
    else:
        (record,) = caplog.records
        assert (record.name, record.levelno) == ("trio_tools", logging.ERROR)
        assert record.exc_info is not None
        assert isinstance(record.exc_info[1], ValueError)
        assert record.exc_info[1].__traceback__ is not None


@pytest.mark.rule("PU-10")
@pytest.mark.parametrize("how", ["caller", "ambient", "before", "value"])
async def test_a_cancelled_result_is_not_logged_as_anything_wrong(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    registry, seen = observed(forever, work)
    caplog.set_level(logging.DEBUG)
    async with trio.open_nursery() as nursery, open_call_scope() as scope:
        with trio.CancelScope() as outer:
            if how == "before":
                scope.cancel()
            nursery.start_soon(at, 1.0, (outer if how == "ambient" else scope).cancel)
            await registry.execute(call(scope, "forever"))

    assert seen.only.outcome is ToolOutcome.CANCELLED
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


class Big:
    """Something large that a call holds on to."""


def internals() -> list[object]:
    """Return what the library keeps of calls in flight."""
    gc.collect()
    return [thing for thing in gc.get_objects() if type(thing).__name__ in ("Life", "Attempt")]


@pytest.mark.parametrize("how", ["ok", "fails", "cancelled", "stray", "helper fails"])
async def test_nothing_of_a_call_is_kept_alive_once_it_is_published(
    autojump_clock: MockClock, how: str
) -> None:
    registry = Registry()
    held: list[weakref.ref[Big]] = []
    others = {id(thing) for thing in internals()}

    @registry.tool(name="work")
    async def body(ctx: ToolContext) -> str:
        big = Big()
        held.append(weakref.ref(big))

        async def helper() -> None:
            assert big
            if how == "helper fails":
                raise ToolError("helper", code="HELPER")

        ctx.nursery.start_soon(helper)
        await trio.sleep(1)
        if how == "fails":
            raise ToolError("mine", code="MINE")
        if how == "cancelled":
            await trio.sleep_forever()
        if how == "stray":
            raise await stray_cancelled()
        return "worked"

    async with open_call_scope() as scope:
        async with scope.open_child(name="child", timeout=2) as child:
            await registry.execute(call(child, "work"))
        scope.deadline = 5.0
        await registry.execute(call(scope, "work"))
        kept = [thing for thing in internals() if id(thing) not in others]
        alive = [reference() is not None for reference in held]
        in_flight = registry.statistics().calls

    assert alive == [False, False]
    assert kept == []
    assert in_flight == ()


@pytest.mark.parametrize("how", ["ok", "fails", "helper fails"])
async def test_a_finished_call_needs_no_cycle_collector(autojump_clock: MockClock, how: str) -> None:
    registry = Registry()
    held: list[weakref.ref[Big]] = []

    async def helper() -> None:
        raise ToolError("helper", code="HELPER")

    @registry.tool(name="work")
    async def body(ctx: ToolContext) -> str:
        big = Big()
        held.append(weakref.ref(big))
        if how == "helper fails":
            ctx.nursery.start_soon(helper)
        await trio.sleep(1)
        if how == "fails":
            raise ToolError("mine", code="MINE")
        return "worked"

    gc.collect()
    gc.disable()
    try:
        async with open_call_scope() as scope:
            await registry.execute(call(scope, "work"))
            alive = held[0]() is not None
    finally:
        gc.enable()

    assert not alive


async def test_a_call_that_stays_cancelled_is_reported_where_it_waits(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    registry, seen = observed()

    @registry.tool
    async def lingers() -> str:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(50)
        return "never"

    async with open_call_scope(timeout=1) as scope:
        await registry.execute(call(scope, "lingers"))
        returned = trio.current_time()

    assert returned == 51.0
    assert facts(seen.only) == "cancelled ABORTED cancelled deadline:caller"
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert 1 <= len(warnings) <= 4
    assert "lingers" in warnings[0]
    assert "test_pipeline.py" in warnings[0]


async def test_what_is_no_call_is_refused(autojump_clock: MockClock) -> None:
    registry, seen = observed(work)
    nothing: Any = {"name": "work", "arguments": {}}
    with pytest.raises(TypeError):
        await registry.execute(nothing)

    assert seen.results == []


@pytest.mark.rule("PU-3", "RE-6")
async def test_a_finalizer_sees_a_blocked_result_as_the_review_left_it(autojump_clock: MockClock) -> None:
    registry, seen = observed()
    finalized: list[str] = []

    def finalize(_execution: ToolExecution, result: ToolResult) -> None:
        finalized.append(f"{facts(result)}: {result.text}")

    @registry.tool(name="work", finalize=finalize)
    async def body() -> str:
        return "worked"

    async def review(_execution: ToolExecution, _result: ToolResult, _proceed: ReviewRest) -> ReviewDecision:
        return Block([TextContent("no"), ImageContent("eA==", "image/png")])

    registry.review(review)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "work"))

    assert finalized == ["failed BLOCKED returned: no"]
    assert len(seen.only.content) == 2


@pytest.mark.rule("PU-9")
def test_an_interrupt_in_a_nested_call_publishes_both_calls(autojump_clock: MockClock) -> None:
    registry, seen = observed()

    @registry.tool
    async def inner() -> str:
        await trio.sleep(1)
        raise KeyboardInterrupt

    @registry.tool
    async def outer(ctx: ToolContext) -> str:
        await ctx.call("inner", {})
        return "never"

    async def main() -> None:
        async with open_call_scope() as scope:
            await registry.execute(call(scope, "outer"))

    with pytest.raises((KeyboardInterrupt, BaseExceptionGroup)):
        run(main)

    assert seen.published == ["inner: cancelled ABORTED raised", "outer: cancelled ABORTED raised"]


@pytest.mark.rule("PU-9")
def test_interrupts_of_function_and_helper_go_on_together() -> None:
    registry, seen = observed()

    class First(BaseException):
        pass

    class Second(BaseException):
        pass

    @registry.tool
    async def both(ctx: ToolContext) -> str:
        async def helper() -> None:
            raise First

        ctx.nursery.start_soon(helper)
        try:
            await trio.sleep_forever()
        finally:
            raise Second

    async def main() -> None:
        async with open_call_scope() as scope:
            await registry.execute(call(scope, "both"))

    with pytest.raises(BaseExceptionGroup) as raised:
        run(main)

    assert raised.value.subgroup(First) is not None
    assert raised.value.subgroup(Second) is not None
    assert facts(seen.only) == "cancelled ABORTED raised"


async def test_a_waiting_call_does_not_keep_the_loop_busy(autojump_clock: MockClock) -> None:
    registry, seen = observed()

    class All(trio.abc.Instrument):
        steps = 0

        def before_task_step(self, task: trio.lowlevel.Task) -> None:
            self.steps += 1

    @registry.tool
    async def long(ctx: ToolContext) -> str:
        ctx.nursery.start_soon(trio.sleep, 900)
        await trio.sleep(1000)
        return "slept"

    counter = All()
    async with open_call_scope(timeout=5000) as scope:
        trio.lowlevel.add_instrument(counter)
        await registry.execute(call(scope, "long"))
        trio.lowlevel.remove_instrument(counter)

    assert facts(seen.only) == "ok returned"
    assert counter.steps < 40


@pytest.mark.rule("WR-17", "GA-6", "RE-7")
@pytest.mark.parametrize("who", ["wrapper", "gate", "approver", "reviewer"])
async def test_a_hook_that_forgets_to_await_leaves_no_coroutine_behind(
    autojump_clock: MockClock, who: str
) -> None:
    async def forgotten() -> Any:
        return None

    async def approve(_execution: ToolExecution, _reason: str | None) -> Any:
        return forgotten() if who == "approver" else Approval.ALLOWED_ONCE

    registry, seen = observed(work, approver=approve)

    async def gate(_execution: ToolExecution, proceed: GateRest) -> Any:
        return proceed() if who == "gate" else Ask()

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> Any:
        return proceed(execution) if who == "wrapper" else await proceed(execution)

    async def review(_execution: ToolExecution, _result: ToolResult, proceed: ReviewRest) -> Any:
        return proceed() if who == "reviewer" else await proceed()

    registry.gate(gate)
    registry.wrap(wrapper)
    registry.review(review)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "work"))
    gc.collect()

    assert seen.only.code == "POLICY_ERROR"


@pytest.mark.rule("OU-3", "GA-5", "WR-17", "RE-7")
@pytest.mark.parametrize("who", ["gate", "approver", "wrapper", "tail", "reviewer"])
async def test_a_hook_that_leaves_a_scope_open_fails_its_call_closed(
    autojump_clock: MockClock, who: str
) -> None:
    def strike(where: str) -> None:
        if where == who:
            trio.CancelScope().__enter__()

    async def approve(_execution: ToolExecution, _reason: str | None) -> Approval:
        strike("approver")
        return Approval.ALLOWED_ONCE

    registry, seen = observed(work, approver=approve)

    async def gate(_execution: ToolExecution, _proceed: GateRest) -> GateDecision:
        strike("gate")
        return Ask()

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        strike("wrapper")
        result = await proceed(execution)
        strike("tail")
        return result

    async def review(_execution: ToolExecution, _result: ToolResult, proceed: ReviewRest) -> ReviewDecision:
        strike("reviewer")
        return await proceed()

    registry.gate(gate)
    registry.wrap(wrapper)
    registry.review(review)
    async with open_call_scope() as scope:
        result = await registry.execute(call(scope, "work"))
        await trio.sleep(1)

    assert result.outcome is ToolOutcome.FAILED
    assert result.code == "POLICY_ERROR"
    assert seen.only is result


@pytest.mark.rule("PU-9", "PU-5")
def test_interrupts_of_several_observers_go_on_together_after_the_last_one() -> None:
    registry = Registry()
    registry.register(work)

    def strike(interrupt: BaseException) -> Callable[[ToolExecution, ToolResult], None]:
        def observer(_execution: ToolExecution, _result: ToolResult) -> None:
            raise interrupt

        return observer

    interrupts = [KeyboardInterrupt(), OwnInterrupt()]
    for interrupt in interrupts:
        registry.observe(strike(interrupt))
    seen = Recorder()
    registry.observe(seen)
    leaves: list[BaseException] = []

    async def main() -> None:
        async with open_call_scope() as scope:
            leaves.extend(await interrupts_of(lambda: registry.execute(call(scope, "work"))))

    run(main)

    assert sorted(map(id, leaves)) == sorted(map(id, interrupts))
    assert facts(seen.only) == "ok returned"


@pytest.mark.rule("MA-6", "CA-10")
async def test_arguments_that_are_nested_too_deep_are_told_with_the_limit(autojump_clock: MockClock) -> None:
    registry, seen = observed(work, bounds=Bounds(json_depth=3))
    async with open_call_scope() as scope:
        await registry.execute(ToolCall(name="work", arguments={"a": {"b": {}}}, scope=scope))
        await registry.execute(ToolCall(name="work", arguments={"a": {"b": {"c": {}}}}, scope=scope))

    assert [facts(result) for result in seen.results] == ["ok returned", "failed NOT_JSON not_dispatched"]
    assert seen.results[1].text == "Error: tool execution arguments are nested deeper than 3 levels"


@pytest.mark.rule("NE-9")
async def test_no_call_is_nested_in_one_that_has_settled(autojump_clock: MockClock) -> None:
    registry, seen = observed(work)
    refused: list[str] = []

    async def nest(where: str, execution: ToolExecution | DispatchExecution) -> None:
        try:
            await registry.execute(ToolCall(name="work", arguments={}, scope=scope, parent=execution.token))
        except RuntimeError:
            refused.append(where)

    @registry.tool
    async def outer() -> str:
        return "outer"

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        result = await proceed(execution)
        if execution.name == "outer":
            await nest("in the tail of a wrapper", execution)
        return result

    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "outer"))
        await nest("after the call", seen.executions[0])

    assert refused == ["in the tail of a wrapper", "after the call"]
    assert seen.published == ["outer: ok returned"]


@pytest.mark.rule("PU-1", "RE-8")
def test_a_success_that_never_waited_is_none_if_the_caller_cancels_at_its_schedule_point() -> None:
    """trio runs two tasks that are ready in arbitrary order, so this is tried many times."""

    async def main() -> tuple[bool, bool]:
        registry, seen = observed(work)
        cancelled_first: list[bool] = []

        async def short_circuit(_execution: DispatchExecution, _proceed: Proceed) -> ToolResult:
            return ToolResult.ok("at once")

        registry.wrap(short_circuit)
        async with trio.open_nursery() as nursery, open_call_scope() as scope:

            async def cancel() -> None:
                scope.cancel()

            registry.observe(lambda execution, _result: cancelled_first.append(execution.scope.cancel_called))
            nursery.start_soon(cancel)
            await registry.execute(call(scope, "work"))
        return seen.only.outcome is ToolOutcome.CANCELLED, cancelled_first[0]

    ended = [run(main) for _ in range(20)]

    assert {cancelled for cancelled, _ in ended} == {True, False}
    assert all(cancelled == cancelled_first for cancelled, cancelled_first in ended)


@pytest.mark.rule("PU-8", "CA-1")
async def test_a_cancelled_call_unwinds_at_the_very_instant_of_the_ambient_deadline(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed(work)
    registry.observe(lambda _execution, _result: hold_loop(1))
    returned: list[ToolResult] = []
    with trio.move_on_after(1) as outer:
        async with open_call_scope() as scope:
            scope.cancel()
            returned.append(await registry.execute(call(scope, "work")))

    assert seen.published == ["work: cancelled ABORTED_BEFORE_DISPATCH not_dispatched caller:caller"]
    assert returned == []
    assert outer.cancelled_caught
