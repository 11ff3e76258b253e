"""Plans from signatures: what a schema says, what is bound, and what is refused in which words."""

import dataclasses
import enum
import pickle
import sys
from collections.abc import Callable
from typing import Annotated, Any, Generic, Literal, NotRequired, TypedDict, TypeVar

import attrs
import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_tools._json import (
    FrozenDict,
    FrozenList,
    JsonValue,
    NotLossless,
    TooDeep,
    freeze_arguments,
    is_frozen,
    thaw,
    to_json_text,
)
from trio_tools._schema import (
    PlanOfArguments,
    PlanOfOutput,
    Violations,
    plan_arguments,
    plan_output,
    plan_schema_arguments,
    plan_schema_output,
)

DEPTH = 64


class Colour(enum.StrEnum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Mixed(enum.Enum):
    NOTHING = None
    YES = True
    PAIR = (1, 2)


class Only(enum.Enum):
    ONE = "one"


@attrs.frozen
class Point:
    x: int
    y: float = 0.5
    _note: str | None = None


@dataclasses.dataclass
class Line:
    start: Point
    end: Point
    colour: Colour = Colour.RED
    length: float = dataclasses.field(init=False, default=1.5)
    tags: list[str] = dataclasses.field(default_factory=list[str])


class Options(TypedDict):
    depth: int
    points: NotRequired[list[Point]]


@attrs.frozen
class Positive:
    number: int = attrs.field(validator=attrs.validators.gt(0))


T = TypeVar("T")


@attrs.frozen
class Box(Generic[T]):
    content: T


def bind(fn: Callable[..., object], **arguments: object) -> dict[str, object]:
    return plan_arguments(fn).bind(freeze_arguments(arguments, depth=DEPTH))


def refusals(fn: Callable[..., object], **arguments: object) -> tuple[str, ...]:
    with pytest.raises(Violations) as caught:
        bind(fn, **arguments)
    return caught.value.items


def takes(annotation: Any) -> Callable[..., object]:
    def fn(p: Any) -> None: ...

    fn.__annotations__["p"] = annotation
    return fn


def gives(annotation: Any) -> Callable[..., object]:
    def fn() -> Any: ...

    fn.__annotations__["return"] = annotation
    return fn


def plain(value: Any) -> Any:
    return thaw(value)


def any_(value: object) -> Any:
    """Keep a type checker from looking at what a test gets wrong on purpose."""
    return value


def schema_of(annotation: Any) -> Any:
    return plain(plan_arguments(takes(annotation)).schema)["properties"]["p"]


@pytest.mark.rule("JS-1")
@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (None, {"type": "null"}),
        (list, {"type": "array"}),
        (dict, {"type": "object", "additionalProperties": True}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Literal["a", 1, True, None], {"enum": ["a", 1, True, None]}),  # noqa: PYI061
        (Literal["a"], {"const": "a"}),
        (Colour, {"enum": ["red", "blue"]}),
        (Level, {"enum": [1, 2]}),
        (Only, {"const": "one"}),
        (str | None, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        (int | list[str], {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "string"}}]}),
        (Annotated[int, "how many"], {"type": "integer", "description": "how many"}),
        (Annotated[int, 5], {"type": "integer"}),
        (JsonValue, {}),
        (Any, {}),
        (object, {}),
        (list[JsonValue], {"type": "array"}),
        (JsonValue | None, {}),
        (
            Point,
            {
                "title": "Point",
                "type": "object",
                "properties": {
                    "x": {"type": "integer"},
                    "y": {"type": "number", "default": 0.5},
                    "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
                },
                "required": ["x"],
                "additionalProperties": False,
            },
        ),
        (
            Options,
            {
                "title": "Options",
                "type": "object",
                "properties": {
                    "depth": {"type": "integer"},
                    "points": {"type": "array", "items": schema_of(Point)},
                },
                "required": ["depth"],
                "additionalProperties": False,
            },
        ),
        (
            Box[int],
            {
                "title": "Box",
                "type": "object",
                "properties": {"content": {"type": "integer"}},
                "required": ["content"],
                "additionalProperties": False,
            },
        ),
    ],
)
def test_the_schema_of_each_type(annotation: Any, schema: Any) -> None:
    assert to_json_text(schema_of(annotation)) == to_json_text(schema)
    jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.rule("JS-1", "JS-6")
