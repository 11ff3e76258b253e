"""Being a server: each request lives in a scope of its own, and a client that gives up hears nothing more."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from attrs import define

from trio_tools import (
    TOOL_ABORTED,
    CauseKind,
    Effect,
    ImageContent,
    Registry,
    Settlement,
    TextContent,
    ToolCall,
    ToolContext,
    ToolExecution,
    ToolResult,
    open_call_scope,
)
from trio_tools.mcp import open_mcp_toolset, serve
from trio_tools.mcp._streams import LineReader

from .helpers import call, registry_of, runs, written


@define(eq=False)
class Client:
    """The other end of the wire, which writes and reads JSON by hand."""

    stream: trio.StapledStream[Any, Any]
    reader: LineReader

    async def send(self, method: str, request: int | None = None, **params: object) -> None:
        message: dict[str, object] = {"jsonrpc": "2.0", "method": method, "params": params}
        if request is not None:
            message["id"] = request
        await self.stream.send_all(json.dumps(message).encode() + b"\n")

    async def call(self, request: int, name: str, **arguments: object) -> None:
        await self.send("tools/call", request, name=name, arguments=arguments)

    async def receive(self) -> Mapping[str, Any]:
        message = await self.reader.receive()
        assert not isinstance(message, Exception)
        return json.loads(message.message.model_dump_json(by_alias=True, exclude_unset=True))

    async def rest(self) -> list[object]:
        return [item async for item in self.reader]


@asynccontextmanager
async def serving(registry: Registry) -> AsyncGenerator[tuple[Client, trio.CancelScope]]:
    """Serve a registry to a client that has shaken hands; give also what stops the server."""
    ours, theirs = trio.testing.memory_stream_pair()
    client = Client(ours, LineReader(ours.receive_some))
    async with trio.open_nursery() as nursery:
        server = trio.CancelScope()

        async def run() -> None:
            with server:
                await serve(registry, stream=theirs)
            await theirs.aclose()

        nursery.start_soon(run)
        await client.send(
            "initialize",
            0,
            protocolVersion="2025-06-18",
            capabilities={},
            clientInfo={"name": "t", "version": "1"},
        )
        answer = await client.receive()
        assert answer["result"]["serverInfo"]["name"] == "trio-tools"
        await client.send("notifications/initialized")
        yield client, server
        await ours.send_eof()


@define(eq=False)
class Watched:
    """A registry with a tool that waits, and what was published by it."""

    registry: Registry
    begun: trio.Event
    published: list[ToolResult]


def watched() -> Watched:
    registry = Registry()
    found = Watched(registry, trio.Event(), [])

    @registry.tool(effect=Effect.READ_ONLY)
    async def add(a: int, b: int) -> dict[str, int]:
        """Add two numbers."""
        return {"sum": a + b}

    @registry.tool
    async def wait(ctx: ToolContext) -> str:
        """Wait until cancelled."""
        found.begun.set()
        await trio.sleep_forever()
        raise AssertionError

    @registry.tool
    async def refuse() -> str:
        """Fail."""
        raise ValueError("no, not today")

    def note(_execution: ToolExecution, result: ToolResult) -> None:
        found.published.append(result)

    registry.observe(note)
    return found


async def test_the_tools_are_listed_with_what_a_model_may_see_and_what_comes_back() -> None:
    async with serving(watched().registry) as (client, _):
        await client.send("tools/list", 1)
        listed = {tool["name"]: tool for tool in (await client.receive())["result"]["tools"]}

    assert list(listed) == ["add", "wait", "refuse"]
    assert listed["add"]["description"] == "Add two numbers."
    assert listed["add"]["inputSchema"]["required"] == ["a", "b"]
    assert listed["add"]["outputSchema"]["type"] == "object"
    assert listed["add"]["annotations"]["readOnlyHint"] is True
    assert "outputSchema" not in listed["wait"]
    assert listed["wait"]["annotations"]["readOnlyHint"] is False


async def test_a_call_is_answered_with_its_content_and_its_value() -> None:
    async with serving(watched().registry) as (client, _):
        await client.call(1, "add", a=1, b=2)
        added = (await client.receive())["result"]
        await client.call(2, "refuse")
        refused = (await client.receive())["result"]
        await client.call(3, "add", a="one")
        invalid = (await client.receive())["result"]

    assert added["structuredContent"] == {"sum": 3}
    assert added["content"] == [{"type": "text", "text": '{"sum":3}'}]
    assert not added["isError"]
    assert refused["isError"]
    assert refused["content"][0]["text"] == "Error: no, not today"
    assert invalid["isError"]
    assert "invalid arguments" in invalid["content"][0]["text"]


async def test_pictures_are_sent_as_pictures() -> None:
    registry = Registry()

    def render(_arguments: object, value: object) -> list[TextContent | ImageContent]:
        return [TextContent("see"), ImageContent(str(value), "image/png")]

    @registry.tool(render=render)
    async def draw() -> str:
        """Draw."""
        return "aGk="

    async with serving(registry) as (client, _):
        await client.call(1, "draw")
        answer = (await client.receive())["result"]

    assert answer["content"] == [
        {"type": "text", "text": "see"},
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
    ]


async def test_an_unknown_tool_is_a_protocol_error() -> None:
    async with serving(watched().registry) as (client, _):
        await client.call(1, "nothing")
        answer = await client.receive()

    assert answer["error"]["code"] == -32602
    assert answer["error"]["message"] == "Unknown tool: nothing"


@pytest.mark.parametrize("value", [b'"\\ud800"', b"1" * 6000, b'"\xff"'])
async def test_a_request_that_cannot_be_read_is_refused_and_not_left_to_wait(value: bytes) -> None:
    async with serving(watched().registry) as (client, _):
        await client.stream.send_all(
            b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"add","arguments":{"a":'
            + value
            + b"}}}\n"
        )
        with trio.fail_after(60):
            refusal = await client.receive()
        await client.call(8, "add", a=1, b=2)
        answer = await client.receive()

    assert (refusal["id"], refusal["error"]["code"]) == (7, -32700)
    assert answer["id"] == 8


async def test_a_client_that_left_hears_nothing_of_a_request_that_cannot_be_read() -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    await ours.send_all(b'{"jsonrpc":"2.0","id":7,"method":3}\n')
    await ours.aclose()

    await serve(watched().registry, stream=theirs)


@pytest.mark.rule("TP-9")
async def test_case_38_a_request_that_the_client_gives_up_is_cancelled_and_not_answered() -> None:
    found = watched()
    async with serving(found.registry) as (client, _):
        await client.call(7, "wait")
        await found.begun.wait()
        await client.send("notifications/cancelled", requestId=7)
        await client.call(8, "add", a=1, b=1)
        answer = await client.receive()
        await client.stream.send_eof()
        rest = await client.rest()

    cancelled = next(result for result in found.published if result.code == TOOL_ABORTED)
    assert answer["id"] == 8
    assert rest == []
    assert cancelled.settlement is Settlement.CANCELLED
    assert cancelled.cause is not None
    assert (cancelled.cause.kind, cancelled.cause.name) == (CauseKind.CALLER, "peer")
    assert cancelled.cause.reason == "the client cancelled the request"


@pytest.mark.rule("TP-9")
async def test_a_client_that_goes_away_cancels_its_requests_and_hears_nothing_more() -> None:
    found = watched()
    async with serving(found.registry) as (client, _):
        await client.call(7, "wait")
        await found.begun.wait()
        await client.stream.send_eof()
        rest = await client.rest()

    (cancelled,) = found.published
    assert rest == []
    assert cancelled.code == TOOL_ABORTED
    assert cancelled.cause is not None
    assert cancelled.cause.reason == "the client went away"


@pytest.mark.rule("TP-9")
async def test_each_request_has_a_scope_of_its_own() -> None:
    found = watched()
    async with serving(found.registry) as (client, _):
        await client.call(1, "wait")
        await client.call(2, "wait")
        await found.begun.wait()
        await trio.testing.wait_all_tasks_blocked()
        await client.send("notifications/cancelled", requestId=1)
        await trio.testing.wait_all_tasks_blocked()

        assert len(found.published) == 1


async def test_a_server_that_is_stopped_says_why_to_its_calls() -> None:
    found = watched()
    async with serving(found.registry) as (client, server):
        await client.call(7, "wait")
        await found.begun.wait()
        server.cancel()
        await client.rest()

    (cancelled,) = found.published
    assert cancelled.cause is not None
    assert cancelled.cause.reason == "the server is shutting down"


SERVER = '''
import sys
import trio
from trio_tools import Registry
from trio_tools.mcp import serve

registry = Registry()

@registry.tool
async def shout(text: str) -> str:
    """Print something where the wire is."""
    print("this is not a message")
    sys.stdout.flush()
    return text.upper() + sys.stdin.read()

@registry.tool
async def wait(file: str) -> str:
    """Wait, and note that it began and that it ended."""
    with open(file + ".begun", "w") as note:
        note.write("1")
    try:
        await trio.sleep_forever()
    finally:
        with open(file + ".ended", "w") as note:
            note.write("1")

trio.run(serve, registry)
'''


@pytest.mark.slow
@pytest.mark.rule("TP-5", "TP-9")
async def test_a_served_registry_is_a_toolset_and_a_cancellation_crosses_the_wire(tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.write_text(SERVER)
    results: list[ToolResult] = []
    env = {"PYTHONPATH": ":".join(filter(None, sys.path))}
    async with open_mcp_toolset((sys.executable, script), name="ours", grace=0.1, env=env) as tools:
        registry = registry_of(tools)
        shouted = await call(registry, "shout", {"text": "hello " + "x" * 100_000})
        async with open_call_scope() as scope, trio.open_nursery() as nursery:

            async def wait() -> None:
                arguments = {"file": str(tmp_path / "note")}
                results.append(
                    await registry.execute(ToolCall(name="wait", arguments=arguments, scope=scope))
                )

            nursery.start_soon(wait)
            await written(tmp_path / "note.begun")
            scope.cancel()
        again = await call(registry, "shout", {"text": "still"})

    assert shouted.text[:6] == "HELLO "
    assert [result.code for result in results] == [TOOL_ABORTED]
    assert await written(tmp_path / "note.ended")
    assert again.text == "STILL"


@pytest.mark.slow
async def test_plain_files_serve_as_standard_streams(tmp_path: Path) -> None:
    script, source, sink = tmp_path / "server.py", tmp_path / "in", tmp_path / "out"
    script.write_text(SERVER)
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    source.write_text(json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}) + "\n")
    with source.open() as stdin, sink.open("w") as stdout:
        process = await trio.lowlevel.open_process(
            [sys.executable, str(script)],
            stdin=stdin,
            stdout=stdout,
            env={"PYTHONPATH": ":".join(filter(None, sys.path))},
        )
        with trio.fail_after(90):
            await process.wait()

    assert process.returncode == 0
    assert not runs(process.pid)
