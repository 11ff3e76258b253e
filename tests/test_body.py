# ruff: noqa: BLE001
"""Bodies: invoked in one step, owned until they are quiet, and classified only then."""

from __future__ import annotations

import contextvars
import gc
import sys
import threading
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Any, Literal

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.helpers import (
    GateRest,
    Proceed,
    ReviewRest,
    at,
    call,
    caused_at,
    facts,
    hold_loop,
    observed,
    stray_cancelled,
)
from trio_tools import (
    Allow,
    Artifact,
    ArtifactType,
    CallScope,
    DispatchExecution,
    GateDecision,
    Registry,
    ReviewDecision,
    ToolCall,
    ToolContext,
    ToolError,
    ToolExecution,
    ToolResult,
    TransportError,
    WriteKind,
    open_call_scope,
    tool,
)

setting: contextvars.ContextVar[str] = contextvars.ContextVar("setting", default="unset")


@tool
async def forever() -> str:
    """Wait until cancelled."""
    await trio.sleep_forever()
    return "never"


@tool
async def strict(number: int) -> str:
    """Take a number."""
    return f"got {number}"


def seen_by_review(registry: Registry) -> list[str]:
    reviewed: list[str] = []

    async def review(_execution: ToolExecution, result: ToolResult, proceed: ReviewRest) -> ReviewDecision:
        reviewed.append(facts(result))
        return await proceed()

    registry.review(review)
    return reviewed


@pytest.mark.rule("BO-1")
async def test_dispatch_asks_for_cancellation_then_the_name_then_the_arguments(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed(strict)
    reviewed = seen_by_review(registry)
    returned: list[str] = []
    cancel = False

    async with open_call_scope() as scope:

        async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
            if cancel:
                scope.cancel()
            result = await proceed(execution)
            returned.append(facts(result))
            return result

        registry.wrap(wrapper)
        await registry.execute(call(scope, "strict", number="seven"))
        await registry.execute(call(scope, "nothing", number="seven"))
        cancel = True
        await registry.execute(call(scope, "nothing", number="seven"))

    expected = [
        "failed INVALID_ARGS not_dispatched",
        "failed UNKNOWN_TOOL not_dispatched",
        "cancelled ABORTED_BEFORE_DISPATCH not_dispatched caller:caller",
    ]
    assert returned == reviewed == [facts(result) for result in seen.results] == expected


@pytest.mark.rule("BO-1")
async def test_the_tool_is_looked_up_at_dispatch(autojump_clock: MockClock) -> None:
    registry, seen = observed()
    registration = registry.register(strict)

    @tool(name="strict")
    async def replacement(word: str) -> str:
        return word

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        registration.close()
        registry.register(replacement)
        return await proceed(execution)

    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "strict", word="replaced"))

    assert seen.only.value == "replaced"


@pytest.mark.rule("BO-1", "BO-2", "CA-15")
@pytest.mark.parametrize("passes", range(8))
@pytest.mark.parametrize("kind", ["plain", "with context"])
async def test_the_last_check_and_the_first_step_of_the_body_are_one(
    autojump_clock: MockClock, passes: int, kind: str
) -> None:
    registry, seen = observed()
    first_looks: list[bool] = []

    async with trio.open_nursery() as nursery, open_call_scope() as scope:

        @registry.tool
        async def plain() -> str:
            first_looks.append(scope.cancel_called)
            await trio.lowlevel.checkpoint()
            return "done"

        @registry.tool(name="with context")
        async def with_context(ctx: ToolContext) -> str:
            assert ctx.dispatched
            first_looks.append(scope.cancel_called)
            await trio.lowlevel.checkpoint()
            return "done"

        async def cancel_after_passes() -> None:
            for _ in range(passes):
                await trio.lowlevel.checkpoint()
            scope.cancel()

        async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
            nursery.start_soon(cancel_after_passes)
            result = await proceed(execution)
            assert execution.dispatched is bool(first_looks)
            return result

        registry.wrap(wrapper)
        await registry.execute(call(scope, kind))

    assert first_looks in ([], [False])
    assert seen.only.dispatched is bool(first_looks)
    if not first_looks:
        assert facts(seen.only) == "cancelled ABORTED_BEFORE_DISPATCH not_dispatched caller:caller"


@pytest.mark.rule("BO-2", "BO-13")
@pytest.mark.parametrize("passes", range(12))
async def test_a_def_body_is_called_exactly_if_it_was_marked_as_dispatched(passes: int) -> None:
    registry, seen = observed()
    called: list[str] = []

    async with open_call_scope() as scope, trio.open_nursery() as nursery:

        @registry.tool
        def threaded() -> str:
            called.append("called")
            return "done"

        async def cancel_after_passes() -> None:
            for _ in range(passes):
                await trio.lowlevel.checkpoint()
            scope.cancel()

        nursery.start_soon(cancel_after_passes)
        await registry.execute(call(scope, "threaded"))

    assert seen.only.dispatched is bool(called)
    if not called:
        assert facts(seen.only) == "cancelled ABORTED_BEFORE_DISPATCH not_dispatched caller:caller"
    else:
        assert facts(seen.only) in ("cancelled ABORTED returned caller:caller", "ok returned")


@pytest.mark.rule("BO-2")
async def test_dispatched_turns_true_with_the_call_of_the_function(autojump_clock: MockClock) -> None:
    registry, seen = observed()
    looks: list[tuple[str, bool]] = []

    @registry.tool
    async def look(ctx: ToolContext) -> str:
        looks.append(("body", ctx.dispatched))
        return "looked"

    async def gate(execution: ToolExecution, _proceed: GateRest) -> GateDecision:
        looks.append(("gate", execution.dispatched))
        return Allow()

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        looks.append(("wrapper", execution.dispatched))
        result = await proceed(execution)
        looks.append(("tail", execution.dispatched))
        return result

    registry.gate(gate)
    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "look"))

    assert looks == [("gate", False), ("wrapper", False), ("body", True), ("tail", True)]
    assert seen.executions[0].dispatched


@pytest.mark.rule("BO-3")
async def test_an_async_body_runs_in_a_task_of_the_calls_nursery(autojump_clock: MockClock) -> None:
    registry, _ = observed()
    told: list[bool] = []

    @registry.tool
    async def look(ctx: ToolContext) -> str:
        task = trio.lowlevel.current_task()
        told.append(task.parent_nursery is ctx.nursery)
        told.append(task in ctx.nursery.child_tasks)
        told.append(task is not caller)
        return "looked"

    async with open_call_scope() as scope:
        caller = trio.lowlevel.current_task()
        await registry.execute(call(scope, "look"))

    assert told == [True, True, True]


@pytest.mark.rule("BO-3")
@pytest.mark.parametrize("kind", ["plain", "with context", "def"])
async def test_a_body_has_a_copy_of_the_context_variables(kind: str) -> None:
    registry, _ = observed()
    told: list[str] = []

    def work() -> str:
        told.append(setting.get())
        setting.set("by the body")
        told.append(setting.get())
        return "set"

    @registry.tool
    async def plain() -> str:
        return work()

    @registry.tool(name="with context")
    async def with_context(ctx: ToolContext) -> str:
        return work()

    @registry.tool(name="def")
    def threaded() -> str:
        return work()

    setting.set("by the caller")
    async with open_call_scope() as scope:
        await registry.execute(call(scope, kind))

    assert told == ["by the caller", "by the body"]
    assert setting.get() == "by the caller"


