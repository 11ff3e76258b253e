"""A tool: a function that is called by name with JSON arguments, and what is declared about it."""

import inspect
import re
import sys
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial
from typing import Any, Final, ForwardRef, Generic, ParamSpec, TypeVar, cast, final, get_args, overload

from attrs import field, frozen

from ._callables import innermost, is_async, misfit, signature_of, yields
from ._errors import DefinitionError
from ._json import FrozenDict, JsonSchema, JsonValue, thaw
from ._schema import (
    PlanOfArguments,
    PlanOfOutput,
    plan_arguments,
    plan_output,
    plan_schema_arguments,
    plan_schema_output,
)
from ._text import repair_text, shown

__all__ = ["BodyContext", "Effect", "FunctionTool", "Tool", "tool"]

P = ParamSpec("P")
R = TypeVar("R")


class BodyContext:
    """What marks the class of the view that a body receives, so that a signature can ask for it."""

    __slots__ = ()


@final
class Effect(StrEnum):
    """What running a tool may do to the world; declared by its author, and used to decide on retries."""

    READ_ONLY = "read_only"
    IDEMPOTENT_WRITE = "idempotent_write"
    NON_IDEMPOTENT_WRITE = "non_idempotent_write"
    UNKNOWN = "unknown"


def _timeout(value: object) -> float | None:
    if value is None:
        return None
    if type(value) not in (int, float) or not 0 < cast("float", value) <= sys.float_info.max:
        raise DefinitionError(f"a timeout is a finite number of seconds above zero, not {shown(value)}")
    return float(cast("float", value))


def _effect(value: object) -> Effect:
    try:
        return Effect(cast("str", value))
    except Exception:
        raise DefinitionError(f"an effect is one of {', '.join(Effect)}, not {shown(value)}") from None


def _name(_tool: object, _attribute: object, value: object) -> None:
    if type(value) is not str or not value:
        raise DefinitionError(f"the name of a tool is a non-empty string, not {shown(value)}")
    _refuse_broken_text("name", value)


def _description(_tool: object, _attribute: object, value: object) -> None:
    if type(value) is not str:
        raise DefinitionError(f"the description of a tool is a string, not {shown(value)}")
    _refuse_broken_text("description", value)


def _refuse_broken_text(what: str, text: str) -> None:
    if repair_text(text) is not text:
        raise DefinitionError(
            f"the {what} of a tool is text that can be encoded: {shown(text)} has surrogates"
        )


_HOOKS: Final = {
    "render": ("arguments", "value"),
    "meta": ("arguments", "value"),
    "finalize": ("execution", "result"),
}


def _function(_tool: object, attribute: object, value: object) -> None:
    name = str(getattr(attribute, "name", ""))
    if value is None:
        return
    if not callable(value):
        raise DefinitionError(f"{name} is a function or None, not {shown(value)}")
    parameters = _HOOKS[name]
    how = f"{name}({', '.join(parameters)})"
    if yields(value):
        raise DefinitionError(f"{name} returns what it makes: {shown(value)} is a generator, return a list")
    if problem := misfit(value, *parameters):
        raise DefinitionError(f"{name} is called as {how}, and {shown(value)} cannot be: {problem}")


def _safe(_tool: object, _attribute: object, value: object) -> None:
    # Whatever function it is: one that fails makes its calls exclusive, by rule (`BA-2`).
    if not (isinstance(value, bool) or callable(value)):
        raise DefinitionError(
            f"concurrency_safe is a bool or a function of the arguments, not {shown(value)}"
        )


