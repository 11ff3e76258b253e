"""The JSON of a step: what is written, what one reader refuses, what the other makes of anything.

One table, `KEYS`, says for each member of a step which key it has, in the order in which keys are written,
and what the privacy filter does with it. Writer, readers and filter all follow the table, so a key cannot
be known to one alone.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from enum import Enum, StrEnum, auto
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any, Final, Literal, NoReturn, cast, final, get_args, get_type_hints

from attrs import frozen
from cattrs import ClassValidationError, Converter, transform_error
from cattrs.gen import make_dict_structure_fn, override

from trio_tools import Artifact, JsonValue, ToolOutcome, to_json_text

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
    "Piece",
    "TextForm",
    "parse_payload",
    "read_outcome",
    "step_text",
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

_NAMES: Final = {key.member: key.name for key in KEYS}


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
    members = step.__dict__
    return _form_of(tuple(members)).text_of(members)


@lru_cache(maxsize=256)
def _form_of(members: tuple[str, ...]) -> "TextForm":
    return TextForm([Piece(member, member) for member in members])


@final
@frozen
class Piece:
    """One member of what is written: its name, the member that its value comes from, and how, if changed."""

    name: str
    source: str
    make: Callable[[Any], object] | None = None

    def value_of(self, members: Mapping[str, object]) -> object:
        """Return the value that is written for a step that has these members."""
        value = members[self.source]
        return value if self.make is None else self.make(value)


@final
class TextForm:
    """Writes the steps that have the same members.

    Every step that is stored passes here, and most of the time would go into finding out again and again
    which members there are and how each is written. So that is done once, and compiled.
    """

    def __init__(self, pieces: Iterable[Piece]) -> None:
        self.pieces: Final = tuple(pieces)
        names: dict[str, object] = dict(_WRITERS)
        texts: list[str] = []
        for number, piece in enumerate(self.pieces):
            value = f"members[{piece.source!r}]"
            if piece.make is not None:
                names[f"make_{number}"] = piece.make
                value = f"make_{number}({value})"
            texts.append(f'"{_NAMES[piece.name]}":{_EXPRESSIONS[piece.name].format(value)}')
        names["any_text_of"] = self._any_text_of
        # All of the source comes from this module and from the names of the members of a step.
        exec(_SOURCE.format("{{" + ",".join(texts) + "}}"), names)
        self.text_of: Final = cast("Callable[[Mapping[str, object]], str]", names["text_of"])
        """Returns the text of a step that has these members."""

    def _any_text_of(self, members: Mapping[str, object]) -> str:
        texts = [f'"{_NAMES[piece.name]}":{_any_text(piece.value_of(members))}' for piece in self.pieces]
        return f"{{{','.join(texts)}}}"


# A ValueError: an integer with more digits than `repr` agrees to print.
_SOURCE: Final = '''
def text_of(members):
    try:
        return f"""{}"""
    except ValueError:
        return any_text_of(members)
'''


def _any_text(value: object) -> str:
    return to_json_text(_plain(value))


_WRITERS: Final = {
    "text": encode_basestring,
    "any": _any_text,
}


def _expression(hint: object) -> str:
    """Returns what writes a value of a type, as the part of an f-string; ``{}`` stands for the value."""
    classes = set(get_args(hint) or [hint]) - {type(None)}
    if classes <= {str, StepKind, EventKind, ToolOutcome}:
        return "{{text({})}}"
    if classes <= {int, float}:
        return "{{{}!r}}"
    if classes == {Literal[True]}:
        return "true"
    if classes == {bool}:
        return "{{'true' if {} else 'false'}}"
    return "{{any({})}}"


# Most of a step is short text and numbers, and those need no encoder to be set up.
_EXPRESSIONS: Final = {member: _expression(hint) for member, hint in get_type_hints(RunStep).items()}


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
