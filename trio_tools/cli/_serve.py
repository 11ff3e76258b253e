"""``trio-tools serve TARGET``: be an MCP server over standard input and output."""

import argparse
import os
import sys
from typing import Final

from trio_tools import Layer

from ._command import Subparsers
from ._failure import FINE, CommandError, one_line
from ._interrupt import run_until_interrupted
from ._target import TARGET_HELP, open_target

__all__ = ["add_parser", "run"]

_EXAMPLES: Final = """\
examples:
  trio-tools serve examples/files.py:TOOLS
  trio-tools call mcp:'trio-tools serve examples/files.py:TOOLS' read_file '{"path": "README.md"}'

On a terminal it says what it serves. What the tools print goes to standard
error. A request that the client gives up is cancelled and not answered; when
the client goes away, all of them are.
The exit code is then 0; 1 if the target cannot be served, 130 if interrupted."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the parser of ``serve``."""
    parser = subparsers.add_parser(
        "serve",
        help="offer tools to an MCP client over standard input and output",
        description="Offer tools to an MCP client over standard input and output.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("target", metavar="TARGET", help=TARGET_HELP)


def _hello(registry: Layer) -> str:
    # Started by hand it would look as if it hung: what it waits for is written by a program.
    names = ", ".join(str(schema["name"]) for schema in registry.schemas()) or "no tools"
    return one_line(f"trio-tools: serving {names}; an MCP client is to write here; Ctrl-D or Ctrl-C ends it")


def run(args: argparse.Namespace) -> int:
    """Serve until the client goes away."""
    try:
        from trio_tools.mcp import serve
    except ImportError as error:
        raise CommandError(f"{error.name} is not installed; run: pip install 'trio-tools[mcp]'") from None

    async def main() -> int:
        async with open_target(args.target) as registry:
            if os.isatty(0):
                print(_hello(registry), file=sys.stderr)
            await serve(registry)
        return FINE

    return run_until_interrupted(main)
