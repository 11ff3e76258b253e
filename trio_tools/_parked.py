"""Where code waits: the line of a suspended task, or of a running thread, that somebody can act on."""

import sys
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Final

import trio

__all__ = ["line_of_task", "line_of_thread"]

_CORE: Final = str(Path(__file__).parent / "_")
_TRIO: Final = str(Path(trio.__file__).parent)


def line_of_task(task: trio.lowlevel.Task) -> str:
    """Return where a task that has not ended waits, as ``file:line, in function``."""
    return _innermost([*task.iter_await_frames()][::-1])


def line_of_thread(ident: int) -> str | None:
    """Return where a thread is, as ``file:line, in function``; None when it has ended."""
    frames: list[tuple[FrameType, int]] = []
    frame = sys._current_frames().get(ident)  # pyright: ignore[reportPrivateUsage]  # documented
    while frame is not None:
        frames.append((frame, frame.f_lineno))
        frame = frame.f_back
    return _innermost(frames) if frames else None


def _innermost(frames: list[tuple[FrameType, int]]) -> str:
    """Return the first of ``frames`` that is neither Python's, trio's nor ours; the first, if all are."""
    theirs = (each for each in frames if not _is_of_library(each[0].f_code.co_filename))
    frame, line = next(theirs, frames[0])
    return f"{frame.f_code.co_filename}:{line}, in {frame.f_code.co_qualname}"


@cache
def _is_of_library(file: str) -> bool:
    if file.startswith((_CORE, _TRIO, "<frozen")):
        return True
    return file.startswith(_standard()) and "site-packages" not in file


@cache
def _standard() -> tuple[str, ...]:
    # Few programs have a call that is stuck, and every one would wait for this import.
    import sysconfig

    return tuple(map(sysconfig.get_path, ("stdlib", "platstdlib")))
