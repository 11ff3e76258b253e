"""Reads the signature of a tool's function: annotations become shapes.

What the author of a tool got wrong is a `DefinitionError` that says what to write instead.
"""

import dataclasses
import inspect
import sys
import types
import typing
from collections import ChainMap
from collections.abc import Callable, Mapping
from enum import Enum, Flag
from typing import Any, ForwardRef, Literal, TypeGuard, TypeVar, Union, final

import attrs

from ._callables import innermost, misfit, signature_of
from ._errors import DefinitionError, text_of
from ._json import JsonValue, NotLossless, freeze_arguments
from ._shape import (
    ANYTHING,
    BOOLEAN,
    INTEGER,
    NULL,
    NUMBER,
    STRING,
    Entry,
    Shape,
    choice_of,
    described,
    dict_of,
    list_of,
    record_of,
    typed_dict_of,
    union_of,
)
from ._text import clipped, join_surrogates, repair_text, shown

_SIMPLE: dict[Any, Shape] = {
    str: STRING,
    int: INTEGER,
    float: NUMBER,
    bool: BOOLEAN,
    None: NULL,
    type(None): NULL,
    Any: ANYTHING,
    object: ANYTHING,
    list: list_of(ANYTHING),
    dict: dict_of(ANYTHING),
    typing.List: list_of(ANYTHING),  # noqa: UP006
    typing.Dict: dict_of(ANYTHING),  # noqa: UP006
}
# What may stand around the type of a key in a `TypedDict`, and nowhere else.
_QUALIFIERS = ("Required", "NotRequired", "ReadOnly")
# Whose notes and defaults promise checks that nobody here would make.
_CHECKERS = frozenset({"annotated_types", "pydantic", "pydantic_core", "msgspec"})
_SUPPORTED = (
    "str, int, float, bool, None, list[T], dict[str, T], Literal, Enum, unions, attrs classes, "
    "dataclasses, TypedDict and JsonValue"
)
_UNANNOTATED = {
    "self": "make the tool of the method of an object, which is bound",
    "cls": "make the tool of the method of a class, which is bound",
    "ctx": "annotate it ToolContext for the context of the call",
}
# Further than any readable signature nests; recursive aliases of which each turn makes a new object end here.
_MAX_NESTING = 100
# Of a place that is further down than anybody reads.
_WHERE = 300


def parameters_of(fn: Callable[..., object], *, skip: frozenset[str]) -> list[Entry]:
    """Returns the parameters of a function, in order, as the properties of its arguments object.

    The parameters named in `skip` are left out. Raises `DefinitionError` for a parameter that is unannotated,
    positional-only or starred, and for a type that is recursive or unsupported (`JS-7`).
    """
    name = _name_of(fn)
    signature = signature_of(fn)
    reader = _Reader(output=False)
    scope = _scope_of(fn)
    entries: list[Entry] = []
    for parameter in signature.parameters.values():
        where = f'parameter "{parameter.name}" of {name}'
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise DefinitionError(
                f"{where} is positional-only; arguments have names, so remove the slash behind it"
            )
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise DefinitionError(f"{where} is starred; declare each argument, or take one list or dict")
        if parameter.name in skip:
            continue
        if parameter.annotation is parameter.empty:
            hint = _UNANNOTATED.get(parameter.name, f"use one of {_SUPPORTED}")
            raise DefinitionError(f"{where} has no annotation; {hint}")
        shape = reader.read(parameter.annotation, scope, where)
        required = parameter.default is parameter.empty
        if not required:
            if _promises_checks(parameter.default):
                raise DefinitionError(
                    f"{where} has the default {shown(parameter.default)}, which the body would receive as it "
                    'is; write the value itself, and a description as Annotated[T, "text"]'
                )
            shape = _with_default(shape, parameter.default)
        entries.append(Entry(key=parameter.name, attribute=parameter.name, shape=shape, required=required))
    return entries


def returned_by(fn: Callable[..., object]) -> Shape:
    """Returns the shape of what a function returns; without a return annotation any JSON will do.

    Raises `DefinitionError` for a recursive or unsupported type (`JS-7`).
    """
    annotation = signature_of(fn).return_annotation
    if annotation is inspect.Signature.empty:
        return ANYTHING
    reader = _Reader(output=True)
    return reader.read(annotation, _scope_of(fn), f"the return annotation of {_name_of(fn)}")


def _name_of(fn: object) -> str:
    return f"{getattr(fn, '__qualname__', None) or type(fn).__qualname__}()"


