"""A small editor for tests: talks to a toy agent and keeps a transcript of it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conformance.frames import Direction, Frame
from conformance.transcript import Entry, Event, Header, Transcript

TOY = [sys.executable, str(Path(__file__).parent / "toys" / "agent.py")]


class Editor:
    """Speaks to one toy agent over pipes, answering what it asks."""

    def __init__(self, command: Sequence[str]) -> None:
        self.entries: list[Entry] = []
        self._process = subprocess.Popen(
            list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        self._asked = 0

    def ask(self, method: str, **params: Any) -> Any:
        """Ask and wait; returns the result."""
        number = self.begin(method, **params)
        return self.await_answer(number)

    def begin(self, method: str, **params: Any) -> int:
        """Ask and go on."""
        self._asked += 1
        self.send({"id": self._asked, "method": method, "params": params})
        return self._asked

    def send(self, message: dict[str, Any]) -> None:
        raw = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.entries.append(Frame(Direction.C2A, 0.0, raw))
        assert self._process.stdin
        self._process.stdin.write(raw + b"\n")

    def await_answer(self, number: int) -> Any:
        """Take what comes until the answer to this request."""
        while (message := self.take()).get("id") != number or "method" in message:
            if "id" in message:
                self.send({"id": message["id"], "result": self.answer(message)})
        return message.get("result")

    def take(self) -> dict[str, Any]:
        assert self._process.stdout
        line = self._process.stdout.readline().rstrip(b"\n")
        self.entries.append(Frame(Direction.A2C, 0.0, line))
        message: dict[str, Any] = json.loads(line)
        return message

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        params = request["params"]
        match request["method"]:
            case "session/request_permission":
                chosen = params["options"][0]["optionId"]
                return {"outcome": {"outcome": "selected", "optionId": chosen}}
            case "terminal/create":
                return {"terminalId": "term-7"}
            case "terminal/output":
                return {"output": "a.txt\n", "truncated": False}
            case "terminal/wait_for_exit":
                return {"exitCode": 0}
        return {}

    def close(self) -> None:
        """Hang up, take the rest and wait."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self.entries.append(Event("eof", 0.0, Direction.C2A))
        for line in self._process.stdout:
            self.entries.append(Frame(Direction.A2C, 0.0, line.rstrip(b"\n")))
        self._process.stdout.close()
        self.entries.append(Event("exit", 0.0, detail=self._process.wait(20)))


def converse(cwd: Path, *prompts: str, options: Sequence[str] = ()) -> Transcript:
    """Record one session with the toy agent: these prompts, one after the other.

    A prompt that ends with ``wait`` is cancelled once the agent has said something.
    """
    editor = Editor([*TOY, *options])
    editor.ask("initialize", protocolVersion=1, clientCapabilities={"terminal": True})
    session = editor.ask("session/new", cwd=str(cwd), mcpServers=[])["sessionId"]
    editor.take()
    for prompt in prompts:
        text = [{"type": "text", "text": prompt}]
        number = editor.begin("session/prompt", sessionId=session, prompt=text)
        if prompt.endswith("wait"):
            editor.take()
            editor.send({"method": "session/cancel", "params": {"sessionId": session}})
        editor.await_answer(number)
    editor.close()
    files = {path.name: path.read_text() for path in cwd.iterdir()}
    return Transcript(Header(tuple(TOY), str(cwd), files), tuple(editor.entries))
