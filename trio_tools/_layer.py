"""Layers: which tools are visible where, which hooks run for a call, and in what order."""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from enum import Enum
from functools import partial
from types import TracebackType
from typing import Any, Final, ParamSpec, Protocol, Self, TypeAlias, TypeVar, final, overload

from attrs import define, field, frozen

from ._call import ToolCall
from ._callables import innermost, is_async, misfit, yields
from ._decisions import Approval, BatchPolicy, GateDecision, ReviewDecision
from ._errors import RegistrationError
from ._execution import DispatchExecution, ToolExecution
from ._json import JsonValue
from ._life import Life
from ._result import ToolResult
from ._text import shown
from ._tool import Effect, FunctionTool, Tool, ToolDecorator

__all__ = [
    "Approver",
    "Gate",
    "Guard",
    "HookKind",
    "Hooks",
    "Layer",
    "Observer",
    "Registration",
    "Reviewer",
    "Runtime",
    "Wrapper",
]

P = ParamSpec("P")
R = TypeVar("R")
H = TypeVar("H", bound=Callable[..., object])


Gate: TypeAlias = Callable[[ToolExecution, Callable[[], Awaitable[GateDecision]]], Awaitable[GateDecision]]
Guard: TypeAlias = Callable[[ToolExecution], str | None]
Wrapper: TypeAlias = Callable[
    [DispatchExecution, Callable[[DispatchExecution], Awaitable[ToolResult]]], Awaitable[ToolResult]
]
Reviewer: TypeAlias = Callable[
    [ToolExecution, ToolResult, Callable[[], Awaitable[ReviewDecision]]], Awaitable[ReviewDecision]
]
Observer: TypeAlias = Callable[[ToolExecution, ToolResult], None]
Approver: TypeAlias = Callable[[ToolExecution, str | None], Awaitable[Approval]]


@final
class HookKind(Enum):
    """The kinds of hooks."""

    GATE = "gate"
    GUARD = "guard"
    WRAPPER = "wrapper"
    REVIEWER = "reviewer"
    OBSERVER = "observer"


_ARITY: Final = {
    HookKind.GATE: 2,
    HookKind.GUARD: 1,
    HookKind.WRAPPER: 2,
    HookKind.REVIEWER: 3,
    HookKind.OBSERVER: 2,
}
_AWAITED: Final = frozenset({HookKind.GATE, HookKind.WRAPPER, HookKind.REVIEWER})


@final
class Registration:
    """One entry of a layer; closing it removes that entry and nothing else (`LA-5`).

    Also a context manager that closes on exit.

    Args:
        undo: what closing does, once.
    """

    __slots__ = ("_undo",)

    def __init__(self, undo: Callable[[], None]) -> None:
        self._undo: Callable[[], None] | None = undo

    def close(self) -> None:
        """Remove the entry; idempotent, at any time. Running calls go on (`LA-6`)."""
        undo, self._undo = self._undo, None
        if undo is not None:
            undo()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()


@final
@frozen(eq=False, repr=False)
class _Restriction:
    allow: frozenset[str] | None
    deny: frozenset[str]

    def admits(self, name: str) -> bool:
        return (self.allow is None or name in self.allow) and name not in self.deny


@final
@define(eq=False, repr=False)
class _Hook:
    """One registration of a hook: the same function registered twice is two entries (`LA-5`)."""

    call: Callable[..., object]


class Runtime(Protocol):
    """What executes calls for all layers of a registry."""

    def execute(self, layer: "Layer", call: ToolCall) -> Awaitable[ToolResult]:
        """Execute one call."""
        ...

    def execute_batch(
        self, layer: "Layer", calls: Iterable[ToolCall], max_parallel: int, on_failure: BatchPolicy
    ) -> Awaitable[list[ToolResult]]:
        """Execute many."""
        ...


@final
@frozen(eq=False, repr=False)
class Hooks:
    """The hooks that run for a call, each kind outermost first (`LA-7`)."""

    gates: tuple[Gate, ...] = ()
    guards: tuple[Guard, ...] = ()
    wrappers: tuple[Wrapper, ...] = ()
    reviewers: tuple[Reviewer, ...] = ()
    # What an observer returns is for the registry to see; it should be nothing.
    observers: tuple[Callable[[ToolExecution, ToolResult], object], ...] = ()


