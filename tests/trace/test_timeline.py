"""The timeline: what is stored is read, counted and shown, and nothing else is."""

from __future__ import annotations

import gettext
import json
import re
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from tests.trace.strategies import broken_text, steps
from trio_tools import ToolOutcome, to_json_text
from trio_tools.trace import (
    EventKind,
    EventRow,
    FenceRow,
    OutcomeCounts,
    PrivacyLevel,
    RunRow,
    RunRows,
    RunStep,
    RunTimeline,
    RunTrace,
    Span,
    filter_step,
    open_store,
    render,
    step_to_json,
)
from trio_tools.trace._labels import LANGUAGES, Language, labels, outcome_key
from trio_tools.trace._timeline import UNKNOWN

FORMATS: list[Any] = ["text", "html", "json"]


def event(
    payload: object, *, sequence: int | None = 0, second: int = 1_900_000_000, kind: str = "tool", **span: Any
):
    return EventRow(sequence=sequence, second=second, kind=kind, payload=payload, span=Span(**span))


def timeline_of(*events: EventRow, fences: tuple[FenceRow, ...] = (), run_id: str = "r") -> RunTimeline:
    return RunTimeline.of(RunRows(RunRow(run_id=run_id, started_at=1_900_000_000.0), events, fences))


def tool_payload(**keys: Any) -> str:
    return json.dumps({"kind": "tool", "round": 1, "durationMs": 2.5, "toolName": "look", **keys})


def ended(outcome: str) -> str:
    return tool_payload(toolIsError=outcome != "ok", toolOutcome=outcome)


@pytest.mark.rule("TL-1")
async def test_an_unknown_run_is_a_lookup_error() -> None:
    async with open_store(":memory:") as store:
        with pytest.raises(LookupError):
            await RunTimeline.load(store, "nowhere")


@pytest.mark.rule("TL-1")
def test_entries_stand_by_second_then_sequence_and_those_without_come_last_in_theirs() -> None:
    fence = FenceRow(second=5, tool="pay", round=0, span=Span())
    timeline = timeline_of(
        event("{}", sequence=2, second=6),
        event("{}", sequence=3, second=5),
        event("{}", sequence=1, second=5),
        event("{}", sequence=None, second=5),
        event("{}", sequence=0, second=7),
        fences=(fence,),
    )

    assert [(entry.second, entry.sequence) for entry in timeline.entries] == [
        (5, 1),
        (5, 3),
        (5, None),
        (5, None),
        (6, 2),
        (7, 0),
    ]


@pytest.mark.rule("TL-1", "TL-2", "TR-8")
async def test_a_standing_fence_reads_unknown_with_its_effect(shared_target: str) -> None:
    from tests.trace.test_recorder import make_registry
    from tests.trace.test_store import fence
    from trio_tools.trace._writing import Unit

    async with open_store(shared_target) as store:
        RunTrace("r", store=store).attach(make_registry())
        writer = store.writer("other")
        await writer.commit(Unit(writer, fence=(1, fence("pay"))))
        timeline = await RunTimeline.load(store, "other")

    (entry,) = timeline.entries
    assert (entry.outcome, entry.tool, entry.sequence, entry.span.effect) == (UNKNOWN, "pay", None, "unknown")
    assert UNKNOWN not in set(ToolOutcome)
    assert timeline.counts == OutcomeCounts(unknown=1)


@pytest.mark.rule("TL-2")
@pytest.mark.parametrize(
    ("payload", "outcome"),
    [
        (ended("ok"), "ok"),
        (ended("failed"), "failed"),
        (ended("cancelled"), "cancelled"),
        (tool_payload(toolIsError=False), "ok"),
        (tool_payload(toolIsError=False, toolOutcome="cancelled"), "cancelled"),
        (tool_payload(), None),
        ("not json", None),
    ],
)
def test_an_entry_shows_the_outcome_of_the_tolerant_reader(payload: str, outcome: str | None) -> None:
    timeline = timeline_of(event(payload))

    assert timeline.entries[0].outcome == outcome
    assert json.loads(render(timeline, format="json"))["entries"][0]["outcome"] == (outcome or "")


