"""The divergence table, and what it takes to fill it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from trio_tools.reference import (
    PROPERTIES,
    Cancel,
    Cancelled,
    Catch,
    Checkpoint,
    Emit,
    Failed,
    Finally,
    Group,
    MoveDeadline,
    Nursery,
    Op,
    Outcome,
    Program,
    Raise,
    Scope,
    Sleep,
    Start,
    Started,
    StartSoon,
    TooManyStatesError,
    Verdict,
    allowed,
    compare,
    compare_backends,
    describe,
    shrink,
)
from trio_tools.reference._generate import Grammar
from trio_tools.reference._run import Backend
from trio_tools.reference.strategies import smallest

SHOWN = [program for prop in PROPERTIES for program in prop.shown_by]


def test_trio_keeps_every_property_and_so_does_anyio_over_it() -> None:
    table = compare(SHOWN, ["trio", "anyio-trio"])

    assert table.divergences == ()
    assert {cell.verdict for cell in table.cells.values()} == {Verdict.KEPT}
    assert table.cells["SCP", Backend.TRIO].programs == len(SHOWN)


def test_where_asyncio_and_anyio_over_it_diverge_is_known() -> None:
    """A version that changes this changes what users may rely on; the table in the docs changes with it."""
    table = compare_backends(["anyio-asyncio", "asyncio"], examples=12, seed=3)
    verdicts = {
        backend: {
            prop.id: cell.verdict.value
            for prop in PROPERTIES[:-1]
            if (cell := table.cells[prop.id, backend]).verdict is not Verdict.KEPT
        }
        for backend in table.backends
    }

    # Older versions of anyio diverge in more than this.
    assert verdicts[Backend.ANYIO_ASYNCIO].items() >= {
        ("SCP-13", "diverges"),
        ("SCP-22", "diverges"),
        ("SCP-24", "diverges"),
    }
    assert verdicts[Backend.ASYNCIO] == {
        "SCP-2": "diverges",
        "SCP-3": "diverges",
        "SCP-4": "not expressible",
        "SCP-7": "diverges",
        "SCP-8": "not expressible",
        "SCP-13": "diverges",
        "SCP-15": "not expressible",
        "SCP-16": "not expressible",
        "SCP-17": "not expressible",
        "SCP-18": "diverges",
        "SCP-24": "not expressible",
        "SCP-25": "diverges",
        "SCP-26": "not expressible",
    }


def test_the_table_reads_as_text() -> None:
    table = compare(
        [Program(Scope("s", Cancel("s"), Catch("cancelled", (Checkpoint(),)), Checkpoint(), Emit("no")))],
        ["asyncio"],
    )
    lines = table.to_text().splitlines()

    assert "SCP-3 cancellation is a level, not an edge diverges" in [" ".join(line.split()) for line in lines]
    assert (
        "    Program(Scope('s', Cancel('s'), Catch('cancelled', (Checkpoint(),)), Checkpoint(), Emit('no')))"
        in lines
    )
    assert "    observed:  returned; at 0; task 0 no@0; s cancelled" in lines
    assert "    permitted: returned; at 0; s cancelled; s absorbed" in lines


def test_what_random_programs_find_is_shrunk_to_the_smallest() -> None:
    (whole,) = (prop for prop in PROPERTIES if prop.id == "SCP")
    table = compare_backends(["asyncio"], properties=[whole], examples=60, seed=1)
    ((prop, backend, found),) = table.divergences

    assert (prop, backend) == (whole, "asyncio")
    assert found.program.size <= 3
    assert found.observed not in found.permitted


def test_the_table_counts_the_outcomes_that_it_does_not_list() -> None:
    race = Program(
        Nursery("n", StartSoon("n", Cancel("s")), StartSoon("n", Cancel("t")), StartSoon("n", Cancel("u"))),
        *(Scope(name, Checkpoint(), Emit(name)) for name in "stu"),
        Scope("z", deadline=0),
    )
    one = Program(
        Nursery(
            "n",
            StartSoon("n", Scope("s", Checkpoint(), Emit("s"))),
            StartSoon("n", Checkpoint(), Cancel("s")),
            StartSoon("n", Scope("t", Checkpoint(), Emit("t"))),
            StartSoon("n", Checkpoint(), Cancel("t")),
        ),
        Scope("z", deadline=0),
    )

    assert "more" not in compare([race], ["asyncio"]).to_text()
    assert "        and 2 more" in compare([one], ["asyncio"]).to_text().splitlines()


def test_the_table_says_why_something_cannot_be_expressed_and_what_else_was_permitted() -> None:
    race = Program(
        Scope("s", Nursery("n", StartSoon("n", Cancel("s")), StartSoon("n", Checkpoint(), Emit("x")))),
        Scope("t", deadline=0),
    )
    text = compare([race, Program(Scope("u", Sleep(1), shield=True))], ["asyncio"]).to_text()

    assert "SCP-8 on asyncio: not expressible. Scope: asyncio cannot shield a block" in text
    assert "permitted:" in text


def test_the_same_seed_gives_the_same_table() -> None:
    first, second = (compare_backends(["anyio-asyncio"], examples=5, seed=8) for _ in range(2))

    assert first == second


def test_a_program_without_a_family_counts_for_the_whole_alone() -> None:
    program = Program(Nursery("n", Start("n", Started(), MoveDeadline("s", 1))), Scope("s", Emit("e")))
    table = compare([program], ["trio"])

    assert [identity for (identity, _), cell in table.cells.items() if cell.programs] == ["SCP"]
    assert table.cells["SCP-1", Backend.TRIO].verdict is Verdict.UNTRIED


def test_shrinking_takes_away_all_that_does_not_matter() -> None:
    program = Program(
        Emit("before"),
        Scope(
            "s",
            Nursery(
                "n",
                StartSoon("n", Finally((Sleep(3), MoveDeadline("s", 4)), (Emit("e"),))),
                Start("n", Catch("any", (Started(), Raise("x")), (Emit("h"), Checkpoint()))),
            ),
            deadline=3,
            shield=True,
        ),
    )

    assert shrink(program, has(Emit("h"))) == Program(Emit("h"))
    assert shrink(program, has(Started())) == Program(Nursery("n", Start("n", Started())))
    assert shrink(program, lambda each: any(isinstance(op, Sleep) for op in each.walk())) == Program(Sleep(1))
    assert shrink(program, lambda each: any(isinstance(op, MoveDeadline) for op in each.walk())) == Program(
        Scope("s", MoveDeadline("s", 0))
    )
    assert shrink(
        program, lambda each: any(isinstance(op, Scope) and op.shield for op in each.walk())
    ) == Program(Scope("s", shield=True))
    assert shrink(
        program, lambda each: any(isinstance(op, Scope) and op.deadline for op in each.walk())
    ) == Program(Scope("s", deadline=1))
    assert shrink(
        program, lambda each: any(isinstance(op, Finally) and op.cleanup for op in each.walk())
    ) == (Program(Finally((), (Emit("e"),))))
    assert shrink(program, lambda each: any(isinstance(op, Catch) and op.handler for op in each.walk())) == (
        Program(Catch("any", (), (Checkpoint(),)))
    )


def has(op: Op) -> Callable[[Program], bool]:
    return lambda program: op in program.walk()


def test_the_smallest_program_is_found_or_there_is_none() -> None:
    def emits_twice(program: Program) -> bool:
        return sum(isinstance(op, Emit) for op in program.walk()) >= 2

    found = smallest(Grammar(), emits_twice, examples=200, seed=1)

    assert found is not None
    assert found.size == 2
    assert smallest(Grammar(), lambda _program: False, examples=10, seed=1) is None


def test_a_program_with_too_many_schedules_is_refused() -> None:
    tasks = [StartSoon("n", *[Emit(f"{task}{step}") for step in range(3)], Checkpoint()) for task in range(6)]

    with pytest.raises(TooManyStatesError, match="more than 50 states"):
        allowed(Program(Nursery("n", *tasks)), interleaving=True, limit=50)


def test_a_description_names_what_was_seen() -> None:
    (outcome,) = allowed(Program(Scope("s", Cancel("s"), Emit("e"), Catch("error", (Checkpoint(),)))))

    assert describe(outcome) == "returned; at 0; task 0 e@0; s cancelled; s absorbed"
    assert describe(Outcome((), Group((Cancelled(), Failed("x"))), (), 3)) == "[Cancelled, x]; at 3"
