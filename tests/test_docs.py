"""The pages tell the truth: their Python is run, and what it prints is compared.

The Python blocks of a page are one program, run from top to bottom in a module of its own. A `text`
block that follows a Python block is what that block prints, to the letter; a block without one prints
nothing. A block that is only to be read is announced by `<!-- not run: why -->` on the line before it.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest
from attrs import frozen

import trio_tools
from trio_tools.trace import read_outcome, step_to_json, structure_step

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

FENCE = re.compile(
    r"^(?P<fence>`{3,})(?P<language>[\w-]*)[^\n]*\n(?P<body>.*?)^(?P=fence)[ ]*$", re.MULTILINE | re.DOTALL
)
NOT_RUN = re.compile(r"<!-- not run: \S.*-->\n\Z")
LINK = re.compile(r"\]\((?!https?://|#|mailto:)(?P<target>[^)#\s]+)")


@frozen
class Snippet:
    """A Python block, where its code begins, and what it prints."""

    code: str
    line: int
    prints: str


def snippets(text: str) -> Iterator[Snippet]:
    for fence, after in pairwise([*FENCE.finditer(text), None]):
        if fence is None or fence["language"] != "python" or NOT_RUN.search(text[: fence.start()]):
            continue
        shown = (
            after is not None
            and after["language"] == "text"
            and not text[fence.end() : after.start()].strip()
        )
        prints = after["body"] if after is not None and shown else ""
        yield Snippet(fence["body"], text.count("\n", 0, fence.start("body")), prints)


def needs_of(page: Path) -> list[pytest.MarkDecorator]:
    """Return a mark for what a page starts and the tests do not bring."""
    return [pytest.mark.git_server] if '"mcp_server_git"' in page.read_text(encoding="utf-8") else []


@pytest.mark.parametrize("page", [pytest.param(page, id=page.name, marks=needs_of(page)) for page in PAGES])
def test_the_snippets_of_a_page_run_and_print_what_it_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType(f"page_{page.stem}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.chdir(tmp_path)
    printed: list[str] = []
    shown = list(snippets(page.read_text(encoding="utf-8")))
    for snippet in shown:
        out = io.StringIO()
        # Blank lines before the code make a traceback point to the line of the page.
        code = compile("\n" * snippet.line + snippet.code, str(page), "exec", dont_inherit=True)
        with contextlib.redirect_stdout(out):
            exec(code, vars(module))
        printed.append(out.getvalue())

    assert printed == [snippet.prints for snippet in shown]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    targets = [match["target"] for match in LINK.finditer(page.read_text(encoding="utf-8"))]
    dead = [target for target in targets if not (page.parent / target).exists()]

    assert dead == []


def test_every_public_name_has_a_place_among_the_names() -> None:
    listed = re.findall(
        r"^\.\. auto\w+:: (\w+)$", (ROOT / "docs" / "api.md").read_text(encoding="utf-8"), re.MULTILINE
    )

    assert sorted(listed) == sorted(trio_tools.__all__)


def test_every_package_has_a_place_among_the_names() -> None:
    listed = re.findall(
        r"^\.\. automodule:: trio_tools\.(\w+)$", (ROOT / "docs" / "api.md").read_text("utf-8"), re.MULTILINE
    )
    home = Path(trio_tools.__file__).parent
    packages = {path.parent.name for path in home.glob("*/__init__.py")} - {"cli"}

    assert sorted(listed) == sorted(packages)


def test_the_sample_rows_of_the_rule_book_are_what_the_readers_accept() -> None:
    text = (ROOT / "docs" / "semantics.md").read_text(encoding="utf-8")
    (block,) = (fence["body"] for fence in FENCE.finditer(text) if fence["language"] == "json")
    rows: list[dict[str, object]] = []
    while block := block.strip():
        row, end = json.JSONDecoder().raw_decode(block)
        rows.append(row)
        block = block[end:]

    assert [step_to_json(structure_step(row)) for row in rows] == rows
    assert [read_outcome(row) for row in rows] == ["ok", "cancelled", "ok"]


def test_the_check_calls_the_test_command_that_the_readme_shows() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    commands = [line for line in readme.splitlines() if line.startswith("python -m pip install")]

    assert [command.rpartition(" ")[2] for command in commands[:2]] == ["demo", "tests"]
    assert commands[1] in script


def test_the_reader_of_pages_sees_code_output_and_exceptions() -> None:
    page = (
        "```python\nprint(1)\n```\n\n```text\n1\n```\n\nThen:\n\n```python\nx = 2\n```\n\nAnd\n\n"
        "```text\nfree\n```\n"
        "<!-- not run: it needs a server -->\n```python\nboom()\n```\n"
    )

    assert list(snippets(page)) == [Snippet("print(1)\n", 1, "1\n"), Snippet("x = 2\n", 11, "")]
