"""The manifest: what is required of a tool, in sentences, and what decides each one."""

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import Final, final

import trio
from attrs import frozen

from trio_tools import Effect

from ._case import Kind
from ._cleanup import has_tool_frame, in_cleanup
from ._observation import Ending, Observation
from ._probe import Delivery
from ._runner import Subject
from ._site import Site
from ._stage import ROUTES

__all__ = ["MANIFEST", "Complaint", "Requirement", "Verdict", "judge"]


@final
class Verdict(StrEnum):
    """What a check says about one requirement; silence is never PASS."""

    PASS = "pass"
    FAIL = "fail"
    UNRESOLVED = "unresolved"
    NOT_APPLICABLE = "not_applicable"


@final
@frozen
class Complaint:
    """What is wrong in one run.

    Attributes:
        message: a sentence.
        site: the line of the await where it began.
        left: what was left or lost.
    """

    message: str
    site: Site | None = None
    left: tuple[str, ...] = ()


Judge = Callable[[Observation, Subject], Iterable[Complaint] | None]
"""Decides one run: None when the run says nothing about the requirement."""


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


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield what was being handled when ``error`` was raised, innermost first, without ``error``."""
    seen = {id(error)}
    todo = [] if error is None else [error.__context__, error.__cause__]
    while todo:
        link = todo.pop()
        if link is None or id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        todo.extend((link.__context__, link.__cause__))
        if isinstance(link, BaseExceptionGroup):
            todo.extend(link.exceptions)


def _leaves(error: BaseException | None) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for leaf in error.exceptions:
            yield from _leaves(leaf)
    elif error is not None:
        yield error


def _ours(seen: Observation) -> list[Delivery]:
    return [delivery for delivery in seen.deliveries if delivery.ours]


def _swallowed(seen: Observation) -> Delivery | None:
    """Return the cancellation after which a task went on to its next cancel point."""
    earlier: dict[int, Delivery] = {}
    for delivery in _ours(seen):
        before = earlier.get(delivery.task)
        if before is not None and before.site is not None and before.error not in set(_chain(delivery.error)):
            return before
        earlier[delivery.task] = delivery
    return None


def _replaced(seen: Observation) -> tuple[BaseException, Delivery] | None:
    """Return the error that came out of the body instead of the cancellation that had reached it."""
    if seen.body != "raised":
        return None
    for leaf in _leaves(seen.error):
        if isinstance(leaf, trio.Cancelled):
            continue
        links = set(_chain(leaf))
        for delivery in _ours(seen):
            if delivery.error in links:
                return leaf, delivery
    return None


def _is_timeout(error: BaseException) -> bool:
    return isinstance(error, TimeoutError | trio.TooSlowError)


def _ended_late(seen: Observation, seconds: float, steps: int) -> str | None:
    """Say how a call failed to end in time after its cancellation, None when it did end in time."""
    if seen.stuck:
        return {
            "forever": "waits for something that nothing will do",
            "time": f"had not ended {seen.ended_at - seen.fired_at:g} s after the cancellation",
            "steps": f"was still running {seen.after_steps} steps after the cancellation",
            "spin": "never let the loop come to rest",
            "wall": "held its process until it was killed",
            "died": "ended its process",
        }[seen.stuck]
    took = seen.ended_at - seen.fired_at
    if took > seconds:
        return f"ended {took:g} s after the cancellation; {seconds:g} s are allowed"
    if seen.after_steps > steps:
        return f"took {seen.after_steps} steps after the cancellation; {steps} are allowed"
    return None


def _stops(seen: Observation, subject: Subject) -> Iterable[Complaint] | None:
    if not seen.fired:
        return None
    profile = subject.profile
    late = _ended_late(seen, profile.stop_seconds, profile.cleanup_steps)
    if late is None or _reached(seen):
        return []
    return [
        Complaint(f"the cancelled call {late}, and the cancellation never reached the body", seen.fired_site)
    ]


_DELIVERED: Final = 3


def _reached(seen: Observation) -> list[Delivery] | bool:
    """Return the cancellations that came to the tool's own code, ours or travelling in its stead."""
    return seen.reached >= _DELIVERED or [
        delivery
        for delivery in seen.deliveries
        if delivery.ours or (delivery.late and has_tool_frame(delivery.error.__traceback__))
    ]


