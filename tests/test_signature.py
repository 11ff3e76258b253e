"""How signatures are read: where names are looked up, and what an author is told at definition."""

from __future__ import annotations

import dataclasses
import enum
import functools
import typing
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, NewType, TypedDict, TypeVar

import attrs
import pytest
import typing_extensions

from trio_tools._errors import DefinitionError
from trio_tools._json import JsonValue, freeze_arguments, thaw
from trio_tools._schema import plan_arguments, plan_output

if TYPE_CHECKING:
    from decimal import Decimal

T = TypeVar("T")
UserId = NewType("UserId", int)
VARIABLE: Any = T
NO_INT: Any = "no int"
LIST_OF_T: Any = list[VARIABLE]


@attrs.frozen
class Module:
    name: str


@dataclasses.dataclass
class Pair(Generic[T]):
    left: T
    right: list[T]


@attrs.frozen
class Tree:
    children: list[Tree]


class Left(TypedDict):
    right: typing.NotRequired[Right]


class Right(TypedDict):
    left: Left


class Total(TypedDict, total=False):
    must: typing.Required[int]
    may: str
    fixed: typing_extensions.ReadOnly[str]


class Flags(enum.Flag):
    A = 1


class Empty(enum.Enum):
    pass


class Tuples(enum.Enum):
    A = (1, 2)


@dataclasses.dataclass
class WithInitVar:
    x: int
    extra: dataclasses.InitVar[int]


Unannotated: Any = attrs.make_class("Unannotated", ["x"])


@attrs.frozen
class JustNull:
    nothing: None


@dataclasses.dataclass
class Computed:
    x: int
    double: int = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.double = 2 * self.x


def properties_of(fn: Callable[..., object], **options: Any) -> Any:
    schema: Any = plan_arguments(fn, **options).schema
    properties: Any = thaw(schema["properties"])
    return properties


def test_names_are_found_in_the_module() -> None:
    def fn(a: Module, b: list[UserId], c: JsonValue) -> None: ...

    properties = properties_of(fn)

    assert properties["a"]["title"] == "Module"
    assert properties["b"] == {"type": "array", "items": {"type": "integer"}}
    assert properties["c"] == {}


def test_names_are_found_in_the_enclosing_functions() -> None:
    @attrs.frozen
    class Outer:
        x: int

    def middle() -> Callable[..., object]:
        @dataclasses.dataclass
        class Inner:
            outer: list[Outer]
            literal: Literal["a"]

        def fn(a: Inner, b: Outer | None) -> Inner: ...

        assert plan_output(fn).schema["title"] == "Inner"
        assert properties_of(fn)["b"]["anyOf"][0]["title"] == "Outer"
        return fn

    fn = middle()

    # Its enclosing function is gone, and with it a name that only an annotation uses.
    with pytest.raises(DefinitionError, match="'Inner'"):
        plan_arguments(fn)


def test_names_are_found_in_closures() -> None:
    def make() -> Callable[..., object]:
        class Kept(enum.Enum):
            A = "a"

        def fn(a: Kept) -> object:
            return Kept.A

        return fn

    assert properties_of(make()) == {"a": {"const": "a"}}


def test_a_closure_that_is_not_complete_is_no_obstacle() -> None:
    def fn(a: int) -> object:
        return later

    assert properties_of(fn) == {"a": {"type": "integer"}}
    later = 1
    assert fn(1) == later


def test_local_names_do_not_leak_into_classes_of_a_module() -> None:
    class Module2(enum.Enum):
        A = "a"

    def fn(a: Pair[Module2], b: Module2) -> None: ...

    assert properties_of(fn)["a"]["properties"]["left"] == {"const": "a"}
    assert properties_of(fn)["a"]["properties"]["right"] == {"type": "array", "items": {"const": "a"}}


def test_generic_classes_nest() -> None:
    def fn(a: Pair[Pair[int]]) -> None: ...

    # An annotation that is no string is one object, whatever its variable stands for.
    generic: Any = Generic
    items: Any = attrs.field(type=LIST_OF_T)
    Nested: Any = attrs.make_class("Nested", {"items": items}, bases=(generic[VARIABLE],))  # noqa: N806

    assert properties_of(takes(Nested[Nested[str]]))["p"]["properties"]["items"]["items"]["properties"] == {
        "items": {"type": "array", "items": {"type": "string"}}
    }
    inner = properties_of(fn)["a"]["properties"]["left"]["properties"]

    assert inner == {"left": {"type": "integer"}, "right": {"type": "array", "items": {"type": "integer"}}}
    bound: Any = plan_arguments(fn).bind(
        freeze_arguments({"a": {"left": {"left": 1, "right": []}, "right": []}}, depth=9)
    )
    assert bound == {"a": Pair(Pair(1, []), [])}


