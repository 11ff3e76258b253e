"""What the phases of the model share: a call, the three questions about cancellation, the table.

*The questions* are asked at the six places of CA-2: is the caller cancelled (`Bench.caller`), is the
delegation cancelled (`Bench.delegation`), and by what. The answers come from times: `Source.cause`
says when a scope or deadline was first cancelled, and the earliest wins, whoever noticed it first.

*The table* is applied by `Bench.ruled`: where the caller became cancelled and what the phase gave
select the ruling.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import NoReturn, final

from attrs import define, evolve, field

from . import _call_program as p
from ._call_script import HIDDEN, World
from ._call_tables import CLASSIFICATION, Cell, Column, Published, Verdict, permits_result
from ._call_time import Broke, Cause, Flow, Kernel, Node, Source

__all__ = [
    "ABORTED",
    "APPROVAL",
    "BEFORE",
    "BODY",
    "ENTRY",
    "GATES",
    "INNER",
    "INVOCATION",
    "LATER",
    "OUTER",
    "REFUSED",
    "REVIEW",
    "Bench",
    "Call",
    "Delegation",
    "First",
    "Slot",
    "nowhere",
]

BEFORE = "ABORTED_BEFORE_DISPATCH"
ABORTED = "ABORTED"

# The rows of the table: where in its life a call was first found cancelled.
REFUSED, ENTRY, GATES, APPROVAL, INNER = "CA-10", "CA-11", "CA-12", "CA-13", "CA-14"
INVOCATION, BODY, OUTER, REVIEW, LATER = "CA-15", "CA-16", "CA-17", "CA-18", "CA-19"

First = tuple[Cause, Source | None]
"""A first cause, and the added source whose it is; None for the caller's and for lexical scopes."""


@final
class Slot(list[str]):
    """A place in the deferred contexts: one message, or those of a nested call (`NE-6`)."""


@final
@define(eq=False)
class Call:
    """One call of the model.

    Attributes:
        path: ``c0``, or ``c0/name`` for a nested call.
        layer: the number of the layer it is executed through (`NE-2`).
        entry: what governs the task at the entry: the ambient scopes, for `CA-1`.
        sibling: what a failing neighbour of a batch cancels (`BA-11`).
        batched: whether it is one of a batch.
        entered: when; an ambient deadline that had passed by then was never read (`SC-9`).
        finalizer: that of the tool, captured at entry (`MA-1`, `PU-2`).
        ambient: the ambient cause, once it was observed (`SC-9`).
        cut: what cancelled a delegation of this call.
        settled: what the last dispatch was refused for or settled under (`WR-6`).
        settled_at: when.
        row: where the caller was first seen cancelled.
        settlement: that of the last invoked attempt (`WR-12`).
        latest: what the wrappers and dispatch last gave (`WR-18`), in the end what was published.
        concluded: whether the body concluded (`NE-7`).
        gone: the failure that a wrapper's success became because the tool was gone (`WR-14`).
    """

    path: str
    tool: str
    arguments: p.Arguments
    scope: Source
    entry: Node
    layer: int = 0
    sibling: Source = field(factory=lambda: Source("batch", "sibling"))
    finalizer: p.FinalizerScript | None = None
    batched: bool = False
    entered: float = 0
    ambient: Cause | None = None
    cut: Cause | None = None
    settled: Cause | None = None
    settled_at: float = 0
    row: str | None = None
    invoked: bool = False
    delegated: bool = False
    settlement: str = "not_dispatched"
    deferred: list[Slot] = field(factory=list[Slot])
    latest: Verdict | None = None
    concluded: bool = False
    gone: Verdict | None = None

    def contexts(self) -> tuple[str, ...]:
        """Return what the body has deferred so far, in order (`WR-21`)."""
        return tuple(text for slot in self.deferred for text in slot)


@final
@define(eq=False)
class Delegation:
    """One dispatch: the sources that a wrapper's view carries, and since when the body runs (`WR-5`)."""

    call: Call
    added: tuple[Source, ...]
    began: float


