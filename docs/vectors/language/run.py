"""Run the vectors of the language against an implementation: ``python docs/vectors/language/run.py``.

What is special about the implementation is one function, ``observe``: it carries a program out, in virtual
time, and returns what could be seen. A vector passes when that is one of the permitted outcomes. Exit code
0: all pass; 1: some do not.
"""

import json
import sys
from pathlib import Path
from typing import Any


def observe(program: list[Any], *, interleaving: bool) -> dict[str, Any]:
    """Carry ``program`` out on trio; replace this to test something else."""
    from trio_tools.reference import outcome_to_json, program_from_json, run

    return outcome_to_json(run(program_from_json(program), interleaving=interleaving))


def failures(path: Path) -> list[str]:
    """Describe each vector of a file that fails."""
    found: list[str] = []
    for vector in json.loads(path.read_text(encoding="utf-8"))["vectors"]:
        # The order of events between tasks counts where the permitted outcomes tell it.
        seen = observe(vector["program"], interleaving="interleaving" in vector["permitted"][0])
        if seen not in vector["permitted"]:
            found.append(f"{vector['name']}\n  seen {json.dumps(seen)}")
    return found


def main() -> int:
    """Run the file and return the exit code."""
    found = failures(Path(__file__).parent / "programs.json")
    print("\n".join([*found, f"{len(found)} vectors failed"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
