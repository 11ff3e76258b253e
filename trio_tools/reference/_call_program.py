"""The script language in which a whole run of calls is written down.

A `CallProgram` is a frozen tree of numbers, strings and tuples. It says which tools are registered
and what their bodies do, which hooks stand around them, which scopes and deadlines govern the
calls, and who asks for a cancellation when. Nothing in it is a function, so a program can be
compared, printed, stored as JSON, shrunk, and carried to another implementation. Its ``repr`` leaves
out what has its default value and evaluates to an equal program.

*Scripts.* Bodies, gates, approvers, wrappers and reviewers are tuples of actions that are carried
out in order. The list ends early where an action raises, or where `Return` ends a body. Times are
whole seconds. Every action that is begun counts as one step; `CancelAtStep` refers to that count.

*Where an action may stand.* `Checkpoint`, `Sleep`, `Shielded`, `Hold`, `CancelCaller`, `MoveDeadline`,
`Fail`, `Stray`, `Attempt`, `Cleanup`, `Unregister` and `Register` may stand in any script; a guard, a
finalizer and an observer are synchronous and take none of these that waits.
`Spawn`, `CancelNursery`, `LeaveOpen`, `Defer`, `Conclude`, `Nested`, `FailGroup` and `Return` belong
to bodies and their children, `Consult` to gates and reviewers, `Proceed` to wrappers.
"""

import math
from typing import Literal, TypeAlias, final

from attrs import NOTHING, fields, frozen

__all__ = [
    "Action",
    "Ambient",
    "ApproverScript",
    "Attempt",
    "CallProgram",
    "CallSpec",
    "CancelAt",
    "CancelAtStep",
    "CancelCaller",
    "CancelNursery",
    "Checkpoint",
    "Cleanup",
    "Conclude",
    "Consult",
    "Defer",
    "Fail",
    "FailGroup",
    "FinalizerScript",
    "GateScript",
    "GuardScript",
    "Hold",
    "LeaveOpen",
    "MoveDeadline",
    "Nested",
    "ObserverScript",
    "Proceed",
    "Register",
    "Return",
    "ReviewScript",
    "ScopeSpec",
    "Shielded",
    "Sleep",
    "Spawn",
    "Stray",
    "ToolScript",
    "Unregister",
    "WrapperScript",
]


class _Node:
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
class Checkpoint(_Node):
    """One checkpoint: a schedule point and a cancel point."""


@final
@frozen(repr=False)
class Sleep(_Node):
    """Sleep for ``seconds``, unshielded."""

    seconds: int


@final
@frozen(repr=False)
class Shielded(_Node):
    """Sleep for ``seconds`` inside a shield, as clean-up code does."""

    seconds: int


@final
@frozen(repr=False)
class Hold(_Node):
    """Keep the loop for ``seconds``: the clock advances and no other task runs meanwhile."""

    seconds: int


@final
@frozen(repr=False)
class CancelCaller(_Node):
    """Cancel the call scope number ``scope``, the caller's own, from where the script stands."""

    scope: int = 0


@final
@frozen(repr=False)
class MoveDeadline(_Node):
    """Set the deadline of call scope number ``scope`` to ``seconds`` from now."""

    seconds: int
    scope: int = 0


@final
@frozen(repr=False)
class Fail(_Node):
    """Raise: a `ToolError` with ``code``, or an exception without a code."""

    code: str | None = None


@final
@frozen(repr=False)
class FailGroup(_Node):
    """Raise an exception group with one leaf per code, and a ``Cancelled`` leaf if asked to."""

    codes: tuple[str | None, ...]
    cancelled: bool = False


@final
@frozen(repr=False)
class Stray(_Node):
    """Raise a ``Cancelled`` that was caught earlier and belongs to nothing that governs the call."""


@final
@frozen(repr=False)
class Attempt(_Node):
    """Carry out ``script``; a ``Cancelled`` that leaves it is swallowed and ``then`` follows."""

    script: "tuple[Action, ...]"
    then: "tuple[Action, ...]" = ()