def _lets_through(seen: Observation, _subject: Subject) -> Iterable[Complaint] | None:
    if not _ours(seen):
        return None
    swallowed = _swallowed(seen)
    if swallowed is not None:
        return [Complaint("caught a cancellation and went on to its next checkpoint", swallowed.site)]
    replaced = _replaced(seen)
    if replaced is not None and not _is_timeout(replaced[0]):
        name = type(replaced[0]).__name__
        return [Complaint(f"raised {name} in place of the cancellation", replaced[1].site)]
    return []


def _makes_no_value(seen: Observation, _subject: Subject) -> Iterable[Complaint] | None:
    own = [delivery for delivery in _ours(seen) if delivery.task == 0]
    if not own or seen.stuck:
        return None
    if seen.body == "returned" and _swallowed(seen) is None:
        return [Complaint("returned a value after the cancellation had reached it", own[-1].site)]
    return []


def _cleans_up_in_time(seen: Observation, subject: Subject) -> Iterable[Complaint] | None:
    reached = _reached(seen)
    if not reached:
        return None
    profile = subject.profile
    late = _ended_late(seen, profile.cleanup_seconds, profile.cleanup_steps)
    if late is None or _swallowed(seen) is not None:
        return []
    site = reached[0].site if isinstance(reached, list) else seen.fired_site
    return [Complaint(f"the cancellation reached the body, whose cleanup {late}", site)]


def _leaves_no_task(seen: Observation, _subject: Subject) -> Iterable[Complaint] | None:
    if seen.stuck:
        return None
    left = tuple(f"task {lane.name}" + (f" at {site}" if site else "") for lane, site in seen.tasks)
    return [Complaint("a task outlived the call", seen.fired_site, left)] if left else []


def _leaves_none(field: str, what: str) -> Judge:
    def judge_leftovers(seen: Observation, _subject: Subject) -> Iterable[Complaint] | None:
        if seen.stuck:
            return None
        left: tuple[str, ...] = getattr(seen.left, field)
        return [Complaint(f"{what} outlived the call", seen.fired_site, left)] if left else []

    return judge_leftovers


def _finishes_generators(seen: Observation, _subject: Subject) -> Iterable[Complaint] | None:
    if seen.stuck:
        return None
    left = tuple(f"generator at {where}" for where in seen.generators)
    return (
        [Complaint("an asynchronous generator was begun and not finished", seen.fired_site, left)]
        if left
        else []
    )


_BROKEN_STACK: Final = ("tool left a scope open", "scope stack corrupted", "Nursery stack corrupted")


def _nests_scopes(seen: Observation, _subject: Subject) -> Iterable[Complaint] | None:
    if seen.stuck:
        return None
    for ending in seen.endings:
        text = ending.message or ""
        if any(phrase in text for phrase in _BROKEN_STACK):
            return [
                Complaint(
                    "a cancel scope or nursery was left open, or was closed out of order", seen.fired_site
                )
            ]
    for leaf in _leaves(seen.error):
        if any(phrase in str(leaf) for phrase in _BROKEN_STACK):
            return [Complaint("a cancel scope or nursery was closed out of order", seen.fired_site)]
    return []


def _yields_outside(seen: Observation, _subject: Subject) -> Iterable[Complaint] | None:
    return [
        Complaint(f"an asynchronous generator yields inside a {kind}", site) for kind, site in seen.yields
    ]


def _keeps_loop_free(seen: Observation, subject: Subject) -> Iterable[Complaint] | None:
    if seen.stuck and seen.stuck != "wall":
        return None
    limit = subject.profile.block_seconds
    if seen.stuck == "wall" and not seen.fired:
        return [Complaint("held the loop until its process was killed", seen.slowest_site)]
    if seen.slowest > limit:
        return [Complaint(f"one step held the loop for more than {limit:g} s", seen.slowest_site)]
    return []


def _comes_to_rest(seen: Observation, _subject: Subject) -> Iterable[Complaint] | None:
    if seen.stuck:
        return [Complaint("the loop never came to rest", seen.fired_site)] if seen.stuck == "spin" else None
    if seen.tasks:
        return None
    return (
        [] if seen.idle else [Complaint("the loop was still busy after the call had ended", seen.fired_site)]
    )


