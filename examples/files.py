"""Two tools that look at the files of the folder they are run in.

trio-tools call examples/files.py:TOOLS read_file '{"path": "README.md", "limit": 3}'
trio-tools serve examples/files.py:TOOLS
"""

from pathlib import Path
from typing import Annotated

import trio

from trio_tools import Effect, ToolContext, ToolError, tool


@tool(effect=Effect.READ_ONLY, concurrency_safe=True)
async def read_file(
    path: Annotated[str, "relative to the present folder"],
    limit: Annotated[int, "the most lines to return"] = 20,
) -> str:
    """Return the first lines of a text file."""
    try:
        text = await trio.Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ToolError(f"{path} cannot be read: {error.strerror}", code="UNREADABLE") from None
    return "\n".join(text.splitlines()[:limit])


@tool(effect=Effect.READ_ONLY, concurrency_safe=True, timeout=30)
def count_lines(pattern: Annotated[str, "such as **/*.py"], ctx: ToolContext) -> dict[str, int]:
    """Count the lines of all files that match a pattern."""
    counts: dict[str, int] = {}
    for path in sorted(Path().glob(pattern)):
        # This body runs in a worker thread: it is asked to stop here, and nowhere else.
        ctx.check_cancelled()
        if path.is_file():
            counts[str(path)] = len(path.read_bytes().splitlines())
    return counts


TOOLS = [read_file, count_lines]