@frozen(kw_only=True, eq=False, repr=False)
class Tool:
    """A tool, made by `tool`, `Tool.from_function` or `Tool.from_schema`.

    Attributes:
        name: what a model calls it by.
        description: what a model reads about it.
        parameters: the JSON Schema of its arguments.
        output: the JSON Schema of its value.
        timeout: seconds for inner wrappers and the body, enforced by the timeout wrapper (`TI-1`);
            None for no limit. Never shown to a model (`TI-2`).
        effect: what running it may do to the world.
        concurrency_safe: whether it may overlap with its neighbours in a batch; True, or a function
            that returns exactly True for the frozen arguments (`BA-2`).
        render: ``render(arguments, value)`` makes the content; compact JSON text by default (`MA-13`).
        meta: ``meta(arguments, value)`` projects the result's meta, for root calls only (`MA-14`).
        finalize: ``finalize(execution, result)`` may replace the content of any result (`PU-3`).

    Raises:
        DefinitionError: when what is declared cannot be kept (`JS-1`, `JS-7`, `JS-8`, `TI-2`).
    """

    name: str = field(validator=_name)
    description: str = field(validator=_description)
    parameters: JsonSchema
    output: JsonSchema
    timeout: float | None = field(default=None, converter=_timeout)
    effect: Effect = field(default=Effect.UNKNOWN, converter=_effect)
    concurrency_safe: bool | Callable[..., bool] = field(default=False, validator=_safe)
    render: Callable[..., object] | None = field(default=None, validator=_function)
    meta: Callable[..., object] | None = field(default=None, validator=_function)
    finalize: Callable[..., object] | None = field(default=None, validator=_function)
    body: Callable[..., object]
    is_async: bool
    context_parameter: str | None
    arguments_plan: PlanOfArguments
    output_plan: PlanOfOutput

    def __attrs_post_init__(self) -> None:
        # The schemas that are shown are those that are kept: whoever wants others makes another tool.
        kept = (getattr(plan, "schema", None) for plan in (self.arguments_plan, self.output_plan))
        for shown_schema, schema in zip((self.parameters, self.output), kept, strict=True):
            if not isinstance(schema, FrozenDict) or shown_schema is not schema:
                raise DefinitionError(_MADE_BY)
        if not callable(self.body) or type(self.is_async) is not bool:
            raise DefinitionError(_MADE_BY)

    def schema(self) -> Mapping[str, JsonValue]:
        """Return what a model may see: name, description and parameters, as a detached copy (`LA-12`)."""
        return {
            "name": self.name,
            "description": self.description,
            "parameters": thaw(cast("JsonValue", self.parameters)),
        }

    def invoke(self, bound: Any, context: BodyContext | None) -> object:
        """Call the body with arguments that its plan bound; an ``async def`` body gives a coroutine."""
        extra: dict[str, object] = {} if self.context_parameter is None else {self.context_parameter: context}
        if self.arguments_plan.by_keyword:
            return self.body(**bound, **extra)
        return self.body(bound, **extra)

    @classmethod
    def from_function(
        cls,
        fn: Callable[P, R],
        *,
        name: str | None = None,
        description: str | None = None,
        timeout: float | None = None,
        effect: Effect = Effect.UNKNOWN,
        concurrency_safe: bool | Callable[..., bool] = False,
        render: Callable[..., object] | None = None,
        meta: Callable[..., object] | None = None,
        finalize: Callable[..., object] | None = None,
    ) -> "FunctionTool[P, R]":
        """Make a tool of ``fn``, whose signature gives the schemas; see `tool`."""
        _refuse_unfit(fn)
        context_parameter = _annotated_context(fn)
        _refuse_hidden_context(fn)
        arguments = plan_arguments(
            fn, skip=frozenset() if context_parameter is None else frozenset({context_parameter})
        )
        output = plan_output(fn)
        named: object = fn
        while isinstance(named, partial):
            named = named.func
        return FunctionTool(
            name=getattr(named, "__name__", type(named).__name__) if name is None else name,
            description=(inspect.getdoc(named) or "") if description is None else description,
            parameters=arguments.schema,
            output=output.schema,
            timeout=timeout,
            effect=effect,
            concurrency_safe=concurrency_safe,
            render=render,
            meta=meta,
            finalize=finalize,
            body=fn,
            is_async=is_async(fn),
            context_parameter=context_parameter,
            arguments_plan=arguments,
            output_plan=output,
            function=fn,
        )

    @classmethod
    def from_schema(
        cls,
        *,
        name: str,
        description: str,
        parameters: Mapping[str, object] | bool,
        output: Mapping[str, object] | bool,
        body: Callable[..., object],
        validate_arguments: bool = True,
        timeout: float | None = None,
        effect: Effect = Effect.UNKNOWN,
        concurrency_safe: bool | Callable[..., bool] = False,
        render: Callable[..., object] | None = None,
        meta: Callable[..., object] | None = None,
        finalize: Callable[..., object] | None = None,
    ) -> "Tool":
        """Make a tool of two JSON Schemas and a body (`JS-8`).

        The body is called as ``body(arguments)`` with the frozen arguments, from which nothing was
        dropped or converted, and with ``ctx=`` if it takes a parameter of that name or one annotated
        as a `ToolContext`.

        Args:
            parameters, output: JSON Schemas of draft 2020-12, or of the draft that ``$schema`` names.
            validate_arguments: False leaves the check of the arguments to the body.

        Raises:
            DefinitionError: when a schema is none or holds a keyword that cannot be enforced, or when the
                body cannot be called like that.
        """
        _refuse_unfit(body)
        if type(validate_arguments) is not bool:
            raise DefinitionError(f"validate_arguments is a bool, not {shown(validate_arguments)}")
        context_parameter = _annotated_context(body) or _parameter_called_ctx(body)
        extra = {} if context_parameter is None else {context_parameter: None}
        if problem := misfit(body, None, **extra):
            how = ", ".join(("arguments", *(f"{name}=..." for name in extra)))
            raise DefinitionError(f"a body is called as body({how}), and {shown(body)} cannot be: {problem}")
        arguments = plan_schema_arguments(parameters, validate=validate_arguments)
        result = plan_schema_output(output)
        return Tool(
            name=name,
            description=description,
            parameters=arguments.schema,
            output=result.schema,
            timeout=timeout,
            effect=effect,
            concurrency_safe=concurrency_safe,
            render=render,
            meta=meta,
            finalize=finalize,
            body=body,
            is_async=is_async(body),
            context_parameter=context_parameter,
            arguments_plan=arguments,
            output_plan=result,
        )

    def __repr__(self) -> str:
        return f"<Tool {self.name!r}, {self.effect}>"


