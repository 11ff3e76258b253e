"""A small application: a travel desk, where a traveller presses stop before her seat is booked.

It has tools in two layers, a wrapper that limits some of them, a record, and a button that cancels.

python examples/travel_desk.py
trio-tools runs --store trips.sqlite3
"""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import trio

from trio_tools import (
    CallScope,
    DispatchExecution,
    Effect,
    Registry,
    ToolCall,
    ToolContext,
    ToolResult,
    WriteKind,
    open_call_scope,
)
from trio_tools.trace import RunTimeline, RunTrace, open_store, render

house = Registry()
"""What everybody at the desk may ask for."""

ada = house.layer("ada")
"""What one traveller may ask for: her own tools, and those of the house."""


@house.tool(effect=Effect.READ_ONLY, concurrency_safe=True)
async def next_train(start: str, end: str) -> str:
    """Say which train leaves next from one city to another."""
    await trio.sleep(0.02)
    return f"the 08:12 from {start} to {end}"


@house.tool(effect=Effect.READ_ONLY, concurrency_safe=True)
async def forecast(city: str) -> str:
    """Say what the weather will be; the service is slow today."""
    await trio.sleep(60)
    return f"rain in {city}"


@ada.tool(effect=Effect.NON_IDEMPOTENT_WRITE)
async def book(train: str, *, ctx: ToolContext) -> str:
    """Book a seat; the railway takes its time."""
    ctx.progress(1, 2, "the seat is held")
    await trio.sleep(60)
    ctx.wrote("bookings", 1, WriteKind.CREATED)
    return f"a seat on {train}"


@house.wrap
async def limit_questions(
    execution: DispatchExecution, proceed: Callable[[DispatchExecution], Awaitable[ToolResult]]
) -> ToolResult:
    """Give a question 0.2 seconds; to cut a booking short is the traveller's to do, not the house's."""
    if execution.tool is not None and execution.tool.effect is Effect.READ_ONLY:
        execution = execution.with_timeout(0.2, name="the limit on questions")
    return await proceed(execution)


async def press_stop(scope: CallScope) -> None:
    """Do what the traveller does: wait for a while, and press the button."""
    await trio.sleep(0.6)
    scope.cancel("changed her mind")


async def plan_a_trip(scope: CallScope) -> list[ToolResult]:
    """Ask two questions at once, and book a seat on the train that was found."""
    train, weather = await ada.execute_batch(
        [
            ToolCall(name="next_train", arguments={"start": "Graz", "end": "Wien"}, scope=scope),
            ToolCall(name="forecast", arguments={"city": "Wien"}, scope=scope),
        ]
    )
    booking = await ada.execute(ToolCall(name="book", arguments={"train": train.text}, scope=scope))
    return [train, weather, booking]


async def main() -> None:
    run_id = datetime.now(UTC).strftime("trip-%Y%m%dT%H%M%S")
    async with open_store("trips.sqlite3") as store:
        trace = RunTrace(run_id, store=store)
        with trace.attach(house):
            async with open_call_scope(name="ada") as scope, trio.open_nursery() as nursery:
                # There are two buttons: this one, and `trio-tools runs cancel` in another terminal.
                nursery.start_soon(press_stop, scope)
                trace.cancel_on_request(scope)
                results = await plan_a_trip(scope)
                nursery.cancel_scope.cancel()
    for step, result in zip(trace.steps, results, strict=True):
        why = result.text if result.cause is None else f"{result.cause.kind}, {result.cause.name}"
        print(f"{step.tool_name}: {result.outcome}, body {result.settlement}: {why}")
    async with open_store("trips.sqlite3") as store:
        print()
        print(render(await RunTimeline.load(store, run_id)), end="")


if __name__ == "__main__":
    trio.run(main)
