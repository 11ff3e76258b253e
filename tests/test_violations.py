"""What is said about a value that is wrong: whole while it is ordinary, and bounded whatever it is."""

import itertools
import pickle
from collections.abc import Callable
from typing import Any, Literal

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_tools._errors import ToolError
from trio_tools._json import freeze_arguments, json_equal
from trio_tools._schema import Violations, plan_arguments, plan_schema_arguments, plan_schema_output
from trio_tools._text import clipped, shown, to_canonical_text

LIMIT = 60_000
"""What no message may exceed: 50 000 characters of lines, what joins them, and the count of the rest."""


def violations(plan: Any, value: object) -> Violations:
    with pytest.raises(Violations) as caught:
        plan.bind(freeze_arguments(value, depth=10_000))
    return caught.value


def given_schema(**schema: object) -> Any:
    return plan_schema_arguments(schema)


def nested(levels: int, innermost: object, key: str) -> Any:
    for _ in range(levels):
        innermost = {key: innermost}
    return innermost


@pytest.mark.rule("JS-5")
def test_a_thousand_violations_are_all_reported() -> None:
    plan = given_schema(items={"type": "integer"})

    items = violations(plan, ["x"] * 1000).items

    assert items == tuple(f'"[{index}]" must be an integer' for index in range(1000))


@pytest.mark.rule("JS-5")
@pytest.mark.parametrize("count", [2_500, 5_000])
def test_what_would_be_too_long_to_read_is_counted(count: int) -> None:
    def fn(p: list[int]) -> None: ...

    listed = given_schema(properties={"p": {"items": {"type": "integer"}}})
    for plan in (listed, plan_arguments(fn)):
        *items, last = violations(plan, {"p": ["x"] * count}).items

        assert items == [f'"p[{index}]" must be an integer' for index in range(len(items))]
        assert last == f"... and {count - len(items)} more"
        assert len("; ".join(items)) > 40_000


@pytest.mark.rule("JS-5")
def test_what_a_schema_says_is_said_of_each_value_alike() -> None:
    plan = given_schema(items={"enum": ["a"], "patternProperties": {"^x": {"type": "null"}}})

    assert violations(plan, ["b", "a", {"x": 1}, {"xx": 2}]).items == (
        '"[0]" must be one of ["a"]',
        '"[2]" must be one of ["a"]',
        '"[2].x" must be null',
        '"[3]" must be one of ["a"]',
        '"[3].xx" must be null',
    )


def test_violations_that_read_alike_are_told_and_counted_once() -> None:
    twice = {"items": {"type": "integer"}}
    plan = given_schema(allOf=[twice, {**twice, "title": "another"}])

    assert violations(plan, ["x"]).items == ('"[0]" must be an integer',)


CHOICES: Any = Literal[tuple(f"option {number} of very many" for number in range(2000))]


def takes(annotation: Any) -> Any:
    def fn(p: Any) -> None: ...

    fn.__annotations__["p"] = annotation
    return plan_arguments(fn)


DEEP: dict[str, object] = {"additionalProperties": {"$ref": "#"}, "type": "object"}


@pytest.mark.rule("JS-5", "BD-2")
@pytest.mark.parametrize(
    ("plan", "value"),
    [
        (takes(CHOICES), {"p": "x"}),
        (takes(list[CHOICES]), {"p": ["x"] * 1000}),
        (given_schema(enum=["x" * 100_000]), "y"),
        (given_schema(const="x" * 100_000), "y"),
        (given_schema(additionalProperties=False), {"k" * 100_000: 1}),
        (given_schema(additionalProperties=False), {f"{'k' * 5000}{n}": 1 for n in range(1000)}),
        (given_schema(propertyNames={"maxLength": 3}), {"k" * 100_000: 1}),
        (given_schema(required=["k" * 100_000]), {}),
        (given_schema(**DEEP), nested(5000, 1, "k" * 100)),
        (given_schema(maxLength=3), "x" * 100_000),
        (given_schema(format="date"), "x" * 100_000),
        (given_schema(pattern="x" * 10_000), "y"),
        (given_schema(type="string"), 10**100_000),
        (given_schema(maximum=1), 10**100_000),
    ],
    ids=itertools.count(),
)
def test_no_message_is_longer_than_can_be_read(plan: Any, value: object) -> None:
    refused = violations(plan, value)

    assert 0 < len("; ".join(refused.items)) < LIMIT
    assert str(refused) == "; ".join(refused.items)


