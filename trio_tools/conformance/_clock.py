"""Virtual time that jumps when nothing can happen, and waits while something real is under way."""

import math
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Final, final

import trio

__all__ = ["VirtualClock", "busy_threads"]

_POLL: Final = 0.002
"""Seconds between two looks at a thread that is at work."""


def busy_threads() -> list[tuple[threading.Thread, FrameType]]:
    """Return the threads that are doing something, with their innermost frames.

    A thread of trio's cache that waits for its next job is idle; every other living thread but the one
    that asks counts as busy, whoever started it.
    """
    if threading.active_count() < 2:
        return []
    frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage]
    me = threading.get_ident()
    busy: list[tuple[threading.Thread, FrameType]] = []
    for thread in threading.enumerate():
        frame = frames.get(thread.ident or 0)
        if thread.ident != me and frame is not None and not _is_idle(frame):
            busy.append((thread, frame))
    return busy


def _is_idle(frame: FrameType) -> bool:
    code = frame.f_code
    if code.co_name != "_work" or not code.co_filename.endswith("_thread_cache.py"):
        return False
    # A job that was just handed over shows in the worker's lock before its thread has woken up.
    lock = getattr(frame.f_locals.get("self"), "_worker_lock", None)
    return lock is None or lock.locked()


@final
class VirtualClock(trio.abc.Clock):
    """A clock that stands still, jumps to the next deadline when the run is idle, and never lies.

    While a thread works or a task waits for a file descriptor the time that really passes is added
    instead: what the thread or the peer will do is not known, so nothing may be skipped. Two looks, with
    a poll of the descriptors between them, have to agree before it jumps.

    Attributes:
        horizon: the virtual time beyond which `stranded` is called instead of jumping.
        stranded: called with ``"time"`` when the next deadline lies behind the horizon, and with
            ``"forever"`` when there is none and nothing real is under way.
        moved: whether any time was real, so that a run need not be the same again.
        ran: to be set when a task runs: what was quiet is so no longer.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.horizon = math.inf
        self.stranded: Callable[[str], None] = lambda _why: None
        self.moved = False
        self.ran = False
        self._quiet = False
        self._pressed = False
        self._watched = 0
        self._real: float | None = None

    def start_clock(self) -> None:
        """Do nothing: virtual time does not start by itself."""

    def watch_from_here(self) -> None:
        """Take the descriptors that the run waits for now, trio's own wake-up socket, as its idle state."""
        self._watched = self._descriptors()

    def restart(self) -> None:
        """Set the time to zero for a new case; no deadline may be pending."""
        self.now = 0.0
        self.horizon = math.inf
        self.moved = False
        self._forget()

    def current_time(self) -> float:
        """Return the virtual time."""
        if self._real is not None and not self.ran:
            self._catch_up()
        return self.now

    def _catch_up(self) -> None:
        assert self._real is not None
        real = time.perf_counter()
        self.now += real - self._real
        self._real = real

    def _forget(self) -> None:
        self.ran = False
        self._quiet = False
        self._pressed = False
        self._real = None

    def _descriptors(self) -> int:
        io = trio.lowlevel.current_statistics().io_statistics
        return getattr(io, "tasks_waiting_read", 0) + getattr(io, "tasks_waiting_write", 0)

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Return how long trio may wait for input; asked only when no task is runnable."""
        if self.ran:
            self._forget()
        if deadline <= self.now:
            return 0
        if self._descriptors() > self._watched or busy_threads():
            self.moved = True
            self._quiet = False
            if self._real is None:
                self._real = time.perf_counter()
            else:
                self._catch_up()
            if self.now >= self.horizon:
                self.stranded("time")
            return min(_POLL, max(0.0, deadline - self.now))
        self._real = None
        if not self._quiet:
            self._quiet = True
            return 0
        self._quiet = False
        if deadline == math.inf:
            if not self._pressed:
                # A tool may wait for all tasks to block: trio wakes it when it expects to sleep a little.
                self._pressed = True
                return _POLL
            self.stranded("forever")
        elif deadline > self.horizon:
            self.stranded("time")
        else:
            self.now = deadline
        return 0