@pytest.mark.rule("BO-4")
async def test_a_body_settles_only_when_its_tasks_have_ended(autojump_clock: MockClock) -> None:
    registry, seen = observed()
    told: list[str] = []
    contexts: list[ToolContext] = []

    @registry.tool
    async def leaves_helpers(ctx: ToolContext) -> str:
        contexts.append(ctx)

        async def helper() -> None:
            await trio.sleep(5)
            ctx.defer_context("from the helper")
            told.append(f"helper at {trio.current_time()}")

        ctx.nursery.start_soon(helper)
        return "returned early"

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        result = await proceed(execution)
        told.append(f"proceed at {trio.current_time()}")
        return result

    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "leaves_helpers"))

    assert told == ["helper at 5.0", "proceed at 5.0"]
    assert facts(seen.only) == "ok returned"
    assert seen.only.contexts == ("from the helper",)


@pytest.mark.rule("BO-4", "BO-6")
async def test_a_cancellation_while_helpers_end_replaces_a_value_that_was_returned_before(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed()

    @registry.tool
    async def leaves_helpers(ctx: ToolContext) -> str:
        async def helper() -> None:
            with trio.CancelScope(shield=True):
                await trio.sleep(5)

        ctx.nursery.start_soon(helper)
        return "returned early"

    async with open_call_scope(timeout=3) as scope:
        await registry.execute(call(scope, "leaves_helpers"))
        returned = trio.current_time()

    assert returned == 5.0
    assert facts(seen.only) == "cancelled ABORTED returned deadline:caller"


@pytest.mark.rule("BO-4", "BO-17")
async def test_the_nursery_is_closed_when_the_result_is_decided(autojump_clock: MockClock) -> None:
    registry, _ = observed()
    kept: list[trio.Nursery] = []
    refused: list[str] = []

    @registry.tool
    async def keeps(ctx: ToolContext) -> str:
        kept.append(ctx.nursery)
        return "kept"

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        result = await proceed(execution)
        try:
            kept[0].start_soon(trio.sleep, 0)
        except RuntimeError:
            refused.append("refused")
        return result

    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "keeps"))

    assert refused == ["refused"]


@tool
async def settles(
    ctx: ToolContext,
    function: Literal["returns", "raises", "waits"],
    helper: Literal["none", "returns", "raises", "waits"],
) -> str:
    """End as told, with a helper that ends as told, one second later."""

    async def end(how: str) -> None:
        if how == "raises":
            raise ToolError(f"from the {how}", code="ON_PURPOSE")
        if how == "waits":
            await trio.sleep_forever()

    async def help_out() -> None:
        await trio.sleep(1)
        await end(helper)

    if helper != "none":
        ctx.nursery.start_soon(help_out)
    await end(function)
    return "returned"


@pytest.mark.rule("BO-5", "BO-6", "BO-7")
@pytest.mark.parametrize(
    ("function", "helper", "expected"),
    [
        ("returns", "none", "ok returned"),
        ("returns", "returns", "ok returned"),
        ("returns", "raises", "failed ON_PURPOSE raised"),
        ("returns", "waits", "cancelled ABORTED returned deadline:caller"),
        ("raises", "none", "failed ON_PURPOSE raised"),
        ("raises", "waits", "failed ON_PURPOSE raised"),
        ("waits", "none", "cancelled ABORTED cancelled deadline:caller"),
        ("waits", "returns", "cancelled ABORTED cancelled deadline:caller"),
        ("waits", "raises", "failed ON_PURPOSE raised"),
        ("waits", "waits", "cancelled ABORTED cancelled deadline:caller"),
    ],
)
async def test_the_settlement_by_function_and_helpers(
    autojump_clock: MockClock, function: str, helper: str, expected: str
) -> None:
    registry, seen = observed(settles)
    async with open_call_scope(timeout=9) as scope:
        await registry.execute(call(scope, "settles", function=function, helper=helper))

    assert facts(seen.only) == expected


@pytest.mark.rule("BO-6")
@pytest.mark.parametrize("cancelled", [False, True])
@pytest.mark.parametrize("kind", ["plain", "with context", "def"])
async def test_an_invalid_value_is_invalid_output_cancelled_or_not(kind: str, cancelled: bool) -> None:
    registry, seen = observed()

    async with open_call_scope() as scope:

        def work() -> Any:
            if cancelled:
                scope.cancel()
            return 7

        @registry.tool
        async def plain() -> str:
            return work()

        @registry.tool(name="with context")
        async def with_context(ctx: ToolContext) -> str:
            return work()

        @registry.tool(name="def")
        def threaded() -> str:
            return trio.from_thread.run_sync(work)

        await registry.execute(call(scope, kind))

    assert facts(seen.only) == "failed INVALID_TOOL_OUTPUT returned"
    assert seen.only.cause is None


@pytest.mark.rule("BO-7", "CA-16")
@pytest.mark.parametrize("cancelled", [False, True])
@pytest.mark.parametrize("kind", ["plain", "with context", "def"])
async def test_an_exception_of_the_body_beats_the_cancellation(kind: str, cancelled: bool) -> None:
    registry, seen = observed()

    async with open_call_scope() as scope:

        def work() -> Any:
            if cancelled:
                scope.cancel()
            raise LookupError("not there")

        @registry.tool
        async def plain() -> str:
            return work()

        @registry.tool(name="with context")
        async def with_context(ctx: ToolContext) -> str:
            ctx.defer_context("kept")
            return work()

        @registry.tool(name="def")
        def threaded() -> str:
            return trio.from_thread.run_sync(work)

        await registry.execute(call(scope, kind))

    result = seen.only
    assert facts(result) == "failed TOOL_ERROR raised"
    assert result.error is not None
    assert (result.error.name, result.error.message) == ("LookupError", "not there")
    assert result.text == "Error: not there"
    assert result.contexts == (("kept",) if kind == "with context" else ())
    assert result.cause is None


@pytest.mark.rule("BO-7")
async def test_contexts_stay_when_the_body_is_cancelled(autojump_clock: MockClock) -> None:
    registry, seen = observed()

    @registry.tool
    async def explains(ctx: ToolContext) -> str:
        ctx.defer_context("before")
        try:
            await trio.sleep_forever()
        finally:
            ctx.defer_context("during cleanup")
        return "never"

    async with open_call_scope(timeout=1) as scope:
        await registry.execute(call(scope, "explains"))

    assert facts(seen.only) == "cancelled ABORTED cancelled deadline:caller"
    assert seen.only.contexts == ("before", "during cleanup")


GROUPS: list[tuple[Callable[[], BaseException], str, str, str]] = [
    (lambda: ExceptionGroup("g", [ValueError("one")]), "TOOL_ERROR", "ValueError", "one"),
    (
        lambda: ExceptionGroup("g", [ExceptionGroup("h", [ToolError("one", code="MINE")])]),
        "MINE",
        "ToolError",
        "one",
    ),
    (lambda: ExceptionGroup("g", [ValueError("one"), KeyError("two")]), "TOOL_ERROR", "", "one; 'two'"),
    (
        lambda: ExceptionGroup("g", [ToolError("one", code="MINE"), ToolError("two", code="MINE")]),
        "MINE",
        "",
        "one; two",
    ),
    (
        lambda: ExceptionGroup("g", [ToolError("one", code="MINE"), ToolError("two", code="YOURS")]),
        "TOOL_ERROR",
        "",
        "one; two",
    ),
    (
        lambda: ExceptionGroup("g", [ToolError("one", code="MINE"), ValueError("two")]),
        "TOOL_ERROR",
        "",
        "one; two",
    ),
    (
        lambda: ExceptionGroup(
            "g", [ExceptionGroup("h", [ValueError("one"), ValueError("two")]), ValueError("three")]
        ),
        "TOOL_ERROR",
        "",
        "one; two; three",
    ),
]


