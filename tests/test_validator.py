"""Given JSON Schemas: what is enforced, in which words and order, and for which values."""

import sys
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trio_tools._dialect import DRAFT_7, DRAFT_2019, DRAFT_2020, Draft
from trio_tools._errors import DefinitionError
from trio_tools._json import FrozenDict, freeze_arguments
from trio_tools._schema import Violations, plan_schema_arguments, plan_schema_output
from trio_tools._validator import Validator, _compiled, compile_schema

DEEP = 100_000


def refusals(schema: object, value: object) -> tuple[str, ...]:
    """Return what is wrong with a value; both readings of the schema have to agree on it."""
    plan = plan_schema_arguments(schema)
    frozen = freeze_arguments(value, depth=DEEP)
    try:
        assert plan.bind(frozen) is frozen
    except Violations as refused:
        return refused.items
    return ()


def draft_7(**schema: object) -> dict[str, object]:
    return {"$schema": DRAFT_7.uri, **schema}


def draft_2019(**schema: object) -> dict[str, object]:
    return {"$schema": DRAFT_2019.uri, **schema}


def nested(levels: int, innermost: object) -> Any:
    value = innermost
    for _ in range(levels):
        value = [value]
    return value


WORDS: list[tuple[object, object, tuple[str, ...]]] = [
    ({"type": "string"}, 1, ('"arguments" must be a string',)),
    ({"type": "number"}, True, ('"arguments" must be a finite JSON number',)),
    ({"type": "integer"}, 1.5, ('"arguments" must be an integer',)),
    ({"type": "integer"}, True, ('"arguments" must be an integer',)),
    ({"type": "integer"}, 1.0, ()),
    ({"type": "boolean"}, 0, ('"arguments" must be a boolean',)),
    ({"type": "null"}, False, ('"arguments" must be null',)),
    ({"type": "object"}, [], ('"arguments" must be an object',)),
    ({"type": "array"}, {}, ('"arguments" must be an array',)),
    ({"type": ["string", "null"]}, 1, ('"arguments" must be a string or null',)),
    ({"enum": ["a", 1]}, True, ('"arguments" must be one of ["a",1]',)),
    ({"enum": ["a", 1]}, 1.0, ()),
    ({"const": {"a": [1]}}, {"a": [True]}, ('"arguments" must be {"a":[1]}',)),
    ({"const": 10**400}, 10**400, ()),
    ({"required": ["b", "a"]}, {}, ('missing required property "b"', 'missing required property "a"')),
    (
        {"properties": {"a": {"items": {"required": ["c"]}}}},
        {"a": [{"c": 1}, {}]},
        ('missing required property "a[1].c"',),
    ),
    (
        {"properties": {"a": {}}, "additionalProperties": False},
        {"z": 1, "a": 1, "b": 2},
        (
            '"z" is not a declared property (additionalProperties: false)',
            '"b" is not a declared property (additionalProperties: false)',
        ),
    ),
    (
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
        1,
        ('"arguments" must match at least one anyOf branch',),
    ),
    (
        {"oneOf": [{"type": "string"}, {"type": "null"}]},
        1,
        ('"arguments" must match exactly one oneOf branch (matched 0)',),
    ),
    (
        {"oneOf": [{"type": "integer"}, {"minimum": 1}, {"maximum": 0}]},
        1,
        ('"arguments" must match exactly one oneOf branch (matched 2)',),
    ),
    ({"minimum": 3}, 1, ('"arguments": 1 is less than the minimum of 3',)),
    ({"multipleOf": 0.1}, 0.35, ('"arguments": 0.35 is not a multiple of 0.1',)),
    ({"multipleOf": 0.1}, 0.3, ()),
    ({"multipleOf": 0.01}, 19.99, ()),
    ({"maxLength": 1}, "😀", ()),
    ({"pattern": "^a"}, "b", ('"arguments": "b" does not match "^a"',)),
    ({"maxLength": 3}, "x" * 101, ('"arguments": the string is longer than 3 characters',)),
    ({"format": "date"}, "soon", ('"arguments": "soon" is not a "date"',)),
    ({"format": "date"}, 7, ()),
    (
        {"minItems": 2, "maxItems": 0},
        [1],
        ('"arguments" has less than 2 items', '"arguments" has more than 0 items'),
    ),
    ({"minProperties": 1}, {}, ('"arguments" has less than 1 properties',)),
    ({"maxProperties": 0}, {"a": 1}, ('"arguments" has more than 0 properties',)),
    ({"uniqueItems": True}, [1, True, "1", [1], [True]], ()),
    ({"uniqueItems": True}, [{"a": 1}, {"a": 1.0}], ('"arguments" has non-unique elements',)),
    ({"uniqueItems": False}, [1, 1], ()),
    ({"not": {"type": "integer"}}, 1, ('"arguments" is valid under a schema that is excluded with not',)),
    ({"not": {"type": "integer"}}, "a", ()),
    ({"properties": {"a": False}}, {"a": 1}, ('"a" is not allowed',)),
    ({"properties": {"a": True}}, {"a": 1}, ()),
    (False, 1, ('"arguments" is valid under a schema that is excluded with not',)),
    (True, 1, ()),
    (
        {"prefixItems": [{"type": "string"}], "items": {"type": "null"}},
        [1, 2],
        ('"[0]" must be a string', '"[1]" must be null'),
    ),
    ({"prefixItems": [{"type": "string"}]}, ["a", 2], ()),
    ({"contains": {"type": "string"}}, [1], ('"arguments" has 0 items that match contains, and needs 1',)),
    (
        {"contains": {"type": "integer"}, "minContains": 2},
        [1],
        ('"arguments" has 1 items that match contains, and needs 2',),
    ),
    (
        {"contains": {"type": "integer"}, "maxContains": 1},
        [1, 2],
        ('"arguments" has 2 items that match contains, and may have 1',),
    ),
    ({"contains": {"type": "integer"}, "minContains": 0}, [], ()),
    (
        {"propertyNames": {"maxLength": 1}},
        {"ab": 1, "a": 2},
        ('"arguments" the property name "ab" is not allowed',),
    ),
    ({"patternProperties": {"^x": {"type": "null"}}}, {"xy": 1, "y": 2}, ('"xy" must be null',)),
    ({"additionalProperties": {"type": "null"}}, {"a": 1}, ('"a" must be null',)),
    ({"dependentRequired": {"a": ["b"], "c": ["d"]}}, {"a": 1}, ('missing required property "b"',)),
    (
        {"dependentSchemas": {"a": {"required": ["b"]}, "c": False}},
        {"a": 1},
        ('missing required property "b"',),
    ),
    ({"dependencies": {"a": ["b"], "b": {"required": ["c"]}}}, {"a": 1}, ('missing required property "b"',)),
    ({"dependencies": {"a": ["b"], "b": {"required": ["c"]}}}, {"b": 1}, ('missing required property "c"',)),
    (
        {"if": {"type": "integer"}, "then": {"minimum": 2}, "else": {"maxLength": 1}},
        1,
        ('"arguments": 1 is less than the minimum of 2',),
    ),
    (
        {"if": {"type": "integer"}, "then": {"minimum": 2}, "else": {"maxLength": 1}},
        "ab",
        ('"arguments": "ab" is longer than 1 character',),
    ),
    ({"if": {"type": "integer"}}, "ab", ()),
    (
        {"properties": {"a": {}}, "unevaluatedProperties": False},
        {"a": 1, "b": 2},
        ('"b" is not allowed by unevaluatedProperties',),
    ),
    ({"unevaluatedProperties": {"type": "null"}}, {"b": 2}, ('"b" must be null',)),
    (
        {"anyOf": [{"properties": {"a": {}}}, {"required": ["z"]}], "unevaluatedProperties": False},
        {"a": 1},
        (),
    ),
    ({"allOf": [{"additionalProperties": True}], "unevaluatedProperties": False}, {"a": 1}, ()),
    (
        {"if": {"properties": {"a": {}}}, "then": {"properties": {"b": {}}}, "unevaluatedProperties": False},
        {"a": 1, "b": 1},
        (),
    ),
    ({"prefixItems": [{}], "unevaluatedItems": False}, [1, 2], ('"[1]" is not allowed by unevaluatedItems',)),
    ({"unevaluatedItems": {"type": "null"}}, [1], ('"[0]" must be null',)),
    ({"contains": {"type": "string"}, "unevaluatedItems": False}, ["a"], ()),
    (
        draft_2019(contains={"type": "string"}, unevaluatedItems=False),
        ["a"],
        (),
    ),
    ({"allOf": [{"unevaluatedItems": True}], "unevaluatedItems": False}, [1], ()),
    ({"allOf": [{"unevaluatedProperties": True}], "unevaluatedProperties": False}, {"a": 1}, ()),
    (draft_7(items=[{"type": "string"}], additionalItems=False), ["a", 1], ('"[1]" is not allowed',)),
    (draft_7(items=[{"type": "string"}]), ["a", 1], ()),
    (
        draft_7(contentEncoding="base64"),
        "{",
        ('"arguments": "{" is not compliant with "base64" content encoding',),
    ),
    ({"contentEncoding": "base64"}, "{", ()),
    ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "null"}}}, 1, ('"arguments" must be null',)),
    (
        {"$ref": "#/definitions/a", "definitions": {"a": {"type": "null"}}, "minimum": 2},
        1,
        ('"arguments": 1 is less than the minimum of 2', '"arguments" must be null'),
    ),
    (
        {"$ref": "#/$defs/a~1b%25/items", "$defs": {"a/b%": {"items": {"type": "null"}}}},
        1,
        ('"arguments" must be null',),
    ),
    ({"$ref": "#/allOf/1", "allOf": [{}, {"type": "null"}]}, 1, ('"arguments" must be null',)),
    ({"$ref": "#/$defs/a", "$defs": {"a": False}}, 1, ('"arguments" is not allowed',)),
    (
        {"$ref": "#here", "$defs": {"a": {"$anchor": "here", "type": "null"}}},
        1,
        ('"arguments" must be null',),
    ),
    (
        draft_7(**{"$ref": "#here", "definitions": {"a": {"$id": "#here", "type": "null"}}}),
        1,
        ('"arguments" must be null',),
    ),
    (
        {
            "$id": "http://example.com/root",
            "$ref": "inner#/$defs/b",
            "$defs": {"a": {"$id": "inner", "$defs": {"b": {"type": "null"}}}},
        },
        1,
        ('"arguments" must be null',),
    ),
    (
        {"$id": "urn:example:root", "$ref": "#/$defs/b", "$defs": {"b": {"type": "null"}}},
        1,
        ('"arguments" must be null',),
    ),
    (
        {"$dynamicRef": "#d", "$defs": {"a": {"$dynamicAnchor": "d", "type": "null"}}},
        1,
        ('"arguments" must be null',),
    ),
    ({"$dynamicRef": "#/$defs/a", "$defs": {"a": {"type": "null"}}}, 1, ('"arguments" must be null',)),
    ({"$ref": "#"}, 1, ()),
    ({"allOf": [{"$ref": "#"}, {"type": "null"}]}, 1, ('"arguments" must be null',)),
    ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, 1, ()),
    (
        {
            "$dynamicRef": "other#d",
            "$defs": {"o": {"$id": "other", "$dynamicAnchor": "d", "type": "null"}},
        },
        1,
        ('"arguments" must be null',),
    ),
    ({"uniqueItems": True, "minItems": 3}, [1, True], ('"arguments" has less than 3 items',)),
    (
        {"if": {"type": "null"}, "then": False, "minimum": 3},
        1,
        ('"arguments": 1 is less than the minimum of 3',),
    ),
    ({"allOf": [{"type": "null"}, {"type": "null"}]}, 1, ('"arguments" must be null',)),
]


