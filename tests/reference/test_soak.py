"""The command that holds both models against what runs, on all cores."""

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from trio_tools.reference import _call_soak, _program_soak
from trio_tools.reference._cores import collecting_rarely, cores_here, spread
from trio_tools.reference.soak import PIECE, main


def square(number: int) -> int:
    return number * number


def test_work_is_spread_over_pieces_or_a_time() -> None:
    assert list(spread(square, cores=1, pieces=4)) == [0, 1, 4, 9]
    assert list(spread(square, cores=1, pieces=4, seconds=0)) == []
    assert cores_here() > 0


def test_garbage_is_collected_rarely_within_a_block_only() -> None:
    before = gc.get_threshold()
    with collecting_rarely():
        within = gc.get_threshold()

    assert within == (100_000, *before[1:])
    assert gc.get_threshold() == before


@pytest.mark.slow
def test_work_is_spread_over_processes() -> None:
    before = set(threading.enumerate())

    assert sorted(spread(square, cores=2, pieces=7)) == [0, 1, 4, 9, 16, 25, 36]
    # What is still ending when Python itself ends may find its pipes closed under it.
    assert set(threading.enumerate()) <= before
    assert multiprocessing.active_children() == []


def test_the_command_prints_both_reports_and_returns_zero(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--programs", "12", "--seed", "4", "--cores", "1", "--every", "0"])
    printed = capsys.readouterr()

    assert code == 0
    assert "language, 1 cores" in printed.out
    assert "calls, 1 cores" in printed.out
    assert printed.out.count("12 programs, seed 4: ") == 2
    assert printed.out.count("0 disagreements") == 2
    assert "CA-16  cancelled" in printed.out
    assert "12 language, " in printed.err
    assert "12 calls, " in printed.err


@pytest.mark.slow
def test_the_same_programs_are_run_however_many_cores_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    tables: list[str] = []
    for cores in ("1", "2"):
        main(["calls", "--programs", str(PIECE + 50), "--seed", "9", "--cores", cores])
        tables.append(capsys.readouterr().out.partition("cells reached")[2])

    assert tables[0] == tables[1]


def test_a_disagreement_makes_the_exit_code_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def disagreeing(programs: int, seed: int = 0, **_more: object) -> _program_soak.SoakReport:
        report = _program_soak.SoakReport(seed, programs)
        report.disagreements.append(_program_soak.Program())
        return report

    monkeypatch.setattr(_program_soak, "soak", disagreeing)
    code = main(["language", "--programs", "1", "--cores", "1"])

    printed = capsys.readouterr()

    assert code == 1
    assert "1 disagreements" in printed.out
    assert "Program()\n    observed:  returned" in printed.out
    assert "Program()\n    observed:  returned" in printed.err, "the end may be hours away"


def test_a_time_ends_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calls", "--minutes", "0", "--cores", "1"]) == 0
    assert "0 programs" in capsys.readouterr().out


def test_reports_add_up() -> None:
    first, second = _call_soak.soak_calls(programs=6, seed=0), _call_soak.soak_calls(programs=4, seed=6)
    whole = _call_soak.soak_calls(programs=10, seed=0)
    first.add(second)

    assert first.programs == 10
    assert first.coverage.counts == whole.coverage.counts


def ended(group: int) -> bool:
    """Wait until no process of a group is left; one of multiprocessing's own ends a moment later."""
    for _ in range(100):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


@pytest.mark.slow
@pytest.mark.parametrize(("cores", "way"), [("1", "Ctrl-C"), ("2", "Ctrl-C"), ("2", "SIGTERM")])
def test_an_interrupt_ends_it_with_the_report_and_leaves_no_process(cores: str, way: str) -> None:
    command = [sys.executable, "-m", "trio_tools.reference.soak", "calls"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        [*command, "--minutes", "5", "--cores", cores, "--every", "0"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as ran:
        assert ran.stderr is not None
        assert ran.stderr.readline().startswith("... ")
        if way == "Ctrl-C":
            # As a terminal does, to the whole group.
            os.killpg(ran.pid, signal.SIGINT)
        else:
            ran.terminate()
        printed, errors = ran.communicate(timeout=120)

    assert ran.returncode == 130
    assert f"calls, {cores} cores, " in printed.splitlines()[0]
    assert printed.splitlines()[0].endswith(", interrupted")
    assert "CA-16  cancelled" in printed
    assert "Traceback" not in errors
    assert ended(ran.pid), "a process is left"


@pytest.mark.slow
def test_the_module_runs_as_a_command() -> None:
    command = [sys.executable, "-m", "trio_tools.reference.soak", "--programs", "1"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ran = subprocess.run(command, env=environment, capture_output=True, check=False)

    assert ran.returncode == 0, ran.stderr
