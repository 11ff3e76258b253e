"""The review in the model (`RE-1` to `RE-8`)."""

from attrs import evolve

from . import _call_program as p
from ._call_bench import REVIEW, Bench, Call
from ._call_script import Stage
from ._call_tables import Column, Verdict
from ._call_time import Broke, Cancelled, Flow

__all__ = ["reviewed"]


def reviewed(bench: Bench, call: Call, verdict: Verdict) -> Flow[Verdict]:
    """Review one unchanging result, shielded, then ask CA-1 for the last time (`RE-3`, `RE-8`)."""
    try:
        flow = _reviewer(bench, call, 0)
        decision, context = yield from bench.kernel.within(flow, shield=True, role="shield")
        column, result = _decided(bench, call, verdict, decision, context)
    except Broke as error:  # RE-7
        column, result = Column.RAISES, bench.broken(call, error)
    except Cancelled:  # a stray, for the phase is shielded
        column, result = Column.CANCELLED, bench.broken(call, Broke(None))
    yield from bench.kernel.pause()  # PU-1
    if not bench.marked(call, REVIEW):
        return result
    return bench.ruled(call, REVIEW, column, result)[0]


def _reviewer(bench: Bench, call: Call, index: int) -> Flow[tuple[str, str | None]]:
    """Ask reviewer ``index`` and, if it delegates, the rest of the chain (`RE-2`, `LA-7`)."""
    reviewers = bench.program.through(bench.program.reviewers, call.layer)
    if index == len(reviewers):
        return "accept", None
    script = reviewers[index]
    if script.only and call.tool not in script.only:
        return (yield from _reviewer(bench, call, index + 1))

    def bound(action: p.Action) -> Flow[None]:
        assert isinstance(action, p.Consult)
        yield from _reviewer(bench, call, index + 1)

    yield from Stage(bench.world, bound).carry_out(script.script)
    if script.decision == "delegate":
        return (yield from _reviewer(bench, call, index + 1))
    return script.decision, script.context


def _decided(
    bench: Bench, call: Call, verdict: Verdict, decision: str, context: str | None
) -> tuple[Column, Verdict]:
    """Apply the outermost decision (`RE-4` to `RE-7`)."""
    more = () if context is None else (context,)
    column = Column.SUCCESS if verdict.outcome == "ok" else Column.FAILURE
    accepted = evolve(verdict, contexts=(*verdict.contexts, *more))
    match decision:
        case "accept" | "content":
            return column, accepted
        case "block":  # RE-6
            return Column.FAILURE, bench.failure(call, "BLOCKED", contexts=more)
        case "value" | "invalid" if verdict.outcome == "ok":
            if bench.visible(call) is None:  # RE-5
                return Column.FAILURE, bench.failure(call, "UNKNOWN_TOOL", contexts=accepted.contexts)
            if decision == "value":
                return column, accepted
            return Column.FAILURE, bench.failure(call, "INVALID_TOOL_OUTPUT", contexts=accepted.contexts)
        case _:  # RE-5, RE-7
            raise Broke(None)
