"""Carries a call program out on the real runtime, and takes down what can be seen from outside.

Everything happens in one `trio.run` under a virtual clock. The runtime is used through its public
face alone. The scripts are carried out by functions of this module; what they see is compared with
the model elsewhere, what must hold for any program is checked here: one publication for each
admitted call, the returned object is the observed one, no step of a body after its publication,
nothing in flight at the end.
"""

import logging
import math
from contextlib import AsyncExitStack
from contextvars import ContextVar
from functools import lru_cache
from typing import cast, final

import trio
import trio.testing
from attrs import define, field, frozen

from trio_tools import (
    BatchPolicy,
    ExecutionToken,
    Layer,
    Registry,
    Tool,
    ToolCall,
    ToolContext,
    ToolExecution,
    ToolResult,
    open_call_scope,
)

from . import _call_hooks as hooks
from . import _call_program as p
from ._call_act import Actor, Bound, Uncoded, error_of, nowhere
from ._call_tables import Published, Trace
from ._call_time import Cause
from ._schedule import seeded_schedule

__all__ = ["Observation", "observe"]

_logger = logging.getLogger("trio_tools")

HORIZON = 100_000
"""The virtual time at which a run is given up as stuck."""


@final
@frozen
class Observation:
    """What a run of a program has shown.

    Attributes:
        trace: results in order of publication and the ends of the calls.
        faults: what no program may show, in words; empty when all is well.
    """

    trace: Trace
    faults: tuple[str, ...]


def observe(program: p.CallProgram, *, schedule: int = 0) -> Observation:
    """Carry ``program`` out on trio under a virtual clock and return what it shows.

    Starts a trio run of its own, so it cannot be called from within one. ``schedule`` seeds the order
    in which trio runs the tasks of one pass, so that a run can be repeated.
    """
    # Most programs misbehave on purpose; what the runtime logs about them says nothing new.
    disabled, _logger.disabled = _logger.disabled, True
    clock = trio.testing.MockClock(autojump_threshold=0)
    play = _Play(Actor(program, clock))
    try:
        with seeded_schedule(schedule):
            trio.run(play.main, clock=clock)
    except BaseException as error:
        if BaseExceptionGroup("", [error]).subgroup(KeyboardInterrupt) is not None:
            raise KeyboardInterrupt from error
        play.faults.append(f"the run ended with {error!r}")
    finally:
        _logger.disabled = disabled
    play.check()
    ends = tuple(sorted(play.ends))
    return Observation(Trace(tuple(play.published), ends), tuple(play.faults))


@final
class _Returned(Exception):  # noqa: N818
    """A `Return` ends a body from wherever it stands."""

    def __init__(self, *, valid: bool) -> None:
        super().__init__(valid)
        self.valid = valid


