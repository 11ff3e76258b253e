"""A program laid out in tables: every task, scope, nursery and body of it, by number.

An operation happens at most once in a run, so all of these are known before it. The interpreter's state
then is a handful of flat lists, cheap to copy and to compare, which is what makes it affordable to try
every schedule.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, TypeAlias

from attrs import define, field

from ._program import (
    Cancel,
    CancelPoint,
    Catch,
    Caught,
    Checkpoint,
    Emit,
    MoveDeadline,
    Nursery,
    Raise,
    Return,
    SchedulePoint,
    Scope,
    SetShield,
    Sleep,
    Start,
    Started,
    StartSoon,
)

if TYPE_CHECKING:
    from ._program import Op, Program


class Do(IntEnum):
    """The operations, once names have become numbers."""

    CHECKPOINT = 0
    CANCEL_POINT = 1
    SCHEDULE_POINT = 2
    SLEEP = 3
    EMIT = 4
    RAISE = 5
    RETURN = 6
    CANCEL = 7
    MOVE_DEADLINE = 8
    SCOPE = 9
    NURSERY = 10
    START_SOON = 11
    START = 12
    STARTED = 13
    CATCH = 14
    FINALLY = 15
    SET_SHIELD = 16


Instruction: TypeAlias = tuple[Do, int, int, int, str]
"""What to do, up to three numbers (tasks, scopes, bodies, seconds), and a label or error name."""

NEVER = 1 << 60
"""The deadline of what has none."""


@define(eq=False)
class Code:
    """A program in tables. Scopes are those of the text, then one hidden scope for each `Start`."""

    bodies: list[tuple[Instruction, ...]] = field(factory=list[tuple[Instruction, ...]])
    task_bodies: list[int] = field(factory=list[int])
    scope_names: list[str | None] = field(factory=list[str | None])
    deadlines: list[int] = field(factory=list[int])
    shields: list[bool] = field(factory=list[bool])
    numbers: dict[str, int] = field(factory=dict[str, int])
    starts_into: dict[int, int] = field(factory=dict[int, int])
    """For the hidden scope of each `Start`: the nursery that the task moves into."""
    may_be_hasty: bool = False
    """Whether a deadline is moved to the very moment, where it may be acted on at once or a little later."""


def lay_out(program: Program) -> Code:
    """Lays a program out in tables."""
    code = Code()
    for op in program.walk():
        if isinstance(op, Scope | Nursery):
            _add_scope(code, op.name, op)
    code.task_bodies.append(-1)
    code.task_bodies[0] = _body(code, program.body, 0)
    code.may_be_hasty = any(isinstance(op, MoveDeadline) and op.seconds == 0 for op in program.walk())
    return code


def _add_scope(code: Code, name: str | None, op: Scope | Nursery | None) -> int:
    number = len(code.scope_names)
    code.scope_names.append(name)
    if name is not None:
        code.numbers[name] = number
    is_scope = isinstance(op, Scope)
    code.deadlines.append(op.deadline if is_scope and op.deadline is not None else NEVER)
    code.shields.append(is_scope and op.shield)
    return number


def _body(code: Code, body: tuple[Op, ...], starter: int) -> int:
    number = len(code.bodies)
    code.bodies.append(())
    code.bodies[number] = tuple(_instruction(code, op, starter) for op in body)
    return number


def _task(code: Code, body: tuple[Op, ...], starter: int) -> int:
    task = len(code.task_bodies)
    code.task_bodies.append(-1)
    code.task_bodies[task] = _body(code, body, starter)
    return task


def _instruction(code: Code, op: Op, starter: int) -> Instruction:
    """Translates one operation; `starter` is the hidden scope of the `Start` that this task may answer."""
    match op:
        case Checkpoint():
            return (Do.CHECKPOINT, 0, 0, 0, "")
        case CancelPoint():
            return (Do.CANCEL_POINT, 0, 0, 0, "")
        case SchedulePoint():
            return (Do.SCHEDULE_POINT, 0, 0, 0, "")
        case Sleep():
            return (Do.SLEEP if op.seconds else Do.CHECKPOINT, op.seconds, 0, 0, "")
        case Emit():
            return (Do.EMIT, 0, 0, 0, op.label)
        case Raise():
            return (Do.RAISE, 0, 0, 0, op.error)
        case Return():
            return (Do.RETURN, 0, 0, 0, "")
        case Cancel():
            return (Do.CANCEL, code.numbers[op.scope], 0, 0, "")
        case MoveDeadline():
            seconds = NEVER if op.seconds is None else op.seconds
            return (Do.MOVE_DEADLINE, code.numbers[op.scope], seconds, 0, "")
        case SetShield():
            return (Do.SET_SHIELD, code.numbers[op.scope], op.shield, 0, "")
        case Scope():
            return (Do.SCOPE, code.numbers[op.name], _body(code, op.body, starter), 0, "")
        case Nursery():
            return (Do.NURSERY, code.numbers[op.name], _body(code, op.body, starter), 0, "")
        case StartSoon():
            return (Do.START_SOON, code.numbers[op.nursery], _task(code, op.body, 0), 0, "")
        case Start():
            hidden = _add_scope(code, None, None)
            code.starts_into[hidden] = code.numbers[op.nursery]
            return (Do.START, code.numbers[op.nursery], _task(code, op.body, hidden), hidden, "")
        case Started():
            return (Do.STARTED, starter, 0, 0, "")
        case Catch():
            kind = list(Caught).index(op.catches)
            body = _body(code, op.body, starter)
            return (Do.CATCH, body, _body(code, op.handler, starter), kind, "")
        case _:
            body = _body(code, op.body, starter)
            return (Do.FINALLY, body, _body(code, op.cleanup, starter), 0, "")
