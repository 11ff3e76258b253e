"""What decides each requirement: one function each, from what was seen in one run."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final, final

import trio
from attrs import frozen

from ._case import Kind
from ._cleanup import in_cleanup
from ._errors import chain_of, leaves_of
from ._observation import Ending, Observation
from ._probe import Delivery
from ._runner import Subject
from ._site import Site
from ._stage import ROUTES

__all__ = [
    "Complaint",
    "Judge",
    "cleans_up_in_time",
    "comes_to_rest",
    "finishes_generators",
    "gives_valid_values",
    "is_concurrency_safe",
    "is_idempotent",
    "is_read_only",
    "is_the_same_everywhere",
    "keeps_invariant",
    "keeps_its_error",
    "keeps_loop_free",
    "keeps_timeout",
    "knows_its_timeouts",
    "leaves_no_task",
    "leaves_none",
    "lets_through",
    "makes_no_value",
    "nests_scopes",
    "stops",
    "yields_outside",
]


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


def _swallowed(seen: Observation) -> Delivery | None:
    """Return the cancellation after which a task went on to its next cancel point."""
    earlier: dict[int, Delivery] = {}
    for delivery in seen.ours:
        before = earlier.get(delivery.task)
        if (
            before is not None
            and before.site is not None
            and before.error not in set(chain_of(delivery.error))
        ):
            return before
        earlier[delivery.task] = delivery
    return None


def _absorbed(seen: Observation) -> Delivery | None:
    """Return the cancellation that a task of the tool's own ended with, instead of passing it on."""
    ended = (each for each in seen.ours if each.absorbed and each.site is not None)
    return next(ended, None)


def _replaced(seen: Observation) -> tuple[BaseException, Delivery] | None:
    """Return the error that came out of the body instead of the cancellation that had reached it."""
    if seen.body != "raised":
        return None
    for leaf in leaves_of(seen.error):
        if isinstance(leaf, trio.Cancelled):
            continue
        links = set(chain_of(leaf))
        for delivery in seen.ours:
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
            "wall": "had not ended when its process was killed",
        }[seen.stuck]
    took = seen.ended_at - seen.fired_at
    if took > seconds:
        return f"ended {took:g} s after the cancellation; {seconds:g} s are allowed"
    if seen.after_steps > steps:
        return f"took {seen.after_steps} steps after the cancellation; {steps} are allowed"
    return None


def stops(seen: Observation, subject: Subject) -> Iterable[Complaint] | None:
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
        if delivery.ours or (delivery.late and delivery.site is not None)
    ]


def lets_through(seen: Observation, _subject: Subject) -> Iterable[Complaint] | None:
    if not seen.ours:
        return None
    swallowed = _swallowed(seen)
    if swallowed is not None:
        return [Complaint("caught a cancellation and went on to its next checkpoint", swallowed.site)]
    absorbed = _absorbed(seen)
    if absorbed is not None:
        return [Complaint("a task of its own caught a cancellation and returned", absorbed.site)]
    replaced = _replaced(seen)
    if replaced is not None and not _is_timeout(replaced[0]) and not _is_broken_stack(replaced[0]):
        name = type(replaced[0]).__name__
        return [Complaint(f"raised {name} in place of the cancellation", replaced[1].site)]
    return []


def makes_no_value(seen: Observation, _subject: Subject) -> Iterable[Complaint] | None:
    own = [delivery for delivery in seen.ours if delivery.inside]
    if not own or seen.stuck:
        return None
    if seen.body == "returned" and _swallowed(seen) is None and _absorbed(seen) is None:
        at = next((each.site for each in reversed(own) if each.site is not None), seen.fired_site)
        return [Complaint("returned a value after the cancellation had reached it", at)]
    return []


def cleans_up_in_time(seen: Observation, subject: Subject) -> Iterable[Complaint] | None:
    reached = _reached(seen)
    if not reached:
        return None
    profile = subject.profile
    late = _ended_late(seen, profile.cleanup_seconds, profile.cleanup_steps)
    if late is None or _swallowed(seen) is not None:
        return []
    site = reached[0].site if isinstance(reached, list) else seen.fired_site
    return [Complaint(f"the cancellation reached the body, whose cleanup {late}", site)]


