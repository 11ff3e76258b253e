"""What a whole program may show: the permitted traces, and which cells of the tables they touch."""

from collections import Counter
from collections.abc import Iterator
from typing import final

from attrs import define, field, frozen

from . import _call_program as p
from ._call_batch import Batch
from ._call_bench import Call
from ._call_model import Life
from ._call_script import World
from ._call_tables import Cell, Published, Trace, permits
from ._call_time import Cancelled, Choices, Flow, Kernel, Node, Source, explored

__all__ = ["Explanation", "Prediction", "explain", "instants", "predict", "predictions"]

LIMIT = 512
"""How many orders are explored before a prediction is called incomplete."""


@final
@frozen
class Prediction:
    """The traces that the semantics permits for a program.

    Attributes:
        traces: the permitted traces, without repetition.
        complete: whether every order was explored; where not, a trace that is absent may still be
            permitted.
    """

    traces: tuple[Trace, ...]
    complete: bool


@final
@define(eq=False)
class Run:
    """One run of a program with one sequence of choices."""

    life: Life
    ends: list[tuple[str, str]] = field(factory=list[tuple[str, str]])
    batch: Batch | None = None

    def main(self, node: Node) -> Flow[None]:
        """Make the calls as the program's mode says."""
        program, kernel = self.life.world.program, self.life.world.kernel
        calls = [
            Call(
                f"c{number}", spec.tool, spec.arguments, self.life.world.scopes[spec.scope], node, spec.layer
            )
            for number, spec in enumerate(program.calls)
        ]
        if program.mode == "batch":
            for call in calls:
                call.layer = calls[0].layer
            self.batch = Batch(self.life, calls, node, program.max_parallel, fail_fast=program.fail_fast)
            try:
                yield from self.batch.run()
            except Cancelled:
                self.ends.append(("batch", "raised"))
            else:
                self.ends.append(("batch", "returned"))
        elif program.mode == "together":
            for call in calls:
                kernel.spawn(self.one(call), node)
        else:
            for call in calls:
                yield from self.one(call)
                if self.ends[-1][1] == "raised":
                    return

    def one(self, call: Call) -> Flow[None]:
        """Make one call and note how `execute` ends (`PU-8`)."""
        try:
            yield from self.life.call(call)
        except Cancelled:
            self.ends.append((call.path, "raised"))
        else:
            self.ends.append((call.path, "returned"))

    def happen(self, event: p.At) -> Flow[None]:
        """Let something happen at its time, in a task of its own."""
        yield from self.life.world.kernel.sleep(event.at)
        self.life.world.happen(event.action)

    def request(self, cancel: p.CancelAt) -> Flow[None]:
        """Cancel what is to be cancelled at a time, from a task of its own."""
        yield from self.life.world.kernel.sleep(cancel.at)
        self.life.world.cancel(cancel.target)


def _prepared(program: p.CallProgram, choices: Choices, follows: tuple[Published, ...] | None = None) -> Run:
    kernel = Kernel(choices)
    world = World(program, kernel)
    life = Life(world)
    life.bench.follows = follows
    free = Node(None)
    node = free
    owners: tuple[Source, ...] = ()
    if program.outer is not None:
        outer = Source("ambient", "ambient", program.outer.timeout, "ambient")
        world.ambients["outer"] = outer
        node = Node(node, sources=(outer,))
        owners = (outer,)  # SC-11
    for spec in program.scopes:  # SC-6: entered at time zero
        parents = owners if spec.parent is None else (*owners, world.scopes[spec.parent])  # SC-15
        world.scopes.append(Source(spec.name, "caller", spec.timeout, parents=parents))
    if program.inner is not None:
        inner = Source("ambient", "ambient", program.inner.timeout, "ambient")
        world.ambients["inner"] = inner
        node = Node(node, sources=(inner,))
    run = Run(life)
    kernel.spawn(run.main(node), node)
    for cancel in program.cancels:
        if isinstance(cancel, p.CancelAt):
            kernel.spawn(run.request(cancel), free)
    for event in program.events:
        kernel.spawn(run.happen(event), free)
    return run


def _run(
    program: p.CallProgram, choices: Choices, follows: tuple[Published, ...] | None = None
) -> tuple[Trace, Counter[Cell]]:
    run = _prepared(program, choices, follows)
    run.life.world.kernel.run()
    bench = run.life.bench
    # Ends of calls made together come in no order of their own.
    return Trace(tuple(bench.published), tuple(sorted(run.ends))), bench.cells


def instants(program: p.CallProgram) -> tuple[float, ...]:
    """Return the times at which something happens in ``program``, in one of the permitted orders."""
    kernel = _prepared(program, Choices()).life.world.kernel
    kernel.run()
    return tuple(kernel.instants)


def predictions(program: p.CallProgram, *, limit: int = LIMIT) -> Iterator[tuple[Trace, Counter[Cell]]]:
    """Yield permitted traces with the cells they touch, repetitions included, at most ``limit``."""
    return explored(lambda choices: _run(program, choices), limit=limit)


def predict(program: p.CallProgram, *, limit: int = LIMIT) -> Prediction:
    """Return every trace that the semantics permits for ``program``.

    Pure: no clock, no I/O, no randomness. Exploring stops after ``limit`` orders.
    """
    found: dict[Trace, None] = {}
    count = 0
    for trace, _ in predictions(program, limit=limit + 1):
        count += 1
        if count <= limit:
            found[trace] = None
    return Prediction(tuple(found), complete=count <= limit)


@final
@frozen
class Explanation:
    """What came of the search for an order of tasks in which the semantics permits a trace.

    Attributes:
        cells: the cells of the tables that this order touches; None if none was found.
        complete: whether no order was left untried.
    """

    cells: Counter[Cell] | None
    complete: bool


def explain(program: p.CallProgram, seen: Trace, *, limit: int = LIMIT) -> Explanation:
    """Look for an order in which ``program`` shows the trace that was seen.

    An order is given up at the first result that was not seen, and with it all that begin alike; so the
    search is short where the list of permitted traces would be long.
    """
    count = 0
    for trace, cells in explored(lambda choices: _run(program, choices, seen.published), limit=limit + 1):
        count += 1
        if count <= limit and permits(trace, seen):
            return Explanation(cells, complete=True)
    return Explanation(None, complete=count <= limit)
