"""The tools of a real server process that behaves well, badly, and not at all."""

from __future__ import annotations

import json
import logging
import math
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import trio
import trio.testing

from trio_tools import (
    TOOL_ABORTED,
    TOOL_ABORTED_BEFORE_DISPATCH,
    CallScope,
    CauseKind,
    Effect,
    ImageContent,
    Registry,
    Settlement,
    TextContent,
    ToolOutcome,
    ToolResult,
    TransportError,
    open_call_scope,
)
from trio_tools.mcp import open_mcp_toolset
from trio_tools.mcp._connection import _FIRST_ID
from trio_tools.mcp._toolset import _label, _part, _render

from .helpers import (
    GRACE,
    HOSTILE,
    call,
    call_in,
    cancelled_call,
    hostile,
    number_in,
    registry_of,
    runs,
    written,
)


def _cancel_notices(result: ToolResult) -> list[int]:
    messages = json.loads(result.text)
    return [m["params"]["requestId"] for m in messages if m["method"] == "notifications/cancelled"]


async def test_a_call_goes_to_the_server_and_comes_back() -> None:
    async with hostile() as registry:
        result = await call(registry, "echo", {"text": "über\nzwei"})

    assert result.outcome is ToolOutcome.OK
    assert result.value == "über\nzwei"
    assert result.text == "über\nzwei"


async def test_the_list_of_tools_is_read_to_its_last_page() -> None:
    async with hostile() as registry, hostile("--pages") as paged:
        names = [schema["name"] for schema in registry.schemas()]

        assert [schema["name"] for schema in paged.schemas()] == names


async def test_a_server_that_knows_no_handshake_is_asked_what_it_speaks() -> None:
    async with hostile("--modern") as registry:
        result = await call(registry, "echo", {"text": "2026"})

    assert result.text == "2026"


async def test_arguments_that_the_wire_cannot_carry_fail_the_call_alone() -> None:
    deep: dict[str, object] = {}
    for _ in range(400):
        deep = {"a": deep}
    async with hostile() as registry:
        result = await call(registry, "received", deep)
        after = await call(registry, "echo", {"text": "still there"})

    assert result.text.startswith('Error: the request for "received" cannot be sent to server "hostile": ')
    assert after.text == "still there"


async def test_arguments_and_values_are_held_to_the_schemas_of_the_server() -> None:
    async with hostile() as registry:
        refused = await call(registry, "echo", {"text": 3})
        right = await call(registry, "add")
        wrong = await call(registry, "wrong_output")

    assert (refused.code, refused.dispatched) == ("INVALID_ARGS", False)
    assert right.value == {"sum": 3}
    assert (wrong.code, wrong.dispatched) == ("INVALID_TOOL_OUTPUT", True)


async def test_pictures_stay_pictures() -> None:
    async with hostile() as registry:
        result = await call(registry, "picture")

    assert result.content == (TextContent("see"), ImageContent("aGk=", "image/png"))


async def test_what_is_no_message_on_the_wire_is_passed_over() -> None:
    async with hostile() as registry:
        result = await call(registry, "babbles")

    assert result.text == "said"


async def test_progress_reaches_the_statistics_of_the_registry() -> None:
    async with hostile() as registry:
        result = await call(registry, "progress")

    assert result.text == "done"


async def test_progress_that_is_no_number_costs_neither_the_call_nor_the_connection() -> None:
    async with hostile() as registry:
        result = await call(registry, "overflows")
        after = await call(registry, "echo", {"text": "still there"})

    assert result.text == "done"
    assert after.text == "still there"


@pytest.mark.rule("TP-7")
async def test_remote_tools_are_of_unknown_effect_and_exclusive_unless_their_user_knows_better() -> None:
    async with open_mcp_toolset(HOSTILE, timeout=3, concurrency_safe={"echo"}) as tools:
        effects = {tool.effect for tool in tools}
        safe = [tool.name for tool in tools if tool.concurrency_safe]
        timeouts = {tool.timeout for tool in tools}

    assert effects == {Effect.UNKNOWN}
    assert safe == ["echo"]
    assert timeouts == {3}


