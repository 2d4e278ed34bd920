"""Builds conversations for tests: a client and an agent that say exactly what they are told."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from conformance.frames import Direction, Frame

EVERYTHING = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    "terminal": True,
    "auth": {"terminal": True},
    "plan": {},
    "elicitation": {"form": {}, "url": {}},
    "session": {"configOptions": {"boolean": {}}, "notices": {}, "compaction": {}},
}
OPTIONS = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]


def c2a(**message: Any) -> Frame:
    """A frame of the client."""
    return Frame(Direction.C2A, 0, json.dumps({"jsonrpc": "2.0", **message}).encode())


def a2c(**message: Any) -> Frame:
    """A frame of the agent."""
    return Frame(Direction.A2C, 0, json.dumps({"jsonrpc": "2.0", **message}).encode())


@dataclass
class Talk:
    """A conversation in the making; every method appends frames."""

    frames: list[Frame] = field(default_factory=list)
    asked: int = 0

    def ask(self, method: str, **params: Any) -> int:
        """The client asks; returns the id."""
        self.asked += 1
        self.frames.append(c2a(id=self.asked, method=method, params=params))
        return self.asked

    def tell(self, method: str, **params: Any) -> None:
        """The client notifies."""
        self.frames.append(c2a(method=method, params=params))

    def answer(self, number: int | str | None, result: Any = None, error: Any = None) -> None:
        """The agent answers."""
        outcome = {"error": error} if error is not None else {"result": result}
        self.frames.append(a2c(id=number, **outcome))

    def request(self, number: int | str, method: str, **params: Any) -> None:
        """The agent asks."""
        self.frames.append(a2c(id=number, method=method, params=params))

    def reply(self, number: int | str, result: Any) -> None:
        """The client answers."""
        self.frames.append(c2a(id=number, result=result))

    def call(self, method: str, result: Any, **params: Any) -> None:
        """The client asks and the agent answers."""
        self.answer(self.ask(method, **params), result)

    def use(self, number: int | str, method: str, result: Any, **params: Any) -> None:
        """The agent asks and the client answers."""
        self.request(number, method, **params)
        self.reply(number, result)

    def update(self, session: str, kind: str, /, **fields: Any) -> None:
        """The agent sends an update."""
        update = {"sessionUpdate": kind, **fields}
        params = {"sessionId": session, "update": update}
        self.frames.append(a2c(method="session/update", params=params))

    def say(self, session: str, text: str, message: str = "m1") -> None:
        """The agent sends a piece of a message."""
        content = {"type": "text", "text": text}
        self.update(session, "agent_message_chunk", content=content, messageId=message)

    def start(self, session: str = "s1", /, **capabilities: Any) -> Talk:
        """Initialize with these client capabilities and open one session."""
        self.call(
            "initialize",
            {"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []},
            protocolVersion=1,
            clientCapabilities=capabilities,
        )
        self.call("session/new", {"sessionId": session}, cwd="/proj", mcpServers=[])
        return self

    def prompt(self, session: str = "s1", text: str = "hello") -> int:
        """The client prompts; returns the id."""
        return self.ask(
            "session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}]
        )

    def done(self, number: int, reason: str = "end_turn") -> None:
        """The agent ends a turn."""
        self.answer(number, {"stopReason": reason})

    def tool(self, session: str, name: str, status: str = "completed") -> None:
        """One tool call from beginning to end."""
        self.update(session, "tool_call", toolCallId=name, title="Run it", status="pending")
        self.update(session, "tool_call_update", toolCallId=name, status="in_progress")
        self.update(session, "tool_call_update", toolCallId=name, status=status)

    def terminal(self, session: str, name: str, number: int) -> None:
        """One client terminal from beginning to end, shown in a tool call."""
        self.use(number, "terminal/create", {"terminalId": name}, sessionId=session, command="ls")
        shown = [{"type": "terminal", "terminalId": name}]
        self.update(session, "tool_call", toolCallId=f"of-{name}", title="ls", content=shown)
        at = {"sessionId": session, "terminalId": name}
        self.use(number + 1, "terminal/wait_for_exit", {"exitCode": 0}, **at)
        self.use(number + 2, "terminal/release", {}, **at)
        self.update(session, "tool_call_update", toolCallId=f"of-{name}", status="completed")


def full_talk() -> list[Frame]:
    """A correct conversation that uses everything there is to use."""
    talk = Talk().start(**EVERYTHING)
    commands = [{"name": "web", "description": "search"}]
    talk.update("s1", "available_commands_update", availableCommands=commands)
    first = talk.prompt()
    talk.update("s1", "plan", entries=[{"content": "a", "priority": "low", "status": "pending"}])
    talk.say("s1", "hel")
    talk.say("s1", "lo")
    talk.tool("s1", "t1")
    talk.terminal("s1", "term-1", 100)
    talk.use("fs-1", "fs/read_text_file", {"content": "x"}, sessionId="s1", path="/proj/a", line=1)
    talk.use("fs-2", "fs/write_text_file", {}, sessionId="s1", path="/proj/a", content="y")
    talk.update("s1", "tool_call", toolCallId="t2", title="Ask", kind="edit")
    chosen = {"outcome": {"outcome": "selected", "optionId": "yes"}}
    tool = {"toolCallId": "t2"}
    talk.use(
        0, "session/request_permission", chosen, sessionId="s1", toolCall=tool, options=OPTIONS
    )
    diff = [{"type": "diff", "path": "/proj/a", "oldText": None, "newText": "y"}]
    talk.update("s1", "tool_call_update", toolCallId="t2", status="completed", content=diff)
    form = {"type": "object", "properties": {"name": {"type": "string"}}}
    accepted = {"action": "accept", "content": {"name": "x"}}
    asked = {"sessionId": "s1", "mode": "form", "message": "who?", "requestedSchema": form}
    talk.use("e", "elicitation/create", accepted, **asked)
    page = {"mode": "url", "message": "look", "url": "https://pages.example/x"}
    for number, id in enumerate(("p1", "p2", "p1")):
        asked = {"sessionId": "s1", "elicitationId": id, **page}
        talk.use(f"p-{number}", "elicitation/create", {"action": "accept"}, **asked)
        talk.frames.append(a2c(method="elicitation/complete", params={"elicitationId": id}))
    login = talk.ask("authenticate", methodId="key")
    asked = {"requestId": login, "elicitationId": "p3", **page, "url": "http://127.0.0.1:7/x"}
    talk.use("p-3", "elicitation/create", {"action": "decline"}, **asked)
    talk.answer(login, error={"code": -32000, "message": "Nobody signed in."})
    talk.update("s1", "notice", severity="info", title="compacting")
    talk.update("s1", "compaction_update", compactionId="c", status="in_progress")
    talk.update("s1", "compaction_update", compactionId="c", status="completed")
    talk.update("s1", "usage_update", used=10, size=100)
    talk.done(first)
    talk.update("s1", "session_info_update", title=None)
    second = talk.prompt()
    queued = talk.prompt()
    talk.tell("session/cancel", sessionId="s1")
    talk.say("s1", "stopping", "m2")
    talk.done(second, "cancelled")
    talk.done(queued, "cancelled")
    load = talk.ask("session/load", sessionId="s1", cwd="/proj", mcpServers=[])
    talk.say("s1", "hello", "m1")
    talk.update("s1", "tool_call", toolCallId="t1", title="Run it", status="completed")
    talk.answer(load, {})
    talk.call("session/resume", {}, sessionId="s0", cwd="/proj", mcpServers=[])
    third = talk.prompt("s0")
    talk.answer(third, error={"code": -32603, "message": "The model could not be reached."})
    talk.call("session/list", {"sessions": [{"sessionId": "s1", "cwd": "/proj"}]})
    talk.call("session/close", {}, sessionId="s1")
    talk.frames.append(c2a(id=900, method="_vendor/thing"))
    talk.answer(900, error={"code": -32601, "message": "There is no method _vendor/thing."})
    talk.frames.append(Frame(Direction.C2A, 0, b"{oops"))
    talk.answer(None, error={"code": -32700, "message": "The line is not JSON."})
    return talk.frames
