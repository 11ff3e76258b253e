"""The manifest: what is required of a tool, in sentences, and which function decides it."""

from collections.abc import Callable
from enum import StrEnum
from functools import lru_cache
from typing import Final, final

from attrs import frozen

from trio_tools import Effect

from ._case import Kind
from ._judges import (
    Complaint,
    Judge,
    cleans_up_in_time,
    comes_to_rest,
    finishes_generators,
    gives_valid_values,
    is_concurrency_safe,
    is_idempotent,
    is_read_only,
    is_the_same_everywhere,
    keeps_invariant,
    keeps_its_error,
    keeps_loop_free,
    keeps_timeout,
    knows_its_timeouts,
    leaves_no_task,
    leaves_none,
    lets_through,
    makes_no_value,
    nests_scopes,
    stops,
    yields_outside,
)
from ._observation import Observation
from ._runner import Subject

__all__ = ["BITS", "MANIFEST", "NO_REACH", "Requirement", "Verdict", "judge"]


@final
class Verdict(StrEnum):
    """What a check says about one requirement; silence is never PASS."""

    PASS = "pass"
    FAIL = "fail"
    UNRESOLVED = "unresolved"
    NOT_APPLICABLE = "not_applicable"


@final
@frozen(kw_only=True)
class Requirement:
    """One thing that is required of every tool.

    Attributes:
        id: its stable name.
        title: a few words.
        sentence: the requirement.
        rules: the rules of the semantics behind it.
        kinds: the kinds of case that decide it.
        judge: decides one case.
        applies: why it does not apply to a tool, None when it does.
        silent: what it means when no run said anything: why it does not apply.
        absorbed_by: requirements whose finding at the same line is the same defect, told better.
        by_real_time: whether a machine that is busy otherwise can make it look broken.
    """

    id: str
    title: str
    sentence: str
    rules: tuple[str, ...]
    kinds: frozenset[Kind]
    judge: Judge
    applies: Callable[[Subject], str | None] = lambda _subject: None
    silent: str | None = None
    absorbed_by: tuple[str, ...] = ()
    by_real_time: bool = False


def _only_async(subject: Subject) -> str | None:
    return (
        None
        if subject.tool.is_async
        else "a def body runs in a thread of its own, where it has no checkpoints and no scopes"
    )


def _has_fixture(subject: Subject) -> str | None:
    return None if subject.setup is not None else "no setup, so there is no invariant to ask"


def _claims(effect: Effect) -> Callable[[Subject], str | None]:
    def claims(subject: Subject) -> str | None:
        if subject.tool.effect is not effect:
            return f"the tool does not declare the effect {effect.value}"
        return None if subject.setup is not None else "no setup, so there is no state to compare"

    return claims


def _claims_safety(subject: Subject) -> str | None:
    return None if subject.tool.concurrency_safe else "the tool does not declare that it is safe to overlap"


def _claims_timeout(subject: Subject) -> str | None:
    return None if subject.tool.timeout is not None else "the tool declares no timeout"


_RUNS: Final = frozenset({Kind.REFERENCE, Kind.CANCEL, Kind.TIMEOUT})
_CANCELS: Final = frozenset({Kind.CANCEL})
_NO_SNAPSHOT: Final = "the fixture has no snapshot"
NO_REACH: Final = "no cancellation reached the body: it has no checkpoint outside a shield"