@pytest.mark.rule("BO-8")
@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize(("make", "code", "name", "message"), GROUPS)
async def test_an_exception_group_is_taken_apart(
    autojump_clock: MockClock,
    make: Callable[[], BaseException],
    code: str,
    name: str,
    message: str,
    mixed: bool,
) -> None:
    registry, seen = observed()

    @registry.tool
    async def fails() -> str:
        error = make()
        if mixed:
            cancelled = await stray_cancelled()
            error = BaseExceptionGroup("mixed", [cancelled, error, cancelled])
        raise error

    async with open_call_scope() as scope:
        await registry.execute(call(scope, "fails"))

    result = seen.only
    assert facts(result) == f"failed {code} raised"
    assert result.error is not None
    assert result.error.message == message
    if name:
        assert result.error.name == name


@pytest.mark.rule("BO-8")
async def test_one_real_error_among_many_cancelled_tasks_is_the_error(autojump_clock: MockClock) -> None:
    registry, seen = observed()

    @registry.tool
    async def fans_out() -> str:
        async def fail() -> None:
            await trio.sleep(1)
            raise OSError("disk full")

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(trio.sleep_forever)
            nursery.start_soon(fail)
        return "never"

    async with open_call_scope() as scope:
        await registry.execute(call(scope, "fans_out"))

    assert facts(seen.only) == "failed TOOL_ERROR raised"
    assert seen.only.error is not None
    assert (seen.only.error.name, seen.only.error.message) == ("OSError", "disk full")


@pytest.mark.rule("BO-8", "BO-7")
async def test_a_group_of_nothing_but_cancelled_is_a_cancellation(autojump_clock: MockClock) -> None:
    registry, seen = observed()

    @registry.tool
    async def groups() -> str:
        try:
            await trio.sleep_forever()
        except trio.Cancelled as cancelled:
            raise BaseExceptionGroup("all", [BaseExceptionGroup("inner", [cancelled])]) from None
        return "never"

    async with open_call_scope(timeout=1) as scope:
        await registry.execute(call(scope, "groups"))

    assert facts(seen.only) == "cancelled ABORTED cancelled deadline:caller"


@pytest.mark.rule("BO-9", "CA-21")
@pytest.mark.parametrize("kind", ["plain", "with context"])
@pytest.mark.parametrize("grouped", [False, True])
async def test_a_stray_cancelled_is_the_bodys_failure(
    autojump_clock: MockClock, kind: str, grouped: bool
) -> None:
    registry, seen = observed()
    reviewed = seen_by_review(registry)

    async def work() -> str:
        error: BaseException = await stray_cancelled()
        raise BaseExceptionGroup("stray", [error]) if grouped else error

    @registry.tool
    async def plain() -> str:
        return await work()

    @registry.tool(name="with context")
    async def with_context(ctx: ToolContext) -> str:
        return await work()

    async with open_call_scope() as scope:
        result = await registry.execute(call(scope, kind))
        await trio.sleep(1)
        cancelled = scope.cancel_called

    assert facts(result) == "failed TOOL_ERROR cancelled"
    assert result.text == "Error: stray Cancelled escaped the tool body"
    assert not cancelled
    assert seen.only is result
    assert reviewed == ["failed TOOL_ERROR cancelled"]


