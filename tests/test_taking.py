"""Taking: the fast path says yes or nothing, and its yes is what the generic code says."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from enum import Enum
from typing import Any, Literal, TypedDict

import attrs
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from trio_tools import JsonValue
from trio_tools._form import form_of
from trio_tools._json import (
    FrozenDict,
    FrozenList,
    NotLossless,
    freeze_arguments,
    freeze_value,
    is_frozen,
    kind_of,
    to_json_text,
)
from trio_tools._schema import (
    ArgumentsPlan,
    OutputPlan,
    Violations,
    plan_arguments,
    plan_output,
    plan_schema_arguments,
    plan_schema_output,
)
from trio_tools._taking import GAVE_UP, Taking

DEPTH = 512
NAMES = ("a", "b", "ä", "\N{GRINNING FACE}", "it's {x}\n")

ran: list[str] = []


class Text(str):  # noqa: SLOT000  (as careless code has it)
    """A string that tells when code of it runs."""

    def __eq__(self, other: object) -> bool:
        ran.append("eq")
        return str.__eq__(self, other)

    def __hash__(self) -> int:
        ran.append("hash")
        return str.__hash__(self)

    def isascii(self) -> bool:
        ran.append("isascii")
        return True


class Whole(int):
    pass


class Items(list[Any]):
    pass


class Mapped(dict[str, Any]):
    pass


# The schemas that have a form, each with a strategy of values that are plainly fine.
Case = tuple[dict[str, Any], st.SearchStrategy[Any]]

_TEXT = st.sampled_from(["", "a", "ä", "\N{GRINNING FACE}", "a 'quote' {x}"])
_FLOATS = st.floats(allow_nan=False, allow_infinity=False)
_SCALARS: list[Case] = [
    ({"type": "string"}, _TEXT),
    ({"type": "integer"}, st.integers()),
    ({"type": "number"}, st.integers() | _FLOATS),
    ({"type": "boolean"}, st.booleans()),
    ({"type": "null"}, st.none()),
    ({"enum": ["a", "it's {x}", 1]}, st.sampled_from(["a", "it's {x}"])),
    ({"type": "string", "const": "ä"}, st.just("ä")),
    ({"type": ["integer", "null"]}, st.integers() | st.none()),
    (
        {"anyOf": [{"type": "integer"}, {"type": "number"}]},
        st.integers() | _FLOATS.filter(lambda x: x % 1 != 0),
    ),
]
_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | _FLOATS | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    max_leaves=6,
)
_OPEN: list[Case] = [
    ({}, _ANY),
    ({"type": "array"}, st.lists(_ANY, max_size=3)),
    ({"type": "object"}, st.dictionaries(st.sampled_from(NAMES), _ANY, max_size=3)),
]


@st.composite
def _arrays(draw: st.DrawFn, inner: st.SearchStrategy[Case]) -> Case:
    schema, values = draw(inner)
    return {"type": "array", "items": schema}, st.lists(values, max_size=4)


@st.composite
def _objects(draw: st.DrawFn, inner: st.SearchStrategy[Case]) -> Case:
    parts = draw(st.dictionaries(st.sampled_from(NAMES), inner, max_size=4))
    required = draw(st.lists(st.sampled_from(sorted(parts)), unique=True)) if parts else []
    others = draw(st.none() | inner)
    named = st.fixed_dictionaries(
        {name: parts[name][1] for name in required},
        optional={name: part[1] for name, part in parts.items() if name not in required},
    )
    values: st.SearchStrategy[Any] = named.flatmap(lambda known: st.permutations(list(known.items()))).map(
        dict
    )
    if others is not None:
        more = st.dictionaries(st.sampled_from(["x", "y", "ü"]), others[1], max_size=2)
        values = st.tuples(values, more, st.booleans()).map(
            lambda drawn: {**drawn[1], **drawn[0]} if drawn[2] else {**drawn[0], **drawn[1]}
        )
    return {
        "type": "object",
        "properties": {name: part[0] for name, part in parts.items()},
        "required": required,
        "additionalProperties": False if others is None else others[0],
    }, values


@st.composite
def _unions(draw: st.DrawFn, inner: st.SearchStrategy[Case]) -> Case:
    branches = [
        *draw(st.lists(st.sampled_from(_SCALARS[:1] + _SCALARS[3:5]), max_size=2)),
        draw(_arrays(inner)),
        draw(_objects(inner)),
    ]
    branches = draw(st.permutations(branches))
    return {"anyOf": [schema for schema, _ in branches]}, st.one_of([values for _, values in branches])


cases: st.SearchStrategy[Case] = st.recursive(
    st.sampled_from(_SCALARS) | st.sampled_from(_OPEN),
    lambda inner: _arrays(inner) | _objects(inner) | _unions(inner),
    max_leaves=6,
)

_TRICKS: list[Callable[[Any], Any]] = [
    lambda _: Text("a"),
    lambda _: Whole(1),
    lambda _: Items(),
    lambda _: Mapped(a=1),
    lambda _: ("a",),
    lambda _: float("nan"),
    lambda _: float("inf"),
    lambda _: 1.0,
    lambda _: True,
    lambda _: 10**700,
    lambda _: "\ud83d\ude00",
    lambda _: "a\udc00",
    lambda _: "b",
    lambda _: None,
    lambda _: [],
    lambda _: {},
    lambda _: {"\ud83d\ude00": 1, "\N{GRINNING FACE}": 2},
    lambda _: {"\ud83d\ude00": 1},
    lambda _: {"\ud800": 1},
    lambda _: {1: 1},
    lambda _: {Text("a"): 1},
    lambda value: {"extra": value},
    lambda value: [value],
    lambda value: [value, value],
    lambda value: freeze_value(value, depth=DEPTH),
    lambda value: FrozenList([1]),
]


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every container in a tree, with a key or index of it."""
    found: list[tuple[Any, Any]] = []
    pending: list[Any] = [value]
    while pending:
        container = pending.pop()
        kind: Any = kind_of(container)
        if kind is dict or kind is list:
            for key, each in container.items() if kind is dict else enumerate(container):
                found.append((container, key))
                pending.append(each)
    return found


