"""What the scripts of a program do in the model: one function carries out one list of actions."""

from collections.abc import Callable
from typing import final

from attrs import define, field

from . import _call_program as p
from ._call_time import Broke, Cancelled, Flow, Kernel, Source, T

__all__ = ["Ended", "Stage", "World", "at_once"]


@final
class Ended(Exception):  # noqa: N818
    """A `Return` ends a body from wherever it stands."""

    def __init__(self, *, valid: bool) -> None:
        super().__init__(valid)
        self.valid = valid


@final
@define(eq=False)
class World:
    """What all scripts of one run share.

    Attributes:
        scopes: the call scopes, in the order of the program.
        ambients: the sources of the trio scopes ``outer`` and ``inner``.
        registered: the names that a call finds (`LA-4`).
        steps: how many actions were begun.
    """

    program: p.CallProgram
    kernel: Kernel
    scopes: list[Source] = field(factory=list[Source])
    ambients: dict[str, Source] = field(factory=dict[str, Source])
    registered: set[str] = field(factory=set[str])
    steps: int = 0
    counted: bool = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.counted = any(isinstance(cancel, p.CancelAtStep) for cancel in self.program.cancels)

    def cancel(self, target: p.Target) -> None:
        """Carry out a request to cancel, now."""
        source = self.ambients[target] if isinstance(target, str) else self.scopes[target]
        self.kernel.request(source)

    def step(self) -> None:
        """Count one action, and cancel what was to be cancelled when it begins."""
        self.steps += 1
        if self.counted:
            self.kernel.writes(self)
        for cancel in self.program.cancels:
            if isinstance(cancel, p.CancelAtStep) and cancel.step == self.steps:
                self.cancel(cancel.target)


@final
@define(eq=False)
class Stage:
    """The place where a script stands: what its stage-bound actions mean there."""

    world: World
    bound: Callable[[p.Action], Flow[None]]

    def carry_out(self, script: tuple[p.Action, ...]) -> Flow[None]:
        """Carry out ``script``; raises what an action raises."""
        for action in script:
            self.world.step()
            yield from self._one(action)

    def _one(self, action: p.Action) -> Flow[None]:
        kernel = self.world.kernel
        match action:
            case p.Checkpoint():
                yield from kernel.sleep(0)
            case p.Sleep(seconds):
                yield from kernel.sleep(seconds)
            case p.Shielded(seconds):
                yield from kernel.within(kernel.sleep(seconds), shield=True, role="shield")
            case p.Hold(seconds):
                kernel.hold(seconds)
            case p.CancelCaller(scope):
                self.world.cancel(scope)
            case p.MoveDeadline(seconds, scope):
                kernel.move_deadline(self.world.scopes[scope], kernel.now + seconds)
            case p.Unregister(tool):  # LA-5, LA-6
                kernel.writes(tool)
                self.world.registered.discard(tool)
            case p.Register(tool):
                kernel.writes(tool)
                self.world.registered.add(tool)
            case p.Fail(code):
                raise Broke(code)
            case p.Stray():
                raise Cancelled
            case p.Attempt(script, then):
                try:
                    yield from self.carry_out(script)
                except Cancelled:
                    yield from self.carry_out(then)
            case p.Cleanup(script, last):
                try:
                    yield from self.carry_out(script)
                except Exception:  # not `finally`: a run that is given up must not go on
                    yield from self.carry_out(last)
                    raise
                yield from self.carry_out(last)
            case _:
                yield from self.bound(action)


def at_once(flow: Flow[T]) -> T:
    """Carry out a script of a synchronous phase, which cannot wait."""
    try:
        next(flow)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("an action that waits stands in a synchronous script")