def test_the_root_of_the_schema() -> None:
    def fn(a: int, b: str = "x", c: Colour = Colour.BLUE, d: object = object()) -> None: ...

    assert plan_arguments(fn).schema == {
        "type": "object",
        "properties": {
            "a": {"type": "integer"},
            "b": {"type": "string", "default": "x"},
            "c": {"enum": ["red", "blue"], "default": "blue"},
            "d": {},
        },
        "required": ["a"],
    }
    assert plan_arguments(lambda: None).schema == {"type": "object", "properties": {}}
    assert isinstance(plan_arguments(fn).schema, FrozenDict)


@pytest.mark.rule("JS-2")
def test_unknown_keys_are_dropped_at_the_root_and_refused_below() -> None:
    def fn(a: Point) -> None: ...

    assert bind(fn, a={"x": 1}, extra=2) == {"a": Point(1)}
    assert refusals(fn, a={"x": 1, "z": 2}) == (
        '"a.z" is not a declared property (additionalProperties: false)',
    )


@pytest.mark.rule("JS-2", "JS-15")
@pytest.mark.parametrize("arguments", [None, 1, "x", [], [1]])
def test_arguments_that_are_no_object(arguments: object) -> None:
    with pytest.raises(Violations) as caught:
        plan_arguments(lambda: None).bind(freeze_arguments(arguments, depth=DEPTH))

    assert caught.value.items == ('"arguments" must be an object',)


@pytest.mark.rule("JS-3")
@pytest.mark.parametrize(
    ("annotation", "value", "bound"),
    [
        (int, 1, 1),
        (int, 1.0, 1),
        (int, -0.0, 0),
        (int, 10**400, 10**400),
        (float, 1, 1),
        (float, 1.0, 1.0),
        (bool, True, True),
        (list[int], [1, 2.0], [1, 2]),
        (dict[str, int], {"a": 1.0}, {"a": 1}),
        (dict[str, str], {"a": "b"}, {"a": "b"}),
        (Literal[1], 1.0, 1),
        (Level, 2.0, Level.HIGH),
        (Mixed, None, Mixed.NOTHING),
        (Literal[Colour.RED], "red", Colour.RED),
        (Options, {"depth": 1.0, "points": [{"x": 2.0}]}, {"depth": 1, "points": [Point(2)]}),
        (Box[int], {"content": 3.0}, Box(3)),
        (Point, {"x": 1, "note": "n"}, Point(1, 0.5, "n")),
    ],
)
def test_what_a_body_receives(annotation: Any, value: object, bound: Any) -> None:
    if annotation is Mixed:
        annotation = Literal[Mixed.NOTHING, Mixed.YES]

    result: Any = bind(takes(annotation), p=value)["p"]

    assert result == bound
    assert type(result) is type(bound)
    if annotation == list[int]:
        assert list(map(type, result)) == [int, int]


@pytest.mark.rule("JS-3", "JS-15")
@pytest.mark.parametrize(
    ("annotation", "value", "refusal"),
    [
        (int, "3", "an integer"),
        (int, 2.9, "an integer"),
        (int, True, "an integer"),
        (int, None, "an integer"),
        (float, True, "a finite JSON number"),
        (float, "1", "a finite JSON number"),
        (str, 5, "a string"),
        (bool, 1, "a boolean"),
        (bool, "false", "a boolean"),
        (None, False, "null"),
        (list[str], "abc", "an array"),
        (list[str], {}, "an array"),
        (dict[str, int], [1], "an object"),
        (Point, [1], "an object"),
        (Options, "x", "an object"),
        (Literal[1], True, "1"),
        (Literal[True], 1, "true"),
        (Literal["é"], "e", '"é"'),
        (Literal["a", "b"], "c", 'one of ["a","b"]'),
        (Literal["a", 1], ["a"], 'one of ["a",1]'),
        (Colour, "green", 'one of ["red","blue"]'),
        (Level, True, "one of [1,2]"),
    ],
)
def test_nothing_is_coerced(annotation: Any, value: object, refusal: str) -> None:
    assert refusals(takes(annotation), p=value) == (f'"p" must be {refusal}',)


