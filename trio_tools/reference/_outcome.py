"""What a run of a program shows from outside, in one normal form for the model and for every backend."""

from __future__ import annotations

from typing import TypeAlias, final

from attrs import frozen


@final
@frozen(order=True)
class Event:
    """A label that a task emitted, and the virtual time at which it did."""

    label: str
    at: int


@final
@frozen
class Returned:
    """The program came to its end, or returned."""


@final
@frozen
class Cancelled:
    """A bare cancellation exception."""


@final
@frozen
class Failed:
    """An error, by name: that of a `Raise`, or the class of an error that the nursery machinery raised."""

    error: str


@final
@frozen
class Group:
    """An exception group, its members in a fixed order: when tasks fail together no order is promised."""

    members: tuple[Raised, ...]


Raised: TypeAlias = Cancelled | Failed | Group
"""An exception in normal form."""

Ending: TypeAlias = Returned | Raised
"""How a program ended."""


@final
@frozen
class ScopeFlags:
    """What a scope, or the scope of a nursery, says of itself after the run; None: cannot be asked."""

    name: str
    cancel_called: bool | None
    cancelled_caught: bool | None


@final
@frozen
class Outcome:
    """All that is observed of one run.

    `events` holds one tuple per task, by number, in the order of that task: between tasks no order is
    promised beyond what times and endings show. `scopes` follow the order of the text; a scope that was
    never entered is included.
    """

    events: tuple[tuple[Event, ...], ...]
    ending: Ending
    scopes: tuple[ScopeFlags, ...]
    end_time: int
    interleaving: tuple[int, ...] | None = None
    """The tasks that emitted the events, in the order of the run; kept only on request."""


def group_of(members: list[Raised]) -> Group:
    """Returns the group of these members in normal order."""
    return Group(tuple(sorted(members, key=repr)))
