"""The store: what was recorded is there, once, in order, whatever is cancelled and whatever breaks."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.trace.conftest import run_python
from trio_tools.trace import _sql
from trio_tools.trace._rows import Columns, EventRow, FenceRow, RunRows, Span, columns_of_event
from trio_tools.trace._sql import Claim, Database, RunStoreError, Statement, StoreVersionError
from trio_tools.trace._sqlite import SqliteDatabase
from trio_tools.trace._store import RunStore, open_store, serving
from trio_tools.trace._writing import RunWriter, StoreStatistics, Unit


def event(payload: str = "{}", **span: Any) -> Columns:
    return columns_of_event(1_900_000_000, "tool", payload, Span(**span))


def fence(tool: str = "pay", call_id: str = "c") -> FenceRow:
    return FenceRow(second=1_900_000_000, tool=tool, round=2, span=Span(call_id=call_id, effect="unknown"))


def put(writer: RunWriter, *payloads: str, ends: int | None = None) -> None:
    writer.put(Unit(writer, ends=() if ends is None else (ends,), events=tuple(map(event, payloads))))


async def payloads_of(store: RunStore, run_id: str) -> list[tuple[int | None, object]]:
    return [(row.sequence, row.payload) for row in (await store.load(run_id)).events]


@pytest.mark.rule("TR-10")
async def test_sequence_numbers_run_from_zero_in_order_of_recording(target: str) -> None:
    async with open_store(target) as store:
        a, b = store.writer("a"), store.writer("b")
        for n in range(50):
            put(a, str(n))
            put(b, f"{n}.0", f"{n}.1")
        loaded = [await payloads_of(store, run) for run in "ab"]

    assert loaded[0] == [(n, str(n)) for n in range(50)]
    assert loaded[1] == [(n, f"{n // 2}.{n % 2}") for n in range(100)]


async def test_every_column_of_a_row_comes_back(target: str) -> None:
    span = Span(
        call_id="c",
        parent_call_id="p",
        layer="l",
        effect="unknown",
        began_ms=1.5,
        ended_ms=2.0,
        deadline_ms=9.0,
    )
    async with open_store(target) as store:
        writer = store.writer("r")
        writer.put(Unit(writer, events=(columns_of_event(5, "llm", "{}", span),)))
        writer.put(Unit(writer, fence=(1, FenceRow(second=6, tool="t", round=3, span=span))))
        rows = await store.load("r")

    assert rows.events == (EventRow(sequence=0, second=5, kind="llm", payload="{}", span=span),)
    assert rows.fences == (FenceRow(second=6, tool="t", round=3, span=span),)
    assert rows.run.run_id == "r"
    assert rows.run.finished_at is None


async def test_an_unknown_run_is_a_lookup_error(target: str) -> None:
    async with open_store(target) as store:
        with pytest.raises(LookupError, match="nowhere"):
            await store.load("nowhere")


async def test_runs_are_listed_newest_first_and_marked_as_ended_on_closing(shared_target: str) -> None:
    for run in ("one", "two"):
        async with open_store(shared_target) as store:
            put(store.writer(run), "{}")
    async with open_store(shared_target) as store:
        runs = await store.runs()

    assert [run.run_id for run in runs] == ["two", "one"]
    assert all(run.finished_at is not None and run.finished_at >= run.started_at for run in runs)


@pytest.mark.rule("TR-10")
async def test_a_second_writer_of_a_run_fails_and_does_not_interleave(
    target: str, caplog: pytest.LogCaptureFixture
) -> None:
    loaded: list[tuple[int | None, object]] = []

    async def write_as_two() -> None:
        async with open_store(target) as store:
            first = store.writer("r")
            put(first, "1")
            await store.flush()
            second = store.writer("r")
            for _ in range(3):
                put(second, "intruder")
            put(first, "2")
            loaded.extend(await payloads_of(store, "r"))

    with pytest.raises(RunStoreError, match="there is a run 'r' already"):
        await write_as_two()

    assert loaded == [(0, "1"), (1, "2")]
    assert [record.levelno for record in caplog.records if record.levelno >= logging.WARNING] == [
        logging.ERROR
    ]


@pytest.mark.rule("TR-10")
async def test_two_writers_that_begin_at_once_are_told_apart(target: str) -> None:
    loaded: list[tuple[int | None, object]] = []

    async def write_as_two() -> None:
        async with open_store(target) as store:
            first, second = store.writer("r"), store.writer("r")
            put(second, "intruder")
            put(first, "1")
            loaded.extend(await payloads_of(store, "r"))

    with pytest.raises(RunStoreError, match="there is a run 'r' already"):
        await write_as_two()

    assert loaded == [(0, "1")]


@pytest.mark.rule("TR-10")
async def test_a_writer_in_another_store_fails_as_well(shared_target: str) -> None:
    async with open_store(shared_target) as store:
        put(store.writer("r"), "1")
        await store.flush()
        with pytest.raises(RunStoreError, match="there is a run 'r' already"):
            async with open_store(shared_target) as other:
                put(other.writer("r"), "intruder")
        loaded = await payloads_of(store, "r")

    assert loaded == [(0, "1")]


@pytest.mark.rule("TR-4", "TR-7")
async def test_a_fence_stands_until_its_own_terminal_step(target: str) -> None:
    async with open_store(target) as store:
        writer = store.writer("r")
        one, two = writer.new_fence(), writer.new_fence()
        await writer.commit(Unit(writer, fence=(one, fence("one"))))
        await writer.commit(Unit(writer, fence=(two, fence("two"))))
        put(writer, "{}", ends=one)
        rows = await store.load("r")

    assert [row.tool for row in rows.fences] == ["two"]
    assert len(rows.events) == 1


@pytest.mark.rule("TR-9")
async def test_cancelling_everything_loses_no_row(shared_target: str) -> None:
    with trio.CancelScope() as everything:
        async with open_store(shared_target) as store:
            writer = store.writer("r")
            everything.cancel()
            for n in range(2000):
                put(writer, str(n))
            await trio.sleep_forever()
    async with open_store(shared_target) as store:
        loaded = await payloads_of(store, "r")

    assert everything.cancelled_caught
    assert loaded == [(n, str(n)) for n in range(2000)]


@pytest.mark.rule("TR-9")
async def test_an_exception_in_the_block_travels_unchanged_and_loses_no_row(shared_target: str) -> None:
    async def write_and_raise() -> None:
        async with open_store(shared_target) as store:
            put(store.writer("r"), "1")
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await write_and_raise()
    async with open_store(shared_target) as store:
        loaded = await payloads_of(store, "r")

    assert loaded == [(0, "1")]


async def test_rows_that_queue_up_share_a_commit(target: str) -> None:
    async with open_store(target) as store:
        writer = store.writer("r")
        for n in range(4000):
            put(writer, str(n))
        await store.flush()
        statistics = store.statistics()

    assert statistics.rows == 4000
    assert statistics.commits <= 5
    assert statistics.queued == statistics.failures == 0
    assert statistics.error is None


@settings(max_examples=30)
@given(st.lists(st.tuples(st.tuples(*[st.booleans()] * 7), st.integers(1, 300)), max_size=5))
def test_what_is_null_in_some_rows_or_in_all_of_them_comes_back_as_it_was(
    runs: list[tuple[tuple[bool, ...], int]],
) -> None:
    spans = [
        tuple(value if present else None for value, present in zip("abcd", shape, strict=False))
        + tuple(float(n) if present else None for n, present in enumerate(shape[4:]))
        for shape, often in runs
        for _ in range(often)
    ]
    rows = [(n, 5, "llm", str(n), *span) for n, span in enumerate(spans)]
    database = SqliteDatabase(":memory:")
    database.open()
    database.write((), [(_sql.INSERT_EVENT, [("r", *row) for row in rows])])
    loaded = database.read(_sql.SELECT_EVENTS, ("r",))
    database.close()

    assert loaded == rows


@pytest.mark.rule("TR-13")
async def test_text_that_no_database_takes_is_substituted(target: str) -> None:
    async with open_store(target) as store:
        put(store.writer("a\0b\ud800"), "{}")
        loaded = await store.load("a\0b\ud800")

    assert loaded.run.run_id == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}"
    assert len(loaded.events) == 1


class Breaking:
    """A database that fails where a test says, and works otherwise."""

    def __init__(self, inner: SqliteDatabase) -> None:
        self.inner = inner
        self.blocks = inner.blocks
        self.fail_rows: set[str] = set()
        self.fail_texts: set[str] = set()
        self.written: list[str] = []
        self.fail_all = False
        self.fail_reads = False
        self.commit_then_raise = False
        self.reads: list[float] = []

    def open(self) -> None:
        self.inner.open()

    def write(self, claims: Iterable[Claim], statements: Iterable[Statement]) -> None:
        statements = list(statements)
        columns = [str(column) for _, rows in statements for row in rows for column in row]
        texts = [*columns, *(sql for sql, _ in statements)]
        hit = any(wanted in text for wanted in self.fail_texts for text in texts)
        if self.fail_all or hit or self.fail_rows & set(columns):
            raise OSError("disk full")
        self.inner.write(claims, statements)
        self.written += [sql for sql, _ in statements]
        if self.commit_then_raise:
            raise OSError("the wire broke")

    def update(self, sql: str, row: _sql.Parameters) -> int:
        return self.inner.update(sql, row)

    def read(self, sql: str, row: _sql.Parameters = ()) -> list[tuple[object, ...]]:
        self.reads.append(trio.current_time())
        if self.fail_reads:
            raise OSError("gone")
        return self.inner.read(sql, row)

    def snapshot(self, queries: Iterable[_sql.Query]) -> list[list[tuple[object, ...]]]:
        return [self.read(sql, row) for sql, row in queries]

    def close(self) -> None:
        self.inner.close()


@pytest.fixture
def breaking() -> Breaking:
    return Breaking(SqliteDatabase(":memory:"))


@pytest.mark.rule("TR-10", "TR-11")
async def test_a_row_that_cannot_be_written_takes_no_other_with_it_and_leaves_no_gap(
    breaking: Breaking, caplog: pytest.LogCaptureFixture
) -> None:
    breaking.fail_rows = {"bad"}
    seen: list[tuple[RunRows, StoreStatistics]] = []

    async def write_twenty() -> None:
        async with serving(breaking) as store:
            writer = store.writer("r")
            await writer.commit(Unit(writer, fence=(1, fence())))
            for n in range(20):
                put(writer, "bad" if n in {3, 11} else str(n), ends=1 if n == 3 else None)
            seen.append((await store.load("r"), store.statistics()))

    with pytest.raises(RunStoreError, match="disk full") as raised:
        await write_twenty()

    rows, statistics = seen[0]
    good = [str(n) for n in range(20) if n not in {3, 11}]
    assert [(row.sequence, row.payload) for row in rows.events] == list(enumerate(good))
    assert [row.tool for row in rows.fences] == ["pay"]
    assert isinstance(raised.value.__cause__, OSError)
    assert statistics.failures == 2
    assert statistics.error == "OSError: disk full"
    assert [record.levelno for record in caplog.records].count(logging.ERROR) == 1


@pytest.mark.rule("TR-5")
async def test_who_waits_for_a_commit_is_told_that_it_failed(breaking: Breaking) -> None:
    async with serving(breaking) as store:
        writer = store.writer("r")
        await store.flush()
        breaking.fail_all = True
        with pytest.raises(RunStoreError, match="disk full"):
            await writer.commit(Unit(writer, fence=(1, fence())))
        breaking.fail_all = False
        rows = await store.load("r")

    assert rows.fences == ()


async def test_a_commit_that_arrived_although_the_wire_broke_is_not_repeated(breaking: Breaking) -> None:
    async with serving(breaking) as store:
        writer = store.writer("r")
        put(writer, "0")
        await store.flush()
        breaking.commit_then_raise = True
        put(writer, "1")
        put(writer, "2")
        await store.flush()
        breaking.commit_then_raise = False
        put(writer, "3")
        loaded = await payloads_of(store, "r")

    assert loaded == [(n, str(n)) for n in range(4)]


@pytest.mark.rule("TR-11")
async def test_the_error_of_the_block_is_not_replaced_by_that_of_the_store(breaking: Breaking) -> None:
    breaking.fail_all = True

    async def write_and_raise() -> None:
        async with serving(breaking) as store:
            put(store.writer("r"), "1")
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await write_and_raise()


async def test_a_store_that_was_closed_says_so() -> None:
    async with open_store(":memory:") as store:
        writer = store.writer("r")
    late = Unit(writer, events=(event(),))
    writer.put(late)

    assert isinstance(late.error, RunStoreError)
    with pytest.raises(RunStoreError, match="closed"):
        store.writer("s")
    with pytest.raises(RunStoreError, match="closed"):
        await store.runs()


async def test_another_process_reads_while_the_run_is_written(tmp_path: Path) -> None:
    path = str(tmp_path / "runs.db")
    code = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]);"
        "print(c.execute('SELECT COUNT(*), MAX(sequence) FROM trio_events').fetchone())"
    )
    async with open_store(path) as store:
        writer = store.writer("r")
        for n in range(10):
            put(writer, str(n))
        await store.flush()
        for n in range(500):
            put(writer, str(n))
        seen = await trio.to_thread.run_sync(run_python, code, path)

    assert seen.strip() in {"(10, 9)", "(510, 509)"}


@pytest.mark.parametrize("synchronous", ["full", "normal"])
async def test_synchronous_is_what_was_asked_for(tmp_path: Path, synchronous: Any) -> None:
    database = SqliteDatabase(str(tmp_path / "runs.db"), synchronous=synchronous)
    database.open()
    # The writer's own connection: the setting belongs to a connection.
    found = database.read("PRAGMA synchronous"), database.read("PRAGMA journal_mode")
    database.close()

    assert found == ([({"full": 2, "normal": 1}[synchronous],)], [("wal",)])
    with pytest.raises(ValueError, match="synchronous"):
        SqliteDatabase("x", synchronous="off")  # pyright: ignore[reportArgumentType]


async def test_a_store_is_not_made_where_it_is_only_looked_for(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"runs\.db"):
        async with open_store(tmp_path / "runs.db", create=False):
            raise AssertionError("opened")

    assert not (tmp_path / "runs.db").exists()


async def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "runs.db").write_text("a letter to my aunt" * 100)
    with pytest.raises(RunStoreError, match="cannot be opened"):
        async with open_store(tmp_path / "runs.db"):
            raise AssertionError("opened")


async def test_a_store_of_a_newer_version_is_refused(
    shared_target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_store(shared_target):
        pass
    for module in ("_sqlite", "_postgres") if shared_target.startswith("postgres") else ("_sqlite",):
        monkeypatch.setattr(f"trio_tools.trace.{module}.MIGRATIONS", ())
    with pytest.raises(StoreVersionError, match="newer"):
        async with open_store(shared_target):
            raise AssertionError("opened")


async def test_an_older_store_is_brought_forward_and_keeps_its_rows(
    shared_target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_store(shared_target) as store:
        put(store.writer("r"), "1")
    wider = (*_sql.MIGRATIONS, ("ALTER TABLE trio_runs ADD COLUMN colour TEXT",))
    for module in ("_sqlite", "_postgres") if shared_target.startswith("postgres") else ("_sqlite",):
        monkeypatch.setattr(f"trio_tools.trace.{module}.MIGRATIONS", wider)
    for _ in range(2):
        async with open_store(shared_target) as store:
            loaded = await payloads_of(store, "r")

            assert loaded == [(0, "1")]


def database_of(target: str) -> Database:
    if target.startswith("postgres"):
        from trio_tools.trace._postgres import PostgresDatabase

        return PostgresDatabase(target)
    return SqliteDatabase(target)


@pytest.mark.rule("TL-1")
def test_a_run_is_read_as_it_was_at_one_moment(shared_target: str) -> None:
    span = (None,) * 7
    writer, reader = database_of(shared_target), database_of(shared_target)
    writer.open()
    reader.open()
    writer.write((), [(_sql.INSERT_FENCE, [("r", 1, 0, "pay", 0, *span)])])

    def queries() -> Iterator[_sql.Query]:
        yield _sql.SELECT_EVENTS, ("r",)
        # The call ends while its run is read by another process.
        ended = [(_sql.INSERT_EVENT, [("r", 0, 0, "tool", "{}", *span)]), (_sql.DROP_FENCE, [("r", 1)])]
        writer.write((), ended)
        yield _sql.SELECT_FENCES, ("r",)

    during = [len(rows) for rows in reader.snapshot(queries())]
    after = [
        len(rows) for rows in reader.snapshot([(_sql.SELECT_EVENTS, ("r",)), (_sql.SELECT_FENCES, ("r",))])
    ]
    writer.close()
    reader.close()

    assert during == [0, 1]
    assert after == [1, 0]


async def reason_heard(store: RunStore) -> str | None:
    heard: list[str | None] = []
    told = trio.Event()

    def hear(reason: str | None) -> None:
        heard.append(reason)
        told.set()

    store.watch("r", hear)
    with trio.fail_after(60):
        await told.wait()
    return heard[0]


async def test_a_store_from_before_reasons_takes_one(
    shared_target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        for module in ("_sqlite", "_postgres") if shared_target.startswith("postgres") else ("_sqlite",):
            patch.setattr(f"trio_tools.trace.{module}.MIGRATIONS", _sql.MIGRATIONS[:1])
        async with open_store(shared_target) as store:
            # The old tables do not know how the run of today ends, so it stays open, as after a crash.
            store.writer("r")
    async with open_store(shared_target) as store:
        answer = await store.request_cancel("r", "wrong account")
        heard = await reason_heard(store)

    assert answer
    assert heard == "wrong account"


@pytest.mark.rule("TR-12")
async def test_the_reason_of_an_ask_is_stored_as_text_and_gone_once_the_run_has_ended(
    shared_target: str,
) -> None:
    async with open_store(shared_target) as store:
        store.writer("r")
        await store.flush()
        async with open_store(shared_target) as other:
            await other.request_cancel("r", "wrong\0 account \ud800")
        heard = await reason_heard(store)
    async with open_store(shared_target) as store:
        late = await reason_heard(store)

    assert heard == "wrong\N{REPLACEMENT CHARACTER} account \N{REPLACEMENT CHARACTER}"
    assert late is None


async def test_of_two_asks_to_cancel_one_wins_and_an_ended_run_stays_as_it_ended(shared_target: str) -> None:
    async with open_store(shared_target) as store:
        store.writer("r")
        async with open_store(shared_target) as other:
            assert not await other.request_cancel("nowhere")
            await store.flush()
            answers = [await other.request_cancel("r"), await store.request_cancel("r")]
        asked = (await store.load("r")).run.cancel_requested_at
    async with open_store(shared_target) as store:
        await store.request_cancel("r")
        ended = (await store.load("r")).run

    assert answers == [True, False]
    assert ended.cancel_requested_at == asked is not None
    async with open_store(shared_target) as store:
        store.writer("s")
    async with open_store(shared_target) as store:
        assert not await store.request_cancel("s")


async def test_a_watch_hears_of_a_cancel_within_a_second(autojump_clock: object, breaking: Breaking) -> None:
    heard: list[float] = []
    async with serving(breaking) as store:
        store.writer("r")
        store.watch("r", lambda _: heard.append(trio.current_time()))
        await trio.sleep(10.5)
        asked_at = trio.current_time()
        assert await store.request_cancel("r")
        await trio.sleep(5)

    assert len(heard) == 1
    assert asked_at < heard[0] <= asked_at + 1


async def test_the_store_is_asked_at_once_and_then_at_most_once_a_second(
    autojump_clock: object, breaking: Breaking
) -> None:
    async with serving(breaking) as store:
        store.writer("r")
        start = trio.current_time()
        for _ in range(40):
            store.watch("r", lambda _: None)
            await trio.sleep(0.25)
        asks = [at - start for at in breaking.reads]

    assert asks == [float(n) for n in range(10)]


async def test_an_ask_made_earlier_is_heard_by_the_first_read(
    autojump_clock: object, breaking: Breaking
) -> None:
    heard: list[float] = []
    async with serving(breaking) as store:
        store.writer("r")
        await store.request_cancel("r")
        start = trio.current_time()
        store.watch("r", lambda _: heard.append(trio.current_time()))
        await trio.sleep(3)
        # Seen once, never forgotten: a later watch needs no second look, whatever the store says.
        breaking.fail_reads = True
        store.watch("r", lambda _: heard.append(trio.current_time()))
        await trio.sleep(3)

    assert [at - start for at in heard] == [0, 3]


async def test_a_store_that_cannot_be_read_is_never_a_cancel(
    autojump_clock: object, breaking: Breaking
) -> None:
    heard: list[str] = []
    async with serving(breaking) as store:
        store.writer("r")
        breaking.fail_reads = True
        store.watch("r", lambda _: heard.append("r"))
        await trio.sleep(5)
        assert heard == []
        breaking.fail_reads = False
        await store.request_cancel("r")
        await trio.sleep(1)

    assert heard == ["r"]


async def test_a_watch_that_was_closed_hears_nothing_and_one_that_fails_is_contained(
    autojump_clock: object, breaking: Breaking, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[str] = []

    def fail(_reason: str | None) -> None:
        raise RuntimeError("not mine")

    async with serving(breaking) as store:
        store.writer("r")
        closed = store.watch("r", lambda _: heard.append("closed"))
        store.watch("r", fail)
        store.watch("r", lambda _: heard.append("open"))
        closed.close()
        closed.close()
        await store.request_cancel("r")
        await trio.sleep(2)

    assert heard == ["open"]
    assert "could not be cancelled" in caplog.text


@pytest.mark.postgres
async def test_a_broken_connection_is_opened_again(postgres_url: str) -> None:
    import psycopg

    def break_all() -> None:
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
                " AND backend_type = 'client backend'"
            )

    async with open_store(postgres_url) as store:
        writer = store.writer("r")
        put(writer, "0")
        await store.load("r")
        await trio.to_thread.run_sync(break_all)
        for n in range(1, 5):
            put(writer, str(n))
        loaded = await payloads_of(store, "r")

    assert loaded == [(n, str(n)) for n in range(5)]


def test_a_read_sees_a_damaged_text_instead_of_failing(tmp_path: Path) -> None:
    path = str(tmp_path / "runs.db")
    database = SqliteDatabase(path)
    database.open()
    connection = sqlite3.connect(path)
    connection.execute("INSERT INTO trio_runs VALUES (CAST(x'ff61' AS TEXT), 'w', 1, NULL, NULL, NULL)")
    connection.commit()
    connection.close()
    rows = database.read("SELECT run_id FROM trio_runs")
    database.close()

    assert rows == [("\N{REPLACEMENT CHARACTER}a",)]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("cats", "is no store of runs"),
        ("trio_events", "is no store of runs"),
        ("trio_runs", "cannot be used as a store"),
    ],
)
async def test_a_database_with_tables_of_its_own_is_refused(table: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    connection = sqlite3.connect(path)
    connection.execute(f"CREATE TABLE {table} (mine TEXT)")
    connection.commit()
    connection.close()
    with pytest.raises(RunStoreError, match=said):
        async with open_store(path):
            raise AssertionError("opened")
    connection = sqlite3.connect(path)
    tables = connection.execute("SELECT name FROM sqlite_master").fetchall()
    connection.close()

    assert tables == [(table,)]


async def test_an_empty_name_is_no_store() -> None:
    with pytest.raises(RunStoreError, match="'' is no name of a file"):
        async with open_store(""):
            raise AssertionError("opened")


async def test_a_store_that_cannot_be_read_or_written_any_more_says_so(shared_target: str) -> None:
    async with open_store(shared_target) as store:
        await store.runs()
        _drop_everything(shared_target)

        with pytest.raises(RunStoreError, match="cannot be read"):
            await store.runs()
        with pytest.raises(RunStoreError, match="cannot be written"):
            await store.request_cancel("r")


def _drop_everything(target: str) -> None:
    if "://" in target:
        import psycopg

        with psycopg.connect(target, autocommit=True) as connection:
            connection.execute("DROP TABLE trio_runs, trio_events, trio_fences")
        return
    other = sqlite3.connect(target)
    other.executescript("DROP TABLE trio_runs; DROP TABLE trio_events; DROP TABLE trio_fences")
    other.close()


def test_a_database_that_is_closed_says_so() -> None:
    database = SqliteDatabase(":memory:")

    for use in (lambda: database.update("x", ()), lambda: database.read("x"), lambda: database.write((), ())):
        with pytest.raises(RunStoreError, match="closed"):
            use()


async def test_runs_that_cannot_be_marked_as_ended_are_logged(
    breaking: Breaking, caplog: pytest.LogCaptureFixture
) -> None:
    breaking.fail_texts = {"SET finished_at"}
    async with serving(breaking) as store:
        put(store.writer("r"), "1")

    assert "could not be marked as ended" in caplog.text


async def test_rows_for_which_there_is_no_thread_are_reported_as_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors: list[BaseException | None] = []
    run_sync = trio.to_thread.run_sync

    async def refuse(*arguments: Any, **options: Any) -> Any:
        raise RuntimeError("can't start new thread")

    async def run() -> None:
        async with open_store(tmp_path / "runs.db") as store:
            writer = store.writer("r")
            await store.flush()
            monkeypatch.setattr(trio.to_thread, "run_sync", refuse)
            lost = Unit(writer, events=(event(),))
            with pytest.raises(RunStoreError, match="new thread"):
                await writer.commit(lost)
            monkeypatch.setattr(trio.to_thread, "run_sync", run_sync)
            errors.append(lost.error)

    with pytest.raises(RunStoreError, match="new thread"):
        await run()

    assert isinstance(errors[0], RuntimeError)


@pytest.mark.postgres
async def test_a_server_that_is_not_there_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(RunStoreError, match="cannot be used as a store"):
        async with open_store(f"postgresql://nobody@/nowhere?host={tmp_path}"):
            raise AssertionError("opened")


@pytest.mark.postgres
def test_a_postgres_database_that_is_closed_says_so(postgres_url: str) -> None:
    from trio_tools.trace._postgres import PostgresDatabase

    database = PostgresDatabase(postgres_url)
    database.open()
    database.close()
    with pytest.raises(RunStoreError, match="closed"):
        database.read("SELECT 1")


@pytest.mark.parametrize("create", [True, False])
async def test_the_folder_of_a_store_is_not_made(tmp_path: Path, create: bool) -> None:
    path = tmp_path / "runz" / "runs.db"
    error: type[Exception] = RunStoreError if create else FileNotFoundError

    with pytest.raises(error, match="there is no folder" if create else "no store at"):
        async with open_store(path, create=create):
            pass

    assert not (tmp_path / "runz").exists()


async def test_a_fence_that_is_lost_is_told_as_a_call_that_does_not_start(
    breaking: Breaking, caplog: pytest.LogCaptureFixture
) -> None:
    breaking.fail_texts = {_sql.INSERT_FENCE}
    async with serving(breaking) as store:
        writer = store.writer("r")
        with pytest.raises(RunStoreError, match="disk full"):
            await writer.commit(Unit(writer, fence=(1, fence())))

    assert "the call that it was to announce is not started" in caplog.text
