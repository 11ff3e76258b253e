"""What the tests of trio_tools.mcp share: a server that misbehaves, and proof that nothing is left of it."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import trio
import trio.testing

from trio_tools import CallScope, Registry, Tool, ToolCall, ToolResult, open_call_scope
from trio_tools.mcp import open_mcp_toolset

HOSTILE = (sys.executable, "-I", "-S", str(Path(__file__).with_name("hostile_server.py")))

# How long the tests let a cancelled call wait for the server, and each step of ending a server.
GRACE = 0.1
STOP_GRACE = 0.15


@asynccontextmanager
async def hostile(
    *options: str, grace: float = GRACE, start_timeout: float = 120.0, concurrency_safe: Sequence[str] = ()
) -> AsyncGenerator[Registry]:
    """Give the tools of the hostile server in a registry."""
    async with open_mcp_toolset(
        (*HOSTILE, *options),
        name="hostile",
        grace=grace,
        stop_grace=STOP_GRACE,
        start_timeout=start_timeout,
        concurrency_safe=concurrency_safe,
    ) as tools:
        yield registry_of(tools)


def registry_of(tools: Sequence[Tool]) -> Registry:
    registry = Registry()
    for tool in tools:
        registry.register(tool)
    return registry


async def call(
    registry: Registry, name: str, arguments: Mapping[str, object] | None = None, *, seconds: float = 20.0
) -> ToolResult:
    """Call a tool in a scope of its own, which ends it after so many seconds."""
    async with open_call_scope(name="test", timeout=seconds) as scope:
        return await registry.execute(ToolCall(name=name, arguments=dict(arguments or {}), scope=scope))


async def cancelled_call(
    registry: Registry, name: str, arguments: Mapping[str, object] | None = None
) -> ToolResult:
    """Call a tool, and cancel the call once nothing moves any more on this side of the wire."""
    results: list[ToolResult] = []
    async with open_call_scope(name="test") as scope, trio.open_nursery() as nursery:

        async def run() -> None:
            call = ToolCall(name=name, arguments=dict(arguments or {}), scope=scope)
            results.append(await registry.execute(call))

        nursery.start_soon(run)
        await trio.testing.wait_all_tasks_blocked()
        scope.cancel("enough")
    return results[0]


async def call_in(scope: CallScope, registry: Registry, name: str) -> ToolResult:
    return await registry.execute(ToolCall(name=name, arguments={}, scope=scope))


def runs(pid: int) -> bool:
    """Say whether a process runs; one that has ended but that nobody reaped does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] not in "ZX"


async def written(file: Path) -> int:
    """Wait until a number stands in ``file``."""
    with trio.fail_after(90):
        while (number := number_in(file)) is None:  # noqa: ASYNC110  (the other process cannot tell us)
            await trio.sleep(0.005)
    return number


def number_in(file: Path) -> int | None:
    """Return the number that stands in ``file``, or None while none does."""
    text = file.read_text() if file.exists() else ""
    return int(text) if text else None
