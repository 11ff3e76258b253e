"""The forms of a report: each says the same, and each can be read by what it is meant for."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest

from tests.conformance.zoo.leaving import starts_a_system_task
from tests.conformance.zoo.stopping import has_a_child_that_goes_on, notes_it_and_raises_again
from trio_tools.conformance import (
    MANIFEST,
    Profile,
    Report,
    Verdict,
    check_tool,
    reports_to_html,
    reports_to_json,
    reports_to_junit,
)

pytestmark = pytest.mark.slow

SMALL = Profile(max_cases=30, second_cancels=False)


@pytest.fixture(scope="module")
def reports() -> list[Report]:
    tools = (starts_a_system_task, has_a_child_that_goes_on, notes_it_and_raises_again)
    return [check_tool(each, arguments=[{}], profile=SMALL, seed=1) for each in tools]


def test_the_json_form_has_every_requirement_and_every_finding(reports: list[Report]) -> None:
    document = json.loads(reports_to_json(reports))

    assert document["format"] == 1
    assert [each["tool"] for each in document["tools"]] == [report.tool for report in reports]
    for told, report in zip(document["tools"], reports, strict=True):
        assert {each["id"]: each["verdict"] for each in told["requirements"]} == dict(report.verdicts)
        assert [each["token"] for each in told["findings"]] == [each.token for each in report.findings]


def test_the_junit_form_counts_what_failed_and_what_does_not_apply(reports: list[Report]) -> None:
    root = ET.fromstring(reports_to_junit(reports))

    assert [suite.get("name") for suite in root] == [report.tool for report in reports]
    for suite, report in zip(root, reports, strict=True):
        verdicts = list(report.verdicts.values())
        assert suite.get("tests") == str(len(MANIFEST))
        assert suite.get("failures") == str(verdicts.count(Verdict.FAIL))
        assert suite.get("skipped") == str(verdicts.count(Verdict.NOT_APPLICABLE))
        assert len(suite.findall("testcase/failure")) == verdicts.count(Verdict.FAIL)


class Reader(HTMLParser):
    VOID = frozenset({"meta", "br"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.count: dict[str, int] = {}
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs
        self.count[tag] = self.count.get(tag, 0) + 1
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs
        self.count[tag] = self.count.get(tag, 0) + 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_the_page_is_well_formed_needs_nothing_else_and_draws_each_finding(reports: list[Report]) -> None:
    reader = Reader()
    reader.feed(reports_to_html(reports))
    reader.close()
    told = "".join(reader.text)

    assert reader.open == []
    assert reader.count["svg"] == sum(len(report.findings) for report in reports)
    assert "script" not in reader.count
    assert not [
        value for name, value in reader.attributes if name in {"src", "href"} and (value or "#")[0] != "#"
    ]
    assert all(finding.token in told for report in reports for finding in report.findings)
    assert "call ended at" in told
    assert "outlives the call" in told


def test_markup_in_a_name_is_text_on_the_page(reports: list[Report]) -> None:
    import attrs

    hostile = attrs.evolve(reports[0], tool="<script>alert(1)</script>\x00")

    assert "<script" not in reports_to_html([hostile])
    assert ET.fromstring(reports_to_junit([hostile]))[0].get("name") == "<script>alert(1)</script>\ufffd"
    assert "\x00" not in hostile.to_text()


def test_the_text_is_coloured_only_when_asked(reports: list[Report]) -> None:
    plain = reports[0].to_text()

    assert "\x1b" not in plain
    assert "\x1b[31;1mFAIL" in reports[0].to_text(colour=True)
    assert all(requirement.title in plain for requirement in MANIFEST)