@final
@frozen(repr=False)
class Cleanup(_Node):
    """Carry out ``script``, and ``last`` on every way out of it, as ``finally`` does."""

    script: "tuple[Action, ...]"
    last: "tuple[Action, ...]"


@final
@frozen(repr=False)
class Spawn(_Node):
    """Start ``script`` as a task in ``ctx.nursery``."""

    script: "tuple[Action, ...]"


@final
@frozen(repr=False)
class CancelNursery(_Node):
    """Cancel ``ctx.nursery``, and with it every task in it that is not shielded."""


@final
@frozen(repr=False)
class LeaveOpen(_Node):
    """Enter a cancel scope and never leave it."""


@final
@frozen(repr=False)
class Defer(_Node):
    """Defer ``text`` as context."""

    text: str


@final
@frozen(repr=False)
class Conclude(_Node):
    """Ask for the conclusion of the run."""


@final
@frozen(repr=False)
class Nested(_Node):
    """Call ``tool`` through the context; ``strict`` raises if the result is not OK."""

    tool: str
    arguments: "Arguments" = "fine"
    strict: bool = False


@final
@frozen(repr=False)
class Return(_Node):
    """End a body with a value that fits the output schema, or with one that does not."""

    valid: bool = True


@final
@frozen(repr=False)
class Unregister(_Node):
    """Close the registration of ``tool``, if it is registered."""

    tool: str


@final
@frozen(repr=False)
class Register(_Node):
    """Register ``tool``, if it is not registered: one that was hidden, or that was closed."""

    tool: str


@final
@frozen(repr=False)
class Consult(_Node):
    """Await ``proceed()`` in a gate or reviewer, and set what it returns aside."""


@final
@frozen(repr=False)
class Proceed(_Node):
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
    | Consult
    | Proceed
)
Arguments: TypeAlias = Literal["fine", "invalid", "lossy"]
Finalizing: TypeAlias = Literal["keep", "replace", "malformed", "coroutine"]
GateChoice: TypeAlias = Literal["allow", "deny", "ask", "delegate", "malformed"]
ApproverChoice: TypeAlias = Literal["allowed_once", "rejected", "cancelled", "unavailable", "malformed"]
GuardChoice: TypeAlias = Literal["pass", "deny", "malformed"]
Finish: TypeAlias = Literal[
    "last", "context", "success", "invalid", "failure", "cancelled", "malformed", "translate"
]
ReviewChoice: TypeAlias = Literal[
    "accept", "delegate", "content", "value", "invalid", "both", "block", "malformed"
]


@final
@frozen(repr=False)
class FinalizerScript(_Node):
    """A finalizer: ``script`` (synchronous), then what it answers."""

    script: tuple[Action, ...] = ()
    answer: Finalizing = "keep"


@final
@frozen(repr=False)
class ToolScript(_Node):
    """A registered tool.

    Attributes:
        name: its name.
        body: what its ``async def`` body does; it returns a valid value if nothing else ends it.
        timeout: the declared timeout in seconds, or None.
        finalizer: its finalizer, or None.
        parallel: whether it declares itself safe to run beside its neighbours in a batch.
        hidden: whether it is not registered at first, so that its name is unknown.
    """

    name: str
    body: tuple[Action, ...] = ()
    timeout: int | None = None
    finalizer: FinalizerScript | None = None
    parallel: bool = False
    hidden: bool = False


@final
@frozen(repr=False)
class GateScript(_Node):
    """A gate: ``script``, then its decision; ``only`` limits it to calls of these tools."""

    script: tuple[Action, ...] = ()
    decision: GateChoice = "delegate"
    only: tuple[str, ...] = ()


@final
@frozen(repr=False)
class ApproverScript(_Node):
    """The approver: ``script``, then its answer."""

    script: tuple[Action, ...] = ()
    answer: ApproverChoice = "allowed_once"


@final
@frozen(repr=False)
class GuardScript(_Node):
    """A guard: ``script`` (synchronous), then its answer."""

    script: tuple[Action, ...] = ()
    answer: GuardChoice = "pass"
    only: tuple[str, ...] = ()


