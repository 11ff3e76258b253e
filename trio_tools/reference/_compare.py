"""The divergence table: which backend keeps which property, and the smallest program where one does not."""

from __future__ import annotations

import itertools
from enum import StrEnum
from typing import TYPE_CHECKING, final

from attrs import evolve, field, frozen

from ._execute import NotExpressible
from ._explore import Order, TooManyStatesError, allowed
from ._outcome import Cancelled, Failed, Returned, ScopeFlags
from ._properties import PROPERTIES, Property
from ._run import Backend, run
from ._shrink import shrink

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ._outcome import Ending, Outcome
    from ._program import Program

_STATES = 20_000


class Verdict(StrEnum):
    """What is known of a property on a backend."""

    KEPT = "kept"
    DIVERGES = "diverges"
    NOT_EXPRESSIBLE = "not expressible"
    UNTRIED = "untried"


@final
@frozen
class Divergence:
    """A program whose outcome on a backend is none that the semantics permits."""

    program: Program
    observed: Outcome
    permitted: frozenset[Outcome] = field(repr=False)


@final
@frozen
class Cell:
    """One property on one backend."""

    verdict: Verdict
    programs: int
    """How many programs were run."""
    divergence: Divergence | None = None
    reason: str | None = None
    """Why it cannot be expressed there."""


@final
@frozen
class DivergenceTable:
    """Numbered properties by backends; a cell per pair."""

    backends: tuple[Backend, ...]
    properties: tuple[Property, ...]
    cells: dict[tuple[str, Backend], Cell]

    @property
    def divergences(self) -> tuple[tuple[Property, Backend, Divergence], ...]:
        """What diverges, in the order of the properties."""
        return tuple(
            (prop, backend, cell.divergence)
            for prop in self.properties
            for backend in self.backends
            if (cell := self.cells[prop.id, backend]).divergence is not None
        )

    def to_text(self) -> str:
        """Renders the table, then each divergence with its program."""
        return "\n".join([*_rows(self), "", *_notes(self)])


def compare(
    programs: Iterable[Program], backends: Iterable[Backend | str] = tuple(Backend)
) -> DivergenceTable:
    """Runs programs of one's own on backends, and tells which properties they keep.

    A program counts for each property whose family it belongs to; the smallest program that diverges is
    kept. Not to be called inside a running loop.
    """
    by_size = sorted(programs, key=lambda program: program.size)
    return _table(
        backends, PROPERTIES, lambda prop, backend: _try(prop, backend, filter(prop.covers, by_size))
    )


def compare_backends(
    backends: Iterable[Backend | str] = tuple(Backend),
    *,
    properties: Sequence[Property] = PROPERTIES,
    examples: int = 200,
    seed: int = 0,
    on_progress: Callable[[int, int], None] | None = None,
) -> DivergenceTable:
    """Looks, for each property and backend, for the smallest program that shows a divergence.

    First the programs that show the property are run, then up to `examples` random ones of its family; what
    diverges is shrunk by Hypothesis. The same seed gives the same table. `on_progress` is told, before each
    cell of the table is filled, how many are filled, and of how many. Not to be called inside a running loop.
    Needs the extra `conformance`.
    """
    columns = tuple(map(Backend, backends))
    filled = itertools.count()

    def fill(prop: Property, backend: Backend) -> Cell:
        if on_progress is not None:
            on_progress(next(filled), len(properties) * len(columns))
        return _search(prop, backend, examples, seed)

    return _table(columns, properties, fill)


def _table(
    backends: Iterable[Backend | str],
    properties: Sequence[Property],
    fill: Callable[[Property, Backend], Cell],
) -> DivergenceTable:
    columns = tuple(map(Backend, backends))
    cells = {(prop.id, backend): fill(prop, backend) for prop in properties for backend in columns}
    return DivergenceTable(columns, tuple(properties), cells)


def _try(prop: Property, backend: Backend, programs: Iterable[Program]) -> Cell:
    count, reason = 0, None
    for program in programs:
        try:
            found = divergence(prop, program, backend)
        except NotExpressible as error:
            reason = str(error)
            continue
        count += 1
        if found is not None:
            return Cell(Verdict.DIVERGES, count, found)
    if count:
        return Cell(Verdict.KEPT, count)
    return Cell(Verdict.UNTRIED if reason is None else Verdict.NOT_EXPRESSIBLE, 0, reason=reason)


