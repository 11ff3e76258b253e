"""The one seam that every published result passes: how much of it may leave (`BD-1`).

Content and artifacts each have a budget of their own. Content keeps its head and says that it was
cut; artifacts are kept whole or not at all, for half a table is a wrong table.
"""

import sys
from typing import Final, final

from attrs import field, frozen

from ._content import Artifact, ArtifactType, Content, ImageContent, TextContent
from ._json import FrozenDict, JsonValue, NotLossless, freeze_value, repair_text, to_json_text
from ._text import shown

__all__ = ["Bounds", "bounded_artifacts", "bounded_content"]


def _marker(cap: int) -> str:
    return f"\n[content cut at {cap} bytes]"


def _is_positive(_bounds: object, attribute: object, value: object) -> None:
    if type(value) is not int or not 1 <= value <= sys.maxsize:
        name = getattr(attribute, "name", "a bound")
        raise ValueError(f"{name} is an integer from 1 to {sys.maxsize}, not {shown(value)}")


@final
@frozen(kw_only=True)
class Bounds:
    """How much of a result is published (`BD-2`, `BD-5`) and how deep JSON may nest (`MA-6`).

    Attributes:
        content_bytes: cap on the UTF-8 of all content parts together.
        artifact_bytes: cap on the artifacts of one result, as serialized for the sinks.
        artifact_depth: levels of nesting within one artifact's data, the root counting one.
        json_depth: levels of nesting of arguments and values, the root counting one.

    Raises:
        ValueError: when one is not a positive integer, or when `content_bytes` is too small to hold the
            marker that a cut leaves behind (`BD-3`).
    """

    content_bytes: int = field(default=50_000, validator=_is_positive)
    artifact_bytes: int = field(default=50_000, validator=_is_positive)
    artifact_depth: int = field(default=64, validator=_is_positive)
    json_depth: int = field(default=512, validator=_is_positive)

    def __attrs_post_init__(self) -> None:
        needed = len(_marker(self.content_bytes))
        if self.content_bytes < needed:
            raise ValueError(
                f"content_bytes is {self.content_bytes}, but the marker of a cut alone needs {needed}"
            )


def bounded_content(content: tuple[Content, ...], cap: int) -> tuple[Content, ...]:
    """Return ``content`` repaired (`BD-4`) and, where it is over ``cap`` bytes, cut (`BD-3`)."""
    if len(content) == 1 and type(only := content[0]) is TextContent:
        # Most results by far: nothing in it can be broken, and its characters are its bytes.
        text = only.text
        if type(text) is str and text.isascii() and len(text) <= cap:
            return content
    parts = tuple(map(_repaired, content))
    sizes = [_size(part) for part in parts]
    if sum(sizes) <= cap:
        return content if parts == content else parts
    marker = _marker(cap)
    room = cap - len(marker)
    kept: list[Content] = []
    for part, size in zip(parts, sizes, strict=True):
        if size <= room:
            kept.append(part)
            room -= size
        elif isinstance(part, TextContent):
            kept.append(TextContent(_head(part.text, room)))
            break
    if kept and isinstance(last := kept[-1], TextContent):
        kept[-1] = TextContent(last.text + marker)
    else:
        kept.append(TextContent(marker))
    return tuple(kept)


def _repaired(part: Content) -> Content:
    if isinstance(part, ImageContent):
        return ImageContent(repair_text(part.data), repair_text(part.mime_type))
    if isinstance(part.text, bytes):  # pyright: ignore[reportUnnecessaryIsInstance]
        return TextContent(part.text.decode("utf-8", "replace"))
    text = repair_text(part.text)
    return part if text is part.text else TextContent(text)


def _size(part: Content) -> int:
    if isinstance(part, ImageContent):
        return len(part.data.encode()) + len(part.mime_type.encode())
    return len(part.text) if part.text.isascii() else len(part.text.encode())


def _head(text: str, room: int) -> str:
    return text.encode()[:room].decode("utf-8", "ignore")


def bounded_artifacts(artifacts: tuple[Artifact, ...], bounds: Bounds) -> tuple[Artifact, ...]:
    """Return ``artifacts`` whole, or one text artifact that says why they were left out (`BD-6`)."""
    if not artifacts or artifacts in _OMISSIONS:
        return artifacts
    size = 1
    for artifact in artifacts:
        try:
            data = freeze_value(artifact.data, depth=bounds.artifact_depth)
        except NotLossless:
            return _CANNOT_BE_ENCODED
        row: dict[str, JsonValue] = {
            "type": str(artifact.type),
            "label": repair_text(artifact.label),
            "data": data,
        }
        size += len(to_json_text(FrozenDict(row)).encode()) + 1
        if size > bounds.artifact_bytes:
            return _TOO_BIG
    return artifacts


def _omission(reason: str) -> tuple[Artifact, ...]:
    label = f"artifacts omitted: {reason}"
    return (Artifact(ArtifactType.TEXT, label, {"text": label}),)


# Told apart by equality and never measured again: with a tiny budget an omission would otherwise turn
# into another one, and bounding twice would differ from bounding once (`BD-8`).
_CANNOT_BE_ENCODED: Final = _omission("cannot be encoded")
_TOO_BIG: Final = _omission("too big")
_OMISSIONS: Final = (_CANNOT_BE_ENCODED, _TOO_BIG)