@final
@frozen(repr=False)
class WrapperScript(_Node):
    """A wrapper: ``script``, whose `Proceed` actions delegate, then what it returns.

    Attributes:
        name: names the sources it adds, the code ``name`` of a failure it makes, and its contexts.
        finish: ``last`` is the last result untouched, ``context`` the same with a context added
            unless it is cancelled, ``translate`` a failure with code and cause of its own source if
            that came first, else ``last``. The others are made anew, without regard to the last one.
            Where there is no last result, ``last``, ``context`` and ``translate`` are ``failure``.
    """

    script: tuple[Action, ...] = (Proceed(),)
    finish: Finish = "last"
    name: str = "w"
    only: tuple[str, ...] = ()


@final
@frozen(repr=False)
class ReviewScript(_Node):
    """A reviewer: ``script``, then its decision; ``context`` is added where the decision takes one."""

    script: tuple[Action, ...] = ()
    decision: ReviewChoice = "delegate"
    context: str | None = None
    only: tuple[str, ...] = ()


@final
@frozen(repr=False)
class ObserverScript(_Node):
    """An observer beside the one that takes notes: ``script`` (synchronous) for each result."""

    script: tuple[Action, ...] = ()


@final
@frozen(repr=False)
class ScopeSpec(_Node):
    """A call scope, opened before the calls begin; ``parent`` numbers the scope it is a child of."""

    name: str = "caller"
    timeout: float = math.inf
    parent: int | None = None


@final
@frozen(repr=False)
class Ambient(_Node):
    """A trio scope around the calls; ``timeout`` in seconds from the start."""

    timeout: float = math.inf


@final
@frozen(repr=False)
class CallSpec(_Node):
    """One call from outside."""

    tool: str
    arguments: Arguments = "fine"
    scope: int = 0


Target: TypeAlias = Literal["outer", "inner"] | int


@final
@frozen(repr=False)
class CancelAt(_Node):
    """At time ``at`` cancel call scope number ``target``, or the ``outer`` or ``inner`` ambient scope."""

    at: int
    target: Target = 0


@final
@frozen(repr=False)
class CancelAtStep(_Node):
    """When step number ``step`` (from 1) begins, cancel ``target``, in the task that begins it."""

    step: int
    target: Target = 0


@final
@frozen(repr=False)
class CallProgram(_Node):
    """Everything that happens in one run.

    Attributes:
        tools: the tools, by name.
        calls: the calls from outside, with call ids ``c0``, ``c1``, ...
        mode: ``each`` awaits them one after another, ``together`` starts each in a task of its own,
            ``batch`` hands them to one `execute_batch`.
        scopes: the call scopes, opened in order at time zero.
        outer: the trio scope around the blocks of the call scopes, or None.
        inner: the trio scope between these blocks and the calls, or None.
        gates, guards, wrappers, reviewers, observers: the hooks, in order of registration. The
            timeout wrapper stands before all wrappers.
        approver: the approver, or None.
        cancels: requests to cancel.
        max_parallel, fail_fast: the options of the batch.
    """

    tools: tuple[ToolScript, ...]
    calls: tuple[CallSpec, ...]
    mode: Literal["each", "together", "batch"] = "each"
    scopes: tuple[ScopeSpec, ...] = (ScopeSpec(),)
    outer: Ambient | None = None
    inner: Ambient | None = None
    gates: tuple[GateScript, ...] = ()
    approver: ApproverScript | None = None
    guards: tuple[GuardScript, ...] = ()
    wrappers: tuple[WrapperScript, ...] = ()
    reviewers: tuple[ReviewScript, ...] = ()
    observers: tuple[ObserverScript, ...] = ()
    cancels: tuple[CancelAt | CancelAtStep, ...] = ()
    max_parallel: int = 10
    fail_fast: bool = False

    def tool(self, name: str) -> ToolScript:
        """Return the tool of that name."""
        return next(tool for tool in self.tools if tool.name == name)
