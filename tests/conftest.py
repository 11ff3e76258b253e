"""What all tests share.

Time: a test that waits takes the `autojump_clock` fixture of pytest-trio, or calls
`trio.run(main, clock=MockClock(autojump_threshold=0))` itself where it is driven by Hypothesis.
"""

from __future__ import annotations

import os
import signal
import sys
from importlib.util import find_spec

import pytest
from hypothesis import HealthCheck, settings

from tests.conformance.zoo_table import zoo_table
from tests.machine import deselect

# Speed differs by a factor of ten between machines; a test that must be fast says so itself.
settings.register_profile("dev", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("dev"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "git_server: needs mcp-server-git, which the group demo brings")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if find_spec("mcp_server_git") is None:
        deselect(config, items, "git_server", "tests of a real server: install the group demo to run them")


@pytest.fixture(autouse=True)
def _same_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take back what a test, or the command it runs, puts in front of the module path."""
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.fixture(autouse=True, scope="session")
def _ctrl_c_is_heard() -> None:
    """A shell has what it starts in the background ignore Ctrl-C, which some tests press."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table of the zoo after its tests; only here are the reports of all processes together."""
    lines = [*zoo_table(*(terminalreporter.getreports(name) for name in ("passed", "failed")))]
    if lines:
        terminalreporter.section("the zoo")
        terminalreporter.write_line("\n".join(lines))
