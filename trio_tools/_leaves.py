"""What came out of a piece of code: a value, errors, interrupts, or nothing but cancellation.

An exception group may mix all of these, and slip past ``except Exception`` and ``except
trio.Cancelled`` alike. Here a group is taken apart once, and everybody asks the leaves (`BO-8`).
"""

import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar, TypeVarTuple, cast, final

import trio
from attrs import define

from ._classification import Came
from ._errors import PolicyError, ToolError, ToolFailure, failure_of, is_kind
from ._text import repair_text

__all__ = [
    "Captured",
    "Leaves",
    "await_foreign",
    "capture",
    "capture_sync",
    "captured_of",
    "close_coroutine",
    "failure_of_errors",
    "leaves_of",
    "log_error",
    "log_uncoded",
    "log_warning",
    "one_of",
]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

logger: Final = logging.getLogger("trio_tools")


@final
@define(eq=False, repr=False)
class Leaves:
    """An exception taken apart.

    Attributes:
        errors: the leaves that are an `Exception`, in order.
        interrupts: those that are neither an `Exception` nor `trio.Cancelled` (`PU-9`).
    """

    errors: tuple[Exception, ...]
    interrupts: tuple[BaseException, ...]


_MEMBERS: Final[Callable[[BaseExceptionGroup[BaseException]], tuple[BaseException, ...]]] = (
    BaseExceptionGroup.exceptions.__get__  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
)
"""Reads the members of a group, whatever its class says that they are."""


def leaves_of(*raised: BaseException) -> Leaves:
    """Take apart what was raised; `trio.Cancelled` leaves are dropped."""
    errors: list[Exception] = []
    interrupts: list[BaseException] = []
    pending: list[BaseException] = list(reversed(raised))
    while pending:
        error = pending.pop()
        if is_kind(error, BaseExceptionGroup):
            pending.extend(reversed(_MEMBERS(error)))
        elif is_kind(error, trio.Cancelled):
            continue
        elif is_kind(error, Exception):
            errors.append(error)
        else:
            interrupts.append(error)
    return Leaves(tuple(errors), tuple(interrupts))


@final
@define(eq=False, repr=False)
class Captured(Generic[T]):
    """How a piece of code ended: with a value, with errors, or with nothing but `trio.Cancelled`."""

    came: Came
    answer: T | None = None
    errors: tuple[Exception, ...] = ()

    def value(self) -> T:
        """Return the value of code that came to one."""
        return self.answer  # pyright: ignore[reportReturnType]


@trio.lowlevel.disable_ki_protection
async def await_foreign(fn: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> T:
    """Await ``fn(*args)``, which a Ctrl-C may interrupt anywhere; the code around it, it may not (`PU-9`)."""
    return await fn(*args)


async def capture(fn: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> Captured[T]:
    """Await ``fn(*args)`` and say how it ended; interrupts alone are raised."""
    try:
        return Captured(Came.SUCCESS, await fn(*args))
    except BaseException as raised:
        return captured_of(raised)


@trio.lowlevel.disable_ki_protection
def capture_sync(fn: Callable[[*Ts], T], *args: *Ts) -> Captured[T]:
    """Call ``fn(*args)`` and say how it ended; interrupts alone are raised."""
    try:
        return Captured(Came.SUCCESS, fn(*args))
    except BaseException as raised:
        return captured_of(raised)


def captured_of(raised: BaseException) -> Captured[Any]:
    """Say how a piece of code ended that raised; interrupts alone are raised on."""
    leaves = leaves_of(raised)
    if leaves.interrupts:
        raise raised
    return Captured(Came.RAISED if leaves.errors else Came.CANCELLED, None, leaves.errors)


def one_of(interrupts: Sequence[BaseException]) -> BaseException:
    """Return an interrupt, or a group of several."""
    if len(interrupts) == 1:
        return interrupts[0]
    return BaseExceptionGroup("tool calls were interrupted", interrupts)


def failure_of_errors(errors: tuple[Exception, ...], *, code: str, masked: str | None) -> ToolFailure:
    """Describe one error, or several as one: their texts joined, a code if all share it (`BO-8`).

    Args:
        code: that of errors that bring none of their own.
        masked: replaces the text of uncoded errors (`JS-11`), None to show it.
    """
    failures = [
        failure_of(error, code=code, masked=None if is_kind(error, PolicyError) else masked)
        for error in errors
    ]
    # Not every text can be encoded, and the message goes wherever the content goes.
    failures = [ToolFailure(repair_text(each.message), each.code, each.name) for each in failures]
    if len(failures) == 1:
        return failures[0]
    codes = {failure.code for failure in failures}
    names = {failure.name for failure in failures}
    return ToolFailure(
        "; ".join(failure.message for failure in failures),
        codes.pop() if len(codes) == 1 else code,
        names.pop() if len(names) == 1 else "ExceptionGroup",
    )


def close_coroutine(answer: object) -> None:
    """Close a coroutine that nobody will await, so that it does not complain later, out of place."""
    with suppress(Exception):
        if isinstance(answer, Coroutine):
            cast("Coroutine[object, object, object]", answer).close()


def log_error(message: str, *args: object, error: BaseException | None = None) -> None:
    """Log at ERROR, with the traceback of ``error``; a handler that raises is nobody's problem (`PU-6`)."""
    with suppress(Exception):
        logger.error(message, *args, exc_info=error)


def log_warning(message: str, *args: object) -> None:
    """Log at WARNING; as for an error, a handler that raises is nobody's problem."""
    with suppress(Exception):
        logger.warning(message, *args)


def log_uncoded(who: str, errors: tuple[Exception, ...]) -> None:
    """Log errors that nobody raised on purpose, with their tracebacks (`PU-10`)."""
    for error in errors:
        if not is_kind(error, ToolError):
            log_error("%s raised %s", who, type(error).__name__, error=error)
