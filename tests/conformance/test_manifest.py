"""The manifest: each requirement can be told apart, is a sentence, and rests on rules that exist."""

from __future__ import annotations

import re
from pathlib import Path

from trio_tools.conformance import MANIFEST, Kind

RULES = Path(__file__).parent.parent.parent / "docs" / "semantics.md"


def test_requirements_are_numbered_without_a_gap_and_titled_differently() -> None:
    assert [each.id for each in MANIFEST] == [f"TT-{number:02}" for number in range(1, len(MANIFEST) + 1)]
    assert len({each.title for each in MANIFEST}) == len(MANIFEST)


def test_each_requirement_is_a_sentence_and_rests_on_rules_of_the_book() -> None:
    known = set(re.findall(r"\b[A-Z]{2}-\d+\b", RULES.read_text(encoding="utf-8")))

    for each in MANIFEST:
        assert each.sentence[0].isupper()
        assert each.sentence.endswith(".")
        assert each.rules
        assert set(each.rules) <= known


def test_each_requirement_is_decided_by_some_kind_of_run_and_absorbed_only_by_others() -> None:
    ids = {each.id for each in MANIFEST}

    assert all(each.kinds and each.kinds <= set(Kind) for each in MANIFEST)
    assert all(set(each.absorbed_by) <= ids - {each.id} for each in MANIFEST)


def test_the_page_of_the_documentation_has_the_table_of_the_manifest() -> None:
    page = Path(__file__).parents[2].joinpath("docs", "conformance.md").read_text(encoding="utf-8")

    for each in MANIFEST:
        assert f"| {each.id} | **{each.title}.** {each.sentence} | {', '.join(each.rules)} |" in page
