"""One step of a run: what the program asked, what the model answered, what a tool call came to.

A step is a frozen value. Whatever JSON it carries was detached, checked and frozen when the step was made,
and broken text in it was repaired, so a step that exists can always be stored and read back as it was
(`ST-8`, `TR-13`).
"""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from math import isfinite
from typing import Final, Literal, TypeAlias, cast, final

from attrs import field, frozen
from attrs.converters import optional

from trio_tools import Artifact, CancelCause, JsonValue, Settlement, ToolOutcome, repair_text

from ._values import freeze

__all__ = [
    "ContradictoryStepError",
    "EventKind",
    "OutcomeOnNonToolStepError",
    "RunStep",
    "StepFormatError",
    "StepKind",
    "checks",
    "made_of",
    "members_of",
]


@final
class StepKind(StrEnum):
    """What a step of a run records (`ST-1`)."""

    REQUEST = "request"
    LLM = "llm"
    TOOL = "tool"
    ASSEMBLED = "assembled"
    CONTEXT = "context"
    DROPPED = "dropped"
    TOOL_WRITE = "tool_write"


@final
class EventKind(StrEnum):
    """What a row of a run's timeline may record: every step kind, and what people did (`ST-1`)."""

    REQUEST = "request"
    LLM = "llm"
    TOOL = "tool"
    ASSEMBLED = "assembled"
    CONTEXT = "context"
    DROPPED = "dropped"
    TOOL_WRITE = "tool_write"
    APPROVAL = "approval"
    INPUT = "input"


class StepFormatError(ValueError):
    """A step, or its JSON, has a value of the wrong type or lacks a key that is always there (`ST-8`)."""


class ContradictoryStepError(ValueError):
    """Two members of a step say opposite things about one call (`ST-5`, `ST-7`)."""


class OutcomeOnNonToolStepError(ValueError):
    """A step that is no tool step carries the outcome of a call (`ST-6`)."""


Check: TypeAlias = Callable[[object], object]


def _wrong(expected: str, value: object) -> StepFormatError:
    # The value itself may be content, so only its type is told (`OU-6`).
    return StepFormatError(f"expected {expected}, got {type(value).__name__}")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise _wrong("a string", value)
    return repair_text(str.__str__(value))


def _whole(value: object) -> int:
    if type(value) is not int:
        raise _wrong("an integer", value)
    return value


def _count(value: object) -> int:
    if type(value) is not int or value < 0:
        raise _wrong("an integer of at least 0", value)
    return value


def _number(value: object) -> int | float:
    if type(value) is int or (type(value) is float and isfinite(value)):
        return value
    raise _wrong("a finite number", value)


def _milliseconds(value: object) -> int | float:
    if _number(value) < 0:  # pyright: ignore[reportOperatorIssue]
        raise _wrong("a number of at least 0", value)
    return round(cast("float", value), 2)


def _flag(value: object) -> bool:
    if type(value) is not bool:
        raise _wrong("a boolean", value)
    return value


def _true(value: object) -> Literal[True]:
    if value is not True:
        raise _wrong("true", value)
    return True


def _name_or_number(value: object) -> int | str:
    return value if type(value) is int else _text(value)


def _json(value: object) -> JsonValue:
    try:
        return freeze(value)
    except ValueError:
        raise _wrong("lossless JSON", value) from None


_Object: TypeAlias = Mapping[str, JsonValue]


def _object(value: object) -> _Object:
    if not isinstance(value, Mapping):
        raise _wrong("an object", value)
    row = cast("_Object", value)
    return cast("_Object", _json(row if isinstance(row, dict) else dict(row)))


def _items(value: object) -> Iterable[object]:
    if isinstance(value, list | tuple):
        return cast("Iterable[object]", value)
    raise _wrong("an array", value)


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(_text, _items(value)))


def _objects(value: object) -> tuple[_Object, ...]:
    return tuple(map(_object, _items(value)))


def _requested_call(value: object) -> _Object:
    row = _object(value)
    return _object(
        {"id": _text(row.get("id")), "name": _text(row.get("name")), "arguments": row.get("arguments")}
    )


def _requested_calls(value: object) -> tuple[_Object, ...]:
    return tuple(map(_requested_call, _items(value)))


