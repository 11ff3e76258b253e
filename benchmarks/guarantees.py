"""What a way to call tools promises, found out by calling it with bodies that put the promise to the test.

Each probe answers for the row as it is measured: a peer may promise more when it is asked to.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final

import trio

from .peers import Peer

__all__ = ["GUARANTEES", "guarantees_of"]

_SOON: Final = 0.05
_LATE: Final = 1.0

GUARANTEES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "own task": "the body runs in a task of its own",
        "deadline": "a body that waits for too long is stopped",
        "waits": "a cancelled call ends only after its body has cleaned up",
        "quiet": "a task that the body has started, as its loop does it, has ended when the call ends",
        "checked": "arguments of another type never reach the body",
        "kept": "a body that changes its arguments does not change the caller's",
        "value": "a value of another type than declared is no success",
    }
)


def _on_trio() -> bool:
    try:
        trio.lowlevel.current_task()
    except RuntimeError:
        return False
    return True


def _task() -> object:
    return trio.lowlevel.current_task() if _on_trio() else asyncio.current_task()


async def _sleep(seconds: float) -> None:
    if _on_trio():
        await trio.sleep(seconds)
    else:
        await asyncio.sleep(seconds)


async def _clean_up(seconds: float) -> None:
    # On asyncio a cancellation is told once; on trio it holds until the end, so cleaning up takes a shield.
    if _on_trio():
        with trio.CancelScope(shield=True):
            await trio.sleep(seconds)
    else:
        await asyncio.sleep(seconds)


async def _cut(call: Callable[[], Awaitable[object]], seconds: float) -> None:
    """Cancel a call from outside after a while."""
    if _on_trio():
        with trio.move_on_after(seconds), suppress(Exception):
            await call()
        return

    async def awaited() -> None:
        await call()

    task = asyncio.ensure_future(awaited())
    await asyncio.sleep(seconds)
    task.cancel()
    with suppress(Exception, asyncio.CancelledError):
        await task


async def _answer(call: Awaitable[object]) -> object:
    """Return what a call returned, or the error that it raised."""
    try:
        return await call
    except Exception as error:  # noqa: BLE001  (an error of whatever kind is the answer)
        return error


def _is_error(answer: object) -> bool:
    flagged = any(getattr(answer, name, False) is True for name in ("is_error", "isError"))
    return flagged or isinstance(answer, Exception)


async def _own_task(peer: Peer) -> bool:
    seen: list[object] = []

    async def probe() -> int:
        seen.append(_task())
        return 1

    async with peer.open(probe, _LATE) as call:
        await call({})
    return seen[0] is not _task()


async def _deadline(peer: Peer) -> bool:
    stopped: list[bool] = []

    async def probe() -> int:
        try:
            await _sleep(_LATE)
        except BaseException:
            stopped.append(True)
            raise
        return 1

    async with peer.open(probe, _SOON) as call:
        await _answer(call({}))
        return bool(stopped)


async def _waits(peer: Peer) -> bool:
    ended: list[bool] = []

    async def probe() -> int:
        try:
            await _sleep(_LATE)
        finally:
            await _clean_up(_SOON)
            ended.append(True)
        return 1

    async with peer.open(probe, 10 * _LATE) as call:
        await _cut(lambda: call({}), _SOON)
        return bool(ended)


async def _quiet(peer: Peer) -> bool:
    ended: list[bool] = []
    started: list[object] = []

    async def helper() -> None:
        await _sleep(_SOON)
        ended.append(True)

    async def probe() -> int:
        if _on_trio():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(helper)
        else:
            started.append(asyncio.ensure_future(helper()))
        return 1

    async with peer.open(probe, _LATE) as call:
        await call({})
        return bool(ended)


async def _checked(peer: Peer) -> bool:
    seen: list[int] = []

    async def probe(number: int) -> int:
        seen.append(number)
        return 1

    async with peer.open(probe, _LATE) as call:
        await _answer(call({"number": "a word"}))
    return not seen


async def _kept(peer: Peer) -> bool:
    async def probe(numbers: list[int]) -> int:
        with suppress(TypeError):
            numbers.append(2)
        return 1

    numbers = [1]
    async with peer.open(probe, _LATE) as call:
        await _answer(call({"numbers": numbers}))
    return numbers == [1]


async def _value(peer: Peer) -> bool:
    async def probe() -> int:
        answer: Any = "a word"
        return answer

    async with peer.open(probe, _LATE) as call:
        answer = await _answer(call({}))
    return _is_error(answer) or "a word" not in str(answer)


_PROBES: Final[Mapping[str, Callable[[Peer], Awaitable[bool]]]] = MappingProxyType(
    {
        "own task": _own_task,
        "deadline": _deadline,
        "waits": _waits,
        "quiet": _quiet,
        "checked": _checked,
        "kept": _kept,
        "value": _value,
    }
)


def guarantees_of(peer: Peer) -> dict[str, bool]:
    """Put each promise to the test, in a run of its own."""

    async def probe(name: str) -> bool:
        return await _PROBES[name](peer)

    # What the probes provoke is logged by whoever is provoked.
    logging.disable(logging.CRITICAL)
    try:
        if peer.loop == "trio":
            return {name: trio.run(probe, name) for name in GUARANTEES}
        return {name: asyncio.run(probe(name)) for name in GUARANTEES}
    finally:
        logging.disable(logging.NOTSET)
