"""A program on a real backend."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from ._plain_asyncio import run_on_asyncio
from ._scoped import run_on_anyio_over_asyncio, run_on_anyio_over_trio, run_on_trio

if TYPE_CHECKING:
    from ._outcome import Outcome
    from ._program import Program


class Backend(StrEnum):
    """Where a program can be run."""

    TRIO = "trio"
    ANYIO_TRIO = "anyio-trio"
    ANYIO_ASYNCIO = "anyio-asyncio"
    ASYNCIO = "asyncio"


def run(
    program: Program, backend: Backend | str = Backend.TRIO, *, seed: int = 0, interleaving: bool = False
) -> Outcome:
    """Runs a program for real, in virtual time, and returns what was observed.

    The seed chooses the order in which trio runs its tasks; asyncio's order is its own, and always the
    same. Not to be called inside a running loop. Raises `NotExpressible` if the backend has no counterpart
    for an operation, and `ValueError` for a backend that is none.
    """
    match Backend(backend):
        case Backend.TRIO:
            return run_on_trio(program, seed, interleaving)
        case Backend.ANYIO_TRIO:
            return run_on_anyio_over_trio(program, seed, interleaving)
        case Backend.ANYIO_ASYNCIO:
            return run_on_anyio_over_asyncio(program, interleaving)
        case _:
            return run_on_asyncio(program, interleaving)
