"""The rule book, the model of a call, the page about it and the manifest speak of the same rules."""

import re
from pathlib import Path

from tests.test_rules import RULES, all_shown
from trio_tools import reference
from trio_tools.conformance import MANIFEST

ROOT = Path(__file__).parents[2]
MODEL = sorted(Path(reference.__file__).parent.glob("_call_*.py"))
# The areas that are about time; the others say what values look like.
AREAS = {"SC", "GA", "WR", "BO", "RE", "PU", "CA", "TI", "BA", "NE", "LA"}


def named_in_the_model() -> set[str]:
    """Collect the rules that the model names, those within a range such as `RE-1` to `RE-8` as well."""
    named: set[str] = set()
    for path in MODEL:
        text = path.read_text(encoding="utf-8")
        named.update(re.findall(r"\b[A-Z]{2}-\d+\b", text))
        for area, first, last in re.findall(r"`([A-Z]{2})-(\d+)` to `\1-(\d+)`", text):
            numbers = range(int(first), int(last) + 1)
            named.update({f"{area}-{number}" for number in numbers} & set(RULES))
    return named


def left_out_on_the_page() -> set[str]:
    page = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    section = page.partition("and what it leaves out\n")[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| ")]
    return {rule for cell in cells for rule in re.findall(r"[A-Z]{2}-\d+", cell)}


def test_the_model_names_no_rule_that_does_not_exist() -> None:
    assert named_in_the_model() <= set(RULES)


def test_each_rule_about_time_is_in_the_model_or_left_out_for_a_reason_on_the_page() -> None:
    about_time = {rule for rule in RULES if rule.split("-")[0] in AREAS}
    named, left_out = named_in_the_model(), left_out_on_the_page()

    assert about_time - named - left_out == set()
    assert named & left_out == set()
    assert left_out <= about_time


def test_each_rule_that_a_tool_is_held_to_is_in_the_book_and_shown_by_a_test() -> None:
    required = {rule for requirement in MANIFEST for rule in requirement.rules}

    assert required <= set(RULES)
    assert required <= all_shown().keys()
