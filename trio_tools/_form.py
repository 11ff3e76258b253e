"""Forms: what a JSON Schema of the common keywords says, read once.

A form is data, from which code can be written. A schema that says more than forms can, has none.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias, cast, final

from attrs import define, frozen

from ._json import JsonValue

__all__ = ["AnyForm", "ArrayForm", "Form", "ObjectForm", "ScalarForm", "UnionForm", "form_of"]


@final
@frozen
class ScalarForm:
    """A string, number, boolean or null: one of these kinds, or one of these very strings.

    The kinds are types of JSON Schema, and ``fraction``, a number that is not integral.
    """

    kinds: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    height: int = 0


@final
@frozen
class AnyForm:
    """Any JSON, or any that is of one type."""

    type: str | None = None
    height: int = 0


@final
@frozen
class ArrayForm:
    """An array whose items have one form."""

    item: "Form"
    height: int
    type: str = "array"


@final
@frozen
class ObjectForm:
    """An object; `other` is the form of the properties without a name, None if there may be none."""

    properties: Mapping[str, "Form"]
    required: frozenset[str]
    other: "Form | None"
    height: int
    type: str = "object"


@final
@frozen
class UnionForm:
    """Scalars, and at most one form of arrays and of objects: the type of a value tells its branch."""

    scalar: ScalarForm
    containers: "tuple[AnyForm | ArrayForm | ObjectForm, ...]"
    height: int


# `height` is how many containers nest that have a form of their own.
Form: TypeAlias = ScalarForm | AnyForm | ArrayForm | ObjectForm | UnionForm


def form_of(schema: Mapping[str, JsonValue]) -> Form | None:
    """Reads what is known to be a schema; None for one that says more than a form can."""
    try:
        return _Reader(schema).read({key: schema[key] for key in schema if key != "$schema"}, 0)
    except _NoFormError:
        return None


class _NoFormError(Exception):
    """The schema says more than a form can."""


_NOTES: Final = frozenset(
    ("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment")
)
_DEFINITIONS: Final = frozenset(("$defs", "definitions"))
_OF_CONTAINERS: Final = frozenset(("items", "properties", "required", "additionalProperties"))
# What is written from a form has loops, which Python nests twenty times at most, and shall not be long.
_DEEPEST: Final = 12
_MOST: Final = 500


@define(eq=False, repr=False)
class _Reader:
    root: Mapping[str, Any]
    count: int = 0

    def read(self, schema: Any, depth: int) -> Form:
        self.count += 1
        if depth > _DEEPEST or self.count > _MOST:
            raise _NoFormError
        if schema is True:
            return AnyForm()
        if not isinstance(schema, dict):
            raise _NoFormError
        whole = cast("dict[str, Any]", schema)
        match {key: whole[key] for key in whole if key not in _NOTES and key not in _DEFINITIONS}:
            case {"type": list(), **rest} if rest.keys() <= _OF_CONTAINERS:
                return _united([self._typed(name, rest, depth) for name in whole["type"]])
            case {"type": str(name), **rest} if rest.keys() <= _OF_CONTAINERS:
                return self._typed(name, rest, depth)
            case {"anyOf": branches, **rest} if not rest:
                return _united([self.read(branch, depth) for branch in branches])
            case {"$ref": str(ref), **rest} if not rest:
                return self.read(self._target(ref), depth + 1)
            case {"enum": options, **rest} if rest in ({}, {"type": "string"}):
                return _among(options)
            case {"const": option, **rest} if rest in ({}, {"type": "string"}):
                return _among((option,))
            case nothing if not nothing:
                return AnyForm()
            case _:
                raise _NoFormError

    def _typed(self, name: str, said: Mapping[str, Any], depth: int) -> Form:
        # A keyword of another type says nothing.
        if name == "object":
            return self._object(said, depth + 1)
        if name == "array":
            item = self.read(said.get("items", True), depth + 1)
            return AnyForm("array") if item == AnyForm() else ArrayForm(item, 1 + item.height)
        return ScalarForm((name,))

    def _object(self, said: Mapping[str, Any], depth: int) -> Form:
        others, required = said.get("additionalProperties", True), said.get("required", ())
        forms = {name: self.read(part, depth) for name, part in said.get("properties", {}).items()}
        forms |= {name: self.read(others, depth) for name in required if name not in forms}
        other = None if others is False else self.read(others, depth)
        if not forms and other == AnyForm():
            return AnyForm("object")
        parts = [*forms.values(), *(() if other is None else (other,))]
        return ObjectForm(
            forms,
            frozenset(required),
            other,
            1 + max((part.height for part in parts), default=0),
        )

    def _target(self, ref: str) -> Any:
        match ref.split("/"):
            case ["#", where, name] if where in _DEFINITIONS and "~" not in name and "%" not in name:
                return self.root[where][name]
            case _:
                raise _NoFormError


def _among(options: Iterable[JsonValue]) -> ScalarForm:
    # An option that is no string is left to those who compare by JSON type.
    strings = tuple(option for option in options if type(option) is str)
    if not strings:
        raise _NoFormError
    return ScalarForm(options=strings)


def _united(branches: Iterable[Form]) -> Form:
    kinds: list[str] = []
    options: list[str] = []
    containers: dict[str, AnyForm | ArrayForm | ObjectForm] = {}
    for branch in branches:
        for form in (branch.scalar, *branch.containers) if isinstance(branch, UnionForm) else (branch,):
            if isinstance(form, ScalarForm):
                # Of a signature, the first branch is used, which makes an integer of ``1.0`` (`JS-4`).
                kinds += [
                    "fraction" if kind == "number" and "integer" in kinds else kind for kind in form.kinds
                ]
                options += form.options
            elif form.type is None or form.type in containers:
                raise _NoFormError
            else:
                containers[form.type] = form
    scalar, forms = ScalarForm(tuple(kinds), tuple(options)), tuple(containers.values())
    if not forms:
        return scalar
    return UnionForm(scalar, forms, max(form.height for form in forms))
