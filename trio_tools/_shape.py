"""Shapes: what one Python type looks like as JSON, and the way from one to the other.

A shape knows five things about its type. `schema` says it to others. `check` tells at full speed whether a
frozen value fits, running no code of the tool's author. `explain` is asked when `check` said no, and walks
the value once more for every violation. `build` makes what the body receives out of a value that fits.
`project` turns an instance that a body returned into JSON, and exists only where a class is involved.

Checking comes before building, so that no class of the author is instantiated for arguments that are
refused, and so that the branch of a union is chosen by its declared shape alone.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, Final, cast

import attrs
import cattrs
from cattrs import gen

from ._json import FrozenDict, FrozenList, JsonValue, thaw
from ._text import to_canonical_text
from ._violations import Place, Report

_OBJECTS: Final = frozenset({dict, FrozenDict})
_ARRAYS: Final = frozenset({list, FrozenList})


@attrs.frozen(eq=False, repr=False, kw_only=True)
class Shape:
    """One type as JSON."""

    schema: dict[str, JsonValue]
    check: Callable[[Any], bool]
    explain: Callable[[Any, Place, Report], None]
    # None: what fits is what the body receives.
    build: Callable[[Any], Any] | None = None
    # None: no instance of a class can be in it.
    project: Callable[[Any], Any] | None = None
    # Values of these types fit as they are: a list of them is checked and copied at C speed.
    plain: frozenset[type] = frozenset()
    # Values of these types may be accepted and changed; None: of any type.
    converts: frozenset[type] | None = None
    # What is built of a value is an equal copy, floats for an `int` aside: no class or enum is involved.
    equal: bool = False

    def built(self, value: Any) -> Any:
        """Returns what a body receives for a value that fits."""
        return value if self.build is None else self.build(value)

    def projected(self, value: Any) -> Any:
        """Returns the JSON of what a body returned; what the type does not name stays as it is (`MA-10`)."""
        return value if self.project is None else self.project(value)


def described(shape: Shape, **notes: JsonValue) -> Shape:
    """Returns the same shape with notes in its schema, such as ``description``."""
    return attrs.evolve(shape, schema={**shape.schema, **notes})


def _must_be(what: str) -> Callable[[Any, Place, Report], None]:
    def explain(_: Any, place: Place, report: Report) -> None:
        report.must_be(place, what)

    return explain


def _leaf(name: str, what: str, kinds: frozenset[type]) -> Shape:
    def check(value: Any) -> bool:
        return type(value) in kinds

    return Shape(
        schema={"type": name},
        check=check,
        explain=_must_be(what),
        plain=kinds,
        converts=frozenset(),
        equal=True,
    )


STRING: Final = _leaf("string", "a string", frozenset({str}))
BOOLEAN: Final = _leaf("boolean", "a boolean", frozenset({bool}))
NULL: Final = _leaf("null", "null", frozenset({type(None)}))
# Frozen JSON has finite floats only. An integer is a number and stays an int (`JS-3`).
NUMBER: Final = _leaf("number", "a finite JSON number", frozenset({int, float}))


def _is_integer(value: Any) -> bool:
    return type(value) is int or (type(value) is float and value.is_integer())


def _to_integer(value: Any) -> Any:
    return int(value) if type(value) is float else value


INTEGER: Final = Shape(
    schema={"type": "integer"},
    check=_is_integer,
    explain=_must_be("an integer"),
    build=_to_integer,
    plain=frozenset({int}),
    converts=frozenset({float}),
    equal=True,
)


def _always(_: Any) -> bool:
    return True


ANYTHING: Final = Shape(schema={}, check=_always, explain=_must_be("JSON"), build=thaw, equal=True)


def choice_of(options: Iterable[tuple[JsonValue, Any]]) -> Shape:
    """Makes the shape of a `Literal` or an enum from pairs: the JSON of an option, and the option itself.

    Values are compared by JSON type (`JS-3`), and the body receives the option that was declared.
    """
    options = tuple(options)
    values = [value for value, _ in options]
    strings = {value: option for value, option in options if type(value) is str}
    others: dict[str, Any] = {}
    for value, option in options:
        others.setdefault(to_canonical_text(value), option)
    kinds = {type(option) for _, option in options if isinstance(option, Enum)}
    single = len(values) == 1

    def find(value: Any) -> tuple[Any] | None:
        if type(value) is str:
            return (strings[value],) if value in strings else None
        text = to_canonical_text(value)
        return (others[text],) if text in others else None

    def explain(_: Any, place: Place, report: Report) -> None:
        if single:
            report.must_equal(place, values[0])
        else:
            report.must_be_among(place, values)

    def build(value: Any) -> Any:
        found = find(value)
        assert found is not None, "what is built was checked before"
        return found[0]

    def project(value: Any) -> Any:
        return value.value if type(value) in kinds else value

    return Shape(
        schema={"const": values[0]} if single else {"enum": values},
        check=lambda value: find(value) is not None,
        explain=explain,
        build=build,
        project=project if kinds else None,
        equal=not kinds,
    )


def list_of(item: Shape) -> Shape:
    """Makes the shape of a list; the body receives a list of its own."""
    check_item, build_item, plain = item.check, item.build, item.plain

    def check(value: Any) -> bool:
        if type(value) not in _ARRAYS:
            return False
        return plain.issuperset(map(type, value)) or all(map(check_item, value))

    def explain(value: Any, place: Place, report: Report) -> None:
        if type(value) not in _ARRAYS:
            report.must_be(place, "an array")
            return
        for index, each in enumerate(value):
            if not check_item(each):
                item.explain(each, place.member(index), report)

    def build(value: Any) -> list[Any]:
        if build_item is None or plain.issuperset(map(type, value)):
            return list(value)
        return [result for _, result in _build_all(enumerate(cast("list[Any]", value)), build_item)]

    def project(value: Any) -> Any:
        return list(map(item.projected, value)) if type(value) in _ARRAYS else value

    return Shape(
        schema={"type": "array", "items": item.schema} if item.schema else {"type": "array"},
        check=check,
        explain=explain,
        build=thaw if item is ANYTHING else build,
        project=project if item.project else None,
        equal=item.equal,
    )


def dict_of(entry: Shape) -> Shape:
    """Makes the shape of a dict with any keys; the body receives a dict of its own."""
    check_entry, build_entry, plain = entry.check, entry.build, entry.plain

    def check(value: Any) -> bool:
        if type(value) not in _OBJECTS:
            return False
        return plain.issuperset(map(type, value.values())) or all(map(check_entry, value.values()))

    def explain(value: Any, place: Place, report: Report) -> None:
        if type(value) not in _OBJECTS:
            report.must_be(place, "an object")
            return
        for key, each in value.items():
            if not check_entry(each):
                entry.explain(each, place.member(key), report)

    def build(value: Any) -> dict[str, Any]:
        if build_entry is None or plain.issuperset(map(type, value.values())):
            return dict(value)
        return dict(_build_all(value.items(), build_entry))

    def project(value: Any) -> Any:
        if type(value) in _OBJECTS:
            return {key: entry.projected(each) for key, each in value.items()}
        return value

    return Shape(
        schema={"type": "object", "additionalProperties": entry.schema or True},
        check=check,
        explain=explain,
        build=thaw if entry is ANYTHING else build,
        project=project if entry.project else None,
        equal=entry.equal,
    )


def union_of(branches: Iterable[Shape]) -> Shape:
    """Makes the shape of a union: the first branch that accepts, in order of declaration (`JS-4`)."""
    branches = tuple(branches)
    plain: frozenset[type] = frozenset()
    converts: frozenset[type] | None = frozenset()
    for branch in branches:
        # What an earlier branch may have converted is not plain, even if this branch would leave it alone.
        plain |= branch.plain - converts
        if branch.converts is None:
            converts = None
            break
        converts |= branch.converts

    def check(value: Any) -> bool:
        return any(branch.check(value) for branch in branches)

    def build(value: Any) -> Any:
        # What is built was checked before, so there is one.
        return next(branch for branch in branches if branch.check(value)).built(value)

    def project(value: Any) -> Any:
        for branch in branches:
            candidate = branch.projected(value)
            if branch.check(candidate):
                return candidate
        return value

    return Shape(
        schema={"anyOf": [branch.schema for branch in branches]},
        check=check,
        explain=lambda _, place, report: report.no_branch(place),
        build=build if any(branch.build for branch in branches) else None,
        project=project if any(branch.project for branch in branches) else None,
        plain=plain,
        converts=converts,
        equal=all(branch.equal for branch in branches),
    )


@attrs.frozen(eq=False, repr=False, kw_only=True)
class Entry:
    """One property of an object: the key, its shape, and whether it must be there.

    `attribute` is the name on the instance, `given` is False for one that the class sets by itself.
    """

    key: str
    attribute: str
    shape: Shape
    required: bool
    given: bool = True


def record_of(cls: type, entries: Iterable[Entry]) -> Shape:
    """Makes the shape of an attrs class or dataclass; `cattrs` makes the instance, through strict hooks."""
    entries = tuple(entries)
    hooks = {
        f"field_{entry.key}": gen.override(struct_hook=_hook(entry.shape)) for entry in entries if entry.given
    }
    # A stand-in for the fields of the class, so that names, annotations and converters of the author, which
    # have been read already, mean nothing to the code that is generated.
    stand_in = attrs.make_class(
        "Fields",
        {
            f"field_{entry.key}": attrs.field(default=attrs.NOTHING if entry.required else None, kw_only=True)
            for entry in entries
            if entry.given
        },
    )
    fields: list[Any] = [
        field.evolve(alias=field.name.removeprefix("field_")) for field in attrs.fields(stand_in)
    ]
    structure = cast("Any", gen).make_dict_structure_fn_from_attrs(
        fields,
        cls,
        cattrs.BaseConverter(),
        dict.fromkeys((parameter.__name__ for parameter in getattr(cls, "__parameters__", ())), Any),
        _cattrs_forbid_extra_keys=False,
        _cattrs_use_linecache=False,
        _cattrs_detailed_validation=True,
        _cattrs_use_alias=True,
        **hooks,
    )

    def build(value: Any) -> Any:
        return structure(value, cls)

    def project(value: Any) -> Any:
        if type(value) is cls:
            return {entry.key: entry.shape.projected(getattr(value, entry.attribute)) for entry in entries}
        return value

    return attrs.evolve(_object(entries, {"title": cls.__name__}), build=build, project=project)


def typed_dict_of(name: str, entries: Iterable[Entry]) -> Shape:
    """Makes the shape of a `TypedDict`; the body receives a dict of its own."""
    entries = tuple(entries)
    shapes = {entry.key: entry.shape for entry in entries}

    def build(value: Any) -> dict[str, Any]:
        pairs = ((key, (shapes[key], each)) for key, each in value.items())
        return dict(_build_all(pairs, _build_pair))

    def project(value: Any) -> Any:
        if type(value) in _OBJECTS:
            return {
                key: shapes[key].projected(each) if key in shapes else each for key, each in value.items()
            }
        return value

    return attrs.evolve(
        _object(entries, {"title": name}),
        build=build,
        project=project if any(shape.project for shape in shapes.values()) else None,
        equal=all(shape.equal for shape in shapes.values()),
    )


def _object(entries: tuple[Entry, ...], notes: Mapping[str, JsonValue]) -> Shape:
    shapes = {entry.key: entry.shape for entry in entries}
    checks = {entry.key: entry.shape.check for entry in entries}
    required = [entry.key for entry in entries if entry.required]

    def check(value: Any) -> bool:
        if type(value) not in _OBJECTS:
            return False
        for key, each in value.items():
            if key not in checks or not checks[key](each):
                return False
        return all(key in value for key in required)

    def explain(value: Any, place: Place, report: Report) -> None:
        if type(value) in _OBJECTS:
            explain_entries(value, place, report, shapes, required)
            for key in value:
                if key not in shapes:
                    report.undeclared(place, key)
        else:
            report.must_be(place, "an object")

    return Shape(
        schema={**notes, **object_schema(shapes, required), "additionalProperties": False},
        check=check,
        explain=explain,
    )


def object_schema(shapes: Mapping[str, Shape], required: list[str]) -> dict[str, JsonValue]:
    """Returns the schema of an object with these properties, open to others."""
    schema: dict[str, JsonValue] = {"type": "object"}
    schema["properties"] = {key: shape.schema for key, shape in shapes.items()}
    if required:
        schema["required"] = [*required]
    return schema


def explain_entries(
    value: Mapping[str, Any],
    place: Place,
    report: Report,
    shapes: Mapping[str, Shape],
    required: Iterable[str],
) -> None:
    """Adds the violations of an object's declared properties: first what is missing, then each in turn."""
    for key in required:
        if key not in value:
            report.missing(place, key)
    for key, shape in shapes.items():
        if key in value and not shape.check(value[key]):
            shape.explain(value[key], place.member(key), report)


