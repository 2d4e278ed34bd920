"""Pure folds over a log: the model's history, and the facts that close an open turn.

``derive_messages`` repairs nothing: the producers keep the log balanced. ``repair`` is the one
place that knows how a log is closed after a crash; running it twice gives the same facts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from harness_core.content import (
    AssistantBlock,
    AssistantMessage,
    Chunk,
    Finish,
    Message,
    Reasoning,
    ReasoningDelta,
    Text,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolMessage,
    Usage,
    UsageReport,
)
from harness_core.facts import (
    AssistantChunk,
    AssistantSaid,
    CompactionEnd,
    CompactionSummary,
    Fact,
    LlmRetry,
    Reason,
    StepEnd,
    StepStart,
    ToolCalled,
    ToolReturned,
    TurnEnd,
    TurnStart,
    UserSaid,
)
from harness_core.session import SessionEvent
from harness_core.structure import Structure

_Placed: TypeAlias = tuple[int, Message]
"""A message, and the seq that it stands at."""


class History:
    """The model's view of a log, fed event by event."""

    def __init__(self) -> None:
        self._messages: list[_Placed] = []
        self._before_turn: list[_Placed] = []
        """What the history goes back to if the turn is refused."""
        self._turn_began = 0
        self._summaries: dict[str, CompactionSummary] = {}

    @property
    def messages(self) -> list[Message]:
        """What the next request contains, oldest first."""
        return [message for _, message in self._messages]

    def feed(self, event: SessionEvent) -> None:
        """Take the next event of the log."""
        match event.fact:
            case TurnStart():
                self._turn_began, self._before_turn = event.seq, list(self._messages)
            case UserSaid(message=message):
                self._messages.append((event.seq, message))
            case AssistantSaid(message=answer) if answer.content:
                self._messages.append((event.seq, answer))
            case ToolReturned(call_id=id, name=name, content=content, error=error):
                result = ToolMessage(id, name, content, error is not None)
                self._messages.append((event.seq, result))
            case TurnEnd(reason=Reason(kind="refused")):
                self._messages = self._before_turn
            case CompactionSummary() as summary:
                self._summaries[summary.id] = summary
            case CompactionEnd(id=id, outcome="completed") if id in self._summaries:
                self._compact(self._summaries.pop(id))

    def _compact(self, summary: CompactionSummary) -> None:
        self._messages = _compacted(self._messages, summary)
        if summary.before <= self._turn_began:
            self._before_turn = _compacted(self._before_turn, summary)


def _compacted(messages: list[_Placed], summary: CompactionSummary) -> list[_Placed]:
    """The summary, in the place of all that it stands for."""
    kept = [placed for placed in messages if placed[0] >= summary.before]
    return [(summary.before - 1, summary.message), *kept]


def derive_messages(events: Iterable[SessionEvent]) -> list[Message]:
    """The messages a model would be given now: a pure fold over the log."""
    history = History()
    for event in events:
        history.feed(event)
    return history.messages