@pytest.mark.rule("JS-3", "JS-8", "JS-15")
@pytest.mark.parametrize(("schema", "value", "expected"), WORDS)
def test_the_words_of_each_keyword(schema: object, value: object, expected: tuple[str, ...]) -> None:
    assert refusals(schema, value) == expected


@pytest.mark.rule("JS-5", "JS-15")
def test_the_walk_has_one_order() -> None:
    schema = {
        "additionalProperties": False,
        "properties": {
            "b": {"type": "string", "enum": ["x"]},
            "a": {"items": {"type": "integer", "minimum": 3}, "minItems": 4},
        },
        "allOf": [{"properties": {"b": {"type": "null"}}}],
        "required": ["c"],
        "minProperties": 9,
    }

    assert refusals(schema, {"z": 1, "a": [1, "x"], "b": 5}) == (
        '"arguments" has less than 9 properties',
        'missing required property "c"',
        '"b" must be null',
        '"b" must be a string',
        '"b" must be one of ["x"]',
        '"a" has less than 4 items',
        '"a[0]": 1 is less than the minimum of 3',
        '"a[1]" must be an integer',
        '"z" is not a declared property (additionalProperties: false)',
    )


@pytest.mark.rule("JS-5")
def test_dynamic_references_follow_the_dynamic_scope() -> None:
    node = {
        "$id": "tree",
        "$dynamicAnchor": "node",
        "type": "object",
        "properties": {"children": {"items": {"$dynamicRef": "#node"}}},
    }
    schema = {
        "$id": "http://example.com/strict",
        "$dynamicAnchor": "node",
        "$ref": "tree",
        "unevaluatedProperties": False,
        "$defs": {"tree": node},
    }

    assert refusals(schema, {"children": [{"children": [{"x": 1}]}]}) == (
        '"children[0].children[0].x" is not allowed by unevaluatedProperties',
    )
    leaf: dict[str, object] = {}
    assert refusals(schema, {"children": [leaf]}) == ()


