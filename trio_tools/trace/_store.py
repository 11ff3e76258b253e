"""A store of runs, as programs and readers use it."""

import os
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from math import isfinite
from pathlib import Path
from typing import Final, final

import trio

from ._access import Access
from ._cancels import CancelPolls, CancelWatch
from ._rows import EventRow, FenceRow, RunRow, RunRows, column_text, span_of
from ._sql import (
    ASK_CANCEL,
    COUNT_FENCES,
    SELECT_EVENTS,
    SELECT_FENCES,
    SELECT_PAYLOADS,
    SELECT_RUN,
    SELECT_RUNS,
    Database,
    RunStoreError,
)
from ._sqlite import SqliteDatabase, Synchronous
from ._writing import RowQueue, RunWriter, StoreStatistics

__all__ = ["RunStore", "open_store", "serving"]


@final
class RunStore:
    """A store of runs, opened by `open_store`.

    It is used within one trio run. Methods that read see whatever was recorded before they were called; they
    wait for the disk or the wire on a worker thread, and can be cancelled before that begins.
    """

    def __init__(self, access: Access, queue: RowQueue, polls: CancelPolls) -> None:
        self._access: Final = access
        self._queue: Final = queue
        self._polls: Final = polls

    def statistics(self) -> StoreStatistics:
        """Return what the store has done so far, and the first failure if there was one."""
        return self._queue.statistics()

    def writer(self, run_id: str) -> RunWriter:
        """Return the writer of a new run; `RunTrace` does this for you.

        Raises:
            RunStoreError: the store is closed.
        """
        return self._queue.writer(run_id)

    async def flush(self) -> None:
        """Wait until everything that was recorded so far has been written, or has failed."""
        await self._queue.flush()

    async def runs(self) -> list[RunRow]:
        """Return the stored runs, the newest first.

        Raises:
            RunStoreError: they cannot be read.
        """
        await self.flush()
        return [_run_row(row) for row in await self._access.read(SELECT_RUNS)]

    async def load(self, run_id: str) -> RunRows:
        """Return everything that is stored about a run at this moment; `RunTimeline.load` makes sense of it.

        Raises:
            LookupError: no such run.
            RunStoreError: it cannot be read.
        """
        await self.flush()
        key = (column_text(run_id),)
        # At one moment: a call that ends in between would be no step yet and no fence any more.
        found, events, fences = await self._access.snapshot(
            (SELECT_RUN, key), (SELECT_EVENTS, key), (SELECT_FENCES, key)
        )
        if not found:
            raise LookupError(f"no run {run_id!r} in this store")
        return RunRows(_run_row(found[0]), tuple(map(_event_row, events)), tuple(map(_fence_row, fences)))

    async def payloads(self, run_id: str) -> tuple[list[object], int]:
        """Return the payload of each event of a run and how many fences stand: enough to count outcomes.

        Raises:
            RunStoreError: they cannot be read.
        """
        await self.flush()
        key = (column_text(run_id),)
        payloads, ((fences,),) = await self._access.snapshot((SELECT_PAYLOADS, key), (COUNT_FENCES, key))
        return [payload for (payload,) in payloads], _whole(fences)

    async def request_cancel(self, run_id: str, reason: str | None = None) -> bool:
        """Ask for a run to be cancelled; the process that executes it notices within about a second.

        Args:
            run_id: which run.
            reason: why; the cause of the calls that are cancelled will carry it. It stays in the store until
                the run has ended, at any level of privacy.

        Returns:
            Whether this was the ask that counts: not if the run is unknown, has ended, or was asked before.

        Raises:
            RunStoreError: the store cannot be written.
        """
        await self.flush()
        row = (time.time(), None if reason is None else column_text(reason), column_text(run_id))
        return await self._access.write(lambda database: database.update(ASK_CANCEL, row)) == 1

    def watch(self, run_id: str, on_cancel: Callable[[str | None], object]) -> CancelWatch:
        """Call ``on_cancel`` once, in the trio thread, as soon as somebody is found to have asked for it.

        It is given the reason of the ask, None if there was none.
        The store is asked at once, and from then on at most once a second. An ask that was seen stays; a
        store that cannot be read is asked again, and is never taken for a cancel.
        """
        return self._polls.watch(run_id, on_cancel)


