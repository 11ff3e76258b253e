"""The JSON of a step: what is written, what one reader refuses, what the other makes of anything.

One table, `KEYS`, says for each member of a step which key it has, in the order in which keys are written,
and what the privacy filter does with it. Writer, readers and filter all follow the table, so a key cannot
be known to one alone.
"""

import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import Enum, auto
from typing import Any, Final, NoReturn, cast, final

from attrs import frozen
from cattrs import ClassValidationError, Converter, transform_error
from cattrs.gen import make_dict_structure_fn, override

from trio_tools import Artifact, JsonValue, ToolOutcome

from ._step import Check, ContradictoryStepError, OutcomeOnNonToolStepError, RunStep, StepFormatError, checks

__all__ = [
    "KEYS",
    "Key",
    "KeyClass",
    "parse_payload",
    "read_outcome",
    "step_to_json",
    "structure_step",
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

_OPTIONAL: Final = tuple((key.name, key.member) for key in KEYS if key.cls is not KeyClass.FIXED)


def step_to_json(step: RunStep) -> dict[str, JsonValue]:
    """Returns the JSON object of a step (`ST-2`, `ST-3`).

    ``kind``, ``round`` and ``durationMs`` are always there, another key only if the member is not None. The
    outer dict is the caller's; what nests in it is frozen. `structure_step` inverts it.
    """
    row: dict[str, JsonValue] = {
        "kind": str(step.kind),
        "round": step.round,
        "durationMs": step.duration_ms,
    }
    for key, member in _OPTIONAL:
        value = getattr(step, member)
        if value is not None:
            if type(value) is tuple:
                items = cast("tuple[object, ...]", value)
                value = [_artifact_to_json(item) if isinstance(item, Artifact) else item for item in items]
            row[key] = cast("JsonValue", value)
    return row


def _artifact_to_json(artifact: Artifact) -> dict[str, JsonValue]:
    return {"type": str(artifact.type), "label": artifact.label, "data": cast("JsonValue", artifact.data)}


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
