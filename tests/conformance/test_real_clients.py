"""Recordings of real clients, each with an agent made to try everything a client can do.

The agent misbehaves on purpose here and there, and the rules must find exactly that.
"""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import pytest

from conformance.lint import EVERYBODY, lint
from conformance.lint.file import left_early
from conformance.replay import Replay, replay
from conformance.transcript import Transcript, load, parse, render

HERE = Path(__file__).parent
RECORDINGS = sorted((HERE / "transcripts").glob("*.jsonl"))
UNKNOWN_UPDATE = {"schema.valid", "schema.unknown-keys"}
"""The agent sends an update of a kind that nobody specified."""
RAW_SEPARATORS = {"io.separators"}
"""It says every character there is, separators unescaped."""
FINDINGS = {
    "acp-client": set(),
    "acpbox": {"client.schema"},
    "acpx": set(),
    "agent-shell": UNKNOWN_UPDATE | RAW_SEPARATORS,
    "codecompanion": UNKNOWN_UPDATE | RAW_SEPARATORS | {"client.schema", "answer.before-exit"},
    "toad": set(),
    "typescript-sdk": UNKNOWN_UPDATE | RAW_SEPARATORS | {"path.absolute"},
}
recordings = pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)


def play(path: Path) -> Replay:
    puppet = [sys.executable, str(HERE / "toys" / "puppet.py"), str(path)]

    async def run(transcript: Transcript) -> Replay:
        return await replay(transcript, puppet, timeout=20)

    return anyio.run(run, load(path))


@recordings
def test_the_rules_find_what_the_recordings_hold(path: Path) -> None:
    transcript = load(path)
    complete = not left_early(transcript)
    found = lint(transcript.frames, complete=complete, actors=EVERYBODY)
    assert {finding.rule for finding in found} == FINDINGS[path.stem]


@recordings
def test_the_file_is_what_the_kit_would_write(path: Path) -> None:
    assert render(parse(path.read_bytes())) == path.read_bytes()


@recordings
def test_an_agent_that_does_the_same_again_matches(path: Path) -> None:
    result = play(path)
    assert result.ok, str(result)