@pytest.mark.rule("JS-4")
@pytest.mark.parametrize(
    ("annotation", "value", "bound"),
    [
        (int | float, 1.0, 1),
        (float | int, 1.0, 1.0),
        (int | float, 1.5, 1.5),
        (bool | int, True, True),
        (str | None, None, None),
        (list[int | float], [1.0, 2.5], [1, 2.5]),
        (list[float | int], [1.0, 2.5], [1.0, 2.5]),
        (Positive | Point, {"x": 1}, Point(1)),
        (list[int] | list[str], ["a"], ["a"]),
        (Literal["a"] | str, "a", "a"),  # noqa: PYI051
        (Colour | str, "red", Colour.RED),
        (str | Colour, "red", "red"),
        (str | JsonValue, [1], [1]),
    ],
)
def test_the_first_branch_that_matches_is_used(annotation: Any, value: object, bound: Any) -> None:
    result: Any = bind(takes(annotation), p=value)["p"]

    assert result == bound
    assert type(result) is type(bound)
    # Their text tells 1 from 1.0 inside a list, too.
    assert repr(result) == repr(bound)


@pytest.mark.rule("JS-4", "JS-15")
def test_a_union_that_nothing_matches_is_one_violation() -> None:
    assert refusals(takes(int | list[int]), p=["x"]) == ('"p" must match at least one anyOf branch',)


@pytest.mark.rule("JS-4")
def test_a_branch_that_matches_is_not_left_when_its_class_refuses() -> None:
    assert refusals(takes(Positive | dict[str, int]), p={"number": -1}) == (
        "\"p\": 'number' must be > 0: -1",
    )


@pytest.mark.rule("JS-5", "JS-15")
def test_every_violation_is_reported_in_walk_order() -> None:
    def fn(a: int, b: str, c: list[Line], d: dict[str, Options], e: int = 0) -> None: ...

    empty: dict[str, object] = {}
    options = {"k": {"points": [empty]}, "": {"depth": 1.5}}
    line = {"start": {"x": "s", "z": 1}, "colour": "green", "length": 2.0, "tags": [1, "t", None]}

    assert refusals(fn, e=None, d=options, c=[line, 7], a=True) == (
        'missing required property "b"',
        '"a" must be an integer',
        'missing required property "c[0].end"',
        '"c[0].start.x" must be an integer',
        '"c[0].start.z" is not a declared property (additionalProperties: false)',
        '"c[0].colour" must be one of ["red","blue"]',
        '"c[0].tags[0]" must be a string',
        '"c[0].tags[2]" must be a string',
        '"c[0].length" is not a declared property (additionalProperties: false)',
        '"c[1]" must be an object',
        'missing required property "d.k.depth"',
        'missing required property "d.k.points[0].x"',
        '"d..depth" must be an integer',
        '"e" must be an integer',
    )


@pytest.mark.rule("JS-6")
def test_defaults_are_left_to_the_function() -> None:
    def fn(a: int = 1, b: int | None = 2, *, c: list[int] = []) -> None: ...  # noqa: B006

    assert bind(fn) == {}
    assert bind(fn, b=None) == {"b": None}


@pytest.mark.rule("JS-6")
def test_null_is_present() -> None:
    def fn(a: int, b: str | None) -> None: ...

    assert refusals(fn, a=None) == ('missing required property "b"', '"a" must be an integer')
    assert bind(fn, a=1, b=None) == {"a": 1, "b": None}


