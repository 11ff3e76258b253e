"""An MCP server in plain Python that misbehaves on request; started by the tests as a real process.

It speaks JSON-RPC by hand, so that it can do what no SDK would: die in the middle of a call, answer a
cancelled call late, answer with nonsense, ignore signals. It remembers every message it was sent; the
tool ``received`` gives them back.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any, cast

options = argparse.ArgumentParser()
options.add_argument("--exit", type=int, help="say something on stderr and end at once with this status")
options.add_argument("--silent", action="store_true", help="never answer anything")
options.add_argument("--refuse", help="answer the handshake with this error")
options.add_argument("--ignore-eof", action="store_true", help="live on when the input is closed")
options.add_argument("--ignore-sigterm", action="store_true", help="live on when asked to terminate")
options.add_argument("--grandchild", help="start a process that sleeps, and write its number to this file")
options.add_argument("--pid", help="write the number of this process to this file")
options.add_argument("--nonsense", action="store_true", help="answer the handshake with nonsense")
options.add_argument("--modern", action="store_true", help="know no handshake, only the newer protocol")
options.add_argument("--endless", action="store_true", help="list the same page of tools for ever")
options.add_argument("--pages", action="store_true", help="list one tool a page")
OPTIONS = options.parse_args()

Json = dict[str, Any]

RECEIVED: list[Json] = []
LOCK = threading.Lock()
ANY: Json = {"type": "object"}
TOOLS: list[Json] = [
    {"name": "echo", "description": "Give back the text.", "inputSchema": {
        "type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}},
    {"name": "add", "inputSchema": ANY, "outputSchema": {
        "type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}},
    {"name": "wrong_output", "inputSchema": ANY, "outputSchema": {
        "type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}},
    *({"name": name, "inputSchema": ANY} for name in (
        "hang", "late", "obliging", "spiteful", "sulky", "die", "killed", "close_output", "says_cancelled",
        "refuses", "babbles", "malformed", "no_result", "picture", "progress", "received", "pid", "control",
        "deaf", "overflows", "illegible")),
]  # fmt: skip


def send(message: Json) -> None:
    with LOCK:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def answer(request: Json, result: Json) -> None:
    send({"jsonrpc": "2.0", "id": request["id"], "result": result})


def refuse(request: Json, text: str, code: int = -32000) -> None:
    send({"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": text}})


def text(words: str, **more: object) -> Json:
    return {"content": [{"type": "text", "text": words}], **more}


# What is still to be answered once its cancellation arrives, and how.
OPEN: dict[object, tuple[str, Json]] = {}


def call(request: Json) -> None:
    name: str = request["params"]["name"]
    arguments: Json = request["params"].get("arguments", {})
    match name:
        case "echo":
            answer(request, text(arguments["text"], **({"resultType": "complete"} if OPTIONS.modern else {})))
        case "add":
            answer(request, text("three", structuredContent={"sum": 3}))
        case "wrong_output":
            answer(request, text("three", structuredContent={"sum": "three"}))
        case "hang":
            pass
        case "late" | "obliging" | "spiteful" | "sulky":
            OPEN[request["id"]] = (name, request)
        case "die":
            sys.stderr.write("first words\nfatal: \x1b[31mdisk on fire\n")
            sys.stderr.flush()
            os._exit(3)
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "close_output":
            os.close(1)
        case "says_cancelled":
            refuse(request, "Request cancelled", code=-32800)
        case "refuses":
            answer(request, text("no such\nfile: \x1b[2Jx.txt", isError=True))
        case "control":
            refuse(request, "\x1b]0;owned\x07 a\u202eb \r\n" + "long " * 100)
        case "babbles":
            with LOCK:
                sys.stdout.write("Welcome to the server!\n[1, 2\n\n{}\n")
            answer(request, text("said"))
        case "malformed":
            send({"jsonrpc": "2.0", "id": request["id"], "outcome": 1})
        case "no_result":
            answer(request, {"content": "not a list"})
        case "picture":
            answer(
                request,
                {
                    "content": [
                        {"type": "text", "text": "see"},
                        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
                    ]
                },
            )
        case "progress":
            token = request["params"]["_meta"]["progressToken"]
            for done in (1, 2):
                send(
                    {
                        "jsonrpc": "2.0",
                        "method": "notifications/progress",
                        "params": {"progressToken": token, "progress": done, "total": 2, "message": "step"},
                    }
                )
            answer(request, text("done"))
        case "overflows":
            token = request["params"]["_meta"]["progressToken"]
            for odd in ({"progress": 10**400}, {"progress": 1, "total": 10**400}, {"progress": "half"}):
                params = {"progressToken": token, **odd}
                send({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
            answer(request, text("done"))
        case "illegible":
            with LOCK:
                os.write(1, b'{"jsonrpc": "2.0", "id": %d, "result": {"a": "\xff"}}\n' % request["id"])
        case "received":
            answer(request, text(json.dumps(RECEIVED)))
        case "pid":
            answer(request, text(str(os.getpid())))
        case "deaf":
            # Reads no more until the pipe is full and long after.
            time.sleep(1000)
        case _:
            refuse(request, f"Unknown tool: {name}", code=-32602)


def cancelled(message: Json) -> None:
    name, request = OPEN.pop(message["params"]["requestId"], ("", {}))
    match name:
        case "late":
            threading.Timer(0.15, answer, (request, text("too late"))).start()
        case "obliging":
            answer(request, text("stopped half way"))
        case "spiteful":
            refuse(request, "Request cancelled")
        case "sulky":
            answer(request, text("the oven is still hot", isError=True))
        case _:
            pass


def handle(message: Json) -> None:
    RECEIVED.append(message)
    match cast("str", message.get("method")):
        case "initialize":
            if OPTIONS.refuse:
                refuse(message, OPTIONS.refuse)
            elif OPTIONS.nonsense:
                answer(message, {"protocolVersion": ["?"]})
            elif OPTIONS.modern:
                send(
                    {
                        "jsonrpc": "2.0",
                        "id": message["id"],
                        "error": {
                            "code": -32022,
                            "message": "no handshake",
                            "data": {"supported": ["2026-07-28"]},
                        },
                    }
                )
            elif not OPTIONS.silent:
                answer(
                    message,
                    {
                        "protocolVersion": "2025-06-18",
                        "capabilities": {"tools": {}},
                        "serverInfo": {"name": "hostile", "version": "1"},
                    },
                )
        case "server/discover":
            answer(
                message,
                {
                    "supportedVersions": ["2026-07-28"],
                    "capabilities": {"tools": {}},
                    "resultType": "complete",
                    "ttlMs": 0,
                    "cacheScope": "private",
                },
            )
        case "tools/list":
            params: Json = message.get("params") or {}
            page = int(params.get("cursor", 0))
            if OPTIONS.modern:
                answer(
                    message, {"tools": TOOLS, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
                )
            elif OPTIONS.endless:
                answer(message, {"tools": [], "nextCursor": "0"})
            elif OPTIONS.pages:
                more = {"nextCursor": str(page + 1)} if page + 1 < len(TOOLS) else {}
                answer(message, {"tools": TOOLS[page : page + 1], **more})
            else:
                answer(message, {"tools": TOOLS})
        case "tools/call":
            call(message)
        case "notifications/cancelled":
            cancelled(message)
        case _:
            pass


def note(path: str, number: int) -> None:
    with open(path, "w") as file:  # noqa: PTH123  (pathlib takes long to import)
        file.write(str(number))


def main() -> None:
    if OPTIONS.pid:
        note(OPTIONS.pid, os.getpid())
    if OPTIONS.ignore_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if OPTIONS.grandchild:
        child = subprocess.Popen(["sleep", "1000"])
        note(OPTIONS.grandchild, child.pid)
    if OPTIONS.exit is not None:
        sys.stderr.write("starting up\nModuleNotFoundError: No module named 'colours'\n")
        sys.exit(OPTIONS.exit)
    for line in sys.stdin:
        handle(json.loads(line))
    while OPTIONS.ignore_eof:
        time.sleep(1000)


main()