@pytest.mark.rule("JS-5")
def test_a_dynamic_reference_without_an_anchor_of_its_kind_stays() -> None:
    schema = {
        "$id": "http://example.com/outer",
        "$ref": "inner",
        "$defs": {
            "outer": {"$anchor": "x", "type": "string"},
            "inner": {
                "$id": "inner",
                "items": {"$dynamicRef": "#x"},
                "$defs": {"own": {"$anchor": "x", "type": "null"}},
            },
        },
    }

    assert refusals(schema, [1]) == ('"[0]" must be null',)


@pytest.mark.rule("JS-5")
@pytest.mark.parametrize("recursive", [True, False])
def test_recursive_references_follow_the_dynamic_scope(recursive: bool) -> None:
    schema = draft_2019(
        **{
            "$id": "http://example.com/strict",
            "$recursiveAnchor": recursive,
            "$ref": "tree",
            "required": ["name"],
            "$defs": {
                "tree": {
                    "$id": "tree",
                    "$recursiveAnchor": recursive,
                    "type": "object",
                    "properties": {"child": {"$recursiveRef": "#"}},
                }
            },
        }
    )

    assert refusals(schema, {"name": 1, "child": {}}) == (
        ('missing required property "child.name"',) if recursive else ()
    )
    assert refusals(schema, {"name": 1, "child": 2}) == ('"child" must be an object',)


