"""Wrappers in the model, the timeout wrapper among them (`WR-1` to `WR-21`, `TI-1` to `TI-19`)."""

from typing import final

from attrs import evolve

from . import _call_program as p
from ._call_bench import ABORTED, Bench, Call, First
from ._call_body import dispatched
from ._call_script import Stage
from ._call_tables import Verdict
from ._call_time import Broke, Cancelled, Cause, Flow, Node, Source

__all__ = ["budgeted"]

Delegated = tuple[Verdict, First | None]
"""What `proceed` returns, and what its view says came first once it has (`WR-10`)."""


def budgeted(bench: Bench, call: Call) -> Flow[Verdict]:
    """Be the timeout wrapper, which stands outermost (`TI-1`, `TI-6`)."""
    tool = bench.visible(call.tool)
    if tool is None or tool.timeout is None:
        return (yield from _wrapper(bench, call, 0, ()))
    budget = Source("timeout", deadline=bench.now + tool.timeout)
    verdict, first = yield from _proceed(bench, call, -1, (), (budget,))
    _count(bench, call, budget, first, verdict)
    if first is None or first[1] is not budget:
        return verdict
    # TI-4, TI-5: replaced after settlement; what the body deferred stays.
    return bench.failure(call, "TOOL_TIMEOUT", cause=first[0])


def _count(bench: Bench, call: Call, budget: Source, first: First | None, verdict: Verdict) -> None:
    """Note which row of the table of timeouts this was."""
    passed = budget.cause(bench.now)
    caller = bench.caller(call)
    if first is None:
        return
    rows: list[str] = []
    if passed is not None and first[1] is budget:
        if caller is not None:
            rows.append("TI-14")
        elif not call.invoked:
            rows.append("TI-10")
        else:
            rows.append("TI-11" if verdict.cause == passed or verdict.outcome == "failed" else "TI-12")
    elif passed is not None and caller is not None:
        rows.append("TI-15" if caller.until == passed.until else "TI-13")
    if first[1] is not None and first[1] is not budget and first[0].kind == "deadline":
        rows.append("TI-18")
    own = call.scope.cause(bench.now)
    if own is not None and own.kind == "deadline" and first[0] == own:
        rows.append("TI-17")
    if caller is not None and (caller.kind, caller.name) == ("deadline", "timeout"):
        rows.append("TI-19")
    for row in rows:
        bench.count(row, "result", "timeout")


def _proceed(
    bench: Bench, call: Call, index: int, outer: tuple[Source, ...], own: tuple[Source, ...]
) -> Flow[Delegated]:
    """Delegate from wrapper ``index`` with the sources ``own`` added to those of its view (`WR-4`)."""
    added = (*outer, *own)
    flow = _wrapper(bench, call, index + 1, added)
    try:
        verdict = yield from bench.kernel.within(flow, sources=own, role="added")
    except Cancelled:
        # WR-9: a source added here ended the inner wrappers, or something else did.
        first = bench.delegation(call, added, bench.kernel.current.node)
        if first is None or first[1] not in own:
            raise
        latest = call.latest
        if latest is None or latest.outcome == "ok":
            latest = bench.torn(call, first[0], latest)
        call.latest = latest
        return latest, first
    return verdict, bench.delegation(call, added, bench.kernel.current.node)


def _wrapper(bench: Bench, call: Call, index: int, added: tuple[Source, ...]) -> Flow[Verdict]:
    """Run wrapper ``index``; behind the last one is dispatch (`WR-1`)."""
    if index == len(bench.program.wrappers):
        return (yield from dispatched(bench, call, added))
    script = bench.program.wrappers[index]
    if script.only and call.tool not in script.only:
        return (yield from _wrapper(bench, call, index + 1, added))
    last: Verdict | None = None
    own_cause: Cause | None = None

    def bound(action: p.Action) -> Flow[None]:
        nonlocal last, own_cause
        assert isinstance(action, p.Proceed)
        for _ in range(action.attempts):  # WR-11
            own = _sources(bench, action, script.name)
            delegated = yield from _delegated(bench, call, index, added, own, action)
            if delegated is None:
                break
            last, first = delegated
            own_cause = first[0] if first is not None and first[1] in own else None
            if last.outcome == "ok":
                break

    yield from Stage(bench.world, bound).carry_out(script.script)
    verdict = _finished(bench, call, script, last, own_cause, added)
    call.latest = verdict
    return verdict


