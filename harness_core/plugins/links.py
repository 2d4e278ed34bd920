"""Links: a file that a person links to is read when a turn takes the prompt.

It is read as the ``read`` tool would, and what was read is a message of its own beside the prompt:
a fact like any other, so that the model is given the same after a restart, and people see the link
that they sent. What cannot be read is said to be unread; other links stay mere references.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import unquote

from harness_core.bus import Next
from harness_core.content import Resource, ResourceLink, ResultBlock, Text, UserBlock, UserMessage
from harness_core.loop import PRE_STEP, PreStep
from harness_core.tools.files import Files
from harness_core.tools.read import PAGE_BYTES, PAGE_LINES, contents
from harness_core.tools.tool import ToolError

if TYPE_CHECKING:
    from harness_core.harness import Harness

ROOM = 4 * PAGE_BYTES
"""Bytes after which no further file of a message is read; an image counts as a page."""

HEAD = "Read from what the user links to, as it was then; line numbers are not part of the text:"

_FILE = re.compile(
    r"file:(?://([^/?#]*))?(/[^?#]*)(?:\?[^#]*)?(?:#(.*))?", re.IGNORECASE | re.DOTALL
)
_LINES = re.compile(
    r"L?(\d{1,9})(?:[,C]\d+)?(?:[-:]L?(\d{1,9})(?:[,C]\d+)?)?", re.IGNORECASE | re.ASCII
)
"""``L10``, ``L10-20``, ``L10-L20`` or ``L10:20``, and editors' columns, which do not count here."""


@dataclass(frozen=True, slots=True)
class Target:
    """The file that a link leads to, and which of its lines; ``host`` is empty for this machine."""

    path: str
    offset: int = 1
    limit: int = PAGE_LINES
    host: str = ""


def target(uri: str) -> Target | None:
    """Where a ``file:`` address leads; ``None`` for any other address."""
    match = _FILE.fullmatch(uri)
    if match is None:
        return None
    host, path, fragment = match.groups(default="")
    path = unquote(path)
    if os.name == "nt" and re.match("/[A-Za-z]:", path):
        path = path[1:]
    host = "" if host.lower() == "localhost" else host
    lines = _LINES.fullmatch(fragment)
    if lines is None:
        return Target(path, host=host)
    first = max(1, int(lines[1]))
    last = max(first, int(lines[2] or first))
    return Target(path, first, last - first + 1, host)


async def linked(files: Files, message: UserMessage) -> UserMessage | None:
    """What the links of ``message`` lead to, as context; ``None`` if none leads to a file."""
    links = dict.fromkeys(block.uri for block in message.content if isinstance(block, ResourceLink))
    blocks: list[UserBlock] = []
    room = ROOM
    for uri in links:
        if (place := target(uri)) is None:
            continue
        try:
            found = await _read(files, place, room)
        except ToolError as failure:
            blocks.append(Text(f"{uri} was not read: {failure}"))
            continue
        match found:
            case (Text(text=text),):
                blocks.append(Resource(uri, text=text))
                room -= len(text.encode())
            case _:
                blocks += found
                room -= PAGE_BYTES
    if not blocks:
        return None
    return UserMessage(f"{message.id}-links", (Text(HEAD), *blocks), source="context")


async def _read(files: Files, place: Target, room: int) -> tuple[ResultBlock, ...]:
    if place.host:
        raise ToolError("it is on another machine")
    if room <= 0:
        raise ToolError("there is too much before it: use read")
    return await contents(files, place.path, place.offset, place.limit)


def install(harness: Harness) -> None:
    """Stand at ``agent/pre-step``, last: what was blocked is not read."""

    async def read(draft: PreStep, following: Next[PreStep, PreStep]) -> PreStep:
        draft = await following(draft)
        if draft.block is not None:
            return draft
        messages: list[UserMessage] = []
        for message in draft.messages:
            messages.append(message)
            if message.source != "context":
                found = await linked(draft.agent.files, message)
                messages += [found] if found is not None else []
        return replace(draft, messages=tuple(messages))

    harness.bus.on(PRE_STEP, read)
