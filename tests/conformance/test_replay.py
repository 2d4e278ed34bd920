"""Replay: what a recording's client did is done again, and what differs is told.

The toy agent makes up new ids, paths and times at every start, so a replay that
matches has normalised all of them.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import anyio
import pytest

from conformance.frames import Direction, Frame
from conformance.placeholders import placeholders, portable
from conformance.process import alive
from conformance.replay import Replay, replay, update
from conformance.transcript import Event, Header, Transcript, TranscriptError, parse, render
from tests.conformance.editor import TOY, converse

PROMPTS = (
    "think let me see; tool; say Hello there, this is a long answer.; usage 10",
    "ask; read a.txt; say and $CWD/b.txt",
    "terminal; say done",
    "say working on it; wait",
    "fail",
)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    path = tmp_path / "my project"
    path.mkdir()
    (path / "a.txt").write_text("content of a")
    return path


def play(transcript: Transcript, *options: str, timeout: float = 20.0) -> Replay:
    async def run() -> Replay:
        return await replay(transcript, [*TOY, *options], timeout=timeout)

    return anyio.run(run)


@pytest.mark.parametrize("prompt", PROMPTS)
def test_a_recording_of_an_agent_matches_that_agent(workspace: Path, prompt: str) -> None:
    result = play(converse(workspace, prompt))
    assert result.ok, str(result)
    assert str(result) == "as recorded"


def test_a_long_session_matches_from_its_file_alone(workspace: Path) -> None:
    recording = converse(workspace, *PROMPTS)
    stored = render(portable(recording, placeholders(recording)))
    assert str(workspace).encode() not in stored
    result = play(parse(stored))
    assert result.ok, str(result)


@pytest.mark.parametrize("options", [("--chunk", "1"), ("--chunk", "7"), ("--polls", "5")])
def test_chunking_and_polling_do_not_matter(workspace: Path, options: tuple[str, ...]) -> None:
    recording = converse(workspace, *PROMPTS)
    assert play(recording, *options).ok
    assert play(converse(workspace, *PROMPTS, options=options)).ok


def test_another_version_of_the_agent_is_no_difference(workspace: Path) -> None:
    assert play(converse(workspace, "say hi"), "--version", "2.0").ok


def test_another_answer_is_shown_as_a_diff(workspace: Path) -> None:
    result = play(converse(workspace, "say hello"), "--reply", "good bye")
    assert not result.ok
    assert result.hung is None
    (found,) = result.differences
    assert found.lane == "session-1"
    assert '-    "text": "hello",' in found.diff
    assert '+    "text": "good bye",' in found.diff


def test_an_order_that_differs_is_a_difference(workspace: Path) -> None:
    recorded = converse(workspace, "say one; tool")
    assert not play(recorded, "--reply", "one").ok


def test_an_agent_that_does_not_answer_hangs_and_says_where(workspace: Path) -> None:
    result = play(converse(workspace, "say hello"), "--deaf", timeout=4.0)
    assert result.hung is not None
    assert "nothing came for 4 s (session-1: 0 of 1 answers seen) before hanging up" in result.hung
    assert result.differences, "what is missing shows in the diff too"


def test_an_agent_that_does_not_end_hangs(workspace: Path) -> None:
    result = play(converse(workspace, "say hello"), "--stay", timeout=4.0)
    assert result.hung is not None
    assert "does not end" in result.hung


@pytest.mark.skipif(os.name == "nt", reason="processes are told apart by POSIX signals")
def test_a_hanging_agent_and_its_children_are_gone_afterwards(
    workspace: Path, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    child = "import time; time.sleep(600)"
    code = (
        "import os, subprocess, sys, time;"
        f"p = subprocess.Popen([sys.executable, '-c', {child!r}]);"
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{p.pid}}'); time.sleep(600)"
    )

    async def run() -> Replay:
        recording = converse(workspace, "say hello")
        return await replay(recording, [sys.executable, "-c", code], timeout=3)

    assert anyio.run(run).hung
    deadline = time.monotonic() + 20
    while any(alive(int(pid)) for pid in pids.read_text().split()):
        assert time.monotonic() < deadline, "a process outlived its replay"
        time.sleep(0.01)


def test_an_agent_that_dies_is_a_result(workspace: Path) -> None:
    recording = converse(workspace, "say hello; say more")
    frames = [
        Frame(frame.direction, 0, frame.raw.replace(b"say more", b"crash"))
        for frame in recording.frames
    ]
    broken = Transcript(recording.header, (*frames, Event("eof", 0, Direction.C2A)))
    result = play(broken)
    assert result.hung is not None
    assert "the agent ended" in result.hung


def test_a_question_the_recording_does_not_know_is_answered_with_an_error(workspace: Path) -> None:
    result = play(converse(workspace, "say hello"))
    assert result.ok
    asked = play(_prompting(converse(workspace, "say hello"), "ask"))
    assert not asked.ok
    assert "request session/request_permission" in str(asked)
    assert '"status": "failed"' in str(asked)


def _prompting(recording: Transcript, text: str) -> Transcript:
    entries = [
        Frame(e.direction, 0, e.raw.replace(b"say hello", text.encode()), e.terminated)
        if isinstance(e, Frame) and e.direction is Direction.C2A
        else e
        for e in recording.entries
    ]
    return Transcript(recording.header, tuple(entries))


def test_lines_that_are_no_json_are_played_too(workspace: Path) -> None:
    recording = converse(workspace, "say hello")
    garbage = Frame(Direction.C2A, 0, b"\xff not json", terminated=False)
    result = play(Transcript(recording.header, (garbage, *recording.entries)), timeout=1.0)
    sent = [frame for frame in result.live.frames if frame.direction is Direction.C2A]
    assert sent[0].raw.startswith(b"\xff not json")


def test_the_session_starts_from_the_files_of_the_header(workspace: Path) -> None:
    recording = converse(workspace, "read a.txt")
    (workspace / "a.txt").write_text("something else now")
    assert play(recording).ok


def test_a_file_outside_the_workspace_is_refused(workspace: Path) -> None:
    recording = converse(workspace, "say hello")
    evil = Transcript(Header(cwd=str(workspace), files={"../x": ""}), recording.entries)
    with pytest.raises(TranscriptError, match="leaves the workspace"):
        play(evil)


# Updating


def test_an_update_makes_the_replay_match(workspace: Path) -> None:
    recording = converse(workspace, *PROMPTS[:2])
    changed = play(recording, "--reply", "something new; tool")
    assert not changed.ok
    renewed = parse(render(update(recording, changed)))
    again = play(renewed, "--reply", "something new; tool")
    assert again.ok, str(again)
    assert not play(renewed).ok


def test_an_update_leaves_alone_what_did_not_change(workspace: Path) -> None:
    recording = converse(workspace, "say hello; tool", "say hello; tool")
    kept = portable(recording, placeholders(recording))
    result = play(kept)
    old, new = render(kept).splitlines(), render(update(kept, result)).splitlines()
    assert old[1:] == new[1:], "the header may say more, the frames say the same"
    assert json.loads(new[0])["agent"] == {"name": "toy", "version": "1.0"}
