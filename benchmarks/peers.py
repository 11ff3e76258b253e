"""Other ways to call a tool, each at the lowest entry at which it is still a call of a *tool*.

The packages are those of the dependency group ``peers``; ``nox -s bench`` installs them into an environment
of their own, and what cannot be installed there is told as such. Loops differ, so everything is compared
with the nursery of trio in the same process: rounds on trio and rounds on asyncio take turns.

What a row guarantees is found out by calling it, in ``guarantees``, not taken from anybody's word.
"""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal, final

from attrs import frozen

from trio_tools import Registry, Tool, ToolCall, ToolExecution, ToolResult, open_call_scope

__all__ = ["OURS", "PEERS", "TIMEOUT", "Body", "Call", "Peer", "unavailable"]

TIMEOUT = 60.0

Body = Callable[..., Awaitable[object]]
Call = Callable[[dict[str, Any]], Awaitable[object]]
Opened = Callable[[Body, float], AbstractAsyncContextManager[Call]]


@final
@frozen
class Peer:
    """A way to call tools.

    Attributes:
        name: of the row.
        package: which it takes, as its index knows it.
        loop: in which it is measured.
        open: makes a tool of a body, with a deadline in seconds where the row has one, and yields what
            calls it with an arguments object.
        goal: how many times as fast as it a call of ours is to be; None where none was set.
    """

    name: str
    package: str
    loop: Literal["trio", "asyncio"]
    open: Opened
    goal: float | None = None


def unavailable(peer: Peer) -> str | None:
    """Return why a peer cannot be measured here, or None."""
    try:
        version(peer.package)
    except PackageNotFoundError:
        return "not installed here"
    return None


def _observe(_execution: ToolExecution, _result: ToolResult) -> None:
    pass


@asynccontextmanager
async def _ours(body: Body, seconds: float) -> AsyncGenerator[Call]:
    registry = Registry()
    tool = registry.register(Tool.from_function(body, timeout=seconds, concurrency_safe=True))
    registry.observe(_observe)
    name = body.__name__
    async with open_call_scope() as scope:

        def call(arguments: dict[str, Any]) -> Awaitable[object]:
            return registry.execute(ToolCall(name=name, arguments=arguments, scope=scope))

        yield call
    tool.close()


@asynccontextmanager
async def _mcp_server(body: Body, _seconds: float) -> AsyncGenerator[Call]:
    server = import_module("mcp.server").MCPServer("bench")
    server.add_tool(body)
    name = body.__name__
    yield lambda arguments: server.call_tool(name, arguments)


@asynccontextmanager
async def _mcp_client(body: Body, _seconds: float) -> AsyncGenerator[Call]:
    server = import_module("mcp.server").MCPServer("bench")
    server.add_tool(body)
    name = body.__name__
    async with import_module("mcp").Client(server) as client:
        yield lambda arguments: client.call_tool(name, arguments)


@asynccontextmanager
async def _mcp_streams(body: Body, _seconds: float) -> AsyncGenerator[Call]:
    server = import_module("mcp.server").MCPServer("bench")
    server.add_tool(body)
    name = body.__name__
    transport = import_module("mcp.client._memory").InMemoryTransport(server)
    async with import_module("mcp").Client(transport) as client:
        yield lambda arguments: client.call_tool(name, arguments)


@asynccontextmanager
async def _fastmcp_server(body: Body, _seconds: float) -> AsyncGenerator[Call]:
    server = import_module("fastmcp").FastMCP("bench")
    server.tool(body)
    name = body.__name__
    yield lambda arguments: server.call_tool(name, arguments)


@asynccontextmanager
async def _fastmcp_client(body: Body, _seconds: float) -> AsyncGenerator[Call]:
    fastmcp = import_module("fastmcp")
    server = fastmcp.FastMCP("bench")
    server.tool(body)
    name = body.__name__
    async with fastmcp.Client(server) as client:
        yield lambda arguments: client.call_tool(name, arguments)