class Assembly:
    """The chunks of one attempt, put together as they come."""

    def __init__(self) -> None:
        self._blocks: list[AssistantBlock] = []
        self._pieces: list[str] = []
        self._open: type[Text] | type[Reasoning] | None = None
        self._calls: dict[str, tuple[str, list[str]]] = {}
        self.usage: Usage | None = None

    def add(self, chunk: Chunk) -> None:
        """Take the next chunk."""
        match chunk:
            case TextDelta(text=text):
                self._grow(Text, text)
            case ReasoningDelta(text=text, signature=signature):
                self._grow(Reasoning, text)
                if signature is not None:
                    self._seal(signature)
            case ToolCallDelta(id=id, name=name, arguments=arguments):
                self._grow_call(id, name, arguments)
            case UsageReport(usage=usage):
                self.usage = usage

    def _grow(self, kind: type[Text] | type[Reasoning], text: str) -> None:
        if self._open is not kind:
            self._seal()
            self._open = kind
        self._pieces.append(text)

    def _seal(self, signature: str | None = None) -> None:
        text = "".join(self._pieces)
        if self._open is Reasoning and (text or signature):
            self._blocks.append(Reasoning(text, signature))
        elif self._open is Text and text:
            self._blocks.append(Text(text))
        self._open = None
        self._pieces.clear()

    def _grow_call(self, id: str, name: str, arguments: str) -> None:
        if id not in self._calls:
            self._seal()
            self._blocks.append(ToolCall(id, name, ""))
            self._calls[id] = (name, [])
        self._calls[id][1].append(arguments)

    def message(self, *, prefix: bool = False) -> AssistantMessage:
        """The assembled message; with ``prefix``, only what was visible, without tool calls."""
        self._seal()
        blocks: list[AssistantBlock] = []
        for block in self._blocks:
            if not isinstance(block, ToolCall):
                blocks.append(block)
            elif not prefix:
                name, pieces = self._calls[block.id]
                blocks.append(ToolCall(block.id, name, "".join(pieces)))
        if prefix:
            blocks = [b for b in blocks if not isinstance(b, Reasoning)]
        return AssistantMessage(tuple(blocks))


NEVER_STARTED = "This call was never started."
OUTCOME_UNKNOWN = (
    "The agent stopped while this call was running. Its outcome is unknown: check before repeating."
)


def close_calls(structure: Structure, why_started: str, why_not: str) -> list[Fact]:
    """A result for every call without one, in the order they were asked for.

    A call that the answer asks for and that was not even logged is logged first.
    """
    facts: list[Fact] = []
    for call in structure.open_calls.values():
        began = call.call_id in structure.started
        facts.append(
            ToolReturned(
                call.turn,
                call.step,
                call.call_id,
                call.name,
                (Text(why_started if began else why_not),),
                "aborted" if began else "never-started",
            )
        )
    turn, step = structure.turn, structure.step
    for ask in structure.asked.values():
        facts.append(ToolCalled(turn, step, ask.id, ask.name, ask.arguments))
        nothing = (Text(why_not),)
        facts.append(ToolReturned(turn, step, ask.id, ask.name, nothing, "never-started"))
    return facts


def repair(events: Sequence[SessionEvent]) -> list[Fact]:
    """The facts that close a log whose last turn is open; empty if none is. Pure."""
    structure = Structure()
    for event in events:
        structure.accept(event.fact)
    if not structure.turn_open:
        return []
    facts: list[Fact] = []
    if structure.step_open:
        if not structure.answered:
            facts += _visible_prefix(events, structure)
        facts += close_calls(structure, OUTCOME_UNKNOWN, NEVER_STARTED)
        facts.append(StepEnd(structure.turn, structure.step))
    facts.append(TurnEnd(structure.turn, Reason("interrupted")))
    return facts


def _visible_prefix(events: Sequence[SessionEvent], structure: Structure) -> list[Fact]:
    """What the open step had streamed of its last attempt, as an interrupted message.

    An attempt that had failed leaves nothing, as it would have without the crash.
    """
    assembly, attempt = Assembly(), 0
    for event in events[_last_step(events) :]:
        match event.fact:
            case LlmRetry() | AssistantChunk(chunk=Finish(kind="error")):
                assembly = Assembly()
            case AssistantChunk(attempt=number, chunk=chunk):
                if number != attempt:
                    assembly, attempt = Assembly(), number
                assembly.add(chunk)
    message = assembly.message(prefix=True)
    if not message.content:
        return []
    return [AssistantSaid(structure.turn, structure.step, message, assembly.usage, True)]


def _last_step(events: Sequence[SessionEvent]) -> int:
    index = len(events) - 1
    while index > 0 and not isinstance(events[index].fact, StepStart):
        index -= 1
    return max(index, 0)
