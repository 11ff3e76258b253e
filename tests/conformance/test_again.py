"""A finding is shown again by its token, and a report by its seed, whatever kind of run shows it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from trio_tools.conformance import Case, Kind, Mode, Way
from trio_tools.conformance._case import read_token, token_of

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent

TOOLS = """
import trio
from hypothesis import strategies as st
from trio_tools import tool
from trio_tools.conformance import ToolCheck

@tool
async def depends_on_the_order() -> str:
    done = []

    async def note(name):
        await trio.lowlevel.checkpoint()
        done.append(name)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(note, "first")
        nursery.start_soon(note, "second")
    return done[0] if done[0] == "first" else None

@tool
async def says_that_it_is_done(number: int = 0) -> str:
    try:
        await trio.sleep(1)
    except trio.Cancelled:
        with trio.CancelScope(shield=True):
            await trio.sleep(1)
            await trio.sleep(1)
        if number >= 11:
            return "aborted"
        raise
    return "done"

LARGE = ToolCheck(
    tool=says_that_it_is_done,
    arguments=st.fixed_dictionaries({"number": st.integers(0, 10_000)}),
    max_examples=8,
)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("again")
    (path / "mine.py").write_text(TOOLS)
    return path


def check(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "trio_tools.cli", "check", "--yes", *words],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def checked_twice(place: Path, target: str) -> tuple[str, Case]:
    """Check a target with one worker and with three, compare the files, and return its one finding."""
    forms = ("json", "html", "junit")
    written: list[list[bytes]] = []
    for processes in ("1", "3"):
        words = [word for form in forms for word in (f"--{form}", f"report.{form}")]
        done = check(place, target, "--budget", "150", "--seed", "2", "--processes", processes, *words)
        assert done.returncode == 1, done.stdout + done.stderr
        written.append([(place / f"report.{form}").read_bytes() for form in forms])
    assert written[0] == written[1]
    ((finding,),) = [tool["findings"] for tool in json.loads(written[0][0])["tools"]]
    return finding["token"], read_token(finding["token"])


def assert_shown_again(place: Path, target: str, token: str, sentence: str) -> None:
    shown = [check(place, target, "--replay", token) for _ in range(3)]

    assert [run.returncode for run in shown] == [1, 1, 1], shown[0].stdout + shown[0].stderr
    assert len({run.stdout for run in shown}) == 1
    assert sentence in shown[0].stdout


def test_what_another_order_of_tasks_shows(place: Path) -> None:
    token, case = checked_twice(place, "mine:depends_on_the_order")

    assert case.deviations
    assert_shown_again(place, "mine:depends_on_the_order", token, "TT-18 gives valid values")


def test_what_arguments_show_that_were_made_simpler(place: Path) -> None:
    token, case = checked_twice(place, "mine:LARGE")

    assert case.arguments == {"number": 11}
    assert_shown_again(place, "mine:LARGE", token, "TT-03 makes no value of a cancellation")


@pytest.mark.parametrize("way", [Way.SHUTDOWN])
def test_what_a_second_cancellation_shows(place: Path, way: Way) -> None:
    # A finding is told by its simplest run, which has one cancellation where that is enough.
    case = Case(
        kind=Kind.CANCEL,
        arguments={"number": 11},
        way=way,
        step=1,
        mode=Mode.BLOCK,
        second=(Mode.RESUME, 2),
    )

    assert_shown_again(place, "mine:LARGE", token_of(case), f"and by {case.second_way} at step 2 (resume)")
