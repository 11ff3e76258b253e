"""A server behind streamable HTTP: the same promises over another wire."""

from __future__ import annotations

import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import DEVNULL

import pytest
import trio
import trio.testing

from trio_tools import TOOL_ABORTED, CauseKind, ToolOutcome, ToolResult, TransportError
from trio_tools.mcp import open_mcp_toolset

from .helpers import call, cancelled_call, registry_of

# The SDK's HTTP client leaves async generators behind when a request ends early; trio, or the collector,
# tells of it at a moment of its own.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Async generator:ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@asynccontextmanager
async def _serving() -> AsyncGenerator[tuple[str, trio.Process]]:
    """Run the server, and give its address once it listens."""
    port = _free_port()
    script = Path(__file__).with_name("http_server.py")
    process = await trio.lowlevel.open_process(
        [sys.executable, str(script), str(port)], stdout=DEVNULL, stderr=DEVNULL
    )
    try:
        with trio.fail_after(90):
            while not await _listens(port):  # noqa: ASYNC110  (the other process cannot tell us)
                await trio.sleep(0.02)
        yield f"http://127.0.0.1:{port}/mcp", process
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()


async def _listens(port: int) -> bool:
    try:
        stream = await trio.open_tcp_stream("127.0.0.1", port)
    except OSError:
        return False
    await stream.aclose()
    return True


@pytest.mark.slow
@pytest.mark.rule("TP-2", "TP-3", "TP-5", "TP-6")
async def test_calls_cancellations_and_faults_are_told_apart_over_http() -> None:
    async with _serving() as (address, process):
        with pytest.raises(TransportError, match="answered the handshake with an error: Not Found"):
            async with open_mcp_toolset(address + "/elsewhere"):
                pass
        async with open_mcp_toolset(address, name="far") as tools:
            registry = registry_of(tools)
            echoed = await call(registry, "echo", {"text": "hello"})
            cancelled = await cancelled_call(registry, "hang")
            after = await call(registry, "echo", {"text": "again"})
            faults: list[ToolResult] = []

            async def hang() -> None:
                faults.append(await call(registry, "hang"))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(hang)
                await trio.testing.wait_all_tasks_blocked(0.05)
                process.kill()
            faults.append(await call(registry, "echo", {"text": "anybody?"}))
            faults.append(await call(registry, "echo", {"text": "anybody?"}))

    assert echoed.text == "hello"
    assert (cancelled.outcome, cancelled.code) == (ToolOutcome.CANCELLED, TOOL_ABORTED)
    assert cancelled.cause is not None
    assert cancelled.cause.kind is CauseKind.CALLER
    assert after.text == "again"
    assert {(fault.outcome, fault.code) for fault in faults} == {(ToolOutcome.FAILED, "TOOL_ERROR")}
    assert all('server "far"' in fault.text for fault in faults)


async def test_an_address_where_nobody_listens_is_one_line() -> None:
    with pytest.raises(TransportError) as caught:
        async with open_mcp_toolset(f"http://127.0.0.1:{_free_port()}/mcp"):
            pass

    assert "did not start: it cannot be reached (ConnectError" in str(caught.value)
    assert str(caught.value).endswith("correct the address, or start the server")