@pytest.mark.rule("JS-5")
def test_the_words_of_what_is_refused_survive_a_long_path() -> None:
    (item,) = violations(given_schema(**DEEP), nested(2600, 1, "k")).items

    assert item.startswith('"k.k.k')
    assert item.endswith('.k" must be an object')
    assert " ... " in item


def in_list(inner: object) -> object:
    return {"kind": "b", "args": [inner]}


def in_object(inner: object) -> object:
    return {"args": inner}


def node(kind: str) -> dict[str, object]:
    return {
        "type": "object",
        "properties": {"args": {"type": "array", "items": {"$ref": "#/$defs/node"}}, "kind": {"const": kind}},
        "required": ["kind", "args"],
    }


def conjunction(*parts: object) -> dict[str, object]:
    return {"$defs": {"node": {"allOf": [*parts]}}, "$ref": "#/$defs/node"}


CHILD: dict[str, object] = {"type": "object", "properties": {"args": {"$ref": "#/$defs/node"}}}
TREES: list[tuple[str, object, Callable[[object], object]]] = [
    (
        '"arguments" must match exactly one oneOf branch (matched 0)',
        {"$defs": {"node": {"oneOf": [node("a"), node("b"), node("c")]}}, "$ref": "#/$defs/node"},
        in_list,
    ),
    (
        '"arguments" must match at least one anyOf branch',
        {"$defs": {"node": {"anyOf": [node("a"), node("b"), {**node("b"), "title": "again"}]}}}
        | {"$ref": "#/$defs/node"},
        in_list,
    ),
    (
        f'"{".".join(["args"] * 100)}" must be an object',
        conjunction(CHILD, {**CHILD, "title": "again"}),
        in_object,
    ),
    (
        '"arguments" is valid under a schema that is excluded with not',
        {"$defs": {"node": {"not": {"anyOf": [node("a"), node("b")]}}}, "not": {"$ref": "#/$defs/node"}},
        in_list,
    ),
]


@pytest.mark.rule("JS-5")
@pytest.mark.parametrize(("words", "schema", "wrap"), TREES)
def test_branches_that_share_their_parts_take_no_time_to_explain(
    words: str, schema: object, wrap: Callable[[object], object]
) -> None:
    value: object = 5
    for _ in range(100):
        value = wrap(value)

    assert violations(plan_schema_arguments(schema), value).items == (words,)


@pytest.mark.rule("JS-5")
def test_what_was_judged_on_trust_is_judged_again() -> None:
    # Within `a`, `b` is asked while `a` is still open, and takes it for granted; asked by itself it must not.
    schema = {
        "$defs": {
            "a": {"allOf": [{"$ref": "#/$defs/b"}, {"type": "string"}]},
            "b": {"allOf": [{"$ref": "#/$defs/a"}]},
        },
        "oneOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}, True],
    }

    assert plan_schema_arguments(schema).bind(1) == 1
    assert violations(plan_schema_arguments(schema), "x").items == (
        '"arguments" must match exactly one oneOf branch (matched 3)',
    )


@pytest.mark.rule("JS-3")
def test_numbers_of_one_hash_are_compared_at_no_cost() -> None:
    alike = [number * (2**61 - 1) for number in range(5_000)]
    assert len({hash(number) for number in alike}) == 1
    plan = given_schema(uniqueItems=True, maxItems=1)

    assert violations(plan, alike).items == ('"arguments" has more than 1 items',)
    assert violations(plan, [*alike, alike[-1]]).items == (
        '"arguments" has more than 1 items',
        '"arguments" has non-unique elements',
    )


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.sampled_from([10**30, 1e30, -0.0, 0.5, 1.0, 2.0**70, 2**70, 5e-324])
    | st.sampled_from(["", "1", "1.0", "null", "a", '"a"', "é"])
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner)
)


@pytest.mark.rule("JS-3")
@given(VALUES, VALUES)
def test_canonical_texts_are_equal_exactly_where_values_are(one: Any, other: Any) -> None:
    assert (to_canonical_text(one) == to_canonical_text(other)) is json_equal(one, other)


@pytest.mark.rule("JS-3")
@given(st.data())
def test_a_canonical_text_knows_no_order_of_keys(data: st.DataObject) -> None:
    pairs = data.draw(st.lists(st.tuples(st.text(), VALUES), unique_by=lambda pair: pair[0]))
    shuffled = data.draw(st.permutations(pairs))

    assert to_canonical_text(dict(pairs)) == to_canonical_text(dict(shuffled))


