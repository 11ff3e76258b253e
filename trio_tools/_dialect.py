"""The keywords of the JSON Schema drafts, and a schema read by them at definition.

Everything in a given schema is enforced or is a note that asserts nothing; a keyword that is neither is
refused, so that nobody trusts a schema that is silently not kept (`JS-1`). References are followed within
the schema only: there is no code here or below that could fetch anything.
"""

import re
from collections.abc import Iterator
from typing import Any, Final, final
from urllib.parse import unquote, urldefrag, urljoin

from attrs import define, field, frozen

from ._errors import DefinitionError
from ._json import FrozenDict, FrozenList, JsonValue, to_json_text
from ._text import clipped

# What the members of a keyword's value are.
_NOTE: Final = "nothing that is enforced"
_VALUE: Final = "an assertion"
_SCHEMA: Final = "a schema"
_SCHEMAS: Final = "a list of schemas"
_NAMED: Final = "schemas by name"
_EITHER: Final = "a schema or a list of schemas"
_NAMED_OR_NAMES: Final = "by name, schemas or lists of names"

_ALL_DRAFTS: Final = {
    "$schema": _NOTE,
    "$id": _NOTE,
    "$comment": _NOTE,
    "title": _NOTE,
    "description": _NOTE,
    "default": _NOTE,
    "examples": _NOTE,
    "readOnly": _NOTE,
    "writeOnly": _NOTE,
    "deprecated": _NOTE,
    # Homes for what references lead to. Either name is in use in every draft.
    "definitions": _NAMED,
    "$defs": _NAMED,
    "$ref": _VALUE,
    "type": _VALUE,
    "enum": _VALUE,
    "const": _VALUE,
    "multipleOf": _VALUE,
    "maximum": _VALUE,
    "exclusiveMaximum": _VALUE,
    "minimum": _VALUE,
    "exclusiveMinimum": _VALUE,
    "maxLength": _VALUE,
    "minLength": _VALUE,
    "pattern": _VALUE,
    "format": _VALUE,
    "maxItems": _VALUE,
    "minItems": _VALUE,
    "uniqueItems": _VALUE,
    "maxProperties": _VALUE,
    "minProperties": _VALUE,
    "required": _VALUE,
    "allOf": _SCHEMAS,
    "anyOf": _SCHEMAS,
    "oneOf": _SCHEMAS,
    "not": _SCHEMA,
    "if": _SCHEMA,
    "then": _SCHEMA,
    "else": _SCHEMA,
    "properties": _NAMED,
    "patternProperties": _NAMED,
    "additionalProperties": _SCHEMA,
    "propertyNames": _SCHEMA,
    "dependencies": _NAMED_OR_NAMES,
    "contains": _SCHEMA,
}
_SINCE_2019: Final = {
    "$anchor": _NOTE,
    # In these drafts they describe the content of a string and assert nothing.
    "contentMediaType": _NOTE,
    "contentEncoding": _NOTE,
    "contentSchema": _NOTE,
    "minContains": _VALUE,
    "maxContains": _VALUE,
    "dependentRequired": _VALUE,
    "dependentSchemas": _NAMED,
    "unevaluatedItems": _SCHEMA,
    "unevaluatedProperties": _SCHEMA,
}


@final
@frozen(eq=False, repr=False)
class Draft:
    """One version of JSON Schema: its meta-schema's address, and its keywords."""

    uri: str
    keywords: dict[str, str] = field(repr=False)
    # Whatever stands beside `$ref` is ignored.
    ref_stands_alone: bool = False


DRAFT_7: Final = Draft(
    "http://json-schema.org/draft-07/schema#",
    {
        **_ALL_DRAFTS,
        "items": _EITHER,
        "additionalItems": _SCHEMA,
        "contentMediaType": _VALUE,
        "contentEncoding": _VALUE,
    },
    ref_stands_alone=True,
)
DRAFT_2019: Final = Draft(
    "https://json-schema.org/draft/2019-09/schema",
    {
        **_ALL_DRAFTS,
        **_SINCE_2019,
        "items": _EITHER,
        "additionalItems": _SCHEMA,
        "$recursiveAnchor": _NOTE,
        "$recursiveRef": _VALUE,
    },
)
DRAFT_2020: Final = Draft(
    "https://json-schema.org/draft/2020-12/schema",
    {
        **_ALL_DRAFTS,
        **_SINCE_2019,
        "items": _SCHEMA,
        "prefixItems": _SCHEMAS,
        "$dynamicAnchor": _NOTE,
        "$dynamicRef": _VALUE,
    },
)
_DRAFTS: Final = {draft.uri.removesuffix("#"): draft for draft in (DRAFT_7, DRAFT_2019, DRAFT_2020)}

