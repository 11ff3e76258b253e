"""Asynchronous generators that code has begun: which are not finished, and which yield inside a scope."""

import ast
import gc
import linecache
import sys
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from functools import cache
from types import AsyncGeneratorType, CodeType, FrameType
from typing import Any, Final, TypeAlias, cast, final

import trio
from attrs import define, field

from ._site import Site, is_foreign

__all__ = ["Generators", "generator_site"]

AsyncGenerator: TypeAlias = AsyncGeneratorType[Any, Any]

_SCOPES: Final = {
    "CancelScope": "cancel scope",
    "move_on_after": "cancel scope",
    "move_on_at": "cancel scope",
    "fail_after": "cancel scope",
    "fail_at": "cancel scope",
    "open_nursery": "nursery",
}


@final
@define(eq=False)
class Generators:
    """The asynchronous generators that code has begun, seen through the interpreter's hooks."""

    begun: list[AsyncGenerator] = field(factory=list["AsyncGenerator"])
    _managed: set[int] = field(factory=set[int])

    @contextmanager
    def hooked(self) -> Generator[None]:
        """Watch inside the block; to be entered within a trio run, whose own hooks stay in effect."""
        before = sys.get_asyncgen_hooks()

        def first(generator: AsyncGenerator) -> None:
            if not is_foreign(generator.ag_code.co_filename):
                self.begun.append(generator)
            caller = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
            if _drives_safely(caller):
                self._managed.add(id(generator))
            if before.firstiter is not None:
                before.firstiter(generator)

        sys.set_asyncgen_hooks(firstiter=cast("Any", first), finalizer=before.finalizer)
        try:
            yield
        finally:
            sys.set_asyncgen_hooks(*before)

    def unfinished(self) -> list[AsyncGenerator]:
        """Return the generators that were begun and have neither ended nor been closed."""
        return [generator for generator in self.begun if generator.ag_frame is not None]

    def yielding_in_scope(self) -> Iterator[tuple[str, Site | None]]:
        """Yield where a generator is suspended at a ``yield`` inside a scope, with the kind of scope."""
        for generator in self.begun:
            frame = generator.ag_frame
            if (
                frame is None
                or generator.ag_running
                or generator.ag_await is not None
                or id(generator) in self._managed
            ):
                continue
            kind = _open_scope(generator)
            if kind is not None:
                yield kind, generator_site(generator)

    def written_in_scope(self) -> Iterator[tuple[str, Site | None]]:
        """Yield where the source of a generator that was begun has a ``yield`` inside a scope.

        A consumer that does not wait between two items gives no chance to see the generator suspended.
        """
        for generator in self.begun:
            if id(generator) not in self._managed:
                code = generator.ag_code
                yield from ((kind, Site.of(code, line)) for kind, line in _yields_in_scopes(code))

    def clear(self) -> None:
        """Forget the generators of the last case."""
        self.begun.clear()
        self._managed.clear()


def _drives_safely(caller: FrameType) -> bool:
    # A context manager made from a generator, and trio's own channel from one, finish what they begin,
    # in one task and in order: a scope around their yield is what they are for.
    name = caller.f_code.co_filename
    return name.endswith(("contextlib.py", "trio/_channel.py", "pytest_trio/plugin.py"))


def _open_scope(holder: object) -> str | None:
    """Say which scope a suspended frame has entered: its ``with`` blocks keep their exits on its stack."""
    for referent in gc.get_referents(holder):
        owner = getattr(referent, "__self__", None)
        if isinstance(owner, trio.CancelScope):
            return "cancel scope"
        if type(owner).__name__ == "NurseryManager":
            return "nursery"
        inner: object = getattr(owner, "gen", None)
        if inner is not None and type(owner).__name__.endswith("GeneratorContextManager"):
            kind = _open_scope(inner)
            if kind is not None:
                return kind
        if isinstance(owner, ExitStack | AsyncExitStack):
            # It keeps the exits of what was entered, each with whether it is a plain one.
            for _, leave in cast("deque[tuple[bool, Any]]", vars(owner)["_exit_callbacks"]):
                kind = _open_scope([leave])
                if kind is not None:
                    return kind
    return None


@cache
def _yields_in_scopes(code: CodeType) -> tuple[tuple[str, int], ...]:
    try:
        tree = ast.parse("".join(linecache.getlines(code.co_filename)))
    except SyntaxError:
        return ()
    for node in ast.walk(tree):
        if isinstance(node, ast.AsyncFunctionDef) and node.name == code.co_name:
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            if first == code.co_firstlineno:
                return tuple(_in_scopes(node.body, None))
    return ()


def _in_scopes(nodes: list[ast.stmt] | list[ast.AST], kind: str | None) -> Iterator[tuple[str, int]]:
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            continue
        if isinstance(node, ast.Yield) and kind is not None:
            yield kind, node.lineno
        within = kind
        if isinstance(node, ast.With | ast.AsyncWith):
            within = next(filter(None, (_scope_of(item.context_expr) for item in node.items)), kind)
        yield from _in_scopes(list(ast.iter_child_nodes(node)), within)


def _scope_of(expression: ast.expr) -> str | None:
    """Return the kind of scope that ``trio.move_on_after(1)`` and its like open."""
    match expression:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="trio"), attr=name)):
            return _SCOPES.get(name)
        case _:
            return None


def generator_site(generator: AsyncGenerator) -> Site | None:
    """Return the line at which a suspended generator stands."""
    frame = generator.ag_frame
    if frame is None or is_foreign(frame.f_code.co_filename):
        return None
    return Site.of(frame.f_code, frame.f_lineno)
