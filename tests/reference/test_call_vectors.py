"""The vectors: they say what the model says, fit their schema, and hold on this runtime."""

import json
import random
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.reference.vectors import VECTORS, runner
from trio_tools.reference import observe_call_program, write_call_vectors
from trio_tools.reference.calls import (
    CallProgram,
    CallSpec,
    ToolScript,
    predict,
    program_from_json,
    program_of_seed,
    program_to_json,
    trace_from_json,
    trace_to_json,
)

NAMES = [
    "batch.json",
    "classification.json",
    "drawn.json",
    "layers.json",
    "nested.json",
    "registrations.json",
    "timeouts.json",
]


@pytest.mark.slow
def test_writing_the_vectors_anew_gives_the_same_bytes(tmp_path: Path) -> None:
    write_call_vectors(tmp_path)

    assert sorted(path.name for path in tmp_path.iterdir()) == NAMES
    for name in NAMES:
        assert (tmp_path / name).read_bytes() == (VECTORS / name).read_bytes(), (
            f"{name} is not what the model says: python docs/vectors/regenerate.py"
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_vectors_fits_the_schema(name: str) -> None:
    schema = json.loads((VECTORS / "schema.json").read_text(encoding="utf-8"))
    document = json.loads((VECTORS / name).read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    validator: Any = jsonschema.Draft202012Validator(schema)

    assert list(validator.iter_errors(document)) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_runner_finds_the_runtime_within_what_is_permitted(name: str) -> None:
    assert runner(VECTORS).failures(VECTORS / name) == []


def test_the_runner_tells_a_wrong_implementation(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = runner(VECTORS)

    def observe(_program: object) -> object:
        return {"published": [], "ends": {}}

    monkeypatch.setattr(module, "observe", observe)

    count = len(json.loads((VECTORS / "timeouts.json").read_text(encoding="utf-8"))["vectors"])

    assert module.main([str(VECTORS / "timeouts.json")]) == 1
    assert f"{count} vectors failed" in capsys.readouterr().out


def test_a_program_in_json_is_the_same_program() -> None:
    for seed in range(200):
        program = program_of_seed(random.Random(seed).randrange(10_000))
        encoded = json.loads(json.dumps(program_to_json(program)))

        assert program_from_json(encoded) == program


def test_a_trace_in_json_is_the_same_trace() -> None:
    for seed in range(20):
        for trace in predict(program_of_seed(seed), limit=4).traces:
            assert trace_from_json(json.loads(json.dumps(trace_to_json(trace)))) == trace


def test_a_program_in_json_is_carried_out() -> None:
    seen = observe_call_program(program_to_json(CallProgram((ToolScript("a"),), (CallSpec("a"),))))

    assert seen["ends"] == {"c0": "returned"}
