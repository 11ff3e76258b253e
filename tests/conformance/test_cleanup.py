"""Which lines are a cleanup, told from the source."""

from __future__ import annotations

import sys
from types import CodeType

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


def test_code_without_source_is_no_cleanup() -> None:
    frames: list[tuple[CodeType, int]] = [(compile("1", "<string>", "eval"), 1)]

    assert not in_cleanup(frames)
