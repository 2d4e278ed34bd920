"""How tool calls look on the wire: a tool's pure presentation as ACP fields.

Works for tools that are gone as well: what nobody can present any more gets a plain card.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from acp_server.content import LONGEST_DATA, shown
from acp_server.limits import Budget, cut
from harness_core.facts import ToolReturned
from harness_core.tools.tool import Card as Presented
from harness_core.tools.tool import Diff, Location, Outcome, Tool

log = logging.getLogger(__name__)

TITLE, LOCATIONS, CONTENT = 1_000, 5_000, 26_000
"""Bytes of the parts of one card."""

ITEM = 80
"""Bytes around one item of content."""

RAW_INPUT = 12_000
"""Bytes of a call's arguments (V1-TOOL-10)."""


@dataclass(frozen=True, slots=True)
class Card:
    """A presentation in ACP's terms; empty fields are not sent."""

    title: str
    kind: str
    locations: list[dict[str, Any]]
    content: list[dict[str, Any]]
    terminal: bool


def card_of_call(
    tool: Tool[Any] | None, name: str, arguments: Mapping[str, Any] | None, cwd: str
) -> Card:
    """The card of a call. Never fails: a model may have sent anything as arguments.

    A call that its tool will not take, or whose arguments are no object, does nothing and shows
    nothing of what it would have done.
    """
    if tool is None:
        return _plain(name, "other")
    try:
        card = tool.present_call(arguments or {}, cwd)
        if arguments is None or not tool.schema.accepts(arguments):
            card = replace(card, locations=(), diffs=(), content=())
        return _translate(card)
    except Exception:
        log.debug("tool %s cannot present %r", name, arguments, exc_info=True)
        return _plain(name, tool.kind)


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


def _plain(name: str, kind: str) -> Card:
    return Card(cut(name, TITLE), kind, [], [], False)


def raw_input(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call, as far as there is room for them."""
    found: dict[str, Any] = Budget(RAW_INPUT).windowed(arguments)
    return found


def content_item(block: dict[str, Any]) -> dict[str, Any]:
    """A content block as an item of a card's content."""
    return {"type": "content", "content": block}


def diff_items(diffs: Sequence[Diff], room: Budget) -> list[dict[str, Any]]:
    """Diffs as items of a card's content, those there is room for."""
    return [_diff(diff, room) for diff in diffs if room.take(diff.path)]


def _translate(card: Presented) -> Card:
    room, data = Budget(CONTENT), Budget(LONGEST_DATA)
    content = diff_items(card.diffs, room)
    for block in card.content:
        if room.left > 0:
            room.left -= ITEM
            content.append(content_item(shown(block, room, data)))
    title, locations = cut(card.title or "", TITLE), _locations(card.locations, Budget(LOCATIONS))
    return Card(title, card.kind or "", locations, content, card.terminal)


def _diff(diff: Diff, room: Budget) -> dict[str, Any]:
    """A new file has no old text, and says so: there are clients that show no diff without one."""
    room.left -= ITEM
    new, old = room.cut(diff.new), None if diff.old is None else room.cut(diff.old)
    return {"type": "diff", "path": diff.path, "newText": new, "oldText": old}


def _locations(places: Sequence[Location], room: Budget) -> list[dict[str, Any]]:
    """Those there is room for: a path that is cut would be another one."""
    found = (
        {"path": place.path} if place.line is None else {"path": place.path, "line": place.line}
        for place in places
    )
    return [place for place in found if room.take(place)]
