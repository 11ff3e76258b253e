"""The suite is tested on tools that are known to be broken, and on tools that only look it."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.conformance.zoo import SPECIMENS, Specimen
from trio_tools.conformance import MANIFEST, Report, Verdict, check_tool

REPORTS: dict[str, Report] = {}


def report_of(specimen: Specimen) -> Report:
    name = str(specimen)
    if name not in REPORTS:
        REPORTS[name] = check_tool(
            specimen.tool,
            arguments=specimen.arguments,
            setup=specimen.setup,
            profile=specimen.profile,
            seed=1,
        )
    return REPORTS[name]


def failed(report: Report) -> set[str]:
    return {requirement for requirement, verdict in report.verdicts.items() if verdict is Verdict.FAIL}


@pytest.mark.slow
@pytest.mark.parametrize("specimen", SPECIMENS, ids=str)
def test_a_broken_tool_is_caught_by_exactly_its_requirement_and_a_fine_one_is_clean(
    specimen: Specimen,
) -> None:
    report = report_of(specimen)

    if specimen.broken:
        assert failed(report) == {specimen.requirement}, [str(finding) for finding in report.findings]
    else:
        report.raise_for_failures()
        assert report.verdicts[specimen.requirement] in {Verdict.PASS, Verdict.NOT_APPLICABLE}


def test_each_requirement_has_two_tools_that_break_it_and_two_that_look_alike() -> None:
    counts = Counter((specimen.requirement, specimen.broken) for specimen in SPECIMENS)

    assert {(each.id, broken) for each in MANIFEST for broken in (True, False)} == {
        key for key, count in counts.items() if count >= 2
    }


@pytest.mark.slow
def test_the_table_of_the_zoo_has_no_hole(capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[str] = []
    caught = clean = broken = fine = 0
    for requirement in MANIFEST:
        mine = [specimen for specimen in SPECIMENS if specimen.requirement == requirement.id]
        bad = [specimen for specimen in mine if specimen.broken]
        good = [specimen for specimen in mine if not specimen.broken]
        hit = sum(failed(report_of(specimen)) == {requirement.id} for specimen in bad)
        free = sum(report_of(specimen).verdict is Verdict.PASS for specimen in good)
        told = f"caught {hit} of {len(bad)}  clean {free} of {len(good)}"
        rows.append(f"{requirement.id}  {requirement.title:34} {told}")
        caught, broken, clean, fine = caught + hit, broken + len(bad), clean + free, fine + len(good)
    with capsys.disabled():
        print()
        print("\n".join(rows))
        print(f"{caught} broken caught of {broken}, {clean} clean of {fine}")

    assert (caught, clean) == (broken, fine)