@pytest.mark.rule("BO-9")
async def test_a_stray_cancelled_of_a_helper_that_ends_the_body_is_its_failure(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed()

    @registry.tool
    async def waits(ctx: ToolContext) -> str:
        async def helper() -> None:
            raise await stray_cancelled()

        ctx.nursery.start_soon(helper)
        await trio.sleep(1)
        return "never"

    async with open_call_scope() as scope:
        await registry.execute(call(scope, "waits"))
        await trio.sleep(1)

    assert facts(seen.only) == "failed TOOL_ERROR cancelled"


@pytest.mark.rule("BO-9")
@pytest.mark.parametrize("by", ["body", "helper"])
async def test_a_body_stopped_by_its_own_cancelling_fails(autojump_clock: MockClock, by: str) -> None:
    registry, seen = observed()

    @registry.tool
    async def cancels_itself(ctx: ToolContext) -> str:
        async def helper() -> None:
            await trio.sleep(1)
            ctx.nursery.cancel_scope.cancel()

        if by == "body":
            ctx.nursery.cancel_scope.cancel()
        else:
            ctx.nursery.start_soon(helper)
        await trio.sleep(9)
        return "never"

    async with open_call_scope() as scope:
        result = await registry.execute(call(scope, "cancels_itself"))
        cancelled = scope.cancel_called
        await trio.lowlevel.checkpoint()

    assert facts(result) == "failed TOOL_ERROR cancelled"
    assert result.text == "Error: tool cancelled itself"
    assert not cancelled
    assert seen.only is result


@pytest.mark.rule("BO-9", "BO-7")
async def test_a_body_that_cancels_itself_under_a_cancelled_caller_is_aborted(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed()

    @registry.tool
    async def cancels_itself(ctx: ToolContext) -> str:
        try:
            await trio.sleep_forever()
        finally:
            ctx.nursery.cancel_scope.cancel()
        return "never"

    async with open_call_scope(timeout=1) as scope:
        await registry.execute(call(scope, "cancels_itself"))

    assert facts(seen.only) == "cancelled ABORTED cancelled deadline:caller"


async def _leave_open(what: str) -> None:
    match what:
        case "scope":
            trio.CancelScope().__enter__()
        case "shield":
            trio.CancelScope(shield=True).__enter__()
        case "cancelled scope":
            scope = trio.CancelScope()
            scope.__enter__()
            scope.cancel()
        case "empty nursery":
            await trio.open_nursery().__aenter__()
        case "nursery without its scope":
            nursery = await trio.open_nursery().__aenter__()
            nursery.start_soon(trio.sleep_forever)
            nursery.cancel_scope.__exit__(None, None, None)
        case "call scope":
            await open_call_scope(name="mine").__aenter__()
        case "child scope":
            opened = await open_call_scope(name="mine").__aenter__()
            await opened.open_child(name="child").__aenter__()
        case _:
            nursery = await trio.open_nursery().__aenter__()
            nursery.start_soon(trio.sleep_forever)


LEFT_OPEN = [
    "scope",
    "shield",
    "cancelled scope",
    "empty nursery",
    "busy nursery",
    "nursery without its scope",
    "call scope",
    "child scope",
]


@pytest.mark.rule("BO-10")
@pytest.mark.parametrize("what", LEFT_OPEN)
@pytest.mark.parametrize("kind", ["plain", "with context"])
async def test_a_scope_left_open_fails_that_call_alone(
    autojump_clock: MockClock, kind: str, what: str
) -> None:
    registry, seen = observed()

    @registry.tool
    async def plain() -> str:
        await _leave_open(what)
        return "returned"

    @registry.tool(name="with context")
    async def with_context(ctx: ToolContext) -> str:
        await _leave_open(what)
        return "returned"

    async with open_call_scope(timeout=100) as scope:
        await registry.execute(call(scope, kind))
        await trio.sleep(1)
        cancelled, deadline = scope.cancel_called, trio.current_effective_deadline()
        again = trio.current_time()

    assert facts(seen.only) == "failed TOOL_ERROR returned"
    assert seen.only.text == "Error: tool left a scope open"
    assert seen.only.value is None
    assert not cancelled
    assert deadline == float("inf")
    assert again < 2


@pytest.mark.rule("BO-10", "CA-3")
@pytest.mark.parametrize("what", LEFT_OPEN)
@pytest.mark.parametrize("kind", ["plain", "with context"])
async def test_a_scope_left_open_is_a_failure_under_a_cancelled_caller_too(
    autojump_clock: MockClock, kind: str, what: str
) -> None:
    registry, seen = observed()

    async with open_call_scope() as scope:

        @registry.tool
        async def plain() -> str:
            await _leave_open(what)
            scope.cancel()
            return "returned"

        @registry.tool(name="with context")
        async def with_context(ctx: ToolContext) -> str:
            await _leave_open(what)
            scope.cancel()
            return "returned"

        await registry.execute(call(scope, kind))

    assert facts(seen.only) == "failed TOOL_ERROR returned"


@pytest.mark.rule("BO-4", "BO-10", "BO-13")
@pytest.mark.parametrize("what", LEFT_OPEN)
@pytest.mark.parametrize("kind", ["plain", "with context"])
async def test_what_a_thread_leaves_open_is_closed_as_well(kind: str, what: str) -> None:
    registry, seen = observed()
    living = trio.lowlevel.current_statistics().tasks_living

    @registry.tool
    def plain() -> str:
        trio.from_thread.run(_leave_open, what)
        return "returned"

    @registry.tool(name="with context")
    def with_context(ctx: ToolContext) -> str:
        trio.from_thread.run(_leave_open, what)
        return "returned"

    async with open_call_scope() as scope:
        await registry.execute(call(scope, kind))

    assert facts(seen.only) == "failed TOOL_ERROR returned"
    assert seen.only.text == "Error: tool left a scope open"
    assert trio.lowlevel.current_statistics().tasks_living == living


@pytest.mark.rule("BO-4", "BO-10")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("kind", ["plain", "with context"])
@pytest.mark.parametrize("wait", [None, "checkpoint", "sleep"])
@pytest.mark.parametrize("child", ["not begun", "lingers"])
def test_case_24_a_body_that_drops_a_generator_with_a_nursery_in_it_fails_that_call_alone(
    kind: str, wait: str | None, child: str
) -> None:
    ended: list[str] = []

    async def linger() -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(1)
            ended.append("child")

    async def numbers() -> AsyncGenerator[int]:
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(linger if child == "lingers" else trio.sleep_forever)
                if child == "lingers":
                    await wait_all_tasks_blocked()
                yield 1
        finally:
            ended.append("generator")

    async def drop() -> str:
        async for _ in numbers():
            break
        if wait == "checkpoint":
            await trio.lowlevel.checkpoint()
        elif wait == "sleep" and child == "lingers":
            await trio.sleep(0.5)
        return "returned"

    async def main() -> None:
        registry, seen = observed()

        @registry.tool
        async def plain() -> str:
            return await drop()

        @registry.tool(name="with context")
        async def with_context(ctx: ToolContext) -> str:
            return await drop()

        async with open_call_scope() as scope:
            await registry.execute(call(scope, kind))
            assert child == "not begun" or "child" in ended
            # A body that goes on for long meets the cancellation of the nursery, in whose scope it still is.
            settlement = "cancelled" if (wait, child) == ("sleep", "lingers") else "returned"
            assert facts(seen.only) == f"failed TOOL_ERROR {settlement}"

    # The scheduler draws the order of the tasks that are ready together.
    for _ in range(10):
        ended.clear()
        trio.run(main, clock=MockClock(autojump_threshold=0))
        assert ended[-1] == "generator"


@pytest.mark.rule("BO-9", "OU-3", "CA-1")
@pytest.mark.parametrize("kind", ["plain", "with context"])
@pytest.mark.parametrize(
    ("way", "expected"),
    [
        ("cancel", "ok returned"),
        ("cancel and wait", "failed TOOL_ERROR cancelled"),
        ("deadline and wait", "failed TOOL_ERROR cancelled"),
        ("a task that fails", "failed TOOL_ERROR raised"),
    ],
)
async def test_a_body_that_cancels_the_nursery_it_finds_itself_in_was_not_cancelled_by_anybody_else(
    autojump_clock: MockClock, kind: str, way: str, expected: str
) -> None:
    registry, seen = observed()

    async def fail() -> None:
        raise ValueError("mine")

    async def disturb() -> str:
        nursery = trio.lowlevel.current_task().parent_nursery
        assert nursery is not None
        if way.startswith("cancel"):
            nursery.cancel_scope.cancel()
        elif way.startswith("deadline"):
            nursery.cancel_scope.deadline = trio.current_time() + 1
        else:
            nursery.start_soon(fail)
        if way != "cancel":
            await trio.sleep(2)
        return "returned"

    @registry.tool(concurrency_safe=True)
    async def plain() -> str:
        return await disturb()

    @registry.tool(name="with context", concurrency_safe=True)
    async def with_context(ctx: ToolContext) -> str:
        return await disturb()

    @registry.tool(concurrency_safe=True)
    async def sibling() -> str:
        await trio.sleep(5)
        return "returned"

    async with open_call_scope() as scope:
        await registry.execute_batch([call(scope, kind), call(scope, "sibling")])

    assert [facts(result) for result in seen.results] == [expected, "ok returned"]
    if expected == "failed TOOL_ERROR cancelled":
        assert seen.results[0].text == "Error: tool cancelled itself"


@pytest.mark.rule("SC-3", "WR-5", "BO-4")
@pytest.mark.parametrize("kind", ["plain", "with context"])
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("caller", "cancelled ABORTED returned caller:caller"),
        ("timeout", "failed TOOL_TIMEOUT returned deadline:timeout"),
    ],
)
async def test_what_a_body_started_in_the_nursery_it_found_is_cancelled_with_the_call(
    autojump_clock: MockClock, kind: str, source: str, expected: str
) -> None:
    registry, seen = observed()
    limit = 3 if source == "timeout" else None

    def leave_a_task() -> str:
        nursery = trio.lowlevel.current_task().parent_nursery
        assert nursery is not None
        nursery.start_soon(trio.sleep_forever)
        return "returned"

    @registry.tool(timeout=limit)
    async def plain() -> str:
        return leave_a_task()

    @registry.tool(name="with context", timeout=limit)
    async def with_context(ctx: ToolContext) -> str:
        return leave_a_task()

    begun = trio.current_time()
    async with open_call_scope() as scope, trio.open_nursery() as nursery:
        nursery.start_soon(registry.execute, call(scope, kind))
        await trio.sleep(3)
        if source == "caller":
            scope.cancel()

    assert facts(seen.only) == expected
    assert trio.current_time() == pytest.approx(begun + 3, abs=0.01)  # pyright: ignore[reportUnknownMemberType]


@pytest.mark.rule("BO-10", "JS-9")
@pytest.mark.parametrize("what", LEFT_OPEN)
@pytest.mark.parametrize("kind", ["plain", "with context"])
@pytest.mark.parametrize(
    "error", [ToolError("mine", code="MINE"), RuntimeError("mine"), ValueError("Nursery stack corrupted")]
)
async def test_an_error_of_a_body_that_left_a_scope_open_is_the_error(
    autojump_clock: MockClock, kind: str, what: str, error: Exception
) -> None:
    registry, seen = observed()

    @registry.tool
    async def plain() -> str:
        await _leave_open(what)
        raise error

    @registry.tool(name="with context")
    async def with_context(ctx: ToolContext) -> str:
        await _leave_open(what)
        raise error

    async with open_call_scope() as scope:
        await registry.execute(call(scope, kind))

    code = error.code if isinstance(error, ToolError) else "TOOL_ERROR"
    assert facts(seen.only) == f"failed {code} raised"
    assert seen.only.text == f"Error: {error}"


@pytest.mark.rule("BO-10")
@pytest.mark.parametrize("how", ["leaves the scope", "enters it again"])
async def test_a_body_that_meddles_with_its_nursery_harms_nobody_else(
    autojump_clock: MockClock, how: str
) -> None:
    registry, seen = observed(forever)

    @registry.tool
    async def meddles(ctx: ToolContext) -> str:
        match how:
            case "leaves the scope":
                ctx.nursery.cancel_scope.__exit__(None, None, None)
            case _:
                ctx.nursery.cancel_scope.__enter__()
        return "meddled"

    async with open_call_scope() as scope:
        result = await registry.execute(call(scope, "meddles"))
        await trio.sleep(1)
        cancelled = scope.cancel_called

    assert result.outcome.value == "failed"
    assert result.code == "TOOL_ERROR"
    assert not cancelled
    assert seen.only is result


@pytest.mark.rule("BO-11")
async def test_a_failing_task_ends_the_body_and_its_other_tasks(autojump_clock: MockClock) -> None:
    registry, seen = observed()
    ended: list[str] = []

    async def clean_up(name: str) -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(2)
            ended.append(f"{name} at {trio.current_time()}")

    @registry.tool
    async def body(ctx: ToolContext) -> str:
        async def fail() -> None:
            await trio.sleep(1)
            raise ToolError("helper", code="HELPER")

        ctx.nursery.start_soon(clean_up, "sibling")
        ctx.nursery.start_soon(fail)
        await clean_up("function")
        return "never"

    async with open_call_scope() as scope:
        await registry.execute(call(scope, "body"))
        returned = trio.current_time()

    assert sorted(ended) == ["function at 3.0", "sibling at 3.0"]
    assert returned == 3.0
    assert facts(seen.only) == "failed HELPER raised"


@pytest.mark.rule("BO-11")
async def test_a_failing_function_ends_the_tasks_of_its_nursery(autojump_clock: MockClock) -> None:
    registry, seen = observed()

    @registry.tool
    async def body(ctx: ToolContext) -> str:
        ctx.nursery.start_soon(trio.sleep_forever)
        await trio.sleep(1)
        raise ToolError("function", code="FUNCTION")

    async with open_call_scope() as scope:
        await registry.execute(call(scope, "body"))
        returned = trio.current_time()

    assert returned == 1.0
    assert facts(seen.only) == "failed FUNCTION raised"


@pytest.mark.rule("BO-11", "BO-8")
async def test_errors_of_the_function_and_of_its_tasks_are_joined(autojump_clock: MockClock) -> None:
    registry, seen = observed()

    @registry.tool
    async def body(ctx: ToolContext) -> str:
        async def fail() -> None:
            raise ToolError("helper", code="SAME")

        ctx.nursery.start_soon(fail)
        try:
            await trio.sleep_forever()
        finally:
            raise ToolError("function", code="SAME")

    async with open_call_scope() as scope:
        await registry.execute(call(scope, "body"))

    assert facts(seen.only) == "failed SAME raised"
    assert seen.only.error is not None
    assert sorted(seen.only.error.message.split("; ")) == ["function", "helper"]


@pytest.mark.rule("BO-12")
@pytest.mark.parametrize("kind", ["plain", "with context", "def"])
async def test_a_body_that_cancels_its_caller_and_returns_is_aborted(kind: str) -> None:
    registry, seen = observed()

    async with open_call_scope() as scope:

        @registry.tool
        async def plain() -> str:
            scope.cancel()
            return "returned"

        @registry.tool(name="with context")
        async def with_context(ctx: ToolContext) -> str:
            scope.cancel()
            return "returned"

        @registry.tool(name="def")
        def threaded() -> str:
            trio.from_thread.run_sync(scope.cancel)
            return "returned"

        await registry.execute(call(scope, kind))

    assert facts(seen.only) == "cancelled ABORTED returned caller:caller"
    assert seen.only.value is None


@pytest.mark.rule("BO-12")
@pytest.mark.parametrize("which", ["own nursery", "own scope", "ctx.nursery"])
async def test_a_body_that_cancels_its_helpers_alone_and_returns_is_ok(
    autojump_clock: MockClock, which: str
) -> None:
    registry, seen = observed()

    @registry.tool
    async def body(ctx: ToolContext) -> str:
        if which == "own nursery":
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.sleep_forever)
                nursery.cancel_scope.cancel()
        elif which == "own scope":
            with trio.move_on_after(1):
                await trio.sleep_forever()
        else:
            ctx.nursery.start_soon(trio.sleep_forever)
            ctx.nursery.cancel_scope.cancel()
        return "returned"

    async with open_call_scope() as scope:
        await registry.execute(call(scope, "body"))

    assert facts(seen.only) == "ok returned"
    assert seen.only.value == "returned"


@pytest.mark.rule("BO-13")
async def test_a_def_body_runs_in_a_worker_thread() -> None:
    registry, seen = observed()
    threads: list[threading.Thread] = []

    @registry.tool
    def threaded() -> str:
        threads.append(threading.current_thread())
        return "from a thread"

    async with open_call_scope() as scope:
        await registry.execute(call(scope, "threaded"))

    assert seen.only.value == "from a thread"
    assert threads[0] is not threading.current_thread()


@pytest.mark.rule("BO-13", "TI-11")
@pytest.mark.parametrize("source", ["caller", "ambient", "timeout"])
async def test_a_thread_is_waited_for_however_it_is_cancelled(source: str) -> None:
    registry, seen = observed()
    release = threading.Event()
    log: list[str] = []

    @registry.tool(timeout=5 if source == "timeout" else None)
    def threaded() -> str:
        release.wait(30)
        log.append("thread ended")
        return "too late"

    registry.observe(lambda _execution, _result: log.append("published"))
    clock = MockClock()

    async def main() -> None:
        async with trio.open_nursery() as nursery, open_call_scope() as scope:
            with trio.CancelScope() as outer:

                async def cancel() -> None:
                    await wait_all_tasks_blocked()
                    if source == "timeout":
                        clock.jump(6)
                    else:
                        (scope if source == "caller" else outer).cancel()
                    await wait_all_tasks_blocked()
                    log.append("cancelled")
                    release.set()

                nursery.start_soon(cancel)
                await registry.execute(call(scope, "threaded"))

    await trio.to_thread.run_sync(partial(trio.run, main, clock=clock))

    assert log == ["cancelled", "thread ended", "published"]
    assert (
        facts(seen.only)
        == {
            "caller": "cancelled ABORTED returned caller:caller",
            "ambient": "cancelled ABORTED returned ambient:ambient",
            "timeout": "failed TOOL_TIMEOUT returned deadline:timeout",
        }[source]
    )


@pytest.mark.rule("BO-13", "BO-2")
@pytest.mark.parametrize("kind", ["alone", "with context"])
async def test_a_def_body_that_waits_for_a_thread_is_not_invoked_yet(
    autojump_clock: MockClock, kind: str
) -> None:
    registry, seen = observed()
    invoked: list[str] = []

    @registry.tool
    def alone() -> str:
        invoked.append("invoked")
        return "invoked"

    @registry.tool(name="with context")
    def with_context(ctx: ToolContext) -> str:
        invoked.append("invoked")
        return "invoked"

    limiter = trio.to_thread.current_default_thread_limiter()
    borrowers = [object() for _ in range(int(limiter.total_tokens))]
    for borrower in borrowers:
        limiter.acquire_on_behalf_of_nowait(borrower)
    looks: list[bool] = []
    try:

        async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
            result = await proceed(execution)
            looks.append(execution.dispatched)
            return result

        registry.wrap(wrapper)
        async with open_call_scope(timeout=3) as scope:
            await registry.execute(call(scope, kind))
            returned = trio.current_time()
    finally:
        for borrower in borrowers:
            limiter.release_on_behalf_of(borrower)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, kind))

    assert returned == 3.0
    assert looks == [False, True]
    assert invoked == ["invoked"]
    assert [facts(result) for result in seen.results] == [
        "cancelled ABORTED_BEFORE_DISPATCH not_dispatched deadline:caller",
        "ok returned",
    ]
    assert limiter.borrowed_tokens == 0


@pytest.mark.rule("BO-14")
@pytest.mark.parametrize("source", ["caller", "ambient", "added"])
@pytest.mark.parametrize("out", [True, False])
async def test_check_cancelled_raises_in_the_thread_once_the_delegation_is_cancelled(
    source: str, out: bool
) -> None:
    registry, seen = observed()
    log: list[str] = []

    async with open_call_scope(name="extra") as extra, open_call_scope() as scope:
        with trio.CancelScope() as outer:

            @registry.tool
            def threaded(ctx: ToolContext) -> str:
                ctx.check_cancelled()
                log.append("not yet")
                cancel = {"caller": scope.cancel, "ambient": outer.cancel, "added": extra.cancel}[source]
                trio.from_thread.run_sync(cancel)
                try:
                    ctx.check_cancelled()
                except trio.Cancelled:
                    log.append("Cancelled")
                    if out:
                        raise
                return "returned"

            async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
                return await proceed(execution.with_scope(extra))

            registry.wrap(wrapper)
            await registry.execute(call(scope, "threaded"))

    cause = {"caller": "caller:caller", "ambient": "ambient:ambient", "added": "caller:extra"}[source]
    assert log == ["not yet", "Cancelled"]
    assert facts(seen.only) == f"cancelled ABORTED {'cancelled' if out else 'returned'} {cause}"


@pytest.mark.rule("BO-14")
async def test_check_cancelled_sees_at_once_what_its_own_thread_cancelled() -> None:
    registry, seen = observed()
    patience = sys.getswitchinterval()

    @registry.tool
    def threaded(ctx: ToolContext, scope: int) -> str:
        trio.from_thread.run_sync(scopes[scope].cancel)
        ctx.check_cancelled()
        return "not seen"

    scopes: list[CallScope] = []
    # The thread is let run as soon as there is something for it to do, at any place.
    sys.setswitchinterval(1e-6)
    try:
        for index in range(100):
            async with open_call_scope() as scope:
                scopes.append(scope)
                await registry.execute(ToolCall(name="threaded", arguments={"scope": index}, scope=scope))
    finally:
        sys.setswitchinterval(patience)

    assert {facts(result) for result in seen.results} == {"cancelled ABORTED cancelled caller:caller"}


@pytest.mark.rule("BO-14")
async def test_check_cancelled_is_refused_anywhere_but_in_the_thread_of_the_body() -> None:
    registry, _ = observed()
    refused: list[str] = []
    kept: list[ToolContext] = []

    def try_it(where: str, ctx: ToolContext) -> None:
        try:
            ctx.check_cancelled()
        except RuntimeError:
            refused.append(where)

    @registry.tool
    async def on_the_loop(ctx: ToolContext) -> str:
        try_it("async body", ctx)
        await trio.to_thread.run_sync(try_it, "a thread of its own", ctx)
        return "tried"

    @registry.tool
    def threaded(ctx: ToolContext) -> str:
        kept.append(ctx)
        trio.from_thread.run_sync(try_it, "on the loop", ctx)
        other = threading.Thread(target=try_it, args=("another thread", ctx))
        other.start()
        other.join()
        return "tried"

    async with open_call_scope() as scope:
        await registry.execute(call(scope, "on_the_loop"))
        await registry.execute(call(scope, "threaded"))
        try_it("after settlement", kept[0])
        await trio.to_thread.run_sync(try_it, "in a thread after settlement", kept[0])

    assert refused == [
        "async body",
        "a thread of its own",
        "on the loop",
        "another thread",
        "after settlement",
        "in a thread after settlement",
    ]


@pytest.mark.rule("BO-15")
@pytest.mark.parametrize("how", ["returns", "raises", "is cancelled", "is invalid"])
async def test_artifacts_and_write_target_count_only_if_the_call_ends_ok(
    autojump_clock: MockClock, how: str
) -> None:
    registry, seen = observed()
    first, second = (Artifact(ArtifactType.TEXT, label, label) for label in ("first", "second"))

    @registry.tool
    async def writes(ctx: ToolContext) -> str:
        ctx.attach(first)
        ctx.attach(second)
        ctx.wrote("orders", 1, WriteKind.CREATED)
        ctx.wrote("orders", 2, WriteKind.UPDATED)
        if how == "raises":
            raise ValueError("too late")
        if how == "is cancelled":
            await trio.sleep_forever()
        invalid: Any = 7
        return invalid if how == "is invalid" else "written"

    async with open_call_scope(timeout=1) as scope:
        await registry.execute(call(scope, "writes"))

    result = seen.only
    if how == "returns":
        assert result.artifacts == (first, second)
        assert result.write is not None
        assert (result.write.table, result.write.uid, result.write.kind) == ("orders", 2, WriteKind.UPDATED)
    else:
        assert result.is_error
        assert (result.artifacts, result.write) == ((), None)


@pytest.mark.rule("BO-15")
async def test_malformed_artifacts_and_targets_raise_at_once(autojump_clock: MockClock) -> None:
    registry, seen = observed()
    raised: list[str] = []

    @registry.tool
    async def writes(ctx: ToolContext) -> str:
        ctx.wrote("orders", 1, WriteKind.CREATED)
        bad: list[Callable[[], None]] = [
            partial(ctx.attach, "text"),  # pyright: ignore[reportArgumentType]
            partial(ctx.wrote, "or ders", 2, WriteKind.CREATED),
            partial(ctx.wrote, "orders", 0, WriteKind.CREATED),
            partial(ctx.wrote, "orders", True, WriteKind.CREATED),
            partial(ctx.wrote, "orders", 2, "erased"),  # pyright: ignore[reportArgumentType]
        ]
        for attempt in bad:
            try:
                attempt()
            except (TypeError, ValueError) as error:
                raised.append(type(error).__name__)
        return "written"

    async with open_call_scope() as scope:
        await registry.execute(call(scope, "writes"))

    assert len(raised) == 5
    assert seen.only.artifacts == ()
    assert seen.only.write is not None
    assert seen.only.write.uid == 1


@pytest.mark.rule("BO-16")
async def test_a_deferred_context_is_frozen_when_it_is_deferred(autojump_clock: MockClock) -> None:
    registry, seen = observed()

    @registry.tool
    async def defers(ctx: ToolContext) -> str:
        message: dict[str, Any] = {"role": "note", "parts": ["one"]}
        ctx.defer_context(message)
        message["parts"].append("two")
        message["late"] = True
        return "deferred"

    async with open_call_scope() as scope:
        await registry.execute(call(scope, "defers"))

    assert seen.only.contexts == ({"role": "note", "parts": ["one"]},)


@pytest.mark.rule("BO-16")
@pytest.mark.parametrize("bad", [{"k": (1, 2)}, {1: "k"}, {"k": float("nan")}, {"k": {1}}, {"k": b"x"}])
async def test_a_context_that_json_would_lose_raises_type_error(autojump_clock: MockClock, bad: Any) -> None:
    registry, seen = observed()
    raised: list[BaseException] = []

    @registry.tool
    async def defers(ctx: ToolContext) -> str:
        try:
            ctx.defer_context(bad)
        except Exception as error:
            raised.append(error)
        return "deferred"

    async with open_call_scope() as scope:
        await registry.execute(call(scope, "defers"))

    assert [type(error) for error in raised] == [TypeError]
    assert seen.only.contexts == ()


