"""What a result carries besides its facts: content parts, artifacts, the record of a write."""

from __future__ import annotations

import copy
import itertools
from enum import StrEnum
from typing import Any, cast

import pytest
from attrs import evolve
from attrs.exceptions import FrozenInstanceError
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from tests.helpers import call, observed
from trio_tools import (
    Artifact,
    ArtifactType,
    FrozenDict,
    ImageContent,
    TextContent,
    ToolContext,
    WriteKind,
    WriteTarget,
    open_call_scope,
)
from trio_tools._content import content_of, context_of


class Word(str):
    __slots__ = ()


class Number(int):
    pass


class Name(StrEnum):
    TABLE = "table"


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.rule("OU-7")
@pytest.mark.parametrize("word", ["table", "text", ArtifactType.TABLE, ArtifactType.TEXT])
def test_an_artifact_is_a_table_or_a_text(word: Any) -> None:
    artifact = Artifact(word, "label", {"text": "x"})

    assert artifact.type is ArtifactType(word)
    assert artifact.label == "label"


@pytest.mark.rule("OU-7", "BO-15")
@pytest.mark.parametrize("word", ["", "chart", "TABLE", None, 7, [], 10**5000, Unprintable()], ids=range(8))
def test_an_artifact_of_another_type_is_refused(word: Any) -> None:
    with pytest.raises(ValueError, match="the type of an artifact is one of table, text, not "):
        Artifact(word, "label", {})


@pytest.mark.rule("OU-7", "BO-15")
@pytest.mark.parametrize("label", [None, 7, b"label", ["label"], 10**5000, Unprintable()], ids=range(6))
def test_a_label_that_is_no_text_is_refused(label: Any) -> None:
    with pytest.raises(TypeError, match="label"):
        Artifact(ArtifactType.TEXT, label, {})


@pytest.mark.rule("OU-7", "MA-15")
def test_a_label_of_a_class_of_its_own_is_kept_as_plain_text() -> None:
    assert type(Artifact(ArtifactType.TEXT, Word("label"), {}).label) is str


@pytest.mark.rule("OU-7", "MA-15")
def test_the_data_of_an_artifact_is_copied_and_frozen() -> None:
    data: dict[str, Any] = {"columns": ["a"], "rows": [[1]]}
    artifact = Artifact(ArtifactType.TABLE, "label", data)
    data["rows"][0].append(2)
    data["rows"].append([3])
    data["columns"] = None
    kept: Any = artifact.data

    assert kept == {"columns": ["a"], "rows": [[1]]}
    assert type(kept) is FrozenDict
    rows: Any = artifact.data
    with pytest.raises(TypeError):
        rows["rows"][0].append(2)
    with pytest.raises(FrozenInstanceError):
        artifact.data = None  # type: ignore[misc]


@pytest.mark.rule("OU-7")
def test_data_that_is_no_json_is_detached_as_far_as_it_can_be() -> None:
    data = {"set": {1}, "list": [1]}
    artifact = Artifact(ArtifactType.TEXT, "label", data)
    data["list"] = []
    data["set"].clear()  # type: ignore[attr-defined]

    assert artifact.data == {"set": {1}, "list": [1]}


class Uncopyable:
    def __deepcopy__(self, _memo: object) -> Any:
        raise RuntimeError("no copy of me")


@pytest.mark.rule("OU-7", "BD-8")
def test_data_that_cannot_be_copied_does_not_raise() -> None:
    data = Uncopyable()

    assert Artifact(ArtifactType.TEXT, "label", data).data is data
    with pytest.raises(RuntimeError):
        copy.deepcopy(data)


@pytest.mark.rule("OU-7", "BO-15")
async def test_artifacts_keep_the_order_in_which_they_were_attached(autojump_clock: MockClock) -> None:
    registry, seen = observed()

    @registry.tool
    async def attaches(*, ctx: ToolContext) -> str:
        for label in ("b", "a", "c", "a"):
            ctx.attach(Artifact(ArtifactType.TEXT, label, {"text": label}))
        return "done"

    async with open_call_scope() as scope:
        await registry.execute(call(scope, "attaches"))

    assert [artifact.label for artifact in seen.only.artifacts] == ["b", "a", "c", "a"]


@pytest.mark.rule("OU-8")
@pytest.mark.parametrize("table", ["a", "Z", "_", "0", "a" * 64, "Table_01"])
@pytest.mark.parametrize("uid", [1, 2, 2**63 - 1])
@pytest.mark.parametrize("kind", list(WriteKind))
def test_a_write_target_within_its_limits(table: str, uid: int, kind: WriteKind) -> None:
    target = WriteTarget(table, uid, kind)

    assert (target.table, target.uid, target.kind) == (table, uid, kind)


