"""The faults that random programs are to find still fit the runtime that they are put into."""

from __future__ import annotations

import ast

import pytest

from tests.reference.call_faults import FAULTS, PACKAGE


@pytest.mark.parametrize(
    ("file", "old", "new"), [each[1:] for each in FAULTS], ids=[each[0] for each in FAULTS]
)
def test_a_fault_changes_the_code_it_was_written_for(file: str, old: str, new: str) -> None:
    source = (PACKAGE / file).read_text(encoding="utf-8")

    assert old in source
    assert ast.dump(ast.parse(source.replace(old, new, 1))) != ast.dump(ast.parse(source))
