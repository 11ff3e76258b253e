"""Forms: which schemas have one, and what it says."""

from typing import Any

import pytest

from trio_tools._form import AnyForm, ArrayForm, Form, ObjectForm, ScalarForm, UnionForm, form_of
from trio_tools._json import FrozenDict

STRING, INTEGER, NULL = ScalarForm(("string",)), ScalarForm(("integer",)), ScalarForm(("null",))


def form(schema: dict[str, Any]) -> Form | None:
    return form_of(FrozenDict(schema))


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({}, AnyForm()),
        ({"type": "string", "title": "T", "description": "D", "default": "x", "examples": []}, STRING),
        ({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "null"}, NULL),
        ({"enum": ["a", 1, "b", None]}, ScalarForm(options=("a", "b"))),
        ({"type": "string", "const": "a"}, ScalarForm(options=("a",))),
        ({"type": "array"}, AnyForm("array")),
        ({"type": "array", "items": True}, AnyForm("array")),
        ({"type": "array", "items": {"type": "string"}}, ArrayForm(STRING, 1)),
        ({"type": "object"}, AnyForm("object")),
        ({"type": "object", "additionalProperties": {"title": "T"}}, AnyForm("object")),
        ({"type": "object", "additionalProperties": False}, ObjectForm({}, frozenset(), None, 1)),
        (
            {"type": "object", "additionalProperties": {"type": "string"}},
            ObjectForm({}, frozenset(), STRING, 1),
        ),
        (
            {"type": "object", "properties": {"a": nested(2)}, "required": ["a"]},
            ObjectForm({"a": ArrayForm(ArrayForm(STRING, 1), 2)}, frozenset("a"), AnyForm(), 3),
        ),
        # What is required and has no name is like the others.
        (
            {"type": "object", "required": ["a"], "additionalProperties": {"type": "null"}},
            ObjectForm({"a": NULL}, frozenset("a"), NULL, 1),
        ),
        ({"type": "object", "required": ["a"]}, ObjectForm({"a": AnyForm()}, frozenset("a"), AnyForm(), 1)),
        ({"type": ["string", "null"]}, ScalarForm(("string", "null"))),
        ({"anyOf": [{"type": "null"}, {"const": "a"}]}, ScalarForm(("null",), ("a",))),
        ({"anyOf": [{"type": "array"}]}, UnionForm(ScalarForm(), (AnyForm("array"),), 0)),
        (
            {"anyOf": [{"anyOf": [{"type": "null"}, nested(1)]}, nested(0), {"type": "object"}]},
            UnionForm(ScalarForm(("null", "string")), (ArrayForm(STRING, 1), AnyForm("object")), 1),
        ),
        ({"type": ["array", "null"], "items": {"type": "null"}}, UnionForm(NULL, (ArrayForm(NULL, 1),), 1)),
        ({"type": "null", "items": {"type": "null"}, "required": ["a"]}, NULL),
        # ``1.0`` is an integer before it is a number (`JS-4`); an integer stays one in either order.
        ({"anyOf": [{"type": "integer"}, {"type": "number"}]}, ScalarForm(("integer", "fraction"))),
        ({"anyOf": [{"type": "number"}, {"type": "integer"}]}, ScalarForm(("number", "integer"))),
        ({"$ref": "#/$defs/s", "$defs": {"s": {"type": "string"}}}, STRING),
        ({"$ref": "#/definitions/s", "definitions": {"s": {"type": "string"}}}, STRING),
    ],
)
def test_a_schema_of_the_common_keywords_has_a_form(schema: dict[str, Any], expected: Form) -> None:
    assert form(schema) == expected


@pytest.mark.parametrize(
    "schema",
    [
        {"not": {}},
        {"type": "string", "minLength": 1},
        {"type": "integer", "minimum": 0},
        {"type": "string", "format": "date"},
        {"type": "integer", "enum": [1, 2]},
        {"type": ["array", "null"], "maxItems": 2},
        {"enum": [1, None, True, ["a"]]},
        {"const": 1},
        {"enum": ["a"], "const": "a"},
        {"type": "integer", "const": "a"},
        {"items": {}},
        {"type": "array", "items": False},
        {"type": "array", "items": [{"type": "string"}]},
        {"type": "array", "maxItems": 2},
        {"properties": {"a": {}}},
        {"type": "object", "properties": {"a": False}},
        {"type": "object", "minProperties": 1},
        {"type": "object", "required": ["a"], "additionalProperties": False},
        {"type": "object", "additionalProperties": {"pattern": "a"}},
        {"oneOf": [{"type": "string"}]},
        {"anyOf": [{}, {"type": "string"}]},
        {"anyOf": [{"type": "array"}, {"type": "array", "items": {"type": "string"}}]},
        {"anyOf": [{"type": "string"}], "type": "string"},
        {"$ref": "#"},
        {"$ref": "#/properties/a"},
        {"$ref": "#/$defs/a~1b", "$defs": {"a~1b": {}, "a/b": {"type": "string"}}},
        {"$ref": "#/$defs/a%25", "$defs": {"a%25": {}, "a%": {"type": "string"}}},
        {"$ref": "#/$defs/s", "type": "string", "$defs": {"s": {}}},
        {"$ref": "#/$defs/s", "$defs": {"s": {"$id": "https://example.org/s", "type": "string"}}},
        {"$ref": "#/$defs/s", "$defs": {"s": {"type": "array", "items": {"$ref": "#/$defs/s"}}}},
        nested(13),
    ],
)
def test_a_schema_that_says_more_has_no_form(schema: dict[str, Any]) -> None:
    assert form(schema) is None


def test_a_form_nests_twelve_levels_and_has_five_hundred_parts() -> None:
    def wide(many: int) -> dict[str, Any]:
        return {"type": "object", "properties": {str(n): {"type": "null"} for n in range(many)}}

    deep = form(nested(12))

    assert deep is not None
    assert deep.height == 12
    assert form(wide(498)) is not None
    assert form(wide(499)) is None
