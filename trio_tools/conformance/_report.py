"""What a check found, as values, and the forms in which it is written down."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, final

from attrs import field, frozen

from ._html import page
from ._junit import suites
from ._manifest import MANIFEST, Verdict
from ._text import text

__all__ = ["ConformanceError", "Finding", "Report", "reports_to_html", "reports_to_json", "reports_to_junit"]

_FORMAT: Final = 1


class ConformanceError(AssertionError):
    """A tool does not keep a requirement, or it could not be decided whether it does."""


@final
@frozen(kw_only=True)
class Finding:
    """One defect, told by the first run that shows it.

    Attributes:
        requirement: the id of the requirement.
        message: a sentence.
        where: the line of the await where it began, empty when there is none.
        left: what was left or lost.
        case: which run shows it, in words.
        arguments: the arguments of that run, shrunk.
        token: the replay token: the same run again, in a fresh process.
        count: how many runs showed it.
        ticks: the picture of the run: lane, step, time, what, where.
        lanes: the names of the lanes of the picture.
    """

    requirement: str
    message: str
    where: str
    left: tuple[str, ...]
    case: str
    arguments: Any
    token: str
    count: int
    ticks: tuple[tuple[int, int, float, str, str], ...] = field(default=(), repr=False)
    lanes: tuple[str, ...] = field(default=(), repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as JSON."""
        return {
            "requirement": self.requirement,
            "message": self.message,
            "where": self.where,
            "left": list(self.left),
            "case": self.case,
            "arguments": self.arguments,
            "token": self.token,
            "count": self.count,
            "lanes": list(self.lanes),
            "ticks": [list(tick) for tick in self.ticks],
        }

    def __str__(self) -> str:
        lines = [f"{self.requirement}: {self.message}"]
        if self.where:
            lines.append(f"  at {self.where}")
        lines += [f"  left: {each}" for each in self.left]
        lines.append(f"  run: {self.case}; seen in {self.count} runs")
        lines.append(f"  arguments: {json.dumps(self.arguments, ensure_ascii=False)}")
        lines.append(f"  replay: {self.token}")
        return "\n".join(lines)


@final
@frozen(kw_only=True)
class Report:
    """What one tool was found to do.

    Attributes:
        tool: its name.
        seed: what the check was drawn from. The same seed gives the same report, unless the tool waits for
            threads or processes, whose pace nobody rules.
        verdicts: requirement id to verdict, for every requirement of the manifest.
        reasons: requirement id to the reason of a verdict that is not PASS or FAIL, or to what a PASS
            rests on.
        findings: every defect.
        planned: how many runs were planned.
        ran: how many of them reached their end, or were seen not to.
        complete: whether the sweep was complete rather than sampled.
        arguments: how many different arguments objects were tried.
        steps: the steps of each reference run.
        known: requirement id to why its failure is known and excused for now.
        stale: sentences about entries of the profile that no longer hold; each of them fails the report.
    """

    tool: str
    seed: int
    verdicts: Mapping[str, Verdict]
    reasons: Mapping[str, str]
    findings: tuple[Finding, ...]
    planned: int
    ran: int
    complete: bool
    arguments: int
    steps: tuple[int, ...]
    known: Mapping[str, str] = field(factory=dict[str, str])
    stale: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """The worst verdict that is not excused: FAIL before UNRESOLVED before PASS."""
        if self.stale:
            return Verdict.FAIL
        found = {verdict for each, verdict in self.verdicts.items() if each not in self.known}
        for worst in (Verdict.FAIL, Verdict.UNRESOLVED):
            if worst in found:
                return worst
        return Verdict.PASS

    def raise_for_failures(self) -> None:
        """Raise unless every requirement that applies is kept.

        Raises:
            ConformanceError: with the findings, and with what could not be decided.
        """
        if self.verdict is Verdict.PASS:
            return
        lines = [f"tool {self.tool!r} does not conform"]
        lines += [str(finding) for finding in self.findings if finding.requirement not in self.known]
        lines += [
            f"{requirement.id}: unresolved: {self.reasons[requirement.id]}"
            for requirement in MANIFEST
            if self.verdicts[requirement.id] is Verdict.UNRESOLVED
        ]
        lines += self.stale
        raise ConformanceError("\n".join(lines))

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON: no times of day and no durations, so equal checks are equal bytes."""
        return {
            "tool": self.tool,
            "seed": self.seed,
            "verdict": str(self.verdict),
            "planned": self.planned,
            "ran": self.ran,
            "complete": self.complete,
            "arguments": self.arguments,
            "steps": list(self.steps),
            "requirements": [
                {
                    "id": requirement.id,
                    "title": requirement.title,
                    "sentence": requirement.sentence,
                    "rules": list(requirement.rules),
                    "verdict": str(self.verdicts[requirement.id]),
                    "reason": self.reasons.get(requirement.id, ""),
                    "known": self.known.get(requirement.id, ""),
                }
                for requirement in MANIFEST
            ],
            "findings": [finding.to_dict() for finding in self.findings],
            "stale": list(self.stale),
        }

    def to_json(self) -> str:
        """Return the report as JSON text."""
        return reports_to_json([self])

    def to_junit(self) -> str:
        """Return the report as a JUnit XML document, one test case for each requirement."""
        return reports_to_junit([self])

    def to_html(self) -> str:
        """Return the report as a page that needs nothing but itself."""
        return reports_to_html([self])

    def to_text(self, *, colour: bool = False) -> str:
        """Return the report for a terminal.

        Args:
            colour: whether verdicts are coloured by escape sequences.
        """
        return text(self.to_dict(), colour=colour)


def reports_to_json(reports: Iterable[Report]) -> str:
    """Return several reports as one JSON document; keys stand in a fixed order."""
    document = {"format": _FORMAT, "tools": [report.to_dict() for report in reports]}
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"


def reports_to_junit(reports: Iterable[Report]) -> str:
    """Return several reports as one JUnit XML document."""
    return suites([report.to_dict() for report in reports])


def reports_to_html(reports: Iterable[Report]) -> str:
    """Return several reports as one page."""
    return page([report.to_dict() for report in reports])