@st.composite
def nearly_valid(draw: st.DrawFn) -> tuple[dict[str, Any], Any]:
    """A schema, and a value for it to which something was done, or nothing."""
    schema, values = draw(cases)
    root = [draw(values)]
    for _ in range(draw(st.integers(0, 2))):
        container, key = draw(st.sampled_from([*places(root)]))
        trick = draw(st.sampled_from([*_TRICKS, "cycle", "drop", "share", "swap"]))
        if trick == "cycle":
            container[key] = container
            break
        if trick == "drop" and container is not root:
            del container[key]
        elif trick == "share":
            other, index = draw(st.sampled_from(places(root)))
            if not any(each is container for each, _ in places([other[index]])):
                container[key] = other[index]
        elif trick == "swap" and kind_of(container) is dict:
            container[Text(key)] = container.pop(key)
        elif callable(trick):
            container[key] = trick(container[key])
    return schema, root[0]


def shape_of(value: Any) -> Any:
    """Everything that can be told of a value: types, order of keys, and which containers are one object."""
    numbers: dict[int, int] = {}

    def told(value: Any) -> Any:
        kind: Any = kind_of(value)
        if kind in (dict, list, FrozenDict, FrozenList):
            if id(value) in numbers:
                return numbers[id(value)]
            numbers[id(value)] = len(numbers)
            members = value.items() if kind is dict or kind is FrozenDict else enumerate(value)
            return kind, [(key, told(each)) for key, each in members]
        return kind, repr(value) if kind is not int else hex(value)

    return told(value)


def objects_in(value: Any) -> list[Any]:
    """All objects in a value, in order."""
    kind: Any = kind_of(value)
    if kind in (dict, FrozenDict):
        return [value, *(each for member in value.values() for each in objects_in(member))]
    return [each for member in value for each in objects_in(member)] if kind in (list, FrozenList) else []


def outcome(take: Callable[[], Any]) -> Any:
    try:
        return take()
    except (NotLossless, Violations) as error:
        return type(error), str(error), getattr(error, "items", None)


def fails(answer: Any) -> bool:
    return type(answer) is tuple


def taking_of(schema: dict[str, Any]) -> Taking:
    form = form_of(FrozenDict(schema))
    assert form is not None
    return Taking(form)


