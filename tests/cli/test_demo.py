"""``trio-tools demo``: every ending in one batch, a record of it, and nothing left running."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import trio

from trio_tools import Settlement, ToolContext, ToolOutcome, ToolResult
from trio_tools.cli import _demo, main
from trio_tools.cli._demo import _Row
from trio_tools.cli._demo_repository import open_repository
from trio_tools.cli._demo_tools import local_tools
from trio_tools.cli._failure import CommandError
from trio_tools.trace import RunStore, open_store

Capture = pytest.CaptureFixture[str]


def _git(place: Path, *words: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *words], cwd=place, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    root.mkdir()
    (root / "notes.txt").write_text("the first line\nanother\n")
    (root / "README").write_bytes(b"\xff\xfe not text")
    _git(root, "init", "--quiet")
    _git(root, "add", ".")
    _git(root, "commit", "--quiet", "--message", "Begin")
    return root


def _processes_about(text: str) -> list[str]:
    """Return the command lines of the processes that mention ``text``."""
    found: list[str] = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if text in line and entry.parent.name != str(os.getpid()):
            found.append(line)
    return found


async def _stored(file: Path, run_id: str) -> list[dict[str, Any]]:
    store: RunStore
    async with open_store(file, create=False) as store:
        rows = await store.load(run_id)
    return [json.loads(str(event.payload)) for event in rows.events]


@pytest.mark.git_server
@pytest.mark.slow
def test_the_batch_ends_in_every_way_and_is_recorded(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(repository)
    store = tmp_path / "runs.sqlite3"

    status = main(["demo", "--json", "--store", str(store)])
    report = json.loads(capsys.readouterr().out)
    stored = trio.run(_stored, store, report["run"])

    assert status == 0
    assert report["as_meant"] is True
    assert report["repository"] == str(repository)
    assert Counter(row["outcome"] for row in report["rows"]) == {"ok": 4, "failed": 3, "cancelled": 3}
    assert [row["code"] for row in report["rows"][4:]] == [
        "INVALID_ARGS",
        "TOOL_ERROR",
        "TOOL_TIMEOUT",
        "ABORTED",
        "ABORTED_BEFORE_DISPATCH",
        "ABORTED_BEFORE_DISPATCH",
    ]
    assert [step["toolOutcome"] for step in stored] == [row["outcome"] for row in report["rows"]]
    assert [step.get("toolCode") for step in stored] == [row["code"] for row in report["rows"]]
    assert _processes_about(str(repository)) == []


@pytest.mark.git_server
@pytest.mark.slow
def test_without_a_repository_a_small_one_is_made_and_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    status = main(["demo", "--timeline"])
    said = capsys.readouterr()
    made = said.out.partition("One batch on ")[2].partition(",")[0]

    assert status == 0
    assert not Path(made).exists()
    assert str(tmp_path / "state" / "trio-tools" / "runs.sqlite3") in said.out
    assert "TOOL_TIMEOUT" in said.out
    assert "toolCause=deadline:timeout" in said.out
    assert "UTC, ended\n" in said.out
    assert re.search(r"^Look at it again: .* runs show demo-[\w-]+$", said.out, re.MULTILINE)
    assert 'read_file says: invalid arguments: "limit" must be an integer' in said.out
    assert "running wait_for_commit ...\n" in said.err


@pytest.mark.git_server
@pytest.mark.slow
def test_an_interrupt_in_the_middle_leaves_nothing_running(repository: Path, tmp_path: Path) -> None:
    store = tmp_path / "runs.sqlite3"
    with subprocess.Popen(
        [sys.executable, "-m", "trio_tools.cli", "demo", "--store", str(store)],
        cwd=repository,
        env={**os.environ, "PYTHONPATH": ":".join(filter(None, sys.path))},
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "wait_for_change" in line:
                break
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)

    assert process.returncode == 130
    assert out == ""
    assert "Traceback" not in err
    assert "trio-tools: interrupted; what was running has ended" in err
    run_id = err.partition("as run ")[2].partition(" ")[0]
    steps = trio.run(_stored, store, run_id)
    assert "cancelled" in {step["toolOutcome"] for step in steps}
    assert _processes_about(str(repository)) == []


@pytest.mark.git_server
@pytest.mark.slow
def test_a_call_that_does_not_end_as_meant_is_told_and_is_1(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(repository)

    def plan(_root: Path, file: str) -> list[_Row]:
        return [_Row("read_file", {"path": file}, ToolOutcome.FAILED, "UNREADABLE", dispatched=True)]

    monkeypatch.setattr(_demo, "_plan", plan)

    assert main(["demo", "--store", str(tmp_path / "runs.sqlite3")]) == 1
    assert (
        "NOT AS MEANT: read_file should have ended failed UNREADABLE, dispatched" in capsys.readouterr().out
    )


@pytest.mark.git_server
@pytest.mark.parametrize("place", ["folder", "file/inside/runs.sqlite3"])
def test_a_store_that_cannot_be_written_is_one_line(place: str, repository: Path, capsys: Capture) -> None:
    (repository / "folder").mkdir()
    (repository / "file").write_text("")

    assert main(["demo", "--store", str(repository / place)]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"trio-tools: the run cannot be stored in {repository / place}: ")
    assert said.endswith("; name another file with --store\n")
    assert said.count("\n") == 1


@pytest.mark.git_server
def test_a_server_that_does_not_start_is_one_line(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(repository)

    def server(_root: Path) -> list[str]:
        return ["no-such-server"]

    monkeypatch.setattr(_demo, "_server", server)

    assert main(["demo", "--store", str(tmp_path / "runs.sqlite3")]) == 1
    said = capsys.readouterr().err
    assert said == (
        'trio-tools: server "mcp-server-git" did not start: there is no no-such-server; '
        "install it, or correct the command\n"
    )


def test_a_server_that_is_not_installed_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    def nothing(_name: str) -> None:
        return None

    monkeypatch.setattr(_demo, "find_spec", nothing)

    assert main(["demo"]) == 1
    assert "mcp-server-git is not installed; run: pip install" in capsys.readouterr().err


async def test_git_must_be_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(CommandError, match="git is not installed; install it"):
        async with open_repository(tmp_path):
            pass


async def test_a_repository_without_a_text_file_or_a_commit_is_none(repository: Path) -> None:
    _git(repository, "rm", "--quiet", "notes.txt")
    async with open_repository(repository) as (root, file):
        assert root != repository
        assert file == "README.md"

    assert not root.exists()


async def test_a_git_that_does_not_work_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "git"
    broken.write_text("#!/bin/sh\necho 'fatal: out of order' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(
        CommandError, match="cannot make a repository in a temporary folder: fatal: out of order"
    ):
        async with open_repository(tmp_path):
            pass


def test_a_row_that_was_never_called_is_not_as_meant() -> None:
    row = _Row("x", {}, ToolOutcome.OK, None, dispatched=False)

    assert not row.as_meant
    assert row.meant == "ok, not dispatched"
    assert _Row("x", {}, ToolOutcome.OK, None, dispatched=True, result=_returned()).as_meant


def _returned() -> ToolResult:
    return ToolResult.ok("fine", settlement=Settlement.RETURNED)


async def test_the_local_tools_stay_inside_the_repository(repository: Path) -> None:
    from tests.mcp.helpers import call, registry_of

    registry = registry_of(local_tools(repository, lambda: None))
    outside = await call(registry, "read_file", {"path": "../x"})
    missing = await call(registry, "read_file", {"path": "missing"})
    places = await call(registry, "search_files", {"text": "line", "limit": 1})
    nowhere = await call(registry, "search_files", {"text": "not in any file at all"})

    assert (outside.code, outside.text) == ("OUTSIDE", "Error: ../x lies outside the repository")
    assert (missing.code, missing.text) == (
        "UNREADABLE",
        "Error: missing cannot be read: No such file or directory",
    )
    assert places.value == ["notes.txt:1"]
    assert nowhere.value == []


async def test_the_local_tools_that_wait_see_what_they_wait_for(repository: Path) -> None:
    from tests.mcp.helpers import call, registry_of

    waiting = trio.Event()
    registry = registry_of(local_tools(repository, waiting.set))
    found: dict[str, ToolResult] = {}

    async def wait(name: str, **arguments: object) -> None:
        found[name] = await call(registry, name, arguments)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: wait("wait_for_change", path="notes.txt"))
        nursery.start_soon(wait, "wait_for_commit")
        await waiting.wait()
        await trio.sleep(0.01)
        (repository / "notes.txt").write_text("changed")
        _git(repository, "commit", "--quiet", "--all", "--message", "Change")

    assert found["wait_for_change"].text == "notes.txt was changed"
    assert len(found["wait_for_commit"].text) == 40


def test_the_context_of_a_tool_is_not_shown_to_a_model(repository: Path) -> None:
    search = next(tool for tool in local_tools(repository, lambda: None) if tool.name == "search_files")

    assert search.context_parameter == "ctx"
    assert ToolContext.__name__ not in json.dumps(search.schema()["parameters"])
