"""The page about the reference says what the model says: sentences, programs, and the table."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from trio_tools import reference
from trio_tools.reference import PROPERTIES, Backend, Program, Verdict, compare

PAGE = (Path(__file__).parents[2] / "docs" / "reference.md").read_text(encoding="utf-8")
NUMBERED = PROPERTIES[:-1]
WORDS = {Verdict.KEPT: "kept", Verdict.DIVERGES: "**diverges**", Verdict.NOT_EXPRESSIBLE: "no words"}


def section(heading: str) -> str:
    _, _, rest = PAGE.partition(f"### {heading}\n")
    return re.split(r"^#{2,3} ", rest, maxsplit=1, flags=re.MULTILINE)[0]


def programs_in(text: str) -> list[Program]:
    """Reads the programs of the calls of `show` in a section."""
    code = "".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    calls = (node for node in ast.parse(code).body if isinstance(node, ast.Expr))
    found: list[Program] = []
    for call in calls:
        assert isinstance(call.value, ast.Call)
        arguments = ", ".join(map(ast.unparse, call.value.args))
        found.append(eval(f"Program({arguments})", dict(vars(reference))))
    return found


def test_the_page_has_each_property_with_its_sentence_and_its_programs() -> None:
    headings = re.findall(r"^### (SCP-\d+): ", PAGE, re.MULTILINE)
    wrong: list[str] = []
    for prop in NUMBERED:
        text = section(f"{prop.id}: {prop.title}")
        if prop.statement not in " ".join(text.split()) or programs_in(text) != list(prop.shown_by):
            wrong.append(prop.id)

    assert headings == [prop.id for prop in NUMBERED]
    assert wrong == []


def test_the_table_of_the_page_is_what_the_backends_do() -> None:
    table = compare([program for prop in PROPERTIES for program in prop.shown_by])
    rows = [
        f"| {prop.id} | {prop.title} | "
        + " | ".join(WORDS[table.cells[prop.id, backend].verdict] for backend in Backend)
        + " |"
        for prop in NUMBERED
    ]
    shown = [line for line in PAGE.splitlines() if line.startswith("| SCP-")]

    assert shown == rows


def test_every_operation_stands_in_the_table_of_the_language() -> None:
    table = PAGE.partition("## The language\n")[2].partition("\n## ")[0]
    operations = [name for name in reference.__all__ if name in str(reference.Op)]
    missing = [name for name in operations if f"`{name}(" not in table]

    assert len(operations) > 12
    assert missing == []
