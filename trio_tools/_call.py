"""What a caller hands in: a call, and the token that marks its execution."""

import itertools
import os
from collections.abc import Mapping
from typing import Final, Protocol, final

from attrs import field, frozen

from ._json import JsonValue
from ._result import ToolResult
from ._scope import CallScope
from ._tool import Tool

__all__ = ["ExecutionToken", "LayerView", "ToolCall", "fresh_call_id"]

_ids: Final = itertools.count(1)
_process: Final = f"{os.getpid():x}-{os.urandom(4).hex()}"


def fresh_call_id() -> str:
    """Return a call id that no other call of any run has; cheaper than a UUID, and as unique."""
    return f"{_process}-{next(_ids)}"


@final
class ExecutionToken:
    """An opaque mark of one execution, minted by the registry and compared by identity (`NE-1`)."""

    __slots__ = ("__weakref__", "_execution")
    _execution: object

    def __init__(self) -> None:
        raise TypeError("a token is minted by the registry, one for each execution")

    def __repr__(self) -> str:
        return f"<ExecutionToken {id(self):#x}>"


def _problem_with(
    name: object, call_id: object, scope: object, parent: object, root_call_id: object
) -> str | None:
    """Say what is of the wrong kind; asked once for all fields, for every call is made here."""
    if type(scope) is not CallScope:
        return (
            f"a ToolCall needs a CallScope, not {type(scope).__name__}: "
            "`async with open_call_scope() as scope:` opens one"
        )
    if not isinstance(name, str):
        return f"the name of a ToolCall is a string, not {type(name).__name__}"
    if not isinstance(call_id, str):
        return f"the call_id of a ToolCall is a string, not {type(call_id).__name__}"
    if parent is not None and type(parent) is not ExecutionToken:
        return f"the parent of a ToolCall is the token of an execution, not {type(parent).__name__}"
    if root_call_id is not None and not isinstance(root_call_id, str):
        return f"the root_call_id of a ToolCall is a string, not {type(root_call_id).__name__}"
    return None


@final
@frozen(kw_only=True, repr=False)
class ToolCall:
    """What to call, with what, and for how long it may live.

    Attributes:
        name: the tool's name.
        arguments: must be lossless JSON; `Layer.execute` checks that, the constructor does not.
        scope: the caller's scope. Required: a call without a lifetime cannot be written (`SC-1`).
        call_id: unique by default.
        parent: the token of the enclosing execution, for a nested call.
        root_call_id: the id of the outermost call; a root call's is its own by default (`NE-3`).

    Raises:
        TypeError: when ``scope`` is missing or anything but a `CallScope`, or when a name or id is no
            string or the parent no token.
    """

    name: str
    arguments: object
    scope: CallScope
    call_id: str = field(factory=fresh_call_id)
    parent: ExecutionToken | None = None
    root_call_id: str | None = None

    def __attrs_post_init__(self) -> None:
        if problem := _problem_with(self.name, self.call_id, self.scope, self.parent, self.root_call_id):
            raise TypeError(problem)

    def __repr__(self) -> str:
        return f"<ToolCall {self.name!r}, call_id={self.call_id!r}>"


class LayerView(Protocol):
    """What a hook or a body may ask of the layer that a call is executed through."""

    @property
    def name(self) -> str:
        """The layer's label."""
        ...

    def get(self, name: str) -> Tool | None:
        """Return the visible tool of that name, or None."""
        ...

    def schemas(self) -> list[Mapping[str, JsonValue]]:
        """Return what a model may see of the visible tools."""
        ...

    async def execute(self, call: ToolCall) -> ToolResult:
        """Execute a call through the layer."""
        ...
