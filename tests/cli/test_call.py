"""``trio-tools call``: the text of the result, or one line that says what to do."""

from __future__ import annotations

import io
import json
import shlex
import sys
from pathlib import Path

import pytest

from tests.mcp.helpers import HOSTILE
from trio_tools.cli import main

TOOLS = '''
import trio
from trio_tools import Registry, tool

@tool
async def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello, {name}!"

@tool
async def fail() -> str:
    """Fail in two lines."""
    raise ValueError("first\\nsecond")

@tool(timeout=0.1)
async def dawdle() -> str:
    """Take longer than allowed."""
    await trio.sleep_forever()
    raise AssertionError

@tool
async def hang() -> str:
    """Never end."""
    await trio.sleep_forever()
    raise AssertionError

TOOLS = [greet, fail, dawdle, hang]
EVERYTHING = Registry()
for each in TOOLS:
    EVERYTHING.register(each)
TWICE = [greet, greet]
NUMBER = 3
'''


@pytest.fixture
def target(tmp_path: Path) -> str:
    file = tmp_path / "kitchen.py"
    file.write_text(TOOLS)
    return str(file)


Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize("name", ["greet", "TOOLS", "EVERYTHING"])
def test_a_tool_is_called_by_any_target_that_holds_it(name: str, target: str, capsys: Capture) -> None:
    status = main(["call", f"{target}:{name}", "greet", '{"name": "Ada"}'])

    assert (status, capsys.readouterr().out) == (0, "Hello, Ada!\n")


def test_a_target_is_a_module_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "modules", {**sys.modules})

    assert main(["call", "kitchen:greet", "greet", '{"name": "Ada"}']) == 0
    assert capsys.readouterr().out == "Hello, Ada!\n"


def test_arguments_are_read_from_standard_input(
    monkeypatch: pytest.MonkeyPatch, target: str, capsys: Capture
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"name": "Ada"}'))

    assert main(["call", f"{target}:greet", "greet", "-"]) == 0
    assert capsys.readouterr().out == "Hello, Ada!\n"


def test_the_whole_result_is_printed_as_json(target: str, capsys: Capture) -> None:
    status = main(["call", f"{target}:dawdle", "dawdle", "--json"])
    result = json.loads(capsys.readouterr().out)

    assert status == 1
    assert result["outcome"] == "failed"
    assert result["code"] == "TOOL_TIMEOUT"
    assert result["cause"] == {"kind": "deadline", "name": "timeout", "reason": None}
    assert result["dispatched"] is True


def test_the_timeout_of_the_command_cancels_the_call(target: str, capsys: Capture) -> None:
    assert main(["call", f"{target}:TOOLS", "hang", "{}", "--timeout", "0.3"]) == 1
    said = capsys.readouterr().err

    assert said == "trio-tools: hang: cancelled, ABORTED: tool call aborted (deadline:command)\n"


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["TOOLS", "gret"], 1, 'UNKNOWN_TOOL: unknown tool "gret"; there are: greet, fail, dawdle, hang'),
        (["TOOLS", "greet", '{"name": 3}'], 1, 'INVALID_ARGS: invalid arguments: "name" must be a string'),
        (["TOOLS", "fail"], 1, "fail: failed, TOOL_ERROR: first second"),
        (["TOOLS", "greet", "name=Ada"], 2, "no JSON: Expecting value: line 1 column 1 (char 0); write"),
        (["TOOLS", "greet", '{"name": NaN}'], 2, "no JSON: NaN is not JSON; write them like"),
        (["TOOLS", "greet", '{"a": 1, "a": 2}'], 2, "an object has the same key twice; write them like"),
        (["TOOLS", "greet", "[" * 100_000], 2, "no JSON: nested too deeply; write them like"),
        (["NOTHING", "greet"], 2, "NOTHING; it has greet, fail, dawdle, hang, TOOLS, EVERYTHING"),
        (["NUMBER", "greet"], 2, "NUMBER: this is a int, not a tool, a list of tools or a registry"),
        (["TWICE", "greet"], 2, "greet"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_and_an_exit_code(
    words: list[str], status: int, said: str, target: str, capsys: Capture
) -> None:
    assert main(["call", f"{target}:{words[0]}", *words[1:]]) == status
    captured = capsys.readouterr()

    assert captured.out == ""
    assert said in captured.err
    assert captured.err.startswith("trio-tools: ")
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("nowhere.py:TOOLS", "nowhere.py:TOOLS: there is no file nowhere.py"),
        ("no_such_module:TOOLS", "no_such_module:TOOLS: there is no module no_such_module"),
        ("json.no_such:TOOLS", "json.no_such:TOOLS: there is no module json.no_such"),
        ("json:TOOLS", "json:TOOLS: json has no TOOLS; it defines no tool, list of tools or registry"),
        ("json", "json: a target is pkg.mod:NAME or path/file.py:NAME"),
        ("mcp:", "mcp:: name the server to start"),
        (
            "mcp:no-such-server",
            'server "no-such-server" did not start: there is no no-such-server; install it',
        ),
    ],
)
def test_a_target_that_is_none_is_one_line(target: str, said: str, capsys: Capture) -> None:
    status = main(["call", target, "greet"])
    captured = capsys.readouterr().err

    assert status in (1, 2)
    assert captured.startswith(f"trio-tools: {said}")
    assert captured.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import no_such_library", "it imports no_such_library, which is not installed"),
        ("def f(:", "importing it failed: SyntaxError: invalid syntax"),
        ("x = 1\nx / 0", "importing it failed: ZeroDivisionError: division by zero (broken.py, line 2)"),
        # The line of the module itself, not of the library that it called.
        ("import trio\ntrio.run(trio.sleep, 0)", "from inside a run() (broken.py, line 2)"),
        ("import json\njson.loads('{')", " (broken.py, line 2)"),
        ("from trio_tools import tool\n\n@tool\nasync def f(x): ...", " (broken.py, line 3)"),
    ],
)
def test_a_target_that_cannot_be_imported_is_one_line(
    text: str, said: str, tmp_path: Path, capsys: Capture
) -> None:
    file = tmp_path / "broken.py"
    file.write_text(text)

    assert main(["call", f"{file}:TOOLS", "greet"]) == 2
    captured = capsys.readouterr().err
    assert said in captured
    assert captured.count("\n") == 1


@pytest.mark.parametrize("seconds", ["-1", "nan", "soon"])
def test_a_timeout_that_is_none_is_a_wrong_usage(seconds: str, target: str, capsys: Capture) -> None:
    assert main(["call", f"{target}:greet", "greet", "{}", f"--timeout={seconds}"]) == 2
    assert "argument --timeout: invalid number of seconds value" in capsys.readouterr().err


def test_a_remote_tool_is_called_like_a_local_one(capsys: Capture) -> None:
    server = f"mcp:{shlex.join(HOSTILE)}"

    assert main(["call", server, "echo", '{"text": "there and back"}']) == 0
    assert capsys.readouterr().out == "there and back\n"
    assert main(["call", server, "die"]) == 1
    assert capsys.readouterr().err == (
        'trio-tools: die: failed, TOOL_ERROR: server "hostile_server.py" ended (exit status 3) while '
        '"die" ran; '
        "whether it took effect is unknown\n"
    )


def test_a_remote_server_that_does_not_start_is_one_line(capsys: Capture) -> None:
    assert main(["call", f"mcp:{shlex.join((*HOSTILE, '--exit', '2'))}", "echo"]) == 1
    said = capsys.readouterr().err

    assert said.startswith('trio-tools: server "hostile_server.py" did not start: it ended (exit status 2)')
    assert said.count("\n") == 1
