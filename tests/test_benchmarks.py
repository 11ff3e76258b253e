"""The yardstick itself: ratios are taken as promised, and the count of instructions tells a slowdown."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import trio_tools._pipeline as pipeline
from benchmarks import instructions
from benchmarks.harness import LEAST_ROUNDS, interleave, ratio_of
from trio_tools._life import Life


@pytest.mark.slow
async def test_contenders_run_in_turn_and_the_first_round_is_thrown_away() -> None:
    order: list[str] = []

    async def cheap(repeat: int) -> int:
        order.append("cheap")
        return 10 * repeat

    async def dear(repeat: int) -> int:
        order.append("dear")
        return (1_000 if len(order) <= 2 else 30) * repeat

    costs = await interleave({"cheap": cheap, "dear": dear}, repeat=2, rounds=LEAST_ROUNDS)

    assert order[:6] == ["cheap", "dear", "dear", "cheap", "cheap", "dear"]
    assert costs == {"cheap": [20] * LEAST_ROUNDS, "dear": [60] * LEAST_ROUNDS}


async def test_too_few_rounds_for_a_median_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 13 rounds, not 12"):
        await interleave({}, repeat=1, rounds=12)


def test_each_round_is_compared_with_the_reference_of_that_round() -> None:
    # The machine was ten times slower in the second half, for both.
    ratio = ratio_of([4, 4, 4, 40, 40, 50], [2, 2, 2, 20, 20, 20])

    assert ratio.median == 2
    assert 0 < ratio.spread < 0.25


def test_a_count_may_grow_within_its_budget_and_not_beyond() -> None:
    stored = {"add": {"library": 1000.0, "all": 2000.0}}

    assert instructions.grown(stored, {"add": {"library": 1050.0, "all": 1500.0}}) == []
    assert instructions.grown(stored, {"add": {"library": 1051.0, "all": 2000.0}}) == [
        "add, library: 1051 instructions, +5.1% on 1000"
    ]
    assert instructions.grown(stored, {"fail": {"all": 7.0}}) == [
        "fail, all: 7 instructions, and none were stored"
    ]


if sys.version_info >= (3, 12):

    @pytest.mark.slow
    def test_the_count_of_instructions_fails_on_a_slowdown(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        store = tmp_path / "figures.json"
        assert instructions.main([], store=store) == 1, "nothing is stored yet"
        assert instructions.main(["--update", "as it is"], store=store) == 0
        assert instructions.main([], store=store) == 0
        capsys.readouterr()
        materialize = pipeline.materialize

        def slower(life: Life) -> object:
            for _ in range(200):
                pass
            return materialize(life)

        monkeypatch.setattr(pipeline, "materialize", slower)

        assert instructions.main([], store=store) == 1
        told = capsys.readouterr().out
        assert "over the budget of 5%" in told
        assert "as it is" in told
        assert "add, all: " in told

    @pytest.mark.slow
    def test_of_another_trio_only_the_library_is_compared(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        store = tmp_path / "figures.json"
        instructions.main(["--update", "as it is"], store=store)
        figures = json.loads(store.read_text())
        for entry in figures.values():
            entry["trio"] = "0.0"
            for kinds in entry["counts"].values():
                kinds["all"] = 1.0
        store.write_text(json.dumps(figures))

        assert instructions.main([], store=store) == 0
        assert "stored with trio 0.0" in capsys.readouterr().out

    def test_figures_are_stored_with_a_reason_or_not_at_all(tmp_path: Path) -> None:
        store = tmp_path / "figures.json"

        with pytest.raises(SystemExit):
            instructions.main(["--update", " "], store=store)
        assert not store.exists()

else:

    def test_without_a_way_to_count_the_check_says_so_and_passes(capsys: pytest.CaptureFixture[str]) -> None:
        assert instructions.main([]) == 0
        assert "since 3.12" in capsys.readouterr().out
