"""Cases: call programs built systematically, one phase of a call and one way for it to end in each.

The call is of tool ``a``, from outside, and its slow phase lasts from time 0 to 8; `KINDS` says what may
cancel it meanwhile. The vectors cross the two; the generator draws from them, for what chance rarely meets.
"""

from collections.abc import Iterator
from typing import Final

from attrs import evolve

from . import _call_program as p

__all__ = ["KINDS", "Case", "batches", "layers", "nested", "phases", "registrations", "timeouts"]

Case = tuple[str, str, p.CallProgram]
"""The rule that a program is about, its name, and the program."""

# What cancels the caller while a phase runs from 0 to 8, and the rule that names the cause.
KINDS: Final[dict[str, dict[str, object]]] = {
    "nothing": {},
    "request": {"cancels": (p.CancelAt(3),)},
    "deadline": {"scopes": (p.ScopeSpec(timeout=4),)},
    "ambient-request": {"inner": p.Ambient(), "cancels": (p.CancelAt(3, "inner"),)},
    "ambient-deadline": {"inner": p.Ambient(timeout=3)},
    "owner": {"outer": p.Ambient(timeout=7)},
}

_SLOW: Final = (p.Defer("x"), p.Sleep(8))
_LONG: Final = (p.Defer("x"), p.Shielded(8))
_QUICK: Final = p.ToolScript("a", (p.Defer("x"), p.Conclude()))


def _program(*tools: p.ToolScript, **more: object) -> p.CallProgram:
    return evolve(p.CallProgram(tools, (p.CallSpec("a"),)), **more)


def _scoped(timeout: int, body: tuple[p.Action, ...]) -> p.CallProgram:
    return _program(p.ToolScript("a", body), scopes=(p.ScopeSpec("turn", timeout),))


def phases() -> Iterator[Case]:
    """Yield one program for each phase and each way it can end, with nothing that cancels it."""
    sleep, shielded = (p.Sleep(8),), (p.Shielded(8),)
    # It fails, so that `execute` returns and the next call begins, whatever cancelled the first.
    before = p.ToolScript("b", (*_LONG, p.Fail("MINE")))
    for rule, call in (("CA-10", p.CallSpec("a", "lossy")), ("CA-11", p.CallSpec("a"))):
        yield (
            rule,
            f"entry-with-{call.arguments}-arguments",
            _program(_QUICK, before, calls=(p.CallSpec("b"), call)),
        )
    for choice in ("allow", "deny", "ask", "delegate", "malformed"):
        for how, script in (("waits", sleep), ("shields", shielded)):
            gate = p.GateScript(script, choice)
            yield (
                "CA-12",
                f"gate-{how}-{choice}",
                _program(_QUICK, gates=(gate,), approver=p.ApproverScript()),
            )
    for answer in ("allowed_once", "rejected", "cancelled", "unavailable", "malformed"):
        for how, script in (("waits", sleep), ("shields", shielded)):
            approver = p.ApproverScript(script, answer)
            asked = (p.GateScript((), "ask"),)
            yield "CA-13", f"approval-{how}-{answer}", _program(_QUICK, gates=asked, approver=approver)
    for how, script in (("waits", sleep), ("shields", shielded)):
        for finish in ("last", "context", "success", "failure", "translate", "invalid", "malformed"):
            first = p.WrapperScript((*script, p.Proceed()), finish)
            then = p.WrapperScript((p.Proceed(), *script), finish)
            yield "CA-14", f"wrapper-{how}-then-delegates-{finish}", _program(_QUICK, wrappers=(first,))
            yield "CA-17", f"wrapper-delegates-then-{how}-{finish}", _program(_QUICK, wrappers=(then,))
        for finish in ("success", "failure", "malformed"):
            own = p.WrapperScript(script, finish)
            yield "CA-14", f"wrapper-{how}-without-delegating-{finish}", _program(_QUICK, wrappers=(own,))
    for name, holder in (("holds-the-loop", p.Hold(8)), ("cancels-their-caller", p.CancelCaller())):
        neighbours = (_QUICK, p.ToolScript("b", (holder,)))
        calls = (p.CallSpec("b"), p.CallSpec("a"))
        together = _program(*neighbours, calls=calls, mode="together")
        yield "CA-15", f"invocation-while-a-neighbour-{name}", together
    for name, body in _bodies():
        yield "CA-16", f"body-{name}", _program(p.ToolScript("a", body))
    for decision in ("accept", "content", "value", "invalid", "both", "block", "malformed", "delegate"):
        review = p.ReviewScript(sleep, decision, "r")
        yield "CA-18", f"review-{decision}", _program(_QUICK, reviewers=(review,))
        failing = p.ToolScript("a", (p.Fail("MINE"),))
        yield "CA-18", f"review-of-a-failure-{decision}", _program(failing, reviewers=(review,))
    stray = p.ReviewScript((*sleep, p.Stray()), "accept")
    yield "CA-18", "review-that-lets-a-stray-out", _program(_QUICK, reviewers=(stray,))
    yield "CA-18", "review-of-a-failure-that-lets-a-stray-out", _program(failing, reviewers=(stray,))
    for name, script in (("holds-the-loop", (p.Hold(8),)), ("cancels-its-caller", (p.CancelCaller(),))):
        for answer in ("keep", "replace", "malformed"):
            finalizer = p.FinalizerScript(script, answer)
            final = (evolve(tool, finalizer=finalizer) for tool in (_QUICK, p.ToolScript("a", (p.Fail(),))))
            for what, tool in zip(("a-value", "a-failure"), final, strict=True):
                yield "CA-19", f"finalizer-of-{what}-{name}-{answer}", _program(tool)


