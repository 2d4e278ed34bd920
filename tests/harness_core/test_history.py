"""What a model is given, and how a log is closed after a crash."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from harness_core.bus import Bus
from harness_core.content import (
    AssistantMessage,
    Chunk,
    Failure,
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
    UserMessage,
)
from harness_core.facts import (
    AssistantChunk,
    AssistantSaid,
    CompactionEnd,
    CompactionStart,
    CompactionSummary,
    Fact,
    LlmRetry,
    Reason,
    StepEnd,
    StepStart,
    ToolCalled,
    ToolReturned,
    ToolStarted,
    TurnEnd,
    TurnStart,
    UserSaid,
)
from harness_core.history import NEVER_STARTED, OUTCOME_UNKNOWN, derive_messages, repair
from harness_core.journal.memory import MemoryJournal
from harness_core.session import Session, SessionEvent, SessionHeader
from harness_core.structure import Structure

Events = Callable[[Iterable[Fact]], list[SessionEvent]]

Logs = SearchStrategy[list[Fact]]


def user(id: str) -> UserMessage:
    return UserMessage(id, (Text(f"question {id}"),))


def assistant(text: str, *calls: str) -> AssistantMessage:
    return AssistantMessage((Text(text), *(ToolCall(id, "bash", "{}") for id in calls)))


def whole_turn(number: int, kind: str = "completed") -> list[Fact]:
    """A turn of three messages' worth: a question, an answer."""
    return [
        TurnStart(number, (f"q{number}",)),
        StepStart(number, 1),
        UserSaid(number, user(f"q{number}")),
        AssistantSaid(number, 1, assistant(f"answer {number}")),
        StepEnd(number, 1),
        TurnEnd(number, Reason(kind)),  # type: ignore[arg-type]
    ]


# --- history -------------------------------------------------------------------------------------


def test_history_is_what_was_said_in_order(events: Events) -> None:
    log = [
        TurnStart(1, ("q",)),
        StepStart(1, 1),
        UserSaid(1, user("q")),
        AssistantChunk(1, 1, 1, TextDelta("raw")),
        AssistantSaid(1, 1, assistant("let me see", "c")),
        ToolCalled(1, 1, "c", "bash", "{}"),
        ToolReturned(1, 1, "c", "bash", (Text("no such file"),), "failed"),
        StepEnd(1, 1),
        TurnEnd(1, Reason("completed")),
    ]
    assert derive_messages(events(log)) == [
        user("q"),
        assistant("let me see", "c"),
        ToolMessage("c", "bash", (Text("no such file"),), error=True),
    ]


def test_an_empty_answer_is_no_message(events: Events) -> None:
    log = [TurnStart(1, ()), StepStart(1, 1), AssistantSaid(1, 1, AssistantMessage(()))]
    assert derive_messages(events(log)) == []


def test_a_refused_turn_does_not_enter_later_requests(events: Events) -> None:
    log = [*whole_turn(1), *whole_turn(2, "refused"), *whole_turn(3)]
    kept = derive_messages(events([*whole_turn(1), *whole_turn(2)[:0]]))
    messages = derive_messages(events(log))
    assert messages == [*kept, user("q3"), assistant("answer 3")]


@pytest.mark.parametrize("kind", ["completed", "max-tokens", "error", "aborted", "interrupted"])
def test_every_other_turn_does(events: Events, kind: str) -> None:
    assert len(derive_messages(events(whole_turn(1, kind)))) == 2


# --- compaction ----------------------------------------------------------------------------------


def compaction(id: str, before: int, outcome: str = "completed") -> list[Fact]:
    summary = UserMessage(f"summary {id}", (Text(f"summary {id}"),), "summary")
    return [
        CompactionStart(id),
        CompactionSummary(id, before, summary),
        CompactionEnd(id, outcome),  # type: ignore[arg-type]
    ]


