"""The process of a server and all that it started: one group, begun, watched, ended, reaped.

The server leads a session and a process group of its own. A Ctrl-C at the terminal therefore does not
reach it, and what it starts in turn can be ended with it. The ladder has an end: its input is closed,
then the group is asked to terminate, then it is killed, then the leader is reaped.

The leader is reaped last. As long as it is not, the operating system gives its number to nobody else,
so a signal to the group never hits a stranger. That is why its end is observed without reaping.
"""

import contextlib
import os
import signal
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import PIPE
from typing import Final, Self, final

import trio
from attrs import define, field

from ._faults import remote_text

__all__ = ["ServerProcess"]

_CAN_PEEK: Final = hasattr(os, "waitid")
_POLL_SECONDS: Final = 0.01
# What the kernel cannot kill within this time hangs in the kernel itself; waiting on would not help.
_KILL_SECONDS: Final = 5.0
_KEPT_LINES: Final = 20


@final
@define(eq=False)
class ServerProcess:
    """A running server, reached through its standard streams."""

    _process: trio.Process
    _grace: float
    _pidfd: int | None
    _reaped: bool = False
    _watch: trio.Lock = field(factory=trio.Lock)
    _last_words: deque[str] = field(factory=lambda: deque[str](maxlen=_KEPT_LINES))

    @classmethod
    async def begin(
        cls,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str | os.PathLike[str] | None,
        grace: float,
    ) -> Self:
        """Start ``command`` in a process group of its own. A checkpoint, before the start.

        Args:
            command: the program and its arguments; no shell is involved.
            env: the whole environment of the process.
            cwd: its working directory, None for the present one.
            grace: how many seconds each step of the ladder in `end` waits.

        Raises:
            OSError: when it cannot be started.
        """
        process = await trio.lowlevel.open_process(
            list(command),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
        )
        return cls(process, grace, _open_pidfd(process.pid))

    @property
    def pid(self) -> int:
        """The number of the leader, which is that of the group too."""
        return self._process.pid

    @property
    def stdin(self) -> trio.lowlevel.FdStream:
        """Where the server reads."""
        return _stream(self._process.stdin)

    @property
    def stdout(self) -> trio.lowlevel.FdStream:
        """Where the server writes."""
        return _stream(self._process.stdout)

    def hang_up(self) -> None:
        """Close the server's input; whatever still writes to it fails at once."""
        self.stdin.close()

    async def keep_last_words(self) -> None:
        """Read what the server says on its error stream, so that it never blocks there."""
        rest = b""
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async for chunk in _stream(self._process.stderr):
                *lines, rest = (rest + chunk).split(b"\n")
                # A line without end must not be kept without end.
                rest = rest[:4096]
                self._last_words.extend(filter(None, map(_readable, lines)))
        self._last_words.extend(filter(None, [_readable(rest)]))

    def last_words(self) -> str:
        """Return the last line of the error stream, clipped, or nothing."""
        return remote_text(self._last_words[-1]) if self._last_words else ""

    async def wait_exited(self) -> None:
        """Wait until the leader has ended, without reaping it."""
        # trio lets one task at a time wait for a descriptor.
        async with self._watch:
            if self._pidfd is not None and not self._exited():
                await trio.lowlevel.wait_readable(self._pidfd)
        while not self._exited():  # noqa: ASYNC110  (where the kernel tells nobody)
            await trio.sleep(_POLL_SECONDS)

    def how_it_ended(self) -> str:
        """Say in a few words how the leader ended, or that it closed its output."""
        status = self._peek()
        if status is None:
            return "closed its output"
        if status < 0:
            return f"ended (killed by signal {-status})"
        return f"ended (exit status {status})"

    async def end(self, *, patient: bool = True) -> None:
        """End the server and everything in its group, then reap it. Bounded, and never cancelled.

        Checkpoints. The ladder: close its input and wait, terminate the group and wait, kill the group.

        Args:
            patient: False leaves out the first wait, for a server that does not read its input yet.
        """
        with trio.CancelScope(shield=True):
            self.hang_up()
            with trio.move_on_after(self._grace if patient else 0):
                await self.wait_exited()
            if not self._exited() or _lives_in_group(self.pid):
                self._signal(signal.SIGTERM)
                with trio.move_on_after(self._grace):
                    await self.wait_exited()
                    while _lives_in_group(self.pid):  # noqa: ASYNC110  (orphans have no parent to ask)
                        await trio.sleep(_POLL_SECONDS)
            # Also where all seems quiet: not every system lets us see who is left in the group.
            self._signal(signal.SIGKILL)
            with trio.move_on_after(_KILL_SECONDS):
                await self.wait_exited()
                await self._process.wait()
                self._reaped = True
            for stream in (self._process.stdout, self._process.stderr):
                _stream(stream).close()
            if self._pidfd is not None:
                os.close(self._pidfd)
                self._pidfd = None

    def _exited(self) -> bool:
        return self._peek() is not None

    def _peek(self) -> int | None:
        """Return the exit status, a signal as a negative number, or None while the leader runs."""
        if self._reaped or not _CAN_PEEK:
            # Without a way to look before reaping, the group can be signalled only while the leader runs.
            status = self._process.poll()
            self._reaped = status is not None
            return status
        seen = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if seen is None:
            return None
        return seen.si_status if seen.si_code == os.CLD_EXITED else -seen.si_status

    def _signal(self, number: int) -> None:
        if self._reaped:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)


def _stream(stream: object) -> trio.lowlevel.FdStream:
    assert isinstance(stream, trio.lowlevel.FdStream)
    return stream


def _open_pidfd(pid: int) -> int | None:
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            return os.pidfd_open(pid)
    return None


def _readable(line: bytes) -> str:
    return line.decode("utf-8", "replace").strip()


def _lives_in_group(leader: int, processes: Path = Path("/proc")) -> bool:
    """Say whether a process other than ``leader`` lives in its group, where the system can tell."""
    for entry in processes.glob("[0-9]*/stat"):
        try:
            # The name of the program, in parentheses, may hold anything, parentheses included.
            state, _parent, group, *_ = entry.read_text("utf-8", "replace").rpartition(")")[2].split()
        except (OSError, ValueError):
            continue
        if group == str(leader) != entry.parent.name and state not in "ZX":
            return True
    return False
