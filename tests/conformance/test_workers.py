"""A worker may die in any way; its cases are answered for, and the others still run."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from trio_tools.conformance._workers import Answer, WorkerError, answers

Say = Callable[[Answer], None]
At = Callable[[int, int], None]


def run(trouble: Callable[[int], None], *, count: int = 20, wall_seconds: float = 5.0) -> dict[int, Answer]:
    def job(numbers: Iterator[int], say: Say, at: At) -> None:
        for number in numbers:
            at(number, 2)
            trouble(number)
            say({"i": number})
            at(-1, 0)

    found = list(answers(job, range(count), processes=2, wall_seconds=wall_seconds))
    assert sorted(answer["i"] for answer in found) == list(range(count))
    return {answer["i"]: answer for answer in found}


def only_at(number: int, action: Callable[[], object]) -> Callable[[int], None]:
    def trouble(now: int) -> None:
        if now == number:
            action()

    return trouble


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), "was ended by SIGSEGV"),
        (lambda: os._exit(7), "exited with status 7"),  # pyright: ignore[reportPrivateUsage]
        (lambda: os._exit(0), "exited with status 0"),  # pyright: ignore[reportPrivateUsage]
        (lambda: sys.exit("bye"), "raised SystemExit: bye"),
        (list[int]().pop, "raised IndexError: pop from empty list"),
    ],
)
def test_a_worker_that_ends_is_answered_for_and_the_rest_still_runs(
    action: Callable[[], object], words: str
) -> None:
    found = run(only_at(7, action))

    assert found[7]["stuck"] == "died"
    assert found[7]["detail"] == words
    assert found[7]["stage"] == 2
    assert all("stuck" not in answer for number, answer in found.items() if number != 7)


def test_a_worker_that_does_not_come_back_is_killed_and_its_line_is_told() -> None:
    def hang() -> None:
        while True:
            time.sleep(1)

    found = run(only_at(3, hang), wall_seconds=0.3)
    file, _, function = found[3]["where"]

    assert found[3]["stuck"] == "wall"
    assert (Path(file).name, function) == ("test_workers.py", "hang")


def test_when_many_runs_hang_the_rest_is_not_run_and_answered_for() -> None:
    def job(numbers: Iterator[int], _say: Say, at: At) -> None:
        for number in numbers:
            at(number, 1)
            time.sleep(60)

    found = list(answers(job, range(40), processes=2, wall_seconds=0.1, patience=3))
    kinds = [answer["stuck"] for answer in found]

    assert sorted(answer["i"] for answer in found) == list(range(40))
    assert 3 <= kinds.count("wall") <= 4
    assert kinds.count("left") == 40 - kinds.count("wall")


def test_what_a_tool_prints_goes_nowhere(capfd: pytest.CaptureFixture[str]) -> None:
    run(lambda number: print("noise", number, flush=True))

    assert capfd.readouterr() == ("", "")


def test_a_tool_that_forks_does_not_double_the_answers() -> None:
    def fork() -> None:
        os.fork()

    found = run(only_at(5, fork))

    assert all("stuck" not in answer for answer in found.values())


def test_what_keeps_every_worker_from_beginning_is_told_once() -> None:
    def job(_numbers: Iterator[int], _say: Say, _at: At) -> None:
        raise WorkerError("the fixture raised OSError: no disk")

    with pytest.raises(WorkerError, match="no disk"):
        list(answers(job, range(5), processes=2, wall_seconds=1))


def test_no_process_is_left_when_the_caller_stops_listening() -> None:
    def job(numbers: Iterator[int], say: Say, _at: At) -> None:
        for number in numbers:
            say({"i": number, "pid": os.getpid()})

    listening = answers(job, range(1_000), processes=2, wall_seconds=5)
    pid = next(listening)["pid"]
    listening.close()  # type: ignore[attr-defined]

    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_worker_that_has_only_just_been_forked_is_ended_too(monkeypatch: pytest.MonkeyPatch) -> None:
    forks: list[int] = []
    fork = os.fork

    def counted() -> int:
        forks.append(len(forks))
        return fork()

    def late() -> None:
        if len(forks) == 2:
            time.sleep(120)
            os._exit(1)

    def job(numbers: Iterator[int], say: Say, _at: At) -> None:
        for number in numbers:
            say({"i": number})

    monkeypatch.setattr(os, "fork", counted)
    monkeypatch.setattr(os, "setsid", late)
    listening = answers(job, range(1_000), processes=2, wall_seconds=5)
    next(listening)
    closing = time.monotonic()
    listening.close()  # type: ignore[attr-defined]

    assert time.monotonic() - closing < 60


def interrupt_after(monkeypatch: pytest.MonkeyPatch, name: str, times: int) -> None:
    """Let the n-th end of a function of `os` in this process be where a Ctrl-C comes."""
    call = getattr(os, name)
    left = times

    def interrupted(*given: Any) -> Any:
        nonlocal left
        result = call(*given)
        left -= 1
        if result != 0 and left == 0:
            signal.raise_signal(signal.SIGINT)
        return result

    monkeypatch.setattr(os, name, interrupted)


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("name", ["fork", "waitpid"])
def test_an_interrupt_leaves_no_worker(monkeypatch: pytest.MonkeyPatch, name: str, times: int) -> None:
    pids: list[int] = []
    fork = os.fork

    def noted() -> int:
        pid = fork()
        pids.append(pid)
        return pid

    def job(numbers: Iterator[int], say: Say, _at: At) -> None:
        for number in numbers:
            say({"i": number})
            time.sleep(0.3)

    monkeypatch.setattr(os, "fork", noted)
    interrupt_after(monkeypatch, name, times)
    listening = answers(job, range(1_000), processes=3, wall_seconds=5)
    with pytest.raises(KeyboardInterrupt), closing(listening):  # type: ignore[type-var]
        next(listening)

    left: list[int] = []
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            left.append(pid)
    assert pids
    assert not left
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
