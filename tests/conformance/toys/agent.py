"""A toy ACP agent for tests of the kit: standard library only, made-up ids, told what to do.

A prompt is a list of directives separated by ``;``: ``say TEXT``, ``think TEXT``,
``tool``, ``ask``, ``read PATH``, ``terminal``, ``usage N``, ``wait`` (for a cancel),
``crash``, ``fail``. Options change how it behaves, not what it means:
``--chunk N`` cuts texts into pieces of N characters; ``--reply TEXT`` says that
instead of what the prompt wants; ``--deaf`` never answers a prompt; ``--stay``
ignores the end of its input.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import sys
import threading
import uuid
from collections.abc import Iterator
from typing import Any


class Agent:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.inbox: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self.cwd: dict[str, str] = {}
        self.cancelled: set[str] = set()
        self.asked = 0

    def run(self) -> None:
        threading.Thread(target=self.read, daemon=True).start()
        while (message := self.inbox.get()) is not None:
            self.handle(message)
        if self.options.stay:
            threading.Event().wait()

    def read(self) -> None:
        for line in sys.stdin.buffer:
            message = json.loads(line)
            if message.get("method") == "session/cancel":
                self.cancelled.add(message["params"]["sessionId"])
            self.inbox.put(message)
        self.inbox.put(None)

    def send(self, **message: Any) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}) + "\n"
        sys.stdout.buffer.write(line.encode())
        sys.stdout.buffer.flush()

    def handle(self, message: dict[str, Any]) -> None:
        method, params = message.get("method"), message.get("params") or {}
        if "id" not in message or method is None:
            return
        match method:
            case "initialize":
                info = {"name": "toy", "version": self.options.version}
                result = {"protocolVersion": 1, "agentCapabilities": {}, "agentInfo": info}
            case "session/new":
                session = str(uuid.uuid4())
                self.cwd[session] = params["cwd"]
                result = {"sessionId": session}
            case "session/prompt":
                self.prompt(message["id"], params)
                return
            case _:
                error = {"code": -32601, "message": f"There is no method {method}."}
                self.send(id=message["id"], error=error)
                return
        self.send(id=message["id"], result=result)
        if method == "session/new":
            commands = [{"name": "help", "description": "shows help"}]
            self.update(session, "available_commands_update", availableCommands=commands)

    def prompt(self, number: Any, params: dict[str, Any]) -> None:
        session = params["sessionId"]
        if self.options.deaf:
            return
        text = params["prompt"][0]["text"]
        if self.options.reply:
            text = f"say {self.options.reply}"
        for directive in text.split(";"):
            word, _, rest = directive.strip().partition(" ")
            if word == "fail":
                error = {"code": -32603, "message": "The model could not be reached."}
                self.send(id=number, error=error)
                return
            if session not in self.cancelled:
                getattr(self, f"do_{word}")(session, rest)
        reason = "cancelled" if session in self.cancelled else "end_turn"
        self.cancelled.discard(session)
        self.send(id=number, result={"stopReason": reason})

    def update(self, session: str, kind: str, **fields: Any) -> None:
        update = {"sessionUpdate": kind, **fields}
        self.send(method="session/update", params={"sessionId": session, "update": update})

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self.asked += 1
        self.send(id=f"q{self.asked}", method=method, params=params)
        while (message := self.inbox.get()) is not None:
            if message.get("id") == f"q{self.asked}":
                return message
        sys.exit(0)

    def pieces(self, text: str) -> Iterator[str]:
        size = self.options.chunk or len(text) or 1
        return (text[at : at + size] for at in range(0, len(text), size))

    def stream(self, session: str, kind: str, text: str) -> None:
        message = str(uuid.uuid4())
        for piece in self.pieces(text):
            content = {"type": "text", "text": piece}
            self.update(session, kind, messageId=message, content=content)

    def do_say(self, session: str, text: str) -> None:
        self.stream(session, "agent_message_chunk", text.replace("$CWD", self.cwd[session]))

    def do_think(self, session: str, text: str) -> None:
        self.stream(session, "agent_thought_chunk", text)

    def do_usage(self, session: str, number: str) -> None:
        self.update(session, "usage_update", used=int(number), size=1000)

    def do_tool(self, session: str, _: str) -> None:
        call = uuid.uuid4().hex
        self.update(session, "tool_call", toolCallId=call, title="Think hard", status="pending")
        self.update(session, "tool_call_update", toolCallId=call, status="in_progress")
        self.update(session, "tool_call_update", toolCallId=call, status="completed")

    def do_ask(self, session: str, _: str) -> None:
        call, yes = uuid.uuid4().hex, uuid.uuid4().hex
        self.update(session, "tool_call", toolCallId=call, title="Delete it", status="pending")
        options = [{"optionId": yes, "name": "Yes", "kind": "allow_once"}]
        answer = self.ask(
            "session/request_permission",
            sessionId=session,
            toolCall={"toolCallId": call},
            options=options,
        )
        allowed = answer.get("result", {}).get("outcome", {}).get("optionId") == yes
        status = "completed" if allowed else "failed"
        self.update(session, "tool_call_update", toolCallId=call, status=status)

    def do_read(self, session: str, name: str) -> None:
        path = os.path.join(self.cwd[session], name)
        with open(path, encoding="utf-8") as file:
            self.do_say(session, f"{path}: {file.read()}")

    def do_terminal(self, session: str, _: str) -> None:
        made = self.ask("terminal/create", sessionId=session, command="ls", cwd=self.cwd[session])
        at = {"sessionId": session, "terminalId": made["result"]["terminalId"]}
        for _ in range(self.options.polls):
            self.ask("terminal/output", **at)
        self.ask("terminal/wait_for_exit", **at)
        self.ask("terminal/release", **at)

    def do_wait(self, session: str, _: str) -> None:
        while session not in self.cancelled and (message := self.inbox.get()) is not None:
            del message

    def do_crash(self, session: str, _: str) -> None:
        os.abort()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--chunk", type=int, default=0)
    parser.add_argument("--polls", type=int, default=1)
    parser.add_argument("--version", default="1.0")
    parser.add_argument("--reply")
    parser.add_argument("--deaf", action="store_true")
    parser.add_argument("--stay", action="store_true")
    Agent(parser.parse_args()).run()


if __name__ == "__main__":
    main()
