"""The figures of one run, as data: what was measured, with what, when, and on a machine how busy."""

import datetime as dt
import json
import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Final, final

import cattrs
from attrs import field, frozen

from .compare import Measured
from .curves import Curve
from .rows import Row

__all__ = ["QUIET", "Circumstances", "Figures", "circumstances", "read", "write"]

QUIET: Final = 1.3
"""A load average up to which a run is taken to have had a core for itself."""


@final
@frozen
class Circumstances:
    """Under which the figures were taken.

    Attributes:
        date: of the run, as ISO 8601 writes it.
        python: implementation and version.
        versions: of what takes part in each row, by package.
        machine: kind of processor, and how many cores.
        load: load averages over the last minute, before the run and after it, its own work included.
        rounds: of each row.
    """

    date: str
    python: str
    versions: dict[str, str]
    machine: str
    load: tuple[float, float]
    rounds: int

    @property
    def quiet(self) -> bool:
        return max(self.load) <= QUIET


@final
@frozen
class Figures:
    """All that one run measured.

    Attributes:
        rows: those with goals.
        peers: other ways to call tools; empty where there was no environment for them.
        curves: cost over size.
        elsewhere: what the measurements that have modules of their own print, as Markdown, by module.
    """

    circumstances: Circumstances
    rows: tuple[Row, ...]
    peers: tuple[Measured, ...] = ()
    curves: tuple[Curve, ...] = ()
    elsewhere: dict[str, str] = field(factory=dict[str, str])


def circumstances(rounds: int, load_before: float) -> Circumstances:
    """Say where this process runs, now."""
    return Circumstances(
        dt.datetime.now(dt.UTC).date().isoformat(),
        f"{platform.python_implementation()} {platform.python_version()}",
        {name: version(name) for name in ("trio-tools", "trio", "attrs", "cattrs", "jsonschema-rs")},
        f"{platform.machine()}, {os.cpu_count()} cores",
        (round(load_before, 1), round(os.getloadavg()[0], 1)),
        rounds,
    )


def write(figures: Figures, path: Path) -> None:
    """Store figures as JSON."""
    converter = cattrs.Converter()
    # Only digits that mean something: a file that changes in all of them cannot be compared.
    converter.register_unstructure_hook(float, lambda value: float(f"{value:.4g}"))
    path.write_text(json.dumps(converter.unstructure(figures), indent=1) + "\n", encoding="utf-8")


def read(path: Path) -> Figures:
    """Return stored figures."""
    return cattrs.structure(json.loads(path.read_text(encoding="utf-8")), Figures)