# Characters of a text of the schema, or of a pointer into it, that a message repeats.
_SHOWN: Final = 500

# What a draft-07 validator is free to support, and what of it the compiled one does.
_CONTENT_OF_DRAFT_7: Final = {"contentEncoding": "base64", "contentMediaType": "application/json"}


@final
@define(eq=False, repr=False)
class Resource:
    """A schema with an identity of its own, and the names that lead into it."""

    root: FrozenDict
    uri: str
    anchors: dict[str, FrozenDict] = field(factory=dict[str, FrozenDict])
    dynamic_anchors: dict[str, FrozenDict] = field(factory=dict[str, FrozenDict])


@final
class Reading:
    """A schema that was read: its draft, which resource each part belongs to, and where references lead.

    Raises `DefinitionError` for an unknown draft or keyword, and for a reference that leaves the schema.
    """

    def __init__(self, schema: FrozenDict, what: str) -> None:
        self.root = schema
        self.draft = _draft_of(schema, what)
        self._what = what
        self._resources: dict[str, Resource] = {}
        self._owners: dict[int, Resource] = {}
        self._targets: dict[tuple[int, str], FrozenDict | bool] = {}
        referring: list[tuple[FrozenDict, str]] = []
        for part, pointer, resource in self._parts(schema):
            self._owners.setdefault(id(part), resource)
            self._check_keywords(part, pointer)
            if not _REFERENCES.isdisjoint(part):
                referring.append((part, pointer))
        for part, pointer in referring:
            for keyword in _REFERENCES.intersection(part):
                target = self._resolve(part, str(part[keyword]), f"{pointer}/{keyword}")
                self._targets[id(part), keyword] = target

    def owner(self, part: FrozenDict) -> Resource:
        """Returns the resource that a part of the schema belongs to."""
        return self._owners[id(part)]

    def target(self, part: FrozenDict, keyword: str) -> FrozenDict | bool:
        """Returns where a reference in a part of the schema leads, as it is written."""
        return self._targets[id(part), keyword]

    def _refuse(self, pointer: str, why: str) -> DefinitionError:
        return DefinitionError(f"{self._what}: {clipped(why, _SHOWN)} (at #{clipped(pointer, _SHOWN)})")

    def _parts(self, schema: FrozenDict) -> Iterator[tuple[FrozenDict, str, Resource]]:
        """Yields each object that is a schema, with its pointer and its resource."""
        pending: list[tuple[JsonValue, str, Resource | None]] = [(schema, "", None)]
        while pending:
            part, pointer, outer = pending.pop()
            if not isinstance(part, FrozenDict) or id(part) in self._owners:
                continue
            resource = self._resource_of(part, pointer, outer)
            yield part, pointer, resource
            inner: list[tuple[JsonValue, str, Resource | None]] = []
            for keyword, value in part.items():
                kind = self.draft.keywords.get(keyword, _NOTE)
                for name, each in _members(kind, value):
                    inner.append((each, f"{pointer}/{_escape(keyword)}{name}", resource))
            pending.extend(reversed(inner))

    def _resource_of(self, part: FrozenDict, pointer: str, outer: Resource | None) -> Resource:
        identity = part.get("$id")
        if self.draft.ref_stands_alone and "$ref" in part and outer is not None:
            identity = None
        uri, fragment = self._split(identity if isinstance(identity, str) else "", pointer)
        if outer is None or uri:
            if outer is not None and part.get("$schema", self.draft.uri) != self.draft.uri:
                raise self._refuse(pointer, "an embedded schema of another draft cannot be enforced")
            resource = Resource(part, self._join(outer.uri if outer else "", uri, pointer))
            self._resources.setdefault(resource.uri, resource)
            self._resources.setdefault("", resource)
        else:
            resource = outer
        anchor = part.get("$anchor", fragment)
        if isinstance(anchor, str) and anchor:
            resource.anchors[anchor] = part
        dynamic = part.get("$dynamicAnchor")
        if isinstance(dynamic, str):
            resource.anchors[dynamic] = part
            resource.dynamic_anchors[dynamic] = part
        return resource

    def _check_keywords(self, part: FrozenDict, pointer: str) -> None:
        for keyword, value in part.items():
            if keyword not in self.draft.keywords:
                raise self._refuse(
                    pointer, f"the keyword {to_json_text(keyword)} cannot be enforced; remove it"
                )
            if self.draft is DRAFT_7 and _CONTENT_OF_DRAFT_7.get(keyword, value) != value:
                raise self._refuse(pointer, f"{keyword} {to_json_text(value)} cannot be enforced; remove it")
            ignored = self.draft.ref_stands_alone and "$ref" in part and keyword != "$ref"
            if (
                ignored
                and self.draft.keywords[keyword] is not _NOTE
                and keyword not in ("definitions", "$defs")
            ):
                raise self._refuse(
                    pointer, f'draft-07 ignores "{keyword}" beside "$ref"; put both into "allOf"'
                )

    def _split(self, uri: str, pointer: str) -> tuple[str, str]:
        """Returns what is before the fragment of a reference, and the fragment."""
        try:
            return urldefrag(uri)
        except ValueError as error:
            raise self._refuse(pointer, f"{to_json_text(uri)} is no URI reference: {error}") from None

    def _join(self, base: str, uri: str, pointer: str) -> str:
        try:
            return urljoin(base, uri)
        except ValueError as error:
            raise self._refuse(pointer, f"{to_json_text(uri)} is no URI reference: {error}") from None

    def _resolve(self, part: FrozenDict, reference: str, pointer: str) -> FrozenDict | bool:
        name, fragment = self._split(reference, pointer)
        owner = self.owner(part)
        # A fragment alone stays in the resource, which `urljoin` gets wrong for a base such as a URN.
        resource = self._resources.get(self._join(owner.uri, name, pointer)) if name else owner
        if resource is None:
            raise self._refuse(
                pointer, f"{to_json_text(reference)} leads out of the schema, and nothing is ever fetched"
            )
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            target: Any = resource.anchors.get(fragment)
        else:
            target = _follow(resource.root, fragment)
        if isinstance(target, bool) or (isinstance(target, FrozenDict) and id(target) in self._owners):
            return target
        raise self._refuse(pointer, f"{to_json_text(reference)} leads to no schema")


