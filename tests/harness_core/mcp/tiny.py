"""A tiny MCP server over stdio, on the standard library alone, that starts at once.

What it offers is said by its arguments, as words. It writes its process id and every message it
gets to the file ``TINY_LOG``, as JSON lines.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

TOOLS: dict[str, dict[str, Any]] = {
    name: {"name": name, "description": f"Does {name}.", "inputSchema": {"type": "object"}}
    for name in (
        "echo",
        "env",
        "where",
        "die",
        "wait",
        "fail",
        "rich",
        "structured",
        "long",
        "grow",
        "shrink",
        "compose",
        "refuse",
        "ask",
        "late",
        "junk",
    )
}
TOOLS["echo"] |= {"title": "Echo it", "annotations": {"readOnlyHint": True}}
TOOLS["wait"] |= {"annotations": {"readOnlyHint": True}}

tools = dict(TOOLS)
out = threading.Lock()


def send(message: dict[str, Any]) -> None:
    with out:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def log(entry: Any) -> None:
    if path := os.environ.get("TINY_LOG"):
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")


def text(value: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value}]}


def initialize(params: dict[str, Any]) -> dict[str, Any]:
    capabilities: dict[str, Any] = {"tools": {"listChanged": True}}
    if "prompts" in sys.argv:
        capabilities["prompts"] = {"listChanged": True}
    if "resources" in sys.argv:
        capabilities["resources"] = {}
    return {
        "protocolVersion": params.get("protocolVersion", "2025-06-18"),
        "capabilities": capabilities,
        "serverInfo": {"name": "tiny", "version": "1"},
    }


def call(name: str, arguments: dict[str, Any]) -> dict[str, Any] | None:
    match name:
        case "echo":
            return text(json.dumps(arguments))
        case "env":
            return text(json.dumps(dict(os.environ)))
        case "where":
            return text(json.dumps({"cwd": os.getcwd(), "args": sys.argv[1:], "pid": os.getpid()}))
        case "die":
            os._exit(3)
        case "wait":
            return None
        case "fail":
            return {**text("it went wrong"), "isError": True}
        case "rich":
            return {"content": rich()}
        case "structured":
            return {"content": [], "structuredContent": {"answer": [1, None]}}
        case "long":
            return text("begin\n" + "x" * 100 + "\n" + "long line\n" * 20_000 + "end")
        case "grow":
            tools["grown"] = {**TOOLS["echo"], "name": "grown"}
            send({"method": "notifications/tools/list_changed"})
            return text("grown")
        case "shrink":
            tools.pop("echo")
            send({"method": "notifications/tools/list_changed"})
            return text("shrunk")
        case "compose":
            PROMPTS[:] = [{"name": "composed", "description": arguments.get("word", "")}]
            send({"method": "notifications/prompts/list_changed"})
            return text("composed")
        case "ask":
            schema = {"type": "object", "properties": {}}
            params = {"message": "?", "requestedSchema": schema}
            send({"id": "e1", "method": "elicitation/create", "params": params})
            params = {"messages": [], "maxTokens": 1}
            send({"id": "s1", "method": "sampling/createMessage", "params": params})
            send({"id": "r1", "method": "roots/list"})
            return text("asked")
        case "junk":
            print("this is not JSON", flush=True)
            print("nor is this on stderr", file=sys.stderr, flush=True)
            params = {"progressToken": 7, "progress": 1}
            send({"method": "notifications/progress", "params": params})
            return text("junk was printed")
    raise LookupError(f"there is no tool {name}")


def rich() -> list[dict[str, Any]]:
    return [
        {"type": "text", "text": "words"},
        {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "file:///a", "name": "a", "size": 3},
        {"type": "resource", "resource": {"uri": "tiny://t", "text": "inside"}},
        {"type": "resource", "resource": {"uri": "tiny://b", "blob": "AAAA"}},
    ]


PROMPTS = [
    {"name": "greet", "description": "Greets.", "arguments": [{"name": "who", "required": True}]},
    {"name": "two words", "arguments": [{"name": "first"}, {"name": "rest", "required": True}]},
    {"name": "plain"},
]


def prompt(name: str, arguments: dict[str, str]) -> dict[str, Any]:
    said = {"type": "text", "text": f"{name} {json.dumps(arguments)}"}
    reply = {"type": "text", "text": "Certainly."}
    return {
        "messages": [{"role": "user", "content": said}, {"role": "assistant", "content": reply}]
    }


def read(uri: str) -> dict[str, Any]:
    if uri == "tiny://picture":
        return {"contents": [{"uri": uri, "blob": "AAAA", "mimeType": "image/png"}]}
    return {"contents": [{"uri": uri, "text": f"the text of {uri}"}]}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    match method:
        case "initialize":
            return initialize(params)
        case "tools/list":
            return listed(params)
        case "tools/call":
            return call(params["name"], params.get("arguments") or {})
        case "prompts/list":
            return {"prompts": PROMPTS}
        case "prompts/get":
            return prompt(params["name"], params.get("arguments") or {})
        case "resources/list":
            return {"resources": [{"uri": "tiny://one", "name": "one", "description": "First."}]}
        case "resources/templates/list":
            return {"resourceTemplates": [{"uriTemplate": "tiny://{which}", "name": "any"}]}
        case "resources/read":
            return read(params["uri"])
    raise LookupError("Method not found")


def listed(params: dict[str, Any]) -> dict[str, Any]:
    """Two tools a page."""
    start = int(params.get("cursor") or 0)
    page: dict[str, Any] = {"tools": list(tools.values())[start : start + 2]}
    if start + 2 < len(tools):
        page["nextCursor"] = str(start + 2)
    return page


def main() -> None:
    log({"pid": os.getpid()})
    if "once" in sys.argv and started_before():
        sys.exit("only once")
    for line in sys.stdin:
        message = json.loads(line)
        log(message)
        if "method" in message and "id" in message:
            handle(message)
    if "stubborn" in sys.argv:
        time.sleep(600)


def started_before() -> bool:
    with open(os.environ["TINY_LOG"], encoding="utf-8") as file:
        return sum('"pid"' in line for line in file) > 1


def handle(message: dict[str, Any]) -> None:
    try:
        result = answer(message["method"], message.get("params") or {})
    except LookupError as failure:
        send({"id": message["id"], "error": {"code": -32601, "message": str(failure)}})
    else:
        if result is not None:
            send({"id": message["id"], "result": result})


if __name__ == "__main__":
    main()
