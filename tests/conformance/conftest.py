"""The tests of the report's page need a browser, where the machine has one."""

from __future__ import annotations

import pytest

from tests.machine import deselect, find_browser


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "browser: needs Chromium")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if find_browser() is None:
        deselect(config, items, "browser", "tests of the report's page: there is no chromium here")
