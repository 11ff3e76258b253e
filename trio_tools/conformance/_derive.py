"""A strategy for the values of a JSON Schema.

Objects, arrays and unions are put together here; what is left, such as a string with a pattern or a
number with a step, is asked of hypothesis-jsonschema. Its own way with objects needs parts of Hypothesis
that are not there in every version.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["SchemaError", "strategy_for"]

_OBJECT: Final = frozenset(
    {"type", "properties", "required", "additionalProperties", "title", "description", "default", "$defs"}
)
_ARRAY: Final = frozenset(
    {"type", "items", "minItems", "maxItems", "title", "description", "default", "uniqueItems"}
)
_MOST_ITEMS: Final = 4
_DEPTH: Final = 6


class SchemaError(Exception):
    """No strategy can be derived from a schema."""


def strategy_for(schema: Mapping[str, Any]) -> "SearchStrategy[Any]":
    """Return a strategy for the values that ``schema`` admits.

    Raises:
        SchemaError: when that is beyond this module and hypothesis-jsonschema.
    """
    return _derived(schema, schema, 0)


def _derived(schema: object, root: Mapping[str, Any], depth: int) -> "SearchStrategy[Any]":
    from hypothesis import strategies as st

    if schema is False or depth > _DEPTH:
        return st.nothing()
    if schema is True or schema == {}:
        return _anything()
    if not isinstance(schema, Mapping):
        raise SchemaError(f"{schema!r} is no schema")
    known = cast("Mapping[str, Any]", schema)
    if "$ref" in known:
        return _derived(_resolved(known["$ref"], root), root, depth + 1)
    if "const" in known:
        return st.just(known["const"])
    if "enum" in known:
        return st.sampled_from(known["enum"])
    for word in ("anyOf", "oneOf"):
        if word in known and set(known) <= {word, "title", "description", "default"}:
            return st.one_of(*(_derived(branch, root, depth) for branch in known[word]))
    kind = known.get("type")
    if isinstance(kind, list):
        kinds = cast("list[str]", kind)
        return st.one_of(*(_derived({**known, "type": each}, root, depth) for each in kinds))
    if kind == "object" and set(known) <= _OBJECT:
        return _object(known, root, depth)
    if kind == "array" and set(known) <= _ARRAY:
        return _array(known, root, depth)
    return _asked(known)


def _anything() -> "SearchStrategy[Any]":
    from hypothesis import strategies as st

    leaves = st.none() | st.booleans() | st.integers(-100, 100) | st.text(max_size=8)
    return st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
    )


def _resolved(reference: str, root: Mapping[str, Any]) -> object:
    if not reference.startswith("#"):
        raise SchemaError(f"{reference!r} leads out of the schema")
    found: Any = root
    for part in reference.removeprefix("#").strip("/").split("/"):
        if not part:
            continue
        try:
            found = found[part.replace("~1", "/").replace("~0", "~")]
        except (KeyError, TypeError) as error:
            raise SchemaError(f"{reference!r} leads nowhere") from error
    return found


def _object(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> "SearchStrategy[Any]":
    from hypothesis import strategies as st

    properties: Mapping[str, Any] = schema.get("properties", {})
    required = set(schema.get("required", ()))
    strategies = {name: _derived(each, root, depth + 1) for name, each in properties.items()}
    strategies.update({name: _anything() for name in sorted(required - set(properties))})
    fixed = st.fixed_dictionaries(
        {name: each for name, each in strategies.items() if name in required},
        optional={name: each for name, each in strategies.items() if name not in required},
    )
    further = schema.get("additionalProperties", False)
    if properties or further is False or further is True:
        # Keys that are merely admitted are dropped before a body sees them.
        return fixed
    names = st.text(max_size=8).filter(lambda name: name not in properties)
    return st.dictionaries(names, _derived(further, root, depth + 1), max_size=_MOST_ITEMS)


def _array(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> "SearchStrategy[Any]":
    from hypothesis import strategies as st

    least = int(schema.get("minItems", 0))
    most = int(schema.get("maxItems", max(least, _MOST_ITEMS)))
    unique_by = repr if schema.get("uniqueItems") else None
    items = _derived(schema.get("items", True), root, depth + 1)
    if items.is_empty and not least:
        return st.just([])  # a schema that refers to itself ends here
    return st.lists(
        items,
        min_size=least,
        max_size=min(most, max(least, _MOST_ITEMS)),
        unique_by=unique_by,
    )


def _asked(schema: Mapping[str, Any]) -> "SearchStrategy[Any]":
    try:
        from hypothesis_jsonschema import from_schema  # pyright: ignore[reportUnknownVariableType]
    except ModuleNotFoundError as error:
        raise SchemaError(
            "arguments are derived from the schema by hypothesis-jsonschema: install trio-tools[conformance]"
        ) from error
    try:
        return cast("SearchStrategy[Any]", from_schema(cast("dict[str, Any]", schema)))
    except Exception as error:
        raise SchemaError(f"{type(error).__name__}: {error}") from error
