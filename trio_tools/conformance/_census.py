"""What a process holds: descriptors, children, threads, temporary files, asynchronous generators."""

import gc
import os
import re
import stat
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import AsyncGeneratorType, FrameType
from typing import Any, Final, TypeAlias, cast, final

import trio
from attrs import define, field, frozen

from ._clock import busy_threads
from ._site import Site, is_foreign, site_of_frame

__all__ = ["Census", "Generators", "Leftovers", "generator_site", "leftovers_since", "take_census"]

_FDS: Final = "/proc/self/fd" if Path("/proc/self/fd").is_dir() else "/dev/fd"


AsyncGenerator: TypeAlias = AsyncGeneratorType[Any, Any]


@final
@frozen
class Census:
    """What the process held at one moment.

    Attributes:
        fds: the numbers of its open descriptors.
        threads: the threads at work.
        children: the numbers of its child processes.
        files: the names in the directory for temporary files.
    """

    fds: frozenset[str]
    threads: frozenset[int]
    children: frozenset[str]
    files: frozenset[str]


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

    def with_collected(self, warned: Sequence[str]) -> "Leftovers":
        """Add what was closed by nobody but the garbage collector, as its warnings tell."""
        sockets = tuple("socket that nobody closed" for text in warned if "<socket" in text)
        files = tuple(_describe_unclosed(text) for text in warned if text.startswith("unclosed file"))
        temporary = tuple(
            "temporary directory that nobody removed" for text in warned if "cleaning up" in text
        )
        return Leftovers(
            self.threads, self.children, self.fds + files, self.sockets + sockets, self.files + temporary
        )


def _fds() -> frozenset[str]:
    listed = os.listdir(_FDS)  # noqa: PTH208  (this runs for every case)
    # The listing was read through a descriptor of its own, the lowest that was free.
    lowest = os.dup(0)
    os.close(lowest)
    return frozenset(listed) - {str(lowest)}


def take_census() -> Census:
    """Return what the process holds now, to be compared with later."""
    threads = frozenset(thread.ident or 0 for thread, _ in busy_threads())
    return Census(_fds(), threads, frozenset(_children()), frozenset(os.listdir(tempfile.gettempdir())))  # noqa: PTH208


def leftovers_since(before: Census) -> Leftovers:
    """Return what the process holds now beyond ``before``; about 50 microseconds when there is nothing."""
    children = [pid for pid in _children() if pid not in before.children]
    fds = _fds()
    threads = [pair for pair in busy_threads() if pair[0].ident not in before.threads]
    files = os.listdir(tempfile.gettempdir())  # noqa: PTH208
    if fds == before.fds and not children and not threads and len(files) == len(before.files):
        return Leftovers()
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
    # Inode numbers differ from run to run.
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
        for _ in range(20):
            command = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
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


def _describe_file(name: str) -> str:
    path = Path(tempfile.gettempdir()) / name
    # The rest of the name is random.
    return "temporary directory" if path.is_dir() else f"temporary file *{path.suffix}"


def _describe_unclosed(text: str) -> str:
    name = re.search(r" name=('[^']*'|\S+)", text)
    return f"file {name[1]} that nobody closed" if name else "file that nobody closed"


def _describe_thread(frame: FrameType) -> str:
    site = site_of_frame(frame)
    return f"thread at {site}" if site is not None else "thread"


@final
@define(eq=False)
class Generators:
    """The asynchronous generators that code has begun, seen through the interpreter's hooks."""

    begun: list[AsyncGenerator] = field(factory=list["AsyncGenerator"])
    _managed: set[int] = field(factory=set[int])

    @contextmanager
    def hooked(self) -> Generator[None]:
        """Watch inside the block; to be entered within a trio run, whose own hooks stay in effect."""
        before = sys.get_asyncgen_hooks()

        def first(generator: AsyncGenerator) -> None:
            if not is_foreign(generator.ag_code.co_filename):
                self.begun.append(generator)
            caller = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
            if _drives_safely(caller):
                self._managed.add(id(generator))
            if before.firstiter is not None:
                before.firstiter(generator)

        sys.set_asyncgen_hooks(firstiter=cast("Any", first), finalizer=before.finalizer)
        try:
            yield
        finally:
            sys.set_asyncgen_hooks(*before)

    def unfinished(self) -> list[AsyncGenerator]:
        """Return the generators that were begun and have neither ended nor been closed."""
        return [generator for generator in self.begun if generator.ag_frame is not None]

    def yielding_in_scope(self) -> Generator[tuple[AsyncGenerator, str]]:
        """Yield each generator that is suspended at a ``yield`` inside a cancel scope or nursery."""
        for generator in self.begun:
            frame = generator.ag_frame
            if (
                frame is None
                or generator.ag_running
                or generator.ag_await is not None
                or id(generator) in self._managed
            ):
                continue
            kind = _open_scope(generator)
            if kind is not None:
                yield generator, kind

    def clear(self) -> None:
        """Forget the generators of the last case."""
        self.begun.clear()
        self._managed.clear()


def _drives_safely(caller: FrameType) -> bool:
    # A context manager made from a generator, and trio's own channel from one, finish what they begin,
    # in one task and in order: a scope around their yield is what they are for.
    name = caller.f_code.co_filename
    return name.endswith(("contextlib.py", "trio/_channel.py", "pytest_trio/plugin.py"))


def _open_scope(holder: object) -> str | None:
    """Say which scope a suspended frame has entered: its ``with`` blocks keep their exits on its stack."""
    for referent in gc.get_referents(holder):
        owner = getattr(referent, "__self__", None)
        if isinstance(owner, trio.CancelScope):
            return "cancel scope"
        if type(owner).__name__ == "NurseryManager":
            return "nursery"
        inner = getattr(owner, "gen", None)
        if inner is not None and type(owner).__name__.endswith("GeneratorContextManager"):
            kind = _open_scope(inner)
            if kind is not None:
                return kind
    return None


def generator_site(generator: AsyncGenerator) -> Site | None:
    """Return the line at which a suspended generator stands."""
    frame = generator.ag_frame
    if frame is None or is_foreign(frame.f_code.co_filename):
        return None
    return Site.of(frame.f_code, frame.f_lineno)