@pytest.mark.rule("JS-5")
@pytest.mark.parametrize("levels", [199, 200, 201, 254, 255, 256, 511])
def test_any_admitted_depth_is_validated(levels: int) -> None:
    schema = {"type": ["array", "integer"], "items": {"$ref": "#"}}

    assert refusals(schema, nested(levels, 1)) == ()
    assert refusals(schema, nested(levels, "x")) == (f'"{"[0]" * levels}" must be an array or an integer',)
    assert refusals({"type": "object"}, nested(levels, 1)) == ('"arguments" must be an object',)


@pytest.mark.slow
@pytest.mark.rule("JS-5")
def test_depth_needs_no_stack() -> None:
    deep = 20_000
    schema = {"anyOf": [{"items": {"$ref": "#"}, "type": "array"}, {"type": "integer"}]}

    assert refusals(schema, nested(deep, 1)) == ()
    assert refusals(schema, nested(deep, "x")) == ('"arguments" must match at least one anyOf branch',)


@pytest.mark.rule("JS-5", "MA-4")
@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "integer"}, ()),
        ({"type": "number"}, ()),
        ({"type": "string"}, ("must be a string",)),
        ({"type": "null"}, ("must be null",)),
        ({"type": ["null", "string"]}, ("must be null or a string",)),
        ({"minimum": 5, "exclusiveMinimum": 5.5}, ()),
        ({"maximum": 5}, (": the number is greater than the maximum of 5",)),
        ({"exclusiveMaximum": 5.5}, (": the number is greater than or equal to the maximum of 5.5",)),
        ({"multipleOf": 5}, ()),
        ({"multipleOf": 0.1}, ()),
        ({"multipleOf": 7}, (": the number is not a multiple of 7",)),
        ({"const": 10**100_000}, ()),
        ({"const": 10**100_000 + 1}, None),
        ({"enum": [1, 10**100_000]}, ()),
        ({"uniqueItems": True, "maxLength": 1, "format": "date"}, ()),
    ],
)
def test_integers_of_any_size_are_validated(schema: dict[str, object], words: tuple[str, ...] | None) -> None:
    if "const" in schema or "enum" in schema:
        # The schema itself has to be something that the compiled validator can read.
        with pytest.raises(DefinitionError):
            plan_schema_arguments(schema)
        return

    found = refusals({"properties": {"n": schema}}, {"n": 10**100_000})

    assert words is not None
    assert found == tuple(f'"n"{"" if text.startswith(":") else " "}{text}' for text in words)


