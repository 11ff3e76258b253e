"""What all commands share: help that reads well, exit codes, and one line for a mistake."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import trio_tools
from trio_tools.cli import main

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("command", ["demo", "call", "serve", "runs"])
def test_each_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    said = capsys.readouterr().out

    assert said.startswith(f"usage: trio-tools {command}")
    assert "exit code" in said
    assert "130 if interrupted" in said


@pytest.mark.parametrize("command", ["demo", "call", "serve", "runs"])
def test_each_option_takes_one_line_of_the_help(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main([command, "--help"]) == 0
    options = capsys.readouterr().out.partition("\noptions:\n")[2].partition("\n\n")[0].splitlines()

    assert all(line.startswith("  -") for line in options)


def test_the_help_lists_the_commands_and_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    said = capsys.readouterr().out

    for command in ("demo", "call", "serve"):
        assert f"\n    {command} " in said
    for code in ("0", "1", "2", "3", "130"):
        assert f"\n  {code} " in said


@pytest.mark.parametrize("arguments", [[], ["dance"], ["call"], ["demo", "--dance"]])
def test_a_wrong_usage_is_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith("usage: trio-tools")


def test_the_version_is_that_of_the_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"trio-tools {trio_tools.__version__}\n"
    assert trio_tools.__version__ == project["version"]


def test_the_arguments_of_the_process_are_the_default(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["trio-tools", "--version"])

    assert main() == 0
    assert "trio-tools" in capsys.readouterr().out


@pytest.mark.slow
def test_a_reader_that_leaves_early_causes_no_traceback() -> None:
    done = subprocess.run(
        f"{sys.executable} -m trio_tools.cli call examples/files.py:TOOLS count_lines "
        """'{"pattern": "**/*.py"}' | true""",
        shell=True,
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )

    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "status", "printed", "complained"),
    [
        ("call examples/files.py:TOOLS bake 2>&-", 1, "", ""),
        ("call examples/files.py:TOOLS bake - <&-", 2, "", "the arguments are no JSON"),
        ("--version <&- 2>&-", 0, "trio-tools", ""),
        ("--help >&-", 1, "", "there is no standard output to print to"),
        ("--help >/dev/full", 1, "", "No space left on device"),
        ("demo --help >/dev/full", 1, "", "No space left on device"),
    ],
)
def test_streams_that_are_closed_or_full_cost_one_line(
    words: str, status: int, printed: str, complained: str
) -> None:
    done = subprocess.run(
        f"exec {shlex.quote(sys.executable)} -m trio_tools.cli {words}",
        shell=True,
        cwd=ROOT,
        # Unbuffered, argparse meets the full disk itself and says nothing of it.
        env={**os.environ, "PYTHONUNBUFFERED": ""},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == status
    assert done.stdout.startswith(printed)
    assert bool(done.stdout) is bool(printed)
    assert complained in done.stderr
    assert done.stderr.count("\n") == bool(complained)


def test_a_program_without_standard_streams_gets_some_that_lead_nowhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    monkeypatch.setattr(sys, "stderr", None)

    with contextlib.ExitStack() as opened:
        assert main(["call", "examples/files.py:TOOLS", "read_file", "-"]) == 2
        for stream in (sys.stdin, sys.stderr):
            opened.enter_context(stream)
    assert capsys.readouterr().out == ""


def test_what_the_library_logs_is_shown_to_who_asks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "kitchen.py"
    file.write_text(
        "from trio_tools import tool\n@tool\nasync def burn() -> str:\n    raise ValueError('smoke')\n"
    )

    assert main(["call", f"{file}:burn", "burn"]) == 1
    assert "Traceback" not in capsys.readouterr().err
    assert main(["--verbose", "call", f"{file}:burn", "burn"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_commands_that_are_not_installed_are_not_offered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    find = importlib.util.find_spec

    def without_demo(name: str, package: str | None = None) -> object:
        return None if name.endswith("._demo") else find(name, package)

    monkeypatch.setattr("importlib.util.find_spec", without_demo)

    assert main(["demo"]) == 2
    assert "demo" not in capsys.readouterr().err.partition("choose from")[2]


def test_a_broken_pipe_is_not_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def run(_args: object) -> int:
        raise BrokenPipeError

    monkeypatch.setattr("trio_tools.cli._call.run", run)
    saved = os.dup(1)
    try:
        assert main(["call", "x:y", "z"]) == 1
    finally:
        os.dup2(saved, 1)
        os.close(saved)

    assert capfd.readouterr().err == ""


def test_a_warning_of_the_library_is_one_line_for_everybody(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "kitchen.py"
    file.write_text(
        "import logging\n"
        "from trio_tools import tool\n"
        "@tool\n"
        "async def bake() -> str:\n"
        "    logging.getLogger('trio_tools.x').warning('the oven\\nis hot')\n"
        "    logging.getLogger('oven').warning('not ours')\n"
        "    return 'bread'\n"
    )

    assert main(["call", f"{file}:bake", "bake"]) == 0
    assert main(["call", f"{file}:bake", "bake"]) == 0
    captured = capsys.readouterr()
    assert captured.err == "trio-tools: the oven is hot\n" * 2
    assert captured.out == "bread\n" * 2
