"""A model request as a script sees it: the same shape whatever dialect it came in."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool the agent offers to the model, with the JSON schema of its arguments."""

    name: str
    description: str
    schema: Mapping[str, Any]

    @property
    def properties(self) -> Mapping[str, Any]:
        found = self.schema.get("properties")
        return found if isinstance(found, dict) else {}


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the conversation: who said it, its text, and the tools it called by name."""

    role: str
    """``system``, ``user``, ``assistant`` or ``tool`` (a tool's result)."""
    text: str
    calls: tuple[str, ...] = ()


@dataclass(slots=True)
class ModelRequest:
    """One request to the model server, parsed; ``body`` is what was sent."""

    dialect: str
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    model: str
    stream: bool
    entries: tuple[Entry, ...]
    tools: tuple[OfferedTool, ...]
    index: int = 0
    """Position among all requests of this server, from 0."""
    finished: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the answer was written completely, or the client went away."""
    unfit: list[str] = field(default_factory=list)
    """Meanings the script wanted a tool for and none was offered."""
    aborted: bool = False
    """True once the client went away before the answer was complete."""

    @property
    def text(self) -> str:
        """Everything the model is shown, joined: to look for a word in."""
        return "\n".join(entry.text for entry in self.entries)

    @property
    def turn(self) -> tuple[Entry, ...]:
        """The entries since the last assistant message that called no tool."""
        start = 0
        for position, entry in enumerate(self.entries):
            if entry.role == "assistant" and not entry.calls:
                start = position + 1
        return self.entries[start:]

    def results(self) -> list[str]:
        """The texts of the tool results of the current turn, in order."""
        return [entry.text for entry in self.turn if entry.role == "tool"]

    def tool(self, name: str) -> OfferedTool | None:
        return next((tool for tool in self.tools if tool.name == name), None)


def text_of(content: Any) -> str:
    """The readable text of message content in any of the dialects' shapes."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(filter(None, map(text_of, content)))
    if isinstance(content, dict):
        return text_of(content.get("text") or content.get("content") or "")
    return ""
