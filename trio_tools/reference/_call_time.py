"""A discrete-event machine for tasks that are generators, over virtual time.

A task yields `Wait` objects and is resumed when the wait is over, or has `Cancelled` thrown in when
something that governs it is cancelled. What governs it is a chain of `Node` objects, innermost
first, ended by a shield. Whether a `Source` is cancelled is computed from times each time it is
asked; nothing is delivered and no flag is kept, so there is no order of delivery that could decide
who was first.

Where several tasks are ready at one instant, their order is open: the machine asks a `Choices`
object, and `explored` runs a program again for every answer that can matter. Deadlines are no tasks:
at the instant of a deadline it has passed for everyone.
"""

import heapq
import math
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Final, TypeAlias, TypeVar, final

from attrs import define, field, frozen

__all__ = [
    "Broke",
    "Cancelled",
    "Cause",
    "Choices",
    "Flow",
    "Kernel",
    "Node",
    "Source",
    "Wait",
    "explored",
]

T = TypeVar("T")


class Cancelled(Exception):  # noqa: N818
    """What a cancelled checkpoint raises in a task of the model."""


class Broke(Exception):  # noqa: N818
    """An ordinary exception in a task of the model; ``codes`` has one entry per leaf (`BO-8`)."""

    def __init__(self, *codes: str | None) -> None:
        super().__init__(codes)
        self.codes = codes


@final
@frozen
class Cause:
    """Kind and name of a cancellation, and the bounds of its time.

    The bounds differ only where the semantics leaves open when an ambient cancellation is observed
    (`SC-9`): not before it was asked for, not after the check that met it.
    """

    kind: str
    name: str
    since: float
    until: float


@final
@define(eq=False)
class Source:
    """Something that can be cancelled by request or by a deadline (`SC-4`, `SC-5`, `SC-9`).

    Attributes:
        kind: the kind of a request; a deadline of a call scope or an added source is ``deadline``.
        parents: sources whose cancellation is this one's too, with their cause (`SC-15`).
        read: whether the deadline of a scope that is not the library's was read before it passed.
        noticed: what such a scope was taken for when it was not.
        ahead: whether this was cancelled by request before it could notice that its owner was.
    """

    name: str
    kind: str = "caller"
    deadline: float = math.inf
    deadline_kind: str = "deadline"
    parents: "tuple[Source, ...]" = ()
    requested: float | None = None
    read: bool = True
    noticed: Cause | None = None
    ahead: bool = False

    family: "tuple[Source, ...]" = field(init=False)
    """This and everything whose cancellation is this one's too."""

    def __attrs_post_init__(self) -> None:
        self.family = (self, *(member for parent in self.parents for member in parent.family))

    def causes(self, now: float) -> list[Cause]:
        """Return what cancelled this first, if it is cancelled at ``now``; several only at a tie.

        The first cause in time is kept (`SC-4`). At the instant of its own deadline that deadline has
        already passed (`SC-5`), so a request at that instant comes second. Between this and its
        parents a tie is open.
        """
        found: list[Cause] = []
        if self.deadline <= now:
            found.append(Cause(self.deadline_kind, self.name, self.deadline, self.deadline))
        asked = self.requested is not None and self.requested < self.deadline
        if self.requested is not None and asked:
            found.append(Cause(self.kind, self.name, self.requested, self.requested))
        for parent in self.parents:
            found += parent.causes(now)
        earliest = min((cause.until for cause in found), default=now)
        first = [cause for cause in found if cause.until == earliest]
        if self.requested is not None and asked and self.ahead:
            first.append(Cause(self.kind, self.name, earliest, self.requested))
        return first

    def cause(self, now: float) -> Cause | None:
        """Return one of the first causes."""
        return next(iter(self.causes(now)), None)

    def noticed_cause(self, now: float) -> Cause | None:
        """Return the cause of a scope that is not the library's, as an observer knows it (`SC-9`).

        A deadline that was read before it passed is known; else only the time of this look at it.
        """
        if not self.cancelled(now):
            self.read = True
            return None
        if self.noticed is None:
            until = self.deadline if self.read else now
            self.noticed = Cause(self.kind, self.name, self.deadline, until)
        return self.noticed

    def cancelled(self, now: float) -> bool:
        """Whether this is cancelled at ``now``, by the clock and not by a flag."""
        return _any_cancelled(self.family, now)

    def request(self, now: float) -> None:
        """Cancel this at ``now``, if it is not cancelled already (`SC-4`).

        A cancelled owner is noticed within one pass (`SC-11`), so a request may still come before.
        """
        parents = any(parent.cancelled(now) for parent in self.parents if parent.kind != "ambient")
        if self.requested is None and self.deadline > now and not parents:
            self.requested = now

    def move_deadline(self, now: float, at: float) -> None:
        """Set the deadline, unless it has passed or something else has cancelled this (`SC-7`, `SC-8`)."""
        parents = any(parent.cancelled(now) for parent in self.parents if parent.kind != "ambient")
        if self.requested is None and self.deadline > now and not parents:
            self.deadline = at

    def next_deadline(self) -> float:
        """Return the earliest deadline of this and its parents."""
        return min([source.deadline for source in self.family])