@pytest.mark.rule("JS-5")
def test_negative_integers_of_any_size_are_validated() -> None:
    value = {"n": [-(10**5000)]}

    assert refusals({"properties": {"n": {"items": {"minimum": 0}}}}, value) == (
        '"n[0]": the number is less than the minimum of 0',
    )
    assert refusals({"properties": {"n": {"items": {"exclusiveMinimum": 0}}}}, value) == (
        '"n[0]": the number is less than or equal to the minimum of 0',
    )
    assert refusals({"items": {"type": "null"}}, value) == ()


@pytest.mark.rule("JS-5")
def test_a_limit_on_printing_integers_changes_nothing() -> None:
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        assert refusals({"maximum": 5}, 10**700) == (
            '"arguments": the number is greater than the maximum of 5',
        )
        assert refusals({"maximum": 5}, 10**599) == (
            f'"arguments": {"1" + "0" * 599} is greater than the maximum of 5',
        )
    finally:
        sys.set_int_max_str_digits(before)


@pytest.mark.rule("JS-5")
def test_a_pattern_that_explodes_is_a_violation() -> None:
    found = refusals({"pattern": "^(a+)+(?=x)$"}, "a" * 40 + "b")

    assert len(found) == 1
    assert found[0].startswith('"arguments": ')


def test_a_recursive_reference_may_start_below_the_outermost_schema() -> None:
    tree = {"$id": "tree", "$recursiveAnchor": True, "required": ["a"], "items": {"$recursiveRef": "#"}}

    assert refusals(draft_2019(**{"$ref": "tree", "$defs": {"tree": tree}}), [{"b": 1}]) == (
        'missing required property "[0].a"',
    )


