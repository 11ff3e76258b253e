"""What is counted as left behind, and what is not."""

from __future__ import annotations

import socket
import subprocess
import tempfile
import threading
from pathlib import Path

import pytest

from trio_tools.conformance._census import Leftovers, leftovers_since, take_census


@pytest.fixture(autouse=True)
def own_temporary_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_nothing_is_left_of_nothing() -> None:
    assert not leftovers_since(take_census())


def test_each_kind_of_thing_is_told_by_what_it_is(tmp_path: Path) -> None:
    before = take_census()
    started = threading.Event()
    done = threading.Event()

    def wait() -> None:
        started.set()
        done.wait()

    thread = threading.Thread(target=wait)
    thread.start()
    started.wait()
    with (
        (tmp_path / "a.txt").open("w"),
        socket.socket(),
        subprocess.Popen(["sleep", "30"]) as process,
    ):
        left = leftovers_since(before)
        process.kill()
    done.set()
    thread.join()

    assert left.fds == ("descriptor of a temporary file *.txt",)
    assert left.sockets == ("descriptor socket:",)
    assert left.children == ("child process 'sleep 30'",)
    assert left.files == ("temporary file *.txt",)
    assert [each.split(" at ")[0] for each in left.threads] == ["thread"]


def test_what_was_there_before_is_not_left() -> None:
    # A fixture may have started a server.
    with subprocess.Popen(["sleep", "30"]) as process, socket.socket():
        before = take_census()
        left = leftovers_since(before)
        process.kill()

    assert not left


def test_a_child_of_another_thread_is_seen() -> None:
    before = take_census()
    processes: list[subprocess.Popen[bytes]] = []
    hold = threading.Event()

    def start() -> None:
        processes.append(subprocess.Popen(["sleep", "30"]))
        hold.wait()

    thread = threading.Thread(target=start)
    thread.start()
    while not processes:
        hold.wait(0.001)
    left = leftovers_since(before)
    processes[0].kill()
    processes[0].wait()
    hold.set()
    thread.join()

    assert left.children == ("child process 'sleep 30'",)


def test_a_child_that_has_ended_but_was_not_awaited_is_left() -> None:
    before = take_census()
    process = subprocess.Popen(["true"])
    while (seen := leftovers_since(before)).children != ("child process that was not awaited",):
        assert seen.children
    process.wait()

    assert not leftovers_since(before).children


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("unclosed <socket.socket fd=7, family=2, type=1>", "sockets"),
        ("unclosed file <_io.TextIOWrapper name='a b' mode='r' encoding='UTF-8'>", "fds"),
        ("Implicitly cleaning up <TemporaryDirectory '/t/x'>", "files"),
    ],
)
def test_what_only_the_collector_closed_counts_as_left(text: str, kind: str) -> None:
    left = Leftovers().with_collected([text])
    told: tuple[str, ...] = getattr(left, kind)

    assert len(told) == 1
    assert "that nobody" in told[0]


def test_a_descriptor_of_a_temporary_file_has_the_same_name_in_each_run() -> None:
    before = take_census()
    with (
        tempfile.TemporaryDirectory() as folder,
        Path(folder, "a.log").open("w"),
        tempfile.NamedTemporaryFile(suffix=".txt", delete=False) as gone,
    ):
        Path(gone.name).unlink()
        left = leftovers_since(before)

    assert left.fds == ("descriptor of a temporary file */a.log", "descriptor of a temporary file *.txt")
