"""How trio reaches a database: on worker threads if it may block, one for writes and one for reads."""

from collections.abc import Callable
from typing import Final, TypeVar, final

import trio

from ._sql import Database, Parameters, Query, RunStoreError

__all__ = ["Access"]

_T = TypeVar("_T")


@final
class Access:
    """A database behind two threads of its own, until it is closed."""

    def __init__(self, database: Database) -> None:
        self._database: Final = database
        self._closed = False
        # Of their own, so that a program that fills trio's default limiter does not hold back its record.
        self._writing: Final = trio.CapacityLimiter(1)
        self._reading: Final = trio.CapacityLimiter(1)

    async def open(self) -> None:
        """Connect, and bring the tables up to date."""
        await self.write(lambda database: database.open())

    async def write(self, work: Callable[[Database], _T]) -> _T:
        """Do something to the database, after whatever is being done to it."""
        return await self._call(work, self._writing)

    async def read(self, sql: str, row: Parameters = ()) -> list[tuple[object, ...]]:
        """Return the rows of a query, while writes go on."""
        return await self._call(lambda database: database.read(sql, row), self._reading)

    async def snapshot(self, *queries: Query) -> list[list[tuple[object, ...]]]:
        """Return the rows of several queries as they were at one moment, while writes go on."""
        return await self._call(lambda database: database.snapshot(queries), self._reading)

    async def close(self) -> None:
        """Disconnect; later calls raise `RunStoreError`."""
        try:
            await self.write(lambda database: database.close())
        finally:
            self._closed = True

    async def _call(self, work: Callable[[Database], _T], limiter: trio.CapacityLimiter) -> _T:
        if self._closed:
            raise RunStoreError("the store is closed")
        if not self._database.blocks:
            await trio.lowlevel.checkpoint()
            return work(self._database)
        return await trio.to_thread.run_sync(work, self._database, limiter=limiter)
