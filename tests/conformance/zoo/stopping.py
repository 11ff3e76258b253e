"""TT-01 to TT-04: stopping, and what becomes of the cancellation."""

from __future__ import annotations

from contextlib import suppress

import trio

from tests.conformance.zoo.specimen import breaks, keeps
from trio_tools import Registry, ToolCall, open_call_scope, tool


@breaks("TT-01")
@tool
async def works_in_shielded_chunks() -> int:
    done = 0
    for _ in range(20):
        with trio.CancelScope(shield=True):
            await trio.sleep(1)
        done += 1
    return done


@breaks("TT-01")
@tool
async def waits_for_ever_behind_a_shield() -> None:
    with trio.CancelScope(shield=True):
        await trio.sleep_forever()


@keeps("TT-01")
@tool
async def looks_up_between_shielded_chunks() -> int:
    done = 0
    for _ in range(20):
        with trio.CancelScope(shield=True):
            await trio.sleep(1)
        await trio.lowlevel.checkpoint()
        done += 1
    return done


@keeps("TT-01")
@tool
async def commits_behind_a_short_shield() -> str:
    await trio.sleep(1)
    with trio.CancelScope(shield=True):
        await trio.sleep(2)
    return "committed"


@breaks("TT-02")
@tool
async def goes_on_after_each_item() -> int:
    done = 0
    for _ in range(3):
        try:
            await trio.sleep(1)
        except trio.Cancelled:  # noqa: ASYNC103
            continue
        done += 1
    return done


@breaks("TT-02")
@tool
async def tells_it_as_an_error() -> str:
    try:
        await trio.sleep(1)
    except BaseException:  # noqa: ASYNC103, BLE001
        raise ValueError("interrupted") from None  # noqa: ASYNC104
    return "done"


@breaks("TT-02")
@tool
async def has_a_child_that_goes_on() -> None:
    async def child() -> None:
        for _ in range(2):
            with suppress(trio.Cancelled):
                await trio.sleep(1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(child)
        await trio.sleep(1)


@keeps("TT-02")
@tool
async def notes_it_and_raises_again() -> str:
    noted: list[str] = []
    try:
        await trio.sleep(1)
    except trio.Cancelled:
        noted.append("cancelled")
        raise
    return "done"


@keeps("TT-02")
@tool
async def waits_again_while_cleaning_up() -> str:
    try:
        await trio.sleep(1)
    finally:
        await trio.lowlevel.checkpoint()
    return "done"


@keeps("TT-02")
@tool
async def gives_each_item_a_time_limit() -> int:
    done = 0
    for seconds in (0.5, 2, 0.5):
        with trio.move_on_after(1) as scope:
            await trio.sleep(seconds)
        done += not scope.cancelled_caught
    return done


@keeps("TT-02")
@tool
async def has_a_registry_of_its_own() -> str:
    registry = Registry()

    @registry.tool
    async def inner() -> str:  # pyright: ignore[reportUnusedFunction]
        await trio.sleep(1)
        return "done"

    async with open_call_scope() as scope:
        result = await registry.execute(ToolCall(name="inner", arguments={}, scope=scope))
    return result.text


@breaks("TT-03")
@tool
async def says_that_it_was_aborted() -> str:
    try:
        await trio.sleep(1)
    except trio.Cancelled:  # noqa: ASYNC103
        return "aborted by the user"
    return "done"


@breaks("TT-03")
@tool
async def returns_what_it_has() -> list[int]:
    found: list[int] = []
    for item in range(3):
        try:
            await trio.sleep(1)
        except trio.Cancelled:  # noqa: ASYNC103
            break
        found.append(item)
    return found


@keeps("TT-03")
@tool
async def returns_what_it_has_when_its_own_time_is_up() -> list[int]:
    found: list[int] = []
    with trio.move_on_after(2.5):
        for item in range(5):
            await trio.sleep(1)
            found.append(item)
    return found


@keeps("TT-03")
@tool
async def has_its_value_before_it_could_notice() -> str:
    with trio.CancelScope(shield=True):
        await trio.sleep(1)
    return "committed"


@keeps("TT-03")
@tool
async def cancels_its_own_helper_behind_a_shield() -> str:
    with trio.CancelScope(shield=True), trio.CancelScope() as helper:
        helper.cancel()
        await trio.sleep(1)
    return "done"


@breaks("TT-04")
@tool
async def takes_half_a_minute_to_say_goodbye() -> str:
    try:
        await trio.sleep(1)
    except trio.Cancelled:
        with trio.CancelScope(shield=True):
            await trio.sleep(30)
        raise
    return "done"


@breaks("TT-04")
@tool
async def waits_for_an_answer_that_never_comes() -> str:
    answered = trio.Event()
    try:
        await trio.sleep(1)
    except trio.Cancelled:
        with trio.CancelScope(shield=True):
            await answered.wait()
        raise
    return "done"


@keeps("TT-04")
@tool
async def says_goodbye_within_two_seconds() -> str:
    try:
        await trio.sleep(1)
    except trio.Cancelled:
        with trio.move_on_after(2, shield=True):
            await trio.sleep(30)
        raise
    return "done"


@keeps("TT-04")
@tool
async def says_goodbye_if_it_still_may() -> str:
    try:
        await trio.sleep(1)
    except trio.Cancelled:
        await trio.sleep(30)
        raise
    return "done"
