"""Checking one tool: what a test, the command line and the pytest plugin call."""

import inspect
import os
import zlib
from collections.abc import Callable
from typing import Any, Final, final

import trio
from attrs import frozen

from trio_tools import Effect, NotLossless, Tool, freeze_value

from ._arguments import ArgumentsError, draw_arguments
from ._case import Case, read_token
from ._course import Course
from ._fixture import Setup
from ._job import answers_of, complaints_of
from ._judges import Complaint
from ._profile import Profile
from ._report import Report
from ._runner import Subject
from ._workers import WorkerError

__all__ = ["CheckError", "SetupError", "ToolCheck", "check_tool", "replay"]

_DEPTH: Final = 512


class CheckError(ValueError):
    """A tool cannot be checked at all: the target, its arguments or its fixture do not work."""


class SetupError(CheckError):
    """A tool could not be checked because its fixture does not work."""


@final
@frozen(kw_only=True)
class ToolCheck:
    """A tool together with how it is to be checked: what a target of the command line or of pytest may be.

    Attributes:
        tool: a `Tool`, or an ``async def`` function.
        arguments: a strategy or a sequence of examples, None to derive them from the schema.
        setup: makes the fixture of each run.
        profile: limits and budget, None for what the caller says.
        max_examples: how many arguments objects are drawn.
    """

    tool: object
    arguments: Any = None
    setup: Setup | None = None
    profile: Profile | None = None
    max_examples: int = 3

    @property
    def name(self) -> str:
        """The name of the tool."""
        return _tool_of(self.tool).name

    @property
    def is_unprepared(self) -> bool:
        """Whether to run the tool may change something, and nobody has said with what, or where."""
        reads_only = _tool_of(self.tool).effect is Effect.READ_ONLY
        return not reads_only and self.arguments is None and self.setup is None

    def run(
        self,
        *,
        profile: Profile | None = None,
        seed: int | None = None,
        processes: int | None = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> Report:
        """Check the tool, as `check_tool` does; ``profile`` holds where the check has none of its own."""
        return check_tool(
            self.tool,
            arguments=self.arguments,
            setup=self.setup,
            profile=self.profile or profile,
            max_examples=self.max_examples,
            seed=seed,
            processes=processes,
            on_progress=on_progress,
        )

    def replay(
        self, token: str, *, profile: Profile | None = None
    ) -> tuple[Case, list[tuple[str, Complaint]]]:
        """Run one case again, as `replay` does."""
        return replay(self.tool, token, setup=self.setup, profile=self.profile or profile)


def check_tool(
    tool: object,
    *,
    arguments: Any = None,
    setup: Setup | None = None,
    profile: Profile | None = None,
    max_examples: int = 3,
    seed: int | None = None,
    processes: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Cancel a tool at every step it takes, look at what becomes of it, and report.

    Every run is made in a process of its own kind, forked from this one, so a tool may hang, fork, exit
    or crash. It must not be called from inside a trio run.

    Args:
        tool: a `Tool`, or an ``async def`` function that makes one.
        arguments: a Hypothesis strategy for the arguments object, or a sequence of examples; derived
            from the tool's schema when left out.
        setup: makes the `Fixture` of each run: a context manager, plain or async.
        profile: limits and budget.
        max_examples: how many arguments objects are drawn.
        seed: what everything is drawn from; derived from the tool's name when left out.
        processes: how many workers; one for each core by default.
        on_progress: told how many runs are done and how many are planned so far.

    Raises:
        CheckError: when the tool cannot be checked; the message is one line. It is a `SetupError` when
            that is its fixture's doing.
    """
    _refuse_inside_trio()
    subject = Subject(tool=_tool_of(tool), setup=setup, profile=profile or Profile())
    chosen = zlib.crc32(subject.tool.name.encode()) if seed is None else seed
    try:
        drawn = draw_arguments(subject.tool, arguments, count=max_examples, seed=chosen)
        for each in drawn:
            freeze_value(each, depth=_DEPTH)
    except ArgumentsError as error:
        raise CheckError(str(error)) from error
    except NotLossless as error:
        raise CheckError(f"the arguments must be lossless JSON: {error}") from error
    if not drawn:
        raise CheckError("there are no arguments to call the tool with")
    check = Course(
        subject=subject,
        seed=chosen,
        processes=processes or _cores(),
        on_progress=on_progress,
    )
    try:
        return check.run(drawn, arguments)
    except WorkerError as error:
        raise SetupError(str(error)) from error


def replay(
    tool: object, token: str, *, setup: Setup | None = None, profile: Profile | None = None
) -> tuple[Case, list[tuple[str, Complaint]]]:
    """Run the one case of a replay token again, in a fresh process.

    Returns:
        the case, and each complaint with the id of its requirement; none when nothing is wrong with it.

    Raises:
        TokenError: when the text is no replay token.
        CheckError: when the tool cannot be checked.
    """
    subject = Subject(tool=_tool_of(tool), setup=setup, profile=profile or Profile())
    case = read_token(token)
    try:
        (answer,) = answers_of(subject, [case], processes=1)
    except WorkerError as error:
        raise SetupError(str(error)) from error
    return case, complaints_of(answer)


def _cores() -> int:
    # Not every system can say which cores this process may use.
    affinity = getattr(os, "sched_getaffinity", None)
    return (os.cpu_count() or 1) if affinity is None else len(affinity(0))


def _refuse_inside_trio() -> None:
    try:
        trio.lowlevel.current_trio_token()
    except RuntimeError:
        return
    raise CheckError("a check starts trio runs of its own: call it from a test that is not async")


def _tool_of(tool: object) -> Tool:
    if isinstance(tool, Tool):
        return tool
    if inspect.iscoroutinefunction(tool):
        try:
            return Tool.from_function(tool)
        except (TypeError, ValueError) as error:
            raise CheckError(f"{getattr(tool, '__name__', tool)!r} cannot be made a tool: {error}") from error
    if callable(tool):
        raise CheckError(f"{getattr(tool, '__name__', tool)!r} is neither a Tool nor an async function")
    raise CheckError(f"a target is a Tool or an async function, not {type(tool).__name__}")
