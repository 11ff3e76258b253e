"""What a process does that does not show in the process itself: files made elsewhere, processes of processes.

A worker has a directory for temporary files of its own, and is told by the interpreter's audit events of
what is made in the others. A process that has lost its parent is found by what it inherited: the session
of the worker, or its directory in the environment. One that is forked and starts no other program has the
environment of its ancestors' start, so it leaves word as it is forked. None of this costs much in a run that
does nothing of the kind.
"""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, cast, final

__all__ = ["NO_TRACES", "Traces", "current_traces", "processes_marked", "watch_traces"]

_SPAWNING: Final = frozenset(
    {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system"}
)
_MAKING: Final = frozenset({"open", "os.mkdir", "sqlite3.connect"})
_MARKER: Final = "TMPDIR"
_START: Final = 19
"""Where the time of its start stands in the status of a process."""
_PASSING: Final = 20
"""Milliseconds that a process has to end in, once the call that had it started has ended."""


@final
class Traces:
    """What one process has made in the directories for temporary files that it shares with others."""

    def __init__(self, own: str, shared: frozenset[str], on_spawn: Callable[[], None]) -> None:
        self._on_spawn: Final = on_spawn
        self._own: Final = own
        self._shared: Final = shared
        self._spawned = False
        self._made: set[str] = set()

    def begin(self) -> None:
        """Forget what was seen, before a run."""
        self._spawned = False
        if self._made:
            self._made.clear()

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Look at one audit event; anybody may raise one, so nothing of it is taken for granted."""
        if event == "open":
            if len(arguments) > 2 and isinstance(arguments[2], int) and arguments[2] & os.O_CREAT:
                self._note(arguments[0])
        elif event in {"os.mkdir", "sqlite3.connect"} and arguments:
            self._note(arguments[0])
        elif event in _SPAWNING:
            self._spawned = True
            self._on_spawn()

    def _note(self, made: object) -> None:
        if not isinstance(made, str | bytes | os.PathLike):
            return
        path = os.path.abspath(os.fsdecode(cast("str", made)))  # noqa: PTH100  (no link is followed)
        if os.path.dirname(path) in self._shared and not os.path.lexists(path):  # noqa: PTH120
            self._made.add(path)

    def files(self) -> list[str]:
        """Return what was made and is still there, and remove it: a run must not depend on the last one."""
        if not self._made:
            return []
        found = sorted(path for path in self._made if os.path.lexists(path))
        for path in found:
            if os.path.isdir(path) and not os.path.islink(path):  # noqa: PTH112, PTH114
                shutil.rmtree(path, ignore_errors=True)
            else:
                with suppress(OSError):
                    os.unlink(path)  # noqa: PTH108
        return found

    def orphans(self) -> list[int]:
        """Return the processes that processes of this one have left behind."""
        if not self._spawned:
            return []
        found: list[int] = []
        for _ in range(_PASSING):
            found = list(processes_marked(self._own, os.getpid()))
            if not found:
                break
            time.sleep(0.001)
        return found


NO_TRACES: Final = Traces("", frozenset(), lambda: None)
"""The traces of a process that is not watched: it may be anybody's."""

_watched: list[Traces] = []


def current_traces() -> Traces:
    """Return the traces of this process, `NO_TRACES` where `watch_traces` was not called."""
    return _watched[-1] if _watched else NO_TRACES


def watch_traces(own: Path, *, on_spawn: Callable[[], None]) -> None:
    """Give this process ``own`` for its temporary files, and watch it for good.

    Args:
        own: an empty directory that no other process uses.
        on_spawn: called whenever a process is started.
    """
    shared = {tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm"}
    tempfile.tempdir = str(own)
    os.register_at_fork(after_in_child=partial(_leave_word, _word_of(str(own))))
    os.environ[_MARKER] = str(own)
    traces = Traces(str(own), frozenset(os.path.realpath(each) for each in shared) | shared, on_spawn)
    _watched[:] = [traces]
    looked_at = _MAKING | _SPAWNING

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        # Most events are of no interest, such as each look at a frame, and a run has dozens of them. A bound
        # method takes five times as long to be asked: of a hook, the interpreter wants to know an attribute
        # that no method has, each time.
        if event in looked_at:
            traces.audit(event, arguments)

    sys.addaudithook(hook)


def _word_of(own: str) -> Path:
    return Path(own).with_suffix(".forks")


def _leave_word(place: Path) -> None:
    with suppress(OSError):  # whatever a tool has made impossible is no reason to end its fork
        pid = str(os.getpid())
        start = _status_of(Path("/proc") / pid)[_START].decode()
        with place.open("a", encoding="ascii") as told:
            told.write(f"{pid} {start}\n")


def _forked(own: str) -> frozenset[tuple[str, str]]:
    """Return the number and the start of each process that was forked; a number alone is used again."""
    try:
        lines = _word_of(own).read_text(encoding="ascii").splitlines()
    except OSError:
        return frozenset()
    return frozenset((pid, start) for pid, _, start in (line.partition(" ") for line in lines))


def _status_of(place: Path) -> list[bytes]:
    """Return what the process file system tells of a process, after its name."""
    return (place / "stat").read_bytes().rpartition(b")")[2].split()


def processes_marked(own: str, session: int) -> Iterator[int]:
    """Yield the living processes that have inherited a worker's session or environment, or left word.

    The worker itself and its children, which it can see without this, are left out.

    Args:
        own: the worker's directory for temporary files.
        session: the worker's process, which leads the session.
    """
    mark = f"{_MARKER}={own}".encode()
    forked = _forked(own)
    for place in _processes():
        try:
            status = _status_of(place)
            state, parent, leader = status[0], int(status[1]), int(status[3])
            if state in b"ZX" or session in (int(place.name), parent):
                continue
            told = leader == session or (place.name, status[_START].decode()) in forked
            if told or mark in (place / "environ").read_bytes().split(b"\0"):
                yield int(place.name)
        except (OSError, IndexError, ValueError):
            continue  # it has ended, or it is somebody else's


def _processes() -> Iterator[Path]:
    with suppress(OSError):
        yield from (place for place in Path("/proc").iterdir() if place.name.isdigit())