def _artifact(value: object) -> Artifact:
    if isinstance(value, Artifact):
        label, data = repair_text(value.label), _json(value.data)
        return value if label is value.label and data is value.data else Artifact(value.type, label, data)
    row = _object(value)
    return Artifact(_text(row.get("type")), _text(row.get("label")), row.get("data"))  # pyright: ignore[reportArgumentType]


def _artifacts(value: object) -> tuple[Artifact, ...] | None:
    return tuple(map(_artifact, _items(value))) or None


def _cause(value: object) -> _Object:
    if isinstance(value, CancelCause):
        row: Mapping[str, object] = {"kind": str(value.kind), "name": value.name, "reason": value.reason}
    else:
        row = _object(value)
    cause = {"kind": _text(row.get("kind")), "name": _text(row.get("name"))}
    if (reason := row.get("reason")) is not None:
        cause["reason"] = _text(reason)
    return _object(cause)


def _outcome(value: object) -> ToolOutcome:
    try:
        return ToolOutcome(_text(value))
    except ValueError:
        raise _wrong("one of ok, failed, cancelled", value) from None


_SETTLEMENTS: Final = {str(settlement): settlement for settlement in Settlement}


def _settlement(value: object) -> str:
    text = _text(value)
    return _SETTLEMENTS.get(text, text)


_STEP_KINDS: Final = {str(kind): kind for kind in StepKind}
_EVENT_KINDS: Final = {str(kind): kind for kind in EventKind}


def _kind(value: object) -> StepKind | EventKind:
    text = _text(value)
    kind = _STEP_KINDS.get(text) or _EVENT_KINDS.get(text)
    if kind is None:
        raise StepFormatError(f"unknown kind of step, expected one of {', '.join(_EVENT_KINDS)}")
    return kind


checks: Final[Mapping[str, Check]] = {
    "kind": _kind,
    "round": _count,
    "duration_ms": _milliseconds,
    "messages_sent": _objects,
    "tool_specs": _texts,
    "content": _text,
    "thinking": _text,
    "raw": _json,
    "finish_reason": _text,
    "prompt_tokens": _whole,
    "completion_tokens": _whole,
    "total_tokens": _whole,
    "estimated_cost": _number,
    "requested_tool_calls": _requested_calls,
    "context_budget": _object,
    "dropped_sources": _texts,
    "tool_name": _text,
    "tool_arguments": _json,
    "tool_result": _text,
    "tool_artifacts": _artifacts,
    "tool_is_error": _flag,
    "tool_outcome": _outcome,
    "tool_settlement": _settlement,
    "tool_dispatched": _flag,
    "tool_code": _text,
    "tool_cause": _cause,
    "write_target_table": _text,
    "write_target_uid": _whole,
    "approved": _flag,
    "decided_by": _name_or_number,
    "submitted_by": _name_or_number,
    "content_redacted": _true,
    "messages_sent_count": _whole,
    "content_length": _whole,
    "thinking_length": _whole,
    "tool_result_length": _whole,
    "tool_artifacts_count": _whole,
    "tool_artifact_types": _texts,
    "requested_tool_names": _texts,
}
"""What each member of a step must be, by its name; a check returns the value as the step keeps it."""


