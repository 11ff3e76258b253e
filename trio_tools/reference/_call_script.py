"""What the scripts of a program do in the model: one function carries out one list of actions."""

from collections.abc import Callable
from typing import Final, final

from attrs import define, field

from . import _call_program as p
from ._call_time import Broke, Cancelled, Flow, Kernel, Source, T

__all__ = ["HIDDEN", "Ended", "Stage", "World", "at_once"]


HIDDEN: Final = "which tools are hidden"
"""What a step that looks a tool up reads, and one that adds or lifts a restriction writes."""


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
        known: the tools of the program, by layer and name.
        registered: those of them that are registered (`LA-5`).
        restrictions: of each layer, in the order in which they were added.
        steps: how many actions were begun.
    """

    program: p.CallProgram
    kernel: Kernel
    scopes: list[Source] = field(factory=list[Source])
    ambients: dict[str, Source] = field(factory=dict[str, Source])
    registered: set[tuple[int, str]] = field(factory=set[tuple[int, str]])
    restrictions: list[list[p.Restrict]] = field(init=False)
    steps: int = 0
    counted: bool = field(init=False)
    known: dict[tuple[int, str], p.ToolScript] = field(init=False)

    def __attrs_post_init__(self) -> None:
        program = self.program
        self.counted = any(isinstance(cancel, p.CancelAtStep) for cancel in program.cancels)
        self.known = {(tool.layer, tool.name): tool for tool in program.tools}
        self.registered.update((tool.layer, tool.name) for tool in program.tools if not tool.hidden)
        self.restrictions = [[] for _ in range(program.layers)]
        for restriction in program.restrictions:
            self.restrict(restriction)

    def visible(self, name: str, layer: int) -> p.ToolScript | None:
        """Return the nearest tool of that name that no layer on the way hides (`LA-1`, `LA-2`, `LA-4`)."""
        for number in range(layer, -1, -1):
            if (number, name) in self.registered:
                return self.known[number, name]
            # LA-9, LA-10: each filters what comes from above.
            if any((name in each.tools) is not each.allow for each in self.restrictions[number]):
                return None
        return None

    def restrict(self, action: p.Restrict) -> None:
        """Add a restriction, of the names that are inherited now (`LA-10`)."""
        inherited = (name for name in action.tools if self.visible(name, action.layer - 1) is not None)
        self.restrictions[action.layer].append(p.Restrict(tuple(inherited), action.allow, action.layer))

    def happen(self, action: p.Happening) -> None:
        """Carry out an action that belongs to no script."""
        match action:
            case p.MoveDeadline(seconds, scope):
                self.kernel.move_deadline(self.scopes[scope], self.kernel.now + seconds)
            case p.Unregister(tool, layer):  # LA-5, LA-6
                self.kernel.writes(tool)
                self.registered.discard((layer, tool))
            case p.Register(tool, layer):
                self.kernel.writes(tool)
                if (layer, tool) in self.known:
                    self.registered.add((layer, tool))
            case p.Restrict():
                self.kernel.writes(HIDDEN)
                self.restrict(action)
            case p.Lift(layer):
                self.kernel.writes(HIDDEN)
                del self.restrictions[layer][-1:]

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
            case p.MoveDeadline() | p.Unregister() | p.Register() | p.Restrict() | p.Lift():
                self.world.happen(action)
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
