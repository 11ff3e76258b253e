"""Vectors: programs and their outcomes as JSON, there and back, and held against real runs."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from tests.reference.vectors import LANGUAGE, runner
from trio_tools.reference import (
    PROPERTIES,
    Program,
    ProgramError,
    Scope,
    Sleep,
    outcome_to_json,
    program_from_json,
    program_to_json,
    program_vectors,
    run,
    write_program_vectors,
)
from trio_tools.reference._generate import Grammar, draw_program
from trio_tools.reference._outcome import Cancelled, Failed, Group, Outcome


def test_programs_survive_the_way_through_json() -> None:
    rng = random.Random(30)
    drawn = [draw_program(lambda most: rng.randint(0, most), Grammar(size=20)) for _ in range(300)]

    for program in drawn:
        assert program_from_json(json.loads(json.dumps(program_to_json(program)))) == program


def test_a_program_reads_plainly_as_json() -> None:
    assert program_to_json(Program(Scope("s", Sleep(2), deadline=1))) == [
        {
            "op": "scope",
            "name": "s",
            "body": [{"op": "sleep", "seconds": 2}],
            "deadline": 1,
            "shield": False,
        }
    ]


@pytest.mark.parametrize(
    "operation",
    [
        {},
        {"op": "jump"},
        {"op": "sleep"},
        {"op": "sleep", "seconds": 1, "shield": True},
        {"op": "scope", "name": "s"},
        {"op": "started"},
    ],
)
def test_json_that_describes_no_program_is_refused(operation: dict[str, Any]) -> None:
    with pytest.raises(ProgramError):
        program_from_json([operation])


def test_every_ending_has_its_json() -> None:
    ending = Group((Cancelled(), Failed("x"), Group((Failed("y"),))))

    assert outcome_to_json(Outcome((), ending, (), 0, (1, 0))) == {
        "events": [],
        "ending": {"group": ["cancelled", {"error": "x"}, {"group": [{"error": "y"}]}]},
        "scopes": {},
        "end_time": 0,
        "interleaving": [1, 0],
    }


def test_the_vectors_are_the_same_every_time_and_hold_every_property() -> None:
    first, second = program_vectors(drawn=6), program_vectors(drawn=6)
    names = [vector["name"] for vector in first["vectors"]]

    assert first == second
    assert json.loads(json.dumps(first)) == first
    assert len(names) == len(set(names)) == sum(len(prop.shown_by) for prop in PROPERTIES) + 6
    assert {vector["property"] for vector in first["vectors"]} == {
        None,
        *(prop.id for prop in PROPERTIES if prop.shown_by),
    }


def test_what_trio_does_with_a_vector_is_among_what_it_permits() -> None:
    """The runner that any implementation needs: read the program, run it, look the outcome up."""
    document = json.loads(json.dumps(program_vectors(drawn=80, seed=5)))
    wrong: list[str] = []
    choices = 0
    for vector in document["vectors"]:
        ordered = "interleaving" in vector["permitted"][0]
        outcome = run(program_from_json(vector["program"]), "trio", seed=3, interleaving=ordered)
        choices += len(vector["permitted"]) > 1
        if outcome_to_json(outcome) not in vector["permitted"]:
            wrong.append(vector["name"])

    assert wrong == []
    assert choices == 40


@pytest.mark.slow
def test_writing_the_vectors_anew_gives_the_same_bytes(tmp_path: Path) -> None:
    write_program_vectors(tmp_path)

    assert (tmp_path / "programs.json").read_bytes() == (LANGUAGE / "programs.json").read_bytes(), (
        "docs/vectors/language is not what the model says: python docs/vectors/regenerate.py"
    )


def test_the_vectors_fit_their_schema() -> None:
    schema = json.loads((LANGUAGE / "schema.json").read_text(encoding="utf-8"))
    document = json.loads((LANGUAGE / "programs.json").read_text(encoding="utf-8"))
    # Programs nest through a choice of operations, which takes a validator in Python minutes.
    validator = jsonschema_rs.validator_for(schema)

    assert validator.is_valid(document)
    assert not validator.is_valid({"version": 1, "vectors": [{"name": "x"}]})


def test_the_runner_finds_trio_within_what_is_permitted_and_tells_what_is_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = runner(LANGUAGE)

    assert module.main() == 0

    def observe(_program: object, *, interleaving: bool) -> object:
        return {"interleaving": interleaving}

    monkeypatch.setattr(module, "observe", observe)

    assert module.main() == 1
    assert " vectors failed" in capsys.readouterr().out


@pytest.mark.parametrize("path", ["run.py", "../run.py"])
def test_a_runner_is_short_enough_to_copy(path: str) -> None:
    assert len((LANGUAGE / path).read_text(encoding="utf-8").splitlines()) <= 60