@final
@define(eq=False)
class _Play:
    actor: Actor
    published: list[Published] = field(factory=list[Published])
    results: dict[str, list[ToolResult]] = field(factory=dict[str, list[ToolResult]])
    ends: list[tuple[str, str]] = field(factory=list[tuple[str, str]])
    faults: list[str] = field(factory=list[str])
    paths: dict[ExecutionToken, str] = field(factory=dict[ExecutionToken, str])
    done: set[ExecutionToken] = field(factory=set[ExecutionToken])
    scripts: dict[tuple[int, str], p.ToolScript] = field(init=False)

    # The run.

    async def main(self) -> None:
        _PLAY.set(self)
        self.build()
        with trio.fail_after(HORIZON):
            async with trio.open_nursery() as nursery:
                for cancel in self.actor.program.cancels:
                    if isinstance(cancel, p.CancelAt):
                        nursery.start_soon(self.request, cancel)
                for event in self.actor.program.events:
                    nursery.start_soon(self.happen, event)
                await self.calls()
                nursery.cancel_scope.cancel()

    async def request(self, cancel: p.CancelAt) -> None:
        await trio.sleep_until(cancel.at)
        self.actor.cancel(cancel.target)

    async def happen(self, event: p.At) -> None:
        await trio.sleep_until(event.at)
        self.actor.act(event.action)

    async def calls(self) -> None:
        program, ambients = self.actor.program, self.actor.ambients
        async with AsyncExitStack() as stack:
            if program.outer is not None:
                ambients["outer"] = stack.enter_context(trio.CancelScope(deadline=program.outer.timeout))
            for spec in program.scopes:
                if spec.parent is None:
                    opened = open_call_scope(name=spec.name, timeout=spec.timeout)
                else:
                    opened = self.actor.scopes[spec.parent].open_child(name=spec.name, timeout=spec.timeout)
                self.actor.scopes.append(await stack.enter_async_context(opened))
            if program.inner is not None:
                ambients["inner"] = stack.enter_context(trio.CancelScope(deadline=program.inner.timeout))
            await self.execute()

    async def execute(self) -> None:
        program = self.actor.program
        calls = [
            ToolCall(
                name=spec.tool,
                arguments=_ARGUMENTS[spec.arguments],
                scope=self.actor.scopes[spec.scope],
                call_id=f"c{number}",
            )
            for number, spec in enumerate(program.calls)
        ]
        layers = [self.actor.layers[spec.layer] for spec in program.calls]
        if program.mode == "batch":
            policy = BatchPolicy.FAIL_FAST if program.fail_fast else BatchPolicy.COLLECT
            try:
                results = await self.actor.layers[program.calls[0].layer].execute_batch(
                    calls, max_parallel=program.max_parallel, on_failure=policy
                )
            except trio.Cancelled:
                self.ends.append(("batch", "raised"))
                raise
            self.ends.append(("batch", "returned"))
            if len(results) != len(calls):
                self.faults.append("a batch returns one result for each call (BA-1)")
            for call, result in zip(calls, results, strict=False):
                self.returned(call.call_id, result)
        elif program.mode == "together":
            async with trio.open_nursery() as nursery:
                for call, layer in zip(calls, layers, strict=True):
                    nursery.start_soon(self.together, call, layer)
        else:
            for call, layer in zip(calls, layers, strict=True):
                await self.one(call, layer)

    async def one(self, call: ToolCall, layer: Layer) -> None:
        try:
            result = await layer.execute(call)
        except trio.Cancelled:
            self.ends.append((call.call_id, "raised"))
            raise
        self.ends.append((call.call_id, "returned"))
        self.returned(call.call_id, result)

    async def together(self, call: ToolCall, layer: Layer) -> None:
        try:
            await self.one(call, layer)
        except trio.Cancelled:
            # Let out, it would cancel the other calls through their nursery.
            return

    def returned(self, path: str, result: ToolResult) -> None:
        if not any(result is seen for seen in self.results.get(path, ())):
            self.faults.append(f"{path}: the object returned is not the object observed (PU-4)")

    def check(self) -> None:
        for path, _ in self.ends:
            paths = [f"c{n}" for n in range(len(self.actor.program.calls))] if path == "batch" else [path]
            for each in paths:
                count = len(self.results.get(each, ()))
                if count != 1:
                    self.faults.append(f"{each}: published {count} times (PU-5)")

    # Registry and hooks.

    def build(self) -> None:
        actor, program = self.actor, self.actor.program
        registry = Registry(
            approver=None if program.approver is None else hooks.approver(self.actor, program.approver)
        )
        layers: list[Layer] = [registry]
        while len(layers) < program.layers:
            layers.append(layers[-1].layer(f"layer {len(layers)}"))
        actor.layers, actor.restrictions = layers, [[] for _ in layers]
        self.scripts = {(tool.layer, tool.name): tool for tool in program.tools}
        actor.tools = {
            key: _tool(*key, tool.timeout, tool.parallel, tool.finalizer is not None)
            for key, tool in self.scripts.items()
        }
        for key, tool in self.scripts.items():
            if not tool.hidden:
                actor.register(key)
        for restriction in program.restrictions:
            actor.act(restriction)
        for gate in program.gates:
            layers[gate.layer].gate(hooks.gate(actor, gate))
        for guard in program.guards:
            layers[guard.layer].guard(hooks.guard(actor, guard))
        for wrapper in program.wrappers:
            layers[wrapper.layer].wrap(hooks.wrapper(actor, wrapper))
        for reviewer in program.reviewers:
            layers[reviewer.layer].review(hooks.reviewer(actor, reviewer))
        registry.observe(self.observed)
        for observer in program.observers:
            layers[observer.layer].observe(hooks.observer(actor, observer))

    def path(self, execution: ToolExecution | ToolContext) -> str:
        if execution.parent is None:
            return execution.call_id
        return f"{self.paths[execution.parent]}/{execution.name}"

    def observed(self, execution: ToolExecution, result: ToolResult) -> None:
        path = self.path(execution)
        if execution.token in self.done:
            self.faults.append(f"{path}: published twice (PU-5)")
        self.done.add(execution.token)
        self.results.setdefault(path, []).append(result)
        cause = result.cause
        self.published.append(
            Published(
                path,
                str(result.outcome),
                result.code,
                str(result.settlement),
                None if cause is None else Cause(str(cause.kind), cause.name, cause.at, cause.at),
                tuple(str(context) for context in result.contexts),
                result.concludes,
            )
        )

    # Bodies.

    async def body(self, layer: int, ctx: ToolContext) -> int:
        self.paths[ctx.token] = self.path(ctx)
        try:
            await self.actor.carry_out(self.scripts[layer, ctx.name].body, self.in_body(ctx))
        except _Returned as end:
            return 1 if end.valid else cast("int", "bad")
        return 0

    def in_body(self, ctx: ToolContext) -> Bound:
        async def bound(action: p.Action) -> None:
            if ctx.token in self.done:
                self.faults.append(f"{self.paths[ctx.token]}: a step after publication (BO-4)")
            match action:
                case p.Spawn(script):
                    ctx.nursery.start_soon(self.actor.carry_out, script, bound)
                case p.CancelNursery():
                    ctx.nursery.cancel_scope.cancel()
                case p.LeaveOpen():
                    trio.CancelScope().__enter__()
                case p.Defer(text):
                    ctx.defer_context(text)
                case p.Conclude():
                    ctx.conclude()
                case p.FailGroup(codes, cancelled):
                    leaves: list[BaseException] = [error_of(code) for code in codes]
                    raise BaseExceptionGroup("several", [*leaves, self.actor.stray] if cancelled else leaves)
                case p.Return(valid):
                    raise _Returned(valid=valid)
                case p.Nested(tool, arguments, strict):
                    result = await ctx.call(tool, _ARGUMENTS[arguments])
                    if strict and result.is_error:
                        raise Uncoded(result.text)
                case _:
                    await nowhere(action)

        return bound

    def finalize(self, layer: int, execution: ToolExecution) -> object:
        script = self.scripts[layer, execution.name].finalizer
        assert script is not None
        self.actor.at_once(script.script)
        match script.answer:
            case "keep":
                return None
            case "replace":
                return "replaced"
            case "malformed":
                return 7
            case "coroutine":
                return _nothing()


async def _nothing() -> None:
    """Do nothing; a finalizer that is declared ``async`` by mistake returns such a thing."""


_PLAY: ContextVar[_Play] = ContextVar("the run that a scripted tool belongs to")

_ARGUMENTS: dict[str, object] = {"fine": {"n": 1}, "invalid": {"n": "one"}, "lossy": {"n": math.nan}}


@lru_cache(maxsize=4096)
def _tool(layer: int, name: str, timeout: int | None, parallel: bool, finalized: bool) -> Tool:
    async def scripted(n: int, *, ctx: ToolContext) -> int:  # noqa: ARG001
        """Carry out the script of this tool in the run that is under way."""
        return await _PLAY.get().body(layer, ctx)

    def finalize(execution: ToolExecution, _result: ToolResult) -> object:
        return _PLAY.get().finalize(layer, execution)

    return Tool.from_function(
        scripted,
        name=name,
        timeout=timeout,
        concurrency_safe=parallel,
        finalize=finalize if finalized else None,
    )