@pytest.mark.rule("JS-1")
def test_the_compiled_validator_has_no_way_to_fetch_either() -> None:
    with pytest.raises(ValueError, match="nothing is ever fetched"):
        _compiled({"$ref": "http://example.com/schema"})


@pytest.mark.rule("JS-8", "MA-11")
def test_given_output_schemas_speak_of_the_value() -> None:
    plan = plan_schema_output({"items": {"type": "string"}})

    assert plan.accept(["\ud83d"], depth=9) == ["\ufffd"]
    with pytest.raises(Violations) as caught:
        plan.accept([1], depth=9)
    assert caught.value.items == ('"[0]" must be a string',)
    with pytest.raises(Violations) as caught:
        plan_schema_output({"type": "string"}).accept([1], depth=9)
    assert caught.value.items == ('"value" must be a string',)


def test_where_the_readings_disagree_the_compiled_one_decides() -> None:
    # There is no value known on which they do; so one reading is made of another schema.
    strict, lax = (
        compile_schema(FrozenDict(schema), "schema") for schema in ({"items": {"type": "null"}}, {})
    )
    mixed = Validator(strict._compiled, lax._walk)  # type: ignore[attr-defined]

    mixed.check(freeze_arguments([None], depth=9), root="arguments")
    with pytest.raises(Violations) as caught:
        mixed.check(freeze_arguments([1], depth=9), root="arguments")
    assert caught.value.items == ('"[0]": 1 is not of type "null"',)


# Random schemas, with the standard Python validator as the oracle.

scalars: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, False, 0, 1, 2, 3, -1, 0.0, -0.0, 1.0, 1.5, 0.3, "", "a", "b", "ab", "aa"]
)
values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["a", "b", "c", "aa"]), inner)
    ),
    max_leaves=8,
)
small = st.integers(0, 3)
names = st.lists(st.sampled_from("abc"), unique=True, max_size=2)
type_names = st.sampled_from(["string", "number", "integer", "boolean", "null", "object", "array"])


def _keywords_of(draft: Draft, inner: st.SearchStrategy[Any]) -> dict[str, st.SearchStrategy[Any]]:
    by_name = st.dictionaries(st.sampled_from(["a", "b", "aa"]), inner, max_size=3)
    several = st.lists(inner, min_size=1, max_size=2)
    keywords: dict[str, st.SearchStrategy[Any]] = {
        "type": type_names | st.lists(type_names, min_size=1, max_size=3, unique=True),
        "enum": st.just([1, [True], {"a": 0}]) | st.just(["a", False]),
        "const": values,
        "minimum": small,
        "maximum": small,
        "exclusiveMinimum": small,
        "exclusiveMaximum": small,
        "multipleOf": st.sampled_from([1, 2, 0.5, 3]),
        "minLength": small,
        "maxLength": small,
        "pattern": st.sampled_from(["a", "^b", "a$", "^$"]),
        "minItems": small,
        "maxItems": small,
        "uniqueItems": st.booleans(),
        "contains": inner,
        "required": names,
        "minProperties": small,
        "maxProperties": small,
        "properties": by_name,
        "patternProperties": st.dictionaries(st.sampled_from(["a", "^b"]), inner, max_size=2),
        "additionalProperties": inner,
        "propertyNames": inner,
        "allOf": several,
        "anyOf": several,
        "oneOf": st.lists(inner, min_size=1, max_size=3),
        "not": inner,
        "if": inner,
        "then": inner,
        "else": inner,
        "$ref": st.sampled_from(["#", "#/$defs/x", "#/$defs/y"]),
        "minContains": small,
        "maxContains": small,
        "dependentRequired": st.dictionaries(st.sampled_from("ab"), names, max_size=2),
        "dependentSchemas": by_name,
        "unevaluatedItems": inner,
        "unevaluatedProperties": inner,
        "prefixItems": several,
        "$dynamicRef": st.sampled_from(["#d", "#/$defs/x"]),
        "additionalItems": inner,
        "$recursiveRef": st.just("#"),
        "items": inner if draft is DRAFT_2020 else inner | several,
    }
    if draft is DRAFT_7:
        keywords["dependencies"] = st.dictionaries(st.sampled_from("ab"), inner | names, max_size=2)
        # Beside it, everything else is ignored, which is refused.
        del keywords["$ref"]
    return {name: strategy for name, strategy in keywords.items() if name in draft.keywords}


