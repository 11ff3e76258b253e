"""One generator of call programs, for any source of randomness.

A `Source` answers three questions; `random.Random` stands behind `Dice`, Hypothesis behind the
strategy in `_call_strategies`. Times are drawn so that they rarely coincide: scripts sleep for
multiples of eight, and each kind of deadline or request has a remainder of its own. One program in
ten draws any times instead, for what ties decide.
"""

import math
import random
from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol, TypeVar, final

from attrs import define, evolve

from . import _call_program as p
from ._call_cases import KINDS, phases, timeouts

__all__ = ["Dice", "Draws", "Maker", "generated"]

T = TypeVar("T")


class Draws(Protocol):
    """A source of answers."""

    def integer(self, low: int, high: int) -> int:
        """Return an integer between ``low`` and ``high``, both included."""
        ...

    def choose(self, options: Sequence[T]) -> T:
        """Return one of ``options``; the first is the simplest."""
        ...

    def chance(self, percent: int) -> bool:
        """Return true with about the given chance; false is simpler."""
        ...


@final
@define
class Dice:
    """Answers from a `random.Random`."""

    random: random.Random

    def integer(self, low: int, high: int) -> int:
        """Return an integer between ``low`` and ``high``."""
        return low + int(self.random.random() * (high - low + 1))

    def choose(self, options: Sequence[T]) -> T:
        """Return one of ``options``."""
        return options[int(self.random.random() * len(options))]

    def chance(self, percent: int) -> bool:
        """Return true with the given chance."""
        return self.random.random() * 100 < percent


def generated(draws: Draws) -> p.CallProgram:
    """Return a program that means something: each action stands where it may stand."""
    if draws.chance(40):
        return _aimed(draws)
    maker = Maker(draws, ties=draws.chance(10))
    program = maker.program()
    if draws.chance(5):
        program = _with_tie(draws, program)
    if draws.chance(15):
        program = maker.layered(program)
    return evolve(program, events=maker.events(program)) if draws.chance(10) else program


def _with_tie(draws: Draws, program: p.CallProgram) -> p.CallProgram:
    """Let budget and caller fire at one instant, in bodies that are still running then."""
    timeout = 8 * draws.integer(1, 2) + 5
    tools = tuple(evolve(tool, timeout=timeout, body=(*tool.body, p.Sleep(24))) for tool in program.tools)
    scopes = tuple(evolve(scope, timeout=timeout) for scope in program.scopes)
    return evolve(program, tools=tools, scopes=scopes, gates=(), cancels=())


@lru_cache(maxsize=1)
def _cases() -> tuple[p.CallProgram, ...]:
    return tuple(program for group in (phases(), timeouts()) for _, _, program in group)


def _aimed(draws: Draws) -> p.CallProgram:
    """Return a case under some cancellation, which chance alone rarely brings to one point; then vary it."""
    program = draws.choose(_cases())
    by_neighbour = draws.chance(25)
    if program.mode == "each" and draws.chance(40 if by_neighbour else 20):
        program = _nesting(draws, program)
    if by_neighbour:
        program = _with_failing_neighbour(draws, program)
    elif program.cancels or program.scopes[0].timeout < math.inf or program.inner:
        # It says itself what cancels it.
        program = evolve(program, **KINDS[draws.choose(("nothing", "owner"))], cancels=program.cancels)
    else:
        kinds = ("request", "deadline", "ambient-request", "ambient-deadline", "owner")
        timed = any(tool.timeout is not None for tool in program.tools)
        program = evolve(program, **KINDS["nothing" if timed and draws.chance(50) else draws.choose(kinds)])
    return _varied(draws, program) if draws.chance(40) else program


def _nesting(draws: Draws, program: p.CallProgram) -> p.CallProgram:
    """Make the calls of ``program`` nested ones, whose ambient scopes are those of a body (`NE-4`)."""
    calls = tuple(p.Nested(call.tool, call.arguments) for call in program.calls)
    if draws.chance(30):
        calls = (p.Attempt((p.Sleep(8),), calls),)
    names = tuple(tool.name for tool in program.tools)
    return evolve(
        _limited(program, names), tools=(*program.tools, p.ToolScript("n", calls)), calls=(p.CallSpec("n"),)
    )


