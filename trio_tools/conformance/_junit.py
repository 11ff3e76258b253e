"""A report as JUnit XML: a suite for each tool, a case for each requirement."""

import re
from collections.abc import Iterable
from typing import Any, Final
from xml.sax.saxutils import escape, quoteattr

__all__ = ["suites"]

_NOT_XML: Final = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")


def suites(reports: Iterable[dict[str, Any]]) -> str:
    """Return the document for reports in their JSON form."""
    lines = ['<?xml version="1.0" encoding="utf-8"?>', "<testsuites>"]
    for report in reports:
        lines += _suite(report)
    lines.append("</testsuites>")
    return "\n".join(lines) + "\n"


def _suite(report: dict[str, Any]) -> Iterable[str]:
    cases = [_case(report, requirement) for requirement in report["requirements"]]
    if report["stale"]:
        told = "\n".join(report["stale"])
        cases.append(
            _opened(report, "stale entries of the profile")
            + f'<failure message="an entry no longer holds">{_clean(told)}</failure></testcase>'
        )
    counts = {word: sum(f"<{word}" in case for case in cases) for word in ("failure", "error", "skipped")}
    yield (
        f"<testsuite name={_attribute(report['tool'])} tests={_attribute(len(cases))} "
        f"failures={_attribute(counts['failure'])} errors={_attribute(counts['error'])} "
        f"skipped={_attribute(counts['skipped'])}>"
    )
    yield from cases
    yield "</testsuite>"


def _case(report: dict[str, Any], requirement: dict[str, Any]) -> str:
    opened = _opened(report, f"{requirement['id']} {requirement['title']}")
    verdict = requirement["verdict"]
    if verdict == "fail" and not requirement["known"]:
        mine = [found for found in report["findings"] if found["requirement"] == requirement["id"]]
        told = "\n".join(
            f"{found['message']}\n{found['where']}\nrun: {found['case']}\nreplay: {found['token']}"
            for found in mine
        )
        message = mine[0]["message"] if mine else requirement["sentence"]
        return f"{opened}<failure message={_attribute(message)}>{_clean(told)}</failure></testcase>"
    if verdict == "unresolved" and not requirement["known"]:
        return f"{opened}<error message={_attribute(requirement['reason'])}/></testcase>"
    if verdict == "pass":
        return f"{opened}</testcase>"
    reason = requirement["known"] or requirement["reason"]
    return f"{opened}<skipped message={_attribute(reason)}/></testcase>"


def _opened(report: dict[str, Any], name: str) -> str:
    return f"<testcase classname={_attribute(report['tool'])} name={_attribute(name)}>"


def _clean(value: object) -> str:
    return escape(_NOT_XML.sub("\ufffd", str(value)))


def _attribute(value: object) -> str:
    return quoteattr(_NOT_XML.sub("\ufffd", str(value)))