@pytest.mark.slow
@given(cases.flatmap(lambda case: st.tuples(st.just(case[0]), case[1])))
def test_what_is_plainly_fine_is_taken(case: tuple[dict[str, Any], Any]) -> None:
    schema, value = case
    taken: Any = taking_of(schema).take(value, depth=DEPTH)

    assert taken is not GAVE_UP
    assert shape_of(taken) == shape_of(freeze_arguments(value, depth=DEPTH))
    assert shape_of(taking_of(schema).copy(taken)) == shape_of(value)
    assert taking_of(schema).unwrapped(taken) == taken
    assert list(map(list, objects_in(taking_of(schema).unwrapped(taken)))) == [*map(list, objects_in(value))]
    assert taking_of(schema).take(taken, depth=DEPTH) is taken


@pytest.mark.slow
@given(nearly_valid(), st.sampled_from([1, 2, 3, 4, DEPTH]))
def test_arguments_are_taken_as_the_generic_code_would_have_it_or_not_at_all(
    case: tuple[dict[str, Any], Any], depth: int
) -> None:
    schema, raw = case
    note(f"{raw!r}")
    fast = plan_schema_arguments(schema)
    slow = attrs.evolve(fast, taking=None)
    ran.clear()
    taken: Any = fast.take(raw, depth=depth)

    assert ran == []
    generic = outcome(lambda: slow.bind(freeze_arguments(raw, depth=depth)))
    if taken is not GAVE_UP:
        assert not fails(generic)
        assert shape_of(taken) == shape_of(generic)
        assert fast.bind(taken, taken=True) is taken
    frozen = outcome(lambda: freeze_arguments(raw, depth=depth))
    if not fails(frozen):
        again: Any = outcome(lambda: fast.bind(frozen))
        assert again is frozen or again == generic


@pytest.mark.slow
@given(nearly_valid(), st.sampled_from([1, 2, 3, 4, DEPTH]))
def test_values_are_accepted_as_the_generic_code_would_have_it(
    case: tuple[dict[str, Any], Any], depth: int
) -> None:
    schema, value = case
    note(f"{value!r}")
    fast = plan_schema_output(schema)
    slow = attrs.evolve(fast, taking=None)
    accepted = outcome(lambda: fast.accept(value, depth=depth))
    generic = outcome(lambda: slow.accept(value, depth=depth))

    if fails(generic):
        assert accepted == generic
    else:
        assert shape_of(accepted) == shape_of(generic)
        assert fast.text(accepted) == slow.text(generic) == to_json_text(generic)
        copy = taking_of(schema).copy(accepted)
        assert copy == accepted
        assert not any(map(is_frozen, (copy, *(container for container, _ in places(copy)))))


class Colour(Enum):
    RED = "red"


class Place(TypedDict, total=False):
    city: str
    at: list[float]


@dataclasses.dataclass
class Point:
    x: int
    name: str | None = None


TYPES: list[Any] = [
    str,
    int,
    float,
    bool,
    None,
    int | float,
    float | int,
    str | None,
    Literal["a", "b"],
    Literal["a", 1] | None,
    Colour,
    Place,
    Point,
    JsonValue,
    dict[str, int | float],
    list[list[float]],
    list[int] | None,
    list[int] | list[float],
    list[Place] | Place | int,
    Point | None,
    list[Point],
    list[JsonValue],
]
_JSON: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from(
        ["a", "b", "red", 1, 1.0, 2.5, 0, -0.0, True, None, "ä", "\ud83d\ude00", "\udc00", Text("a")]
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["city", "at", "x", "name", "z"]), inner, max_size=3)
        | st.just(freeze_arguments([1, {"city": "a"}], depth=DEPTH))
        | inner.map(lambda each: [each, each])
    ),
    max_leaves=6,
)
_PLACES = st.fixed_dictionaries({}, optional={"city": _TEXT, "at": st.lists(_FLOATS, max_size=2)})
_POINTS = st.fixed_dictionaries({"x": st.integers()}, optional={"name": _TEXT | st.none()})
_TYPED = _JSON | _PLACES | _POINTS | st.lists(_PLACES | _POINTS | st.lists(_FLOATS), max_size=2)


def typed(first: Any, second: Any) -> Callable[..., Any]:
    def body(first: Any, second: Any = None) -> Any: ...

    body.__annotations__ = {"first": first, "second": second, "return": first}
    return body


PLANS: list[tuple[ArgumentsPlan, OutputPlan]] = [
    (plan_arguments(typed(first, second)), plan_output(typed(first, second)))
    for first, second in zip(TYPES, [*TYPES[1:], str], strict=True)
]


