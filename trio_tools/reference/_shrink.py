"""A program made smaller while it still does what one looks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import evolve

from ._program import (
    Catch,
    Finally,
    MoveDeadline,
    Nursery,
    Program,
    ProgramError,
    Scope,
    Sleep,
    Start,
    StartSoon,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ._program import Op


def shrink(program: Program, condition: Callable[[Program], bool]) -> Program:
    """Returns a program that fulfils the condition and no longer does so if any one thing is taken away.

    What counts as one thing: an operation, a block around its body, a second, a shield, a deadline.
    """
    while True:
        for body in _smaller_bodies(program.body):
            try:
                candidate = Program(*body)
            except ProgramError:
                continue  # a name lost its scope
            if condition(candidate):
                program = candidate
                break
        else:
            return program


def _smaller_bodies(body: tuple[Op, ...]) -> Iterator[tuple[Op, ...]]:
    for at, op in enumerate(body):
        before, after = body[:at], body[at + 1 :]
        yield before + after
        for replacement in _smaller(op):
            yield before + replacement + after


def _smaller(op: Op) -> Iterator[tuple[Op, ...]]:
    match op:
        case Sleep() if op.seconds > 1:
            yield (Sleep(op.seconds - 1),)
        case MoveDeadline() if op.seconds:
            yield (MoveDeadline(op.scope, op.seconds - 1),)
        case Scope():
            yield op.body
            if op.shield:
                yield (_scope(op, shield=False),)
            if op.deadline is not None:
                yield (_scope(op, deadline=None),)
            if op.deadline:
                yield (_scope(op, deadline=op.deadline - 1),)
            for body in _smaller_bodies(op.body):
                yield (_scope(op, body=body),)
        case Nursery():
            yield op.body
            for body in _smaller_bodies(op.body):
                yield (Nursery(op.name, *body),)
        case StartSoon():
            yield op.body
            for body in _smaller_bodies(op.body):
                yield (StartSoon(op.nursery, *body),)
        case Start():
            yield op.body
            for body in _smaller_bodies(op.body):
                yield (Start(op.nursery, *body),)
        case Catch():
            yield op.body
            yield op.handler
            for body in _smaller_bodies(op.body):
                yield (evolve(op, body=body),)
            for handler in _smaller_bodies(op.handler):
                yield (evolve(op, handler=handler),)
        case Finally():
            yield op.body
            yield op.cleanup
            for body in _smaller_bodies(op.body):
                yield (evolve(op, body=body),)
            for cleanup in _smaller_bodies(op.cleanup):
                yield (evolve(op, cleanup=cleanup),)
        case _:
            return


def _scope(
    op: Scope, *, body: tuple[Op, ...] | None = None, deadline: int | None = -1, shield: bool = True
) -> Scope:
    return Scope(
        op.name,
        *(op.body if body is None else body),
        deadline=op.deadline if deadline == -1 else deadline,
        shield=op.shield and shield,
    )