@final
@frozen(kw_only=True, eq=False, repr=False)
class FunctionTool(Tool, Generic[P, R]):
    """A tool made of a function, which stays callable as it was: outside the registry, and unguarded.

    Attributes:
        function: the function itself, with its own types.
    """

    function: Callable[P, R]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself, as a unit test would; no scope, no check, no result."""
        return self.function(*args, **kwargs)


_MADE_BY: Final = (
    "a Tool is made by @tool, Tool.from_function or Tool.from_schema, which read its schemas: "
    "for other schemas make another tool"
)


def _refuse_unfit(fn: object) -> None:
    if isinstance(fn, Tool):
        raise DefinitionError(f"{shown(fn.name)} is a tool already")
    if not callable(fn):
        raise DefinitionError(
            f"a tool is made of a function, not of {shown(fn)}; options are given by name, as in "
            "@tool(name=...)"
        )
    if yields(fn):
        raise DefinitionError(
            f"a tool returns one value, and {shown(fn)} is a generator: collect the items in a list, or "
            "tell of them with ctx.progress"
        )


def _parameter_called_ctx(fn: Callable[..., object]) -> str | None:
    parameter = signature_of(fn).parameters.get("ctx")
    starred = parameter is None or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    return None if starred else "ctx"


def _annotated_context(fn: Callable[..., object]) -> str | None:
    parameters = signature_of(fn).parameters.items()
    found = [name for name, parameter in parameters if _is_context(fn, parameter.annotation)]
    if len(found) > 1:
        raise DefinitionError(f"a body takes one ToolContext, not {len(found)}: {', '.join(found)}")
    return found[0] if found else None


def _is_context(fn: Callable[..., object], annotation: object) -> bool:
    if isinstance(annotation, str):
        # An import for the type checker alone leaves no object behind the name.
        last: Final = annotation.strip("'\"").rpartition(".")[2]
        annotation = getattr(innermost(fn), "__globals__", {}).get(last, None) or (
            _Named if last == "ToolContext" else None
        )
    return _is_class_of_contexts(annotation)


def _refuse_hidden_context(fn: Callable[..., object]) -> None:
    for name, parameter in signature_of(fn).parameters.items():
        if not _is_context(fn, parameter.annotation) and _mentions_context(parameter.annotation):
            raise DefinitionError(
                f'parameter "{name}" of {shown(fn)} is annotated with more than ToolContext: every call has '
                f"a context, so write {name}: ToolContext"
            )


def _mentions_context(annotation: object) -> bool:
    if isinstance(annotation, str):
        return re.search(r"\bToolContext\b", annotation) is not None
    if isinstance(annotation, ForwardRef):
        return _mentions_context(annotation.__forward_arg__)
    return _is_class_of_contexts(annotation) or any(map(_mentions_context, get_args(annotation)))


def _is_class_of_contexts(annotation: object) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BodyContext)


class _Named(BodyContext):
    """Stands for a class that is only named in an annotation."""


@overload
def tool(fn: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
    effect: Effect = Effect.UNKNOWN,
    concurrency_safe: bool | Callable[..., bool] = False,
    render: Callable[..., object] | None = None,
    meta: Callable[..., object] | None = None,
    finalize: Callable[..., object] | None = None,
) -> "ToolDecorator": ...


def tool(fn: Callable[..., object] | None = None, /, **options: object) -> object:
    """Make a tool of a function: ``@tool`` or ``@tool(timeout=5, effect=Effect.READ_ONLY, ...)``.

    The parameters' types give the schema: scalars, ``list``, ``dict[str, T]``, ``Literal``, enums,
    ``X | None``, unions, attrs classes, dataclasses, ``TypedDict`` and ``Annotated[T, "description"]``.
    A parameter annotated `ToolContext` receives the call's context and is never in the schema. An
    ``async def`` body runs on the loop, a ``def`` body in a worker thread (`BO-3`, `BO-13`).

    Args:
        name: what a model calls it by; the function's name by default.
        description: what a model reads about it; the docstring by default.
        timeout: seconds, finite and above zero (`TI-2`).
        effect: what running it may do to the world.
        concurrency_safe: True, or a pure function of the arguments (`BA-2`).
        render: ``render(arguments, value) -> content``.
        meta: ``meta(arguments, value) -> JSON`` (`MA-14`).
        finalize: ``finalize(execution, result) -> content | None`` (`PU-3`).

    Raises:
        DefinitionError: when the signature or an option cannot be kept (`JS-7`).
    """
    make = ToolDecorator(options)
    return make if fn is None else make(fn)


@final
class ToolDecorator:
    """What ``tool(...)`` with options returns: applied to a function, it makes the tool."""

    __slots__ = ("_options",)

    def __init__(self, options: Mapping[str, object]) -> None:
        known = list(inspect.signature(Tool.from_function).parameters)[1:]
        if unknown := sorted(set(options) - set(known)):
            raise DefinitionError(f"a tool has no option {', '.join(unknown)}; it has {', '.join(known)}")
        self._options: Final = options

    def __call__(self, fn: Callable[P, R], /) -> FunctionTool[P, R]:
        """Make a tool of ``fn``."""
        return Tool.from_function(fn, **self._options)  # pyright: ignore[reportArgumentType]
