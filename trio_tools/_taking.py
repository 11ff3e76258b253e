"""Taking: a value is checked against a form, copied and frozen in one pass, at full speed.

For each form functions are written out and compiled, which say in line what the generic code finds out by
looking things up: which keys there are, of which types, and what is below them. They only ever say yes. At
anything that is not plainly fine they give up, and the generic code, which has a word for everything,
decides: a lone surrogate, ``1.0`` where an integer is asked for, a container that occurs twice, another type,
a missing key. So there is no result that only this module can give.

As in ``_json``, types are told by ``type(x) is ...`` alone, and a `dict` is copied, and its keys looked up,
only when all of them are known to be exactly `str`: no code of the object under check runs (`MA-3`).
"""

from collections.abc import Callable, Collection, Mapping
from enum import Enum
from functools import cached_property
from itertools import count
from typing import Any, Final, cast, final

from attrs import Factory, define, evolve, frozen

from ._form import AnyForm, ArrayForm, Form, ObjectForm, ScalarForm
from ._json import (
    FrozenDict,
    FrozenList,
    JsonValue,
    fill_dict,
    fill_list,
    freeze_tree,
    height_of,
    is_frozen,
    new_dict,
    new_list,
    thaw,
)

__all__ = ["GAVE_UP", "GaveUp", "Taking"]


class GaveUp(Enum):
    """The answer that is no value."""

    GAVE_UP = "gave up"


GAVE_UP: Final = GaveUp.GAVE_UP


class _GiveUpError(Exception):
    """The value is not plainly fine."""


@final
class Taking:
    """What is compiled of one form, when it is first used: many tools are defined and never called."""

    def __init__(self, form: Form) -> None:
        self._form: Final = form

    def take(self, value: object, *, depth: int) -> JsonValue | GaveUp:
        """Returns the value checked, detached and frozen, as the generic code would, or `GAVE_UP`.

        Keeps `MA-2` to `MA-7`, for arguments and values alike.
        """
        if depth < self._form.height:
            return GAVE_UP
        try:
            if is_frozen(value):
                self._check(value, depth)
                return value
            return self._take(value, depth)
        except Exception:
            # Whatever it is, the generic code meets it too.
            return GAVE_UP

    def admits(self, value: JsonValue) -> bool:
        """Tells whether a frozen value is plainly what the schema asks for."""
        try:
            self._check(value, _ANY_DEPTH)
        except (_GiveUpError, KeyError):
            return False
        return True

    @cached_property
    def copy(self) -> Callable[[Any], Any]:
        """Makes of a frozen value that the schema admits an equal one in plain containers of its own."""
        return _written(_COPY, self._form)

    @cached_property
    def unwrapped(self) -> Callable[[Any], Any]:
        """Makes of a frozen value that the schema admits an equal one that JSON text is sooner written of.

        The encoder takes twice as long over frozen containers as over plain ones; but to look for those that
        no form tells of would take longer still.
        """
        return _written(_UNWRAP, self._form)

    @cached_property
    def _take(self) -> Callable[[object, int], JsonValue]:
        return _written(_TAKE, self._form)

    @cached_property
    def _check(self) -> Callable[[JsonValue, int], object]:
        return _written(_CHECK, self._form)


_ANY_DEPTH: Final = 0


@frozen(eq=False, repr=False)
class _Manner:
    """What becomes of a value, as lines of code: the variable `x` holds it, and then what it became.

    Those of an array or an object come before its members, behind each of them, and last; those of an array
    of scalars, before all. `made` is what is made of the container, `each` what became of a member, and
    `depth` how many containers are around `x`. Where containers of a form nest, there are lines to begin
    with, for each of those within another, and to end with.
    """

    array: tuple[str, str, str]
    object: tuple[str, str, str]
    any: str = ""
    scalars: str = ""
    list: str = "FrozenList"
    dict: str = "FrozenDict"
    first: str = ""
    nested: tuple[str, str, str] = ("", "", "")
    checks: bool = True


