"""The page about the command line tells the truth: its commands are run, and what they print is compared."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from trio_tools.cli import main

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```console\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


def _commands(text: str) -> Iterator[tuple[str, str]]:
    """Give each command of the page with what it is shown to print."""
    for block in BLOCK.finditer(text):
        for part in re.split(r"^\$ ", block["body"], flags=re.MULTILINE)[1:]:
            command, _, prints = part.partition("\n")
            yield command, prints


COMMANDS = list(_commands((ROOT / "docs" / "cli.md").read_text(encoding="utf-8")))


def test_the_page_shows_commands() -> None:
    assert len(COMMANDS) >= 8


@pytest.mark.parametrize(("command", "prints"), COMMANDS, ids=[command for command, _ in COMMANDS])
def test_a_command_of_the_page_prints_what_it_shows(
    command: str,
    prints: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "notes.txt").write_text("Flour, water, salt.\nTime.\n")
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
