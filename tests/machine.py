"""What the tests find on the machine they run on, and how they leave out what needs more."""

from __future__ import annotations

import shutil
from typing import Any

import pytest


def find_browser() -> str | None:
    """Return a Chromium, None if there is none on this machine."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((path for name in names if (path := shutil.which(name))), None)


def deselect(config: pytest.Config, items: list[pytest.Item], marker: str, reason: str) -> None:
    """Leave out the tests with a marker, and say in one line how many, and why."""
    out = [item for item in items if item.get_closest_marker(marker)]
    if not out:
        return
    items[:] = [item for item in items if item not in out]
    config.hook.pytest_deselected(items=out)
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        reporter.write_line(f"deselected {len(out)} {reason}")
