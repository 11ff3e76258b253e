"""The line that a person can copy to start the program again starts it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from trio_tools.cli._program import how_it_was_started


def _script(folder: Path) -> Path:
    script = folder / "trio-tools"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    return script


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the path of a script that the process was started as."""
    folder = tmp_path / "with space"
    folder.mkdir()
    path = str(_script(folder))
    monkeypatch.setattr(sys, "argv", [path, "demo"])
    monkeypatch.delenv("NOX_CURRENT_SESSION", raising=False)
    return path


def test_a_script_on_the_path_is_known_by_its_name(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(Path(script).parent))

    assert how_it_was_started() == "trio-tools"


def test_a_script_elsewhere_is_known_by_its_path(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = how_it_was_started()
    _script(tmp_path)
    another = how_it_was_started()

    assert missing == another == f"'{script}'"


def test_what_nox_puts_on_the_path_is_not_on_the_path_of_people(
    script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(Path(script).parent))
    monkeypatch.setenv("NOX_CURRENT_SESSION", "demo")

    assert how_it_was_started() == f"'{script}'"


@pytest.mark.slow
def test_python_and_the_module_start_it_where_there_is_no_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/somewhere/trio_tools/cli/__main__.py", "demo"])
    line = how_it_was_started()

    done = subprocess.run(f"{line} --version", shell=True, capture_output=True, text=True, check=True)
    assert line.endswith(" -m trio_tools.cli")
    assert done.stdout.startswith("trio-tools ")
