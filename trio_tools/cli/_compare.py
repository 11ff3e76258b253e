"""``trio-tools compare``: where concurrency libraries leave the reference semantics."""

import argparse
from typing import Final

from trio_tools.reference import Backend, compare_backends

from ._command import Subparsers, positive
from ._failure import FINE, FOUND, CommandError
from ._progress import ProgressBar

__all__ = ["add_parser", "run"]

_ABOUT: Final = """\
Run small programs of scopes, tasks, shields and deadlines on concurrency
libraries, and print for each property of structured concurrency which library
keeps it, with the smallest program found where one does not.

It takes about a minute of processor time; --examples 20, some seconds.

The exit code is 0 as long as trio itself keeps every property, for the others
are shown, not judged."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the parser of ``compare``."""
    parser = subparsers.add_parser(
        "compare",
        help="compare what concurrency libraries do with what the semantics permit",
        description=_ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [str(backend) for backend in Backend]
    parser.add_argument(
        "--backends",
        nargs="+",
        choices=names,
        default=names,
        metavar="BACKEND",
        help=f"which to run, of {', '.join(names)}; all by default",
    )
    parser.add_argument(
        "--examples",
        type=positive,
        default=200,
        metavar="N",
        help="random programs tried for each property and backend (default: %(default)s)",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="the same seed gives the same table")


def run(args: argparse.Namespace) -> int:
    """Print the table; 0 as long as trio itself keeps every property."""
    bar = ProgressBar("comparing", unit="cells")
    try:
        table = compare_backends(args.backends, examples=args.examples, seed=args.seed, on_progress=bar.show)
    except ImportError as error:
        raise CommandError(f"{error.name} is not installed; run: pip install 'trio-tools[all]'") from None
    finally:
        bar.clear()
    print(table.to_text())
    return FOUND if any(backend is Backend.TRIO for _, backend, _ in table.divergences) else FINE
