"""Running cases: many in one trio run where each is shown to leave the run as it found it.

Starting trio costs more than a small tool does, so the cases of one worker share a run. They are kept
apart by proof rather than by process: after each case the family of the body is empty, no descriptor,
child, thread, file or asynchronous generator is left, and the loop is quiet; the clock and the
schedule start again from zero. A case of which that is not true ends the run, and its worker process
with it, so that nothing it left can be blamed on the next (`Runner.tainted`).
"""

import gc
import random
import time
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, final

import trio
from attrs import frozen

from trio_tools import Tool, freeze_value

from ._case import Case, Kind, Mode
from ._census import Census, leftovers_since, take_census
from ._clock import VirtualClock
from ._fixture import NO_WORLD, Setup, World, opened
from ._generators import Generators, generator_site
from ._observation import Ending, Observation
from ._probe import Probe
from ._profile import Profile
from ._schedule import Schedule, ordered
from ._site import site_of
from ._stage import ROUTES, Call, Stage
from ._traces import current_traces

__all__ = ["Abandoned", "Runner", "Subject"]

_HARD: Final = 20.0
"""How many times its limit a run may take before it is given up rather than observed to its end."""

_WINDOWS: Final = 50
"""How many times the loop is looked at before it counts as one that does not come to rest."""

_DEPTH: Final = 512
"""How deep arguments may be nested, as in `trio_tools.Bounds`."""


class Abandoned(BaseException):
    """A run will not end; what was seen of it is in `observation`."""

    def __init__(self, observation: Observation) -> None:
        super().__init__(observation.stuck)
        self.observation: Final = observation


@final
@frozen(kw_only=True, eq=False)
class Subject:
    """What is checked.

    Attributes:
        tool: the tool.
        setup: makes the fixture of each run, None for none.
        profile: what it is measured against.
    """

    tool: Tool
    setup: Setup | None
    profile: Profile


