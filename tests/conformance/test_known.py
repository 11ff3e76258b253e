"""Known failures are excused until their day, and an excuse that is not needed any more fails."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from tests.conformance.zoo.stopping import notes_it_and_raises_again, says_that_it_was_aborted
from trio_tools.conformance import (
    KnownFailure,
    Profile,
    ProfileError,
    Report,
    Verdict,
    check_tool,
    excused,
    read_profile,
)

pytestmark = pytest.mark.slow

SMALL = Profile(max_cases=20, second_cancels=False)


@pytest.fixture(scope="module")
def broken() -> Report:
    return check_tool(says_that_it_was_aborted, arguments=[{}], profile=SMALL, seed=1)


def known(report: Report, requirement: str = "TT-03") -> KnownFailure:
    return KnownFailure(tool=report.tool, requirement=requirement, until=date(2031, 5, 1), reason="#12")


def test_a_known_failure_is_excused_until_its_day(broken: Report) -> None:
    report = excused(broken, [known(broken)], today=date(2031, 5, 1))

    report.raise_for_failures()
    assert report.verdicts["TT-03"] is Verdict.FAIL
    assert report.known == {"TT-03": "known until 2031-05-01: #12"}


def test_the_excuse_ends_with_its_day(broken: Report) -> None:
    report = excused(broken, [known(broken)], today=date(2031, 5, 2))

    assert report.verdict is Verdict.FAIL
    assert report.stale[0].endswith("TT-03 of 'says_that_it_was_aborted' was excused until 2031-05-01")


def test_an_excuse_that_is_not_needed_fails_the_report() -> None:
    fine = check_tool(notes_it_and_raises_again, arguments=[{}], profile=SMALL, seed=1)
    report = excused(fine, [known(fine)], today=date(2031, 1, 1))

    assert fine.verdict is Verdict.PASS
    assert report.verdict is Verdict.FAIL
    assert "take the entry out" in report.stale[0]
    assert "take the entry out" in report.to_junit()


def test_an_excuse_for_another_tool_says_nothing(broken: Report) -> None:
    other = KnownFailure(tool="other", requirement="TT-03", until=date(2031, 5, 1), reason="")

    assert excused(broken, [other], today=date(2031, 1, 1)) == broken


def test_a_profile_is_read_with_its_limits_and_its_known_failures(tmp_path: Path) -> None:
    path = tmp_path / "profile.toml"
    entry = 'tool = "a"\nrequirement = "TT-05"\nuntil = 2031-05-01\nreason = "#3"\n'
    path.write_text(f"stop_seconds = 2.5\n[[known]]\n{entry}")
    profile, entries = read_profile(path)

    assert profile == Profile(stop_seconds=2.5)
    assert entries == (KnownFailure(tool="a", requirement="TT-05", until=date(2031, 5, 1), reason="#3"),)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("stop_second = 1", "there is no limit 'stop_second'"),
        ("stop_seconds = -1", "stop_seconds"),
        ("stop_seconds =", "profile.toml is no TOML file: "),
        ('stop_seconds = "x"', "stop_seconds is a finite number of seconds above zero, not 'x'"),
        ("stop_seconds = inf", "stop_seconds is a finite number of seconds above zero, not inf"),
        ("max_cases = 1.5", "max_cases is a whole number of 1 or more, not 1.5"),
        ("max_cases = true", "max_cases is a whole number of 1 or more, not True"),
        ("max_schedules = -1", "max_schedules is a whole number of 0 or more, not -1"),
        ("second_cancels = 3", "second_cancels is true or false, not 3"),
        ('[[known]]\ntool="a"\nrequirement=["x"]\nuntil=2031-05-01\nreason=""', "requirement of a known"),
        ('[[known]]\ntool=3\nrequirement="TT-01"\nuntil=2031-05-01\nreason=""', "tool of a known failure"),
        ("known = 3", "known failures are tables"),
        ('[[known]]\ntool = "a"', "has the keys tool, requirement, until and reason"),
        ('[[known]]\ntool="a"\nrequirement="TT-99"\nuntil=2031-05-01\nreason=""', "no requirement 'TT-99'"),
        ('[[known]]\ntool="a"\nrequirement="TT-01"\nuntil="soon"\nreason=""', "until is a date"),
    ],
)
def test_a_profile_that_makes_no_sense_is_told_in_one_line(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "profile.toml"
    path.write_text(text)

    with pytest.raises(ProfileError, match=sentence) as caught:
        read_profile(path)

    assert "\n" not in str(caught.value)


def test_a_profile_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="No such file"):
        read_profile(tmp_path / "none.toml")