@attrs.frozen(eq=False, repr=False)
class _Scope:
    """Where the names in an annotation are looked up."""

    names: tuple[Mapping[str, Any], ...]
    enclosing: Mapping[str, Any]
    # What the type variables of a generic class stand for, each with the scope it was written in.
    variables: Mapping[Any, tuple[Any, "_Scope"]] = attrs.field(factory=dict[Any, Any])


def _scope_of(fn: Callable[..., object]) -> _Scope:
    inner = innermost(fn)
    code = getattr(inner, "__code__", None)
    cells: dict[str, Any] = {}
    for name, cell in zip(
        getattr(code, "co_freevars", ()), getattr(inner, "__closure__", None) or (), strict=False
    ):
        try:
            cells[name] = cell.cell_contents
        except ValueError:
            continue  # the name is bound later in the enclosing function
    enclosing = ChainMap(cells, *_enclosing_locals(code))
    return _Scope((enclosing, getattr(inner, "__globals__", {})), enclosing)


def _enclosing_locals(code: types.CodeType | None) -> list[dict[str, Any]]:
    """Returns the locals of the functions on the stack that lexically enclose a function, nearest first.

    A name that only an annotation uses, postponed to a string, is in no closure. While the enclosing function
    still runs, as it does when a decorator is applied, its frame has it: the frame whose constants hold the
    code of the function.
    """
    found: list[dict[str, Any]] = []
    frame = inspect.currentframe()
    while frame is not None and code is not None:
        if any(constant is code for constant in frame.f_code.co_consts):
            found.append(dict(frame.f_locals))
            code = frame.f_code
        frame = frame.f_back
    return found


