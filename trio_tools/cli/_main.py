"""The table of commands, and what all of them share: help, exit codes, no traceback for a user's mistake."""

import argparse
import importlib
import importlib.util
import logging
import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from typing import Final, cast

from attrs import frozen

from trio_tools import __version__

from ._command import CommandModule
from ._failure import FOUND, INTERRUPTED, CommandError, one_line

__all__ = ["main"]

_PROGRAM: Final = "trio-tools"
_ABOUT: Final = """\
Tool calls under structured concurrency: a cancelled call stops, nothing of it
is left running, and the record says what happened."""
_EXIT_CODES: Final = """\
exit codes:
  0    fine
  1    findings, a call that did not end ok, or work that could not be done
  2    usage
  3    unresolved: a check could not come to a verdict
  130  interrupted; what was running has been cancelled and has ended"""


@frozen
class _Command:
    name: str
    summary: str

    @property
    def module(self) -> str:
        return f"{__package__}._{self.name}"


# A command lives in the module of its name, which is imported only when the command is asked for, and
# is not offered where it is not installed.
_COMMANDS: Final = (
    _Command("demo", "run the main job on real tools: a batch, a deadline, a cancellation, a record"),
    _Command("call", "call one tool and print its result"),
    _Command("check", "check that tools keep the rules of cancellation"),
    _Command("runs", "list recorded runs, or show what happened in one"),
    _Command("compare", "compare what concurrency libraries do with what the semantics permit"),
    _Command("serve", "offer tools to an MCP client over standard input and output"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    That is 0 if all is fine, 1 for findings or a call that did not end ok, 2 for wrong usage, 3 for what
    is unresolved, 130 if it was interrupted.

    Args:
        argv: the arguments; those of the process by default.
    """
    arguments = sys.argv[1:] if argv is None else list(argv)
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison]
        # Started with it closed.
        print(f"{_PROGRAM}: there is no standard output to print to", file=sys.stderr)
        return FOUND
    _open_what_is_closed()
    streams: tuple[object, ...] = (sys.stdout, sys.stderr)
    for stream in streams:
        if isinstance(stream, TextIOWrapper):
            # What lacks a character gets an escape of it and not a traceback.
            cast("TextIOWrapper", stream).reconfigure(errors="backslashreplace")
    try:
        return _run(arguments)
    except CommandError as error:
        print(f"{_PROGRAM}: {one_line(str(error))}", file=sys.stderr)
        return error.status
    except SystemExit as error:
        # argparse has said all there is to say.
        return error.code if isinstance(error.code, int) else 0
    except KeyboardInterrupt:
        print(f"{_PROGRAM}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            print(f"{_PROGRAM}: {one_line(error.strerror or str(error))}", file=sys.stderr)
        # Whoever read our output has left, or it goes to a disk that is full. Python would complain once more
        # when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FOUND


def _open_what_is_closed() -> None:
    """Give a process that was started without standard input or standard error one that leads nowhere.

    Each gets its own number, the lowest that is free. The next file to be opened would get it else, and be
    written to by whatever prints there.
    """
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison]
        sys.stdin = open(os.devnull)  # noqa: PTH123, SIM115  (until the process ends)
    if sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison]
        sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115


def _run(arguments: Sequence[str]) -> int:
    asked = next((word for word in arguments if not word.startswith("-")), None)
    parser = argparse.ArgumentParser(
        prog=_PROGRAM,
        description=_ABOUT,
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--verbose", "-v", action="store_true", help="print on standard error what the library logs"
    )
    parser.add_argument("--version", action="version", version=f"{_PROGRAM} {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    module: CommandModule | None = None
    for command in _COMMANDS:
        if importlib.util.find_spec(command.module) is None:
            continue
        if command.name == asked:
            module = cast("CommandModule", importlib.import_module(command.module))
            module.add_parser(subparsers)
        else:
            subparsers.add_parser(command.name, help=command.summary)
    try:
        args = parser.parse_args(arguments)
    except SystemExit:
        # Help that cannot be printed is told as what else cannot.
        sys.stdout.flush()
        raise
    assert module is not None
    with _shown(verbose=args.verbose):
        status = module.run(args)
    sys.stdout.flush()
    return status


@contextmanager
def _shown(*, verbose: bool) -> Generator[None]:
    """Show what is logged: all of it to who asks, else the warnings of this library.

    How a call failed is printed as its result, and the traceback that is logged besides is for who asks.
    Warnings are for everybody: that a call still does not end, say, or that a tool was left out.
    """
    root, level = logging.getLogger(), logging.getLogger().level
    handler = logging.StreamHandler(sys.stderr) if verbose else _Warnings(logging.WARNING)
    root.addHandler(handler)
    if verbose:
        handler.setFormatter(logging.Formatter(logging.BASIC_FORMAT))
        root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


class _Warnings(logging.Handler):
    """Prints each warning of this library in one line."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno == logging.WARNING and record.name.split(".")[0] == __name__.split(".")[0]:
            print(f"{_PROGRAM}: {one_line(record.getMessage())}", file=sys.stderr)