_TAKE: Final = _Manner(
    list="list",
    dict="dict",
    first="ids = set()",
    # A container that is met twice has one copy (`MA-6`), which the generic code makes. The outermost could
    # be met again only in itself, and such a value has no form.
    nested=(
        "met = []",
        "met.append({x})",
        "if len(ids.union(map(id, met))) != len(ids) + len(met): raise GiveUp",
    ),
    array=(
        "{made} = []",
        "{made}.append({each})",
        "{x} = new_list(FrozenList)\nfill_list({x}, {made})",
    ),
    scalars="{made} = new_list(FrozenList)\nfill_list({made}, {x})\n{x} = {made}",
    # Once it is copied, another thread may do to the original what it likes. The copy is a plain one, of
    # which members are read and replaced in half the time.
    object=(
        """\
for {key} in {x}:
 if type({key}) is not str: raise GiveUp
{made} = {x}.copy()""",
        "{made}[{name}] = {each}",
        "{x} = new_dict(FrozenDict)\nfill_dict({x}, {made})",
    ),
    any="{x} = freeze_tree({x}, levels - {depth}, ids)",
)
_CHECK: Final = _Manner(
    array=("", "", ""),
    object=("{made} = {x}", "", ""),
    any="if levels and height_of({x}) > levels - {depth}: raise GiveUp",
)
_COPY: Final = _Manner(
    array=("{made} = []", "{made}.append({each})", "{x} = {made}"),
    object=("{made} = {x}.copy()", "{made}[{name}] = {each}", "{x} = {made}"),
    any="{x} = thaw({x})",
    scalars="{x} = {x}.copy()",
    checks=False,
)
_UNWRAP: Final = evolve(_COPY, any="")
_TESTS: Final[Mapping[str, str]] = {
    # Text with a surrogate, alone or in a pair, cannot be encoded.
    "string": "type({x}) is str and ({x}.isascii() or {x}.encode())",
    "integer": "type({x}) is int",
    # Of NaN and the infinities no difference is zero.
    "number": "type({x}) is float and {x} - {x} == 0.0 or type({x}) is int",
    "fraction": "type({x}) is float and {x} - {x} == 0.0 and {x} % 1",
    "boolean": "type({x}) is bool",
    "null": "{x} is None",
}
_NAMES: Final[Mapping[str, object]] = {
    "FrozenDict": FrozenDict,
    "FrozenList": FrozenList,
    "GiveUp": _GiveUpError,
    "fill_dict": fill_dict,
    "fill_list": fill_list,
    "freeze_tree": freeze_tree,
    "height_of": height_of,
    "new_dict": new_dict,
    "new_list": new_list,
    "thaw": thaw,
}


def _written(manner: _Manner, form: Form) -> Callable[..., Any]:
    writer = _Writer(manner)
    writer.write(0, "def function(x, levels=0):")
    if not isinstance(form, ScalarForm):
        writer.write(1, manner.first)
    begin, _, end = manner.nested if form.height > 1 else ("", "", "")
    writer.write(1, begin)
    writer.value(1, form, "x", 0)
    writer.write(1, end)
    writer.write(1, "return x")
    known = dict(_NAMES)
    exec(compile("\n".join(writer.lines), "<trio_tools._taking>", "exec"), known)
    return cast("Callable[..., Any]", known["function"])


