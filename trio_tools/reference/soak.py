"""The models against trio and against the runtime, in volume: `python -m trio_tools.reference.soak`.

`language` holds the model of structured concurrency against trio, `calls` the model of a tool call against
the runtime; without either, both. Programs come from a seed, the same ones however many cores there are, and
each is run once, in an order of tasks drawn from the seed. A disagreement is printed as a program that can be
pasted, made as small as it gets, and makes the exit code 1. A Ctrl-C ends it with the report so far.
"""

from __future__ import annotations

import argparse
import math
import signal
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Final

from . import _call_soak, _program_soak
from ._cores import collecting_rarely, cores_here, spread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ._call_soak import SoakReport as CallReport
    from ._program_soak import SoakReport as ProgramReport

__all__ = ["main"]

PIECE: Final = 250
"""How many programs a process runs before it reports. Piece n of the language is drawn from seed + n."""


def _piece_of_calls(seed: int, programs: int, number: int) -> CallReport:
    begin = number * PIECE
    with collecting_rarely():
        return _call_soak.soak_calls(programs=min(PIECE, programs - begin), seed=seed + begin)


def _piece_of_language(seed: int, programs: int, number: int) -> ProgramReport:
    with collecting_rarely():
        return _program_soak.soak(min(PIECE, programs - number * PIECE), seed + number)


def _gathered(
    name: str,
    report: CallReport | ProgramReport,
    work: Callable[[int], CallReport | ProgramReport],
    options: argparse.Namespace,
    seconds: float,
) -> bool:
    """Runs the pieces, tells how far it is, prints the report, and returns whether it was interrupted."""
    pieces = math.inf if options.programs is None else math.ceil(options.programs / PIECE)
    began = told = time.monotonic()
    interrupted = False
    try:
        for piece in spread(work, cores=options.cores, pieces=pieces, seconds=seconds):
            report.add(piece)  # pyright: ignore[reportArgumentType]
            for disagreement in piece.told():
                # At once, for the end may be hours away.
                print(disagreement, file=sys.stderr, flush=True)
            now = time.monotonic()
            if now - told >= options.every:
                told = now
                print(
                    f"... {now - began:.0f} s: {report.programs} {name}, {report.in_short}", file=sys.stderr
                )
    except KeyboardInterrupt:
        interrupted = True
    until = ", interrupted" if interrupted else ""
    print(f"{name}, {options.cores} cores, {time.monotonic() - began:.0f} s{until}")
    print(report.to_text(), flush=True)
    return interrupted


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a soak from the command line; returns 0 if nothing disagreed, 1 if something did.

    Interrupted, it reports what it has come to and returns 130.
    """
    parser = argparse.ArgumentParser(prog="python -m trio_tools.reference.soak", description=__doc__)
    parser.add_argument("what", nargs="?", choices=("language", "calls", "both"), default="both")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--programs", type=int, help="how many of each; 10,000 if no length is given")
    length.add_argument("--minutes", type=float, help="how long in all, in real minutes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cores", type=int, default=cores_here(), help="by default all")
    parser.add_argument("--every", type=float, default=10.0, help="tell so often how far it is, in seconds")
    options = parser.parse_args(arguments)
    if options.programs is None and options.minutes is None:
        options.programs = 10_000
    most = sys.maxsize if options.programs is None else options.programs
    chosen = ("language", "calls") if options.what == "both" else (options.what,)
    seconds = math.inf if options.minutes is None else 60 * options.minutes / len(chosen)
    found = 0
    for what in chosen:
        if what == "language":
            report, work = _program_soak.SoakReport(options.seed), _piece_of_language
        else:
            report, work = _call_soak.SoakReport(options.seed), _piece_of_calls
        if _gathered(what, report, partial(work, options.seed, most), options, seconds):
            return 130
        found += len(report.disagreements)
    return 1 if found else 0


if __name__ == "__main__":
    # A polite request to end is a Ctrl-C as well: nothing is left behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
