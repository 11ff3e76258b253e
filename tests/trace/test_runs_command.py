"""``trio-tools runs``: list, show, html, and a cancel from another process."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import shutil
import sqlite3
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.trace.test_recorder import make_registry
from trio_tools import ToolCall, open_call_scope
from trio_tools.cli import _runs as runs_command
from trio_tools.cli import main
from trio_tools.trace import RunTrace, open_store, render_runs
from trio_tools.trace._sql import MIGRATIONS

TABLES = MIGRATIONS[0]


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Return a store with two runs: in one of them a call was cancelled."""
    target = str(tmp_path / "runs.db")

    async def record() -> None:
        async with open_store(target) as store:
            for run_id in ("first", "second"):
                registry = make_registry()
                RunTrace(run_id, store=store).attach(registry)
                async with open_call_scope(name="nightly") as scope:
                    await registry.execute(ToolCall(name="look", arguments={}, scope=scope))
                    await registry.execute(ToolCall(name="refuse", arguments={}, scope=scope))
                    if run_id == "second":
                        scope.cancel()
                        await registry.execute(ToolCall(name="look", arguments={}, scope=scope))

    trio.run(record)
    return target


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(["runs", *arguments])
    out, err = capsys.readouterr()
    return status, out, err


def test_runs_are_listed_newest_first(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "--store", path)
    lines = [line.split() for line in out.splitlines()]

    assert status == 0
    assert [line[0] for line in lines[2:]] == ["second", "first"]
    assert lines[2][4:] == ["3", "1", "1", "1", "0", "50.0", "%"]
    assert run(capsys, "list", "--store", path) == (0, out, "")


def test_the_list_can_be_of_runs_with_one_outcome(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "--store", path, "--outcome", "cancelled", "--json")
    _, one, _ = run(capsys, "--store", path, "--limit", "1", "--json")

    assert [row["run"] for row in json.loads(out)] == ["second"]
    assert json.loads(out)[0]["counts"] == {"ok": 1, "failed": 1, "cancelled": 1, "unknown": 0, "none": 0}
    assert len(json.loads(one)) == 1


