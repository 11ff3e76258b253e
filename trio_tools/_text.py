"""Text: what is wrong with strings, and values written out.

What is written may nest deeper than Python's stack, and hold integers of more digits than `str` agrees to
print.
"""

import json
from collections.abc import Callable
from operator import itemgetter
from typing import Any, TypeGuard


def repair_text(text: str) -> str:
    """Returns the text with surrogate pairs joined to their characters and lone surrogates made U+FFFD.

    Text without surrogates comes back as the same object. Keeps `MA-11` and the text half of `BD-4`.
    """
    if text.isascii() or not _has_surrogates(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def join_surrogates(text: str) -> str:
    """Returns the text with surrogate pairs joined; raises `UnicodeDecodeError` for a lone one (`MA-5`)."""
    if _has_surrogates(text):
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    return text


def _has_surrogates(text: str) -> bool:
    if text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


_encode = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":")
).encode
_encode_text = json.JSONEncoder(ensure_ascii=False).encode


def clipped(text: str, limit: int) -> str:
    """Returns the text, and of one longer than `limit` characters its head and its tail."""
    if len(text) <= limit:
        return text
    tail = limit // 4
    return f"{text[: limit - tail - 5]} ... {text[-tail:]}"


_SHOWN = 200


def shown(value: object) -> str:
    """Returns the ``repr`` of what a programmer handed in, for a message about it: bounded, and total."""
    try:
        return clipped(_digits(value) if type(value) is int else str.__str__(repr(value)), _SHOWN)
    except Exception:
        return f"<unprintable {type(value).__name__}>"


def to_json_text(value: object) -> str:
    """Returns the value as compact JSON text, non-ASCII characters kept, integers of any size written out.

    It works at any depth. Keeps `MA-13`.
    """
    if type(value) is int:
        return _digits(value)
    try:
        return _encode(value)
    except (ValueError, RecursionError):
        # An integer with more digits than `str` agrees to print, or nesting that the C stack does not take.
        return _write(value, _json_scalar, ",", ":")


def _json_scalar(value: object) -> str:
    if type(value) is int:
        return _digits(value)
    return _encode_text(value)


def to_canonical_text(value: object) -> str:
    """Returns a text that two JSON values share exactly if they are equal as JSON (`JS-3`), at any depth.

    Texts are what to look equal values up by: whoever sends the values can choose integers of one hash, but
    not the hashes of texts.
    """
    return _write(value, _canonical_scalar, ",", ":", ordered=True)


def _canonical_scalar(value: object) -> str:
    if type(value) is float:
        if not value.is_integer():
            return value.hex()
        value = int(value)
    return f"{value:x}" if type(value) is int else _encode_text(value)


def to_python_text(value: object) -> str:
    """Returns what ``repr`` prints of plain containers, at any depth and with integers of any size."""
    return _write(value, _python_scalar, ", ", ": ")


def _python_scalar(value: object) -> str:
    return _digits(value) if type(value) is int else repr(value)


def _digits(number: int) -> str:
    try:
        return str(number)
    except ValueError:
        # `str` of an int stops at `sys.get_int_max_str_digits()`; a Decimal is as exact and knows no limit.
        # It is imported by who needs it: hardly anybody does.
        from decimal import Decimal

        return str(Decimal(number))


def _is_finished(piece: object) -> TypeGuard[tuple[str]]:
    return isinstance(piece, tuple)


def _is_object(piece: object) -> TypeGuard[dict[Any, Any]]:
    return isinstance(piece, dict)


def _is_array(piece: object) -> TypeGuard[list[Any]]:
    return isinstance(piece, list)


def _write(
    root: object, scalar: Callable[[object], str], comma: str, colon: str, *, ordered: bool = False
) -> str:
    parts: list[str] = []
    # The next piece to write is the last one; a piece of finished text is a tuple, which no JSON value is.
    pieces: list[Any] = [root]
    while pieces:
        piece = pieces.pop()
        if _is_finished(piece):
            parts.append(piece[0])
        elif _is_object(piece):
            inner: list[Any] = []
            for key, value in sorted(piece.items(), key=itemgetter(0)) if ordered else piece.items():
                inner += ((comma if inner else "") + scalar(key) + colon,), value
            pieces += ("}",), *reversed(inner), ("{",)
        elif _is_array(piece):
            inner = []
            for value in piece:
                inner += (comma if inner else "",), value
            pieces += ("]",), *reversed(inner), ("[",)
        else:
            parts.append(scalar(piece))
    return "".join(parts)
