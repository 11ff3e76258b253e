"""Which runs a tool gets: all the places where a cancellation can land, or a sample that says so."""

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, final

from attrs import evolve, frozen

from trio_tools import Effect

from ._case import Case, Kind, Mode, Way
from ._runner import Subject

__all__ = ["Reference", "first_wave", "references", "sampled", "second_wave"]


@final
@frozen(kw_only=True)
class Reference:
    """What a reference run showed: all that the plan needs to know of it.

    Attributes:
        arguments: the arguments object.
        steps: how many steps the body took.
        resumes: how many times one of its tasks was resumed.
        choices: sizes of the batches of runnable tasks.
    """

    arguments: Any
    steps: int
    resumes: int
    choices: tuple[int, ...] = ()


def references(arguments: Iterable[Any]) -> list[Case]:
    """Return the uncancelled runs that come before everything else."""
    return [Case(kind=Kind.REFERENCE, arguments=each) for each in arguments]


def places(reference: Reference, *, from_thread: bool) -> list[tuple[Mode, int]]:
    """Return every place where a cancellation of this run can land, in the order of time."""
    found = [(Mode.BLOCK, 0), (Mode.RESUME, 0)]
    if from_thread:
        found = [(Mode.BLOCK, 0)]
    for step in range(1, max(reference.steps, reference.resumes) + 1):
        if step <= reference.steps:
            found.append((Mode.BLOCK, step))
        if step <= reference.resumes:
            found.append((Mode.RESUME, step))
    return found


def first_wave(subject: Subject, known: Sequence[Reference], *, seed: int) -> list[Case]:
    """Return the sweep over every place, way and claim that the references make possible."""
    tool, profile = subject.tool, subject.profile
    cases: list[Case] = []
    for reference in known:
        spots = places(reference, from_thread=not tool.is_async)
        cases += _cases(Kind.CANCEL, reference, spots, tuple(Way))
        if tool.timeout is not None:
            cases += _cases(Kind.TIMEOUT, reference, spots[1:], (Way.DEADLINE,))
        if tool.effect is Effect.IDEMPOTENT_WRITE and subject.setup is not None:
            cases.append(Case(kind=Kind.REPEAT, arguments=reference.arguments))
            cases += _cases(Kind.REPEAT, reference, spots[1:], (Way.CALLER,))
        cases.append(Case(kind=Kind.ROUTES, arguments=reference.arguments))
        cases += _cases(
            Kind.ROUTES, reference, _spread([spot for spot in spots if spot[1] > 0], 6), (Way.CALLER,)
        )
        cases += _reordered(
            Case(kind=Kind.REFERENCE, arguments=reference.arguments), reference.choices, profile.max_schedules
        )
    if tool.concurrency_safe:
        order = random.Random(seed)
        pairs = [(one.arguments, one.arguments) for one in known]
        if len(known) > 1:
            pairs += [(known[0].arguments, order.choice(known[1:]).arguments)]
        most = min(known[0].steps, 12) if known else 0
        # How far the first has come when the second begins, and then the order of their tasks.
        cases += [
            Case(kind=Kind.PAIR, arguments=[*pair], step=step) for pair in pairs for step in range(most + 1)
        ]
    return cases


def _cases(
    kind: Kind, reference: Reference, spots: Iterable[tuple[Mode, int]], ways: tuple[Way, ...]
) -> Iterator[Case]:
    for mode, step in spots:
        for way in ways:
            yield Case(kind=kind, arguments=reference.arguments, way=way, mode=mode, step=step)


def _spread(spots: Sequence[tuple[Mode, int]], most: int) -> list[tuple[Mode, int]]:
    if len(spots) <= most:
        return list(spots)
    return [spots[index * (len(spots) - 1) // (most - 1)] for index in range(most)]


def _reordered(case: Case, choices: Sequence[int], most: int) -> Iterator[Case]:
    """Yield ``case`` in other orders: first every single departure from the plain order, then pairs."""
    single = [(choice, position) for choice, size in enumerate(choices) for position in range(1, size)]
    orders: list[tuple[tuple[int, int], ...]] = [(one,) for one in single]
    orders += [(one, two) for at, one in enumerate(single) for two in single[at + 1 :] if one[0] != two[0]]
    for deviations in orders[:most]:
        yield Case(kind=case.kind, arguments=case.arguments, step=case.step, deviations=deviations)


def second_wave(subject: Subject, cases: Sequence[Case], answers: Sequence[dict[str, Any]]) -> list[Case]:
    """Return what the first wave makes possible: other orders, and another cancellation in each cleanup."""
    profile = subject.profile
    found: list[Case] = []
    for case, answer in zip(cases, answers, strict=True):
        if case.kind is Kind.REFERENCE and case.deviations and "n" in answer:
            other = Reference(arguments=case.arguments, steps=answer["n"], resumes=answer["r"])
            found += [
                evolve(cancelled, deviations=case.deviations)
                for cancelled in _cases(Kind.CANCEL, other, places(other, from_thread=False), (Way.CALLER,))
            ]
        if case.kind is Kind.PAIR and case.step == 0 and "ch" in answer:
            found += _reordered(case, answer["ch"], profile.max_schedules)
        if case.kind is not Kind.CANCEL or not profile.second_cancels or "fs" not in answer:
            continue
        for step in range(answer["fs"] + 1, answer["n"] + 1):
            found.append(_again(case, Mode.BLOCK, step))
        for step in range(answer["fr"] + 1, answer["r"] + 1):
            found.append(_again(case, Mode.RESUME, step))
    return found


def _again(case: Case, mode: Mode, step: int) -> Case:
    return Case(
        kind=case.kind,
        arguments=case.arguments,
        way=case.way,
        mode=case.mode,
        step=case.step,
        second=(mode, step),
    )


def sampled(cases: list[Case], most: int, *, seed: int) -> tuple[list[Case], bool]:
    """Return at most ``most`` cases, in their order, and whether these are all of them."""
    if len(cases) <= most:
        return cases, True
    if most <= 0:
        return [], False
    # One uncancelled run of each kind is worth more than one more place.
    first = {(case.kind, case.step < 0): index for index, case in reversed([*enumerate(cases)])}
    kept = set(sorted(first.values())[:most])
    rest = [index for index in range(len(cases)) if index not in kept]
    kept.update(random.Random(seed).sample(rest, most - len(kept)))
    return [cases[index] for index in sorted(kept)], False
