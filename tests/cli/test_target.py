"""What a target may be, where one line about a mistake is not enough of a test."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from trio_tools import Registry, tool
from trio_tools.cli._failure import USAGE, CommandError
from trio_tools.cli._target import load_target, tools_of


@tool
async def one() -> str:
    """Be the first."""
    return "1"


@tool
async def two() -> str:
    """Be the second."""
    return "2"


def test_the_tools_of_a_target_are_those_that_it_shows() -> None:
    registry = Registry()
    registry.register(one)
    layer = registry.layer("inner")
    layer.register(two)

    assert tools_of(one, "t") == (one,)
    assert tools_of([two, one], "t") == (two, one)
    assert set(tools_of({one, two}, "t")) == {one, two}
    assert tools_of(registry, "t") == (one,)
    assert set(tools_of(layer, "t")) == {one, two}


@pytest.mark.parametrize("found", [[], [one, 3], "text", None])
def test_anything_else_is_no_target(found: object) -> None:
    with pytest.raises(CommandError, match="not a tool, a list of tools or a registry") as caught:
        tools_of(found, "t")

    assert caught.value.status == USAGE


def test_a_target_may_lie_inside_an_object(tmp_path: Path) -> None:
    file = tmp_path / "nested.py"
    file.write_text("class Kitchen:\n    NUMBER = 3\n")

    assert load_target(f"{file}:Kitchen.NUMBER") == 3


def test_a_file_is_imported_beside_its_neighbours_and_under_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "neighbour_of_the_target.py").write_text("NUMBER = 4\n")
    file = tmp_path / "kitchen_target.py"
    file.write_text("from neighbour_of_the_target import NUMBER\nNAME = __name__\n")

    assert load_target(f"{file}:NUMBER") == 4
    assert load_target(f"{file}:NAME") == "kitchen_target"


def test_a_file_that_fails_leaves_no_module_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "json.py"
    file.write_text("raise RuntimeError('out of flour')\n")
    before = sys.modules["json"]

    with pytest.raises(CommandError, match="importing it failed: RuntimeError: out of flour"):
        load_target(f"{file}:X")
    assert sys.modules["json"] is before
    fresh = tmp_path / "kitchen_that_fails.py"
    fresh.write_text("raise RuntimeError\n")
    with pytest.raises(CommandError, match="importing it failed: RuntimeError"):
        load_target(f"{fresh}:X")
    assert "kitchen_that_fails" not in sys.modules


def test_a_file_that_is_no_python_is_a_wrong_usage(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("")

    with pytest.raises(CommandError) as caught:
        load_target(f"{file}:X")

    assert str(caught.value).startswith(f"{file}:X: {file} is no Python file; a target is pkg.mod:NAME")
    assert caught.value.status == USAGE
