"""The ask to cancel a run, made by another process and noticed by the one that executes it."""

import logging
from collections.abc import Callable
from math import inf
from typing import Final, final

import trio
from attrs import define, field

from ._access import Access
from ._rows import column_text
from ._sql import SELECT_CANCELLED

__all__ = ["CancelPolls", "CancelWatch"]

_logger: Final = logging.getLogger("trio_tools")

_POLL_SECONDS: Final = 1.0


@final
@define(eq=False)
class CancelWatch:
    """Something to do once a run is asked to cancel; `close` stops watching, and may be called repeatedly."""

    run_id: str
    on_cancel: Callable[[str | None], object]
    close: Callable[[], None] = field(init=False)


@final
class CancelPolls:
    """Asks the store whether runs are to be cancelled.

    A run is asked for when it is first watched, and from then on at most once a second. What was seen stays
    seen; a store that cannot be read is asked again later, and is never taken for a cancel.
    """

    def __init__(self, access: Access) -> None:
        self._access: Final = access
        self._watches: Final[list[CancelWatch]] = []
        self._changed = trio.Event()
        self._asked_at: Final[dict[str, float]] = {}
        # The reason of each ask that was seen.
        self._cancelled: Final[dict[str, str | None]] = {}

    def watch(self, run_id: str, on_cancel: Callable[[str | None], object]) -> CancelWatch:
        """Call ``on_cancel`` once, in the trio thread, with the reason, once an ask to cancel is found."""
        watch = CancelWatch(column_text(run_id), on_cancel)
        watch.close = lambda: self._forget(watch)
        self._watches.append(watch)
        self._changed.set()
        return watch

    async def run(self) -> None:
        """Ask, for ever."""
        while True:
            await self._changed.wait()
            self._changed = trio.Event()
            for run_id in {watch.run_id for watch in self._watches} - self._cancelled.keys():
                if self._next_ask(run_id) <= trio.current_time():
                    await self._ask(run_id)
            for watch in [watch for watch in self._watches if watch.run_id in self._cancelled]:
                self._forget(watch)
                self._tell(watch)
            if self._watches:
                with trio.move_on_at(min(self._next_ask(watch.run_id) for watch in self._watches)):
                    await self._changed.wait()
                self._changed.set()

    def _next_ask(self, run_id: str) -> float:
        return self._asked_at.get(run_id, -inf) + _POLL_SECONDS

    async def _ask(self, run_id: str) -> None:
        self._asked_at[run_id] = trio.current_time()
        try:
            for (reason,) in await self._access.read(SELECT_CANCELLED, (run_id,)):
                self._cancelled[run_id] = reason if isinstance(reason, str) else None
        except Exception as error:  # noqa: BLE001
            _logger.debug("run %s: the store could not be asked for a cancel: %s", run_id, error)

    def _tell(self, watch: CancelWatch) -> None:
        try:
            watch.on_cancel(self._cancelled[watch.run_id])
        except Exception as error:
            _logger.log(logging.ERROR, "run %s: could not be cancelled", watch.run_id, exc_info=error)

    def _forget(self, watch: CancelWatch) -> None:
        if watch in self._watches:
            self._watches.remove(watch)
