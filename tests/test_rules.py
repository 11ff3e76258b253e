"""The rules of `docs/semantics.md` and the tests that show them are held against each other.

A test names what it shows by `@pytest.mark.rule("SC-3", ...)`. The markers are read from the source, so
a test that is not collected, or a parameter that is not run, cannot lend its rule to the list. Run
`pytest -s tests/test_rules.py` to see the list: each rule, and the tests that show it.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

TESTS = Path(__file__).parent
RULE_BOOK = TESTS.parent / "docs" / "semantics.md"

# Areas of which every rule has a test. An area is added once it is so, and never leaves.
CORE = {"SC", "MA", "GA", "WR", "BO", "RE", "PU", "CA", "TI", "BA", "NE", "LA", "JS", "OU", "BD"}
ENFORCED = CORE | {"ST", "TR", "TL", "TP"}

RULE = re.compile(r"^(?:- |\| )\*\*([A-Z]{2}-\d+)\*\*", re.MULTILINE)


def area_of(rule: str) -> str:
    return rule.split("-")[0]


def rules_in(text: str) -> list[str]:
    """List the rule ids that the rule book defines: a list item or a table row begins with the bold id."""
    return RULE.findall(text)


def shown_by(path: Path) -> dict[str, list[str]]:
    """Map each rule id to the tests of a file that are marked with it."""
    shown: dict[str, list[str]] = defaultdict(list)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in tree.body:
        marks = [call for call in ast.walk(node) if isinstance(call, ast.Call) and is_rule_mark(call.func)]
        name = getattr(node, "name", "whole file")
        for call in marks:
            for argument in call.args:
                if not (isinstance(argument, ast.Constant) and isinstance(argument.value, str)):
                    raise AssertionError(f"{path.name}:{call.lineno}: a rule is named by a literal string")
                shown[argument.value].append(f"{path.relative_to(TESTS)}::{name}")
    return shown


def is_rule_mark(function: ast.expr) -> bool:
    return ast.unparse(function).endswith("mark.rule")


def all_shown() -> dict[str, list[str]]:
    shown: dict[str, list[str]] = defaultdict(list)
    for path in sorted(TESTS.rglob("test_*.py")):
        for rule, names in shown_by(path).items():
            shown[rule] += names
    return shown


RULES = rules_in(RULE_BOOK.read_text(encoding="utf-8"))


def test_each_rule_is_defined_once_and_its_area_is_numbered_upwards() -> None:
    numbers: dict[str, list[int]] = defaultdict(list)
    for rule in RULES:
        area, number = rule.split("-")
        numbers[area].append(int(number))

    assert len(RULES) == len(set(RULES))
    assert {area: found for area, found in numbers.items() if found != sorted(found)} == {}


def test_no_test_claims_a_rule_that_does_not_exist() -> None:
    unknown = {rule: names for rule, names in all_shown().items() if rule not in RULES}

    assert unknown == {}


def test_every_rule_of_an_enforced_area_has_a_test() -> None:
    shown = all_shown()
    for rule in RULES:
        print(f"{rule}: {', '.join(shown.get(rule, [])) or '-'}")
    missing = [rule for rule in RULES if area_of(rule) in ENFORCED and not shown.get(rule)]

    assert frozenset(map(area_of, RULES)) >= ENFORCED
    assert missing == []


def test_the_reader_sees_markers_and_definitions(tmp_path: Path) -> None:
    """Show that the two readers see what they claim to see, for a silent reader would pass everything."""
    book = "- **SC-1** One.\n- **CA-1** Two.\n\n| id | x |\n|---|---|\n| **CA-10** | y |\n\nSee **SC-9**.\n"
    probe = TESTS / "test_rules.py"

    assert rules_in(book) == ["SC-1", "CA-1", "CA-10"]
    assert dict(shown_by(probe)) == {}
    assert is_rule_mark(ast.parse("pytest.mark.rule", mode="eval").body)
    assert not is_rule_mark(ast.parse("pytest.mark.slow", mode="eval").body)