def leaves_no_task(seen: Observation, _subject: Subject) -> Iterable[Complaint] | None:
    if seen.stuck:
        return None
    left = tuple(
        f"task {lane.name}"
        + (f" at {site}" if site else "")
        + (f", started at {lane.started}" if lane.started else "")
        for lane, site in seen.tasks
    )
    return [Complaint("a task outlived the call", seen.fired_site, left)] if left else []


def leaves_none(field: str, what: str) -> Judge:
    def judge_leftovers(seen: Observation, _subject: Subject) -> Iterable[Complaint] | None:
        if seen.stuck:
            return None
        left: tuple[str, ...] = getattr(seen.left, field)
        return [Complaint(f"{what} outlived the call", seen.fired_site, left)] if left else []

    return judge_leftovers


def finishes_generators(seen: Observation, _subject: Subject) -> Iterable[Complaint] | None:
    if seen.stuck:
        return None
    left = tuple(f"generator at {where}" for where in seen.generators)
    return (
        [Complaint("an asynchronous generator was begun and not finished", seen.fired_site, left)]
        if left
        else []
    )


_BROKEN_STACK: Final = re.compile("tool left a scope open|scope stack corrupted|Nursery stack corrupted")


def _is_broken_stack(error: BaseException) -> bool:
    return _BROKEN_STACK.search(_text_of(error)) is not None


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  (an exception may be as broken as its tool)
        return ""


def nests_scopes(seen: Observation, _subject: Subject) -> Iterable[Complaint] | None:
    if seen.stuck:
        return None
    for ending in seen.endings:
        if _BROKEN_STACK.search(ending.message or ""):
            return [
                Complaint(
                    "a cancel scope or nursery was left open, or was closed out of order", seen.fired_site
                )
            ]
    for leaf in leaves_of(seen.error):
        if _is_broken_stack(leaf):
            return [Complaint("a cancel scope or nursery was closed out of order", seen.fired_site)]
    return []


def yields_outside(seen: Observation, _subject: Subject) -> Iterable[Complaint] | None:
    return [
        Complaint(f"an asynchronous generator yields inside a {kind}", site) for kind, site in seen.yields
    ]


def keeps_loop_free(seen: Observation, subject: Subject) -> Iterable[Complaint] | None:
    if seen.stuck and seen.stuck != "wall":
        return None
    limit = subject.profile.block_seconds
    if seen.stuck == "wall" and not seen.fired:
        return [Complaint("held the loop until its process was killed", seen.slowest_site)]
    if seen.slowest > limit:
        return [Complaint(f"one step held the loop for more than {limit:g} s", seen.slowest_site)]
    return []


def comes_to_rest(seen: Observation, _subject: Subject) -> Iterable[Complaint] | None:
    if seen.stuck:
        return [Complaint("the loop never came to rest", seen.fired_site)] if seen.stuck == "spin" else None
    if seen.tasks:
        return None
    return (
        [] if seen.idle else [Complaint("the loop was still busy after the call had ended", seen.fired_site)]
    )


def keeps_its_error(seen: Observation, _subject: Subject) -> Iterable[Complaint] | None:
    said = False
    for delivery in seen.ours:
        # Where nothing was on its way out there was no cleanup; few runs have to be looked at further.
        if delivery.error.__context__ is None or not in_cleanup(delivery.frames):
            continue
        for lost in leaves_of(delivery.error.__context__):
            if not isinstance(lost, Exception) or isinstance(lost, StopIteration | StopAsyncIteration):
                continue
            said = True
            if seen.body == "cancelled" and lost not in set(leaves_of(seen.error)):
                name = type(lost).__name__
                return [
                    Complaint(
                        f"its own {name} was lost: cleanup waited and was cancelled", delivery.site, (name,)
                    )
                ]
    return [] if said else None