@pytest.mark.rule("TL-3")
@pytest.mark.parametrize("outcome", ToolOutcome)
@pytest.mark.parametrize("language", LANGUAGES)
def test_one_string_runs_from_the_enum_through_the_row_to_the_label(
    outcome: ToolOutcome, language: Language
) -> None:
    step = RunStep(kind="tool", tool_is_error=outcome is not ToolOutcome.OK, tool_outcome=outcome)
    stored = to_json_text(step_to_json(filter_step(step, PrivacyLevel.NONE)))
    timeline = timeline_of(event(stored))

    assert f'"toolOutcome":"{outcome.value}"' in stored
    assert timeline.entries[0].outcome == outcome.value
    assert f"runs.detail.outcome.{outcome.value}" in labels(language)
    assert outcome_key(outcome.value).rsplit(".", 1)[1] == outcome.value
    assert labels(language)[f"runs.detail.outcome.{outcome.value}"] in render(timeline, language=language)
    assert outcome.value in page_data(timeline)["tables"]["outcome"]


@pytest.mark.rule("TL-4")
def test_the_labels_of_the_outcomes_are_these() -> None:
    words = {
        language: [
            labels(language)[f"runs.detail.outcome.{name}"]
            for name in ("ok", "failed", "cancelled", "unknown")
        ]
        for language in LANGUAGES
    }

    assert words == {
        "en": ["ok", "failed", "cancelled", "unknown"],
        "de": ["ok", "fehlgeschlagen", "abgebrochen", "unbekannt"],
    }
    assert get_args(Language) == LANGUAGES


@pytest.mark.rule("TL-4")
def test_both_catalogues_have_the_same_keys_and_the_same_gaps() -> None:
    assert labels("en").keys() == labels("de").keys()
    for key, text in labels("en").items():
        assert sorted(re.findall(r"{\w+}", text)) == sorted(re.findall(r"{\w+}", labels("de")[key])), key


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_compiled_catalogue_is_what_its_source_says(language: Language) -> None:
    folder = Path(str(files("trio_tools.trace").joinpath("locale", language, "LC_MESSAGES")))
    source = (folder / "trio_tools.po").read_text("utf-8")
    pairs = dict(re.findall(r'^msgid "(runs\.[^"]+)"\nmsgstr "((?:[^"\\]|\\.)*)"$', source, re.MULTILINE))

    assert labels(language) == pairs
    with (folder / "trio_tools.mo").open("rb") as compiled:
        assert gettext.GNUTranslations(compiled).gettext("runs.detail.outcome.ok") == "ok"


def test_every_label_that_the_page_asks_for_exists() -> None:
    page = files("trio_tools.trace").joinpath("page")
    sources = [page.joinpath(name).read_text("utf-8") for name in ("timeline.html", "timeline.js")]
    asked = {key for source in sources for key in re.findall(r'"(runs\.[a-zA-Z.]+[a-zA-Z])"', source)}

    assert asked
    assert asked <= labels("en").keys()
    assert {f"runs.detail.kind.{kind}" for kind in EventKind} <= labels("en").keys()


def test_there_is_no_other_language_and_no_other_format() -> None:
    timeline = timeline_of()
    with pytest.raises(ValueError, match="en, de"):
        render(timeline, language="fr")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="ok, failed, cancelled, unknown"):
        render(timeline, outcome="none")
    with pytest.raises(ValueError, match="text, html or json"):
        render(timeline, format="xml")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="en, de"):
        labels("fr")  # pyright: ignore[reportArgumentType]


@pytest.mark.rule("TL-5")
@given(st.lists(st.sampled_from(["ok", "failed", "cancelled", None, UNKNOWN]), max_size=30))
def test_the_counts_add_up_and_cancelled_calls_are_in_neither_part_of_the_rate(
    outcomes: list[str | None],
) -> None:
    rows = [event(ended(outcome) if outcome else "{}") for outcome in outcomes if outcome != UNKNOWN]
    fences = tuple(
        FenceRow(second=1, tool="t", round=0, span=Span()) for outcome in outcomes if outcome == UNKNOWN
    )
    counts = timeline_of(*rows, fences=fences).counts

    assert [counts.ok, counts.failed, counts.cancelled, counts.unknown, counts.none] == [
        outcomes.count(name) for name in ("ok", "failed", "cancelled", UNKNOWN, None)
    ]
    both = counts.ok + counts.failed
    assert counts.failure_rate == (counts.failed / both if both else None)


