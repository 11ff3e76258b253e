"""The scripts of a program on the real runtime: one method carries out one list of actions."""

from collections.abc import Awaitable, Callable
from functools import cache
from typing import TypeAlias, final

import trio
import trio.lowlevel
import trio.testing
from attrs import define, field

from trio_tools import CallScope, Registration, ToolError

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
        register: registers a tool of the program by name, and keeps its registration.
    """

    program: p.CallProgram
    clock: trio.testing.MockClock
    scopes: list[CallScope] = field(factory=list[CallScope])
    ambients: dict[str, trio.CancelScope] = field(factory=dict[str, trio.CancelScope])
    registrations: dict[str, Registration] = field(factory=dict[str, Registration])
    steps: int = 0
    stray: trio.Cancelled = field(factory=_foreign)
    register: Callable[[str], None] = field(init=False)

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
                case p.MoveDeadline() | p.Unregister() | p.Register():
                    self.act(action)
                case _:
                    await bound(action)

    def at_once(self, script: tuple[p.Action, ...]) -> None:
        """Carry out the script of a synchronous phase."""
        for action in script:
            self.step()
            self.act(action)

    def act(self, action: p.Action) -> None:
        """Carry out an action that does not wait."""
        match action:
            case p.Hold(seconds):
                self.clock.jump(seconds)
            case p.CancelCaller(scope):
                self.cancel(scope)
            case p.MoveDeadline(seconds, scope):
                self.scopes[scope].deadline = trio.current_time() + seconds
            case p.Unregister(tool):
                if tool in self.registrations:
                    self.registrations.pop(tool).close()
            case p.Register(tool):
                if tool not in self.registrations:
                    self.register(tool)
            case p.Fail(code):
                raise error_of(code)
            case p.Stray():
                raise self.stray
            case _:
                raise AssertionError(f"{action!r} may not stand here")


async def nowhere(action: p.Action) -> None:
    """Refuse an action that means nothing where it stands."""
    raise AssertionError(f"{action!r} may not stand here")
