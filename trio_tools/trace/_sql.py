"""The tables of a store and the statements on them, in the SQL that SQLite and PostgreSQL share.

Statements are written with ``?`` for a parameter. Nothing here opens or commits anything: a `Database`
does, on a worker thread, and the store decides when.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Protocol, TypeAlias

__all__ = [
    "ASK_CANCEL",
    "CLAIM",
    "COUNT_FENCES",
    "DROP_FENCE",
    "FINISH",
    "INSERT_EVENT",
    "INSERT_FENCE",
    "LAST_SEQUENCE",
    "MIGRATIONS",
    "OWNER",
    "SELECT_CANCELLED",
    "SELECT_EVENTS",
    "SELECT_FENCES",
    "SELECT_PAYLOADS",
    "SELECT_RUN",
    "SELECT_RUNS",
    "Claim",
    "Database",
    "Parameters",
    "Query",
    "RunStoreError",
    "Statement",
    "StoreVersionError",
    "run_exists",
]

Parameters: TypeAlias = Sequence[object]
Statement: TypeAlias = tuple[str, Sequence[Parameters]]
"""A statement and the rows it is executed with."""
Query: TypeAlias = tuple[str, Parameters]
"""A query and its parameters."""
Claim: TypeAlias = tuple[str, str, float]
"""A run id, its writer, and the time of the claim in seconds since 1970 UTC."""


class RunStoreError(Exception):
    """A store could not do what was asked of it; the cause is the database's own error."""


def run_exists(run_id: str) -> RunStoreError:
    """Returns the error of whoever would write a run that somebody else has begun (`TR-10`)."""
    return RunStoreError(
        f"there is a run {run_id!r} already, and a run has one writer: choose another run id"
    )


class StoreVersionError(RunStoreError):
    """The store was written by a newer version of the library, and this one would not understand it."""


class Database(Protocol):
    """A database as the store uses it; every method blocks and is called by one thread at a time."""

    blocks: bool
    """Whether a call may wait for a disk or a wire; if not, no thread is needed."""

    def open(self) -> None:
        """Connect, and bring the tables up to date."""
        ...

    def write(self, claims: Iterable[Claim], statements: Iterable[Statement]) -> None:
        """Execute all in one transaction, in order; all or nothing.

        Raises:
            RunStoreError: a claim names a run that has another writer.
        """
        ...

    def update(self, sql: str, row: Parameters) -> int:
        """Execute one statement in its own transaction and return how many rows it changed.

        Raises:
            RunStoreError: it could not be executed.
        """
        ...

    def read(self, sql: str, row: Parameters = ()) -> list[tuple[object, ...]]:
        """Return the rows of a query; it sees what was committed.

        Raises:
            RunStoreError: they could not be read.
        """
        ...

    def snapshot(self, queries: Iterable[Query]) -> list[list[tuple[object, ...]]]:
        """Return the rows of several queries, all of them as they were at one moment.

        Raises:
            RunStoreError: they could not be read.
        """
        ...

    def close(self) -> None:
        """Disconnect."""
        ...


MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    (
        """CREATE TABLE trio_runs (
            run_id TEXT NOT NULL PRIMARY KEY,
            writer TEXT NOT NULL,
            started_at DOUBLE PRECISION NOT NULL,
            finished_at DOUBLE PRECISION,
            cancel_requested_at DOUBLE PRECISION
        )""",
        """CREATE TABLE trio_events (
            run_id TEXT NOT NULL,
            sequence BIGINT,
            second BIGINT NOT NULL,
            kind TEXT NOT NULL,
            payload TEXT NOT NULL,
            call_id TEXT,
            parent_call_id TEXT,
            layer TEXT,
            effect TEXT,
            began_ms DOUBLE PRECISION,
            ended_ms DOUBLE PRECISION,
            deadline_ms DOUBLE PRECISION,
            UNIQUE (run_id, sequence)
        )""",
        """CREATE TABLE trio_fences (
            run_id TEXT NOT NULL,
            fence BIGINT NOT NULL,
            second BIGINT NOT NULL,
            tool TEXT NOT NULL,
            round BIGINT NOT NULL,
            call_id TEXT,
            parent_call_id TEXT,
            layer TEXT,
            effect TEXT,
            began_ms DOUBLE PRECISION,
            ended_ms DOUBLE PRECISION,
            deadline_ms DOUBLE PRECISION,
            PRIMARY KEY (run_id, fence)
        )""",
    ),
    ("ALTER TABLE trio_runs ADD COLUMN cancel_reason TEXT",),
)
"""What leads from one version of the tables to the next; the version is how many of them were applied."""

CLAIM: Final = (
    "INSERT INTO trio_runs (run_id, writer, started_at) VALUES (?, ?, ?) ON CONFLICT (run_id) DO NOTHING"
)
OWNER: Final = "SELECT writer FROM trio_runs WHERE run_id = ?"
INSERT_EVENT: Final = (
    "INSERT INTO trio_events (run_id, sequence, second, kind, payload, call_id, parent_call_id, layer,"
    " effect, began_ms, ended_ms, deadline_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
# Writing the same fence again is no conflict: after a connection was lost nobody knows whether the first
# attempt arrived.
INSERT_FENCE: Final = (
    "INSERT INTO trio_fences (run_id, fence, second, tool, round, call_id, parent_call_id, layer, effect,"
    " began_ms, ended_ms, deadline_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (run_id, fence) DO NOTHING"
)
DROP_FENCE: Final = "DELETE FROM trio_fences WHERE run_id = ? AND fence = ?"
LAST_SEQUENCE: Final = "SELECT MAX(sequence) FROM trio_events WHERE run_id = ?"
# A reason is content, and was only on its way to the program that executes the run.
FINISH: Final = (
    "UPDATE trio_runs SET finished_at = ?, cancel_reason = NULL"
    " WHERE run_id = ? AND writer = ? AND finished_at IS NULL"
)
# One guarded update: of two who ask one wins, and a run that has ended stays as it ended.
ASK_CANCEL: Final = (
    "UPDATE trio_runs SET cancel_requested_at = ?, cancel_reason = ?"
    " WHERE run_id = ? AND cancel_requested_at IS NULL AND finished_at IS NULL"
)
SELECT_CANCELLED: Final = (
    "SELECT cancel_reason FROM trio_runs WHERE run_id = ? AND cancel_requested_at IS NOT NULL"
)
_RUN_COLUMNS: Final = "run_id, started_at, finished_at, cancel_requested_at"
SELECT_RUNS: Final = f"SELECT {_RUN_COLUMNS} FROM trio_runs ORDER BY started_at DESC, run_id"
SELECT_RUN: Final = f"SELECT {_RUN_COLUMNS} FROM trio_runs WHERE run_id = ?"
SELECT_EVENTS: Final = (
    "SELECT sequence, second, kind, payload, call_id, parent_call_id, layer, effect, began_ms, ended_ms,"
    " deadline_ms FROM trio_events WHERE run_id = ? ORDER BY sequence"
)
SELECT_PAYLOADS: Final = "SELECT payload FROM trio_events WHERE run_id = ?"
COUNT_FENCES: Final = "SELECT COUNT(*) FROM trio_fences WHERE run_id = ?"
SELECT_FENCES: Final = (
    "SELECT second, tool, round, call_id, parent_call_id, layer, effect, began_ms, ended_ms, deadline_ms"
    " FROM trio_fences WHERE run_id = ? ORDER BY fence"
)