@final
class _Reader:
    """Turns annotations into shapes; `output` includes the fields that a class sets by itself."""

    def __init__(self, *, output: bool) -> None:
        self._output = output
        self._open: list[object] = []

    def read(self, annotation: Any, scope: _Scope, where: str) -> Shape:
        """Returns the shape of an annotation; `where` is how a message calls its place."""
        try:
            return self.shape(annotation, scope, where)
        except DefinitionError:
            raise
        except Exception as error:
            # Annotations are objects of anybody's, and so are their classes.
            raise DefinitionError(
                f"{where} has an annotation that cannot be read, {shown(annotation)}: {text_of(error)}"
            ) from error

    def shape(self, annotation: Any, scope: _Scope, where: str) -> Shape:
        """Returns the shape of an annotation, or of a part of one."""
        # Only a class is the same type wherever it occurs. A name may mean two types in two scopes, and what
        # mentions a type variable has another argument at each turn; there, the nesting tells.
        seen = _is_class(annotation) and any(annotation is outer for outer in self._open)
        if seen or len(self._open) >= _MAX_NESTING:
            raise DefinitionError(
                f"{clipped(where, _WHERE)} has a recursive type; use JsonValue for data of unknown depth"
            )
        self._open.append(annotation)
        try:
            return self._read(annotation, scope, where)
        finally:
            self._open.pop()

    def _read(self, annotation: Any, scope: _Scope, where: str) -> Shape:
        if isinstance(annotation, ForwardRef):
            annotation = annotation.__forward_arg__
        if isinstance(annotation, str):
            return self._read(_evaluate(annotation, scope, where), scope, where)
        try:
            if annotation == JsonValue:
                return ANYTHING
            simple = _SIMPLE.get(annotation)
        except TypeError:
            raise _unsupported(annotation, where) from None
        if simple is not None:
            return simple
        if annotation in (typing.NoReturn, typing.Never):
            if self._output:
                return ANYTHING
            raise DefinitionError(f"{where} has a type without values; leave it out")
        if isinstance(annotation, TypeVar):
            if annotation not in scope.variables:
                raise DefinitionError(
                    f"{where} is the type variable {annotation}; a tool needs a type that is known"
                )
            argument, outer = scope.variables[annotation]
            return self._read(argument, outer, where)
        if hasattr(annotation, "__supertype__"):
            return self.shape(annotation.__supertype__, scope, where)
        if type(annotation).__name__ == "TypeAliasType":
            return self.shape(annotation.__value__, scope, where)
        origin = typing.get_origin(annotation)
        if origin is None:
            return self._read_class(annotation, scope, where)
        return self._read_generic(origin, typing.get_args(annotation), annotation, scope, where)

    def _read_generic(
        self, origin: Any, args: tuple[Any, ...], annotation: Any, scope: _Scope, where: str
    ) -> Shape:
        if origin is typing.Annotated:
            inner = self.shape(annotation.__origin__, scope, where)
            return _with_description(inner, annotation.__metadata__, where)
        if origin is Literal:
            return choice_of([(_literal_value(option, where), option) for option in args])
        if origin is Union or origin is types.UnionType:
            return union_of([self.shape(branch, scope, where) for branch in args])
        if origin is list:
            if len(args) != 1:
                raise _unsupported(annotation, where)
            return list_of(self.shape(args[0], scope, f"an item in {where}"))
        if origin is dict:
            if len(args) != 2:
                raise _unsupported(annotation, where)
            # A description is no other type.
            if self.shape(args[0], scope, where).check is not STRING.check:
                raise DefinitionError(
                    f"{where} is a dict whose keys are not str; the keys of a JSON object are strings"
                )
            return dict_of(self.shape(args[1], scope, f"a value in {where}"))
        if _qualifier(annotation):
            raise DefinitionError(
                f"{where} is {_qualifier(annotation)}, which only a key of a TypedDict can be; a parameter "
                "need not be given if it has a default"
            )
        if type(origin).__name__ == "TypeAliasType":
            inner = attrs.evolve(scope, variables=_bind(origin.__type_params__, args, scope))
            return self.shape(origin.__value__, inner, where)
        if _fields_of(origin) is not None or hasattr(origin, "__required_keys__"):
            variables = _bind(getattr(origin, "__parameters__", ()), args, scope)
            return self._read_class(origin, attrs.evolve(scope, variables=variables), where)
        raise _unsupported(annotation, where)

    def _read_class(self, cls: Any, scope: _Scope, where: str) -> Shape:
        if not _is_class(cls):
            raise _unsupported(cls, where)
        if issubclass(cls, Enum):
            if issubclass(cls, Flag) or not len(cls):
                raise _unsupported(cls, where)
            return choice_of([(_literal_value(option, where), option) for option in cls])
        if dict in cls.__mro__ and hasattr(cls, "__required_keys__"):
            return self._read_typed_dict(cls, scope, where)
        fields = _fields_of(cls)
        if fields is None:
            raise _unsupported(cls, where)
        entries: list[Entry] = []
        for key, attribute, annotation, default, given in fields:
            if not given and not self._output:
                continue
            inner = f'field "{attribute}" of {cls.__qualname__}, in {where}'
            if annotation is None and not _is_annotated(cls, attribute):
                raise DefinitionError(f"{inner} has no annotation; use one of {_SUPPORTED}")
            shape = self.shape(annotation, _scope_of_class(cls, attribute, scope), inner)
            required = given and default is attrs.NOTHING
            if given and not required:
                shape = _with_default(shape, default)
            entries.append(Entry(key=key, attribute=attribute, shape=shape, required=required, given=given))
        _check_constructor(cls, [entry for entry in entries if entry.given], where)
        return record_of(cls, entries)

    def _read_typed_dict(self, cls: Any, scope: _Scope, where: str) -> Shape:
        entries: list[Entry] = []
        for key, annotation in cls.__annotations__.items():
            inner = f"key {shown(key)} of {cls.__qualname__}, in {where}"
            if repair_text(key) is not key:
                raise DefinitionError(f"{inner} has surrogates, which no key of an object has")
            own = _scope_of_class(cls, key, scope)
            required = key in cls.__required_keys__
            if isinstance(annotation, str | ForwardRef):
                # Postponed annotations hide Required and NotRequired from the class itself.
                text = annotation if isinstance(annotation, str) else annotation.__forward_arg__
                annotation = _evaluate(text, own, inner)
            shape, said = self._read_key(annotation, own, inner)
            required = {"Required": True, "NotRequired": False}.get(said, required)
            entries.append(Entry(key=key, attribute=key, shape=shape, required=required))
        return typed_dict_of(cls.__name__, entries)

    def _read_key(self, annotation: Any, scope: _Scope, where: str) -> tuple[Shape, str]:
        """Returns the shape of a key, and whether it is said to be `Required` or `NotRequired`."""
        qualifier = _qualifier(annotation)
        if qualifier:
            shape, said = self._read_key(typing.get_args(annotation)[0], scope, where)
            return shape, said or qualifier.replace("ReadOnly", "")
        if typing.get_origin(annotation) is typing.Annotated:
            shape, said = self._read_key(annotation.__origin__, scope, where)
            return _with_description(shape, annotation.__metadata__, where), said
        return self.shape(annotation, scope, where), ""


def _qualifier(annotation: Any) -> str:
    name = getattr(typing.get_origin(annotation), "_name", "")
    return name if name in _QUALIFIERS else ""


