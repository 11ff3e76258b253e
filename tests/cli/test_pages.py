"""The page about the command line tells the truth: its commands are run, and what they print is compared."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sqlite3
import sysconfig
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import trio

from trio_tools import ToolOutcome
from trio_tools.cli import main
from trio_tools.trace import RunStep, open_store, step_to_json

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```console\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


def _commands(text: str) -> Iterator[tuple[str, str]]:
    """Give each command of the page with what it is shown to print."""
    for block in BLOCK.finditer(text):
        for part in re.split(r"^\$ ", block["body"], flags=re.MULTILINE)[1:]:
            command, _, prints = part.partition("\n")
            yield command, prints


def _record_two_runs(path: Path) -> None:
    """Make the store that the page speaks of: the second run is what a program leaves that was killed."""
    first, second = 1_932_775_200, 1_932_861_600
    runs = [("nightly-42", "a", first, first + 9, None), ("nightly-43", "b", second, None, None)]
    ends = [
        ("nightly-42", 0, first + 1, "look_up", "ok", 12, None),
        ("nightly-42", 1, first + 2, "fetch", "failed", 30.5, "TOOL_ERROR"),
        ("nightly-42", 2, first + 3, "pay", "cancelled", 801.25, "ABORTED"),
        ("nightly-43", 0, second + 1, "look_up", "ok", 12, None),
    ]
    fence = ("nightly-43", 1, second + 2, "pay", 0, "c4", "non_idempotent_write")

    async def create() -> None:
        async with open_store(path):
            pass

    trio.run(create)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executemany("INSERT INTO trio_runs VALUES (?, ?, ?, ?, ?, NULL)", runs)
        for run, sequence, moment, name, outcome, took, code in ends:
            step = RunStep(
                kind="tool",
                duration_ms=took,
                tool_name=name,
                tool_is_error=outcome != "ok",
                tool_outcome=ToolOutcome(outcome),
                tool_code=code,
                tool_cause={"kind": "deadline", "name": "nightly"} if outcome == "cancelled" else None,
            )
            connection.execute(
                "INSERT INTO trio_events (run_id, sequence, second, kind, payload)"
                " VALUES (?, ?, ?, 'tool', ?)",
                (run, sequence, moment, json.dumps(step_to_json(step))),
            )
        connection.execute(
            "INSERT INTO trio_fences (run_id, fence, second, tool, round, call_id, effect)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            fence,
        )


COMMANDS = list(_commands((ROOT / "docs" / "cli.md").read_text(encoding="utf-8")))


def test_the_page_shows_commands() -> None:
    assert len(COMMANDS) >= 8


# These run a tool, or small programs, some hundred times, or start a server.
_SLOW = ("trio-tools check", "trio-tools compare", "trio-tools call 'mcp:trio-tools")


@pytest.mark.parametrize(
    ("command", "prints"),
    [
        pytest.param(command, prints, id=command, marks=[pytest.mark.slow] * command.startswith(_SLOW))
        for command, prints in COMMANDS
    ],
)
def test_a_command_of_the_page_prints_what_it_shows(
    command: str,
    prints: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("PATH", sysconfig.get_path("scripts"), prepend=os.pathsep)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "notes.txt").write_text("Flour, water, salt.\nTime.\n")
    _record_two_runs(tmp_path / "runs.db")
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    program, *arguments = shlex.split(command)

    status = main(arguments)
    captured = capsys.readouterr()
    said = captured.out + captured.err

    assert program == "trio-tools"
    assert (status == 0) == (captured.err == "")
    if prints.endswith("...\n"):
        assert said.startswith(prints.removesuffix("...\n"))
    else:
        assert said == prints
