"""Importing a part loads what that part stands on, and nothing that only another part asks for."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = {
    "anyio",
    "hypothesis",
    "hypothesis_jsonschema",
    "jsonschema",
    "mcp",
    "opentelemetry",
    "platformdirs",
    "psycopg",
    "pydantic",
    "pytest",
    "rich",
    "sqlite3",
}

# `trio.testing`, for its clock, loads pytest wherever that is installed.
NEEDED: dict[str, set[str]] = {
    "trio_tools": set(),
    "trio_tools.trace": {"sqlite3"},
    "trio_tools.reference": {"pytest"},
    "trio_tools.conformance": set(),
    "trio_tools.mcp": {"anyio", "mcp", "pydantic", "opentelemetry"},
    "trio_tools.cli": set(),
}

IMPORT = """
import json, sys
import {name}
print(json.dumps(sorted(sys.modules)))
"""


def _loaded_by(name: str) -> set[str]:
    code = IMPORT.format(name=name)
    return set(
        json.loads(
            subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
        )
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", NEEDED)
def test_a_part_loads_what_it_needs_and_nothing_that_only_others_ask_for(name: str) -> None:
    assert HEAVY & {each.partition(".")[0] for each in _loaded_by(name)} <= NEEDED[name]


@pytest.mark.slow
def test_what_only_a_given_schema_needs_is_loaded_with_the_first_one() -> None:
    loaded = _loaded_by("trio_tools")

    assert "trio_tools._schema" in loaded
    assert not loaded & {"jsonschema_rs", "trio_tools._validator", "trio_tools._dialect"}