def _bodies() -> Iterator[tuple[str, tuple[p.Action, ...]]]:
    yield "waits", _SLOW
    yield "shields", _LONG
    yield "swallows", (p.Defer("x"), p.Attempt((p.Sleep(8),)))
    yield "converts", (p.Defer("x"), p.Attempt((p.Sleep(8),), (p.Fail("MINE"),)))
    yield "fails", (*_LONG, p.Fail())
    yield "refuses", (*_LONG, p.Fail("MINE"))
    yield "fails-as-a-group", (*_LONG, p.FailGroup(("MINE", "MINE"), cancelled=True))
    yield "fails-as-a-mixed-group", (*_LONG, p.FailGroup(("MINE", None)))
    yield "returns-what-does-not-fit", (*_LONG, p.Return(valid=False))
    yield "leaves-a-scope-open", (*_LONG, p.LeaveOpen(), p.Return())
    yield "lets-a-stray-out", (*_LONG, p.Stray())
    yield "cancels-its-caller", (p.CancelCaller(), p.Sleep(8))
    yield "cancels-its-helpers", (p.Spawn((p.Sleep(24),)), p.Shielded(8), p.CancelNursery(), p.Return())
    yield "cancels-itself", (p.Spawn((p.Sleep(24),)), p.Shielded(8), p.CancelNursery(), p.Sleep(8))
    yield "has-a-failing-helper", (p.Spawn((p.Shielded(8), p.Fail("MINE"))), p.Sleep(24))
    yield "has-a-slow-helper", (p.Spawn(_LONG), p.Return())
    yield "holds-the-loop", (p.Defer("x"), p.Hold(8))


