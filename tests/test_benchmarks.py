"""The yardstick itself: ratios are taken as promised, and the count of instructions tells a slowdown."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from attrs import evolve

from benchmarks import instructions, soak
from benchmarks.compare import absence_of
from benchmarks.curves import Curve, Point
from benchmarks.data import read, write
from benchmarks.guarantees import GUARANTEES, guarantees_of
from benchmarks.harness import LEAST_ROUNDS, interleave, ratio_of
from benchmarks.page import BEGIN, DATA, END, PAGE, files_of, text_of
from benchmarks.peers import OURS, Body, Call, Peer
from benchmarks.rows import Row
from benchmarks.soak import Sample
from benchmarks.subjects import TOOLS
from trio_tools import Layer, Registry, ToolCall, ToolResult


def test_contenders_run_in_turn_and_the_first_round_is_thrown_away() -> None:
    order: list[str] = []

    def cheap(repeat: int) -> int:
        order.append("cheap")
        return 10 * repeat

    def dear(repeat: int) -> int:
        order.append("dear")
        return (1_000 if len(order) <= 2 else 30) * repeat

    costs = interleave({"cheap": cheap, "dear": dear}, repeat=2, rounds=LEAST_ROUNDS)

    assert order[:6] == ["cheap", "dear", "cheap", "dear", "dear", "cheap"]
    assert costs == {"cheap": [10.0] * LEAST_ROUNDS, "dear": [30.0] * LEAST_ROUNDS}


def test_a_contender_does_its_work_as_often_as_makes_a_turn_worth_timing() -> None:
    asked: list[int] = []

    def contender(repeat: int) -> int:
        asked.append(repeat)
        return 100_000 * repeat

    costs = interleave({"it": contender}, rounds=LEAST_ROUNDS)

    assert asked == [10, *[200] * LEAST_ROUNDS]
    assert costs == {"it": [100_000.0] * LEAST_ROUNDS}


def test_too_few_rounds_for_a_median_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 13 rounds, not 12"):
        interleave({}, repeat=1, rounds=12)


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


def test_a_count_far_below_the_stored_one_passes_and_asks_to_be_stored() -> None:
    stored = {"add": {"library": 1000.0, "all": 2000.0}}

    assert instructions.shrunk(stored, {"add": {"library": 950.0, "all": 2100.0}}) == []
    assert instructions.shrunk(stored, {"add": {"library": 700.0}, "fail": {"all": 7.0}}) == [
        "add, library: 700 instructions, -30.0% on 1000"
    ]


def test_what_grows_between_the_middle_of_a_soak_and_its_end_is_told() -> None:
    settled = [Sample(number, 1_000_000 + number % 3, 9, 40_000) for number in range(9)]
    leaking = [Sample(number, 1_000_000 + number * 50_000, 9 + number // 5, 40_000) for number in range(9)]

    assert soak.grown([Sample(0, 10, 3, 1), *settled]) == []
    assert soak.grown(leaking) == [
        "bytes of memory: 1,200,000 in the middle, 1,350,000 at the end",
        "file descriptors: 9 in the middle, 10 at the end",
    ]
    with pytest.raises(ValueError, match="three samples at least, not 2"):
        soak.grown(settled[:2])


@pytest.mark.slow
def test_a_leak_ends_a_soak_badly(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept: list[bytes] = []
    execute = Layer.execute

    async def leaking(layer: Layer, call: ToolCall) -> ToolResult:
        kept.append(bytes(10_000))
        return await execute(layer, call)

    monkeypatch.setattr(Layer, "execute", leaking)

    assert soak.main(["--minutes", "0.05"]) == 1
    assert "bytes of memory" in capsys.readouterr().out


def point(size: int, value: float) -> Point:
    return Point(size, value, value * 50, 50.0)


def test_growth_is_judged_from_where_a_curve_says_to_its_highest_point() -> None:
    points = (point(10, 9.0), point(1_000, 2.0), point(10_000, 2.8), point(100_000, 2.2))
    curve = Curve("name", "title", "axis", "unit", points, since=1_000, limit=1.3)

    assert curve.growth == pytest.approx(1.4)
    assert curve.flat is False
    assert evolve(curve, limit=1.5).flat is True
    assert evolve(curve, limit=None).flat is None
    assert evolve(curve, since=100_000).flat is None, "one point says nothing of growth"


def test_a_goal_is_a_ceiling_or_a_floor() -> None:
    assert Row("it", "that", 1.3, goal=1.3).reached is True
    assert Row("it", "that", 1.31, goal=1.3).reached is False
    assert Row("it", "that", 1.31, goal=1.3, at_least=True).reached is True
    assert Row("it", "that", 1.29, goal=1.3, at_least=True).reached is False
    assert Row("it", "that", 1.0).reached is None


DOCS = Path(__file__).parent.parent / "docs"


def test_figures_survive_being_stored(tmp_path: Path) -> None:
    stored = read(DOCS / DATA)
    write(stored, tmp_path / "figures.json")

    assert read(tmp_path / "figures.json") == stored


def test_page_and_pictures_show_the_figures_that_are_stored() -> None:
    page = (DOCS / PAGE).read_text(encoding="utf-8")
    files = files_of(read(DOCS / DATA), page)

    for name, text in files.items():
        assert (DOCS / name).read_text(encoding="utf-8") == text, (
            f"{name} is not what `benchmarks.page` makes"
        )
    assert files[PAGE].count(BEGIN) == files[PAGE].count(END) == 1
    for name in files.keys() - {PAGE}:
        assert name in files[PAGE], "a picture that nobody sees"
        assert ET.fromstring(files[name]).tag.endswith("svg")


def test_a_peer_that_is_missing_or_that_fails_is_told_with_the_reason() -> None:
    @asynccontextmanager
    async def moved(_body: Body, _timeout: float) -> AsyncGenerator[Call]:
        raise AttributeError("there is no\nsuch class any more")
        yield

    @asynccontextmanager
    async def bare(body: Body, _timeout: float) -> AsyncGenerator[Call]:
        yield lambda arguments: body(**arguments)

    assert absence_of(Peer("missing", "no-such-package-at-all", "asyncio", bare)) == "not installed here"
    assert absence_of(Peer("moved", "trio", "asyncio", moved)) == (
        "AttributeError: there is no such class any more"
    )
    assert absence_of(Peer("there", "trio", "asyncio", bare)) is None


def test_a_peer_that_is_absent_is_shown_with_the_reason() -> None:
    figures = read(DOCS / DATA)
    ours, *others = figures.peers
    absent = evolve(others[0], absent="not installed here", version="", ratios={}, slower={}, guarantees={})
    text = text_of(evolve(figures, peers=(ours, absent)))

    assert f"| {absent.name} | not measured: not installed here |" in text
    assert f"faster than {absent.name}" not in text


@pytest.mark.slow
def test_what_is_promised_of_a_call_is_found_by_calling_it() -> None:
    assert guarantees_of(OURS) == dict.fromkeys(GUARANTEES, True)


@pytest.mark.slow
def test_what_is_promised_of_a_bare_function_is_found_wanting() -> None:
    @asynccontextmanager
    async def bare(body: Body, _timeout: float) -> AsyncGenerator[Call]:
        yield lambda arguments: body(**arguments)

    found = guarantees_of(Peer("a bare function", "none", "asyncio", bare))

    assert found == {**dict.fromkeys(GUARANTEES, False), "waits": True}


if sys.version_info >= (3, 12):

    def executed(layer: Layer, name: str, *, after: int = 3) -> float:
        places = instructions.spent(layer, name, after=after, arguments={"a": 2, "b": 3})
        # Now and then trio tidies its deadlines, in whatever call is at its turn.
        return sum(place.number for place in places if place.library)

    @pytest.mark.slow
    def test_no_instruction_is_executed_for_other_tools_or_for_calls_that_have_ended() -> None:
        few, many = Registry(), Registry()
        few.register(TOOLS[0])
        many.register(TOOLS[0])
        for number in range(1_000):
            many.register(evolve(TOOLS[0], name=f"add_{number}"))
        expected = executed(few, TOOLS[0].name)

        assert executed(many, TOOLS[0].name) == pytest.approx(expected, rel=0.01)
        assert executed(few, TOOLS[0].name, after=1_000) == pytest.approx(expected, rel=0.01)

    @pytest.mark.slow
    def test_the_count_of_instructions_fails_on_a_slowdown(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        store = tmp_path / "figures.json"
        assert instructions.main([], store=store) == 1, "nothing is stored yet"
        assert instructions.main(["--update", "as it is"], store=store) == 0
        assert instructions.main([], store=store) == 0
        capsys.readouterr()
        execute = Layer.execute

        async def slower(layer: Layer, call: ToolCall) -> ToolResult:
            for _ in range(200):
                pass
            return await execute(layer, call)

        monkeypatch.setattr(Layer, "execute", slower)

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
