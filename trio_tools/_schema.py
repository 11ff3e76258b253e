"""What a tool takes and what it returns: a schema to show, and the plan that holds a value to it.

There are two kinds of plans. Those read from a signature bind: they hand the body Python objects of the
declared types, in containers of its own that it may change. Those of a given JSON Schema only validate: the
body receives the frozen arguments as they came (`JS-8`).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol, final

from attrs import field, frozen

from ._errors import DefinitionError
from ._form import form_of
from ._json import (
    FrozenDict,
    JsonSchema,
    JsonValue,
    NotLossless,
    freeze_arguments,
    freeze_value,
    to_json_text,
)
from ._shape import Shape, explain_build, explain_entries, object_schema
from ._signature import parameters_of, returned_by
from ._taking import GAVE_UP, GaveUp, Taking
from ._violations import Place, Report, Violations

if TYPE_CHECKING:
    from ._validator import Validator

__all__ = [
    "GAVE_UP",
    "ArgumentsPlan",
    "OutputPlan",
    "PlanOfArguments",
    "PlanOfOutput",
    "SchemaArgumentsPlan",
    "SchemaOutputPlan",
    "Violations",
    "plan_arguments",
    "plan_output",
    "plan_schema_arguments",
    "plan_schema_output",
]

_MISSING: Final = object()


class PlanOfArguments(Protocol):
    """How the arguments of a call become what its body is called with."""

    @property
    def schema(self) -> JsonSchema:
        """The schema that a model may see."""
        ...

    @property
    def by_keyword(self) -> bool:
        """Whether `bind` gives keyword arguments; if not, it gives the body's one positional argument."""
        ...

    def take(self, raw: object, *, depth: int) -> JsonValue | GaveUp:
        """Returns the frozen copy of arguments that are plainly fine, for `bind` to take as such.

        `GAVE_UP` says nothing about them: `freeze_arguments` and `bind` are to decide.
        """
        ...

    def bind(self, arguments: JsonValue, *, taken: bool = False) -> Any:
        """Returns what the body receives, or raises `Violations` with everything that is wrong.

        `taken` says that this very plan took the arguments, so that they need no second look.
        """
        ...


class PlanOfOutput(Protocol):
    """How the value of a body becomes the value of a result."""

    @property
    def schema(self) -> JsonSchema:
        """The schema that the value keeps."""
        ...

    @property
    def runs_foreign_code(self) -> bool:
        """Whether `accept` reads the fields of instances, which may be properties of the author's."""
        ...

    def accept(self, value: object, *, depth: int) -> JsonValue:
        """Returns the value as frozen JSON; raises `NotLossless`, `TooDeep` or `Violations`."""
        ...

    def text(self, value: JsonValue) -> str:
        """Returns an accepted value as compact JSON text (`MA-13`)."""
        ...


