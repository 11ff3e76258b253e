"""How much of a step reaches the store.

What is fixed or meta survives every level, for it is what the timeline is made of. Content is dropped,
masked or kept. The filter makes a step of a step, so that whatever is stored can also be read back strictly.
"""

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Final, cast, final

from attrs import evolve

from trio_tools import Artifact, JsonValue

from ._step import RunStep, made_of, members_of
from ._values import freeze
from ._wire import KEYS, KeyClass, step_text, text_of_members

__all__ = ["PrivacyLevel", "filter_step", "mask_text", "stored_text"]


@final
class PrivacyLevel(StrEnum):
    """How much content the stored copy of a step keeps (`TR-12`)."""

    NONE = "none"
    """Content is dropped and summed up: how long, how many, of which types."""
    METADATA = "metadata"
    """The same; the default."""
    REDACTED = "redacted"
    """Content is kept, secrets in it are masked, and each string ends after 2 000 characters."""
    FULL = "full"
    """Content is kept as it is."""


_CONTENT: Final = frozenset(key.member for key in KEYS if key.cls is KeyClass.CONTENT)
_COUNTS: Final = {
    "messages_sent": "messages_sent_count",
    "content": "content_length",
    "thinking": "thinking_length",
    "tool_result": "tool_result_length",
    "tool_artifacts": "tool_artifacts_count",
}
_CAP: Final = 2000
_CUT: Final = "…"
_MASK: Final = "[redacted]"


def filter_step(step: RunStep, level: PrivacyLevel) -> RunStep:
    """Returns the copy of a step that may be stored at a level of privacy (`TR-12`); idempotent.

    At the levels ``none`` and ``metadata`` no content is left, the reason of a cause included, and the
    summary keys say how much there was. At ``redacted`` what looks like a secret becomes ``[redacted]`` and
    each string is cut at 2 000 characters. At ``full`` the step itself comes back.
    """
    if level == PrivacyLevel.FULL:
        return step
    return _redacted(step) if level == PrivacyLevel.REDACTED else _summarized(step)


def stored_text(step: RunStep, level: PrivacyLevel) -> str:
    """Returns the JSON text of `filter_step`, without a step in between where that is the common case."""
    if level is PrivacyLevel.FULL:
        return step_text(step)
    if level is PrivacyLevel.REDACTED or step.tool_cause is not None or step.content_redacted:
        return step_text(filter_step(step, level))
    content: list[str] = []
    text = text_of_members(step.__dict__, _CONTENT, content)
    return f"{text[:-1]},{text_of_members(_summary_of(step, content))[1:]}" if content else text


def _summarized(step: RunStep) -> RunStep:
    members = members_of(step)
    cause = step.tool_cause
    reason = cause is not None and "reason" in cause
    summary = _summary_of(step, [name for name in members if name in _CONTENT])
    if not summary and not reason:
        return step
    kept = {name: value for name, value in members.items() if name not in _CONTENT}
    if cause is not None and reason:
        kept["tool_cause"] = freeze({"kind": cause["kind"], "name": cause["name"]})
    return made_of({**kept, "content_redacted": True, **summary})


def _summary_of(step: RunStep, content: list[str]) -> dict[str, object]:
    """Returns what is said of the content in its place; nothing if there is none."""
    summary: dict[str, object] = {"content_redacted": True} if content else {}
    for member in content:
        value = getattr(step, member)
        if member in _COUNTS:
            summary[_COUNTS[member]] = len(value)
        if member == "tool_artifacts":
            summary["tool_artifact_types"] = tuple(str(artifact.type) for artifact in value)
        elif member == "requested_tool_calls":
            summary["requested_tool_names"] = tuple(str(call["name"]) for call in value)
    return summary


def _redacted(step: RunStep) -> RunStep:
    members = members_of(step)
    changes: dict[str, Any] = {name: _masked(members[name]) for name in _CONTENT & members.keys()}
    if step.tool_cause is not None and "reason" in step.tool_cause:
        changes["tool_cause"] = {**step.tool_cause, "reason": mask_text(str(step.tool_cause["reason"]))}
    return evolve(step, **changes) if changes else step


def _masked(value: object, *, secret: bool = False) -> object:
    if isinstance(value, str):
        return _MASK if secret and value else mask_text(value)
    if isinstance(value, Artifact):
        return Artifact(value.type, mask_text(value.label), _masked(value.data))
    if isinstance(value, Mapping):
        row = cast("Mapping[str, JsonValue]", value)
        return {key: _masked(item, secret=secret or _names_a_secret(key)) for key, item in row.items()}
    if isinstance(value, list | tuple):
        return [_masked(item, secret=secret) for item in cast("list[object]", value)]
    return value


# The names under which secrets travel in arguments and headers. A `token` is one, `max_tokens` is not.
_SECRET_NAME: Final = re.compile(
    r"(?:.*[-_. ])?(?:pass(?:word|wd|phrase|code)?|pwd|secret|(?:api|access|private|secret|signing)[-_ ]?key"
    r"|token|authorization|auth|cookie|credentials?)",
    re.IGNORECASE | re.DOTALL,
)
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def _names_a_secret(key: str) -> bool:
    return _SECRET_NAME.fullmatch(_HUMP.sub("_", key)) is not None


_SECRETS: Final[tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...]] = (
    (
        re.compile(
            r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
        ),
        _MASK,
    ),
    # JSON Web Tokens, and the keys that well-known services mark by a prefix.
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*", re.ASCII), _MASK),
    (re.compile(r"\b(?:sk|pk|rk)[-_](?:[a-zA-Z]+[-_])*[A-Za-z0-9_-]{16,}", re.ASCII), _MASK),
    (re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,})", re.ASCII), _MASK),
    (re.compile(r"\bxox[abeoprs]-[\w-]{10,}", re.ASCII), _MASK),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}", re.ASCII), _MASK),
    (re.compile(r"\bAIza[\w-]{30,}", re.ASCII), _MASK),
    # The password of a URL, and what stands behind the word that announces a secret.
    (re.compile(r"(?<=://)([^\s/:@]{0,200}):[^\s/@]{1,500}(?=@)"), rf"\1:{_MASK}"),
    (re.compile(r"\b(Bearer|Basic)\s+(?!\[redacted)[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE), rf"\1 {_MASK}"),
    (
        re.compile(
            r"\b((?:\w{0,40}[-_])?(?:password|passwd|passphrase|pwd|secret|api[-_]?key|access[-_]?key|token))"
            r"(\"?\s{0,3}[:=]\s{0,3}[\"']?)(?!\[redacted)[^\s\"',;&}{)]{3,}",
            re.IGNORECASE,
        ),
        rf"\1\2{_MASK}",
    ),
)


def _once(text: str) -> str:
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text if len(text) <= _CAP else text[: _CAP - len(_CUT)] + _CUT


def mask_text(text: str) -> str:
    """Returns the text with what looks like a secret masked, at most 2 000 characters long; idempotent.

    Tokens of well-known shapes, private keys, passwords in URLs and values behind words like ``password=``
    are found. What does not look like a secret is not: where that matters, store less than ``redacted``.
    """
    # A cut can leave half a mask, or make something look like a secret that was none. The pass is therefore
    # repeated until it changes nothing; what does not come to rest is masked whole, which is at rest.
    for _ in range(6):
        masked = _once(text)
        if masked == text:
            return text
        text = masked
    return _MASK
