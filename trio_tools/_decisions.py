"""What gates, approvers and reviewers answer, and what a batch does about a failure."""

from collections.abc import Iterable
from enum import Enum, StrEnum
from typing import Final, TypeAlias, final

from attrs import field, frozen

from ._content import Context

__all__ = [
    "UNSET",
    "Accept",
    "Allow",
    "Approval",
    "Ask",
    "BatchPolicy",
    "Block",
    "Deny",
    "GateDecision",
    "ReviewDecision",
    "Unset",
]


@final
@frozen
class Allow:
    """A gate has nothing against the call."""


@final
@frozen
class Deny:
    """A gate refuses the call.

    Attributes:
        reason: what the model reads; the empty string is a reason too (`GA-4`).
    """

    reason: str = field(repr=False)


@final
@frozen
class Ask:
    """A gate leaves it to the approver (`GA-7`).

    Attributes:
        reason: what to tell the approver, or None.
    """

    reason: str | None = field(default=None, repr=False)


GateDecision: TypeAlias = Allow | Deny | Ask


class Unset(Enum):
    """Stands for what a decision leaves as it is; None is a value."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET


@final
@frozen(kw_only=True)
class Accept:
    """A reviewer lets the result pass, with contexts added and perhaps one part replaced (`RE-4`).

    Attributes:
        content: replaces the content and nothing else.
        value: replaces the value of an OK result, from which content and meta are made anew.
        contexts: appended to the result's contexts.
    """

    content: object = field(default=UNSET, repr=False)
    value: object = field(default=UNSET, repr=False)
    contexts: Iterable[Context] = field(default=(), repr=False)


@final
@frozen
class Block:
    """A reviewer withholds the result; of it only the settlement remains (`RE-6`).

    Attributes:
        feedback: the content that takes its place.
        contexts: the only contexts of the blocked result.
    """

    feedback: object = field(repr=False)
    contexts: Iterable[Context] = field(default=(), repr=False)


ReviewDecision: TypeAlias = Accept | Block


@final
class Approval(StrEnum):
    """What an approver answered for the exact frozen arguments it was shown."""

    ALLOWED_ONCE = "allowed_once"
    REJECTED = "rejected"
    CANCELLED = "cancelled"
    UNAVAILABLE = "unavailable"


@final
class BatchPolicy(StrEnum):
    """What a failed call of a batch does to its siblings (`BA-11`)."""

    COLLECT = "collect"
    FAIL_FAST = "fail_fast"
