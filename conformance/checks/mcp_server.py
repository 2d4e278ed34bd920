"""A minimal MCP server over stdio for the checks: one tool, and a log of what it was asked.

Runs as a script of its own, on the standard library alone. The log is a file of JSON lines: the
arguments it was started with, then the name of every method.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

TOOL = "conformance_echo"


def reply(text: str, word: str) -> str:
    """What the tool answers: proof that it saw its argument and its environment."""
    return f"{word} echoes {text}"


def main() -> None:
    log(sys.argv[1:])
    for line in sys.stdin:
        message = json.loads(line)
        log(message.get("method"))
        if "id" in message and "method" in message:
            answer = {"jsonrpc": "2.0", "id": message["id"], **handled(message)}
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


def handled(message: dict[str, Any]) -> dict[str, Any]:
    params = message.get("params") or {}
    match message["method"]:
        case "initialize":
            version = params.get("protocolVersion", "2025-06-18")
            info = {"name": "conformance", "version": "1"}
            capabilities: dict[str, Any] = {"tools": {}}
            result = {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}
            return {"result": result}
        case "tools/list":
            schema = {"type": "object", "properties": {"text": {"type": "string"}}}
            tool = {"name": TOOL, "description": "Echo a text.", "inputSchema": schema}
            return {"result": {"tools": [tool]}}
        case "tools/call":
            text = str((params.get("arguments") or {}).get("text"))
            said = reply(text, os.environ.get("CONFORMANCE_MCP_WORD", "(no word)"))
            return {"result": {"content": [{"type": "text", "text": said}], "isError": False}}
        case "ping":
            return {"result": {}}
        case _:
            return {"error": {"code": -32601, "message": "Method not found"}}


def log(entry: Any) -> None:
    path = os.environ.get("CONFORMANCE_MCP_LOG")
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")


if __name__ == "__main__":
    main()
