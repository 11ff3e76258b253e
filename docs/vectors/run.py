"""Run the vectors against an implementation: ``python docs/vectors/run.py [FILE...]``.

What is special about the implementation is one function, ``observe``: it carries a program out and
returns what could be seen. All else is comparing JSON with JSON. A vector passes when the observed trace
is a permitted one, the time of each cause within its bounds. Exit code 0: all pass; 1: some do not.
"""

import json
import sys
from pathlib import Path
from typing import Any


def observe(program: dict[str, Any]) -> dict[str, Any]:
    """Carry ``program`` out on `trio_tools`; replace this to test something else."""
    from trio_tools.reference import observe_call_program

    return observe_call_program(program)


def same_cause(allowed: Any, seen: Any) -> bool:
    """Compare two causes; the time lies within its bounds."""
    if allowed is None or seen is None:
        return allowed is seen
    low, high = allowed["at"]
    names = (allowed["kind"], allowed["name"]) == (seen["kind"], seen["name"])
    return names and low <= seen["at"][0] and seen["at"][1] <= high


def same_trace(allowed: dict[str, Any], seen: dict[str, Any]) -> bool:
    """Compare a permitted trace with an observed one."""
    if allowed["ends"] != seen["ends"] or len(allowed["published"]) != len(seen["published"]):
        return False
    return all(
        {**left, "cause": None} == {**right, "cause": None} and same_cause(left["cause"], right["cause"])
        for left, right in zip(allowed["published"], seen["published"], strict=True)
    )


def failures(path: Path) -> list[str]:
    """Describe each vector of a file that fails."""
    found: list[str] = []
    for vector in json.loads(path.read_text(encoding="utf-8"))["vectors"]:
        seen = observe(vector["program"])
        if not any(same_trace(allowed, seen) for allowed in vector["permitted"]):
            found.append(f"{path.name}: {vector['name']} {vector['rules']}\n  seen {json.dumps(seen)}")
    return found


def main(names: list[str]) -> int:
    """Run the files, by default all of them, and return the exit code."""
    here = Path(__file__).parent
    paths = [Path(name) for name in names] or sorted(set(here.glob("*.json")) - {here / "schema.json"})
    found = [failure for path in paths for failure in failures(path)]
    print("\n".join([*found, f"{len(found)} vectors failed"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
