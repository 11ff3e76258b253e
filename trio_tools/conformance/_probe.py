"""Watching the body of one tool from inside the scheduler, and cancelling it at a chosen step.

Theory of operation
-------------------
A *step* of a body is one run of one of its tasks from where it was resumed to where it parks. The
tasks of a body are the task that runs its function, and every task that was spawned by one of them:
`Probe` is a trio instrument and looks at the current task inside ``task_spawned``, so a task started
into somebody else's nursery and a system task are seen as well. They are its *family*.

A reference run counts the steps. A later run of the same case takes the same steps, because time is
virtual and the order of tasks is fixed, and is cancelled at step k: either as the task parks
(``block``: what it waits for is aborted) or as it is about to be resumed (``resume``: what it waited
for has happened, so that the next cancel point raises and whatever the wait had delivered is in the
tool's hands). Every place where a cancellation can land is one of the two. k = 0 is the place before
the first step: before the call is dispatched, or just before the body's first line runs.

An instrument is called from trio's loop, outside every task's code, and may cancel scopes there. It
cannot see what trio sends into a coroutine, so each task of the family is stepped by `_Stepped`, an
awaitable between trio and the coroutine. It records every `trio.Cancelled` on its way in. Afterwards
the record tells what became of it:

- the body let it out: that is what a cancellation is for;
- the same task was sent another one, raised while the first was being handled (Python chains the two
  by ``__context__``): the tool's cleanup waited, which is its right;
- the same task was sent another one, not chained to the first: the tool had caught the first and gone
  on, and its next cancel point raised again. Cancellation is level-triggered: that is what gives a
  swallowed one away;
- the body returned a value or raised something else: the cancellation was lost.

A `Cancelled` of a scope that the tool itself opened and cancelled is none of this. It is told apart by
what trio notes with each cancellation: a reason, and the task that asked for it. The suite's own carry
`TOKEN` as the one or, for the moment of the request, as the name of the other.
"""

import inspect
import signal
import time
from collections.abc import Callable, Coroutine, Generator
from types import CodeType, FrameType
from typing import Any, Final, final

import trio
from attrs import define, frozen

from ._clock import VirtualClock
from ._errors import chain_of, only_cancelled
from ._generators import Generators
from ._site import Site, is_foreign, is_runtime, site_of, site_of_frame

__all__ = ["TOKEN", "Delivery", "Lane", "Probe", "Tick"]

TOKEN: Final = "trio-tools conformance"
"""What tells a cancellation of the suite from any other."""

_COURIER: Final = "<TrioToken.run_sync_soon task>"
"""The name of the task in which trio runs what comes in by `trio.lowlevel.TrioToken.run_sync_soon`."""

_SPIN_STEPS: Final = 20_000
"""Steps of other tasks, without one of the body between them, after which the loop counts as spinning."""


@final
@define(eq=False)
class Delivery:
    """A cancellation on its way into a task of the body.

    Attributes:
        error: what was sent.
        task: the number of the task; 0 is the body's own.
        frames: code and line of every frame that it came through, the outermost first, once the call has
            ended; see `Probe.let_go`.
        step: how many steps the family had taken.
        ours: whether it is the suite's cancellation rather than one of the tool's own scopes.
        late: whether the suite's cancellation had been made; one of the tool's own scopes then travels on
            in its stead, for a scope absorbs nothing while one around it is cancelled.
        inside: whether the task runs in a nursery that the body's function is in, so that the function
            cannot return either.
        absorbed: whether the task is one that the tool started, and has returned in spite of it.
    """

    error: trio.Cancelled
    task: int
    step: int
    ours: bool
    late: bool
    inside: bool = True
    absorbed: bool = False
    frames: tuple[tuple[CodeType, int], ...] = ()

    @property
    def site(self) -> Site | None:
        """The line of the tool that waited, None when none of it was reached."""
        for code, line in reversed(self.frames):
            if not is_foreign(code.co_filename):
                return Site.of(code, line)
        return None


@final
@frozen
class Tick:
    """One thing that happened in a lane of the picture: start, step, cancel, sent, end, or over."""

    lane: int
    step: int
    time: float
    what: str
    site: str


@final
@define(eq=False)
class Lane:
    """A task of the family as the picture shows it.

    Attributes:
        number: 0 for the body's own task, then in order of spawning.
        name: the task's name.
        task: the task while it lives, None once it has ended.
        coroutine: what it runs.
        started: the line of the tool that started it, None for the body's own.
    """

    number: int
    name: str
    task: trio.lowlevel.Task | None
    coroutine: Any
    started: Site | None = None


