"""Logs that a harness could have written: every shape of turn, and some that broke off.

They are generated from what happens in a turn, and fed through the grammar of a log as they grow,
so that nothing is tested that no session can contain.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from harness_core.content import (
    AssistantMessage,
    Failure,
    Finish,
    Image,
    ReasoningDelta,
    Resource,
    ResourceLink,
    Text,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    Usage,
    UsageReport,
    UserMessage,
)
from harness_core.facts import (
    AssistantChunk,
    AssistantSaid,
    Fact,
    LlmRetry,
    PlanEntry,
    PlanWrite,
    Reason,
    RequestHeader,
    SeedEnd,
    SessionTitle,
    StepEnd,
    StepStart,
    ToolArguments,
    ToolCalled,
    ToolPrinted,
    ToolReturned,
    ToolStarted,
    TurnEnd,
    TurnStart,
    UserSaid,
)
from harness_core.history import repair
from harness_core.model.protocol import ModelConfig
from harness_core.session import SessionEvent
from harness_core.structure import Structure

SIZES = st.sampled_from([1, 1, 1, 3, 9_000])
WORDS = st.sampled_from(["a", " word", "\n", '"\\', "日本", "\u2028", "\x1b[0m", "\U0001f600"])
TEXT = st.builds(str.__mul__, WORDS, SIZES)
TOOLS = st.sampled_from(["read", "shell", "edit", "plan", "gone"])
ARGUMENTS = st.sampled_from(
    [
        "",
        "{}",
        "[]",
        "{",
        '{"path":"a.py"}',
        '{"command":"ls"}',
        '{"command":5,"path":null}',
        '{"path":"/x","old":"a","new":"b"}',
    ]
)
BLOCKS = st.one_of(
    st.builds(Text, TEXT),
    st.just(Image("AAAA", "image/png")),
    st.builds(ResourceLink, st.just("file:///a"), TEXT),
    st.builds(lambda text: Resource("file:///a", text=text), TEXT),
)
REASONS = st.sampled_from(
    [
        Reason("completed"),
        Reason("max-tokens"),
        Reason("max-steps"),
        Reason("refused"),
        Reason("refused", why="I would rather not."),
        Reason("blocked", by="a hook", why="no"),
        Reason("aborted", cause="user"),
        Reason("aborted", cause="hook", why="enough"),
        Reason("error", message="it broke", code="server"),
    ]
)


@dataclass
class Log:
    """A log in the making; what is appended must fit."""

    draw: DrawFn
    structure: Structure = field(default_factory=Structure)
    events: list[SessionEvent] = field(default_factory=list)
    time: int = 1_700_000_000_000
    serial: int = 0

    def append(self, *facts: Fact) -> None:
        for fact in facts:
            self.structure.accept(fact)
            self.time += self.draw(st.sampled_from([0, 1, 300]))
            self.events.append(SessionEvent("s1", len(self.events), self.time, fact))

    def maybe(self, *appends: Callable[[], None]) -> None:
        """Some of these, in this order."""
        for append in appends:
            if self.draw(st.booleans()):
                append()

    def new_id(self, kind: str) -> str:
        self.serial += 1
        return f"{kind}{self.serial}"

    # --- what happens in a turn -------------------------------------------------------------------

    def turn(self) -> None:
        number = self.structure.turn + 1
        prompt = UserMessage(self.new_id("m"), tuple(self.draw(st.lists(BLOCKS, max_size=3))))
        self.append(TurnStart(number, (prompt.id,)))
        for step in range(self.draw(st.integers(0, 2))):
            self.step(number, prompt if step == 0 else None)
        self.append(TurnEnd(number, self.draw(REASONS)))

    def step(self, turn: int, prompt: UserMessage | None) -> None:
        number = self.structure.step + 1
        self.append(StepStart(turn, number))
        if prompt is not None:
            self.append(UserSaid(turn, prompt))
        self.maybe(
            lambda: self.said(turn, "steering"),
            lambda: self.said(turn, "context"),
            lambda: self.append(SessionTitle(self.draw(st.none() | TEXT))),
            lambda: self.append(
                RequestHeader(ModelConfig("demo:demo"), self.draw(st.none() | st.just(1_000)))
            ),
        )
        attempt = 1
        while self.draw(st.integers(0, 3)) == 0:
            self.stream(turn, number, attempt)
            failure = Failure("overloaded", "busy")
            self.append(LlmRetry(turn, number, attempt, 0.5, failure))
            attempt += 1
        self.answer(turn, number, attempt)
        self.append(StepEnd(turn, number))

    def said(self, turn: int, source: str) -> None:
        blocks = tuple(self.draw(st.lists(BLOCKS, max_size=2)))
        self.append(UserSaid(turn, UserMessage(self.new_id("m"), blocks, source)))

    def stream(self, turn: int, step: int, attempt: int) -> list[Any]:
        """One attempt's chunks; the parts of the message they make."""
        parts: list[Any] = []
        for _ in range(self.draw(st.integers(0, 3))):
            match self.draw(st.sampled_from(["text", "reasoning", "call"])):
                case "text":
                    parts.append(Text(self.draw(TEXT)))
                    chunks: list[Any] = [TextDelta(parts[-1].text), TextDelta("")]
                case "reasoning":
                    text = self.draw(TEXT)
                    chunks = [ReasoningDelta(text), ReasoningDelta("", "seal")]
                case _:
                    call = ToolCall(self.new_id("c"), self.draw(TOOLS), self.draw(ARGUMENTS))
                    parts.append(call)
                    cut = len(call.arguments) // 2
                    chunks = [
                        ToolCallDelta(call.id, call.name, call.arguments[:cut]),
                        ToolCallDelta(call.id, arguments=call.arguments[cut:]),
                    ]
            for chunk in chunks:
                self.append(AssistantChunk(turn, step, attempt, chunk))
        return parts

    def answer(self, turn: int, step: int, attempt: int) -> None:
        """The attempt that counts: a message and the calls of it, or a failure without one."""
        whole = self.draw(st.integers(0, 3)) == 0
        parts = [Text(self.draw(TEXT))] if whole else self.stream(turn, step, attempt)
        usage = self.draw(st.none() | st.just(Usage(input=600, output=700)))
        if usage is not None:
            self.append(AssistantChunk(turn, step, attempt, UsageReport(usage)))
        if self.draw(st.integers(0, 5)) == 0:
            return
        self.append(AssistantChunk(turn, step, attempt, Finish("stop")))
        self.append(AssistantSaid(turn, step, AssistantMessage(tuple(parts)), usage))
        calls = [part for part in parts if isinstance(part, ToolCall)]
        for call in calls:
            self.append(ToolCalled(turn, step, call.id, call.name, call.arguments))
        for call in calls:
            self.run(turn, step, call)

    def run(self, turn: int, step: int, call: ToolCall) -> None:
        self.maybe(
            lambda: self.append(ToolArguments(call.id, self.draw(ARGUMENTS), "a hook")),
            lambda: self.append(ToolStarted(call.id)),
            *[lambda: self.printed(call)] * 4,
            self.plan,
        )
        content = tuple(self.draw(st.lists(BLOCKS, max_size=2)))
        error = self.draw(st.sampled_from([None, None, "failed", "denied", "aborted"]))
        self.append(ToolReturned(turn, step, call.id, call.name, content, error, {"exit_code": 0}))

    def printed(self, call: ToolCall) -> None:
        data = base64.b64encode(self.draw(TEXT).encode()).decode()
        self.append(ToolPrinted(call.id, "stdout", data))

    def plan(self) -> None:
        statuses: Any = st.sampled_from(["pending", "in_progress", "completed", "cancelled"])
        entries = st.lists(st.builds(PlanEntry, TEXT, st.just("high"), statuses), max_size=3)
        self.append(PlanWrite(tuple(self.draw(entries))))


@st.composite
def logs(draw: DrawFn) -> list[SessionEvent]:
    """A whole log; perhaps one that a crash cut short and a resume continued."""
    log = Log(draw)
    for _ in range(draw(st.integers(1, 2))):
        log.turn()
    if not draw(st.booleans()):
        return log.events
    crashed = Log(draw, serial=log.serial, time=log.time)
    for event in log.events[: draw(st.integers(1, len(log.events)))]:
        crashed.append(event.fact)
    crashed.append(*repair(crashed.events), SeedEnd("resume"))
    crashed.turn()
    return crashed.events
