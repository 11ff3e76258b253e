"""Dispatch and body in the model: the questions, the invocation, the settlement (`BO-1` to `BO-12`)."""

from typing import final

from attrs import define, field

from . import _call_program as p
from ._call_bench import BODY, INNER, INVOCATION, OUTER, Bench, Call, Delegation, Slot, nowhere
from ._call_script import Ended, Stage
from ._call_tables import Column, Verdict
from ._call_time import Broke, Cancelled, Cause, Flow, Node, Source

__all__ = ["dispatched"]


def dispatched(bench: Bench, call: Call, added: tuple[Source, ...]) -> Flow[Verdict]:
    """Ask the questions of dispatch (`BO-1`) and run the body to its settlement (`BO-4`)."""
    outside = bench.kernel.current.node
    if call.delegated:
        bench.forget(call, outside)
    first = bench.delegation(call, added, outside)
    bench.marked(call, OUTER if call.delegated else INNER)
    call.delegated = True
    call.settled = None if first is None else first[0]
    tool = bench.visible(call)
    if first is not None:
        if call.row == INNER:
            bench.count(INNER, Column.SUCCESS, first[0].kind)
        verdict = bench.torn(call, first[0])
    elif tool is None:
        verdict = bench.failure(call, "UNKNOWN_TOOL")
    elif call.arguments == "invalid":
        verdict = bench.failure(call, "INVALID_ARGS")
    else:
        began = bench.now
        attempt = yield from _attempted(bench, call, tool, added)
        verdict = _settled(bench, call, attempt, added, began)
    call.settled_at = bench.now
    call.latest = verdict
    return verdict


@final
@define(eq=False)
class Attempt:
    """One attempt to run the body: what came out of the function and its tasks.

    Attributes:
        running: how many of them have not ended; zero settles the attempt (`BO-4`).
        refused: what cancelled it before the invocation.
        returned: whether the function returned, and then whether its value was valid.
        broken: one entry for each exception that is no `Cancelled`: its code, if it has one.
    """

    running: int = 1
    refused: Cause | None = None
    returned: bool | None = None
    left_open: bool = False
    broken: list[str | None] = field(factory=list[str | None])

    def settled(self) -> bool:
        """Whether the function and all tasks have ended."""
        return self.running == 0


def _attempted(bench: Bench, call: Call, tool: p.ToolScript, added: tuple[Source, ...]) -> Flow[Attempt]:
    """Run the body in its own task and nursery, and wait until all of it has ended (`BO-3`)."""
    kernel = bench.kernel
    attempt = Attempt()
    owner = Delegation(call, added, bench.now)
    outside = kernel.current.node
    fused = Node(outside, sources=(call.scope, call.sibling, *added), role="fused", owner=owner)
    helpers = Source("ambient", "ambient")
    nursery = Node(fused, sources=(helpers,), role="nursery")
    body = Body(bench, call, attempt, helpers, nursery)
    kernel.spawn(body.function(tool, added, outside), nursery)
    yield from kernel.until(attempt.settled)
    return attempt


def _settled(bench: Bench, call: Call, attempt: Attempt, added: tuple[Source, ...], began: float) -> Verdict:
    """Classify one settled attempt (`BO-5` to `BO-10`, `CA-15`, `CA-16`, `WR-19`)."""
    if attempt.refused is not None:
        call.settled = attempt.refused
        bench.marked(call, INVOCATION)
        if call.row == INVOCATION:
            bench.count(INVOCATION, Column.SUCCESS, attempt.refused.kind)
        return bench.torn(call, attempt.refused)
    if attempt.broken:
        call.settlement = "raised"
    else:
        call.settlement = "cancelled" if attempt.returned is None else "returned"
    first = bench.delegation(call, added, bench.kernel.current.node, since=began)
    call.settled = None if first is None else first[0]
    caller = bench.caller(call, since=began)
    if call.row is None and caller is not None:
        call.row = BODY
        bench.count(BODY, _column(attempt), caller.kind)
    elif first is None and _column(attempt) is Column.CANCELLED:
        bench.count("CA-21", Column.CANCELLED, "none")
    if attempt.broken:  # BO-7, BO-8, BO-11
        codes = set(attempt.broken)
        code = codes.pop() if len(codes) == 1 else None
        return bench.failure(call, code or "TOOL_ERROR")
    if attempt.left_open:  # BO-10
        return bench.failure(call, "TOOL_ERROR")
    if attempt.returned is False:  # BO-6
        return bench.failure(call, "INVALID_TOOL_OUTPUT")
    if first is not None:  # BO-6, BO-7, CA-4
        return bench.torn(call, first[0])
    if attempt.returned is None:  # BO-9: stray, or stopped by its own cancelling of the nursery
        return bench.failure(call, "TOOL_ERROR")
    return Verdict("ok", None, call.settlement, None, call.contexts(), call.concluded)