def _any_cancelled(sources: Iterable[Source], now: float) -> bool:
    # Asked for every task at every step: a loop takes half the time of `any`.
    for source in sources:  # noqa: SIM110
        if source.deadline <= now or source.requested is not None:
            return True
    return False


@final
@define(eq=False)
class Node:
    """One link of the chain that governs a task.

    Attributes:
        outside: the rest of the chain, or None.
        sources: what cancels here.
        shield: whether the rest of the chain is hidden.
        role: what the link stands for: ``ambient``, ``phase``, ``added``, ``wrapper``, ``fused``,
            ``nursery`` or ``shield``.
        owner: the object the link belongs to, if a rule asks for it.
        visible: the links from here outwards, up to and including the first shield.
        members: their sources, and the parents of these.
    """

    outside: "Node | None"
    sources: tuple[Source, ...] = ()
    shield: bool = False
    role: str = "ambient"
    owner: object = None
    visible: "tuple[Node, ...]" = field(init=False)
    members: frozenset[Source] = field(init=False)

    def __attrs_post_init__(self) -> None:
        own = frozenset(member for source in self.sources for member in source.family)
        if self.shield or self.outside is None:
            self.visible, self.members = (self,), own
        else:
            self.visible, self.members = (self, *self.outside.visible), own | self.outside.members

    def cancelled(self, now: float) -> bool:
        """Whether any visible source is cancelled at ``now``."""
        return _any_cancelled(self.members, now)

    def next_deadline(self) -> float:
        """Return the earliest visible deadline."""
        return min([source.deadline for source in self.members], default=math.inf)


@final
@define(eq=False)
class Wait:
    """What a task waits for: a time or a condition, and whether cancellation ends it."""

    wake: float = math.inf
    condition: Callable[[], bool] | None = None
    cancellable: bool = True


Flow: TypeAlias = Generator[Wait, None, T]


@final
@define(eq=False)
class Task:
    """One task: its generator, the chain that governs it, what it waits for and since which step."""

    flow: Flow[None]
    node: Node
    wait: Wait = field(factory=lambda: Wait(wake=-math.inf, cancellable=False))
    parked: int = 0

    def ready(self, now: float) -> bool:
        """Whether the task would be resumed at ``now``."""
        wait = self.wait
        if wait.wake <= now or (wait.condition is not None and wait.condition()):
            return True
        return wait.cancellable and self.node.cancelled(now)

    def next_time(self) -> float:
        """Return the next time at which this task could become ready by the clock alone."""
        if not self.wait.cancellable:
            return self.wait.wake
        return min(self.wait.wake, self.node.next_deadline())


@final
@define(eq=False)
class Choices:
    """The answers to the open questions of one run, in order.

    ``path`` is followed as far as it goes, then the first answer is taken; ``taken`` records, for
    each question, the answer and how many there were. ``idle`` finds the questions whose answer made
    no difference: whatever was ready did nothing that another could see. ``agreed`` counts the results
    that were the ones looked for. Once ``closed``, nothing is recorded any more.
    """

    path: tuple[int, ...] = ()
    taken: list[tuple[int, int]] = field(factory=list[tuple[int, int]])
    idle: Callable[[], set[int]] = set[int]
    agreed: int = 0
    closed: bool = False

    def pick(self, count: int) -> int:
        """Return an index below ``count``."""
        if count == 1 or self.closed:
            return 0
        position = len(self.taken)
        answer = self.path[position] if position < len(self.path) else 0
        self.taken.append((answer, count))
        return answer