def _limited(program: p.CallProgram, names: tuple[str, ...]) -> p.CallProgram:
    """Keep the hooks from calls of other tools than these."""
    return evolve(
        program,
        gates=tuple(evolve(gate, only=gate.only or names) for gate in program.gates),
        guards=tuple(evolve(guard, only=guard.only or names) for guard in program.guards),
        wrappers=tuple(evolve(wrapper, only=wrapper.only or names) for wrapper in program.wrappers),
        reviewers=tuple(evolve(reviewer, only=reviewer.only or names) for reviewer in program.reviewers),
    )


def _with_failing_neighbour(draws: Draws, program: p.CallProgram) -> p.CallProgram:
    """Make the calls a batch whose first call fails, before the others are through or at that instant."""
    names = tuple(tool.name for tool in program.tools)
    failing = p.ToolScript("f", (p.Sleep(draws.choose((3, 3, 3, 8))), p.Fail()), parallel=True)
    return evolve(
        _limited(program, names),
        tools=(failing, *(evolve(tool, parallel=draws.chance(80)) for tool in program.tools)),
        calls=(p.CallSpec("f"), *program.calls[-2:]),
        mode="batch",
        fail_fast=True,
    )


def _varied(draws: Draws, program: p.CallProgram) -> p.CallProgram:
    """Add one hook to ``program`` that was drawn."""
    maker = Maker(draws, ties=False, tools=tuple(tool.name for tool in program.tools))
    match draws.choose(("gate", "guard", "wrapper", "reviewer", "observer")):
        case "gate":
            return evolve(program, gates=(maker.gate(last=False), *program.gates))
        case "guard":
            return evolve(program, guards=(maker.guard(), *program.guards))
        case "wrapper":
            inner = evolve(maker.wrapper(1), name="v")
            return evolve(program, wrappers=(*program.wrappers, inner))
        case "reviewer":
            return evolve(program, reviewers=(maker.reviewer(last=False), *program.reviewers))
        case _:
            return evolve(program, observers=(*program.observers, p.ObserverScript(maker.at_once())))