def test_aliases_are_followed() -> None:
    # Not by their own name, for a checker to see no alias in a function.
    make: Any = typing_extensions.TypeAliasType
    alias, generic = (
        make("alias", "list[Module] | None"),
        make("generic", dict[str, VARIABLE], type_params=(VARIABLE,)),
    )

    def fn(a: Any, b: Any, c: Any) -> None: ...

    fn.__annotations__ = {"a": alias, "b": generic[int], "c": typing.List["Module"]}  # noqa: UP006

    properties = properties_of(fn)
    assert properties["a"]["anyOf"][0]["items"]["title"] == "Module"
    assert properties["b"] == {"type": "object", "additionalProperties": {"type": "integer"}}
    assert properties["c"]["items"]["title"] == "Module"


def test_typed_dicts_with_postponed_annotations() -> None:
    def fn(a: Total) -> None: ...

    assert properties_of(fn)["a"] == {
        "title": "Total",
        "type": "object",
        "properties": {"must": {"type": "integer"}, "may": {"type": "string"}, "fixed": {"type": "string"}},
        "required": ["must"],
        "additionalProperties": False,
    }


def test_descriptions() -> None:
    def fn(
        a: Annotated[int, 1, "first", "second"],
        b: Annotated[str, typing_extensions.Doc("documented")],
        c: Annotated[list[Annotated[int, "inner"]], "outer"],
    ) -> None: ...

    properties = properties_of(fn)

    assert properties["a"]["description"] == "first"
    assert properties["b"]["description"] == "documented"
    assert properties["c"] == {
        "type": "array",
        "items": {"type": "integer", "description": "inner"},
        "description": "outer",
    }


def test_a_field_that_the_class_sets_itself_is_read_only() -> None:
    def fn(a: Computed) -> Computed: ...

    assert "double" not in properties_of(fn)["a"]["properties"]
    assert plan_output(fn).accept(Computed(2), depth=9) == {"x": 2, "double": 4}
    assert plan_output(fn).accept({"x": 1}, depth=9) == {"x": 1}


def test_a_field_that_is_annotated_with_none() -> None:
    def fn(a: JustNull) -> None: ...

    assert properties_of(fn)["a"]["properties"] == {"nothing": {"type": "null"}}


def test_every_kind_of_callable_is_read() -> None:
    def plain(a: Module, b: int = 1) -> Module: ...

    @functools.wraps(plain)
    def wrapped(*args: Any, **kwargs: Any) -> Any: ...

    class Holder:
        def method(self, a: Module) -> Module: ...

        @classmethod
        def class_method(cls, a: Module) -> Module: ...

        @staticmethod
        def static_method(a: Module) -> Module: ...

        def __call__(self, a: Module) -> Module: ...

    callables: list[Callable[..., Any]] = [
        plain,
        wrapped,
        functools.partial(plain, b=2),
        functools.partial(functools.partial(wrapped), b=2),
        Holder().method,
        Holder.class_method,
        Holder.static_method,
        Holder(),
    ]
    for fn in callables:
        assert properties_of(fn)["a"]["title"] == "Module"
        assert plan_output(fn).schema["title"] == "Module"


def test_never_returning_is_no_promise_about_values() -> None:
    def fn() -> typing.NoReturn:
        raise ValueError

    assert plan_output(fn).schema == {}


def test_a_default_whose_class_misbehaves_is_no_note() -> None:
    class Evil:
        @property
        def x(self) -> int:
            raise RuntimeError

    @dataclasses.dataclass
    class Torn:
        x: int

    torn = Torn(1)
    del torn.x

    def fn(a: object = Evil(), b: Torn = torn, c: int = NO_INT) -> None: ...

    assert "default" not in properties_of(fn)["b"]
    assert properties_of(fn)["a"] == {}
    assert properties_of(fn)["c"] == {"type": "integer"}


