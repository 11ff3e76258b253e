"""What a check costs: cancelled re-runs a second of CPU time, and whether memory stays where it was.

    python -m benchmarks.conformance            the rates
    python -m benchmarks.conformance --soak 600 the growth, over so many seconds of checks

The rates are of one worker process as a check has it, from its start to its last answer, in CPU time of
its own and of the process that reads the answers. The re-runs are those of a sweep: a tool with ten
checkpoints, cancelled at every place in every way, each judged. Without leak checks means without the
census of what the process holds and without waiting for the loop to rest.
"""

from __future__ import annotations

import argparse
import gc
import resource
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from statistics import linear_regression, median
from tempfile import TemporaryDirectory
from unittest import mock

import trio

from trio_tools import tool
from trio_tools.conformance import Profile, check_tool
from trio_tools.conformance import _runner as runner
from trio_tools.conformance._case import Case, Kind
from trio_tools.conformance._census import NOTHING_LEFT
from trio_tools.conformance._job import answers_of, complaints_of, is_lost
from trio_tools.conformance._observation import Observation
from trio_tools.conformance._plan import Reference, first_wave

ROUNDS = 7


@tool
async def ten_checkpoints() -> int:
    for _ in range(10):
        await trio.lowlevel.checkpoint()
    return 10


@tool
async def a_nursery() -> int:
    async with trio.open_nursery() as nursery:
        for seconds in range(3):
            nursery.start_soon(trio.sleep, seconds)
    return 3


@tool(timeout=5)
async def a_timeout() -> int:
    await trio.sleep(1)
    return 1


@tool(concurrency_safe=True)
async def safe_to_overlap(number: int) -> int:
    await trio.sleep(1)
    return number


@tool
async def a_channel() -> list[int]:
    send, receive = trio.open_memory_channel[int](0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(send.send, 1)
        return [await receive.receive()]


MODULE = (ten_checkpoints, a_nursery, a_timeout, safe_to_overlap, a_channel)


def sweep() -> list[Case]:
    subject = runner.Subject(tool=ten_checkpoints, setup=None, profile=Profile())
    found: list[Observation] = []
    runner.Runner(subject).run([Case(kind=Kind.REFERENCE, arguments={})], found.append)
    known = Reference(arguments={}, steps=found[0].steps, resumes=found[0].resumes)
    return [case for case in first_wave(subject, [known], seed=1) if case.kind is Kind.CANCEL]


def cpu_seconds() -> float:
    """Return the CPU time of this process and of those it has waited for; `os.times` counts in hundredths."""
    used = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return sum(each.ru_utime + each.ru_stime for each in used)


def rate(cases: list[Case]) -> float:
    """Return the re-runs of one second of CPU time, each of them judged."""
    # A machine that is busy otherwise makes steps slow.
    patient = Profile(block_seconds=60, wall_seconds=60)
    subject = runner.Subject(tool=ten_checkpoints, setup=None, profile=patient)
    began = cpu_seconds()
    found = answers_of(subject, cases, processes=1)
    took = cpu_seconds() - began
    assert not any(complaints_of(answer) or is_lost(answer) for answer in found), found
    return len(cases) / took


def without_leak_checks(measure: Callable[[], float]) -> float:
    async def rests(_: object) -> bool:
        return True

    with (
        mock.patch.object(runner, "leftovers_since", return_value=NOTHING_LEFT),
        mock.patch.object(runner.Runner, "_is_quiet", rests),
    ):
        return measure()


def print_rates() -> None:
    cases = sweep() * 5
    plain = [without_leak_checks(lambda: rate(cases)) for _ in range(ROUNDS)]
    checked = [rate(cases) for _ in range(ROUNDS)]
    print(f"re-runs a second and core, {len(cases)} cancelled runs of a tool with ten checkpoints,")
    print(f"median (and best) of {ROUNDS}:")
    print(f"  without leak checks  {median(plain):7.0f}  ({max(plain):.0f})")
    print(f"  with leak checks     {median(checked):7.0f}  ({max(checked):.0f})")
    began = time.perf_counter(), cpu_seconds()
    for each in MODULE:
        report = check_tool(each, seed=1)
        report.raise_for_failures()
    wall, cpu = time.perf_counter() - began[0], cpu_seconds() - began[1]
    print(f"five tools with the default budget: {wall:.1f} s, {cpu:.1f} s of CPU time")


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def resident() -> int:
    """Return the resident memory in KiB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() // 1024


def print_growth(seconds: float) -> None:
    """Check again and again, and print what this process gained, and the most that a worker took."""
    profile = Profile(max_cases=400)
    check_tool(ten_checkpoints, profile=profile, seed=1)
    tracemalloc.start()
    samples: list[tuple[float, float, float, float]] = []
    end = time.monotonic() + seconds
    checks = 0
    while time.monotonic() < end:
        check_tool(MODULE[checks % len(MODULE)], profile=profile, seed=checks)
        checks += 1
        if checks % len(MODULE) == 0:
            gc.collect()
            traced = tracemalloc.get_traced_memory()[0] / 1024
            samples.append((time.monotonic() - end + seconds, resident(), traced, descriptors()))
    # What is imported late, or kept once for each file, has come by then.
    settled = samples[len(samples) // 2 :]
    times = [sample[0] for sample in settled]
    print(f"{checks} checks in {seconds:.0f} s")
    print("  seconds  resident KiB  traced KiB  descriptors")
    for index in sorted({len(samples) * tenth // 10 for tenth in range(10)} | {len(samples) - 1}):
        at, resident_kib, traced_kib, open_now = samples[index]
        print(f"  {at:7.0f}  {resident_kib:12.0f}  {traced_kib:10.1f}  {open_now:11.0f}")
    print("growth in the second half, as a slope:")
    for name, column in (("resident KiB", 1), ("traced KiB", 2), ("descriptors", 3)):
        values = [sample[column] for sample in settled]
        slope = linear_regression(times, values).slope * 3600
        print(f"  {name:13} {slope:+9.1f} an hour; {values[0]:.0f} first, {values[-1]:.0f} last")
    print(f"  largest worker {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss} KiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--soak", type=float, metavar="SECONDS", help="measure growth instead")
    soak = parser.parse_args().soak
    with TemporaryDirectory() as own:
        # What other programs do in the common one is none of these runs' business; a worker has its own.
        tempfile.tempdir = own
        if soak is None:
            print_rates()
        else:
            print_growth(soak)


if __name__ == "__main__":
    main()
