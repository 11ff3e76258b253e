"""The script language in which a whole run of calls is written down.

A `CallProgram` is a frozen tree of numbers, strings and tuples. It says which tools are registered
and what their bodies do, which hooks stand around them, which scopes and deadlines govern the
calls, and who asks for a cancellation when. Nothing in it is a function, so a program can be
compared, printed, stored as JSON, shrunk, and carried to another implementation. Its ``repr`` leaves
out what has its default value and evaluates to an equal program.
"""

import math
from typing import Literal, TypeAlias, TypeVar, final

from attrs import frozen

from ._call_actions import (
    Action,
    Arguments,
    Attempt,
    CancelCaller,
    CancelNursery,
    Checkpoint,
    Cleanup,
    Conclude,
    Consult,
    Defer,
    Fail,
    FailGroup,
    Hold,
    LeaveOpen,
    Lift,
    MoveDeadline,
    Nested,
    Node,
    Proceed,
    Register,
    Restrict,
    Return,
    Shielded,
    Sleep,
    Spawn,
    Stray,
    Unregister,
)

__all__ = [
    "Action",
    "Ambient",
    "ApproverScript",
    "Arguments",
    "At",
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
    "Happening",
    "Hold",
    "LeaveOpen",
    "Lift",
    "MoveDeadline",
    "Nested",
    "ObserverScript",
    "Proceed",
    "Register",
    "Restrict",
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
class FinalizerScript(Node):
    """A finalizer: ``script`` (synchronous), then what it answers."""

    script: tuple[Action, ...] = ()
    answer: Finalizing = "keep"


@final
@frozen(repr=False)
class ToolScript(Node):
    """A registered tool.

    Attributes:
        name: its name.
        body: what its ``async def`` body does; it returns a valid value if nothing else ends it.
        timeout: the declared timeout in seconds, or None.
        finalizer: its finalizer, or None.
        parallel: whether it declares itself safe to run beside its neighbours in a batch.
        hidden: whether it is not registered at first, so that its name is unknown.
        layer: the number of the layer it is registered in.
    """

    name: str
    body: tuple[Action, ...] = ()
    timeout: int | None = None
    finalizer: FinalizerScript | None = None
    parallel: bool = False
    hidden: bool = False
    layer: int = 0


@final
@frozen(repr=False)
class GateScript(Node):
    """A gate: ``script``, then its decision; ``only`` limits it to calls of these tools."""

    script: tuple[Action, ...] = ()
    decision: GateChoice = "delegate"
    only: tuple[str, ...] = ()
    layer: int = 0


@final
@frozen(repr=False)
class ApproverScript(Node):
    """The approver: ``script``, then its answer."""

    script: tuple[Action, ...] = ()
    answer: ApproverChoice = "allowed_once"


@final
@frozen(repr=False)
class GuardScript(Node):
    """A guard: ``script`` (synchronous), then its answer."""

    script: tuple[Action, ...] = ()
    answer: GuardChoice = "pass"
    only: tuple[str, ...] = ()
    layer: int = 0


@final
@frozen(repr=False)
class WrapperScript(Node):
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
    layer: int = 0


@final
@frozen(repr=False)
class ReviewScript(Node):
    """A reviewer: ``script``, then its decision; ``context`` is added where the decision takes one."""

    script: tuple[Action, ...] = ()
    decision: ReviewChoice = "delegate"
    context: str | None = None
    only: tuple[str, ...] = ()
    layer: int = 0


@final
@frozen(repr=False)
class ObserverScript(Node):
    """An observer beside the one that takes notes: ``script`` (synchronous) for each result."""

    script: tuple[Action, ...] = ()
    layer: int = 0


@final
@frozen(repr=False)
class ScopeSpec(Node):
    """A call scope, opened before the calls begin; ``parent`` numbers the scope it is a child of."""

    name: str = "caller"
    timeout: float = math.inf
    parent: int | None = None


@final
@frozen(repr=False)
class Ambient(Node):
    """A trio scope around the calls; ``timeout`` in seconds from the start."""

    timeout: float = math.inf


@final
@frozen(repr=False)
class CallSpec(Node):
    """One call from outside, through the layer of that number; those of a batch share that of the first."""

    tool: str
    arguments: Arguments = "fine"
    scope: int = 0
    layer: int = 0


Target: TypeAlias = Literal["outer", "inner"] | int


@final
@frozen(repr=False)
class CancelAt(Node):
    """At time ``at`` cancel call scope number ``target``, or the ``outer`` or ``inner`` ambient scope."""

    at: int
    target: Target = 0


@final
@frozen(repr=False)
class CancelAtStep(Node):
    """When step number ``step`` (from 1) begins, cancel ``target``, in the task that begins it."""

    step: int
    target: Target = 0


Happening: TypeAlias = MoveDeadline | Unregister | Register | Restrict | Lift


@final
@frozen(repr=False)
class At(Node):
    """At time ``at`` something happens that no script does, in a task of its own."""

    at: int
    action: Happening


Hook = TypeVar("Hook", GateScript, GuardScript, WrapperScript, ReviewScript, ObserverScript)


@final
@frozen(repr=False)
class CallProgram(Node):
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
        layers: how many there are: the registry has number 0, each other one is a child of the one before.
        restrictions: which hold from the start.
        events: what else happens at which time.
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
    layers: int = 1
    restrictions: tuple[Restrict, ...] = ()
    events: tuple[At, ...] = ()

    def through(self, hooks: tuple[Hook, ...], layer: int) -> tuple[Hook, ...]:
        """Return those that run for a call through ``layer``, the registry's first (`LA-7`)."""
        if self.layers == 1:
            return hooks
        return tuple(hook for number in range(layer + 1) for hook in hooks if hook.layer == number)
