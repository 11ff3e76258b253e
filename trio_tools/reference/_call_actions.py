"""What the scripts of a call program can do, one class for each action.

*Scripts.* Bodies, gates, approvers, wrappers and reviewers are tuples of actions that are carried
out in order. The list ends early where an action raises, or where `Return` ends a body. Times are
whole seconds. Every action that is begun counts as one step; `CancelAtStep` refers to that count.

*Where an action may stand.* `Checkpoint`, `Sleep`, `Shielded`, `Hold`, `CancelCaller`, `MoveDeadline`,
`Fail`, `Stray`, `Attempt`, `Cleanup`, `Unregister`, `Register`, `Restrict` and `Lift` may stand in any
script; a guard, a finalizer and an observer are synchronous and take none of these that waits.
`Spawn`, `CancelNursery`, `LeaveOpen`, `Defer`, `Conclude`, `Nested`, `FailGroup` and `Return` belong
to bodies and their children, `Consult` to gates and reviewers, `Proceed` to wrappers.
"""

import math
from typing import Literal, TypeAlias, final

from attrs import NOTHING, fields, frozen

__all__ = [
    "Action",
    "Arguments",
    "Attempt",
    "CancelCaller",
    "CancelNursery",
    "Checkpoint",
    "Cleanup",
    "Conclude",
    "Consult",
    "Defer",
    "Fail",
    "FailGroup",
    "Hold",
    "LeaveOpen",
    "Lift",
    "MoveDeadline",
    "Nested",
    "Node",
    "Proceed",
    "Register",
    "Restrict",
    "Return",
    "Shielded",
    "Sleep",
    "Spawn",
    "Stray",
    "Unregister",
]


class Node:
    """A tree whose repr names only what differs from the default."""

    __slots__ = ()

    def __repr__(self) -> str:
        parts: list[str] = []
        for attribute in fields(type(self)):  # pyright: ignore[reportArgumentType]
            value = getattr(self, attribute.name)
            default = attribute.default
            if default is not NOTHING and default == value and type(default) is type(value):
                continue
            parts.append(f"{attribute.name}={'math.inf' if value == math.inf else repr(value)}")
        return f"{type(self).__name__}({', '.join(parts)})"


@final
@frozen(repr=False)
class Checkpoint(Node):
    """One checkpoint: a schedule point and a cancel point."""


@final
@frozen(repr=False)
class Sleep(Node):
    """Sleep for ``seconds``, unshielded."""

    seconds: int


@final
@frozen(repr=False)
class Shielded(Node):
    """Sleep for ``seconds`` inside a shield, as clean-up code does."""

    seconds: int


@final
@frozen(repr=False)
class Hold(Node):
    """Keep the loop for ``seconds``: the clock advances and no other task runs meanwhile."""

    seconds: int


@final
@frozen(repr=False)
class CancelCaller(Node):
    """Cancel the call scope number ``scope``, the caller's own, from where the script stands."""

    scope: int = 0


@final
@frozen(repr=False)
class MoveDeadline(Node):
    """Set the deadline of call scope number ``scope`` to ``seconds`` from now."""

    seconds: int
    scope: int = 0


@final
@frozen(repr=False)
class Fail(Node):
    """Raise: a `ToolError` with ``code``, or an exception without a code."""

    code: str | None = None


@final
@frozen(repr=False)
class FailGroup(Node):
    """Raise an exception group with one leaf per code, and a ``Cancelled`` leaf if asked to."""

    codes: tuple[str | None, ...]
    cancelled: bool = False


@final
@frozen(repr=False)
class Stray(Node):
    """Raise a ``Cancelled`` that was caught earlier and belongs to nothing that governs the call."""


@final
@frozen(repr=False)
class Attempt(Node):
    """Carry out ``script``; a ``Cancelled`` that leaves it is swallowed and ``then`` follows."""

    script: "tuple[Action, ...]"
    then: "tuple[Action, ...]" = ()


@final
@frozen(repr=False)
class Cleanup(Node):
    """Carry out ``script``, and ``last`` on every way out of it, as ``finally`` does."""

    script: "tuple[Action, ...]"
    last: "tuple[Action, ...]"


@final
@frozen(repr=False)
class Spawn(Node):
    """Start ``script`` as a task in ``ctx.nursery``."""

    script: "tuple[Action, ...]"


@final
@frozen(repr=False)
class CancelNursery(Node):
    """Cancel ``ctx.nursery``, and with it every task in it that is not shielded."""


@final
@frozen(repr=False)
class LeaveOpen(Node):
    """Enter a cancel scope and never leave it."""


@final
@frozen(repr=False)
class Defer(Node):
    """Defer ``text`` as context."""

    text: str


@final
@frozen(repr=False)
class Conclude(Node):
    """Ask for the conclusion of the run."""


@final
@frozen(repr=False)
class Nested(Node):
    """Call ``tool`` through the context; ``strict`` raises if the result is not OK."""

    tool: str
    arguments: "Arguments" = "fine"
    strict: bool = False


@final
@frozen(repr=False)
class Return(Node):
    """End a body with a value that fits the output schema, or with one that does not."""

    valid: bool = True


@final
@frozen(repr=False)
class Unregister(Node):
    """Close the registration of ``tool`` in ``layer``, if it is registered there."""

    tool: str
    layer: int = 0


@final
@frozen(repr=False)
class Register(Node):
    """Register ``tool`` of ``layer``, if it is not registered: one that was hidden, or that was closed."""

    tool: str
    layer: int = 0


@final
@frozen(repr=False)
class Restrict(Node):
    """Hide inherited tools from ``layer``: those named, or all but those if ``allow``.

    Names that the layer does not inherit at that moment are left out.
    """

    tools: tuple[str, ...]
    allow: bool = False
    layer: int = 1


@final
@frozen(repr=False)
class Lift(Node):
    """Close the restriction of ``layer`` that was added last, if there is one."""

    layer: int = 1


@final
@frozen(repr=False)
class Consult(Node):
    """Await ``proceed()`` in a gate or reviewer, and set what it returns aside."""


@final
@frozen(repr=False)
class Proceed(Node):
    """Await ``proceed`` in a wrapper and keep what it returns as the last result.

    Attributes:
        timeout: seconds of an added timeout; its name is that of the wrapper.
        deadline: an added absolute deadline, likewise.
        scope: the number of a call scope that is added.
        shield: delegate inside a shield.
        lexical: seconds of a trio scope opened around the delegation.
        attempts: delegate again, up to this often, while the last result is not OK.
    """

    timeout: int | None = None
    deadline: int | None = None
    scope: int | None = None
    shield: bool = False
    lexical: int | None = None
    attempts: int = 1


Action: TypeAlias = (
    Checkpoint
    | Sleep
    | Shielded
    | Hold
    | CancelCaller
    | MoveDeadline
    | Fail
    | FailGroup
    | Stray
    | Attempt
    | Cleanup
    | Spawn
    | CancelNursery
    | LeaveOpen
    | Defer
    | Conclude
    | Nested
    | Return
    | Unregister
    | Register
    | Restrict
    | Lift
    | Consult
    | Proceed
)
Arguments: TypeAlias = Literal["fine", "invalid", "lossy"]
