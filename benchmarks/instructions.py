"""Count the bytecode instructions of one ``execute``, and compare them with what was stored.

``python -m benchmarks.instructions`` fails when a count has grown by more than 5 % since it was stored, and
asks for new figures when one has shrunk by as much; ``--update "reason"`` stores the counts of today and why
they are what they are; ``--profile`` shows which functions they are spent in.

A count does not depend on how busy a machine is. It says nothing of what C code does: see the README.
"""

import argparse
import json
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import CodeType
from typing import Any, Final

import trio
from attrs import frozen

import trio_tools
from trio_tools import Layer, ToolCall, open_call_scope

from .subjects import ARGUMENTS, full

__all__ = ["BUDGET", "COUNTED", "STORE", "Counts", "Spent", "count", "grown", "main", "shrunk", "spent"]

BUDGET: Final = 0.05
COUNTED: Final = ("add", "echo", "fail")
STORE: Final = Path(__file__).with_suffix(".json")

_CALLS: Final = 10
_WARM_UP: Final = 3
_SHOWN: Final = 40

Counts = dict[str, dict[str, float]]


@frozen
class Spent:
    """Where instructions were executed.

    Attributes:
        where: file, function and line of the code.
        library: whether that is code of the library, rather than of what it is built on.
        number: instructions per call.
    """

    where: str
    library: bool
    number: float


def spent(layer: Layer, name: str, *, after: int = _WARM_UP, arguments: object = None) -> list[Spent]:
    """Return the instructions that one call of a tool executes, by the code they belong to.

    Args:
        after: how many calls have ended under the same scope before.
        arguments: by default those that the tool is measured with.
    """
    return trio.run(_spent, layer, name, after, ARGUMENTS[name] if arguments is None else arguments)


async def _spent(layer: Layer, name: str, after: int, arguments: object) -> list[Spent]:
    # Told apart by identity: code objects of two functions may be equal, and hashing one takes its time.
    codes: dict[int, CodeType] = {}
    found: Counter[int] = Counter()
    async with open_call_scope() as scope:

        async def execute(times: int) -> None:
            for _ in range(times):
                await layer.execute(ToolCall(name=name, arguments=arguments, scope=scope))

        await execute(after)
        stop = _start_counting(codes, found)
        try:
            await execute(_CALLS)
        finally:
            stop()
    return [
        Spent(_place(codes[each]), _is_ours(codes[each]), number / _CALLS)
        for each, number in found.most_common()
    ]


def _start_counting(codes: dict[int, CodeType], found: Counter[int]) -> Callable[[], None]:
    if sys.version_info < (3, 12):
        raise RuntimeError("instructions are counted with sys.monitoring, which Python has since 3.12")
    monitoring = sys.monitoring
    tool, event = monitoring.PROFILER_ID, monitoring.events.INSTRUCTION
    here = threading.get_ident()

    def note(code: CodeType, _offset: int) -> None:
        if threading.get_ident() == here:
            codes[id(code)] = code
            found[id(code)] += 1

    def stop() -> None:
        monitoring.set_events(tool, 0)
        monitoring.register_callback(tool, event, None)
        monitoring.free_tool_id(tool)

    monitoring.use_tool_id(tool, "instructions of trio_tools")
    monitoring.register_callback(tool, event, note)
    monitoring.set_events(tool, event)
    return stop


_PACKAGE: Final = str(Path(trio_tools.__file__).parent)


def _is_ours(code: CodeType) -> bool:
    # Code that is made at run time names, in place of a file, what it was made by, or for.
    made = code.co_filename.startswith("<") and f"{trio_tools.__name__}." in code.co_filename
    return made or code.co_filename.startswith(_PACKAGE)


def _place(code: CodeType) -> str:
    file = code.co_filename if code.co_filename.startswith("<") else Path(code.co_filename).name
    return f"{file}:{code.co_firstlineno} {code.co_qualname}"


def count() -> Counts:
    """Return the instructions per call of each tool: those of the library, and all, trio's included."""
    registry = full()
    counts: Counts = {}
    for name in COUNTED:
        places = spent(registry, name)
        counts[name] = {
            "library": sum(place.number for place in places if place.library),
            "all": sum(place.number for place in places),
        }
    return counts


def grown(stored: Mapping[str, Mapping[str, float]], found: Counts) -> list[str]:
    """Return a sentence for each count that is over its budget, or that was never stored."""
    told: list[str] = []
    for name, kinds in found.items():
        for kind, number in kinds.items():
            before = stored.get(name, {}).get(kind)
            if before is None:
                told.append(f"{name}, {kind}: {number:.0f} instructions, and none were stored")
            elif number > before * (1 + BUDGET):
                told.append(
                    f"{name}, {kind}: {number:.0f} instructions, {number / before - 1:+.1%} on {before:.0f}"
                )
    return told


def shrunk(stored: Mapping[str, Mapping[str, float]], found: Counts) -> list[str]:
    """Return a sentence for each count that is so far below the stored one that growth could hide there."""
    told: list[str] = []
    for name, kinds in found.items():
        for kind, number in kinds.items():
            before = stored.get(name, {}).get(kind, 0.0)
            if number < before * (1 - BUDGET):
                told.append(
                    f"{name}, {kind}: {number:.0f} instructions, {number / before - 1:+.1%} on {before:.0f}"
                )
    return told


def main(arguments: Sequence[str] | None = None, *, store: Path = STORE) -> int:
    """Compare, update or profile; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.instructions", description=__doc__)
    parser.add_argument("--update", metavar="REASON", help="store the counts of today, and why they changed")
    parser.add_argument("--profile", choices=COUNTED, help="show in which functions the instructions are")
    options = parser.parse_args(arguments)
    if sys.version_info < (3, 12):
        print("nothing was counted: that takes sys.monitoring, which Python has since 3.12")
        return 0
    if options.profile is not None:
        for place in spent(full(), options.profile)[:_SHOWN]:
            print(f"{place.number:8.1f} {'library' if place.library else '':8} {place.where}")
        return 0
    if options.update is not None and not options.update.strip():
        parser.error("--update takes a reason: whoever reads the figures asks for one")
    figures: dict[str, Any] = json.loads(store.read_text()) if store.exists() else {}
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    found = count()
    for name, kinds in found.items():
        print(f"{name}: {kinds['library']:.0f} instructions of the library, {kinds['all']:.0f} in all")
    if options.update is not None:
        figures[python] = {"reason": options.update, "trio": trio.__version__, "counts": found}
        store.write_text(json.dumps(figures, indent=2, sort_keys=True) + "\n")
        return 0
    if python not in figures:
        print(f'no figures are stored for Python {python}: `--update "reason"` stores these')
        return 1
    stored: dict[str, Any] = figures[python]
    if stored["trio"] != trio.__version__:
        # What trio itself executes is not our doing.
        print(f"stored with trio {stored['trio']}, this is {trio.__version__}: only the library is compared")
        found = {name: {"library": kinds["library"]} for name, kinds in found.items()}
    told = grown(stored["counts"], found)
    if told:
        print(f"over the budget of {BUDGET:.0%}; the stored figures say: {stored['reason']}", *told, sep="\n")
    gained = shrunk(stored["counts"], found)
    if gained:
        print('less than is stored, which is well: hold the gain with `--update "reason"`', *gained, sep="\n")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