def _search(prop: Property, backend: Backend, examples: int, seed: int) -> Cell:
    from .strategies import smallest

    shown = _try(prop, backend, prop.shown_by)
    count = shown.programs
    if shown.verdict is Verdict.NOT_EXPRESSIBLE:
        return shown

    def diverges(program: Program) -> bool:
        nonlocal count
        if not prop.covers(program):
            return False
        try:
            found = divergence(prop, program, backend)
        except (NotExpressible, TooManyStatesError):
            return False
        count += 1
        return found is not None

    known = None if shown.divergence is None else shown.divergence.program
    drawn = smallest(prop.grammar, diverges, examples=examples, seed=seed)
    candidates = [program for program in (known, drawn) if program is not None]
    if not candidates:
        return evolve(shown, verdict=Verdict.KEPT if count else Verdict.UNTRIED, programs=count)
    least = min((shrink(candidate, diverges) for candidate in candidates), key=lambda each: each.size)
    return Cell(Verdict.DIVERGES, count, divergence(prop, least, backend))


def divergence(prop: Property, program: Program, backend: Backend) -> Divergence | None:
    """Returns what a backend does with a program if, in the view of a property, no schedule permits it.

    Raises `NotExpressible` if the backend cannot express the program.
    """
    observed = run(program, backend, interleaving=prop.interleaving)
    permitted = allowed(program, order=Order.FREE, interleaving=prop.interleaving, limit=_STATES)
    views = {prop.view(program, _as_far_as_seen(outcome, observed)) for outcome in permitted}
    return None if prop.view(program, observed) in views else Divergence(program, observed, permitted)


def _as_far_as_seen(outcome: Outcome, observed: Outcome) -> Outcome:
    """Blanks the flags of scopes that the backend could not be asked about."""
    scopes = tuple(
        ScopeFlags(
            flags.name,
            None if seen.cancel_called is None else flags.cancel_called,
            None if seen.cancelled_caught is None else flags.cancelled_caught,
        )
        for flags, seen in zip(outcome.scopes, observed.scopes, strict=True)
    )
    return evolve(outcome, scopes=scopes)


def _rows(table: DivergenceTable) -> Iterator[str]:
    titles = [f"{prop.id:<7}{prop.title}" for prop in table.properties]
    width = max(map(len, titles)) + 2
    widths = [max(len(backend), len(Verdict.NOT_EXPRESSIBLE)) + 2 for backend in table.backends]
    yield (
        "".ljust(width)
        + "".join(
            backend.ljust(space) for backend, space in zip(table.backends, widths, strict=True)
        ).rstrip()
    )
    for prop, title in zip(table.properties, titles, strict=True):
        verdicts = [table.cells[prop.id, backend].verdict for backend in table.backends]
        yield (
            title.ljust(width)
            + "".join(verdict.ljust(space) for verdict, space in zip(verdicts, widths, strict=True)).rstrip()
        )


def _notes(table: DivergenceTable) -> Iterator[str]:
    for prop, backend, found in table.divergences:
        yield f"{prop.id} on {backend}: {prop.title}"
        yield f"    {found.program!r}"
        yield f"    observed:  {describe(found.observed)}"
        shown = sorted(describe(outcome) for outcome in found.permitted)
        for position, text in enumerate(shown[:2]):
            yield f"    {'permitted:' if position == 0 else '       or:'} {text}"
        if len(shown) > 2:
            yield f"        and {len(shown) - 2} more"
    reasons: dict[tuple[Backend, str], list[str]] = {}
    for (identity, backend), cell in table.cells.items():
        if cell.reason is not None:
            reasons.setdefault((backend, cell.reason), []).append(identity)
    for (backend, reason), identities in reasons.items():
        yield f"{', '.join(identities)} on {backend}: not expressible. {reason}"


def describe(outcome: Outcome) -> str:
    """Renders an outcome on one line."""
    tasks = [
        f"task {number} " + ", ".join(f"{event.label}@{event.at}" for event in events)
        for number, events in enumerate(outcome.events)
        if events
    ]
    flags = [
        f"{flags.name} {word}"
        for flags in outcome.scopes
        for word, value in (("cancelled", flags.cancel_called), ("absorbed", flags.cancelled_caught))
        if value
    ]
    parts = [_describe_ending(outcome.ending), f"at {outcome.end_time}", *tasks, *flags]
    if outcome.interleaving:
        parts.append("in order " + ", ".join(map(str, outcome.interleaving)))
    return "; ".join(parts)


def _describe_ending(ending: Ending) -> str:
    match ending:
        case Returned():
            return "returned"
        case Cancelled():
            return "Cancelled"
        case Failed():
            return ending.error
        case _:
            return f"[{', '.join(map(_describe_ending, ending.members))}]"