@pytest.mark.rule("JS-6", "JS-15")
def test_a_required_key_that_is_absent_is_a_violation() -> None:
    assert refusals(takes(int)) == ('missing required property "p"',)


@pytest.mark.rule("MA-2")
def test_what_a_body_receives_is_its_own() -> None:
    def fn(
        a: list[str],
        b: dict[str, list[int]],
        c: object,
        d: list[JsonValue],
        e: Options,
        f: dict[str, JsonValue],
        g: list[bool] | None,
    ) -> None: ...

    arguments = freeze_arguments(
        {
            "a": ["x"],
            "b": {"k": [1]},
            "c": [[1]],
            "d": [[1]],
            "e": {"depth": 1, "points": []},
            "f": {"k": [1]},
            "g": [True],
        },
        depth=DEPTH,
    )
    before = thaw(arguments)

    pending: list[Any] = list(plan_arguments(fn).bind(arguments).values())

    while pending:
        each = pending.pop()
        assert not is_frozen(each)
        if isinstance(each, dict):
            pending.extend(each.values())  # pyright: ignore[reportUnknownArgumentType]
            each.clear()
        elif isinstance(each, list):
            pending.extend(each)  # pyright: ignore[reportUnknownArgumentType]
            each.clear()
    assert arguments == before


def test_what_the_classes_of_the_author_refuse_is_told_with_its_path() -> None:
    class Unprintable(Exception):  # noqa: N818
        def __str__(self) -> str:
            raise RuntimeError

    @dataclasses.dataclass
    class Raising:
        kind: Literal["empty", "unprintable"]

        def __post_init__(self) -> None:
            raise Unprintable if self.kind == "unprintable" else KeyError

    @attrs.frozen
    class Outer:
        inner: list[Positive]
        by_name: dict[str, Positive]

    class Wrapped(TypedDict):
        positive: Positive

    def fn(a: Outer, b: Raising, c: list[Raising], d: Wrapped, e: int) -> None: ...

    assert refusals(
        fn,
        a={"inner": [{"number": 1}, {"number": 0}], "by_name": {"n": {"number": -3}}},
        b={"kind": "empty"},
        c=[{"kind": "unprintable"}],
        d={"positive": {"number": 0}},
        e=1,
    ) == (
        "\"a.inner[1]\": 'number' must be > 0: 0",
        "\"a.by_name.n\": 'number' must be > 0: -3",
        '"b": KeyError',
        '"c[0]": <unprintable Unprintable>',
        "\"d.positive\": 'number' must be > 0: 0",
    )


def test_no_class_of_the_author_is_made_for_arguments_that_are_refused() -> None:
    made: list[int] = []

    @dataclasses.dataclass
    class Counting:
        x: int

        def __post_init__(self) -> None:
            made.append(self.x)

    def fn(a: Counting, b: int) -> None: ...

    assert refusals(fn, a={"x": 1}, b="no") == ('"b" must be an integer',)
    assert made == []
    assert bind(fn, a={"x": 1}, b=2)["a"] == Counting(1)


def test_field_names_that_code_generators_use_themselves() -> None:
    @attrs.frozen
    class Awkward:
        cl: int
        converter: int
        o: int
        res: int = 1
        errors: int = 2

    def fn(a: Awkward) -> None: ...

    assert bind(fn, a={"cl": 1, "converter": 2, "o": 3, "res": 4}) == {"a": Awkward(1, 2, 3, 4)}


def test_the_context_is_neither_in_the_schema_nor_bound() -> None:
    def fn(a: int, *, ctx: Any) -> None: ...

    fn.__annotations__["ctx"] = "resolved by nobody"
    plan = plan_arguments(fn, skip=frozenset({"ctx"}))

    assert plan.schema["properties"] == {"a": {"type": "integer"}}
    assert plan.bind(freeze_arguments({"a": 1, "ctx": 2}, depth=DEPTH)) == {"a": 1}


