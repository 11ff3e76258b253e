"""A package of somebody else, in a folder of its own, whose tools are checked by ``pytest --trio-tool``.

The session that builds the wheel runs this as well: there nothing of the sources is at hand, and the
plugin is the one that the wheel has brought.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import trio_tools
from trio_tools.conformance import MANIFEST

pytestmark = pytest.mark.slow

PACKAGE = {
    "pyproject.toml": """
[project]
name = "shop"
version = "1.0"
dependencies = ["trio-tools[conformance]"]

[tool.pytest.ini_options]
testpaths = ["tests"]
pythonpath = ["src"]
addopts = ["--strict-markers", "--import-mode=importlib"]
filterwarnings = ["error"]
""",
    "src/shop/__init__.py": "",
    "src/shop/tools.py": """
import trio
from trio_tools import tool


@tool
async def look_up(article: str) -> str:
    await trio.sleep(1)
    return article.upper()


@tool
async def order(article: str) -> str:
    try:
        await trio.sleep(1)
    except trio.Cancelled:
        return "nothing was ordered"
    return "ordered"


TOOLS = [look_up, order]
""",
    "tests/test_shop.py": """
from shop.tools import look_up


def test_the_shop_has_a_tool() -> None:
    assert look_up.name == "look_up"
""",
}
PLUGIN = "trio_tools.conformance.pytest_plugin"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("elsewhere") / "shop"
    for name, text in PACKAGE.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return place


def run_pytest(shop: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    command = [sys.executable, "-P", "-m", "pytest", "-p", "no:cacheprovider", *words]
    if PLUGIN not in {point.value for point in entry_points(group="pytest11")}:
        # Nothing is installed: these are the sources, found by where they lie.
        env["PYTHONPATH"] = str(Path(trio_tools.__file__).parent.parent)
        command += ["-p", PLUGIN]
    return subprocess.run(command, cwd=shop, env=env, capture_output=True, text=True, check=False)


def test_each_tool_has_an_item_for_each_requirement_and_the_broken_one_fails_by_name(shop: Path) -> None:
    done = run_pytest(shop, "-v", "--trio-tool", "shop.tools:TOOLS", "--trio-tool-seed", "1")
    items = re.findall(
        r"^shop\.tools:TOOLS\[(\w+)\]::(TT-\d\d) (.*?) (PASSED|FAILED|SKIPPED)", done.stdout, re.MULTILINE
    )

    assert done.returncode == 1, done.stdout + done.stderr
    assert [(tool, each) for tool, each, _, _ in items] == [
        (tool, each.id) for tool in ("look_up", "order") for each in MANIFEST
    ]
    assert [item for item in items if item[3] == "FAILED"] == [
        ("order", "TT-03", "makes no value of a cancellation", "FAILED")
    ]
    assert re.search(r"^FAILED .*TT-03 makes no value of a cancellation", done.stdout, re.MULTILINE)
    assert "test_the_shop_has_a_tool PASSED" in done.stdout


def test_a_package_whose_tools_conform_passes(shop: Path) -> None:
    done = run_pytest(shop, "--trio-tool", "shop.tools:look_up")

    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\d+ passed, \d+ skipped", done.stdout)


def test_a_name_that_a_package_does_not_have_is_told_with_those_that_it_has(shop: Path) -> None:
    done = run_pytest(shop, "--trio-tool", "shop.tools:lookup")

    assert done.returncode == 4
    assert "ERROR: --trio-tool shop.tools:lookup: shop.tools has no lookup; it has look_up, order, TOOLS" in (
        done.stderr.splitlines()
    )