def _keeps_its_error(seen: Observation, _subject: Subject) -> Iterable[Complaint] | None:
    said = False
    for delivery in _ours(seen):
        if not in_cleanup(delivery.error.__traceback__):
            continue
        for lost in _leaves(delivery.error.__context__):
            if not isinstance(lost, Exception) or isinstance(lost, StopIteration | StopAsyncIteration):
                continue
            said = True
            if seen.body == "cancelled" and lost not in set(_leaves(seen.error)):
                name = type(lost).__name__
                return [
                    Complaint(
                        f"its own {name} was lost: cleanup waited and was cancelled", delivery.site, (name,)
                    )
                ]
    return [] if said else None


def _knows_its_timeouts(seen: Observation, _subject: Subject) -> Iterable[Complaint] | None:
    if not _ours(seen):
        return None
    replaced = _replaced(seen)
    if replaced is None or not _is_timeout(replaced[0]):
        return []
    name = type(replaced[0]).__name__
    return [Complaint(f"reported somebody else's cancellation as its own {name}", replaced[1].site)]


def _gives_valid_values(seen: Observation, _subject: Subject) -> Iterable[Complaint] | None:
    if not seen.endings:
        return None
    for ending in seen.endings:
        if ending.code == "INVALID_TOOL_OUTPUT":
            return [Complaint(ending.message or "the value is invalid", seen.fired_site)]
    return []


def _is_idempotent(seen: Observation, _subject: Subject) -> Iterable[Complaint] | None:
    if seen.stuck or len(seen.snapshots) < 3:
        return None
    if seen.case.step < 0:
        _, once, twice = seen.snapshots
        return [] if once == twice else [Complaint("a second, equal call changed the state again")]
    _, _, retried, single = seen.snapshots
    if not seen.fired:
        return None
    if retried == single:
        return []
    return [Complaint("a call after a cancelled one left another state than one call does", seen.fired_site)]


def _is_read_only(seen: Observation, _subject: Subject) -> Iterable[Complaint] | None:
    if seen.stuck or len(seen.snapshots) != 2:
        return None
    before, after = seen.snapshots
    return (
        []
        if before == after
        else [Complaint("the state is another one than before the call", seen.fired_site)]
    )


def _is_concurrency_safe(seen: Observation, _subject: Subject) -> Iterable[Complaint] | None:
    if seen.stuck or len(seen.endings) != 6:
        return None
    a_first, b_second, b_first, a_second, a, b = (_comparable(ending) for ending in seen.endings)
    one, other, at_once = seen.snapshots
    if ((a, b) == (a_first, b_second) and at_once == one) or (
        (a, b) == (a_second, b_first) and at_once == other
    ):
        return []
    got = f"{seen.endings[4]}; {seen.endings[5]}"
    return [Complaint(f"two calls at once gave what no order of the two gives: {got}")]


def _comparable(ending: Ending) -> object:
    return ending.outcome, ending.code, ending.settlement, ending.value, ending.name


def _keeps_timeout(seen: Observation, subject: Subject) -> Iterable[Complaint] | None:
    timeout = subject.tool.timeout
    if timeout is None or (seen.case.kind is Kind.TIMEOUT and not seen.fired):
        return None
    over = seen.ended_at - timeout
    grace = subject.profile.timeout_grace
    if seen.stuck or over > grace:
        how = "had not ended" if seen.stuck else "ended"
        return [
            Complaint(
                f"{how} {over:g} s after its declared timeout had passed; {grace:g} s are allowed",
                seen.fired_site,
            )
        ]
    return []


def _keeps_invariant(seen: Observation, _subject: Subject) -> Iterable[Complaint] | None:
    if seen.stuck or not seen.invariants:
        return None
    return [] if seen.invariant is None else [Complaint(seen.invariant, seen.fired_site)]


def _is_the_same_everywhere(seen: Observation, _subject: Subject) -> Iterable[Complaint] | None:
    if seen.stuck or len(seen.endings) != len(ROUTES):
        return None
    first = seen.endings[0]
    for route, ending in zip(ROUTES, seen.endings, strict=True):
        if ending != first:
            return [
                Complaint(
                    f"by route {route!r} the call ended {ending}; alone it ended {first}", seen.fired_site
                )
            ]
    return []


def _only_async(subject: Subject) -> str | None:
    return None if subject.tool.is_async else "a def body runs in a thread of its own"


def _has_fixture(subject: Subject) -> str | None:
    return None if subject.setup is not None else "no setup, so there is no invariant to ask"


