"""What all commands share: help that reads well, exit codes, and one line for a mistake."""

from __future__ import annotations

import subprocess
import sys

import pytest

from trio_tools.cli import main


@pytest.mark.parametrize("command", ["demo", "call", "serve"])
def test_each_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    said = capsys.readouterr().out

    assert said.startswith(f"usage: trio-tools {command}")


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
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("trio-tools ")


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
        capture_output=True,
        text=True,
        check=False,
    )

    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr
