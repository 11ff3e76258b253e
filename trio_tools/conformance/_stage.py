"""Where a tool is called: a real registry, by every route that a call can take."""

import math
import re
import sys
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import nullcontext
from types import FrameType
from typing import Any, Final, cast, final

import trio
from attrs import evolve

from trio_tools import (
    Accept,
    Allow,
    CallScope,
    DispatchExecution,
    Registry,
    Tool,
    ToolCall,
    ToolContext,
    ToolExecution,
    ToolResult,
    open_call_scope,
)

from ._case import Way
from ._observation import Ending
from ._probe import TOKEN, Probe
from ._site import is_foreign

__all__ = ["ROUTES", "Call", "Stage"]

ROUTES: Final = ("execute", "execute", "batch", "nested", "layer", "hooks")
"""The routes: alone, in a batch, from another tool's body, through a child layer, past neutral hooks.

Alone comes twice, so that what is another one each time, such as a random number, is known.
"""


class _SiblingError(Exception):
    """What the sibling of a call fails with."""


@final
class Call:
    """One call that can be cancelled from outside, each way at most once.

    Args:
        enclosed: whether it can be shut down, though that is not its way of being cancelled. A scope around
            a call costs as much as a tenth of what the call itself does, and most are not.

    Attributes:
        stage: where it is made.
        ending: how it ended, None while it has not.
    """

    def __init__(self, stage: "Stage", arguments: object, way: Way, *, enclosed: bool = False) -> None:
        self.stage: Final = stage
        self.arguments: Final = arguments
        self.way: Final = way
        self.ending: Ending | None = None
        self._scope: CallScope | None = None
        self._ambient: Final = trio.CancelScope() if enclosed or way is Way.SHUTDOWN else None
        self._sibling: trio.Event | None = None

    def cancel(self) -> None:
        """Cancel the call the way it is meant to be cancelled; any moment after `run` began."""
        scope = self._scope
        if scope is None or self.way is Way.SHUTDOWN:
            self.shut_down()
        elif self.way is Way.CALLER:
            scope.cancel(TOKEN)
        elif self.way is Way.DEADLINE:
            scope.deadline = trio.current_time()
        elif self.way is Way.BOTH:
            scope.deadline = trio.current_time()
            scope.cancel(TOKEN)
        elif self._sibling is not None:
            self._sibling.set()

    def cancel_again(self) -> None:
        """Cancel the call another way than it was cancelled: from outside, or else by its caller."""
        if self.way is Way.SHUTDOWN and self._scope is not None:
            self._scope.cancel(TOKEN)
        else:
            self.shut_down()

    def shut_down(self) -> None:
        """Cancel the trio scope that surrounds everything."""
        assert self._ambient is not None
        self._ambient.cancel(reason=TOKEN)

    async def run(self, *, route: str = "execute", first: Callable[[], None] | None = None) -> None:
        """Make the call and wait for its end.

        Args:
            first: called when everything is in place, right before the call is executed.
        """
        try:
            with self._ambient or nullcontext():
                if self.way is not Way.SIBLING:
                    await self._run(route, first)
                else:
                    self._sibling = trio.Event()
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(_fail_after, self._sibling, name=TOKEN)
                        await self._run(route, first)
                        nursery.cancel_scope.cancel()
        except* _SiblingError:
            pass
        if self.ending is None:
            self.ending = Ending(outcome="interrupted")

    async def _run(self, route: str, first: Callable[[], None] | None) -> None:
        async with open_call_scope(name="caller") as self._scope:
            if first is not None:
                first()
            await self.stage.execute(self.arguments, self._scope, route, self._published)

    def _published(self, result: ToolResult) -> None:
        self.ending = _ending_of(result)


async def _fail_after(event: trio.Event) -> None:
    await event.wait()
    raise _SiblingError


_ADDRESS: Final = re.compile(r"\b0x[0-9a-f]{6,}\b")
"""Where an object lies differs from run to run."""


