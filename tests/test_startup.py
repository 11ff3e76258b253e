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
print(json.dumps(sorted(each.partition(".")[0] for each in sys.modules)))
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", NEEDED)
def test_a_part_loads_what_it_needs_and_nothing_that_only_others_ask_for(name: str) -> None:
    code = IMPORT.format(name=name)
    loaded: list[str] = json.loads(
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    )

    assert HEAVY & set(loaded) <= NEEDED[name]