def texts(messages: Sequence[Message]) -> list[str]:
    """The messages by their first words."""
    firsts = [message.content[0] for message in messages]
    return [first.text for first in firsts if isinstance(first, Text)]


def test_a_summary_replaces_what_it_covers_and_keeps_the_rest(events: Events) -> None:
    log = [*whole_turn(1), *whole_turn(2), *compaction("k", 6)]
    assert texts(derive_messages(events(log))) == ["summary k", "question q2", "answer 2"]


@pytest.mark.parametrize("outcome", ["failed", "cancelled"])
def test_only_a_completed_compaction_takes_effect(events: Events, outcome: str) -> None:
    log = [*whole_turn(1), *compaction("k", 6, outcome)]
    assert texts(derive_messages(events(log))) == ["question q1", "answer 1"]


def test_a_later_summary_replaces_an_earlier_one(events: Events) -> None:
    first = [*whole_turn(1), *whole_turn(2), *compaction("k", 6)]
    log = [*first, *whole_turn(3), *compaction("l", len(first))]
    assert texts(derive_messages(events(log))) == ["summary l", "question q3", "answer 3"]


def test_a_later_summary_that_ends_before_the_first_one_was_written_replaces_it(
    events: Events,
) -> None:
    log = [*whole_turn(1), *whole_turn(2), *compaction("k", 6), *compaction("l", 9)]
    assert texts(derive_messages(events(log))) == ["summary l", "answer 2"]


def test_a_summary_made_in_a_refused_turn_still_stands_for_what_came_before(
    events: Events,
) -> None:
    opening, rest = whole_turn(2, "refused")[:1], whole_turn(2, "refused")[1:]
    log = [*whole_turn(1), *opening, *compaction("k", 6), *rest, *whole_turn(3)]
    assert texts(derive_messages(events(log))) == ["summary k", "question q3", "answer 3"]


def test_a_summary_of_a_refused_turn_goes_with_it(events: Events) -> None:
    opening, rest = whole_turn(2, "refused")[:-2], whole_turn(2, "refused")[-2:]
    log = [*whole_turn(1), *opening, *compaction("k", 9), *rest]
    assert texts(derive_messages(events(log))) == ["question q1", "answer 1"]


# --- repair --------------------------------------------------------------------------------------


def cut(*facts: Fact) -> list[Fact]:
    """A log that stops after these facts of an open step."""
    return [TurnStart(1, ("q",)), StepStart(1, 1), UserSaid(1, user("q")), *facts]


def chunks(*pieces: Chunk, attempt: int = 1) -> list[Fact]:
    return [AssistantChunk(1, 1, attempt, piece) for piece in pieces]


def test_a_closed_log_needs_no_repair(events: Events) -> None:
    assert repair([]) == []
    assert repair(events(whole_turn(1))) == []


def test_an_open_turn_is_closed(events: Events) -> None:
    assert repair(events([TurnStart(1, ("q",))])) == [TurnEnd(1, Reason("interrupted"))]


def test_an_open_step_is_closed(events: Events) -> None:
    assert repair(events(cut())) == [StepEnd(1, 1), TurnEnd(1, Reason("interrupted"))]


def test_what_was_visible_becomes_an_interrupted_message(events: Events) -> None:
    pieces = chunks(
        ReasoningDelta("hidden"),
        TextDelta("Let me "),
        TextDelta("see"),
        ToolCallDelta("c", "bash", "{"),
        UsageReport(Usage(input=3)),
    )
    said, *_ = repair(events(cut(*pieces)))
    message = AssistantMessage((Text("Let me see"),))
    assert said == AssistantSaid(1, 1, message, Usage(input=3), interrupted=True)


def test_only_the_last_attempt_was_visible(events: Events) -> None:
    pieces = [*chunks(TextDelta("first")), *chunks(TextDelta("second"), attempt=2)]
    said, *_ = repair(events(cut(*pieces)))
    assert said == AssistantSaid(1, 1, AssistantMessage((Text("second"),)), None, True)


FAILURE = Failure("cut", "the stream ended")


