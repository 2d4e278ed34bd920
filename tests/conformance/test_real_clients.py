"""Recordings of real clients, each with an agent made to try everything a client can do.

The agent misbehaves on purpose here and there, and the rules must find exactly that.
"""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import pytest

import conformance
from conformance.lint import EVERYBODY, lint
from conformance.lint.file import left_early
from conformance.replay import Replay, replay
from conformance.transcript import Transcript, load, parse, render

HERE = Path(__file__).parent
CLIENTS = Path(conformance.__file__).parent / "transcripts" / "clients"
RECORDINGS = sorted(CLIENTS.glob("*.jsonl"))
UNKNOWN_UPDATE = {"schema.valid", "schema.unknown-keys"}
"""The agent sends an update of a kind that nobody specified."""
RAW_SEPARATORS = {"io.separators"}
"""It says every character there is, separators unescaped."""
FORM = {"gate.form"}
"""It asks with a form, whatever the client announced."""
EVERYTHING = {"gate.read", "gate.write", "gate.terminal"}
"""It uses files and terminals, whatever the client announced."""
FINDINGS = {
    "acp-client": set(),
    "acp.el": FORM | RAW_SEPARATORS,
    "acpbox": {"client.schema"},
    "acpbox-files": {"client.schema"},
    "acpc": EVERYTHING,
    "acpc-load": set(),
    "acpx": set(),
    "acpx-denied": FORM | UNKNOWN_UPDATE | RAW_SEPARATORS,
    "acpx-resume": set(),
    "acpx-tools": FORM | UNKNOWN_UPDATE | RAW_SEPARATORS,
    "agent-client-kernel": set(),
    "agent-shell": UNKNOWN_UPDATE | RAW_SEPARATORS,
    "agent-shell-permission": set(),
    "codecompanion": UNKNOWN_UPDATE | RAW_SEPARATORS | {"client.schema", "answer.before-exit"},
    "python-sdk": FORM | UNKNOWN_UPDATE | RAW_SEPARATORS | {"client.schema"},
    "python-sdk-cancel": set(),
    "toad": set(),
    "typescript-sdk": UNKNOWN_UPDATE | RAW_SEPARATORS | {"path.absolute"},
    "typescript-sdk-cancel": set(),
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