@pytest.mark.rule("TP-2", "TP-4", "TP-8", "OU-3")
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("says_cancelled", 'server "hostile" answered "says_cancelled" with an error: Request cancelled'),
        ("refuses", 'server "hostile" answered "refuses" with an error: no such file: [2Jx.txt'),
        (
            "malformed",
            'server "hostile" gave a malformed answer to "malformed": the answer is not a JSON-RPC message',
        ),
        (
            "illegible",
            'server "hostile" gave a malformed answer to "illegible": the answer is not a JSON-RPC message',
        ),
        (
            "no_result",
            'server "hostile" gave a malformed answer to "no_result": the answer is no tool result',
        ),
    ],
)
async def test_an_answer_that_is_an_error_or_nonsense_fails_the_call(name: str, said: str) -> None:
    async with hostile() as registry:
        result = await call(registry, name)
        after = await call(registry, "echo", {"text": "still there"})

    assert (result.outcome, result.code) == (ToolOutcome.FAILED, "TOOL_ERROR")
    assert result.settlement is Settlement.RAISED
    assert result.cause is None
    assert result.error is not None
    assert result.error.message == said
    assert after.text == "still there"


@pytest.mark.rule("TP-8")
async def test_a_long_remote_message_is_clipped_and_stripped() -> None:
    async with hostile() as registry:
        result = await call(registry, "control")

    assert result.error is not None
    said = result.error.message.partition("with an error: ")[2]
    assert len(said) == 200
    assert said.startswith("]0;owned ab long long")
    assert said.isprintable()


@pytest.mark.rule("TP-5", "TP-6")
async def test_case_38_a_cancelled_call_tells_the_server_once_and_waits_for_the_grace() -> None:
    async with hostile() as registry:
        begun = trio.current_time()
        result = await cancelled_call(registry, "hang")
        took = trio.current_time() - begun
        received = await call(registry, "received")

    assert (result.outcome, result.code) == (ToolOutcome.CANCELLED, TOOL_ABORTED)
    assert result.settlement is Settlement.CANCELLED
    assert result.cause is not None
    assert result.cause.kind is CauseKind.CALLER
    assert _cancel_notices(received) == [_FIRST_ID]
    assert took >= GRACE


@pytest.mark.rule("TP-5")
async def test_a_server_that_finishes_within_the_grace_is_not_waited_for_any_longer() -> None:
    async with hostile(grace=600) as registry:
        with trio.fail_after(90):
            result = await cancelled_call(registry, "obliging")

    assert (result.outcome, result.code) == (ToolOutcome.CANCELLED, TOOL_ABORTED)
    assert result.settlement is Settlement.RETURNED


@pytest.mark.rule("TP-4", "CA-3")
async def test_a_tool_that_fails_within_the_grace_has_failed() -> None:
    async with hostile(grace=600) as registry:
        result = await cancelled_call(registry, "sulky")

    assert (result.outcome, result.code) == (ToolOutcome.FAILED, "TOOL_ERROR")
    assert result.error is not None
    assert "the oven is still hot" in result.error.message


@pytest.mark.rule("TP-1", "TP-3")
async def test_a_protocol_error_that_answers_a_withdrawal_ends_the_call_as_cancelled() -> None:
    async with hostile(grace=600) as registry:
        result = await cancelled_call(registry, "spiteful")

    assert (result.outcome, result.code) == (ToolOutcome.CANCELLED, TOOL_ABORTED)
    assert result.settlement is Settlement.RAISED
    assert result.cause is not None
    assert (result.cause.kind, result.cause.name) == (CauseKind.CALLER, "test")


@pytest.mark.rule("TP-4")
async def test_an_answer_after_the_grace_finds_nobody() -> None:
    async with hostile(grace=0.05) as registry:
        late = await cancelled_call(registry, "late")
        # The late answer comes after about 0.15 s.
        await trio.sleep(0.2)
        after = await call(registry, "echo", {"text": "mine"})

    assert late.code == TOOL_ABORTED
    assert late.settlement is Settlement.CANCELLED
    assert after.text == "mine"