def _claims(effect: Effect) -> Callable[[Subject], str | None]:
    def claims(subject: Subject) -> str | None:
        return (
            None if subject.tool.effect is effect else f"the tool does not declare the effect {effect.value}"
        )

    return claims


def _claims_safety(subject: Subject) -> str | None:
    return None if subject.tool.concurrency_safe else "the tool does not declare that it is safe to overlap"


def _claims_timeout(subject: Subject) -> str | None:
    return None if subject.tool.timeout is not None else "the tool declares no timeout"


_RUNS: Final = frozenset({Kind.REFERENCE, Kind.CANCEL, Kind.TIMEOUT})
_CANCELS: Final = frozenset({Kind.CANCEL})
_NO_REACH: Final = "no cancellation reached the body: it has no checkpoint outside a shield"

MANIFEST: Final = (
    Requirement(
        id="TT-01",
        title="stops when cancelled",
        sentence="A call that is cancelled at any step ends within bounded virtual time, steps and real time.",
        rules=("SC-3", "BO-4", "CA-16"),
        kinds=_CANCELS,
        judge=_stops,
    ),
    Requirement(
        id="TT-02",
        title="lets a cancellation through",
        sentence="What leaves the body after a cancellation has reached it is that cancellation; no task of it goes on.",
        rules=("BO-5", "BO-7", "CA-16"),
        kinds=_CANCELS,
        judge=_lets_through,
        silent=_NO_REACH,
    ),
    Requirement(
        id="TT-03",
        title="makes no value of a cancellation",
        sentence="The body does not return once a cancellation has reached it.",
        rules=("BO-6", "CA-3", "CA-4"),
        kinds=_CANCELS,
        judge=_makes_no_value,
        silent=_NO_REACH,
        absorbed_by=("TT-02",),
    ),
    Requirement(
        id="TT-04",
        title="cleans up in bounded time",
        sentence="The cleanup after a cancellation ends within its own bound, shielded or not.",
        rules=("BO-4", "SC-10"),
        kinds=_CANCELS,
        judge=_cleans_up_in_time,
        silent=_NO_REACH,
        absorbed_by=("TT-02",),
    ),
    Requirement(
        id="TT-05",
        title="leaves no task",
        sentence="No task that the body started, in whatever nursery, outlives the call.",
        rules=("BO-4", "BO-11"),
        kinds=_RUNS,
        judge=_leaves_no_task,
    ),
    Requirement(
        id="TT-06",
        title="leaves no thread",
        sentence="No thread that the body started, abandoned ones included, is at work after the call.",
        rules=("BO-4", "BO-13"),
        kinds=_RUNS,
        judge=_leaves_none("threads", "a thread"),
    ),
    Requirement(
        id="TT-07",
        title="leaves no child process",
        sentence="Every child process that the body started has ended and been awaited.",
        rules=("BO-4",),
        kinds=_RUNS,
        judge=_leaves_none("children", "a child process"),
    ),
    Requirement(
        id="TT-08",
        title="leaves no descriptor",
        sentence="Every file and pipe that the body opened is closed.",
        rules=("BO-4",),
        kinds=_RUNS,
        judge=_leaves_none("fds", "an open descriptor"),
    ),
    Requirement(
        id="TT-09",
        title="leaves no socket",
        sentence="Every socket that the body opened is closed.",
        rules=("BO-4",),
        kinds=_RUNS,
        judge=_leaves_none("sockets", "an open socket"),
    ),
    Requirement(
        id="TT-10",
        title="leaves no temporary file",
        sentence="Nothing stays behind in the directory for temporary files.",
        rules=("BO-4",),
        kinds=_RUNS,
        judge=_leaves_none("files", "a temporary file"),
    ),
    Requirement(
        id="TT-11",
        title="finishes its generators",
        sentence="Every asynchronous generator that the body begins is run to its end or closed.",
        rules=("BO-4",),
        kinds=_RUNS,
        judge=_finishes_generators,
    ),
    Requirement(
        id="TT-12",
        title="nests its scopes",
        sentence="Every cancel scope and nursery that the body opens is closed, in the same task and in order.",
        rules=("BO-10",),
        kinds=_RUNS,
        judge=_nests_scopes,
        applies=_only_async,
    ),
    Requirement(
        id="TT-13",
        title="yields outside of scopes",
        sentence="No asynchronous generator of the tool yields inside a cancel scope or nursery.",
        rules=("BO-10",),
        kinds=_RUNS,
        judge=_yields_outside,
        applies=_only_async,
    ),
    Requirement(
        id="TT-14",
        title="keeps the loop free",
        sentence="No step of the body holds the loop for long.",
        rules=("TI-16", "BO-13"),
        kinds=_RUNS,
        judge=_keeps_loop_free,
        applies=_only_async,
    ),
    Requirement(
        id="TT-15",
        title="comes to rest",
        sentence="When the call has ended, the loop is idle.",
        rules=("BO-4",),
        kinds=_RUNS,
        judge=_comes_to_rest,
    ),
    Requirement(
        id="TT-16",
        title="keeps its error",
        sentence="An error that is on its way out survives a cancellation that lands in its cleanup.",
        rules=("BO-7", "CA-22"),
        kinds=_CANCELS,
        judge=_keeps_its_error,
        applies=_only_async,
        silent="no cancellation landed in the cleanup after an error of the tool's own",
    ),
    Requirement(
        id="TT-17",
        title="knows its own timeouts",
        sentence="A cancellation from outside does not leave the body as a timeout error of its own.",
        rules=("TI-17", "BO-7"),
        kinds=_CANCELS,
        judge=_knows_its_timeouts,
        silent=_NO_REACH,
    ),
    Requirement(
        id="TT-18",
        title="gives valid values",
        sentence="Every value that the body returns is lossless JSON of its declared schema, whenever it returns.",
        rules=("MA-9", "MA-11", "BO-6"),
        kinds=_RUNS,
        judge=_gives_valid_values,
    ),
    Requirement(
        id="TT-19",
        title="is idempotent, if it says so",
        sentence="The same call twice, or again after a cancelled one, leaves the state that one call leaves.",
        rules=("WR-13",),
        kinds=frozenset({Kind.REPEAT}),
        judge=_is_idempotent,
        applies=_claims(Effect.IDEMPOTENT_WRITE),
    ),
    Requirement(
        id="TT-20",
        title="is read-only, if it says so",
        sentence="A call leaves the state that was there before it, cancelled or not.",
        rules=("WR-13", "TR-4"),
        kinds=_RUNS,
        judge=_is_read_only,
        applies=_claims(Effect.READ_ONLY),
    ),
    Requirement(
        id="TT-21",
        title="is safe to overlap, if it says so",
        sentence="Two calls at once give results and a state that one of their two orders gives.",
        rules=("BA-2", "BA-3"),
        kinds=frozenset({Kind.PAIR}),
        judge=_is_concurrency_safe,
        applies=_claims_safety,
    ),
    Requirement(
        id="TT-22",
        title="keeps its timeout",
        sentence="A call whose declared timeout passes at any step ends within the grace after it.",
        rules=("TI-4", "TI-11"),
        kinds=frozenset({Kind.TIMEOUT, Kind.REFERENCE}),
        judge=_keeps_timeout,
        applies=_claims_timeout,
    ),
    Requirement(
        id="TT-23",
        title="keeps the invariant",
        sentence="The fixture's invariant holds after the call, wherever it was cancelled.",
        rules=("CA-16", "BO-4"),
        kinds=_RUNS,
        judge=_keeps_invariant,
        applies=_has_fixture,
        silent="the fixture has no invariant",
    ),
    Requirement(
        id="TT-24",
        title="ends the same by every route",
        sentence="Alone, in a batch, nested, through a layer or past neutral hooks, the call ends the same way.",
        rules=("NE-2", "LA-7", "BA-1"),
        kinds=frozenset({Kind.ROUTES}),
        judge=_is_the_same_everywhere,
    ),
)
"""Every requirement, in the order of the report."""


def judge(seen: Observation, subject: Subject) -> tuple[list[str], list[tuple[str, Complaint]]]:
    """Decide one run.

    Returns:
        the ids of the requirements about which the run says something, and each complaint with the id
        of its requirement.
    """
    decided: list[str] = []
    complaints: list[tuple[str, Complaint]] = []
    for requirement in MANIFEST:
        if seen.case.kind not in requirement.kinds or requirement.applies(subject) is not None:
            continue
        answer = requirement.judge(seen, subject)
        if answer is None:
            continue
        decided.append(requirement.id)
        complaints.extend((requirement.id, complaint) for complaint in answer)
    return decided, complaints
