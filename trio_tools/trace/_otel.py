"""Spans and metrics of tool calls, for OpenTelemetry (extra ``otel``).

A span follows the GenAI conventions for the execution of a tool. It begins before the call is dispatched,
is current within the body, and ends when the result is published, so none is open once a call is quiescent.
It says of a call what a step says, and carries no content.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final, final

import trio
from attrs import define

from trio_tools import (
    DispatchExecution,
    ExecutionToken,
    Layer,
    Registration,
    ToolExecution,
    ToolOutcome,
    ToolResult,
)

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider

__all__ = ["instrument"]

_logger: Final = logging.getLogger("trio_tools")

_SCOPE: Final = "trio_tools"
# What the conventions say instead of a name that anybody can make up.
_OTHER: Final = "_OTHER"


def instrument(
    layer: Layer,
    *,
    tracer_provider: "TracerProvider | None" = None,
    meter_provider: "MeterProvider | None" = None,
) -> Registration:
    """Make a span and metrics of every call that is executed through a layer or one below it.

    The span is named ``execute_tool NAME`` and has the attributes ``gen_ai.operation.name``,
    ``gen_ai.tool.name``, ``gen_ai.tool.type``, ``gen_ai.tool.call.id``, ``trio_tools.outcome``,
    ``trio_tools.settlement``, ``trio_tools.layer`` and, where they apply, ``trio_tools.code``,
    ``trio_tools.effect``, ``trio_tools.cause.kind`` and ``trio_tools.cause.name``. Its status is ERROR,
    with ``error.type``, only if the call failed: a cancelled call is no error. A nested call's span stands
    under that of the call around it.

    The metrics are ``trio_tools.calls`` (by tool and outcome), ``trio_tools.call.duration`` (seconds, from
    first invocation to last settlement), ``trio_tools.calls.in_flight`` (dispatched and not published) and
    ``trio_tools.cancel.quiescence`` (seconds from what cancelled a call to its publication).

    Args:
        layer: register it before the wrappers that it is to surround.
        tracer_provider: the global one by default.
        meter_provider: the global one by default.

    Returns:
        A registration that stops it; spans of calls under way are ended when their wrappers are left.

    Raises:
        ImportError: the extra ``otel`` is not installed.
    """
    from opentelemetry import metrics, trace

    tracer = trace.get_tracer(_SCOPE, tracer_provider=tracer_provider)
    meter = metrics.get_meter(_SCOPE, meter_provider=meter_provider)
    return _Instrumentation(
        start=tracer.start_span,
        calls=meter.create_counter("trio_tools.calls", "{call}", "Calls that were published").add,
        duration=meter.create_histogram(
            "trio_tools.call.duration", "s", "From first invocation to last settlement"
        ).record,
        in_flight=meter.create_up_down_counter(
            "trio_tools.calls.in_flight", "{call}", "Calls that were dispatched and are not published"
        ).add,
        quiescence=meter.create_histogram(
            "trio_tools.cancel.quiescence", "s", "From what cancelled a call to its publication"
        ).record,
    ).attach(layer)


@final
@define(eq=False, kw_only=True)
class _OpenSpan:
    span: "Span"
    labels: Mapping[str, str]


@final
class _Instrumentation:
    def __init__(
        self,
        *,
        start: "Callable[..., Span]",
        calls: Callable[..., None],
        duration: Callable[..., None],
        in_flight: Callable[..., None],
        quiescence: Callable[..., None],
    ) -> None:
        self._start: Final = start
        self._calls: Final = calls
        self._duration: Final = duration
        self._in_flight: Final = in_flight
        self._quiescence: Final = quiescence
        self._open: Final[dict[ExecutionToken, _OpenSpan]] = {}
        self._attached = True

    def attach(self, layer: Layer) -> Registration:
        wrapper = layer.wrap(self._wrap)
        observer = layer.observe(self._observe)

        def detach() -> None:
            self._attached = False
            wrapper.close()
            observer.close()

        return Registration(detach)

    async def _wrap(
        self,
        execution: DispatchExecution,
        proceed: Callable[[DispatchExecution], Awaitable[ToolResult]],
    ) -> ToolResult:
        from opentelemetry import context, trace

        opened = self._begin(execution)
        token = None if opened is None else context.attach(trace.set_span_in_context(opened.span))
        try:
            return await proceed(execution)
        finally:
            if token is not None:
                context.detach(token)
            if opened is not None and not self._attached and self._open.pop(execution.token, None):
                self._in_flight(-1, opened.labels)
                opened.span.end()

    def _begin(self, execution: DispatchExecution) -> _OpenSpan | None:
        if execution.token in self._open:
            # A wrapper further out delegates again: one call, one span.
            return None
        try:
            labels = {"gen_ai.tool.name": execution.name if execution.tool else _OTHER}
            opened = _OpenSpan(span=self._span(execution), labels=labels)
            self._in_flight(1, labels)
        except Exception as error:
            # Whatever an exporter does wrong, the call goes on.
            _logger.log(logging.ERROR, "call %s: no span could be begun", execution.call_id, exc_info=error)
            return None
        self._open[execution.token] = opened
        return opened

    def _span(self, execution: DispatchExecution | ToolExecution) -> "Span":
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": execution.name,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": execution.call_id,
            "trio_tools.layer": execution.layer.name,
        }
        if execution.tool is not None:
            attributes["trio_tools.effect"] = str(execution.tool.effect)
        return self._start(f"execute_tool {execution.name}", attributes=attributes)

    def _observe(self, execution: ToolExecution, result: ToolResult) -> None:
        opened = self._open.pop(execution.token, None)
        if opened is None:
            # Denied, refused, or cancelled before it was dispatched: a span of no length, but a span.
            labels = {"gen_ai.tool.name": execution.name if execution.tool else _OTHER}
            opened = _OpenSpan(span=self._span(execution), labels=labels)
        else:
            self._in_flight(-1, opened.labels)
        span = opened.span
        try:
            self._describe(span, result)
        finally:
            span.end()
        labels = {**opened.labels, "trio_tools.outcome": str(result.outcome)}
        self._calls(1, labels)
        started, settled = execution.started_at, execution.settled_at
        if started is not None and settled is not None:
            self._duration(max(0.0, settled - started), labels)
        if result.outcome is ToolOutcome.CANCELLED and result.cause is not None:
            waited = max(0.0, trio.current_time() - result.cause.at)
            self._quiescence(waited, {**opened.labels, "trio_tools.cause.kind": str(result.cause.kind)})

    def _describe(self, span: "Span", result: ToolResult) -> None:
        from opentelemetry.trace import Status, StatusCode

        span.set_attribute("trio_tools.outcome", str(result.outcome))
        span.set_attribute("trio_tools.settlement", str(result.settlement))
        if result.code is not None:
            span.set_attribute("trio_tools.code", result.code)
        if result.cause is not None:
            span.set_attribute("trio_tools.cause.kind", str(result.cause.kind))
            span.set_attribute("trio_tools.cause.name", result.cause.name)
        if result.outcome is ToolOutcome.FAILED:
            span.set_attribute("error.type", result.code or "")
            # The code, never the message: that may be content.
            span.set_status(Status(StatusCode.ERROR, result.code))
