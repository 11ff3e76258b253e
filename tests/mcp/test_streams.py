"""Lines to messages and back: whole lines, in order, and a malformed answer ends the call that it answers."""

from __future__ import annotations

import json

import anyio
import pytest
import trio
import trio.testing
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from trio_tools.mcp._streams import LineReader, LineWriter, parse_line


def _request(number: int) -> SessionMessage:
    return SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=f"call-{number}", method="tools/call"))


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"Welcome!",
        b"[1, 2",
        b"[1]",
        b"{}",
        b'{"id": null}',
        b'{"id": true}',
        b"[" * 200_000,
        b'{"a":' * 200_000,
    ],
)
def test_a_line_that_is_no_message_is_an_error_that_answers_nobody(line: bytes) -> None:
    assert isinstance(parse_line(line), Exception)


@pytest.mark.rule("TP-2")
@pytest.mark.parametrize("answered", ["call-1", 7])
def test_a_malformed_answer_becomes_an_error_answer_to_the_same_request(answered: str | int) -> None:
    message = parse_line(json.dumps({"jsonrpc": "2.0", "id": answered, "outcome": 1}).encode())

    assert isinstance(message, SessionMessage)
    assert isinstance(message.message, JSONRPCError)
    assert message.message.id == answered


@pytest.mark.rule("TP-2")
@pytest.mark.parametrize(
    "member", [b'"\xff\xfe"', b"1" * 6000, b"[" * 300 + b"]" * 300, b"[" * 200_000, b'"\\ud800"']
)
def test_an_answer_that_cannot_be_read_ends_the_call_that_it_answers(member: bytes) -> None:
    message = parse_line(b'{"jsonrpc":"2.0","id":7,"result":{"a":' + member + b"}}")

    assert isinstance(message, SessionMessage)
    assert isinstance(message.message, JSONRPCError)
    assert message.message.id == 7


def test_an_id_of_too_many_digits_answers_nobody() -> None:
    assert isinstance(parse_line(b'{"jsonrpc":"2.0","id":' + b"1" * 6000 + b',"result":{}}'), Exception)


def test_a_malformed_request_of_the_server_answers_nobody() -> None:
    assert isinstance(parse_line(b'{"id": 1, "method": 3}'), Exception)


async def test_lines_are_put_together_however_they_arrive() -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    seen: list[SessionMessage] = []
    reader = LineReader(theirs.receive_some, seen.append)
    wire = b'{"jsonrpc":"2.0","id":1,"result":{}}\nnoise\n{"jsonrpc":"2.0","method":"notifications/x"}\nhalf'

    async def trickle() -> None:
        for place in range(len(wire)):
            await ours.send_all(wire[place : place + 1])
        await ours.aclose()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trickle)
        items = [item async for item in reader]

    kinds = [type(item.message) if isinstance(item, SessionMessage) else ValueError for item in items]
    assert kinds == [JSONRPCResponse, ValueError, JSONRPCNotification]
    assert seen == [items[0], items[2]]
    assert reader.ended
    with pytest.raises(anyio.EndOfStream):
        await reader.receive()


async def test_a_line_without_end_ends_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trio_tools.mcp._streams._LONGEST_LINE", 1000)

    async def flood() -> bytes:
        await trio.lowlevel.checkpoint()
        return b"x" * 100

    reader = LineReader(flood)

    assert [item async for item in reader] == []


async def test_a_closed_pipe_reads_as_the_end() -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    await ours.aclose()
    await theirs.aclose()
    reader = LineReader(theirs.receive_some)

    assert [item async for item in reader] == []


@pytest.mark.rule("TP-5")
async def test_a_message_given_up_while_another_is_written_is_never_begun(
    autojump_clock: trio.testing.MockClock,
) -> None:
    sent: list[bytes] = []
    started: list[object] = []

    async def slow(line: bytes) -> None:
        await trio.sleep(1)
        sent.append(line)

    writer = LineWriter(slow, started.append)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.send, _request(1))
        await trio.testing.wait_all_tasks_blocked()
        with trio.move_on_after(0.5):
            await writer.send(_request(2))

    assert started == ["call-1"]
    assert len(sent) == 1


async def test_a_message_that_is_begun_is_written_to_its_end(autojump_clock: trio.testing.MockClock) -> None:
    sent: list[bytes] = []

    async def slow(line: bytes) -> None:
        for _ in range(10):
            await trio.sleep(1)
        sent.append(line)

    with trio.move_on_after(0.5) as scope:
        await LineWriter(slow).send(_request(1))

    assert [json.loads(line)["id"] for line in sent] == ["call-1"]
    assert scope.cancel_called


async def test_writing_to_a_closed_pipe_is_a_broken_resource() -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    await theirs.aclose()
    await ours.aclose()

    with pytest.raises(anyio.BrokenResourceError):
        await LineWriter(ours.send_all).send(_request(1))
