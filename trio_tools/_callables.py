"""What can be told of a function before it is called: whether it is async, yields, and what it takes."""

import inspect
from collections.abc import Callable
from functools import partial
from types import CodeType
from typing import Any

from ._errors import DefinitionError
from ._text import shown

__all__ = ["called_by", "innermost", "is_async", "misfit", "signature_of", "yields"]


def called_by(fn: Any) -> Any:
    """Returns the function whose code runs first when ``fn`` is called, if it is one that can be told.

    It is found past `functools.partial`, methods and callable objects. What a decorator has wrapped is not
    looked at: a wrapper may do with it as it likes.
    """
    while True:
        if isinstance(fn, partial):
            fn = fn.func  # pyright: ignore[reportUnknownMemberType]
        elif inspect.ismethod(fn):
            fn = fn.__func__
        elif not inspect.isroutine(fn) and not isinstance(fn, type) and inspect.isfunction(_call_of(fn)):
            fn = _call_of(fn)
        else:
            return fn


def innermost(fn: Any) -> Any:
    """Returns the plain function below decorators, `functools.partial`, methods and callable objects."""
    met: list[Any] = []
    # What claims to wrap itself, if by way of others, is found again.
    while not any(fn is each for each in met):
        met.append(fn)
        fn = getattr(fn, "__wrapped__", called_by(fn))
    return fn


def is_async(fn: Any) -> bool:
    """Returns whether calling ``fn`` gives a coroutine, as far as its own code tells."""
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(called_by(fn))


def yields(fn: Any) -> bool:
    """Returns whether ``fn`` is a generator function, ``def`` or ``async def``: calling it runs nothing."""
    fn = called_by(fn)
    if inspect.isasyncgenfunction(fn):
        return True
    code: CodeType | None = getattr(fn, "__code__", None)
    # `types.coroutine` makes something to await of a generator function.
    return inspect.isgeneratorfunction(fn) and not (
        code is not None and code.co_flags & inspect.CO_ITERABLE_COROUTINE
    )


def signature_of(fn: Callable[..., object]) -> inspect.Signature:
    """Returns the signature of ``fn``; raises `DefinitionError` where there is none to be read."""
    try:
        return inspect.signature(fn)
    except Exception as error:
        raise DefinitionError(f"the signature of {shown(fn)} cannot be read: {error}") from error


def misfit(fn: Callable[..., object], /, *args: object, **kwargs: object) -> str | None:
    """Returns why ``fn`` cannot be called with these arguments, None if it can or nobody can tell."""
    try:
        signature = signature_of(fn)
    except DefinitionError:
        return None
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        return str(error)
    return None


def _call_of(fn: object) -> Any:
    return getattr(type(fn), "__call__", None)  # noqa: B004  (it is looked at, not called)
