"""How signatures are read: where names are looked up, and what an author is told at definition."""

from __future__ import annotations

import abc
import dataclasses
import enum
import functools
import itertools
import sys
import types
import typing
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, NewType, ParamSpec, TypedDict, TypeVar

import attrs
import jsonschema
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


NOWHERE: Any = "Nowhere"
UNRESOLVED: Any = typing.Optional[NOWHERE]  # noqa: UP045


def defaults_to(default: Any) -> Callable[..., object]:
    def fn(p: int = default) -> None: ...

    return fn


def deep(levels: int) -> Any:
    annotation: Any = int
    for _ in range(levels):
        annotation = list[annotation]
    return annotation


def unbound(self: Any) -> None: ...
def without_context(ctx: Any) -> None: ...
def wraps_itself(a: int) -> None: ...


for name, fn in {"self": unbound, "ctx": without_context}.items():
    del fn.__annotations__[name]
setattr(wraps_itself, "__wrapped__", wraps_itself)  # noqa: B010

Parameters = ParamSpec("Parameters")


class Objects(enum.Enum):
    A = object()


class Raising(enum.Enum):
    A = 1

    @property
    def value(self) -> int:
        raise RuntimeError("no")


@dataclasses.dataclass(init=False)
class OwnConstructor:
    x: int

    def __init__(self) -> None:
        self.x = 1


@dataclasses.dataclass(init=False)
class NeedsOptional:
    x: int = 1

    def __init__(self, x: int) -> None:
        self.x = x


@dataclasses.dataclass
class Abstract(abc.ABC):
    x: int

    @abc.abstractmethod
    def method(self) -> None: ...


@dataclasses.dataclass
class HoldsSelf:
    x: typing.Self


class Protocols(typing.Protocol):
    x: int


class Foreign:
    """Stands for what another framework checks values by."""

    documentation = "not read"


Foreign.__module__ = "pydantic.fields"


class Hostile:
    def __eq__(self, _other: object) -> bool:
        raise RuntimeError("no")

    def __hash__(self) -> int:
        raise RuntimeError("no")


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


class Meta(type):
    def __eq__(cls, _other: object) -> bool:
        raise RuntimeError("no")

    __hash__ = type.__hash__