def explored(run: Callable[[Choices], T], *, limit: int) -> Iterator[T]:
    """Yield what ``run`` returns for every sequence of answers, at most ``limit`` of them.

    The first sequence takes tasks in the order in which they became ready; those that deviate from it in
    few places come before those that deviate in many, and those that got far with what they follow
    before those that did not. Answers that cannot differ are left out.
    """
    waiting: list[tuple[int, int, tuple[int, ...]]] = [(0, 0, ())]
    known: set[tuple[int, ...]] = {()}
    for _ in range(limit):
        if not waiting:
            return
        path = heapq.heappop(waiting)[-1]
        choices = Choices(path)
        yield run(choices)
        taken = tuple(answer for answer, _ in choices.taken)
        deviations, idle = 0, choices.idle()
        for position, (answer, count) in enumerate(choices.taken):
            if position not in idle:
                for other in range(count):
                    # What follows the path is answered by zero, so zeros at its end are left out.
                    branch = (*taken[:position], other) if other else _without_zeros(taken[:position])
                    if other != answer and branch not in known:
                        known.add(branch)
                        rank = deviations + (other > 0) - WORTH * choices.agreed
                        heapq.heappush(waiting, (rank, len(known), branch))
            deviations += answer > 0


def _without_zeros(path: tuple[int, ...]) -> tuple[int, ...]:
    while path and path[-1] == 0:
        path = path[:-1]
    return path


WORTH: Final = 3
"""How many deviations one more result that agrees makes up for; found by trying, any number is correct."""


@final
@define(eq=False)
class Step:
    """What one task did between two waits, as far as others can see it.

    Attributes:
        instant: counts the moments to which the clock was advanced while nothing was ready.
        asked: the number of the question that chose this task; None where there was no choice.
        reads: what the task looked at, by identity.
        writes: what it changed.
    """

    task: Task
    instant: int
    asked: int | None
    reads: set[object] = field(factory=set[object])
    writes: set[object] = field(factory=set[object])

    def disturbs(self, other: "Step") -> bool:
        """Whether the order of the two matters; that of one task's own steps is not open."""
        return self.task is not other.task and not (
            self.writes.isdisjoint(other.reads)
            and self.writes.isdisjoint(other.writes)
            and self.reads.isdisjoint(other.writes)
        )