@pytest.mark.slow
@given(
    st.sampled_from(PLANS),
    st.fixed_dictionaries({"first": _TYPED}, optional={"second": _TYPED, "third": _JSON}),
)
def test_a_typed_body_receives_the_same_on_both_ways(
    plans: tuple[ArgumentsPlan, OutputPlan], raw: dict[str, Any]
) -> None:
    fast, _ = plans
    slow = attrs.evolve(fast, taking=None)
    taken: Any = fast.take(raw, depth=DEPTH)
    frozen: Any = outcome(lambda: freeze_arguments(raw, depth=DEPTH))
    generic: Any = frozen if fails(frozen) else outcome(lambda: slow.bind(frozen))

    if taken is not GAVE_UP:
        bound: Any = fast.bind(taken, taken=True)
        assert shape_of(taken) == shape_of(frozen)
        assert {name: shape_of(bound[name]) for name in bound} == {
            name: shape_of(generic[name]) for name in generic
        }
        assert not any(map(is_frozen, (bound, *(each for each, _ in places(bound)))))
    if not fails(frozen):
        again: Any = outcome(lambda: fast.bind(frozen))
        assert again == generic
        assert fails(again) or {name: shape_of(again[name]) for name in again} == {
            name: shape_of(generic[name]) for name in generic
        }


@pytest.mark.slow
@given(st.sampled_from(PLANS), _TYPED | st.sampled_from([Point(1), Point(2, "a"), Colour.RED, [Point(3)]]))
def test_the_value_of_a_typed_body_is_the_same_on_both_ways(
    plans: tuple[ArgumentsPlan, OutputPlan], value: Any
) -> None:
    _, fast = plans
    slow = attrs.evolve(fast, taking=None)
    accepted = outcome(lambda: fast.accept(value, depth=DEPTH))
    generic = outcome(lambda: slow.accept(value, depth=DEPTH))

    assert fails(generic) == fails(accepted)
    if fails(generic):
        assert accepted == generic
    else:
        assert shape_of(accepted) == shape_of(generic)
        assert fast.text(accepted) == slow.text(generic)


ROWS: dict[str, Any] = {
    "type": "array",
    "items": {"type": "object", "properties": {"tags": {"type": "array", "items": {"type": "string"}}}},
}


BOOK: dict[str, Any] = {
    "type": "object",
    "properties": {
        "title": {"type": "string"},
        "pages": {"type": "integer"},
        "price": {"type": "number"},
        "lent": {"type": "boolean"},
        "kind": {"enum": ["novel", "poems"]},
        "by": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
        "shelf": {"type": ["object", "null"], "properties": {"row": {"type": "integer"}}},
        "notes": {},
        "marks": {"type": "array"},
        "at": {"anyOf": [{"type": "integer"}, {"type": "number"}]},
    },
    "required": ["title"],
    "additionalProperties": False,
}


def book(**fields: Any) -> dict[str, Any]:
    return {"title": "T", **fields}


@pytest.mark.parametrize(
    "value",
    [
        book(),
        {"pages": 1, "title": "ä"},
        book(price=1, pages=10**700),
        book(price=1.0, lent=True, kind="poems"),
        book(by="a"),
        book(by=["a", "b"]),
        book(shelf=None),
        book(shelf={"row": 1, "ä": [{}], "x": 1.5}),
        book(notes={"a": [1, {}]}, marks=[[], {"a": "ä"}]),
        book(notes=None, at=1),
        book(at=1.5),
    ],
)
def test_a_value_that_is_plainly_fine_is_taken_and_copied(value: dict[str, Any]) -> None:
    taking = taking_of(BOOK)
    taken: Any = taking.take(value, depth=DEPTH)

    assert shape_of(taken) == shape_of(freeze_arguments(value, depth=DEPTH))
    assert shape_of(taking.copy(taken)) == shape_of(value)
    assert taking.take(taken, depth=DEPTH) is taken
    assert taking.admits(taken)
    assert to_json_text(taking.unwrapped(taken)) == to_json_text(value)


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        Mapped(title="T"),
        book(title=1),
        book(title=Text("a")),
        book(title="\ud83d\ude00"),
        book(pages=1.0),
        book(pages=True),
        book(pages=Whole(1)),
        book(price=float("nan")),
        book(price=float("-inf")),
        book(price=float("inf")),
        book(price=True),
        book(lent=1),
        book(kind="prose"),
        book(kind=Text("novel")),
        book(by=None),
        book(by=("a",)),
        book(by=[1]),
        book(by=Items()),
        book(by=FrozenList(["a"])),
        book(shelf={"row": "1"}),
        book(shelf={"\udc00": 1}),
        book(shelf=[]),
        book(marks={}),
        book(marks=None),
        book(notes={1: 1}),
        book(notes=float("nan")),
        book(notes=("a",)),
        book(at=1.0),
        book(at=float("inf")),
        book(at=float("-inf")),
        book(at=float("nan")),
        book(other=1),
    ],
)
def test_a_value_that_is_not_plainly_fine_is_left_to_the_generic_code(value: Any) -> None:
    ran.clear()

    assert taking_of(BOOK).take(value, depth=DEPTH) is GAVE_UP
    assert ran == []


