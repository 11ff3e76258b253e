"""Many calls at once: gates one by one, bodies side by side, commits in call order, none lost."""

from __future__ import annotations

import gc
import math
import signal
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import trio
from attrs import define, field
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.helpers import (
    GateRest,
    Proceed,
    Recorder,
    ReviewRest,
    at,
    call,
    caused_at,
    facts,
    observed,
    run,
    stray_cancelled,
)
from trio_tools import (
    Accept,
    Allow,
    BatchPolicy,
    Block,
    CallScope,
    CancelCause,
    CauseKind,
    Deny,
    DispatchExecution,
    ExecutionToken,
    FrozenDict,
    GateDecision,
    Registry,
    ReviewDecision,
    ToolCall,
    ToolContext,
    ToolError,
    ToolExecution,
    ToolResult,
    open_call_scope,
    tool,
)
from trio_tools._leaves import leaves_of


@define(eq=False)
class Log:
    """What happened in a batch, and when."""

    entries: list[str] = field(factory=list[str])
    running: int = 0
    most: int = 0

    def note(self, what: str) -> None:
        self.entries.append(f"{trio.current_time():g} {what}")

    def of(self, word: str) -> list[str]:
        """What was noted with ``word`` in it, without the times."""
        return [entry.split(" ", 1)[1] for entry in self.entries if word in entry.split()]


def label_of(execution: ToolExecution | DispatchExecution) -> str:
    arguments = execution.arguments
    return (
        str(arguments.get("label", execution.name)) if isinstance(arguments, FrozenDict) else execution.name
    )


def workshop(**options: Any) -> tuple[Registry, Recorder, Log]:
    """Make a registry with the tools ``free``, which may overlap, and ``alone``, which may not."""
    registry, seen = observed(**options)
    log = Log()

    async def work(label: str, seconds: float = 0.0, fails: bool = False, *, ctx: ToolContext) -> str:
        log.note(f"begin {label}")
        log.running += 1
        log.most = max(log.most, log.running)
        ctx.defer_context(f"of {label}")
        try:
            await trio.sleep(seconds)
        finally:
            log.running -= 1
            log.note(f"end {label}")
        if fails:
            raise ToolError(f"{label} failed", code="MINE")
        return label

    registry.tool(name="free", concurrency_safe=True)(work)
    registry.tool(name="alone")(work)
    registry.observe(lambda execution, _result: log.note(f"publish {label_of(execution)}"))
    return registry, seen, log


def reviewed(registry: Registry, log: Log, seconds: float = 0.0) -> None:
    """Have every result reviewed, for ``seconds`` each."""

    async def review(execution: ToolExecution, _result: ToolResult, proceed: ReviewRest) -> ReviewDecision:
        log.note(f"review {label_of(execution)}")
        await trio.sleep(seconds)
        log.note(f"reviewed {label_of(execution)}")
        return await proceed()

    registry.review(review)


@pytest.mark.rule("BA-1")
async def test_one_result_per_call_in_call_order(autojump_clock: MockClock) -> None:
    registry, seen, _ = workshop()
    async with open_call_scope() as scope:
        results = await registry.execute_batch(
            call(scope, "free", label=label, seconds=seconds)
            for label, seconds in (("a", 3), ("b", 1), ("c", 2))
        )

    assert [result.value for result in results] == ["a", "b", "c"]
    assert all(result is published for result, published in zip(results, seen.results, strict=True))


@pytest.mark.rule("BA-1")
async def test_an_empty_batch_has_no_results(autojump_clock: MockClock) -> None:
    registry, seen, _ = workshop()

    assert await registry.execute_batch([]) == []
    assert seen.results == []


@pytest.mark.rule("BA-1")
async def test_the_calls_are_read_whole_before_any_of_them_begins(autojump_clock: MockClock) -> None:
    registry, _, log = workshop()

    async with open_call_scope() as scope:

        def calls() -> Iterator[ToolCall]:
            for label in "ab":
                yield call(scope, "alone", label=label)
            log.note("read")

        await registry.execute_batch(calls())

    assert log.entries[0] == "0 read"


@pytest.mark.rule("BA-1")
async def test_calls_that_cannot_be_read_raise_before_anything_happens(autojump_clock: MockClock) -> None:
    registry, seen, log = workshop()

    async with open_call_scope() as scope:

        def calls() -> Iterator[ToolCall]:
            yield call(scope, "free", label="a")
            raise LookupError("no more")

        with pytest.raises(LookupError):
            await registry.execute_batch(calls())

    assert seen.results == []
    assert log.entries == []


@pytest.mark.rule("BA-1")
@pytest.mark.parametrize("bad", [0, -1, True, False, 1.0, 2.5, "3", None, math.inf])
async def test_a_max_parallel_that_is_no_integer_above_zero_is_refused(
    autojump_clock: MockClock, bad: Any
) -> None:
    registry, seen, _ = workshop()
    async with open_call_scope() as scope:
        with pytest.raises(ValueError, match="max_parallel"):
            await registry.execute_batch([call(scope, "free", label="a")], max_parallel=bad)

    assert seen.results == []


@pytest.mark.rule("BA-1")
async def test_two_equal_call_ids_are_refused(autojump_clock: MockClock) -> None:
    registry, seen, _ = workshop()
    async with open_call_scope() as scope:
        calls = [ToolCall(name="free", arguments={"label": "a"}, scope=scope, call_id="x") for _ in range(2)]
        with pytest.raises(ValueError, match="id"):
            await registry.execute_batch(calls)

    assert seen.results == []


async def test_an_unknown_policy_and_what_is_no_call_are_refused(autojump_clock: MockClock) -> None:
    registry, seen, _ = workshop()
    policy: Any = "whenever"
    stranger: Any = {"name": "free"}
    async with open_call_scope() as scope:
        with pytest.raises(ValueError, match="whenever"):
            await registry.execute_batch([call(scope, "free", label="a")], on_failure=policy)
        with pytest.raises(TypeError):
            await registry.execute_batch([call(scope, "free", label="a"), stranger])

    assert seen.results == []


@pytest.mark.rule("NE-9", "SC-12")
async def test_a_batch_with_a_call_that_cannot_attach_attaches_none(autojump_clock: MockClock) -> None:
    registry, seen, _ = workshop()
    async with open_call_scope() as scope:
        await registry.execute(call(scope, "free", label="a"))
        token = seen.executions[0].token
        orphan = ToolCall(name="free", arguments={"label": "c"}, scope=scope, parent=token)
        with pytest.raises(RuntimeError, match="parent"):
            await registry.execute_batch([call(scope, "free", label="b"), orphan])
        left = registry.statistics().calls

    assert left == ()
    assert len(seen.results) == 1


SAFE: dict[str, Any] = {
    "true": True,
    "function": lambda _arguments: True,  # pyright: ignore[reportUnknownLambdaType]
}
UNSAFE: dict[str, Any] = {
    "absent": None,
    "false": False,
    "truthy": lambda _arguments: 1,  # pyright: ignore[reportUnknownLambdaType]
    "text": lambda _arguments: "yes",  # pyright: ignore[reportUnknownLambdaType]
    "none": lambda _arguments: None,  # pyright: ignore[reportUnknownLambdaType]
    "raising": lambda _arguments: 1 / 0,  # pyright: ignore[reportUnknownLambdaType]
    "arity": lambda: True,
}