@final
@define(eq=False)
class Bench:
    """What the phases of all calls of one run share.

    Attributes:
        nest: runs a nested call to its end.
        published: the results so far, in order of publication.
        cells: the cells of the tables that were touched.
        follows: the results that alone are of interest, in order; None for all.
    """

    world: World
    nest: Callable[[Call], Flow[Verdict]] = field(init=False)
    published: list[Published] = field(factory=list[Published])
    cells: Counter[Cell] = field(factory=Counter[Cell])
    follows: tuple[Published, ...] | None = None

    def publish(self, result: Published) -> None:
        """Note a result; the run is given up if it is not the one that is looked for."""
        number = len(self.published)
        self.published.append(result)
        if self.follows is None or self.kernel.stopped:
            return
        if number < len(self.follows) and permits_result(result, self.follows[number]):
            self.kernel.choices.agreed += 1
        else:
            self.kernel.stop()

    @property
    def kernel(self) -> Kernel:
        """The machine."""
        return self.world.kernel

    @property
    def program(self) -> p.CallProgram:
        """The program."""
        return self.world.program

    @property
    def now(self) -> float:
        """The time."""
        return self.kernel.now

    def visible(self, call: Call) -> p.ToolScript | None:
        """Look its tool up afresh (`LA-4`, `BO-1`)."""
        self.kernel.reads(call.tool)
        self.kernel.reads(HIDDEN)
        return self.world.visible(call.tool, call.layer)

    def caller(
        self,
        call: Call,
        *,
        node: Node | None = None,
        since: float | None = None,
        keep: bool = True,
        fired: Iterable[float] = (),
    ) -> Cause | None:
        """Answer CA-1 at this moment: the first cause of the caller's cancellation, or None.

        ``since`` is when observation began, for a phase in which it is continuous (`SC-14`) until one of
        the sources of the delegation has ``fired``. The ambient cause is kept once observed, unless another
        call asks. At a tie each time of asking may name another.
        """
        self.kernel.looks((call.scope, call.sibling))
        now = self.now
        if not (
            call.ambient
            or call.scope.cancelled(now)
            or call.sibling.cancelled(now)
            or call.entry.cancelled(now)
        ):
            return None
        # WR-8: a shield between here and the entry hides them.
        visible = call.entry in (node or self.kernel.current.node).visible
        ambient = call.ambient or (self._observed(call, since, fired) if visible else None)
        if keep:
            call.ambient = ambient
        known = [*call.scope.causes(self.now), *call.sibling.causes(self.now)]
        return self._first(known if ambient is None else [*known, ambient])

    def _first(self, causes: list[Cause]) -> Cause | None:
        """Return the earliest; where the bounds leave it open, either is permitted."""
        if not causes:
            return None
        certain = min(cause.until for cause in causes)
        # Equal causes are one cause, met twice.
        candidates = list(dict.fromkeys(cause for cause in causes if cause.since <= certain))
        return candidates[self.kernel.choices.pick(len(candidates))]

    def _observed(self, call: Call, since: float | None, fired: Iterable[float] = ()) -> Cause | None:
        """Return the ambient cause as `SC-9` and `NE-4` state it, if ambient scopes are cancelled."""
        ambient = call.entry
        if not ambient.cancelled(self.now):
            return None
        found: list[Cause] = []
        deadlines = [math.inf]
        requests = [math.inf]
        for link in ambient.visible:
            owner = link.owner
            if isinstance(owner, Delegation):
                enclosing = self.delegation(owner.call, owner.added, link, since=owner.began, keep=False)
                if enclosing is not None:
                    found.append(enclosing[0])
                break
            for source in link.sources:
                deadlines.append(source.next_deadline())
                if source.requested is not None:
                    requests.append(source.requested)
        passed, asked = min(deadlines), min(requests)
        if passed <= self.now and passed <= asked:
            until = passed if passed >= call.entered else self.now
            found.append(Cause("ambient", "ambient", passed, until))
        elif asked <= self.now:
            last = self.now if since is None else max(asked, since)
            # SC-14: the runtime learns of it when the task that waits for the body is interrupted, once. If a
            # source of the delegation has interrupted that task by then, it may be observed as late as at
            # this check; and if that was at the very instant, WR-6 may name the source.
            interrupted = any(at <= last for at in fired)
            if last < self.now and interrupted and self.kernel.choices.pick(2):
                last = self.now
            found.append(Cause("ambient", "ambient", min(asked, last), last))
        return min(found, key=lambda cause: cause.until) if found else None

    def delegation(
        self,
        call: Call,
        added: tuple[Source, ...],
        node: Node,
        *,
        since: float | None = None,
        keep: bool = True,
    ) -> First | None:
        """Return the first cause of a delegation in time; ties go to the caller, then outwards (`WR-6`)."""
        lexical = self._lexical(call, node)
        fired = [cause.until for source in (*added, *lexical) for cause in source.causes(self.now)]
        caller = self.caller(call, node=node, since=since, keep=keep, fired=fired)
        best: First | None = None if caller is None else (caller, None)
        self.kernel.looks(added)
        for source in added:
            cause = source.cause(self.now)
            if cause is not None and (best is None or cause.until < best[0].until):
                best = cause, source
        for source in lexical:
            cause = source.noticed_cause(self.now)
            if cause is None:
                continue
            latest = math.inf if best is None else best[0].until
            # It may have been first, and was if it was noticed before the other happened.
            if cause.until < latest or (cause.since < latest and self.kernel.choices.pick(2)):
                best = cause, None
        if call.entry not in node.visible:
            # WR-8 hides ambient scopes behind a wrapper's shield, CA-1 is asked outside of it: whether a
            # question inside counts them, and names them as the first in time (WR-6), is open.
            hidden = self._observed(call, since)
            first = hidden is not None and (best is None or hidden.since <= best[0].until)
            if hidden is not None and first and self.kernel.choices.pick(2):
                best = hidden, None
        return best

    def _lexical(self, call: Call, node: Node) -> list[Source]:
        """Return the trio scopes that wrappers of ``call`` opened around ``node`` (`WR-7`)."""
        return [
            source
            for link in node.visible
            if link.role == "wrapper" and link.owner is call
            for source in link.sources
        ]

    def forget(self, call: Call, node: Node) -> None:
        """Begin another delegation (`WR-11`): what the last one read of these may count, or not (`SC-9`).

        They may be other scopes by now, and nothing tells.
        """
        for source in self._lexical(call, node):
            if source.noticed is not None:
                source.noticed = evolve(source.noticed, until=self.now)

    def marked(self, call: Call, row: str, *, since: float | None = None) -> bool:
        """Ask CA-1 at the end of a phase, and note where the caller was first seen cancelled."""
        cancelled = self.caller(call, since=since) is not None
        if cancelled and call.row is None:
            call.row = row
        return cancelled

    def ruled(self, call: Call, row: str, column: Column, verdict: Verdict | None) -> tuple[Verdict, bool]:
        """Apply the table of classification at the end of the phase of ``row``."""
        cause = self.caller(call)
        if cause is None:
            row = "CA-21"
        if cause is None or call.row == row:
            self.count(row, column, "none" if cause is None else cause.kind)
        action, path = CLASSIFICATION[row][column].split("/")
        match action:
            case "before" | "aborted" | "withheld":
                assert cause is not None
                return self.torn(call, cause, verdict), path == "r"
            case "error":
                assert verdict is not None
                return evolve(verdict, contexts=(), cause=None), False
            case _:
                assert verdict is not None
                return verdict, path == "r"

    def count(self, row: str, column: str, kind: str) -> None:
        """Count one touch of a cell."""
        self.cells[Cell(row, column, kind)] += 1

    def torn(self, call: Call, cause: Cause, success: Verdict | None = None) -> Verdict:
        """Return the cancelled result: a replaced success keeps contexts and settlement (`CA-4`)."""
        contexts = call.contexts() if success is None else success.contexts
        code = ABORTED if call.invoked else BEFORE
        call.cut = cause
        return Verdict("cancelled", code, call.settlement, cause, contexts)

    def latest(self, call: Call, cause: Cause) -> Verdict:
        """Return what stands when a `Cancelled` leaves wrappers (`WR-18`): the latest failure, else torn.

        Whether a cancelled result counts as a failure there is open: it stays, or is made anew with
        the cause of what ended the wrappers.
        """
        latest = call.latest
        if latest is None or latest.outcome == "ok":
            return self.torn(call, cause, latest)
        if latest.outcome == "cancelled" and latest.cause != cause and self.kernel.choices.pick(2):
            return self.torn(call, cause, latest)
        return latest

    def failure(
        self, call: Call, code: str, *, contexts: tuple[str, ...] | None = None, cause: Cause | None = None
    ) -> Verdict:
        """Return a failure with ``code``; the contexts deferred so far stay unless given."""
        kept = call.contexts() if contexts is None else contexts
        return Verdict("failed", code, call.settlement, cause, kept)

    def broken(self, call: Call, error: Broke) -> Verdict:
        """Return the failure of a pipeline error: POLICY_ERROR, or the code of a `ToolError`."""
        codes = set(error.codes)
        code = codes.pop() if len(codes) == 1 else None
        return self.failure(call, code or "POLICY_ERROR", contexts=())


def nowhere(action: p.Action) -> NoReturn:
    """Refuse an action that means nothing where it stands."""
    raise AssertionError(f"{action!r} may not stand here")
