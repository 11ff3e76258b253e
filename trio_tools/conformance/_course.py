"""The course of one check: reference runs, the sweep, what it showed, and once more in a fresh process."""

import random
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, final

from attrs import define, field, frozen

from ._arguments import shrink_arguments
from ._case import Case, Kind, Mode, token_of
from ._job import answers_of, complaints_of, is_lost
from ._judges import Complaint
from ._manifest import BITS, MANIFEST, NO_REACH, Verdict
from ._plan import Reference, first_wave, references, sampled, second_wave
from ._report import Finding, Report
from ._runner import Subject
from ._workers import Answer

__all__ = ["Course"]


@final
@frozen
class _Seen:
    """One complaint of one run, before equal ones are put together."""

    case: Case
    complaint: Complaint


@final
@define(eq=False, kw_only=True)
class Course:
    """The course of one check."""

    subject: Subject
    seed: int
    processes: int
    on_progress: Callable[[int, int], None] | None
    cases: list[Case] = field(factory=list[Case])
    answers: list[Answer] = field(factory=list[Answer])
    complete: bool = True
    done: int = 0

    def run(self, drawn: Sequence[Any], source: object) -> Report:
        """Run every wave and make the report."""
        budget = self.subject.profile.max_cases
        first = self._wave(references(drawn[:budget]))
        budget -= len(first)
        known = [
            Reference(
                arguments=case.arguments,
                steps=answer["n"],
                resumes=answer["r"],
                choices=tuple(answer.get("ch", ())),
            )
            for case, answer in zip(self.cases, first, strict=True)
            if not is_lost(answer)
        ]
        # Where not everything can be tried, something of each wave is.
        wanted = first_wave(self.subject, known, seed=self.seed)
        sweep, all_of_it = sampled(
            wanted, budget if len(wanted) <= budget else int(budget * _FIRST), seed=self.seed
        )
        swept = self._wave(sweep)
        all_reached = self._reach(sweep, swept)
        again, all_again = sampled(
            second_wave(self.subject, sweep, swept), budget - len(sweep), seed=self.seed
        )
        self._wave(again)
        taken = {id(case) for case in sweep}
        rest, _ = sampled(
            [case for case in wanted if id(case) not in taken],
            budget - len(sweep) - len(again),
            seed=self.seed,
        )
        self._reach(rest, self._wave(rest))
        self.complete = all_of_it and all_again and all_reached and len(first) == len(drawn)
        return self._report(drawn, source, known)

    def _wave(self, cases: list[Case]) -> list[Answer]:
        planned = len(self.cases) + len(cases)

        def count() -> None:
            self.done += 1
            if self.on_progress is not None:
                self.on_progress(self.done, planned)

        found = answers_of(self.subject, cases, processes=self.processes, on_answer=count) if cases else []
        self.cases += cases
        self.answers += found
        return found

    def _reach(self, cases: list[Case], answers: list[Answer]) -> bool:
        """Run again, each in a process of its own, what ended before the place where it was to be cancelled.

        A tool that keeps something in its module, a connection or a cache, takes steps in its first run
        that it never takes again. Returns whether every such run was given its own process.
        """
        missed = [
            index
            for index, (case, answer) in enumerate(zip(cases, answers, strict=True))
            if not answer.get("f", True) and not case.deviations and "real" not in answer
        ]
        chosen = missed if len(missed) <= _ALONE else random.Random(self.seed).sample(missed, _ALONE)
        start = len(self.cases) - len(cases)
        shown = answers_of(
            self.subject, [cases[index] for index in chosen], processes=self.processes, alone=True
        )
        for index, answer in zip(chosen, shown, strict=True):
            answers[index] = self.answers[start + index] = answer
        return len(chosen) == len(missed)

    def _report(self, drawn: Sequence[Any], source: object, known: Sequence[Reference]) -> Report:
        verdicts: dict[str, Verdict] = {}
        reasons: dict[str, str] = {}
        findings: list[Finding] = []
        groups = self._groups()
        for requirement in MANIFEST:
            each = requirement.id
            verdict, reason = self._verdict(each, bool(groups[each]))
            if verdict is Verdict.FAIL:
                confirmed = [
                    finding
                    for seen in groups[each].values()
                    if (finding := self._confirmed(each, seen, source)) is not None
                ]
                findings += confirmed
                if not confirmed and requirement.by_real_time:
                    verdict, reason = self._verdict(each, fails=False)
                elif not confirmed:
                    verdict = Verdict.UNRESOLVED
                    reason = "what one run showed was not seen again in a fresh process"
            verdicts[each] = verdict
            if reason:
                reasons[each] = reason
        return Report(
            tool=self.subject.tool.name,
            seed=self.seed,
            verdicts=verdicts,
            reasons=reasons,
            findings=tuple(findings),
            planned=len(self.cases),
            ran=sum("died" not in answer for answer in self.answers),
            complete=self.complete,
            arguments=len(drawn),
            steps=tuple(reference.steps for reference in known),
        )

    def _groups(self) -> dict[str, dict[object, list[_Seen]]]:
        """Put equal complaints together: the same thing left, or the same words about the same line."""
        groups: dict[str, dict[object, list[_Seen]]] = {each: {} for each in BITS}
        for case, answer in zip(self.cases, self.answers, strict=True):
            for each, complaint in complaints_of(answer):
                site = complaint.site and str(complaint.site)
                key = complaint.left or site or _NUMBER.sub("#", complaint.message)
                groups[each].setdefault(key, []).append(_Seen(case, complaint))
        for requirement in MANIFEST:
            mine = groups[requirement.id]
            told = {
                str(seen.complaint.site)
                for better in requirement.absorbed_by
                for group in groups[better].values()
                for seen in group
            }
            mine = {key: group for key, group in mine.items() if str(group[0].complaint.site) not in told}
            groups[requirement.id] = _with_places(mine)
        return groups

    def _verdict(self, each: str, fails: bool) -> tuple[Verdict, str]:
        requirement = MANIFEST[BITS[each]]
        reason = requirement.applies(self.subject)
        if reason is not None:
            return Verdict.NOT_APPLICABLE, reason
        if fails:
            return Verdict.FAIL, ""
        lost = [
            answer.get("died", "the tool did not come back, and was killed")
            for case, answer in zip(self.cases, self.answers, strict=True)
            if ("died" in answer and case.kind in requirement.kinds)
            # What follows from an uncancelled run, all that the sweep is planned by, was not run either.
            or (is_lost(answer) and case.kind is Kind.REFERENCE)
        ]
        if lost:
            runs = "1 run" if len(lost) == 1 else f"{len(lost)} runs"
            return Verdict.UNRESOLVED, f"in {runs} {lost[0]}"
        bit = 1 << BITS[each]
        decided = sum(bool(answer["d"] & bit) for answer in self.answers)
        if decided:
            return Verdict.PASS, f"{decided} runs"
        cancelled = any(case.kind is not Kind.REFERENCE for case in self.cases)
        if requirement.silent == NO_REACH and cancelled and not self._was_cancelled_inside():
            return (
                Verdict.UNRESOLVED,
                "the budget is too small: no run of the sample is cancelled in the body",
            )
        if requirement.silent is not None and cancelled:
            return Verdict.NOT_APPLICABLE, _silence(requirement.silent, self.subject)
        if any(answer.get("u") for answer in self.answers):
            return Verdict.UNRESOLVED, "no run ended by itself"
        return Verdict.UNRESOLVED, "no run reached the place where this is decided"

    def _was_cancelled_inside(self) -> bool:
        seen = list(zip(self.cases, self.answers, strict=True))
        has_places = any(answer["n"] for case, answer in seen if case.kind is Kind.REFERENCE)
        inside = (answer for case, answer in seen if case.step > 0 and case.mode is Mode.BLOCK)
        return self.complete or not has_places or any(answer.get("f") for answer in inside)

    def _confirmed(self, each: str, seen: Sequence[_Seen], source: object) -> Finding | None:
        """Show a complaint once more in a fresh process, with simpler arguments if there are any."""
        for one in sorted(seen, key=lambda one: one.case.simplicity)[:2]:
            answer = self._again(one.case)
            complaint = _like(one.complaint, each, answer)
            if complaint is None:
                continue
            # What hangs would hang in each try.
            case = one.case if "wall" in answer else self._simplest(each, one.case, source)
            if case is not one.case:
                shown = self._again(case)
                simpler = _like(complaint, each, shown)
                if simpler is None:
                    case = one.case
                else:
                    answer, complaint = shown, simpler
            return Finding(
                requirement=each,
                message=complaint.message,
                where="" if complaint.site is None else str(complaint.site),
                left=complaint.left,
                case=str(case),
                arguments=case.arguments,
                token=token_of(case, self.subject.tool.name),
                count=len(seen),
                ticks=tuple(
                    (lane, step, at, what, where) for lane, step, at, what, where in answer.get("t", ())
                ),
                lanes=tuple(answer.get("names", ())),
            )
        return None

    def _again(self, case: Case) -> Answer:
        (answer,) = answers_of(self.subject, [case.drawn()], processes=1)
        return answer

    def _simplest(self, each: str, case: Case, source: object) -> Case:
        if case.kind is Kind.PAIR:
            return case

        def fails(arguments: Any) -> bool:
            (answer,) = answers_of(self.subject, [case.called_with(arguments)], processes=1)
            return any(name == each for name, _ in complaints_of(answer))

        simplest = shrink_arguments(self.subject.tool, source, case.arguments, fails, seed=self.seed)
        return case if simplest == case.arguments else case.called_with(simplest)


def _silence(reason: str, subject: Subject) -> str:
    if reason == NO_REACH and not subject.tool.is_async:
        return "no cancellation reached the body: with these arguments it never asks ctx.check_cancelled()"
    return reason


def _like(complaint: Complaint, each: str, answer: Answer) -> Complaint | None:
    """Return the complaint of ``answer`` about the same requirement, and the same line if there is one."""
    mine = [found for name, found in complaints_of(answer) if name == each]
    alike = (found for found in mine if found.site == complaint.site)
    return next(alike, mine[0] if mine else None)


def _with_places(groups: dict[object, list[_Seen]]) -> dict[object, list[_Seen]]:
    """Put what was seen before the first line among what was seen at a line, if there is any."""
    placed = {
        key: group for key, group in groups.items() if group[0].complaint.site or group[0].complaint.left
    }
    if not placed:
        return groups
    first = next(iter(placed.values()))
    for key, group in groups.items():
        if key not in placed:
            first.extend(group)
    return placed


_FIRST: Final = 0.75
"""The share of a budget that is too small for everything which goes to the first wave."""

_ALONE: Final = 200
"""How many runs get a process of their own."""

_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")
