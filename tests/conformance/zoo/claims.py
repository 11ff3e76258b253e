"""TT-19 to TT-23: what a tool declares of itself, and what its world must look like."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import trio

from tests.conformance.zoo.specimen import breaks, keeps
from trio_tools import Effect, tool


class Store:
    """A small world: a dict of lists, fresh for each run."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        self.log: list[str] = []
        self.lock = trio.Lock()

    def __enter__(self) -> Self:
        current[:] = [self]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        current.clear()

    def snapshot(self) -> object:
        return dict(self.rows), list(self.log)


current: list[Store] = []


@breaks("TT-19", setup=Store)
@tool(effect=Effect.IDEMPOTENT_WRITE)
async def appends_each_time() -> None:
    await trio.lowlevel.checkpoint()
    current[0].log.append("written")


@breaks("TT-19", setup=Store)
@tool(effect=Effect.IDEMPOTENT_WRITE)
async def counts_its_attempts() -> None:
    rows = current[0].rows
    if "done" in rows:
        return
    rows["attempts"] = rows.get("attempts", 0) + 1
    await trio.sleep(1)
    rows["done"] = 1


@keeps("TT-19", setup=Store)
@tool(effect=Effect.IDEMPOTENT_WRITE)
async def sets_a_row() -> None:
    await trio.lowlevel.checkpoint()
    current[0].rows["a"] = 1


@keeps("TT-19", setup=Store)
@tool(effect=Effect.IDEMPOTENT_WRITE)
async def sets_two_rows_in_two_steps() -> None:
    current[0].rows["a"] = 1
    await trio.sleep(1)
    current[0].rows["b"] = 2


@breaks("TT-20", setup=Store)
@tool(effect=Effect.READ_ONLY)
async def counts_its_readers() -> int:
    rows = current[0].rows
    rows["reads"] = rows.get("reads", 0) + 1
    await trio.lowlevel.checkpoint()
    return 0


@breaks("TT-20", setup=Store)
@tool(effect=Effect.READ_ONLY)
async def writes_down_that_it_was_cancelled() -> int:
    try:
        await trio.sleep(1)
    except trio.Cancelled:
        current[0].log.append("cancelled")
        raise
    return 0


@keeps("TT-20", setup=Store)
@tool(effect=Effect.READ_ONLY)
async def counts_the_rows() -> int:
    await trio.lowlevel.checkpoint()
    return len(current[0].rows)


@keeps("TT-20", setup=Store)
@tool(effect=Effect.READ_ONLY)
async def takes_a_lock_and_gives_it_back() -> int:
    rows = current[0].rows
    rows["locked"] = 1
    try:
        await trio.sleep(1)
    finally:
        del rows["locked"]
    return 0


@breaks("TT-21", setup=Store)
@tool(concurrency_safe=True)
async def reads_waits_and_writes() -> int:
    rows = current[0].rows
    count = rows.get("count", 0)
    await trio.lowlevel.checkpoint()
    rows["count"] = count + 1
    return count


scratch: list[int] = []


@breaks("TT-21", setup=Store, arguments=[{"number": 1}, {"number": 2}])
@tool(concurrency_safe=True)
async def shares_a_scratchpad(number: int) -> list[int]:
    scratch.clear()
    scratch.append(number)
    await trio.lowlevel.checkpoint()
    return list(scratch)


@keeps("TT-21", setup=Store)
@tool(concurrency_safe=True)
async def reads_waits_and_writes_under_a_lock() -> int:
    rows = current[0].rows
    async with current[0].lock:
        count = rows.get("count", 0)
        await trio.lowlevel.checkpoint()
        rows["count"] = count + 1
    return count


@keeps("TT-21", setup=Store, arguments=[{"number": 1}, {"number": 2}])
@tool(concurrency_safe=True)
async def has_a_scratchpad_of_its_own(number: int) -> list[int]:
    own = [number]
    await trio.lowlevel.checkpoint()
    return own


@breaks("TT-22")
@tool(timeout=0.5)
async def overruns_behind_a_shield() -> None:
    with trio.CancelScope(shield=True):
        await trio.sleep(2)


@breaks("TT-22")
@tool(timeout=1)
async def overruns_while_cleaning_up() -> None:
    try:
        await trio.sleep(10)
    except trio.Cancelled:
        with trio.CancelScope(shield=True):
            await trio.sleep(3)
        raise


@keeps("TT-22")
@tool(timeout=1)
async def is_cut_short_by_its_timeout() -> None:
    await trio.sleep(10)


@keeps("TT-22")
@tool(timeout=1)
async def cleans_up_within_the_grace() -> None:
    try:
        await trio.sleep(0.5)
    finally:
        with trio.CancelScope(shield=True):
            await trio.sleep(0.2)


class Post:
    """Letters, each of which must be in one place."""

    def __init__(self) -> None:
        self.inbox = ["a", "b", "c"]
        self.outbox: list[str] = []

    def __enter__(self) -> Self:
        office[:] = [self]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        office.clear()

    def invariant(self) -> None:
        assert sorted(self.inbox + self.outbox) == ["a", "b", "c"], "a letter was lost"


office: list[Post] = []


@breaks("TT-23", setup=Post)
@tool
async def holds_a_letter_while_it_waits() -> None:
    post = office[0]
    while post.inbox:
        letter = post.inbox.pop()
        await trio.sleep(1)
        post.outbox.append(letter)


async def taken(post: Post) -> str:
    letter = post.inbox.pop()
    with trio.CancelScope(shield=True):
        await trio.sleep(1)
    return letter


@breaks("TT-23", setup=Post)
@tool
async def loses_what_a_wait_had_given_it() -> None:
    post = office[0]
    letter = await taken(post)
    await trio.lowlevel.checkpoint()
    post.outbox.append(letter)


@keeps("TT-23", setup=Post)
@tool
async def moves_a_letter_in_one_step() -> None:
    post = office[0]
    while post.inbox:
        await trio.sleep(1)
        post.outbox.append(post.inbox.pop())


@keeps("TT-23", setup=Post)
@tool
async def puts_a_letter_back() -> None:
    post = office[0]
    letter = post.inbox.pop()
    try:
        await trio.sleep(1)
    except BaseException:
        post.inbox.append(letter)
        raise
    post.outbox.append(letter)
