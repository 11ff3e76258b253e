"""What of a given schema is refused when a tool is defined."""

import socket
from typing import Any

import pytest

from trio_tools._dialect import DRAFT_7, DRAFT_2019, DRAFT_2020
from trio_tools._errors import DefinitionError
from trio_tools._json import FrozenDict, freeze_arguments
from trio_tools._schema import Violations, plan_schema_arguments, plan_schema_output

NOTES = {
    "$id": "http://example.com/schema",
    "$comment": "c",
    "title": "t",
    "description": "d",
    "default": {"anything": ["goes", {"type": 5}]},
    "examples": [{"$ref": "http://example.com/never-followed"}],
    "readOnly": True,
    "writeOnly": False,
}


EMPTY: dict[str, Any] = {}


def refusal(schema: object) -> str:
    with pytest.raises(DefinitionError) as caught:
        plan_schema_arguments(schema)
    with pytest.raises(DefinitionError):
        plan_schema_arguments(schema, validate=False)
    with pytest.raises(DefinitionError):
        plan_schema_output(schema)
    return str(caught.value)


def nested(levels: int) -> Any:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"items": schema}
    return schema


@pytest.mark.rule("JS-1", "JS-8")
@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (5, "must be an object or a boolean"),
        ("string", "must be an object or a boolean"),
        ([], "must be an object or a boolean"),
        (None, "must be an object or a boolean"),
        ({"type": {1}}, "parameters is no JSON Schema: not a JSON value"),
        ({"type": "strin"}, "no JSON Schema"),
        ({"minimum": "1"}, "no JSON Schema"),
        ({"required": "a"}, "no JSON Schema"),
        ({"pattern": "("}, "no JSON Schema"),
        ({"properties": []}, "no JSON Schema"),
        ({"allOf": [5]}, "no JSON Schema"),
        ({"items": [EMPTY]}, "no JSON Schema"),
        ({"minimum": 10**5000}, "no JSON Schema"),
        ({"format": "colour"}, "Unknown format"),
        (nested(300), "nested deeper than"),
    ],
)
def test_a_schema_that_is_none(schema: object, words: str) -> None:
    assert words in refusal(schema)


@pytest.mark.rule("JS-1")
@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"minimun": 1}, 'the keyword "minimun" cannot be enforced; remove it (at #)'),
        (
            {"properties": {"a/b": {"nullable": True}}},
            '"nullable" cannot be enforced; remove it (at #/properties/a~1b)',
        ),
        ({"allOf": [{}, {"x-order": 1}]}, "(at #/allOf/1)"),
        ({"$defs": {"unused": {"discriminator": {}}}}, "discriminator"),
        ({"additionalItems": False}, "additionalItems"),
        ({"$vocabulary": {}}, "$vocabulary"),
        ({"$schema": DRAFT_7.uri, "prefixItems": [EMPTY]}, "prefixItems"),
        ({"$schema": DRAFT_7.uri, "unevaluatedProperties": False}, "unevaluatedProperties"),
        ({"$schema": DRAFT_7.uri, "dependencies": {"a": {"foo": 1}}}, "foo"),
        ({"$schema": DRAFT_7.uri, "contentMediaType": "text/html"}, 'contentMediaType "text/html"'),
        ({"$schema": DRAFT_7.uri, "contentEncoding": "base32"}, 'contentEncoding "base32"'),
        ({"$schema": DRAFT_7.uri, "format": "uuid"}, "Unknown format"),
        ({"$schema": DRAFT_2019.uri, "$dynamicRef": "#"}, "$dynamicRef"),
        (
            {
                "$schema": DRAFT_7.uri,
                "definitions": {"a": {}},
                "items": {"$ref": "#/definitions/a", "type": "null"},
            },
            'draft-07 ignores "type" beside "$ref"; put both into "allOf" (at #/items)',
        ),
    ],
)
def test_a_keyword_that_nobody_would_enforce_is_refused(schema: object, words: str) -> None:
    assert words in refusal(schema)


@pytest.mark.rule("JS-8")
@pytest.mark.parametrize(
    "name",
    [
        "http://json-schema.org/draft-04/schema#",
        "http://json-schema.org/draft-06/schema#",
        "http://example.com",
        7,
    ],
)
def test_a_draft_that_is_not_known_is_refused(name: object) -> None:
    assert "is none of the drafts" in refusal({"$schema": name})


@pytest.mark.rule("JS-8")
@pytest.mark.parametrize(
    "name", ["http://json-schema.org/draft-07/schema", DRAFT_7.uri, DRAFT_2019.uri, DRAFT_2020.uri]
)
def test_the_draft_is_the_one_that_the_schema_names(name: str) -> None:
    # An array of schemas for `items` ended with draft 2019-09, contains with a count began with it.
    by_position = {"$schema": name, "items": [{"type": "null"}]}
    if name == DRAFT_2020.uri:
        assert "no JSON Schema" in refusal(by_position)
    else:
        with pytest.raises(Violations):
            plan_schema_arguments(by_position).bind(freeze_arguments([1], depth=9))