class HostileMeta(metaclass=Meta):
    pass


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
        (takes(Callable), ["unsupported"]),
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
        (takes(WithInitVar), ["WithInitVar", "constructor", "'extra'"]),
        (takes(OwnConstructor), ["OwnConstructor", "constructor", "'x'"]),
        (takes(NeedsOptional), ["NeedsOptional", "constructor", "'x'"]),
        (takes(Abstract), ["Abstract", "abstract"]),
        (takes(Unannotated), ['field "x"', "no annotation"]),
        (takes(T), ["type variable"]),
        (takes(Pair), ["type variable"]),
        (takes(Ellipsis), ["unsupported"]),
        (takes([int]), ["unsupported"]),
        (takes(3), ["3"]),
        (takes("Decimal"), ["'Decimal'", "must exist when the tool is defined"]),
        (takes("list["), ["cannot be resolved"]),
        (takes("1 / 0"), ["cannot be resolved"]),
        (takes(""), ["cannot be resolved"]),
        (takes("a\0b"), ["cannot be resolved"]),
        (takes("\ud800"), ["cannot be resolved"]),
        (takes("list[" * 3000 + "int" + "]" * 3000), ["cannot be resolved", " ... "]),
        (takes(typing.ForwardRef("Nowhere")), ["'Nowhere'", "cannot be resolved"]),
        (takes(UNRESOLVED), ["'Nowhere'", "cannot be resolved"]),
        (takes(dict[str]), ["dict[str]", "unsupported"]),  # type: ignore[type-arg]
        (takes(dict[str, int, int]), ["dict[str, int, int]", "unsupported"]),  # type: ignore[type-arg]
        (takes(list[int, str]), ["list[int, str]", "unsupported"]),  # type: ignore[type-arg]
        (takes(list[()]), ["list[()]", "unsupported"]),  # type: ignore[type-arg]
        (takes(dict[Any, int]), ["keys are not str"]),
        (takes(dict[Literal["a"], int]), ["keys are not str"]),
        (takes(dict[str | None, int]), ["keys are not str"]),
        (takes(Literal[[1]]), ["unsupported"]),  # type: ignore[valid-type]
        (takes(Literal[{"a": 1}]), ["unsupported"]),  # type: ignore[valid-type]
        (takes(Literal[float("nan")]), ["nan", "no JSON value"]),  # type: ignore[valid-type]
        (takes(Literal["\ud800"]), ["no JSON value"]),
        (takes(Objects), ["Objects.A", "no JSON value"]),
        (takes(enum.Enum), ["Enum", "unsupported"]),
        (takes(Raising), ["cannot be read"]),
        (takes(Annotated[int, "lone \ud800"]), ["description", "lone surrogate"]),
        (takes(Annotated[int, typing_extensions.Doc("\udfff")]), ["description", "lone surrogate"]),
        (takes(list[Annotated[int, "\ud800"]]), ["an item in", "lone surrogate"]),
        (takes(typing.TypedDict("Odd", {"\ud800": int})), ["surrogates", "Odd"]),
        (takes(Annotated[int, Foreign()]), ["would not be checked", "Tool.from_schema"]),
        (takes(list[Annotated[int, "text", Foreign()]]), ["would not be checked"]),
        (defaults_to(Foreign()), ["the default", 'Annotated[T, "text"]']),
        (takes(typing.Required[int]), ["is Required", "TypedDict", "default"]),
        (takes(typing.NotRequired[int]), ["is NotRequired", "default"]),
        (takes(typing_extensions.ReadOnly[int]), ["is ReadOnly"]),
        (takes(list[typing.NotRequired[int]]), ["an item in", "is NotRequired"]),
        (takes(typing.Required), ["unsupported"]),
        (takes(typing.Never), ["without values"]),
        (takes(typing.NoReturn), ["without values"]),
        (takes(typing.Self), ["unsupported"]),
        (takes(typing.ClassVar[int]), ["unsupported"]),
        (takes(typing.Final[int]), ["unsupported"]),
        (takes(dataclasses.InitVar[int]), ["unsupported"]),
        (takes(typing.LiteralString), ["unsupported"]),
        (takes(typing.TypeGuard[int]), ["unsupported"]),
        (takes(typing.Optional), ["unsupported"]),
        (takes(typing.Union), ["unsupported"]),
        (takes(typing.Annotated), ["unsupported"]),
        (takes(typing.Tuple), ["unsupported"]),  # noqa: UP006
        (takes(Parameters), ["unsupported"]),
        (takes(list[VARIABLE]), ["an item in", "type variable"]),
        (takes(NewType("NewBytes", bytes)), ["bytes", "unsupported"]),
        (takes(typing.NamedTuple("Named", [("x", int)])), ["Named", "unsupported"]),
        (takes(Protocols), ["Protocols", "unsupported"]),
        (takes(HoldsSelf), ['field "x"', "Self", "unsupported"]),
        (takes(deep(300)), ["an item in", "recursive", " ... "]),
        (takes(Hostile()), ["cannot be read", ": no"]),
        (takes(list[Hostile()]), ["cannot be read"]),  # type: ignore[misc]
        (takes(Unprintable()), ["<unprintable Unprintable>"]),
        (takes(HostileMeta), ["cannot be read"]),
        (unbound, ['"self"', "of an object, which is bound"]),
        (without_context, ['"ctx"', "ToolContext"]),
        (wraps_itself, ["cannot be read"]),
    ],
    ids=itertools.count(),
)
def test_mistakes_of_an_author_are_told_at_definition(fn: Callable[..., object], words: list[str]) -> None:
    with pytest.raises(DefinitionError) as caught:
        plan_arguments(fn)

    for word in words:
        assert word in str(caught.value)


class Key(StrEnum):
    A = "a"


class Mixed(enum.Enum):
    LIST = [1, {"a": None}]  # noqa: RUF012
    DICT = {"x": 1}  # noqa: RUF012
    ALIAS = LIST


class Inherited(TypedDict):
    must: Annotated[typing.Required[int], "described"]
    may: typing_extensions.ReadOnly[typing.NotRequired[str]]


class Postponed(TypedDict):
    must: int
    may: Annotated[typing_extensions.ReadOnly[typing.NotRequired[str]], "described"]


DESCRIBED: Any = Annotated[typing.NotRequired[str], "described"]  # pyright: ignore[reportInvalidTypeForm]
make_typed_dict: Any = typing.TypedDict
Immediate: Any = make_typed_dict(
    "Immediate",
    {"must": typing.Required[int], "may": DESCRIBED},
    total=False,
)


@dataclasses.dataclass
class OddNames:
    self: int
    fn: int
    cls: int
    kwargs: int
    field_x: int
    _private: int = 0


@dataclasses.dataclass
class ByNameAlone:
    x: int = dataclasses.field(kw_only=True)
    constant: typing.ClassVar[int] = 3
    derived: dataclasses.InitVar[int] = 4


@attrs.define
class Aliased:
    _private: int
    other: int = attrs.field(alias="another")


INTEGER = {"type": "integer"}


