"""An MCP server behind streamable HTTP, started by the tests as a real process on the port it is given."""

import sys

import anyio
import uvicorn
from mcp.server.mcpserver import MCPServer

server = MCPServer("far")


@server.tool()
async def echo(text: str) -> str:
    """Give back the text."""
    return text


@server.tool()
async def hang() -> str:
    """Never end."""
    await anyio.sleep_forever()
    raise AssertionError


uvicorn.run(server.streamable_http_app(), host="127.0.0.1", port=int(sys.argv[1]), log_level="error")
