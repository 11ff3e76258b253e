"""Press the stop button in the middle of a batch, and see what became of each call."""

import trio

from trio_tools import CallScope, Registry, ToolCall, open_call_scope

registry = Registry()


@registry.tool
async def bake(what: str, minutes: float) -> str:
    """Bake something; a minute of it takes a hundredth of a second."""
    await trio.sleep(minutes / 100)
    return f"one {what}, baked"


async def press_stop(scope: CallScope) -> None:
    await trio.sleep(0.2)
    scope.cancel("the guests are not coming")


async def main() -> None:
    menu = {"bread": 5.0, "cake": 40.0, "pie": 10.0}
    async with open_call_scope(name="kitchen") as scope, trio.open_nursery() as nursery:
        nursery.start_soon(press_stop, scope)
        results = await registry.execute_batch(
            ToolCall(name="bake", arguments={"what": what, "minutes": minutes}, scope=scope)
            for what, minutes in menu.items()
        )
    for what, result in zip(menu, results, strict=True):
        print(f"{what}: {result.outcome}, {result.code or result.text}, body {result.settlement}")


if __name__ == "__main__":
    trio.run(main)
