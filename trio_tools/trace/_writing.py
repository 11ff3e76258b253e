"""The one task that writes a store, and the queue that feeds it.

Theory of operation. Whoever records puts a `Unit` into the queue, synchronously, and goes on. One task,
shielded from every cancellation, takes what has queued up, writes it in one transaction on a worker thread,
and wakes those who wait for it. While a commit is under way the queue grows, so the busier a program is,
the more units share a commit. Nothing that a call's scope governs ever writes: a row that was recorded is
committed even if everything is cancelled (`TR-9`).

A unit is what must be stored together: a terminal step, the write it reports, and the end of its own fence
(`TR-7`). Sequence numbers are given when a transaction is put together and count only once it was
committed, so that a unit that fails leaves no gap (`TR-10`). If a group fails it is halved until the broken
unit is alone: that one is lost, and takes no other with it.
"""

import logging
import os
import time
from collections import deque
from collections.abc import Sequence
from typing import Final, final

import trio
from attrs import define, field, frozen

from ._access import Access
from ._rows import Columns, FenceRow, column_text, columns_of_span
from ._sql import (
    DROP_FENCE,
    FINISH,
    INSERT_EVENT,
    INSERT_FENCE,
    LAST_SEQUENCE,
    Claim,
    Database,
    Parameters,
    RunStoreError,
    Statement,
    run_exists,
)

__all__ = ["RowQueue", "RunWriter", "StoreStatistics", "Unit"]

_logger: Final = logging.getLogger("trio_tools")

# Enough to make the cost of a commit vanish, few enough that those who wait for one do not wait long.
_GROUP: Final = 5000


@final
@frozen
class StoreStatistics:
    """What a store has done so far.

    Attributes:
        rows: events committed.
        commits: transactions that committed them, and fences.
        queued: units that wait for the writer task.
        failures: units that could not be written.
        error: the text of the first failure, None if there was none.
    """

    rows: int
    commits: int
    queued: int
    failures: int
    error: str | None


@final
@define(eq=False)
class Unit:
    """What is stored in one transaction, or not at all.

    Attributes:
        writer: whose run it belongs to; None for a mark that only waits for what was queued before it.
        fence: the number of a fence to set up, and its row.
        ends: the numbers of fences to end.
        events: rows to which the writer task adds their run and their sequence.
        settled: set once the unit was written or has failed.
        error: why it could not be written.
    """

    writer: "RunWriter | None"
    fence: tuple[int, FenceRow] | None = None
    ends: Sequence[int] = ()
    events: Sequence[Columns] = ()
    settled: trio.Event | None = None
    error: BaseException | None = None


@final
@define(eq=False)
class RunWriter:
    """The one writer of one run (`TR-10`); a second one for the same run fails at its first row."""

    run_id: str
    queue: "RowQueue"
    claim: Claim
    claimed: bool = field(default=False, init=False)
    taken: BaseException | None = field(default=None, init=False)
    next_sequence: int = field(default=0, init=False)
    # What the next one will be if the transaction that is being put together is committed.
    sequence: int = field(default=0, init=False)
    transaction: "_Transaction | None" = field(default=None, init=False)
    lost: BaseException | None = field(default=None, init=False)
    _fences: int = field(default=0, init=False)

    def new_fence(self) -> int:
        """Return a number that no other fence of this run has."""
        self._fences += 1
        return self._fences

    def put(self, unit: Unit) -> None:
        """Queue a unit; it is committed even if everything is cancelled (`TR-9`). Does not block."""
        self.queue.put(unit)

    async def commit(self, unit: Unit) -> None:
        """Queue a unit and wait until it is committed.

        Raises:
            RunStoreError: it could not be committed.
            trio.Cancelled: the caller was cancelled while it waited; the unit is still written.
        """
        unit.settled = trio.Event()
        self.put(unit)
        await unit.settled.wait()
        if unit.error is not None:
            raise RunStoreError(f"the store could not write: {unit.error}") from unit.error