def test_a_frozen_value_is_taken_for_what_it_is_or_left_to_the_generic_code() -> None:
    taking = taking_of(BOOK)
    fine, short, more = (FrozenDict(value) for value in (book(by=["a"]), {}, book(other=1)))

    assert taking.take(fine, depth=DEPTH) is fine
    assert [taking.admits(value) for value in (fine, short, more)] == [True, False, False]
    assert taking.take(short, depth=DEPTH) is GAVE_UP
    assert taking.admits(FrozenDict(book(by={"a": "b"}))) is False


def test_what_a_body_is_given_lacks_what_its_signature_does_not_name() -> None:
    plan, _ = PLANS[0]
    taken: Any = plan.take({"first": "a", "third": [1], "second": 2}, depth=DEPTH)

    assert taken == {"first": "a", "third": [1], "second": 2}
    assert plan.bind(taken, taken=True) == {"first": "a", "second": 2}
    assert plan.bind(FrozenDict({"first": "a", "third": 1})) == {"first": "a"}


def test_a_class_of_the_author_is_built_of_what_was_taken() -> None:
    def move(to: Point, colour: Colour) -> None: ...

    plan = plan_arguments(move)
    taken: Any = plan.take({"to": {"x": 1}, "colour": "red"}, depth=DEPTH)

    assert plan.bind(taken, taken=True) == {"to": Point(1), "colour": Colour.RED}


def test_a_container_that_occurs_twice_is_left_to_those_who_make_one_copy_of_it() -> None:
    tags = ["new"]
    taking = taking_of(ROWS)

    assert taking.take([{"tags": tags}, {"tags": tags}], depth=DEPTH) is GAVE_UP
    assert taking.take([{"tags": tags, "x": tags}], depth=DEPTH) is GAVE_UP
    assert taking.take([{"x": tags}, {"x": tags}], depth=DEPTH) is GAVE_UP
    assert taking.take([{"tags": tags, "x": [*tags]}], depth=DEPTH) == [{"tags": tags, "x": tags}]


def test_a_container_in_itself_is_left_to_those_who_refuse_it() -> None:
    row: dict[str, Any] = {}
    rows: list[Any] = [row]
    marks: list[Any] = []
    shelf: dict[str, Any] = {}
    looped = book(shelf=shelf)

    for key in ("tags", "x"):
        for whole in (row, rows):
            row.clear()
            row[key] = whole
            assert taking_of(ROWS).take(rows, depth=DEPTH) is GAVE_UP
    for whole in (rows, marks):
        marks[:] = [whole]
        rows[:] = [marks]
        assert taking_of(ROWS).take(rows, depth=DEPTH) is GAVE_UP
        assert taking_of(BOOK).take(book(marks=rows), depth=DEPTH) is GAVE_UP
    for container in (shelf, looped):
        container["notes"] = looped
        assert taking_of(BOOK).take(looped, depth=DEPTH) is GAVE_UP
        del container["notes"]


def test_the_containers_that_text_is_written_of_are_plain() -> None:
    named = {"type": "object", "properties": {"rows": ROWS, "book": {"anyOf": [BOOK, {"type": "null"}]}}}
    value = {"rows": [{"tags": ["a"]}], "book": book(by=["b"], shelf={}), "x": [1]}
    taken: Any = taking_of(named).take(value, depth=DEPTH)
    unwrapped = taking_of(named).unwrapped(taken)

    assert unwrapped == value
    assert list(map(type, objects_in(unwrapped))) == [dict, dict, dict, dict]
    assert [type(each) for each in (unwrapped["rows"], unwrapped["rows"][0]["tags"])] == [list, list]
    # What has no form is not looked into.
    assert unwrapped["x"] is taken["x"]
    assert [type(each) for each in objects_in(taking_of({}).unwrapped(taken))] == [FrozenDict] * 4


