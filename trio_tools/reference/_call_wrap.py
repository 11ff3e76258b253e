"""Wrappers in the model, the timeout wrapper among them.

`WR-1`, `WR-3` to `WR-12`, `WR-14` to `WR-19`, `WR-21`; `TI-1`, `TI-3` to `TI-19`.
"""

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
    tool = bench.visible(call)
    if tool is None or tool.timeout is None:
        return (yield from _wrapper(bench, call, 0, ()))
    budget = Source("timeout", deadline=bench.now + tool.timeout)
    verdict, first = yield from _proceed(bench, call, -1, (), (budget,))
    _count(bench, call, budget, first)
    if first is None or first[1] is not budget:
        return verdict
    # TI-4, TI-5: replaced after settlement; what the body deferred stays.
    return bench.failure(call, "TOOL_TIMEOUT", cause=first[0])


def _count(bench: Bench, call: Call, budget: Source, first: First | None) -> None:
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
            rows.append("TI-12" if call.settled_at < budget.deadline else "TI-11")
    elif passed is not None and caller is not None:
        rows.append("TI-15" if caller.until == passed.until else "TI-13")
    held = bench.kernel.held
    if held is not None and first[1] is budget and held[1] < budget.deadline:
        rows.append("TI-16")
    own = call.scope.cause(bench.now)
    if own is not None and own.kind == "deadline" and first[0] == own:
        rows.append("TI-17")
    for row in rows:
        bench.count(row, "result", "timeout")


def _proceed(
    bench: Bench, call: Call, index: int, outer: tuple[Source, ...], own: tuple[Source, ...]
) -> Flow[Delegated]:
    """Delegate from wrapper ``index`` with the sources ``own`` added to those of its view (`WR-4`)."""
    added = (*outer, *own)
    flow = _wrapper(bench, call, index + 1, added)
    # WR-4, WR-8: a shield that the wrapper opened around this detaches none of these.
    sources = (call.scope, call.sibling, *added)
    try:
        verdict = yield from bench.kernel.within(flow, sources=sources, role="added")
    except Cancelled:
        # WR-9: a source added here ended the inner wrappers, or something else did.
        first = bench.delegation(call, added, bench.kernel.current.node, keep=False)
        if first is None or first[1] not in own:
            raise
        latched = _latched(bench, call, first)
        call.latest = bench.latest(call, latched[0])
        return call.latest, latched
    first = bench.delegation(call, added, bench.kernel.current.node, keep=False)
    if first is not None:
        first = _latched(bench, call, first)
        call.cut = first[0]
        if first[1] in own and first[0].kind == "deadline" and index >= 0 and _budget(added) is not None:
            bench.count("TI-18", "result", "timeout")
    return verdict, first


def _latched(bench: Bench, call: Call, first: First) -> First:
    """Return what a view says came first: a source further in, if its delegation settled under it (`WR-6`).

    So a budget that passes while the body still cleans up after another wrapper's deadline changes
    nothing (`TI-18`). If it passes only after that has settled, in the wrapper's tail, it may count
    (`TI-12`).
    """
    settled = call.settled
    if settled is None or settled.until >= first[0].until:
        return first
    if call.settled_at < first[0].until and bench.kernel.choices.pick(2):
        return first
    return settled, None


def _budget(added: tuple[Source, ...]) -> Source | None:
    """Return the budget of the call, if it has one."""
    return next((source for source in added if source.name == "timeout"), None)


def _wrapper(bench: Bench, call: Call, index: int, added: tuple[Source, ...]) -> Flow[Verdict]:
    """Run wrapper ``index``; behind the last one is dispatch (`WR-1`)."""
    wrappers = bench.program.through(bench.program.wrappers, call.layer)
    if index == len(wrappers):
        return (yield from dispatched(bench, call, added))
    script = wrappers[index]
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
    first = bench.delegation(call, added, bench.kernel.current.node, keep=False)
    verdict = _finished(bench, call, script, last, own_cause, first)
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
        lexical = Source("wrapper", "ambient", bench.now + action.lexical, "ambient", read=False)
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


def _finished(
    bench: Bench,
    call: Call,
    script: p.WrapperScript,
    last: Verdict | None,
    own: Cause | None,
    first: First | None,
) -> Verdict:
    """Return what the wrapper returns, as the registry takes it (`WR-14` to `WR-17`)."""
    finish = script.finish
    if finish in {"last", "context", "translate"} and last is None:
        finish = "failure"
    contexts = (script.name,)  # those of the result that the wrapper made, and no others
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
            checked = _made(bench, call, Verdict("ok", None, call.settlement, None, contexts))
            if checked is call.gone:
                return checked
            return bench.failure(call, "INVALID_TOOL_OUTPUT", contexts=contexts)
        case "failure":
            return bench.failure(call, script.name, contexts=contexts)
        case "cancelled":
            cause = None if first is None else first[0]
            # Whether what ended a delegation earlier, and is over, counts here is open.
            if cause is None and call.cut is not None and bench.kernel.choices.pick(2):
                cause = call.cut
            if cause is None:  # WR-16
                raise Broke(None)
            return Verdict("cancelled", ABORTED, call.settlement, cause, contexts)
        case "malformed":  # WR-17
            raise Broke(None)


def _made(bench: Bench, call: Call, made: Verdict) -> Verdict:
    """Check a wrapper-made success against the tool as it now is (`WR-14`)."""
    if bench.visible(call) is None:
        call.gone = bench.failure(call, "UNKNOWN_TOOL", contexts=made.contexts)
        return call.gone
    return made
