"""Kill a program that records, at random moments, and look at what its store says.

Each time a child process runs calls that write, many at once, and tells through a pipe when a body began
and how many steps were acknowledged as committed. It is killed with SIGKILL, and then the store must hold: no
torn step, no gap and no step twice; every step whose commit was acknowledged; and of each call whose body
began either its step or its fence, which reads `unknown` with the effect of the tool.

    python -m tests.trace.kill_soak 1000 FOLDER
    python -m tests.trace.kill_soak 100 postgresql://...
"""

from __future__ import annotations

import os
import random
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import trio
from attrs import define

from trio_tools import Effect, Registry, ToolCall, ToolContext, WriteKind, open_call_scope
from trio_tools.trace import RunTimeline, RunTrace, open_store, structure_step

_RUNS_FOR = 0.15


@define
class Tally:
    """What was seen over all runs."""

    runs: int = 0
    steps: int = 0
    acknowledged: int = 0
    unknown: int = 0
    before_first: int = 0


async def record(target: str, run_id: str, pipe: int) -> None:
    """Run calls that write until killed; tell what is known to be stored."""
    registry = Registry()

    @registry.tool(effect=Effect.NON_IDEMPOTENT_WRITE)
    async def pay(ctx: ToolContext) -> int:
        os.write(pipe, f"began {ctx.call_id}\n".encode())
        await trio.sleep(random.random() * 0.004)
        ctx.wrote("bills", 1, WriteKind.CREATED)
        return 1

    async with open_store(target) as store:
        trace = RunTrace(run_id, store=store)
        trace.attach(registry)

        async def keep_calling() -> None:
            while True:
                await registry.execute(ToolCall(name="pay", arguments={}, scope=scope))

        async with open_call_scope() as scope, trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(keep_calling)
            while True:
                count = len(trace.steps)
                await store.flush()
                os.write(pipe, f"stored {count}\n".encode())
                await trio.sleep(0.001)


def kill_one(target: str, run_id: str, moment: float, *, at_work: bool) -> list[str]:
    """Fork a child that records, kill it after ``moment`` seconds, and return what it told.

    The seconds run from its start, or, if it is to be ``at_work``, from the first thing that it tells.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            trio.run(record, target, run_id, writer)
        finally:
            os._exit(1)
    os.close(writer)
    if at_work:
        select.select([reader], [], [], 30)
    time.sleep(moment)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(reader, "rb") as told:
        text = told.read().decode()
    # The last line may be cut, if the child was killed while it wrote.
    return text.split("\n")[:-1]


async def judge(target: str, run_id: str, told: list[str], tally: Tally) -> None:
    """Compare what the store holds with what the child told; raises AssertionError where they differ."""
    began = {line.removeprefix("began ") for line in told if line.startswith("began ")}
    stored = max(
        (int(line.removeprefix("stored ")) for line in told if line.startswith("stored ")), default=0
    )
    async with open_store(target) as store:
        try:
            rows = await store.load(run_id)
        except LookupError:
            assert not began, "a body began, and the store does not know the run"
            tally.before_first += 1
            return
    steps = [structure_step(str(row.payload)) for row in rows.events]
    assert [row.sequence for row in rows.events] == list(range(len(steps))), "a gap, or a step twice"
    assert len(steps) >= stored, f"{stored} steps were acknowledged, {len(steps)} are there"
    assert [str(step.kind) for step in steps] == ["tool", "tool_write"] * (len(steps) // 2), (
        "a torn transaction"
    )
    ended = [row.span.call_id for row in rows.events if row.kind == "tool"]
    fenced = [row.span.call_id for row in rows.fences]
    assert len(set(ended)) == len(ended), "a call ended twice"
    assert not set(ended) & set(fenced), "a call has ended, and its fence stands"
    assert began <= {*ended, *fenced}, "a body began, and neither a step nor a fence says so"
    unknown = [entry for entry in RunTimeline.of(rows).entries if entry.outcome == "unknown"]
    assert len(unknown) == len(fenced)
    assert {entry.span.effect for entry in unknown} <= {"non_idempotent_write"}
    tally.steps += len(steps)
    tally.acknowledged += stored
    tally.unknown += len(unknown)


def soak(count: int, target_of: Callable[[int], str]) -> Tally:
    """Kill ``count`` programs, each at another moment; run ids are ``run-N``."""
    tally = Tally()
    for number in range(count):
        target, run_id = target_of(number), f"run-{number}"
        told = kill_one(target, run_id, random.random() * _RUNS_FOR, at_work=number % 4 != 0)
        trio.run(judge, target, run_id, told, tally)
        tally.runs += 1
    return tally


def main(count: str, target: str) -> None:
    """Soak on one PostgreSQL store, or on a SQLite file for every ten runs."""
    started = time.perf_counter()

    def target_of(number: int) -> str:
        return target if "://" in target else str(Path(target) / f"runs-{number // 10}.db")

    tally = soak(int(count), target_of)
    print(f"{tally}, {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main(*sys.argv[1:])