def _column(attempt: Attempt) -> Column:
    if attempt.broken:
        return Column.RAISES
    if attempt.left_open or attempt.returned is False:
        return Column.FAILURE
    return Column.CANCELLED if attempt.returned is None else Column.SUCCESS


@final
@define(eq=False)
class Body:
    """The function of one attempt and the tasks that it started."""

    bench: Bench
    call: Call
    attempt: Attempt
    helpers: Source
    nursery: Node

    def function(self, tool: p.ToolScript, added: tuple[Source, ...], outside: Node) -> Flow[None]:
        """Be the body's task: the last check and the invocation are its first step (`BO-2`)."""
        first = self.bench.delegation(self.call, added, outside)
        if first is not None:
            self.attempt.refused = first[0]
            self.attempt.running -= 1
            return
        self.call.invoked = True
        yield from self.task(tool.body, function=True)

    def task(self, script: tuple[p.Action, ...], *, function: bool) -> Flow[None]:
        """Carry out one script to its end; an exception of it cancels the others (`BO-11`)."""
        attempt = self.attempt
        try:
            yield from Stage(self.bench.world, self.bound).carry_out(script)
            if function:
                attempt.returned = True
        except Ended as end:
            if function:
                attempt.returned = end.valid
        except Broke as error:
            attempt.broken.extend(error.codes)
            self.bench.kernel.request(self.helpers)
        except Cancelled:
            self.bench.kernel.request(self.helpers)
        attempt.running -= 1

    def bound(self, action: p.Action) -> Flow[None]:
        """Carry out what only a body can do."""
        call = self.call
        match action:
            case p.Spawn(script):
                self.attempt.running += 1
                self.bench.kernel.spawn(self.task(script, function=False), self.nursery)
            case p.CancelNursery():
                self.bench.kernel.request(self.helpers)
            case p.LeaveOpen():
                self.attempt.left_open = True
            case p.Defer(text):
                self.bench.kernel.writes(call)
                call.deferred.append(Slot([text]))
            case p.Conclude():
                call.concluded = True
            case p.FailGroup(codes):
                raise Broke(*codes)
            case p.Return(valid):
                raise Ended(valid=valid)
            case p.Nested():
                yield from self.nested(action)
            case _:
                nowhere(action)

    def nested(self, action: p.Nested) -> Flow[None]:
        """Run an ordinary call whose ambient scopes include this body (`NE-2` to `NE-8`, `NE-10`)."""
        slot = Slot()
        self.bench.kernel.writes(self.call)
        self.call.deferred.append(slot)
        inner = Call(
            path=f"{self.call.path}/{action.tool}",
            tool=action.tool,
            arguments=action.arguments,
            scope=self.call.scope,
            entry=self.bench.kernel.current.node,
            layer=self.call.layer,
        )
        try:
            verdict = yield from self.bench.nest(inner)
        finally:
            # NE-5: also on the way out by `Cancelled`.
            if inner.latest is not None:
                slot.extend(inner.latest.contexts)
        if verdict.outcome == "ok" and verdict.concludes:
            self.call.concluded = True
        if action.strict and verdict.outcome != "ok":
            raise Broke(None)
