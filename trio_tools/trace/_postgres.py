"""A store in a PostgreSQL database; needs the extra ``trace-postgres``."""

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from threading import Lock
from typing import Any, Final, LiteralString, cast, final

import psycopg

from ._sql import (
    CLAIM,
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

__all__ = ["PostgresDatabase"]

# Any number will do, as long as every process that migrates the tables takes the same one.
_MIGRATION_LOCK: Final = 7_402_118


@final
class PostgresDatabase:
    """A PostgreSQL database with the tables of a store in its search path.

    A connection that broke is opened again for the next call; what was being committed when it broke is
    looked up before it is written again, so that nothing is stored twice.

    Args:
        url: ``postgresql://user@host/database``, or with ``?host=/path`` a socket.
    """

    def __init__(self, url: str) -> None:
        self._url: Final = url
        self._writer: psycopg.Connection[Any] | None = None
        self._reader: psycopg.Connection[Any] | None = None
        self._reading: Final = Lock()
        self._open = False
        self.blocks: bool = True

    def open(self) -> None:
        """Connect, and bring the tables up to date.

        Raises:
            StoreVersionError: a newer version of the library made the tables.
            RunStoreError: there is no connection to be had.
        """
        try:
            self._writer = psycopg.connect(self._url, autocommit=True)
            _migrate(self._writer)
        except psycopg.Error as error:
            self.close()
            raise RunStoreError(f"the PostgreSQL database cannot be used as a store: {error}") from error
        except RunStoreError:
            self.close()
            raise
        self._open = True

    def write(self, claims: Iterable[Claim], statements: Iterable[Statement]) -> None:
        """Execute all in one transaction; all or nothing."""
        connection = self._writer = self._alive(self._writer)
        with connection.transaction(), connection.cursor() as cursor:
            for claim in claims:
                cursor.execute(_query(CLAIM), claim)
                cursor.execute(_query(OWNER), claim[:1])
                if cursor.fetchone() != (claim[1],):
                    raise run_exists(claim[0])
            for sql, rows in statements:
                cursor.executemany(_query(sql), rows)

    def update(self, sql: str, row: Parameters) -> int:
        """Execute one statement and return how many rows it changed."""
        try:
            connection = self._writer = self._alive(self._writer)
            return connection.execute(_query(sql), row).rowcount
        except psycopg.Error as error:
            raise RunStoreError(f"the PostgreSQL database cannot be written: {error}") from error

    def read(self, sql: str, row: Parameters = ()) -> list[tuple[object, ...]]:
        """Return the rows of a query."""
        with self._read_by() as reader:
            return reader.execute(_query(sql), row).fetchall()

    def snapshot(self, queries: Iterable[Query]) -> list[list[tuple[object, ...]]]:
        """Return the rows of several queries, all of them as they were at one moment."""
        with self._read_by() as reader, reader.transaction():
            reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            return [reader.execute(_query(sql), row).fetchall() for sql, row in queries]

    @contextmanager
    def _read_by(self) -> "Generator[psycopg.Connection[Any]]":
        with self._reading:
            try:
                connection = self._reader = self._alive(self._reader)
                yield connection
            except psycopg.Error as error:
                raise RunStoreError(f"the PostgreSQL database cannot be read: {error}") from error

    def close(self) -> None:
        """Disconnect."""
        self._open = False
        for connection in (self._reader, self._writer):
            if connection is not None:
                connection.close()
        self._reader = self._writer = None

    def _alive(self, connection: "psycopg.Connection[Any] | None") -> "psycopg.Connection[Any]":
        if not self._open:
            raise RunStoreError("the store is closed")
        if connection is None or connection.closed:
            return psycopg.connect(self._url, autocommit=True)
        return connection


def _query(sql: str) -> LiteralString:
    # The statements are constants of this package, and none of them holds a question mark but for a
    # parameter.
    return cast("LiteralString", sql.replace("?", "%s"))


def _migrate(connection: "psycopg.Connection[Any]") -> None:
    with connection.transaction(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATION_LOCK,))
        cursor.execute("CREATE TABLE IF NOT EXISTS trio_schema (version BIGINT NOT NULL)")
        cursor.execute("SELECT MAX(version) FROM trio_schema")
        (known,) = cursor.fetchone() or (None,)
        version = known or 0
        if version > len(MIGRATIONS):
            raise StoreVersionError(
                f"the store has version {version} of its tables, and this version of trio_tools knows"
                f" {len(MIGRATIONS)}: use the version that wrote it, or a newer one"
            )
        if version == len(MIGRATIONS):
            return
        for step in MIGRATIONS[version:]:
            for sql in step:
                cursor.execute(_query(sql))
        cursor.execute("DELETE FROM trio_schema")
        cursor.execute("INSERT INTO trio_schema (version) VALUES (%s)", (len(MIGRATIONS),))