@pytest.mark.rule("TP-5")
async def test_a_call_cancelled_before_it_starts_sends_nothing() -> None:
    async with hostile() as registry:
        result = await call(registry, "hang", seconds=0)
        received = await call(registry, "received")

    assert result.code == TOOL_ABORTED_BEFORE_DISPATCH
    methods = [(m["method"], m.get("params", {}).get("name")) for m in json.loads(received.text)]
    assert methods[-1] == ("tools/call", "received")
    assert methods[-2][0] == "tools/list"


@pytest.mark.slow
@pytest.mark.rule("TP-5")
async def test_a_server_that_does_not_read_cannot_hold_a_cancelled_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("trio_tools.mcp._connection._NOTICE_SECONDS", 0.05)
    async with hostile(grace=3) as registry:
        deaf = await cancelled_call(registry, "deaf")
        # Far more than a pipe holds: this request stays half written.
        stuck = await cancelled_call(registry, "echo", {"text": "x" * 500_000})
        # And this one waits behind it, so that not one byte of it is written, and none is waited for.
        begun = trio.current_time()
        behind = await cancelled_call(registry, "hang")
        took = trio.current_time() - begun

    assert [deaf.code, stuck.code, behind.code] == [TOOL_ABORTED] * 3
    assert took < 3


@pytest.mark.rule("TP-6")
async def test_case_39_cancelling_leaves_the_connection_as_it_was() -> None:
    async with hostile(grace=0.01) as registry:
        before = await call(registry, "pid")
        for _ in range(5):
            await cancelled_call(registry, "hang")
        after = await call(registry, "pid")

    assert before.text == after.text


@pytest.mark.rule("TP-6")
async def test_cancelling_one_of_two_calls_spares_the_other() -> None:
    async with (
        hostile(grace=0.01) as registry,
        trio.open_nursery() as nursery,
        open_call_scope(name="first") as first,
        open_call_scope(name="second") as second,
    ):
        ended: list[str] = []

        async def hang(scope: CallScope) -> None:
            await call_in(scope, registry, "hang")
            ended.append(scope.name)

        nursery.start_soon(hang, first)
        nursery.start_soon(hang, second)
        await trio.testing.wait_all_tasks_blocked()
        first.cancel()
        while not ended:  # noqa: ASYNC110  (the grace is real time)
            await trio.sleep(0.001)
        await trio.testing.wait_all_tasks_blocked()
        assert ended == ["first"]
        second.cancel()
        received = await call(registry, "received")

    assert len(_cancel_notices(received)) == 2
    assert ended == ["first", "second"]


async def test_a_declared_timeout_is_the_tools_own() -> None:
    async with open_mcp_toolset(HOSTILE, name="hostile", timeout=0.1, grace=0.01) as tools:
        registry = registry_of(tools)
        result = await call(registry, "hang")

    assert (result.outcome, result.code) == (ToolOutcome.FAILED, "TOOL_TIMEOUT")