@pytest.mark.rule("MA-9", "MA-10")
@pytest.mark.parametrize(
    ("annotation", "value", "accepted"),
    [
        (Point, Point(1, 2.0, "n"), {"x": 1, "y": 2.0, "note": "n"}),
        (Point, {"x": 1}, {"x": 1}),
        (
            Line,
            Line(Point(1), Point(2), Colour.BLUE, ["t"]),
            {
                "start": {"x": 1, "y": 0.5, "note": None},
                "end": {"x": 2, "y": 0.5, "note": None},
                "colour": "blue",
                "length": 1.5,
                "tags": ["t"],
            },
        ),
        (list[Colour], [Colour.RED, "blue"], ["red", "blue"]),
        (dict[str, Level], {"a": Level.HIGH}, {"a": 2}),
        (dict[str, Level] | None, None, None),
        (Options | None, None, None),
        (
            Options,
            {"depth": 1, "points": [Point(1)]},
            {"depth": 1, "points": [{"x": 1, "y": 0.5, "note": None}]},
        ),
        (Point | Colour | None, Colour.RED, "red"),
        (Point | Colour | None, Point(1), {"x": 1, "y": 0.5, "note": None}),
        (Point | Colour | None, None, None),
        (list[Colour] | list[Level], [Level.LOW], [1]),
        (Literal[Colour.RED, "x"], Colour.RED, "red"),
        (Literal[Colour.RED, "x"], "x", "x"),
        (Box[Colour], Box(Colour.RED), {"content": "red"}),
        (int, 1.0, 1.0),
        (float, 1, 1),
        (str, "\ud83d\ude00\ud83d", "😀\ufffd"),
        (None, None, None),
        (JsonValue, [{"a": None}], [{"a": None}]),
    ],
)
def test_what_is_accepted_of_a_body(annotation: Any, value: object, accepted: object) -> None:
    result = plan_output(gives(annotation)).accept(value, depth=DEPTH)

    assert to_json_text(result) == to_json_text(any_(accepted))
    assert is_frozen(result) or not isinstance(result, list | dict)


@pytest.mark.rule("MA-10", "MA-11")
@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (JsonValue, Point(1)),
        (object, Colour.RED),
        (str, Colour.RED),
        (int, Level.LOW),
        (list[int], (1, 2)),
        (list[Point], (Point(1),)),
        (list[Point], [Line(Point(1), Point(2))]),
        (Point | None, Line(Point(1), Point(2))),
        (Colour, Level.LOW),
        (dict[str, Point], {1: Point(1)}),
        (dict[str, int], {"a": {1}}),
        (Options, {"depth": object()}),
        (Options, {"depth": 1, "more": Point(1)}),
        (float, float("nan")),
        (Point, Point(any_(float("inf")))),
    ],
)
def test_nothing_else_is_converted(annotation: Any, value: object) -> None:
    with pytest.raises(NotLossless):
        plan_output(gives(annotation)).accept(value, depth=DEPTH)


@pytest.mark.rule("MA-10")
def test_an_instance_of_a_subclass_is_not_the_class_that_was_named() -> None:
    @dataclasses.dataclass
    class More(Line):
        secret: str = "s"

    with pytest.raises(NotLossless):
        plan_output(gives(Line)).accept(More(Point(1), Point(2)), depth=DEPTH)


@pytest.mark.rule("MA-11")
def test_an_instance_that_cannot_be_read_is_refused() -> None:
    @attrs.define
    class Torn:
        x: int

    torn = Torn(1)
    del torn.x

    with pytest.raises(NotLossless):
        plan_output(gives(list[Torn])).accept([torn], depth=DEPTH)


@pytest.mark.rule("MA-11")
def test_excess_depth_of_a_value_is_refused() -> None:
    with pytest.raises(TooDeep) as caught:
        plan_output(gives(Any)).accept([[["x"]]], depth=2)

    assert caught.value.levels == 2


