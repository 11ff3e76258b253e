"""Stores to test with: in memory, in a file, and in a PostgreSQL server that the tests start themselves."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.machine import deselect, find_browser

_numbers = itertools.count()


def find_server() -> Path | None:
    """Return the folder of the PostgreSQL server's programs, None if there is none on this machine."""
    on_path = shutil.which("postgres")
    candidates = [Path(on_path).resolve().parent] if on_path else []
    candidates += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in candidates if (folder / "initdb").exists()), None)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "postgres: needs the programs of a PostgreSQL server")
    config.addinivalue_line("markers", "browser: needs Chromium")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for marker, found, package in (
        ("postgres", find_server(), "postgresql"),
        ("browser", find_browser(), "chromium"),
    ):
        if found is None:
            deselect(config, items, marker, f"{marker} tests: this machine has no {package}")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """Start a server on a socket in a temporary folder; the URL lacks only the search path."""
    programs = find_server()
    assert programs is not None
    # A server refuses to run as root.
    user: dict[str, Any] = (
        {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
    )
    folder = Path(tempfile.mkdtemp(prefix="trio-tools-pg-"))
    try:
        if user:
            shutil.chown(folder, user["user"], user["group"])
        common: dict[str, Any] = {"cwd": folder, "stdin": subprocess.DEVNULL, **user}
        subprocess.run(
            [
                programs / "initdb",
                "-D",
                folder / "data",
                "-U",
                "tester",
                "-A",
                "trust",
                "-E",
                "UTF8",
                "--no-sync",
            ],
            check=True,
            capture_output=True,
            **common,
        )
        start = [programs / "pg_ctl", "-D", folder / "data", "-w", "-l", folder / "log"]
        settings = f"-c listen_addresses='' -c unix_socket_directories='{folder}' -c fsync=off"
        subprocess.run([*start, "-o", settings, "start"], check=True, stdout=subprocess.DEVNULL, **common)
        try:
            yield f"postgresql://tester@/postgres?host={quote(str(folder))}"
        finally:
            subprocess.run(
                [*start, "-m", "immediate", "stop"], check=True, stdout=subprocess.DEVNULL, **common
            )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgres_url(postgres_server: str) -> str:
    """Return the URL of an empty schema of its own."""
    import psycopg

    schema = f"test_{next(_numbers)}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")  # pyright: ignore[reportArgumentType, reportCallIssue]
    return f"{postgres_server}&options=-csearch_path%3D{schema}"


@pytest.fixture(params=["memory", "file", pytest.param("postgres", marks=pytest.mark.postgres)])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return where to open a store, for each kind of store."""
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return ":memory:" if request.param == "memory" else str(tmp_path / "runs.db")


@pytest.fixture(params=["file", pytest.param("postgres", marks=pytest.mark.postgres)])
def shared_target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return where to open a store that another process can open too."""
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return str(tmp_path / "runs.db")


def run_python(code: str, *arguments: str) -> str:
    """Run a program in another process and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout
