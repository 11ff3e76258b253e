# ruff: noqa: BLE001, SIM117
"""Wrappers: what they delegate, what may end it, and what becomes of what they return."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

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
    Accept,
    Allow,
    Artifact,
    ArtifactType,
    CauseKind,
    Deny,
    DispatchExecution,
    Effect,
    GateDecision,
    Registry,
    ReviewDecision,
    Settlement,
    TextContent,
    ToolContext,
    ToolError,
    ToolExecution,
    ToolOutcome,
    ToolResult,
    WriteKind,
    open_call_scope,
    tool,
)


@tool
async def work() -> str:
    """Return at once."""
    return "worked"


@tool
async def nap(seconds: float) -> str:
    """Sleep, and say so."""
    await trio.sleep(seconds)
    return "slept"


@tool
async def broken() -> str:
    """Fail."""
    raise ToolError("broken", code="BROKEN")


@tool
async def explains(ctx: ToolContext) -> str:
    """Defer a context, attach an artifact, name a record."""
    ctx.defer_context("from the body")
    ctx.attach(Artifact(ArtifactType.TEXT, "a", "artifact"))
    ctx.wrote("orders", 7, WriteKind.CREATED)
    return "explained"


async def through(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
    """Delegate, and nothing else."""
    return await proceed(execution)


def count_reviews(registry: Registry) -> list[str]:
    """Register a reviewer that accepts, and return the list in which it notes what it saw."""
    reviewed: list[str] = []

    async def review(_execution: ToolExecution, result: ToolResult, proceed: ReviewRest) -> ReviewDecision:
        reviewed.append(facts(result))
        return await proceed()

    registry.review(review)
    return reviewed


@pytest.mark.rule("WR-1")
async def test_wrappers_nest_by_registration_the_root_layer_outside(autojump_clock: MockClock) -> None:
    registry, _ = observed()
    log: list[str] = []

    def named(name: str) -> Callable[[DispatchExecution, Proceed], object]:
        async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
            log.append(f"> {name}")
            result = await proceed(execution)
            log.append(f"< {name}")
            return result

        return wrapper

    @registry.tool
    async def logs() -> str:
        log.append("body")
        return "logged"

    near = registry.layer("near")
    near.wrap(named("near"))  # pyright: ignore[reportArgumentType]
    registry.wrap(named("first"))  # pyright: ignore[reportArgumentType]
    registry.wrap(named("second"))  # pyright: ignore[reportArgumentType]
    async with open_call_scope() as scope:
        await near.execute(call(scope, "logs"))

    assert log == ["> first", "> second", "> near", "body", "< near", "< second", "< first"]


@pytest.mark.rule("WR-1")
@pytest.mark.parametrize("by", ["gate", "guard"])
async def test_no_wrapper_runs_for_a_denied_call(autojump_clock: MockClock, by: str) -> None:
    registry, seen = observed(work)
    entered: list[str] = []

    async def gate(_execution: ToolExecution, _proceed: GateRest) -> GateDecision:
        entered.append("gate")
        return Deny("no") if by == "gate" else Allow()

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        entered.append("wrapper")
        return await proceed(execution)

    registry.gate(gate)
    registry.wrap(wrapper)
    if by == "guard":
        registry.guard(lambda _execution: "no")
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "work"))

    assert entered == ["gate"]
    assert seen.published == ["work: failed DENIED not_dispatched"]


@pytest.mark.rule("WR-2")
async def test_proceed_takes_the_received_execution_or_one_derived_from_it_alone(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed(work)
    others: list[DispatchExecution] = []
    outer_views: list[DispatchExecution] = []
    refused: list[object] = []
    accepted: list[str] = []

    async def outer(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        outer_views[:] = [execution]
        return await proceed(execution.with_timeout(5, name="outer"))

    async def inner(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        wrong = [None, "execution", execution.scope, *others, *outer_views]
        for view in wrong:
            try:
                await proceed(view)  # pyright: ignore[reportArgumentType]
            except TypeError:
                refused.append(view)
        others.append(execution)
        twice = execution.with_timeout(3, name="one").with_deadline(9, name="two")
        for view in (execution, twice):
            result = await proceed(view)
            accepted.append(facts(result))
        return result  # pyright: ignore[reportPossiblyUnboundVariable]

    registry.wrap(outer)
    registry.wrap(inner)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "work"))
        await registry.execute(call(scope, "work"))

    assert len(refused) == 4 + 5
    assert accepted == ["ok returned"] * 4
    assert seen.published == ["work: ok returned"] * 2


@pytest.mark.rule("WR-2")
async def test_a_wrapper_cannot_delegate_by_the_view_of_a_gate(autojump_clock: MockClock) -> None:
    registry, seen = observed(work)
    views: list[ToolExecution] = []

    async def gate(execution: ToolExecution, _proceed: GateRest) -> GateDecision:
        views.append(execution)
        return Allow()

    async def wrapper(_execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        return await proceed(views[0])  # pyright: ignore[reportArgumentType]

    registry.gate(gate)
    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        result = await registry.execute(call(scope, "work"))

    assert facts(result) == "failed POLICY_ERROR not_dispatched"
    assert result.error is not None
    assert result.error.name == "TypeError"
    assert seen.only is result


@pytest.mark.rule("WR-3")
async def test_the_limits_of_what_can_be_added(autojump_clock: MockClock) -> None:
    registry, seen = observed(work)
    refused: list[str] = []

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        async with open_call_scope() as closed:
            pass
        attempts: dict[str, Callable[[], object]] = {
            **{
                f"timeout {s}": partial(execution.with_timeout, s, name="x")
                for s in (0, -1, math.inf, -math.inf, math.nan)
            },
            "deadline nan": partial(execution.with_deadline, math.nan, name="x"),
            "scope closed": partial(execution.with_scope, closed),
            "scope none": partial(execution.with_scope, None),  # pyright: ignore[reportArgumentType]
            "scope of trio": partial(execution.with_scope, trio.CancelScope()),  # pyright: ignore[reportArgumentType]
            "scope view": partial(execution.with_scope, execution.scope),  # pyright: ignore[reportArgumentType]
        }
        for name, attempt in attempts.items():
            try:
                attempt()
            except ValueError:
                refused.append(name)
        assert refused == list(attempts)
        return await proceed(execution)

    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "work"))

    assert len(refused) == 10
    assert seen.published == ["work: ok returned"]


@pytest.mark.rule("WR-3")
async def test_each_addition_gives_a_new_view_and_changes_no_old_one(autojump_clock: MockClock) -> None:
    registry, seen = observed(nap)
    deadlines: list[float] = []

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        one = execution.with_timeout(5, name="one")
        two = one.with_deadline(2, name="two")
        deadlines.extend(view.scope.deadline for view in (execution, one, two))
        assert len({id(view) for view in (execution, one, two)}) == 3
        return await proceed(one)

    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "nap", seconds=4))

    assert deadlines == [math.inf, 5.0, 2.0]
    assert seen.published == ["nap: ok returned"]


@pytest.mark.rule("WR-3")
async def test_a_timeout_counts_from_where_it_was_added(autojump_clock: MockClock) -> None:
    registry, seen = observed(nap)

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        derived = execution.with_timeout(5, name="mine")
        await trio.sleep(2)
        return await proceed(derived)

    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "nap", seconds=4))

    assert facts(seen.only) == "cancelled ABORTED cancelled deadline:mine"
    assert caused_at(seen.only) == 5.0


@pytest.mark.rule("WR-3", "WR-19")
@pytest.mark.parametrize("way", ["cancel", "deadline"])
async def test_an_added_scope_brings_its_own_cause(autojump_clock: MockClock, way: str) -> None:
    registry, seen = observed(nap)

    async with open_call_scope(name="extra", timeout=3 if way == "deadline" else math.inf) as extra:

        async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
            return await proceed(execution.with_scope(extra))

        registry.wrap(wrapper)
        async with trio.open_nursery() as nursery:
            async with open_call_scope() as scope:
                if way == "cancel":
                    nursery.start_soon(at, 2.0, partial(extra.cancel, "why"))
                await registry.execute(call(scope, "nap", seconds=9))
                caller = scope.cancel_called

    cause = seen.only.cause
    assert cause is not None
    assert (cause.kind, cause.name, cause.reason, cause.at) == (
        (CauseKind.CALLER, "extra", "why", 2.0)
        if way == "cancel"
        else (CauseKind.DEADLINE, "extra", None, 3.0)
    )
    assert not caller


@pytest.mark.rule("WR-4")
async def test_an_added_source_governs_from_proceed_until_it_returns(autojump_clock: MockClock) -> None:
    registry, seen = observed(nap)

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        derived = execution.with_timeout(5, name="mine")
        result = await proceed(derived)
        await trio.sleep(20)
        return result

    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "nap", seconds=4))

    assert seen.published == ["nap: ok returned"]


@pytest.mark.rule("WR-4", "WR-19")
async def test_a_source_that_fires_before_proceed_spares_its_own_wrapper(autojump_clock: MockClock) -> None:
    registry, seen = observed(nap)
    woke: list[float] = []

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        derived = execution.with_timeout(5, name="mine")
        await trio.sleep(7)
        woke.append(trio.current_time())
        return await proceed(derived)

    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "nap", seconds=4))

    assert woke == [7.0]
    assert facts(seen.only) == "cancelled ABORTED_BEFORE_DISPATCH not_dispatched deadline:mine"
    assert caused_at(seen.only) == 5.0


@pytest.mark.rule("WR-4")
async def test_an_added_source_governs_the_wrappers_inside(autojump_clock: MockClock) -> None:
    registry, _ = observed(nap)
    log: list[str] = []

    async def outer(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        result = await proceed(execution.with_timeout(5, name="outer"))
        log.append(f"outer at {trio.current_time()}: {facts(result)}")
        return result

    async def inner(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        log.append(f"inner may wait until {trio.current_effective_deadline()}")
        try:
            await trio.sleep_forever()
        finally:
            log.append(f"inner ended at {trio.current_time()}")
        return await proceed(execution)

    registry.wrap(outer)
    registry.wrap(inner)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "nap", seconds=4))

    assert log == [
        "inner may wait until 5.0",
        "inner ended at 5.0",
        "outer at 5.0: cancelled ABORTED_BEFORE_DISPATCH not_dispatched deadline:outer",
    ]


@pytest.mark.rule("WR-4")
async def test_a_later_source_does_not_remove_an_earlier_one(autojump_clock: MockClock) -> None:
    registry, seen = observed(nap)

    async def outer(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        return await proceed(execution.with_timeout(5, name="outer"))

    async def inner(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        return await proceed(execution.with_timeout(50, name="inner"))

    registry.wrap(outer)
    registry.wrap(inner)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "nap", seconds=20))

    assert facts(seen.only) == "cancelled ABORTED cancelled deadline:outer"


@pytest.mark.rule("WR-9")
async def test_proceed_returns_a_result_where_the_body_failed(autojump_clock: MockClock) -> None:
    registry, _ = observed(broken)
    returned: list[str] = []

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        result = await proceed(execution)
        returned.append(facts(result))
        return result

    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        result = await registry.execute(call(scope, "broken"))

    assert returned == ["failed BROKEN raised"]
    assert facts(result) == "failed BROKEN raised"


@pytest.mark.rule("WR-9")
@pytest.mark.parametrize("how", ["caller", "ambient"])
async def test_proceed_returns_a_result_where_the_body_was_cancelled(
    autojump_clock: MockClock, how: str
) -> None:
    registry, seen = observed(nap)
    returned: list[str] = []

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        result = await proceed(execution)
        returned.append(facts(result))
        return result

    registry.wrap(wrapper)
    async with trio.open_nursery() as nursery, open_call_scope() as scope:
        with trio.CancelScope() as outer:
            nursery.start_soon(at, 2.0, scope.cancel if how == "caller" else outer.cancel)
            await registry.execute(call(scope, "nap", seconds=9))

    expected = f"cancelled ABORTED cancelled {'caller:caller' if how == 'caller' else 'ambient:ambient'}"
    assert returned == [expected]
    assert facts(seen.only) == expected


@pytest.mark.rule("WR-9")
async def test_proceed_raises_the_exception_of_an_inner_wrapper(autojump_clock: MockClock) -> None:
    registry, seen = observed(work)
    error = LookupError("inner")
    caught: list[BaseException] = []

    async def outer(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        try:
            return await proceed(execution)
        except LookupError as raised:
            caught.append(raised)
            return ToolResult.failed("mended", code="MENDED")

    async def inner(_execution: DispatchExecution, _proceed: Proceed) -> ToolResult:
        raise error

    registry.wrap(outer)
    registry.wrap(inner)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "work"))

    assert caught == [error]
    assert seen.published == ["work: failed MENDED not_dispatched"]


@pytest.mark.rule("WR-9")
@pytest.mark.parametrize(
    ("how", "ends"),
    [
        ("outermost", {"middle": "Cancelled", "outermost": "ABORTED_BEFORE_DISPATCH"}),
        ("middle", {"middle": "ABORTED_BEFORE_DISPATCH", "outermost": "ABORTED_BEFORE_DISPATCH"}),
        ("caller", {"middle": "Cancelled", "outermost": "Cancelled"}),
        ("ambient", {"middle": "Cancelled", "outermost": "Cancelled"}),
    ],
)
async def test_only_the_wrapper_that_added_the_source_is_returned_a_result(
    autojump_clock: MockClock, how: str, ends: dict[str, str]
) -> None:
    registry, seen = observed(work)
    ended: dict[str, str] = {}

    def adding(name: str) -> Callable[[DispatchExecution, Proceed], object]:
        async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
            view = execution.with_timeout(3 if how == name else 50, name=name)
            try:
                result = await proceed(view)
            except trio.Cancelled:
                ended[name] = "Cancelled"
                raise
            ended[name] = str(result.code)
            return result

        return wrapper

    async def waits(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        await trio.sleep_forever()
        return await proceed(execution)

    registry.wrap(adding("outermost"))  # pyright: ignore[reportArgumentType]
    registry.wrap(adding("middle"))  # pyright: ignore[reportArgumentType]
    registry.wrap(waits)
    async with trio.open_nursery() as nursery, open_call_scope() as scope:
        with trio.CancelScope() as outer:
            if how in ("caller", "ambient"):
                nursery.start_soon(at, 3.0, scope.cancel if how == "caller" else outer.cancel)
            await registry.execute(call(scope, "work"))

    cause = {"caller": "caller:caller", "ambient": "ambient:ambient"}.get(how, f"deadline:{how}")
    assert ended == ends
    assert facts(seen.only) == f"cancelled ABORTED_BEFORE_DISPATCH not_dispatched {cause}"
    assert caused_at(seen.only) == 3.0


@pytest.mark.rule("WR-9")
async def test_an_inner_wrapper_that_swallows_the_end_of_its_delegation_meets_it_again(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed(nap)
    log: list[str] = []

    async def outer(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        return await proceed(execution.with_timeout(2, name="outer"))

    async def inner(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        first = await proceed(execution)
        log.append(facts(first))
        second = await proceed(execution)
        log.append(facts(second))
        return second

    registry.wrap(outer)
    registry.wrap(inner)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "nap", seconds=9))

    assert log == ["cancelled ABORTED cancelled deadline:outer"] * 2
    assert seen.published == ["nap: cancelled ABORTED cancelled deadline:outer"]


@pytest.mark.rule("WR-10")
@pytest.mark.parametrize("fires", ["mine", "caller", "trio scope", "nobody"])
async def test_the_derived_view_tells_whose_source_came_first(autojump_clock: MockClock, fires: str) -> None:
    registry, _ = observed(nap)
    told: list[str | None] = []

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        derived = execution.with_timeout(2 if fires == "mine" else 20, name="mine")
        with trio.move_on_after(2 if fires == "trio scope" else 50):
            result = await proceed(derived)
        for _ in range(2):
            told.append(derived.scope.cause and derived.scope.cause.name)
            hold_loop(100)
        return result  # pyright: ignore[reportPossiblyUnboundVariable]

    registry.wrap(wrapper)
    async with open_call_scope(timeout=2 if fires == "caller" else 90) as scope:
        await registry.execute(call(scope, "nap", seconds=9))

    assert told == [fires if fires in ("mine", "caller") else None] * 2


@pytest.mark.rule("WR-10")
async def test_a_source_that_fires_after_proceed_did_not_come_first(autojump_clock: MockClock) -> None:
    registry, seen = observed(nap)
    told: list[bool] = []

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        derived = execution.with_timeout(5, name="mine")
        result = await proceed(derived)
        await trio.sleep(20)
        told.append(derived.scope.cancel_called)
        return result

    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "nap", seconds=4))

    assert told == [False]
    assert seen.published == ["nap: ok returned"]


@pytest.mark.rule("WR-10", "WR-6")
@pytest.mark.parametrize(
    ("limit", "told"),
    [(1.0, "outer"), (3.0, "inner"), (10.0, None)],
    ids=["outer first", "outer while the body ends", "outer never"],
)
async def test_the_derived_view_tells_what_an_inner_source_decided_before_its_own_came(
    autojump_clock: MockClock, limit: float, told: str | None
) -> None:
    registry, seen = observed()
    views: list[DispatchExecution] = []

    @registry.tool
    async def lingers() -> str:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep_until(4)
        return "never"

    async def outer(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        views.append(execution.with_deadline(limit, name="outer"))
        return await proceed(views[0])

    async def inner(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        return await proceed(execution.with_deadline(2, name="inner"))

    registry.wrap(outer)
    registry.wrap(inner)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "lingers"))

    cause = views[0].scope.cause
    assert (cause and cause.name) == told
    assert facts(seen.only) == f"cancelled ABORTED cancelled deadline:{told or 'inner'}"


@pytest.mark.rule("WR-10", "WR-11", "WR-6")
async def test_a_retry_that_is_refused_has_a_cause_of_its_own(autojump_clock: MockClock) -> None:
    registry, _ = observed()
    causes: list[str | None] = []

    @registry.tool
    async def lingers() -> str:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep_until(4)
        return "never"

    async def outer(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        derived = execution.with_deadline(3, name="outer")
        for _ in range(2):
            result = await proceed(derived)
            causes.append(derived.scope.cause and derived.scope.cause.name)
        return result  # pyright: ignore[reportPossiblyUnboundVariable]

    async def inner(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        limit = 2.0 if not execution.dispatched else 9.0
        return await proceed(execution.with_deadline(limit, name="inner"))

    registry.wrap(outer)
    registry.wrap(inner)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "lingers"))

    assert causes == ["inner", "outer"]


@pytest.mark.rule("SC-14", "WR-4")
async def test_an_inner_wrapper_sees_what_governs_it_after_it_delegated_too(
    autojump_clock: MockClock,
) -> None:
    registry, _ = observed(nap)
    looks: list[bool] = []

    async def outer(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        return await proceed(execution.with_deadline(3, name="outer"))

    async def inner(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        result = await proceed(execution)
        for _ in range(2):
            looks.append(execution.scope.cancel_called)
            hold_loop(5)
        return result

    registry.wrap(outer)
    registry.wrap(inner)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "nap", seconds=1))

    assert looks == [False, True]


@pytest.mark.rule("WR-9", "WR-6")
@pytest.mark.parametrize(("limit", "answered"), [(1.0, True), (3.0, False), (4.0, False)])
async def test_inner_wrappers_that_end_late_were_ended_by_the_source_that_was_first(
    autojump_clock: MockClock, limit: float, answered: bool
) -> None:
    registry, seen = observed(nap)
    answers: list[str] = []

    async def outer(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        answers.append(facts(await proceed(execution.with_deadline(limit, name="outer"))))
        return ToolResult.failed("too slow", code="SLOW")

    async def inner(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep_until(5)
        return await proceed(execution)

    registry.wrap(outer)
    registry.wrap(inner)
    async with open_call_scope(timeout=3) as scope:
        await registry.execute(call(scope, "nap", seconds=1))

    before = "cancelled ABORTED_BEFORE_DISPATCH not_dispatched"
    assert answers == ([f"{before} deadline:outer"] if answered else [])
    assert facts(seen.only) == ("failed SLOW not_dispatched" if answered else f"{before} deadline:caller")


@pytest.mark.rule("WR-9", "PU-9")
async def test_an_interrupt_is_raised_on_where_an_added_source_fired_too(autojump_clock: MockClock) -> None:
    registry, seen = observed(nap)

    async def outer(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        return await proceed(execution.with_deadline(2, name="outer"))

    async def inner(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        try:
            await trio.sleep_forever()
        finally:
            raise KeyboardInterrupt

    registry.wrap(outer)
    registry.wrap(inner)
    async with open_call_scope() as scope:
        with pytest.raises(KeyboardInterrupt):
            await registry.execute(call(scope, "nap", seconds=1))

    assert facts(seen.only) == "cancelled ABORTED_BEFORE_DISPATCH not_dispatched"


@pytest.mark.rule("WR-18", "WR-6", "CA-17")
async def test_cancelled_leaving_the_chain_keeps_what_decided_before_the_caller_came(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed()

    @registry.tool
    async def lingers() -> str:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep_until(4)
        return "never"

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        await proceed(execution.with_deadline(2, name="mine"))
        await trio.sleep_forever()
        raise AssertionError

    registry.wrap(wrapper)
    async with open_call_scope(timeout=3) as scope:
        await registry.execute(call(scope, "lingers"))

    assert facts(seen.only) == "cancelled ABORTED cancelled deadline:mine"


@pytest.mark.rule("BA-5", "BO-1", "BO-13")
@pytest.mark.parametrize(
    ("name", "expected"),
    [("strict", ["INVALID_ARGS", "begun at 0.0"]), ("threaded", ["TOO_LATE", "begun at 2.0"])],
)
async def test_the_next_call_begins_when_a_dispatch_has_come_to_its_end_without_a_body(
    autojump_clock: MockClock, name: str, expected: list[str]
) -> None:
    registry, seen = observed()
    phases: list[str] = []

    @registry.tool(concurrency_safe=True)
    async def strict(number: int) -> str:
        return f"got {number}"

    @registry.tool(concurrency_safe=True)
    def threaded() -> str:
        return "threaded"

    @registry.tool(concurrency_safe=True)
    async def after() -> str:
        return f"begun at {trio.current_time()}"

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        result = await proceed(execution.with_timeout(2, name="mine"))
        if execution.name == "after":
            return result
        phases.append(registry.statistics().calls[0].phase)
        await trio.sleep(5)
        return result if name == "strict" else ToolResult.failed("too late", code="TOO_LATE")

    registry.wrap(wrapper)
    limiter = trio.to_thread.current_default_thread_limiter()
    borrowers = [object() for _ in range(int(limiter.total_tokens))]
    for borrower in borrowers:
        limiter.acquire_on_behalf_of_nowait(borrower)
    try:
        async with open_call_scope() as scope:
            await registry.execute_batch([call(scope, name), call(scope, "after")])
    finally:
        for borrower in borrowers:
            limiter.release_on_behalf_of(borrower)

    assert phases == ["wrappers"]
    assert [result.code or result.value for result in seen.results] == expected


@pytest.mark.rule("WR-11", "WR-12")
async def test_a_retry_starts_over_and_contexts_accumulate(autojump_clock: MockClock) -> None:
    registry, seen = observed()
    attempts: list[int] = []

    @registry.tool
    async def flaky(ctx: ToolContext) -> str:
        attempts.append(len(attempts))
        ctx.defer_context(f"attempt {len(attempts)}")
        if len(attempts) < 3:
            raise ValueError("not yet")
        return "at last"

    async def retry(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        result = await proceed(execution)
        while result.outcome is ToolOutcome.FAILED:
            assert execution.dispatched
            result = await proceed(execution)
        return result

    registry.wrap(retry)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "flaky"))

    assert seen.published == ["flaky: ok returned"]
    assert seen.only.contexts == ("attempt 1", "attempt 2", "attempt 3")


@pytest.mark.rule("WR-11", "NE-2", "NE-9")
async def test_a_retried_body_may_call_other_tools_again(autojump_clock: MockClock) -> None:
    registry, seen = observed(nap)

    @registry.tool
    async def flaky(ctx: ToolContext) -> str:
        result = await ctx.call("nap", {"seconds": 1})
        if len(seen.results) == 1:
            raise ToolError("once", code="ONCE")
        return result.text

    async def retry(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        if execution.name == "flaky":
            await proceed(execution)
        return await proceed(execution)

    registry.wrap(retry)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "flaky"))

    assert seen.published == ["nap: ok returned"] * 2 + ["flaky: ok returned"]


@pytest.mark.rule("WR-11", "BO-1")
async def test_each_attempt_looks_the_tool_up_afresh(autojump_clock: MockClock) -> None:
    registry, _ = observed()
    first = registry.register(work)
    results: list[str] = []

    @tool(name="work")
    async def other() -> int:
        return 7

    async def retry(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        results.append((await proceed(execution)).text)
        first.close()
        results.append(facts(await proceed(execution)))
        registry.register(other)
        result = await proceed(execution)
        results.append(result.text)
        return result

    registry.wrap(retry)
    async with open_call_scope() as scope:
        result = await registry.execute(call(scope, "work"))

    assert results == ["worked", "failed UNKNOWN_TOOL returned", "7"]
    assert facts(result) == "ok returned"


@pytest.mark.rule("BO-1", "WR-11")
@pytest.mark.parametrize("before", ["a delegation", "an objection"])
async def test_a_wrapper_that_cancels_in_the_line_before_it_delegates_is_heard_first(
    autojump_clock: MockClock, before: str
) -> None:
    registry, seen = observed()
    registration = registry.register(work)
    async with open_call_scope() as scope:

        async def cancels(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
            if before == "a delegation":
                await proceed(execution)
            else:
                assert execution.objection() is None
            registration.close()
            scope.cancel()
            return await proceed(execution)

        registry.wrap(cancels)
        await registry.execute(call(scope, "work"))

    code = "ABORTED returned" if before == "a delegation" else "ABORTED_BEFORE_DISPATCH not_dispatched"
    assert seen.published == [f"work: cancelled {code} caller:caller"]


@pytest.mark.rule("WR-11")
async def test_two_delegations_at_once_are_refused(autojump_clock: MockClock) -> None:
    registry, seen = observed(nap)
    refused: list[str] = []

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        results: list[ToolResult] = []

        async def first() -> None:
            results.append(await proceed(execution))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(first)
            await trio.sleep(1)
            try:
                await proceed(execution)
            except RuntimeError:
                refused.append("refused")
        results.append(await proceed(execution))
        return results[1]

    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "nap", seconds=3))

    assert refused == ["refused"]
    assert seen.published == ["nap: ok returned"]


@pytest.mark.rule("WR-11", "LA-8")
async def test_proceed_is_dead_once_its_wrapper_has_ended(autojump_clock: MockClock) -> None:
    registry, _ = observed(work)
    kept: list[tuple[DispatchExecution, Proceed]] = []

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        kept.append((execution, proceed))
        return await proceed(execution)

    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "work"))
        execution, proceed = kept[0]
        with pytest.raises(RuntimeError):
            await proceed(execution)


@pytest.mark.rule("WR-12")
async def test_a_later_attempt_refused_by_cancellation_is_aborted(autojump_clock: MockClock) -> None:
    registry, seen = observed(broken)
    results: list[str] = []

    async def retry(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        results.append(facts(await proceed(execution)))
        derived = execution.with_timeout(1, name="mine")
        hold_loop(2)
        result = await proceed(derived)
        results.append(facts(result))
        return result

    registry.wrap(retry)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "broken"))

    assert results == ["failed BROKEN raised", "cancelled ABORTED raised deadline:mine"]
    assert seen.published == ["broken: cancelled ABORTED raised deadline:mine"]


@pytest.mark.rule("WR-12")
async def test_the_settlement_is_that_of_the_last_invoked_attempt(autojump_clock: MockClock) -> None:
    registry, seen = observed()
    attempts: list[int] = []

    @registry.tool
    async def flaky() -> str:
        attempts.append(1)
        if len(attempts) == 1:
            raise ValueError("first")
        return "second"

    async def retry(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        first = await proceed(execution)
        await proceed(execution)
        return attrs.evolve(first)

    registry.wrap(retry)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "flaky"))

    assert seen.published == ["flaky: failed TOOL_ERROR returned"]


@pytest.mark.rule("WR-13")
@pytest.mark.parametrize("effect", list(Effect))
async def test_the_library_by_itself_never_invokes_a_body_twice(
    autojump_clock: MockClock, effect: Effect
) -> None:
    registry, seen = observed()
    invoked: list[str] = []

    @registry.tool(effect=effect, timeout=5)
    async def fails(how: str) -> str:
        invoked.append(how)
        if how == "raises":
            raise ConnectionError("gone")
        await trio.sleep_forever()
        return "never"

    async with open_call_scope() as scope:
        await registry.execute(call(scope, "fails", how="raises"))
        await registry.execute(call(scope, "fails", how="times out"))

    assert invoked == ["raises", "times out"]
    assert [result.outcome for result in seen.results] == [ToolOutcome.FAILED] * 2


@pytest.mark.rule("WR-14")
async def test_what_proceed_returned_passes_untouched(autojump_clock: MockClock) -> None:
    registry, _ = observed(explains)
    objects: list[ToolResult] = []

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        objects.append(await proceed(execution))
        return objects[0]

    registry.wrap(wrapper)
    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        objects.append(await registry.execute(call(scope, "explains")))

    assert len(objects) == 3
    assert objects[0] is objects[1] is objects[2]


@pytest.mark.rule("WR-14")
async def test_an_earlier_result_of_proceed_passes_untouched_too(autojump_clock: MockClock) -> None:
    registry, _ = observed(explains)
    objects: list[ToolResult] = []

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        objects.append(await proceed(execution))
        await proceed(execution)
        return objects[0]

    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        objects.append(await registry.execute(call(scope, "explains")))

    assert objects[0] is objects[1]


@pytest.mark.rule("WR-14")
async def test_a_success_that_a_wrapper_makes_is_checked_and_rendered_anew(autojump_clock: MockClock) -> None:
    registry, _ = observed()

    def render(_arguments: object, value: int) -> str:
        return f"<{value}>"

    @registry.tool(render=render)
    async def number() -> int:
        return 1

    artifact = Artifact(ArtifactType.TEXT, "a", "artifact")

    async def wrapper(_execution: DispatchExecution, _proceed: Proceed) -> ToolResult:
        return ToolResult.ok(7, content="a lie", contexts=("mine",), artifacts=(artifact,))

    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        result = await registry.execute(call(scope, "number"))

    assert facts(result) == "ok not_dispatched"
    assert (result.text, result.value) == ("<7>", 7)
    assert (result.contexts, result.artifacts) == (("mine",), (artifact,))


@pytest.mark.rule("WR-14")
async def test_a_success_with_other_content_alone_is_wrapper_made_too(autojump_clock: MockClock) -> None:
    registry, _ = observed(explains)

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        return attrs.evolve(await proceed(execution), content="a lie")

    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        result = await registry.execute(call(scope, "explains"))

    assert facts(result) == "ok returned"
    assert result.text == "explained"
    assert result.contexts == ("from the body",)
    assert [artifact.label for artifact in result.artifacts] == ["a"]
    assert result.write is not None


@pytest.mark.rule("WR-14")
async def test_a_wrapper_made_value_that_breaks_the_schema_is_invalid(autojump_clock: MockClock) -> None:
    registry, _ = observed(work)
    reviewed = count_reviews(registry)

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        await proceed(execution)
        return ToolResult.ok(7)

    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        result = await registry.execute(call(scope, "work"))

    assert facts(result) == "failed INVALID_TOOL_OUTPUT returned"
    assert reviewed == ["failed INVALID_TOOL_OUTPUT returned"]


@pytest.mark.rule("WR-14")
async def test_a_wrapper_made_success_of_a_tool_that_is_gone_is_unknown_tool_unreviewed(
    autojump_clock: MockClock,
) -> None:
    registry, _ = observed()
    registration = registry.register(work)
    reviewed = count_reviews(registry)

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        await proceed(execution)
        registration.close()
        return ToolResult.ok("mine")

    registry.wrap(through)
    registry.wrap(wrapper)
    registry.wrap(through)
    async with open_call_scope() as scope:
        result = await registry.execute(call(scope, "work"))

    assert facts(result) == "failed UNKNOWN_TOOL returned"
    assert reviewed == []


@pytest.mark.rule("WR-15")
async def test_a_result_from_another_call_loses_what_is_not_of_this_call(autojump_clock: MockClock) -> None:
    registry, seen = observed(explains)
    cache: list[ToolResult] = []

    async def caching(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        if not cache:
            cache.append(await proceed(execution))
        return cache[0]

    registry.wrap(caching)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "explains"))
        await registry.execute(call(scope, "explains"))

    first, second = seen.results
    assert seen.published == ["explains: ok returned", "explains: ok not_dispatched"]
    assert first.write is not None
    assert second.write is None
    assert second.value == "explained"
    assert second.contexts == first.contexts
    assert second.artifacts == first.artifacts


@pytest.mark.rule("WR-15", "CA-6")
async def test_a_failure_from_another_call_loses_its_cause(autojump_clock: MockClock) -> None:
    registry, seen = observed()
    cache: list[ToolResult] = []

    @registry.tool(timeout=2)
    async def slow() -> str:
        await trio.sleep(5)
        return "slow"

    async def keeping(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        return cache[0] if cache else await proceed(execution)

    registry.wrap(keeping)
    registry.observe(lambda _execution, result: cache.append(result))
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "slow"))
        await registry.execute(call(scope, "slow"))

    assert seen.published == [
        "slow: failed TOOL_TIMEOUT cancelled deadline:timeout",
        "slow: failed TOOL_TIMEOUT not_dispatched",
    ]


@pytest.mark.rule("WR-16")
async def test_a_failure_that_a_wrapper_made_keeps_what_it_says(autojump_clock: MockClock) -> None:
    registry, _ = observed(work)
    reviewed = count_reviews(registry)
    made = attrs.evolve(
        ToolResult.failed("the message", code="MINE", name="MineError", contexts=("mine",)),
        content="the content",
        meta={"k": 1},
    )

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        await proceed(execution)
        return made

    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        result = await registry.execute(call(scope, "work"))

    assert facts(result) == "failed MINE returned"
    assert result.error == made.error
    assert result.content == (TextContent("the content"),)
    assert (result.meta, result.contexts) == ({"k": 1}, ("mine",))
    assert reviewed == ["failed MINE returned"]


@pytest.mark.rule("WR-16")
async def test_a_wrapper_cannot_make_a_cancelled_result_while_nothing_is_cancelled(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed(work)
    reviewed = count_reviews(registry)

    async def wrapper(_execution: DispatchExecution, _proceed: Proceed) -> ToolResult:
        return ToolResult.cancelled("so I say")

    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "work"))

    assert seen.published == ["work: failed POLICY_ERROR not_dispatched"]
    assert reviewed == []


@pytest.mark.rule("WR-16", "CA-6")
async def test_a_cancelled_result_made_under_a_cancelled_caller_carries_its_cause(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed(work)

    async with open_call_scope() as scope:

        async def wrapper(_execution: DispatchExecution, _proceed: Proceed) -> ToolResult:
            scope.cancel()
            return ToolResult.cancelled("so I say")

        registry.wrap(wrapper)
        await registry.execute(call(scope, "work"))

    assert seen.only.outcome is ToolOutcome.CANCELLED
    assert seen.only.cause is not None
    assert seen.only.cause.kind is CauseKind.CALLER
    assert seen.only.settlement is Settlement.NOT_DISPATCHED


@pytest.mark.rule("WR-17")
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ValueError("oops"), ("POLICY_ERROR", "ValueError", "Error: oops")),
        (ToolError("mine", code="MINE"), ("MINE", "ToolError", "Error: mine")),
    ],
)
async def test_a_wrapper_that_raises_is_a_policy_error_without_review(
    autojump_clock: MockClock, when: str, error: Exception, expected: tuple[str, str, str]
) -> None:
    registry, seen = observed(explains)
    reviewed = count_reviews(registry)

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        if when == "after":
            await proceed(execution)
        raise error

    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "explains"))

    result = seen.only
    assert result.error is not None
    assert (result.code, result.error.name, result.text) == expected
    assert result.settlement is (Settlement.RETURNED if when == "after" else Settlement.NOT_DISPATCHED)
    assert result.outcome is ToolOutcome.FAILED
    assert result.contexts == ()
    assert reviewed == []


@pytest.mark.rule("WR-17")
@pytest.mark.parametrize("answer", [None, "worked", 7, {"outcome": "ok"}])
async def test_a_wrapper_that_returns_no_result_is_a_policy_error(
    autojump_clock: MockClock, answer: object
) -> None:
    registry, seen = observed(explains)
    reviewed = count_reviews(registry)

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        await proceed(execution)
        return answer  # pyright: ignore[reportReturnType]

    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "explains"))

    assert seen.published == ["explains: failed POLICY_ERROR returned"]
    assert seen.only.contexts == ()
    assert reviewed == []


async def never_awaited() -> ToolResult:
    """Make a result that nobody waits for."""
    return ToolResult.ok("mine")


@pytest.mark.rule("WR-17")
async def test_a_coroutine_that_a_wrapper_returns_leaves_no_warning_behind(autojump_clock: MockClock) -> None:
    registry, seen = observed(explains)
    made = never_awaited()

    async def wrapper(_execution: DispatchExecution, _proceed: Proceed) -> ToolResult:
        return made  # pyright: ignore[reportReturnType]

    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "explains"))

    assert facts(seen.only) == "failed POLICY_ERROR not_dispatched"
    assert inspect.getcoroutinestate(made) == inspect.CORO_CLOSED


@pytest.mark.rule("WR-18", "CA-17")
@pytest.mark.parametrize("how", ["caller", "ambient"])
@pytest.mark.parametrize(
    ("name", "expected"),
    [("broken", "failed BROKEN raised"), ("explains", "cancelled ABORTED returned")],
)
async def test_cancelled_leaving_the_chain_after_the_body_keeps_a_failure(
    autojump_clock: MockClock, how: str, name: str, expected: str
) -> None:
    registry, seen = observed(broken, explains)
    reviewed = count_reviews(registry)

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        await proceed(execution)
        await trio.sleep_forever()
        raise AssertionError

    registry.wrap(wrapper)
    async with trio.open_nursery() as nursery, open_call_scope() as scope:
        with trio.CancelScope() as outer:
            nursery.start_soon(at, 2.0, scope.cancel if how == "caller" else outer.cancel)
            await registry.execute(call(scope, name))

    if name == "explains":
        expected += " caller:caller" if how == "caller" else " ambient:ambient"
        assert seen.only.contexts == ("from the body",)
    assert facts(seen.only) == expected
    assert reviewed == [expected]


@pytest.mark.rule("WR-18")
async def test_a_failure_that_a_retry_made_good_is_not_kept(autojump_clock: MockClock) -> None:
    registry, seen = observed()
    attempts: list[int] = []

    @registry.tool
    async def flaky() -> str:
        attempts.append(1)
        if len(attempts) == 1:
            raise ToolError("first", code="FIRST")
        return "second"

    async with open_call_scope() as scope:

        async def retry(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
            await proceed(execution)
            await proceed(execution)
            scope.cancel()
            await trio.sleep_forever()
            raise AssertionError

        registry.wrap(retry)
        await registry.execute(call(scope, "flaky"))

    assert facts(seen.only) == "cancelled ABORTED returned caller:caller"


@pytest.mark.rule("WR-18", "CA-21")
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_stray_cancelled_of_a_wrapper_is_a_policy_error(autojump_clock: MockClock, when: str) -> None:
    registry, seen = observed(explains)
    reviewed = count_reviews(registry)

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        if when == "after":
            await proceed(execution)
        raise await stray_cancelled()

    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "explains"))

    settled = "returned" if when == "after" else "not_dispatched"
    assert seen.published == [f"explains: failed POLICY_ERROR {settled}"]
    assert seen.only.contexts == ()
    assert reviewed == []


@pytest.mark.rule("WR-19")
async def test_an_added_source_during_the_body_replaces_a_value_and_keeps_an_error(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed()
    reviewed = count_reviews(registry)

    @registry.tool
    async def stubborn(how: str) -> str:
        try:
            await trio.sleep(9)
        except trio.Cancelled:
            if how == "raises":
                raise ToolError("on the way out", code="OUT") from None
            if how == "lets go":
                raise
        return "anyway"

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        return await proceed(execution.with_timeout(2, name="mine"))

    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        for how in ("returns", "raises", "lets go"):
            await registry.execute(call(scope, "stubborn", how=how))
        caller = scope.cancel_called

    expected = [
        "cancelled ABORTED returned deadline:mine",
        "failed OUT raised",
        "cancelled ABORTED cancelled deadline:mine",
    ]
    assert [facts(result) for result in seen.results] == expected
    assert reviewed == expected
    assert not caller


@pytest.mark.rule("WR-19")
async def test_a_wrapper_may_translate_the_end_that_its_source_made(autojump_clock: MockClock) -> None:
    registry, seen = observed(nap)

    async def fallback(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        derived = execution.with_timeout(2, name="mine")
        result = await proceed(derived)
        cause = derived.scope.cause
        return ToolResult.ok("fallback") if cause is not None and cause.name == "mine" else result

    registry.wrap(fallback)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "nap", seconds=9))

    assert seen.published == ["nap: ok cancelled"]
    assert seen.only.value == "fallback"


@pytest.mark.rule("WR-19", "CA-6")
async def test_a_wrapper_may_give_a_failure_the_cause_of_its_own_source(autojump_clock: MockClock) -> None:
    registry, seen = observed(nap)

    async def budget(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        derived = execution.with_timeout(2, name="mine")
        await proceed(derived)
        return ToolResult.failed("too slow", code="SLOW", cause=derived.scope.cause)

    registry.wrap(budget)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "nap", seconds=9))

    assert seen.published == ["nap: failed SLOW cancelled deadline:mine"]


@pytest.mark.rule("CA-6", "WR-16", "WR-19")
@pytest.mark.parametrize(
    ("how", "outcome", "expected"),
    [
        ("source", "failed", "failed SLOW cancelled deadline:mine"),
        ("source", "cancelled", "cancelled ABORTED cancelled deadline:mine"),
        ("trio scope", "failed", "failed SLOW cancelled ambient:wrapper"),
        ("trio scope", "cancelled", "cancelled ABORTED cancelled ambient:wrapper"),
    ],
)
async def test_what_a_wrapper_makes_of_the_end_of_its_delegation_keeps_the_cause(
    autojump_clock: MockClock, how: str, outcome: str, expected: str
) -> None:
    registry, seen = observed(nap)

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        with trio.move_on_after(2 if how == "trio scope" else 50):
            result = await proceed(execution.with_timeout(2, name="mine") if how == "source" else execution)
            assert result.cause is not None
            if outcome == "failed":
                return ToolResult.failed("too slow", code="SLOW", cause=result.cause)
            return attrs.evolve(result, contexts=("mine",))
        raise AssertionError

    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "nap", seconds=9))

    assert facts(seen.only) == expected
    assert seen.only.contexts == (("mine",) if outcome == "cancelled" else ())


@pytest.mark.rule("NE-7", "WR-14")
@pytest.mark.parametrize("concludes", [True, False])
async def test_a_success_that_a_wrapper_makes_concludes_if_it_says_so(
    autojump_clock: MockClock, concludes: bool
) -> None:
    registry, seen = observed(nap)

    async def wrapper(_execution: DispatchExecution, _proceed: Proceed) -> ToolResult:
        return attrs.evolve(ToolResult.ok("mine"), concludes=concludes)

    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "nap", seconds=9))

    assert facts(seen.only) == "ok not_dispatched"
    assert seen.only.concludes is concludes


@pytest.mark.rule("WR-20", "SC-3")
async def test_a_delegation_in_another_task_is_governed_like_any_other(autojump_clock: MockClock) -> None:
    registry, seen = observed(nap)

    async with trio.open_nursery() as foreign:

        async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
            results: list[ToolResult] = []
            done = trio.Event()

            async def delegate() -> None:
                results.append(await proceed(execution.with_timeout(20, name="mine")))
                done.set()

            foreign.start_soon(delegate)
            with trio.CancelScope(shield=True):
                await done.wait()
            return results[0]

        registry.wrap(wrapper)
        async with open_call_scope(timeout=3) as scope:
            result = await registry.execute(call(scope, "nap", seconds=9))
            returned = trio.current_time()

    assert returned == 3.0
    assert facts(result) == "cancelled ABORTED cancelled deadline:caller"
    assert seen.only is result


@pytest.mark.rule("WR-20")
@pytest.mark.parametrize("where", ["body", "body at once", "inner wrapper"])
@pytest.mark.parametrize("how", ["returns", "raises"])
async def test_a_delegation_left_running_is_cancelled_and_awaited(
    autojump_clock: MockClock, where: str, how: str
) -> None:
    registry, seen = observed()
    reviewed = count_reviews(registry)
    log: list[str] = []

    async def until_cancelled() -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(3)
            log.append(f"ended at {trio.current_time()}")

    @registry.tool
    async def body() -> str:
        if where != "inner wrapper":
            await until_cancelled()
        return "done"

    async def inner(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        if where == "inner wrapper":
            await until_cancelled()
        return await proceed(execution)

    async with trio.open_nursery() as foreign:

        async def delegate(execution: DispatchExecution, proceed: Proceed) -> None:
            try:
                log.append(facts(await proceed(execution)))
            except BaseException as error:
                log.append(type(error).__name__)

        async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
            foreign.start_soon(delegate, execution, proceed)
            await trio.sleep(2)
            if how == "raises":
                raise ValueError("mine")
            return ToolResult.failed("made", code="MADE")

        registry.wrap(wrapper)
        if where != "body at once":
            registry.wrap(inner)
        async with open_call_scope() as scope:
            await registry.execute(call(scope, "body"))
            returned = trio.current_time()

    assert returned == 5.0
    in_body = where != "inner wrapper"
    cancelled = "cancelled ABORTED cancelled ambient:wrapper" if in_body else "Cancelled"
    assert log == ["ended at 5.0", cancelled]
    settled = "cancelled" if in_body else "not_dispatched"
    assert facts(seen.only) == f"failed POLICY_ERROR {settled}"
    assert reviewed == []


@pytest.mark.rule("WR-20", "WR-9", "WR-11", "CA-1")
@pytest.mark.parametrize("where", ["in the body", "in a wrapper"])
@pytest.mark.parametrize(
    ("then", "expected"),
    [
        ("falls back", "ok cancelled"),
        ("retries", "ok returned"),
    ],
)
async def test_a_delegation_that_an_inner_wrapper_left_running_cancels_nothing_of_an_outer_one(
    autojump_clock: MockClock, where: str, then: str, expected: str
) -> None:
    registry, seen = observed()
    attempts: list[float] = []
    cancelled: list[bool] = []

    @registry.tool
    async def body() -> str:
        attempts.append(trio.current_time())
        await trio.sleep(5)
        return "done"

    async with trio.open_nursery() as foreign:

        async def outer(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
            try:
                return await proceed(execution)
            except Exception:
                cancelled.append(execution.scope.cancel_called)
                return ToolResult.ok("fallen back") if then == "falls back" else await proceed(execution)

        async def leaves(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
            if attempts:
                return await proceed(execution)
            foreign.start_soon(proceed, execution)
            await trio.sleep(2)
            return ToolResult.failed("made", code="MADE")

        async def innermost(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
            return await proceed(execution)

        registry.wrap(outer)
        registry.wrap(leaves)
        if where == "in a wrapper":
            registry.wrap(innermost)
        async with open_call_scope() as scope:
            await registry.execute(call(scope, "body"))

    assert cancelled == [False]
    assert facts(seen.only) == expected
    assert not seen.executions[0].scope.cancel_called


@pytest.mark.rule("WR-20", "SC-3")
async def test_an_inner_wrapper_in_another_task_is_cancelled_with_the_call(autojump_clock: MockClock) -> None:
    registry, seen = observed(nap)

    async with trio.open_nursery() as foreign:

        async def outer(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
            results: list[ToolResult] = []
            done = trio.Event()

            async def delegate() -> None:
                try:
                    results.append(await proceed(execution))
                except trio.Cancelled:
                    results.append(ToolResult.failed("inner was cancelled", code="INNER"))
                done.set()

            foreign.start_soon(delegate)
            with trio.CancelScope(shield=True):
                await done.wait()
            return results[0]

        async def inner(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
            await trio.sleep(50)
            return await proceed(execution)

        registry.wrap(outer)
        registry.wrap(inner)
        async with open_call_scope(timeout=3) as scope:
            await registry.execute(call(scope, "nap", seconds=9))
            returned = trio.current_time()

    assert returned == 3.0
    assert facts(seen.only) == "failed INNER not_dispatched"


@pytest.mark.rule("WR-21")
async def test_contexts_stand_in_order_body_wrappers_inner_first_review(autojump_clock: MockClock) -> None:
    registry, seen = observed(explains)

    def adding(name: str) -> Callable[[DispatchExecution, Proceed], object]:
        async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
            result = await proceed(execution)
            return attrs.evolve(result, contexts=(*result.contexts, name))

        return wrapper

    async def review(_execution: ToolExecution, _result: ToolResult, _proceed: ReviewRest) -> ReviewDecision:
        return Accept(contexts=("review",))

    registry.wrap(adding("outer"))  # pyright: ignore[reportArgumentType]
    registry.wrap(adding("inner"))  # pyright: ignore[reportArgumentType]
    registry.review(review)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "explains"))

    assert seen.only.contexts == ("from the body", "inner", "outer", "review")


@pytest.mark.rule("WR-7", "WR-20")
async def test_a_scope_around_a_delegation_in_another_task_is_the_wrappers(autojump_clock: MockClock) -> None:
    registry, seen = observed(nap)
    told: list[str] = []

    async with trio.open_nursery() as foreign:

        async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
            results: list[ToolResult] = []
            done = trio.Event()

            async def delegate() -> None:
                with trio.move_on_after(2):
                    results.append(await proceed(execution))
                done.set()

            foreign.start_soon(delegate)
            await done.wait()
            told.append(facts(results[0]))
            return results[0]

        registry.wrap(wrapper)
        async with open_call_scope() as scope:
            await registry.execute(call(scope, "nap", seconds=9))

    assert told == ["cancelled ABORTED cancelled ambient:wrapper"]
    assert facts(seen.only) == "cancelled ABORTED cancelled ambient:wrapper"


@pytest.mark.parametrize("how", ["caller", "ambient", "error", "interrupt", "error inside"])
async def test_every_wrapper_that_was_entered_is_left_on_every_path(
    autojump_clock: MockClock, how: str
) -> None:
    registry, seen = observed()
    log: list[str] = []

    @registry.tool(name="work")
    async def body() -> str:
        await trio.sleep(1)
        if how == "error":
            raise ValueError("oops")
        if how == "interrupt":
            raise KeyboardInterrupt
        await trio.sleep_forever()
        return "never"

    def named(name: str) -> Callable[[DispatchExecution, Proceed], object]:
        async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
            log.append(f"> {name}")
            try:
                return await proceed(execution)
            finally:
                log.append(f"< {name}")

        return wrapper

    async def refuses(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        if how == "error inside":
            raise ToolError("no", code="NO")
        return await proceed(execution)

    registry.wrap(named("outer"))  # pyright: ignore[reportArgumentType]
    registry.wrap(named("inner"))  # pyright: ignore[reportArgumentType]
    registry.wrap(refuses)
    async with open_call_scope(timeout=5 if how == "caller" else math.inf) as scope:
        with trio.move_on_after(5 if how == "ambient" else math.inf):
            try:
                await registry.execute(call(scope, "work"))
            except (KeyboardInterrupt, BaseExceptionGroup):
                log.append("interrupt")

    assert log[:4] == ["> outer", "> inner", "< inner", "< outer"]
    assert log[4:] == (["interrupt"] if how == "interrupt" else [])
    assert len(seen.results) == 1


async def test_a_retry_waits_until_the_attempt_before_is_quiet(autojump_clock: MockClock) -> None:
    registry, seen = observed()
    log: list[str] = []
    locked = False

    @registry.tool
    async def locks() -> str:
        nonlocal locked
        assert not locked
        locked = True
        try:
            log.append(f"locked at {trio.current_time()}")
            await trio.sleep(3 if len(log) > 1 else 30)
            return "written"
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(4)
            locked = False

    async def retry(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        derived = execution.with_timeout(10, name="attempt")
        result = await proceed(derived)
        return result if derived.scope.cause is None else await proceed(execution)

    registry.wrap(retry)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "locks"))

    assert log == ["locked at 0.0", "locked at 14.0"]
    assert facts(seen.only) == "ok returned"


async def test_concurrent_calls_through_the_same_wrapper_keep_their_own_deadlines(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed(nap)

    async def limited(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        arguments: Any = execution.arguments
        return await proceed(execution.with_timeout(arguments["seconds"] + 1, name="mine"))

    async def limited_again(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        arguments: Any = execution.arguments
        return (
            await proceed(execution.with_timeout(4, name="four"))
            if arguments["seconds"]
            else ToolResult.ok("no")
        )

    registry.wrap(limited)
    registry.wrap(limited_again)
    async with open_call_scope() as scope, trio.open_nursery() as nursery:
        for seconds in (1, 3, 5, 7):
            nursery.start_soon(registry.execute, call(scope, "nap", seconds=seconds))

    assert [facts(result) for result in seen.results] == [
        "ok returned",
        "ok returned",
        "cancelled ABORTED cancelled deadline:four",
        "cancelled ABORTED cancelled deadline:four",
    ]


@pytest.mark.rule("WR-10", "WR-4")
async def test_a_derived_view_may_be_delegated_by_again(autojump_clock: MockClock) -> None:
    registry, _ = observed(nap)
    told: list[str] = []

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        derived = execution.with_timeout(5, name="mine")
        for _ in range(3):
            result = await proceed(derived)
            told.append(f"{facts(result)}, {derived.scope.cause and derived.scope.cause.name}")
        return result  # pyright: ignore[reportPossiblyUnboundVariable]

    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "nap", seconds=4))

    assert told == [
        "ok returned, None",
        "cancelled ABORTED cancelled deadline:mine, mine",
        "cancelled ABORTED cancelled deadline:mine, mine",
    ]


@pytest.mark.rule("WR-10")
@pytest.mark.parametrize("who", ["mine", "caller"])
async def test_the_cause_is_latched_where_proceed_raises_too(autojump_clock: MockClock, who: str) -> None:
    registry, _ = observed(nap)
    told: list[str | None] = []

    async def outer(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        derived = execution.with_timeout(2 if who == "mine" else 20, name="mine")
        try:
            return await proceed(derived)
        finally:
            told.append(derived.scope.cause and derived.scope.cause.name)

    async def inner(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        try:
            await trio.sleep_forever()
        finally:
            if who == "mine":
                raise ValueError("inner")
        return await proceed(execution)

    registry.wrap(outer)
    registry.wrap(inner)
    async with open_call_scope(timeout=5) as scope:
        await registry.execute(call(scope, "nap", seconds=4))

    assert told == [who]


@pytest.mark.rule("WR-20")
@pytest.mark.parametrize("who", ["caller", "ambient"])
async def test_a_delegation_left_running_by_a_cancelled_wrapper_is_awaited(
    autojump_clock: MockClock, who: str
) -> None:
    registry, seen = observed()
    log: list[str] = []

    @registry.tool
    async def lingers() -> str:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(5)
            log.append(f"ended at {trio.current_time()}")
        return "never"

    async with trio.open_nursery() as foreign:
        foreign.cancel_scope.shield = True

        async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
            foreign.start_soon(proceed, execution)
            await trio.sleep_forever()
            raise AssertionError

        registry.wrap(wrapper)
        async with open_call_scope() as scope:
            with trio.CancelScope() as outer:
                foreign.start_soon(at, 2.0, scope.cancel if who == "caller" else outer.cancel)
                await registry.execute(call(scope, "lingers"))

    assert log == ["ended at 7.0"]
    assert facts(seen.only) == "failed POLICY_ERROR cancelled"


@pytest.mark.rule("WR-20", "PU-9", "CA-22")
async def test_an_interrupt_of_a_wrapper_that_leaves_a_delegation_running_goes_on(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed(nap)
    raised: list[BaseException] = []

    async with trio.open_nursery() as foreign:

        async def delegate(execution: DispatchExecution, proceed: Proceed) -> None:
            await proceed(execution)

        async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
            foreign.start_soon(delegate, execution, proceed)
            await trio.sleep(1)
            raise KeyboardInterrupt

        registry.wrap(wrapper)
        async with open_call_scope() as scope:
            try:
                await registry.execute(call(scope, "nap", seconds=9))
            except BaseException as error:
                raised.append(error)

    assert [type(error) for error in raised] == [KeyboardInterrupt]
    assert facts(seen.only) == "cancelled ABORTED cancelled"


@pytest.mark.rule("MA-16", "WR-16", "WR-14")
@pytest.mark.parametrize("what", ["meta of a failure", "contexts of a failure", "contexts of a success"])
async def test_what_json_would_lose_of_a_wrappers_result_is_a_policy_error(
    autojump_clock: MockClock, what: str
) -> None:
    registry, seen = observed(work)
    reviewed = count_reviews(registry)
    lossy: Any = {"k": {1, 2}}

    async def wrapper(_execution: DispatchExecution, _proceed: Proceed) -> ToolResult:
        made = ToolResult.ok("mine") if what.endswith("success") else ToolResult.failed("mine", code="MINE")
        return attrs.evolve(made, **{what.split()[0]: lossy if what.startswith("meta") else (lossy,)})

    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "work"))

    assert facts(seen.only) == "failed POLICY_ERROR not_dispatched"
    assert seen.only.text == "Error: tool result must be losslessly JSON-serializable"
    assert reviewed == []


@pytest.mark.rule("WR-20")
async def test_an_abandoned_delegation_cancels_wrappers_that_it_only_then_enters(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed(work)
    log: list[str] = []

    async def delegate(execution: DispatchExecution, proceed: Proceed) -> None:
        await proceed(execution)

    async def leaves(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        foreign.start_soon(delegate, execution, proceed)
        await trio.sleep(1)
        return ToolResult.failed("made", code="MADE")

    async def goes_on_behind_a_shield(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        with trio.CancelScope() as behind:
            behind.shield = True
            await trio.sleep(2)
            return await proceed(execution)
        raise AssertionError

    async def innermost(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        try:
            await trio.sleep(50)
        finally:
            log.append(f"innermost left at {trio.current_time()}")
        return await proceed(execution)

    for wrapper in (leaves, goes_on_behind_a_shield, innermost):
        registry.wrap(wrapper)
    async with trio.open_nursery() as foreign, open_call_scope() as scope:
        await registry.execute(call(scope, "work"))
        log.append(f"ended at {trio.current_time()}")

    assert log == ["innermost left at 2.0", "ended at 2.0"]
    assert facts(seen.only) == "failed POLICY_ERROR not_dispatched"


@pytest.mark.rule("WR-20", "BO-1")
async def test_an_abandoned_delegation_that_goes_on_behind_a_shield_invokes_no_body(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed(work)
    answers: list[str] = []

    async def leaves(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        foreign.start_soon(proceed, execution)
        await trio.sleep(1)
        return ToolResult.failed("made", code="MADE")

    async def goes_on_behind_a_shield(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        with trio.CancelScope(shield=True):
            await trio.sleep(2)
            result = await proceed(execution)
            answers.append(facts(result))
            return result
        raise AssertionError

    registry.wrap(leaves)
    registry.wrap(goes_on_behind_a_shield)
    async with trio.open_nursery() as foreign, open_call_scope() as scope:
        await registry.execute(call(scope, "work"))

    assert answers == ["cancelled ABORTED_BEFORE_DISPATCH not_dispatched"]
    assert facts(seen.only) == "failed POLICY_ERROR not_dispatched"


@pytest.mark.rule("WR-20", "BO-2")
@pytest.mark.parametrize("passes", range(8))
@pytest.mark.parametrize("kind", ["alone", "with context"])
async def test_an_abandoned_delegation_invokes_no_body_any_more(
    autojump_clock: MockClock, kind: str, passes: int
) -> None:
    registry, seen = observed()
    log: list[str] = []

    @registry.tool
    async def alone() -> str:
        log.append("invoked")
        await trio.sleep_forever()
        return "never"

    @registry.tool(name="with context")
    async def with_context(ctx: ToolContext) -> str:
        log.append("invoked")
        await trio.sleep_forever()
        return "never"

    async def delegate(execution: DispatchExecution, proceed: Proceed) -> None:
        await proceed(execution)

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        foreign.start_soon(delegate, execution, proceed)
        while not entered.is_set():
            await trio.lowlevel.checkpoint()
        for _ in range(passes):
            await trio.lowlevel.checkpoint()
        log.append("left")
        return ToolResult.failed("made", code="MADE")

    async def inner(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        entered.set()
        return await proceed(execution)

    entered = trio.Event()
    registry.wrap(wrapper)
    registry.wrap(inner)
    async with trio.open_nursery() as foreign, open_call_scope() as scope:
        await registry.execute(call(scope, kind))

    assert log in (["left"], ["invoked", "left"])
    assert seen.only.dispatched is ("invoked" in log)
    assert seen.only.code == "POLICY_ERROR"


@pytest.mark.rule("BO-1")
@pytest.mark.parametrize("kind", ["gate", "wrapper"])
async def test_arguments_that_fitted_at_entry_are_checked_by_the_tool_that_is_there_at_dispatch(
    kind: str,
) -> None:
    registry, seen = observed()
    objections: list[str | None] = []

    @tool(name="work")
    async def counts(number: int) -> int:
        return number

    @tool(name="work")
    async def spells(number: str) -> str:
        raise AssertionError

    first = registry.register(counts)

    def replace() -> None:
        first.close()
        registry.register(spells)

    async def gate(_execution: ToolExecution, proceed: GateRest) -> GateDecision:
        if kind == "gate":
            replace()
        return await proceed()

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        if kind == "wrapper":
            objections.append(execution.objection())
            replace()
        objections.append(execution.objection())
        return await proceed(execution)

    registry.gate(gate)
    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "work", number=1))

    assert facts(seen.only) == "failed INVALID_ARGS not_dispatched"
    assert objections == ([None, "INVALID_ARGS"] if kind == "wrapper" else ["INVALID_ARGS"])


@pytest.mark.rule("CA-17", "WR-19")
async def test_a_success_that_the_caller_cuts_off_carries_the_callers_cause(
    autojump_clock: MockClock,
) -> None:
    registry, seen = observed()

    @registry.tool
    async def plain() -> str:
        return "never"

    async with open_call_scope() as scope:

        async def late(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
            await trio.sleep(2)
            result = await proceed(execution.with_deadline(1, name="late"))
            await trio.sleep(1)
            return result

        async def mends(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
            scope.cancel()
            await proceed(execution)
            return ToolResult.ok("mended")

        registry.wrap(late)
        registry.wrap(mends)
        await registry.execute(call(scope, "plain"))

    assert facts(seen.only) == "cancelled ABORTED_BEFORE_DISPATCH not_dispatched caller:caller"
