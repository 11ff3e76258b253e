"""Measure what calls cost: ``python -m benchmarks [--quick] [--peers PYTHON] [--write docs]``."""

import argparse
import json
import logging
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import cattrs

from .compare import Measured
from .curves import curves
from .data import Figures, circumstances
from .harness import LEAST_ROUNDS
from .page import publish, text_of
from .rows import calls, many
from .startup import startup

_ROUNDS: Final = 15
_LARGEST, _LARGEST_QUICK = 100_000, 1_000
_ELSEWHERE: Final = ("record", "conformance")
"""Modules that measure one thing each, and print what they found."""


def measure_peers(python: Path, rounds: int) -> tuple[Measured, ...]:
    """Have the interpreter of the peers' environment measure them."""
    command = [str(python), "-m", "benchmarks.compare", "--rounds", str(rounds)]
    found = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return cattrs.structure(json.loads(found), tuple[Measured, ...])


def measure_elsewhere() -> dict[str, str]:
    found: dict[str, str] = {}
    for name in _ELSEWHERE:
        module = f"{__package__}.{name}"
        if find_spec(module) is not None:
            command = [sys.executable, "-m", module]
            found[name] = subprocess.run(
                command, check=True, stdout=subprocess.PIPE, text=True
            ).stdout.strip()
    return found


def measure(rounds: int, peers: Path | None, *, quick: bool) -> Figures:
    """Measure everything, and say on standard error what is at its turn."""
    load_before = os.getloadavg()[0]

    def turn(what: str) -> None:
        print(f"{what} ...", file=sys.stderr, flush=True)

    # Unwinding a hundred thousand calls takes its time, and the library would say so for each that waits.
    logging.disable(logging.WARNING)
    turn("calls")
    rows = calls(rounds)
    turn("many calls at once")
    rows += many(rounds)
    turn("start-up")
    rows += startup(rounds)
    measured: tuple[Measured, ...] = ()
    if peers is not None:
        turn("peers")
        measured = measure_peers(peers, rounds)
    turn("curves")
    drawn = curves(largest=_LARGEST_QUICK if quick else _LARGEST)
    elsewhere: dict[str, str] = {}
    if not quick:
        turn("record and conformance")
        elsewhere = measure_elsewhere()
    return Figures(circumstances(rounds, load_before), tuple(rows), measured, tuple(drawn), elsewhere)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rounds", type=int, default=_ROUNDS, help=f"at least {LEAST_ROUNDS}")
    parser.add_argument("--quick", action="store_true", help="fewest rounds, at most 1,000 calls")
    parser.add_argument("--peers", type=Path, metavar="PYTHON", help="interpreter that has the peers")
    parser.add_argument("--write", type=Path, metavar="DOCS", help="write the page, its data and pictures")
    options = parser.parse_args(arguments)
    rounds: int = LEAST_ROUNDS if options.quick else options.rounds
    figures = measure(rounds, options.peers, quick=options.quick)
    print(text_of(figures))
    if options.write is not None:
        publish(figures, options.write)


if __name__ == "__main__":
    main()