def _promises_checks(note: object) -> bool:
    return type(note).__module__.partition(".")[0] in _CHECKERS


def _is_class(annotation: object) -> TypeGuard[Any]:
    # `isinstance` calls `list[int]` a class as well.
    return isinstance(annotation, type) and typing.get_origin(annotation) is None


def _unsupported(annotation: Any, where: str) -> DefinitionError:
    name = annotation.__qualname__ if _is_class(annotation) else shown(annotation)
    return DefinitionError(f"{where} has the unsupported type {name}; use one of {_SUPPORTED}")


def _evaluate(text: str, scope: _Scope, where: str) -> Any:
    names: dict[str, Any] = {"JsonValue": JsonValue}
    for known in reversed(scope.names):
        names.update(known)
    try:
        return eval(text, names)  # the author's own annotation
    except Exception as error:
        raise DefinitionError(
            f"{where} has an annotation that cannot be resolved, {shown(text)}: {error}; "
            "its names must exist when the tool is defined"
        ) from error


def _is_annotated(cls: type, attribute: str) -> bool:
    return any(attribute in inspect.get_annotations(base) for base in cls.__mro__)


def _scope_of_class(cls: type, attribute: str, scope: _Scope) -> _Scope:
    owner = next((base for base in cls.__mro__ if attribute in inspect.get_annotations(base)), cls)
    module = getattr(sys.modules.get(owner.__module__), "__dict__", {})
    # A class made inside a function may use names of that function; any other class knows nothing of them.
    enclosing: Mapping[str, Any] = scope.enclosing if "<locals>" in owner.__qualname__ else {}
    return _Scope((enclosing, module, vars(owner)), scope.enclosing, scope.variables)


def _bind(parameters: tuple[Any, ...], args: tuple[Any, ...], scope: _Scope) -> dict[Any, tuple[Any, _Scope]]:
    return {parameter: (argument, scope) for parameter, argument in zip(parameters, args, strict=False)}


def _check_constructor(cls: type, entries: list[Entry], where: str) -> None:
    if inspect.isabstract(cls):
        raise DefinitionError(f"{where} uses {cls.__qualname__}, which is abstract; use a class of its own")
    for given in (entries, [entry for entry in entries if entry.required]):
        if problem := misfit(cls, **{entry.key: None for entry in given}):
            raise DefinitionError(
                f"{where} uses {cls.__qualname__}, whose constructor does not take its fields: {problem}"
            )


def _fields_of(cls: Any) -> list[tuple[str, str, Any, Any, bool]] | None:
    """Returns key, attribute, annotation, default and whether the constructor takes it, for each field."""
    if attrs.has(cls):
        return [
            (field.alias or field.name, field.name, field.type, field.default, field.init)
            for field in attrs.fields(cls)
        ]
    if dataclasses.is_dataclass(cls):
        return [
            (field.name, field.name, field.type, _default_of(field), field.init)
            for field in dataclasses.fields(cls)
        ]
    return None


def _default_of(field: "dataclasses.Field[Any]") -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return attrs.Factory(field.default_factory)
    return attrs.NOTHING


def _literal_value(option: Any, where: str) -> JsonValue:
    try:
        return freeze_arguments(option.value if isinstance(option, Enum) else option, depth=_MAX_NESTING)
    except NotLossless as error:
        raise DefinitionError(
            f"{where} has the option {shown(option)}, which is no JSON value: {error}"
        ) from None


def _with_default(shape: Shape, default: Any) -> Shape:
    """Notes a default in the schema if JSON can say it; the function applies it, not the library (`JS-6`)."""
    try:
        value = freeze_arguments(shape.projected(default), depth=_MAX_NESTING)
    except Exception:
        return shape
    return described(shape, default=value) if shape.check(value) else shape


def _with_description(shape: Shape, metadata: tuple[Any, ...], where: str) -> Shape:
    for note in metadata:
        if _promises_checks(note):
            raise DefinitionError(
                f"{where} is annotated with {shown(note)}, which would not be checked; check it in the body, "
                "or give a JSON Schema to Tool.from_schema"
            )
    for note in metadata:
        text = note if isinstance(note, str) else getattr(note, "documentation", None)
        if isinstance(text, str):
            try:
                return described(shape, description=join_surrogates(str.__str__(text)))
            except UnicodeDecodeError:
                raise DefinitionError(
                    f"{where} has the description {shown(text)}, and a lone surrogate in it cannot be encoded"
                ) from None
    return shape
