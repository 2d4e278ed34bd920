"""The judge itself: a flawless conversation passes, and every kind of flaw is found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.frames import Direction, Frame
from conformance.transcript import Entry, Event, Header, Transcript, render
from tests.clients.judge import judge
from tests.clients.screen import Screen, differences
from tests.clients.sdk import misread

SESSION = "s1"
Message = dict[str, Any]


def ask(id: int, method: str, **params: Any) -> Entry:
    return _frame(Direction.C2A, {"id": id, "method": method, "params": params})


def answer(id: int, **result: Any) -> Entry:
    return _frame(Direction.A2C, {"id": id, "result": result})


def update(kind: str, /, **fields: Any) -> Entry:
    params = {"sessionId": SESSION, "update": {"sessionUpdate": kind, **fields}}
    return _frame(Direction.A2C, {"method": "session/update", "params": params})


def said(kind: str, text: str, id: str) -> Entry:
    return update(kind, content={"type": "text", "text": text}, messageId=id)


def _frame(direction: Direction, body: Message) -> Entry:
    return Frame(direction, 0.0, json.dumps({"jsonrpc": "2.0", **body}).encode())


CALL = {"toolCallId": "c1", "title": "Read it", "kind": "read"}
START = [
    ask(0, "initialize", protocolVersion=1),
    answer(0, protocolVersion=1, agentCapabilities={"loadSession": True}),
]
TURN = [
    ask(1, "session/new", cwd="/w", mcpServers=[]),
    answer(1, sessionId=SESSION),
    ask(2, "session/prompt", sessionId=SESSION, prompt=[{"type": "text", "text": "Hi"}]),
    said("agent_message_chunk", "Hel", "m1"),
    said("agent_message_chunk", "lo", "m1"),
    update("tool_call", **CALL, status="pending"),
    update("tool_call_update", toolCallId="c1", status="completed"),
    answer(2, stopReason="end_turn"),
]
LOAD = [
    ask(1, "session/load", sessionId=SESSION, cwd="/w", mcpServers=[]),
    said("user_message_chunk", "Hi", "u1"),
    said("agent_message_chunk", "Hello", "m1"),
    update("tool_call", **CALL, status="completed"),
    answer(1),
]
END = [Event("eof", 0.0, Direction.C2A), Event("eof", 0.0, Direction.A2C)]


def exit(status: int = 0) -> list[Entry]:
    return [*END, Event("exit", 0.0, detail=status)]


def verdict(folder: Path, *runs: list[Entry], stderr: str = "") -> list[str]:
    """What the judge says about these runs, one tape each."""
    tapes = [folder / f"{number}.jsonl" for number, _ in enumerate(runs)]
    for tape, entries in zip(tapes, runs, strict=True):
        tape.write_bytes(render(Transcript(Header(), tuple(entries))))
        tape.with_suffix(".stderr").write_text(stderr)
    return judge(tapes)


def test_a_flawless_conversation_passes(tmp_path: Path) -> None:
    assert verdict(tmp_path, [*START, *TURN, *exit()], [*START, *LOAD, *exit()]) == []


FLAWS: dict[str, tuple[list[Entry], str]] = {
    "schema": ([*START, *TURN[:-1], answer(2, stopReason="done"), *exit()], "schema 2026-11"),
    "old-schema": ([*START, *TURN[:-1], answer(2, stopReason="done"), *exit()], "schema 2026-08"),
    "sdk": ([*START, *TURN[:3], update("plan", entries="none"), TURN[-1], *exit()], "Python SDK"),
    "late": ([*START, *TURN, said("agent_message_chunk", "!", "m1"), *exit()], "turn.late-update"),
    "unanswered": ([*START, *TURN[:-1], *exit()], "answer.before-exit"),
    "status": ([*START, *TURN, *exit(1)], "left with 1"),
    "signal": ([*START, *TURN, Event("signal", 0.0, detail="SIGTERM"), *exit()], "SIGTERM"),
}


@pytest.mark.parametrize(("run", "found"), FLAWS.values(), ids=FLAWS.keys())
def test_a_flaw_is_found(tmp_path: Path, run: list[Entry], found: str) -> None:
    assert any(found in problem for problem in verdict(tmp_path, run))


def test_a_word_on_stderr_is_found(tmp_path: Path) -> None:
    (problem,) = verdict(tmp_path, [*START, *TURN, *exit()], stderr="DeprecationWarning: no\n")
    assert "DeprecationWarning" in problem


@pytest.mark.parametrize(
    "replay",
    [
        pytest.param([LOAD[0], *LOAD[2:]], id="a-prompt-is-missing"),
        pytest.param([*LOAD[:2], *LOAD[3:]], id="an-answer-is-missing"),
        pytest.param([*LOAD[:3], LOAD[4]], id="a-call-is-missing"),
        pytest.param([*LOAD[:2], LOAD[3], LOAD[2], LOAD[4]], id="another-order"),
        pytest.param(
            [*LOAD[:3], update("tool_call", **CALL, status="failed"), LOAD[4]], id="another-status"
        ),
        pytest.param(
            [*LOAD[:2], said("agent_message_chunk", "Hello!", "m1"), *LOAD[3:]], id="more-text"
        ),
    ],
)
def test_a_replay_that_says_something_else_is_found(tmp_path: Path, replay: list[Entry]) -> None:
    problems = verdict(tmp_path, [*START, *TURN, *exit()], [*START, *replay, *exit()])
    assert any("session/load of s1" in problem for problem in problems)


def test_after_a_kill_the_replay_may_say_more_but_not_less(tmp_path: Path) -> None:
    cut = [*START, *TURN[:6], *exit(-9)]
    failed = [*LOAD[:3], update("tool_call", **CALL, status="failed"), LOAD[4]]
    assert verdict(tmp_path, cut, [*START, *failed, *exit()]) == []
    lost = [*LOAD[:2], said("agent_message_chunk", "H", "m1"), *failed[3:]]
    assert verdict(tmp_path, cut, [*START, *lost, *exit()]) != []


def test_what_the_sdk_would_silently_drop_is_found() -> None:
    entry = {"content": "a", "priority": "high", "status": "pending"}
    bad = {**entry, "status": "half done"}
    body = {"sessionId": "s", "update": {"sessionUpdate": "plan", "entries": [entry, bad]}}
    (problem,) = misread({"method": "session/update", "params": body}, None)
    assert "entries" in problem
    body["update"] = {"sessionUpdate": "plan", "entries": [entry]}
    assert misread({"method": "session/update", "params": body}, None) == []


@settings(deadline=None)
@given(st.lists(st.text(min_size=1), min_size=1), st.data())
def test_a_screen_does_not_depend_on_how_text_was_cut(
    texts: list[str], data: st.DataObject
) -> None:
    whole, pieces = Screen(), Screen()
    for number, text in enumerate(texts):
        cut = data.draw(st.integers(0, len(text)))
        for part in (text[:cut], text[cut:]):
            pieces.show(_chunk(part, number))
        whole.show(_chunk(text, number))
    assert differences(pieces, whole) == []
    assert whole.texts() == texts


def _chunk(text: str, number: int) -> Message:
    return {
        "sessionUpdate": "agent_message_chunk",
        "content": {"type": "text", "text": text},
        "messageId": f"m{number}",
    }
