"""The ladder that ends a server: it ends, whatever the server does, and takes along what it started."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import trio

from trio_tools.mcp import _process
from trio_tools.mcp._process import ServerProcess

from .helpers import HOSTILE, STOP_GRACE, runs, written


async def _begin(*command: str) -> ServerProcess:
    return await ServerProcess.begin(command, env=dict(os.environ), cwd=None, grace=STOP_GRACE)


async def test_a_server_that_ends_with_its_input_is_not_signalled() -> None:
    process = await _begin("sh", "-c", "trap 'exit 9' TERM; read line; exit 4")

    await process.end()

    assert process.how_it_ended() == "ended (exit status 4)"
    assert not runs(process.pid)


async def test_a_server_that_ignores_the_end_of_its_input_is_asked_to_terminate(tmp_path: Path) -> None:
    process = await _begin("sh", "-c", "trap 'exit 7' TERM; echo; while :; do sleep 0.01; done")
    await process.stdout.receive_some()

    await process.end()

    assert process.how_it_ended() == "ended (exit status 7)"
    assert not runs(process.pid)


async def test_a_server_that_ignores_everything_is_killed() -> None:
    process = await _begin("sh", "-c", "trap '' TERM; echo; while :; do sleep 0.01; done")
    await process.stdout.receive_some()

    with trio.fail_after(90):
        await process.end()

    assert process.how_it_ended() == "ended (killed by signal 9)"
    assert not runs(process.pid)


@pytest.mark.parametrize("peek", [True, False], ids=["looks before it reaps", "cannot look"])
async def test_what_a_server_started_ends_with_it(
    tmp_path: Path, peek: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_process, "_CAN_PEEK", peek)
    file = tmp_path / "pid"
    process = await _begin(*HOSTILE, "--grandchild", str(file), "--ignore-eof")
    grandchild = await written(file)

    await process.end()

    assert not runs(process.pid)
    assert not runs(grandchild)


async def test_what_outlives_a_server_that_died_ends_too(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    process = await _begin("sh", "-c", f"sleep 1000 & echo $! > {file}; exit 3")
    grandchild = await written(file)
    await process.wait_exited()
    assert runs(grandchild)

    await process.end()

    assert not runs(grandchild)


async def test_ending_a_server_is_not_cancelled() -> None:
    process = await _begin("sh", "-c", "trap '' TERM; echo; while :; do sleep 0.01; done")
    await process.stdout.receive_some()

    with trio.move_on_after(0):
        await process.end()

    assert not runs(process.pid)


async def test_several_tasks_wait_for_the_end_of_one_server(monkeypatch: pytest.MonkeyPatch) -> None:
    process = await _begin("sh", "-c", "read line")

    with trio.fail_after(90):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(process.wait_exited)
            nursery.start_soon(process.wait_exited)
            await trio.sleep(0.01)
            nursery.start_soon(process.end)

    assert process.how_it_ended() == "ended (exit status 1)"


async def test_the_end_is_seen_where_the_kernel_offers_no_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_descriptor(_pid: int) -> None:
        return None

    monkeypatch.setattr(_process, "_open_pidfd", no_descriptor)
    process = await _begin("sh", "-c", "sleep 0.03; exit 5")

    with trio.fail_after(90):
        await process.wait_exited()

    assert process.how_it_ended() == "ended (exit status 5)"
    await process.end()


async def test_the_last_words_are_one_clipped_line() -> None:
    process = await _begin(
        sys.executable, "-S", "-c", "import sys; sys.stderr.write('a\\n' * 99 + 'b\\x1b[0m' * 300)"
    )

    await process.keep_last_words()

    assert process.last_words().startswith("b[0mb[0m")
    assert len(process.last_words()) == 200
    await process.end()


async def test_no_words_are_no_last_words() -> None:
    process = await _begin("sh", "-c", "exit 0")

    await process.keep_last_words()

    assert process.last_words() == ""
    await process.end()


def test_a_system_that_is_not_linux_offers_no_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")

    assert _process._open_pidfd(os.getpid()) is None


def test_who_lives_in_a_group_is_read_with_care(tmp_path: Path) -> None:
    def process(number: int, stat: str) -> None:
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "stat").write_text(stat)

    process(100, "100 (leader) S 1 100 100 0")
    process(101, "")
    process(102, "102 (a dead child) Z 100 100 100 0")
    process(103, "103 (somebody else) S 1 103 103 0")
    assert not _process._lives_in_group(100, tmp_path)

    process(104, "104 (odd) 104 (name)) S 100 100 100 0")
    assert _process._lives_in_group(100, tmp_path)
    assert not _process._lives_in_group(100, tmp_path / "no such folder")