@final
@frozen(eq=False, repr=False)
class ArgumentsPlan:
    """The arguments of a typed tool.

    Unknown keys at the root are dropped, an absent key is left to the function's default, and ``1.0`` reaches
    an `int` parameter as ``1`` (`JS-2` to `JS-6`). Lists and dicts are copies that belong to the body.
    """

    schema: JsonSchema
    _shapes: dict[str, Shape]
    _required: tuple[str, ...]
    _steps: tuple[tuple[str, frozenset[type], Shape, bool], ...]
    _taking: Taking | None
    # What a body receives is an equal copy of what was taken.
    _equal: bool
    by_keyword: bool = field(default=True, init=False)

    def take(self, raw: object, *, depth: int) -> JsonValue | GaveUp:
        """Returns the frozen copy of arguments that are plainly fine, or `GAVE_UP`."""
        return GAVE_UP if self._taking is None else self._taking.take(raw, depth=depth)

    def bind(self, arguments: JsonValue, *, taken: bool = False) -> dict[str, object]:
        """Returns the keyword arguments for the function; raises `Violations` with every violation."""
        taking = self._taking
        if taking is not None and (taken or taking.admits(arguments)):
            if self._equal:
                copy = taking.copy(arguments)
                # As many as are required, and they are there, are these.
                if len(copy) != len(self._required) and not copy.keys() <= self._shapes.keys():
                    copy = {name: copy[name] for name in self._shapes if name in copy}
                return copy
            taken = True
        if type(arguments) is not FrozenDict:
            report = Report("arguments")
            report.must_be(Place(), "an object")
            raise report.violations()
        bound: dict[str, object] = {}
        to_build: list[tuple[str, Callable[[Any], Any]]] = []
        for name, plain, shape, required in self._steps:
            value = arguments.get(name, _MISSING)
            if type(value) in plain:
                bound[name] = value
            elif value is _MISSING:
                if required:
                    raise self._violations(arguments)
            elif taken or shape.check(value):
                bound[name] = value
                to_build.append((name, shape.built))
            else:
                raise self._violations(arguments)
        if to_build:
            _build(bound, to_build)
        return bound

    def _violations(self, arguments: FrozenDict) -> Violations:
        report = Report("arguments")
        explain_entries(arguments, Place(), report, self._shapes, self._required)
        return report.violations()


def _build(bound: dict[str, object], to_build: list[tuple[str, Callable[[Any], Any]]]) -> None:
    report = Report("arguments")
    for name, build in to_build:
        try:
            bound[name] = build(bound[name])
        except Exception as error:
            explain_build(error, Place().member(name), report)
    if report.count:
        raise report.violations()


@final
@frozen(eq=False, repr=False)
class OutputPlan:
    """The value of a typed tool.

    Instances of the attrs classes, dataclasses and enums that the annotation names become JSON, and nothing
    else does (`MA-9`, `MA-10`).
    """

    schema: JsonSchema
    _shape: Shape
    _taking: Taking | None

    @property
    def runs_foreign_code(self) -> bool:
        """Whether it reads the fields of instances."""
        return self._shape.project is not None

    def accept(self, value: object, *, depth: int) -> JsonValue:
        """Returns the value as frozen JSON; raises `NotLossless`, `TooDeep` or `Violations`."""
        shape = self._shape
        if shape.project is not None:
            try:
                value = shape.project(value)
            except Exception:
                raise NotLossless("an instance whose fields cannot be read") from None
        if self._taking is not None and (taken := self._taking.take(value, depth=depth)) is not GAVE_UP:
            return taken
        frozen_value = freeze_value(value, depth=depth)
        if not _admitted(self._taking, frozen_value) and not shape.check(frozen_value):
            report = Report("value")
            shape.explain(frozen_value, Place(), report)
            raise report.violations()
        return frozen_value

    def text(self, value: JsonValue) -> str:
        """Returns an accepted value as compact JSON text (`MA-13`)."""
        return to_json_text(value if self._taking is None else self._taking.unwrapped(value))


@final
@frozen(eq=False, repr=False)
class SchemaArgumentsPlan:
    """The arguments of a tool with a given JSON Schema; nothing is dropped or converted (`JS-8`)."""

    schema: JsonSchema
    _validator: "Validator | None"
    _taking: Taking | None
    by_keyword: bool = field(default=False, init=False)

    def take(self, raw: object, *, depth: int) -> JsonValue | GaveUp:
        """Returns the frozen copy of arguments that are plainly fine, or `GAVE_UP`."""
        return GAVE_UP if self._taking is None else self._taking.take(raw, depth=depth)

    def bind(self, arguments: JsonValue, *, taken: bool = False) -> JsonValue:
        """Returns the arguments untouched; raises `Violations` with every violation."""
        if self._validator is not None and not taken and not _admitted(self._taking, arguments):
            self._validator.check(arguments, root="arguments")
        return arguments


