"""How results are shown: as JSON that loses nothing, as a table that nobody's text can break out of."""

from __future__ import annotations

import io
import re
import sys
from typing import Any

import pytest
import trio
import trio.testing

from trio_tools import CancelCause, CauseKind, ImageContent, Registry, TextContent, ToolContext, ToolResult
from trio_tools.cli._progress import ProgressLine
from trio_tools.cli._report import cause_of, print_table, result_to_json
from trio_tools.cli._state import default_store


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


HEADERS = ("TOOL", "OUTCOME")
ROWS = [("read_file", "ok"), ("[bold]x[/bold]", "cancelled")]


def test_a_table_is_plain_where_no_terminal_is() -> None:
    out = io.StringIO()

    print_table(HEADERS, ROWS, colours={"ok": "green"}, out=out)

    assert out.getvalue() == "TOOL            OUTCOME\nread_file       ok\n[bold]x[/bold]  cancelled\n"


def test_a_table_goes_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(HEADERS, (), colours={})

    assert capsys.readouterr().out == "TOOL  OUTCOME\n"


def test_a_terminal_gets_colours_and_no_markup_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    out = Terminal()

    print_table(HEADERS, ROWS, colours={"ok": "green"}, out=out)

    assert "\x1b[32mok" in out.getvalue()
    assert "[bold]x[/bold]" in out.getvalue()


def test_a_narrow_terminal_breaks_no_word_and_gets_the_last_column_below(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "40")
    out = Terminal()
    rows = [
        ("wait_for_change", "cancelled", "caller:demo (it lost its patience)"),
        ("read_file", "ok", ""),
    ]

    print_table(("TOOL", "OUTCOME", "CAUSE"), rows, colours={}, out=out)

    shown = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())
    assert [line.rstrip() for line in shown.splitlines()] == [
        "TOOL             OUTCOME",
        "wait_for_change  cancelled",
        "                 caller:demo (it lost",
        "                 its patience)",
        "read_file        ok",
    ]


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "1")
    out = Terminal()

    print_table(HEADERS, ROWS, colours={"ok": "green"}, out=out)

    assert "\x1b[32m" not in out.getvalue()


def test_a_terminal_without_rich_gets_the_plain_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich", None)
    out = Terminal()

    print_table(HEADERS, ROWS, colours={"ok": "green"}, out=out)

    assert "\x1b" not in out.getvalue()


def test_a_result_is_json_with_its_three_facts_and_its_cause() -> None:
    cause = CancelCause(CauseKind.CALLER, "kitchen", "the guests\nare not coming", 3.0)
    cancelled = ToolResult.cancelled("tool call aborted", cause=cause)
    pictured = ToolResult.ok(3, content=[TextContent("see"), ImageContent("aGk=", "image/png")])

    assert cause_of(cancelled) == "caller:kitchen (the guests are not coming)"
    assert cause_of(pictured) == ""
    assert result_to_json(cancelled) == {
        "outcome": "cancelled",
        "code": "ABORTED",
        "settlement": "not_dispatched",
        "dispatched": False,
        "cause": {"kind": "caller", "name": "kitchen", "reason": "the guests\nare not coming"},
        "message": "tool call aborted",
        "content": [{"type": "text", "text": "tool call aborted"}],
        "value": None,
        "meta": None,
    }
    assert result_to_json(pictured)["content"] == [
        {"type": "text", "text": "see"},
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
    ]


async def test_the_progress_line_shows_what_runs_and_is_wiped(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.mcp.helpers import call

    monkeypatch.setenv("TERM", "xterm")
    out = Terminal()
    line = ProgressLine(out)
    registry = Registry()
    registry.wrap(line.wrap)

    @registry.tool
    async def bake() -> str:
        """Take a second."""
        await trio.sleep(1)
        return "cake"

    async with trio.open_nursery() as nursery:
        nursery.start_soon(line.draw)
        await call(registry, "bake")
        nursery.cancel_scope.cancel()

    assert "\r\x1b[2Krunning: bake 0.5s" in out.getvalue()
    assert out.getvalue().endswith("\r\x1b[2K")


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ((3, 8, "eggs"), "bake 0.5s (3/8 eggs)"),
        ((0.25,), "bake 0.5s (0.25)"),
        ((1, None, "a\x1b[31m\nb"), "bake 0.5s (1 a\\x1b[31m b)"),
        (("half", "all"), "bake 0.5s (?/?)"),
    ],
)
async def test_the_progress_line_shows_how_far_a_tool_says_it_is(
    said: tuple[Any, ...],
    shown: str,
    autojump_clock: trio.testing.MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tests.mcp.helpers import call

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    registry = Registry()
    out = Terminal()
    line = ProgressLine(out, registry.statistics)
    registry.wrap(line.wrap)

    @registry.tool
    async def bake(ctx: ToolContext) -> str:
        """Take a second."""
        ctx.progress(*said)
        await trio.sleep(1)
        return "cake"

    async with trio.open_nursery() as nursery:
        nursery.start_soon(line.draw)
        await call(registry, "bake")
        monkeypatch.setenv("COLUMNS", "12")
        await call(registry, "bake")
        nursery.cancel_scope.cancel()
    lines = out.getvalue().split("\r\x1b[2K")

    assert f"running: {shown}" in lines
    assert max(map(len, lines[len(lines) // 2 + 2 :])) == 11


@pytest.mark.parametrize("out", [io.StringIO(), Terminal()], ids=["no terminal", "a dumb one"])
async def test_where_nothing_can_be_drawn_each_start_is_a_line(
    out: io.StringIO, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.mcp.helpers import call

    monkeypatch.setenv("TERM", "dumb")
    line = ProgressLine(out)
    registry = Registry()
    registry.wrap(line.wrap)

    @registry.tool
    async def bake() -> str:
        """Bake at once."""
        return "cake"

    async with trio.open_nursery() as nursery:
        nursery.start_soon(line.draw)
        await call(registry, "bake")
        nursery.cancel_scope.cancel()

    assert out.getvalue() == "running bake ...\n"


@pytest.mark.parametrize("installed", [True, False])
def test_the_store_lies_in_the_state_folder(installed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/var/state")
    monkeypatch.setattr(sys, "platform", "linux")
    if not installed:
        monkeypatch.setitem(sys.modules, "platformdirs", None)

    assert str(default_store()) == "/var/state/trio-tools/runs.sqlite3"


def test_the_state_folder_is_known_without_platformdirs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "platformdirs", None)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/ada")

    assert str(default_store()) == "/home/ada/.local/state/trio-tools/runs.sqlite3"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert str(default_store()) == "/home/ada/Library/Application Support/trio-tools/runs.sqlite3"
