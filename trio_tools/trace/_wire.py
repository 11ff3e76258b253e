"""The JSON of a step: what is written, what one reader refuses, what the other makes of anything.

One table, `KEYS`, says for each member of a step which key it has, in the order in which keys are written,
and what the privacy filter does with it. Writer, readers and filter all follow the table, so a key cannot
be known to one alone.
"""

import json
from collections.abc import Callable, Container, Mapping
from decimal import Decimal
from enum import Enum, StrEnum, auto
from json.encoder import encode_basestring
from typing import Any, Final, NoReturn, cast, final

from attrs import frozen
from cattrs import ClassValidationError, Converter, transform_error
from cattrs.gen import make_dict_structure_fn, override

from trio_tools import Artifact, JsonValue, Settlement, ToolOutcome, to_json_text

from ._step import (
    Check,
    ContradictoryStepError,
    EventKind,
    OutcomeOnNonToolStepError,
    RunStep,
    StepFormatError,
    StepKind,
    checks,
    members_of,
)

__all__ = [
    "KEYS",
    "Key",
    "KeyClass",
    "parse_payload",
    "read_outcome",
    "step_text",
    "step_to_json",
    "structure_step",
    "text_of_members",
]


@final
class KeyClass(Enum):
    """What becomes of a key under the privacy filter (`ST-3`, `TR-12`)."""

    FIXED = auto()
    """Always there."""
    META = auto()
    """Stored at every level."""
    CONTENT = auto()
    """Dropped or masked."""
    SUMMARY = auto()
    """Written in place of what was dropped."""


@final
@frozen
class Key:
    """One key of the stored JSON: its name there, the member of `RunStep` it holds, and its class."""

    name: str
    member: str
    cls: KeyClass


def _keys(cls: KeyClass, names: str) -> list[Key]:
    return [
        Key(name, "".join(f"_{c.lower()}" if c.isupper() else c for c in name), cls) for name in names.split()
    ]


_CONTENT, _META = KeyClass.CONTENT, KeyClass.META

KEYS: Final[tuple[Key, ...]] = (
    *_keys(KeyClass.FIXED, "kind round durationMs"),
    *_keys(_CONTENT, "messagesSent"),
    *_keys(_META, "toolSpecs"),
    *_keys(_CONTENT, "content thinking raw"),
    *_keys(_META, "finishReason promptTokens completionTokens totalTokens estimatedCost"),
    *_keys(_CONTENT, "requestedToolCalls"),
    *_keys(_META, "contextBudget droppedSources toolName"),
    *_keys(_CONTENT, "toolArguments toolResult toolArtifacts"),
    *_keys(_META, "toolIsError toolOutcome toolSettlement toolDispatched toolCode"),
    # Meta, but for the reason inside it, which somebody wrote and which is content.
    *_keys(_META, "toolCause writeTargetTable writeTargetUid approved decidedBy submittedBy"),
    *_keys(
        KeyClass.SUMMARY, "contentRedacted messagesSentCount contentLength thinkingLength toolResultLength"
    ),
    *_keys(KeyClass.SUMMARY, "toolArtifactsCount toolArtifactTypes requestedToolNames"),
)

_NAMES: Final = {key.member: key.name for key in KEYS}
_HEADS: Final = {key.member: f'"{key.name}":' for key in KEYS}


def step_to_json(step: RunStep) -> dict[str, JsonValue]:
    """Returns the JSON object of a step (`ST-2`, `ST-3`).

    ``kind``, ``round`` and ``durationMs`` are always there, another key only if the member is not None. The
    outer dict is the caller's; what nests in it is frozen. `structure_step` inverts it.
    """
    return {_NAMES[member]: _plain(value) for member, value in members_of(step).items()}


def _plain(value: object) -> JsonValue:
    if type(value) is tuple:
        return [_plain(item) for item in cast("tuple[object, ...]", value)]
    if isinstance(value, Artifact):
        return {"type": str(value.type), "label": value.label, "data": cast("JsonValue", value.data)}
    if isinstance(value, StrEnum):
        return str(value)
    return cast("JsonValue", value)


def step_text(step: RunStep) -> str:
    """Returns the JSON text of a step, as it is stored: one line of valid Unicode."""
    return text_of_members(step.__dict__)


def text_of_members(
    members: Mapping[str, object], leave_out: Container[str] = (), left_out: list[str] | None = None
) -> str:
    """Returns the JSON text of a step that has these members, None for those that it has not.

    Args:
        leave_out: members that are not written.
        left_out: gets the names of those that were there and were not written.
    """
    # Every step that is stored passes here, so the loop calls as little as it can.
    pieces: list[str] = []
    writer_of, heads = _WRITERS.get, _HEADS
    for member, value in members.items():
        if value is None:
            continue
        if member in leave_out:
            if left_out is not None:
                left_out.append(member)
            continue
        write = writer_of(value.__class__)
        pieces.append(heads[member] + (to_json_text(_plain(value)) if write is None else write(value)))
    return f"{{{','.join(pieces)}}}"


def _flag_text(value: object) -> str:
    return "true" if value else "false"


def _whole_text(value: int) -> str:
    try:
        return int.__repr__(value)
    except ValueError:
        return to_json_text(value)


