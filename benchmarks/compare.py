"""Measure every peer that is installed: ``python -m benchmarks.compare [--rounds N]`` prints it as JSON."""

import argparse
import asyncio
import json
import sys
import warnings
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from importlib.metadata import version
from typing import Any, Final, final

import attrs
import trio
from attrs import frozen

from .guarantees import guarantees_of
from .harness import LEAST_ROUNDS, Contender, Ratio, interleave, on_trio, ratio_of, timed
from .peers import OURS, PEERS, TIMEOUT, Body, Peer, unavailable
from .subjects import ARGUMENTS, ROWS, add, by_hand, echo, pause

__all__ = ["BODIES", "Measured", "absence_of", "measure"]


async def _pause_on_asyncio(a: int, b: int) -> int:
    """Add two numbers after giving way once."""
    await asyncio.sleep(0)
    return a + b


_REFERENCES: Final[dict[str, Callable[[], Awaitable[object]]]] = {
    "add": partial(add, 2, 3),
    "pause": partial(pause, 2, 3),
    "echo": partial(echo, ROWS),
}
BODIES: Final = tuple(_REFERENCES)
_REASON: Final = 120


@final
@frozen
class Measured:
    """What is known of one way to call tools.

    Attributes:
        name: of the row.
        package: and the version that was measured.
        loop: in which it ran.
        absent: why nothing was measured, or None.
        ratios: by body, how many times the nursery and child of trio a call cost.
        slower: by body, how many times a call of ours.
        goal: for ``slower``, of `add`.
        guarantees: by name, whether it holds.
    """

    name: str
    package: str
    version: str
    loop: str
    absent: str | None
    ratios: dict[str, Ratio]
    slower: dict[str, Ratio]
    goal: float | None
    guarantees: dict[str, bool]


def contender_of(peer: Peer, name: str) -> Contender:
    """Return the contender that opens the peer, and times calls of one tool, one after another."""
    bodies: dict[str, Body] = {"add": add, "pause": pause, "echo": echo}
    if peer.loop == "asyncio":
        bodies["pause"] = _pause_on_asyncio
    body, arguments = bodies[name], ARGUMENTS[name]

    async def turn(repeat: int) -> int:
        async with peer.open(body, TIMEOUT) as call:
            # Whatever is made at the first call is no part of the others.
            await call(arguments)

            async def work() -> None:
                for _ in range(repeat):
                    await call(arguments)

            return await timed(work)

    if peer.loop == "trio":
        return lambda repeat: trio.run(turn, repeat)
    return lambda repeat: asyncio.run(turn(repeat))


def absence_of(peer: Peer) -> str | None:
    """Return why a peer cannot be measured, or None: it is missing, or not the one that is known here."""
    missing = unavailable(peer)
    if missing is not None or peer is OURS:
        return missing
    try:
        contender_of(peer, "add")(1)
    except Exception as error:  # noqa: BLE001  (whatever is wrong with one must not hide the others)
        return " ".join(f"{type(error).__name__}: {error}".split())[:_REASON]
    return None


def measure(rounds: int) -> list[Measured]:
    """Measure ours and every peer, body by body."""
    absent = {peer.name: absence_of(peer) for peer in (OURS, *PEERS)}
    present = [peer for peer in (OURS, *PEERS) if absent[peer.name] is None]
    ratios: dict[str, dict[str, Ratio]] = {peer.name: {} for peer in present}
    slower: dict[str, dict[str, Ratio]] = {peer.name: {} for peer in present}
    for body in BODIES:
        contenders = {"by hand": on_trio(by_hand(_REFERENCES[body]))}
        contenders |= {peer.name: contender_of(peer, body) for peer in present}
        costs = interleave(contenders, rounds=rounds)
        for peer in present:
            ratios[peer.name][body] = ratio_of(costs[peer.name], costs["by hand"])
            slower[peer.name][body] = ratio_of(costs[peer.name], costs[OURS.name])
    return [
        Measured(
            peer.name,
            peer.package,
            "" if peer not in present else version(peer.package),
            peer.loop,
            absent[peer.name],
            ratios.get(peer.name, {}),
            slower.get(peer.name, {}),
            peer.goal,
            guarantees_of(peer) if peer in present else {},
        )
        for peer in (OURS, *PEERS)
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help=f"at least {LEAST_ROUNDS}")
    rounds: int = parser.parse_args(arguments).rounds
    # What peers warn of is between them and whoever uses them.
    warnings.simplefilter("ignore")
    found: list[dict[str, Any]] = [attrs.asdict(each) for each in measure(rounds)]
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
