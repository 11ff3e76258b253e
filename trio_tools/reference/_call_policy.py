"""Gates, approver and guards in the model (`GA-1`, `GA-3` to `GA-10`, `GA-12` to `GA-14`)."""

from . import _call_program as p
from ._call_bench import APPROVAL, GATES, Bench, Call, nowhere
from ._call_script import Stage, at_once
from ._call_tables import Column, Verdict
from ._call_time import Broke, Cancelled, Flow

__all__ = ["policed"]

Decided = tuple[Verdict, bool]
"""A result, and whether the review follows."""


def policed(bench: Bench, call: Call) -> Flow[Decided | None]:
    """Ask gates, approver and guards; None when the wrappers may begin."""
    try:
        flow = _gate(bench, call, 0)
        decision = yield from bench.kernel.within(flow, sources=(call.scope, call.sibling), role="phase")
    except Broke as error:  # GA-5, GA-6
        return _refusal(bench, call, GATES, Column.RAISES, bench.broken(call, error))
    except Cancelled:  # GA-13
        return _escaped(bench, call, GATES)
    if decision == "deny":  # GA-4
        return _refusal(bench, call, GATES, Column.FAILURE, bench.failure(call, "DENIED"))
    # GA-12: no check here, but the table wants to know where the caller was cancelled.
    bench.marked(call, GATES)
    if decision == "ask":
        decided = yield from _approved(bench, call)
        return _guarded(bench, call, APPROVAL) if decided is None else decided
    return _guarded(bench, call, GATES)


def _refusal(bench: Bench, call: Call, row: str, column: Column, verdict: Verdict) -> Decided:
    """Rule on a denial or an error of the policy."""
    bench.marked(call, row)
    return bench.ruled(call, row, column, verdict)


def _escaped(bench: Bench, call: Call, row: str) -> Decided:
    """Rule on a `Cancelled` that left a policy phase: stray unless the caller is cancelled (`GA-13`)."""
    return _refusal(bench, call, row, Column.CANCELLED, bench.failure(call, "POLICY_ERROR"))


def _gate(bench: Bench, call: Call, index: int) -> Flow[str]:
    """Ask gate number ``index`` and, if it delegates, the rest of the chain (`GA-1`, `LA-7`)."""
    gates = bench.program.through(bench.program.gates, call.layer)
    if index == len(gates):
        return "allow"
    script = gates[index]
    if script.only and call.tool not in script.only:
        return (yield from _gate(bench, call, index + 1))

    def bound(action: p.Action) -> Flow[None]:
        assert isinstance(action, p.Consult)
        yield from _gate(bench, call, index + 1)

    yield from Stage(bench.world, bound).carry_out(script.script)
    if script.decision == "delegate":
        return (yield from _gate(bench, call, index + 1))
    if script.decision == "malformed":
        raise Broke(None)
    return script.decision


def _approved(bench: Bench, call: Call) -> Flow[Decided | None]:
    """Put the question to the approver (`GA-7` to `GA-9`); None when granted."""
    denied = bench.failure(call, "DENIED")
    approver = bench.program.approver
    if approver is None:
        return _refusal(bench, call, APPROVAL, Column.FAILURE, denied)
    try:
        flow = Stage(bench.world, nowhere).carry_out(approver.script)
        yield from bench.kernel.within(flow, sources=(call.scope, call.sibling), role="phase")
        if approver.answer == "malformed":
            raise Broke(None)
    except Broke as error:
        return _refusal(bench, call, APPROVAL, Column.RAISES, bench.broken(call, error))
    except Cancelled:
        return _escaped(bench, call, APPROVAL)
    cancelled = bench.marked(call, APPROVAL)
    if approver.answer == "allowed_once":
        return None
    # GA-9: an approval that was cancelled counts as Cancelled, if the caller is.
    by_caller = approver.answer == "cancelled" and cancelled
    return bench.ruled(call, APPROVAL, Column.CANCELLED if by_caller else Column.FAILURE, denied)


def _guarded(bench: Bench, call: Call, row: str) -> Decided | None:
    """Ask every guard in turn (`GA-10`), then CA-1 (`GA-14`); None when all passed."""
    for guard in bench.program.through(bench.program.guards, call.layer):
        if guard.only and call.tool not in guard.only:
            continue
        try:
            at_once(Stage(bench.world, nowhere).carry_out(guard.script))
            if guard.answer == "malformed":
                raise Broke(None)
        except Broke as error:
            return _refusal(bench, call, row, Column.RAISES, bench.broken(call, error))
        except Cancelled:  # stray, for the phase is synchronous
            return _refusal(bench, call, row, Column.RAISES, bench.broken(call, Broke(None)))
        if guard.answer == "deny":
            return _refusal(bench, call, row, Column.FAILURE, bench.failure(call, "DENIED"))
    if bench.marked(call, row):
        return bench.ruled(call, row, Column.SUCCESS, None)
    return None
