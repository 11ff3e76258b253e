"""The pytest plugin: an item for each requirement, a marker, and fixtures."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent

TOOLS = """
import trio
from trio_tools import tool

@tool
async def fine(number: int) -> int:
    await trio.sleep(1)
    return number

@tool
async def broken(number: int) -> str:
    try:
        await trio.sleep(1)
    except trio.Cancelled:
        return "aborted"
    return "done"
"""

TESTS = """
import pytest
from contextlib import nullcontext
from mine import broken, fine
from trio_tools.conformance import ConformanceError, Profile

@pytest.fixture(scope="session")
def trio_tool_profile():
    return Profile(max_cases=20)

@pytest.mark.trio_tool(arguments=[{"number": 3}], setup=nullcontext, seed=4)
def test_fine(check_trio_tool):
    report = check_trio_tool(fine)
    assert (report.seed, report.arguments, report.planned) == (4, 1, 20)

def test_broken(check_trio_tool):
    with pytest.raises(ConformanceError, match="TT-03"):
        check_trio_tool(broken)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("package")
    (path / "mine.py").write_text(TOOLS)
    (path / "test_mine.py").write_text(TESTS)
    (path / "leaves.py").write_text("import sys\nsys.exit(4)\n")
    (path / "leaves_nothing.py").write_text("")
    (path / "empty").mkdir()
    return path


def run_pytest(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    installed = {point.value for point in entry_points(group="pytest11")}
    plugin = "trio_tools.conformance.pytest_plugin"
    return subprocess.run(
        [
            sys.executable,
            *(
                "-m",
                "pytest",
                "-W",
                "error",
                "-p",
                "no:cacheprovider",
                "--strict-markers",
                "--rootdir",
                str(place),
            ),
            *([] if plugin in installed else ["-p", plugin]),
            *words,
        ],
        cwd=place,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{place}", "COLUMNS": "120"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_target_has_one_item_for_each_requirement(place: Path) -> None:
    done = run_pytest(place, "empty", "--trio-tool", "mine:broken", "--trio-tool-seed", "1", "-v")

    assert done.returncode == 1, done.stdout + done.stderr
    assert len(re.findall(r"TT-\d\d .* (PASSED|FAILED|SKIPPED)", done.stdout)) == 24
    assert re.search(r"TT-03 makes no value of a cancellation FAILED", done.stdout)
    assert "returned a value after the cancellation had reached it" in done.stdout
    assert "replay: tt1-" in done.stdout
    assert re.search(r"1 failed, \d+ passed, \d+ skipped", done.stdout)


def test_a_test_checks_a_tool_the_way_its_marker_says(place: Path) -> None:
    done = run_pytest(place, "test_mine.py")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("mine:none", "mine has no none; it has fine, broken"),
        ("test_mine.py:none", "test_mine.py has no none; it has broken, fine"),
        ("leaves_nothing.py:none", "it has no tool, list of tools or registry"),
        ("none:fine", "none: there is no such module on the path or in "),
        ("none.py:fine", "there is no file "),
        ("leaves:fine", "SystemExit: 4"),
        ("mine", "a target is pkg.mod:NAME"),
        ("mine:trio", "this is a module, not a tool"),
    ],
)
def test_a_target_that_is_none_is_a_usage_error(place: Path, target: str, sentence: str) -> None:
    done = run_pytest(place, "empty", "--trio-tool", target)

    assert done.returncode == 4
    assert sentence in done.stderr


@pytest.mark.parametrize("layout", ["", "src"])
def test_a_package_that_is_not_installed_is_found_where_pytest_is_started(
    tmp_path: Path, layout: str
) -> None:
    package = tmp_path / layout / "shop"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "tools.py").write_text(TOOLS)
    (tmp_path / "empty").mkdir()
    # Not `python -m pytest`, which would put the folder on the path, and no PYTHONPATH that names it.
    program = "import sys; sys.path.remove(''); import pytest; sys.exit(pytest.main())"
    installed = {point.value for point in entry_points(group="pytest11")}
    plugin = "trio_tools.conformance.pytest_plugin"
    done = subprocess.run(
        [
            *(sys.executable, "-c", program, *([] if plugin in installed else ["-p", plugin])),
            *("empty", "--rootdir", ".", "-p", "no:cacheprovider", "--trio-tool", "shop.tools:fine"),
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\d+ passed, \d+ skipped", done.stdout)
