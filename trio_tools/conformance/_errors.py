"""Taking apart what a run raised: groups, and what was being handled when."""

from collections.abc import Iterator
from typing import cast

import trio

__all__ = ["chain_of", "leaves_of", "only_cancelled"]


def leaves_of(error: BaseException | None) -> Iterator[BaseException]:
    """Yield the exceptions in a group, however deep; a plain exception is its own leaf."""
    todo = [error]
    while todo:
        each = todo.pop(0)
        if isinstance(each, BaseExceptionGroup):
            todo[:0] = cast("BaseExceptionGroup[BaseException]", each).exceptions
        elif each is not None:
            yield each


def chain_of(error: BaseException | None) -> Iterator[BaseException]:
    """Yield what was being handled when ``error`` was raised, and so on, without ``error`` itself."""
    seen = {id(error)}
    todo = [] if error is None else [error.__context__, error.__cause__]
    while todo:
        link = todo.pop()
        if link is None or id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        todo.extend((link.__context__, link.__cause__))
        todo.extend(leaf for leaf in leaves_of(link) if leaf is not link)


def only_cancelled(error: BaseException) -> bool:
    """Return whether nothing but cancellations is in ``error``."""
    return all(isinstance(leaf, trio.Cancelled) for leaf in leaves_of(error))