@pytest.mark.parametrize(
    ("annotation", "value", "bound"),
    [
        (typing.List, [1, "a"], [1, "a"]),  # noqa: UP006
        (typing.Dict, {"a": 1}, {"a": 1}),  # noqa: UP006
        (dict[Annotated[str, "a name"], int], {"a": 1}, {"a": 1}),
        (dict[NewType("Name", str), int], {"a": 1}, {"a": 1}),
        (NewType("Later", "int"), 1, 1),  # type: ignore[valid-newtype]
        (typing.Optional["int"], None, None),
        (typing.ForwardRef("int"), 1, 1),
        ("  int", 1, 1),
        (Literal[None, 1, "a"], None, None),  # noqa: PYI061
        (Literal[Key.A], "a", Key.A),
        (Mixed, [1, {"a": None}], Mixed.LIST),
        (Mixed, {"x": 1.0}, Mixed.DICT),
        (Literal[10**5000], 10**5000, 10**5000),
        (OddNames, {"self": 1, "fn": 2, "cls": 3, "kwargs": 4, "field_x": 5}, OddNames(1, 2, 3, 4, 5)),
        (ByNameAlone, {"x": 1}, ByNameAlone(x=1)),
        (Aliased, {"private": 1, "another": 2}, Aliased(1, 2)),
        (Inherited, {"must": 1}, {"must": 1}),
        (Postponed, {"must": 1, "may": "x"}, {"must": 1, "may": "x"}),
        (Postponed, {"must": 1}, {"must": 1}),
        (Immediate, {"must": 1}, {"must": 1}),
        (Pair[int], {"left": 1, "right": [2]}, Pair(1, [2])),
        (Annotated[int, "a pair \ud83d\ude00"], 1, 1),
        (Annotated[int, object(), Annotated], 1, 1),
    ],
    ids=itertools.count(),
)
def test_what_is_unusual_and_clear_is_bound(annotation: Any, value: Any, bound: Any) -> None:
    plan = plan_arguments(takes(annotation))

    received: Any = plan.bind(freeze_arguments({"p": value}, depth=9))["p"]
    assert received == bound
    assert type(received) is type(bound)
    schema: Any = plan.schema
    oracle: Any = jsonschema.Draft202012Validator
    oracle.check_schema(thaw(schema))
    oracle(thaw(schema)).validate({"p": value})


@pytest.mark.parametrize("cls", [Inherited, Postponed, Immediate])
def test_qualifiers_of_keys_are_read_wherever_they_stand(cls: Any) -> None:
    schema = properties_of(takes(cls))["p"]

    assert schema["required"] == ["must"]
    assert "described" in [each.get("description") for each in schema["properties"].values()]


def test_a_description_that_is_a_pair_of_surrogates_is_joined() -> None:
    assert properties_of(takes(Annotated[int, "\ud83d\ude00"]))["p"]["description"] == "\U0001f600"


MODERN = """
from dataclasses import dataclass
from typing import TypedDict

type Names = list[str]
type Pairs[K] = dict[str, K]
type Tree = dict[str, Tree]
type Endless[K] = list[Endless[list[K]]]

@dataclass
class Box[K]:
    inside: K
    more: Pairs[K]

class Row[K](TypedDict):
    cell: K

def names(p: Names) -> Names: ...
def pairs(p: Pairs[int]) -> None: ...
def box(p: Box[int]) -> Box[str]: ...
def row(p: Row[Names]) -> None: ...
def tree(p: Tree) -> None: ...
def endless(p: Endless[int]) -> None: ...
def generic[K](p: K) -> K: ...
def local():
    type Here = list[int]
    def fn(p: Here) -> Here: ...
    return fn
"""


@pytest.mark.rule("JS-7")
@pytest.mark.skipif(sys.version_info < (3, 12), reason="the syntax is of Python 3.12")
def test_aliases_and_generics_in_the_syntax_of_today() -> None:
    module = types.ModuleType("modern")
    sys.modules["modern"] = module
    try:
        exec(compile(MODERN, "modern", "exec", dont_inherit=True), vars(module))
        strings = {"type": "array", "items": {"type": "string"}}
        integers = {"type": "object", "additionalProperties": INTEGER}
        assert properties_of(module.names)["p"] == strings
        assert properties_of(module.pairs)["p"] == integers
        assert properties_of(module.box)["p"]["properties"] == {"inside": INTEGER, "more": integers}
        assert properties_of(module.row)["p"]["properties"] == {"cell": strings}
        assert properties_of(module.local())["p"] == {"type": "array", "items": INTEGER}
        for fn, words in {
            module.tree: "recursive",
            module.endless: "recursive",
            module.generic: "type variable",
        }.items():
            with pytest.raises(DefinitionError, match=words):
                plan_arguments(fn)
    finally:
        del sys.modules["modern"]


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