def _database_of(target: str | os.PathLike[str], synchronous: Synchronous, *, create: bool) -> Database:
    text = os.fspath(target)
    if text.startswith(("postgresql://", "postgres://", "postgresql+psycopg://")):
        from ._postgres import PostgresDatabase

        return PostgresDatabase(text.replace("+psycopg", "", 1))
    return SqliteDatabase(text, synchronous=synchronous, create=create)


@asynccontextmanager
async def open_store(
    path_or_url: str | os.PathLike[str], *, create: bool = True, synchronous: Synchronous = "full"
) -> AsyncGenerator[RunStore]:
    """Open a store of runs: a SQLite file, ``:memory:``, or a ``postgresql://`` URL.

    Leaving the block commits everything that was recorded, shielded from cancellation (`TR-9`), marks the
    runs as ended, and then raises the first error of a terminal step that could not be stored (`TR-11`),
    unless the block itself raised.

    Args:
        path_or_url: where the runs are, or will be, stored. The folder of a file must exist.
        create: whether a SQLite file that does not exist, or is empty, becomes a store.
        synchronous: for SQLite; ``full`` survives a power cut, ``normal`` a crash of the program only.

    Raises:
        FileNotFoundError: there is no such file, and ``create`` is False.
        RunStoreError: it cannot be opened, or is the file of another program; or, on leaving, a terminal
            step could not be stored.
        StoreVersionError: a newer version of the library wrote it.
    """
    database = _database_of(path_or_url, synchronous, create=create)
    if isinstance(database, SqliteDatabase) and database.blocks and not create:
        path = Path(path_or_url)
        if not await trio.to_thread.run_sync(path.exists):
            raise FileNotFoundError(f"no store at {path}")
    async with serving(database) as store:
        yield store


@asynccontextmanager
async def serving(database: Database) -> AsyncGenerator[RunStore]:
    """Open a store on any database, and close it as `open_store` says."""
    access = Access(database)
    queue = RowQueue(access)
    polls = CancelPolls(access)
    await access.open()
    raised: BaseException | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(queue.run)
        nursery.start_soon(polls.run)
        try:
            yield RunStore(access, queue, polls)
        except BaseException as error:  # noqa: ASYNC103, BLE001
            # Raised again below, outside the nursery, which would wrap it in a group.
            raised = error
        with trio.CancelScope(shield=True):
            await queue.close()
            await access.close()
        nursery.cancel_scope.cancel()
    if raised is not None:
        raise raised
    loss = queue.first_loss()
    if loss is not None:
        raise RunStoreError(f"a step of a run could not be stored: {loss}") from loss


def _run_row(row: Sequence[object]) -> RunRow:
    run_id, started, finished, cancelled = row
    return RunRow(
        run_id=str(run_id),
        started_at=_seconds(started) or 0.0,
        finished_at=_seconds(finished),
        cancel_requested_at=_seconds(cancelled),
    )


def _event_row(row: Sequence[object]) -> EventRow:
    sequence, second, kind, payload, *span = row
    return EventRow(
        sequence=sequence if isinstance(sequence, int) else None,
        second=_whole(second),
        kind=kind if isinstance(kind, str) else "",
        payload=payload,
        span=span_of(span),
    )


def _fence_row(row: Sequence[object]) -> FenceRow:
    second, tool, number, *span = row
    return FenceRow(
        second=_whole(second),
        tool=tool if isinstance(tool, str) else "",
        round=_whole(number),
        span=span_of(span),
    )


def _seconds(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and isfinite(value) else None


def _whole(value: object) -> int:
    return int(value) if isinstance(value, int | float) and isfinite(value) else 0