def schemas_of(draft: Draft) -> st.SearchStrategy[dict[str, Any]]:
    def some(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
        keywords = _keywords_of(draft, inner)
        chosen = st.lists(st.sampled_from(sorted(keywords)), max_size=4, unique=True)
        return chosen.flatmap(lambda names: st.fixed_dictionaries({name: keywords[name] for name in names}))

    inner = st.recursive(st.booleans() | some(st.booleans()), some, max_leaves=6)
    anchor = {"$dynamicAnchor": "d"} if draft is DRAFT_2020 else {}
    alone = some(st.booleans())

    def assemble(root: dict[str, Any], x: Any, y: dict[str, Any]) -> dict[str, Any]:
        return {"$schema": draft.uri, **root, "$defs": {"x": x, "y": {**y, **anchor}}}

    return st.builds(assemble, some(inner), inner, alone)


@pytest.mark.slow
@pytest.mark.rule("JS-5", "JS-8")
@pytest.mark.parametrize(
    ("draft", "oracle_class"),
    [
        (DRAFT_7, jsonschema.Draft7Validator),
        (DRAFT_2019, jsonschema.Draft201909Validator),
        (DRAFT_2020, jsonschema.Draft202012Validator),
    ],
    ids=["7", "2019-09", "2020-12"],
)
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much], max_examples=100)
@given(st.data())
def test_both_readings_agree_with_the_oracle(draft: Draft, oracle_class: Any, data: st.DataObject) -> None:
    schema = data.draw(schemas_of(draft))
    validator: Any = compile_schema(FrozenDict(schema), "schema")
    oracle: Any = oracle_class(schema)
    for value in data.draw(st.lists(values, min_size=1, max_size=6)):
        frozen = freeze_arguments(value, depth=99)
        compiled = validator._compiled.is_valid(frozen)
        assert _holds(validator, frozen) is compiled
        assert _holds(Validator(_Refusing(), validator._walk), frozen) is compiled
        try:
            expected = oracle.is_valid(value)
        except (RecursionError, TypeError):
            # A schema that refers to itself, or draft-07 with `items` false: the oracle fails on both.
            continue
        assert compiled is expected


def _holds(validator: Validator, value: Any) -> bool:
    try:
        validator.check(value, root="arguments")
    except Violations:
        return False
    return True


class _Refusing:
    """Says no to everything and has nothing to say about it, so that only the walk speaks."""

    def is_valid(self, value: object) -> bool:
        return False

    def iter_errors(self, value: object) -> tuple[()]:
        return ()


@pytest.mark.rule("JS-5")
def test_what_is_refused_once_is_refused_again_in_the_same_words() -> None:
    schema = {
        "properties": {"huge": {"enum": [10**400, {"a": 1}]}},
        "patternProperties": {"^x": {"type": "string", "maxLength": 2}},
        "unevaluatedProperties": False,
    }
    plan = plan_schema_arguments(schema)
    frozen = freeze_arguments({"huge": 10**400 + 1, "xy": "long", "other": 1}, depth=DEEP)
    said: list[tuple[str, ...]] = []
    for _ in range(2):
        with pytest.raises(Violations) as refused:
            plan.bind(frozen)
        said.append(refused.value.items)

    assert len(said[0]) == 3
    assert said[0] == said[1]
