"""Whatever is annotated or given as a schema: it is kept to the letter, or refused at definition."""

import dataclasses
import enum
import typing
from collections.abc import Callable
from typing import Annotated, Any, Literal, NewType, TypedDict

import attrs
import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.helpers import observed, run
from trio_tools import DefinitionError, Tool, ToolCall, open_call_scope
from trio_tools._json import JsonValue, freeze_arguments, thaw
from trio_tools._schema import Violations, plan_arguments, plan_output, plan_schema_arguments

NAMES = ["self", "cls", "fn", "value", "kwargs", "o", "field_x", "_private", "x", "y"]
KEYS = st.sampled_from([*NAMES, "private", "a b", "$ref", "", "é"])

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.sampled_from([0.5, 1.0, -0.0, 1e300, 10**400, "", "x", "self", "1", "\U0001f600"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)

Annotation: typing.TypeAlias = tuple[Any, "st.SearchStrategy[Any] | None"]
"""A type, and the values that fit it; None for a type that no tool can have."""


class Hostile:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __eq__(self, _other: object) -> bool:
        raise RuntimeError("eq")

    def __hash__(self) -> int:
        raise RuntimeError("hash")

    def __repr__(self) -> str:
        raise RuntimeError("repr")


SCALARS: list[Annotation] = [
    (str, st.text(max_size=3)),
    (int, st.integers()),
    (float, st.floats(allow_nan=False, allow_infinity=False) | st.integers(-2, 2)),
    (bool, st.booleans()),
    (None, st.none()),
    (Any, JSON),
    (object, JSON),
    (JsonValue, JSON),
    (list, st.lists(JSON, max_size=2)),
    (dict, st.dictionaries(KEYS, JSON, max_size=2)),
    (typing.List, st.lists(JSON, max_size=2)),  # noqa: UP006
    ("int", st.integers()),
    (typing.ForwardRef("str"), st.text(max_size=3)),
    (NewType("Age", int), st.integers()),
]
HOPELESS: list[Any] = [
    tuple,
    tuple[int, ...],
    set[int],
    bytes,
    complex,
    dict[int, int],
    dict[str],  # type: ignore[type-arg]
    list[()],  # type: ignore[type-arg]
    type,
    enum.Enum,
    typing.Never,
    typing.ClassVar,
    typing.NotRequired[int],
    typing.ClassVar[int],
    typing.TypeVar("T"),
    Callable[[], int],
    Annotated[int, "\ud800"],
    Literal["\ud800"],
    Literal[b"x"],
    "Nowhere",
    "1 +",
    typing.ForwardRef("Nowhere"),
    Hostile,
]
FACTORIES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "attrs": lambda fields: attrs.make_class(
        "Made", {name: attrs.field(type=type_of(kind)) for name, kind in fields.items()}
    ),
    "dataclass": lambda fields: dataclasses.make_dataclass("Made", list(fields.items())),
    "typed dict": lambda fields: make_typed_dict("Made", fields),
    "partial dict": lambda fields: make_typed_dict(
        "Made", {name: typing.NotRequired[kind] for name, kind in fields.items()}
    ),
}
make_typed_dict: Any = TypedDict


def type_of(kind: Any) -> Any:
    return type(None) if kind is None else kind


@st.composite
def annotations(draw: st.DrawFn, levels: int = 3) -> Annotation:
    """Any type, nested a few levels, now and then with something in it that no tool can have."""
    kinds = ["scalar"] * 3 + ["choice", "enum", "hopeless"]
    if levels:
        kinds += ["list", "dict", "union", "described", "record", "record"]
    match draw(st.sampled_from(kinds)):
        case "scalar":
            return draw(st.sampled_from(SCALARS))
        case "hopeless":
            return HOPELESS[draw(st.integers(0, len(HOPELESS) - 1))], None
        case "choice":
            options = draw(st.lists(st.sampled_from([None, True, 1, 0, "a", "", 10**400]), min_size=1))
            return Literal[tuple(options)], st.sampled_from(options)
        case "enum":
            values = draw(st.lists(JSON, min_size=1, max_size=3))
            return enum.Enum("Made", {f"M{n}": each for n, each in enumerate(values)}), st.sampled_from(
                values
            )
        case "list":
            inner, fits = draw(annotations(levels - 1))
            return list[inner], None if fits is None else st.lists(fits, max_size=2)
        case "dict":
            inner, fits = draw(annotations(levels - 1))
            return dict[str, inner], None if fits is None else st.dictionaries(KEYS, fits, max_size=2)
        case "union":
            parts = draw(st.lists(annotations(levels - 1), min_size=2, max_size=3))
            try:
                union = typing.Union[tuple(part for part, _ in parts)]  # noqa: UP007
            except Exception:  # noqa: BLE001  # what typing itself refuses is no annotation
                return int, st.integers()
            fitting = [fits for _, fits in parts]
            return union, None if None in fitting else st.one_of(*typing.cast("Any", fitting))
        case "described":
            inner, fits = draw(annotations(levels - 1))
            note = draw(st.sampled_from(["text", 1, object(), "\ud83d\ude00"]))
            return Annotated[inner, note], fits
        case _:
            how = draw(st.sampled_from([*FACTORIES]))
            # attrs makes no class with a field of that name.
            names = st.sampled_from(NAMES).filter(lambda name: how != "attrs" or name != "self")
            fields = draw(st.dictionaries(names, annotations(levels - 1), max_size=3))
            made = FACTORIES[how]({name: kind for name, (kind, _) in fields.items()})
            if None in [fits for _, fits in fields.values()]:
                return made, None
            # attrs takes a private name without its underscore.
            keys = {name.lstrip("_") if how == "attrs" else name: fits for name, (_, fits) in fields.items()}
            return made, st.fixed_dictionaries(typing.cast("dict[str, st.SearchStrategy[Any]]", keys))


