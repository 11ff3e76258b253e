"""How a server is reached: through the pipes of a process, or over HTTP.

A transport is opened and closed by the task that owns the connection. What it yields, a link, is a pair
of message streams and the knowledge of how the far end is doing.
"""

import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, Protocol, final

import httpx2
import trio
from attrs import define, field, frozen
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import streamable_http_client
from mcp.types import RequestId

from ._faults import start_fault
from ._process import ServerProcess
from ._streams import LineReader, LineWriter, MessageSink, MessageSource, WatchedWriter

__all__ = ["Http", "Link", "OnStart", "Stdio", "Transport"]

OnStart = Callable[[RequestId], None]

# After its leader has ended, a server's last lines may still be in the pipes, which something that it
# started may hold open.
_DRAIN_SECONDS: Final = 0.5
_CONNECT_SECONDS: Final = 30.0


class Link(Protocol):
    """An open way to a server."""

    @property
    def source(self) -> MessageSource:
        """The messages that arrive."""
        ...

    @property
    def sink(self) -> MessageSink:
        """The messages that leave."""
        ...

    def greet(self) -> None:
        """Note that the handshake is done, so that the server is given time to end by itself."""
        ...

    def hang_up(self) -> None:
        """Send no more; what is being written fails at once."""
        ...

    async def how_it_went(self) -> str | None:
        """Say in a few words how the server went away, or None if it did not. Bounded."""
        ...

    def last_words(self) -> str:
        """Return what the server last said on its own account, clipped, or nothing."""
        ...


class Transport(Protocol):
    """A way to a server that is still to be opened."""

    def open(self, server: str, on_start: OnStart) -> AbstractAsyncContextManager[Link]:
        """Open the way to the server that messages call ``server``."""
        ...


@final
@frozen
class Stdio:
    """A server that is started as a process and reached through its standard streams.

    Attributes:
        command: the program and its arguments; no shell is involved.
        env: additions to the few variables that a server inherits.
        cwd: its working directory, None for the present one.
        stop_grace: how many seconds each step of ending it waits.
    """

    command: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str | os.PathLike[str] | None
    stop_grace: float

    @asynccontextmanager
    async def open(self, server: str, on_start: OnStart) -> AsyncGenerator[Link]:
        """Start the server; on leaving, end it and all that it started."""
        try:
            process = await ServerProcess.begin(
                self.command,
                env={**get_default_environment(), **self.env},
                cwd=self.cwd,
                grace=self.stop_grace,
            )
        except FileNotFoundError as error:
            raise start_fault(
                server, f"there is no {error.filename}", "install it, or correct the command"
            ) from None
        except (OSError, ValueError) as error:
            what = getattr(error, "strerror", None) or str(error)
            raise start_fault(server, f"{self.command[0]}: {what}", "correct the command") from None
        link = _StdioLink(
            process,
            LineReader(process.stdout.receive_some),
            LineWriter(process.stdin.send_all, on_start),
        )
        async with trio.open_nursery() as nursery:
            try:
                nursery.start_soon(link.listen)
                nursery.start_soon(link.notice_the_end)
                yield link
            finally:
                await process.end(patient=link.greeted)  # noqa: ASYNC102  (shielded and bounded in there)
                nursery.cancel_scope.cancel()


@final
@define(eq=False)
class _StdioLink:
    _process: ServerProcess
    source: LineReader
    sink: LineWriter
    greeted: bool = False
    _said_all: trio.Event = field(factory=trio.Event)

    async def listen(self) -> None:
        await self._process.keep_last_words()
        self._said_all.set()

    async def notice_the_end(self) -> None:
        """Close the output of a server that has ended, where something that it started holds it open."""
        await self._process.wait_exited()
        await trio.sleep(_DRAIN_SECONDS)
        self._process.stdout.close()

    def greet(self) -> None:
        self.greeted = True

    def hang_up(self) -> None:
        self._process.hang_up()

    async def how_it_went(self) -> str | None:
        if not self.source.ended:
            await trio.lowlevel.checkpoint()
            return None
        with trio.move_on_after(_DRAIN_SECONDS):
            await self._process.wait_exited()
            await self._said_all.wait()
        return self._process.how_it_ended()

    def last_words(self) -> str:
        return self._process.last_words()


@final
@frozen
class Http:
    """A server that runs elsewhere and is reached by the protocol's streamable HTTP.

    Attributes:
        url: where it answers.
    """

    url: str

    @asynccontextmanager
    async def open(self, server: str, on_start: OnStart) -> AsyncGenerator[Link]:
        """Open the way to the server; nothing is sent yet."""
        del server
        # A call has a scope and deadlines of its own, so reading an answer has none here.
        timeout = httpx2.Timeout(_CONNECT_SECONDS, read=None)
        async with (
            httpx2.AsyncClient(timeout=timeout) as client,
            streamable_http_client(self.url, http_client=client) as (source, sink),
        ):
            yield _HttpLink(source, WatchedWriter(sink, on_start))


@final
@frozen
class _HttpLink:
    source: MessageSource
    sink: WatchedWriter

    def greet(self) -> None:
        pass

    def hang_up(self) -> None:
        pass

    async def how_it_went(self) -> None:
        # Over HTTP each request stands or falls by itself.
        await trio.lowlevel.checkpoint()

    def last_words(self) -> str:
        return ""
