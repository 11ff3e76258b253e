"""Spans and metrics: one span a call, ended when it is published, an error only if the call failed."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
import trio
from attrs import define
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from trio_tools import (
    Deny,
    DispatchExecution,
    Effect,
    Registration,
    Registry,
    ToolCall,
    ToolContext,
    ToolError,
    ToolExecution,
    ToolResult,
    open_call_scope,
)
from trio_tools.trace import instrument


@define
class Telemetry:
    """A registry whose calls are instrumented, and what came out."""

    registry: Registry
    registration: Registration
    exporter: InMemorySpanExporter
    reader: InMemoryMetricReader
    names_in_bodies: list[str]

    def spans(self) -> dict[str, ReadableSpan]:
        return {span.name: span for span in self.exporter.get_finished_spans()}

    def metric(self, name: str) -> list[tuple[dict[str, Any], Any]]:
        data = self.reader.get_metrics_data()
        if data is None:
            return []
        return [
            (
                dict(point.attributes or {}),
                getattr(point, "value", None) if hasattr(point, "value") else point,
            )
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    meters = MeterProvider([reader])
    registry = Registry()
    registration = instrument(registry, tracer_provider=tracers, meter_provider=meters)
    names: list[str] = []

    def note() -> None:
        names.append(getattr(trace.get_current_span(), "name", ""))

    @registry.tool(effect=Effect.READ_ONLY)
    async def look(seconds: float = 0.0) -> str:
        note()
        await trio.sleep(seconds)
        return "MARKER"

    @registry.tool
    async def nest(ctx: ToolContext) -> str:
        note()
        return (await ctx.call("look", {})).text

    @registry.tool
    async def refuse() -> str:
        raise ToolError("MARKER", code="NO")

    @registry.tool
    def threaded() -> str:
        note()
        return "x"

    yield Telemetry(registry, registration, exporter, reader, names)
    tracers.shutdown()
    meters.shutdown()


async def call(telemetry: Telemetry, name: str, arguments: Any = None, **options: Any) -> ToolResult:
    async with open_call_scope(name="nightly") as scope:
        return await telemetry.registry.execute(
            ToolCall(name=name, arguments=arguments or {}, scope=scope, **options)
        )


async def test_a_span_says_what_became_of_the_call(telemetry: Telemetry) -> None:
    await call(telemetry, "look", call_id="c1")
    (span,) = telemetry.exporter.get_finished_spans()

    assert span.name == "execute_tool look"
    assert span.status.status_code is trace.StatusCode.UNSET
    assert dict(span.attributes or {}) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "look",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "c1",
        "trio_tools.layer": "root",
        "trio_tools.effect": "read_only",
        "trio_tools.outcome": "ok",
        "trio_tools.settlement": "returned",
    }


async def test_only_a_failed_call_is_an_error(telemetry: Telemetry, autojump_clock: object) -> None:
    await call(telemetry, "refuse")
    await call(telemetry, "nothing_like_it")
    async with open_call_scope(name="nightly", timeout=1) as scope:
        await telemetry.registry.execute(ToolCall(name="look", arguments={"seconds": 9.0}, scope=scope))
    spans = telemetry.spans()

    failed = spans["execute_tool refuse"]
    assert failed.status.status_code is trace.StatusCode.ERROR
    assert (failed.attributes or {})["error.type"] == failed.status.description == "NO"
    assert spans["execute_tool nothing_like_it"].status.status_code is trace.StatusCode.ERROR
    cancelled = spans["execute_tool look"]
    assert cancelled.status.status_code is trace.StatusCode.UNSET
    attributes = cancelled.attributes or {}
    assert [attributes[f"trio_tools.{name}"] for name in ("outcome", "code", "cause.kind", "cause.name")] == [
        "cancelled",
        "ABORTED",
        "deadline",
        "nightly",
    ]
    assert "error.type" not in attributes


async def test_the_span_is_current_in_the_body_and_nested_calls_stand_under_it(telemetry: Telemetry) -> None:
    await call(telemetry, "nest")
    await call(telemetry, "threaded")
    spans = telemetry.spans()

    outer, inner = spans["execute_tool nest"], spans["execute_tool look"]
    assert inner.parent is not None
    assert outer.context is not None
    assert inner.parent.span_id == outer.context.span_id
    assert telemetry.names_in_bodies == ["execute_tool nest", "execute_tool look", "execute_tool threaded"]
    assert not trace.get_current_span().get_span_context().is_valid


async def test_a_call_that_never_came_to_dispatch_has_a_span_too(telemetry: Telemetry) -> None:
    async def gate(execution: ToolExecution, proceed: Any) -> Any:
        return Deny("MARKER")

    telemetry.registry.gate(gate)
    await call(telemetry, "look")
    (span,) = telemetry.exporter.get_finished_spans()

    assert (span.attributes or {})["trio_tools.code"] == "DENIED"
    assert (span.attributes or {})["trio_tools.settlement"] == "not_dispatched"


async def test_no_span_is_open_once_everything_was_cancelled(
    telemetry: Telemetry, autojump_clock: object
) -> None:
    async with open_call_scope() as scope, trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(
                telemetry.registry.execute, ToolCall(name="look", arguments={"seconds": 99.0}, scope=scope)
            )
        await trio.sleep(1)
        assert telemetry.metric("trio_tools.calls.in_flight")[0][1] == 20
        scope.cancel()

    assert len(telemetry.exporter.get_finished_spans()) == 20
    assert telemetry.metric("trio_tools.calls.in_flight")[0][1] == 0


async def test_metrics_count_by_tool_and_outcome_and_time_what_took_time(
    telemetry: Telemetry, autojump_clock: object
) -> None:
    await call(telemetry, "look", {"seconds": 2.0})
    await call(telemetry, "refuse")
    await call(telemetry, "somebody_made_this_up")
    async with open_call_scope(name="nightly", timeout=1) as scope:
        await telemetry.registry.execute(ToolCall(name="look", arguments={"seconds": 9.0}, scope=scope))
    counted = {
        (labels["gen_ai.tool.name"], labels["trio_tools.outcome"]): value
        for labels, value in telemetry.metric("trio_tools.calls")
    }
    durations = {
        labels["trio_tools.outcome"]: point.sum
        for labels, point in telemetry.metric("trio_tools.call.duration")
    }
    ((labels, waited),) = telemetry.metric("trio_tools.cancel.quiescence")

    assert counted == {
        ("look", "ok"): 1,
        ("refuse", "failed"): 1,
        ("_OTHER", "failed"): 1,
        ("look", "cancelled"): 1,
    }
    assert durations["ok"] == pytest.approx(2)
    assert durations["cancelled"] == pytest.approx(1)
    assert labels == {"gen_ai.tool.name": "look", "trio_tools.cause.kind": "deadline"}
    assert (waited.count, waited.sum) == (1, 0)


async def test_a_call_that_is_tried_again_has_one_span(telemetry: Telemetry) -> None:
    registry = Registry()
    exporter = InMemorySpanExporter()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))

    async def twice(execution: DispatchExecution, proceed: Any) -> ToolResult:
        await proceed(execution)
        return await proceed(execution)

    registry.wrap(twice)
    instrument(registry, tracer_provider=tracers)

    @registry.tool
    async def act() -> int:
        return 1

    async with open_call_scope() as scope:
        await registry.execute(ToolCall(name="act", arguments={}, scope=scope))

    assert len(exporter.get_finished_spans()) == 1


async def test_stopping_ends_the_spans_of_calls_under_way(
    telemetry: Telemetry, autojump_clock: object
) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(call, telemetry, "look", {"seconds": 5.0})
        await trio.sleep(1)
        telemetry.registration.close()
    await call(telemetry, "look")

    (span,) = telemetry.exporter.get_finished_spans()
    assert "trio_tools.outcome" not in (span.attributes or {})


async def test_a_provider_that_fails_changes_no_result(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(TracerProvider):
        def get_tracer(self, *arguments: Any, **options: Any) -> Any:
            class Tracer:
                def start_span(self, *arguments: Any, **options: Any) -> Any:
                    raise OSError("no exporter")

            return Tracer()

    registry = Registry()
    instrument(registry, tracer_provider=Broken())

    @registry.tool
    async def act() -> int:
        return 1

    async with open_call_scope() as scope:
        result = await registry.execute(ToolCall(name="act", arguments={}, scope=scope))

    assert result.value == 1
    assert "no span could be begun" in caplog.text


@pytest.mark.rule("OU-6")
async def test_no_content_reaches_a_span(telemetry: Telemetry, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    await call(telemetry, "nest")
    await call(telemetry, "refuse")

    for span in telemetry.exporter.get_finished_spans():
        assert "MARKER" not in span.to_json()