@define(eq=False, repr=False)
class _Writer:
    """The text of a function under construction; what adds lines is told first how far to indent them."""

    _manner: _Manner
    lines: list[str] = Factory(list[str])
    _numbers: "count[int]" = Factory(count)

    def write(self, indent: int, template: str, **names: object) -> None:
        self.lines += [" " * indent + line for line in template.format(**names).splitlines()]

    def must(self, indent: int, test: str) -> None:
        if self._manner.checks:
            self.write(indent, "if not ({test}): raise GiveUp", test=test)

    def value(self, indent: int, form: Form, x: str, depth: int) -> None:
        """Adds what becomes of the value in `x`, around which there are `depth` containers."""
        if self._leaves(form):
            return
        manner = self._manner
        number = next(self._numbers)
        names = {name: f"{name}{number}" for name in ("each", "key", "made", "known")} | {"x": x}
        match form:
            case ScalarForm():
                self.must(indent, _test(form, x))
            case AnyForm():
                if form.type is not None:
                    self.must(indent, self._is(form.type, x))
                self.write(indent, manner.any, x=x, depth=depth)
            case ArrayForm(item=ScalarForm()):
                # It is copied as it is, and what the copy holds is checked.
                self._container(indent, form, x, depth)
                self.write(indent, manner.scalars, **names)
                if manner.checks:
                    self.write(indent, "for {each} in {x}:", **names)
                    self.value(indent + 1, form.item, names["each"], depth + 1)
            case ArrayForm():
                self._container(indent, form, x, depth)
                before, behind, last = manner.array
                self.write(indent, before, **names)
                self.write(indent, "for {each} in {x}:", **names)
                self.value(indent + 1, form.item, names["each"], depth + 1)
                self.write(indent + 1, behind, **names)
                self.write(indent, last, **names)
            case ObjectForm():
                self._container(indent, form, x, depth)
                self.write(indent, manner.object[0], **names)
                self._members(indent, form, depth + 1, names)
                self.write(indent, manner.object[2], **names)
            case _:
                for branch in form.containers:
                    self.write(indent, "if {test}:\n pass", test=self._is(branch.type, x))
                    self.value(indent + 1, branch, x, depth)
                    self.write(indent, "else:\n pass")
                    indent += 1
                self.value(indent, form.scalar, x, depth)

    def _container(self, indent: int, form: ArrayForm | ObjectForm, x: str, depth: int) -> None:
        self.must(indent, self._is(form.type, x))
        if depth:
            self.write(indent, self._manner.nested[1], x=x)

    def _is(self, type_: str | None, x: str) -> str:
        return f"type({x}) is {self._manner.list if type_ == 'array' else self._manner.dict}"

    def _members(self, indent: int, form: ObjectForm, depth: int, names: Mapping[str, str]) -> None:
        # Whether there are others shows when those that have a name are counted, if anything is done to them.
        counted = self._manner.checks or not (form.other is None or self._leaves(form.other))
        if counted:
            self.write(indent, "{known} = {required}", required=len(form.required), **names)
        for name, part in form.properties.items():
            named = {**names, "name": repr(name)}
            if name in form.required:
                self._member(indent, "{each} = {made}[{name}]", part, depth, named)
            elif counted or not self._leaves(part):
                self.write(indent, "if {name} in {made}:", **named)
                if counted:
                    self.write(indent + 1, "{known} += 1", **names)
                self._member(indent + 1, "{each} = {made}[{name}]", part, depth, named)
        if not counted:
            return
        self.write(indent, "if len({made}) != {known}:", **names)
        if form.other is None:
            self.write(indent + 1, "raise GiveUp")
        else:
            self.write(indent + 1, "for {key}, {each} in {made}.items():", **names)
            self.write(indent + 2, "if {key} not in {named}:", named=_set_of(form.properties), **names)
            self.must(indent + 3, _TESTS["string"].format(x=names["key"]))
            self._member(indent + 3, "", form.other, depth, {**names, "name": names["key"]})

    def _member(self, indent: int, before: str, form: Form, depth: int, names: Mapping[str, str]) -> None:
        if self._leaves(form):
            return
        self.write(indent, before, **names)
        self.value(indent, form, names["each"], depth)
        if not isinstance(form, ScalarForm):
            self.write(indent, self._manner.object[1], **names)

    def _leaves(self, form: Form) -> bool:
        """Tells whether a value of this form is neither checked nor replaced."""
        manner = self._manner
        return not manner.checks and (
            isinstance(form, ScalarForm) or (isinstance(form, AnyForm) and not manner.any)
        )


def _test(form: ScalarForm, x: str) -> str:
    tests = [_TESTS[kind].format(x=x) for kind in form.kinds]
    if form.options:
        tests.append(f"type({x}) is str and {x} in {_set_of(form.options)}")
    return " or ".join(tests)


def _set_of(names: Collection[str]) -> str:
    return f"{{{', '.join(map(repr, names))}}}" if names else "()"