def test_a_default_made_by_a_factory_is_no_note() -> None:
    @dataclasses.dataclass
    class Factory:
        x: list[int] = dataclasses.field(default_factory=list[int])

    def fn(a: Factory) -> None: ...

    assert properties_of(fn)["a"]["properties"] == {"x": {"type": "array", "items": {"type": "integer"}}}
    assert "required" not in properties_of(fn)["a"]


def unannotated(a: Any) -> None: ...


del unannotated.__annotations__["a"]


def positional(a: int, /) -> None: ...


def starred(*a: int) -> None: ...


def double_starred(**a: int) -> None: ...


def takes(annotation: Any) -> Callable[..., object]:
    def fn(p: Any) -> None: ...

    fn.__annotations__["p"] = annotation
    return fn


@pytest.mark.rule("JS-7")
@pytest.mark.parametrize(
    ("fn", "words"),
    [
        (unannotated, ['"a"', "unannotated()", "no annotation"]),
        (positional, ['"a"', "positional-only"]),
        (starred, ['"a"', "starred"]),
        (double_starred, ['"a"', "starred"]),
        (takes(Tree), ["recursive", "Tree"]),
        (takes(Left), ["recursive"]),
        (takes(tuple[int, ...]), ["tuple[int, ...]", "unsupported"]),
        (takes(set), ["set", "unsupported"]),
        (takes(bytes), ["bytes"]),
        (takes(complex), ["complex"]),
        (takes(Callable[[], int]), ["unsupported"]),
        (takes(Iterator[int]), ["unsupported"]),
        (takes(type), ["type"]),
        (takes(type[int]), ["unsupported"]),
        (takes(int | bytes), ["bytes"]),
        (takes(list[tuple[int]]), ["an item in"]),
        (takes(dict[str, set[int]]), ["a value in"]),
        (takes(dict[int, str]), ["keys are not str"]),
        (takes(Flags), ["Flags"]),
        (takes(Empty), ["Empty"]),
        (takes(Literal[b"x"]), ["b'x'", "no JSON value"]),
        (takes(Tuples), ["Tuples.A"]),
        (takes(WithInitVar), ["WithInitVar", '"extra"']),
        (takes(Unannotated), ['field "x"', "no annotation"]),
        (takes(T), ["type variable"]),
        (takes(Pair), ["type variable"]),
        (takes(Ellipsis), ["unsupported"]),
        (takes([int]), ["unsupported"]),
        (takes(3), ["3"]),
        (takes("Decimal"), ["'Decimal'", "must exist when the tool is defined"]),
        (takes("list["), ["cannot be resolved"]),
        (takes("1 / 0"), ["cannot be resolved"]),
    ],
)
def test_mistakes_of_an_author_are_told_at_definition(fn: Callable[..., object], words: list[str]) -> None:
    with pytest.raises(DefinitionError) as caught:
        plan_arguments(fn)

    for word in words:
        assert word in str(caught.value)


@pytest.mark.rule("JS-7")
def test_the_return_annotation_is_held_to_the_same_rules() -> None:
    def recursive() -> Tree: ...

    def unsupported() -> Decimal: ...

    with pytest.raises(DefinitionError, match=r"return annotation of .*recursive"):
        plan_output(recursive)
    with pytest.raises(DefinitionError, match="'Decimal'"):
        plan_output(unsupported)


@pytest.mark.rule("JS-7")
def test_an_alias_that_makes_a_new_type_at_each_turn_is_recursive() -> None:
    @attrs.frozen
    class Growing(Generic[T]):
        more: Growing[list[T]] | None

    def fn(a: Growing[int]) -> None: ...

    with pytest.raises(DefinitionError, match="recursive"):
        plan_arguments(fn)


@pytest.mark.rule("JS-7")
def test_a_class_may_occur_twice_without_being_recursive() -> None:
    def fn(a: Module, b: list[Module | dict[str, Module]]) -> None: ...

    assert properties_of(fn)["b"]["items"]["anyOf"][0]["title"] == "Module"


@pytest.mark.rule("JS-7")
def test_what_has_no_signature_is_refused() -> None:
    without: Any = dict[str, int].update

    with pytest.raises(DefinitionError, match="no signature"):
        plan_arguments(without)
    with pytest.raises(DefinitionError):
        plan_output(without)
