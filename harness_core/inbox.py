"""What waits to be said to an agent: prompts for turns, steering for steps.

Live only: what was never claimed never enters the log. No I/O and no events; the agent tells.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from harness_core.content import UserMessage


class DuplicateMessage(ValueError):
    """A message id that this inbox has seen before."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What one turn takes: at most one queued prompt, and all steering there was, in order."""

    messages: tuple[UserMessage, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of its messages."""
        return tuple(message.id for message in self.messages)


class Inbox:
    """Two lanes in arrival order. Message ids are minted outside and unique for good.

    ``seen`` are ids that were used before this inbox was there.
    """

    def __init__(self, seen: Iterable[str] = ()) -> None:
        self._prompts: deque[UserMessage] = deque()
        self._steering: deque[UserMessage] = deque()
        self._seen: set[str] = set(seen)
        self._waking: set[str] = set()
        """Ids of the waiting steering that deserves a turn of its own."""

    def queue(self, message: UserMessage) -> None:
        """Add a prompt for a turn of its own. Raises ``DuplicateMessage``."""
        self._admit(message)
        self._prompts.append(message)

    def steer(self, message: UserMessage, *, wake: bool) -> None:
        """Add to the next step; with ``wake``, to a turn of its own if none would come.

        Raises ``DuplicateMessage``.
        """
        self._admit(message)
        self._steering.append(message)
        if wake:
            self._waking.add(message.id)

    def _admit(self, message: UserMessage) -> None:
        if message.id in self._seen:
            raise DuplicateMessage(f"message {message.id} was sent before")
        self._seen.add(message.id)

    @property
    def ready(self) -> bool:
        """Whether a turn should begin."""
        return bool(self._prompts or self._waking)

    @property
    def steered(self) -> bool:
        """Whether anything waits for the next step."""
        return bool(self._steering)

    def claim(self) -> Claim:
        """Take what the next turn gets: one prompt, and before it all pending steering."""
        steering = self.take_steering()
        prompts = (self._prompts.popleft(),) if self._prompts else ()
        return Claim(steering + prompts)

    def take_steering(self) -> tuple[UserMessage, ...]:
        """Take all pending steering, for the next step."""
        taken = tuple(self._steering)
        self._steering.clear()
        self._waking.clear()
        return taken

    def calm(self) -> None:
        """What was steered stays, and begins no turn of its own any more."""
        self._waking.clear()

    def remove(self, id: str) -> UserMessage | None:
        """Take back what no turn has claimed; ``None`` if it is not here."""
        for lane in (self._prompts, self._steering):
            for message in lane:
                if message.id == id:
                    lane.remove(message)
                    self._waking.discard(id)
                    return message
        return None

    @property
    def waiting(self) -> tuple[UserMessage, ...]:
        """Everything unclaimed: steering first, then prompts."""
        return (*self._steering, *self._prompts)
