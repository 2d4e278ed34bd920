"""A session: its conversation with the client and with the model, turn by turn."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from toy.commands import COMMANDS
from toy.mcp import Server
from toy.mutation import broken
from toy.peer import INTERNAL, NO_ANSWER, Failure, Json, Peer
from toy.settings import Settings
from toy.store import Log
from toy.tools import ToolError
from toy.turn import Turn

GLOBAL = asyncio.Lock()
"""Held by broken agents only: one session at a time."""


class Session:
    """One session on one connection."""

    def __init__(self, peer: Peer, id: str, cwd: str, client: Json, roots: list[str]) -> None:
        self.peer = peer
        self.id = id
        self.cwd = Path(cwd)
        self.roots = [self.cwd, *map(Path, roots)]
        self.client = client
        self.log = Log(id)
        self.messages: list[Json] = []
        self.always: set[str] = set()
        self.servers: list[Server] = []
        booleans = (client.get("session") or {}).get("configOptions") or {}
        self.settings = Settings(self, booleans.get("boolean") is not None)
        self.turns: list[Turn] = []
        self.closed = False
        self.cancels = 0
        self.resting = False
        self._order = asyncio.Lock()

    # What the client is told.

    def update(self, what: str, /, **fields: Any) -> None:
        update = {"sessionUpdate": what, **fields}
        self.log.append("update", update)
        self.tell(update)

    def tell(self, update: Json) -> None:
        id = Session.last if broken("NEW-09") else self.id
        if not self.closed:
            self.peer.notify("session/update", {"sessionId": id, "update": update})

    last = ""
    """The id of the newest session; only a broken agent uses it."""

    async def ask(self, method: str, params: Json) -> Any:
        turn = self.turns[0] if self.turns else None
        meta = {"_meta": {"traceparent": turn.trace}} if turn and turn.trace else {}
        return await self.peer.ask(method, {"sessionId": self.id, **params, **meta})

    def send(self, method: str, params: Json) -> None:
        """Ask the client without waiting for the answer."""
        asyncio.ensure_future(self.ask(method, params)).add_done_callback(_ignored)

    def announce(self) -> None:
        slash = "/" if broken("CMD-01") else ""
        commands = [{**command, "name": slash + str(command["name"])} for command in COMMANDS]
        self.tell({"sessionUpdate": "available_commands_update", "availableCommands": commands})
        if broken("NOTE-01"):
            self.tell({"sessionUpdate": "notice", "severity": "info", "title": "Hello"})

    def state(self) -> Json:
        return {"modes": self.settings.modes(), "configOptions": self.settings.options()}

    def path(self, text: str) -> Path:
        """An absolute path below the session's roots. Raises ``ToolError``."""
        path = (self.cwd / text).resolve()
        if not any(path.is_relative_to(root) for root in self.roots):
            raise ToolError(f"{path} is outside the session's directories")
        return path

    # Turns.

    async def prompt(self, params: Json, request: Any) -> Any:
        turn = Turn(self, params, request)
        if broken("TURN-08") and self.turns:
            self.turns[0].cancel()
        if broken("CAN-01.next") and self.cancels:
            return NO_ANSWER
        if broken("TURN-09") and self.resting:
            raise Failure(INTERNAL, "Not so fast")
        self.turns.append(turn)
        try:
            async with self._order:
                if broken("NEW-09.waiting", "NEW-09.permission"):
                    async with GLOBAL:
                        return await turn.run()
                return await turn.run()
        finally:
            self.turns.remove(turn)
            turn.over.set()
            if broken("CAN-09") and turn.cancelled:
                self.messages.clear()

    def cancel(self) -> None:
        self.cancels += 1
        for turn in self.turns:
            turn.cancel()

    async def idle(self) -> None:
        """Wait until the turns of this moment are over."""
        for turn in tuple(self.turns):
            await turn.over.wait()

    async def close(self) -> None:
        """Cancel everything and wait until it is over."""
        self.cancel()
        if not broken("CLOSE-01.order"):
            await self.idle()
        for server in self.servers:
            server.stop()
        self.log.flush()

    # The past.

    def restore(self) -> None:
        """What the model has been told, as far as the log knows."""
        for value in self.log.entries("message"):
            self.messages.append(value)
        for count in self.log.entries("refused"):
            del self.messages[count:]

    def replay(self) -> None:
        """Show the whole conversation again, tool calls in their final state."""
        if broken("LOAD-05", "LOAD-04"):
            for update in self.log.entries("update"):
                self.tell(update)
            return
        for update in folded(self.log.entries("update")):
            hidden = {"LOAD-01": "user_message_chunk", "LOAD-01.details": "agent_thought_chunk"}
            if not any(broken(k) and update["sessionUpdate"] == v for k, v in hidden.items()):
                self.tell(update)


def folded(updates: list[Json]) -> list[Json]:
    """The updates with each tool call at the place of its announcement, as it ended."""
    calls: dict[str, Json] = {}
    result: list[Json] = []
    for update in updates:
        if update["sessionUpdate"] == "tool_call":
            calls[update["toolCallId"]] = dict(update)
            result.append(calls[update["toolCallId"]])
        elif update["sessionUpdate"] == "tool_call_update":
            calls[update["toolCallId"]] |= {**update, "sessionUpdate": "tool_call"}
        else:
            result.append(update)
    for call in calls.values():
        _close(call)
    return result


def _close(call: Json) -> None:
    if call["status"] not in {"completed", "failed"}:
        call["status"] = "failed"
    call["content"] = [c for c in call.get("content", []) if c["type"] != "terminal"]


def _ignored(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()
