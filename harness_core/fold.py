"""State derived from a session's log, brought up to date when it is asked for.

A fold never writes and is never written to: it can be thrown away and made again at any moment.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Self

from harness_core.session import Session, SessionEvent

if TYPE_CHECKING:
    from harness_core.agent import Agent


class Fold(ABC):
    """Feeds itself the events that are new since the last time."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._seen = 0

    @classmethod
    def of(cls, agent: Agent) -> Self:
        """The agent's fold of this class, up to date."""
        fold: Self | None = agent.live.get(cls.__qualname__)
        if fold is None:
            fold = agent.live[cls.__qualname__] = cls(agent.session)
        fold.catch_up()
        return fold

    def catch_up(self) -> None:
        """Take the events since the last time."""
        events = self._session.events
        while self._seen < len(events):
            self._seen += 1
            self.feed(events[self._seen - 1])

    @abstractmethod
    def feed(self, event: SessionEvent) -> None:
        """Take one event."""