@attrs.frozen
class Picky:
    x: int

    def __attrs_post_init__(self) -> None:
        if self.x == 0:
            raise ValueError("the password is hunter2")
        if self.x == 1:
            raise ToolError("one is taken", code="TAKEN")
        if self.x == 2:
            raise ValueError("x" * 100_000)


def picks(p: Picky, q: list[Picky]) -> None: ...


@pytest.mark.rule("JS-11")
def test_what_an_uncoded_exception_said_can_be_masked() -> None:
    refused = violations(plan_arguments(picks), {"p": {"x": 0}, "q": [{"x": 3}, {"x": 1}, {"x": 0}]})

    assert refused.items == (
        '"p": the password is hunter2',
        '"q[1]": one is taken',
        '"q[2]": the password is hunter2',
    )
    assert refused.masked("hidden") == ('"p": hidden', '"q[1]": one is taken', '"q[2]": hidden')
    assert pickle.loads(pickle.dumps(refused)).masked("hidden") == refused.masked("hidden")


@attrs.frozen
class Checked:
    kind: str = attrs.field(validator=attrs.validators.in_(["a", "b"]))
    size: Any = attrs.field(default=1, validator=attrs.validators.instance_of(int))


class TornError(Exception):
    __notes__ = 5  # type: ignore[assignment]

    def add_note(self, _note: str, /) -> None:
        raise RuntimeError("no")


class UnsaidError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


@attrs.frozen
class Raises:
    what: int

    def __attrs_post_init__(self) -> None:
        noted = StopIteration("stop")
        noted.add_note("whatever the author noted")
        raise (TornError("torn"), UnsaidError(), noted, ExceptionGroup("two", [OSError()]))[self.what]


def builds(p: list[Checked | Raises]) -> None: ...


@pytest.mark.rule("JS-5", "JS-9")
def test_whatever_a_class_of_the_author_raises_is_told_at_its_place() -> None:
    arguments = [{"kind": "c"}, {"kind": "a", "size": "x"}, *({"what": what} for what in range(4))]
    refused = violations(plan_arguments(builds), {"p": arguments})

    assert refused.items == (
        "\"p[0]\": 'kind' must be in ['a', 'b'] (got 'c')",
        "\"p[1]\": 'size' must be <class 'int'> (got 'x' that is a <class 'str'>).",
        '"p[2]": torn',
        '"p[3]": <unprintable UnsaidError>',
        '"p[4]": stop',
        '"p[5]": two (1 sub-exception)',
    )


@pytest.mark.rule("JS-11")
def test_masking_leaves_the_words_of_the_library() -> None:
    refused = violations(plan_arguments(picks), {"p": 1, "q": ["x"] * 3000})

    assert refused.masked("hidden") == refused.items
    assert refused.items[-1].endswith(" more")


def test_the_text_of_the_authors_own_exception_is_bounded_too() -> None:
    refused = violations(plan_arguments(picks), {"p": {"x": 2}, "q": [{"x": 2}] * 20})

    assert len(str(refused)) < LIMIT
    assert refused.items[-1].startswith("... and ")


def test_a_given_output_is_held_to_the_same_bounds() -> None:
    with pytest.raises(Violations) as caught:
        plan_schema_output({"items": {"type": "integer"}}).accept(["x"] * 3000, depth=9)

    assert len(str(caught.value)) < LIMIT


@given(st.text(), st.integers(20, 60))
def test_a_clipped_text_keeps_head_and_tail(text: str, limit: int) -> None:
    cut = clipped(text, limit)

    assert len(cut) <= limit
    if len(text) <= limit:
        assert cut == text
    else:
        head, tail = cut.split(" ... ", 1)
        assert text.startswith(head)
        assert text.endswith(tail[-3:])


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


class Lying(str):
    __slots__ = ()

    def __repr__(self) -> str:
        return Lying("lying")

    def __len__(self) -> int:
        raise RuntimeError("no")

    def __getitem__(self, _index: Any) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, "1"),
        (True, "True"),
        ("a'b", '"a\'b"'),
        (None, "None"),
        (Unprintable(), "<unprintable Unprintable>"),
        (Lying("x"), "lying"),
    ],
    ids=range(6),
)
def test_anything_can_be_shown(value: object, text: str) -> None:
    assert shown(value) == text


@pytest.mark.parametrize("value", ["x" * 1000, 10**5000, [1] * 1000, -(10**100_000)], ids=range(4))
def test_what_is_shown_is_short(value: object) -> None:
    assert len(shown(value)) == 200
