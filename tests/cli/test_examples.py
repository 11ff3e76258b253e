"""The examples run, and print what one expects of them."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from trio_tools.cli import main

EXAMPLES = Path(__file__).parents[2] / "examples"

Capture = pytest.CaptureFixture[str]


def test_the_stop_button_ends_what_runs_and_skips_what_waits(capsys: Capture) -> None:
    runpy.run_path(str(EXAMPLES / "stop_button.py"), run_name="__main__")

    assert capsys.readouterr().out == (
        "bread: ok, one bread, baked, body returned\n"
        "cake: cancelled, ABORTED, body cancelled\n"
        "pie: cancelled, ABORTED_BEFORE_DISPATCH, body not_dispatched\n"
    )


@pytest.mark.slow
def test_the_travel_desk_limits_a_question_and_lets_its_traveller_stop_the_booking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / "travel_desk.py"), run_name="__main__")
    told, _, timeline = capsys.readouterr().out.partition("\n\n")

    assert told.splitlines() == [
        "next_train: ok, body returned: the 08:12 from Graz to Wien",
        "forecast: cancelled, body cancelled: deadline, the limit on questions",
        "book: cancelled, body cancelled: caller, ada",
    ]
    assert "ok 1   failed 0   cancelled 2   unknown 0   no outcome 0   failure rate 0.0 %" in timeline
    assert main(["runs", "--store", "trips.sqlite3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["endedAt"] is not None


def test_the_tools_that_read_files_are_called_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("one\ntwo\nthree\n")
    target = f"{EXAMPLES / 'files.py'}:TOOLS"

    assert main(["call", target, "read_file", '{"path": "notes.txt", "limit": 2}']) == 0
    assert capsys.readouterr().out == "one\ntwo\n"
    assert main(["call", target, "count_lines", '{"pattern": "*.txt"}']) == 0
    assert json.loads(capsys.readouterr().out) == {"notes.txt": 3}
    assert main(["call", target, "read_file", '{"path": "missing"}']) == 1
    assert "UNREADABLE: missing cannot be read: No such file or directory" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.git_server
def test_a_real_server_is_asked_about_a_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    for words in (
        ["init", "--quiet"],
        [
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@example.invalid",
            "commit",
            "--allow-empty",
            "-qm",
            "Begin",
        ],
    ):
        subprocess.run(["git", *words], check=True)
    monkeypatch.setattr(sys, "argv", ["git_history.py"])

    runpy.run_path(str(EXAMPLES / "git_history.py"), run_name="__main__")

    said = capsys.readouterr().out
    assert "git_status: ok\n" in said
    assert "git_log: ok\n" in said
    assert "Message: Begin" in said
