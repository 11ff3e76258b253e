"""The soak: volume from the command line, and what it prints when something disagrees."""

from __future__ import annotations

import pytest

from trio_tools.reference import (
    Cancel,
    CancelPoint,
    Nursery,
    Program,
    Scope,
    SetShield,
    StartSoon,
    _explore,
    allowed,
    run,
)
from trio_tools.reference._machine import Machine
from trio_tools.reference._program_soak import CELLS, SoakReport, is_fault_of_trio, soak


def test_a_soak_counts_what_it_compared() -> None:
    told: list[int] = []
    report = soak(40, seed=2, tell=lambda so_far: told.append(so_far.programs), every=20)

    assert report.programs == 40
    assert report.disagreements == []
    assert report.outcomes >= report.with_choice + 40
    assert told == [20, 40]
    assert "0 disagreements" in report.to_text()


def test_a_soak_counts_where_operations_end_and_what_becomes_of_scopes() -> None:
    report = soak(40, seed=2)

    assert report.cells["Sleep", "returned"] > 0
    assert report.cells["scope", "absorbed"] > 0
    assert set(report.cells) <= set(CELLS)


@pytest.mark.slow
def test_every_operation_ends_in_every_way() -> None:
    assert soak(2_500, seed=0).missing() == ()


def test_a_soak_is_fixed_by_its_seed() -> None:
    first, second = soak(60, seed=3), soak(60, seed=3)

    assert (first.with_choice, first.outcomes) == (second.with_choice, second.outcomes)


def test_a_program_with_too_many_schedules_is_counted_apart() -> None:
    report = soak(10, seed=3, limit=8)

    assert report.programs == 10
    assert report.too_large > 0


def test_a_disagreement_is_printed_as_a_small_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Late(Machine):
        """A model in which the end of every program comes a second late."""

        @property
        def finished(self) -> bool:
            over = super().finished
            self.now += over
            return over

    monkeypatch.setattr(_explore, "Machine", Late)
    printed = soak(1, seed=4).to_text()

    assert "1 disagreements" in printed
    assert "\nProgram()\n    observed:  returned; at 0\n    permitted: returned; at " in printed


def test_the_known_fault_of_trio_is_counted_and_is_no_disagreement(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails once trio has mended it: then the count goes, and the paragraph on the page."""
    program = Program(
        Nursery(
            "n",
            StartSoon("n", Scope("s", CancelPoint())),
            StartSoon("n", SetShield("s", True)),
            Cancel("n"),
        )
    )

    def always_this(pick: object, grammar: object) -> Program:
        return program

    monkeypatch.setattr("trio_tools.reference._program_soak.draw_program", always_this)
    report = soak(12, seed=1)
    endings = {repr(run(program, seed=seed).ending) for seed in range(12)}

    assert endings == {"Returned()", "Group(members=(Failed(error='AssertionError'),))"}
    assert 0 < report.fault_of_trio < 12
    assert report.disagreements == []
    assert not is_fault_of_trio(Program(Scope("s", CancelPoint())), run(program, seed=1))


def test_an_empty_report_has_a_rate_of_zero() -> None:
    assert (
        SoakReport(seed=1).to_text().startswith("0 programs, seed 1: 0.0 s of processor time, 0 programs/s")
    )


def test_an_empty_program_returns() -> None:
    (outcome,) = allowed(Program())

    assert outcome.end_time == 0