# Most of a step is short text and numbers, and those need no encoder to be set up.
_WRITERS: Final[dict[type, Callable[[Any], str]]] = {
    str: encode_basestring,
    StepKind: encode_basestring,
    EventKind: encode_basestring,
    ToolOutcome: encode_basestring,
    Settlement: encode_basestring,
    bool: _flag_text,
    int: _whole_text,
    float: float.__repr__,
}


def _integer(digits: str) -> int:
    # `int` of a string stops at `sys.get_int_max_str_digits()`; a Decimal is as exact and knows no limit.
    return int(digits) if len(digits) < _SHORT else int(Decimal(digits))


_SHORT: Final = 4000
_decode: Final = json.JSONDecoder().decode
_decode_any_integer: Final = json.JSONDecoder(parse_int=_integer).decode


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_decode_strictly: Final = json.JSONDecoder(parse_int=_integer, parse_constant=_refuse_constant).decode


def parse_payload(payload: object) -> Mapping[str, object]:
    """Returns the JSON object that text or bytes hold, an empty one for anything else; total (`ST-10`)."""
    try:
        if isinstance(payload, Mapping):
            return cast("Mapping[str, object]", payload)
        if isinstance(payload, bytes | bytearray | memoryview):
            payload = bytes(cast("bytes", payload)).decode()
        if not isinstance(payload, str):
            return {}
        try:
            row: object = _decode(payload)
        except ValueError:
            row = _decode_any_integer(payload)
    except Exception:  # noqa: BLE001
        # Not JSON, nested too deep for the parser, or an object that fails when it is looked at.
        return {}
    return cast("Mapping[str, object]", row) if isinstance(row, dict) else {}


_OUTCOMES: Final = {str(outcome) for outcome in ToolOutcome}


def read_outcome(payload: object) -> str:
    """Returns ``ok``, ``failed``, ``cancelled``, or ``""`` where the payload does not tell; total (`ST-9`).

    The payload is a `RunStep`, the JSON object of one, its text, its bytes, or anything else. The error
    flag says whether, ``toolOutcome`` which: without a real boolean as ``toolIsError`` the answer is
    ``""``, else a known ``toolOutcome`` decides, else the flag. Rows that are older than ``toolOutcome``
    read as they always did.
    """
    if isinstance(payload, RunStep):
        flag, outcome = payload.tool_is_error, payload.tool_outcome
    else:
        row = parse_payload(payload)
        try:
            flag, outcome = row.get("toolIsError"), row.get("toolOutcome")
        except Exception:  # noqa: BLE001
            return ""
    if not isinstance(flag, bool):
        return ""
    if isinstance(outcome, str) and (text := str.__str__(outcome)) in _OUTCOMES:
        return text
    return str(ToolOutcome.FAILED if flag else ToolOutcome.OK)


_strict: Final = Converter()


def _hook(check: Check) -> Callable[[Any, Any], Any]:
    def structure(value: object, _type: object) -> object:
        return check(value)

    return structure


def _exact_milliseconds(value: object) -> object:
    kept = checks["duration_ms"](value)
    if kept != value:
        raise StepFormatError("expected at most two decimals")
    return kept


_overrides: Final[dict[str, Any]] = {
    key.member: override(
        rename=key.name,
        struct_hook=_hook(_exact_milliseconds if key.member == "duration_ms" else checks[key.member]),
    )
    for key in KEYS
}
_structure: Final = make_dict_structure_fn(RunStep, _strict, _cattrs_forbid_extra_keys=False, **_overrides)


def structure_step(payload: Mapping[str, object] | str | bytes) -> RunStep:
    """Returns the step that a JSON object, or its text, stands for; strict (`ST-8`).

    Nothing is coerced: ``1`` is no boolean and ``"3"`` no integer. Keys that are not known are ignored, and
    null is the same as an absent key.

    Raises:
        StepFormatError: no JSON object, a key of the fixed three missing, an unknown kind, a value of the
            wrong type.
        ContradictoryStepError: two members contradict one another (`ST-5`, `ST-7`).
        OutcomeOnNonToolStepError: an outcome on a step of another kind (`ST-6`).
    """
    row = _parse_strictly(payload)
    present = {name: value for name, value in row.items() if value is not None}
    missing = [name for name in ("kind", "round", "durationMs") if name not in present]
    if missing:
        raise StepFormatError(f"a step always has {', '.join(missing)}")
    try:
        return _structure(present, RunStep)
    except ClassValidationError as group:
        for error in group.exceptions:
            if isinstance(error, ContradictoryStepError | OutcomeOnNonToolStepError):
                raise error from None
        lines = transform_error(group, path="step", format_exception=_sentence)
        raise StepFormatError("; ".join(lines)) from None


def _sentence(error: BaseException, _type: type | None) -> str:
    return str(error)


def _parse_strictly(payload: object) -> Mapping[str, object]:
    if isinstance(payload, str | bytes):
        try:
            payload = cast(
                "object", _decode_strictly(payload.decode() if isinstance(payload, bytes) else payload)
            )
        except (ValueError, RecursionError):
            raise StepFormatError("the payload is not JSON") from None
    if not isinstance(payload, Mapping):
        raise StepFormatError(f"a step is a JSON object, not {type(payload).__name__}")
    return cast("Mapping[str, object]", payload)
