"""Puts faults into a copy of the runtime, one at a time, and says how soon random programs find each.

``python tests/reference/call_faults.py [SECONDS]``, of processor time: a bug that stays hidden is two
bugs, one in the code and one in what should have found it. A fault is a change of source text; one whose
text is gone from the runtime is named as stale. Exit code 0: every fault was found within the time; 1: some
were not.
"""

import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import trio_tools

# Where it is installed, for a wheel is tested without its sources beside the tests.
PACKAGE = Path(trio_tools.__file__).parent

FAULTS: list[tuple[str, str, str, str]] = [
    (
        "no check after the review",
        "_pipeline.py",
        "        return result\n    cause = life.cause_if_stale()",
        "        return result\n    return result\n    cause = life.cause_if_stale()",
    ),
    (
        "a value under an added source is let through",
        "_classification.py",
        "Place.BODY:      ((_CUT, _R),",
        "Place.BODY:      ((_GO, _R),",
    ),
    (
        "Cancelled out of a gate is always stray",
        "_classification.py",
        "Place.GATES:     ((_GO, _ON),   (_GO, _R),   (_ERROR, _F),  (_CUT, _R))",
        "Place.GATES:     ((_GO, _ON),   (_GO, _R),   (_ERROR, _F),  (_STRAY, _F))",
    ),
    (
        "no check after the guards",
        "_classification.py",
        "Place.GUARDED:   ((_CUT, _R),",
        "Place.GUARDED:   ((_GO, _ON),",
    ),
    (
        "a late success of a wrapper is let through",
        "_classification.py",
        "Place.WRAPPERS:  ((_CUT, _R),",
        "Place.WRAPPERS:  ((_GO, _R),",
    ),
    (
        "a timeout loses the contexts",
        "_timeout.py",
        "contexts=life.body_contexts(), cause=cause",
        "cause=cause",
    ),
    ("a tie goes to the last source", "_fusion.py", "cause.at < first.at", "cause.at <= first.at"),
    (
        "published twice",
        "_pipeline.py",
        "    interrupts += publish(life, result)\n",
        "    publish(life, result)\n    interrupts += publish(life, result)\n",
    ),
    (
        "what is not OK is lost",
        "_pipeline.py",
        "    life.phase = Phase.PUBLISHED\n",
        "    life.phase = Phase.PUBLISHED\n    if result.is_error:\n        return life.end() or []\n",
    ),
    (
        "tasks of a body outlive its result",
        "_execution.py",
        "        assert nursery is not None\n        return nursery\n",
        "        return next(iter(trio.lowlevel.current_root_task().child_nurseries))\n",
    ),
    (
        "execute drops a decided result",
        "_pipeline.py",
        "return result.outcome is ToolOutcome.CANCELLED and ambient_cancelled()",
        "return ambient_cancelled()",
    ),
    (
        "execute never raises",
        "_pipeline.py",
        "return result.outcome is ToolOutcome.CANCELLED and ambient_cancelled()",
        "return False",
    ),
    (
        "failures are not reviewed",
        "_pipeline.py",
        "        if path is Path.R:\n            result = await review",
        "        if path is Path.R and result.is_error is False:\n            result = await review",
    ),
    ("the review is not shielded", "_policy.py", "shield=True", "shield=False"),
    (
        "no finalizer runs",
        "_pipeline.py",
        "None if tool is None else tool.finalize,",
        "None,",
    ),
    (
        "a body that raised counts as cancelled",
        "_body.py",
        "return Settlement.RAISED",
        "return Settlement.CANCELLED",
    ),
    (
        "a scope left open goes unnoticed",
        "_body.py",
        "    if attempt.left_open:\n        return",
        "    if False:\n        return",
    ),
    (
        "a cancelled neighbour counts as failed",
        "_batch.py",
        "result.outcome is ToolOutcome.FAILED",
        "result.outcome is not ToolOutcome.OK",
    ),
    (
        "a batch that collects cancels siblings",
        "_batch.py",
        "if self.on_failure is BatchPolicy.FAIL_FAST and ",
        "if ",
    ),
    ("contexts of nested calls are lost", "_pipeline.py", "    forward(result.contexts)\n", ""),
    ("the watcher of ambient scopes is missing", "_fusion.py", "self._report(None)", "pass"),
    (
        "a torn body loses its contexts",
        "_body.py",
        "    if verdict is Verdict.CUT:\n        return aborted(life, cause, life.body_contexts())",
        "    if verdict is Verdict.CUT:\n        return aborted(life, cause, ())",
    ),
    (
        "the code of a torn call is the wrong one",
        "_verdicts.py",
        "_ABORTED if life.dispatched else _BEFORE",
        "_BEFORE if life.dispatched else _ABORTED",
    ),
    (
        "a farther tool hides a nearer one",
        "_layer.py",
        "            if (tool := layer._tools.get(name)) is not None:\n                return tool\n",
        (
            "            if layer._parent is None or name not in layer._parent._visible():\n"
            "                if (tool := layer._tools.get(name)) is not None: return tool\n"
        ),
    ),
    (
        "a restriction hides a layer's own tools too",
        "_layer.py",
        (
            "            if (tool := layer._tools.get(name)) is not None:\n                return tool\n"
            "            for restriction in layer._restrictions:\n"
            "                if not restriction.admits(name):\n                    return None\n"
        ),
        (
            "            for restriction in layer._restrictions:\n"
            "                if not restriction.admits(name):\n                    return None\n"
            "            if (tool := layer._tools.get(name)) is not None:\n                return tool\n"
        ),
    ),
    (
        "a nested call goes through the layer above",
        "_pipeline.py",
        "admit(layer_of(life), call,",
        "admit(layer_of(life)._parent or layer_of(life), call,",
    ),
    ("a deadline is seen one instant late", "_lifetime.py", "self.deadline <= now", "self.deadline < now"),
]