def explain_build(error: Exception, place: Place, report: Report) -> None:
    """Adds what the author's own classes refused, each with its place."""
    if not isinstance(error, cattrs.BaseValidationError):
        report.refused(place, error)
        return
    for inner in error.exceptions:
        key = _key_noted(inner)
        explain_build(inner, place if key is None else place.member(key), report)


def _key_noted(error: Exception) -> str | int | None:
    """Returns where in its container an error arose, as `cattrs` and `_build_all` have noted it."""
    # The attribute is open to everybody, and so may hold anything.
    notes: object = getattr(error, "__notes__", ())
    for note in cast("list[object]", notes) if isinstance(notes, list) else ():
        if isinstance(note, cattrs.IterableValidationNote):
            return note.index
        if isinstance(note, cattrs.AttributeValidationNote):
            return note.name.removeprefix("field_")
    return None


def _build_pair(pair: tuple[Shape, Any]) -> Any:
    shape, value = pair
    return shape.built(value)


def _hook(shape: Shape) -> Callable[[Any, Any], Any]:
    build = shape.build
    return (lambda value, _: value) if build is None else (lambda value, _: build(value))


def _note(key: str | int) -> str:
    return cast("Any", cattrs).IterableValidationNote(f"at {key!r}", key, object)


def _build_all(pairs: Iterable[tuple[Any, Any]], build: Callable[[Any], Any]) -> list[tuple[Any, Any]]:
    built: list[tuple[Any, Any]] = []
    errors: list[Exception] = []
    for key, value in pairs:
        try:
            built.append((key, build(value)))
        except Exception as error:
            error.add_note(_note(key))
            errors.append(error)
    if errors:
        raise cast("Any", cattrs).IterableValidationError("while building", errors, list)
    return built
