"""A real conversation with `acp-harness` over stdio, printed so that a person sees what happens.

This is the smallest honest ACP client: it starts the agent as an editor does, asks for a change in
a scratch project, shows what streams in, grants the permission, and comes back in a new process.
It imports nothing of the agent.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

COMMAND = Path(sys.executable).parent / "acp-harness"

PROMPT = """\
!think The greeting lacks the name. I'll read the file, then change one line.
!say I'll have a look at `hello.py` first.
!call read {"path": "hello.py"}
!say Now the change. \n
!call edit {"path": "hello.py", "old_text": "print('hello')", "new_text": "print('hello, world')"}
!call shell {"command": "python3 hello.py"}
!say Done: it greets the world now."""


class Client:
    """One agent process and the conversation with it."""

    def __init__(self, data: Path) -> None:
        env = {**os.environ, "ACP_HARNESS_DATA_DIR": str(data), "ACP_HARNESS_MODEL": "demo:demo"}
        self.process = subprocess.Popen(
            [COMMAND], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env
        )
        self.last = -1
        self.speaker = ""

    def call(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request, show everything that happens until it is answered."""
        self.last += 1
        self.send({"id": self.last, "method": method, "params": params})
        assert self.process.stdout is not None
        for line in self.process.stdout:
            message = json.loads(line)
            if message.get("method") == "session/update":
                self.show(message["params"]["update"])
            elif message.get("method") == "session/request_permission":
                self.grant(message)
            elif message.get("id") == self.last:
                self.end_text()
                if "error" in message:
                    sys.exit(f"{method} failed: {message['error']}")
                return message["result"]
        sys.exit(f"the agent ended while {method} was waiting (status {self.process.wait()})")

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def grant(self, question: dict[str, Any]) -> None:
        self.end_text()
        options = question["params"]["options"]
        print(f"   ?  permission: {question['params']['toolCall']['title']}")
        print(f"      options: {', '.join(option['name'] for option in options)}")
        chosen = next(o for o in options if o["kind"] == "allow_once")
        print(f"      we answer: {chosen['name']}")
        outcome = {"outcome": "selected", "optionId": chosen["optionId"]}
        self.send({"id": question["id"], "result": {"outcome": outcome}})

    def show(self, update: dict[str, Any]) -> None:
        kind = update["sessionUpdate"]
        if kind.endswith("_chunk"):
            who = {"user": "you", "agent": "agent"}[kind.split("_")[0]]
            self.text(f"{who}, thinking" if "thought" in kind else who, update["content"])
            return
        self.end_text()
        if kind == "tool_call":
            status = f" [{update['status']}]" if update["status"] != "pending" else ""
            print(f"   *  tool call: {update['title']}{status}")
        elif kind == "tool_call_update" and update.get("status") in ("completed", "failed"):
            print(f"   *  {update['status']}: {update.get('title', update['toolCallId'])}")
        elif kind == "session_info_update":
            print(f"      session title: {update['title']!r}")
        if update.get("status") in ("completed", "failed"):
            for item in update.get("content", []):
                self.show_content(item)

    def show_content(self, item: dict[str, Any]) -> None:
        if item["type"] == "diff":
            print(f"      {item['path']}")
            for sign, text in (("-", item.get("oldText") or ""), ("+", item["newText"])):
                for line in text.splitlines():
                    print(f"      {sign} {line}")
        elif item["type"] == "content" and item["content"]["type"] == "text":
            for line in item["content"]["text"].splitlines()[:6]:
                print(f"      | {line}")

    def text(self, who: str, content: dict[str, Any]) -> None:
        if self.speaker != who:
            self.end_text()
            print(f"{who}: ", end="")
        self.speaker = who
        print(content.get("text", f"[{content['type']}]"), end="", flush=True)

    def end_text(self) -> None:
        if self.speaker:
            print()
        self.speaker = ""

    def end(self) -> int:
        """Close the agent's stdin, as an editor does when it quits."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait()


def main() -> None:
    scratch = Path(tempfile.mkdtemp(prefix="acp-harness-try-"))
    project, data = scratch / "project", scratch / "data"
    project.mkdir()
    (project / "hello.py").write_text("print('hello')\n")
    initialize = {"protocolVersion": 1, "clientInfo": {"name": "scripts/try", "version": "1"}}
    setup = {"cwd": str(project), "mcpServers": []}

    print("== The editor starts the agent and opens a session")
    client = Client(data)
    result = client.call("initialize", initialize)
    info = result["agentInfo"]
    print(f"      {info['title']} {info['version']}, ACP version {result['protocolVersion']}")
    session = client.call("session/new", setup)["sessionId"]

    print("\n== A prompt (in the language of the built-in demo model, which needs no key)")
    for line in PROMPT.splitlines():
        print(f"you: {line}")
    print()
    prompt = {"sessionId": session, "prompt": [{"type": "text", "text": PROMPT}]}
    answer = client.call("session/prompt", prompt)
    print(f"\n      stop reason: {answer['stopReason']}")
    print(f"      hello.py now reads: {(project / 'hello.py').read_text().strip()}")
    print(f"      the agent exits with status {client.end()}")

    print("\n== Tomorrow: a new process finds the conversation")
    client = Client(data)
    client.call("initialize", initialize)
    for found in client.call("session/list", {"cwd": str(project)})["sessions"]:
        print(f"      {found['sessionId']}  {found['updatedAt']}  {found.get('title')}")
    client.call("session/load", {"sessionId": session, **setup})
    client.end()

    log = next((data / "sessions").rglob("log.jsonl"))
    print(f"\nThe log of this session: {log}")
    print(f"(all of it is in {scratch}, yours to delete)")
    server = {"command": str(COMMAND), "args": ["acp"], "env": {}}
    print("\nReady for an editor. In Zed's settings.json, for example:\n")
    print(json.dumps({"agent_servers": {"ACP Harness": {"type": "custom", **server}}}, indent=2))


if __name__ == "__main__":
    main()
