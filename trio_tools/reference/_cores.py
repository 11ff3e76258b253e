"""Spreads pieces of work over the cores of the machine, in processes of their own."""

from __future__ import annotations

import gc
import math
import multiprocessing
import os
import signal
import time
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from concurrent.futures import Future

__all__ = ["collecting_rarely", "cores_here", "spread"]

T = TypeVar("T")


def cores_here() -> int:
    """Returns how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def collecting_rarely() -> Generator[None]:
    """Lets the garbage collector run only after 100,000 new objects, until the end of the block.

    Random programs leave cycles behind, a few at a time: by default it runs every few programs, and takes a
    fifth of all time.
    """
    before = gc.get_threshold()
    gc.set_threshold(100_000, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def spread(
    work: Callable[[int], T], *, cores: int, pieces: float = math.inf, seconds: float = math.inf
) -> Iterator[T]:
    """Yields what `work` returns for 0, 1, 2, ... as each is done, on so many cores at once.

    It ends after so many `pieces`, or begins no more of them after so many real `seconds`. On one core the
    work is done in this process. On several, `work` and what it returns are pickled. Where the caller stops
    asking, an interrupt included, no more pieces begin, and those under way are waited for; a Ctrl-C at the
    terminal ends them at once.
    """
    ends = time.monotonic() + seconds
    numbers = iter(count())
    if cores == 1:
        for number in numbers:
            if number >= pieces or time.monotonic() >= ends:
                return
            yield work(number)
    running: set[Future[T]] = set()
    # Forking a process that has imported trio's machinery is sound only while it has one thread.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(cores, mp_context=context, initializer=_end_when_interrupted) as pool:
        submitted = 0
        try:
            while True:
                # One piece more than there are cores waits, so that no core does.
                while len(running) <= cores and submitted < pieces and time.monotonic() < ends:
                    running.add(pool.submit(work, next(numbers)))
                    submitted += 1
                if not running:
                    return
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _end_when_interrupted() -> None:
    # A KeyboardInterrupt somewhere in a run would look like a fault of the run.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
