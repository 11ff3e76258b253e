"""A signal cancels what a command does, and the command says so with its exit code."""

from __future__ import annotations

import os
import signal

import pytest
import trio

from trio_tools.cli import main
from trio_tools.cli._failure import CommandError
from trio_tools.cli._interrupt import run_until_interrupted


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_cancels_the_command_and_waits_for_it(
    number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    ended: list[str] = []

    async def command() -> int:
        try:
            os.kill(os.getpid(), number)
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(0.01)
            ended.append("cleaned up")
        return 0

    before = signal.getsignal(number)

    assert run_until_interrupted(command) == 130
    assert ended == ["cleaned up"]
    assert capsys.readouterr().err == "trio-tools: interrupted; what was running has ended\n"
    assert signal.getsignal(number) is before


def test_a_second_interrupt_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    async def command() -> int:
        os.kill(os.getpid(), signal.SIGINT)
        with trio.CancelScope(shield=True):
            await trio.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)
            await trio.sleep(30)
        return 0

    with pytest.raises(KeyboardInterrupt):
        run_until_interrupted(command)


def test_an_interrupt_before_anything_runs_is_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_args: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("trio_tools.cli._call.run", interrupted)

    assert main(["call", "x:y", "z"]) == 130
    assert capsys.readouterr().err == "trio-tools: interrupted\n"


def test_an_exception_of_the_command_comes_out_of_its_groups() -> None:
    async def command() -> int:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail)
            await trio.sleep_forever()
        return 0

    async def fail() -> None:
        raise CommandError("out of flour")

    with pytest.raises(CommandError, match="out of flour"):
        run_until_interrupted(command)


def test_several_exceptions_stay_a_group() -> None:
    async def command() -> int:
        raise ExceptionGroup("both", [ValueError("one"), ValueError("two")])

    with pytest.raises(ExceptionGroup) as caught:
        run_until_interrupted(command)

    assert [str(error) for error in caught.value.exceptions] == ["one", "two"]