def knows_its_timeouts(seen: Observation, _subject: Subject) -> Iterable[Complaint] | None:
    if not seen.ours:
        return None
    replaced = _replaced(seen)
    if replaced is None or not _is_timeout(replaced[0]):
        return []
    name = type(replaced[0]).__name__
    return [Complaint(f"reported somebody else's cancellation as its own {name}", replaced[1].site)]


def gives_valid_values(seen: Observation, _subject: Subject) -> Iterable[Complaint] | None:
    if not seen.endings:
        return None
    for ending in seen.endings:
        if ending.code == "INVALID_TOOL_OUTPUT":
            return [Complaint(ending.message or "the value is invalid", seen.fired_site)]
    return []


def is_idempotent(seen: Observation, _subject: Subject) -> Iterable[Complaint] | None:
    if seen.stuck or len(seen.snapshots) < 3:
        return None
    if seen.case.step < 0:
        _, once, twice = seen.snapshots
        return [] if once == twice else [Complaint("a second, equal call changed the state again")]
    _, _, retried, single, again = seen.snapshots
    if not seen.fired or single != again:
        return None  # a state that differs by itself cannot be compared
    if retried == single:
        return []
    return [Complaint("a call after a cancelled one left another state than one call does", seen.fired_site)]


def is_read_only(seen: Observation, _subject: Subject) -> Iterable[Complaint] | None:
    if seen.stuck or len(seen.snapshots) != 2:
        return None
    before, after = seen.snapshots
    return (
        []
        if before == after
        else [Complaint("the state is another one than before the call", seen.fired_site)]
    )


def is_concurrency_safe(seen: Observation, _subject: Subject) -> Iterable[Complaint] | None:
    if seen.stuck and len(seen.endings) >= 6:
        return [Complaint("two calls at once did not end, which they do one after the other")]
    if seen.stuck or len(seen.endings) != 8:
        return None
    # The first order was run twice: what differs there differs by itself, and cannot be compared.
    by_value = _comparables(seen.endings[:2], by_value=True) == _comparables(seen.endings[2:4], by_value=True)
    first, second, by_state, at_once = seen.snapshots
    a_first, b_second, _, _, b_first, a_second, a, b = _comparables(seen.endings, by_value=by_value)
    one, other = second, by_state
    if first != second:
        one = other = at_once
    if ((a, b) == (a_first, b_second) and at_once == one) or (
        (a, b) == (a_second, b_first) and at_once == other
    ):
        return []
    got = f"{seen.endings[6]}; {seen.endings[7]}"
    return [Complaint(f"two calls at once gave what no order of the two gives: {got}")]


def _comparables(endings: Sequence[Ending], *, by_value: bool) -> list[object]:
    return [
        (ending.outcome, ending.code, ending.settlement, ending.name, ending.value if by_value else None)
        for ending in endings
    ]


def keeps_timeout(seen: Observation, subject: Subject) -> Iterable[Complaint] | None:
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


def keeps_invariant(seen: Observation, _subject: Subject) -> Iterable[Complaint] | None:
    if seen.stuck or not seen.invariants:
        return None
    return [] if seen.invariant is None else [Complaint(seen.invariant, seen.fired_site)]


def is_the_same_everywhere(seen: Observation, _subject: Subject) -> Iterable[Complaint] | None:
    if seen.stuck:
        known = 1 < len(seen.endings) < len(ROUTES)
        route = ROUTES[len(seen.endings)] if known else ""
        return [Complaint(f"by route {route!r} the call did not end", seen.fired_site)] if known else None
    if len(seen.endings) != len(ROUTES):
        return None
    if seen.real and seen.case.step >= 0:
        return None  # what really waits is not at the same place at the same step each time
    first, again, *_ = seen.endings
    # It was called alone twice: what differs there differs by itself, and cannot be compared.
    by_value = first == again
    alike = _comparables(seen.endings, by_value=False)
    for route, ending, each in zip(ROUTES, seen.endings, alike, strict=True):
        if (ending != first) if by_value else (each != alike[0]):
            return [
                Complaint(
                    f"by route {route!r} the call ended {ending}; alone it ended {first}", seen.fired_site
                )
            ]
    return []
