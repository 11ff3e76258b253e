"""The pure interpreter: one state of a program's run, and what one step of one task does to it.

Theory of operation. There is no trio here, no clock and no I/O: a `Machine` is a handful of flat lists.
Three things happen to it, and whoever drives it (see `_explore`) decides when:

- `expire()` acts on deadlines and sleeps that are due;
- `step(task)` runs one runnable task from where it waits to where it waits next, or to its end;
- `jump()` moves the clock to the next deadline or end of a sleep.

Cancellation is kept as trio keeps it. Each scope that is open has a parent scope, which is the one around
it or, for what runs in a nursery, the scope of that nursery. A scope is *called* once it was cancelled or
its deadline acted on; it is *effective*, which means that cancel points inside it raise, if it is called,
or if its parent is effective and it has no shield. Each task points at its innermost scope. A scope absorbs
`Cancelled` on its way out if it is called and its parent's cancellation is not visible through it: so the
outermost cancelled scope that can be seen absorbs.

A task is a stack of frames, and what moves through the frames is a signal: nothing, a `return`, or an
exception. A waiting task is blocked (asleep, at the end of a nursery, or in a `Start`) or runnable.

Exceptions are tuples here, so that they sort, hash and compare fast: `("cancelled",)`, `("error", name)` and
`("group", (member, ...))` with sorted members. Each rule is named, as `SCP-n`, where it is carried out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from ._code import NEVER, Code, Do, Instruction

if TYPE_CHECKING:
    from collections.abc import Hashable

Exc: TypeAlias = tuple[Any, ...]
Signal: TypeAlias = Exc | None
# A frame is its kind, a number (scope, body or place in a body), and the signal that it holds back.
Frame: TypeAlias = tuple[int, int, int, Signal]
# Linked, innermost first: copies of a machine share their stacks.
Stack: TypeAlias = "tuple[Frame, Stack] | None"

RETURN: Exc = ("return",)
CANCELLED: Exc = ("cancelled",)
# Not a signal that moves: the task has to wait.
WAITS: Exc = ("waits",)
NURSERY_CLOSED: Exc = ("error", "RuntimeError")
NEVER_STARTED: Exc = ("error", "RuntimeError")
STARTED_TWICE: Exc = ("error", "RuntimeError")

# Frames.
SEQUENCE, SCOPE, NURSERY, NURSERY_EXIT, START_WAIT, CATCH, FINALLY, CLEANUP = range(8)

# Where a task waits.
GONE, FIRST_STEP, AT_CHECKPOINT, IN_DOUBT, AT_SCHEDULE_POINT, ASLEEP, SLEPT, INTERRUPTED, AT_EXIT = range(9)

# A scope before, during and after its block.
UNENTERED, OPEN, LEFT = range(3)


def group_of(members: tuple[Exc, ...]) -> Exc:
    """Returns the group of these members, in the one order in which groups are kept."""
    return ("group", tuple(sorted(members)))


def without_cancelled(exc: Exc) -> Signal:
    """Takes every `Cancelled` out of an exception, and every group that this leaves empty."""
    if exc[0] == "cancelled":
        return None
    if exc[0] != "group":
        return exc
    kept = tuple(left for left in map(without_cancelled, exc[1]) if left is not None)
    return group_of(kept) if kept else None


def holds_cancelled(exc: Exc) -> bool:
    """Says whether an exception is `Cancelled` or a group that holds one, however deep."""
    return exc[0] == "cancelled" or (exc[0] == "group" and any(map(holds_cancelled, exc[1])))


def _is_caught(catches: int, exc: Exc) -> bool:
    if catches == 0:  # Exception: a group counts only if all it holds are errors
        return not holds_cancelled(exc)
    return catches == 2 or exc[0] == "cancelled"


class Machine:
    """One state of one run. Mutable; `copy` and `key` make exploring every schedule affordable."""

    __slots__ = (
        "alive",
        "called",
        "caught",
        "closed",
        "code",
        "deadline",
        "due",
        "effective",
        "ends",
        "events",
        "held",
        "home",
        "inside",
        "now",
        "parent",
        "pending_starts",
        "ready",
        "said_started",
        "shield",
        "shuffled",
        "stack",
        "state",
        "status",
        "waiter",
        "wake",
        "where",
    )

    def __init__(self, code: Code) -> None:
        tasks, scopes = len(code.task_bodies), len(code.scope_names)
        self.code = code
        self.now = 0
        # Runnable in this pass and in the next one; their order means nothing.
        self.due: tuple[int, ...] = ()
        self.ready: tuple[int, ...] = (0,)
        # Per task: its frames, where it waits, until when it sleeps, its innermost scope, its nursery (-1:
        # none).
        self.stack: list[Stack] = [None] * tasks
        self.where = [GONE] * tasks
        self.wake = [NEVER] * tasks
        self.status = [-1] * tasks
        self.home = [-1] * tasks
        self.events: list[tuple[tuple[str, int], ...]] = [()] * tasks
        self.ends: Signal = None
        # The tasks behind the events, in order; None if nobody asked for it.
        self.shuffled: tuple[int, ...] | None = None
        # Per scope.
        self.called = [False] * scopes
        self.caught = [False] * scopes
        self.effective = [False] * scopes
        self.state = [UNENTERED] * scopes
        self.parent = [-1] * scopes
        self.deadline = list(code.deadlines)
        self.shield = list(code.shields)
        # Per scope of a nursery: is its block running, how many tasks it has, who waits at its end (-1:
        # nobody yet), how many `Start`s are under way into it, whether it takes no more tasks, what was
        # raised into it.
        self.inside = [False] * scopes
        self.alive = [0] * scopes
        self.waiter = [-1] * scopes
        self.pending_starts = [0] * scopes
        self.closed = [False] * scopes
        self.held: list[tuple[Exc, ...]] = [()] * scopes
        self.said_started = [False] * scopes

        self.where[0] = FIRST_STEP
        self.stack[0] = ((SEQUENCE, code.task_bodies[0], 0, None), None)

    def copy(self) -> Machine:
        """Returns an independent machine in the same state."""
        twin = object.__new__(Machine)
        twin.code = self.code
        twin.now = self.now
        twin.due = self.due
        twin.ready = self.ready
        twin.stack = self.stack[:]
        twin.where = self.where[:]
        twin.wake = self.wake[:]
        twin.status = self.status[:]
        twin.home = self.home[:]
        twin.events = self.events[:]
        twin.ends = self.ends
        twin.shuffled = self.shuffled
        twin.called = self.called[:]
        twin.caught = self.caught[:]
        twin.effective = self.effective[:]
        twin.state = self.state[:]
        twin.parent = self.parent[:]
        twin.deadline = self.deadline[:]
        twin.shield = self.shield[:]
        twin.inside = self.inside[:]
        twin.alive = self.alive[:]
        twin.waiter = self.waiter[:]
        twin.pending_starts = self.pending_starts[:]
        twin.closed = self.closed[:]
        twin.held = self.held[:]
        twin.said_started = self.said_started[:]
        return twin

    def key(self) -> Hashable:
        """Returns a value that is equal for machines with the same future and the same past to report."""
        return (
            self.now,
            tuple(sorted(self.due)),
            tuple(sorted(self.ready)),
            tuple(self.stack),
            tuple(self.where),
            tuple(self.wake),
            tuple(self.status),
            tuple(self.home),
            tuple(self.events),
            self.shuffled,
            tuple(self.called),
            tuple(self.caught),
            tuple(self.effective),
            tuple(self.state),
            tuple(self.parent),
            tuple(self.deadline),
            tuple(self.shield),
            tuple(self.waiter),
            tuple(self.pending_starts),
            tuple(self.closed),
            tuple(self.held),
            tuple(self.said_started),
        )

    @property
    def finished(self) -> bool:
        """Whether the main task, and with it everything, has ended."""
        return self.where[0] == GONE

    def overdue(self) -> bool:
        """Says whether `expire` would do something."""
        now = self.now
        return any(
            self.deadline[s] <= now and self.state[s] == OPEN and not self.called[s]
            for s in range(len(self.called))
        ) or any(wake <= now for wake in self.wake)

    def expire(self) -> None:
        """Acts on every deadline and sleep that is due: their order means nothing (`SCP-6`)."""
        now = self.now
        for t in range(len(self.where)):
            if self.wake[t] <= now:
                self._wake(t, SLEPT)
        for s in range(len(self.called)):
            if self.deadline[s] <= now and self.state[s] == OPEN and not self.called[s]:
                self._cancel(s)

    def jump(self) -> None:
        """Moves the clock to the next moment at which something is due."""
        times = [t for t in self.wake if t > self.now]
        times += [
            self.deadline[s]
            for s in range(len(self.called))
            if self.state[s] == OPEN and not self.called[s] and self.deadline[s] > self.now
        ]
        self.now = min(times)
        assert self.now < NEVER, "a program without endless waits cannot be stuck"

    def _wake(self, task: int, where: int) -> None:
        self.wake[task] = NEVER
        self.where[task] = where
        self.ready = (*self.ready, task)

    def _visible(self, scope: int) -> bool:
        """Says whether cancellation from outside reaches through this scope (`SCP-8`)."""
        parent = self.parent[scope]
        return parent >= 0 and not self.shield[scope] and self.effective[parent]

    def _cancel(self, scope: int) -> None:
        """Asks for cancellation, at any time; interrupts nobody who runs (`SCP-20`, `SCP-23`)."""
        if self.called[scope]:
            return
        self.called[scope] = True
        if self.state[scope] == OPEN:
            self._spread(scope)

    def _move_deadline(self, scope: int, seconds: int) -> None:
        """Moves a deadline; once the scope is cancelled that changes nothing (`SCP-19`)."""
        if seconds == NEVER or self.state[scope] == UNENTERED:
            self.deadline[scope] = seconds  # counted from the entry
        else:
            self.deadline[scope] = self.now + seconds

    def _set_shield(self, scope: int, *, shield: bool) -> None:
        """Raises or lowers a shield: all that is inside sees it at once (`SCP-26`)."""
        self.shield[scope] = shield
        if self.state[scope] == OPEN:
            self._spread(scope)

    def _spread(self, scope: int) -> None:
        """Brings `effective` up to date from a scope downwards, and wakes sleepers (`SCP-3`, `SCP-25`)."""
        todo = [scope]
        while todo:
            s = todo.pop()
            # A deadline that has come counts, acted on or not, once anything looks at the scope (`SCP-7`).
            if not self.called[s] and self.deadline[s] <= self.now:
                self.called[s] = True
            effective = self.called[s] or self._visible(s)
            if effective == self.effective[s]:
                continue
            self.effective[s] = effective
            for t in range(len(self.status)):
                if effective and self.status[t] == s and self.where[t] == ASLEEP:
                    self._wake(t, INTERRUPTED)
            todo += [c for c in range(len(self.parent)) if self.parent[c] == s and self.state[c] == OPEN]

    def _enter(self, task: int, scope: int) -> None:
        if self.deadline[scope] != NEVER:
            self.deadline[scope] += self.now  # deadlines of the text count from here
        self.state[scope] = OPEN
        self.parent[scope] = self.status[task]
        self.status[task] = scope
        self._spread(scope)

    def _leave(self, task: int, scope: int, signal: Signal) -> Signal:
        """Closes a scope, and absorbs what is its own to absorb (`SCP-5`, `SCP-12`, `SCP-14`)."""
        self.status[task] = self.parent[scope]
        mine = self.effective[scope] and not self._visible(scope)
        self.state[scope] = LEFT
        self.parent[scope] = -1
        if not mine or signal is None or signal is RETURN or not holds_cancelled(signal):
            return signal
        self.caught[scope] = True  # only now, unlike `called`: `SCP-21`
        return without_cancelled(signal)

    def _open_nursery(self, task: int, scope: int) -> None:
        self._enter(task, scope)
        self.inside[scope] = True

    def _hold(self, nursery: int, exc: Exc) -> None:
        """Takes in what the block or a task raised, and cancels the nursery (`SCP-10`, `SCP-22`)."""
        self.held[nursery] = tuple(sorted((*self.held[nursery], exc)))
        self._cancel(nursery)

    def _check_closed(self, nursery: int) -> None:
        if self.inside[nursery] or self.alive[nursery] or self.pending_starts[nursery]:
            return
        self.closed[nursery] = True
        if self.waiter[nursery] >= 0:
            self.ready = (*self.ready, self.waiter[nursery])
            self.waiter[nursery] = -1

    def _finish_block(self, task: int, nursery: int, signal: Signal) -> None:
        """Ends the block: waits for the tasks, or else passes one schedule point (`SCP-9`, `SCP-13`)."""
        if signal is not None and signal is not RETURN:
            self._hold(nursery, signal)
        self.inside[nursery] = False
        self._check_closed(nursery)
        self.where[task] = AT_EXIT
        if self.closed[nursery]:
            self.ready = (*self.ready, task)
        else:
            self.waiter[nursery] = task

    def _close_nursery(self, task: int, nursery: int) -> Signal:
        """Leaves a nursery whose tasks have all ended, with a group of what was raised in it (`SCP-11`)."""
        held = self.held[nursery]
        self.held[nursery] = ()
        return self._leave(task, nursery, group_of(held) if held else None)

    def _spawn(self, task: int, nursery: int) -> None:
        """Makes a task runnable in the next pass, its nursery cancelled or not (`SCP-1`, `SCP-2`)."""
        self.alive[nursery] += 1
        self.home[task] = nursery
        self.status[task] = nursery
        self.where[task] = FIRST_STEP
        self.stack[task] = ((SEQUENCE, self.code.task_bodies[task], 0, None), None)
        self.ready = (*self.ready, task)

    def _end(self, task: int, signal: Signal) -> None:
        self.stack[task] = None
        self.where[task] = GONE
        self.status[task] = -1
        nursery = self.home[task]
        failed = signal is not None and signal is not RETURN
        if nursery < 0:
            self.ends = signal if failed else None
            return
        self.home[task] = -1
        self.alive[nursery] -= 1
        if failed:
            assert signal is not None
            self._hold(nursery, signal)
        self._check_closed(nursery)

    def _start(self, task: int, nursery: int, child: int, hidden: int) -> None:
        """Runs a task in a hidden nursery of its starter, until it is up (`SCP-15`, `SCP-16`)."""
        self.pending_starts[nursery] += 1
        self._open_nursery(task, hidden)
        self._spawn(child, hidden)
        self._finish_block(task, hidden, None)

    def _started(self, task: int, hidden: int, nursery: int) -> Signal:
        """Moves a task and the scopes it has open from its starter to the nursery (`SCP-16`)."""
        if self.said_started[hidden]:
            return STARTED_TWICE  # `SCP-17`
        self.said_started[hidden] = True
        if self.effective[hidden]:
            return None  # the starter is cancelled: the child stays where `Cancelled` finds its scope
        self.alive[hidden] -= 1
        self.alive[nursery] += 1
        self.home[task] = nursery
        moved = [c for c in range(len(self.parent)) if self.parent[c] == hidden and self.state[c] == OPEN]
        for scope in moved:
            self.parent[scope] = nursery
            self._spread(scope)
        if self.status[task] == hidden:
            self.status[task] = nursery
        self._check_closed(hidden)
        return None

    def _finish_start(self, task: int, nursery: int, hidden: int) -> Signal:
        """Ends a start whose task is up or gone: only the task makes it raise (`SCP-17`, `SCP-24`)."""
        signal = self._close_nursery(task, hidden)
        if signal is not None:
            (signal,) = signal[1]  # a start raises what the child raised, not a group of it
        elif not self.said_started[hidden]:
            signal = NEVER_STARTED
        self.pending_starts[nursery] -= 1
        self._check_closed(nursery)
        return signal

    def step(self, task: int, *, by_passes: bool = True, hasty: bool = False) -> None:
        """Runs a runnable task until it waits again or ends: nothing comes between (`SCP-1`).

        With `by_passes` a checkpoint takes two passes to raise, as trio's does. With `hasty` a deadline that
        is moved to this very moment is acted on at once.
        """
        signal = self._wake_up(task, by_passes=by_passes)
        if signal is WAITS:
            return
        stack = self.stack[task]
        while stack is not None:
            (kind, number, place, _), rest = stack
            if kind != SEQUENCE:
                stack, signal = self._leave_frame(task, stack, signal)
            elif signal is not None or place == len(self.code.bodies[number]):
                stack = rest
                continue
            else:
                stack = ((SEQUENCE, number, place + 1, None), rest)
                stack, signal = self._perform(task, self.code.bodies[number][place], stack, hasty=hasty)
            if signal is WAITS:
                self.stack[task] = stack
                return
        self._end(task, signal)

    def _is_cancelled(self, task: int) -> bool:
        return self.status[task] >= 0 and self.effective[self.status[task]]

    def _wait(self, task: int, where: int) -> Exc:
        """Lets a task wait for nothing but its turn in a later pass."""
        self.where[task] = where
        self.ready = (*self.ready, task)
        return WAITS

    def _wake_up(self, task: int, *, by_passes: bool) -> Signal:
        where = self.where[task]
        if where == INTERRUPTED:
            return CANCELLED  # whatever was done to shields since: `SCP-26`
        if where in (AT_CHECKPOINT, IN_DOUBT, SLEPT) and self._is_cancelled(task):
            if where == AT_CHECKPOINT and by_passes:
                return self._wait(task, IN_DOUBT)
            return CANCELLED
        return None

    def _perform(
        self, task: int, instruction: Instruction, stack: Stack, *, hasty: bool
    ) -> tuple[Stack, Signal]:
        """Carries out one operation; gives the frames and the signal after it."""
        do, a, b, c, label = instruction
        signal: Signal = None
        if do == Do.EMIT:
            self.events[task] = (*self.events[task], (label, self.now))
            if self.shuffled is not None:
                self.shuffled = (*self.shuffled, task)
        elif do == Do.RAISE:
            signal = ("error", label)
        elif do == Do.RETURN:
            signal = RETURN
        elif do == Do.CHECKPOINT or (do == Do.CANCEL_POINT and self._is_cancelled(task)):
            signal = self._wait(task, AT_CHECKPOINT)
        elif do == Do.SCHEDULE_POINT:  # `SCP-4`
            signal = self._wait(task, AT_SCHEDULE_POINT)
        elif do == Do.SLEEP and self._is_cancelled(task):
            signal = self._wait(task, INTERRUPTED)
        elif do == Do.SLEEP:
            self.where[task] = ASLEEP
            self.wake[task] = self.now + a
            signal = WAITS
        elif do == Do.CANCEL:
            self._cancel(a)
        elif do == Do.MOVE_DEADLINE:
            self._move_deadline(a, b)
            if hasty and b == 0 and self.state[a] == OPEN:
                self._cancel(a)
        elif do == Do.SET_SHIELD:
            self._set_shield(a, shield=bool(b))
        elif do == Do.SCOPE:
            self._enter(task, a)
            stack = ((SEQUENCE, b, 0, None), ((SCOPE, a, 0, None), stack))
        elif do == Do.NURSERY:
            self._open_nursery(task, a)
            stack = ((SEQUENCE, b, 0, None), ((NURSERY, a, 0, None), stack))
        elif do in (Do.START_SOON, Do.START) and self.closed[a]:
            signal = NURSERY_CLOSED  # `SCP-18`
        elif do == Do.START_SOON:
            self._spawn(b, a)
        elif do == Do.START:
            stack = ((START_WAIT, a, c, None), stack)
            self._start(task, a, b, c)
            signal = WAITS
        elif do == Do.STARTED:
            signal = self._started(task, a, self.code.starts_into[a])
        elif do == Do.CATCH:
            stack = ((SEQUENCE, a, 0, None), ((CATCH, b, c, None), stack))
        elif do == Do.FINALLY:
            stack = ((SEQUENCE, a, 0, None), ((FINALLY, b, 0, None), stack))
        return stack, signal

    def _leave_frame(self, task: int, stack: tuple[Frame, Stack], signal: Signal) -> tuple[Stack, Signal]:
        """Takes a signal through the innermost frame; gives the frames and the signal behind it."""
        (kind, number, place, kept), rest = stack
        raised = signal is not None and signal is not RETURN
        if kind == SCOPE:
            return rest, self._leave(task, number, signal)
        if kind == NURSERY:
            self._finish_block(task, number, signal)
            returning = RETURN if signal is RETURN else None
            return ((NURSERY_EXIT, number, 0, returning), rest), WAITS
        if kind == NURSERY_EXIT:
            return rest, self._close_nursery(task, number) or kept
        if kind == START_WAIT:
            return rest, self._finish_start(task, number, place)
        if kind == CATCH:
            if signal is not None and raised and _is_caught(place, signal):
                return ((SEQUENCE, number, 0, None), rest), None
            return rest, signal
        if kind == FINALLY:
            return ((SEQUENCE, number, 0, None), ((CLEANUP, 0, 0, signal), rest)), None
        return rest, kept if signal is None else signal
