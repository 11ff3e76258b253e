"""The demo's local tools: they read and search the files of a repository, and wait for things to happen."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import trio

from trio_tools import Effect, Tool, ToolContext, ToolError, tool

__all__ = ["local_tools"]

_POLL_SECONDS = 0.05
_SKIPPED = frozenset({".git", ".hg", ".venv", "node_modules", "__pycache__"})


def local_tools(root: Path, on_wait: Callable[[], None]) -> tuple[Tool, ...]:
    """Make the tools for the repository at ``root``.

    Args:
        on_wait: called when `wait_for_commit` has begun to wait.
    """

    def inside(path: str) -> Path:
        found = (root / path).resolve()
        if not found.is_relative_to(root.resolve()):
            raise ToolError(f"{path} lies outside the repository", code="OUTSIDE")
        return found

    @tool(effect=Effect.READ_ONLY, concurrency_safe=True)
    async def read_file(
        path: Annotated[str, "relative to the root of the repository"],
        limit: Annotated[int, "the most lines to return"] = 20,
    ) -> str:
        """Return the first lines of a text file."""
        try:
            text = await trio.Path(inside(path)).read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise ToolError(f"{path} cannot be read: {error.strerror}", code="UNREADABLE") from None
        return "\n".join(text.splitlines()[:limit])

    @tool(effect=Effect.READ_ONLY, concurrency_safe=True)
    def search_files(
        text: Annotated[str, "what to look for, exactly as it is written"],
        ctx: ToolContext,
        limit: Annotated[int, "the most places to return"] = 5,
    ) -> list[str]:
        """Return the places, as path:line, where a text occurs in the repository's files."""
        places: list[str] = []
        searched = 0
        for folder, folders, files in os.walk(root):
            folders[:] = sorted(set(folders) - _SKIPPED)
            for name in sorted(files):
                # This body runs in a worker thread: it is asked to stop here, and nowhere else.
                ctx.check_cancelled()
                ctx.progress(searched, message="files searched")
                searched += 1
                path = Path(folder, name)
                try:
                    lines = path.read_text(encoding="utf-8").splitlines()
                except (OSError, ValueError):
                    continue
                relative = path.relative_to(root)
                places += [f"{relative}:{number}" for number, line in enumerate(lines, 1) if text in line]
                if len(places) >= limit:
                    return places[:limit]
        return places

    @tool(effect=Effect.READ_ONLY, concurrency_safe=True, timeout=0.5)
    async def wait_for_change(path: Annotated[str, "relative to the root of the repository"]) -> str:
        """Wait until a file is changed; this tool declares a timeout of half a second."""
        file = trio.Path(inside(path))
        before = (await file.stat()).st_mtime_ns
        while (await file.stat()).st_mtime_ns == before:  # noqa: ASYNC110  (files tell nobody)
            await trio.sleep(_POLL_SECONDS)
        return f"{path} was changed"

    @tool(effect=Effect.READ_ONLY)
    async def wait_for_commit() -> str:
        """Wait until a commit is made, however long that takes; it asks git again and again."""
        before = await _head(root)
        on_wait()
        while (now := await _head(root)) == before:  # noqa: ASYNC110  (git tells nobody)
            await trio.sleep(_POLL_SECONDS)
        return now

    return (read_file, search_files, wait_for_change, wait_for_commit)


async def _head(root: Path) -> str:
    done = await trio.run_process(
        ["git", "rev-parse", "HEAD"], cwd=root, capture_stdout=True, capture_stderr=True
    )
    return done.stdout.decode().strip()
