"""The corpus: what the agent was recorded doing is what it does, flawless, and all it can do.

A recording that the agent outgrew on purpose is renewed by ``scripts/make_corpus.py``.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

import conformance
from acp_server.server import METHODS
from conformance.dialogue import A2C, C2A, Dialogue, Role, dig
from conformance.lint import RULES, lint
from conformance.lint.file import left_early
from conformance.replay import Replay, replay
from conformance.transcript import Transcript, load, parse, render
from harness_core.tools.builtin import TOOLS

CORPUS = Path(conformance.__file__).parent / "transcripts"
RECORDINGS = sorted(CORPUS.glob("*.jsonl"))
UNANSWERABLE = {"answer.before-exit"}
"""Lines whose id no answer can carry."""
EXPECTED_FINDINGS = {"malformed-lines": UNANSWERABLE, "malformed-requests": UNANSWERABLE}
ENOUGH = 40
recordings = pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)


@pytest.fixture(scope="module")
def dialogues() -> list[Dialogue]:
    return [Dialogue(load(path).frames) for path in RECORDINGS]


def play(path: Path) -> Replay:
    command = shutil.which("acp-harness", path=str(Path(sys.executable).parent))
    assert command is not None, "acp-harness is not installed beside this Python"

    async def run(transcript: Transcript) -> Replay:
        return await replay(transcript, [command], timeout=60)

    return anyio.run(run, load(path))


@recordings
def test_the_agent_does_what_was_recorded(path: Path) -> None:
    result = play(path)
    assert result.ok, f"{result}\nIf this is right: python scripts/make_corpus.py {path.stem}"


@recordings
def test_a_recording_breaks_no_rule(path: Path) -> None:
    transcript = load(path)
    findings = lint(transcript.frames, complete=not left_early(transcript))
    found = {
        f"{finding.rule} ({RULES[finding.rule].level}): {finding.message}" for finding in findings
    }
    assert {finding.rule for finding in findings} == EXPECTED_FINDINGS.get(path.stem, set()), found


@recordings
def test_a_recording_is_as_the_kit_writes_it_and_names_no_machine(path: Path) -> None:
    data = path.read_bytes()
    assert render(parse(data)) == data
    assert not [word for word in (b"/tmp/acp-", b"/root/", b"/home/") if word in data]


def test_there_are_enough() -> None:
    assert len(RECORDINGS) >= ENOUGH


def test_every_method_is_called(dialogues: list[Dialogue]) -> None:
    called = {call.method for d in dialogues for call in d.messages if call.direction is C2A}
    assert set(METHODS) <= called


def test_every_built_in_tool_is_used(dialogues: list[Dialogue]) -> None:
    titles = {str(u.update.get("title")) for d in dialogues for u in d.updates("tool_call")}
    assert {tool.name for tool in TOOLS} <= titles


def test_every_kind_of_update_the_agent_makes_is_there(dialogues: list[Dialogue]) -> None:
    kinds = {update.kind for d in dialogues for update in d.updates()}
    assert kinds >= {
        "agent_message_chunk",
        "agent_thought_chunk",
        "available_commands_update",
        "config_option_update",
        "current_mode_update",
        "notice",
        "plan",
        "session_info_update",
        "tool_call",
        "tool_call_update",
        "usage_update",
        "user_message_chunk",
    }


def test_every_stop_reason_is_there(dialogues: list[Dialogue]) -> None:
    reasons = {dig(answer.result, "stopReason") for answer in answers(dialogues)}
    assert reasons >= {"end_turn", "cancelled", "max_tokens", "max_turn_requests", "refusal"}


def test_every_error_code_is_there(dialogues: list[Dialogue]) -> None:
    codes = {dig(answer.value, "error", "code") for answer in answers(dialogues)}
    assert codes >= {-32700, -32600, -32601, -32602, -32603, -32000, -32002}


def test_every_means_of_the_client_is_used(dialogues: list[Dialogue]) -> None:
    asked = {m.method for d in dialogues for m in d.sent(A2C, Role.REQUEST)}
    assert asked >= {
        "elicitation/create",
        "fs/read_text_file",
        "fs/write_text_file",
        "session/request_permission",
        "terminal/create",
        "terminal/output",
        "terminal/release",
        "terminal/wait_for_exit",
    }


def answers(dialogues: list[Dialogue]) -> Iterator[Any]:
    """Everything the agent answered."""
    for dialogue in dialogues:
        yield from dialogue.sent(A2C, Role.ANSWER)
