"""A line of somebody's code, as a finding names it."""

import linecache
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Final, Self, final

import trio
from attrs import frozen

__all__ = ["Site", "await_frames", "is_foreign", "site_of", "site_of_frame"]

_OURS: Final = str(Path(__file__).resolve().parent.parent)
_TRIO: Final = str(Path(trio.__file__).resolve().parent)
_OUTCOME: Final = str(Path(trio.__file__).resolve().parent.parent / "outcome")
"""What trio carries every value and every exception in."""
_LIBRARY: Final = tuple(
    str(Path(path).resolve())
    for path in {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
    if path
)


@cache
def is_foreign(filename: str) -> bool:
    """Return whether a file is part of Python, of trio, or of this package, and so nobody's tool."""
    if filename.startswith("<"):
        return True
    path = str(Path(filename).resolve())
    if path.startswith((_OURS, _TRIO, _OUTCOME)):
        return True
    return path.startswith(_LIBRARY) and "site-packages" not in path


@final
@frozen
class Site:
    """A line of code.

    Attributes:
        file: the path, relative to the working directory where it lies below it.
        line: the line number, from 1.
        function: the qualified name of the function.
    """

    file: str
    line: int
    function: str

    @classmethod
    def of(cls, code: CodeType, line: int) -> Self:
        """Name a line of ``code``."""
        return cls(_shortened(code.co_filename), line, code.co_qualname.replace("<locals>.", ""))

    @classmethod
    def at(cls, file: str, line: int, function: str) -> Self:
        """Name a line of a file that is known by its full path."""
        return cls(_shortened(file), line, function)

    @property
    def text(self) -> str:
        """The source of the line, stripped; empty when it cannot be read."""
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        text = self.text
        return f"{self.file}:{self.line} in {self.function}" + (f": {text}" if text else "")


@cache
def _shortened(filename: str) -> str:
    try:
        return str(Path(filename).resolve().relative_to(Path.cwd()))
    except (ValueError, OSError):
        return filename


def await_frames(coroutine: object) -> Iterator[tuple[FrameType, int]]:
    """Yield the frames and lines of a suspended coroutine, the outermost first."""
    while coroutine is not None:
        frame: FrameType | None
        if (frame := getattr(coroutine, "cr_frame", None)) is not None:
            if not coroutine.cr_suspended:  # type: ignore[attr-defined]
                return  # it has not begun
            coroutine = coroutine.cr_await  # type: ignore[attr-defined]
        elif (frame := getattr(coroutine, "gi_frame", None)) is not None:
            coroutine = coroutine.gi_yieldfrom  # type: ignore[attr-defined]
        elif (frame := getattr(coroutine, "ag_frame", None)) is not None:
            coroutine = coroutine.ag_await  # type: ignore[attr-defined]
        else:
            # The awaitable of an asynchronous generator's step does not lead to the generator; what
            # refers to it does.
            coroutine = _generator_behind(coroutine)
            continue
        yield frame, frame.f_lineno


def _generator_behind(awaitable: object) -> object | None:
    if type(awaitable).__name__ not in {"async_generator_asend", "async_generator_athrow", "anext_awaitable"}:
        return None
    import gc

    for referent in gc.get_referents(awaitable):
        if hasattr(referent, "ag_frame") or type(referent).__name__ == "async_generator_asend":
            return referent
    return None


def site_of(coroutine: object) -> Site | None:
    """Return the innermost line of a suspended coroutine that belongs to a tool rather than a library."""
    found: tuple[FrameType, int] | None = None
    for frame, line in await_frames(coroutine):
        if not is_foreign(frame.f_code.co_filename):
            found = frame, line
    return None if found is None else Site.of(found[0].f_code, found[1])


def site_of_frame(frame: FrameType | None) -> Site | None:
    """Return the innermost line of a running frame that belongs to a tool rather than a library."""
    while frame is not None:
        if not is_foreign(frame.f_code.co_filename):
            return Site.of(frame.f_code, frame.f_lineno)
        frame = frame.f_back
    return None
