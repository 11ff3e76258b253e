"""What ``import trio_tools`` adds to importing what it is built on, each time in a fresh process."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from typing import Final

from .harness import Ratio, ratio_of
from .rows import Row, row_of

__all__ = ["startup"]

_GROUND: Final = "trio, attrs, cattrs"
_GOAL: Final = 1.15
_TIMED: Final = """
import time
begun = time.process_time_ns()
import {modules}
print(time.process_time_ns() - begun)
"""


def _import(modules: str, environment: Mapping[str, str]) -> int:
    command = [sys.executable, "-c", _TIMED.format(modules=modules)]
    return int(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)


def startup(rounds: int) -> list[Row]:
    """Compare the processor time of imports; what is imported was compiled before."""
    with tempfile.TemporaryDirectory() as place:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": place}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        taken: dict[str, list[int]] = {_GROUND: [], "trio_tools": []}
        for number in range(rounds + 1):
            for modules in sorted(taken, reverse=number % 2 == 0):
                cost = _import(modules, environment)
                if number > 0:
                    taken[modules].append(cost)
    ratio: Ratio = ratio_of(taken["trio_tools"], taken[_GROUND])
    return [row_of("`import trio_tools`", f"`import {_GROUND}`", ratio, _GOAL)]
