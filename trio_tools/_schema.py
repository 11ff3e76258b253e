"""What a tool takes and what it returns: a schema to show, and the plan that holds a value to it.

There are two kinds of plans. Those read from a signature bind: they hand the body Python objects of the
declared types, in containers of its own that it may change. Those of a given JSON Schema only validate: the
body receives the frozen arguments as they came (`JS-8`).
"""

from collections.abc import Callable
from typing import Any, Final, Protocol, final

from attrs import field, frozen

from ._errors import DefinitionError
from ._json import FrozenDict, JsonSchema, JsonValue, NotLossless, freeze_arguments, freeze_value
from ._shape import Shape, explain_build, explain_entries, object_schema
from ._signature import parameters_of, returned_by
from ._validator import Validator, compile_schema
from ._violations import Place, Report, Violations

__all__ = [
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

    def bind(self, arguments: JsonValue) -> Any:
        """Returns what the body receives, or raises `Violations` with everything that is wrong."""
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


@final
@frozen(eq=False)
class ArgumentsPlan:
    """The arguments of a typed tool.

    Unknown keys at the root are dropped, an absent key is left to the function's default, and ``1.0`` reaches
    an `int` parameter as ``1`` (`JS-2` to `JS-6`). Lists and dicts are copies that belong to the body.
    """

    schema: JsonSchema
    _shapes: dict[str, Shape]
    _required: tuple[str, ...]
    _steps: tuple[tuple[str, frozenset[type], Shape, bool], ...]
    by_keyword: bool = field(default=True, init=False)

    def bind(self, arguments: JsonValue) -> dict[str, object]:
        """Returns the keyword arguments for the function; raises `Violations` with every violation."""
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
            elif shape.check(value):
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
@frozen(eq=False)
class OutputPlan:
    """The value of a typed tool.

    Instances of the attrs classes, dataclasses and enums that the annotation names become JSON, and nothing
    else does (`MA-9`, `MA-10`).
    """

    schema: JsonSchema
    _shape: Shape

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
        frozen_value = freeze_value(value, depth=depth)
        if not shape.check(frozen_value):
            report = Report("value")
            shape.explain(frozen_value, Place(), report)
            raise report.violations()
        return frozen_value


@final
@frozen(eq=False)
class SchemaArgumentsPlan:
    """The arguments of a tool with a given JSON Schema; nothing is dropped or converted (`JS-8`)."""

    schema: JsonSchema
    _validator: Validator | None
    by_keyword: bool = field(default=False, init=False)

    def bind(self, arguments: JsonValue) -> JsonValue:
        """Returns the arguments untouched; raises `Violations` with every violation."""
        if self._validator is not None:
            self._validator.check(arguments, root="arguments")
        return arguments


@final
@frozen(eq=False)
class SchemaOutputPlan:
    """The value of a tool with a given JSON Schema (`JS-8`)."""

    schema: JsonSchema
    _validator: Validator
    runs_foreign_code: bool = field(default=False, init=False)

    def accept(self, value: object, *, depth: int) -> JsonValue:
        """Returns the value as frozen JSON; raises `NotLossless`, `TooDeep` or `Violations`."""
        frozen_value = freeze_value(value, depth=depth)
        self._validator.check(frozen_value, root="value")
        return frozen_value


def plan_arguments(fn: Callable[..., object], *, skip: frozenset[str] = frozenset()) -> ArgumentsPlan:
    """Reads the parameters of a function, but for those in `skip`; raises `DefinitionError` (`JS-7`)."""
    entries = parameters_of(fn, skip=skip)
    shapes = {entry.key: entry.shape for entry in entries}
    required = [entry.key for entry in entries if entry.required]
    return ArgumentsPlan(
        FrozenDict(object_schema(shapes, required)),
        shapes,
        tuple(required),
        tuple((entry.key, entry.shape.plain, entry.shape, entry.required) for entry in entries),
    )


def plan_output(fn: Callable[..., object]) -> OutputPlan:
    """Reads the return annotation of a function, where none accepts any JSON; raises `DefinitionError`."""
    shape = returned_by(fn)
    return OutputPlan(FrozenDict(shape.schema), shape)


def plan_schema_arguments(schema: object, *, validate: bool = True) -> SchemaArgumentsPlan:
    """Compiles the schema of a tool's arguments; raises `DefinitionError` for what is none (`JS-1`, `JS-8`).

    With `validate=False` the schema is held to the same rules, and the arguments are left to the body.
    """
    frozen_schema, validator = _compile(schema, "parameters")
    return SchemaArgumentsPlan(frozen_schema, validator if validate else None)


def plan_schema_output(schema: object) -> SchemaOutputPlan:
    """Compiles the schema of a tool's value; raises `DefinitionError` for what is none (`JS-1`, `JS-8`)."""
    return SchemaOutputPlan(*_compile(schema, "output"))


def _compile(schema: object, what: str) -> tuple[JsonSchema, Validator]:
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


# What the compiled validator can take in.
_SCHEMA_DEPTH: Final = 200
