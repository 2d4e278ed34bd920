"""How tool calls look on the wire: a tool's pure presentation as ACP fields.

Works for tools that are gone as well: what nobody can present any more gets a plain card.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from acp_server.content import block_of
from harness_core.facts import ToolReturned
from harness_core.tools.tool import Card as Presented
from harness_core.tools.tool import Outcome, Tool

log = logging.getLogger(__name__)

LONGEST_FIELD = 4_000
"""Characters of one string inside ``rawInput`` (V1-TOOL-10)."""

LONGEST_TEXT = 24_000
"""Characters of all text and diffs of one card."""


@dataclass(frozen=True, slots=True)
class Card:
    """A presentation in ACP's terms; empty fields are not sent."""

    title: str
    kind: str
    locations: list[dict[str, Any]]
    content: list[dict[str, Any]]
    terminal: bool


def card_of_call(tool: Tool[Any] | None, name: str, arguments: Mapping[str, Any], cwd: str) -> Card:
    """The card of a call. Never fails: a model may have sent anything as arguments."""
    if tool is None:
        return Card(name, "other", [], [], False)
    try:
        return _translate(tool.present_call(arguments, cwd))
    except Exception:
        log.debug("tool %s cannot present %r", name, arguments, exc_info=True)
        return Card(name, tool.kind, [], [], False)


def card_of_result(
    tool: Tool[Any] | None, fact: ToolReturned, arguments: Mapping[str, Any], cwd: str
) -> Card:
    """The card of a result; what the model was told, if the tool has nothing better."""
    outcome = Outcome(fact.content, fact.error, fact.meta)
    if tool is None:
        return _translate(Presented(content=fact.content))
    try:
        return _translate(tool.present_result(arguments, outcome, cwd))
    except Exception:
        log.debug("tool %s cannot present its result", fact.name, exc_info=True)
        return _translate(Presented(content=fact.content))


def _translate(card: Presented) -> Card:
    left = LONGEST_TEXT
    content: list[dict[str, Any]] = []
    for diff in card.diffs:
        new, old = cut(diff.new, left), None if diff.old is None else cut(diff.old, left)
        left = max(0, left - len(new) - len(old or ""))
        item = {"type": "diff", "path": diff.path, "newText": new}
        content.append(item if old is None else {**item, "oldText": old})
    for block in card.content:
        wire = block_of(block)
        if wire["type"] == "text":
            wire["text"] = cut(wire["text"], left)
            left = max(0, left - len(wire["text"]))
        content.append({"type": "content", "content": wire})
    locations = [
        {"path": place.path} if place.line is None else {"path": place.path, "line": place.line}
        for place in card.locations
    ]
    return Card(card.title or "", card.kind or "", locations, content, card.terminal)


def cut(text: str, longest: int) -> str:
    """``text`` with at most ``longest`` characters and a mark where it was cut."""
    if len(text) <= longest:
        return text
    return f"{text[:longest]}… ({len(text) - longest} more characters)"


def windowed(value: Any) -> Any:
    """JSON with every long string cut and every null member left out."""
    if isinstance(value, str):
        return cut(value, LONGEST_FIELD)
    if isinstance(value, list):
        return [windowed(item) for item in value[:100]]
    if isinstance(value, Mapping):
        return {key: windowed(item) for key, item in value.items() if item is not None}
    return value
