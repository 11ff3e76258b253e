"""A registry's tools, offered to an MCP client.

Each request has a call scope of its own (`TP-9`). What cancels the request on the wire, its own
cancellation by the client or the client's disappearance, is turned into a cancellation of that scope, with
a cause that says which it was. The request itself runs behind a shield until its call has ended, because
a call ends in its own time and in order.
"""

import contextlib
import os
import select
import sys
from collections.abc import Awaitable, Callable, Generator, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, cast

import anyio
import mcp.types as wire
import trio
from attrs import define, field
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage

from trio_tools import (
    CallScope,
    Effect,
    ImageContent,
    Layer,
    Tool,
    ToolCall,
    ToolResult,
    open_call_scope,
)

from ._streams import LineReader, LineWriter

__all__ = ["serve"]

# A pipe that can be written to takes at least this many bytes without blocking.
_PIPE_BYTES: Final = select.PIPE_BUF
_READ_BYTES: Final = 65_536


async def serve(registry: Layer, *, name: str = "trio-tools", stream: trio.abc.Stream | None = None) -> None:
    """Offer the tools of ``registry`` over MCP until the client goes away.

    Each request is executed in a call scope of its own, named ``peer``. The client's notice that it gave
    a request up, or its disappearance, cancels the scope; nothing is answered then (`TP-9`). While the
    standard streams are the wire, whatever tools print goes to the standard error stream, and their
    standard input is empty.

    Args:
        registry: a registry or one of its layers; hooks apply as to any call.
        name: what the server calls itself.
        stream: the wire; the standard input and output of the process by default.

    Checkpoints. When it is cancelled, the calls under way are cancelled and awaited first.
    """
    if stream is not None:
        await _Service(registry, name, stream.receive_some, stream.send_all).run()
        return
    with _standard_streams() as (source, sink):
        await _Service(registry, name, _reader(source), _writer(sink)).run()


@define(eq=False)
class _Service:
    """One client being served."""

    _registry: Layer
    _name: str
    _receive_some: Callable[[], Awaitable[bytes | bytearray]]
    _send_all: Callable[[bytes], Awaitable[None]]
    _given_up: set[wire.RequestId | None] = field(factory=set[wire.RequestId | None], init=False)
    _source: LineReader = field(init=False)
    _sink: LineWriter = field(init=False)

    async def run(self) -> None:
        self._source = LineReader(self._receive_some, self._note, self._refuse)
        self._sink = LineWriter(self._send)
        server = Server(
            self._name,
            version=_version(),
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
        )
        await server.run(self._source, self._sink, server.create_initialization_options())

    def _note(self, message: SessionMessage) -> None:
        """Remember which requests the client gave up, before the SDK acts on it."""
        match message.message:
            case wire.JSONRPCNotification(
                method="notifications/cancelled", params={"requestId": int() | str() as request}
            ):
                self._given_up.add(request)
            case _:
                pass

    async def _refuse(self, request: wire.RequestId) -> None:
        error = wire.ErrorData(code=wire.PARSE_ERROR, message="the request is not a JSON-RPC message")
        with contextlib.suppress(anyio.BrokenResourceError):
            await self._sink.send(SessionMessage(wire.JSONRPCError(jsonrpc="2.0", id=request, error=error)))

    async def _send(self, line: bytes) -> None:
        # A client that closed its side has gone, even if it could still be written to.
        if not self._source.ended:
            await self._send_all(line)

    async def _list_tools(
        self, _context: ServerRequestContext[Any], _params: wire.PaginatedRequestParams | None
    ) -> wire.ListToolsResult:
        await trio.lowlevel.checkpoint()
        schemas = self._registry.schemas()
        found = [(schema, self._registry.get(cast("str", schema["name"]))) for schema in schemas]
        return wire.ListToolsResult(
            tools=[_listed(schema, tool) for schema, tool in found if tool is not None]
        )

    async def _call_tool(
        self, context: ServerRequestContext[Any], params: wire.CallToolRequestParams
    ) -> wire.CallToolResult:
        tool = self._registry.get(params.name)
        result = await self._execute(context.request_id, params.name, params.arguments or {})
        if result.code == "UNKNOWN_TOOL" and tool is None:
            raise MCPError(wire.INVALID_PARAMS, f"Unknown tool: {params.name}")
        return _answer(result, tool)

    async def _execute(
        self, request: wire.RequestId | None, name: str, arguments: Mapping[str, object]
    ) -> ToolResult:
        result: ToolResult | None = None
        async with trio.open_nursery() as nursery:
            # What cancels this task comes from the wire, or from whoever stops the server. The scope
            # must not be opened by a cancelled owner, or the cause would be lost.
            with trio.CancelScope(shield=True):
                async with open_call_scope(name="peer") as scope:
                    # A cancellation that comes after the scope was left finds it closed, and does nothing.
                    nursery.start_soon(self._pass_on_cancellation, scope, request)  # noqa: ASYNC111
                    result = await self._registry.execute(
                        ToolCall(name=name, arguments=arguments, scope=scope)
                    )
            nursery.cancel_scope.cancel()
        self._given_up.discard(request)
        assert result is not None
        return result

    async def _pass_on_cancellation(self, scope: CallScope, request: wire.RequestId | None) -> None:
        try:
            await trio.sleep_forever()
        finally:
            scope.cancel(self._why(request))

    def _why(self, request: wire.RequestId | None) -> str:
        if request in self._given_up:
            return "the client cancelled the request"
        return "the client went away" if self._source.ended else "the server is shutting down"