@final
class RowQueue:
    """Units on their way into the database, and the account of those that arrived."""

    def __init__(self, access: Access) -> None:
        self._access: Final = access
        self._units: Final[deque[Unit]] = deque()
        self._wake = trio.Event()
        self._closing = False
        self._drained: Final = trio.Event()
        self._committing = False
        self._writers: Final[list[RunWriter]] = []
        self._rows = self._commits = self._failures = 0
        self._first_failure: str | None = None

    def statistics(self) -> StoreStatistics:
        """Return what was done so far."""
        return StoreStatistics(
            self._rows, self._commits, len(self._units), self._failures, self._first_failure
        )

    def writer(self, run_id: str) -> RunWriter:
        """Return the writer of a new run, and queue its claim to be the only one.

        Raises:
            RunStoreError: the store is closed.
        """
        if self._closing:
            raise RunStoreError("the store is closed")
        run_id = column_text(run_id)
        writer = RunWriter(run_id, self, (run_id, os.urandom(8).hex(), time.time()))
        self._writers.append(writer)
        self.put(Unit(writer))
        return writer

    def put(self, unit: Unit) -> None:
        """Queue a unit. Does not block."""
        if self._drained.is_set():
            self._fail(unit, RunStoreError("the store is closed"))
            _settle([unit])
            return
        if not self._units:
            # Whoever takes units sleeps only where there is none.
            self._wake.set()
        self._units.append(unit)

    async def flush(self) -> None:
        """Wait until everything that was queued so far has been written, or has failed."""
        if self._drained.is_set() or not (self._units or self._committing):
            await trio.lowlevel.checkpoint()
            return
        everything = trio.Event()
        self.put(Unit(None, settled=everything))
        await everything.wait()

    async def run(self) -> None:
        """Write what is queued, until `close` was called and everything is written."""
        with trio.CancelScope(shield=True):
            while self._units or not self._closing:
                if not self._units:
                    self._wake = trio.Event()
                    await self._wake.wait()
                    continue
                group = [self._units.popleft() for _ in range(min(len(self._units), _GROUP))]
                self._committing = True
                try:
                    await self._access.write(lambda database, group=group: self._write(database, group))
                except Exception as error:  # noqa: BLE001
                    # No thread to be had, say: the rows are lost, and their fences stay.
                    for unit in group:
                        self._fail(unit, error)
                finally:
                    self._committing = False
                _settle(group)
            self._drained.set()

    async def close(self) -> None:
        """Wait until everything is written, and mark the runs as ended."""
        self._closing = True
        self._wake.set()
        await self._drained.wait()
        now = time.time()
        rows = [(now, writer.run_id, writer.claim[1]) for writer in self._writers if writer.claimed]
        try:
            if rows:
                await self._access.write(lambda database: database.write((), [(FINISH, rows)]))
        except Exception as error:
            _logger.log(logging.ERROR, "runs could not be marked as ended", exc_info=error)

    def first_loss(self) -> BaseException | None:
        """Return why the first step that is lost could not be written, None if none is."""
        return next((writer.lost for writer in self._writers if writer.lost is not None), None)

    def _write(self, database: Database, group: list[Unit]) -> None:
        alive: list[Unit] = []
        for unit in group:
            writer = unit.writer
            if writer is not None and writer.taken is not None:
                self._fail(unit, writer.taken)
            elif writer is not None:
                alive.append(unit)
        if not alive:
            return
        try:
            self._commit(database, alive)
        except Exception as error:  # noqa: BLE001
            if len(alive) == 1:
                self._fail(alive[0], error)
                return
            half = len(alive) // 2
            self._write(database, alive[:half])
            self._write(database, alive[half:])

    def _commit(self, database: Database, units: list[Unit]) -> None:
        transaction = _Transaction()
        for unit in units:
            transaction.add(unit)
        statements = transaction.statements()
        if statements or transaction.claims:
            try:
                database.write(transaction.claims.values(), statements)
            except Exception:
                if not _arrived(database, transaction):
                    raise
            self._commits += 1
            self._rows += len(transaction.events)
        for writer in transaction.writers:
            writer.claimed = True
            writer.next_sequence = writer.sequence
            writer.transaction = None

    def _fail(self, unit: Unit, error: BaseException) -> None:
        unit.error = error
        writer = unit.writer
        if writer is None:
            return
        if not writer.claimed and isinstance(error, RunStoreError):
            writer.taken = error
        if unit.events and writer.lost is None:
            writer.lost = error
        first = self._failures == 0
        self._failures += 1
        if first:
            self._first_failure = f"{type(error).__name__}: {error}"
        # One line with a traceback for a store that is broken; one for each row would drown it.
        _logger.log(
            logging.ERROR if first else logging.DEBUG,
            "run %s: a row could not be stored%s",
            writer.run_id,
            f"; {_consequence(unit)}; later failures are logged at DEBUG" if first else "",
            exc_info=error,
        )


def _consequence(unit: Unit) -> str:
    if unit.fence is not None:
        return "the call that it was to announce is not started"
    return "a call that it ends stays unknown"


def _settle(group: Sequence[Unit]) -> None:
    for unit in group:
        if unit.settled is not None:
            unit.settled.set()


def _arrived(database: Database, transaction: "_Transaction") -> bool:
    """Tell whether a transaction whose commit raised was committed all the same, as when a wire broke."""
    if transaction.claims or not transaction.events:
        return False
    writer = next(writer for writer in transaction.writers if writer.sequence > writer.next_sequence)
    try:
        return database.read(LAST_SEQUENCE, (writer.run_id,)) == [(writer.sequence - 1,)]
    except Exception:  # noqa: BLE001
        return False


@final
class _Transaction:
    """The rows of a group of units, by statement; their order makes a fence stand before it ends."""

    def __init__(self) -> None:
        self.claims: Final[dict[str, Claim]] = {}
        self.writers: Final[list[RunWriter]] = []
        self.fences: Final[list[Parameters]] = []
        self.events: Final[list[Parameters]] = []
        self.ends: Final[list[Parameters]] = []

    def add(self, unit: Unit) -> None:
        writer = unit.writer
        if writer is None:
            return
        if writer.transaction is not self:
            self._enter(writer)
        run_id = writer.run_id
        if unit.fence is not None:
            number, fence = unit.fence
            columns = columns_of_span(fence.span)
            self.fences.append((run_id, number, fence.second, fence.tool, fence.round, *columns))
        for columns in unit.events:
            self.events.append((run_id, writer.sequence, *columns))
            writer.sequence += 1
        for number in unit.ends:
            self.ends.append((run_id, number))

    def _enter(self, writer: RunWriter) -> None:
        run_id = writer.run_id
        if not writer.claimed and self.claims.setdefault(run_id, writer.claim) is not writer.claim:
            # Two writers of one run in one group: written apart, the later one fails.
            raise run_exists(run_id)
        writer.transaction = self
        writer.sequence = writer.next_sequence
        self.writers.append(writer)

    def statements(self) -> list[Statement]:
        pairs = ((INSERT_FENCE, self.fences), (INSERT_EVENT, self.events), (DROP_FENCE, self.ends))
        return [(sql, rows) for sql, rows in pairs if rows]
