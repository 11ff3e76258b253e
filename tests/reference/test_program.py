"""The language: what may be written, and that it prints as code."""

from __future__ import annotations

import random

import pytest

from trio_tools import reference
from trio_tools.reference import (
    Cancel,
    CancelPoint,
    Catch,
    Checkpoint,
    Emit,
    Finally,
    MoveDeadline,
    Nursery,
    Op,
    Program,
    ProgramError,
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
from trio_tools.reference._generate import draw_program


def test_a_program_prints_as_code_that_evaluates_to_it() -> None:
    program = Program(
        Scope("s", Sleep(3), Checkpoint(), deadline=1, shield=True),
        Nursery(
            "n",
            StartSoon("n", Cancel("s"), MoveDeadline("s", None), SetShield("s", False)),
            Start("n", Started(), CancelPoint(), SchedulePoint()),
        ),
        Catch("error", (Raise("x"),), (Emit("e"),)),
        Catch("any", ()),
        Finally((Return(),), (Emit("f"),)),
    )

    assert repr(program) == (
        "Program(Scope('s', Sleep(3), Checkpoint(), deadline=1, shield=True), "
        "Nursery('n', StartSoon('n', Cancel('s'), MoveDeadline('s', None), SetShield('s', False)), "
        "Start('n', Started(), CancelPoint(), SchedulePoint())), "
        "Catch('error', (Raise('x'),), (Emit('e'),)), Catch('any', ()), "
        "Finally((Return(),), (Emit('f'),)))"
    )


def test_random_programs_print_as_code_that_evaluates_to_them() -> None:
    rng = random.Random(4)
    programs = [draw_program(lambda most: rng.randint(0, most)) for _ in range(200)]

    for program in programs:
        assert eval(repr(program), dict(vars(reference))) == program


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ((Cancel("s"),), "names no scope"),
        ((Nursery("n"), Cancel("n")), "names no scope of the program and no nursery around it"),
        ((Nursery("n"), MoveDeadline("n", 1)), "names no scope"),
        ((SetShield("n", True),), "names no scope of the program"),
        ((StartSoon("n"),), "stands in no nursery"),
        ((Nursery("n"), Start("n")), "stands in no nursery"),
        ((Started(),), "outside the body of the task of a Start"),
        ((Nursery("n", Start("n", StartSoon("n", Started()))),), "outside the body"),
        ((Scope("s"), Nursery("s")), "called 's'"),
    ],
)
def test_a_program_that_means_nothing_is_refused(body: tuple[Op, ...], complaint: str) -> None:
    with pytest.raises(ProgramError, match=complaint):
        Program(*body)


@pytest.mark.parametrize(
    "make", [lambda: Sleep(-1), lambda: Scope("s", deadline=-1), lambda: MoveDeadline("s", -1)]
)
def test_a_time_below_zero_is_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(ProgramError, match="not below zero"):
        make()


def test_a_scope_may_be_named_before_its_block_and_a_nursery_only_inside() -> None:
    program = Program(Cancel("s"), Nursery("n", StartSoon("n", Cancel("n"))), Scope("s", Checkpoint()))

    assert [type(op).__name__ for op in program.walk()] == [
        "Cancel",
        "Nursery",
        "StartSoon",
        "Cancel",
        "Scope",
        "Checkpoint",
    ]
    assert program.size == 6