def _version() -> str:
    try:
        return version("trio-tools")
    except PackageNotFoundError:
        return "0"


def _listed(schema: Mapping[str, Any], tool: Tool) -> wire.Tool:
    return wire.Tool(
        name=tool.name,
        description=tool.description,
        input_schema={"type": "object", **schema["parameters"]},
        output_schema=_object_schema(tool),
        annotations=wire.ToolAnnotations(
            read_only_hint=tool.effect is Effect.READ_ONLY,
            idempotent_hint=tool.effect in (Effect.READ_ONLY, Effect.IDEMPOTENT_WRITE),
        ),
    )


def _object_schema(tool: Tool) -> dict[str, Any] | None:
    """Return the schema of the tool's value where it is an object, the only kind the protocol knows."""
    return dict(tool.output) if tool.output.get("type") == "object" else None


def _answer(result: ToolResult, tool: Tool | None) -> wire.CallToolResult:
    content: list[wire.ContentBlock] = [
        wire.ImageContent(type="image", data=part.data, mime_type=part.mime_type)
        if isinstance(part, ImageContent)
        else wire.TextContent(type="text", text=part.text)
        for part in result.content
    ]
    structured = result.value if tool is not None and _object_schema(tool) is not None else None
    return wire.CallToolResult(content=content, structured_content=structured, is_error=result.is_error)


@contextlib.contextmanager
def _standard_streams() -> Generator[tuple[int, int]]:
    """Take the standard input and output for the wire, and put harmless ones in their place."""
    sys.stdout.flush()
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    try:
        yield source, sink
    finally:
        sys.stdout.flush()
        os.dup2(source, 0)
        os.dup2(sink, 1)
        os.close(source)
        os.close(sink)


# The descriptors are left blocking, for other processes may share them: each read and write is made
# only once the kernel says that it will not wait. A plain file is always ready, and cannot be asked.
def _reader(source: int) -> Callable[[], Awaitable[bytes]]:
    async def receive_some() -> bytes:
        with contextlib.suppress(PermissionError):
            await trio.lowlevel.wait_readable(source)
        return os.read(source, _READ_BYTES)

    return receive_some


def _writer(sink: int) -> Callable[[bytes], Awaitable[None]]:
    async def send_all(line: bytes) -> None:
        rest = memoryview(line)
        while rest:
            with contextlib.suppress(PermissionError):
                await trio.lowlevel.wait_writable(sink)
            try:
                rest = rest[os.write(sink, rest[:_PIPE_BYTES]) :]
            except OSError as error:
                raise trio.BrokenResourceError from error

    return send_all
