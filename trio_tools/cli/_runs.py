"""``trio-tools runs``: list recorded runs, show what happened in one, ask for one to be cancelled."""

import argparse
import json
import locale
import os
import sys
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from typing import Final

from trio_tools.trace import (
    Language,
    RunStore,
    RunStoreError,
    RunTimeline,
    labels,
    open_store,
    overview_of,
    print_runs,
    print_timeline,
    render,
    render_runs,
)

from ._command import Subparsers
from ._failure import FINE, USAGE, CommandError, one_line
from ._interrupt import run_until_interrupted
from ._state import default_store

__all__ = ["add_parser", "run"]

_ABOUT: Final = """\
What was recorded: list the runs in a store, show one as a table, write it as
a page for the browser, or ask for a run that is under way to be cancelled. The
process that executes the run notices within about a second.

  trio-tools runs
  trio-tools runs show nightly-42 --outcome cancelled
  trio-tools runs html nightly-42 > nightly-42.html
  trio-tools runs cancel nightly-42 --reason "wrong account"

The exit code is 1 if there is no such store or run, or if the run has ended or
was asked before, so that it cannot be cancelled; 130 if interrupted."""

_OUTCOMES: Final = ("ok", "failed", "cancelled", "unknown")


def add_parser(subparsers: Subparsers) -> None:
    """Add the parser of ``runs``."""
    parser = subparsers.add_parser(
        "runs",
        help="list recorded runs, or show what happened in one",
        description=f"{_ABOUT}\n\nWithout --store the runs are those in\n  {default_store()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "action",
        nargs="?",
        choices=("list", "show", "html", "cancel"),
        default="list",
        help="list (the default), show, html or cancel",
        metavar="ACTION",
    )
    parser.add_argument("run", nargs="?", metavar="RUN", help="the id of the run to show, write, or cancel")
    parser.add_argument(
        "--store",
        metavar="FILE",
        help="a SQLite file, or a postgresql:// URL",
    )
    parser.add_argument(
        "--language", choices=("en", "de"), default=_language(), help="of the labels (default: yours)"
    )
    parser.add_argument(
        "--outcome",
        choices=_OUTCOMES,
        metavar="OUTCOME",
        help="only what ended ok, failed, cancelled or unknown",
    )
    parser.add_argument(
        "--limit", type=_number, default=50, metavar="N", help="list at most N runs (default: 50)"
    )
    parser.add_argument("--reason", metavar="TEXT", help="why a run is cancelled")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def run(args: argparse.Namespace) -> int:
    """Do what was asked; 1 if there is no such run, or if it cannot be cancelled any more."""
    if args.action == "list" and args.run is not None:
        raise CommandError("runs list takes no run; runs show RUN shows one", status=USAGE)
    if args.action != "list" and args.run is None:
        raise CommandError(f"runs {args.action} needs the id of a run; runs list shows them", status=USAGE)
    if args.reason is not None and args.action != "cancel":
        raise CommandError("--reason says why a run is cancelled, and belongs to runs cancel", status=USAGE)
    return run_until_interrupted(lambda: _run(args))


async def _run(args: argparse.Namespace) -> int:
    asked: str | None = args.store
    language: Language = args.language
    target = str(default_store()) if asked is None else asked
    try:
        async with open_store(target, create=False) as store:
            return await _ACTIONS[args.action](store, args, language)
    except FileNotFoundError:
        if asked is None and args.action == "list":
            # Nothing was recorded yet, and nothing is wrong with that.
            print(labels(language)["runs.list.empty"])
            return FINE
        raise CommandError(f"there is no store at {target}; name another with --store") from None
    except RunStoreError as error:
        raise CommandError(str(error)) from None
    except ImportError as error:
        raise CommandError(
            f"{error.name} is not installed; run: pip install 'trio-tools[trace-postgres]'"
        ) from None


async def _list(store: RunStore, args: argparse.Namespace, language: Language) -> int:
    runs = await overview_of(store, limit=args.limit, outcome=args.outcome)
    if args.json:
        rows = [
            {
                "run": overview.run.run_id,
                "startedAt": overview.run.started_at,
                "endedAt": overview.run.finished_at,
                "cancelRequestedAt": overview.run.cancel_requested_at,
                "steps": overview.steps,
                "counts": {outcome: getattr(overview.counts, outcome) for outcome in (*_OUTCOMES, "none")},
                "failureRate": overview.counts.failure_rate,
            }
            for overview in runs
        ]
        print(json.dumps(rows, indent=2))
    elif _on_terminal():
        from rich.console import Console

        print_runs(runs, language, Console())
    else:
        print(render_runs(runs, language=language), end="")
    return FINE


async def _show(store: RunStore, args: argparse.Namespace, language: Language) -> int:
    timeline = await _load(store, args, language)
    if args.json:
        print(render(timeline, language=language, format="json", outcome=args.outcome), end="")
    elif _on_terminal():
        from rich.console import Console

        print_timeline(timeline, language, Console(), outcome=args.outcome)
    else:
        print(render(timeline, language=language, outcome=args.outcome), end="")
    return FINE


async def _html(store: RunStore, args: argparse.Namespace, language: Language) -> int:
    timeline = await _load(store, args, language)
    # As bytes: the page says that it is UTF-8, whatever the terminal's encoding is.
    sys.stdout.flush()
    page = render(timeline, language=language, format="html", outcome=args.outcome)
    sys.stdout.buffer.write(page.encode())
    return FINE


async def _cancel(store: RunStore, args: argparse.Namespace, language: Language) -> int:
    words = labels(language)
    if await store.request_cancel(args.run, args.reason):
        print(one_line(words["runs.cancel.done"].format(run=args.run)))
        return FINE
    run = next((run for run in await store.runs() if run.run_id == args.run), None)
    if run is None:
        raise _unknown(args, language)
    late = "runs.cancel.asked" if run.finished_at is None else "runs.cancel.ended"
    raise CommandError(words[late].format(run=args.run))


async def _load(store: RunStore, args: argparse.Namespace, language: Language) -> RunTimeline:
    try:
        return await RunTimeline.load(store, args.run)
    except LookupError:
        raise _unknown(args, language) from None


def _unknown(args: argparse.Namespace, language: Language) -> CommandError:
    return CommandError(labels(language)["runs.unknown"].format(run=args.run))


_ACTIONS: Final[dict[str, Callable[[RunStore, argparse.Namespace, Language], Awaitable[int]]]] = {
    "list": _list,
    "show": _show,
    "html": _html,
    "cancel": _cancel,
}


def _number(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


_number.__name__ = "number above zero"


def _on_terminal() -> bool:
    return sys.stdout.isatty() and find_spec("rich") is not None


def _language() -> Language:
    wanted = os.environ.get("LC_ALL") or os.environ.get("LC_MESSAGES") or os.environ.get("LANG") or ""
    return "de" if locale.normalize(wanted).startswith("de_") else "en"
