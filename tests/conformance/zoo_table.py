"""The table of the zoo, from what its tests reported: they may have run in several processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import cast

import pytest

from trio_tools.conformance import MANIFEST

__all__ = ["PROPERTY", "zoo_table"]

PROPERTY = "zoo"
"""Under which a test tells its requirement, and whether its tool is a broken one."""


def zoo_table(passed: Iterable[pytest.TestReport], failed: Iterable[pytest.TestReport]) -> Iterator[str]:
    """Yield the lines of the table, none when no tool of the zoo was checked."""
    checked = Counter(
        (*cast("tuple[str, bool]", value), right)
        for reports, right in ((passed, True), (failed, False))
        for report in reports
        for name, value in report.user_properties
        if name == PROPERTY and report.when == "call"
    )
    if not checked:
        return

    def share(ids: Iterable[str], *, broken: bool, word: str = "") -> str:
        right, wrong = (sum(checked[each, broken, well] for each in ids) for well in (True, False))
        return f"{right}{word} of {right + wrong}"

    seen = {requirement for requirement, *_ in checked}
    for each in MANIFEST:
        if each.id not in seen:
            continue
        caught, clean = share([each.id], broken=True), share([each.id], broken=False)
        yield f"{each.id}  {each.title:34} caught {caught}  clean {clean}"
    ids = [each.id for each in MANIFEST]
    bad = share(ids, broken=True, word=" broken caught")
    yield f"{bad}, {share(ids, broken=False, word=' clean')}"