@pytest.mark.rule("TL-6", "TL-7")
def test_details_show_the_allowed_keys_in_their_order_and_print_as_said() -> None:
    payload = tool_payload(
        toolCause={"kind": "caller", "name": "nightly", "reason": "secret"},
        toolCode="ABORTED",
        toolDispatched=True,
        toolSettlement="cancelled",
        writeTargetUid=7,
        writeTargetTable="bills",
        droppedSources=["a", "b"],
        decidedBy="anna",
        approved=False,
        contentRedacted=True,
        requestedToolNames=["x", "y"],
        toolSpecs=["x"],
        toolArtifactTypes=["table", "text"],
        toolArtifactsCount=2,
        toolResultLength=0,
        thinkingLength=1,
        contentLength=2,
        messagesSentCount=3,
        estimatedCost=0.5,
        totalTokens=3,
        completionTokens=2,
        promptTokens=1,
        finishReason="stop",
        toolOutcome="cancelled",
        toolIsError=True,
        toolResult="secret",
        toolArguments={"secret": "secret"},
        somethingNew="secret",
        submittedBy=3,
    )
    (entry,) = timeline_of(event(payload)).entries

    assert entry.details_text == (
        "toolName=look; toolIsError=1; toolOutcome=cancelled; finishReason=stop; promptTokens=1;"
        " completionTokens=2; totalTokens=3; estimatedCost=0.5; messagesSentCount=3; contentLength=2;"
        " thinkingLength=1;"
        " toolResultLength=0; toolArtifactsCount=2; toolArtifactTypes=table,text; toolSpecs=x;"
        " requestedToolNames=x,y; contentRedacted=1; approved=0; decidedBy=anna; droppedSources=a,b;"
        " writeTargetTable=bills; writeTargetUid=7; toolSettlement=cancelled; toolDispatched=1;"
        " toolCode=ABORTED; toolCause=caller:nightly"
    )
    assert entry.details_text in render(timeline_of(event(payload)))


@pytest.mark.rule("TL-7")
@pytest.mark.parametrize(
    "keys",
    [
        {"toolSpecs": [["nested"]]},
        {"toolSpecs": [None]},
        {"toolCode": {"a": 1}},
        {"toolCode": None},
        {"toolCause": "caller:x"},
        {"toolCause": {"kind": 1, "name": "x"}},
        {"writeTargetUid": 10**5000},
    ],
)
def test_what_is_no_scalar_and_no_list_of_scalars_is_dropped(keys: dict[str, Any]) -> None:
    payload = to_json_text({"toolName": "look", **keys})

    assert timeline_of(event(payload)).entries[0].details == {"toolName": "look"}


@pytest.mark.rule("TL-9")
@pytest.mark.parametrize(
    ("keys", "shown"),
    [
        ({"round": 0, "durationMs": 0}, (None, None)),
        ({"round": 2, "durationMs": 0.5}, (2, 0.5)),
        ({"round": -1, "durationMs": -1}, (None, None)),
        ({"round": True, "durationMs": "3"}, (None, None)),
        ({"round": 1e300, "durationMs": 1e300}, (None, None)),
    ],
)
def test_round_and_milliseconds_show_only_above_zero(keys: dict[str, Any], shown: Any) -> None:
    (entry,) = timeline_of(event(tool_payload(**keys))).entries

    assert (entry.round, entry.duration_ms) == shown