@pytest.mark.rule("BA-2")
@pytest.mark.parametrize("safety", [*SAFE, *UNSAFE])
async def test_only_an_exact_true_makes_a_call_parallel(autojump_clock: MockClock, safety: str) -> None:
    registry, _, log = workshop()
    options: dict[str, Any] = {} if safety == "absent" else {"concurrency_safe": (SAFE | UNSAFE)[safety]}

    @registry.tool(name="mine", **options)
    async def mine(label: str) -> str:  # pyright: ignore[reportUnusedFunction]
        log.running += 1
        log.most = max(log.most, log.running)
        await trio.sleep(1)
        log.running -= 1
        return label

    async with open_call_scope() as scope:
        results = await registry.execute_batch(call(scope, "mine", label=label) for label in "abc")

    assert [result.value for result in results] == ["a", "b", "c"]
    assert log.most == (3 if safety in SAFE else 1)
    assert trio.current_time() == (1.0 if safety in SAFE else 3.0)


@pytest.mark.rule("BA-2")
async def test_a_coroutine_for_an_answer_is_closed_and_makes_the_call_exclusive(
    autojump_clock: MockClock,
) -> None:
    registry, _, log = workshop()

    async def later() -> bool:
        return True

    def safe(_arguments: Any) -> Any:
        return later()

    @registry.tool(concurrency_safe=safe)
    async def mine(label: str) -> str:
        log.note(f"begin {label}")
        await trio.sleep(1)
        return label

    async with open_call_scope() as scope:
        await registry.execute_batch(call(scope, "mine", label=label) for label in "ab")
    gc.collect()

    assert log.of("begin") == ["begin a", "begin b"]
    assert trio.current_time() == 2.0


@pytest.mark.rule("BA-2")
async def test_a_function_decides_by_the_frozen_arguments(autojump_clock: MockClock) -> None:
    registry, _, log = workshop()
    asked: list[Any] = []

    def reads_only(arguments: Any) -> bool:
        asked.append(arguments)
        return not arguments["write"]

    @registry.tool(concurrency_safe=reads_only)
    async def table(label: str, write: bool) -> str:
        log.note(f"begin {label}")
        await trio.sleep(1)
        return label

    async with open_call_scope() as scope:
        await registry.execute_batch(
            call(scope, "table", label=label, write=label == "c") for label in "abcde"
        )

    assert [entry for entry in log.entries if "begin" in entry] == [
        "0 begin a",
        "0 begin b",
        "1 begin c",
        "2 begin d",
        "2 begin e",
    ]
    assert all(isinstance(arguments, FrozenDict) for arguments in asked)


@pytest.mark.rule("BA-2", "BA-8")
@pytest.mark.parametrize("what", ["unknown tool", "refused arguments"])
async def test_unknown_tools_and_refused_arguments_are_exclusive(
    autojump_clock: MockClock, what: str
) -> None:
    registry, seen, log = workshop()
    async with open_call_scope() as scope:
        odd = (
            call(scope, "nobody")
            if what == "unknown tool"
            else ToolCall(name="free", arguments={"label": {1}}, scope=scope)
        )
        await registry.execute_batch(
            [call(scope, "free", label="a", seconds=5), odd, call(scope, "free", label="c")]
        )

    code = "UNKNOWN_TOOL" if what == "unknown tool" else "NOT_JSON"
    name = "nobody" if what == "unknown tool" else "free"
    assert [facts(result) for result in seen.results] == [
        "ok returned",
        f"failed {code} not_dispatched",
        "ok returned",
    ]
    assert log.entries == [
        "0 begin a",
        "5 end a",
        "5 publish a",
        f"5 publish {name}",
        "5 begin c",
        "5 end c",
        "5 publish c",
    ]


@pytest.mark.rule("BA-3")
@pytest.mark.parametrize("cap", [1, 2, 3, 4, 9])
async def test_at_most_max_parallel_dispatches_are_in_flight(autojump_clock: MockClock, cap: int) -> None:
    registry, _, log = workshop()
    async with open_call_scope() as scope:
        await registry.execute_batch(
            [call(scope, "free", label=str(index), seconds=1) for index in range(4)], max_parallel=cap
        )

    assert log.most == min(cap, 4)
    assert trio.current_time() == math.ceil(4 / cap)


@pytest.mark.rule("BA-3")
async def test_ten_dispatches_are_in_flight_by_default(autojump_clock: MockClock) -> None:
    registry, _, log = workshop()
    async with open_call_scope() as scope:
        await registry.execute_batch(call(scope, "free", label=str(index), seconds=1) for index in range(11))

    assert log.most == 10


@pytest.mark.rule("BA-3", "BA-6")
async def test_a_call_that_is_settled_but_not_committed_holds_no_place(autojump_clock: MockClock) -> None:
    registry, _, log = workshop()
    seconds = {"slow": 10, "b": 1, "c": 1, "d": 1}
    async with open_call_scope() as scope:
        await registry.execute_batch(
            [call(scope, "free", label=label, seconds=wait) for label, wait in seconds.items()],
            max_parallel=2,
        )

    assert log.entries == [
        "0 begin slow",
        "0 begin b",
        "1 end b",
        "1 begin c",
        "2 end c",
        "2 begin d",
        "3 end d",
        "10 end slow",
        "10 publish slow",
        "10 publish b",
        "10 publish c",
        "10 publish d",
    ]


