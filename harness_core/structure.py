"""The shape that every log has: which fact may follow which.

One small state machine is fed every fact of a session, new or read back. It refuses what would
break the promises others build on (turns are bracketed, every call has exactly one result, ids are
unique), and it knows what is open, which is all that repair needs. It keeps no content.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness_core.content import ToolCall, ToolCallDelta
from harness_core.facts import (
    AssistantChunk,
    AssistantSaid,
    Fact,
    FactRefused,
    StepEnd,
    StepStart,
    ToolCalled,
    ToolReturned,
    ToolStarted,
    TurnEnd,
    TurnStart,
    UserSaid,
)


class Structure:
    """What is open in a log, and what may come next."""

    def __init__(self) -> None:
        self.turn = 0
        """The number of the last turn, 0 before the first; numbers are consecutive."""
        self.turn_open = False
        self.step = 0
        """The number of the last step of the last turn."""
        self.step_open = False
        self.answered = False
        """Whether the open step has its assistant message."""
        self.asked: dict[str, ToolCall] = {}
        """Calls that the open step's answer asks for and that were not logged yet."""
        self.open_calls: dict[str, ToolCalled] = {}
        self.started: set[str] = set()
        """Open calls whose body began to run."""
        self.call_ids: set[str] = set()
        """Of calls that were logged."""
        self.seen_ids: set[str] = set()
        """Of calls that a user interface may have seen, those of discarded attempts included."""
        self.message_ids: set[str] = set()

    def accept(self, fact: Fact) -> None:
        """Take the next fact. Raises ``FactRefused``, and then nothing has changed."""
        rule = _RULES.get(type(fact))
        if rule is not None:
            rule(self, fact)

    def _turn_start(self, fact: TurnStart) -> None:
        _require(not self.turn_open, f"turn {self.turn} is still open")
        _require(fact.turn == self.turn + 1, f"the next turn is {self.turn + 1}, not {fact.turn}")
        self.turn, self.turn_open, self.step = fact.turn, True, 0

    def _turn_end(self, fact: TurnEnd) -> None:
        _require(self.turn_open and fact.turn == self.turn, f"turn {fact.turn} is not open")
        _require(not self.step_open, f"step {self.step} is still open")
        self.turn_open = False

    def _step_start(self, fact: StepStart) -> None:
        _require(self.turn_open and fact.turn == self.turn, f"turn {fact.turn} is not open")
        _require(not self.step_open, f"step {self.step} is still open")
        _require(fact.step == self.step + 1, f"the next step is {self.step + 1}, not {fact.step}")
        self.step, self.step_open, self.answered, self.asked = fact.step, True, False, {}

    def _step_end(self, fact: StepEnd) -> None:
        self._in_step(fact)
        _require(not self.open_calls, f"calls without a result: {', '.join(self.open_calls)}")
        self.step_open = False

    def _in_step(self, fact: StepEnd | AssistantChunk | AssistantSaid | ToolCalled) -> None:
        if not (self.step_open and fact.step == self.step and fact.turn == self.turn):
            raise FactRefused(f"step {fact.turn}.{fact.step} is not open")

    def _user_said(self, fact: UserSaid) -> None:
        _require(self.turn_open and fact.turn == self.turn, f"turn {fact.turn} is not open")
        _require(fact.message.id not in self.message_ids, f"message {fact.message.id} is there")
        self.message_ids.add(fact.message.id)

    def _assistant_chunk(self, fact: AssistantChunk) -> None:
        self._in_step(fact)
        if isinstance(fact.chunk, ToolCallDelta):
            self.seen_ids.add(fact.chunk.id)

    def _assistant_said(self, fact: AssistantSaid) -> None:
        self._in_step(fact)
        _require(not self.answered, f"step {fact.turn}.{fact.step} has its answer")
        self.answered = True
        self.asked = {c.id: c for c in fact.message.calls if c.id not in self.call_ids}

    def _tool_called(self, fact: ToolCalled) -> None:
        self._in_step(fact)
        _require(fact.call_id not in self.call_ids, f"call {fact.call_id} is there")
        self.call_ids.add(fact.call_id)
        self.seen_ids.add(fact.call_id)
        self.open_calls[fact.call_id] = fact
        self.asked.pop(fact.call_id, None)

    def _tool_started(self, fact: ToolStarted) -> None:
        _require(fact.call_id in self.open_calls, f"call {fact.call_id} is not open")
        self.started.add(fact.call_id)

    def _tool_returned(self, fact: ToolReturned) -> None:
        _require(fact.call_id in self.open_calls, f"call {fact.call_id} is not open")
        del self.open_calls[fact.call_id]
        self.started.discard(fact.call_id)


def _require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise FactRefused(otherwise)


_RULES: dict[type[Fact], Callable[[Structure, Any], None]] = {
    AssistantChunk: Structure._assistant_chunk,
    AssistantSaid: Structure._assistant_said,
    StepEnd: Structure._step_end,
    StepStart: Structure._step_start,
    ToolCalled: Structure._tool_called,
    ToolReturned: Structure._tool_returned,
    ToolStarted: Structure._tool_started,
    TurnEnd: Structure._turn_end,
    TurnStart: Structure._turn_start,
    UserSaid: Structure._user_said,
}
