"""JSON as a record keeps it: frozen, detached, and of any depth that a result may hold."""

from typing import Final

from trio_tools import JsonValue, NotLossless, freeze_value

__all__ = ["freeze"]

# As deep as the value of a result may be; what is shown of it is bounded elsewhere.
_DEPTH: Final = 100_000


def freeze(value: object) -> JsonValue:
    """Returns a frozen, detached snapshot of JSON; what is frozen already is shared.

    Raises:
        ValueError: it is not JSON, or JSON would lose part of it.
    """
    try:
        return freeze_value(value, depth=_DEPTH)
    except NotLossless:
        raise ValueError("expected JSON that is lossless") from None