@pytest.mark.parametrize(
    "end", [LlmRetry(1, 1, 1, 0.5, FAILURE), AssistantChunk(1, 1, 1, Finish("error", FAILURE))]
)
def test_a_failed_attempt_leaves_nothing(events: Events, end: Fact) -> None:
    log = cut(*chunks(TextDelta("discarded")), end)
    assert repair(events(log)) == [StepEnd(1, 1), TurnEnd(1, Reason("interrupted"))]


def test_every_call_gets_a_result_that_says_what_is_known(events: Events) -> None:
    log = cut(
        AssistantSaid(1, 1, assistant("three calls", "a", "b", "c")),
        ToolCalled(1, 1, "a", "bash", "{}"),
        ToolCalled(1, 1, "b", "bash", "{}"),
        ToolCalled(1, 1, "c", "bash", "{}"),
        ToolStarted("a"),
        ToolReturned(1, 1, "a", "bash", (Text("done"),)),
        ToolStarted("b"),
    )
    assert repair(events(log)) == [
        ToolReturned(1, 1, "b", "bash", (Text(OUTCOME_UNKNOWN),), "aborted"),
        ToolReturned(1, 1, "c", "bash", (Text(NEVER_STARTED),), "never-started"),
        StepEnd(1, 1),
        TurnEnd(1, Reason("interrupted")),
    ]


def test_a_call_that_was_asked_for_and_not_even_logged_gets_a_result_too(events: Events) -> None:
    log = cut(
        AssistantSaid(1, 1, assistant("two calls", "a", "b")),
        ToolCalled(1, 1, "a", "bash", "{}"),
    )
    assert repair(events(log)) == [
        ToolReturned(1, 1, "a", "bash", (Text(NEVER_STARTED),), "never-started"),
        ToolCalled(1, 1, "b", "bash", "{}"),
        ToolReturned(1, 1, "b", "bash", (Text(NEVER_STARTED),), "never-started"),
        StepEnd(1, 1),
        TurnEnd(1, Reason("interrupted")),
    ]


@given(data=st.data())
def test_a_log_cut_anywhere_is_repaired_once_and_for_all(
    data: st.DataObject, logs: Logs, events: Events
) -> None:
    log = data.draw(logs)
    facts = repair(events(log))
    assert repair(events(log)) == facts
    whole = events([*log, *facts])
    structure = Structure()
    for event in whole:
        structure.accept(event.fact)
    assert [structure.turn_open, structure.step_open, structure.open_calls] == [False, False, {}]
    assert repair(whole) == []


@given(data=st.data())
def test_after_repair_every_call_has_exactly_one_result_behind_it(
    data: st.DataObject, logs: Logs, events: Events
) -> None:
    log = data.draw(logs)
    pending: Counter[str] = Counter()
    for message in derive_messages(events([*log, *repair(events(log))])):
        if isinstance(message, AssistantMessage):
            assert not +pending
            pending.update(call.id for call in message.calls)
        elif isinstance(message, ToolMessage):
            assert pending[message.call_id] == 1
            pending[message.call_id] = 0
        else:
            assert not +pending
    assert not +pending


@given(data=st.data())
def test_a_session_takes_every_repair(data: st.DataObject, logs: Logs, events: Events) -> None:
    log = events(data.draw(logs))
    header = SessionHeader("s", "/proj", 1)
    session = Session(header, MemoryJournal().create(header), Bus(), log)
    for fact in repair(log):
        session.append(fact)
    assert repair(session.events) == []
    turn = session.structure.turn
    assert session.append(TurnStart(turn + 1, ("next",))).fact == TurnStart(turn + 1, ("next",))


def test_reasoning_is_part_of_the_history_with_its_seal(events: Events) -> None:
    said = AssistantMessage((Reasoning("hm", "seal"), Text("so")))
    log = cut(AssistantSaid(1, 1, said))
    assert derive_messages(events(log))[-1] == said