def timeouts() -> Iterator[Case]:
    """Yield the table of timeouts, row by row."""
    slow, long = p.ToolScript("a", _SLOW, timeout=5), p.ToolScript("a", _LONG, timeout=5)
    quick = p.ToolScript("a", (p.Defer("x"),), timeout=5)
    for how, script in (("waits", (p.Sleep(8),)), ("shields", (p.Shielded(8),))):
        before = p.WrapperScript((*script, p.Proceed()), "context")
        after = p.WrapperScript((p.Proceed(), *script), "context")
        yield "TI-10", f"budget-before-invocation-{how}", _program(quick, wrappers=(before,))
        yield "TI-12", f"budget-after-settlement-{how}", _program(quick, wrappers=(after,))
    yield "TI-11", "budget-in-a-body-that-waits", _program(slow)
    yield "TI-11", "budget-in-a-body-that-shields", _program(long)
    yield "TI-11", "budget-in-a-body-that-fails", _program(evolve(long, body=(*_LONG, p.Fail("MINE"))))
    yield "TI-13", "caller-then-budget", _program(long, cancels=(p.CancelAt(3),))
    yield "TI-14", "budget-then-caller", _program(long, cancels=(p.CancelAt(7),))
    yield "TI-14", "budget-then-ambient", _program(long, inner=p.Ambient(timeout=7))
    yield "TI-15", "caller-and-budget-at-once", _program(slow, scopes=(p.ScopeSpec(timeout=5),))
    yield "TI-16", "loop-held-past-the-budget", _program(evolve(slow, body=(p.Hold(8),)))
    yield "TI-17", "deadline-of-the-scope", _program(slow, scopes=(p.ScopeSpec("turn", 4),))
    for finish in ("last", "translate"):
        wrapper = p.WrapperScript((p.Proceed(timeout=3),), finish, "mine")
        yield "TI-18", f"deadline-of-a-wrapper-{finish}", _program(slow, wrappers=(wrapper,))
    moved = (p.MoveDeadline(20), p.Sleep(8))
    yield "SC-7", "deadline-moved-away-from-a-running-body", _scoped(4, (p.Shielded(1), *moved))
    yield "SC-7", "deadline-moved-closer-to-a-running-body", _scoped(20, (p.MoveDeadline(4), p.Sleep(8)))
    yield "SC-8", "deadline-moved-after-it-has-passed", _scoped(4, (p.Hold(8), *moved))
    # An ambient deadline has passed, and the wrapper hides it; then the scope's own deadline passes too.
    hiding = p.WrapperScript((p.Attempt((p.Sleep(8),)), p.Proceed(shield=True)))
    yield (
        "WR-8",
        "ambient-deadline-behind-a-shield",
        _program(
            p.ToolScript("a", _SLOW),
            wrappers=(hiding,),
            inner=p.Ambient(timeout=3),
            scopes=(p.ScopeSpec("turn", 4),),
        ),
    )
    retry = p.WrapperScript((p.Proceed(timeout=3, attempts=3),), "last", "mine")
    yield "TI-6", "retries-share-the-budget", _program(slow, wrappers=(retry,))
    enclosing = p.ToolScript("a", (p.Defer("1"), p.Nested("b"), p.Defer("3")), timeout=5)
    yield "TI-19", "budget-of-an-enclosing-call", _program(enclosing, p.ToolScript("b", _SLOW))


def nested() -> Iterator[Case]:
    inner = p.ToolScript("b", (p.Defer("2"), p.Sleep(8), p.Conclude()))
    outer = p.ToolScript("a", (p.Defer("1"), p.Nested("b"), p.Defer("3")))
    yield "NE-6", "contexts-join-in-place", _program(outer, inner)
    yield (
        "NE-5",
        "a-shielded-body-goes-on",
        _program(evolve(outer, body=(p.Attempt(outer.body), *_LONG)), inner),
    )
    yield "NE-8", "in-the-nursery", _program(evolve(outer, body=(p.Spawn(outer.body), p.Defer("0"))), inner)
    failing = evolve(outer, body=(p.Spawn(outer.body), p.Sleep(4), p.Fail("MINE")))
    yield "NE-8", "cancelled-by-a-failing-body", _program(failing, inner)


def registrations() -> Iterator[Case]:
    """Yield what happens to calls of tools that come and go (`LA-4` to `LA-6`, `WR-14`, `RE-5`)."""
    close, slow = (p.Unregister("a"),), p.ToolScript("a", _SLOW)
    for name, script in (("gone", close), ("back", (*close, p.Register("a")))):
        waits = p.GateScript((p.Sleep(1), *script), "allow")
        yield "BO-1", f"{name}-before-dispatch", _program(slow, gates=(waits,))
        yield "LA-6", f"{name}-while-the-body-runs", _program(evolve(slow, body=(*script, *_SLOW)))
        made = p.WrapperScript((p.Proceed(), *script), "success")
        yield "WR-14", f"{name}-when-a-wrapper-answers", _program(slow, wrappers=(made,))
        review = p.ReviewScript(script, "value")
        yield "RE-5", f"{name}-in-review", _program(slow, reviewers=(review,))
    hidden = evolve(slow, hidden=True)
    late = p.GateScript((p.Register("a"),), "allow")
    yield "LA-4", "registered-while-the-gates-are-asked", _program(hidden, gates=(late,))


