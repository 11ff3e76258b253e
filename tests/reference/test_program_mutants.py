"""The comparison with trio can fail: with any one rule of the model broken, it does, and soon."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from trio_tools.reference import (
    PROPERTIES,
    Cancel,
    Checkpoint,
    Emit,
    Nursery,
    Program,
    SchedulePoint,
    Scope,
    SetShield,
    StartSoon,
    _explore,
    _machine,
    allowed,
    run,
)
from trio_tools.reference._program_soak import soak

# In trio the checkpoint asks again whether it is cancelled before it raises; the shield is up by then.
DOUBT = Program(
    Nursery(
        "n",
        StartSoon("n", Scope("s", Scope("t", Checkpoint(), Emit("yes")))),
        StartSoon("n", Cancel("s"), SchedulePoint(), SetShield("t", True)),
    )
)
# The end of the inner nursery, which has no tasks, lets the task run.
EMPTY = Program(Nursery("n", StartSoon("n", Emit("a")), Nursery("m"), Emit("b")))
KNOWN = [DOUBT, EMPTY, *(program for prop in PROPERTIES for program in prop.shown_by)]

SOURCE = Path(_machine.__file__).read_text(encoding="utf-8")

# (what is broken, the rule as it is written in the model, the rule broken)
MUTANTS = [
    (
        "tasks of a cancelled nursery do not begin (SCP-2)",
        "self.where[task] = FIRST_STEP",
        "self.where[task] = INTERRUPTED if self.effective[nursery] else FIRST_STEP",
    ),
    (
        "cancellation is an edge (SCP-3)",
        "IN_DOUBT)\n            return CANCELLED",
        "IN_DOUBT)\n            self.effective[self.status[task]] = False\n            return CANCELLED",
    ),
    (
        "a cancel point lets others run (SCP-4)",
        "(do == Do.CANCEL_POINT and self._is_cancelled(task))",
        "do == Do.CANCEL_POINT",
    ),
    (
        "a schedule point is a checkpoint (SCP-4)",
        "signal = self._wait(task, AT_SCHEDULE_POINT)",
        "signal = self._wait(task, AT_CHECKPOINT)",
    ),
    (
        "the innermost cancelled scope absorbs (SCP-5)",
        "mine = self.effective[scope] and not self._visible(scope)",
        "mine = self.called[scope]",
    ),
    (
        "a sleep that ends at the deadline ends well (SCP-6)",
        "(AT_CHECKPOINT, IN_DOUBT, SLEPT)",
        "(AT_CHECKPOINT, IN_DOUBT)",
    ),
    (
        "a deadline of zero is acted on one pass later (SCP-7)",
        "            if not self.called[s] and self.deadline[s] <= self.now:",
        "            if not self.called[s] and self.deadline[s] < self.now:",
    ),
    ("shields are ignored (SCP-8)", "not self.shield[scope] and self.effective", "self.effective"),
    (
        "a nursery does not wait for its tasks (SCP-9)",
        "if self.inside[nursery] or self.alive[nursery] or",
        "if self.inside[nursery] or",
    ),
    (
        "a failure cancels nobody (SCP-10)",
        "        self._cancel(nursery)\n\n    def _check_closed",
        "\n    def _check_closed",
    ),
    (
        "a group of one is the one (SCP-11)",
        "group_of(held) if held else None",
        (
            "(held[0] if len(held) == 1 and nursery not in self.code.starts_into else group_of(held))"
            " if held else None"
        ),
    ),
    (
        "a group that lost its Cancelled is flattened (SCP-12)",
        "    return group_of(kept) if kept else None",
        "    return (kept[0] if len(kept) == 1 else group_of(kept)) if kept else None",
    ),
    (
        "the end of a nursery is no schedule point (SCP-13)",
        "            self.ready = (*self.ready, task)\n        else:\n            self.waiter",
        "            self.due = (*self.due, task)\n        else:\n            self.waiter",
    ),
    (
        "errors are lost under cancellation (SCP-14)",
        "        return without_cancelled(signal)",
        "        return None",
    ),
    (
        "a start raises a group (SCP-15)",
        "            (signal,) = signal[1]  #",
        "            pass  #",
    ),
    (
        "a task stays with its starter (SCP-16)",
        "            self.parent[scope] = nursery\n",
        "",
    ),
    (
        "a task of a cancelled start moves all the same (SCP-16)",
        "        if self.effective[hidden]:\n            return None",
        "        if self.effective[hidden] and False:\n            return None",
    ),
    ("nobody minds a missing Started (SCP-17)", "signal = NEVER_STARTED", "signal = None"),
    (
        "a nursery closes with its block (SCP-18)",
        "(Do.START_SOON, Do.START) and self.closed[a]",
        "(Do.START_SOON, Do.START) and not self.inside[a]",
    ),
    (
        "a moved deadline counts from the entry (SCP-19)",
        "            self.deadline[scope] = self.now + seconds",
        "            self.deadline[scope] = seconds",
    ),
    (
        "a cancellation before the block is forgotten (SCP-20)",
        "        self.state[scope] = OPEN\n",
        "        self.state[scope] = OPEN\n        self.called[scope] = self.deadline[scope] <= self.now\n",
    ),
    (
        "a cancelled scope always says that it absorbed (SCP-21)",
        "        if not mine or signal is None",
        "        self.caught[scope] = mine\n        if not mine or signal is None",
    ),
    (
        "Cancelled does not cancel a nursery (SCP-22)",
        "        self._cancel(nursery)\n\n    def _check_closed",
        "        if exc != CANCELLED:\n            self._cancel(nursery)\n\n    def _check_closed",
    ),
    (
        "to move a shield does nothing to who waits (SCP-26)",
        "        if self.state[scope] == OPEN:\n            self._spread(scope)\n\n    def _spread",
        "\n    def _spread",
    ),
    (
        "an interrupted sleep ends well behind a shield (SCP-26)",
        "            return CANCELLED  # whatever",
        "            return CANCELLED if self._is_cancelled(task) else None  # whatever",
    ),
    (
        "a checkpoint in doubt raises behind a shield (SCP-26)",
        "        if where in (AT_CHECKPOINT, IN_DOUBT, SLEPT) and self._is_cancelled(task):",
        "        if where == IN_DOUBT or where in (AT_CHECKPOINT, SLEPT) and self._is_cancelled(task):",
    ),
]


@pytest.mark.parametrize(("broken", "right", "wrong"), MUTANTS, ids=[mutant[0] for mutant in MUTANTS])
def test_a_broken_rule_is_noticed(
    broken: str, right: str, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert SOURCE.count(right) == 1
    mutant = ModuleType("trio_tools.reference._mutant")
    mutant.__package__ = "trio_tools.reference"
    exec(compile(SOURCE.replace(right, wrong), "mutant", "exec"), mutant.__dict__)
    monkeypatch.setattr(_explore, "Machine", mutant.Machine)

    assert any(disagrees(program) for program in KNOWN) or soak(2000, seed=1, until=1).disagreements


def disagrees(program: Program) -> bool:
    permitted = allowed(program, interleaving=True)
    seen = frozenset(run(program, seed=seed, interleaving=True) for seed in range(6))
    return permitted != seen


def test_nothing_is_noticed_of_a_model_that_is_right() -> None:
    assert [program for program in KNOWN if disagrees(program)] == []