MANIFEST: Final = (
    Requirement(
        id="TT-01",
        title="stops when cancelled",
        sentence="A call cancelled at any step ends within bounded virtual time, steps and real time.",
        rules=("SC-3", "BO-4", "CA-16"),
        kinds=_CANCELS,
        judge=stops,
    ),
    Requirement(
        id="TT-02",
        title="lets a cancellation through",
        sentence="Once a cancellation has reached the body, it leaves the body, and no task goes on.",
        rules=("BO-5", "BO-7", "CA-16"),
        kinds=_CANCELS,
        judge=lets_through,
        silent=NO_REACH,
    ),
    Requirement(
        id="TT-03",
        title="makes no value of a cancellation",
        sentence="The body does not return once a cancellation has reached it.",
        rules=("BO-6", "CA-3", "CA-4"),
        kinds=_CANCELS,
        judge=makes_no_value,
        silent=NO_REACH,
        absorbed_by=("TT-02",),
    ),
    Requirement(
        id="TT-04",
        title="cleans up in bounded time",
        sentence="The cleanup after a cancellation ends within its own bound, shielded or not.",
        rules=("BO-4", "SC-10"),
        kinds=_CANCELS,
        judge=cleans_up_in_time,
        silent=NO_REACH,
        absorbed_by=("TT-02",),
    ),
    Requirement(
        id="TT-05",
        title="leaves no task",
        sentence="No task that the body started, in whatever nursery, outlives the call.",
        rules=("BO-4", "BO-11"),
        kinds=_RUNS,
        judge=leaves_no_task,
    ),
    Requirement(
        id="TT-06",
        title="leaves no thread",
        sentence="No thread that the body started, abandoned ones included, is at work after the call.",
        rules=("BO-4", "BO-13"),
        kinds=_RUNS,
        judge=leaves_none("threads", "a thread"),
    ),
    Requirement(
        id="TT-07",
        title="leaves no child process",
        sentence="Every child process that the body started has ended and been awaited.",
        rules=("BO-4",),
        kinds=_RUNS,
        judge=leaves_none("children", "a child process"),
    ),
    Requirement(
        id="TT-08",
        title="leaves no descriptor",
        sentence="Every file and pipe that the body opened is closed.",
        rules=("BO-4",),
        kinds=_RUNS,
        judge=leaves_none("fds", "an open descriptor"),
    ),
    Requirement(
        id="TT-09",
        title="leaves no socket",
        sentence="Every socket that the body opened is closed.",
        rules=("BO-4",),
        kinds=_RUNS,
        judge=leaves_none("sockets", "an open socket"),
    ),
    Requirement(
        id="TT-10",
        title="leaves no temporary file",
        sentence="Nothing stays behind in the directory for temporary files.",
        rules=("BO-4",),
        kinds=_RUNS,
        judge=leaves_none("files", "a temporary file"),
    ),
    Requirement(
        id="TT-11",
        title="finishes its generators",
        sentence="Every asynchronous generator that the body begins is run to its end or closed.",
        rules=("BO-4",),
        kinds=_RUNS,
        judge=finishes_generators,
    ),
    Requirement(
        id="TT-12",
        title="nests its scopes",
        sentence="Every scope and nursery that the body opens is closed, in the same task and in order.",
        rules=("BO-10",),
        kinds=_RUNS,
        judge=nests_scopes,
        applies=_only_async,
    ),
    Requirement(
        id="TT-13",
        title="yields outside of scopes",
        sentence="No asynchronous generator of the tool yields inside a cancel scope or nursery.",
        rules=("BO-10",),
        kinds=_RUNS,
        judge=yields_outside,
        applies=_only_async,
    ),
    Requirement(
        id="TT-14",
        title="keeps the loop free",
        sentence="No step of the body holds the loop for long.",
        rules=("TI-16", "BO-13"),
        kinds=_RUNS,
        judge=keeps_loop_free,
        by_real_time=True,
        applies=_only_async,
    ),
    Requirement(
        id="TT-15",
        title="comes to rest",
        sentence="When the call has ended, the loop is idle.",
        rules=("BO-4",),
        kinds=_RUNS,
        judge=comes_to_rest,
    ),
    Requirement(
        id="TT-16",
        title="keeps its error",
        sentence="An error that is on its way out survives a cancellation that lands in its cleanup.",
        rules=("BO-7", "CA-22"),
        kinds=_CANCELS,
        judge=keeps_its_error,
        applies=_only_async,
        silent="no cancellation landed in the cleanup after an error of the tool's own",
    ),
    Requirement(
        id="TT-17",
        title="knows its own timeouts",
        sentence="A cancellation from outside does not leave the body as a timeout error of its own.",
        rules=("TI-17", "BO-7"),
        kinds=_CANCELS,
        judge=knows_its_timeouts,
        silent=NO_REACH,
    ),
    Requirement(
        id="TT-18",
        title="gives valid values",
        sentence="Every value that the body returns is lossless JSON of its declared schema.",
        rules=("MA-9", "MA-11", "BO-6"),
        kinds=_RUNS,
        judge=gives_valid_values,
    ),
    Requirement(
        id="TT-19",
        title="is idempotent, if it says so",
        sentence="The same call again, also after a cancelled one, leaves the state that one call leaves.",
        rules=("WR-13",),
        kinds=frozenset({Kind.REPEAT}),
        judge=is_idempotent,
        applies=_claims(Effect.IDEMPOTENT_WRITE),
        silent=_NO_SNAPSHOT,
    ),
    Requirement(
        id="TT-20",
        title="is read-only, if it says so",
        sentence="A call leaves the state that was there before it, cancelled or not.",
        rules=("WR-13", "TR-4"),
        kinds=_RUNS,
        judge=is_read_only,
        applies=_claims(Effect.READ_ONLY),
        silent=_NO_SNAPSHOT,
    ),
    Requirement(
        id="TT-21",
        title="is safe to overlap, if it says so",
        sentence="Two calls at once give results and a state that one of their two orders gives.",
        rules=("BA-2", "BA-3"),
        kinds=frozenset({Kind.PAIR}),
        judge=is_concurrency_safe,
        applies=_claims_safety,
        silent="the tool declares of none of these arguments that calls with them are safe to overlap",
    ),
    Requirement(
        id="TT-22",
        title="keeps its timeout",
        sentence="A call whose declared timeout passes at any step ends within the grace after it.",
        rules=("TI-4", "TI-11"),
        kinds=frozenset({Kind.TIMEOUT, Kind.REFERENCE}),
        judge=keeps_timeout,
        applies=_claims_timeout,
    ),
    Requirement(
        id="TT-23",
        title="keeps the invariant",
        sentence="The fixture's invariant holds after the call, wherever it was cancelled.",
        rules=("CA-16", "BO-4"),
        kinds=_RUNS,
        judge=keeps_invariant,
        applies=_has_fixture,
        silent="the fixture has no invariant",
    ),
    Requirement(
        id="TT-24",
        title="ends the same by every route",
        sentence="Alone, batched, nested, through a layer or past neutral hooks, a call ends the same way.",
        rules=("NE-2", "LA-7", "BA-1"),
        kinds=frozenset({Kind.ROUTES}),
        judge=is_the_same_everywhere,
    ),
)
"""Every requirement, in the order of the report."""


BITS: Final = {requirement.id: index for index, requirement in enumerate(MANIFEST)}
"""The bit of each requirement in an answer: whether the run decides it."""


@lru_cache(maxsize=16)
def _deciding(subject: Subject, kind: Kind) -> tuple[tuple[int, str, Judge], ...]:
    return tuple(
        (1 << BITS[requirement.id], requirement.id, requirement.judge)
        for requirement in MANIFEST
        if kind in requirement.kinds and not requirement.applies(subject)
    )


def judge(seen: Observation, subject: Subject) -> tuple[int, list[tuple[str, Complaint]]]:
    """Decide one run.

    Returns:
        the requirements about which the run says something, each as the bit of its place in the manifest,
        and each complaint with the id of its requirement.
    """
    decided = 0
    complaints: list[tuple[str, Complaint]] = []
    for bit, each, decide in _deciding(subject, seen.case.kind):
        found = decide(seen, subject)
        if found is None:
            continue
        decided |= bit
        if found:
            complaints.extend((each, complaint) for complaint in found)
    return decided, complaints
