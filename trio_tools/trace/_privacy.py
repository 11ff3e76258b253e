"""How much of a step reaches the store.

What is fixed or meta survives every level, for it is what the timeline is made of. Content is dropped,
masked or kept. The filter makes a step of a step, so that whatever is stored can also be read back strictly.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, cast, final

from attrs import evolve

from trio_tools import Artifact, JsonValue

from ._step import RunStep, made_of, members_of
from ._values import freeze
from ._wire import KEYS, KeyClass, Piece, TextForm, step_text

__all__ = ["PrivacyLevel", "filter_step", "mask_text", "text_writer"]


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


def _names(calls: Iterable[Mapping[str, object]]) -> tuple[str, ...]:
    return tuple(str(call["name"]) for call in calls)


def _types(artifacts: Iterable[Artifact]) -> tuple[str, ...]:
    return tuple(str(artifact.type) for artifact in artifacts)


# What is said of content in its place: the member that says it, and what makes it.
_SUMMARIES: Final[Mapping[str, tuple[tuple[str, Callable[[Any], object]], ...]]] = {
    "messages_sent": (("messages_sent_count", len),),
    "content": (("content_length", len),),
    "thinking": (("thinking_length", len),),
    "requested_tool_calls": (("requested_tool_names", _names),),
    "tool_result": (("tool_result_length", len),),
    "tool_artifacts": (("tool_artifacts_count", len), ("tool_artifact_types", _types)),
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


def text_writer(level: PrivacyLevel) -> Callable[[RunStep], str]:
    """Returns what writes the JSON text of `filter_step` at a level, without a step in between if it can."""
    if level == PrivacyLevel.FULL:
        return step_text
    if level == PrivacyLevel.REDACTED:
        return lambda step: step_text(_redacted(step))
    return _summary_text


def _summary_text(step: RunStep) -> str:
    members = step.__dict__
    if "tool_cause" in members:
        return step_text(_summarized(step))
    return _summary_form(tuple(members)).text_of(members)


@lru_cache(maxsize=256)
def _summary_form(members: tuple[str, ...]) -> TextForm:
    """Return what is left and what is written of a step that has these members."""
    content = [member for member in members if member in _CONTENT]
    summary = [Piece("content_redacted", member, lambda _: True) for member in content[:1]]
    summary += [Piece(name, member, make) for member in content for name, make in _SUMMARIES.get(member, ())]
    replaced = _CONTENT | {piece.name for piece in summary}
    return TextForm([*(Piece(member, member) for member in members if member not in replaced), *summary])


def _summarized(step: RunStep) -> RunStep:
    members = members_of(step)
    cause = step.tool_cause
    if cause is not None and "reason" in cause:
        members["tool_cause"] = freeze({"kind": cause["kind"], "name": cause["name"]})
        members["content_redacted"] = True
    pieces = _summary_form(tuple(members)).pieces
    filtered = {piece.name: piece.value_of(members) for piece in pieces}
    return step if filtered == step.__dict__ else made_of(filtered)


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