@pytest.mark.rule("MA-9", "JS-15")
@pytest.mark.parametrize(
    ("annotation", "value", "violations"),
    [
        (int, "x", ('"value" must be an integer',)),
        (list[int], [1, "x", None], ('"[1]" must be an integer', '"[2]" must be an integer')),
        (dict[str, int], {"b": 1, "a": "x"}, ('"a" must be an integer',)),
        (Point, Point(any_("x")), ('"x" must be an integer',)),
        (Point, {"y": 1}, ('missing required property "x"',)),
        (list[Point], [{"x": [0]}], ('"[0].x" must be an integer',)),
        (int | None, "x", ('"value" must match at least one anyOf branch',)),
        (Literal[Colour.RED], Colour.BLUE, ('"value" must be "red"',)),
    ],
)
def test_what_breaches_the_output_schema(annotation: Any, value: object, violations: tuple[str, ...]) -> None:
    with pytest.raises(Violations) as caught:
        plan_output(gives(annotation)).accept(value, depth=DEPTH)

    assert caught.value.items == violations
    assert str(caught.value) == "; ".join(violations)
    assert pickle.loads(pickle.dumps(caught.value)).items == violations


def test_a_body_without_a_return_annotation_may_return_any_json() -> None:
    def fn(): ...

    plan = plan_output(fn)

    assert plan.schema == {}
    assert plan.accept([1, {"a": None}], depth=DEPTH) == [1, {"a": None}]


@pytest.mark.rule("MA-7", "MA-9")
def test_frozen_json_goes_through_without_a_copy() -> None:
    frozen = freeze_arguments({"a": [1]}, depth=DEPTH)

    assert plan_output(gives(dict[str, list[int]])).accept(frozen, depth=DEPTH) is frozen
    assert plan_output(gives(JsonValue)).accept(frozen, depth=DEPTH) is frozen


@pytest.mark.rule("MA-15")
def test_a_schema_cannot_be_changed() -> None:
    schema: Any = plan_arguments(takes(Point)).schema

    with pytest.raises(TypeError):
        schema["properties"]["p"]["properties"]["x"]["type"] = "string"


@pytest.mark.rule("JS-8")
def test_given_schemas_make_plans_of_the_same_kind() -> None:
    arguments_plans: list[PlanOfArguments] = [
        plan_arguments(takes(int)),
        plan_schema_arguments({"type": "object", "properties": {"p": {"type": "integer"}}}),
    ]
    output_plans: list[PlanOfOutput] = [plan_output(gives(int)), plan_schema_output({"type": "integer"})]

    assert [plan.by_keyword for plan in arguments_plans] == [True, False]
    for arguments_plan in arguments_plans:
        with pytest.raises(Violations, match='"p" must be an integer'):
            arguments_plan.bind(freeze_arguments({"p": "x"}, depth=DEPTH))
    for output_plan in output_plans:
        assert output_plan.accept(3, depth=DEPTH) == 3
        with pytest.raises(Violations, match='"value" must be an integer'):
            output_plan.accept("x", depth=DEPTH)
        with pytest.raises(NotLossless):
            output_plan.accept({1}, depth=DEPTH)


@pytest.mark.rule("JS-8")
def test_a_given_schema_drops_and_converts_nothing() -> None:
    plan = plan_schema_arguments({"properties": {"n": {"type": "integer", "default": 3}}})
    arguments = freeze_arguments({"n": 1.0, "more": [1]}, depth=DEPTH)

    assert plan.bind(arguments) is arguments
    assert type(any_(arguments)["n"]) is float


@pytest.mark.rule("JS-8")
def test_validation_can_be_left_to_the_body() -> None:
    plan = plan_schema_arguments({"type": "integer"}, validate=False)

    assert plan.bind("x") == "x"


# Random types, with the standard Python validator as the oracle.

