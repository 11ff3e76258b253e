"""A batch in the model: what starts when, what commits in which order, what is never started."""

from typing import final

from attrs import define, field

from ._call_bench import BEFORE, Call
from ._call_model import Life
from ._call_tables import Column, Verdict
from ._call_time import Cancelled, Flow, Node

__all__ = ["Batch"]


@final
@define(eq=False)
class Batch:
    """One batch.

    Attributes:
        running: how many parallel calls hold a place (`BA-3`).
        committed: how many calls are published.
        failed: the cause of siblings once a call is known to be FAILED (`BA-11`).
        decided: what each call came to before its commit, by position; the flag is the path.
        live: the started calls that are not decided yet.
    """

    life: Life
    calls: list[Call]
    node: Node
    max_parallel: int
    fail_fast: bool = field(kw_only=True)
    running: int = 0
    committed: int = 0
    failed: float | None = None
    decided: dict[int, tuple[Verdict, bool]] = field(factory=dict[int, tuple[Verdict, bool]])
    never: set[int] = field(factory=set[int])
    live: set[int] = field(factory=set[int])

    def run(self) -> Flow[list[Verdict]]:
        """Run the batch; raises `Cancelled` by `BA-12`."""
        kernel = self.life.world.kernel
        for call in self.calls:
            tool = self.life.bench.visible(call)
            call.batched, call.finalizer = True, None if tool is None else tool.finalizer
        kernel.spawn(self.commit(), self.node)
        for index, call in enumerate(self.calls):
            yield from self.begin(index, call)
        yield from kernel.until(lambda: self.committed == len(self.calls))
        results = [call.latest for call in self.calls]
        verdicts = [verdict for verdict in results if verdict is not None]
        if self.node.cancelled(self.life.world.kernel.now) and any(
            verdict.outcome == "cancelled" and verdict.cause is not None and verdict.cause.kind == "ambient"
            for verdict in verdicts
        ):
            raise Cancelled
        return verdicts

    def begin(self, index: int, call: Call) -> Flow[None]:
        """Start one call when it may start (`BA-3`, `BA-4`, `BA-7`), or never (`BA-9`)."""
        kernel, life = self.life.world.kernel, self.life
        # Whether a neighbour commits before or after this one starts is open (`BA-5`, `BA-6`).
        yield from kernel.pause()
        while True:
            parallel = self.parallel(call)
            if not (yield from self.turn(index, call, parallel=parallel)):
                break
            # Classified right before the start: what became exclusive meanwhile waits again.
            if parallel == self.parallel(call):
                break
        call.entered = kernel.now
        if life.bench.caller(call) is not None:
            kernel.reads(self)
            self.never.add(index)
            self.decided[index] = (self.unstarted(call), False)
            return
        self.live.add(index)
        decided = yield from life.opened(call)
        if decided is not None:
            yield from kernel.pause()
            self.settle(index, decided)
        elif parallel:
            self.running += 1
            kernel.spawn(self.overlap(index, call), self.node)
        else:
            decided = yield from life.wrapped(call)
            yield from kernel.pause()
            self.settle(index, decided)
        if not parallel:
            yield from kernel.until(lambda: self.committed > index)

    def turn(self, index: int, call: Call, *, parallel: bool) -> Flow[bool]:
        """Wait for a place, or for the barrier (`BA-4`); false if the call is cancelled meanwhile.

        A call that was cancelled while it waits never starts (`BA-9`); whether it is skipped at once, or
        still held back what follows until its turn, is open.
        """
        kernel = self.life.world.kernel

        def free() -> bool:
            return self.running < self.max_parallel if parallel else self.committed == index

        flow = kernel.until(free, cancellable=True)
        try:
            yield from kernel.within(flow, sources=(call.scope, call.sibling), role="phase")
        except Cancelled:
            if kernel.choices.pick(2):
                return False
            yield from kernel.until(free)
        return True

    def parallel(self, call: Call) -> bool:
        """Whether the call may overlap its neighbours (`BA-2`)."""
        tool = self.life.bench.visible(call)
        return tool is not None and tool.parallel and call.arguments != "lossy"

    def overlap(self, index: int, call: Call) -> Flow[None]:
        """Run wrappers and body beside those of the neighbours (`BA-5`)."""
        decided = yield from self.life.wrapped(call)
        # When the batch takes note of what came of it is open within the instant.
        yield from self.life.world.kernel.pause()
        self.running -= 1
        self.settle(index, decided)

    def settle(self, index: int, decided: tuple[Verdict, bool]) -> None:
        """Note what a call came to, in its place (`BA-8`); the first failure is the batch's (`BA-11`)."""
        # Two of these may change places; one and the first failure may not.
        self.life.world.kernel.reads(self)
        self.live.discard(index)
        self.decided[index] = decided
        self.watch(decided[0])

    def watch(self, verdict: Verdict) -> None:
        """Cancel running siblings and skip the rest, once a call is known to be FAILED."""
        if not self.fail_fast or self.failed is not None or verdict.outcome != "failed":
            return
        self.failed = self.life.world.kernel.now
        self.life.world.kernel.writes(self)
        for index, call in enumerate(self.calls):
            if index in self.live or index not in self.decided:
                self.life.world.kernel.request(call.sibling)

    def unstarted(self, call: Call) -> Verdict:
        """Return the result of a call that never started (`BA-10`, `CA-20`)."""
        cause = self.life.bench.caller(call)
        assert cause is not None
        self.life.bench.count("CA-20", Column.SUCCESS, cause.kind)
        return Verdict("cancelled", BEFORE, "not_dispatched", cause)

    def commit(self) -> Flow[None]:
        """Commit in call order, one after another (`BA-6`)."""
        for index, call in enumerate(self.calls):
            yield from self.life.world.kernel.until(lambda index=index: index in self.decided)
            verdict, review = self.decided[index]
            if index in self.never:
                self.life.publish(call, verdict)
            else:
                yield from self.life.committed(call, verdict, review)
            self.committed = index + 1
            published = call.latest
            assert published is not None
            self.watch(published)
            # Whether others run between two commits is open.
            yield from self.life.world.kernel.pause()
