"""A discrete-event machine for tasks that are generators, over virtual time.

A task yields `Wait` objects and is resumed when the wait is over, or has `Cancelled` thrown in when
something that governs it is cancelled. What governs it is a chain of `Node` objects, innermost
first, ended by a shield. Whether a `Source` is cancelled is computed from times each time it is
asked; nothing is delivered and no flag is kept, so there is no order of delivery that could decide
who was first.

Where several tasks are ready at one instant, their order is open: the machine asks a `Choices`
object, and `explored` runs a program again for every answer. Deadlines are no tasks: at the instant
of a deadline it has passed for everyone.
"""

import math
from collections.abc import Callable, Generator, Iterator
from typing import TypeAlias, TypeVar, final

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
    """

    name: str
    kind: str = "caller"
    deadline: float = math.inf
    deadline_kind: str = "deadline"
    parents: "tuple[Source, ...]" = ()
    requested: float | None = None

    def cause(self, now: float) -> Cause | None:
        """Return what cancelled this first, if it is cancelled at ``now``.

        The first cause in time is kept (`SC-4`). At the instant of the deadline the deadline has
        already passed (`SC-5`), so a request at that instant comes second.
        """
        first: Cause | None = None
        if self.deadline <= now:
            first = Cause(self.deadline_kind, self.name, self.deadline, self.deadline)
        if self.requested is not None and (first is None or self.requested < first.until):
            first = Cause(self.kind, self.name, self.requested, self.requested)
        for parent in self.parents:
            inherited = parent.cause(now)
            if inherited is not None and (first is None or inherited.until < first.until):
                first = inherited
        return first

    def cancelled(self, now: float) -> bool:
        """Whether this is cancelled at ``now``, by the clock and not by a flag."""
        return (
            self.deadline <= now
            or self.requested is not None
            or any(parent.cancelled(now) for parent in self.parents)
        )

    def request(self, now: float) -> None:
        """Cancel this at ``now``, if it is not cancelled already (`SC-4`)."""
        if not self.cancelled(now):
            self.requested = now

    def next_deadline(self) -> float:
        """Return the earliest deadline of this and its parents."""
        return min([self.deadline, *(parent.next_deadline() for parent in self.parents)])


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
    """

    outside: "Node | None"
    sources: tuple[Source, ...] = ()
    shield: bool = False
    role: str = "ambient"
    owner: object = None

    def visible(self) -> "Iterator[Node]":
        """Iterate over the links from here outwards, up to and including the first shield."""
        node: Node | None = self
        while node is not None:
            yield node
            node = None if node.shield else node.outside

    def cancelled(self, now: float) -> bool:
        """Whether any visible source is cancelled at ``now``."""
        return any(source.cancelled(now) for node in self.visible() for source in node.sources)

    def next_deadline(self) -> float:
        """Return the earliest visible deadline."""
        return min(
            (source.next_deadline() for node in self.visible() for source in node.sources), default=math.inf
        )


@final
@frozen(eq=False)
class Wait:
    """What a task waits for: a time or a condition, and whether cancellation ends it."""

    wake: float = math.inf
    condition: Callable[[], bool] | None = None
    cancellable: bool = True


Flow: TypeAlias = Generator[Wait, None, T]


@final
@define(eq=False)
class Task:
    """One task: its generator, the chain that governs it, what it waits for."""

    flow: Flow[None]
    node: Node
    wait: Wait = field(factory=lambda: Wait(wake=-math.inf, cancellable=False))

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
    each question, the answer and how many there were.
    """

    path: tuple[int, ...] = ()
    taken: list[tuple[int, int]] = field(factory=list[tuple[int, int]])

    def pick(self, count: int) -> int:
        """Return an index below ``count``."""
        if count == 1:
            return 0
        position = len(self.taken)
        answer = self.path[position] if position < len(self.path) else 0
        self.taken.append((answer, count))
        return answer


def explored(run: Callable[[Choices], T], *, limit: int) -> Iterator[T]:
    """Yield what ``run`` returns for every sequence of answers, at most ``limit`` of them.

    The first sequence takes tasks in the order in which they became ready. Of two neighbouring
    sequences the one that differs later comes first.
    """
    path: tuple[int, ...] = ()
    for _ in range(limit):
        choices = Choices(path)
        yield run(choices)
        taken = choices.taken
        while taken and taken[-1][0] + 1 == taken[-1][1]:
            taken.pop()
        if not taken:
            return
        path = (*(answer for answer, _ in taken[:-1]), taken[-1][0] + 1)


@final
@define(eq=False)
class Kernel:
    """The machine: the time, the tasks, and which of them runs."""

    choices: Choices
    now: float = 0
    tasks: list[Task] = field(factory=list[Task])
    current: Task = field(init=False)

    def spawn(self, flow: Flow[None], node: Node) -> None:
        """Add a task that is ready at once, and runs up to its first wait whatever governs it."""
        self.tasks.append(Task(flow, node))

    def run(self) -> None:
        """Run until every task has ended, or none can ever be ready."""
        while self.tasks:
            now = self.now
            ready = [task for task in self.tasks if task.ready(now)]
            if not ready:
                later = min(task.next_time() for task in self.tasks)
                if later == math.inf:
                    return
                self.now = max(now, later)
                continue
            self._resume(ready[self.choices.pick(len(ready))])

    def _resume(self, task: Task) -> None:
        self.current = task
        # Last in the list, so that the default order is first come, first served.
        self.tasks.remove(task)
        try:
            if task.wait.cancellable and task.node.cancelled(self.now):
                task.wait = task.flow.throw(Cancelled())
            else:
                task.wait = next(task.flow)
        except StopIteration:
            return
        self.tasks.append(task)

    def sleep(self, seconds: float) -> Flow[None]:
        """Sleep, unshielded; zero seconds are one checkpoint."""
        yield Wait(wake=self.now + seconds)

    def pause(self) -> Flow[None]:
        """Let every other task run that is ready, without being a cancel point."""
        yield Wait(wake=self.now, cancellable=False)

    def until(self, condition: Callable[[], bool]) -> Flow[None]:
        """Wait until ``condition`` holds; cancellation does not end the wait."""
        if not condition():
            yield Wait(condition=condition, cancellable=False)

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

        The outermost cancelled scope in sight catches.
        """
        return source.cancelled(self.now) and not outside.cancelled(self.now)