_REFERENCES: Final = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})


def _draft_of(schema: FrozenDict, what: str) -> Draft:
    name = schema.get("$schema", DRAFT_2020.uri)
    draft = _DRAFTS.get(name.removesuffix("#")) if isinstance(name, str) else None
    if draft is None:
        known = ", ".join(_DRAFTS)
        shown = clipped(to_json_text(name), _SHOWN)
        raise DefinitionError(f"{what}: $schema {shown} is none of the drafts {known}")
    return draft


def _members(kind: str, value: JsonValue) -> Iterator[tuple[str, JsonValue]]:
    """Yields the schemas in a keyword's value, each with the rest of its pointer."""
    if kind is _SCHEMA or (kind is _EITHER and not isinstance(value, FrozenList)):
        yield "", value
    elif kind in (_SCHEMAS, _EITHER) and isinstance(value, FrozenList):
        for index, each in enumerate(value):
            yield f"/{index}", each
    elif kind in (_NAMED, _NAMED_OR_NAMES) and isinstance(value, FrozenDict):
        for key, each in value.items():
            yield f"/{_escape(key)}", each


# No more digits than any list has, and than `int` reads.
_INDEX: Final = re.compile("0|[1-9][0-9]{0,17}")


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _follow(root: JsonValue, pointer: str) -> JsonValue:
    found = root
    for step in pointer.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, FrozenDict) and key in found:
            found = found[key]
        elif isinstance(found, FrozenList) and _INDEX.fullmatch(key) and int(key) < len(found):
            found = found[int(key)]
        else:
            return None
    return found