HUNT = """
import itertools, resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[2]), int(sys.argv[2]) + 1))
from trio_tools.reference.calls import judge, program_of_seed
sound = [int(seed) for seed in sys.argv[1].split(",") if seed]
for seed in itertools.count():
    judgement = judge(program_of_seed(seed), schedule=seed)
    if not judgement.agrees and not judgement.open and seed not in sound:
        print(seed)
        break
"""

DIFFERING = """
import sys
from trio_tools.reference.calls import judge, program_of_seed
for seed in range(int(sys.argv[1])):
    judgement = judge(program_of_seed(seed), schedule=seed)
    if not judgement.agrees and not judgement.open:
        print(seed)
"""


def differing(programs: int) -> list[str]:
    """Return the seeds with which the runtime differs from the model as it is; they show no fault."""
    done = subprocess.run(
        [sys.executable, "-c", DIFFERING, str(programs)], cwd=PACKAGE.parent, capture_output=True, check=True
    )
    return done.stdout.decode().split()


def hunt(file: str, old: str, new: str, *, seconds: int, but: list[str]) -> tuple[str | None, float]:
    """Return the seed of the first program that shows the fault, None if none did, and the time it took.

    Both times are processor time, so that a busy machine counts for nothing.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "trio_tools"
        shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        source = (copy / file).read_text(encoding="utf-8")
        (copy / file).write_text(source.replace(old, new, 1), encoding="utf-8")
        command = [sys.executable, "-c", HUNT, ",".join(but), str(seconds)]
        done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if done.returncode == -signal.SIGXCPU:
        return None, took
    return done.stdout.decode().strip() or "the runtime breaks", took


def main(seconds: int) -> int:
    """Hunt every fault, print a table, and return the exit code."""
    missed = 0
    but = differing(1_500)
    for name, file, old, new in FAULTS:
        if old not in (PACKAGE / file).read_text(encoding="utf-8"):
            print(f"{name:45} {file:20} stale")
            missed += 1
            continue
        seed, took = hunt(file, old, new, seconds=seconds, but=but)
        found = "not found" if seed is None else seed if seed.startswith("the") else f"seed {seed}"
        print(f"{name:45} {file:20} {found:>18} {took:6.1f} s", flush=True)
        missed += seed is None
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 60))