@define(eq=False, repr=False)
class Revision:
    """Counts the changes to a registry, so that what was derived from it can be kept until one."""

    number: int = 0


@define(eq=False, repr=False, slots=False)
class Layer:
    """A view of the tools of its ancestors and its own, and of the hooks that run for its calls.

    A registry is the root layer. A layer holds no state of a loop (`LA-14`).
    """

    name: str
    _parent: "Layer | None"
    _runtime: Runtime
    _revision: Revision
    _tools: dict[str, Tool] = field(factory=dict[str, Tool], init=False)
    _restrictions: list[_Restriction] = field(factory=list[_Restriction], init=False)
    _hooks: dict[HookKind, list[_Hook]] = field(factory=lambda: {kind: [] for kind in HookKind}, init=False)
    _merged: Hooks = field(factory=Hooks, init=False)
    _merged_at: int = field(default=0, init=False)

    def layer(self, name: str) -> "Layer":
        """Return a new child layer; ``name`` is a label and need not be unique (`LA-1`).

        Raises:
            RegistrationError: when the name is no string.
        """
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise RegistrationError(f"the name of a layer is a string, not {shown(name)}")
        return Layer(name, self, self._runtime, self._revision)

    def register(self, tool: Tool) -> Registration:
        """Add ``tool`` to this layer: visible here and below, hiding one of its name above (`LA-2`).

        Raises:
            RegistrationError: when it is no `Tool`, or the layer has one of that name (`LA-3`).
        """
        if not isinstance(tool, Tool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise RegistrationError(
                f"register takes a Tool, not {type(tool).__name__}: make one with @tool or Tool.from_function"
            )
        if tool.name in self._tools:
            raise RegistrationError(
                f"layer {self.name!r} already has a tool {tool.name!r}: close its registration first, or "
                "register the new one in a child layer, which hides it"
            )
        self._tools[tool.name] = tool

        def undo() -> None:
            del self._tools[tool.name]

        return Registration(undo)

    @overload
    def tool(self, fn: Callable[P, R], /) -> FunctionTool[P, R]: ...

    @overload
    def tool(
        self,
        *,
        name: str | None = None,
        description: str | None = None,
        timeout: float | None = None,
        effect: Effect = Effect.UNKNOWN,
        concurrency_safe: bool | Callable[..., bool] = False,
        render: Callable[..., object] | None = None,
        meta: Callable[..., object] | None = None,
        finalize: Callable[..., object] | None = None,
    ) -> "Callable[[Callable[P, R]], FunctionTool[P, R]]": ...

    def tool(self, fn: Callable[..., object] | None = None, /, **options: Any) -> Any:  # pyright: ignore[reportInconsistentOverload]  # self is positional-only here
        """Define a tool and register it here: ``@layer.tool`` or ``@layer.tool(timeout=5)``.

        Takes what `trio_tools.tool` takes, and raises what it and `register` raise.
        """
        define = partial(self._define, ToolDecorator(options))
        return define if fn is None else define(fn)

    def _define(self, make: ToolDecorator, fn: Callable[..., object]) -> Tool:
        tool = make(fn)
        self.register(tool)
        return tool

    def restrict(
        self, *, allow: Iterable[str] | None = None, deny: Iterable[str] | None = None
    ) -> Registration:
        """Hide inherited tools from this layer and those below (`LA-9` to `LA-11`).

        Args:
            allow: the only inherited names that stay visible; an empty one hides all.
            deny: inherited names to hide; tools that come later under other names are admitted.

        Raises:
            RegistrationError: on the root, with neither argument, for a plain string, or for a name
                that is not inherited.
        """
        if self._parent is None:
            raise RegistrationError(
                f"the root layer inherits nothing: restrict a child layer; known are {self._known()}"
            )
        if allow is None and deny is None:
            raise RegistrationError(f"restrict needs allow= or deny=; known are {self._known()}")
        restriction = _Restriction(
            None if allow is None else self._inherited_names(allow),
            frozenset() if deny is None else self._inherited_names(deny),
        )
        self._restrictions.append(restriction)

        def undo() -> None:
            self._restrictions.remove(restriction)

        return Registration(undo)

    def _known(self) -> str:
        return ", ".join(sorted((self._parent or self)._visible())) or "no tools"

    def _inherited_names(self, names: Iterable[str]) -> frozenset[str]:
        if isinstance(names, str | bytes):
            raise RegistrationError(
                f"restrict takes several names, not one string; known are {self._known()}"
            )
        assert self._parent is not None
        try:
            wanted = list(names)
            frozenset(wanted)
        except TypeError as error:
            raise RegistrationError(f"restrict takes names: {error}; known are {self._known()}") from None
        inherited = self._parent._visible()
        unknown = [name for name in wanted if name not in inherited]
        if unknown:
            raise RegistrationError(
                f"not inherited: {', '.join(map(shown, unknown))}; known are {self._known()}"
            )
        return frozenset(wanted)

    def gate(self, fn: Gate) -> Registration:
        """Add a gate: it decides whether a call may run, alone or after awaiting the rest (`GA-1`).

        Raises:
            RegistrationError: when it cannot be a gate (`LA-13`).
        """
        return self._add(HookKind.GATE, fn)

    def guard(self, fn: Guard) -> Registration:
        """Add a guard: asked after every allow or grant, it returns a reason to deny or None (`GA-10`).

        Raises:
            RegistrationError: when it cannot be a guard (`LA-13`).
        """
        return self._add(HookKind.GUARD, fn)

    def wrap(self, fn: Wrapper) -> Registration:
        """Add a wrapper around dispatch, inside those already there (`WR-1`).

        Raises:
            RegistrationError: when it cannot be a wrapper (`LA-13`).
        """
        return self._add(HookKind.WRAPPER, fn)

    def review(self, fn: Reviewer) -> Registration:
        """Add a reviewer, inside those already there (`RE-2`).

        Raises:
            RegistrationError: when it cannot be a reviewer (`LA-13`).
        """
        return self._add(HookKind.REVIEWER, fn)

    def observe(self, fn: Observer) -> Registration:
        """Add an observer of published results (`PU-5`).

        Raises:
            RegistrationError: when it cannot be an observer (`LA-13`).
        """
        return self._add(HookKind.OBSERVER, fn)

    def _add(self, kind: HookKind, fn: Callable[..., object]) -> Registration:
        word = f"{'an' if kind is HookKind.OBSERVER else 'a'} {kind.value}"
        refuse_wrong_kind(word, fn, takes=_ARITY[kind], awaited=kind in _AWAITED)
        hook = _Hook(fn)
        self._hooks[kind].append(hook)
        self._revision.number += 1

        def undo() -> None:
            self._hooks[kind].remove(hook)
            self._revision.number += 1

        return Registration(undo)

    @staticmethod
    def hooks_of(life: Life) -> Hooks:
        """Return the hooks that run now for a call through a layer (`LA-7`); for the registry alone."""
        layer: Layer = life.layer  # pyright: ignore[reportAssignmentType]  (nothing else is ever put there)
        if layer._merged_at != layer._revision.number:
            # Both name the kinds in the same order.
            layer._merged = Hooks(*(layer._merge(kind) for kind in HookKind))
            layer._merged_at = layer._revision.number
        return layer._merged

    def _merge(self, kind: HookKind) -> tuple[Any, ...]:
        return tuple([hook.call for hook in self._chain(kind)])

    def _chain(self, kind: HookKind) -> Iterator[_Hook]:
        if self._parent is not None:
            yield from self._parent._chain(kind)
        yield from self._hooks[kind]

    def guards(self) -> Iterator[Callable[..., object]]:
        """Walk the guards in order, each once, while some may be added or closed (`GA-11`, `LA-5`).

        One that is added where the walk has been is asked next: no guard is spared (`GA-10`).
        """
        asked: set[_Hook] = set()
        kind = HookKind.GUARD
        while (guard := next((each for each in self._chain(kind) if each not in asked), None)) is not None:
            asked.add(guard)
            yield guard.call

    def get(self, name: str) -> Tool | None:
        """Return the visible tool of that name; None when there is none or it is hidden (`LA-4`)."""
        layer: Layer | None = self
        while layer is not None:
            if (tool := layer._tools.get(name)) is not None:
                return tool
            for restriction in layer._restrictions:
                if not restriction.admits(name):
                    return None
            layer = layer._parent
        return None

    def _visible(self) -> dict[str, Tool]:
        inherited = {} if self._parent is None else self._parent._visible()
        admitted = {
            name: tool
            for name, tool in inherited.items()
            if all(restriction.admits(name) for restriction in self._restrictions)
        }
        return admitted | self._tools

    def schemas(self) -> list[Mapping[str, JsonValue]]:
        """Return name, description and parameters of every visible tool, detached (`LA-12`)."""
        return [tool.schema() for tool in self._visible().values()]

    async def execute(self, call: ToolCall) -> ToolResult:
        """Execute ``call`` through this layer and return the one result that was published for it.

        Checkpoints, and waits for quiescence however long it takes: when it returns, nothing of the call
        is running (`BO-4`). Cancelling the call's scope ends the call and returns a cancelled result.

        Raises:
            trio.Cancelled: only when the outcome is cancelled and the scopes around ``execute`` are
                cancelled too (`PU-8`).
            TypeError: when ``call`` is no `ToolCall`.
            RuntimeError: when the scope belongs to another run or is being left (`SC-2`, `SC-13`), or
                the parent has settled (`NE-9`); nothing is published then.
        """
        return await self._runtime.execute(self, call)

    async def execute_batch(
        self,
        calls: Iterable[ToolCall],
        *,
        max_parallel: int = 10,
        on_failure: BatchPolicy = BatchPolicy.COLLECT,
    ) -> list[ToolResult]:
        """Execute many calls and return one result for each, in call order (`BA-1`).

        Calls of tools that are concurrency-safe overlap with their neighbours; every other call has the
        batch to itself. Results are reviewed and published in call order (`BA-6`).

        Args:
            max_parallel: how many dispatches may be in flight at once.
            on_failure: whether a failed call cancels its siblings (`BA-11`).

        Raises:
            ValueError: when ``max_parallel`` is not an integer above zero, or two ids are equal.
            trio.Cancelled: when the scopes around the batch are cancelled and one of the results was
                cancelled by them (`BA-12`); every result was published all the same.
        """
        return await self._runtime.execute_batch(self, calls, max_parallel, on_failure)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"


def layer_of(life: Life) -> Layer:
    """Return the layer that a call is executed through, with its hooks; for the registry alone."""
    return life.layer  # pyright: ignore[reportReturnType]  (nothing else is ever put there)


hooks_of: Final = Layer.hooks_of


def refuse_wrong_kind(word: str, fn: object, *, takes: int, awaited: bool) -> None:
    """Raise `RegistrationError` for what cannot be the hook that ``word`` names, such as ``a gate``.

    Args:
        takes: how many positional arguments it is called with.
        awaited: whether its answer is awaited.
    """
    if not callable(fn):
        raise RegistrationError(f"{word} is a function, not {type(fn).__name__}")
    if yields(fn):
        raise RegistrationError(f"{word} returns its answer: {shown(fn)} is a generator, and would never run")
    told = _is_async(fn)
    if awaited and told is False:
        raise RegistrationError(f"{word} is an `async def` function: {shown(fn)} is not")
    if not awaited and told is True:
        raise RegistrationError(
            f"{word} is a plain `def` function: {shown(fn)} is async, and nobody awaits it"
        )
    if problem := misfit(fn, *range(takes)):
        raise RegistrationError(f"{word} takes {takes} positional arguments: {problem}")


def _is_async(fn: Callable[..., object]) -> bool | None:
    """Return whether ``fn`` is async, None where that cannot be told before it is called."""
    target = innermost(fn)
    if is_async(fn) or is_async(target):
        return True
    # A lambda, or an object with a `__call__`, may return an awaitable all the same.
    named = inspect.isroutine(fn) or isinstance(fn, partial)
    return False if named and inspect.isfunction(target) and target.__name__ != "<lambda>" else None
