"""The comparison with trio can fail: with any one rule of the model broken, it does, and soon."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from trio_tools.reference import _explore, _machine
from trio_tools.reference.soak import soak

SOURCE = Path(_machine.__file__).read_text(encoding="utf-8")

# (what is broken, the rule as it is written in the model, the rule broken)
MUTANTS = [
    (
        "tasks of a cancelled nursery do not begin (SCP-2)",
        "self.where[task] = FIRST_STEP",
        "self.where[task] = AT_RAISE if self.effective[nursery] else FIRST_STEP",
    ),
    (
        "cancellation is an edge (SCP-3)",
        "            signal = CANCELLED\n        stack",
        "            signal, self.effective[self.status[task]] = CANCELLED, False\n        stack",
    ),
    (
        "a cancel point lets others run (SCP-4)",
        "(do == Do.CANCEL_POINT and self._is_cancelled(task))",
        "do == Do.CANCEL_POINT",
    ),
    (
        "a schedule point is a checkpoint (SCP-4)",
        "self._wait(task, AT_SCHEDULE_POINT)",
        "self._wait(task, AT_CHECKPOINT)",
    ),
    (
        "the innermost cancelled scope absorbs (SCP-5)",
        "mine = self.effective[scope] and not self._visible(scope)",
        "mine = self.called[scope]",
    ),
    (
        "a sleep that ends at the deadline ends well (SCP-6)",
        "(where == ASLEEP and cancelled)",
        "(where == ASLEEP and cancelled and self.now not in self.deadline)",
    ),
    (
        "a deadline of zero is acted on one pass later (SCP-7)",
        "            if not self.called[s] and self.deadline[s] <= self.now:",
        "            if not self.called[s] and self.deadline[s] < self.now:",
    ),
    ("shields are ignored (SCP-8)", "not self.code.shields[scope] and self.effective", "self.effective"),
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
        "(held[0] if len(held) == 1 else group_of(held)) if held else None",
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
        "                    if self.closed[a]:\n                        signal = NURSERY_CLOSED  #",
        "                    if not self.inside[a]:\n                        signal = NURSERY_CLOSED  #",
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

    report = soak(1500, seed=1, until=1)

    assert report.disagreements
