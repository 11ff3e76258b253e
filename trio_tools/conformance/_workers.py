"""Running cases in processes that may be taken down by what they run.

A worker is a fork of the process that asks, so a tool and its fixture may be closures: nothing is
pickled and nothing is imported again. It is given cases by number, in small portions, and its answers
come back in lines of several. Its parent reads those lines and a page of shared memory where the worker
says which case it is in and how far: that is all that is left of a worker that had to be killed, or that
died. A case whose worker is gone is answered for by the parent, and the rest goes to a new worker.

The parent runs no loop and no thread of its own, so there is nothing in it that a fork could break.
"""

import ctypes
import faulthandler
import gc
import json
import mmap
import os
import re
import select
import signal
import struct
import sys
import tempfile
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any, Final, final

from attrs import define, field

from ._errors import leaves_of
from ._site import is_foreign
from ._traces import processes_marked, watch_traces

__all__ = ["Answer", "Job", "WorkerError", "answers"]

_INTERRUPTS: Final = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
_LIBC: Final = ctypes.CDLL(None)
_SIGNAL_AT_DEATH_OF_PARENT: Final = 1
_PORTION: Final = 32
_PAGE: Final = struct.Struct("<qqq")
_SPAWNED: Final = _PAGE.size
"""The byte of the page that says whether a worker has ever started a process."""

Answer = dict[str, Any]
"""What a worker says about one case: JSON, with the number of the case under ``i``."""

Job = Callable[[Iterator[int], Callable[[Answer], None], Callable[[int, int], None]], None]
"""What a worker does: given the numbers of its cases, how to answer, and how to say where it is.

A worker says its case and how far it is there; a call of a case begins at 0, and has its own time.
"""


class WorkerError(Exception):
    """No worker could do anything: what the tool or its fixture is made of does not work."""


