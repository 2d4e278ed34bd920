"""What the kernel's tests share: asyncio, sessions in memory, and logs of every shape."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from harness_core.bus import Bus
from harness_core.content import (
    AssistantMessage,
    Chunk,
    Failure,
    Finish,
    ReasoningDelta,
    Text,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    UserMessage,
)
from harness_core.facts import (
    AssistantChunk,
    AssistantSaid,
    CompactionEnd,
    CompactionSummary,
    Fact,
    LlmRetry,
    Opaque,
    Reason,
    SeedEnd,
    SessionTitle,
    StepEnd,
    StepStart,
    ToolCalled,
    ToolReturned,
    ToolStarted,
    TurnEnd,
    TurnStart,
    UserSaid,
)
from harness_core.frozen import Frozen
from harness_core.journal.memory import MemoryJournal
from harness_core.session import Session, SessionEvent, SessionHeader
from harness_core.structure import Structure

settings.register_profile("any-machine", deadline=None)
settings.load_profile("any-machine")

Events = Callable[[Iterable[Fact]], list[SessionEvent]]


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def session() -> Session:
    """A live session in memory that has no events yet."""
    header = SessionHeader("s", "/proj", 1)
    return Session(header, MemoryJournal().create(header), Bus())


@pytest.fixture(scope="session")
def events() -> Events:
    """Number facts as a log would; one second passes from each to the next."""

    def number(facts: Iterable[Fact]) -> list[SessionEvent]:
        return [SessionEvent("s", seq, 1000 * (seq + 1), fact) for seq, fact in enumerate(facts)]

    return number


# --- any fact of any type ----------------------------------------------------------------------

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)

PLAIN: dict[Any, SearchStrategy[Any]] = {
    str: st.text(),
    int: st.integers(-(2**63), 2**64 - 1),
    float: st.floats(allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
    type(None): st.none(),
}


def values(hint: Any) -> SearchStrategy[Any]:
    """Any value that a type hint of a fact allows."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in PLAIN:
        return PLAIN[hint]
    if origin is Annotated:
        frozen = any(isinstance(mark, Frozen) for mark in hint.__metadata__)
        return JSON if frozen else values(arguments[0])
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (Union, types.UnionType):
        return st.one_of(*map(values, arguments))
    if origin is tuple:
        return st.lists(values(arguments[0]), max_size=3).map(tuple)
    if not (isinstance(hint, type) and is_dataclass(hint)):
        raise TypeError(f"no values for {hint!r}")
    scope = vars(sys.modules[hint.__module__])
    return st.builds(
        hint, **{field.name: values(eval(str(field.type), scope)) for field in fields(hint)}
    )


@pytest.fixture(scope="session")
def facts_of() -> Callable[[type[Fact]], SearchStrategy[Fact]]:
    """Any facts of one type."""
    return values


@pytest.fixture(scope="session")
def any_facts() -> SearchStrategy[Fact]:
    """Facts of every type that the kernel registers."""
    kernel = [cls for cls in Fact.registry.values() if cls.__module__ == Fact.__module__]
    known = [cls for cls in kernel if cls is not Opaque]
    return st.one_of(*map(values, known))


# --- any log that a harness could have written ---------------------------------------------------


class Writer:
    """Writes a log step by step, choosing among what may come next."""

    def __init__(self, draw: DrawFn) -> None:
        self.draw = draw
        self.facts: list[Fact] = []
        self.structure = Structure()
        self.count = 0
        self.attempt = 1

    def new_id(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def choices(self) -> list[Callable[[], Fact]]:
        """What a harness might append next."""
        state = self.structure
        if not state.turn_open:
            return [self.turn_start, self.turn_start, self.title, self.summary_or_end]
        if not state.step_open:
            return [self.step_start, self.step_start, self.turn_end, self.said]
        if not state.answered:
            return [self.chunk, self.chunk, self.retry, self.answer, self.step_end, self.said]
        if state.asked:
            return [self.called]
        if state.open_calls:
            return [self.started, self.returned, self.title]
        return [self.step_end, self.summary_or_end]

    def go(self) -> None:
        fact = self.draw(st.sampled_from(self.choices()))()
        self.structure.accept(fact)
        self.facts.append(fact)

    def turn_start(self) -> Fact:
        return TurnStart(self.structure.turn + 1, (self.new_id("m"),))

    def turn_end(self) -> Fact:
        kinds = ("completed", "refused", "error", "aborted")
        return TurnEnd(self.structure.turn, Reason(self.draw(st.sampled_from(kinds))))

    def step_start(self) -> Fact:
        self.attempt = 1
        return StepStart(self.structure.turn, self.structure.step + 1)

    def step_end(self) -> Fact:
        return StepEnd(self.structure.turn, self.structure.step)

    def said(self) -> Fact:
        return UserSaid(self.structure.turn, UserMessage(self.new_id("u"), (Text("hello"),)))

    def chunk(self) -> Fact:
        kinds: list[Chunk] = [
            TextDelta("text "),
            ReasoningDelta("thought "),
            ToolCallDelta(f"draft{self.count}", "bash", "{}"),
            Finish("error", Failure("cut", "the stream ended")),
        ]
        chunk = self.draw(st.sampled_from(kinds))
        return AssistantChunk(self.structure.turn, self.structure.step, self.attempt, chunk)

    def retry(self) -> Fact:
        self.attempt += 1
        failure = Failure("timeout", "too slow")
        turn, step = self.structure.turn, self.structure.step
        return LlmRetry(turn, step, self.attempt - 1, 0.5, failure)

    def answer(self) -> Fact:
        calls = tuple(
            ToolCall(self.new_id("c"), "bash", "{}") for _ in range(self.draw(st.integers(0, 3)))
        )
        message = AssistantMessage((Text("answer"), *calls))
        return AssistantSaid(self.structure.turn, self.structure.step, message)

    def called(self) -> Fact:
        call = next(iter(self.structure.asked.values()))
        turn, step = self.structure.turn, self.structure.step
        return ToolCalled(turn, step, call.id, call.name, call.arguments)

    def started(self) -> Fact:
        return ToolStarted(self.draw(st.sampled_from(list(self.structure.open_calls))))

    def returned(self) -> Fact:
        id = self.draw(st.sampled_from(list(self.structure.open_calls)))
        turn, step = self.structure.turn, self.structure.step
        return ToolReturned(turn, step, id, "bash", (Text("done"),))

    def title(self) -> Fact:
        return self.draw(st.sampled_from([SessionTitle("A title"), SeedEnd("resume")]))

    def summary_or_end(self) -> Fact:
        last = self.facts[-1] if self.facts else None
        if isinstance(last, CompactionSummary):
            return CompactionEnd(last.id, "completed")
        before = next(
            (seq for seq, fact in enumerate(self.facts) if isinstance(fact, TurnStart)), 0
        )
        message = UserMessage(self.new_id("sum"), (Text("summary"),), "summary")
        return CompactionSummary(self.new_id("k"), before, message)


@pytest.fixture(scope="session")
def logs() -> SearchStrategy[list[Fact]]:
    """The facts of a log that stops anywhere."""

    @st.composite
    def log(draw: DrawFn) -> list[Fact]:
        writer = Writer(draw)
        for _ in range(draw(st.integers(0, 40))):
            writer.go()
        return writer.facts

    return log()