@final
@define(eq=False)
class Kernel:
    """The machine: the time, the tasks, and which of them runs."""

    choices: Choices
    now: float = 0
    tasks: list[Task] = field(factory=list[Task])
    current: Task = field(init=False)
    trail: list[Step] = field(factory=list[Step])
    instants: list[float] = field(factory=lambda: [0.0])
    held: tuple[int, float] | None = None
    stopped: bool = False

    def spawn(self, flow: Flow[None], node: Node) -> None:
        """Add a task that is ready at once, and runs up to its first wait whatever governs it."""
        self.tasks.append(Task(flow, node))

    def run(self) -> None:
        """Run until every task has ended or none can ever be ready; one that is given up ends its instant."""
        while self.tasks:
            now = self.now
            ready = [task for task in self.tasks if task.ready(now)]
            if ready:
                asked = None if len(ready) == 1 or self.stopped else len(self.choices.taken)
                task = ready[self.choices.pick(len(ready))]
                self.trail.append(Step(task, len(self.instants), asked))
                self._resume(task)
                continue
            later = min(task.next_time() for task in self.tasks)
            if later == math.inf or self.stopped:
                break
            self.now = max(now, later)
            self.instants.append(self.now)
            self.held = None
        self.choices.idle = self._idle

    def _resume(self, task: Task) -> None:
        self.current = task
        self.trail[-1].reads.update(task.node.members)
        # Last in the list, so that the default order is first come, first served.
        self.tasks.remove(task)
        try:
            if task.wait.cancellable and task.node.cancelled(self.now) and not self._slips(task):
                task.wait = task.flow.throw(Cancelled())
            else:
                task.wait = next(task.flow)
        except StopIteration:
            return
        task.parked = len(self.trail)
        self.tasks.append(task)

    def _slips(self, task: Task) -> bool:
        """Whether a task that was ready before the loop was held goes on as if no deadline had passed.

        A deadline need not be acted on before the scheduler's next pass; the task may be of this one.
        """
        if self.held is None:
            return False
        step, before = self.held
        early = task.parked < step and task.wait.wake <= before and not task.node.cancelled(before)
        return early and bool(self.choices.pick(2))

    def stop(self) -> None:
        """Give the run up: what it would still ask cannot matter.

        It goes on to the end of the instant, to tell which of the earlier answers in it mattered.
        """
        self.stopped = self.choices.closed = True

    def looks(self, sources: Iterable[Source]) -> None:
        """Note that the running task looked whether these are cancelled."""
        reads = self.trail[-1].reads
        for source in sources:
            reads.update(source.family)

    def request(self, source: Source) -> None:
        """Cancel ``source`` now, from the running task; whoever it governs is cancelled with it (`SC-3`)."""
        self.writes(source)
        if self.held is not None and source.requested is None:
            # The owner's deadline passed while the loop was held; that is noticed a pass later.
            source.ahead = source.cancelled(self.now) and not source.cancelled(self.held[1])
        source.request(self.now)

    def move_deadline(self, source: Source, at: float) -> None:
        """Move the deadline of ``source``, from the running task."""
        self.writes(source)
        source.move_deadline(self.now, at)

    def hold(self, seconds: float) -> None:
        """Advance the clock while the running task keeps the loop: everybody sees that."""
        if self.held is None:
            self.held = len(self.trail), self.now
        self.now += seconds
        self.writes(self)

    def reads(self, thing: object) -> None:
        """Note that the running task looked at something that others change."""
        self.trail[-1].reads.add(thing)

    def writes(self, thing: object) -> None:
        """Note that the running task changed something that others look at."""
        self.trail[-1].writes.add(thing)

    def _idle(self) -> set[int]:
        """Find the questions whose answer made no difference.

        If from some step on, at its instant, no two steps of different tasks disturb each other, then
        every other order from there leads to the same.
        """
        found: set[int] = set()
        later: list[Step] = []
        open_ = False
        for step in reversed(self.trail):
            if later and later[-1].instant != step.instant:
                later, open_ = [], False
            step.reads.add(self)
            open_ = open_ or any(step.disturbs(other) for other in later)
            later.append(step)
            if step.asked is not None and not open_:
                found.add(step.asked)
        return found

    def sleep(self, seconds: float) -> Flow[None]:
        """Sleep, unshielded; zero seconds are one checkpoint."""
        yield Wait(wake=self.now + seconds)

    def pause(self) -> Flow[None]:
        """Let every other task run that is ready, without being a cancel point."""
        yield Wait(wake=self.now, cancellable=False)

    def until(self, condition: Callable[[], bool], *, cancellable: bool = False) -> Flow[None]:
        """Wait until ``condition`` holds; by default cancellation does not end the wait."""
        if not condition():
            yield Wait(condition=condition, cancellable=cancellable)

    def within(self, flow: Flow[T], **link: object) -> Flow[T]:
        """Carry out ``flow`` under one more link; a ``Cancelled`` passes."""
        task = self.current
        outside = task.node
        task.node = Node(outside, **link)  # pyright: ignore[reportArgumentType]
        try:
            return (yield from flow)
        finally:
            task.node = outside

    def caught(self, source: Source, outside: Node) -> bool:
        """Whether a trio scope with ``source`` absorbs a ``Cancelled`` that reaches its end.

        The outermost cancelled scope in sight catches. A deadline that passed while the loop was held need
        not be acted on yet.
        """
        now = self.now
        before = now if self.held is None else self.held[1]
        if not source.cancelled(now) or outside.cancelled(before):
            return False
        if source.cancelled(before) and not outside.cancelled(now):
            return True
        return bool(self.choices.pick(2))
