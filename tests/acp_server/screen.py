"""What a client shows: updates folded as the protocol says, in the order things first appeared.

Folding also holds what every stream of updates has to keep: a call is announced once, updated after
that, never opened again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

FINAL = ("completed", "failed")

Item = tuple[str, ...]


class Screen:
    """A client's view of one session. Raises ``AssertionError`` for what a client cannot make sense
    of."""

    def __init__(self, updates: Iterable[Mapping[str, Any]] = ()) -> None:
        self.items: dict[Item, Any] = {}
        self.usage: Mapping[str, Any] | None = None
        for update in updates:
            self.show(update)

    def show(self, update: Mapping[str, Any]) -> None:
        """Take the next update."""
        kind = str(update["sessionUpdate"])
        if kind.endswith("_message_chunk") or kind == "agent_thought_chunk":
            self._append((kind, str(update["messageId"])), dict(update["content"]))
        elif kind == "tool_call":
            call = ("call", str(update["toolCallId"]))
            assert call not in self.items, "a call is announced once"
            self.items[call] = {"status": "pending", **update}
        elif kind == "tool_call_update":
            self._patch(("call", str(update["toolCallId"])), update)
        elif kind == "usage_update":
            self.usage = update
        else:
            same = sum(item[0] == kind for item in self.items)
            self.items[(kind, str(same))] = update

    def _append(self, message: Item, block: dict[str, Any]) -> None:
        blocks = self.items.setdefault(message, [])
        if blocks and blocks[-1]["type"] == block["type"] == "text":
            blocks[-1]["text"] += block["text"]
        else:
            blocks.append(block)

    def _patch(self, call: Item, update: Mapping[str, Any]) -> None:
        assert call in self.items, "a call is announced before it is updated"
        before = self.items[call]
        if before["status"] in FINAL:
            assert update.get("status") in (None, before["status"]), "a final status is final"
        assert (before["status"], update.get("status")) != ("in_progress", "pending")
        self.items[call] = {**before, **update, "sessionUpdate": "tool_call"}

    @property
    def calls(self) -> dict[str, Mapping[str, Any]]:
        """Every tool call by its id."""
        return {item[1]: call for item, call in self.items.items() if item[0] == "call"}

    @property
    def open_calls(self) -> list[str]:
        """The calls without a final status."""
        return [id for id, call in self.calls.items() if call["status"] not in FINAL]

    def text(self, kind: str = "agent_message_chunk") -> str:
        """All text of a kind of message."""
        return "".join(
            block["text"]
            for item, blocks in self.items.items()
            if item[0] == kind
            for block in blocks
            if block["type"] == "text"
        )

    def without(self, *kinds: str) -> dict[Item, Any]:
        """Everything but items of these kinds, in order."""
        return {item: value for item, value in self.items.items() if item[0] not in kinds}
