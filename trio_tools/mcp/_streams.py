"""The two pipes of a server as the streams of messages that the protocol's SDK wants.

A message is one line of JSON. A line is written whole or not at all, for half a line would spoil every
later one: what is being written is shielded, and only closing the pipe ends it.
"""

import json
import re
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Final, Protocol, Self, cast, final

import anyio
import trio
from attrs import define, field
from mcp.shared.message import SessionMessage
from mcp.types import (
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCRequest,
    RequestId,
    jsonrpc_message_adapter,
)

__all__ = [
    "MALFORMED",
    "LineReader",
    "LineWriter",
    "MessageSink",
    "MessageSource",
    "WatchedWriter",
    "parse_line",
]

MALFORMED: Final = "the answer is not a JSON-RPC message"

# A server that never ends its line must not fill our memory.
_LONGEST_LINE: Final = 64 * 1024 * 1024
# An object up to the first container in it.
_SHALLOW: Final = re.compile(rb"\s*\{[^{\[]*")
# In digits; ours are far shorter.
_LONGEST_ID: Final = 20


def parse_line(line: bytes) -> SessionMessage | Exception:
    """Read one line: a message, or why it is none.

    A line that is no message but bears the id of a request becomes an error answer to it, so that the
    call it belongs to ends (`TP-2`).
    """
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        answered = _id_in(line, of_request=False)
        if answered is None:
            return error
        return SessionMessage(
            JSONRPCError(jsonrpc="2.0", id=answered, error=ErrorData(code=PARSE_ERROR, message=MALFORMED))
        )


def _id_in(line: bytes, *, of_request: bool) -> RequestId | None:
    # What is no Unicode, and a number of more digits than Python reads, make no message, but they leave the
    # id legible. So does what nests too deep, if it comes after the id.
    try:
        found: object = json.loads(line.decode("utf-8", "replace"), parse_int=_short_int)
    except RecursionError:
        head = _SHALLOW.match(line)
        return None if head is None else _id_in(head[0] + b"0}", of_request=of_request)
    except ValueError:
        return None
    if not isinstance(found, dict):
        return None
    members = cast("dict[str, object]", found)
    found_id = members.get("id")
    if ("method" in members) is not of_request or isinstance(found_id, bool):
        return None
    return found_id if isinstance(found_id, int | str) else None


def _short_int(digits: str) -> int | None:
    return int(digits) if len(digits) <= _LONGEST_ID else None


class _Closes(Protocol):
    async def aclose(self) -> None: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> bool | None: ...


class MessageSource(_Closes, Protocol):
    """Where messages come from, as the SDK sees it."""

    def __aiter__(self) -> "MessageSource":
        """Return the source itself."""
        ...

    async def __anext__(self) -> SessionMessage | Exception:
        """Return the next message, or why what arrived is none."""
        ...

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message, or why what arrived is none."""
        ...


class MessageSink(_Closes, Protocol):
    """Where messages go, as the SDK sees it."""

    async def send(self, item: SessionMessage, /) -> None:
        """Send one message."""
        ...


class _Stream:
    """What the SDK asks of either stream besides messages."""

    async def aclose(self) -> None:
        """Close nothing: the pipes belong to the process."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()


def _ignore(_: object) -> None:
    pass


async def _answer_nobody(_: object) -> None:
    pass


@final
@define(eq=False)
class LineReader(_Stream):
    """The messages that arrive; it ends where the pipe ends.

    `on_malformed` is given the id of a request that cannot be read, which nobody else would answer.
    """

    _receive_some: Callable[[], Awaitable[bytes | bytearray]]
    _on_message: Callable[[SessionMessage], None] = _ignore
    _on_malformed: Callable[[RequestId], Awaitable[None]] = _answer_nobody
    _buffer: bytearray = field(factory=bytearray)
    _searched: int = 0
    ended: bool = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        while (line := self._next_line()) is None:
            if self.ended:
                raise StopAsyncIteration
            await self._fill()
        await trio.lowlevel.checkpoint()
        message = parse_line(line)
        if isinstance(message, SessionMessage):
            self._on_message(message)
        elif (asked := _id_in(line, of_request=True)) is not None:
            await self._on_malformed(asked)
        return message

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message, or why a line is none.

        Raises:
            anyio.EndOfStream: when the pipe has ended.
        """
        try:
            return await self.__anext__()
        except StopAsyncIteration:
            raise anyio.EndOfStream from None

    def _next_line(self) -> bytes | None:
        end = self._buffer.find(b"\n", self._searched)
        if end < 0:
            self._searched = len(self._buffer)
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        self._searched = 0
        return line

    async def _fill(self) -> None:
        try:
            chunk = await self._receive_some()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            chunk = b""
        self._buffer += chunk
        self.ended = not chunk or len(self._buffer) > _LONGEST_LINE


@final
@define(eq=False)
class LineWriter(_Stream):
    """The messages that leave, one at a time.

    `on_start` is told the id of each request at the last moment before its first byte may leave, and not
    at all for a request that is given up before.
    """

    _send_all: Callable[[bytes], Awaitable[None]]
    _on_start: Callable[[RequestId], None] = _ignore
    _lock: trio.Lock = field(factory=trio.Lock)

    async def send(self, item: SessionMessage, /) -> None:
        """Write one message. Cancelled only before its first byte.

        Raises:
            anyio.BrokenResourceError: when the pipe is closed.
        """
        line = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        async with self._lock:
            # The lock may be handed over in the same step in which the request is given up.
            await trio.lowlevel.checkpoint_if_cancelled()
            if isinstance(item.message, JSONRPCRequest):
                self._on_start(item.message.id)
            with trio.CancelScope(shield=True):
                try:
                    await self._send_all(line)
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    raise anyio.BrokenResourceError from None


@final
@define(eq=False)
class WatchedWriter(_Stream):
    """A stream of somebody else's, with the `on_start` of `LineWriter`."""

    _stream: MessageSink
    _on_start: Callable[[RequestId], None]

    async def send(self, item: SessionMessage, /) -> None:
        """Hand one message on."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if isinstance(item.message, JSONRPCRequest):
            self._on_start(item.message.id)
        await self._stream.send(item)

    async def aclose(self) -> None:
        """Close the stream behind it."""
        await self._stream.aclose()
