"""Which lines are a cleanup, told from the source."""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import trio

from trio_tools.conformance._cleanup import in_cleanup


def here() -> list[tuple[CodeType, int]]:
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    return [(frame.f_code, frame.f_lineno)]


def test_finally_is_a_cleanup() -> None:
    try:
        inside = here()
    finally:
        cleaning = here()

    assert not in_cleanup(inside)
    assert in_cleanup(cleaning)


def test_an_except_block_that_ends_by_raising_is_a_cleanup_and_one_that_may_go_on_is_none() -> None:
    seen: list[bool] = []
    try:
        try:
            raise ValueError
        except ValueError:
            seen.append(in_cleanup(here()))
            raise
    except ValueError:
        seen.append(in_cleanup(here()))

    assert seen == [True, False]


def test_the_exit_of_a_context_manager_is_a_cleanup() -> None:
    seen: list[bool] = []

    class Manager:
        def __enter__(self) -> None:
            seen.append(in_cleanup(here()))

        def __exit__(self, *error: object) -> None:
            seen.append(in_cleanup(here()))

    with Manager():
        pass

    assert seen == [False, True]


async def test_what_is_on_an_exit_stack_is_a_cleanup_but_not_what_a_library_does_to_leave() -> None:
    seen: dict[str, bool] = {}
    library: dict[str, Any] = {}
    # Its file is one of trio's.
    source = "async def __aexit__(look, *error):\n    look()\n"
    exec(compile(source, f"{Path(trio.__file__).parent}/_made_up.py", "exec"), library)

    def look(name: str) -> None:
        frame: FrameType | None = sys._getframe()  # pyright: ignore[reportPrivateUsage]
        frames: list[tuple[CodeType, int]] = []
        while frame is not None:
            frames.insert(0, (frame.f_code, frame.f_lineno))
            frame = frame.f_back
        seen[name] = in_cleanup(frames)

    async def pushed() -> None:
        look("pushed")

    async with AsyncExitStack() as stack:
        stack.push_async_callback(pushed)
        stack.push_async_callback(library["__aexit__"], partial(look, "library"))
        look("block")

    assert seen == {"block": False, "library": False, "pushed": True}


def test_code_without_source_is_no_cleanup() -> None:
    frames: list[tuple[CodeType, int]] = [(compile("1", "<string>", "eval"), 1)]

    assert not in_cleanup(frames)