@final
@frozen(eq=False, repr=False)
class SchemaOutputPlan:
    """The value of a tool with a given JSON Schema (`JS-8`)."""

    schema: JsonSchema
    _validator: "Validator"
    _taking: Taking | None
    runs_foreign_code: bool = field(default=False, init=False)

    def accept(self, value: object, *, depth: int) -> JsonValue:
        """Returns the value as frozen JSON; raises `NotLossless`, `TooDeep` or `Violations`."""
        if self._taking is not None and (taken := self._taking.take(value, depth=depth)) is not GAVE_UP:
            return taken
        frozen_value = freeze_value(value, depth=depth)
        if not _admitted(self._taking, frozen_value):
            self._validator.check(frozen_value, root="value")
        return frozen_value

    def text(self, value: JsonValue) -> str:
        """Returns an accepted value as compact JSON text (`MA-13`)."""
        return to_json_text(value if self._taking is None else self._taking.unwrapped(value))


def plan_arguments(fn: Callable[..., object], *, skip: frozenset[str] = frozenset()) -> ArgumentsPlan:
    """Reads the parameters of a function, but for those in `skip`; raises `DefinitionError` (`JS-7`)."""
    entries = parameters_of(fn, skip=skip)
    shapes = {entry.key: entry.shape for entry in entries}
    required = [entry.key for entry in entries if entry.required]
    schema = FrozenDict(object_schema(shapes, required))
    return ArgumentsPlan(
        schema,
        shapes,
        tuple(required),
        tuple((entry.key, entry.shape.plain, entry.shape, entry.required) for entry in entries),
        _taking_of(schema),
        all(shape.equal for shape in shapes.values()),
    )


def plan_output(fn: Callable[..., object]) -> OutputPlan:
    """Reads the return annotation of a function, where none accepts any JSON; raises `DefinitionError`."""
    shape = returned_by(fn)
    schema = FrozenDict(shape.schema)
    return OutputPlan(schema, shape, _taking_of(schema))


def plan_schema_arguments(schema: object, *, validate: bool = True) -> SchemaArgumentsPlan:
    """Compiles the schema of a tool's arguments; raises `DefinitionError` for what is none (`JS-1`, `JS-8`).

    With `validate=False` the schema is held to the same rules, and the arguments are left to the body.
    """
    frozen_schema, validator = _compile(schema, "parameters")
    if not validate:
        return SchemaArgumentsPlan(frozen_schema, None, None)
    return SchemaArgumentsPlan(frozen_schema, validator, _taking_of(frozen_schema))


def plan_schema_output(schema: object) -> SchemaOutputPlan:
    """Compiles the schema of a tool's value; raises `DefinitionError` for what is none (`JS-1`, `JS-8`)."""
    frozen_schema, validator = _compile(schema, "output")
    return SchemaOutputPlan(frozen_schema, validator, _taking_of(frozen_schema))


def _compile(schema: object, what: str) -> "tuple[JsonSchema, Validator]":
    # With what it needs in turn it is a tenth of the package to import, and typed tools do without.
    from ._validator import compile_schema

    # A tool shows its schemas as objects, so the two boolean schemas are written as their equivalents.
    if isinstance(schema, bool):
        written: object = FrozenDict() if schema else FrozenDict({"not": {}})
    else:
        written = schema
    try:
        frozen_schema = freeze_arguments(written, depth=_SCHEMA_DEPTH)
    except NotLossless as error:
        raise DefinitionError(f"{what} is no JSON Schema: {error}") from None
    if not isinstance(frozen_schema, FrozenDict):
        raise DefinitionError(f"{what} is no JSON Schema: it must be an object or a boolean")
    return frozen_schema, compile_schema(frozen_schema, what)


def _admitted(taking: Taking | None, value: JsonValue) -> bool:
    return taking is not None and taking.admits(value)


def _taking_of(schema: JsonSchema) -> Taking | None:
    form = form_of(schema)
    return None if form is None else Taking(form)


# What the compiled validator can take in.
_SCHEMA_DEPTH: Final = 200