BAD_TABLES: list[Any] = [
    "",
    "a" * 65,
    "a b",
    "a-b",
    "a.b",
    "table\n",
    "\ntable",
    "täble",
    "表",
    "table\u0660",
    "a\x00",
    None,
    7,
    b"table",
    Unprintable(),
    Word("table"),
    Name.TABLE,
]
BAD_UIDS: list[Any] = [0, -1, 2**63, True, False, 1.0, "1", None, Number(1), -(10**5000), Unprintable()]
BAD_KINDS: list[Any] = ["", "CREATED", "inserted", None, 1, True, 10**5000, {}, Unprintable()]


@pytest.mark.rule("OU-8")
@pytest.mark.parametrize(
    ("table", "uid", "kind"),
    [
        *((table, 1, "created") for table in BAD_TABLES),
        *(("table", uid, "created") for uid in BAD_UIDS),
        *(("table", 1, kind) for kind in BAD_KINDS),
    ],
    ids=itertools.count(),
)
def test_a_write_target_outside_its_limits_is_a_value_error(table: Any, uid: Any, kind: Any) -> None:
    sound = WriteTarget("table", 1, WriteKind.CREATED)
    with pytest.raises(ValueError, match=r"^(a table name|a uid|the kind of a write) is .*, not "):
        WriteTarget(table, uid, kind)
    with pytest.raises(ValueError, match=r"^(a table name|a uid|the kind of a write) is .*, not "):
        evolve(sound, table=table, uid=uid, kind=kind)

    assert sound == WriteTarget("table", 1, WriteKind.CREATED)


@pytest.mark.rule("OU-8")
def test_the_kind_of_a_write_has_no_default() -> None:
    make: Any = WriteTarget
    with pytest.raises(TypeError):
        make("table", 1)

    assert [kind.value for kind in WriteKind] == ["created", "updated", "deleted"]


@pytest.mark.rule("OU-8")
@given(st.text(max_size=70))
def test_a_table_name_is_ascii_letters_digits_and_underscores_and_nothing_else(table: str) -> None:
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
    sound = 1 <= len(table) <= 64 and set(table) <= set(letters)
    try:
        WriteTarget(table, 1, WriteKind.CREATED)
    except ValueError:
        accepted = False
    else:
        accepted = True

    assert accepted == sound


@pytest.mark.rule("OU-4")
@pytest.mark.parametrize(
    ("answer", "parts"),
    [
        ("text", (TextContent("text"),)),
        (Word("text"), (TextContent("text"),)),
        (b"bytes \xff", (TextContent("bytes \ufffd"),)),
        (TextContent("part"), (TextContent("part"),)),
        (TextContent(b"raw \xff"), (TextContent("raw \ufffd"),)),  # type: ignore[arg-type]
        (ImageContent("aGk=", "image/png"), (ImageContent("aGk=", "image/png"),)),
        (["a", TextContent("b")], (TextContent("a"), TextContent("b"))),
        (("a", ImageContent("aGk=", "image/png")), (TextContent("a"), ImageContent("aGk=", "image/png"))),
        ([], ()),
    ],
)
def test_content_may_be_given_as_text_parts_or_a_list_of_them(answer: Any, parts: Any) -> None:
    read = content_of(answer)

    assert read == parts
    assert all(type(part.text) is str for part in read if isinstance(part, TextContent))


@pytest.mark.rule("OU-4")
@pytest.mark.parametrize(
    "answer",
    [None, 7, {"text": "x"}, {"a"}, [7], [["a"]], TextContent(7), ImageContent(b"x", "image/png")],  # type: ignore[arg-type]
    ids=lambda each: type(each).__name__,
)
def test_anything_else_is_no_content(answer: Any) -> None:
    with pytest.raises(TypeError, match="content"):
        content_of(answer)


@pytest.mark.rule("OU-4")
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (7, "not int"),
        (TextContent(cast("Any", 7)), "not TextContent of int"),
        (ImageContent(cast("Any", b"x"), "image/png"), "not ImageContent of bytes and str"),
    ],
)
def test_what_is_no_content_is_named_and_not_shown(answer: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        content_of(answer)

    for part in (TextContent(cast("Any", 7)), ImageContent(cast("Any", 7), "image/png")):
        assert "7" not in repr(part)


def test_the_parts_name_their_kind() -> None:
    assert TextContent("x").type == "text"
    assert ImageContent("x", "image/png").type == "image"


@pytest.mark.rule("BO-16")
@pytest.mark.parametrize("message", ["text", "", {}, {"role": "system", "parts": [1, None]}])
def test_a_context_is_text_or_a_json_object(message: Any) -> None:
    assert context_of(message) == message


@pytest.mark.rule("BO-16", "MA-16")
@pytest.mark.parametrize(
    "message", [None, 7, ["x"], b"x", {1: 2}, {"a": {1}}, {"a": float("nan")}, {"a": (1,)}]
)
def test_any_other_context_is_a_type_error(message: Any) -> None:
    with pytest.raises(TypeError, match="context"):
        context_of(message)
