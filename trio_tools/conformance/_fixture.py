"""Fresh state for each run, and what must be true of it afterwards."""

import copy
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol, final, runtime_checkable

__all__ = ["NO_WORLD", "Fixture", "FixtureError", "Setup", "World", "opened"]


@runtime_checkable
class Fixture(Protocol):
    """What ``setup()`` returns for each run: a context manager, plain or async, around that run.

    Both methods are optional, and are looked for on what ``setup()`` returns and then on what its
    ``__enter__`` gives.
    """

    def invariant(self) -> None:
        """Raise `AssertionError` when the world is not as it must be; asked after every run."""
        ...

    def snapshot(self) -> object:
        """Return the state of the world, compared by ``==`` for tools that declare an effect."""
        ...


Setup = Callable[[], Any]
"""Makes the fixture of one run."""


class FixtureError(Exception):
    """A fixture cannot be used: it failed, or is no context manager."""


@final
class World:
    """The fixture of one run, opened."""

    def __init__(self, holders: tuple[object, ...]) -> None:
        self._invariant: Final = _method("invariant", holders)
        self._snapshot: Final = _method("snapshot", holders)

    @property
    def has_invariant(self) -> bool:
        """Whether there is an invariant to ask."""
        return self._invariant is not None

    @property
    def has_snapshot(self) -> bool:
        """Whether there is a state to compare."""
        return self._snapshot is not None

    def broken(self) -> str | None:
        """Ask the invariant; return what it said when it does not hold."""
        if self._invariant is None:
            return None
        try:
            self._invariant()
        except AssertionError as error:
            return str(error).strip() or "the invariant does not hold"
        except Exception as error:  # noqa: BLE001  (an invariant that cannot be asked does not hold)
            return f"asking the invariant raised {type(error).__name__}: {error}"
        return None

    def snapshot(self) -> object:
        """Return the state of the world, None without one.

        Raises:
            FixtureError: when it cannot be had.
        """
        if self._snapshot is None:
            return None
        try:
            found = self._snapshot()
        except Exception as error:
            raise FixtureError(f"snapshot() raised {type(error).__name__}: {error}") from error
        try:
            # It may be the state itself, which goes on changing.
            return copy.deepcopy(found)
        except Exception:  # noqa: BLE001  (what cannot be copied is compared as it is)
            return found


def _method(name: str, holders: tuple[object, ...]) -> Callable[[], Any] | None:
    for holder in holders:
        method = getattr(holder, name, None)
        if callable(method):
            return method
    return None


@asynccontextmanager
async def opened(setup: Setup | None) -> AsyncGenerator[World]:
    """Open the fixture of one run, and close it after the block.

    Raises:
        FixtureError: when ``setup`` raises, or returns no context manager.
    """
    if setup is None:
        yield NO_WORLD
        return
    try:
        fixture = setup()
    except Exception as error:
        raise FixtureError(f"setup() raised {type(error).__name__}: {error}") from error
    if hasattr(fixture, "__aenter__"):
        try:
            entered = await fixture.__aenter__()
        except Exception as error:
            raise FixtureError(f"the fixture raised {type(error).__name__}: {error}") from error
        yield World((fixture, entered))
        try:
            await fixture.__aexit__(None, None, None)
        except Exception as error:
            raise FixtureError(f"leaving the fixture raised {type(error).__name__}: {error}") from error
    elif hasattr(fixture, "__enter__"):
        try:
            entered = fixture.__enter__()
        except Exception as error:
            raise FixtureError(f"the fixture raised {type(error).__name__}: {error}") from error
        yield World((fixture, entered))
        try:
            fixture.__exit__(None, None, None)
        except Exception as error:
            raise FixtureError(f"leaving the fixture raised {type(error).__name__}: {error}") from error
    else:
        raise FixtureError(f"setup() must return a context manager, not {type(fixture).__name__}")


NO_WORLD: Final = World(())
"""The world of a run without a fixture."""
