"""What is told of a function before it is called."""

import functools
import sys
import types
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from trio_tools._callables import called_by, innermost, is_async, misfit, yields


def plain(a: int) -> int:
    return a


async def waits(a: int) -> int:
    return a


def steps() -> Iterator[int]:
    yield 1


async def streams() -> AsyncIterator[int]:
    yield 1


@types.coroutine
def awaited() -> Iterator[int]:
    yield 1


class Both:
    async def __call__(self, a: int) -> int:
        return a

    def method(self, a: int) -> int:
        return a

    @functools.wraps(waits)
    def decorated(self, *args: Any) -> Any:
        return waits(*args)


@functools.wraps(waits)
def wraps_async(*args: Any) -> Any:
    return waits(*args)


@functools.wraps(steps)
def wraps_steps() -> list[int]:
    return list(steps())


@pytest.mark.parametrize(
    ("fn", "called", "inside"),
    [
        (plain, plain, plain),
        (Both().method, Both.method, Both.method),
        (Both(), Both.__call__, Both.__call__),
        (Both, Both, Both),
        (len, len, len),
        (wraps_async, wraps_async, waits),
        (functools.partial(wraps_async, 1), wraps_async, waits),
        (functools.partial(functools.partial(Both()), 1), Both.__call__, Both.__call__),
        (Both().decorated, Both.decorated, waits),
        (functools.partial(Both().decorated), Both.decorated, waits),
    ],
)
def test_the_function_behind_a_callable(fn: Any, called: Any, inside: Any) -> None:
    assert called_by(fn) is called
    assert innermost(fn) is inside


def test_a_cache_is_looked_through_but_not_called_into() -> None:
    cached: Any = functools.lru_cache(waits)

    assert called_by(cached) is cached
    assert innermost(cached) is waits
    assert not is_async(cached)


@pytest.mark.parametrize(
    ("fn", "told"),
    [
        (plain, False),
        (waits, True),
        (Both(), True),
        (Both, False),
        (Both().method, False),
        (functools.partial(waits, 1), True),
        (functools.partial(Both(), 1), True),
        (wraps_async, False),
        (streams, False),
        (len, False),
    ],
)
def test_whether_a_callable_is_async(fn: Any, told: bool) -> None:
    assert is_async(fn) is told


@pytest.mark.skipif(sys.version_info < (3, 12), reason="functions can be marked since Python 3.12")
def test_a_function_that_is_marked_is_async() -> None:
    import inspect

    marked: Any = getattr(inspect, "markcoroutinefunction")(lambda: waits(1))  # noqa: B009

    assert is_async(marked)


@pytest.mark.parametrize(
    ("fn", "told"),
    [
        (plain, False),
        (steps, True),
        (streams, True),
        (functools.partial(steps), True),
        (awaited, False),
        (wraps_steps, False),
        (range, False),
        (Both(), False),
    ],
)
def test_whether_a_callable_is_a_generator_function(fn: Any, told: bool) -> None:
    assert yields(fn) is told


class Unreadable:
    @property
    def __signature__(self) -> Any:
        raise RuntimeError("no")

    def __call__(self) -> None: ...


def test_why_a_callable_does_not_fit() -> None:
    assert misfit(plain, 1) is None
    assert misfit(plain, a=1) is None
    assert misfit(plain) == "missing a required argument: 'a'"
    assert misfit(plain, 1, 2) == "too many positional arguments"
    assert misfit(iter, 1, 2, 3) is None
    assert misfit(Unreadable(), 1) is None
