"""The search for an order of tasks in which the model shows what a run has shown."""

import pytest
from attrs import evolve

from trio_tools.reference._call_predict import explain, predict
from trio_tools.reference._call_program import (
    CallProgram,
    CallSpec,
    CancelAt,
    CancelAtStep,
    Hold,
    ReviewScript,
    Shielded,
    Sleep,
    ToolScript,
)
from trio_tools.reference._call_soak import program_of_seed
from trio_tools.reference._call_time import Choices, explored


@pytest.mark.slow
def test_exactly_the_permitted_traces_are_explained() -> None:
    looked = 0
    for seed in range(60):
        program = program_of_seed(seed)
        prediction = predict(program, limit=64)
        if not prediction.complete:
            continue
        looked += 1
        for trace in prediction.traces:
            (*most, last) = trace.published
            other = evolve(trace, published=(*most, evolve(last, code="OTHER")))
            shorter = evolve(trace, published=tuple(most))

            assert explain(program, trace).cells is not None
            assert explain(program, other).cells is None
            assert explain(program, other).complete
            assert explain(program, shorter).cells is None
    assert looked > 40


def test_a_trace_is_found_where_the_permitted_ones_are_too_many_to_list() -> None:
    body = (Hold(16), Sleep(8), Shielded(8))
    program = CallProgram(
        (ToolScript("a", body, parallel=True),),
        (CallSpec("a"),) * 3,
        mode="batch",
        reviewers=(ReviewScript((Shielded(8),), "accept"),),
        cancels=(CancelAt(17), CancelAtStep(2)),
    )
    prediction = predict(program, limit=40)

    assert not prediction.complete
    assert explain(program, prediction.traces[-1], limit=40).cells is not None


def test_every_sequence_of_answers_is_tried_once() -> None:
    def run(choices: Choices) -> tuple[int, ...]:
        first = choices.pick(3)
        return (first, choices.pick(2), choices.pick(2)) if first else (first,)

    found = list(explored(run, limit=100))

    assert sorted(found) == [(0,), *((a, b, c) for a in (1, 2) for b in (0, 1) for c in (0, 1))]
    assert len(list(explored(run, limit=4))) == 4


def test_answers_that_make_no_difference_are_left_out() -> None:
    def run(choices: Choices) -> tuple[int, int]:
        answers = choices.pick(2), choices.pick(2)
        choices.idle = lambda: {0}
        return answers

    assert sorted(explored(run, limit=100)) == [(0, 0), (0, 1)]