@pytest.mark.rule("JS-1")
@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("http://example.com/schema.json", "leads out of the schema, and nothing is ever fetched"),
        ("https://json-schema.org/draft/2020-12/schema", "leads out of the schema"),
        ("other.json#/a", "leads out of the schema"),
        ("file:///etc/passwd", "leads out of the schema"),
        ("http://[", "leads"),
        ("#/$defs/missing", "leads to no schema"),
        ("#/prefixItems/7", "leads to no schema"),
        ("#/prefixItems/x", "leads to no schema"),
        ("#/$defs/a/type/0", "leads to no schema"),
        ("#nowhere", "leads to no schema"),
        ("#/$defs", "leads to no schema"),
        ("#/examples/0", "leads to no schema"),
        ("#/default", "leads to no schema"),
    ],
)
def test_a_reference_that_leaves_the_schema_is_refused_unread(
    reference: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("something was fetched")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    schema = {
        "properties": {"a": {"$ref": reference}},
        "prefixItems": [EMPTY],
        "$defs": {"a": {"type": ["null"]}},
        "examples": [{"title": "t"}],
        "default": {},
    }

    text = refusal(schema)

    assert words in text
    assert text.endswith("(at #/properties/a/$ref)")


@pytest.mark.rule("JS-1", "JS-8")
@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"$id": "//[", "$ref": "x"}, "is no URI reference"),
        ({"$id": "http://a/b", "$ref": "//["}, "is no URI reference"),
        ({"$id": "//[#x"}, "is no URI reference"),
        ({"$ref": "//[#x"}, "is no URI reference"),
        ({"$id": "http://a/b", "$defs": {"x": {"$id": "//["}}}, "is no URI reference"),
        ({"$ref": "#/allOf/" + "9" * 5000, "allOf": [True]}, "leads to no schema"),
        ({"$ref": "#/allOf/01", "allOf": [True, True]}, "leads to no schema"),
        ({"x" * 100_000: 1}, "cannot be enforced"),
        ({"properties": {"k" * 100_000: {"unknown": 1}}}, "cannot be enforced"),
        ({"$ref": "x" * 100_000}, "leads out of the schema"),
        ({"$schema": "x" * 100_000}, "is none of the drafts"),
        ({"type": "x" * 100_000}, "is no JSON Schema"),
        ({"format": "x" * 100_000}, "Unknown format"),
    ],
    ids=range(13),
)
def test_what_is_said_of_a_hostile_schema_is_clear_and_short(schema: Any, words: str) -> None:
    with pytest.raises(DefinitionError, match=words) as caught:
        plan_schema_arguments(schema)

    assert len(str(caught.value)) < 1500


def test_an_embedded_schema_of_another_draft_is_refused() -> None:
    inner = {"$id": "inner", "$schema": DRAFT_7.uri, "type": "null"}

    assert "another draft" in refusal({"$defs": {"a": inner}})
    assert plan_schema_arguments({"$schema": DRAFT_7.uri, "definitions": {"a": {**inner, "$id": "x"}}})


@pytest.mark.rule("JS-1")
@pytest.mark.parametrize("draft", [DRAFT_7, DRAFT_2019, DRAFT_2020])
def test_notes_are_shown_and_assert_nothing(draft: Any) -> None:
    schema = {"$schema": draft.uri, **NOTES}

    plan = plan_schema_arguments(schema)

    assert plan.schema == schema
    assert plan.bind(freeze_arguments([1, "x"], depth=9)) == [1, "x"]


@pytest.mark.rule("JS-8")
def test_boolean_schemas_are_shown_as_objects() -> None:
    assert plan_schema_arguments(True).schema == {}
    assert plan_schema_arguments(False).schema == {"not": {}}
    with pytest.raises(Violations):
        plan_schema_output(False).accept(1, depth=9)


@pytest.mark.rule("JS-1", "MA-15")
def test_the_schema_that_is_shown_is_a_frozen_copy() -> None:
    original = {"type": "object", "properties": {"a": {"type": "integer"}}}

    plan = plan_schema_arguments(original)
    original["type"] = "string"

    assert plan.schema == {"type": "object", "properties": {"a": {"type": "integer"}}}
    assert isinstance(plan.schema, FrozenDict)
    assert plan.bind(freeze_arguments({"a": 1}, depth=9)) == {"a": 1}


def test_a_part_that_occurs_twice_is_read_once() -> None:
    part: dict[str, Any] = {"type": "null"}
    for _ in range(80):
        part = {"not": part}
    shared = {"type": "null"}

    plan = plan_schema_arguments({"prefixItems": [shared, shared, part]})

    with pytest.raises(Violations) as caught:
        plan.bind(freeze_arguments([1, 2, 3], depth=9))
    assert caught.value.items[:2] == ('"[0]" must be null', '"[1]" must be null')
