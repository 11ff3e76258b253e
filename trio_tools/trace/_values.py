"""JSON as a record keeps it: frozen, detached, valid Unicode, and written out whatever its depth."""

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from math import isfinite
from typing import Final, cast

from trio_tools import JsonValue, ToolResult

__all__ = ["freeze", "json_text", "repair_text"]

_surrogate: Final = re.compile("[\ud800-\udfff]").search

# The containers that the core keeps JSON in. Whatever a result holds as its value is such JSON, so the
# constructor of a result is the one public place where any JSON is frozen.
_FROZEN: Final = (type(ToolResult.ok({}).value), type(ToolResult.ok([]).value))


def repair_text(text: str) -> str:
    """Returns valid Unicode: surrogate pairs joined, lone surrogates replaced by U+FFFD (`TR-13`)."""
    if text.isascii() or _surrogate(text) is None:
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def freeze(value: object) -> JsonValue:
    """Returns a frozen, detached snapshot of JSON; what is frozen already is shared.

    Raises:
        ValueError: it is not JSON, or JSON would lose part of it.
    """
    kind = type(value)
    if kind in _FROZEN or value is None or kind is int or kind is bool:
        return cast("JsonValue", value)
    if kind is str:
        return repair_text(cast("str", value))
    if kind is float and isfinite(cast("float", value)):
        return cast("float", value)
    if kind is dict or kind is list:
        frozen = ToolResult.ok(cast("JsonValue", value)).value
        if type(frozen) in _FROZEN:
            return frozen
    raise ValueError("expected JSON that is lossless")


_encode: Final = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":")
).encode
_encode_text: Final = json.JSONEncoder(ensure_ascii=False).encode


def json_text(value: JsonValue | Mapping[str, JsonValue]) -> str:
    """Returns one line of JSON, non-ASCII kept, whatever the depth and however long the integers."""
    try:
        return _encode(value)
    except (ValueError, RecursionError):
        # An integer that `str` does not agree to print, or more levels than the stack has.
        return _write(value)


def _write(root: object) -> str:
    parts: list[str] = []
    # What is still to be written, the next piece last; a tuple holds finished text.
    pieces: list[object] = [root]
    while pieces:
        match pieces.pop():
            case (str() as text,):
                parts.append(text)
            case dict() as members:  # pyright: ignore[reportUnknownVariableType]
                inner: list[object] = []
                for number, (key, value) in enumerate(cast("dict[str, object]", members).items()):
                    inner += [(f"{',' if number else ''}{_encode_text(key)}:",), value]
                pieces += reversed([("{",), *inner, ("}",)])
            case list() as items:  # pyright: ignore[reportUnknownVariableType]
                inner = []
                for number, value in enumerate(cast("list[object]", items)):
                    inner += [(",",), value] if number else [value]
                pieces += reversed([("[",), *inner, ("]",)])
            case int() as number if type(number) is int:
                # A Decimal is as exact as an int and prints any number of digits.
                parts.append(str(Decimal(number)))
            case scalar:
                parts.append(_encode_text(scalar))
    return "".join(parts)