@final
@define(eq=False)
class _Worker:
    pid: int
    to: int
    back: int
    page: mmap.mmap
    stack: Path
    where: list[Any] | None = None
    fed: bool = False
    mine: deque[int] = field(factory=deque[int])
    buffer: bytes = b""
    beat: int = -1
    moved_at: float = 0.0
    killed: bool = False
    finished: bool = False

    def look(self) -> tuple[int, int]:
        """Return the case that the worker is in, and how far it has come there."""
        index, stage, _ = _PAGE.unpack_from(self.page)
        return index, stage

    def has_exited(self) -> bool:
        """Return whether the process has ended, whoever else still holds its end of a pipe."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def answers(
    job: Job,
    numbers: Sequence[int],
    *,
    processes: int,
    wall_seconds: float,
    patience: int = 8,
    alone: bool = False,
) -> Iterator[Answer]:
    """Yield one answer for each of ``numbers``, in the order in which they come.

    An answer that a worker could not give any more has ``stuck`` set to ``wall`` or ``died``, and
    ``stage``. When ``patience`` workers had to be killed, nothing more is begun, and what is left is
    answered with ``stuck`` set to ``left``: a tool that hangs would hang in hundreds of runs.

    Args:
        alone: whether each case gets a worker of its own.

    Raises:
        WorkerError: with the worker's own words, when it could not begin.
    """
    todo = deque(numbers)
    workers: dict[int, _Worker] = {}
    with tempfile.TemporaryDirectory(prefix="trio-tools-") as scratch:
        try:
            while todo or workers:
                while todo and patience <= 0:
                    yield {"i": todo.popleft(), "stuck": "left", "stage": 0}
                while todo and len(workers) < processes:
                    with _interrupts_held():
                        worker = _fork(job, scratch)
                        workers[worker.back] = worker
                    _feed(worker, todo, processes, alone=alone)
                ready, _, _ = select.select(list(workers), [], [], 0.05)
                # What a tool started may hold the pipe of a worker that is gone.
                ready += [back for back, each in workers.items() if back not in ready and each.has_exited()]
                for descriptor in ready:
                    for answer in _read(workers[descriptor], workers, todo, processes, alone=alone):
                        patience -= answer.get("stuck") == "wall"
                        yield answer
                now = time.monotonic()
                for worker in list(workers.values()):
                    _watch(worker, now, wall_seconds)
        finally:
            with _interrupts_held():
                for worker in workers.values():
                    _end(worker)


@contextmanager
def _interrupts_held() -> Generator[None]:
    """Let a Ctrl-C wait while a worker is made or ended, in the middle of which it would leave one behind."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, _INTERRUPTS)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _feed(worker: _Worker, todo: deque[int], processes: int, *, alone: bool) -> None:
    size = max(1, min(_PORTION, len(todo) // (2 * processes) or 1))
    if alone:
        size = 0 if worker.fed else 1
    worker.fed = True
    portion = [todo.popleft() for _ in range(min(size, len(todo)))]
    worker.mine.extend(portion)
    line = json.dumps(portion).encode() + b"\n"
    with suppress(BrokenPipeError):
        # If it has gone, its cases are taken back when its end is read.
        os.write(worker.to, line)


def _read(
    worker: _Worker, workers: dict[int, _Worker], todo: deque[int], processes: int, *, alone: bool
) -> Iterator[Answer]:
    data = _available(worker.back)
    worker.moved_at = time.monotonic()
    *lines, worker.buffer = (worker.buffer + data).split(b"\n")
    told: Iterator[Answer] = chain.from_iterable(map(json.loads, lines))
    for answer in told:
        if "error" in answer:
            raise WorkerError(answer["error"])
        if "bye" in answer:
            worker.finished = True
            continue
        if "more" in answer:
            _feed(worker, todo, processes, alone=alone)
            continue
        worker.mine.remove(answer["i"])
        yield answer
    if not data or worker.finished:
        index, stage = worker.look()
        with _interrupts_held():
            del workers[worker.back]
            status = _end(worker)
        if worker.mine and not worker.finished:
            lost = index if index in worker.mine else worker.mine[0]
            worker.mine.remove(lost)
            yield {
                "i": lost,
                "stuck": "wall" if worker.killed else "died",
                "stage": stage,
                "detail": "" if worker.killed else _words(status),
                "where": worker.where,
            }
        todo.extendleft(reversed(worker.mine))


def _available(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 16)
    except BlockingIOError:
        return b""


def _words(status: int) -> str:
    if status < 0:
        try:
            return f"was ended by {signal.Signals(-status).name}"
        except ValueError:
            return f"was ended by signal {-status}"
    return f"exited with status {status}"


def _watch(worker: _Worker, now: float, wall_seconds: float) -> None:
    beat = _PAGE.unpack_from(worker.page)[2]
    if beat != worker.beat or not worker.mine:
        worker.beat = beat
        worker.moved_at = now
    elif now - worker.moved_at > wall_seconds and not worker.killed:
        worker.killed = True
        worker.where = _where(worker)
        os.kill(worker.pid, signal.SIGKILL)


_FRAME: Final = re.compile(r'^  File "(.*)", line (\d+) in (.*)$', re.MULTILINE)


def _where(worker: _Worker) -> list[Any] | None:
    """Ask a worker that does not answer for the line of a tool that it is at."""
    try:
        os.kill(worker.pid, signal.SIGUSR1)
        time.sleep(0.05)
        text = worker.stack.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    for file, line, function in _FRAME.findall(text):
        if file.endswith(("conformance/_runner.py", "conformance/_workers.py")):
            break  # what follows is whoever asked for the check
        if not is_foreign(file):
            return [file, int(line), function]
    return None


def _end(worker: _Worker) -> int:
    """End a worker and everything it started; return how it ended, as `subprocess` would."""
    # Its number is not used again before it is waited for. It may not have come to make its group yet, and
    # once it is killed it never will: what is left of the group, if there is one, is what it started.
    os.kill(worker.pid, signal.SIGKILL)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(worker.pid, signal.SIGKILL)
    if worker.page[_SPAWNED]:
        for pid in processes_marked(str(worker.stack.with_suffix("")), worker.pid):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(worker.pid, 0)
    os.close(worker.to)
    os.close(worker.back)
    worker.page.close()
    return os.waitstatus_to_exitcode(status)


def _fork(job: Job, scratch: str) -> _Worker:
    page = mmap.mmap(-1, mmap.PAGESIZE)
    _PAGE.pack_into(page, 0, -1, 0, 0)
    cases_out, cases_in = os.pipe()
    back_out, back_in = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    with warnings.catch_warnings():
        # The warning is about threads that hold a lock; a worker uses nothing that its parent locks.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        status = 1
        try:
            _die_with(parent)
            os.close(cases_in)
            os.close(back_out)
            status = _child(job, scratch, cases_out, back_in, page)
        finally:
            os._exit(status)
    os.close(cases_out)
    os.close(back_in)
    os.set_blocking(back_out, False)
    stack = Path(scratch) / f"worker-{pid}.stack"
    return _Worker(pid, cases_in, back_out, page, stack, moved_at=time.monotonic())


def _die_with(parent: int) -> None:
    """Let this process end when its parent does, though it hangs, where the system can do that."""
    if sys.platform == "linux":
        _LIBC.prctl(_SIGNAL_AT_DEATH_OF_PARENT, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _child(job: Job, scratch: str, cases: int, back: int, page: mmap.mmap) -> int:
    os.setsid()
    # What the parent holds is not this process's to collect, and looking through it takes long.
    gc.freeze()
    for each in _INTERRUPTS:
        signal.signal(each, signal.SIG_IGN if each is signal.SIGINT else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _INTERRUPTS)
    me = os.getpid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    os.close(nothing)
    # Whoever captures the output of the parent has put files of their own in the place of these.
    sys.stdout = sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    faulthandler.disable()
    own = Path(scratch) / f"worker-{me}"
    own.mkdir()
    # Where a worker that hangs is, is written by a signal handler that needs no interpreter.
    stack = own.with_suffix(".stack").open("w")
    faulthandler.register(signal.SIGUSR1, file=stack, all_threads=False)
    watch_traces(own, on_spawn=lambda: page.__setitem__(_SPAWNED, 1))
    pending: list[Answer] = []
    written = 0.0

    def flush() -> None:
        nonlocal written
        data = json.dumps(pending, separators=(",", ":")).encode() + b"\n"
        pending.clear()
        written = time.monotonic()
        while data:
            data = data[os.write(back, data) :]

    def say(answer: Answer) -> None:
        nonlocal written
        if os.getpid() != me:
            os._exit(0)  # a tool forked, and its child came back here
        pending.append(answer)
        if len(pending) >= 16 or time.monotonic() - written > 0.1 or "last" in answer:
            if "last" in answer:
                pending.append({"bye": True})
            flush()

    beat = 0

    def at(index: int, stage: int) -> None:
        nonlocal beat
        beat += stage == 0
        _PAGE.pack_into(page, 0, index, stage, beat)

    def numbers() -> Iterator[int]:
        buffer = b""
        while True:
            while b"\n" not in buffer:
                data = os.read(cases, 1 << 16)
                if not data:
                    return
                buffer += data
            line, _, buffer = buffer.partition(b"\n")
            portion: list[int] = json.loads(line)
            if not portion:
                return
            yield from portion
            pending.append({"more": True})
            at(-1, 0)
            flush()

    try:
        job(numbers(), say, at)
    except WorkerError as error:
        say({"error": str(error), "last": True})
        return 0
    except BaseException as error:  # noqa: BLE001  (whatever a tool ends a run with is told, not raised)
        if os.getpid() != me:
            return 0
        index, stage, _ = _PAGE.unpack_from(page)
        if index < 0:
            say({"error": f"{type(error).__name__}: {error}", "last": True})
        else:
            say(
                {
                    "i": index,
                    "stuck": "died",
                    "stage": stage,
                    "detail": f"raised {_named(error)}",
                    "last": True,
                }
            )
        return 0
    pending.append({"bye": True})
    flush()
    return 0


def _named(error: BaseException) -> str:
    error = next(leaves_of(error), error)
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