def _sources(bench: Bench, action: p.Proceed, name: str) -> tuple[Source, ...]:
    """Return the sources that a delegation adds (`WR-3`)."""
    own: list[Source] = []
    if action.timeout is not None:
        own.append(Source(name, deadline=bench.now + action.timeout))
    if action.deadline is not None:
        own.append(Source(name, deadline=action.deadline))
    if action.scope is not None:
        own.append(bench.world.scopes[action.scope])
    return tuple(own)


def _delegated(
    bench: Bench,
    call: Call,
    index: int,
    added: tuple[Source, ...],
    own: tuple[Source, ...],
    action: p.Proceed,
) -> Flow[Delegated | None]:
    """Delegate under the trio scopes that the wrapper opens around it (`WR-7`, `WR-8`).

    None where its own scope absorbed the `Cancelled` that left the delegation.
    """
    kernel = bench.kernel
    outside = kernel.current.node
    flow = _proceed(bench, call, index, added, own)
    lexical: Source | None = None
    if action.lexical is not None:
        lexical = Source("wrapper", "ambient", bench.now + action.lexical, "ambient")
        flow = kernel.within(flow, sources=(lexical,), role="wrapper", owner=call)
    if action.shield:
        flow = kernel.within(flow, shield=True, role="shield")
        outside = Node(outside, shield=True, role="shield")
    try:
        return (yield from flow)
    except Cancelled:
        if lexical is None or not kernel.caught(lexical, outside):
            raise
        return None


@final
class _Gone(Broke):
    """The tool of a wrapper-made success is gone: UNKNOWN_TOOL, F (`WR-14`)."""

    def __init__(self) -> None:
        super().__init__("UNKNOWN_TOOL")


def _finished(
    bench: Bench,
    call: Call,
    script: p.WrapperScript,
    last: Verdict | None,
    own: Cause | None,
    added: tuple[Source, ...],
) -> Verdict:
    """Return what the wrapper returns, as the registry takes it (`WR-14` to `WR-17`)."""
    finish = script.finish
    if finish in {"last", "context", "translate"} and last is None:
        finish = "failure"
    contexts = (*call.contexts(), script.name)  # WR-21
    match finish:
        case "translate" if own is not None and own.name == script.name:  # WR-19, CA-6
            return bench.failure(call, script.name, contexts=contexts, cause=own)
        case "context" if last is not None and last.outcome == "ok":
            return _made(bench, call, evolve(last, contexts=(*last.contexts, script.name)))
        case "context" if last is not None and last.outcome == "failed":
            return evolve(last, contexts=(*last.contexts, script.name))
        case "last" | "translate" | "context":
            assert last is not None
            return last
        case "success":
            return _made(bench, call, Verdict("ok", None, call.settlement, None, contexts))
        case "invalid":
            unchecked = _made(bench, call, Verdict("ok", None, call.settlement, None, contexts))
            return bench.failure(call, "INVALID_TOOL_OUTPUT", contexts=unchecked.contexts)
        case "failure":
            return bench.failure(call, script.name, contexts=contexts)
        case "cancelled":
            first = bench.delegation(call, added, bench.kernel.current.node)
            if first is None:  # WR-16
                raise Broke(None)
            return Verdict("cancelled", ABORTED, call.settlement, first[0], contexts)
        case "malformed":  # WR-17
            raise Broke(None)


def _made(bench: Bench, call: Call, made: Verdict) -> Verdict:
    """Check a wrapper-made success against the tool as it now is (`WR-14`)."""
    if bench.visible(call.tool) is None:
        raise _Gone
    return made