def _pydantic_ai(*, managed: bool, timed: bool) -> Opened:
    @asynccontextmanager
    async def open_(body: Body, seconds: float) -> AsyncGenerator[Call]:
        library = import_module("pydantic_ai")
        model = import_module("pydantic_ai.models.test").TestModel()
        toolset = library.FunctionToolset()
        toolset.add_function(body, timeout=seconds if timed else None)
        context = library.RunContext(deps=None, model=model, usage=library.RunUsage())
        name = body.__name__
        if managed:
            part = import_module("pydantic_ai.messages").ToolCallPart
            manager = import_module("pydantic_ai.tool_manager").ToolManager(toolset)
            manager = await manager.for_run_step(context)
            yield lambda arguments: manager.handle_call(part(name, arguments))
        else:
            tool = (await toolset.get_tools(context))[name]
            yield lambda arguments: toolset.call_tool(name, arguments, context, tool)

    return open_


def _openai_agents(*, timed: bool) -> Opened:
    @asynccontextmanager
    async def open_(body: Body, seconds: float) -> AsyncGenerator[Call]:
        library = import_module("agents")
        # What goes in is text, as a model sends it, and no trace is kept.
        library.set_tracing_disabled(True)
        function_tool = library.function_tool(body, timeout=seconds if timed else None)
        invoke = import_module("agents.tool").invoke_function_tool
        context_of = import_module("agents.tool_context").ToolContext
        name = body.__name__

        def call(arguments: dict[str, Any]) -> Awaitable[object]:
            text = json.dumps(arguments)
            context = context_of(context=None, tool_name=name, tool_call_id="1", tool_arguments=text)
            return invoke(function_tool=function_tool, context=context, arguments=text)

        yield call

    return open_


@asynccontextmanager
async def _langchain(body: Body, _seconds: float) -> AsyncGenerator[Call]:
    structured = import_module("langchain_core.tools").StructuredTool
    tool = structured.from_function(coroutine=body, description=body.__doc__ or body.__name__)
    yield tool.ainvoke


OURS = Peer("trio_tools `execute`", "trio-tools", "trio", _ours)

PEERS = (
    Peer("MCP SDK `call_tool`, server side", "mcp", "trio", _mcp_server),
    Peer("MCP SDK client, in memory", "mcp", "trio", _mcp_client, 5),
    Peer("MCP SDK client, in memory, asyncio", "mcp", "asyncio", _mcp_client, 5),
    Peer("MCP SDK client, by streams", "mcp", "trio", _mcp_streams, 5),
    Peer("MCP SDK client, by streams, asyncio", "mcp", "asyncio", _mcp_streams, 5),
    Peer("FastMCP `call_tool`", "fastmcp", "asyncio", _fastmcp_server, 4),
    Peer("FastMCP client, in memory", "fastmcp", "asyncio", _fastmcp_client, 4),
    Peer("pydantic-ai toolset", "pydantic-ai-slim", "asyncio", _pydantic_ai(managed=False, timed=False)),
    Peer(
        "pydantic-ai toolset, timeout",
        "pydantic-ai-slim",
        "asyncio",
        _pydantic_ai(managed=False, timed=True),
    ),
    Peer("pydantic-ai `handle_call`", "pydantic-ai-slim", "asyncio", _pydantic_ai(managed=True, timed=False)),
    Peer(
        "pydantic-ai `handle_call`, timeout",
        "pydantic-ai-slim",
        "asyncio",
        _pydantic_ai(managed=True, timed=True),
        1.15,
    ),
    Peer("openai-agents invoke", "openai-agents", "asyncio", _openai_agents(timed=False)),
    Peer(
        "openai-agents invoke, timeout",
        "openai-agents",
        "asyncio",
        _openai_agents(timed=True),
        2,
    ),
    Peer("langchain `StructuredTool.ainvoke`", "langchain-core", "asyncio", _langchain, 5),
)
