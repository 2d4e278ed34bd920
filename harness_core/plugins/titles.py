"""Titles: a new session is named after the first line of its first prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness_core.agent import AGENT_CREATED, Agent
from harness_core.content import Text, UserMessage
from harness_core.facts import SessionTitle, UserSaid
from harness_core.session import SESSION_EVENT, SessionEvent

if TYPE_CHECKING:
    from harness_core.harness import Harness

LONGEST = 72
"""Characters of a title."""


def title_of(message: UserMessage) -> str | None:
    """A title from a prompt's first line of text that says something, ``None`` if none does."""
    for block in message.content:
        for line in block.text.splitlines() if isinstance(block, Text) else ():
            words = " ".join(line.split())
            if words:
                return words if len(words) <= LONGEST else words[: LONGEST - 1].rstrip() + "…"
    return None


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
