"""What `check_tool` promises: verdicts that are never silent, findings that can be run again."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pytest
import trio
from hypothesis import strategies as st

from trio_tools import Tool, tool
from trio_tools.conformance import (
    MANIFEST,
    Case,
    CheckError,
    ConformanceError,
    Kind,
    Mode,
    Profile,
    ToolCheck,
    Verdict,
    check_tool,
    replay,
)

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent
SMALL = Profile(max_cases=60)


@tool
async def doubles(number: int) -> int:
    await trio.sleep(1)
    return 2 * number


@tool
async def swallows_when_it_is_large(number: int) -> str:
    try:
        await trio.sleep(1)
    except trio.Cancelled:
        if number > 10:
            return "aborted"
        raise
    return "done"


def test_a_tool_that_conforms_has_a_verdict_and_a_ground_for_each_requirement() -> None:
    report = check_tool(doubles, profile=SMALL, seed=3)

    report.raise_for_failures()
    assert set(report.verdicts) == {requirement.id for requirement in MANIFEST}
    assert all(
        report.reasons[each] for each, verdict in report.verdicts.items() if verdict is not Verdict.FAIL
    )


def test_a_finding_names_the_line_the_run_and_the_simplest_arguments() -> None:
    report = check_tool(
        swallows_when_it_is_large,
        arguments=st.fixed_dictionaries({"number": st.integers(0, 10_000)}),
        profile=SMALL,
        max_examples=8,
        seed=3,
    )
    (finding,) = report.findings

    assert finding.requirement == "TT-03"
    assert finding.where.endswith("in swallows_when_it_is_large: await trio.sleep(1)")
    assert finding.arguments == {"number": 11}
    assert finding.count > 1
    with pytest.raises(ConformanceError, match=finding.token):
        report.raise_for_failures()


def test_the_same_seed_gives_the_same_report_to_the_byte() -> None:
    once = check_tool(swallows_when_it_is_large, profile=SMALL, seed=5)
    again = check_tool(swallows_when_it_is_large, profile=SMALL, seed=5, processes=1)

    assert once.to_json() == again.to_json()
    assert once.to_html() == again.to_html()
    assert once.to_junit() == again.to_junit()


def test_a_token_shows_its_finding_again_in_a_fresh_process_three_times_of_three() -> None:
    # Case 36.
    from tests.conformance.zoo.stopping import says_that_it_was_aborted

    (finding,) = check_tool(says_that_it_was_aborted, arguments=[{}], profile=SMALL, seed=1).findings
    target = "tests.conformance.zoo.stopping:says_that_it_was_aborted"
    command = [sys.executable, "-m", "trio_tools.cli", "check", target, "--replay", finding.token]
    shown = [subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False) for _ in range(3)]

    assert [run.returncode for run in shown] == [1, 1, 1]
    assert len({run.stdout for run in shown}) == 1
    assert "TT-03 makes no value of a cancellation" in shown[0].stdout
    assert finding.where in shown[0].stdout


def test_a_replay_of_a_run_that_is_fine_finds_nothing() -> None:
    from trio_tools.conformance._case import token_of

    case = Case(kind=Kind.CANCEL, arguments={"number": 1}, step=1, mode=Mode.RESUME)
    ran, complaints = replay(doubles, token_of(case))

    assert ran == case
    assert complaints == []


def test_a_run_that_takes_its_process_down_leaves_the_requirement_unresolved() -> None:
    # Case 34: what did not reach its end is never a PASS.
    @tool
    async def exits_when_cancelled() -> None:
        try:
            await trio.sleep(1)
        except trio.Cancelled:
            os._exit(0)  # pyright: ignore[reportPrivateUsage]

    report = check_tool(exits_when_cancelled, profile=SMALL, seed=1)

    assert report.verdict is Verdict.UNRESOLVED
    assert report.verdicts["TT-01"] is Verdict.UNRESOLVED
    assert "exited with status 0" in report.reasons["TT-01"]
    with pytest.raises(ConformanceError, match="unresolved"):
        report.raise_for_failures()


def test_a_body_that_never_comes_back_is_killed_and_told() -> None:
    @tool
    async def spins_when_cancelled() -> None:
        try:
            await trio.sleep(1)
        except trio.Cancelled:
            while True:
                time.sleep(0.01)  # noqa: ASYNC251

    report = check_tool(
        spins_when_cancelled,
        profile=Profile(max_cases=24, wall_seconds=0.4, second_cancels=False),
        seed=1,
    )
    (finding,) = [each for each in report.findings if each.requirement == "TT-04"]

    assert "had not ended when its process was killed" in finding.message
    assert "time.sleep(0.01)" in finding.where


def test_a_cleanup_that_never_comes_to_rest_is_not_cancelled_again_at_each_of_its_steps() -> None:
    @tool
    async def looks_again_and_again() -> None:
        done = False
        try:
            await trio.sleep(1)
            done = True
        finally:
            with trio.CancelScope(shield=True):
                while not done:
                    await trio.lowlevel.checkpoint()

    report = check_tool(looks_again_and_again, profile=Profile(cleanup_steps=100, max_cases=200), seed=1)

    assert [each.requirement for each in report.findings] == ["TT-04"]
    assert report.complete


def test_a_tool_that_waits_for_something_real_is_not_said_to_hold_the_loop() -> None:
    @tool
    async def waits_long() -> None:
        await trio.to_thread.run_sync(time.sleep, 1)

    report = check_tool(
        waits_long, profile=Profile(max_cases=2, wall_seconds=0.3, second_cancels=False), seed=1
    )

    assert report.verdicts["TT-14"] is Verdict.UNRESOLVED
    assert "still waited for a thread or a descriptor" in report.reasons["TT-14"]


def test_a_large_sweep_is_sampled_and_the_report_says_so() -> None:
    report = check_tool(doubles, arguments=[{"number": 1}], profile=Profile(max_cases=10), seed=1)

    assert not report.complete
    assert report.planned == 10
    assert "a sample" in report.to_text()


def test_a_plain_async_function_is_a_target() -> None:
    async def greet(name: str) -> str:
        await trio.lowlevel.checkpoint()
        return f"hello {name}"

    assert check_tool(greet, profile=SMALL, seed=1).verdict is Verdict.PASS


def test_a_fixture_may_be_a_plain_or_an_async_context_manager_and_is_fresh_each_time() -> None:
    opened: list[int] = []

    class World:
        async def __aenter__(self) -> Self:
            await trio.lowlevel.checkpoint()
            opened.append(1)
            return self

        async def __aexit__(self, *error: object) -> None:
            opened.clear()

        def invariant(self) -> None:
            assert opened == [1], "the world is not fresh"

    report = check_tool(doubles, arguments=[{"number": 1}], setup=World, profile=SMALL, seed=1)

    assert report.verdicts["TT-23"] is Verdict.PASS


def test_a_generator_function_makes_a_fixture_and_what_it_yields_has_the_invariant() -> None:
    class Never:
        def invariant(self) -> None:
            raise AssertionError("it never holds")

    @contextmanager
    def world() -> Generator[Never]:
        yield Never()

    report = check_tool(doubles, arguments=[{"number": 1}], setup=world, profile=SMALL, seed=1)

    assert report.verdicts["TT-23"] is Verdict.FAIL
    assert {finding.message for finding in report.findings} == {"it never holds"}


def failing_setup() -> Any:
    raise OSError("no disk")


def no_manager() -> Any:
    return object()


@pytest.mark.parametrize(
    ("target", "options", "sentence"),
    [
        (42, {}, "a target is a Tool or an async function, not int"),
        (print, {}, "'print' is neither a Tool nor an async function"),
        (doubles, {"arguments": []}, "there are no arguments to call the tool with"),
        (doubles, {"arguments": 3}, "arguments must be a strategy or a sequence of examples, not int"),
        (doubles, {"arguments": [{"number": 1.5, "more": {1, 2}}]}, "the arguments must be lossless JSON"),
        (doubles, {"arguments": st.nothing()}, "the arguments strategy gives nothing"),
        (doubles, {"setup": failing_setup}, r"setup\(\) raised OSError: no disk"),
        (doubles, {"setup": no_manager}, r"setup\(\) must return a context manager, not object"),
    ],
)
def test_what_cannot_be_checked_is_told_in_one_line(
    target: object, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(CheckError, match=sentence) as caught:
        check_tool(target, profile=SMALL, seed=1, **options)

    assert "\n" not in str(caught.value)


async def test_a_check_inside_a_trio_run_is_refused() -> None:
    with pytest.raises(CheckError, match="call it from a test that is not async"):
        check_tool(doubles)


def test_a_check_has_the_name_of_its_tool_and_runs_with_its_own_options() -> None:
    check = ToolCheck(tool=doubles, arguments=[{"number": 4}], profile=SMALL)

    assert check.name == "doubles"
    assert check.run(seed=1).arguments == 1
    assert isinstance(doubles, Tool)


def test_an_example_that_the_body_would_never_see_is_refused() -> None:
    @tool
    async def paged(pages: int) -> int:
        return pages

    with pytest.raises(CheckError, match="example 1 does not fit the schema of 'paged'"):
        check_tool(paged, arguments=[{"page": 2}], seed=1)