def test_a_run_is_shown_in_two_languages_and_by_outcome(
    path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, german, _ = run(capsys, "show", "second", "--store", path, "--language", "de")
    _, cancelled, _ = run(
        capsys, "show", "second", "--store", path, "--outcome", "cancelled", "--language", "en"
    )
    _, as_json, _ = run(capsys, "show", "second", "--store", path, "--json")
    _, failed, _ = run(capsys, "show", "second", "--store", path, "--json", "--outcome", "failed")

    assert status == 0
    assert "abgebrochen 1" in german
    assert [
        word in cancelled for word in ("toolOutcome=cancelled", "toolOutcome=ok", "toolOutcome=failed")
    ] == [
        True,
        False,
        False,
    ]
    assert json.loads(as_json)["counts"]["cancelled"] == 1
    # What is left out of the list still counts: the rate is that of the run, not of the rows that are shown.
    assert cancelled.splitlines()[-2:] == [
        "ok 1   failed 1   cancelled 1   unknown 0   no outcome 0   failure rate 50.0 %",
        "Shown: 1 of 3 steps. The counts are those of the whole run.",
    ]
    assert [json.loads(failed)[key] for key in ("failureRate", "shown")] == [0.5, "failed"]
    assert [entry["outcome"] for entry in json.loads(failed)["entries"]] == ["failed"]
    assert json.loads(as_json)["shown"] is None


def test_an_ask_that_was_made_before_is_told_apart_from_an_end(
    path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _foreign(Path(path), "UPDATE trio_runs SET finished_at = NULL WHERE run_id = 'first'")
    asked, again = (run(capsys, "cancel", "first", "--store", path, "--language", "en") for _ in range(2))

    assert asked[0] == 0
    assert again == (1, "", "trio-tools: run first was asked to cancel before, and has not ended yet\n")


def test_a_run_is_written_as_a_page(path: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    status = main(["runs", "html", "first", "--store", path, "--language", "de"])
    page = capfdbinary.readouterr().out.decode()

    assert status == 0
    assert page.startswith("<!doctype html>")
    assert "Lauf first" in page


@pytest.mark.parametrize("action", ["show", "html", "cancel"])
def test_an_unknown_run_is_one_line_and_status_1(
    path: str, action: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, action, "nowhere", "--store", path, "--language", "en") == (
        1,
        "",
        "trio-tools: no run nowhere in this store\n",
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["show"],
        ["list", "first"],
        ["cancel"],
        ["dance"],
        ["--outcome", "none"],
        ["show", "first", "--reason", "r"],
    ],
)
def test_wrong_usage_is_status_2(path: str, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, *arguments, "--store", path)[0] == 2


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / "missing.db"
    status, out, err = run(capsys, "--store", str(missing))

    assert (status, out) == (1, "")
    assert str(missing) in err
    assert not missing.exists()


def _foreign(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def _damage(path: Path) -> None:
    _foreign(path, "PRAGMA journal_mode = DELETE")
    pages = bytearray(path.read_bytes())
    # All but the first page, which says what tables there are.
    pages[4096:] = b"\xff" * (len(pages) - 4096)
    path.write_bytes(pages)


def _copy_and_damage(path: Path) -> None:
    shutil.copy(path.with_name("runs.db"), path)
    _damage(path)


OTHERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "text": (lambda path: path.write_text("dear aunt" * 100), "file is not a database"),
    "empty": (lambda path: path.write_bytes(b""), "is no store of runs"),
    "another program's": (lambda path: _foreign(path, "CREATE TABLE cats (name)"), "is no store of runs"),
    "the same name": (lambda path: _foreign(path, "CREATE TABLE trio_runs (x)"), "cannot be used as a store"),
    "newer": (
        lambda path: _foreign(path, "PRAGMA user_version = 99", *TABLES),
        "has version 99 of its tables",
    ),
    "folder": (lambda path: path.mkdir(), "is no name of a file"),
    "damaged": (_copy_and_damage, "database disk image is malformed"),
}


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("action", [["list"], ["show", "first"], ["cancel", "first"]])
def test_a_file_that_is_no_store_is_one_line_and_stays_as_it_is(
    path: str,
    kind: str,
    action: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    make, said = OTHERS[kind]
    other = tmp_path / "other.db"
    make(other)
    before = other.read_bytes() if other.is_file() else None

    status, out, err = run(capsys, *action, "--store", str(other))

    assert (status, out) == (1, "")
    assert err.startswith("trio-tools: ")
    assert said in err
    assert err.count("\n") == 1
    if said in {"is no store of runs", "file is not a database"}:
        assert other.read_bytes() == before


def test_where_nothing_was_recorded_yet_the_list_is_empty_and_fine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    assert run(capsys, "--language", "en") == (0, "no runs\n", "")
    assert list(tmp_path.iterdir()) == []
    assert render_runs([], language="de") == "keine Läufe\n"


def test_the_language_is_that_of_the_environment(
    path: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("LC_ALL", "LC_MESSAGES"):
        monkeypatch.delenv(name, raising=False)
    shown: list[str] = []
    for language in ("de_AT.UTF-8", "en_GB.UTF-8", "C", ""):
        monkeypatch.setenv("LANG", language)
        shown.append(run(capsys, "--store", path)[1].split()[0])

    assert shown == ["Lauf", "Run", "Run", "Run"]


def test_a_run_that_has_ended_cannot_be_cancelled(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, "cancel", "first", "--store", path, "--language", "en")

    assert (status, out) == (1, "")
    assert err == "trio-tools: run first has ended, and cannot be cancelled any more\n"


def test_a_terminal_gets_the_same_in_a_form_of_its_own(
    path: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(runs_command, "_on_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "140")
    _, listed, _ = run(capsys, "--store", path, "--language", "de")
    _, none, _ = run(capsys, "--store", path, "--language", "de", "--outcome", "unknown")
    _, shown, _ = run(capsys, "show", "second", "--store", path, "--language", "de")
    _, one, _ = run(capsys, "show", "second", "--store", path, "--language", "de", "--outcome", "ok")

    assert "Gezeigt: 1 von 3 Schritten. Gezählt ist der ganze Lauf." in one
    assert "abgebrochen" in listed
    assert "second" in listed
    assert none == "keine Läufe\n"
    assert "toolOutcome=cancelled" in shown


def test_a_missing_driver_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "trio_tools.trace._postgres", raising=False)
    status, _, err = run(capsys, "--store", "postgresql:///nowhere")

    assert status == 1
    assert "trio-tools[trace-postgres]" in err


@pytest.mark.parametrize("number", ["0", "-1", "few"])
def test_a_limit_that_lists_nothing_is_wrong_usage(
    number: str, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, "--limit", number, "--store", path)[0] == 2


def test_a_run_id_cannot_steer_the_terminal(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, _, err = run(capsys, "show", "a\x1b[31m\nb", "--store", path, "--language", "en")

    assert err == "trio-tools: no run a\\x1b[31m b in this store\n"


def in_shell(line: str, path: str, **environment: str) -> tuple[str, str]:
    """Run a line of the shell, in which RUNS stands for the command, and return what it printed."""
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        line.replace("RUNS", f"{sys.executable} -m trio_tools.cli runs --store {path}"),
        shell=True,
        env={**os.environ, "PYTHONPATH": root, "LC_ALL": "C.UTF-8", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "out", "err"),
    [
        ("RUNS | head -1", "Run     Started              State", ""),
        ("RUNS html first | head -c 9", "<!doctype", ""),
        ("RUNS > /dev/full; echo $?", "1\n", "trio-tools: No space left on device\n"),
        ("RUNS html first > /dev/full; echo $?", "1\n", "trio-tools: No space left on device\n"),
        ("RUNS >&-; echo $?", "", "trio-tools: there is no standard output to print to\n"),
        ("PYTHONIOENCODING=ascii RUNS list; echo $?", "Run     Started", ""),
    ],
)
def test_an_output_that_ends_early_or_takes_nothing_is_no_traceback(
    line: str, out: str, err: str, path: str
) -> None:
    said, complained = in_shell(line, path)

    assert said.startswith(out)
    assert complained == err


def on_terminal(columns: int, *arguments: str, **environment: str) -> tuple[str, int]:
    """Run the command on a terminal of its own and return what is to be seen, and its exit code."""
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(environment)
        os.execv(sys.executable, [sys.executable, "-m", "trio_tools.cli", "runs", *arguments])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    seen = b""
    with contextlib.suppress(OSError):
        while more := os.read(terminal, 65536):
            seen += more
    os.close(terminal)
    return seen.decode().replace("\r\n", "\n"), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_terminal_gets_what_it_has_room_and_colours_for(path: str) -> None:
    common = {"PYTHONPATH": str(Path(__file__).parents[2]), "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    wide = on_terminal(120, "--store", path, **common)
    narrow = on_terminal(60, "--store", path, **common)
    shown = on_terminal(80, "show", "second", "--store", path, **common)
    plain = on_terminal(80, "show", "second", "--store", path, **common, NO_COLOR="1")
    dumb = on_terminal(80, "show", "second", "--store", path, **{**common, "TERM": "dumb"})

    assert [status for _, status in (wide, narrow, shown, plain, dumb)] == [0] * 5
    assert len([line for line in wide[0].splitlines() if "second" in line or "first" in line]) == 2
    assert re.search(
        r"second\S*  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d  ended\n  Steps 3  ok 1  failed 1", narrow[0]
    )
    assert "\x1b[32mok" in shown[0]
    assert "\x1b[32m" not in plain[0]
    assert "\x1b" not in dumb[0]


PROGRAM = """
import sys, trio
from tests.trace.test_recorder import make_registry
from trio_tools import ToolCall, open_call_scope
from trio_tools.trace import RunTrace, open_store

async def main(path):
    async with open_store(path) as store:
        registry = make_registry()
        trace = RunTrace("r", store=store)
        trace.attach(registry)
        async with open_call_scope(name="nightly") as scope:
            trace.cancel_on_request(scope)
            await store.flush()
            print("ready", flush=True)
            result = await registry.execute(ToolCall(name="pay", arguments={"seconds": 60.0}, scope=scope))
        print(result.outcome, result.cause.kind, result.cause.name, result.cause.reason, flush=True)

trio.run(main, sys.argv[1])
"""


@pytest.mark.slow
def test_a_run_is_cancelled_from_another_process(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "runs.db")
    root = Path(__file__).parents[2]
    environment: dict[str, Any] = {**os.environ, "PYTHONPATH": str(root)}
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, path], cwd=root, env=environment, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        status, out, _ = run(
            capsys, "cancel", "r", "--store", path, "--language", "en", "--reason", "wrong account"
        )
        _, listed, _ = run(capsys, "--store", path, "--language", "en")
        again = run(capsys, "cancel", "r", "--store", path, "--language", "en", "--reason", "no matter")
        ending = program.stdout.readline()

    assert (status, out) == (
        0,
        "asked run r to cancel; the program that executes it notices within about a second\n",
    )
    assert "cancel requested" in listed
    # Whether it had ended by then is the program's to decide; the first reason counts in either case.
    assert again[:2] == (1, "")
    assert ending == "cancelled caller nightly wrong account\n"
    _, shown, _ = run(capsys, "show", "r", "--store", path, "--language", "en")
    assert "toolOutcome=cancelled" in shown
    assert "toolCause=caller:nightly" in shown
