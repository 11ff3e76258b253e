"""The tools of a server, as tools like any other.

Nothing that a server says of itself is believed: each of its tools has effect UNKNOWN and is exclusive in
a batch, unless the program that opens the toolset knows better (`TP-7`).
"""

import json
import logging
import math
import os
import shlex
from collections.abc import AsyncGenerator, Callable, Container, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import PurePath
from typing import Any, Final, cast
from urllib.parse import urlsplit

import mcp.types as wire

from trio_tools import DefinitionError, Effect, ImageContent, TextContent, Tool, ToolContext

from ._connection import Connection
from ._faults import answer_fault, remote_text, start_fault
from ._schemas import without_notes
from ._transport import Http, Stdio, Transport

__all__ = ["open_mcp_toolset"]

logger = logging.getLogger("trio_tools.mcp")

# What starts a server without being one; the next word says more.
_RUNNERS: Final = ("python", "node", "npx", "uvx", "uv", "bunx", "deno", "bash", "sh", "env", "docker")


@asynccontextmanager
async def open_mcp_toolset(
    server: str | Sequence[str | os.PathLike[str]],
    *,
    name: str | None = None,
    timeout: float | None = None,  # noqa: ASYNC109  (declared on each tool, not spent here)
    grace: float = 1.0,
    concurrency_safe: Container[str] = (),
    start_timeout: float = 30.0,
    stop_grace: float = 2.0,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
) -> AsyncGenerator[tuple[Tool, ...]]:
    """Start or reach an MCP server and give its tools, until the block is left.

    A call of one of these tools that is cancelled tells the server so, once, waits up to ``grace``
    seconds for the server to finish, and then ends; the connection stays healthy (`TP-5`, `TP-6`). A
    server that dies, or answers with an error or with nonsense, fails the call with a message that names
    the server (`TP-2`, `TP-4`, `TP-8`). The tools have effect UNKNOWN (`TP-7`).

    Leaving the block ends the server and everything in its process group: its input is closed, then it
    is asked to terminate, then it is killed, and in any case reaped. It may be left in another task than
    it was entered in, and in any order with others. A call still under way fails as cancelled (`TP-3`).

    Args:
        server: a command, as a list or as one string that is split like a shell would, and started
            without one; or an ``http://`` or ``https://`` address.
        name: what messages call the server; taken from the command or the address by default.
        timeout: seconds, declared on each tool; None for no limit (`TI-1`).
        grace: seconds that a cancelled call waits for the server.
        concurrency_safe: the names of the tools that may overlap with their neighbours in a batch.
        start_timeout: seconds in which the server must have answered the handshake and listed its tools.
        stop_grace: seconds that each step of ending the server waits.
        env: environment variables for the server, besides a few harmless ones such as PATH and HOME,
            which are all that it inherits.
        cwd: the server's working directory; the present one by default.

    Raises:
        TransportError: when the server does not start, cannot be reached or does not speak the protocol.
            Nothing is left running then.
        ValueError: when the command is empty or a number of seconds is negative or not a number.
    """
    for seconds in (grace, start_timeout, stop_grace):
        if not seconds >= 0 or math.isnan(seconds):
            raise ValueError(f"a time is a number of seconds, zero or more, not {seconds!r}")
    label, transport = _reach(server, name, env or {}, cwd, stop_grace)
    connection = Connection(label, transport, grace, start_timeout)
    await connection.open()
    try:
        yield tuple(_tools(connection, timeout, concurrency_safe))
    finally:
        await connection.close()  # noqa: ASYNC102  (shielded and bounded in there)


def _reach(
    server: str | Sequence[str | os.PathLike[str]],
    name: str | None,
    env: Mapping[str, str],
    cwd: str | os.PathLike[str] | None,
    stop_grace: float,
) -> tuple[str, Transport]:
    if isinstance(server, str) and server.startswith(("http://", "https://")):
        return name or urlsplit(server).netloc or server, Http(server)
    if isinstance(server, str):
        try:
            command = tuple(shlex.split(server))
        except ValueError as error:
            raise start_fault(name or server, f"its command cannot be read: {error}") from None
    else:
        command = tuple(os.fspath(word) for word in server)
    if not command:
        raise ValueError("the command of an MCP server is empty")
    return name or _label(command), Stdio(command, env, cwd, stop_grace)