@pytest.mark.rule("TP-2", "TP-7")
@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("die", "ended (exit status 3)"),
        ("killed", "ended (killed by signal 9)"),
        ("close_output", "closed its output"),
    ],
)
async def test_case_40_a_server_that_goes_away_in_mid_call_fails_the_call(
    name: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trio_tools.mcp._transport._DRAIN_SECONDS", 0.1)
    async with hostile() as registry:
        with trio.fail_after(90):
            result = await call(registry, name)
            after = await call(registry, "echo", {"text": "anybody?"})

    assert (result.outcome, result.code) == (ToolOutcome.FAILED, "TOOL_ERROR")
    assert result.error is not None
    assert result.error.message == (
        f'server "hostile" {how} while "{name}" ran; whether it took effect is unknown'
    )
    assert (after.outcome, after.code) == (ToolOutcome.FAILED, "TOOL_ERROR")
    assert after.error is not None
    assert after.error.message == f'server "hostile" {how}; "echo" was not sent'


async def test_a_server_that_died_is_noticed_though_its_child_holds_the_pipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trio_tools.mcp._transport._DRAIN_SECONDS", 0.05)
    async with hostile("--grandchild", str(tmp_path / "pid")) as registry:
        grandchild = await written(tmp_path / "pid")
        with trio.fail_after(90):
            result = await call(registry, "killed")

    assert result.code == "TOOL_ERROR"
    assert not runs(grandchild)


@pytest.mark.rule("TP-1", "TP-3")
async def test_closing_the_toolset_under_a_running_call_cancels_it() -> None:
    results: list[ToolResult] = []

    async def hang(registry: Registry) -> None:
        results.append(await call(registry, "hang"))

    async with trio.open_nursery() as nursery, hostile() as registry:
        nursery.start_soon(hang, registry)
        await trio.testing.wait_all_tasks_blocked()

    (result,) = results
    assert (result.outcome, result.code) == (ToolOutcome.CANCELLED, TOOL_ABORTED)
    assert result.settlement is Settlement.RAISED
    assert result.cause is not None
    assert (result.cause.kind, result.cause.name) == (CauseKind.AMBIENT, "transport")


@pytest.mark.rule("TP-2")
async def test_a_tool_that_outlives_its_toolset_fails() -> None:
    async with hostile() as registry:
        pass
    result = await call(registry, "echo", {"text": "?"})

    assert result.code == "TOOL_ERROR"
    assert result.text == 'Error: the connection to server "hostile" is closed; open it again'


@pytest.mark.rule("TP-2")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ("--exit", "1"),
            "it ended (exit status 1) before it had answered; it said: ModuleNotFoundError: No module",
        ),
        (("--refuse", "no \x1bway"), "it answered the handshake with an error: no way"),
        (("--nonsense",), "a malformed answer to the handshake (ValidationError)"),
        (
            ("--endless",),
            "it answered the handshake with an error: the list of tools does not end after 5 pages",
        ),
    ],
)
async def test_a_server_that_does_not_start_says_so_in_one_line(
    options: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trio_tools.mcp._connection._MOST_PAGES", 5)
    with pytest.raises(TransportError) as caught:
        async with hostile(*options):
            pass

    assert str(caught.value).startswith(f'server "hostile" did not start: {said}')
    assert str(caught.value).isprintable()
    assert not caught.value.cancelled


async def test_a_server_that_never_answers_is_given_up_and_ended(tmp_path: Path) -> None:
    with pytest.raises(
        TransportError, match=r"no answer to the handshake within 0\.1 s; is it an MCP server"
    ):
        async with hostile("--silent", "--pid", str(tmp_path / "pid"), start_timeout=0.1):
            pass

    # It may have been ended before it wrote its number.
    pid = number_in(tmp_path / "pid")
    assert pid is None or not runs(pid)


async def test_opening_is_cancelled_like_anything_else(tmp_path: Path) -> None:
    # A server that is still starting is not waited for: it might not look at its input for long.
    with trio.fail_after(90), trio.move_on_after(0.1) as scope:
        async with open_mcp_toolset(
            (*HOSTILE, "--silent", "--ignore-eof", "--pid", str(tmp_path / "pid")), stop_grace=300
        ):
            pass

    assert scope.cancelled_caught
    # It may have been ended before it wrote its number.
    pid = number_in(tmp_path / "pid")
    assert pid is None or not runs(pid)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (
            "no-such-mcp-server --now",
            'server "no-such-mcp-server" did not start: there is no no-such-mcp-server; install',
        ),
        ("/", 'server "" did not start: /: Permission denied; correct the command'),
        ("'unfinished", "its command cannot be read: No closing quotation"),
    ],
)
async def test_a_command_that_cannot_be_started_says_so_in_one_line(command: str, said: str) -> None:
    with pytest.raises(TransportError) as caught:
        async with open_mcp_toolset(command):
            pass

    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("command", "grace", "start_timeout"), [("", 1, 1), ([], 1, 1), ("true", -1, 1), ("true", 1, math.nan)]
)
async def test_a_toolset_that_makes_no_sense_is_a_value_error(
    command: str | list[str], grace: float, start_timeout: float
) -> None:
    with pytest.raises(ValueError, match=r"empty|zero or more"):
        async with open_mcp_toolset(command, grace=grace, start_timeout=start_timeout):
            pass