@pytest.mark.rule("BO-17")
@pytest.mark.parametrize("when", ["in the tail of a wrapper", "after the call", "in the next attempt"])
async def test_a_context_is_dead_after_settlement(autojump_clock: MockClock, when: str) -> None:
    registry, seen = observed(forever)
    kept: list[ToolContext] = []
    refused: list[str] = []

    async def try_all(ctx: ToolContext) -> None:
        attempts: dict[str, Callable[[], object]] = {
            "defer_context": partial(ctx.defer_context, "late"),
            "conclude": ctx.conclude,
            "attach": partial(ctx.attach, Artifact(ArtifactType.TEXT, "a", "a")),
            "wrote": partial(ctx.wrote, "orders", 1, WriteKind.CREATED),
        }
        for name, attempt in attempts.items():
            try:
                attempt()
            except RuntimeError:
                refused.append(name)
        try:
            await ctx.call("forever", {})
        except RuntimeError:
            refused.append("call")
        ctx.progress(1.0, 2.0, "late")

    @registry.tool
    async def keeps(ctx: ToolContext) -> str:
        kept.append(ctx)
        if len(kept) == 2:
            await try_all(kept[0])
        return "kept"

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        result = await proceed(execution)
        if when == "in the tail of a wrapper":
            await try_all(kept[0])
        if when == "in the next attempt":
            result = await proceed(execution)
        return result

    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "keeps"))
        if when == "after the call":
            await try_all(kept[0])

    assert refused == ["defer_context", "conclude", "attach", "wrote", "call"]
    assert seen.published == ["keeps: ok returned"]
    assert (seen.only.contexts, seen.only.artifacts, seen.only.concludes) == ((), (), False)


@pytest.mark.rule("BO-17", "BO-4")
async def test_a_context_lives_while_helpers_of_a_returned_function_run(autojump_clock: MockClock) -> None:
    registry, seen = observed()

    @registry.tool
    async def leaves_helpers(ctx: ToolContext) -> str:
        async def helper() -> None:
            await trio.sleep(1)
            ctx.defer_context("late, but alive")
            ctx.conclude()

        ctx.nursery.start_soon(helper)
        return "returned"

    async with open_call_scope() as scope:
        await registry.execute(call(scope, "leaves_helpers"))

    assert (seen.only.contexts, seen.only.concludes) == (("late, but alive",), True)


@pytest.mark.rule("BO-17")
async def test_progress_never_changes_a_result_and_is_dropped_after_settlement(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed()
    kept: list[ToolContext] = []
    shown: list[object] = []

    @registry.tool
    async def reports(ctx: ToolContext) -> str:
        kept.append(ctx)
        ctx.progress(1.0, 4.0, "a quarter")
        shown.append(registry.statistics().calls[0].progress)
        return "reported"

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        result = await proceed(execution)
        kept[0].progress(3.0, 4.0, "too late")
        shown.append(registry.statistics().calls[0].progress)
        return result

    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "reports"))

    assert shown[0] is not None
    assert shown[0] == shown[1]
    assert facts(seen.only) == "ok returned"


async def test_a_body_is_not_stopped_by_a_cancellation_that_it_shields(autojump_clock: MockClock) -> None:
    registry, seen = observed()

    @registry.tool
    async def shielded() -> str:
        with trio.CancelScope(shield=True):
            await trio.sleep(9)
        return "finished"

    async with open_call_scope(timeout=2) as scope:
        await registry.execute(call(scope, "shielded"))
        returned = trio.current_time()

    assert returned == 9.0
    assert facts(seen.only) == "cancelled ABORTED returned deadline:caller"


