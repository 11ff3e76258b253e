"""A line of somebody's code, as a finding names it."""

import gc
import linecache
import os
import sysconfig
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, Self, final

import trio
from attrs import frozen

__all__ = ["Site", "is_foreign", "is_runtime", "site_of", "site_of_frame"]


def _inside(place: str | Path) -> str:
    return f"{Path(place).resolve()}{os.sep}"


# What trio carries every value and every exception in is as little of a tool as trio is.
_FOREIGN: Final = (
    _inside(Path(__file__).parent.parent),
    _inside(Path(trio.__file__).parent),
    _inside(Path(getattr(find_spec("outcome"), "origin", None) or __file__).parent),
)
_LIBRARY: Final = tuple(
    _inside(path) for path in {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")} if path
)


_RUNNER: Final = str(Path(__file__).with_name("_runner.py"))


@cache
def is_foreign(filename: str) -> bool:
    """Return whether a file is part of Python, of trio, or of this package, and so nobody's tool."""
    if filename.startswith("<"):
        return True
    path = str(Path(filename).resolve())
    if path.startswith(_FOREIGN):
        return True
    return path.startswith(_LIBRARY) and "site-packages" not in path


def is_runtime(filename: str) -> bool:
    """Return whether a file is part of this package."""
    return filename.startswith(_FOREIGN[0])


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


def site_of(coroutine: Any) -> Site | None:
    """Return the innermost line of a suspended coroutine that belongs to a tool rather than a library."""
    found: FrameType | None = None
    while coroutine is not None:
        frame: FrameType | None = getattr(coroutine, "cr_frame", None)
        if frame is not None:
            if not coroutine.cr_suspended:
                break  # it has not begun
            coroutine = coroutine.cr_await
        elif (frame := getattr(coroutine, "gi_frame", None)) is not None:
            coroutine = coroutine.gi_yieldfrom
        elif (frame := getattr(coroutine, "ag_frame", None)) is not None:
            coroutine = coroutine.ag_await
        else:
            coroutine = _generator_behind(coroutine)
            continue
        if not is_foreign(frame.f_code.co_filename):
            found = frame
    return None if found is None else Site.of(found.f_code, found.f_lineno)


def _generator_behind(awaitable: object) -> object | None:
    # The awaitable of an asynchronous generator's step does not lead to the generator; what it refers to
    # does.
    if type(awaitable).__name__ not in {"async_generator_asend", "async_generator_athrow", "anext_awaitable"}:
        return None
    for referent in gc.get_referents(awaitable):
        if hasattr(referent, "ag_frame") or type(referent).__name__ == "async_generator_asend":
            return referent
    return None


def site_of_frame(frame: FrameType | None) -> Site | None:
    """Return the innermost line of a running frame that belongs to a tool rather than a library.

    A module that is being imported is at work for the line that imports it.
    """
    found: FrameType | None = None
    while frame is not None:
        name = frame.f_code.co_filename
        if name == _RUNNER:
            break  # what follows is whoever asked for the check
        if name.startswith("<frozen importlib."):
            found = None
        elif found is None and not is_foreign(name):
            found = frame
        frame = frame.f_back
    return None if found is None else Site.of(found.f_code, found.f_lineno)
