"""``trio-tools serve TARGET``: be an MCP server over standard input and output."""

import argparse
from typing import Final

from ._command import Subparsers
from ._failure import FINE, CommandError
from ._interrupt import run_until_interrupted
from ._target import TARGET_HELP, open_target

__all__ = ["add_parser", "run"]

_EXAMPLES: Final = """\
examples:
  trio-tools serve examples/files.py:TOOLS
  trio-tools call mcp:'trio-tools serve examples/files.py:TOOLS' read_file '{"path": "README.md"}'

What the tools print goes to standard error. A request that the client gives
up is cancelled and not answered; when the client goes away, all of them are.
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


def run(args: argparse.Namespace) -> int:
    """Serve until the client goes away."""
    try:
        from trio_tools.mcp import serve
    except ImportError as error:
        raise CommandError(f"{error.name} is not installed; run: pip install 'trio-tools[mcp]'") from None

    async def main() -> int:
        async with open_target(args.target) as registry:
            await serve(registry)
        return FINE

    return run_until_interrupted(main)