def layers() -> Iterator[Case]:
    """Yield who sees which tool and which hooks run, in a registry with a child layer."""
    farther = p.ToolScript("a", (p.Defer("farther"), *_SLOW))
    nearer = p.ToolScript("a", (p.Defer("nearer"),), layer=1)
    enclosing = p.ToolScript("n", (p.Nested("a"),))
    above, below = (p.CallSpec("a", layer=number) for number in (0, 1))
    for name, tools in (("above", (farther,)), ("below", (nearer,)), ("both", (farther, nearer))):
        yield "LA-2", f"{name}-through-each", _program(*tools, calls=(above, below), layers=2)
        for number in (0, 1):
            yield (
                "NE-2",
                f"{name}-nested-through-{number}",
                _program(enclosing, *tools, calls=(p.CallSpec("n", layer=number),), layers=2),
            )
    hooks = _program(
        farther,
        calls=(below, above),
        layers=2,
        wrappers=tuple(
            p.WrapperScript(finish="context", name=f"w{number}", layer=number) for number in (1, 0, 1)
        ),
        reviewers=(p.ReviewScript((), "accept", "below", layer=1), p.ReviewScript((), "delegate")),
    )
    yield "LA-7", "hooks-of-the-registry-stand-outside", hooks
    deny, allow, nothing = p.Restrict(("a",)), p.Restrict(("a",), allow=True), p.Restrict((), allow=True)
    for name, restrictions in (
        ("denied", (deny,)),
        ("allowed", (allow,)),
        ("nothing-allowed", (nothing,)),
        ("allowed-and-denied", (allow, deny)),
    ):
        for tools in (farther,), (nearer,):
            whose = "own" if tools[0].layer else "inherited"
            yield (
                "LA-9",
                f"{name}-{whose}",
                _program(*tools, calls=(below, above), layers=2, restrictions=restrictions),
            )
    waits = p.GateScript((p.Sleep(8),), "allow")
    for name, restrictions, events in (
        ("denied-while-gates-wait", (), (deny,)),
        ("lifted-while-gates-wait", (deny,), (p.Lift(),)),
        ("one-of-two-lifted", (deny, deny), (p.Lift(),)),
        ("comes-under-a-deny", (p.Restrict(("n",)),), (p.Register("a"),)),
        ("comes-under-an-allow", (p.Restrict(("n",), allow=True),), (p.Register("a"),)),
    ):
        yield (
            "LA-10",
            name,
            _program(
                evolve(farther, hidden=events[0] == p.Register("a")),
                enclosing,
                calls=(below,),
                layers=2,
                gates=(waits,),
                restrictions=restrictions,
                events=tuple(p.At(4, event) for event in events),
            ),
        )
    late = p.At(4, p.Register("a", layer=1))
    hiding = _program(
        farther, evolve(nearer, hidden=True), calls=(below,), layers=2, gates=(waits,), events=(late,)
    )
    yield "LA-2", "hidden-by-a-nearer-one-while-gates-wait", hiding
    yield "LA-6", "hidden-by-a-nearer-one-while-the-body-runs", evolve(hiding, gates=())


def batches() -> Iterator[Case]:
    tools = (
        p.ToolScript("a", (p.Defer("x"), p.Sleep(16)), parallel=True),
        p.ToolScript("b", (p.Sleep(8), p.Fail("MINE")), parallel=True),
        p.ToolScript("c", (p.Sleep(8),)),
    )
    orders = {"abc": (0, 1, 2), "cab": (2, 0, 1), "aab": (0, 0, 1), "bac": (1, 0, 2)}
    for name, order in orders.items():
        calls = tuple(p.CallSpec(tools[index].name) for index in order)
        for parallel in (1, 10):
            for fail_fast in (False, True):
                policy = "fail-fast" if fail_fast else "collect"
                yield (
                    "BA-11",
                    f"{name}-{parallel}-{policy}",
                    _program(*tools, calls=calls, mode="batch", max_parallel=parallel, fail_fast=fail_fast),
                )