async def test_case_22_toolsets_are_left_in_any_order_and_from_any_task(tmp_path: Path) -> None:
    first, second = AsyncExitStack(), AsyncExitStack()
    registries = [await stack.enter_async_context(hostile()) for stack in (first, second)]
    pids = [int((await call(registry, "pid")).text) for registry in registries]

    await first.aclose()
    still = await call(registries[1], "echo", {"text": "here"})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(second.aclose)

    assert still.text == "here"
    assert not any(map(runs, pids))


async def test_case_23_concurrent_calls_share_a_connection_and_nothing_else() -> None:
    texts: dict[int, str] = {}
    async with hostile() as registry:

        async def echo(number: int) -> None:
            texts[number] = (await call(registry, "echo", {"text": f"text {number}"})).text

        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(echo, number)

    assert texts == {number: f"text {number}" for number in range(20)}


async def test_an_exception_in_the_block_ends_the_server_too(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        async with hostile("--pid", str(tmp_path / "pid")):
            raise ZeroDivisionError

    assert not runs(await written(tmp_path / "pid"))


def _write_server(file: Path, add: str) -> None:
    """Write the hostile server with another definition of the tool ``add``."""
    text = Path(HOSTILE[-1]).read_text()
    assert '{"name": "add", "inputSchema": ANY,' in text
    file.write_text(text.replace('{"name": "add", "inputSchema": ANY,', add))


async def test_a_tool_whose_schema_cannot_be_enforced_is_left_out_and_told(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    server = tmp_path / "odd.py"
    odd = {"type": "object", "properties": {"a": {"type": "no type"}}}
    _write_server(server, f'{{"name": "add", "inputSchema": {odd},')
    with caplog.at_level(logging.WARNING, logger="trio_tools.mcp"):
        async with open_mcp_toolset((*HOSTILE[:-1], str(server)), name="odd") as tools:
            names = [tool.name for tool in tools]

    assert "echo" in names
    assert "add" not in names
    assert 'server "odd": its tool "add" is left out' in caplog.text


async def test_what_only_its_server_can_enforce_costs_no_tool(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    server = tmp_path / "rusty.py"
    odd = {"type": "object", "properties": {"a": {"type": "integer", "format": "uint32"}}, "x-order": 1}
    _write_server(server, f'{{"name": "add", "inputSchema": {odd},')
    with caplog.at_level(logging.INFO, logger="trio_tools.mcp"):
        async with open_mcp_toolset((*HOSTILE[:-1], str(server)), name="rusty") as tools:
            registry = registry_of(tools)
            refused = await call(registry, "add", {"a": "one"})
            schema = next(tool.parameters for tool in tools if tool.name == "add")

    assert schema == {"type": "object", "properties": {"a": {"type": "integer"}}}
    assert refused.code == "INVALID_ARGS"
    assert 'of its tool "add" it is left to the server to keep: format uint32, x-order' in caplog.text
    assert "left out" not in caplog.text


@pytest.mark.parametrize(
    ("command", "label"),
    [
        (["/usr/bin/python3.11", "-m", "mcp_server_git", "--repository", "/x"], "mcp_server_git"),
        (["npx", "-y", "@scope/server-files", "/data"], "server-files"),
        (["./my-server", "--fast"], "my-server"),
        (["python", "-"], "python"),
        (["sh", "-c", "cd /srv && exec ./serve --port 7"], "sh"),
        (["/usr/bin/python3", "-c", "import kitchen"], "python3"),
    ],
)
def test_a_server_is_called_by_the_word_that_says_most(command: list[str], label: str) -> None:
    assert _label(command) == label


def test_values_are_rendered_as_a_server_means_them() -> None:
    assert _render({}, "text") == "text"
    assert _render({}, {"result": "wrapped text"}) == "wrapped text"
    assert _render({}, {"sum": 3, "naïve": True}) == '{"sum":3,"naïve":true}'
    assert _render({}, [1, None]) == "[1,null]"
    assert _part({"type": "resource", "resource": {"text": "inside", "uri": "x:y"}}) == TextContent("inside")
    assert _part({"type": "resource_link", "uri": "x:y"}) == TextContent("x:y")
    assert _part({"type": "audio", "data": "", "mimeType": "audio/wav"}) == TextContent("[audio]")
    assert _part({"odd": 1}) == TextContent('{"odd":1}')
