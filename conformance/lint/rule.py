"""What a lint rule is, and the list of all of them.

A rule is one function over a dialogue that yields what it found broken. Its id,
level and references stand beside it and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from conformance.dialogue import Dialogue, Message
from conformance.frames import Finding, Level

Actor = Literal["agent", "client"]


@dataclass(frozen=True, slots=True)
class Broken:
    """One breach: a sentence and the indexes of the frames that prove it."""

    message: str
    frames: tuple[int, ...]


Check = Callable[[Dialogue], Iterator[Broken]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule over whole conversations. ``actor`` is who would have to change."""

    id: str
    title: str
    level: Level
    refs: tuple[str, ...]
    check: Check
    actor: Actor = "agent"
    versions: tuple[int, ...] = (1,)
    """Protocol versions the rule is about."""

    def apply(self, dialogue: Dialogue) -> list[Finding]:
        """What breaks the rule, in the order of the frames."""
        if dialogue.version not in self.versions:
            return []
        return [Finding(self.id, broken.message, broken.frames) for broken in self.check(dialogue)]


RULES: dict[str, Rule] = {}
"""Every rule by its id, in the order of definition."""

BOTH = (1, 2)


def rule(
    id: str,
    level: Level,
    title: str,
    *refs: str,
    actor: Actor = "agent",
    versions: tuple[int, ...] = (1,),
) -> Callable[[Check], Check]:
    """Enter a function into ``RULES``; ``refs`` are requirement ids."""

    def enter(check: Check) -> Check:
        if id in RULES:
            raise ValueError(f"two rules are called {id}")
        RULES[id] = Rule(id, title, level, refs, check, actor, versions)
        return check

    return enter


def broken(text: str, *messages: Message) -> Broken:
    """A breach proved by these messages."""
    return Broken(text, tuple(message.index for message in messages))
