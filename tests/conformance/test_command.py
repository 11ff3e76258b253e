"""``trio-tools check``: one clear line for each target that is none, and the others still run."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trio_tools.cli._check import _checks_of  # pyright: ignore[reportPrivateUsage]

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent

TOOLS = """
import sys, os, trio
from trio_tools import tool
from trio_tools.conformance import ToolCheck

@tool
async def fine(number: int) -> int:
    print("noise on stdout")
    await trio.sleep(1)
    return number

@tool
async def broken(number: int) -> str:
    try:
        await trio.sleep(1)
    except trio.Cancelled:
        return "aborted"
    return "done"

@tool
async def exits(number: int) -> None:
    await trio.sleep(1)
    sys.exit("bye")

@tool
async def forks(number: int) -> None:
    await trio.sleep(1)
    if os.fork() == 0:
        os._exit(0)
    os.wait()

@tool
async def crashes(number: int) -> None:
    await trio.sleep(1)
    os.kill(os.getpid(), 11)

@tool
async def vanishes(number: int) -> None:
    os._exit(3)

@tool
async def hangs(number: int) -> None:
    while True:
        pass

def no_disk():
    raise OSError("no disk")

def leave():
    sys.exit(5)

NO_TOOL = ToolCheck(tool=42)
NO_WORLD = ToolCheck(tool=fine, setup=no_disk)
NO_END = ToolCheck(tool=fine, setup=leave)
NO_ARGUMENTS = ToolCheck(tool=fine, arguments=[])
NO_STRATEGY = ToolCheck(tool=fine, arguments="abc")
PREPARED = ToolCheck(tool=fine, arguments=[{"number": 7}])
SEVERAL = [PREPARED, broken]

def plain(number: int) -> int:
    return number
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("targets")
    (path / "mine.py").write_text(TOOLS)
    (path / "leaves.py").write_text("import sys\nsys.exit(4)\n")
    (path / "raises.py").write_text("raise ValueError('bad\\nnews')\n")
    (path / "vanishes.py").write_text("import os\nos._exit(0)\n")
    (path / "interrupts.py").write_text("raise KeyboardInterrupt\n")
    (path / "crashes.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    return path


def check(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "trio_tools.cli", "check", "--yes", "--budget", "30", "--seed", "1", *words],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_target_that_conforms_exits_with_zero_and_prints_nothing_of_its_own(place: Path) -> None:
    done = check(place, "mine:fine")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("fine: pass\n")
    assert "noise" not in done.stdout


def test_the_examples_conform() -> None:
    done = check(ROOT, "examples/files.py:TOOLS", "--budget", "400")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "read_file: pass" in done.stdout


def test_findings_exit_with_one_and_are_written_in_every_form(place: Path) -> None:
    done = check(place, "mine.py:SEVERAL", "--json", "a.json", "--junit", "a.xml", "--html", "a.html")
    told = json.loads((place / "a.json").read_text())

    assert done.returncode == 1
    assert [each["verdict"] for each in told["tools"]] == ["pass", "fail"]
    assert (place / "a.xml").read_text().startswith("<?xml")
    assert (place / "a.html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("target", "line"),
    [
        ("mine:none", "mine has no none"),
        ("none:fine", "there is no module none"),
        ("mine:plain", "this is a function, not a tool"),
        ("leaves:fine", "importing it called sys.exit(4)"),
        ("crashes.py:fine", "importing it ended the interpreter by SIGSEGV"),
        ("raises:fine", "importing it failed: ValueError: bad news (raises.py, line 1)"),
        ("vanishes:fine", "importing it ended the interpreter with status 0"),
        ("interrupts:fine", "importing it raised KeyboardInterrupt"),
        ("mine:NO_TOOL", "a target is a Tool or an async function, not int"),
        ("mine:NO_ARGUMENTS", "there are no arguments to call the tool with"),
        ("mine:NO_STRATEGY", "arguments must be a strategy or a sequence of examples, not str"),
        ("mcp:some-server", "cannot be looked into"),
    ],
)
def test_a_target_that_is_none_is_one_line_and_the_others_still_run(
    place: Path, target: str, line: str
) -> None:
    done = check(place, target, "mine:fine")

    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert line in done.stderr
    assert done.stdout.startswith("fine: pass\n")


@pytest.mark.parametrize(
    ("target", "line"),
    [
        ("mine:exits", "the tool raised SystemExit: bye"),
        ("mine:crashes", "the tool was ended by SIGSEGV"),
        ("mine:vanishes", "the tool exited with status 3"),
        ("mine:NO_END", "the fixture raised SystemExit: 5"),
    ],
)
def test_what_takes_its_process_down_is_unresolved_in_one_line_and_the_others_still_run(
    place: Path, target: str, line: str
) -> None:
    done = check(place, target, "mine:fine")

    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout.count(line) == 1
    assert "fine: pass" in done.stdout


def test_a_fixture_that_fails_is_one_line_and_the_others_still_run(place: Path) -> None:
    done = check(place, "mine:NO_WORLD", "mine:fine")

    assert done.returncode == 3
    assert done.stderr == "trio-tools: mine:NO_WORLD: setup() raised OSError: no disk\n"
    assert "fine: pass" in done.stdout


def test_a_body_that_never_waits_is_a_finding_and_the_others_still_run(place: Path) -> None:
    (place / "hasty.toml").write_text("wall_seconds = 0.5\n")
    done = check(place, "mine:hangs", "mine:fine", "--profile", "hasty.toml")

    assert (done.returncode, done.stderr) == (1, "")
    assert "TT-14: held the loop until its process was killed" in done.stdout
    assert "fine: pass" in done.stdout


CAREFUL = """
from pathlib import Path
from trio_tools import Effect, tool
from trio_tools.conformance import ToolCheck

@tool(effect=Effect.READ_ONLY)
async def reads(number: int) -> int:
    return number

@tool(effect=Effect.NON_IDEMPOTENT_WRITE)
async def pays(number: int) -> int:
    Path("paid.txt").touch()
    return number

@tool
async def unsaid(number: int) -> int:
    return number

PREPARED = ToolCheck(tool=pays, arguments=[{"number": 7}])
"""
WARNING = "pays, unsaid may change something: each really runs, often, on made-up arguments"


def careful(place: Path, *words: str) -> list[str]:
    (place / "careful.py").write_text(CAREFUL)
    (place / "paid.txt").unlink(missing_ok=True)
    return [sys.executable, "-m", "trio_tools.cli", "check", "--budget", "3", *words]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["careful:pays", "careful:unsaid"], f"trio-tools: {WARNING}\n"),
        (["careful:unsaid", "--yes"], ""),
        (["careful:reads", "careful:PREPARED"], ""),
    ],
)
def test_what_may_change_something_is_told_where_nobody_can_be_asked(
    place: Path, words: list[str], told: str
) -> None:
    done = subprocess.run(
        careful(place, *words),
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stderr == told
    assert done.stdout


@pytest.mark.parametrize(("answer", "runs"), [("y", True), ("n", False), ("", False)])
def test_what_may_change_something_is_asked_for_on_a_terminal(place: Path, answer: str, runs: bool) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        careful(place, "careful:pays", "careful:unsaid"),
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=theirs,
        stderr=theirs,
        stdout=subprocess.PIPE,
    ) as running:
        os.close(theirs)
        told = b""
        while b"[y/N]" not in told:
            told += os.read(ours, 1_000)
        os.write(ours, f"{answer}\n".encode())
        running.communicate(timeout=60)
    os.close(ours)

    assert WARNING.encode() in told
    assert (place / "paid.txt").exists() is runs
    assert running.returncode == 3  # three runs are too few for a verdict