leaf_types: st.SearchStrategy[Any] = st.sampled_from(
    [str, int, float, bool, None, Colour, Level, Literal["a", 1], Literal[True], Literal["b"], Any, Point]
)


def _class_of(fields: dict[str, Any]) -> Any:
    return attrs.make_class(
        "Made",
        {
            name: attrs.field(type=annotation or type(None), kw_only=True)
            if name < "b"
            else attrs.field(type=(annotation or type(None)) | None, default=None, kw_only=True)
            for name, annotation in fields.items()
        },
    )


def _described(annotation: Any) -> Any:
    return Annotated[annotation, "a note"]


def _union_of(branches: list[Any]) -> Any:
    union = branches[0]
    for branch in branches[1:]:
        union = union | branch if union is not None or branch is not None else None
    return union


types: st.SearchStrategy[Any] = st.recursive(
    leaf_types,
    lambda inner: st.one_of(
        inner.map(lambda item: list[item]),
        inner.map(lambda item: dict[str, item]),
        st.dictionaries(st.sampled_from("abc"), inner, max_size=3).map(_class_of),
        inner.map(_described),
        st.lists(inner.filter(lambda each: each is not Any and each is not None), min_size=2, max_size=3).map(
            _union_of
        ),
    ),
    max_leaves=5,
)
values: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from([None, True, False, 0, 1, 2, -1, 0.0, 1.0, 1.5, "a", "b", "red", "x", "", 10**400]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcxy"), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.slow
@pytest.mark.rule("JS-2", "JS-3", "JS-4", "JS-5")
@given(types, st.lists(values, min_size=1, max_size=8))
def test_a_plan_agrees_with_the_oracle_and_never_raises_anything_else(
    annotation: Any, candidates: list[Any]
) -> None:
    plan = plan_arguments(takes(annotation))
    schema = plain(plan.schema)
    jsonschema.Draft202012Validator.check_schema(schema)
    oracle: Any = jsonschema.Draft202012Validator(schema)
    for candidate in candidates:
        arguments = freeze_arguments({"p": candidate}, depth=DEPTH)
        try:
            bound: Any = plan.bind(arguments)
        except Violations:
            assert not oracle.is_valid({"p": candidate})
        else:
            assert oracle.is_valid({"p": candidate})
            assert set(bound) == {"p"}


@pytest.mark.slow
@pytest.mark.rule("MA-9", "MA-10")
@given(types, st.lists(values, min_size=1, max_size=8))
def test_what_was_bound_can_be_returned(annotation: Any, candidates: list[Any]) -> None:
    arguments_plan, output_plan = plan_arguments(takes(annotation)), plan_output(gives(annotation))
    for candidate in candidates:
        try:
            bound = arguments_plan.bind(freeze_arguments({"p": candidate}, depth=DEPTH))["p"]
        except Violations:
            continue
        returned = output_plan.accept(bound, depth=DEPTH)
        again = arguments_plan.bind(FrozenDict({"p": returned}))["p"]

        assert again == bound


def test_bind_is_total_when_the_stack_is_nearly_used_up() -> None:
    def fn(a: int, b: list[int]) -> None: ...

    plan = plan_arguments(fn)
    arguments = freeze_arguments({"a": 1, "b": [1.0]}, depth=DEPTH)

    def stack() -> int:
        frame, size = sys._getframe(), 0  # pyright: ignore[reportPrivateUsage]
        while frame is not None:
            frame, size = frame.f_back, size + 1
        return size

    def dig(levels: int) -> object:
        return dig(levels - 1) if levels else plan.bind(arguments)

    assert dig(sys.getrecursionlimit() - stack() - 20) == {"a": 1, "b": [1]}


def test_lists_of_plain_items_are_lists_of_the_body() -> None:
    result = bind(takes(list[str]), p=["a"])["p"]

    assert type(result) is list
    assert type(bind(takes(list[JsonValue]), p=[["a"]])["p"]) is list
    assert isinstance(freeze_arguments(["a"], depth=DEPTH), FrozenList)
