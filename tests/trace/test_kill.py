"""A program that is killed leaves a store that says what is known, and `unknown` where nothing is."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from tests.trace.kill_soak import soak

pytestmark = pytest.mark.slow


@pytest.mark.rule("TR-4", "TR-7", "TR-8", "TR-10")
def test_a_killed_program_leaves_no_torn_step_and_forgets_none(shared_target: str, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        # A fork of a process that has threads of other tests: the child runs nothing but its own loop.
        warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
        tally = soak(12, lambda _: shared_target)

    assert tally.runs == 12
    assert tally.steps > 0
