"""Ask a real MCP server, with a limit on how long the asking may take.

Needs the server: ``pip install 'trio-tools[mcp]' mcp-server-git``. Run it inside a git repository.
"""

import sys

import trio

from trio_tools import Registry, ToolCall, open_call_scope
from trio_tools.mcp import open_mcp_toolset


async def main() -> None:
    registry = Registry()
    server = [sys.executable, "-m", "mcp_server_git"]
    async with open_mcp_toolset(server, name="git", timeout=10) as tools:
        for tool in tools:
            registry.register(tool)
        async with open_call_scope(name="history", timeout=30) as scope:
            for name in ("git_status", "git_log"):
                result = await registry.execute(
                    ToolCall(name=name, arguments={"repo_path": "."}, scope=scope),
                )
                print(f"{name}: {result.outcome}")
                print(result.text)


if __name__ == "__main__":
    trio.run(main)
