"""Running cases in workers, and judging them there: what travels back is the judgement."""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from ._case import Case, Kind
from ._fixture import FixtureError
from ._judges import Complaint
from ._manifest import judge
from ._observation import Observation
from ._runner import Runner, Subject
from ._site import Site
from ._workers import Answer, WorkerError, answers

__all__ = ["answers_of", "complaints_of", "is_lost"]


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
    answer: Answer = {"i": index, "d": decided, "n": seen.steps, "r": seen.resumes}
    if complaints:
        answer["c"] = [
            [each, complaint.message, _plain_site(complaint.site), complaint.left]
            for each, complaint in complaints
        ]
    if seen.case.kind in {Kind.CANCEL, Kind.TIMEOUT}:
        answer["f"] = seen.fired
    # A cleanup that never comes to rest is not cancelled again: it would take all its steps each time.
    if seen.case.kind is Kind.CANCEL and seen.stuck not in {"steps", "spin"}:
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


def complaints_of(answer: Answer) -> list[tuple[str, Complaint]]:
    return [
        (each, Complaint(message, None if site is None else Site(*site), tuple(left)))
        for each, message, site, left in answer.get("c", ())
    ]


def answers_of(
    subject: Subject,
    cases: Sequence[Case],
    *,
    processes: int,
    on_answer: Callable[[], None] = lambda: None,
    alone: bool = False,
) -> list[Answer]:
    """Return one answer for each case, in their order; ``alone`` gives each a process of its own."""
    found: dict[int, Answer] = {}
    job = _job(subject, cases)
    for answer in answers(
        job,
        range(len(cases)),
        processes=processes,
        wall_seconds=subject.profile.wall_seconds,
        alone=alone,
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
    who = "the fixture" if stage == 0 and subject.setup is not None else "the tool"
    seconds = f"{subject.profile.wall_seconds:g} real seconds"
    if answer["stuck"] == "died":
        lost = f"{who} {answer['detail']}"
    elif answer["stuck"] == "left":
        lost = f"{who} hung before so often that it was not tried again"
    elif stage == 0 and subject.setup is not None:
        lost = f"the fixture did not come back within {seconds}"
    elif site is None and not seen.fired:
        lost = f"{who} still waited for a thread or a descriptor after {seconds}"
    if lost:
        return {"i": answer["i"], "d": 0, "died": lost, "n": 0, "r": 0}
    return {**_answer(answer["i"], seen, subject), "wall": True}


def is_lost(answer: Answer) -> bool:
    """Return whether a run was not seen to its end."""
    return "died" in answer or "wall" in answer
