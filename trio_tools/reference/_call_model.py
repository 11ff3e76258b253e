"""A pure model of a call: what must follow, computed from the rules and the times alone.

*What it is.* `Life.call` is one call from entry to publication, top to bottom, with the phases in
the order of the rule book: materialize, entry, gates and approval and guards (`_call_policy`),
wrappers (`_call_wrap`), dispatch and body (`_call_body`), review (`_call_review`), final path. It
knows no trio, no clock and no I/O; its tasks are generators that a small machine (`_call_time`) steps
through virtual time, and it shares no code with the runtime.

*How it judges.* By times and by a table (`_call_bench`, `_call_tables`), never by which exception
arrived where: a `Cancelled` only tells that a phase was left early.

*What is open.* Where several tasks are ready at one instant, or two kinds of cause are equally early
and no rule says which is named, the machine asks for a choice; exploring all choices gives the set of
permitted traces. Where the rules leave open when an ambient cancellation is observed, its time is an
interval.

*How it is checked.* `_call_run` carries the same program out on the real runtime. A difference is a
fault of the model, to be mended from the text of the rules and never from what the runtime does, or a
fault of the runtime.
"""

from typing import final

from attrs import define, field

from ._call_bench import ENTRY, INNER, LATER, OUTER, REFUSED, Bench, Call, nowhere
from ._call_policy import policed
from ._call_review import reviewed
from ._call_script import Stage, World, at_once
from ._call_tables import Column, Published, Verdict
from ._call_time import Broke, Cancelled, Flow
from ._call_wrap import budgeted

__all__ = ["Life"]


@final
@define(eq=False)
class Life:
    """The life of every call of one run."""

    world: World
    bench: Bench = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.bench = Bench(self.world)
        self.bench.nest = self.call

    def call(self, call: Call) -> Flow[Verdict]:
        """Run one call to its publication and return its verdict; raises `Cancelled` by `PU-8`."""
        decided = yield from self.opened(call)
        if decided is None:
            decided = yield from self.wrapped(call)
        yield from self.committed(call, *decided)
        return self.end(call)

    def opened(self, call: Call) -> Flow[tuple[Verdict, bool] | None]:
        """Go through entry, gates, approval and guards; None when the wrappers may begin.

        What is decided is a result and whether the review follows (path R) or not (path F).
        """
        bench = self.bench
        call.entered = self.world.kernel.now
        tool = bench.visible(call)
        finalizer = None if tool is None else tool.finalizer
        # MA-1 captures it at entry; whether that is the batch's or the call's own is open.
        if finalizer is call.finalizer or not call.batched or self.world.kernel.choices.pick(2):
            call.finalizer = finalizer
        if call.arguments == "lossy":  # MA-8: even under a cancelled caller
            refused = bench.failure(call, "NOT_JSON", contexts=())
            if bench.marked(call, REFUSED):
                return bench.ruled(call, REFUSED, Column.RAISES, refused)
            return refused, False
        if bench.marked(call, ENTRY):
            return bench.ruled(call, ENTRY, Column.SUCCESS, None)
        return (yield from policed(bench, call))

    def wrapped(self, call: Call) -> Flow[tuple[Verdict, bool]]:
        """Run the wrappers around dispatch, and judge what leaves them (`WR-17`, `WR-18`)."""
        bench = self.bench
        flow = budgeted(bench, call)
        try:
            verdict = yield from bench.kernel.within(flow, sources=(call.scope, call.sibling), role="phase")
        except Broke as error:
            column, verdict = Column.RAISES, bench.broken(call, error)
        except Cancelled:
            column, verdict = Column.CANCELLED, call.latest
        else:
            column = Column.SUCCESS if verdict.outcome == "ok" else Column.FAILURE
        row = OUTER if call.delegated else INNER
        cancelled = bench.marked(call, row)
        if column is not Column.CANCELLED:
            ruled, review = bench.ruled(call, row, column, verdict)
            return ruled, review and ruled is not call.gone
        if not cancelled:  # stray
            return bench.ruled(call, row, column, bench.broken(call, Broke(None)))
        bench.ruled(call, row, column, verdict)
        cause = bench.caller(call)
        assert cause is not None
        return bench.latest(call, cause), True

    def committed(self, call: Call, verdict: Verdict, review: bool) -> Flow[None]:
        """Review, then the final path: finalize, publish, observe (`BA-6`, `PU-4`)."""
        if review:
            verdict = yield from reviewed(self.bench, call, verdict)
        else:
            yield from self.bench.kernel.pause()  # PU-1
        self.publish(call, self._finalized(call, verdict))

    def _finalized(self, call: Call, verdict: Verdict) -> Verdict:
        """Run the finalizer captured at entry, once (`PU-2`, `PU-3`)."""
        if call.finalizer is None:
            return verdict
        bench = self.bench
        fine = bench.caller(call) is None
        column = Column.SUCCESS if verdict.outcome == "ok" else Column.FAILURE
        try:
            at_once(Stage(self.world, nowhere).carry_out(call.finalizer.script))
            if call.finalizer.answer in {"malformed", "coroutine"}:
                raise Broke(None)
        except Broke as error:
            column, verdict = Column.RAISES, bench.broken(call, error)
        except Cancelled:  # stray, for the phase is synchronous
            column, verdict = Column.RAISES, bench.broken(call, Broke(None))
        # PU-7: a cancellation from here on changes nothing.
        if fine and (cause := bench.caller(call)) is not None:
            bench.count(LATER, column, cause.kind)
        return verdict

    def publish(self, call: Call, verdict: Verdict) -> None:
        """Publish the one result (`PU-5`) and show it to the observers, whose errors stay theirs (`PU-6`)."""
        call.latest = verdict
        cause = verdict.cause
        if cause is not None and cause.name == "timeout" and verdict.code != "TOOL_TIMEOUT":
            self.bench.count("TI-19", "result", "timeout")
        self.world.kernel.writes(self)
        self.bench.publish(
            Published(
                call.path,
                verdict.outcome,
                verdict.code,
                verdict.settlement,
                verdict.cause,
                verdict.contexts,
                verdict.concludes,
            )
        )
        program = self.world.program
        for observer in program.through(program.observers, call.layer):
            try:
                at_once(Stage(self.world, nowhere).carry_out(observer.script))
            except (Broke, Cancelled):
                continue

    def end(self, call: Call) -> Verdict:
        """Return the published result, or raise `Cancelled` instead (`PU-8`)."""
        verdict = call.latest
        assert verdict is not None
        if verdict.outcome == "cancelled" and call.entry.cancelled(self.world.kernel.now):
            raise Cancelled
        return verdict
