"""The scripts of a program on the real runtime: one method carries out one list of actions."""

from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import TypeAlias, final

import trio
import trio.lowlevel
import trio.testing
from attrs import define, field

from trio_tools import CallScope, Layer, Registration, Tool, ToolError

from . import _call_program as p

__all__ = ["Actor", "Bound", "Uncoded", "error_of", "nowhere"]


@final
class Uncoded(Exception):  # noqa: N818
    """An exception without a code."""


def error_of(code: str | None) -> Exception:
    """Return what a script raises on purpose."""
    return Uncoded("broken") if code is None else ToolError("broken", code=code)


Bound: TypeAlias = Callable[[p.Action], Awaitable[None]]
"""What the actions that belong to one place do there."""


@cache
def _caught() -> trio.Cancelled:
    """Return a ``Cancelled`` that was caught in a run of its own."""

    async def main() -> trio.Cancelled:
        caught = None
        with trio.CancelScope() as scope:
            scope.cancel()
            try:
                await trio.lowlevel.checkpoint()
            except trio.Cancelled as cancelled:
                caught = cancelled
                raise
        assert caught is not None
        return caught

    return trio.run(main)


def _foreign() -> trio.Cancelled:
    """Return a ``Cancelled`` that remembers nothing of the runs in which it was raised before."""
    stray = _caught().with_traceback(None)
    stray.__context__ = stray.__cause__ = None
    return stray


@final
@define(eq=False)
class Actor:
    """What all scripts of one run share.

    Attributes:
        stray: a ``Cancelled`` that belongs to nothing in the run.
        steps: how many actions were begun.
        layers: the layers of the registry, the registry first.
        registrations: of tools, by layer and name.
        restrictions: of each layer, in the order in which they were added.
        tools: makes the tools of the program, by layer and name.
    """

    program: p.CallProgram
    clock: trio.testing.MockClock
    scopes: list[CallScope] = field(factory=list[CallScope])
    ambients: dict[str, trio.CancelScope] = field(factory=dict[str, trio.CancelScope])
    layers: list[Layer] = field(factory=list[Layer])
    registrations: dict[tuple[int, str], Registration] = field(factory=dict[tuple[int, str], Registration])
    restrictions: list[list[Registration]] = field(factory=list[list[Registration]])
    steps: int = 0
    stray: trio.Cancelled = field(factory=_foreign)
    tools: Mapping[tuple[int, str], Tool] = field(factory=dict[tuple[int, str], Tool])

    def cancel(self, target: p.Target) -> None:
        """Carry out a request to cancel, now."""
        if isinstance(target, str):
            self.ambients[target].cancel()
        else:
            self.scopes[target].cancel()

    def step(self) -> None:
        """Count one action, and cancel what was to be cancelled when it begins."""
        self.steps += 1
        for cancel in self.program.cancels:
            if isinstance(cancel, p.CancelAtStep) and cancel.step == self.steps:
                self.cancel(cancel.target)

    async def carry_out(self, script: tuple[p.Action, ...], bound: Bound) -> None:
        """Carry out ``script``; raises what an action raises."""
        for action in script:
            self.step()
            match action:
                case p.Checkpoint():
                    await trio.lowlevel.checkpoint()
                case p.Sleep(seconds):
                    await trio.sleep(seconds)
                case p.Shielded(seconds):
                    with trio.CancelScope(shield=True):
                        await trio.sleep(seconds)
                case p.Attempt(inner, then):
                    try:
                        await self.carry_out(inner, bound)
                    except trio.Cancelled:
                        await self.carry_out(then, bound)
                case p.Cleanup(inner, last):
                    try:
                        await self.carry_out(inner, bound)
                    finally:
                        await self.carry_out(last, bound)
                case p.Hold() | p.CancelCaller() | p.Fail() | p.Stray():
                    self.act(action)
                case p.MoveDeadline() | p.Unregister() | p.Register() | p.Restrict() | p.Lift():
                    self.act(action)
                case _:
                    await bound(action)

    def at_once(self, script: tuple[p.Action, ...]) -> None:
        """Carry out the script of a synchronous phase."""
        for action in script:
            self.step()
            self.act(action)

    def register(self, key: tuple[int, str]) -> None:
        """Register a tool of the program in its layer, if it is not registered."""
        if key in self.tools and key not in self.registrations:
            self.registrations[key] = self.layers[key[0]].register(self.tools[key])

    def act(self, action: p.Action) -> None:
        """Carry out an action that does not wait."""
        match action:
            case p.Hold(seconds):
                self.clock.jump(seconds)
            case p.CancelCaller(scope):
                self.cancel(scope)
            case p.MoveDeadline(seconds, scope):
                self.scopes[scope].deadline = trio.current_time() + seconds
            case p.Unregister(tool, layer):
                if (layer, tool) in self.registrations:
                    self.registrations.pop((layer, tool)).close()
            case p.Register(tool, layer):
                self.register((layer, tool))
            case p.Restrict(tools, allow, layer):
                inherited = [tool for tool in tools if self.layers[layer - 1].get(tool) is not None]
                names = {"allow" if allow else "deny": inherited}
                self.restrictions[layer].append(self.layers[layer].restrict(**names))
            case p.Lift(layer):
                if self.restrictions[layer]:
                    self.restrictions[layer].pop().close()
            case p.Fail(code):
                raise error_of(code)
            case p.Stray():
                raise self.stray
            case _:
                raise AssertionError(f"{action!r} may not stand here")


async def nowhere(action: p.Action) -> None:
    """Refuse an action that means nothing where it stands."""
    raise AssertionError(f"{action!r} may not stand here")
