"""The suite is tested on tools that are known to be broken, and on tools that only look it.

Each is checked once; at the end of the run, the table that they make together is printed.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable

import pytest

from tests.conformance.zoo import SPECIMENS, Specimen
from tests.conformance.zoo_table import PROPERTY
from trio_tools.conformance import MANIFEST, Report, Verdict, check_tool


def failed(report: Report) -> set[str]:
    return {requirement for requirement, verdict in report.verdicts.items() if verdict is Verdict.FAIL}


@pytest.mark.slow
@pytest.mark.parametrize("specimen", SPECIMENS, ids=str)
def test_a_broken_tool_is_caught_by_exactly_its_requirement_and_a_fine_one_is_clean(
    specimen: Specimen, record_property: Callable[[str, object], None]
) -> None:
    record_property(PROPERTY, [specimen.requirement, specimen.broken])
    report = check_tool(
        specimen.tool,
        arguments=specimen.arguments,
        setup=specimen.setup,
        profile=specimen.profile,
        seed=1,
        # Where tests share the cores among them, each of them has one.
        processes=1 if "PYTEST_XDIST_WORKER" in os.environ else None,
    )

    if specimen.broken:
        assert failed(report) == {specimen.requirement}, [str(finding) for finding in report.findings]
    else:
        report.raise_for_failures()
        assert report.verdict is Verdict.PASS
        assert report.verdicts[specimen.requirement] in {Verdict.PASS, Verdict.NOT_APPLICABLE}


def test_each_requirement_has_two_tools_that_break_it_and_two_that_look_alike() -> None:
    counts = Counter((specimen.requirement, specimen.broken) for specimen in SPECIMENS)

    assert {(each.id, broken) for each in MANIFEST for broken in (True, False)} == {
        key for key, count in counts.items() if count >= 2
    }
