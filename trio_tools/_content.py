"""What a result carries besides its three facts: content, artifacts, the record of a write.

Content is the only channel that may reach a model (`OU-4`). Artifacts are for the people and programs
around a run; a write target names the record that a write produced. Nothing here prints what it
holds (`OU-6`): one log line must not leak what a tool returned.
"""

import copy
import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, Literal, TypeAlias, cast, final

from attrs import field, frozen

from ._json import JsonValue, NotLossless, freeze_value
from ._text import shown

__all__ = [
    "Artifact",
    "ArtifactType",
    "Content",
    "Context",
    "ImageContent",
    "TextContent",
    "WriteKind",
    "WriteTarget",
    "content_of",
    "context_of",
    "joined_text",
]

# Deeper data is still copied, but by the general machinery, and never published (`BD-5`).
_COPY_DEPTH: Final = 10_000


# The parts of content are made for every result, and checked where they are handed in (`content_of`): a
# constructor that checked them as well would be paid for by every call.


@final
@frozen(repr=False)
class TextContent:
    """A part of a result's content that is text.

    Attributes:
        text: any text; what is broken in it is repaired when the result is bounded (`BD-4`).
    """

    text: str

    @property
    def type(self) -> Literal["text"]:
        """The word that names this kind of part."""
        return "text"

    def __repr__(self) -> str:
        return f"<TextContent, {_length_of(self.text)}>"


@final
@frozen(repr=False)
class ImageContent:
    """A part of a result's content that is a picture.

    Attributes:
        data: the picture's bytes in base64.
        mime_type: such as ``image/png``.
    """

    data: str
    mime_type: str

    @property
    def type(self) -> Literal["image"]:
        """The word that names this kind of part."""
        return "image"

    def __repr__(self) -> str:
        return f"<ImageContent, {_length_of(self.data)}>"


def _length_of(text: object) -> str:
    return f"{str.__len__(text)} characters" if isinstance(text, str) else type(text).__name__


Content: TypeAlias = TextContent | ImageContent
Context: TypeAlias = str | Mapping[str, JsonValue]


def content_of(answer: object) -> tuple[Content, ...]:
    """Read what a body's ``render``, a finalizer or a reviewer gave as content.

    A string, ``bytes`` (decoded, `BD-4`), one part, or an iterable of these that is a list or tuple.

    Raises:
        TypeError: when it is none of these.
    """
    if type(answer) is tuple and all(map(_is_plain, answer)):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        return answer  # pyright: ignore[reportUnknownVariableType]
    items: Iterable[object] = (
        cast("list[object] | tuple[object, ...]", answer) if isinstance(answer, list | tuple) else (answer,)
    )
    return tuple(_part_of(item) for item in items)


def _is_plain(item: object) -> bool:
    return type(item) is TextContent and type(item.text) is str


def _part_of(item: object) -> Content:
    match item:
        case TextContent(text=str() as text):
            return item if type(text) is str else TextContent(str.__str__(text))
        case ImageContent(data=str() as data, mime_type=str() as mime_type):
            return (
                item
                if type(data) is type(mime_type) is str
                else ImageContent(str.__str__(data), str.__str__(mime_type))
            )
        case TextContent(text=bytes() as raw) | (bytes() as raw):  # pyright: ignore[reportUnnecessaryComparison]
            return TextContent(raw.decode("utf-8", "replace"))
        case str():
            return TextContent(str.__str__(item))
        case TextContent(text=text):
            raise TypeError(f"content is text or content parts, not TextContent of {type(text).__name__}")
        case ImageContent(data=data, mime_type=mime_type):
            kinds = f"{type(data).__name__} and {type(mime_type).__name__}"
            raise TypeError(f"content is text or content parts, not ImageContent of {kinds}")
        case _:
            raise TypeError(f"content is text or content parts, not {type(item).__name__}")


def joined_text(content: Iterable[Content]) -> str:
    """Join the text parts of ``content`` with newlines (`OU-9`)."""
    return "\n".join([part.text for part in content if isinstance(part, TextContent)])


def context_of(message: object) -> Context:
    """Freeze a deferred context message (`BO-16`).

    Raises:
        TypeError: when it is neither a string nor a mapping, or when JSON would lose something of it.
    """
    if not isinstance(message, str | Mapping):
        raise TypeError(f"a context is a string or a JSON object, not {type(message).__name__}")
    try:
        frozen_message = freeze_value(cast("object", message), depth=_COPY_DEPTH)
    except NotLossless as error:
        raise TypeError(f"a context is a string or a JSON object: {error}") from None
    return cast("Context", frozen_message)


@final
class ArtifactType(StrEnum):
    """What an artifact's data is (`OU-7`)."""

    TABLE = "table"
    TEXT = "text"


def _detached(data: object) -> object:
    try:
        return freeze_value(data, depth=_COPY_DEPTH)
    except NotLossless:
        pass
    # No JSON: kept apart from the caller's object as far as it can be, and left out when the result is
    # bounded (`BD-6`).
    try:
        return copy.deepcopy(data)
    except Exception:
        return data


def _artifact_type(value: object) -> ArtifactType:
    try:
        return ArtifactType(value)
    except Exception:
        known = ", ".join(ArtifactType)
        raise ValueError(f"the type of an artifact is one of {known}, not {shown(value)}") from None


def _label(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"the label of an artifact is a string, not {shown(value)}")
    # A subclass of str may carry methods of its own into every later formatting.
    return str.__str__(value)


@final
@frozen(repr=False)
class Artifact:
    """Something a call produced for the people around the run, never for the model (`OU-7`).

    Attributes:
        type: ``table``, with ``{"columns": [...], "rows": [[...], ...]}`` as data, or ``text``, with
            ``{"text": "..."}``.
        label: a few words that name it to a person.
        data: JSON, copied and frozen when the artifact is made.

    Raises:
        ValueError: when the type is not one of `ArtifactType`.
        TypeError: when the label is not a string.
    """

    type: ArtifactType = field(converter=_artifact_type)
    label: str = field(converter=_label)
    data: object = field(converter=_detached)

    def __repr__(self) -> str:
        return f"<Artifact, {self.type}>"


@final
class WriteKind(StrEnum):
    """What a write did to the record it names (`OU-8`)."""

    CREATED = "created"
    UPDATED = "updated"
    DELETED = "deleted"


_TABLE_NAME: Final = re.compile(r"[A-Za-z0-9_]{1,64}", re.ASCII)
_MAX_UID: Final = 2**63 - 1


@final
@frozen
class WriteTarget:
    """Which record a write produced (`OU-8`).

    Attributes:
        table: 1 to 64 ASCII letters, digits or underscores.
        uid: 1 to 2**63-1.
        kind: created, updated or deleted.

    Raises:
        ValueError: when one of them is anything else.
    """

    table: str
    uid: int
    kind: WriteKind

    def __init__(self, table: str, uid: int, kind: WriteKind) -> None:
        if type(table) is not str or _TABLE_NAME.fullmatch(table) is None:
            raise ValueError(
                f"a table name is 1 to 64 ASCII letters, digits or underscores, not {shown(table)}"
            )
        if type(uid) is not int or not 1 <= uid <= _MAX_UID:
            raise ValueError(f"a uid is an integer from 1 to 2**63-1, not {shown(uid)}")
        try:
            known = WriteKind(kind)
        except Exception:
            kinds = ", ".join(WriteKind)
            raise ValueError(f"the kind of a write is one of {kinds}, not {shown(kind)}") from None
        self.__attrs_init__(table, uid, known)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
