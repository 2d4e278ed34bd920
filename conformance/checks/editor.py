"""An editor for checks: the client's raw requests put into the words of a session.

``Editor`` opens connections and sessions, ``Session`` prompts and cancels, ``Turn`` is one prompt
with everything the agent showed for it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance.checks.verdict import require, require_object
from conformance.client import Client, Sent
from conformance.incoming import ABSENT, Incoming, Json
from conformance.process import survivors

CLIENT_INFO = {"name": "acp-conformance", "title": "ACP conformance kit", "version": "1"}
NO_CAPABILITIES: Json = {}
"""What a client sends that offers nothing; leaving them out altogether is a check of its own."""
CONVERSATION = frozenset(
    {
        "user_message_chunk",
        "agent_message_chunk",
        "agent_thought_chunk",
        "tool_call",
        "tool_call_update",
        "plan",
    }
)
"""The updates that are the conversation itself, live or replayed."""


class Editor(Client):
    """A client that knows how to open a session."""

    info: Json = {}  # noqa: RUF012 - replaced, never changed
    """The result of ``initialize`` on this connection."""

    async def initialize(
        self, capabilities: Any = NO_CAPABILITIES, *, version: Any = 1, **fields: Any
    ) -> Json:
        """The agent's ``initialize`` result. Raises ``RpcError``."""
        params = initialize_params(capabilities, version, **fields)
        result = await self.request("initialize", params)
        self.info = result if isinstance(result, dict) else {}
        return self.info

    def offers(self, path: str) -> bool:
        """Whether the agent advertised a capability on this connection."""
        return advertised(self.info, path)

    async def new_session(self, cwd: Path, **fields: Any) -> Session:
        params = {"cwd": str(cwd), "mcpServers": [], **fields}
        result = require_object(await self.request("session/new", params), "session/new's result")
        require(isinstance(result.get("sessionId"), str), f"no sessionId in {result}")
        return Session(self, result["sessionId"], cwd, result)

    async def reopen(self, method: str, session: Session, **fields: Any) -> Session:
        """``session/load`` or ``session/resume`` a session that another process made."""
        params = {"sessionId": session.id, "cwd": str(session.cwd), "mcpServers": [], **fields}
        result = await self.request(method, params)
        return Session(self, session.id, session.cwd, result if isinstance(result, dict) else {})

    def asked(self, *methods: str) -> list[Incoming]:
        """The requests of the agent whose method starts with one of ``methods``."""
        return [r.incoming for r in self.requests if r.method.startswith(methods)]

    def children(self) -> list[int]:
        """Processes the agent has started and that are alive, besides itself (Linux)."""
        return [pid for pid in survivors(self.process.marker) if pid != self.process.pid]


@dataclass(slots=True)
class Session:
    """One session on one connection."""

    editor: Editor
    id: str
    cwd: Path
    result: Json
    """What ``session/new``, ``load`` or ``resume`` answered."""

    async def start(self, prompt: str | Sequence[Json], **fields: Any) -> Turn:
        """Send a prompt (directives for the model, or content blocks) and do not wait."""
        first = len(self.editor.incoming)
        params = {"sessionId": self.id, "prompt": blocks(prompt), **fields}
        return Turn(self, await self.editor.start("session/prompt", params), first)

    async def prompt(
        self, prompt: str | Sequence[Json], *, timeout: float | None = None, **fields: Any
    ) -> Turn:
        """Send a prompt and wait for its answer, result or error."""
        turn = await self.start(prompt, **fields)
        await turn.sent.wait(timeout)
        return turn

    async def cancel(self) -> None:
        await self.editor.notify("session/cancel", {"sessionId": self.id})

    async def close(self) -> Sent:
        return await self.editor.start("session/close", {"sessionId": self.id})

    def updates(self, since: int = 0) -> list[Incoming]:
        """All updates of this session from position ``since`` of the agent's messages."""
        return [m for m in self.editor.incoming[since:] if m.update and m.session == self.id]


