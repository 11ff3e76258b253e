"""A finding names lines of tools, not of libraries."""

from __future__ import annotations

import importlib
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import outcome
import pytest
import trio
import trio.testing

import trio_tools
from trio_tools.conformance._site import Site, is_foreign, site_of, site_of_frame

HERE = Path(__file__)


@pytest.mark.parametrize(
    ("filename", "foreign"),
    [
        (trio.__file__, True),
        (outcome.__file__, True),
        (trio_tools.__file__, True),
        (pytest.__file__, False),
        (Path.__module__ and sys.modules["pathlib"].__file__, True),
        ("<string>", True),
        (str(HERE), False),
        (f"{Path(trio_tools.__file__).parent}_of_mine/tool.py", False),
        (f"{Path(trio.__file__).parent}_extra/tool.py", False),
    ],
)
def test_a_library_is_told_from_a_tool_by_where_it_lies(filename: str, foreign: bool) -> None:
    assert is_foreign(filename) is foreign


async def numbers() -> AsyncGenerator[int]:
    await trio.sleep(1)
    yield 1


async def through_a_generator() -> None:
    async for _ in numbers():
        pass


async def plain() -> None:
    await trio.sleep(1)


@pytest.mark.parametrize(("function", "place"), [(through_a_generator, "in numbers"), (plain, "in plain")])
async def test_the_line_of_a_waiting_task_is_the_innermost_of_the_tool(function: object, place: str) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(function)  # type: ignore[arg-type]
        await trio.testing.wait_all_tasks_blocked()
        (task,) = nursery.child_tasks
        site = site_of(task.coro)
        nursery.cancel_scope.cancel()

    assert site is not None
    assert str(site).endswith(f"{place}: await trio.sleep(1)")


def test_a_coroutine_that_has_not_begun_is_nowhere() -> None:
    coroutine = plain()
    site = site_of(coroutine)
    coroutine.close()

    assert site is None


def test_a_running_frame_is_named_by_the_nearest_line_of_a_tool() -> None:
    site = site_of_frame(sys._getframe())  # pyright: ignore[reportPrivateUsage]

    assert site is not None
    assert "sys._getframe" in site.text
    assert site_of_frame(None) is None


def test_a_module_that_is_being_imported_is_named_by_the_line_that_imports_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "takes_long_to_import.py").write_text("import sys\nframe = sys._getframe()\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    site = site_of_frame(importlib.import_module("takes_long_to_import").frame)

    assert site is not None
    assert "importlib.import_module" in site.text


def test_a_line_is_named_relative_to_the_working_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    inside, outside = tmp_path / "inside.py", HERE
    monkeypatch.chdir(tmp_path)

    assert Site.at(str(inside), 3, "f").file == "inside.py"
    assert Site.at(f"{outside.parent}/elsewhere.py", 3, "f").file == f"{outside.parent}/elsewhere.py"