async def test_a_body_that_swallows_its_cancellation_meets_it_at_the_next_checkpoint(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed()
    swallowed: list[float] = []

    @registry.tool
    async def swallows() -> str:
        for _ in range(3):
            try:
                await trio.sleep_forever()
            except trio.Cancelled:  # noqa: ASYNC103
                swallowed.append(trio.current_time())
        return "anyway"

    async with open_call_scope(timeout=2) as scope:
        await registry.execute(call(scope, "swallows"))

    assert swallowed == [2.0, 2.0, 2.0]
    assert facts(seen.only) == "cancelled ABORTED returned deadline:caller"


async def test_the_real_error_survives_a_checkpoint_in_cleanup(autojump_clock: MockClock) -> None:
    registry, seen = observed()

    @registry.tool
    async def fails(ctx: ToolContext) -> str:
        async def fail() -> None:
            raise ToolError("the real one", code="REAL")

        ctx.nursery.start_soon(fail)
        try:
            await trio.sleep_forever()
        finally:
            await trio.lowlevel.checkpoint()  # noqa: ASYNC102
        return "never"

    async with open_call_scope() as scope:
        await registry.execute(call(scope, "fails"))

    assert facts(seen.only) == "failed REAL raised"


async def test_a_task_started_by_start_counts_as_the_bodys(autojump_clock: MockClock) -> None:
    registry, seen = observed()
    ended: list[float] = []

    @registry.tool
    async def starts(ctx: ToolContext) -> str:
        async def service(task_status: trio.TaskStatus[str]) -> None:
            try:
                await trio.sleep(1)
                task_status.started("ready")
                await trio.sleep_forever()
            finally:
                ended.append(trio.current_time())

        return await ctx.nursery.start(service)

    async with open_call_scope(timeout=4) as scope:
        await registry.execute(call(scope, "starts"))

    assert ended == [4.0]
    assert facts(seen.only) == "cancelled ABORTED returned deadline:caller"


async def test_cancelling_while_a_task_is_being_started_stops_it(autojump_clock: MockClock) -> None:
    registry, seen = observed()
    ended: list[float] = []

    @registry.tool
    async def starts(ctx: ToolContext) -> str:
        async def service(task_status: trio.TaskStatus[str]) -> None:
            try:
                await trio.sleep(9)
                task_status.started("ready")
            finally:
                ended.append(trio.current_time())

        return await ctx.nursery.start(service)

    async with open_call_scope(timeout=4) as scope:
        await registry.execute(call(scope, "starts"))

    assert ended == [4.0]
    assert facts(seen.only) == "cancelled ABORTED cancelled deadline:caller"


@pytest.mark.rule("CA-1", "CA-2", "SC-9")
@pytest.mark.parametrize("where", ["entry", "guard", "wrapper"])
@pytest.mark.parametrize("late", [0.0, 1.0])
async def test_an_ambient_deadline_that_is_reached_before_trio_has_noticed_counts(
    autojump_clock: MockClock, where: str, late: float
) -> None:
    registry, seen = observed(forever)

    def guard(_execution: ToolExecution) -> None:
        if where == "guard":
            hold_loop(2 + late)

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        if where == "wrapper":
            hold_loop(2 + late)
        objections.append(execution.objection())
        return await proceed(execution)

    objections: list[str | None] = []
    registry.guard(guard)
    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        with trio.move_on_after(2):
            if where == "entry":
                hold_loop(2 + late)
            await registry.execute(call(scope, "forever"))

    assert facts(seen.only) == "cancelled ABORTED_BEFORE_DISPATCH not_dispatched ambient:ambient"
    assert caused_at(seen.only) == 2.0
    assert objections == (["ABORTED_BEFORE_DISPATCH"] if where == "wrapper" else [])


@pytest.mark.rule("BO-6", "CA-2", "CA-1")
@pytest.mark.parametrize("whose", ["caller", "ambient"])
async def test_a_deadline_reached_in_the_very_last_step_of_a_body_counts(
    autojump_clock: MockClock, whose: str
) -> None:
    registry, seen = observed()

    @registry.tool
    async def exactly(seconds: float) -> str:
        hold_loop(seconds)
        return "returned"

    for seconds in (1.5, 2.0):
        started = trio.current_time()
        with trio.move_on_after(2 if whose == "ambient" else 50):
            async with open_call_scope(timeout=2 if whose == "caller" else 50) as scope:
                await registry.execute(call(scope, "exactly", seconds=seconds))
        if seconds == 2.0:
            assert caused_at(seen.results[1]) == started + 2.0

    assert [facts(result) for result in seen.results] == [
        "ok returned",
        f"cancelled ABORTED returned {'deadline:caller' if whose == 'caller' else 'ambient:ambient'}",
    ]


async def test_a_call_that_waits_for_its_body_shows_where_it_is_parked(autojump_clock: MockClock) -> None:
    registry, _ = observed()

    @registry.tool
    async def lingers() -> str:
        with trio.CancelScope(shield=True):
            await trio.sleep(9)
        return "lingered"

    async with trio.open_nursery() as nursery, open_call_scope() as scope:
        nursery.start_soon(registry.execute, call(scope, "lingers"))
        nursery.start_soon(at, 2.0, scope.cancel)
        await trio.sleep(5)
        (shown,) = registry.statistics().calls

    assert (shown.phase, shown.since, shown.cancelled_since) == ("body", 0.0, 2.0)
    assert shown.await_line is not None
    assert "test_body.py" in shown.await_line
    assert "lingers" in shown.await_line


async def test_a_def_body_that_returns_a_coroutine_is_invalid_and_leaves_none_behind() -> None:
    registry, seen = observed()

    async def forgotten() -> str:
        return "never"

    @registry.tool
    def returns_a_coroutine() -> str:
        value: Any = forgotten()
        return value

    async with open_call_scope() as scope:
        await registry.execute(call(scope, "returns_a_coroutine"))
    gc.collect()

    assert facts(seen.only) == "failed INVALID_TOOL_OUTPUT returned"


@pytest.mark.rule("BO-13", "BO-14")
async def test_a_thread_that_waits_for_the_loop_is_woken_by_cancellation() -> None:
    registry, seen = observed()
    entered = trio.Event()

    @registry.tool
    def waits() -> str:
        trio.from_thread.run_sync(entered.set)
        trio.from_thread.run(trio.sleep_forever)
        return "never"

    async with open_call_scope() as scope, trio.open_nursery() as nursery:
        nursery.start_soon(registry.execute, call(scope, "waits"))
        await entered.wait()
        scope.cancel()

    assert facts(seen.only) == "cancelled ABORTED cancelled caller:caller"


@pytest.mark.rule("TP-3", "OU-3")
@pytest.mark.parametrize(
    ("cancelled", "expected"),
    [
        (True, "cancelled ABORTED raised caller:caller"),
        (False, "cancelled ABORTED raised ambient:transport"),
    ],
)
async def test_a_body_whose_transport_says_cancelled_is_aborted_whoever_cancelled(
    autojump_clock: MockClock, cancelled: bool, expected: str
) -> None:
    registry, seen = observed()

    @registry.tool
    async def remote(*, ctx: ToolContext) -> str:
        ctx.defer_context("kept")
        await trio.sleep(1)
        if cancelled:
            scope.cancel()
        raise TransportError.for_cancelled_call("files")

    async with open_call_scope() as scope:
        await registry.execute(call(scope, "remote"))

    assert facts(seen.only) == expected
    assert caused_at(seen.only) == 1.0
    assert seen.only.text == "Error: tool call aborted"
    assert seen.only.contexts == ("kept",)


@pytest.mark.rule("TP-2", "CA-3")
@pytest.mark.parametrize("cancelled", [True, False])
async def test_a_transport_that_does_not_say_cancelled_is_a_failure_whoever_cancels(cancelled: bool) -> None:
    registry, seen = observed()

    @registry.tool
    async def remote() -> str:
        if cancelled:
            scope.cancel()
        raise TransportError("the line is down")

    async with open_call_scope() as scope:
        await registry.execute(call(scope, "remote"))

    assert facts(seen.only) == "failed TOOL_ERROR raised"
    assert seen.only.text == "Error: the line is down"


@pytest.mark.rule("TP-2", "BO-8")
async def test_a_transport_that_says_cancelled_among_other_errors_is_a_failure() -> None:
    registry, seen = observed()

    @registry.tool
    async def remote() -> str:
        raise ExceptionGroup("both", [TransportError.for_cancelled_call("files"), ValueError("own")])

    async with open_call_scope() as scope:
        await registry.execute(call(scope, "remote"))

    assert facts(seen.only) == "failed TOOL_ERROR raised"


@pytest.mark.rule("BO-13", "NE-4")
async def test_a_def_body_keeps_its_thread_while_it_waits_for_another_one_and_a_deadline_ends_both() -> None:
    registry, seen = observed()
    limiter = trio.to_thread.current_default_thread_limiter()

    @registry.tool
    def outer(*, ctx: ToolContext) -> str:
        arguments: dict[str, object] = {}
        result = trio.from_thread.run(ctx.call, "below", arguments)
        return result.text

    @registry.tool
    def below() -> str:
        return "below"

    before, limiter.total_tokens = limiter.total_tokens, 1
    try:
        async with open_call_scope(timeout=0.05) as scope:
            await registry.execute(call(scope, "outer"))
    finally:
        limiter.total_tokens = before

    assert seen.published == [
        "below: cancelled ABORTED_BEFORE_DISPATCH not_dispatched deadline:caller",
        "outer: cancelled ABORTED cancelled deadline:caller",
    ]
    assert limiter.borrowed_tokens == 0


@pytest.mark.rule("BO-13", "BO-2")
async def test_a_def_body_that_is_cancelled_as_it_gets_its_thread_is_never_called() -> None:
    registry, seen = observed()
    limiter = trio.to_thread.current_default_thread_limiter()
    called: list[str] = []

    @registry.tool
    def threaded() -> str:
        called.append("called")
        return "threaded"

    async with open_call_scope() as scope, trio.open_nursery() as nursery:
        holders = [object() for _ in range(int(limiter.total_tokens))]
        for holder in holders:
            await limiter.acquire_on_behalf_of(holder)
        nursery.start_soon(registry.execute, call(scope, "threaded"))
        await wait_all_tasks_blocked()
        for holder in holders:
            limiter.release_on_behalf_of(holder)
        scope.cancel()

    assert called == []
    assert facts(seen.only) == "cancelled ABORTED_BEFORE_DISPATCH not_dispatched caller:caller"
    assert limiter.borrowed_tokens == 0


@pytest.mark.rule("BO-13")
async def test_a_def_body_starts_when_it_has_got_its_thread(autojump_clock: MockClock) -> None:
    registry, seen = observed()
    limiter = trio.to_thread.current_default_thread_limiter()

    @registry.tool
    def threaded() -> str:
        return "threaded"

    async with open_call_scope() as scope, trio.open_nursery() as nursery:
        for _ in range(int(limiter.total_tokens)):
            await limiter.acquire_on_behalf_of(object())
        nursery.start_soon(registry.execute, call(scope, "threaded"))
        await trio.sleep(2)
        limiter.total_tokens += 1

    assert facts(seen.only) == "ok returned"
    assert seen.executions[0].started_at == 2.0


@pytest.mark.rule("BO-13")
async def test_a_def_body_that_waits_for_a_thread_is_seen_in_dispatch(autojump_clock: MockClock) -> None:
    registry, seen = observed()
    limiter = trio.to_thread.current_default_thread_limiter()

    @registry.tool
    def threaded() -> str:
        return "threaded"

    async with open_call_scope() as scope, trio.open_nursery() as nursery:
        for _ in range(int(limiter.total_tokens)):
            await limiter.acquire_on_behalf_of(object())
        nursery.start_soon(registry.execute, call(scope, "threaded"))
        await wait_all_tasks_blocked()
        (shown,) = registry.statistics().calls
        limiter.total_tokens += 1

    assert shown.phase == "dispatch"
    assert facts(seen.only) == "ok returned"
