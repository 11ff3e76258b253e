"""The recorder: a step for every result, a fence before every write, and no influence on either."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.trace.test_store import Breaking
from trio_tools import (
    Deny,
    DispatchExecution,
    Effect,
    GateDecision,
    Registry,
    ToolCall,
    ToolContext,
    ToolError,
    ToolExecution,
    ToolOutcome,
    ToolResult,
    WriteKind,
    open_call_scope,
)
from trio_tools.trace import (
    EventKind,
    PrivacyLevel,
    RunStep,
    RunStore,
    RunStoreError,
    RunTrace,
    StepKind,
    open_store,
    structure_step,
)
from trio_tools.trace._sqlite import SqliteDatabase
from trio_tools.trace._store import serving


def make_registry() -> Registry:
    registry = Registry()

    @registry.tool(effect=Effect.READ_ONLY)
    async def look(seconds: float = 0.0) -> str:
        await trio.sleep(seconds)
        return "seen"

    @registry.tool
    async def pay(seconds: float, ctx: ToolContext) -> str:
        await trio.sleep(seconds)
        ctx.wrote("bills", 7, WriteKind.CREATED)
        return "paid"

    @registry.tool(effect=Effect.READ_ONLY)
    async def nest(ctx: ToolContext) -> str:
        return (await ctx.call("look", {"seconds": 1.0})).text

    @registry.tool(effect=Effect.READ_ONLY)
    async def refuse() -> str:
        raise ToolError("no", code="NO")

    return registry


async def call(registry: Registry, name: str, arguments: Any = None, **options: Any) -> ToolResult:
    async with open_call_scope(name="nightly") as scope:
        return await registry.execute(ToolCall(name=name, arguments=arguments or {}, scope=scope, **options))


def everything_in(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir())


async def standing(store: RunStore) -> list[str]:
    return [fence.tool for fence in (await store.load("r")).fences]


@pytest.mark.rule("TR-1", "ST-11")
async def test_each_result_is_one_step_that_says_what_became_of_the_call(autojump_clock: object) -> None:
    registry = make_registry()
    trace = RunTrace("r")
    trace.round = 3
    with trace.attach(registry):
        await call(registry, "look", {"seconds": 0.048061})
        await call(registry, "refuse")
    await call(registry, "look")

    assert trace.steps == (
        RunStep(
            kind=StepKind.TOOL,
            round=3,
            duration_ms=48.06,
            tool_name="look",
            tool_arguments={"seconds": 0.048061},
            tool_result="seen",
            tool_is_error=False,
            tool_outcome=ToolOutcome.OK,
            tool_settlement="returned",
            tool_dispatched=True,
        ),
        RunStep(
            kind=StepKind.TOOL,
            round=3,
            tool_name="refuse",
            tool_arguments={},
            tool_result="Error: no",
            tool_is_error=True,
            tool_outcome=ToolOutcome.FAILED,
            tool_settlement="raised",
            tool_dispatched=True,
            tool_code="NO",
        ),
    )


@pytest.mark.rule("TR-1")
async def test_a_cancelled_call_reads_cancelled_with_its_cause(autojump_clock: object) -> None:
    registry = make_registry()
    trace = RunTrace("r")
    trace.attach(registry)
    async with open_call_scope(name="nightly") as scope, trio.open_nursery() as nursery:
        nursery.start_soon(registry.execute, ToolCall(name="look", arguments={"seconds": 9.0}, scope=scope))
        await trio.sleep(1)
        scope.cancel("enough")

    (step,) = trace.steps
    assert (step.tool_outcome, step.tool_is_error, step.tool_settlement) == ("cancelled", True, "cancelled")
    assert step.tool_cause == {"kind": "caller", "name": "nightly", "reason": "enough"}
    assert step.tool_code == "ABORTED"
    assert step.duration_ms == 1000


@pytest.mark.rule("TR-1", "TR-2")
async def test_nested_and_never_started_calls_are_steps_too_in_order_of_publication(
    autojump_clock: object,
) -> None:
    registry = make_registry()
    trace = RunTrace("r")
    trace.attach(registry)
    async with open_call_scope() as scope:
        scope.deadline = trio.current_time() + 1.5
        await registry.execute_batch(
            [ToolCall(name=name, arguments={}, scope=scope) for name in ("nest", "nest", "look")]
        )

    assert [(step.tool_name, str(step.tool_outcome), step.tool_dispatched) for step in trace.steps] == [
        ("look", "ok", True),
        ("nest", "ok", True),
        ("look", "cancelled", True),
        ("nest", "cancelled", True),
        ("look", "cancelled", False),
    ]


@pytest.mark.rule("TR-1")
async def test_two_layers_of_one_line_record_a_call_once() -> None:
    registry = make_registry()
    layer = registry.layer("inner")
    trace = RunTrace("r")
    trace.attach(registry)
    trace.attach(layer)
    async with open_call_scope() as scope:
        for _ in range(3):
            await layer.execute(ToolCall(name="look", arguments={}, scope=scope))

    assert len(trace.steps) == 3


@pytest.mark.rule("TR-2")
async def test_the_listener_gets_the_same_object_at_once_and_unfiltered() -> None:
    heard: list[RunStep] = []
    async with open_store(":memory:") as store:
        registry = make_registry()
        trace = RunTrace("r", store=store, live=heard.append)
        trace.attach(registry)
        await call(registry, "look")
        trace.record(RunStep(kind="llm", content="hello"))

        assert all(mine is theirs for mine, theirs in zip(heard, trace.steps, strict=True))
        assert heard[0].tool_result == "seen"
        assert heard[1].content == "hello"


@pytest.mark.rule("TR-2")
async def test_what_a_listener_raises_is_logged_and_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def listen(_: RunStep) -> None:
        raise AssertionError("awaited")

    def fail(_: RunStep) -> None:
        raise RuntimeError("not mine")

    for listener in (listen, fail):
        registry = make_registry()
        trace = RunTrace("r", live=listener)
        trace.attach(registry)

        assert (await call(registry, "look")).outcome is ToolOutcome.OK
        assert len(trace.steps) == 1
    assert [record.name for record in caplog.records] == ["trio_tools", "trio_tools"]


@pytest.mark.rule("TR-3")
async def test_a_write_adds_a_step_after_its_own() -> None:
    async with open_store(":memory:") as store:
        registry = make_registry()
        trace = RunTrace("r", store=store)
        trace.attach(registry)
        trace.round = 2
        await call(registry, "pay", {"seconds": 0.0})
        rows = await store.load("r")

    write = RunStep(
        kind=StepKind.TOOL_WRITE, round=2, tool_name="pay", write_target_table="bills", write_target_uid=7
    )
    assert [str(step.kind) for step in trace.steps] == ["tool", "tool_write"]
    assert trace.steps[1] == write
    assert structure_step(str(rows.events[1].payload)) == write
    assert {row.span.call_id for row in rows.events} == {rows.events[0].span.call_id}


@pytest.mark.rule("TR-3")
async def test_the_program_records_steps_of_its_own_that_keep_their_round() -> None:
    async with open_store(":memory:") as store:
        trace = RunTrace("r", store=store)
        trace.round = 9
        for kind in EventKind:
            trace.record(RunStep(kind=kind, round=1))
        rows = await store.load("r")

    assert [row.kind for row in rows.events] == [str(kind) for kind in EventKind]
    assert {structure_step(str(row.payload)).round for row in rows.events} == {1}


@pytest.mark.parametrize("number", [-1, 1.0, True, "2", None])
def test_a_round_that_is_none_is_refused_where_it_is_assigned(number: Any) -> None:
    trace = RunTrace("r")
    with pytest.raises(ValueError, match="a round is"):
        trace.round = number

    assert trace.round == 0


@pytest.mark.rule("TR-4")
async def test_the_fence_is_committed_when_the_body_begins(shared_target: str) -> None:
    seen: list[tuple[str, str | None, str | None, int]] = []
    async with open_store(shared_target) as store, open_store(shared_target) as other:
        registry = make_registry()

        @registry.tool(effect=Effect.NON_IDEMPOTENT_WRITE)
        async def transfer(ctx: ToolContext) -> int:
            # As another process would see it, in the middle of the body.
            rows = await other.load("r")
            seen.extend((row.tool, row.span.call_id, row.span.effect, row.round) for row in rows.fences)
            return 1

        trace = RunTrace("r", store=store)
        trace.round = 4
        trace.attach(registry)
        result = await call(registry, "transfer", call_id="c1")

        assert result.outcome is ToolOutcome.OK
        assert seen == [("transfer", "c1", "non_idempotent_write", 4)]
        assert await standing(store) == []


@pytest.mark.rule("TR-4", "TR-6")
@pytest.mark.parametrize(
    ("name", "arguments", "fences"),
    [
        ("pay", {"seconds": 0.0}, 1),
        ("look", {}, 0),
        ("unknown", {}, 0),
        ("pay", {"seconds": "soon"}, 0),
        ("denied", {}, 0),
    ],
)
async def test_a_fence_is_written_only_before_what_may_write(
    breaking: Breaking, name: str, arguments: Any, fences: int
) -> None:
    async def gate(execution: ToolExecution, proceed: Any) -> GateDecision:
        return Deny("no") if execution.name == "denied" else await proceed()

    async with serving(breaking) as store:
        registry = make_registry()
        registry.gate(gate)

        @registry.tool(effect=Effect.UNKNOWN)
        async def denied() -> int:
            return 1

        RunTrace("r", store=store).attach(registry)
        await call(registry, name, arguments)
        await store.flush()

    assert sum("INSERT INTO trio_fences" in sql for sql in breaking.written) == fences


@pytest.fixture
def breaking() -> Breaking:
    return Breaking(SqliteDatabase(":memory:"))


@pytest.mark.rule("TR-6")
async def test_without_a_store_no_fence_is_written() -> None:
    registry = make_registry()
    trace = RunTrace("r")
    trace.attach(registry)

    assert (await call(registry, "pay", {"seconds": 0.0})).outcome is ToolOutcome.OK
    async with open_call_scope() as scope:
        with pytest.raises(ValueError, match="this trace has none"):
            trace.cancel_on_request(scope)


@pytest.mark.rule("TR-5")
async def test_without_its_fence_a_body_does_not_run(breaking: Breaking) -> None:
    ran: list[int] = []
    async with serving(breaking) as store:
        registry = make_registry()

        @registry.tool
        async def write() -> int:
            ran.append(1)
            return 1

        trace = RunTrace("r", store=store)
        trace.attach(registry)
        breaking.fail_texts = {"INSERT INTO trio_fences"}
        result = await call(registry, "write")
        reads = await call(registry, "look")
        breaking.fail_texts.clear()
        again = await call(registry, "write")
        await store.flush()
        statistics = store.statistics()

    assert (result.outcome, result.code, result.settlement) == ("failed", "POLICY_ERROR", "not_dispatched")
    assert result.error is not None
    assert result.error.name == "FenceError"
    assert (reads.outcome, again.outcome) == (ToolOutcome.OK, ToolOutcome.OK)
    assert ran == [1]
    assert statistics.failures == 1
    assert [step.tool_code for step in trace.steps] == ["POLICY_ERROR", None, None]


@pytest.mark.rule("TR-5")
async def test_a_call_that_is_cancelled_while_it_waits_for_its_fence_never_runs(tmp_path: Path) -> None:
    ran: list[int] = []
    async with open_store(tmp_path / "runs.db") as store:
        registry = make_registry()

        @registry.tool
        async def write() -> int:
            ran.append(1)
            return 1

        trace = RunTrace("r", store=store)
        trace.attach(registry)
        results: list[ToolResult] = []
        async with open_call_scope() as scope:

            async def run() -> None:
                results.append(await registry.execute(ToolCall(name="write", arguments={}, scope=scope)))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(run)
                while not registry.statistics().calls or registry.statistics().calls[0].phase != "wrappers":
                    await trio.lowlevel.checkpoint()
                scope.cancel()
        left = await standing(store)

    assert ran == []
    assert (results[0].outcome, results[0].code) == ("cancelled", "ABORTED_BEFORE_DISPATCH")
    assert left == []


@pytest.mark.rule("TR-7")
async def test_overlapping_calls_end_their_own_fences_even_with_one_id(autojump_clock: object) -> None:
    seen: list[list[str]] = []
    async with open_store(":memory:") as store:
        registry = make_registry()
        RunTrace("r", store=store).attach(registry)
        async with trio.open_nursery() as nursery:
            for seconds in (1.0, 2.0, 3.0):
                nursery.start_soon(lambda s=seconds: call(registry, "pay", {"seconds": s}, call_id="same"))
            for _ in range(4):
                await trio.sleep(0.75)
                seen.append(await standing(store))
                await trio.sleep(0.25)

    assert [len(fences) for fences in seen] == [3, 2, 1, 0]


async def test_a_call_that_is_tried_again_has_one_fence(breaking: Breaking) -> None:
    async with serving(breaking) as store:
        registry = Registry()
        attempts: list[int] = []

        @registry.tool(effect=Effect.IDEMPOTENT_WRITE)
        async def put() -> int:
            attempts.append(1)
            raise ToolError("later", code="BUSY")

        async def twice(execution: DispatchExecution, proceed: Any) -> ToolResult:
            await proceed(execution)
            return await proceed(execution)

        registry.wrap(twice)
        RunTrace("r", store=store).attach(registry)
        await call(registry, "put")
        left = await standing(store)

    assert len(attempts) == 2
    assert sum("INSERT INTO trio_fences" in sql for sql in breaking.written) == 1
    assert left == []


def all_in_their_bodies(registry: Registry) -> bool:
    return all(call.phase == "body" for call in registry.statistics().calls)


@pytest.mark.rule("TR-9")
async def test_cancelling_everything_still_records_every_call(shared_target: str) -> None:
    with trio.CancelScope() as everything:
        async with open_store(shared_target) as store:
            registry = make_registry()
            RunTrace("r", store=store).attach(registry)
            async with open_call_scope() as scope, trio.open_nursery() as nursery:
                for _ in range(20):
                    nursery.start_soon(
                        registry.execute, ToolCall(name="pay", arguments={"seconds": 1e9}, scope=scope)
                    )
                # A fence stands before its body begins.
                while len(await standing(store)) < 20 or not all_in_their_bodies(registry):
                    pass
                everything.cancel()
    async with open_store(shared_target) as store:
        rows = await store.load("r")

    steps = [structure_step(str(row.payload)) for row in rows.events]
    assert len(steps) == 20
    assert {(step.tool_outcome, step.tool_settlement) for step in steps} == {("cancelled", "cancelled")}
    assert rows.fences == ()


@pytest.mark.rule("TR-11")
async def test_a_terminal_step_that_cannot_be_written_leaves_its_fence_and_is_told(
    breaking: Breaking, caplog: pytest.LogCaptureFixture
) -> None:
    breaking.fail_texts = {'"toolName":"pay"'}
    left: list[str] = []
    results: list[ToolResult] = []

    async def run() -> None:
        async with serving(breaking) as store:
            registry = make_registry()
            RunTrace("r", store=store).attach(registry)
            results.append(await call(registry, "pay", {"seconds": 0.0}))
            results.append(await call(registry, "look"))
            left.extend(await standing(store))
            left.append(str(len((await store.load("r")).events)))

    with pytest.raises(RunStoreError, match="disk full"):
        await run()

    assert [result.outcome for result in results] == [ToolOutcome.OK, ToolOutcome.OK]
    assert left == ["pay", "1"]
    assert [record.levelno for record in caplog.records if record.levelno > logging.INFO] == [logging.ERROR]


@pytest.mark.rule("TR-10")
async def test_a_second_trace_of_a_run_starts_no_write(target: str) -> None:
    results: list[ToolResult] = []

    async def run() -> None:
        async with open_store(target) as store:
            first, second = make_registry(), make_registry()
            RunTrace("r", store=store).attach(first)
            await store.flush()
            RunTrace("r", store=store).attach(second)
            results.append(await call(first, "pay", {"seconds": 0.0}))
            results.append(await call(second, "pay", {"seconds": 0.0}))

    with pytest.raises(RunStoreError, match="there is a run 'r' already"):
        await run()

    assert [result.code for result in results] == [None, "POLICY_ERROR"]


@pytest.mark.rule("TR-12")
@pytest.mark.parametrize("level", PrivacyLevel)
async def test_the_store_holds_what_its_level_of_privacy_allows(level: PrivacyLevel, tmp_path: Path) -> None:
    marker = "tr0mb0ne password=hunter2"
    async with open_store(tmp_path / "runs.db") as store:
        registry = Registry()

        @registry.tool
        async def echo(text: str) -> str:
            return text

        trace = RunTrace("r", store=store, privacy=level)
        trace.attach(registry)
        await call(registry, "echo", {"text": marker})
        trace.record(RunStep(kind="llm", content=marker, raw={"x": [marker]}))
    bytes_on_disk = everything_in(tmp_path)

    assert (b"tr0mb0ne" in bytes_on_disk) is (level in {"redacted", "full"})
    assert (b"hunter2" in bytes_on_disk) is (level == "full")
    assert b'"toolOutcome":"ok"' in bytes_on_disk
    assert trace.steps[0].tool_result == marker


@pytest.mark.rule("TR-13")
async def test_broken_text_is_stored_with_visible_substitutes(target: str) -> None:
    async with open_store(target) as store:
        registry = Registry()

        @registry.tool
        async def echo() -> str:
            return "a\ud800b\0"

        trace = RunTrace("r\ud800", store=store, privacy=PrivacyLevel.FULL)
        trace.attach(registry)
        await call(registry, "echo", call_id="c\0\udfff")
        rows = await store.load("r\ud800")

    assert structure_step(str(rows.events[0].payload)).tool_result == "a\N{REPLACEMENT CHARACTER}b\0"
    assert rows.events[0].span.call_id == "c\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}"


async def test_a_row_knows_where_its_call_stood(autojump_clock: object) -> None:
    async with open_store(":memory:") as store:
        registry = make_registry()
        layer = registry.layer("inner")
        RunTrace("r", store=store).attach(registry)
        async with open_call_scope(timeout=9) as scope:
            await layer.execute(ToolCall(name="look", arguments={}, scope=scope, call_id="first"))
            await trio.sleep(2)
            await layer.execute(ToolCall(name="nest", arguments={}, scope=scope, call_id="outer"))
        rows = await store.load("r")

    first, inner, outer = (row.span for row in rows.events)
    assert (outer.call_id, outer.parent_call_id, outer.layer, outer.effect) == (
        "outer",
        None,
        "inner",
        "read_only",
    )
    assert (inner.parent_call_id, inner.layer) == ("outer", "inner")
    assert (first.began_ms, first.ended_ms, first.deadline_ms) == (0, 0, 9000)
    assert (outer.began_ms, outer.ended_ms, outer.deadline_ms) == (2000, 3000, 9000)


async def test_an_ask_from_outside_cancels_the_scopes_of_the_run(autojump_clock: object) -> None:
    async with open_store(":memory:") as store:
        registry = make_registry()
        trace = RunTrace("r", store=store)
        trace.attach(registry)
        results: list[ToolResult] = []
        async with open_call_scope(name="nightly") as scope, open_call_scope() as other:
            trace.cancel_on_request(scope)
            trace.cancel_on_request(other).close()

            async def run() -> None:
                results.append(
                    await registry.execute(ToolCall(name="look", arguments={"seconds": 60.0}, scope=scope))
                )

            async with trio.open_nursery() as nursery:
                nursery.start_soon(run)
                await trio.sleep(5.5)
                asked = trio.current_time()
                assert await store.request_cancel("r")
            noticed_after = trio.current_time() - asked

        assert not other.cancel_called

    assert results[0].outcome is ToolOutcome.CANCELLED
    assert results[0].cause is not None
    assert (results[0].cause.kind, results[0].cause.name) == ("caller", "nightly")
    assert results[0].cause.reason == "requested through the store"
    assert noticed_after <= 1


@pytest.mark.rule("OU-6")
async def test_recording_logs_no_content(breaking: Breaking, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    breaking.fail_texts = {'"toolName":"echo"'}

    async def run() -> None:
        async with serving(breaking) as store:
            registry = Registry()

            @registry.tool(effect=Effect.READ_ONLY)
            async def echo(text: str) -> str:
                return text

            trace = RunTrace("r", store=store, privacy=PrivacyLevel.FULL)
            trace.attach(registry)
            await call(registry, "echo", {"text": "MARKER"})

    with pytest.raises(RunStoreError) as raised:
        await run()

    assert "MARKER" not in caplog.text
    assert "MARKER" not in str(raised.value)


def test_a_step_may_be_recorded_where_no_loop_runs() -> None:
    rows: list[Any] = []

    async def main() -> None:
        async with open_store(":memory:") as store:
            traces.append(RunTrace("r", store=store))
            rows.extend((await store.load("r")).events)

    traces: list[RunTrace] = []
    trio.run(main)
    traces[0].record(RunStep(kind="llm", content="late"))

    assert [step.content for step in traces[0].steps] == ["late"]
    assert rows == []


@pytest.mark.rule("TR-6")
async def test_a_call_that_is_cancelled_already_gets_no_fence(breaking: Breaking) -> None:
    async def cancel(execution: DispatchExecution, proceed: Any) -> ToolResult:
        scopes[0].cancel()
        return await proceed(execution)

    scopes: list[Any] = []
    async with serving(breaking) as store:
        registry = make_registry()
        registry.wrap(cancel)
        RunTrace("r", store=store).attach(registry)
        async with open_call_scope() as scope:
            scopes.append(scope)
            result = await registry.execute(ToolCall(name="pay", arguments={"seconds": 0.0}, scope=scope))
        await store.flush()

    assert result.code == "ABORTED_BEFORE_DISPATCH"
    assert not [sql for sql in breaking.written if "INSERT INTO trio_fences" in sql]


async def test_a_trace_tells_what_is_under_way_and_how_far_it_is(autojump_clock: MockClock) -> None:
    registry, trace = Registry(), RunTrace("run")

    @registry.tool
    async def work(ctx: ToolContext) -> str:
        await trio.sleep(1)
        ctx.progress(1, 2, "half of it")
        await trio.sleep(2)
        return "done"

    trace.attach(registry)
    seen: list[tuple[float, list[tuple[str, float | None, str | None]]]] = []

    async def look() -> None:
        for _ in range(3):
            await trio.sleep(0.75)
            calls = [
                (each.tool, each.started_at, each.progress and each.progress.message)
                for each in trace.under_way
            ]
            seen.append((trio.current_time(), calls))

    async with open_call_scope() as scope, trio.open_nursery() as nursery:
        nursery.start_soon(look)
        await registry.execute(ToolCall(name="work", arguments={}, scope=scope))

    half = [("work", 0.0, "half of it")]
    assert seen == [(0.75, [("work", 0.0, None)]), (1.5, half), (2.25, half)]
    assert trace.under_way == ()
