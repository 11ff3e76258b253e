"""What it costs to store the steps of a run: ``python -m benchmarks.record [--rounds N] [--steps N]``.

The reference is ``executemany`` of rows that are ready, their JSON text included, in one transaction, into
the same table with the same durability: write-ahead log, ``synchronous = full``. It is compared with

- *steps*: tool steps are given to `RunTrace.record`, until the store says that they are committed;
- *results*: results of calls become tool steps, which are stored in the same way.

Both filter what privacy asks for, write JSON, number each step, keep it in memory, and hand it to the task
that writes, which the reference need not. A rate of 0.50 is half as many steps a second as the reference.
"""

import argparse
import platform
import sqlite3
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import cast

import trio

from trio_tools import (
    Effect,
    Layer,
    Observer,
    Registration,
    Registry,
    ToolCall,
    ToolExecution,
    ToolResult,
    Wrapper,
    open_call_scope,
)
from trio_tools.trace import RunStep, RunTrace, open_store

from .harness import LEAST_ROUNDS, interleave, on_trio, ratio_of

GOAL = 0.5
_RUN = "run"
_EXECUTEMANY = f"INSERT INTO trio_events VALUES ({', '.join('?' * 12)})"
# How often what records lets others run, the task that writes among them.
_STEPS_PER_PASS = 500


class Tap:
    """A layer that a trace can be attached to, without calls of its own: results are put in by hand."""

    observer: Observer

    def wrap(self, _wrapper: Wrapper) -> Registration:
        return Registration(lambda: None)

    def observe(self, observer: Observer) -> Registration:
        self.observer = observer
        return Registration(lambda: None)


async def results(number: int) -> list[tuple[ToolExecution, ToolResult]]:
    """Return what ``number`` calls were and came to."""
    found: list[tuple[ToolExecution, ToolResult]] = []
    registry = Registry()

    @registry.tool(effect=Effect.READ_ONLY)
    async def read_file(path: str, limit: int) -> str:
        """Return the first lines of a file."""
        return f"{limit} lines of {path}\n" * 4

    registry.observe(lambda execution, result: found.append((execution, result)))
    async with open_call_scope() as scope:
        for line in range(number):
            arguments = {"path": f"src/module_{line}.py", "limit": line}
            await registry.execute(ToolCall(name="read_file", arguments=arguments, scope=scope))
    return found


def steps_of(pairs: Sequence[tuple[ToolExecution, ToolResult]], number: int) -> Sequence[RunStep]:
    """Return ``number`` steps as a trace makes them."""
    trace, tap = RunTrace(_RUN), Tap()
    trace.attach(cast("Layer", tap))
    for index in range(number):
        tap.observer(*pairs[index % len(pairs)])
    return trace.steps


async def store_steps(steps: Sequence[RunStep], path: Path) -> None:
    async with open_store(path) as store:
        trace = RunTrace(_RUN, store=store)
        for index, step in enumerate(steps):
            trace.record(step)
            if index % _STEPS_PER_PASS == 0:
                await trio.lowlevel.checkpoint()
        await store.flush()


async def store_results(pairs: Sequence[tuple[ToolExecution, ToolResult]], number: int, path: Path) -> None:
    async with open_store(path) as store:
        trace, tap = RunTrace(_RUN, store=store), Tap()
        trace.attach(cast("Layer", tap))
        observe = tap.observer
        for index in range(number):
            observe(*pairs[index % len(pairs)])
            if index % _STEPS_PER_PASS == 0:
                await trio.lowlevel.checkpoint()
        await store.flush()


async def store_rows(rows: Sequence[tuple[object, ...]], path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = full")
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany(_EXECUTEMANY, rows)
    connection.execute("COMMIT")
    connection.close()


def rows_of(path: Path) -> Sequence[tuple[object, ...]]:
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT * FROM trio_events ORDER BY sequence").fetchall()
    connection.close()
    return rows


class Timed:
    """Takes two times of each run, in a new store: processor time, which it returns, and time on the wall."""

    def __init__(self, store: Callable[[Path], Awaitable[None]], folder: Path) -> None:
        self._store = store
        self._folder = folder
        self._numbers = count()
        self.walls: list[int] = []

    async def __call__(self, _repeat: int) -> int:
        path = self._folder / f"{next(self._numbers)}.db"
        async with open_store(path):
            pass
        wall, begun = time.perf_counter_ns(), time.process_time_ns()
        await self._store(path)
        cost = time.process_time_ns() - begun
        self.walls.append(time.perf_counter_ns() - wall)
        path.unlink()
        return cost


def measure(rounds: int, number: int, folder: Path) -> list[str]:
    pairs = trio.run(results, 32)
    steps = steps_of(pairs, number)
    trio.run(store_steps, steps, folder / "rows.db")
    rows = rows_of(folder / "rows.db")
    if len(rows) != number:
        raise RuntimeError(f"{number} steps were recorded, and {len(rows)} are stored")
    kinds = {
        "rows": partial(store_rows, rows),
        "steps": partial(store_steps, steps),
        "results": partial(store_results, pairs, number),
    }
    timed: dict[str, Timed] = {}
    for name, store in kinds.items():
        place = folder / name
        place.mkdir()
        timed[name] = Timed(store, place)
    costs = interleave({name: on_trio(each) for name, each in timed.items()}, repeat=1, rounds=rounds)
    # The first round of `interleave` is thrown away.
    walls = {name: each.walls[1:] for name, each in timed.items()}
    lines = ["| what | rate, processor | spread | rate, wall | spread | goal |", "|---|--:|--:|--:|--:|--:|"]
    for name in ("steps", "results"):
        processor = ratio_of(costs["rows"], costs[name])
        wall = ratio_of(walls["rows"], walls[name])
        lines.append(
            f"| {name} | {processor.median:.2f} | {processor.spread:.0%} | {wall.median:.2f} |"
            f" {wall.spread:.0%} | >= {GOAL:.2f} |"
        )
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.record", description="Print what storing steps costs, as rates."
    )
    parser.add_argument("--rounds", type=int, default=15, help=f"at least {LEAST_ROUNDS}")
    parser.add_argument("--steps", type=int, default=20_000, help="how many are stored in each round")
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        print("\n".join(measure(args.rounds, args.steps, Path(folder))))
    print(
        f"\n{platform.python_implementation()} {platform.python_version()}, SQLite {sqlite3.sqlite_version},"
        f" {args.steps} steps, medians of {args.rounds} rounds against the same round's `executemany`;"
        " spread: between the quartiles."
    )


if __name__ == "__main__":
    main()