def check_text(error: Exception) -> None:
    assert 10 < len(str(error)) < 3000


def takes(annotation: Any, default: Any) -> Callable[..., object]:
    def fn(*, p: Any = default) -> Any:
        return p

    fn.__annotations__.update({"p": annotation, "return": annotation})
    return fn


FUZZ = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@pytest.mark.slow
@pytest.mark.rule("JS-1", "JS-2", "JS-3", "JS-4", "JS-5", "JS-7")
@FUZZ
@given(annotations(), st.data())
def test_any_annotation_is_kept_as_the_oracle_reads_it_or_refused(
    annotation: Annotation, data: st.DataObject
) -> None:
    kind, fits = annotation
    default = data.draw(JSON | st.builds(Hostile) | st.builds(object), "default")
    fn = takes(kind, default)
    try:
        plan, output = plan_arguments(fn), plan_output(fn)
    except DefinitionError as refused:
        assert fits is None
        check_text(refused)
        return
    assert fits is not None
    schema: Any = thaw(typing.cast("Any", plan.schema))
    jsonschema.Draft202012Validator.check_schema(schema)
    oracle: Any = jsonschema.Draft202012Validator(schema)
    candidates = [data.draw(fits, "fitting"), *data.draw(st.lists(JSON, min_size=1, max_size=4), "any")]
    for number, candidate in enumerate(candidates):
        try:
            bound = plan.bind(freeze_arguments({"p": candidate, "unknown": 1}, depth=99))
        except Violations as refused:
            assert not oracle.is_valid({"p": candidate})
            assert number > 0
            check_text(refused)
        else:
            assert oracle.is_valid({"p": candidate})
            assert set(bound) == {"p"}
            output.accept(bound["p"], depth=99)


@pytest.mark.slow
@pytest.mark.rule("JS-5", "PU-5")
@settings(FUZZ, max_examples=40)
@given(annotations().filter(lambda annotation: annotation[1] is not None), st.lists(JSON, max_size=4))
def test_any_json_ends_a_call_in_one_result(annotation: Annotation, candidates: list[Any]) -> None:
    registry, seen = observed(Tool.from_function(takes(annotation[0], None), name="tool"))

    async def main() -> None:
        async with open_call_scope() as scope:
            for arguments in (*candidates, *({"p": each} for each in candidates)):
                await registry.execute(ToolCall(name="tool", arguments=arguments, scope=scope))

    run(main)

    assert len(seen.results) == 2 * len(candidates)
    # Absent, the default of the function is None, which is its own business until it comes back.
    assert {result.code for result in seen.results} <= {None, "INVALID_ARGS", "INVALID_TOOL_OUTPUT"}


KEYWORDS = [
    *("$schema", "$id", "$ref", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$defs"),
    *("definitions", "type", "enum", "const", "multipleOf", "maximum", "minLength", "pattern", "format"),
    *("items", "prefixItems", "additionalItems", "contains", "minContains", "uniqueItems", "required"),
    *("properties", "patternProperties", "additionalProperties", "propertyNames", "dependencies"),
    *("dependentRequired", "dependentSchemas", "unevaluatedProperties", "unevaluatedItems"),
    *("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "title", "contentEncoding", "unknown"),
]
JUNK: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from([None, True, False, 0, 1, -1, 0.5, 10**400, "object", "integer", "string", "date"])
    | st.sampled_from(
        ["#", "#/", "#/$defs/x", "#x", "x", "", "http://[", "urn:x", "//[", "(", "^a", "a{99999}"]
    )
    | st.sampled_from(
        ["https://json-schema.org/draft/2020-12/schema", "#/properties/%", "#/allOf/99999999999"]
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYWORDS), inner, max_size=4)
        | st.dictionaries(st.sampled_from(["x", "^a", "(", "~", "/"]), inner, max_size=2)
    ),
    max_leaves=12,
)


@pytest.mark.slow
@pytest.mark.rule("JS-1", "JS-5", "JS-8")
@settings(FUZZ, max_examples=200)
@given(st.dictionaries(st.sampled_from(KEYWORDS), JUNK, max_size=4) | JUNK, st.lists(JSON | JUNK, max_size=4))
def test_any_schema_is_compiled_or_refused_and_never_raises_anything_else(
    schema: Any, candidates: list[Any]
) -> None:
    try:
        plan = plan_schema_arguments(schema)
    except DefinitionError as refused:
        check_text(refused)
        return
    for candidate in candidates:
        frozen = freeze_arguments(candidate, depth=99)
        try:
            assert plan.bind(frozen) is frozen
        except Violations as refused:
            check_text(refused)
