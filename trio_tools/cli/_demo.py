"""``trio-tools demo``: one batch that ends in every way, on real tools, and the record of it."""

import argparse
import json
import math
import os
import secrets
import shlex
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import trio
from attrs import evolve, frozen

from trio_tools import (
    TOOL_ABORTED,
    TOOL_ABORTED_BEFORE_DISPATCH,
    CallScope,
    Registry,
    ToolCall,
    ToolOutcome,
    ToolResult,
    TransportError,
    open_call_scope,
)
from trio_tools.trace import RunStore, RunStoreError, RunTimeline, RunTrace, StepKind, open_store, render

from ._command import Subparsers
from ._demo_repository import open_repository
from ._demo_tools import local_tools
from ._failure import FINE, FOUND, CommandError, one_line
from ._interrupt import run_until_interrupted
from ._program import how_it_was_started
from ._progress import ProgressLine
from ._report import cause_of, cause_to_json, print_table
from ._state import default_store

__all__ = ["add_parser", "run"]

_SERVER: Final = "mcp-server-git"
# How long the call that is cancelled runs before it is.
_PATIENCE: Final = 0.3

_ABOUT: Final = """\
Run one batch of calls on the git repository you stand in, or on a small one
made for the purpose: local tools that read and search files, and the tools of
a real MCP server, mcp-server-git, started over stdio. Nothing is changed.

The batch ends in every way a call can end: calls that succeed; calls that
fail, of a bad argument; one that is cut by the timeout its tool declares; one
that is cancelled while it runs, and with it those that had not started. Then
the table says of each how it ended, which rule decided, whether its body ran,
how long, and what cancelled it.

The run is stored in a SQLite file. The exit code is 0 if each call ended as
it should, 1 if one did not or the demo could not run, 130 if interrupted."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the parser of ``demo``."""
    parser = subparsers.add_parser(
        "demo",
        help="run the main job on real tools: a batch, a deadline, a cancellation, a record",
        description=f"{_ABOUT}\n\nWithout --store the run is stored in\n  {default_store()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--store",
        metavar="FILE",
        type=Path,
        help="the SQLite file to store the run in",
    )
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print JSON instead of the table")
    shape.add_argument(
        "--timeline", action="store_true", help="print the table, and the run as it was recorded"
    )


@frozen
class _Row:
    """One call of the batch: what is called, how it should end, and how it did."""

    tool: str
    arguments: dict[str, object]
    outcome: ToolOutcome
    code: str | None
    dispatched: bool
    result: ToolResult | None = None
    milliseconds: float = 0.0

    @property
    def as_meant(self) -> bool:
        """Whether it ended as it should."""
        return self.result is not None and self._meant == (
            self.result.outcome,
            self.result.code,
            self.result.dispatched,
        )

    @property
    def _meant(self) -> tuple[ToolOutcome, str | None, bool]:
        return (self.outcome, self.code, self.dispatched)

    def cells(self) -> tuple[str, ...]:
        """Return the row of the table."""
        assert self.result is not None
        return (
            self.tool,
            str(self.result.outcome),
            self.result.code or "",
            "yes" if self.result.dispatched else "no",
            f"{self.milliseconds:.0f} ms" if self.result.dispatched else "",
            cause_of(self.result),
        )

    @property
    def failure(self) -> str | None:
        """What a call that failed says for itself, in one line; None for any other."""
        assert self.result is not None
        if self.result.outcome is not ToolOutcome.FAILED or self.result.error is None:
            return None
        return f"{self.tool} says: {one_line(self.result.error.message)}"

    def to_json(self) -> dict[str, object]:
        """Return the row as JSON; unlike the table it holds the whole text."""
        assert self.result is not None
        return {
            "tool": self.tool,
            "arguments": self.arguments,
            "outcome": str(self.result.outcome),
            "code": self.result.code,
            "settlement": str(self.result.settlement),
            "dispatched": self.result.dispatched,
            "milliseconds": self.milliseconds,
            "cause": cause_to_json(self.result),
            "text": self.result.text,
            "as_meant": self.as_meant,
        }

    @property
    def meant(self) -> str:
        """How it should have ended, in words."""
        return f"{self.outcome} {self.code or ''}".strip() + (
            ", dispatched" if self.dispatched else ", not dispatched"
        )


def _plan(root: Path, file: str) -> list[_Row]:
    ok, failed, cancelled = ToolOutcome.OK, ToolOutcome.FAILED, ToolOutcome.CANCELLED
    repository: dict[str, object] = {"repo_path": str(root)}
    return [
        _Row("git_status", repository, ok, None, dispatched=True),
        _Row("git_log", {**repository, "max_count": 2}, ok, None, dispatched=True),
        _Row("read_file", {"path": file}, ok, None, dispatched=True),
        _Row("search_files", {"text": "the"}, ok, None, dispatched=True),
        # The file's tools check their arguments here, before the call; the server checks its own.
        _Row("read_file", {"path": file, "limit": "ten"}, failed, "INVALID_ARGS", dispatched=False),
        _Row(
            "git_show", {**repository, "revision": "no-such-revision"}, failed, "TOOL_ERROR", dispatched=True
        ),
        _Row("wait_for_change", {"path": file}, failed, "TOOL_TIMEOUT", dispatched=True),
        # It may not overlap with others, so all that follows waits for it, and is cancelled with it.
        _Row("wait_for_commit", {}, cancelled, TOOL_ABORTED, dispatched=True),
        _Row(
            "git_branch",
            {**repository, "branch_type": "local"},
            cancelled,
            TOOL_ABORTED_BEFORE_DISPATCH,
            dispatched=False,
        ),
        _Row("read_file", {"path": file}, cancelled, TOOL_ABORTED_BEFORE_DISPATCH, dispatched=False),
    ]


