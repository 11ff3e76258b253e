"""What a check found, as values; how it is written down is elsewhere."""

from collections.abc import Mapping
from typing import Any, final

from attrs import field, frozen

from ._manifest import MANIFEST, Verdict

__all__ = ["ConformanceError", "Finding", "Report"]


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

    def __str__(self) -> str:
        lines = [f"{self.requirement}: {self.message}"]
        if self.where:
            lines.append(f"  at {self.where}")
        lines += [f"  left: {each}" for each in self.left]
        lines.append(f"  run: {self.case}; seen in {self.count} runs")
        lines.append(f"  arguments: {self.arguments!r}")
        lines.append(f"  replay: {self.token}")
        return "\n".join(lines)


@final
@frozen(kw_only=True)
class Report:
    """What one tool was found to do.

    Attributes:
        tool: its name.
        seed: what the check was drawn from; the same seed gives the same report.
        verdicts: requirement id to verdict, for every requirement of the manifest.
        reasons: requirement id to the reason of a verdict that is not PASS or FAIL, or to what a PASS
            rests on.
        findings: every defect.
        planned: how many runs were planned.
        ran: how many of them reached their end, or were seen not to.
        complete: whether the sweep was complete rather than sampled.
        arguments: how many different arguments objects were tried.
        steps: the steps of each reference run.
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

    @property
    def verdict(self) -> Verdict:
        """The worst verdict: FAIL before UNRESOLVED before PASS."""
        found = set(self.verdicts.values())
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
        lines += [str(finding) for finding in self.findings]
        lines += [
            f"{requirement.id}: unresolved: {self.reasons[requirement.id]}"
            for requirement in MANIFEST
            if self.verdicts[requirement.id] is Verdict.UNRESOLVED
        ]
        raise ConformanceError("\n".join(lines))
