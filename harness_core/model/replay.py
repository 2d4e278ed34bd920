"""What a model said in a session, said again: token by token, from the log alone."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from harness_core.content import Chunk
from harness_core.facts import AssistantChunk, Fact
from harness_core.model.protocol import ModelInfo
from harness_core.model.scripted import ScriptedModel


def replies(facts: Iterable[Fact]) -> list[tuple[Chunk, ...]]:
    """The logged chunks of every attempt, in order. One that was interrupted has no ``Finish``."""
    chunks = (fact for fact in facts if isinstance(fact, AssistantChunk))
    attempts = groupby(chunks, key=lambda fact: (fact.turn, fact.step, fact.attempt))
    return [tuple(fact.chunk for fact in attempt) for _, attempt in attempts]


class ReplayModel(ScriptedModel):
    """Answers each call with the next attempt of a logged session, whatever it is asked."""

    def __init__(self, facts: Iterable[Fact], *, name: str = "log") -> None:
        super().__init__(replies(facts), info=ModelInfo("replay", name, images=True, audio=True))