@dataclass(slots=True)
class Turn:
    """One prompt, its updates and its answer."""

    session: Session
    sent: Sent
    first: int
    """Position among the agent's messages where this turn began."""

    @property
    def updates(self) -> list[Incoming]:
        """Updates of the session after the prompt was sent and before its answer."""
        response = self.sent.response
        found = self.session.updates(self.first)
        return [m for m in found if response is None or m.index < response.index]

    @property
    def late(self) -> list[Incoming]:
        """Conversation of the session that came after the answer."""
        response = self.sent.response
        if response is None:
            return []
        found = self.session.updates(self.first)
        return [m for m in found if m.index > response.index and m.kind in CONVERSATION]

    @property
    def text(self) -> str:
        return spoken(self.updates, "agent_message_chunk")

    @property
    def stop(self) -> str:
        """The stop reason; empty if the turn ended in an error."""
        result = self._answer.get("result")
        return str(result.get("stopReason", "")) if isinstance(result, dict) else ""

    @property
    def error(self) -> Json | None:
        error = self._answer.get("error")
        return error if isinstance(error, dict) else None

    @property
    def outcome(self) -> str:
        """The answer in a few words, for messages."""
        return f"stopReason {self.stop!r}" if self.stop else json.dumps(self._answer)[:300]

    @property
    def tools(self) -> dict[str, Tool]:
        return tools(self.updates)

    @property
    def _answer(self) -> Json:
        response = self.sent.response
        return (response.message if response else None) or {}

    async def until_text(self, text: str) -> None:
        """Wait until the agent has said ``text``; an answer without it is a failure."""
        await self.session.editor.until(
            lambda: text in self.text or self.sent.response, f"text {text!r}"
        )
        said = f"the prompt was answered with {self.outcome} and without the text {text!r}"
        require(text in self.text, said)

    async def until_tool(self) -> None:
        """Wait until the agent has announced a tool call, or answered without one."""
        await self.session.editor.until(lambda: self.tools or self.sent.response, "tool call")


@dataclass(slots=True)
class Tool:
    """A tool call as its updates add up."""

    id: str
    seen: list[Incoming] = field(default_factory=list)
    state: Json = field(default_factory=dict)

    @property
    def status(self) -> str:
        return str(self.state.get("status", "pending"))

    @property
    def content(self) -> list[Json]:
        content = self.state.get("content")
        return [item for item in content or [] if isinstance(item, dict)]

    @property
    def closed(self) -> bool:
        return self.status in {"completed", "failed"}

    def contents(self, kind: str) -> list[Json]:
        """Every content item of one type that was ever shown, not only the last list."""
        lists = [update.update.get("content") or [] for update in self.seen]
        return [item for shown in lists for item in shown if item.get("type") == kind]


def tools(updates: Sequence[Incoming]) -> dict[str, Tool]:
    """The tool calls in ``updates`` by id, in the order in which they were announced."""
    found: dict[str, Tool] = {}
    for message in updates:
        if message.kind in {"tool_call", "tool_call_update"}:
            id = str(message.update.get("toolCallId"))
            tool = found.setdefault(id, Tool(id))
            tool.seen.append(message)
            given = {k: v for k, v in message.update.items() if v is not None}
            tool.state.update(given)
    return found


def spoken(updates: Sequence[Incoming], kind: str) -> str:
    """The text of all chunks of one kind, joined."""
    contents = [m.update.get("content") for m in updates if m.kind == kind]
    return "".join(str(c.get("text", "")) for c in contents if isinstance(c, dict))


def blocks(prompt: str | Sequence[Json]) -> list[Json]:
    """A prompt as content blocks; directives forget what earlier prompts said."""
    if isinstance(prompt, str):
        return [{"type": "text", "text": f"@begin\n{prompt}"}]
    return list(prompt)


def tool(kind: str, **arguments: Any) -> str:
    """The directive for a tool call by meaning."""
    return f"@tool {kind} {json.dumps(arguments)}"


def say(text: str) -> str:
    """The directive for a text of any characters."""
    return f"@say {json.dumps(text)}"


def chunks(count: int, text: str) -> str:
    """The directive for ``count`` deltas of ``text``, in which ``{i}`` is the index."""
    return f"@chunks {count} {json.dumps(text)}"


def slow(count: int, milliseconds: int, text: str) -> str:
    """The same with a pause after each delta."""
    return f"@slow {count} {milliseconds} {json.dumps(text)}"


def initialize_params(capabilities: Any = NO_CAPABILITIES, version: Any = 1, **fields: Any) -> Json:
    params: Json = {"protocolVersion": version, "clientInfo": CLIENT_INFO, **fields}
    return params if capabilities is ABSENT else {**params, "clientCapabilities": capabilities}


def advertised(info: Json, path: str) -> bool:
    """Whether an ``initialize`` result announces a capability: true, or an object."""
    value = capability(info.get("agentCapabilities") or {}, path)
    return value is not None and value is not False


def capability(tree: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path of a capability object, None where it is absent."""
    value: Any = tree
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value
