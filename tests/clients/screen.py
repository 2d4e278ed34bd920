"""What a person sees of a session: the fold that every editor makes of ``session/update``.

Pure. Adjacent chunks of one message become one text, tool calls keep their place and take
patches, the last plan wins. So two ways of saying the same thing give the same screen.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SPOKEN = {
    "user_message_chunk": "user",
    "agent_message_chunk": "agent",
    "agent_thought_chunk": "thought",
}
FINAL = {"completed", "failed"}
SHOWN = ("title", "kind", "status", "content", "locations", "rawInput", "rawOutput")
"""The fields of a tool call that a person sees or can unfold."""


@dataclass(slots=True)
class Said:
    """A message: of the user, of the agent, or a thought of the agent."""

    who: str
    text: str
    message: str | None = None
    unsure: bool = False
    """A prompt of which the agent has shown nothing: it may not have become part of the log."""

    def __str__(self) -> str:
        return f"{self.who}: {self.text!r}"


@dataclass(slots=True)
class Called:
    """A tool call in its present state."""

    id: str
    fields: dict[str, Any] = field(default_factory=dict)

    @property
    def status(self) -> str:
        return str(self.fields.get("status", "pending"))

    @property
    def text(self) -> str:
        """All text in its content."""
        items = self.fields.get("content") or []
        return "".join(str(item.get("content", {}).get("text", "")) for item in items)

    @property
    def diffs(self) -> list[dict[str, Any]]:
        """The diffs in its content."""
        return [item for item in self.fields.get("content") or [] if item["type"] == "diff"]

    @property
    def terminal(self) -> bool:
        """Whether one of the editor's terminals is shown in it."""
        return any(item["type"] == "terminal" for item in self.fields.get("content") or [])

    def patch(self, update: Mapping[str, Any]) -> None:
        """Take what an update says; what is absent or null stays (V1-TOOL-04)."""
        news = {key: update[key] for key in SHOWN if update.get(key) is not None}
        self.fields.update(news)

    def __str__(self) -> str:
        return f"call {json.dumps(self.fields, ensure_ascii=False)}"


Item = Said | Called


@dataclass(slots=True)
class Screen:
    """One session on one editor's screen."""

    items: list[Item] = field(default_factory=list)
    plan: list[dict[str, Any]] = field(default_factory=list)
    title: str | None = None
    usage: dict[str, Any] | None = None
    commands: list[dict[str, Any]] = field(default_factory=list)

    def typed(self, prompt: Iterable[Mapping[str, Any]]) -> None:
        """The user sent a prompt; editors show it themselves."""
        self.items.append(Said("user", "".join(map(_text, prompt)), unsure=True))

    def show(self, update: Mapping[str, Any]) -> None:
        """Take one ``session/update``."""
        kind = update["sessionUpdate"]
        if kind in SPOKEN:
            self._said(SPOKEN[kind], _text(update["content"]), update.get("messageId"))
        elif kind in ("tool_call", "tool_call_update"):
            self._called(update)
        elif kind == "plan":
            self.plan = list(update["entries"])
        elif kind == "session_info_update":
            self.title = update.get("title", self.title)
        elif kind == "usage_update":
            self.usage = {key: update[key] for key in ("used", "size")}
        elif kind == "available_commands_update":
            self.commands = list(update["availableCommands"])

    def _said(self, who: str, text: str, message: str | None) -> None:
        self._settle()
        match self.items:
            case [*_, Said(who=last, message=id) as said] if (last, id) == (who, message):
                said.text += text
            case _:
                self.items.append(Said(who, text, message))

    def _called(self, update: Mapping[str, Any]) -> None:
        self._settle()
        id = str(update["toolCallId"])
        if id not in self.calls:
            self.items.append(Called(id))
        self.calls[id].patch(update)

    def _settle(self) -> None:
        """Something of a turn was shown, so its prompt is part of the conversation."""
        match self.items:
            case [*_, Said(unsure=True) as prompt]:
                prompt.unsure = False

    @property
    def calls(self) -> dict[str, Called]:
        """The tool calls by id, in order."""
        return {item.id: item for item in self.items if isinstance(item, Called)}

    def printed(self) -> list[str]:
        """What the tool calls show, call by call."""
        return [call.text for call in self.calls.values()]

    def texts(self, who: str = "agent") -> list[str]:
        """What somebody said, message by message."""
        return [item.text for item in self.items if isinstance(item, Said) and item.who == who]

    def text(self, who: str = "agent") -> str:
        """Everything somebody said."""
        return "".join(self.texts(who))


def _text(block: Mapping[str, Any]) -> str:
    """A content block as text; anything but text as what it is."""
    return str(block["text"]) if block["type"] == "text" else json.dumps(block, sort_keys=True)


def differences(seen: Screen, replayed: Screen, *, cut: bool = False) -> list[str]:
    """Where a replay does not say what was seen; empty if it does.

    After a ``cut`` (the agent was killed) the replay may say more than was seen: the log is ahead
    of the screen, and what was open has been closed.
    """
    problems = _unlike(seen.items, replayed.items, cut)
    for name in ("plan", "title", "usage"):
        before, after = getattr(seen, name), getattr(replayed, name)
        if before != after and not (cut and after):
            problems.append(f"{name}: saw {before}, replayed {after}")
    return problems


def _unlike(seen: Sequence[Item], replayed: Sequence[Item], cut: bool) -> list[str]:
    rest = list(replayed)
    for item in seen:
        if rest and _same(item, rest[0], cut):
            rest.pop(0)
        elif not (isinstance(item, Said) and item.unsure):
            return [f"saw {item}, replayed {rest[0] if rest else 'nothing'}"]
    return [] if cut else [f"replayed {item}, which was not seen" for item in rest]


def _same(seen: Item, replayed: Item, cut: bool) -> bool:
    match seen, replayed:
        case Said(), Said() if cut:
            return seen.who == replayed.who and replayed.text.startswith(seen.text)
        case Said(), Said():
            return (seen.who, seen.text) == (replayed.who, replayed.text)
        case Called(), Called() if cut and seen.status not in FINAL:
            return replayed.status in FINAL and seen.text.strip() in replayed.text
        case Called(), Called() if seen.terminal:
            # Terminals do not outlive their connection: text stands in their place (V1-LOAD-07).
            same = seen.id == replayed.id and not replayed.terminal
            return same and _without_content(seen) == _without_content(replayed)
        case Called(), Called():
            return (seen.id, seen.fields) == (replayed.id, replayed.fields)
    return False


def _without_content(call: Called) -> dict[str, Any]:
    return {key: value for key, value in call.fields.items() if key != "content"}