@pytest.mark.rule("BA-3", "BA-8")
async def test_a_call_that_a_wrapper_decides_gives_its_place_free_as_well(autojump_clock: MockClock) -> None:
    registry, _, log = workshop()

    async def refuse(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        if label_of(execution) != "b":
            return await proceed(execution)
        await trio.sleep(1)
        raise RuntimeError("not this one")

    registry.wrap(refuse)
    seconds = {"slow": 10, "b": 1, "c": 1}
    async with open_call_scope() as scope:
        await registry.execute_batch(
            [call(scope, "free", label=label, seconds=wait) for label, wait in seconds.items()],
            max_parallel=2,
        )

    assert log.entries == [
        "0 begin slow",
        "1 begin c",
        "2 end c",
        "10 end slow",
        "10 publish slow",
        "10 publish b",
        "10 publish c",
    ]


@pytest.mark.rule("BA-4")
async def test_an_exclusive_call_is_a_barrier_from_commit_to_commit(autojump_clock: MockClock) -> None:
    registry, _, log = workshop()
    reviewed(registry, log, seconds=2)
    async with open_call_scope() as scope:
        await registry.execute_batch(
            [
                call(scope, "free", label="a", seconds=1),
                call(scope, "free", label="b", seconds=1),
                call(scope, "alone", label="X", seconds=1),
                call(scope, "free", label="c", seconds=1),
            ]
        )

    assert sorted(log.entries[2:4]) == ["1 end a", "1 end b"]
    assert log.entries[4:] == [
        "1 review a",
        "3 reviewed a",
        "3 publish a",
        "3 review b",
        "5 reviewed b",
        "5 publish b",
        "5 begin X",
        "6 end X",
        "6 review X",
        "8 reviewed X",
        "8 publish X",
        "8 begin c",
        "9 end c",
        "9 review c",
        "11 reviewed c",
        "11 publish c",
    ]


@pytest.mark.rule("BA-5")
async def test_gates_and_guards_run_for_one_call_at_a_time_in_call_order(autojump_clock: MockClock) -> None:
    registry, _, log = workshop()

    async def gate(execution: ToolExecution, _proceed: GateRest) -> GateDecision:
        log.note(f"gate {label_of(execution)}")
        await trio.sleep(1)
        log.note(f"gated {label_of(execution)}")
        return Allow()

    registry.gate(gate)
    registry.guard(lambda execution: log.note(f"guard {label_of(execution)}"))
    async with open_call_scope() as scope:
        await registry.execute_batch(call(scope, "free", label=label, seconds=10) for label in "abc")

    assert log.entries[:12] == [
        "0 gate a",
        "1 gated a",
        "1 guard a",
        "1 begin a",
        "1 gate b",
        "2 gated b",
        "2 guard b",
        "2 begin b",
        "2 gate c",
        "3 gated c",
        "3 guard c",
        "3 begin c",
    ]


@pytest.mark.rule("BA-5")
def test_where_no_wrapper_waits_bodies_are_invoked_in_call_order() -> None:
    """trio starts fresh tasks in arbitrary order, so this is tried many times."""

    async def main() -> list[str]:
        registry = Registry()
        begun: list[str] = []

        @registry.tool(concurrency_safe=True)
        async def plain(label: str) -> None:
            begun.append(label)
            await trio.lowlevel.checkpoint()

        @registry.tool(concurrency_safe=True, timeout=1000)
        async def contextual(label: str, *, ctx: ToolContext) -> None:
            begun.append(label)
            await trio.lowlevel.checkpoint()

        async def passing(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
            return await proceed(execution)

        registry.wrap(passing)
        kinds = ["plain", "contextual", "plain", "contextual", "plain", "plain", "plain", "contextual"]
        async with open_call_scope() as scope:
            await registry.execute_batch(
                call(scope, kind, label=f"{index}") for index, kind in enumerate(kinds)
            )
        return begun

    orders = [trio.run(main) for _ in range(20)]

    assert orders == [["0", "1", "2", "3", "4", "5", "6", "7"]] * 20


@pytest.mark.rule("BA-5", "BO-13")
async def test_a_call_that_waits_for_a_thread_is_not_overtaken() -> None:
    registry = Registry()
    begun: list[str] = []

    @registry.tool(concurrency_safe=True)
    async def plain(label: str) -> None:
        begun.append(label)

    @registry.tool(concurrency_safe=True)
    def threaded(label: str) -> None:
        begun.append(label)

    limiter = trio.to_thread.current_default_thread_limiter()
    before, limiter.total_tokens = limiter.total_tokens, 1
    try:
        async with trio.open_nursery() as nursery, open_call_scope() as scope:
            calls = [call(scope, name, label=name) for name in ("threaded", "plain")]
            async with limiter:
                nursery.start_soon(registry.execute_batch, calls)
                await wait_all_tasks_blocked()
            overtaken = list(begun)
    finally:
        limiter.total_tokens = before

    assert overtaken == []
    assert sorted(begun) == ["plain", "threaded"]


@pytest.mark.rule("BA-5")
async def test_wrappers_are_begun_in_call_order_and_overlap(autojump_clock: MockClock) -> None:
    registry, _, log = workshop()

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        log.note(f"in {label_of(execution)}")
        await trio.sleep(5)
        return await proceed(execution)

    registry.wrap(wrapper)
    async with open_call_scope() as scope:
        await registry.execute_batch(call(scope, "free", label=label) for label in "abc")

    assert log.entries[:3] == ["0 in a", "0 in b", "0 in c"]
    assert trio.current_time() == 5.0


@pytest.mark.rule("BA-6", "RE-2")
async def test_calls_commit_one_after_another_whatever_settles_first(autojump_clock: MockClock) -> None:
    registry, _, log = workshop()
    reviewed(registry, log, seconds=5)
    async with open_call_scope() as scope:
        await registry.execute_batch(
            call(scope, "free", label=label, seconds=seconds)
            for label, seconds in (("a", 3), ("b", 1), ("c", 2))
        )

    assert log.entries[3:] == [
        "1 end b",
        "2 end c",
        "3 end a",
        "3 review a",
        "8 reviewed a",
        "8 publish a",
        "8 review b",
        "13 reviewed b",
        "13 publish b",
        "13 review c",
        "18 reviewed c",
        "18 publish c",
    ]


@pytest.mark.rule("BA-7")
@pytest.mark.parametrize("becomes", ["exclusive", "parallel", "gone"])
async def test_each_call_is_classified_right_before_its_start(
    autojump_clock: MockClock, becomes: str
) -> None:
    registry, seen, log = workshop()

    async def target(label: str) -> str:
        log.note(f"begin {label}")
        await trio.sleep(1)
        log.note(f"end {label}")
        return label

    registration = registry.register(
        tool(name="target", concurrency_safe=becomes == "exclusive")(target)
        if becomes != "gone"
        else tool(name="target", concurrency_safe=True)(target)
    )

    @registry.tool(concurrency_safe=becomes != "parallel")
    async def changes(label: str) -> str:
        registration.close()
        if becomes != "gone":
            registry.register(tool(name="target", concurrency_safe=becomes == "parallel")(target))
        await trio.sleep(1)
        log.note(f"end {label}")
        return label

    async with open_call_scope() as scope:
        calls = [call(scope, "changes", label="a")]
        calls += [call(scope, "target", label=label) for label in "bc"]
        await registry.execute_batch(calls, max_parallel=1 if becomes != "parallel" else 2)

    if becomes == "exclusive":
        assert log.entries == [
            "1 end a",
            "1 publish a",
            "1 begin b",
            "2 end b",
            "2 publish b",
            "2 begin c",
            "3 end c",
            "3 publish c",
        ]
    elif becomes == "parallel":
        assert log.of("begin") == ["begin b", "begin c"]
        assert trio.current_time() == 2.0
    else:
        assert [result.code for result in seen.results] == [None, "UNKNOWN_TOOL", "UNKNOWN_TOOL"]


@pytest.mark.rule("BA-7")
async def test_a_call_that_is_now_exclusive_waits_for_the_running_ones(autojump_clock: MockClock) -> None:
    registry, _, log = workshop()
    verdicts = iter([True, False, True, True, True])
    last: list[bool] = [True]

    def safe(_arguments: Any) -> bool:
        last[0] = next(verdicts, last[0])
        return last[0] if len(log.of("end")) < 1 else False

    @registry.tool(concurrency_safe=safe)
    async def moody(label: str) -> str:
        log.note(f"begin {label}")
        await trio.sleep(3)
        log.note(f"end {label}")
        return label

    async with open_call_scope() as scope:
        await registry.execute_batch(call(scope, "moody", label=label) for label in "ab")

    assert log.entries == [
        "0 begin a",
        "3 end a",
        "3 publish a",
        "3 begin b",
        "6 end b",
        "6 publish b",
    ]


@pytest.mark.rule("BA-8")
async def test_calls_decided_before_dispatch_take_their_place_and_stop_nobody(
    autojump_clock: MockClock,
) -> None:
    registry, seen, log = workshop()

    async def gate(execution: ToolExecution, _proceed: GateRest) -> GateDecision:
        return Deny("no") if label_of(execution) == "denied" else Allow()

    @registry.tool(concurrency_safe=True)
    async def concludes(label: str, *, ctx: ToolContext) -> str:
        ctx.conclude()
        return label

    registry.gate(gate)
    async with open_call_scope() as scope:
        results = await registry.execute_batch(
            [
                call(scope, "free", label="slow", seconds=2),
                call(scope, "free", label="denied"),
                call(scope, "free", label="fails", seconds=1, fails=True),
                call(scope, "concludes", label="concludes"),
                call(scope, "free", label=7),
                call(scope, "free", label="last"),
            ]
        )

    assert [facts(result) for result in results] == [
        "ok returned",
        "failed DENIED not_dispatched",
        "failed MINE raised",
        "ok returned",
        "failed INVALID_ARGS not_dispatched",
        "ok returned",
    ]
    assert log.of("publish") == [
        f"publish {label}" for label in ("slow", "denied", "fails", "concludes", "7", "last")
    ]
    assert [result.concludes for result in results] == [False, False, False, True, False, False]
    assert len(seen.results) == 6


@pytest.mark.rule("BA-9", "SC-2")
async def test_each_call_answers_to_its_own_scope(autojump_clock: MockClock) -> None:
    registry, _, log = workshop()
    async with open_call_scope(name="mine") as mine, open_call_scope(name="yours", timeout=1) as yours:
        results = await registry.execute_batch(
            [
                call(mine, "free", label="a", seconds=2),
                call(yours, "free", label="b", seconds=2),
                call(mine, "free", label="c", seconds=2),
            ]
        )

    assert [facts(result) for result in results] == [
        "ok returned",
        "cancelled ABORTED cancelled deadline:yours",
        "ok returned",
    ]
    assert log.of("publish") == ["publish a", "publish b", "publish c"]


def cancelling(who: str, scope: CallScope, outer: trio.CancelScope) -> Callable[[], None]:
    return scope.cancel if who == "caller" else outer.cancel


@pytest.mark.rule("BA-9", "BA-10", "BA-12")
@pytest.mark.parametrize("who", ["caller", "ambient"])
@pytest.mark.parametrize("policy", list(BatchPolicy))
async def test_started_calls_drain_and_commit_and_the_others_never_start(
    autojump_clock: MockClock, who: str, policy: BatchPolicy
) -> None:
    registry, seen, log = workshop()
    reviewed(registry, log, seconds=1)
    gated: list[str] = []

    async def gate(execution: ToolExecution, _proceed: GateRest) -> GateDecision:
        gated.append(label_of(execution))
        return Allow()

    registry.gate(gate)
    returned: list[Any] = []
    with trio.CancelScope() as outer:
        async with trio.open_nursery() as nursery, open_call_scope() as scope:
            nursery.start_soon(at, 1.5, cancelling(who, scope, outer))
            results = await registry.execute_batch(
                [
                    call(scope, "free", label="quick", seconds=1),
                    call(scope, "free", label="slow", seconds=9),
                    call(scope, "free", label="waits", seconds=9),
                    call(scope, "alone", label="late", seconds=9),
                ],
                max_parallel=2,
                on_failure=policy,
            )
            returned.append(results)

    kind = "caller:caller" if who == "caller" else "ambient:ambient"
    assert [facts(result) for result in seen.results] == [
        f"cancelled ABORTED returned {kind}",
        f"cancelled ABORTED cancelled {kind}",
        f"cancelled ABORTED cancelled {kind}",
        f"cancelled ABORTED_BEFORE_DISPATCH not_dispatched {kind}",
    ]
    assert gated == ["quick", "slow", "waits"]
    assert log.of("review") == ["review quick", "review slow", "review waits"]
    assert [result.contexts for result in seen.results] == [("of quick",), ("of slow",), ("of waits",), ()]
    assert [execution.arguments is None for execution in seen.executions] == [False, False, False, True]
    assert returned == ([seen.results] if who == "caller" else [])


@pytest.mark.rule("BA-9")
@pytest.mark.parametrize("who", ["caller", "ambient"])
async def test_a_batch_under_a_cancelled_caller_starts_nothing(autojump_clock: MockClock, who: str) -> None:
    registry, seen, log = workshop()
    with trio.CancelScope() as outer:
        async with open_call_scope() as scope:
            cancelling(who, scope, outer)()
            await registry.execute_batch(call(scope, name, label="x") for name in ("free", "alone", "nobody"))

    kind = "caller:caller" if who == "caller" else "ambient:ambient"
    assert [facts(result) for result in seen.results] == [
        f"cancelled ABORTED_BEFORE_DISPATCH not_dispatched {kind}"
    ] * 3
    assert log.of("begin") == []
    assert trio.current_time() == 0.0


@pytest.mark.rule("BA-9")
async def test_ambient_cancellation_counts_before_each_start_by_the_clock(autojump_clock: MockClock) -> None:
    registry, seen, log = workshop()

    @registry.tool
    async def hogs(label: str) -> str:
        autojump_clock.jump(5)
        return label

    with trio.move_on_at(3):
        async with open_call_scope() as scope:
            await registry.execute_batch([call(scope, "hogs", label="a"), call(scope, "free", label="b")])

    assert [facts(result) for result in seen.results] == [
        "cancelled ABORTED returned ambient:ambient",
        "cancelled ABORTED_BEFORE_DISPATCH not_dispatched ambient:ambient",
    ]
    assert [caused_at(result) for result in seen.results] == [3.0, 3.0]
    assert log.of("begin") == []


@pytest.mark.rule("BA-10", "PU-2", "CA-20")
@pytest.mark.parametrize("odd", ["fine", "unknown", "not json", "denied", "invalid"])
async def test_a_call_that_never_started_is_published_without_any_phase(
    autojump_clock: MockClock, odd: str
) -> None:
    registry, seen, log = workshop()
    reviewed(registry, log)
    touched: list[str] = []

    def finalize(_execution: ToolExecution, _result: ToolResult) -> str:
        touched.append("finalizer")
        return "finalized"

    @registry.tool(finalize=finalize)
    async def target(number: int = 1) -> str:
        touched.append("body")
        return "never"

    async def gate(execution: ToolExecution, _proceed: GateRest) -> GateDecision:
        touched.append(f"gate {execution.name}")
        return Deny("no") if odd == "denied" and execution.name == "target" else Allow()

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        touched.append(f"wrapper {execution.name}")
        return await proceed(execution)

    registry.gate(gate)
    registry.guard(lambda execution: touched.append(f"guard {execution.name}"))
    registry.wrap(wrapper)
    arguments: Any = {"not json": {"number": {1}}, "invalid": {"number": "x"}}.get(odd, {})
    async with open_call_scope() as first, open_call_scope(name="second", timeout=1) as second:
        name = "nobody" if odd == "unknown" else "target"
        late = ToolCall(name=name, arguments=arguments, scope=second)
        results = await registry.execute_batch(
            [call(first, "alone", label="a", seconds=2), late, call(first, "alone", label="c")]
        )

    assert facts(results[1]) == "cancelled ABORTED_BEFORE_DISPATCH not_dispatched deadline:second"
    assert caused_at(results[1]) == 1.0
    assert results[1].text == "Error: tool call aborted before dispatch"
    assert touched == ["gate alone", "guard alone", "wrapper alone"] * 2
    assert log.of("review") == ["review a", "review c"]
    assert [execution.name for execution in seen.executions] == ["alone", name, "alone"]
    assert seen.executions[1].arguments is None
    assert seen.executions[1].call_id == late.call_id
    assert not seen.executions[1].dispatched
    assert facts(results[2]) == "ok returned"


@pytest.mark.rule("BA-11")
@pytest.mark.parametrize("fails", ["body", "denied", "not json", "unknown", "blocked", "timeout"])
async def test_collect_never_cancels_a_sibling(autojump_clock: MockClock, fails: str) -> None:
    registry, seen, log = workshop()
    failing = make_fail(registry, fails)
    async with open_call_scope() as scope:
        await registry.execute_batch(
            [
                call(scope, "free", label="a", seconds=5),
                failing(scope),
                call(scope, "free", label="c", seconds=5),
                call(scope, "alone", label="d"),
            ],
            on_failure=BatchPolicy.COLLECT,
        )

    assert [result.outcome.value for result in seen.results] == ["ok", "failed", "ok", "ok"]
    assert log.of("begin") == ["begin a", "begin c", "begin d"]


def make_fail(registry: Registry, how: str) -> Callable[[CallScope], ToolCall]:
    """Register a parallel tool ``failing``, a call of which fails at the time 1, or at once."""

    @registry.tool(concurrency_safe=True, timeout=1 if how == "timeout" else None)
    async def failing(label: str = "failing") -> str:  # pyright: ignore[reportUnusedFunction]
        if how == "timeout":
            await trio.sleep_forever()
        await trio.sleep(1)
        if how == "body":
            raise ValueError("broken")
        return "fine"

    async def gate(execution: ToolExecution, _proceed: GateRest) -> GateDecision:
        return Deny("no") if how == "denied" and execution.name == "failing" else Allow()

    async def review(execution: ToolExecution, _result: ToolResult, _proceed: ReviewRest) -> ReviewDecision:
        return Block("no") if how == "blocked" and execution.name == "failing" else Accept()

    registry.gate(gate)
    registry.review(review)

    def make(scope: CallScope) -> ToolCall:
        match how:
            case "not json":
                return ToolCall(name="failing", arguments={"label": {1}}, scope=scope)
            case "unknown":
                return call(scope, "nobody", label="nobody")
            case _:
                return call(scope, "failing", label="failing")

    return make


@pytest.mark.rule("BA-11", "CA-1", "SC-9")
@pytest.mark.parametrize("fails", ["body", "denied", "timeout"])
async def test_fail_fast_cancels_running_siblings_and_skips_the_others(
    autojump_clock: MockClock, fails: str
) -> None:
    registry, seen, log = workshop()
    failing = make_fail(registry, fails)
    async with open_call_scope() as scope:
        results = await registry.execute_batch(
            [
                call(scope, "free", label="settled", seconds=0.5),
                call(scope, "free", label="runs", seconds=5),
                failing(scope),
                call(scope, "alone", label="never"),
                call(scope, "free", label="neither"),
            ],
            on_failure=BatchPolicy.FAIL_FAST,
        )
        still = scope.cancel_called

    when = 0.0 if fails == "denied" else 1.0
    code = {"body": "TOOL_ERROR raised", "denied": "DENIED not_dispatched"}.get(
        fails, "TOOL_TIMEOUT cancelled deadline:timeout"
    )
    first = "cancelled ABORTED cancelled sibling:batch" if fails == "denied" else "ok returned"
    assert [facts(result) for result in results] == [
        first,
        "cancelled ABORTED cancelled sibling:batch",
        f"failed {code}",
        "cancelled ABORTED_BEFORE_DISPATCH not_dispatched sibling:batch",
        "cancelled ABORTED_BEFORE_DISPATCH not_dispatched sibling:batch",
    ]
    assert [caused_at(results[index]) for index in (1, 3, 4)] == [when] * 3
    assert results[1].contexts == ("of runs",)
    assert log.of("begin") == ["begin settled", "begin runs"]
    assert seen.results == results
    assert not still
    assert trio.current_time() == when


@pytest.mark.rule("BA-11")
async def test_fail_fast_acts_at_the_commit_where_the_failure_is_known_only_then(
    autojump_clock: MockClock,
) -> None:
    registry, seen, _ = workshop()
    failing = make_fail(registry, "blocked")
    async with open_call_scope() as scope:
        await registry.execute_batch(
            [
                failing(scope),
                call(scope, "free", label="settled", seconds=0.5),
                call(scope, "free", label="runs", seconds=5),
                call(scope, "alone", label="never"),
            ],
            on_failure=BatchPolicy.FAIL_FAST,
        )

    assert [facts(result) for result in seen.results] == [
        "failed BLOCKED returned",
        "ok returned",
        "cancelled ABORTED cancelled sibling:batch",
        "cancelled ABORTED_BEFORE_DISPATCH not_dispatched sibling:batch",
    ]
    assert trio.current_time() == 1.0


@pytest.mark.rule("BA-11", "CA-3")
async def test_a_sibling_that_swallows_its_cancellation_is_not_ok(autojump_clock: MockClock) -> None:
    registry, seen, _ = workshop()
    failing = make_fail(registry, "body")

    @registry.tool(concurrency_safe=True)
    async def stubborn() -> str:
        with trio.CancelScope(shield=True):
            await trio.sleep(9)
        return "done all the same"

    @registry.tool(concurrency_safe=True)
    async def clumsy() -> str:
        try:
            await trio.sleep_forever()
        finally:
            raise ToolError("failed while being cancelled", code="MINE")

    async with open_call_scope() as scope:
        await registry.execute_batch(
            [call(scope, "stubborn"), call(scope, "clumsy"), failing(scope)],
            on_failure=BatchPolicy.FAIL_FAST,
        )

    assert [facts(result) for result in seen.results] == [
        "cancelled ABORTED returned sibling:batch",
        "failed MINE raised",
        "failed TOOL_ERROR raised",
    ]
    assert trio.current_time() == 9.0


@pytest.mark.rule("BA-11", "CA-12")
@pytest.mark.parametrize("policy", list(BatchPolicy))
async def test_a_sibling_in_its_gates_is_cancelled_too(
    autojump_clock: MockClock, policy: BatchPolicy
) -> None:
    registry, seen, log = workshop()

    async def slow_gate(execution: ToolExecution, _proceed: GateRest) -> GateDecision:
        if label_of(execution) == "gated":
            await trio.sleep(5)
        return Allow()

    registry.gate(slow_gate)
    async with open_call_scope() as scope:
        await registry.execute_batch(
            [
                call(scope, "free", label="fails", seconds=1, fails=True),
                call(scope, "free", label="gated"),
                call(scope, "free", label="last"),
            ],
            on_failure=policy,
        )

    cut = "cancelled ABORTED_BEFORE_DISPATCH not_dispatched sibling:batch"
    others = [cut, cut] if policy is BatchPolicy.FAIL_FAST else ["ok returned", "ok returned"]
    assert [facts(result) for result in seen.results] == ["failed MINE raised", *others]
    assert log.of("begin") == (
        ["begin fails"] if policy is BatchPolicy.FAIL_FAST else ["begin fails", "begin gated", "begin last"]
    )
    assert trio.current_time() == (1.0 if policy is BatchPolicy.FAIL_FAST else 5.0)


@pytest.mark.rule("BA-11")
@pytest.mark.parametrize("by", ["its scope", "its deadline"])
async def test_a_cancelled_result_triggers_nothing(autojump_clock: MockClock, by: str) -> None:
    registry, seen, _ = workshop()
    async with (
        trio.open_nursery() as nursery,
        open_call_scope() as mine,
        open_call_scope(timeout=1 if by == "its deadline" else math.inf) as yours,
    ):
        if by == "its scope":
            nursery.start_soon(at, 1.0, yours.cancel)
        await registry.execute_batch(
            [
                call(yours, "free", label="cancelled", seconds=5),
                call(mine, "free", label="b", seconds=5),
                call(mine, "alone", label="c"),
            ],
            on_failure=BatchPolicy.FAIL_FAST,
        )

    assert [result.outcome.value for result in seen.results] == ["cancelled", "ok", "ok"]


@pytest.mark.rule("BA-11", "WR-6", "SC-4")
async def test_the_first_failure_decides_and_later_ones_add_nothing(autojump_clock: MockClock) -> None:
    registry, seen, _ = workshop()
    async with open_call_scope(timeout=3) as scope, open_call_scope(name="early", timeout=1) as early:
        await registry.execute_batch(
            [
                call(early, "free", label="early", seconds=9),
                call(scope, "free", label="first", seconds=2, fails=True),
                call(scope, "free", label="second", seconds=2, fails=True),
                call(scope, "free", label="runs", seconds=9),
            ],
            on_failure=BatchPolicy.FAIL_FAST,
        )

    assert facts(seen.results[0]) == "cancelled ABORTED cancelled deadline:early"
    assert facts(seen.results[3]) == "cancelled ABORTED cancelled sibling:batch"
    assert caused_at(seen.results[3]) == 2.0
    assert [result.code for result in seen.results[1:3]].count("MINE") >= 1
    assert trio.current_time() == 2.0


@pytest.mark.rule("BA-11", "BO-14")
@pytest.mark.parametrize("policy", list(BatchPolicy))
def test_bodies_in_threads_overlap_and_are_cancelled_as_siblings(policy: BatchPolicy) -> None:
    both = threading.Barrier(3)

    async def main() -> list[str]:
        registry = Registry()

        @registry.tool(concurrency_safe=True)
        def waits(*, ctx: ToolContext) -> str:
            both.wait(30)
            if policy is BatchPolicy.COLLECT:
                return "done"
            trio.from_thread.run(trio.sleep_forever)
            return "never"

        @registry.tool(concurrency_safe=True)
        def fails() -> str:
            both.wait(30)
            raise ToolError("failed", code="MINE")

        async with open_call_scope() as scope:
            results = await registry.execute_batch(
                [call(scope, "waits"), call(scope, "fails"), call(scope, "waits")], on_failure=policy
            )
        return [facts(result) for result in results]

    said = trio.run(main)

    sibling = "ok returned" if policy is BatchPolicy.COLLECT else "cancelled ABORTED cancelled sibling:batch"
    assert said == [sibling, "failed MINE raised", sibling]


@pytest.mark.rule("BA-11", "TI-19", "NE-4")
async def test_a_nested_call_of_a_cancelled_sibling_carries_the_cause(autojump_clock: MockClock) -> None:
    registry, seen, _ = workshop()

    @registry.tool(concurrency_safe=True)
    async def outer(*, ctx: ToolContext) -> str:
        return (await ctx.call("free", {"label": "nested", "seconds": 9})).text

    async with open_call_scope() as scope:
        await registry.execute_batch(
            [call(scope, "outer"), call(scope, "free", label="fails", seconds=1, fails=True)],
            on_failure=BatchPolicy.FAIL_FAST,
        )

    assert seen.published == [
        "free: cancelled ABORTED cancelled sibling:batch",
        "outer: cancelled ABORTED cancelled sibling:batch",
        "free: failed MINE raised",
    ]


@pytest.mark.rule("BA-11")
async def test_a_nested_failure_is_no_failure_of_the_batch(autojump_clock: MockClock) -> None:
    registry, seen, _ = workshop()

    @registry.tool(concurrency_safe=True)
    async def outer(*, ctx: ToolContext) -> str:
        return (await ctx.call("free", {"label": "nested", "fails": True})).text

    async with open_call_scope() as scope:
        await registry.execute_batch(
            [call(scope, "outer"), call(scope, "free", label="runs", seconds=1)],
            on_failure=BatchPolicy.FAIL_FAST,
        )

    assert [result.outcome.value for result in seen.results] == ["failed", "ok", "ok"]


@pytest.mark.rule("BA-12", "PU-8")
@pytest.mark.parametrize("case", ["all ok", "caller first", "failed", "one ambient"])
async def test_a_batch_raises_only_where_ambient_scopes_decided_a_result(
    autojump_clock: MockClock, case: str
) -> None:
    registry, seen, _ = workshop()
    returned: list[Any] = []
    with trio.CancelScope() as outer:
        async with open_call_scope() as scope:
            if case in ("all ok", "failed"):
                # The last thing that happens before the batch returns.
                registry.observe(
                    lambda _execution, _result: outer.cancel() if len(seen.results) == 2 else None
                )
            else:
                outer.deadline = 2.0
            if case == "caller first":
                scope.deadline = 1.0
            returned.append(
                await registry.execute_batch(
                    [
                        call(scope, "free", label="a", seconds=1 if case == "one ambient" else 1.5),
                        call(scope, "free", label="b", seconds=3, fails=case == "failed"),
                    ]
                )
            )

    said = [facts(result) for result in seen.results]
    assert (
        said
        == {
            "all ok": ["ok returned", "ok returned"],
            "failed": ["ok returned", "failed MINE raised"],
            "caller first": ["cancelled ABORTED cancelled deadline:caller"] * 2,
            "one ambient": ["ok returned", "cancelled ABORTED cancelled ambient:ambient"],
        }[case]
    )
    assert len(returned) == (0 if case == "one ambient" else 1)
    assert outer.cancelled_caught == (case == "one ambient")


@pytest.mark.rule("BA-12", "BA-6")
async def test_everything_is_published_before_a_batch_raises(autojump_clock: MockClock) -> None:
    registry, seen, log = workshop()
    reviewed(registry, log, seconds=3)
    ended: list[Any] = []
    with trio.move_on_at(1) as outer:
        async with open_call_scope() as scope:
            try:
                await registry.execute_batch(call(scope, "free", label=label, seconds=9) for label in "abc")
            finally:
                ended = [len(seen.results), trio.current_time()]

    assert outer.cancelled_caught
    assert ended == [3, 10.0]


INTERRUPTED = ["gate", "guard", "wrapper", "body", "thread", "review", "observer", "finalizer"]


@pytest.mark.rule("BA-13", "PU-9")
@pytest.mark.parametrize("where", INTERRUPTED)
@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_ends_the_whole_batch_and_loses_no_result(where: str, kind: type[BaseException]) -> None:
    registry, seen, log = workshop()
    reviewed(registry, log)

    def interrupt(place: str, name: str) -> None:
        if place == where and name == "target":
            raise kind

    async def target(label: str) -> str:
        log.note("begin target")
        await trio.sleep(1)
        interrupt("body", "target")
        return label

    def threaded(label: str) -> str:
        interrupt("thread", "target")
        return label

    def finalize(execution: ToolExecution, _result: ToolResult) -> None:
        interrupt("finalizer", execution.name)

    registry.tool(name="target", concurrency_safe=True, finalize=finalize)(
        threaded if where == "thread" else target
    )

    async def gate(execution: ToolExecution, _proceed: GateRest) -> GateDecision:
        interrupt("gate", execution.name)
        return Allow()

    async def wrapper(execution: DispatchExecution, proceed: Proceed) -> ToolResult:
        result = await proceed(execution)
        interrupt("wrapper", execution.name)
        return result

    async def review(execution: ToolExecution, _result: ToolResult, proceed: ReviewRest) -> ReviewDecision:
        interrupt("review", execution.name)
        return await proceed()

    registry.gate(gate)
    registry.guard(lambda execution: interrupt("guard", execution.name))
    registry.wrap(wrapper)
    registry.review(review)
    registry.observe(lambda execution, _result: interrupt("observer", execution.name))

    async def main() -> None:
        async with open_call_scope() as scope:
            await registry.execute_batch(
                [
                    call(scope, "alone", label="settled"),
                    call(scope, "target", label="target"),
                    call(scope, "free", label="runs", seconds=math.inf),
                    call(scope, "alone", label="never"),
                ]
            )

    with pytest.raises((kind, BaseExceptionGroup)) as raised:
        run(main)

    assert [type(leaf) for leaf in leaves_of(raised.value).interrupts] == [kind]
    assert [label_of(execution) for execution in seen.executions[:2]] == ["settled", "target"]
    assert len(seen.results) == 4
    assert seen.results[0].outcome.value == "ok"
    if where == "observer":
        assert seen.results[1].outcome.value == "ok"
    else:
        code = "ABORTED_BEFORE_DISPATCH" if where in ("gate", "guard") else "ABORTED"
        assert (seen.results[1].code, seen.results[1].cause) == (code, None)
        assert "target" not in " ".join(log.of("review")) or where in ("review", "finalizer")
    assert [result.outcome.value for result in seen.results[2:]] == ["cancelled", "cancelled"]
    assert seen.results[3].code == "ABORTED_BEFORE_DISPATCH"
    assert seen.executions[3].arguments is None
    assert "begin never" not in " ".join(log.entries)


@pytest.mark.rule("BA-13")
async def test_an_interrupt_among_running_siblings_awaits_their_cleanup(autojump_clock: MockClock) -> None:
    registry, seen, _ = workshop()
    cleaned: list[float] = []

    @registry.tool(concurrency_safe=True)
    async def tidy() -> str:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(5)
            cleaned.append(trio.current_time())
        return "never"

    @registry.tool(concurrency_safe=True)
    async def interrupts() -> str:
        await trio.sleep(1)
        raise KeyboardInterrupt

    async with open_call_scope() as scope:
        with pytest.raises(KeyboardInterrupt):
            await registry.execute_batch(
                [call(scope, "tidy"), call(scope, "interrupts"), call(scope, "tidy")]
            )
        ended = trio.current_time()

    assert cleaned == [6.0, 6.0]
    assert ended == 6.0
    assert [result.code for result in seen.results] == ["ABORTED"] * 3
    assert seen.results[1].cause is None


@pytest.mark.rule("BA-13", "BA-2")
@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
async def test_an_interrupt_out_of_what_classifies_a_call_ends_the_batch(
    autojump_clock: MockClock, kind: type[BaseException]
) -> None:
    registry, seen, _ = workshop()
    asked: list[float] = []

    def classifies(_arguments: object) -> bool:
        asked.append(trio.current_time())
        raise kind

    @registry.tool(concurrency_safe=True)
    async def naps() -> str:
        await trio.sleep(5)
        return "slept"

    @registry.tool(concurrency_safe=classifies)
    async def unclear() -> str:
        return "never"

    async with open_call_scope() as scope:
        with pytest.raises(kind):
            await registry.execute_batch([call(scope, name) for name in ("naps", "unclear", "naps")])

    assert asked == [0.0]
    assert seen.published == [
        "naps: cancelled ABORTED cancelled sibling:batch",
        "unclear: cancelled ABORTED_BEFORE_DISPATCH not_dispatched sibling:batch",
        "naps: cancelled ABORTED_BEFORE_DISPATCH not_dispatched sibling:batch",
    ]


@pytest.mark.rule("BA-13", "PU-9")
@pytest.mark.parametrize("calls", ["parallel", "exclusive"])
def test_a_real_interrupt_while_the_batch_waits_ends_it_and_loses_no_result(calls: str) -> None:
    """Ctrl-C reaches the task that executes the batch, not the tasks of its calls."""
    registry, seen, log = workshop()
    ended: list[float] = []

    @registry.tool(concurrency_safe=calls == "parallel")
    async def tidy(label: str) -> str:
        log.note(f"begin {label}")
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(2)
            ended.append(trio.current_time())
        return "never"

    async def interrupt() -> None:
        await trio.sleep(1)
        signal.raise_signal(signal.SIGINT)

    async def main() -> None:
        trio.lowlevel.spawn_system_task(interrupt)
        async with open_call_scope() as scope:
            await registry.execute_batch(
                [call(scope, "tidy", label=label) for label in "abc"], max_parallel=2
            )

    with pytest.raises((KeyboardInterrupt, BaseExceptionGroup)) as raised:
        run(main)

    interrupts = leaves_of(raised.value).interrupts
    assert {type(leaf) for leaf in interrupts} == {KeyboardInterrupt}
    begun = 2 if calls == "parallel" else 1
    assert len(log.of("begin")) == begun
    assert ended == [3.0] * begun
    assert [result.code for result in seen.results] == (
        ["ABORTED"] * begun + ["ABORTED_BEFORE_DISPATCH"] * (3 - begun)
    )


@pytest.mark.rule("MA-1", "BA-7")
@pytest.mark.parametrize("change", ["other", float("nan")])
async def test_arguments_that_change_while_a_call_waits_for_its_start_change_nothing(
    autojump_clock: MockClock, change: object
) -> None:
    registry, seen, _ = workshop()
    arguments: dict[str, object] = {"label": "as it was"}

    async with open_call_scope() as scope, trio.open_nursery() as nursery:
        nursery.start_soon(at, 1.0, lambda: arguments.update(label=change))
        await registry.execute_batch(
            [
                call(scope, "free", label="first", seconds=2),
                ToolCall(name="alone", arguments=arguments, scope=scope),
            ]
        )

    assert [label_of(execution) for execution in seen.executions] == ["first", "as it was"]
    assert [result.outcome.value for result in seen.results] == ["ok", "ok"]


@pytest.mark.rule("BA-13", "CA-6")
@pytest.mark.parametrize("max_parallel", [1, 2])
def test_a_real_interrupt_names_the_batch_whether_or_not_all_calls_have_begun(max_parallel: int) -> None:
    registry, seen, log = workshop()

    @registry.tool(concurrency_safe=True)
    async def waits(label: str) -> str:
        log.note(f"begin {label}")
        await trio.sleep_forever()
        return label

    async def interrupt() -> None:
        await trio.sleep(1)
        signal.raise_signal(signal.SIGINT)

    async def main() -> None:
        trio.lowlevel.spawn_system_task(interrupt)
        async with open_call_scope() as scope:
            calls = [call(scope, "waits", label=label) for label in "ab"]
            await registry.execute_batch(calls, max_parallel=max_parallel)

    with pytest.raises(KeyboardInterrupt):
        run(main)

    assert len(log.of("begin")) == max_parallel
    assert [result.cause for result in seen.results] == [
        CancelCause(CauseKind.SIBLING, "batch", None, 1.0)
    ] * 2


@pytest.mark.rule("BA-13")
async def test_an_interrupt_of_an_observer_of_a_skipped_call_goes_on(autojump_clock: MockClock) -> None:
    registry, seen, _ = workshop()

    def observer(_execution: ToolExecution, result: ToolResult) -> None:
        if result.code == "ABORTED_BEFORE_DISPATCH" and len(seen.results) == 2:
            raise KeyboardInterrupt

    registry.observe(observer)
    async with open_call_scope() as mine, open_call_scope() as yours:
        yours.cancel()
        with pytest.raises(KeyboardInterrupt):
            await registry.execute_batch(
                [
                    call(mine, "alone", label="a"),
                    call(yours, "alone", label="b"),
                    call(mine, "alone", label="c"),
                ]
            )

    assert [result.outcome.value for result in seen.results] == ["ok", "cancelled", "cancelled"]


@pytest.mark.rule("PU-6", "BA-6")
async def test_an_observer_that_raises_loses_no_result_of_a_batch(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    registry, seen, _ = workshop()

    def observer(_execution: ToolExecution, _result: ToolResult) -> None:
        raise ValueError("broken observer")

    registry.observe(observer)
    async with open_call_scope() as mine, open_call_scope() as yours:
        yours.cancel()
        results = await registry.execute_batch(
            [call(mine, "free", label="a"), call(yours, "free", label="b"), call(mine, "alone", label="c")]
        )

    assert [result.outcome.value for result in results] == ["ok", "cancelled", "ok"]
    assert seen.results == results
    assert len(caplog.records) == 3


@pytest.mark.rule("SC-12", "SC-10")
async def test_leaving_the_scope_waits_for_calls_of_a_batch_that_have_not_started(
    autojump_clock: MockClock,
) -> None:
    registry, seen, _ = workshop()
    async with trio.open_nursery() as nursery:
        async with open_call_scope() as scope:
            nursery.start_soon(
                registry.execute_batch, [call(scope, "alone", label=label, seconds=2) for label in "abc"]
            )
            await trio.sleep(1)
        left = trio.current_time()

    assert left == 6.0
    assert [facts(result) for result in seen.results] == ["ok returned"] * 3


@pytest.mark.rule("TI-11", "BA-11")
async def test_a_timeout_settles_that_call_only(autojump_clock: MockClock) -> None:
    """One slow tool does not end the whole turn (case 32)."""
    registry, seen, _ = workshop()
    failing = make_fail(registry, "timeout")
    async with open_call_scope() as scope:
        await registry.execute_batch([failing(scope), call(scope, "free", label="b", seconds=9)])

    assert [facts(result) for result in seen.results] == [
        "failed TOOL_TIMEOUT cancelled deadline:timeout",
        "ok returned",
    ]


@pytest.mark.parametrize(
    "error",
    [ValueError("x"), ToolError("x", code="X"), BaseExceptionGroup("g", [ValueError("x")]), "stray"],
    ids=["plain", "coded", "group", "stray"],
)
@pytest.mark.parametrize("policy", list(BatchPolicy))
@pytest.mark.rule("BA-11", "BO-9")
async def test_what_a_failure_does_to_its_siblings_depends_on_the_policy_alone(
    autojump_clock: MockClock, error: Any, policy: BatchPolicy
) -> None:
    """The policy is a value, the same for every type of exception; a stray cancellation too (30, 31)."""
    registry, seen, _ = workshop()

    @registry.tool(concurrency_safe=True)
    async def fails() -> str:
        await trio.sleep(1)
        if error != "stray":
            raise error
        raise await stray_cancelled()

    async with open_call_scope() as scope:
        await registry.execute_batch(
            [call(scope, "free", label="a", seconds=2), call(scope, "fails")], on_failure=policy
        )

    assert seen.results[1].outcome.value == "failed"
    sibling = (
        "cancelled ABORTED cancelled sibling:batch" if policy is BatchPolicy.FAIL_FAST else "ok returned"
    )
    assert facts(seen.results[0]) == sibling


@pytest.mark.parametrize("policy", BatchPolicy)
async def test_a_finished_batch_needs_no_cycle_collector(
    autojump_clock: MockClock, policy: BatchPolicy
) -> None:
    registry = Registry()
    tokens: list[weakref.ref[ExecutionToken]] = []
    registry.observe(lambda execution, _result: tokens.append(weakref.ref(execution.token)))

    @registry.tool(name="work", concurrency_safe=True)
    async def body(number: int) -> int:
        await trio.sleep(number)
        if number == 1:
            raise ToolError("one", code="ONE")
        return number

    def batches() -> int:
        return sum(type(each).__module__ == "trio_tools._batch" for each in gc.get_objects())

    gc.collect()
    gc.disable()
    before = batches()
    try:
        async with open_call_scope() as scope:
            results = await registry.execute_batch(
                [call(scope, "work", number=number) for number in range(4)],
                max_parallel=2,
                on_failure=policy,
            )
            alive = [token for token in tokens if token() is not None]
        left = batches() - before
    finally:
        gc.enable()

    assert len(tokens) == len(results) == 4
    assert alive == []
    assert left <= 0
