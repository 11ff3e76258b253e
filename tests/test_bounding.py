"""The one seam that every published result passes: how much of it may leave."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import trio
from attrs import evolve, fields
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from tests.helpers import GateRest, Proceed, ReviewRest, call, observed
from trio_tools import (
    Artifact,
    ArtifactType,
    Block,
    Bounds,
    CancelCause,
    CauseKind,
    Content,
    Deny,
    DispatchExecution,
    GateDecision,
    ImageContent,
    ReviewDecision,
    Settlement,
    TextContent,
    ToolContext,
    ToolError,
    ToolExecution,
    ToolResult,
    WriteKind,
    WriteTarget,
    open_call_scope,
    to_json_text,
)

SMALL = Bounds(content_bytes=60, artifact_bytes=200, artifact_depth=4)


def size_of(content: tuple[Content, ...]) -> int:
    """The UTF-8 bytes of all parts together; raises if one cannot be encoded."""
    texts = [part.text if isinstance(part, TextContent) else part.data + part.mime_type for part in content]
    return len("".join(texts).encode())


def bounded(content: Any, cap: int) -> tuple[Content, ...]:
    return ToolResult.ok(content=content).with_bounded_channels(Bounds(content_bytes=cap)).content


def text_bounded(text: str, cap: int) -> str:
    (part,) = bounded(text, cap)
    assert isinstance(part, TextContent)
    return part.text


def artifact_bounded(*data: Any, **bounds: int) -> tuple[Artifact, ...]:
    artifacts = [Artifact(ArtifactType.TEXT, "label", each) for each in data]
    return ToolResult.ok(artifacts=artifacts).with_bounded_channels(Bounds(**bounds)).artifacts


PATHS = ["ok", "fails", "denied", "blocked", "policy error", "finalized", "wrapper made", "aborted"]


@pytest.mark.rule("BD-1")
@pytest.mark.parametrize("path", PATHS)
async def test_every_published_result_is_bounded(autojump_clock: MockClock, path: str) -> None:
    registry, seen = observed(bounds=SMALL)
    long = "x" * 1000

    def finalize(_execution: ToolExecution, _result: ToolResult) -> str | None:
        return long if path == "finalized" else None

    async with open_call_scope() as scope:

        @registry.tool(finalize=finalize)
        async def work(*, ctx: ToolContext) -> str:
            ctx.attach(Artifact(ArtifactType.TEXT, "label", {"text": long}))
            if path == "fails":
                raise ToolError(long, code="MINE")
            if path == "aborted":
                scope.cancel()
                await trio.lowlevel.checkpoint()
            return long

        async def gate(_execution: ToolExecution, proceed: GateRest) -> GateDecision:
            if path == "policy error":
                raise ValueError(long)
            return Deny(long) if path == "denied" else await proceed()

        async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
            result = await proceed(execution)
            return ToolResult.ok(long) if path == "wrapper made" else result

        async def review(
            _execution: ToolExecution, _result: ToolResult, proceed: ReviewRest
        ) -> ReviewDecision:
            return Block(long) if path == "blocked" else await proceed()

        registry.gate(gate)
        registry.wrap(wrapper)
        registry.review(review)
        await registry.execute(call(scope, "work"))

    result = seen.only
    assert size_of(result.content) <= 60
    if path == "aborted":
        assert result.text == "Error: tool call aborted"
    else:
        assert "60" in result.text[-12:]
    if path in ("ok", "finalized"):
        (artifact,) = result.artifacts
        assert "omitted" in artifact.label
    else:
        assert result.artifacts == ()


@pytest.mark.rule("BD-1", "BD-2", "BD-5")
async def test_each_channel_has_its_own_budget(autojump_clock: MockClock) -> None:
    registry, seen = observed(bounds=SMALL)

    @registry.tool
    async def long_text(*, ctx: ToolContext) -> str:
        ctx.attach(Artifact(ArtifactType.TEXT, "label", {"text": "short"}))
        return "x" * 1000

    @registry.tool
    async def long_artifact(*, ctx: ToolContext) -> str:
        ctx.attach(Artifact(ArtifactType.TEXT, "label", {"text": "x" * 1000}))
        return "short"

    async with open_call_scope() as scope:
        await registry.execute(call(scope, "long_text"))
        await registry.execute(call(scope, "long_artifact"))

    first, second = seen.results
    assert len(first.text) == 60
    assert [artifact.label for artifact in first.artifacts] == ["label"]
    assert second.text == "short"
    assert [artifact.label for artifact in second.artifacts] == ["artifacts omitted: too big"]


@pytest.mark.rule("BD-2")
@pytest.mark.parametrize("character", ["x", "é", "表", "😀"])
def test_content_up_to_and_including_the_cap_is_unchanged(character: str) -> None:
    width = len(character.encode())
    text = character * (120 // width)
    result = ToolResult.ok(content=text)

    assert len(text.encode()) == 120
    assert result.with_bounded_channels(Bounds(content_bytes=120)) is result
    assert text_bounded(text, 119) != text


@pytest.mark.rule("BD-2")
def test_the_default_cap_is_fifty_thousand_bytes() -> None:
    result = ToolResult.ok(content="x" * 50_000)

    assert result.with_bounded_channels(Bounds()) is result
    assert len(text_bounded("x" * 50_001, 50_000)) == 50_000
    assert Bounds() == Bounds(content_bytes=50_000, artifact_bytes=50_000, artifact_depth=64, json_depth=512)


@pytest.mark.rule("BD-2")
def test_the_cap_is_over_all_parts_together() -> None:
    parts = [TextContent("é" * 20), TextContent("x" * 20)]

    assert bounded(parts, 60) == tuple(parts)
    cut = bounded(parts, 59)
    assert size_of(cut) <= 59
    assert cut != tuple(parts)


@pytest.mark.rule("BD-3")
@pytest.mark.parametrize("cap", [30, 99, 100, 12345])
def test_a_cut_keeps_the_head_and_ends_with_the_cap_in_plain_digits(cap: int) -> None:
    text = "".join(chr(ord("a") + index % 26) for index in range(20_000))
    cut = text_bounded(text, cap)
    head, _, marker = cut.rpartition("\n")

    assert text.startswith(head)
    assert str(cap) in marker
    assert len(cut.encode()) == cap


@pytest.mark.rule("BD-3", "BD-8")
@given(
    st.lists(st.text(max_size=60), max_size=4),
    st.integers(min_value=30, max_value=120),
)
def test_laws_of_the_cut(texts: list[str], cap: int) -> None:
    whole = tuple(map(TextContent, texts))
    cut = bounded(whole, cap)
    size = size_of(cut)

    assert size <= cap
    if size_of(whole) <= cap:
        assert cut == whole
        return
    assert size >= cap - 3
    assert all(isinstance(part, TextContent) for part in cut)
    last = cut[-1]
    assert isinstance(last, TextContent)
    head, _, marker = last.text.rpartition("\n")
    assert str(cap) in marker
    assert list(cut[:-1]) == list(whole[: len(cut) - 1])
    assert texts[len(cut) - 1].startswith(head)
    assert bounded(cut, cap) == cut


@pytest.mark.rule("BD-3")
@given(st.text(alphabet="x\u00e9\u8868\U0001f600\u0301", min_size=30, max_size=60))
def test_a_cut_falls_on_a_character_boundary(text: str) -> None:
    cap = len(text.encode()) - 1
    if cap < 30:
        return
    cut = text_bounded(text, cap)
    head = cut.rpartition("\n")[0]

    assert text.startswith(head)
    assert "\ufffd" not in cut
    assert cap - 3 <= len(cut.encode()) <= cap


@pytest.mark.rule("BD-3")
def test_a_part_that_is_no_text_is_dropped_whole() -> None:
    image = ImageContent("a" * 100, "image/png")
    only = bounded(image, 60)
    between = bounded([TextContent("head"), image], 60)
    small = ImageContent("aGk=", "image/png")
    kept = bounded([small, TextContent("x" * 100)], 60)

    assert [part.type for part in only] == ["text"]
    assert "60" in ToolResult.ok(content=only).text
    assert ToolResult.ok(content=between).text.startswith("head\n")
    assert all(part.type == "text" for part in between)
    assert kept[0] == small
    assert size_of(kept) <= 60


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.rule("BD-3")
@pytest.mark.parametrize("name", ["content_bytes", "artifact_bytes", "artifact_depth", "json_depth"])
@pytest.mark.parametrize(
    "bad",
    [0, -1, True, 1.5, "50", None, 10**5000, -(10**5000), sys.maxsize + 1, [], Unprintable()],
    ids=range(11),
)
def test_bounds_are_integers_above_zero(name: str, bad: Any) -> None:
    with pytest.raises(ValueError, match=name):
        Bounds(**{name: bad})


@pytest.mark.rule("BD-3")
def test_a_cap_too_small_for_its_own_marker_is_refused_when_bounds_are_made() -> None:
    refused: list[int] = []
    for cap in range(1, 60):
        try:
            Bounds(content_bytes=cap)
        except ValueError:
            refused.append(cap)
    smallest = refused[-1] + 1

    assert refused == list(range(1, smallest))
    assert len(text_bounded("x" * 100, smallest).encode()) <= smallest
    with pytest.raises(ValueError, match="marker"):
        evolve(Bounds(), content_bytes=smallest - 1)


BROKEN = [
    (b"caf\xc3\xa9 \xff!", "café \ufffd!"),
    ("\ud83d\ude00", "😀"),
    ("a\ud800b", "a\ufffdb"),
    ("\ude00\ud83d", "\ufffd\ufffd"),
    ("\ud83d\ud83d\ude00", "\ufffd😀"),
]


@pytest.mark.rule("BD-4")
@pytest.mark.parametrize(("given", "repaired"), BROKEN)
@pytest.mark.parametrize("where", ["text", "part", "image"])
def test_broken_text_is_repaired(given: Any, repaired: str, where: str) -> None:
    if where == "image":
        if isinstance(given, bytes):
            return
        (part,) = bounded(ImageContent(given, "image/png"), 60)
        assert part == ImageContent(repaired, "image/png")
    else:
        content = TextContent(given) if where == "part" else given
        assert bounded(content, 60) == (TextContent(repaired),)


@pytest.mark.rule("BD-4", "BD-8")
def test_a_part_that_still_holds_bytes_is_decoded_by_the_seam() -> None:
    result = ToolResult.ok(content="x")
    raw: Any = TextContent(b"caf\xc3\xa9 \xff")  # type: ignore[arg-type]
    object.__setattr__(result, "content", (raw,))

    assert result.with_bounded_channels(Bounds()).text == "café \ufffd"


@pytest.mark.rule("BD-4", "BD-2")
def test_text_is_measured_after_the_repair() -> None:
    pair = "\ud83d\ude00" * 15  # sixty bytes as characters, ninety as surrogates

    assert bounded(pair, 60) == (TextContent("😀" * 15),)
    assert size_of(bounded("\ud800" * 21, 60)) <= 60


@pytest.mark.rule("BD-4", "BD-8")
@given(st.text(alphabet=st.characters(codec=None, categories=None), max_size=80))
def test_whatever_the_text_what_is_published_can_be_encoded(text: str) -> None:
    published = text_bounded(text, 40)

    assert len(published.encode()) <= 40
    assert text_bounded(published, 40) == published


@pytest.mark.rule("BD-5")
def test_artifacts_are_measured_as_they_are_serialized() -> None:
    artifacts = [Artifact(ArtifactType.TABLE, "täble", {"rows": [["é", 1]]}) for _ in range(3)]
    rows = [{"type": str(each.type), "label": each.label, "data": each.data} for each in artifacts]
    size = len(to_json_text(rows).encode())
    result = ToolResult.ok(artifacts=artifacts)

    assert result.with_bounded_channels(Bounds(artifact_bytes=size)).artifacts == tuple(artifacts)
    (omitted,) = result.with_bounded_channels(Bounds(artifact_bytes=size - 1)).artifacts
    assert (omitted.type, omitted.label) == (ArtifactType.TEXT, "artifacts omitted: too big")


def nested(depth: int) -> Any:
    data: Any = 1
    for _ in range(depth - 1):
        data = [data]
    return {"d": data}


@pytest.mark.rule("BD-5")
@pytest.mark.parametrize(("depth", "kept"), [(1, True), (63, True), (64, True), (65, False), (5000, False)])
def test_artifacts_nest_sixty_four_levels_by_default(depth: int, kept: bool) -> None:
    (artifact,) = artifact_bounded(nested(depth))

    assert (artifact.label == "label") is kept
    assert kept or "omitted" in artifact.label


class Hostile:
    def __deepcopy__(self, _memo: object) -> Any:
        raise RuntimeError("no copy of me")

    def __repr__(self) -> str:
        raise RuntimeError("no print of me")


UNENCODABLE: list[Any] = [{"a": {1}}, {"a": float("nan")}, {1: 2}, object(), Hostile(), {"a": (1,)}, b"x"]


@pytest.mark.rule("BD-6", "BD-8")
@pytest.mark.parametrize("bad", UNENCODABLE, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_artifact_that_cannot_be_encoded_omits_the_whole_list(bad: Any, place: int) -> None:
    data: list[Any] = [{"text": "fine"}, {"text": "fine"}]
    data.insert(place, bad)
    (omitted,) = artifact_bounded(*data)

    assert omitted.type is ArtifactType.TEXT
    assert omitted.label == "artifacts omitted: cannot be encoded"


@pytest.mark.rule("BD-6")
def test_a_list_over_budget_is_omitted_whole_never_cut() -> None:
    fine = {"text": "x" * 60}
    kept = artifact_bounded(fine, artifact_bytes=120)
    omitted = artifact_bounded(fine, fine, artifact_bytes=120)

    assert len(kept) == 1
    assert kept[0].data == fine
    assert [artifact.label for artifact in omitted] == ["artifacts omitted: too big"]
    assert "xx" not in to_json_text(omitted[0].data)


@pytest.mark.rule("BD-6")
def test_no_artifacts_give_none() -> None:
    assert artifact_bounded(artifact_bytes=1) == ()


@pytest.mark.rule("BD-7")
@pytest.mark.parametrize("outcome", ["ok", "failed", "cancelled"])
def test_every_other_member_is_carried(outcome: str) -> None:
    cause = CancelCause(CauseKind.CALLER, "caller", "reason", 3.0)
    long = "x" * 1000
    result = {
        "ok": lambda: ToolResult.ok(
            {"value": long},
            content=long,
            meta={"meta": long},
            contexts=[long, {"k": long}],
            concludes=True,
            artifacts=[Artifact(ArtifactType.TEXT, "label", {"text": long})],
            write=WriteTarget("t", 1, WriteKind.DELETED),
            settlement=Settlement.RETURNED,
        ),
        "failed": lambda: ToolResult.failed(
            long, code="MINE", name=long, contexts=[long], settlement=Settlement.RAISED, cause=cause
        ),
        "cancelled": lambda: ToolResult.cancelled(
            long, contexts=[long], settlement=Settlement.CANCELLED, cause=cause
        ),
    }[outcome]()
    after = result.with_bounded_channels(SMALL)

    assert after != result
    for member in (field.name for field in fields(ToolResult)):
        if member not in ("content", "artifacts"):
            assert getattr(after, member) == getattr(result, member)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
anything = json_values | st.sets(st.integers(), max_size=2) | st.binary(max_size=3) | st.just(Hostile())


@pytest.mark.rule("BD-8", "BD-5", "BD-6")
@given(
    st.lists(anything, max_size=4),
    st.integers(min_value=1, max_value=200),
    st.integers(min_value=1, max_value=5),
)
def test_bounding_artifacts_is_idempotent_total_and_all_or_nothing(
    data: list[Any], budget: int, depth: int
) -> None:
    bounds = Bounds(artifact_bytes=budget, artifact_depth=depth)
    result = ToolResult.ok(artifacts=[Artifact(ArtifactType.TEXT, "label", each) for each in data])
    once = result.with_bounded_channels(bounds)

    assert once.with_bounded_channels(bounds) == once
    assert len(once.artifacts) in (len(data), 1)
    if once.artifacts != result.artifacts:
        assert [artifact.label.split(":")[0] for artifact in once.artifacts] == ["artifacts omitted"]


@pytest.mark.rule("BD-8")
@pytest.mark.parametrize("make", [ToolResult.failed, ToolResult.cancelled])
def test_a_result_that_is_not_ok_is_given_no_artifacts(make: Any) -> None:
    assert make("x" * 1000).with_bounded_channels(SMALL).artifacts == ()