@final
@define
class Maker:
    """Makes the parts of a program.

    Attributes:
        ties: whether times are drawn without regard to whether they coincide.
        tools: the names that a part may refer to.
        inner: those that the tool being made may call, so that no tool calls itself.
        scopes: how many call scopes there are.
    """

    draws: Draws
    ties: bool
    tools: tuple[str, ...] = ()
    inner: tuple[str, ...] = ()
    scopes: int = 1

    def span(self) -> int:
        """Return how long something takes."""
        return self.draws.integer(1, 24) if self.ties else 8 * self.draws.integer(1, 3)

    def moment(self, remainder: int, *, far: int = 5) -> int:
        """Return a time or timeout; what has another remainder cannot coincide with it."""
        if self.ties:
            return self.draws.integer(1, 8 * far)
        return 8 * self.draws.integer(0, far) + remainder

    def script(self, place: str, *, depth: int = 0) -> tuple[p.Action, ...]:
        """Return a list of actions for ``place``."""
        count = self.draws.choose((0, 1, 1, 2, 3) if depth else (0, 0, 1, 1, 2, 3))
        return tuple(self.action(place, depth) for _ in range(count))

    def action(self, place: str, depth: int) -> p.Action:
        """Return one action that may stand in ``place``."""
        options = [*_COMMON, *_BY_PLACE.get(place, ())]
        if depth < 2:
            options += ["attempt", "cleanup"]
        return self.made(self.draws.choose(options), place, depth)

    def made(self, kind: str, place: str, depth: int) -> p.Action:
        """Return an action of one kind."""
        draws = self.draws
        match kind:
            case "sleep":
                return p.Sleep(self.span())
            case "shielded":
                return p.Shielded(self.span())
            case "hold":
                return p.Hold(self.span())
            case "cancel":
                return p.CancelCaller(draws.integer(0, self.scopes - 1))
            case "fail":
                return p.Fail(draws.choose((None, "CODED")))
            case "stray":
                return p.Stray()
            case "move":
                return p.MoveDeadline(self.moment(4, far=3), draws.integer(0, self.scopes - 1))
            case "unregister":
                return p.Unregister(draws.choose(self.tools))
            case "register":
                return p.Register(draws.choose(self.tools))
            case "attempt":
                return p.Attempt(self.script(place, depth=depth + 1), self.handler(place, depth))
            case "cleanup":
                return p.Cleanup(self.script(place, depth=depth + 1), self.handler(place, depth))
            case "spawn":
                return p.Spawn(self.script("child", depth=depth + 1))
            case "nursery":
                return p.CancelNursery()
            case "defer":
                return p.Defer(draws.choose(("x", "y", "z")))
            case "conclude":
                return p.Conclude()
            case "group":
                codes = tuple(draws.choose((None, "CODED", "OTHER")) for _ in range(draws.integer(1, 2)))
                return p.FailGroup(codes, draws.chance(50))
            case "nested":
                return p.Nested(draws.choose(self.inner), self.arguments(), draws.chance(25))
            case "return":
                return p.Return(draws.chance(40))
            case "consult":
                return p.Consult()
            case _:
                return p.Checkpoint()

    def handler(self, place: str, depth: int) -> tuple[p.Action, ...]:
        """Return what follows a swallowed ``Cancelled``, often nothing."""
        if self.draws.chance(50):
            return ()
        return self.script(place, depth=depth + 1)

    def at_once(self) -> tuple[p.Action, ...]:
        """Return a script of a synchronous phase."""
        if not self.draws.chance(35):
            return ()
        options = ("hold", "cancel", "cancel", "move", "fail", "stray", "unregister", "register")
        return (self.made(self.draws.choose(options), "sync", 2),)

    def arguments(self) -> p.Arguments:
        """Return arguments, mostly fine ones."""
        return self.draws.choose(_ARGUMENTS)

    def tool(self, name: str, inner: tuple[str, ...]) -> p.ToolScript:
        """Return a tool that may call ``inner``."""
        draws = self.draws
        self.inner = inner
        body = self.script("body" if inner else "leaf")
        if draws.chance(30):
            body = (p.Defer(name), *body)
        if draws.chance(5):
            body = (*body, p.LeaveOpen(), p.Return())
        finalizer = None
        if draws.chance(15):
            answer = draws.choose(("keep", "replace", "malformed", "coroutine"))
            finalizer = p.FinalizerScript(self.at_once(), answer)
        return p.ToolScript(
            name,
            body,
            timeout=self.moment(5, far=3) if draws.chance(35) else None,
            finalizer=finalizer,
            parallel=draws.chance(60),
            hidden=draws.chance(4),
        )

    def only(self) -> tuple[str, ...]:
        """Return the tools that a hook is limited to, mostly all."""
        return (self.draws.choose(self.tools),) if self.draws.chance(30) else ()

    def gate(self, *, last: bool) -> p.GateScript:
        """Return a gate."""
        options: tuple[p.GateChoice, ...]
        options = ("delegate", "delegate", "allow", "allow", "deny", "ask", "ask", "malformed")
        script = self.script("last gate" if last else "gate")
        return p.GateScript(script, self.draws.choose(options), self.only())

    def approver(self) -> p.ApproverScript | None:
        """Return an approver, or none."""
        if self.draws.chance(15):
            return None
        options: tuple[p.ApproverChoice, ...]
        options = ("allowed_once", "allowed_once", "rejected", "cancelled", "unavailable", "malformed")
        return p.ApproverScript(self.script("approver"), self.draws.choose(options))

    def guard(self) -> p.GuardScript:
        """Return a guard."""
        options: tuple[p.GuardChoice, ...] = ("pass", "pass", "pass", "deny", "malformed")
        return p.GuardScript(self.at_once(), self.draws.choose(options), self.only())

    def wrapper(self, number: int) -> p.WrapperScript:
        """Return wrapper ``number``, counted from the outermost."""
        draws = self.draws
        script = (*self.script("wrapper"), *self.delegation(), *self.script("wrapper"))
        options = _FINISHES + _ODD_FINISHES if number == 0 else _FINISHES
        return p.WrapperScript(script, draws.choose(options), f"w{number}", self.only())

    def delegation(self) -> tuple[p.Action, ...]:
        """Return how a wrapper delegates, if it does."""
        draws = self.draws
        if draws.chance(10):
            return ()
        delegate = p.Proceed(
            timeout=self.moment(6, far=3) if draws.chance(30) else None,
            deadline=self.moment(7) if draws.chance(10) else None,
            scope=draws.integer(0, self.scopes - 1) if draws.chance(10) else None,
            shield=draws.chance(10),
            lexical=self.moment(2, far=3) if draws.chance(10) else None,
            attempts=draws.choose((1, 1, 1, 1, 2)),
        )
        if draws.chance(15):
            return (p.Attempt((delegate,), self.handler("wrapper", 1)),)
        if draws.chance(10):
            return (p.Cleanup((delegate,), self.handler("wrapper", 1)),)
        return (delegate,)

    def reviewer(self, *, last: bool) -> p.ReviewScript:
        """Return a reviewer."""
        options: tuple[p.ReviewChoice, ...] = (
            "delegate",
            "accept",
            "accept",
            "accept",
            "content",
            "value",
            "invalid",
            "both",
            "block",
            "block",
            "malformed",
        )
        context = "reviewed" if self.draws.chance(50) else None
        script = self.script("last reviewer" if last else "reviewer")
        return p.ReviewScript(script, self.draws.choose(options), context, self.only())

    def cancels(self, program_has: tuple[p.Target, ...]) -> tuple[p.CancelAt | p.CancelAtStep, ...]:
        """Return requests to cancel some of what the program has."""
        draws = self.draws
        requests: list[p.CancelAt | p.CancelAtStep] = []
        for _ in range(draws.choose((0, 1, 1, 2))):
            target = draws.choose(program_has)
            if draws.chance(25):
                requests.append(p.CancelAtStep(draws.integer(1, 8), target))
            else:
                requests.append(p.CancelAt(self.moment(draws.choose((1, 1, 3))), target))
        return tuple(requests)

    def program(self) -> p.CallProgram:
        """Return a whole program."""
        draws = self.draws
        names = ("a", "b", "c")[: draws.choose((1, 2, 2, 3))]
        self.scopes = draws.choose((1, 1, 1, 2))
        scopes = tuple(self.scope(number) for number in range(self.scopes))
        outer = self.ambient(7) if draws.chance(20) else None
        inner = self.ambient(3) if draws.chance(20) else None
        self.tools = names
        tools = tuple(self.tool(name, names[number + 1 :]) for number, name in enumerate(names))
        mode = draws.choose(("each", "each", "together", "batch", "batch"))
        calls = tuple(
            p.CallSpec(draws.choose(names), self.arguments(), draws.integer(0, self.scopes - 1))
            for _ in range(draws.choose((1, 1, 2)) if mode == "each" else draws.choose((2, 2, 3)))
        )
        gates = draws.choose((0, 0, 0, 1, 1, 2))
        wrappers = draws.choose((0, 0, 1, 1, 2))
        reviewers = draws.choose((0, 0, 0, 1, 1, 2))
        targets: list[p.Target] = list(range(self.scopes))
        if outer is not None:
            targets.append("outer")
        if inner is not None:
            targets.append("inner")
        return p.CallProgram(
            tools=tools,
            calls=calls,
            mode=mode,
            scopes=scopes,
            outer=outer,
            inner=inner,
            gates=tuple(self.gate(last=number + 1 == gates) for number in range(gates)),
            approver=self.approver() if gates else None,
            guards=(self.guard(),) if draws.chance(20) else (),
            wrappers=tuple(self.wrapper(number) for number in range(wrappers)),
            reviewers=tuple(self.reviewer(last=number + 1 == reviewers) for number in range(reviewers)),
            observers=(p.ObserverScript(self.at_once()),) if draws.chance(8) else (),
            cancels=self.cancels(tuple(targets)),
            max_parallel=draws.choose((10, 1, 2)) if mode == "batch" else 10,
            fail_fast=mode == "batch" and draws.chance(40),
        )

    def layered(self, program: p.CallProgram) -> p.CallProgram:
        """Spread tools and hooks of ``program`` over layers, which hide some of them."""
        draws = self.draws
        layers = draws.choose((2, 2, 3))

        def somewhere() -> int:
            return draws.integer(0, layers - 1)

        def spread(hooks: tuple[p.Hook, ...]) -> tuple[p.Hook, ...]:
            # Their order stays, for some things only the outermost or the innermost may do.
            numbers = sorted(somewhere() for _ in hooks)
            return tuple(evolve(hook, layer=number) for hook, number in zip(hooks, numbers, strict=True))

        tools = tuple(evolve(tool, layer=somewhere()) for tool in program.tools)
        if draws.chance(40):
            # One of the same name is nearer, or farther.
            other = draws.choose(tools)
            twin = evolve(self.tool(other.name, ()), layer=(other.layer + 1) % layers)
            tools = (*tools, twin)
        restrictions = tuple(
            self.restriction(layers, draws.choose(self.tools)) for _ in range(draws.choose((0, 1, 1, 2)))
        )
        # Mostly through the innermost, which sees most.
        calls = tuple(
            evolve(call, layer=layers - 1 if draws.chance(70) else somewhere()) for call in program.calls
        )
        moved = evolve(
            program,
            tools=tools,
            calls=calls,
            gates=spread(program.gates),
            guards=spread(program.guards),
            wrappers=spread(program.wrappers),
            reviewers=spread(program.reviewers),
            observers=spread(program.observers),
            layers=layers,
            restrictions=restrictions,
        )
        return evolve(moved, events=self.events(moved)) if draws.chance(50) else moved

    def restriction(self, layers: int, name: str) -> p.Restrict:
        """Return a restriction of one of the layers that inherit, about a tool of that name."""
        return p.Restrict((name,), self.draws.chance(40), self.draws.integer(1, layers - 1))

    def events(self, program: p.CallProgram) -> tuple[p.At, ...]:
        """Return what happens to ``program`` from outside while it runs."""
        return tuple(
            p.At(self.moment(self.draws.choose((1, 4)), far=3), self.event(program))
            for _ in range(self.draws.choose((1, 1, 2)))
        )

    def event(self, program: p.CallProgram) -> p.Happening:
        """Return one thing that may happen."""
        draws = self.draws
        kinds = ["move", "unregister", "register"]
        if program.layers > 1:
            kinds += ["restrict", "restrict", "lift"]
        tool = draws.choose(program.tools)
        match draws.choose(kinds):
            case "unregister":
                return p.Unregister(tool.name, tool.layer)
            case "register":
                return p.Register(tool.name, tool.layer)
            case "restrict":
                return self.restriction(program.layers, tool.name)
            case "lift":
                return p.Lift(draws.integer(1, program.layers - 1))
            case _:
                return p.MoveDeadline(self.moment(4, far=3), draws.integer(0, len(program.scopes) - 1))

    def scope(self, number: int) -> p.ScopeSpec:
        """Return call scope ``number``."""
        draws = self.draws
        timeout = self.moment(4) if draws.chance(25) else math.inf
        parent = 0 if number and draws.chance(50) else None
        return p.ScopeSpec("caller" if number == 0 else f"scope{number}", timeout, parent)

    def ambient(self, remainder: int) -> p.Ambient:
        """Return a trio scope."""
        return p.Ambient(self.moment(remainder) if self.draws.chance(60) else math.inf)


_ARGUMENTS: tuple[p.Arguments, ...] = ("fine",) * 12 + ("invalid", "lossy")
# What no rule orders where another wrapper stands outside: only the outermost does these.
_ODD_FINISHES: tuple[p.Finish, ...] = ("invalid", "cancelled", "malformed")
_FINISHES: tuple[p.Finish, ...] = (
    "last",
    "last",
    "last",
    "context",
    "context",
    "success",
    "failure",
    "translate",
)
_COMMON = ("sleep",) * 6 + (
    "checkpoint",
    "checkpoint",
    "shielded",
    "shielded",
    "hold",
    "cancel",
    "move",
    "fail",
    "stray",
)
_LEAF = (
    "defer",
    "defer",
    "conclude",
    "group",
    "return",
    "return",
    "spawn",
    "spawn",
    "nursery",
    "unregister",
    "register",
)
_BY_PLACE = {
    "body": (*_LEAF, "nested", "nested", "nested"),
    "leaf": _LEAF,
    "child": ("defer", "group"),
    "last gate": ("consult",),
    "last reviewer": ("consult",),
}
