"""The runtime, held against the model: programs drawn by Hypothesis, and programs in bulk."""

import pytest
from hypothesis import HealthCheck, event, given, settings

from trio_tools.reference._call_check import Coverage, judge, reachable_cells
from trio_tools.reference._call_program import (
    CallProgram,
    CallSpec,
    Fail,
    Nested,
    Proceed,
    Shielded,
    Sleep,
    ToolScript,
    WrapperScript,
)
from trio_tools.reference._call_shrink import shrink
from trio_tools.reference._call_soak import cover_calls, soak_calls
from trio_tools.reference._call_strategies import call_programs
from trio_tools.reference._call_tables import Cell


@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(program=call_programs())
def test_what_a_drawn_program_shows_is_what_the_model_permits(program: CallProgram) -> None:
    judgement = judge(program)
    for cell in judgement.cells:
        event(f"{cell.row} {cell.column} {cell.kind}")

    assert judgement.agrees or judgement.open, f"\n{judgement}"


@pytest.mark.slow
def test_programs_in_bulk_show_what_the_model_permits() -> None:
    report = soak_calls(programs=400, seed=0)

    assert not report.disagreements, f"\n{report}"
    assert len(report.unsure) < 10


def test_a_wrapper_does_not_take_the_equal_cause_of_an_enclosing_call_for_its_own() -> None:
    program = CallProgram(
        (ToolScript("a", (Nested("b"),)), ToolScript("b", (Sleep(8),))),
        (CallSpec("a"),),
        wrappers=(WrapperScript((Proceed(deadline=3),), "translate"),),
    )
    judgement = judge(program)

    assert [result.code for result in judgement.observed.trace.published] == ["ABORTED", "w"]
    assert judgement.agrees


def test_a_soak_needs_an_end() -> None:
    with pytest.raises(ValueError, match="needs an end"):
        soak_calls()


def test_a_soak_ends_with_its_time_and_reports_in_between() -> None:
    seen: list[int] = []
    report = soak_calls(seconds=0.05, seed=7, progress=lambda report: seen.append(report.programs))

    assert 0 < report.programs < 1000
    assert report.rate > 0
    assert seen == []
    assert "programs/s" in str(report)


def test_a_shrunk_program_is_small_and_still_means_something() -> None:
    def nests(program: CallProgram) -> bool:
        return "Nested(tool='b'" in repr(program)

    body = (Shielded(24), Nested("b"), Fail())
    program = CallProgram((ToolScript("a", body, timeout=5), ToolScript("b")), (CallSpec("a"),) * 2)

    assert shrink(program, nests) == CallProgram(
        (ToolScript("a", (Nested("b"),)), ToolScript("b")), (CallSpec("a"),)
    )


def test_coverage_counts_by_cell_and_names_what_is_missing() -> None:
    coverage = Coverage()
    cell = Cell("CA-16", "raises", "caller")

    assert cell in coverage.missing()

    coverage.add({cell: 3})

    assert cell not in coverage.missing()
    assert "3" in next(line for line in str(coverage).splitlines() if line.startswith("CA-16  raises"))


@pytest.mark.slow
def test_every_reachable_cell_of_the_tables_is_reached_and_agrees() -> None:
    report = cover_calls()

    assert not report.coverage.missing(), f"\n{report}"
    assert not report.disagreements, f"\n{report}"
    assert set(report.coverage.counts) <= reachable_cells(), (
        "a cell that was said to be unreachable is reached"
    )


def test_what_is_not_reachable_is_so_for_a_reason() -> None:
    printed = str(Coverage())

    assert Cell("CA-19", "success", "sibling") not in reachable_cells()
    assert "CA-19 sibling: a finalizer is synchronous" in printed
    assert Cell("CA-18", "success", "sibling") in reachable_cells()
