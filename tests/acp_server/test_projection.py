"""Projection: what a client is told of any log, live and in a replay.

The logs are generated; see ``logs``. Conversations of real agents are replayed in
``test_server_replay``.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from acp_server.projection import State, project
from acp_server.replay import replay
from acp_server.settlement import error_of
from harness_core.content import (
    AssistantMessage,
    Failure,
    ReasoningDelta,
    Text,
    TextDelta,
    ToolCallDelta,
    Usage,
    UserMessage,
)
from harness_core.facts import (
    AssistantChunk,
    AssistantSaid,
    Fact,
    LlmRetry,
    Reason,
    RequestHeader,
    SessionTitle,
    StepStart,
    ToolArguments,
    ToolCalled,
    ToolReturned,
    ToolStarted,
    TurnEnd,
    UserSaid,
)
from harness_core.model.protocol import ModelConfig
from harness_core.session import SessionEvent
from harness_core.tools.builtin import builtin_tools
from harness_core.tools.tool import ToolError
from tests.acp_server.judge import sound
from tests.acp_server.logs import logs
from tests.acp_server.screen import Screen

TOOLS = {tool.name: tool for tool in builtin_tools({})}
Update = dict[str, Any]


def fresh() -> State:
    return State("/p", TOOLS.get)


def live(events: Sequence[SessionEvent]) -> list[tuple[SessionEvent, Update]]:
    """Every update with the event that caused it."""
    state = fresh()
    return [(event, update) for event in events for update in project(event, state)]


def told(*facts: Fact, time: int = 1_700_000_000_000) -> list[Update]:
    """The updates of a few facts."""
    events = [SessionEvent("s1", seq, time, fact) for seq, fact in enumerate(facts)]
    return [update for _, update in live(events)]


# --- any log --------------------------------------------------------------------------------------


@given(logs())
def test_every_update_is_valid_and_short_enough_for_any_client(
    events: list[SessionEvent],
) -> None:
    for _, update in live(events):
        sound(update)
    for update in replay(events, fresh()):
        sound(update)


@given(logs())
def test_a_replay_says_what_the_live_run_said(events: list[SessionEvent]) -> None:
    shown, state = Screen(), fresh()
    for event in events:
        for update in project(event, state):
            shown.show(update)
        match event.fact:
            case TurnEnd(turn=turn, reason=Reason(kind="error") as reason):  # the answer told it
                text = f"*This turn failed: {error_of(reason).message}*"
                block = {"type": "text", "text": text}
                shown.items["agent_message_chunk", f"end-{turn}"] = [block]
    again = Screen(replay(events, fresh()))
    assert list(again.items.items()) == list(shown.items.items())
    assert again.usage == shown.usage


@given(logs())
def test_a_replay_shows_each_call_once_in_its_final_state(events: list[SessionEvent]) -> None:
    updates = replay(events, fresh())
    assert "tool_call_update" not in {update["sessionUpdate"] for update in updates}
    assert Screen(updates).open_calls == []


@given(logs())
def test_every_call_is_closed_before_its_turn_is(events: list[SessionEvent]) -> None:
    screen, state = Screen(), fresh()
    for event in events:
        for update in project(event, state):
            screen.show(update)
        if isinstance(event.fact, TurnEnd):
            assert screen.open_calls == []


@given(logs())
def test_a_message_id_means_one_message(events: list[SessionEvent]) -> None:
    meant: dict[str, set[Any]] = defaultdict(set)
    for event, update in live(events):
        if "messageId" not in update:
            continue
        match event.fact:
            case UserSaid(message=message):
                whose: Any = message.id
            case AssistantChunk() as fact:
                whose = (fact.turn, fact.step, fact.attempt, update["sessionUpdate"])
            case LlmRetry() as fact:
                whose = (fact.turn, fact.step, fact.attempt, update["sessionUpdate"])
            case AssistantSaid() as fact:
                attempts = [
                    e.fact.attempt
                    for e in events[: event.seq]
                    if isinstance(e.fact, LlmRetry)
                    and (e.fact.turn, e.fact.step) == (fact.turn, fact.step)
                ]
                attempt = max(attempts, default=0) + 1
                whose = (fact.turn, fact.step, attempt, update["sessionUpdate"])
            case other:
                whose = repr(other)
        meant[update["messageId"]].add(whose)
    assert [whose for whose in meant.values() if len(whose) > 1] == []


@given(logs())
def test_looking_changes_nothing(events: list[SessionEvent]) -> None:
    before = orjson.dumps([event.fact for event in events])
    first = replay(events, fresh())
    assert [update for _, update in live(events)] == [update for _, update in live(events)]
    assert replay(events, fresh()) == first
    assert orjson.dumps([event.fact for event in events]) == before


# --- what is said ---------------------------------------------------------------------------------

STEP = (StepStart(1, 1),)


def text_chunk(text: str, id: str, kind: str = "agent_message_chunk") -> Update:
    return {
        "sessionUpdate": kind,
        "content": {"type": "text", "text": text},
        "messageId": id,
    }


def delta(text: str, attempt: int = 1, step: int = 1) -> AssistantChunk:
    return AssistantChunk(1, step, attempt, TextDelta(text))


def test_text_and_thoughts_are_messages_of_their_own() -> None:
    thought = AssistantChunk(1, 1, 1, ReasoningDelta("hm"))
    assert told(*STEP, thought, delta("Hel"), delta("lo")) == [
        text_chunk("hm", "thought-1-1", "agent_thought_chunk"),
        text_chunk("Hel", "msg-1-1"),
        text_chunk("lo", "msg-1-1"),
    ]


def test_an_empty_delta_says_nothing() -> None:
    assert told(*STEP, delta(""), AssistantChunk(1, 1, 1, ReasoningDelta("", "seal"))) == []


def test_a_message_that_came_whole_is_shown_once() -> None:
    message = AssistantMessage((Text("Hello"),))
    assert told(*STEP, AssistantSaid(1, 1, message)) == [text_chunk("Hello", "msg-1-1")]
    assert told(*STEP, delta("Hello"), AssistantSaid(1, 1, message)) == [
        text_chunk("Hello", "msg-1-1")
    ]


def test_the_text_of_a_broken_attempt_is_marked_and_the_next_one_is_another_message() -> None:
    retry = LlmRetry(1, 1, 1, 0.5, Failure("overloaded", "busy"))
    first, mark, second = told(*STEP, delta("Once"), retry, delta("Once upon", attempt=2))
    assert first == text_chunk("Once", "msg-1-1")
    assert (mark["messageId"], second["messageId"]) == ("msg-1-1", "msg-1-1-2")
    assert "starts again" in mark["content"]["text"]


def test_an_attempt_that_showed_nothing_needs_no_mark() -> None:
    assert told(*STEP, LlmRetry(1, 1, 1, 0.5, Failure("overloaded", "busy"))) == []


def test_what_was_added_as_context_is_for_the_model_alone() -> None:
    assert told(UserSaid(1, UserMessage("m1", (Text("a"),), "context"))) == []
    assert told(UserSaid(1, UserMessage("m1", (Text("a"),)))) == [
        text_chunk("a", "m1", "user_message_chunk")
    ]


# --- how turns end --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (Reason("refused", why="I would rather not."), "I would rather not."),
        (Reason("refused"), "refused"),
        (Reason("blocked", by="policy", why="not on Fridays"), "policy: not on Fridays"),
        (Reason("aborted", cause="hook", why="enough"), "enough"),
        (Reason("interrupted"), "stopped"),
    ],
)
def test_an_unusual_end_is_told_as_text(reason: Reason, words: str) -> None:
    (update,) = told(TurnEnd(1, reason))
    assert words in update["content"]["text"]
    assert update["messageId"] == "end-1"


@pytest.mark.parametrize(
    "reason",
    [
        Reason("completed"),
        Reason("max-tokens"),
        Reason("max-steps"),
        Reason("aborted", cause="user"),
        Reason("aborted", cause="disposed", why="gone"),
        Reason("aborted", cause="hook"),
        Reason("error", message="it broke", code="server"),
    ],
)
def test_every_other_end_is_told_by_the_answer_alone(reason: Reason) -> None:
    assert told(TurnEnd(1, reason)) == []


# --- tool calls -----------------------------------------------------------------------------------


def called(id: str = "c1", name: str = "read", arguments: str = '{"path":"a.py"}') -> ToolCalled:
    return ToolCalled(1, 1, id, name, arguments)


def test_a_call_is_announced_as_soon_as_its_name_is_known() -> None:
    pieces = [ToolCallDelta("c1", "read", '{"pa'), ToolCallDelta("c1", "read", 'th":"a.py"}')]
    announced, named, started = told(
        *STEP,
        *(AssistantChunk(1, 1, 1, piece) for piece in pieces),
        called(),
        ToolStarted("c1"),
    )
    assert announced == {
        "sessionUpdate": "tool_call",
        "toolCallId": "c1",
        "name": "read",
        "title": "read",
        "kind": "read",
        "status": "pending",
    }
    assert named["sessionUpdate"] == "tool_call_update"
    assert named["rawInput"] == {"path": "a.py"}
    assert named["locations"] == [{"path": "/p/a.py"}]
    assert started == {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "c1",
        "status": "in_progress",
    }


def test_a_call_without_announcement_is_announced_with_all_that_is_known() -> None:
    (announced,) = told(called())
    assert (announced["sessionUpdate"], announced["status"]) == ("tool_call", "pending")
    assert announced["rawInput"] == {"path": "a.py"}


def test_a_rewritten_call_shows_what_will_run() -> None:
    _, rewritten = told(called(), ToolArguments("c1", '{"path":"b.py"}', "a hook"))
    assert rewritten["rawInput"] == {"path": "b.py"}
    assert rewritten["locations"] == [{"path": "/p/b.py"}]


@pytest.mark.parametrize("arguments", ["{", "[]", "5", "null", '{"path":5}', "NaN", ""])
def test_a_call_with_any_arguments_has_a_card(arguments: str) -> None:
    (announced,) = told(called(arguments=arguments))
    sound(announced)


VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=9) | st.just([{}])
NAMES = ["path", "content", "old_text", "new_text", "replace_all", "pattern", "command", "limit"]
GIVEN = st.dictionaries(st.sampled_from([*NAMES, "entries", "timeout", "x"]), VALUES).map(
    json.dumps
) | st.sampled_from(["", "{", "[]", "5", "null"])


@given(st.sampled_from(list(TOOLS)), GIVEN)
@example("edit", '{"path": "a", "old_text": "b"}')
@example("edit", '{"path": "a", "old_text": "", "new_text": "b"}')
@example("write", '{"path": "a", "content": "b", "x": 1}')
@example("list", "[]")
def test_a_call_that_will_not_be_made_shows_what_it_is_and_no_more(name: str, text: str) -> None:
    """And one that will be is shown with its arguments."""
    (announced,) = told(called(name=name, arguments=text))
    sound(announced)
    assert announced["title"]
    try:
        TOOLS[name].schema.validate(text)
    except ToolError:
        shown = {"sessionUpdate", "toolCallId", "name", "title", "kind", "status", "rawInput"}
        assert announced.keys() == shown
    else:
        assert ("locations" in announced) is (name in ("read", "write", "edit", "list"))


def test_arguments_of_any_depth_can_be_shown() -> None:
    deep = '{"a":' * 800 + "1" + "}" * 800
    (announced,) = told(called(name="gone", arguments=deep))
    sound(announced)


@pytest.mark.parametrize(("error", "status"), [(None, "completed"), ("denied", "failed")])
def test_a_result_is_final(error: str | None, status: str) -> None:
    *_, returned = told(called(), ToolReturned(1, 1, "c1", "read", (Text("x"),), error))
    assert returned["status"] == status


def test_a_call_that_was_announced_and_never_made_fails_with_its_turn() -> None:
    chunk = AssistantChunk(1, 1, 1, ToolCallDelta("c1", "read"))
    *_, closed = told(*STEP, chunk, TurnEnd(1, Reason("aborted", cause="user")))
    assert (closed["toolCallId"], closed["status"]) == ("c1", "failed")


def test_what_comes_after_a_result_is_not_shown() -> None:
    result = ToolReturned(1, 1, "c1", "read", (Text("x"),))
    before = told(called(), result)
    assert told(called(), result, ToolStarted("c1"), ToolArguments("c1", "{}", "x")) == before


# --- the rest -------------------------------------------------------------------------------------


def usage(context: Usage | None, window: int | None) -> list[Update]:
    header = RequestHeader(ModelConfig("demo:demo"), window)
    return told(header, AssistantSaid(1, 1, AssistantMessage(()), context))


def test_usage_is_what_the_last_request_takes_of_the_window() -> None:
    assert usage(Usage(input=10, cache_read=20, output=5), 100) == [
        {"sessionUpdate": "usage_update", "used": 35, "size": 100}
    ]


def test_usage_never_exceeds_the_window() -> None:
    assert usage(Usage(input=1_000), 100) == [
        {"sessionUpdate": "usage_update", "used": 100, "size": 100}
    ]


@pytest.mark.parametrize("window", [None, 0])
def test_usage_of_an_unknown_window_is_not_told(window: int | None) -> None:
    assert usage(Usage(input=10), window) == []
    assert usage(None, 100) == []


def test_a_title_may_be_cleared() -> None:
    (update,) = told(SessionTitle(None), time=1_700_000_000_123)
    assert update == {
        "sessionUpdate": "session_info_update",
        "title": None,
        "updatedAt": "2023-11-14T22:13:20.123Z",
    }
