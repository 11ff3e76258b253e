"""The schema of a server's tool, without what nobody here can enforce.

JSON Schema lets an author add keywords and formats of his own, which assert nothing to others. Servers do:
what is generated from Rust says ``uint32``, what is generated from Python says ``path``. In a schema that a
program gives itself such a note is refused, for it would be taken for enforced (`JS-1`). A server enforces
its own schema anyway, so there it is left to the server.
"""

from collections.abc import Mapping
from typing import Final, cast

__all__ = ["without_notes"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NAMED: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_ONE_OR_SEVERAL: Final = _words(
    "additionalItems additionalProperties allOf anyOf contains contentSchema else if items not oneOf "
    "prefixItems propertyNames then unevaluatedItems unevaluatedProperties"
)
_OTHERS: Final = _words(
    "$anchor $comment $dynamicAnchor $dynamicRef $id $recursiveAnchor $recursiveRef $ref $schema const "
    "contentEncoding contentMediaType default dependencies dependentRequired deprecated description enum "
    "examples exclusiveMaximum exclusiveMinimum format maxContains maximum maxItems maxLength maxProperties "
    "minContains minimum minItems minLength minProperties multipleOf pattern readOnly required title type "
    "uniqueItems writeOnly"
)
_KEYWORDS: Final = _NAMED | _ONE_OR_SEVERAL | _OTHERS
_FORMATS_OF_DRAFT_7: Final = _words(
    "date date-time email hostname idn-email idn-hostname ipv4 ipv6 iri iri-reference json-pointer regex "
    "relative-json-pointer time uri uri-reference uri-template"
)
_FORMATS: Final = _FORMATS_OF_DRAFT_7 | {"duration", "uuid"}


def without_notes(schema: Mapping[str, object]) -> tuple[Mapping[str, object], tuple[str, ...]]:
    """Return the schema without keywords and formats that are no standard's, and the names of these."""
    formats = _FORMATS_OF_DRAFT_7 if "draft-07" in str(schema.get("$schema")) else _FORMATS
    left_out: dict[str, None] = {}

    def stays(keyword: str, value: object) -> bool:
        note = None
        if keyword not in _KEYWORDS:
            note = keyword
        elif keyword == "format" and isinstance(value, str) and value not in formats:
            note = f"format {value}"
        if note is not None:
            left_out[note] = None
        return note is None

    def cleared(part: object) -> object:
        if isinstance(part, list):
            return [cleared(each) for each in cast("list[object]", part)]
        if not isinstance(part, dict):
            return part
        members = cast("dict[str, object]", part)
        return {key: within(key, value) for key, value in members.items() if stays(key, value)}

    def within(keyword: str, value: object) -> object:
        if keyword in _NAMED and isinstance(value, dict):
            return {name: cleared(part) for name, part in cast("dict[str, object]", value).items()}
        return cleared(value) if keyword in _ONE_OR_SEVERAL else value

    return cast("dict[str, object]", cleared(dict(schema))), tuple(left_out)
