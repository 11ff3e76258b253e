"""Arguments derived from a schema are arguments that the schema admits."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trio_tools.conformance._derive import SchemaError, strategy_for

SCHEMAS: list[dict[str, Any]] = [
    {
        "type": "object",
        "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}},
        "required": ["path"],
    },
    {"type": "object", "additionalProperties": {"type": "integer"}},
    {"type": "object", "required": ["anything"]},
    {"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 3},
    {"type": "array", "items": {"enum": [1, 2, 3, 4]}, "uniqueItems": True},
    {"anyOf": [{"type": "null"}, {"type": "string", "pattern": "^a+$"}]},
    {"type": ["integer", "null"]},
    {"const": {"a": 1}},
    {"type": "number", "minimum": 1, "maximum": 2},
    {
        "$ref": "#/$defs/node",
        "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
    },
    {},
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_what_is_drawn_is_admitted(schema: dict[str, Any]) -> None:
    @settings(max_examples=25, database=None, suppress_health_check=[HealthCheck.too_slow])
    @given(strategy_for(schema))
    def check(value: object) -> None:
        jsonschema.validate(value, schema)

    check()


def test_nothing_is_drawn_for_a_schema_that_admits_nothing() -> None:
    drawn = strategy_for({"type": "object", "properties": {"a": False}, "required": ["a"]})

    assert drawn.is_empty
    assert strategy_for(True) != st.nothing()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        ({"$ref": "https://example.org/schema"}, "leads out of the schema"),
        ({"$ref": "#/$defs/none"}, "leads nowhere"),
        ({"type": "array", "items": 3}, "3 is no schema"),
    ],
)
def test_a_schema_that_is_none_is_told(schema: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SchemaError, match=sentence):
        strategy_for(schema)