def test_the_depth_that_is_admitted_counts_what_has_a_form_and_what_has_none() -> None:
    taking = taking_of(ROWS)
    value: Any = [{"tags": ["a"], "x": [[[]]]}]
    small: Any = [{}]
    frozen = freeze_arguments(value, depth=5)

    assert taking.take(value, depth=5) == value
    assert taking.take(value, depth=4) is GAVE_UP
    assert taking.take(frozen, depth=5) is frozen
    assert taking.take(frozen, depth=4) is GAVE_UP
    assert taking.take(small, depth=3) == small
    assert taking.take(small, depth=2) is GAVE_UP


@pytest.mark.parametrize("key", ["tags", "x"])
def test_no_code_of_a_key_runs_even_where_keys_would_be_compared(key: str) -> None:
    # A dict with gaps, whose copy is made by inserting, and two keys with one hash.
    sly: dict[str, Any] = {str(number): 1 for number in range(20)}
    sly[Text(key)] = ["a"]
    for number in range(20):
        del sly[str(number)]
    ran.clear()

    assert taking_of(ROWS).take([sly], depth=DEPTH) is GAVE_UP
    assert ran == []


def test_arguments_that_another_plan_took_are_checked() -> None:
    plan = plan_schema_arguments(ROWS)
    other = plan_schema_arguments({"type": "object"})
    taken: Any = other.take({"rows": 1}, depth=DEPTH)

    with pytest.raises(Violations, match="must be an array"):
        plan.bind(taken)


@dataclasses.dataclass
class Spot:
    x: int


def test_what_a_class_keeps_from_the_fast_path_is_bound_by_the_generic_code() -> None:
    def work(spot: Spot, counts: dict[str, int], often: int = 3) -> None: ...

    plan = plan_arguments(work)
    taken = freeze_arguments({"spot": {"x": 1}, "counts": {"a": 2}}, depth=DEPTH)

    assert plan.bind(taken) == {"spot": Spot(1), "counts": {"a": 2}}
    assert type(plan.bind(taken)["counts"]) is dict


def test_a_frozen_value_within_any_json_keeps_to_the_depth() -> None:
    def work(anything: JsonValue) -> None: ...

    deep = FrozenDict({"a": {"b": {"c": 1}}})
    plan = plan_arguments(work)

    assert plan.take({"anything": deep}, depth=4) == {"anything": deep}
    assert plan.take({"anything": deep}, depth=3) is GAVE_UP


def test_any_json_that_is_deep_is_left_to_those_who_need_no_stack_unless_it_is_frozen() -> None:
    def work(anything: JsonValue) -> None: ...

    deep: Any = 1
    for _ in range(100):
        deep = [deep]
    frozen = freeze_arguments(deep, depth=DEPTH)
    plan = plan_arguments(work)

    assert plan.take({"anything": deep}, depth=DEPTH) is GAVE_UP
    assert plan.take({"anything": frozen}, depth=101) == {"anything": frozen}
    assert plan.take({"anything": frozen}, depth=100) is GAVE_UP


def test_a_value_that_is_frozen_already_is_held_to_a_given_schema() -> None:
    plan = plan_schema_output({"type": "object", "properties": {"a": {"type": "integer"}}})
    value = FrozenDict({"a": 1})

    assert plan.accept(value, depth=DEPTH) is value
    with pytest.raises(Violations):
        plan.accept(FrozenDict({"a": "b"}), depth=DEPTH)


def test_a_value_that_shares_containers_is_held_to_a_given_schema_all_the_same() -> None:
    inner = {"type": "object", "properties": {"a": {"type": "integer"}}}
    plan = plan_schema_output({"type": "object", "properties": {"x": inner, "y": inner}})
    shared = {"a": 1}
    value = plan.accept({"x": shared, "y": shared}, depth=DEPTH)

    assert value == {"x": {"a": 1}, "y": {"a": 1}}
    assert isinstance(value, FrozenDict)
    assert value["x"] is value["y"]
