"""What a process holds: descriptors, children, threads, temporary files."""

import os
import re
import stat
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Final, final

from attrs import evolve, frozen

from ._clock import busy_threads
from ._site import site_of_frame

__all__ = ["NOTHING_LEFT", "Census", "Leftovers", "leftovers_since", "take_census"]

_FDS: Final = "/proc/self/fd" if Path("/proc/self/fd").is_dir() else "/dev/fd"


@final
@frozen
class Census:
    """What the process held at one moment.

    Attributes:
        fds: the numbers of its open descriptors.
        threads: the threads at work.
        children: the numbers of its child processes.
        files: the names in the directory for temporary files.
        fill: how many descriptors there are, and the lowest number that is free; None where that has to
            be counted.
    """

    fds: frozenset[str]
    threads: frozenset[int]
    children: frozenset[str]
    files: frozenset[str]
    fill: tuple[int, int] | None


@final
@frozen
class Leftovers:
    """What a run left behind, each as a phrase; the fields stand for one requirement each."""

    threads: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    fds: tuple[str, ...] = ()
    sockets: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.threads or self.children or self.fds or self.sockets or self.files)

    @property
    def may_pass(self) -> bool:
        """Whether all there is are threads that are in no code of a tool, and so about to be idle."""
        return bool(self.threads) and not any(" at " in each for each in self.threads)

    def kept_in(self, later: "Leftovers") -> "Leftovers":
        """Leave out the descriptors, sockets and files of which nothing is left ``later``."""
        return evolve(
            self,
            fds=self.fds if later.fds else (),
            sockets=self.sockets if later.sockets else (),
            files=self.files if later.files else (),
        )

    def with_traces(self, children: Sequence[int], files: Sequence[str]) -> "Leftovers":
        """Add processes that have lost their parent, and files outside of the process's own directory."""
        if not children and not files:
            return self
        orphans = tuple(_describe_child(str(pid)) for pid in children)
        made = tuple(sorted(_describe_made(Path(path)) for path in files))
        return evolve(self, children=self.children + orphans, files=self.files + made)

    def with_collected(self, warned: Sequence[str]) -> "Leftovers":
        """Add what was closed by nobody but the garbage collector, as its warnings tell."""
        sockets = tuple("socket that nobody closed" for text in warned if "<socket" in text)
        files = tuple(_describe_unclosed(text) for text in warned if text.startswith("unclosed file"))
        temporary = tuple(
            "temporary directory that nobody removed" for text in warned if "cleaning up" in text
        )
        return evolve(
            self, fds=self.fds + files, sockets=self.sockets + sockets, files=self.files + temporary
        )


NOTHING_LEFT: Final = Leftovers()


def _lowest_free() -> int:
    lowest = os.dup(0)
    os.close(lowest)
    return lowest


def _fds() -> frozenset[str]:
    listed = os.listdir(_FDS)  # noqa: PTH208  (this runs for every case)
    # The listing was read through a descriptor of its own, the lowest that was free.
    return frozenset(listed) - {str(_lowest_free())}


def _fill() -> tuple[int, int] | None:
    # Since 6.2, Linux tells how many descriptors there are as the size of the directory that lists them.
    number = os.stat(_FDS).st_size  # noqa: PTH116
    return (number, _lowest_free()) if number else None


def take_census() -> Census:
    """Return what the process holds now, to be compared with later."""
    fds, fill = _fds(), _fill()
    return Census(
        fds=fds,
        threads=frozenset(thread.ident or 0 for thread, _ in busy_threads()),
        children=frozenset(_children()),
        files=frozenset(os.listdir(tempfile.gettempdir())),  # noqa: PTH208
        fill=fill if fill is not None and fill[0] == len(fds) else None,
    )


def leftovers_since(before: Census) -> Leftovers:
    """Return what the process holds now beyond ``before``; about 50 microseconds when there is nothing."""
    children = [pid for pid in _children() if pid not in before.children]
    # To list them takes twice as long as to see that their number is the same.
    fds = before.fds if before.fill is not None and before.fill == _fill() else _fds()
    threads = [pair for pair in busy_threads() if pair[0].ident not in before.threads]
    files = os.listdir(tempfile.gettempdir())  # noqa: PTH208
    if fds == before.fds and not children and not threads and len(files) == len(before.files):
        return NOTHING_LEFT
    plain: list[str] = []
    sockets: list[str] = []
    for fd in sorted(fds - before.fds, key=int):
        target = _target_of(fd)
        if target is None or target.startswith("anon_inode:[pidfd]"):
            continue  # a pidfd belongs to its child
        (sockets if target.startswith("socket:") else plain).append(f"descriptor {target}")
    return Leftovers(
        tuple(_describe_thread(frame) for _, frame in threads),
        tuple(_describe_child(pid) for pid in children),
        tuple(plain),
        tuple(sockets),
        tuple(sorted(_describe_file(name) for name in set(files) - before.files)),
    )


def _target_of(fd: str) -> str | None:
    try:
        target = os.readlink(f"{_FDS}/{fd}")  # noqa: PTH115
    except FileNotFoundError:
        return None
    except OSError:
        # Where there is no process file system, the kind is all that can be told.
        return "socket:" if stat.S_ISSOCK(os.fstat(int(fd)).st_mode) else "of a file or pipe"
    # Names in the directory for temporary files differ from run to run, and so do inode numbers.
    place, temporary = Path(target.removesuffix(" (deleted)")), Path(tempfile.gettempdir())
    if temporary in place.parents:
        made, *below = place.relative_to(temporary).parts
        return f"of a temporary file {Path(f'*{Path(made).suffix}', *below)}"
    return target.split(":[", 1)[0] + ":" if target.startswith(("socket:[", "pipe:[")) else target


def _children() -> list[str]:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return []
    # Each thread has children of its own: trio starts processes in a worker thread.
    pids = [pid for each in Path("/proc/self/task").glob("*/children") for pid in _words_of(each)]
    return pids or [""]  # there is one, and this system does not say which


def _words_of(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii").split()
    except OSError:
        return []


def _describe_child(pid: str) -> str:
    place = Path("/proc") / pid
    try:
        own = _command(Path("/proc/self"))
        for _ in range(20):
            command = _command(place)
            if command and command == own:
                return "child process that was forked"
            if command:
                return f"child process {command[:80]!r}"
            if (place / "stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[
                0
            ] == "Z":
                return "child process that was not awaited"
            time.sleep(0.001)  # it is only just becoming a program
    except OSError:
        pass
    return "child process"


def _command(place: Path) -> str:
    return (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()


def _describe_file(name: str) -> str:
    path = Path(tempfile.gettempdir()) / name
    # The rest of the name is random.
    return "temporary directory" if path.is_dir() else f"temporary file *{path.suffix}"


def _describe_made(path: Path) -> str:
    # Which of them has a random name cannot be told.
    return f"temporary file or directory {path.parent}/*{path.suffix}"


def _describe_unclosed(text: str) -> str:
    name = re.search(r" name=('[^']*'|\S+)", text)
    return f"file {name[1]} that nobody closed" if name else "file that nobody closed"


def _describe_thread(frame: FrameType) -> str:
    site = site_of_frame(frame)
    return f"thread at {site}" if site is not None else "thread"