@pytest.mark.rule("TL-8")
@pytest.mark.parametrize("level", PrivacyLevel)
@pytest.mark.parametrize("format", FORMATS)
async def test_no_content_appears_in_any_format_at_any_level(level: PrivacyLevel, format: Any) -> None:
    from tests.trace.test_privacy import MARKER, telling_step

    async with open_store(":memory:") as store:
        trace = RunTrace("r", store=store, privacy=level)
        trace.record(telling_step())
        timeline = await RunTimeline.load(store, "r")

    assert MARKER not in render(timeline, format=format)
    assert MARKER not in repr(timeline)
    assert MARKER not in repr(store)


class Page(HTMLParser):
    """What a browser would make of the page: its elements, and the text that is no script."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs


def page_data(timeline: RunTimeline) -> dict[str, Any]:
    source = render(timeline, format="html")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', source, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


NASTY = "</script><img src=x onerror=alert(1)>&\"'`\x1b[31m\x07\u202e\u2028$title ${x} é"


@pytest.mark.rule("TL-8")
@pytest.mark.parametrize("format", FORMATS)
def test_html_and_control_characters_are_escaped(format: Any) -> None:
    row = event(
        json.dumps({"toolName": NASTY, "toolCode": NASTY, "toolIsError": True}),
        kind=NASTY,
        call_id=NASTY,
        layer=NASTY,
        effect=NASTY,
    )
    fence = FenceRow(second=1, tool=NASTY, round=1, span=Span(effect=NASTY))
    timeline = timeline_of(row, fences=(fence,), run_id=NASTY)
    shown = render(timeline, format=format)
    clean = render(timeline_of(event(tool_payload(toolIsError=True)), fences=(fence,)), format=format)

    assert not [char for char in shown if not char.isprintable() and char != "\n"]
    if format == "html":
        assert Page(shown).tags == Page(clean).tags
        assert "onerror" not in [name for name, _ in Page(shown).attributes]


@pytest.mark.rule("TL-9")
@given(
    st.lists(
        st.builds(
            event,
            st.one_of(
                broken_text,
                st.binary(),
                st.none(),
                st.integers(),
                steps().map(step_to_json).map(to_json_text),
            ),
            sequence=st.none() | st.integers(0, 2**63 - 1),
            second=st.integers(-(2**63), 2**63 - 1),
            kind=broken_text,
            call_id=st.none() | st.sampled_from(["a", "b"]),
            parent_call_id=st.none() | st.sampled_from(["a", "b"]),
            began_ms=st.none() | st.floats(allow_nan=False, allow_infinity=False),
            ended_ms=st.none() | st.floats(allow_nan=False, allow_infinity=False),
        ),
        max_size=4,
    ),
    broken_text,
)
def test_loading_and_rendering_are_total(rows: list[EventRow], run_id: str) -> None:
    timeline = timeline_of(*rows, run_id=run_id)

    assert len(timeline.entries) == len(rows)
    for format in FORMATS:
        for language in LANGUAGES:
            render(timeline, format=format, language=language).encode()


@pytest.mark.rule("TL-9", "ST-10")
async def test_damaged_rows_of_a_real_store_are_listed(tmp_path: Path) -> None:
    import sqlite3

    path = tmp_path / "runs.db"
    async with open_store(path) as store:
        RunTrace("r", store=store)
    connection = sqlite3.connect(path)
    for number, payload in enumerate(["", "{", b"\xff\x00", "[1]", '{"toolIsError": 1}', "NaN"]):
        connection.execute(
            "INSERT INTO trio_events (run_id, sequence, second, kind, payload, began_ms)"
            " VALUES ('r', ?, ?, ?, ?, ?)",
            (number, 9e999 if number == 3 else 5, b"\xff" if number == 2 else "tool", payload, "soon"),
        )
    connection.execute(
        "INSERT INTO trio_fences (run_id, fence, second, tool, round) VALUES ('r', 1, 'x', x'ff', 'y')"
    )
    connection.commit()
    connection.close()
    async with open_store(path) as store:
        timeline = await RunTimeline.load(store, "r")

    assert len(timeline.entries) == 7
    assert timeline.counts == OutcomeCounts(none=6, unknown=1)
    for format in FORMATS:
        assert render(timeline, format=format)


@given(st.lists(steps(st.just("tool")), max_size=5))
def test_what_was_recorded_is_what_is_read_at_every_level(recorded: list[RunStep]) -> None:
    async def main() -> None:
        async with open_store(":memory:") as store:
            for level in PrivacyLevel:
                trace = RunTrace(level, store=store, privacy=level)
                for step in recorded:
                    trace.record(step)
                timeline = await RunTimeline.load(store, level)
                outcomes.append([entry.outcome for entry in timeline.entries])

    outcomes: list[list[str | None]] = []
    trio.run(main, clock=MockClock(autojump_threshold=0))

    flags = {None: None, True: "failed", False: "ok"}
    expected = [step.tool_outcome or flags[step.tool_is_error] for step in recorded]
    assert outcomes == [expected] * len(PrivacyLevel)


def test_nested_calls_and_writes_stand_under_their_calls() -> None:
    timeline = timeline_of(
        event(ended("ok"), sequence=0, call_id="in", parent_call_id="out"),
        event(ended("ok"), sequence=1, call_id="out"),
        event("{}", sequence=2, kind="tool_write", call_id="out"),
        event(ended("ok"), sequence=3, call_id="in", parent_call_id="out"),
        event(ended("ok"), sequence=4, call_id="out"),
        event("{}", sequence=5, kind="llm"),
        event(ended("ok"), sequence=6, call_id="orphan", parent_call_id="gone"),
    )

    assert page_data(timeline)["rows"]["parent"] == [1, -1, 1, 4, -1, -1, -1]


def test_the_picture_is_cut_where_the_first_call_was_cancelled_by_each_cause() -> None:
    def cancelled(sequence: int, ended_ms: float, settlement: str, name: str = "nightly") -> EventRow:
        payload = tool_payload(
            toolIsError=True,
            toolOutcome="cancelled",
            toolSettlement=settlement,
            toolCause={"kind": "caller", "name": name},
        )
        return event(payload, sequence=sequence, ended_ms=ended_ms)

    timeline = timeline_of(
        cancelled(0, 100, "returned"),
        cancelled(1, 900, "cancelled"),
        cancelled(2, 870, "not_dispatched"),
        cancelled(3, 5000, "cancelled"),
        cancelled(4, 880, "cancelled", "other"),
    )

    assert page_data(timeline)["cuts"] == [
        {"at": 870, "cause": "caller:nightly"},
        {"at": 5000, "cause": "caller:nightly"},
        {"at": 880, "cause": "caller:other"},
    ]


def test_a_request_to_cancel_is_a_cut_of_its_own() -> None:
    run = RunRow(run_id="r", started_at=100.0, cancel_requested_at=101.5)

    assert page_data(RunTimeline.of(RunRows(run, (), ())))["cuts"] == [{"at": 1500, "cause": ""}]


async def test_a_terminal_shows_the_same_table_in_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    from io import StringIO

    from rich.console import Console

    from trio_tools.trace._text import print_timeline

    fence = FenceRow(second=1, tool="[bold]pay", round=1, span=Span(effect="non_idempotent_write"))
    timeline = timeline_of(event(ended("cancelled")), event("{}", kind="llm"), fences=(fence,))
    monkeypatch.setenv("TERM", "xterm-256color")
    shown: dict[bool, str] = {}
    for plain in (False, True):
        if plain:
            monkeypatch.setenv("NO_COLOR", "1")
        out = StringIO()
        print_timeline(timeline, "de", Console(file=out, force_terminal=True, width=160))
        shown[plain] = out.getvalue()

    assert "\x1b[33m" in shown[False]
    assert "\x1b[3" not in shown[True]
    for text in shown.values():
        assert "abgebrochen" in text
        assert "[bold]pay" in text
        assert "schreibt, nicht wiederholbar" in text


def test_columns_are_as_wide_as_what_they_hold() -> None:
    from trio_tools.trace._text import columns_of

    lines = list(columns_of([("a", "left"), ("b", "right")], [["日本", "1"], ["e\u0301", "22"]]))

    assert lines == ["a      b", "────  ──", "日本   1", "e\u0301     22"]
