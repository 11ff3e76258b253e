"""``trio-tools call TARGET NAME JSON``: one call, and its result."""

import argparse
import json
import math
import sys
from typing import Any, Final

from trio_tools import Layer, ToolCall, ToolResult, open_call_scope

from ._command import Subparsers
from ._failure import FINE, FOUND, USAGE, CommandError, one_line
from ._interrupt import run_until_interrupted
from ._report import cause_of, result_to_json
from ._target import TARGET_HELP, open_target

__all__ = ["add_parser", "run"]

_EXAMPLES: Final = """\
examples:
  trio-tools call examples/files.py:TOOLS read_file '{"path": "README.md"}'
  trio-tools call mcp:mcp-server-git git_status '{"repo_path": "."}' --timeout 5

The text of the result goes to standard output. A call that does not end ok
says why on standard error. The exit code is 0 if the call ended ok, 1 if not or
if it could not be made, 2 for arguments that are no JSON, 130 if interrupted."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the parser of ``call``."""
    parser = subparsers.add_parser(
        "call",
        help="call one tool and print its result",
        description="Call one tool and print its result.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("target", metavar="TARGET", help=TARGET_HELP)
    parser.add_argument("name", metavar="NAME", help="the tool's name")
    parser.add_argument(
        "arguments",
        metavar="JSON",
        nargs="?",
        default="{}",
        help="its arguments, an object; - reads them from standard input",
    )
    parser.add_argument(
        "--timeout",
        metavar="S",
        type=_seconds,
        default=math.inf,
        help="cancel the call after so many seconds",
    )
    parser.add_argument("--json", action="store_true", help="print the whole result as JSON")


def run(args: argparse.Namespace) -> int:
    """Call the tool; 0 if the call ended ok, 1 if not."""
    text = sys.stdin.read() if args.arguments == "-" else args.arguments
    arguments = _parse(text)

    async def main() -> int:
        async with open_target(args.target) as registry:
            async with open_call_scope(name="command", timeout=args.timeout) as scope:
                result = await registry.execute(ToolCall(name=args.name, arguments=arguments, scope=scope))
            return _print(result, args.name, registry, as_json=args.json)

    return run_until_interrupted(main)


def _seconds(text: str) -> float:
    seconds = float(text)
    if not seconds >= 0:
        raise ValueError
    return seconds


_seconds.__name__ = "number of seconds"


def _parse(text: str) -> object:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) < len(pairs):
            raise ValueError("an object has the same key twice")
        return members

    def refuse(constant: str) -> object:
        raise ValueError(f"{constant} is not JSON")

    try:
        return json.loads(text, object_pairs_hook=unique, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        what = "nested too deeply" if isinstance(error, RecursionError) else error
        raise CommandError(
            f'the arguments are no JSON: {what}; write them like \'{{"path": "README.md"}}\'', status=USAGE
        ) from None


def _print(result: ToolResult, name: str, registry: Layer, *, as_json: bool) -> int:
    if as_json:
        print(json.dumps(result_to_json(result), ensure_ascii=False, indent=2))
    elif not result.is_error:
        print(result.text)
    if not result.is_error:
        return FINE
    assert result.error is not None
    hint = ""
    if result.code == "UNKNOWN_TOOL":
        known = ", ".join(str(schema["name"]) for schema in registry.schemas())
        hint = f"; there are: {known}" if known else "; there are none"
    cause = cause_of(result)
    why = f" ({cause})" if cause else ""
    line = f"{name}: {result.outcome}, {result.code}: {one_line(result.error.message)}{why}{hint}"
    print(f"trio-tools: {line}", file=sys.stderr)
    return FOUND
