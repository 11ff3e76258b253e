"""What a server's schema says that is no standard's is left to the server, and nothing else is."""

from __future__ import annotations

from typing import Any

import pytest

from trio_tools import DefinitionError, Tool
from trio_tools.mcp._schemas import _FORMATS, _FORMATS_OF_DRAFT_7, _KEYWORDS, without_notes

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"


async def _body(arguments: object) -> None:
    del arguments


def _tool(parameters: dict[str, Any]) -> Tool:
    return Tool.from_schema(name="t", description="", parameters=parameters, output={}, body=_body)


_CASES: list[tuple[dict[str, Any], dict[str, Any], tuple[str, ...]]] = [
    ({"type": "integer", "format": "int64"}, {"type": "integer"}, ("format int64",)),
    ({"type": "string", "nullable": True}, {"type": "string"}, ("nullable",)),
    # These are names and values, and no keywords.
    ({"properties": {"nullable": {"x": 1}}}, {"properties": {"nullable": {}}}, ("x",)),
    ({"enum": [{"x": 1}], "default": {"x": 1}}, {"enum": [{"x": 1}], "default": {"x": 1}}, ()),
    ({"anyOf": [{"x": 1}, True], "items": {"x": 1}}, {"anyOf": [{}, True], "items": {}}, ("x",)),
    ({"$defs": {"a": {"not": {"x": 1}}}}, {"$defs": {"a": {"not": {}}}}, ("x",)),
    ({"properties": [{"x": 1}], "format": 3}, {"properties": [{"x": 1}], "format": 3}, ()),
    ({"format": "uuid", "x": 1}, {"format": "uuid"}, ("x",)),
    ({"$schema": DRAFT_7, "format": "uuid"}, {"$schema": DRAFT_7}, ("format uuid",)),
]


@pytest.mark.parametrize(("schema", "kept", "notes"), _CASES)
def test_notes_go_and_the_rest_stays(
    schema: dict[str, Any], kept: dict[str, Any], notes: tuple[str, ...]
) -> None:
    assert without_notes(schema) == (kept, notes)
    assert without_notes(kept) == (kept, ())


@pytest.mark.parametrize(("draft", "formats"), [(DRAFT_2020, _FORMATS), (DRAFT_7, _FORMATS_OF_DRAFT_7)])
def test_what_is_called_a_format_is_enforced_and_nothing_else(draft: str, formats: frozenset[str]) -> None:
    for known in sorted(formats):
        _tool({"$schema": draft, "format": known})
    for unknown in {"uint32", *_FORMATS} - formats:
        with pytest.raises(DefinitionError, match="format"):
            _tool({"$schema": draft, "format": unknown})


@pytest.mark.rule("JS-1")
def test_what_is_called_a_keyword_is_one_of_some_draft() -> None:
    drafts = (DRAFT_7, "https://json-schema.org/draft/2019-09/schema", DRAFT_2020)

    def unknown(keyword: str, draft: str) -> bool:
        try:
            _tool({"$schema": draft, keyword: draft})
        except DefinitionError as error:
            return "cannot be enforced" in str(error)
        return False

    assert not [keyword for keyword in _KEYWORDS if all(unknown(keyword, draft) for draft in drafts)]
    assert unknown("nullable", DRAFT_2020)
