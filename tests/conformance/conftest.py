"""A browser for the page of a report, where the machine has one."""

from __future__ import annotations

import shutil
from typing import Any

import pytest


def find_browser() -> str | None:
    """Return a Chromium, None if there is none on this machine."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((path for name in names if (path := shutil.which(name))), None)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "browser: needs Chromium")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    out = [item for item in items if item.get_closest_marker("browser")]
    if find_browser() is None and out:
        items[:] = [item for item in items if item not in out]
        config.hook.pytest_deselected(items=out)
        reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.write_line(
                f"deselected {len(out)} tests of the report's page: there is no chromium here"
            )
