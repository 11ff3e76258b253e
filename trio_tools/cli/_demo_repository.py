"""The repository that the demo works on: the one it stands in, or a small one of its own."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import trio

from ._failure import CommandError, one_line

__all__ = ["open_repository"]

_FILES: Final = {
    "README.md": "# A small repository\n\nMade by the demo of trio-tools, and removed when it ends.\n",
    "src/greet.py": 'def greet(name):\n    """Say hello to the one who asks."""\n    return "Hello!"\n',
    "src/count.py": "def count(items):\n    return sum(1 for _ in items)\n",
}
_AUTHOR: Final = ("-c", "user.name=trio-tools", "-c", "user.email=trio-tools@example.invalid")


@asynccontextmanager
async def open_repository(place: Path) -> AsyncGenerator[tuple[Path, str]]:
    """Give the root of the repository that ``place`` is in, and the path of a text file in it.

    Where there is none, or none with a commit, a small one is made in a temporary folder and removed
    again. Only reading tools are used on it.

    Raises:
        CommandError: when git is not installed or does not work.
    """
    if shutil.which("git") is None:
        raise CommandError("git is not installed; install it to run the demo")
    root = await _git(place, "rev-parse", "--show-toplevel")
    if root and await _git(place, "rev-parse", "--verify", "--quiet", "HEAD"):
        file = await _text_file(Path(root))
        if file is not None:
            yield Path(root), file
            return
    with tempfile.TemporaryDirectory(prefix="trio-tools-demo-") as folder:
        made = Path(await trio.Path(folder).resolve())
        await _make(made)
        yield made, "README.md"


async def _git(place: Path, *words: str) -> str:
    """Return what git prints, or nothing where it fails."""
    # Inherited from a hook or a rebase, these would point git at another repository.
    env = {
        key: value
        for key, value in os.environ.items()
        if key not in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")
    }
    done = await trio.run_process(
        ["git", *words], cwd=place, env=env, check=False, capture_stdout=True, stderr=subprocess.DEVNULL
    )
    return done.stdout.decode("utf-8", "surrogateescape").strip() if done.returncode == 0 else ""


async def _text_file(root: Path) -> str | None:
    listed = (await _git(root, "ls-files", "-z")).split("\0")
    for name in sorted(listed, key=lambda name: (not name.upper().startswith("README"), name)):
        try:
            if name and await trio.Path(root, name).read_text(encoding="utf-8"):
                return name
        except (OSError, ValueError):
            continue
    return None


async def _make(root: Path) -> None:
    for name, text in _FILES.items():
        file = root / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    for words in (
        ("init", "--quiet"),
        ("add", "README.md"),
        (*_AUTHOR, "commit", "--quiet", "--no-gpg-sign", "--message", "Say what this is"),
        ("add", "."),
        (*_AUTHOR, "commit", "--quiet", "--no-gpg-sign", "--message", "Greet and count"),
    ):
        done = await trio.run_process(
            ["git", *words], cwd=root, check=False, capture_stdout=True, capture_stderr=True
        )
        if done.returncode != 0:
            said = one_line(done.stderr.decode("utf-8", "replace"))
            raise CommandError(f"git cannot make a repository in a temporary folder: {said}")
