"""Titles: a new session is named after its first prompt, so that it is found in a list."""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING
from urllib.parse import unquote

from harness_core.agent import AGENT_CREATED, Agent
from harness_core.content import Image, Resource, ResourceLink, Text, UserBlock, UserMessage
from harness_core.facts import SessionTitle, UserSaid
from harness_core.session import SESSION_EVENT, SessionEvent

if TYPE_CHECKING:
    from harness_core.harness import Harness

LONGEST = 72
"""Characters of a title."""


def title_of(message: UserMessage) -> str | None:
    """A title from a prompt's first line of text that says something, or else from what is attached
    first; ``None`` if there is neither."""
    texts = (line for b in message.content if isinstance(b, Text) for line in b.text.splitlines())
    names = (_name(block) for block in message.content)
    for line in chain(texts, names):
        words = " ".join(line.split())
        if words:
            return words if len(words) <= LONGEST else words[: LONGEST - 1].rstrip() + "…"
    return None


def _name(block: UserBlock) -> str:
    """What an attachment is called: by whoever sent it, or for what it is."""
    match block:
        case Text():
            return ""
        case ResourceLink(title=title, name=name, uri=uri):
            named = title or name or uri
        case Resource(uri=uri):
            named = _last_part(uri)
        case Image(uri=uri):
            named = _last_part(uri or "")
        case _:
            named = ""
    return named.strip() or block.type.replace("_", " ").capitalize()


def _last_part(uri: str) -> str:
    """The name of the file that ``uri`` leads to, if it is such an address."""
    return unquote(re.split("[?#]", uri)[0].rstrip("/").rpartition("/")[2])


def install(harness: Harness) -> None:
    """Watch every agent's session until it has a title."""

    def watch(agent: Agent) -> None:
        session = agent.session
        if any(isinstance(event.fact, SessionTitle) for event in session.events):
            return

        def observe(event: SessionEvent) -> None:
            fact = event.fact
            if isinstance(fact, SessionTitle):
                session.defer(dispose)
            elif isinstance(fact, UserSaid) and fact.message.source == "prompt":
                title = title_of(fact.message)
                if title is not None:
                    session.defer(lambda: session.append(SessionTitle(title)))

        dispose = session.bus.on(SESSION_EVENT, observe)

    harness.bus.on(AGENT_CREATED, watch)
