"""Checking one tool: reference runs, the sweep, what it showed, and once more in a fresh process."""

import inspect
import os
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NoReturn, final

import trio
from attrs import define, field, frozen

from trio_tools import NotLossless, Tool, freeze_value

from ._arguments import ArgumentsError, draw_arguments, shrink_arguments
from ._case import Case, Kind, read_token, token_of
from ._fixture import FixtureError, Setup
from ._judges import Complaint
from ._manifest import MANIFEST, Verdict, judge
from ._observation import Observation
from ._plan import Reference, first_wave, references, sampled, second_wave
from ._profile import Profile
from ._report import Finding, Report
from ._runner import Runner, Subject
from ._site import Site
from ._workers import Answer, WorkerError, answers

__all__ = ["CheckError", "ToolCheck", "check_tool", "replay"]

_DEPTH: Final = 512
_IDS: Final = {requirement.id: index for index, requirement in enumerate(MANIFEST)}


class CheckError(ValueError):
    """A tool cannot be checked at all: the target, its arguments or its fixture do not work."""


@final
@frozen(kw_only=True)
class ToolCheck:
    """A tool together with how it is to be checked: what a target of the command line or of pytest may be.

    Attributes:
        tool: a `Tool`, or an ``async def`` function.
        arguments: a strategy or a sequence of examples, None to derive them from the schema.
        setup: makes the fixture of each run.
        profile: limits and budget, None for what the caller says.
        max_examples: how many arguments objects are drawn.
    """

    tool: object
    arguments: Any = None
    setup: Setup | None = None
    profile: Profile | None = None
    max_examples: int = 3

    @property
    def name(self) -> str:
        """The name of the tool."""
        return _tool_of(self.tool).name

    def run(
        self,
        *,
        profile: Profile | None = None,
        seed: int | None = None,
        processes: int | None = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> Report:
        """Check the tool, as `check_tool` does; ``profile`` holds where the check has none of its own."""
        return check_tool(
            self.tool,
            arguments=self.arguments,
            setup=self.setup,
            profile=self.profile or profile,
            max_examples=self.max_examples,
            seed=seed,
            processes=processes,
            on_progress=on_progress,
        )

    def replay(
        self, token: str, *, profile: Profile | None = None
    ) -> tuple[Case, list[tuple[str, Complaint]]]:
        """Run one case again, as `replay` does."""
        return replay(self.tool, token, setup=self.setup, profile=self.profile or profile)


def check_tool(
    tool: object,
    *,
    arguments: Any = None,
    setup: Setup | None = None,
    profile: Profile | None = None,
    max_examples: int = 3,
    seed: int | None = None,
    processes: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Cancel a tool at every step it takes, look at what becomes of it, and report.

    Every run is made in a process of its own kind, forked from this one, so a tool may hang, fork, exit
    or crash. It must not be called from inside a trio run.

    Args:
        tool: a `Tool`, or an ``async def`` function that makes one.
        arguments: a Hypothesis strategy for the arguments object, or a sequence of examples; derived
            from the tool's schema when left out.
        setup: makes the `Fixture` of each run: a context manager, plain or async.
        profile: limits and budget.
        max_examples: how many arguments objects are drawn.
        seed: what everything is drawn from; derived from the tool's name when left out.
        processes: how many workers; one for each core by default.
        on_progress: told how many runs are done and how many are planned so far.

    Raises:
        CheckError: when the tool cannot be checked; the message is one line.
    """
    _refuse_inside_trio()
    subject = Subject(tool=_tool_of(tool), setup=setup, profile=profile or Profile())
    chosen = zlib.crc32(subject.tool.name.encode()) if seed is None else seed
    try:
        drawn = draw_arguments(subject.tool, arguments, count=max_examples, seed=chosen)
        for each in drawn:
            freeze_value(each, depth=_DEPTH)
    except ArgumentsError as error:
        raise CheckError(str(error)) from error
    except NotLossless as error:
        raise CheckError(f"the arguments must be lossless JSON: {error}") from error
    if not drawn:
        raise CheckError("there are no arguments to call the tool with")
    check = _Check(
        subject=subject,
        seed=chosen,
        processes=processes or _cores(),
        on_progress=on_progress,
    )
    try:
        return check.run(drawn, arguments)
    except WorkerError as error:
        raise CheckError(str(error)) from error


def replay(
    tool: object, token: str, *, setup: Setup | None = None, profile: Profile | None = None
) -> tuple[Case, list[tuple[str, Complaint]]]:
    """Run the one case of a replay token again, in a fresh process.

    Returns:
        the case, and each complaint with the id of its requirement; none when nothing is wrong with it.

    Raises:
        TokenError: when the text is no replay token.
        CheckError: when the tool cannot be checked.
    """
    subject = Subject(tool=_tool_of(tool), setup=setup, profile=profile or Profile())
    case = read_token(token)
    try:
        (answer,) = _answers(subject, [case], processes=1)
    except WorkerError as error:
        raise CheckError(str(error)) from error
    return case, _complaints(answer)


def _cores() -> int:
    # Not every system can say which cores this process may use.
    affinity = getattr(os, "sched_getaffinity", None)
    return (os.cpu_count() or 1) if affinity is None else len(affinity(0))


def _refuse_inside_trio() -> None:
    try:
        trio.lowlevel.current_trio_token()
    except RuntimeError:
        return
    raise CheckError("a check starts trio runs of its own: call it from a test that is not async")


def _tool_of(tool: object) -> Tool:
    if isinstance(tool, Tool):
        return tool
    if inspect.iscoroutinefunction(tool):
        try:
            return Tool.from_function(tool)
        except (TypeError, ValueError) as error:
            raise CheckError(f"{getattr(tool, '__name__', tool)!r} cannot be made a tool: {error}") from error
    if callable(tool):
        raise CheckError(f"{getattr(tool, '__name__', tool)!r} is neither a Tool nor an async function")
    raise CheckError(f"a target is a Tool or an async function, not {type(tool).__name__}")


def _job(subject: Subject, cases: Sequence[Case]) -> Any:
    """Return what a worker does with ``cases``."""

    def job(numbers: Iterator[int], say: Callable[[Answer], None], at: Callable[[int, int], None]) -> None:
        current = -1

        def mine() -> Iterator[Case]:
            nonlocal current
            for current in numbers:
                at(current, 0)
                yield cases[current]

        def abandon(seen: Observation) -> NoReturn:
            say({**_answer(current, seen, subject), "last": True})
            os._exit(0)

        def report(seen: Observation) -> None:
            answer = _answer(current, seen, subject)
            if runner.tainted:
                # Nothing may be unwound here: what was left behind would take part in it.
                say({**answer, "last": True})
                os._exit(0)
            say(answer)
            at(-1, 0)

        runner = Runner(subject, progress=lambda stage: at(current, stage), abandon=abandon)
        runner.look_at_slow_steps()
        try:
            runner.run(mine(), report)
        except FixtureError as error:
            raise WorkerError(str(error)) from error

    return job


def _answer(index: int, seen: Observation, subject: Subject) -> Answer:
    decided, complaints = judge(seen, subject)
    answer: Answer = {
        "i": index,
        "d": sum(1 << _IDS[each] for each in decided),
        "n": seen.steps,
        "r": seen.resumes,
    }
    if complaints:
        answer["c"] = [
            [each, complaint.message, _plain_site(complaint.site), complaint.left]
            for each, complaint in complaints
        ]
    if seen.case.kind is Kind.CANCEL:
        answer["fs"] = seen.fired_step
        answer["fr"] = seen.fired_resume
    if seen.case.kind in {Kind.PAIR, Kind.REFERENCE}:
        answer["ch"] = seen.choices
        answer["u"] = seen.unended
        answer["stuck"] = seen.stuck
    if seen.real:
        answer["real"] = True
    if seen.case.draw:
        answer["t"] = [[tick.lane, tick.step, tick.time, tick.what, tick.site] for tick in seen.ticks]
        answer["names"] = seen.lanes
    return answer


def _plain_site(site: Site | None) -> list[Any] | None:
    return None if site is None else [site.file, site.line, site.function]


def _complaints(answer: Answer) -> list[tuple[str, Complaint]]:
    return [
        (each, Complaint(message, None if site is None else Site(*site), tuple(left)))
        for each, message, site, left in answer.get("c", ())
    ]


def _answers(
    subject: Subject,
    cases: Sequence[Case],
    *,
    processes: int,
    on_answer: Callable[[], None] = lambda: None,
) -> list[Answer]:
    """Return one answer for each case, in their order."""
    found: dict[int, Answer] = {}
    job = _job(subject, cases)
    for answer in answers(
        job, range(len(cases)), processes=processes, wall_seconds=subject.profile.wall_seconds
    ):
        index: int = answer["i"]
        if "d" not in answer:
            answer = _posthumous(answer, cases[index], subject)
        found[index] = answer
        on_answer()
    return [found[index] for index in range(len(cases))]


def _posthumous(answer: Answer, case: Case, subject: Subject) -> Answer:
    """Judge a run whose worker had to be killed, or died, by the little that is known of it."""
    stage = int(answer["stage"])
    where = answer.get("where")
    site = None if where is None else Site.at(*where)
    seen = Observation(
        case=case,
        stuck=answer["stuck"],
        fired=stage >= 2 or (stage >= 0 and case.step == 0),
        reached=stage,
        fired_site=site,
        slowest_site=site,
    )
    lost = ""
    if answer["stuck"] == "died":
        lost = answer["detail"]
    elif answer["stuck"] == "left":
        lost = "hung so often that the rest was not run"
    elif site is None and not seen.fired:
        lost = (
            f"still waited for a thread or a descriptor after {subject.profile.wall_seconds:g} real seconds"
        )
    if lost:
        return {"i": answer["i"], "d": 0, "died": lost, "n": 0, "r": 0}
    return {**_answer(answer["i"], seen, subject), "wall": True}


@final
@frozen
class _Seen:
    """One complaint of one run, before equal ones are put together."""

    case: Case
    complaint: Complaint


@final
@define(eq=False, kw_only=True)
class _Check:
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
        profile = self.subject.profile
        first = self._wave(references(drawn))
        known = [
            Reference(
                arguments=case.arguments,
                steps=answer["n"],
                resumes=answer["r"],
                choices=tuple(answer.get("ch", ())),
            )
            for case, answer in zip(self.cases, first, strict=True)
            if not _is_lost(answer)
        ]
        sweep, all_of_it = sampled(
            first_wave(self.subject, known, seed=self.seed), profile.max_cases, seed=self.seed
        )
        swept = self._wave(sweep)
        again, all_again = sampled(
            second_wave(self.subject, sweep, swept),
            max(0, profile.max_cases - len(sweep)),
            seed=self.seed,
        )
        self._wave(again)
        self.complete = all_of_it and all_again
        return self._report(drawn, source, known)

    def _wave(self, cases: list[Case]) -> list[Answer]:
        planned = len(self.cases) + len(cases)

        def count() -> None:
            self.done += 1
            if self.on_progress is not None:
                self.on_progress(self.done, planned)

        found = _answers(self.subject, cases, processes=self.processes, on_answer=count) if cases else []
        self.cases += cases
        self.answers += found
        return found

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
                if not confirmed:
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
        groups: dict[str, dict[object, list[_Seen]]] = {each: {} for each in _IDS}
        for case, answer in zip(self.cases, self.answers, strict=True):
            for each, complaint in _complaints(answer):
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
        requirement = MANIFEST[_IDS[each]]
        reason = requirement.applies(self.subject)
        if reason is not None:
            return Verdict.NOT_APPLICABLE, reason
        if fails:
            return Verdict.FAIL, ""
        lost = [
            answer["died"]
            for case, answer in zip(self.cases, self.answers, strict=True)
            if case.kind in requirement.kinds and "died" in answer
        ]
        if lost:
            return Verdict.UNRESOLVED, f"{len(lost)} runs did not reach their end: the tool {lost[0]}"
        bit = 1 << _IDS[each]
        decided = sum(bool(answer["d"] & bit) for answer in self.answers)
        if decided:
            return Verdict.PASS, f"{decided} runs"
        cancelled = any(case.kind is not Kind.REFERENCE for case in self.cases)
        if requirement.silent is not None and cancelled:
            return Verdict.NOT_APPLICABLE, requirement.silent
        if any(answer.get("u") for answer in self.answers):
            return Verdict.UNRESOLVED, "no run ended by itself"
        return Verdict.UNRESOLVED, "no run reached the place where this is decided"

    def _confirmed(self, each: str, seen: Sequence[_Seen], source: object) -> Finding | None:
        """Show a complaint once more in a fresh process, with simpler arguments if there are any."""
        for one in sorted(seen, key=lambda one: one.case.simplicity)[:2]:
            answer = self._again(one.case)
            complaint = next((found for name, found in _complaints(answer) if name == each), None)
            if complaint is None:
                continue
            # What hangs would hang in each try.
            case = one.case if "wall" in answer else self._simplest(each, one.case, source)
            if case is not one.case:
                shown = self._again(case)
                simpler = next((found for name, found in _complaints(shown) if name == each), None)
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
                token=token_of(case),
                count=len(seen),
                ticks=tuple(
                    (lane, step, at, what, where) for lane, step, at, what, where in answer.get("t", ())
                ),
                lanes=tuple(answer.get("names", ())),
            )
        return None

    def _again(self, case: Case) -> Answer:
        (answer,) = _answers(self.subject, [case.drawn()], processes=1)
        return answer

    def _simplest(self, each: str, case: Case, source: object) -> Case:
        if case.kind is Kind.PAIR:
            return case

        def fails(arguments: Any) -> bool:
            (answer,) = _answers(self.subject, [case.called_with(arguments)], processes=1)
            return any(name == each for name, _ in _complaints(answer))

        simplest = shrink_arguments(self.subject.tool, source, case.arguments, fails, seed=self.seed)
        return case if simplest == case.arguments else case.called_with(simplest)


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


_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")


def _is_lost(answer: Answer) -> bool:
    return "died" in answer or "wall" in answer