@final
@frozen(kw_only=True, repr=False, slots=False)
class RunStep:
    """One step of a run, frozen (`ST-1` to `ST-7`).

    Attributes:
        kind: a `StepKind`; for rows of what people did, ``EventKind.APPROVAL`` or ``EventKind.INPUT``.
        round: the round of the program's loop, at least 0.
        duration_ms: milliseconds, at least 0, rounded to two decimals with Python's `round` (`ST-11`).

    Every other member is None where it does not apply, and each belongs to the key of the same name in the
    stored JSON (``tool_name`` is ``toolName``). Strings are plain text, counts and lengths are integers,
    ``tool_specs``, ``dropped_sources``, ``tool_artifact_types`` and ``requested_tool_names`` are tuples of
    strings, ``messages_sent`` is a tuple of JSON objects, ``requested_tool_calls`` one of objects ``{"id",
    "name", "arguments"}``, ``tool_artifacts`` one of `Artifact`, ``context_budget`` a JSON object,
    ``tool_cause`` an object ``{"kind", "name"}`` with a ``"reason"`` if one was given (a `CancelCause` is
    accepted and loses its time), ``raw`` and ``tool_arguments`` any JSON.

    Raises:
        StepFormatError: a member has the wrong type; nothing is coerced.
        ContradictoryStepError: outcome and error flag, or settlement and dispatch flag, disagree (`ST-5`,
            `ST-7`).
        OutcomeOnNonToolStepError: an outcome on a step of another kind (`ST-6`).

    All three are `ValueError`, and `attrs.evolve` raises them too. The repr shows no content (`OU-6`).
    """

    kind: StepKind | EventKind = field(converter=_kind)
    round: int = 0
    duration_ms: float = field(default=0, converter=_milliseconds)
    messages_sent: tuple[Mapping[str, JsonValue], ...] | None = None
    tool_specs: tuple[str, ...] | None = None
    content: str | None = None
    thinking: str | None = None
    raw: JsonValue = None
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    estimated_cost: float | None = None
    requested_tool_calls: tuple[Mapping[str, JsonValue], ...] | None = None
    context_budget: Mapping[str, JsonValue] | None = None
    dropped_sources: tuple[str, ...] | None = None
    tool_name: str | None = None
    tool_arguments: JsonValue = None
    tool_result: str | None = None
    tool_artifacts: tuple[Artifact, ...] | None = None
    tool_is_error: bool | None = None
    tool_outcome: ToolOutcome | None = None
    tool_settlement: str | None = None
    tool_dispatched: bool | None = None
    tool_code: str | None = None
    tool_cause: Mapping[str, JsonValue] | None = field(default=None, converter=optional(_cause))
    write_target_table: str | None = None
    write_target_uid: int | None = None
    approved: bool | None = None
    decided_by: int | str | None = None
    submitted_by: int | str | None = None
    content_redacted: Literal[True] | None = None
    messages_sent_count: int | None = None
    content_length: int | None = None
    thinking_length: int | None = None
    tool_result_length: int | None = None
    tool_artifacts_count: int | None = None
    tool_artifact_types: tuple[str, ...] | None = None
    requested_tool_names: tuple[str, ...] | None = None

    def __attrs_post_init__(self) -> None:
        members: dict[str, object] = {}
        for name, value in self.__dict__.items():
            if value is None:
                continue
            try:
                kept = value if name in _converted else checks[name](value)
            except (TypeError, ValueError) as error:
                raise StepFormatError(f"{name}: {error}") from None
            if kept is not None:
                members[name] = kept
        # Only what it says: most steps have a dozen members, and long runs have many steps.
        object.__setattr__(self, "__dict__", members)
        self._refuse_contradictions()

    def _refuse_contradictions(self) -> None:
        outcome = self.tool_outcome
        if outcome is not None:
            if self.kind != StepKind.TOOL:
                raise OutcomeOnNonToolStepError(
                    f"a step of kind {self.kind} has no outcome; only tool steps have one"
                )
            if self.tool_is_error is not (outcome is not ToolOutcome.OK):
                raise ContradictoryStepError(
                    f"outcome {outcome} beside an error flag of {self.tool_is_error}"
                )
        dispatched, settlement = self.tool_dispatched, self.tool_settlement
        if dispatched is None or settlement is None:
            return
        if dispatched is not (settlement != Settlement.NOT_DISPATCHED):
            raise ContradictoryStepError(f"settlement beside a dispatch flag of {dispatched} that denies it")

    def __repr__(self) -> str:
        facts = [f"round {self.round}", f"{self.duration_ms} ms"]
        facts += [
            str(fact) for fact in (self.tool_name, self.tool_outcome, self.tool_code) if fact is not None
        ]
        return f"<RunStep {self.kind}, {', '.join(facts)}>"


_converted: Final = frozenset({"kind", "duration_ms", "tool_cause"})

# A member that an instance does not hold reads as None from the class.
for _member in checks.keys() - {"kind", "round", "duration_ms"}:
    setattr(RunStep, _member, None)


def made_of(members: dict[str, object]) -> RunStep:
    """Returns a step of members that are what a checked step would keep, in the order of its fields.

    Nothing is checked: this is for values that the registry or another step has checked. None of them is
    None, and the dict is the step's from now on.
    """
    step = RunStep.__new__(RunStep)
    object.__setattr__(step, "__dict__", members)
    return step


def members_of(step: RunStep) -> dict[str, object]:
    """Returns the members of a step that are not None, in the order of its fields."""
    return dict(step.__dict__)