def test_a_token_finds_its_tool_among_those_of_a_target(place: Path) -> None:
    check(place, "mine:SEVERAL", "--json", "several.json")
    told = json.loads((place / "several.json").read_text())
    (token,) = [each["token"] for each in told["tools"][1]["findings"]]
    done = check(place, "mine:SEVERAL", "--replay", token)

    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("broken: cancelled by ")

    other = check(place, "mine:fine", "mine:exits", "--replay", token)
    assert other.returncode == 2
    assert other.stderr == (
        "trio-tools: --replay: the token is for broken; of fine, exits, name the one it is for as TARGET\n"
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_an_interrupted_check_exits_with_130_and_leaves_no_worker(
    place: Path, number: signal.Signals
) -> None:
    command = [sys.executable, "-m", "trio_tools.cli", "check", "--yes", "mine:hangs", "mine:fine"]
    with subprocess.Popen(
        command,
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Whoever runs the tests in the background has it ignored.
        preexec_fn=lambda: [signal.signal(each, signal.SIG_DFL) for each in (signal.SIGINT, signal.SIGHUP)],  # noqa: PLW1509
    ) as running:
        children = Path(f"/proc/{running.pid}/task/{running.pid}/children")
        deadline = time.monotonic() + 120
        workers: list[str] = []
        # The process that tries the import comes first, and ends.
        while time.monotonic() < deadline:
            workers = [pid for pid in children.read_text().split() if leads_its_group(pid)]
            if workers:
                break
            time.sleep(0.02)
        assert workers
        running.send_signal(number)
        _, told = running.communicate(timeout=120)
    if number is signal.SIGKILL:
        # Nobody waits for its workers but the system.
        while any(map(is_at_work, workers)) and time.monotonic() < deadline + 120:
            time.sleep(0.02)
    else:
        assert running.returncode == 130
        assert told == "trio-tools: interrupted\n"

    assert not [pid for pid in workers if is_at_work(pid)]


def test_an_interrupt_while_a_target_is_tried_leaves_no_process(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forks: list[int] = []
    fork = os.fork

    def interrupted() -> int:
        forks.append(fork())
        if forks[-1]:
            signal.raise_signal(signal.SIGINT)
        return forks[-1]

    monkeypatch.chdir(place)
    monkeypatch.setattr(os, "fork", interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(_checks_of("mine:fine", examples=1))

    with pytest.raises(ProcessLookupError):
        os.kill(forks[0], signal.SIGKILL)
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def is_at_work(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def leads_its_group(pid: str) -> bool:
    try:
        return os.getpgid(int(pid)) == int(pid)
    except ProcessLookupError:
        return False


def test_a_body_that_forks_is_checked_like_any_other(place: Path) -> None:
    assert check(place, "mine:forks").returncode == 0


def test_a_profile_file_excuses_and_limits(place: Path) -> None:
    (place / "p.toml").write_text(
        '[[known]]\ntool = "broken"\nrequirement = "TT-03"\nuntil = 9999-01-01\nreason = "later"\n'
    )
    (place / "bad.toml").write_text("[[known]\n")

    assert check(place, "mine:broken", "--profile", "p.toml").returncode == 0
    assert check(place, "mine:broken", "--profile", "bad.toml").returncode == 2


@pytest.mark.parametrize(
    "words",
    [
        ["--replay", "nonsense", "mine:fine"],
        ["--replay", "tt1-x", "mine:fine", "mine:broken"],
        ["--budget", "0", "mine:fine"],
        [],
    ],
)
def test_wrong_usage_exits_with_two(place: Path, words: list[str]) -> None:
    done = check(place, *words)

    assert done.returncode == 2
    assert "Traceback" not in done.stderr