@final
class Probe(trio.abc.Instrument):
    """Counts the steps of one body, and does what it is armed for at one of them.

    Attributes:
        steps: how many times a task of the family has parked.
        resumes: how many times one was about to be resumed.
        lanes: every task of the family, living or not.
        strays: living tasks that were started by way of ``TrioToken.run_sync_soon``.
        deliveries: every `trio.Cancelled` sent into the family, in order.
        body: how the body's function ended: ``returned``, ``raised``, ``cancelled``, or not yet.
        error: what it raised.
        fired: whether the armed action has been done.
        fired_step: the number of steps then.
        fired_resume: the number of resumptions then.
        fired_at: the virtual time then.
        fired_site: the line at which the tool was.
        slowest: the real seconds of the slowest step, and if it is slower than allowed, where it began.
        yields: generators seen to yield inside a scope: which kind, and where.
        ticks: the picture, None unless it is being drawn.
        step_limit: the number of steps after which the run is given up.
        stranger_steps: steps of tasks outside the family since one inside it ran.
        newcomers: how many more tasks live than when the case began, whoever started them.
        couriered: whether anything came in by ``TrioToken.run_sync_soon``.
        block_seconds: the real seconds beyond which it is noted where a step began.
    """

    def __init__(self, clock: VirtualClock, generators: Generators, on_stuck: Callable[[str], None]) -> None:
        self.clock: Final = clock
        self.generators: Final = generators
        self.on_stuck: Final = on_stuck
        self.progress: Callable[[int], None] = lambda _stage: None
        self.on_fired: Callable[[], None] = lambda: None
        self.slow_seconds = 0.0
        self.block_seconds = 0.0
        self.on_enter: Callable[[], None] | None = None
        self._courier: trio.lowlevel.Task | None = None
        self.restart()

    def restart(self, *, draw: bool = False) -> None:
        """Forget everything, for a new case."""
        self.steps = 0
        self.resumes = 0
        self.lanes: list[Lane] = []
        self._family: dict[trio.lowlevel.Task, Lane] = {}
        self.strays: dict[trio.lowlevel.Task, Lane] = {}
        self.deliveries: list[Delivery] = []
        self.body = ""
        self.error: BaseException | None = None
        self.entered = 0
        self.fired = False
        self.fired_step = 0
        self.fired_resume = 0
        self.fired_at = 0.0
        self.fired_site: Site | None = None
        self.slowest = 0.0
        self.slowest_site: Site | None = None
        self.ticks: list[Tick] | None = [] if draw else None
        self.yields: list[tuple[str, Site | None]] = []
        self.step_limit = 1_000_000
        self.stranger_steps = 0
        self.newcomers = 0
        self.couriered = False
        self._alarmed: Site | None = None
        self._acting = False
        self._block: dict[int, Callable[[], None]] = {}
        self._resume: dict[int, Callable[[], None]] = {}
        self._began = 0.0

    def arm(self, step: int, *, resume: bool, action: Callable[[], None]) -> None:
        """Do ``action`` at one step of the family, counted from 1.

        Args:
            step: the number of the parking, or of the resumption.
            resume: as a task is about to be resumed, rather than as it parks.
        """
        (self._resume if resume else self._block)[step] = action

    def note_fired(self, lane: Lane | None) -> None:
        """Note that the cancellation is being made now, at the line where ``lane`` is."""
        if self.fired:
            return
        self.fired = True
        self.fired_step = self.steps
        self.fired_resume = self.resumes
        self.fired_at = self.clock.current_time()
        self.fired_site = None if lane is None else site_of(lane.coroutine)
        self.on_fired()
        self.progress(2)
        if self.ticks is not None:
            number = 0 if lane is None else lane.number
            self.ticks.append(Tick(number, self.steps, self.clock.now, "cancel", str(self.fired_site or "")))

    def note_over(self) -> None:
        """Note in the picture that the call has ended for its caller."""
        if self.ticks is not None:
            self.ticks.append(Tick(-1, self.steps, self.clock.now, "over", ""))

    def read_frames(self) -> None:
        """Note where each cancellation that was sent in came through."""
        for delivery in self.deliveries:
            frames: list[tuple[CodeType, int]] = []
            trace = delivery.error.__traceback__
            while trace is not None:
                frames.append((trace.tb_frame.f_code, trace.tb_lineno))
                trace = trace.tb_next
            delivery.frames = tuple(frames)

    def let_go(self) -> None:
        """Forget the frames of the errors that were seen.

        They would keep alive what the tool held, and that would count as left behind.
        """
        self.read_frames()
        for error in (self.error, *(delivery.error for delivery in self.deliveries)):
            if error is not None:
                error.__traceback__ = None
                for link in chain_of(error):
                    link.__traceback__ = None

    @property
    def alive(self) -> list[Lane]:
        """The tasks of the family that have not ended, and the strays."""
        return [*self._family.values(), *self.strays.values()]

    async def watch(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run a body's coroutine in the current task, as the first of a family."""
        task = trio.lowlevel.current_task()
        lane = Lane(len(self.lanes), "body", task, coroutine)
        self.lanes.append(lane)
        self._family[task] = lane
        self.entered += 1
        self.body = ""
        self.progress(1)
        # The step that is running began before the family existed.
        self._begin_step()
        if self.ticks is not None:
            self._tick(lane, "start")
        if self.on_enter is not None:
            self._act(lane, self.on_enter)
        try:
            value = await _Stepped(coroutine, lane, self)
        except BaseException as error:
            self.error = error
            self.body = "cancelled" if only_cancelled(error) else "raised"
            raise
        else:
            self.body = "returned"
            return value
        finally:
            self._measure(None)
            self._family.pop(task, None)
            lane.task = None
            if self.ticks is not None:
                self._tick(lane, "end")

    def watch_thread(self) -> Callable[[FrameType, BaseException | None], None]:
        """Begin to watch a ``def`` body, in its worker thread.

        Returns what to call for each of its lines, and for each error that comes into one. The lines are
        the steps: a `def` body has no others. What is armed is done in trio's thread while the body waits.
        """
        lane = Lane(len(self.lanes), "thread", None, None)
        self.lanes.append(lane)
        self.entered += 1
        self.body = ""
        self.progress(1)

        def line(frame: FrameType, error: BaseException | None) -> None:
            if error is not None:
                if isinstance(error, trio.Cancelled) and all(error is not d.error for d in self.deliveries):
                    self.delivered(error, lane)
                return
            self.steps += 1
            action = self._block.pop(self.steps, None)
            if action is not None:
                site = Site.of(frame.f_code, frame.f_lineno)
                trio.from_thread.run_sync(self._fire_from_thread, lane, site, action)
            if self.steps > self.step_limit:
                self.on_stuck("steps")

        return line

    def _fire_from_thread(self, lane: Lane, site: Site, action: Callable[[], None]) -> None:
        self._act(lane, action)
        self.fired_site = site

    def thread_ended(self, error: BaseException | None) -> None:
        """Note how a ``def`` body ended."""
        self.error = error
        if error is None:
            self.body = "returned"
        else:
            self.body = "cancelled" if only_cancelled(error) else "raised"

    def _tick(self, lane: Lane, what: str) -> None:
        if self.ticks is not None and len(self.ticks) < 4_000:
            site = site_of(lane.coroutine) if what in {"step", "sent"} else None
            self.ticks.append(Tick(lane.number, self.steps, self.clock.now, what, str(site or "")))

    def delivered(self, error: trio.Cancelled, lane: Lane) -> None:
        """Record a cancellation that is about to be sent into ``lane``."""
        ours = self.fired and TOKEN in (error.reason, *_quoted(error.source_task))
        inside = lane.number == 0 or self._is_inside(lane.task)
        self.deliveries.append(Delivery(error, lane.number, self.steps, ours, self.fired, inside))
        if ours:
            self.progress(3)
        if self.ticks is not None:
            self._tick(lane, "sent")

    def _is_inside(self, task: trio.lowlevel.Task | None) -> bool:
        while task is not None and task.parent_nursery is not None:
            task = task.parent_nursery.parent_task
            lane = self._family.get(task)
            if lane is not None and lane.number == 0:
                return True
        return False

    def returned(self, lane: Lane) -> None:
        """Note that a task ended by itself, whatever had been sent into it."""
        code: CodeType | None = getattr(lane.coroutine, "cr_code", None)
        if code is not None and is_runtime(code.co_filename):
            return  # the body of a call that the tool makes: the registry settles it, and tells its caller
        for delivery in self.deliveries:
            if delivery.task == lane.number:
                delivery.absorbed = True

    def task_spawned(self, task: trio.lowlevel.Task) -> None:
        """Adopt a task that one of the family spawned."""
        self.newcomers += 1
        try:
            spawner = trio.lowlevel.current_task()
        except RuntimeError:
            return
        if self._acting:
            return
        if spawner not in self._family:
            if spawner.name == _COURIER and self.entered:
                # By whose wish it runs cannot be told, so it takes no part in the count of steps.
                self.strays[task] = Lane(-1, task.name, task, task.coro)
            return
        started = site_of_frame(inspect.currentframe())
        lane = Lane(len(self.lanes), task.name, task, task.coro, started)
        self.lanes.append(lane)
        self._family[task] = lane
        nursery = task.parent_nursery
        is_system = nursery is not None and nursery.parent_task is trio.lowlevel.current_root_task()
        task.coro = _stepped_task(task.coro, lane, self, guarded=not is_system)
        if self.ticks is not None:
            self._tick(lane, "start")

    def task_exited(self, task: trio.lowlevel.Task) -> None:
        """Let go of a task that has ended."""
        self.newcomers -= 1
        self.strays.pop(task, None)
        lane = self._family.pop(task, None)
        if lane is not None:
            self._measure(None)
            lane.task = None
            if self.ticks is not None:
                self._tick(lane, "end")

    def _look_at_generators(self) -> None:
        for found in self.generators.yielding_in_scope():
            if found not in self.yields:
                self.yields.append(found)

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Fire what is armed for a resumption."""
        self.clock.ran = True
        if self.generators.begun:
            self._look_at_generators()
        lane = self._family.get(task)
        if lane is None:
            self.stranger_steps += 1
            if self.stranger_steps > _SPIN_STEPS:
                self.on_stuck("spin")
            if task is self._courier or (self._courier is None and task.name == _COURIER):
                # What it runs was handed to it by somebody, and holds the loop like any step.
                self._courier = task
                self.couriered = True
                self._begin_step()
            return
        self.resumes += 1
        if self._resume:
            action = self._resume.pop(self.resumes, None)
            if action is not None:
                self._act(lane, action)
        self._begin_step()

    def _measure(self, lane: Lane | None) -> None:
        took = time.perf_counter() - self._began
        if self.ticks is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if took > self.slowest:
            self.slowest = took
            if took > self.block_seconds:
                self.slowest_site = self._alarmed or (None if lane is None else site_of(lane.coroutine))
        self._alarmed = None

    def _begin_step(self) -> None:
        self._began = time.perf_counter()
        if self.ticks is not None:
            # While the picture is drawn a step that takes long is looked at while it takes it.
            signal.setitimer(signal.ITIMER_REAL, self.slow_seconds)

    def look_at_slow_steps(self, seconds: float) -> None:
        """Note the line that a drawn step is at when it has taken ``seconds``; main thread only."""
        self.slow_seconds = seconds

        def look(_number: int, frame: FrameType | None) -> None:
            self._alarmed = site_of_frame(frame)

        signal.signal(signal.SIGALRM, look)

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """Count a step, and fire what is armed for a parking."""
        lane = self._family.get(task)
        if lane is None:
            if task is self._courier and self.entered:
                self._measure(None)
            return
        self._measure(lane)
        self.steps += 1
        self.stranger_steps = 0
        if self.ticks is not None:
            self._tick(lane, "step")
        if self._block:
            action = self._block.pop(self.steps, None)
            if action is not None:
                self._act(lane, action)
        if self.steps > self.step_limit:
            self.on_stuck("steps")

    def _act(self, lane: Lane | None, action: Callable[[], None]) -> None:
        """Do what was armed; a task that this starts is the registry's, not the tool's."""
        self.note_fired(lane)
        # trio notes with a cancellation by which task it was requested.
        task = trio.lowlevel.current_task()
        name, task.name = task.name, TOKEN
        self._acting = True
        try:
            action()
        finally:
            self._acting = False
            task.name = name

    def act_now(self, action: Callable[[], None]) -> None:
        """Do ``action`` in the current task, before the body has begun."""
        self._act(None, action)


def _quoted(task: str | None) -> list[str]:
    """Return what stands between quotes in the repr of a task: its name."""
    return [] if task is None else task.split("'")[1:2]


class _Stepped:
    """The awaitable between trio and a coroutine: it passes everything on, and looks at it."""

    __slots__ = ("_coroutine", "_lane", "_probe")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], lane: Lane, probe: Probe) -> None:
        self._coroutine = coroutine
        self._lane = lane
        self._probe = probe

    def __await__(self) -> Generator[Any, Any, Any]:
        coroutine = self._coroutine
        sent: Any = None
        while True:
            try:
                message = coroutine.send(sent)
            except StopIteration as stop:
                if self._lane.number:
                    self._probe.returned(self._lane)
                return stop.value
            try:
                sent = yield message
            except GeneratorExit:
                coroutine.close()
                raise
            except BaseException as thrown:  # noqa: BLE001  # trio throws where it did not understand a message
                message = coroutine.throw(thrown)
                sent = yield message
            error = getattr(sent, "error", None)
            if error is not None and isinstance(error, trio.Cancelled):
                self._probe.delivered(error, self._lane)


async def _stepped_task(
    coroutine: Coroutine[Any, Any, Any], lane: Lane, probe: Probe, *, guarded: bool
) -> Any:
    if not guarded:
        return await _Stepped(coroutine, lane, probe)
    # A task may end with a scope open and trio says nothing; to close this one around it raises.
    with trio.CancelScope():
        return await _Stepped(coroutine, lane, probe)
