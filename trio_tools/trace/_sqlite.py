"""A store in one SQLite file, or in memory."""

import sqlite3
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import Final, Literal, TypeAlias, final

from ._sql import (
    CLAIM,
    INSERT_EVENT,
    MIGRATIONS,
    OWNER,
    Claim,
    Parameters,
    Query,
    RunStoreError,
    Statement,
    StoreVersionError,
    run_exists,
)

__all__ = ["SqliteDatabase", "Synchronous"]

Synchronous: TypeAlias = Literal["full", "normal"]

_BUSY_SECONDS: Final = 10.0
_TABLES: Final = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"


@final
class SqliteDatabase:
    """A SQLite database in WAL mode; other processes may read it, and ask for a cancel, while it is written.

    Args:
        path: the file, or ``:memory:``.
        synchronous: ``full`` waits for the disk at every commit, so what was acknowledged survives a power
            cut. ``normal`` does not: after a power cut, not after a mere crash of the program, the last
            commits may be gone.
        create: whether a file that is not there, or is empty, becomes a store.
    """

    def __init__(self, path: str, *, synchronous: Synchronous = "full", create: bool = True) -> None:
        if synchronous not in {"full", "normal"}:
            raise ValueError(f"synchronous is 'full' or 'normal', not {synchronous!r}")
        self._path: Final = path
        self._in_memory: Final = path == ":memory:"
        self._synchronous: Final = synchronous
        self._create: Final = create
        self._writer: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None
        # Reads may come from another worker thread than writes, each connection from one thread at a time.
        self._reading: Final = Lock()
        self.blocks: bool = not self._in_memory

    def open(self) -> None:
        """Connect, and bring the tables up to date.

        Raises:
            StoreVersionError: a newer version of the library wrote the file.
            RunStoreError: the file is no store, or its folder does not exist.
        """
        self._writer = self._connect()
        try:
            _migrate(self._writer)
        except sqlite3.Error as error:
            # A database of somebody else, say, that has a table of that name.
            self.close()
            raise RunStoreError(f"{self._path} cannot be used as a store: {error}") from error
        except RunStoreError:
            self.close()
            raise

    def _connect(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = None
        try:
            if not self._path or Path(self._path).is_dir():
                # An empty name would be a file that is gone once it is closed.
                raise RunStoreError(f"{self._path!r} is no name of a file")
            connection = sqlite3.connect(
                self._path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            tables = {name for (name,) in connection.execute(_TABLES)}
            if "trio_runs" not in tables and (tables or not self._create):
                # What belongs to another program is left exactly as it is.
                connection.close()
                raise RunStoreError(f"{self._path} is no store of runs")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        except sqlite3.Error as error:
            if connection is not None:
                connection.close()
            # SQLite says the same of everything that it cannot open.
            path = Path(self._path)
            why: object = error if path.parent.is_dir() else f"there is no folder {path.parent}"
            raise RunStoreError(f"{self._path} cannot be opened as a store: {why}") from error
        return connection

    def write(self, claims: Iterable[Claim], statements: Iterable[Statement]) -> None:
        """Execute all in one transaction; all or nothing."""
        connection = self._opened()
        connection.execute("BEGIN IMMEDIATE")
        try:
            for claim in claims:
                connection.execute(CLAIM, claim)
                if connection.execute(OWNER, claim[:1]).fetchone() != (claim[1],):
                    raise run_exists(claim[0])
            for sql, rows in statements:
                if sql is INSERT_EVENT:
                    _insert_events(connection, rows)
                else:
                    connection.executemany(sql, rows)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def update(self, sql: str, row: Parameters) -> int:
        """Execute one statement and return how many rows it changed."""
        try:
            return self._opened().execute(sql, row).rowcount
        except sqlite3.Error as error:
            raise RunStoreError(f"{self._path} cannot be written: {error}") from error

    def read(self, sql: str, row: Parameters = ()) -> list[tuple[object, ...]]:
        """Return the rows of a query."""
        with self._read_by() as reader:
            return reader.execute(sql, row).fetchall()

    def snapshot(self, queries: Iterable[Query]) -> list[list[tuple[object, ...]]]:
        """Return the rows of several queries, all of them as they were at one moment."""
        with self._read_by() as reader:
            # A transaction sees what was committed when it first reads.
            reader.execute("BEGIN")
            try:
                return [reader.execute(sql, row).fetchall() for sql, row in queries]
            finally:
                reader.execute("ROLLBACK")

    @contextmanager
    def _read_by(self) -> Generator[sqlite3.Connection]:
        with self._reading:
            if self._reader is None:
                self._reader = self._opened() if self._in_memory else self._connect()
                # A damaged text is a damaged row, not the end of the list (`TL-9`).
                self._reader.text_factory = _text
            try:
                yield self._reader
            except sqlite3.Error as error:
                raise RunStoreError(f"{self._path} cannot be read: {error}") from error

    def close(self) -> None:
        """Disconnect; the last connection to leave folds the log into the file."""
        for connection in (self._reader, self._writer):
            if connection is not None:
                connection.close()
        self._reader = self._writer = None

    def _opened(self) -> sqlite3.Connection:
        if self._writer is None:
            raise RunStoreError("the store is closed")
        return self._writer


_INTO, _, _NAMES = INSERT_EVENT[: INSERT_EVENT.index(")")].partition("(")
_COLUMNS: Final = tuple(_NAMES.split(", "))
# Each execution gives up the interpreter's lock and waits to have it back, which takes milliseconds where the
# program that is being recorded computes. Few statements with many rows each keep that from adding up; powers
# of two, so that the same few statements stay prepared, which takes longer than to execute them once there
# are more rows. SQLite takes 32766 parameters, old ones 999.
_ROWS: Final = tuple(2**power for power in range(8, -1, -1))


def _insert_events(connection: sqlite3.Connection, rows: Sequence[Parameters]) -> None:
    most = connection.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER) // len(_COLUMNS)
    start = 0
    for size in _ROWS:
        while size <= most and len(rows) - start >= size:
            _insert(connection, rows[start : start + size])
            start += size


def _insert(connection: sqlite3.Connection, rows: Sequence[Parameters]) -> None:
    # A column that is null in every row is left out. For each None the driver asks whether there is an
    # adapter, which takes longer than to bind a number; and steps that are no calls have half of their
    # columns null.
    columns = zip(_COLUMNS, zip(*rows, strict=True), strict=True)
    told = {name: values for name, values in columns if values.count(None) < len(rows)}
    row = f"({', '.join('?' * len(told))})"
    sql = f"{_INTO}({', '.join(told)}) VALUES {', '.join([row] * len(rows))}"
    connection.execute(sql, tuple(chain.from_iterable(zip(*told.values(), strict=True))))


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _migrate(connection: sqlite3.Connection) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == len(MIGRATIONS):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Asked again under the lock: another process may have been faster.
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > len(MIGRATIONS):
            raise StoreVersionError(
                f"the store has version {version} of its tables, and this version of trio_tools knows"
                f" {len(MIGRATIONS)}: use the version that wrote it, or a newer one"
            )
        for step in MIGRATIONS[version:]:
            for sql in step:
                connection.execute(sql)
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