def _label(command: Sequence[str]) -> str:
    """Choose the word of ``command`` that says most about what it starts."""
    for word in command:
        if word == "-c":
            # What follows is a script, and no word of it is sure to be what it starts.
            break
        last = PurePath(word).name
        if not word.startswith("-") and not last.startswith(_RUNNERS):
            return last
    return PurePath(command[0]).name


def _tools(connection: Connection, timeout: float | None, concurrency_safe: Container[str]) -> list[Tool]:
    tools: list[Tool] = []
    for listed in connection.tools:
        try:
            parameters = _enforceable(connection.server, listed.name, listed.input_schema)
            output = _enforceable(connection.server, listed.name, listed.output_schema or {})
            tools.append(
                Tool.from_schema(
                    name=listed.name,
                    description=listed.description or listed.title or "",
                    parameters=parameters,
                    output=output,
                    body=_body(connection, listed.name),
                    render=_render,
                    timeout=timeout,
                    effect=Effect.UNKNOWN,
                    concurrency_safe=listed.name in concurrency_safe,
                )
            )
        except DefinitionError as error:
            # One tool that cannot be checked must not cost the others.
            logger.warning(
                'server "%s": its tool "%s" is left out: %s',
                connection.server,
                remote_text(listed.name),
                remote_text(str(error)),
            )
    return tools


def _enforceable(server: str, tool: str, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    enforceable, notes = without_notes(schema)
    if notes:
        logger.info(
            'server "%s": in a schema of its tool "%s" it is left to the server to keep: %s',
            server,
            remote_text(tool),
            remote_text(", ".join(notes)),
        )
    return enforceable


def _body(connection: Connection, name: str) -> Callable[..., object]:
    async def body(arguments: Mapping[str, Any], ctx: ToolContext) -> object:
        def progress(done: float, total: float | None, message: str | None) -> None:
            ctx.progress(done, total, None if message is None else remote_text(message))

        answer = await connection.call(name, arguments, progress)
        if answer.is_error:
            raise answer_fault(connection.server, name, _text_of(answer.content))
        return _value_of(answer)

    return body


def _text_of(content: Sequence[wire.ContentBlock]) -> str:
    return "\n".join(block.text for block in content if isinstance(block, wire.TextContent))


def _value_of(answer: wire.CallToolResult) -> object:
    """Return the structured value, else the text, else, where there is more than text, the parts."""
    if answer.structured_content is not None:
        return answer.structured_content
    if all(isinstance(block, wire.TextContent) for block in answer.content):
        return _text_of(answer.content)
    return {
        "content": [
            block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in answer.content
        ]
    }


def _render(_arguments: object, value: object) -> object:
    match value:
        case str():
            return value
        case dict():
            members = cast("dict[str, object]", value)
            if len(members) == 1:
                key, only = next(iter(members.items()))
                # Servers wrap a plain text in an object of one member, for the protocol wants objects.
                if isinstance(only, str):
                    return only
                if key == "content" and isinstance(only, list):
                    return [_part(part) for part in cast("list[object]", only)]
        case _:
            pass
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _part(part: object) -> TextContent | ImageContent:
    match part:
        case {"type": "text", "text": str(text)}:
            return TextContent(text)
        case {"type": "image", "data": str(data), "mimeType": str(mime)}:
            return ImageContent(data, mime)
        case {"type": "resource", "resource": {"text": str(text)}}:
            return TextContent(text)
        case {"type": "resource_link", "uri": str(uri)}:
            return TextContent(uri)
        case {"type": str(kind)}:
            return TextContent(f"[{kind}]")
        case _:
            return TextContent(json.dumps(part, ensure_ascii=False, separators=(",", ":")))