def _ending_of(result: ToolResult) -> Ending:
    error = result.error
    return Ending(
        outcome=str(result.outcome),
        code=result.code,
        settlement=str(result.settlement),
        value=result.value,
        message=None if error is None else _ADDRESS.sub("0x...", error.message),
        name=None if error is None else error.name,
        cause=None if result.cause is None else str(result.cause.kind),
    )


@final
class Stage:
    """A registry that holds one tool, whose body a probe watches.

    Attributes:
        tool: the tool as it was given.
    """

    def __init__(self, tool: Tool, probe: Probe) -> None:
        self.tool: Final = tool
        self._waiting: dict[str, Callable[[ToolResult], None]] = {}
        self._probe: Final = probe
        watched = evolve(tool, body=_watched(tool, probe))
        self._plain: Final = Registry()
        self._plain.register(watched)
        self._plain.observe(self._observe)
        self._layer: Final = self._plain.layer("conformance")
        self._outer_name: Final = f"{tool.name} from outside"
        self._plain.register(self._enclosing())
        self._hooked: Final = Registry()
        self._hooked.register(watched)
        self._hooked.observe(self._observe)
        self._hooked.gate(_gate)
        self._hooked.guard(_guard)
        self._hooked.wrap(_wrapper)
        self._hooked.review(_reviewer)

    def _observe(self, execution: ToolExecution, result: ToolResult) -> None:
        # A nested call carries the id of the call that was made here as that of its root.
        if execution.name == self.tool.name:
            waiting = self._waiting.pop(execution.root_call_id, None)
            if waiting is not None:
                waiting(result)

    def _enclosing(self) -> Tool:
        name = self.tool.name

        async def body(arguments: object, ctx: ToolContext) -> None:
            await ctx.call(name, arguments)

        return Tool.from_schema(
            name=self._outer_name, description="", parameters=True, output=True, body=body
        )

    async def execute(
        self, arguments: object, scope: CallScope, route: str, published: Callable[[ToolResult], None]
    ) -> None:
        """Execute one call by ``route``; its result is handed to ``published``, even if this raises."""
        name = self._outer_name if route == "nested" else self.tool.name
        call = ToolCall(name=name, arguments=arguments, scope=scope)
        self._waiting[call.call_id] = published
        if route in {"execute", "nested"}:
            await self._plain.execute(call)
        elif route == "batch":
            await self._plain.execute_batch([call])
        elif route == "layer":
            await self._layer.execute(call)
        else:
            await self._hooked.execute(call)


async def _gate(_execution: ToolExecution, proceed: Callable[[], Awaitable[Any]]) -> Any:
    await proceed()
    return Allow()


def _guard(_execution: ToolExecution) -> None:
    return None


async def _wrapper(
    execution: DispatchExecution, proceed: Callable[[DispatchExecution], Awaitable[ToolResult]]
) -> ToolResult:
    return await proceed(execution.with_deadline(math.inf, name="conformance"))


async def _reviewer(
    _execution: ToolExecution, _result: ToolResult, proceed: Callable[[], Awaitable[Any]]
) -> Any:
    await proceed()
    return Accept()


def _watched(tool: Tool, probe: Probe) -> Callable[..., Any]:
    body = tool.body
    if tool.is_async:

        async def watched(*args: Any, **kwargs: Any) -> Any:
            return await probe.watch(cast("Coroutine[Any, Any, Any]", body(*args, **kwargs)))

        return watched

    def watched_in_thread(*args: Any, **kwargs: Any) -> Any:
        with_lines = probe.watch_thread()
        sys.settrace(_line_tracer(with_lines))
        try:
            value = body(*args, **kwargs)
        except BaseException as error:
            probe.thread_ended(error)
            raise
        else:
            probe.thread_ended(None)
            return value
        finally:
            sys.settrace(None)

    return watched_in_thread


def _line_tracer(
    look: Callable[[FrameType, BaseException | None], None],
) -> Callable[[FrameType, str, Any], Any]:
    def local(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            look(frame, None)
        elif event == "exception":
            look(frame, argument[1])
        return local

    def trace(frame: FrameType, _event: str, _argument: Any) -> Any:
        return None if is_foreign(frame.f_code.co_filename) else local

    return trace