@final
class Runner:
    """Runs cases of one subject, one after another, in this process.

    Args:
        progress: told, as a number, how far a case is: 1 the body has begun, 2 the cancellation was made,
            3 it was delivered. A process that has to be ended from outside can still say so.
        abandon: called with what was seen of a run that will not end; it must not return.
    """

    def __init__(
        self,
        subject: Subject,
        *,
        progress: Callable[[int], None] = lambda _stage: None,
        abandon: Callable[[Observation], None] | None = None,
    ) -> None:
        self.subject: Final = subject
        self.tainted = False
        self._abandon: Final = abandon
        self._clock: Final = VirtualClock()
        self._schedule: Final = Schedule()
        self._generators: Final = Generators()
        self._probe: Final = Probe(self._clock, self._generators, self._stuck)
        self._probe.progress = progress
        self._probe.block_seconds = subject.profile.block_seconds
        self._clock.stranded = self._stuck
        self._stage: Final = Stage(subject.tool, self._probe)
        self._seen = Observation(case=Case(kind=Kind.REFERENCE, arguments=None))
        self._stop: Callable[[], None] | None = None
        self._warned: list[str] = []
        self._before = take_census()
        self._traces: Final = current_traces()

    def look_at_slow_steps(self) -> None:
        """Let a drawn case name the line that holds the loop; for the main thread of a worker."""
        self._probe.look_at_slow_steps(self.subject.profile.block_seconds * 0.75)

    def run(self, cases: Iterable[Case], report: Callable[[Observation], None]) -> None:
        """Run ``cases`` in order and report each; stops early when `tainted`.

        Raises:
            Abandoned: when a run will not end and nobody took it.
        """
        with ordered(self._schedule):
            try:
                trio.run(self._main, cases, report, clock=self._clock, instruments=[self._probe])
            except trio.TrioInternalError as error:
                cause = error.__cause__
                if isinstance(cause, Abandoned):
                    raise cause from None
                raise

    async def _main(self, cases: Iterable[Case], report: Callable[[Observation], None]) -> None:
        await trio.lowlevel.checkpoint()
        self._clock.watch_from_here()
        gc.collect()
        gc.disable()
        since = 0
        try:
            with self._generators.hooked(), warnings.catch_warnings():
                warnings.simplefilter("always", ResourceWarning)
                warnings.showwarning = self._note_warning
                self._before = take_census()
                for case in cases:
                    report(await self._case(case))
                    since += 1
                    if since == 200:
                        since = 0
                        gc.collect()
                    if self.tainted:
                        return
        finally:
            gc.enable()

    async def _case(self, case: Case) -> Observation:
        if case.kind is Kind.REPEAT:
            return await self._repeat(case)
        if case.kind is Kind.PAIR:
            return await self._pair(case)
        if case.kind is Kind.ROUTES:
            return await self._routes(case)
        if self.subject.setup is None:
            self._restart(case)
            await self._call(case, case.arguments)
            await self._look(NO_WORLD)
            return self._seen
        async with self._world(case) as world:
            before = take_census()
            state = [world.snapshot()] if world.has_snapshot else []
            await self._call(case, case.arguments)
            if state:
                self._seen.snapshots = [*state, world.snapshot()]
            await self._look(world, before)
        if self._seen.left:
            # What the fixture has closed with itself was the fixture's to close.
            later = leftovers_since(self._before).with_collected(self._warned)
            self._seen.left = self._seen.left.kept_in(later)
            self.tainted = self._is_dirty()
        return self._seen

    def _note_warning(self, message: Warning | str, category: type[Warning], *_where: object) -> None:
        if issubclass(category, ResourceWarning):
            self._warned.append(str(message))

    def _world(self, case: Case, *, chance: int = 0) -> Any:
        self._restart(case, chance=chance)
        return opened(self.subject.setup)

    def _restart(self, case: Case, *, chance: int = 0) -> None:
        """Begin from nothing, with what chance will bring; two runs that must differ by it differ in that."""
        random.seed(chance)
        self._clock.restart()
        self._traces.begin()
        self._schedule.restart(case.deviations)
        self._probe.restart(draw=case.draw)
        self._seen = Observation(case=case)
        self._stop = None

    async def _call(self, case: Case, arguments: Any, *, route: str = "execute") -> None:
        """Make one call, cancelled as the case says, and note how it ended."""
        probe, clock, profile = self._probe, self._clock, self.subject.profile
        # Besides those that are cancelled that way, it is what a second cancellation is and what stops a
        # reference run that does not end.
        enclosed = case.step < 0 or case.second is not None
        call = Call(self._stage, arguments, case.way, enclosed=enclosed)
        probe.progress(0)
        # Those of the fixture, if it is made of a generator, are not the tool's.
        self._generators.clear()
        self._warned.clear()
        self._stop = call.shut_down
        clock.horizon = clock.now + profile.run_seconds
        probe.step_limit = profile.run_steps
        before: Callable[[], None] | None = None
        if case.step >= 0:
            fire = partial(self._fire, call, case)
            probe.on_fired = self._fired
            if case.step > 0:
                probe.arm(case.step, resume=case.mode is Mode.RESUME, action=fire)
            elif case.mode is Mode.BLOCK:
                before = partial(probe.act_now, fire)
            else:
                probe.on_enter = fire
            if case.second is not None:
                mode, step = case.second
                probe.arm(step, resume=mode is Mode.RESUME, action=call.cancel_again)
        await call.run(route=route, first=before)
        self._stop = None
        probe.on_enter = None
        probe.note_over()
        probe.let_go()
        if call.ending is not None:
            self._seen.endings.append(call.ending)

    def _fire(self, call: Call, case: Case) -> None:
        if case.kind is Kind.TIMEOUT:
            timeout = self.subject.tool.timeout
            assert timeout is not None
            self._clock.now = max(self._clock.now, timeout)
            self._probe.fired_at = self._clock.now
        else:
            call.cancel()

    def _fired(self) -> None:
        profile = self.subject.profile
        limit = max(profile.stop_seconds, profile.cleanup_seconds)
        self._clock.horizon = self._clock.current_time() + _HARD * limit
        self._probe.step_limit = self._probe.steps + profile.cleanup_steps * 2

    def _note(self) -> None:
        seen, probe = self._seen, self._probe
        seen.fired = probe.fired
        seen.fired_at = probe.fired_at
        seen.fired_site = probe.fired_site
        seen.ended_at = self._clock.current_time()
        seen.steps = probe.steps
        seen.resumes = probe.resumes
        seen.fired_step = probe.fired_step
        seen.fired_resume = probe.fired_resume
        seen.after_steps = probe.steps - probe.fired_step
        seen.entered = probe.entered
        seen.body = probe.body
        seen.error = probe.error
        seen.deliveries = probe.deliveries
        seen.ours = [delivery for delivery in probe.deliveries if delivery.ours]
        seen.slowest = probe.slowest
        seen.slowest_site = probe.slowest_site
        seen.yields = probe.yields or list(self._generators.written_in_scope())
        seen.real = seen.real or self._clock.moved
        seen.choices = list(self._schedule.sizes)
        if probe.ticks is not None:
            seen.ticks = list(probe.ticks)
            seen.lanes = [lane.name for lane in probe.lanes]

    async def _look(self, world: World, before: Census | None = None) -> None:
        """Note what was seen and what is left, after the last call of a case."""
        self._note()
        seen, probe = self._seen, self._probe
        seen.generators = [
            str(generator_site(generator) or generator.ag_code.co_qualname)
            for generator in self._generators.unfinished()
        ]
        seen.left = leftovers_since(before or self._before)
        for _ in range(10):
            if not seen.left.may_pass:
                break
            # A worker thread hands over its result a moment before it is idle again.
            time.sleep(0.001)  # noqa: ASYNC251  (real time, and nothing else runs)
            seen.left = leftovers_since(before or self._before)
        seen.left = seen.left.with_traces(self._traces.orphans(), self._traces.files())
        if self._warned:
            seen.left = seen.left.with_collected(self._warned)
        seen.idle = await self._is_quiet()
        seen.tasks = [(lane, site_of(lane.coroutine)) for lane in probe.alive]
        if world.has_invariant:
            seen.invariants += 1
            seen.invariant = world.broken()
        self.tainted = self._is_dirty()

    def _is_dirty(self) -> bool:
        seen = self._seen
        return bool(seen.tasks or seen.left or seen.generators or not seen.idle)

    async def _is_quiet(self) -> bool:
        """Return whether the loop comes to rest; tasks of a fixture may have something left to do."""
        if self.subject.setup is None and not self._probe.newcomers and not self._probe.couriered:
            return True  # there is nobody who could do anything
        for _ in range(_WINDOWS):
            self._probe.stranger_steps = 0
            await trio.lowlevel.checkpoint()
            await trio.lowlevel.checkpoint()
            # The two passes above are this task's own; anything beyond them is somebody else's.
            if self._probe.stranger_steps <= 2:
                return True
        return False

    def _stuck(self, why: str) -> None:
        seen = self._seen
        if not self._probe.fired and seen.case.step < 0 and not seen.unended and self._stop is not None:
            # A reference run that does not end by itself is stopped, and what it showed is kept.
            seen.unended = why
            self._clock.horizon = self._clock.now + 1_000.0
            self._probe.step_limit = self._probe.steps + 10_000
            self._stop()
            return
        self._probe.read_frames()
        self._note()
        seen.stuck = why
        seen.tasks = [(lane, site_of(lane.coroutine)) for lane in self._probe.alive]
        if self._abandon is not None:
            self._abandon(seen)
        raise Abandoned(seen)

    async def _repeat(self, case: Case) -> Observation:
        """Call once; and in a fresh world, cancelled at the step or not, call, then call again."""
        single: list[object] = []
        for chance in range(2 if case.step >= 0 else 0):
            async with self._world(case, chance=chance) as world:
                await self._uncancelled(case.arguments)
                single.append(world.snapshot())
        async with self._world(case) as world:
            self._seen.snapshots.append(world.snapshot())
            await self._call(case, case.arguments)
            self._note()
            self._seen.snapshots.append(world.snapshot())
            await self._uncancelled(case.arguments)
            self._seen.snapshots.append(world.snapshot())
            self._seen.snapshots.extend(single)
            await self._look_only_for_taint()
        return self._seen

    async def _uncancelled(self, arguments: Any) -> None:
        self._clock.restart()
        await self._call(Case(kind=Kind.REFERENCE, arguments=arguments), arguments)

    async def _look_only_for_taint(self) -> None:
        quiet = await self._is_quiet()
        left = leftovers_since(self._before).with_traces(self._traces.orphans(), self._traces.files())
        if not quiet or self._probe.alive or left or self._generators.unfinished():
            self.tainted = True

    async def _pair(self, case: Case) -> Observation:
        """Make two calls in both serial orders, then at once; what they gave stands in that order.

        The first order is run twice. At once means: the second begins when the first has taken as many
        steps as the case says.
        """
        one, two = case.arguments
        if not (self._claims_safety(one) and self._claims_safety(two)):
            self._restart(case)
            return self._seen
        endings: list[Ending] = []
        snapshots: list[object] = []
        for chance, (first, second) in enumerate(((one, two), (one, two), (two, one))):
            async with self._world(Case(kind=Kind.REFERENCE, arguments=None), chance=chance) as world:
                await self._uncancelled(first)
                await self._uncancelled(second)
                endings.extend(self._seen.endings)
                snapshots.append(world.snapshot())
        async with self._world(case) as world:
            ahead, behind = Call(self._stage, one, case.way), Call(self._stage, two, case.way)
            self._seen.endings = endings
            self._probe.progress(0)
            self._clock.horizon = self._clock.now + self.subject.profile.run_seconds
            self._probe.step_limit = self.subject.profile.run_steps
            begun = trio.Event()
            if case.step > 0:
                self._probe.arm(case.step, resume=False, action=begun.set)
            else:
                begun.set()

            async def run_ahead() -> None:
                await ahead.run()
                begun.set()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(run_ahead)
                await begun.wait()
                await behind.run()
            self._seen.endings = endings + [
                call.ending for call in (ahead, behind) if call.ending is not None
            ]
            self._seen.snapshots = [*snapshots, world.snapshot()]
            await self._look(world)
        return self._seen

    def _claims_safety(self, arguments: object) -> bool:
        claim = self.subject.tool.concurrency_safe
        return claim if isinstance(claim, bool) else claim(freeze_value(arguments, depth=_DEPTH)) is True

    async def _routes(self, case: Case) -> Observation:
        """Make the same call by every route, each in a fresh world."""
        endings: list[Ending] = []
        real = False
        for chance, route in enumerate(ROUTES):
            async with self._world(case, chance=chance):
                before = len(endings)
                self._seen.endings = endings
                await self._call(case, case.arguments, route=route)
                if len(endings) == before:
                    endings.append(Ending(outcome="nothing"))
                self._note()
                real = real or self._seen.real
                await self._look_only_for_taint()
        self._seen.real = real
        return self._seen