def run(args: argparse.Namespace) -> int:
    """Run the demo; 0 if each call ended as it should."""
    if find_spec("mcp") is None or find_spec("mcp_server_git") is None:
        raise CommandError(f"{_SERVER} is not installed; run: pip install 'trio-tools[mcp]' {_SERVER}")
    store = default_store() if args.store is None else Path(os.path.abspath(args.store))  # noqa: PTH100
    run_id = f"demo-{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(2)}"

    async def main() -> int:
        timeline = ""
        try:
            async with open_repository(Path.cwd()) as (root, file), _open_store(store) as runs:
                rows = await _run_batch(root, file, RunTrace(run_id, store=runs))
            if args.timeline:
                # Only now has the run ended.
                async with _open_store(store) as runs:
                    timeline = render(await RunTimeline.load(runs, run_id))
        finally:
            if trio.current_effective_deadline() == -math.inf:
                print(f"What was done so far is recorded as run {run_id} in {store}", file=sys.stderr)
        _print(rows, root, store, run_id, as_json=args.json)
        if timeline:
            print(f"\n{timeline}")
        return FINE if all(row.as_meant for row in rows) else FOUND

    try:
        return run_until_interrupted(main)
    except TransportError as error:
        raise CommandError(str(error)) from None


@asynccontextmanager
async def _open_store(path: Path) -> AsyncGenerator[RunStore]:
    advice = "name another file with --store"
    if path == default_store():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CommandError(f"the run cannot be stored in {path}: {error.strerror}; {advice}") from None
    try:
        async with open_store(path) as store:
            yield store
    except RunStoreError as error:
        raise CommandError(f"the run cannot be stored in {path}: {error}; {advice}") from None


def _server(root: Path) -> list[str]:
    # By the module's name, for the script of that name need not be on the path.
    return [sys.executable, "-m", "mcp_server_git", "--repository", str(root)]


async def _run_batch(root: Path, file: str, trace: RunTrace) -> list[_Row]:
    from trio_tools.mcp import open_mcp_toolset

    waiting = trio.Event()
    progress = ProgressLine()
    reading = {"git_status", "git_log", "git_show", "git_branch"}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(progress.draw)
        async with open_mcp_toolset(
            _server(root), name=_SERVER, grace=0.5, concurrency_safe=reading
        ) as remote:
            registry = Registry()
            progress.statistics = registry.statistics
            for tool in (*local_tools(root, waiting.set), *remote):
                registry.register(tool)
            registry.wrap(progress.wrap)
            trace.attach(registry)
            async with open_call_scope(name="demo") as scope, trio.open_nursery() as patience:
                patience.start_soon(_lose_patience, waiting, scope)
                plan = _plan(root, file)
                results = await registry.execute_batch(
                    ToolCall(name=row.tool, arguments=row.arguments, scope=scope) for row in plan
                )
                patience.cancel_scope.cancel()
        nursery.cancel_scope.cancel()
    took = [step.duration_ms for step in trace.steps if step.kind is StepKind.TOOL]
    return [
        evolve(row, result=result, milliseconds=milliseconds)
        for row, result, milliseconds in zip(plan, results, took, strict=True)
    ]


async def _lose_patience(waiting: trio.Event, scope: CallScope) -> None:
    await waiting.wait()
    await trio.sleep(_PATIENCE)
    scope.cancel("the demo lost its patience")


def _print(rows: Sequence[_Row], root: Path, store: Path, run_id: str, *, as_json: bool) -> None:
    if as_json:
        report = {
            "run": run_id,
            "store": str(store),
            "repository": str(root),
            "server": _SERVER,
            "as_meant": all(row.as_meant for row in rows),
            "rows": [row.to_json() for row in rows],
        }
        print(json.dumps(report, ensure_ascii=False, indent=2))
        return
    print(f"One batch on {root}, with local tools and with {_SERVER} over stdio:\n")
    print_table(
        ("TOOL", "OUTCOME", "CODE", "DISPATCHED", "TOOK", "CAUSE"),
        [row.cells() for row in rows],
        colours={"ok": "green", "failed": "red", "cancelled": "yellow"},
    )
    print()
    for said in filter(None, (row.failure for row in rows)):
        print(said)
    print()
    for row in rows:
        if not row.as_meant:
            print(f"NOT AS MEANT: {row.tool} should have ended {row.meant}")
    print(f"Recorded as run {run_id} in {store}")
    where = "" if store == default_store() else f" --store {shlex.quote(str(store))}"
    print(f"Look at it again: {how_it_was_started()} runs show {run_id}{where}")
