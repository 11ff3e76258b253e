"""``trio-tools serve``: the standard streams are the wire, and are given back afterwards."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from trio_tools.cli import main

TOOLS = '''
import sys
from trio_tools import tool

@tool
async def shout(text: str) -> str:
    """Print something where the wire is, and read from there."""
    print("this is not a message")
    sys.stdout.flush()
    return text.upper() + sys.stdin.read()
'''


@pytest.fixture
def target(tmp_path: Path) -> str:
    file = tmp_path / "kitchen.py"
    file.write_text(TOOLS)
    return f"{file}:shout"


@contextmanager
def _standard_streams(source: int, sink: int) -> Generator[None]:
    """Put two descriptors in the place of the process's standard input and output."""
    before = os.dup(0), os.dup(1)
    os.dup2(source, 0)
    os.dup2(sink, 1)
    try:
        yield
    finally:
        for number, saved in enumerate(before):
            os.dup2(saved, number)
            os.close(saved)


class Client:
    """A client in a thread of its own, for the server has the main one."""

    def __init__(self) -> None:
        self.source, self._write = os.pipe()
        self._read, self.sink = os.pipe()
        self.answers: list[dict[str, Any]] = []
        self._thread = threading.Thread(target=self._talk)
        self._thread.start()

    def _talk(self) -> None:
        with os.fdopen(self._write, "w") as write, os.fdopen(self._read) as read:
            hello = {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "t", "version": "1"},
            }
            call = {"name": "shout", "arguments": {"text": "quiet " + "x" * 40_000}}
            for number, (method, params) in enumerate([("initialize", hello), ("tools/call", call)]):
                print(
                    json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}),
                    file=write,
                    flush=True,
                )
                self.answers.append(json.loads(read.readline()))

    def join(self) -> None:
        self._thread.join(30)
        os.close(self.source)
        os.close(self.sink)


def test_tools_are_served_over_the_standard_streams_until_the_client_leaves(
    target: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client()
    with _standard_streams(client.source, client.sink), open(0, closefd=False) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        status = main(["serve", target])
        still_the_wire = os.fstat(1).st_ino == os.fstat(client.sink).st_ino
    client.join()

    assert status == 0
    assert still_the_wire
    assert client.answers[0]["result"]["serverInfo"]["name"] == "trio-tools"
    assert client.answers[1]["result"]["content"][0]["text"] == "QUIET " + "X" * 40_000


def test_on_a_terminal_it_says_what_it_serves_and_how_to_end_it(
    target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    keyboard, terminal = os.openpty()
    read, sink = os.pipe()
    os.write(keyboard, b"\x04")
    with _standard_streams(terminal, sink):
        status = main(["serve", target])
    for descriptor in (keyboard, terminal, read, sink):
        os.close(descriptor)

    assert status == 0
    assert capsys.readouterr().err == (
        "trio-tools: serving shout; an MCP client is to write here; Ctrl-D or Ctrl-C ends it\n"
    )


def test_plain_files_are_served_too(target: str, tmp_path: Path) -> None:
    source, sink = tmp_path / "in", tmp_path / "out"
    source.write_text("not a message\n")
    with source.open() as stdin, sink.open("w") as stdout, _standard_streams(stdin.fileno(), stdout.fileno()):
        status = main(["serve", target])

    assert status == 0
    assert sink.read_text() == ""


def test_a_client_that_no_longer_reads_is_gone(target: str) -> None:
    source, write = os.pipe()
    read, sink = os.pipe()
    os.close(read)
    ping = {"jsonrpc": "2.0", "id": 0, "method": "ping"}
    os.write(write, json.dumps(ping).encode() + b"\n")
    # It still holds its other end for a while, so that the answer is tried.
    threading.Timer(0.2, os.close, [write]).start()
    with _standard_streams(source, sink):
        status = main(["serve", target])
    os.close(source)
    os.close(sink)

    assert status == 0


def test_serving_needs_the_extra(
    target: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("trio_tools.mcp")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp", None)

    assert main(["serve", target]) == 1
    assert capsys.readouterr().err == "trio-tools: mcp is not installed; run: pip install 'trio-tools[mcp]'\n"
    assert main(["call", "mcp:server", "x"]) == 1
    assert "mcp:server: mcp is not installed; run: pip install 'trio-tools[mcp]'" in capsys.readouterr().err
