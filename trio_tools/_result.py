"""The result of a call: three facts that do not follow from one another, and a cause.

`ToolResult.outcome` says how the call ended for its caller, `ToolResult.code` which rule decided,
`ToolResult.settlement` what the body did. `ToolResult.cause` names the cancellation or the deadline
that decided, and is None when none did.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Final, Self, final

from attrs import evolve, field, frozen

from ._bounding import Bounds, bounded_artifacts, bounded_content
from ._content import Artifact, Content, Context, WriteTarget, content_of, joined_text
from ._errors import ABORTED, TOOL_ERROR, ToolFailure
from ._json import FrozenDict, FrozenList, JsonValue, NotLossless, freeze_value

__all__ = ["CancelCause", "CauseKind", "Settlement", "ToolOutcome", "ToolResult"]


@final
class ToolOutcome(StrEnum):
    """How a call ended for its caller. The value is what is stored and shown, end to end (`TL-3`)."""

    OK = "ok"
    FAILED = "failed"
    CANCELLED = "cancelled"


@final
class Settlement(StrEnum):
    """What the body did, whatever became of the call (`OU-9`)."""

    NOT_DISPATCHED = "not_dispatched"
    RETURNED = "returned"
    RAISED = "raised"
    CANCELLED = "cancelled"


@final
class CauseKind(StrEnum):
    """What kind of thing cancelled a call (`SC-9`)."""

    CALLER = "caller"
    DEADLINE = "deadline"
    AMBIENT = "ambient"
    SIBLING = "sibling"


@final
@frozen
class CancelCause:
    """Which cancellation or deadline came first (`SC-4`, `WR-6`).

    Attributes:
        kind: what kind of thing it was.
        name: which scope or deadline it was: ``caller``, ``timeout``, ``batch``, ...
        reason: what the one who cancelled said about it, if anything.
        at: the trio time, in seconds, at which it was requested; for a deadline, the deadline.
    """

    kind: CauseKind
    name: str
    reason: str | None = field(repr=False)
    at: float


def _several(contexts: Iterable[Context]) -> tuple[Context, ...]:
    if isinstance(contexts, str | bytes):
        raise TypeError("contexts are several messages: put a single one into a tuple")
    return tuple([_frozen_if_json(each) for each in contexts])  # pyright: ignore[reportReturnType]


def _only_artifacts(artifacts: Iterable[Artifact]) -> tuple[Artifact, ...]:
    artifacts = tuple(artifacts)
    for each in artifacts:
        if type(each) is not Artifact:
            raise TypeError(f"the artifacts of a result are Artifacts, not {type(each).__name__}")
    return artifacts


def _frozen_if_json(value: Any) -> JsonValue:
    if type(value) in _FROZEN_ALREADY:
        return value
    # A result that somebody made by hand may hold what JSON would lose; the registry, which alone
    # publishes, refuses it there with the right code (`WR-14`, `MA-16`).
    try:
        return freeze_value(value, depth=_VALUE_DEPTH)
    except NotLossless:
        return value


_VALUE_DEPTH: Final = 100_000
_FROZEN_ALREADY: Final = frozenset({FrozenDict, FrozenList, int, bool, type(None)})


@final
@frozen(repr=False, init=False)
class ToolResult:
    """How one call ended (`OU-1` to `OU-6`).

    Attributes:
        outcome: ok, failed or cancelled.
        content: the parts that may reach a model, and nothing else may (`OU-4`).
        value: what the body returned, frozen JSON; only when the outcome is ok.
        error: why it is not ok; None exactly when it is.
        meta: what the tool's option ``meta`` projected, frozen JSON, or None (`MA-14`).
        contexts: deferred context messages, in order (`WR-21`).
        concludes: whether the body asked to conclude; only when the outcome is ok.
        artifacts: for the people around the run; only when the outcome is ok.
        write: the record that a write produced; only when the outcome is ok.
        settlement: what the body did.
        cause: the cancellation or deadline that decided (`CA-6`), else None.

    Raises:
        ValueError: when the facts contradict one another (`OU-2`); also from `attrs.evolve`.
        TypeError: when an artifact, a part of the content or the contexts are of another kind.
    """

    outcome: ToolOutcome
    content: tuple[Content, ...]
    value: JsonValue
    error: ToolFailure | None
    meta: JsonValue | None
    contexts: tuple[Context, ...]
    concludes: bool
    artifacts: tuple[Artifact, ...]
    write: WriteTarget | None
    settlement: Settlement
    cause: CancelCause | None

    def __init__(
        self,
        *,
        outcome: ToolOutcome | str,
        content: object,
        value: Any = None,
        error: ToolFailure | None = None,
        meta: Any = None,
        contexts: Iterable[Context] = (),
        concludes: bool = False,
        artifacts: Iterable[Artifact] = (),
        write: WriteTarget | None = None,
        settlement: Settlement | str = Settlement.NOT_DISPATCHED,
        cause: CancelCause | None = None,
    ) -> None:
        # Mostly it is given the members themselves, and calling an enum takes long.
        self.__attrs_init__(  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
            outcome=outcome if type(outcome) is ToolOutcome else ToolOutcome(outcome),
            content=content_of(content),
            value=_frozen_if_json(value),
            error=error,
            meta=_frozen_if_json(meta),
            contexts=_several(contexts),
            concludes=concludes,
            artifacts=_only_artifacts(artifacts),
            write=write,
            settlement=settlement if type(settlement) is Settlement else Settlement(settlement),
            cause=cause,
        )

    @classmethod
    def made(
        cls,
        outcome: ToolOutcome,
        content: tuple[Content, ...],
        settlement: Settlement,
        *,
        value: JsonValue = None,
        error: ToolFailure | None = None,
        meta: JsonValue | None = None,
        contexts: tuple[Context, ...] = (),
        concludes: bool = False,
        artifacts: tuple[Artifact, ...] = (),
        write: WriteTarget | None = None,
        cause: CancelCause | None = None,
    ) -> "ToolResult":
        """Make one of parts that are of the right kind and frozen already (internal): every call does."""
        result = cls.__new__(cls)
        result.__attrs_init__(  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
            outcome, content, value, error, meta, contexts, concludes, artifacts, write, settlement, cause
        )
        return result

    def __attrs_post_init__(self) -> None:
        if self.outcome is ToolOutcome.OK:
            if self.error is not None:
                raise ValueError("a result that is ok has no error")
            return
        if not isinstance(self.error, ToolFailure) or not self.error.code:
            raise ValueError(f"a result that is {self.outcome} needs an error with a code")
        if self.value is not None or self.artifacts or self.write is not None or self.concludes:
            raise ValueError(
                f"a result that is {self.outcome} has no value, artifact, write target or conclusion"
            )

    @property
    def is_error(self) -> bool:
        """Whether the outcome is anything but ok; a cancelled call counts as one here (`OU-1`)."""
        return self.outcome is not ToolOutcome.OK

    @property
    def code(self) -> str | None:
        """Which rule decided; None exactly when the outcome is ok."""
        return None if self.error is None else self.error.code

    @property
    def text(self) -> str:
        """The text parts of the content, joined by newlines (`OU-9`)."""
        return joined_text(self.content)

    @property
    def dispatched(self) -> bool:
        """Whether the body was invoked at least once."""
        return self.settlement is not Settlement.NOT_DISPATCHED

    @classmethod
    def ok(
        cls,
        value: JsonValue = None,
        *,
        content: object = None,
        meta: JsonValue | None = None,
        contexts: Iterable[Context] = (),
        concludes: bool = False,
        artifacts: Iterable[Artifact] = (),
        write: WriteTarget | None = None,
        settlement: Settlement = Settlement.NOT_DISPATCHED,
    ) -> Self:
        """Make a success with ``value``; the registry renders its content anew (`WR-14`).

        Args:
            content: a string, a content part, or a list or tuple of these; empty when left out.
        """
        return cls(
            outcome=ToolOutcome.OK,
            content=() if content is None else content,
            value=value,
            meta=meta,
            contexts=contexts,
            concludes=concludes,
            artifacts=artifacts,
            write=write,
            settlement=settlement,
        )

    @classmethod
    def failed(
        cls,
        text: str,
        *,
        code: str = TOOL_ERROR,
        name: str = "ToolError",
        contexts: Iterable[Context] = (),
        settlement: Settlement = Settlement.NOT_DISPATCHED,
        cause: CancelCause | None = None,
    ) -> Self:
        """Make a failure with ``text``, verbatim, as both content and message (`OU-5`)."""
        return cls(
            outcome=ToolOutcome.FAILED,
            content=text,
            error=ToolFailure(text, code, name),
            contexts=contexts,
            settlement=settlement,
            cause=cause,
        )

    @classmethod
    def cancelled(
        cls,
        text: str,
        *,
        code: str = ABORTED,
        name: str = "AbortError",
        contexts: Iterable[Context] = (),
        settlement: Settlement = Settlement.NOT_DISPATCHED,
        cause: CancelCause | None = None,
    ) -> Self:
        """Make a cancelled result with ``text``, verbatim, as both content and message (`OU-5`).

        The registry publishes one that a wrapper made only where something was cancelled (`WR-16`).
        """
        return cls(
            outcome=ToolOutcome.CANCELLED,
            content=text,
            error=ToolFailure(text, code, name),
            contexts=contexts,
            settlement=settlement,
            cause=cause,
        )

    def with_bounded_channels(self, bounds: Bounds) -> "ToolResult":
        """Return this result with content and artifacts within ``bounds`` and all else as it was.

        Idempotent and total (`BD-1` to `BD-8`); the same object comes back when nothing is over.
        """
        content = bounded_content(self.content, bounds.content_bytes)
        artifacts = bounded_artifacts(self.artifacts, bounds)
        if content is self.content and artifacts is self.artifacts:
            return self
        return evolve(self, content=content, artifacts=artifacts)

    def __repr__(self) -> str:
        code = "" if self.error is None else f", code={self.error.code!r}"
        cause = "" if self.cause is None else f", cause={self.cause.kind}:{self.cause.name}"
        return f"<ToolResult {self.outcome}{code}, settlement={self.settlement}{cause}>"
