"""Plays the client's part of a recording to an agent and compares what comes back.

The agent works in fresh directories with the files the recording starts from. The
shell around ``script`` and ``normalise``: it moves lines and keeps the time. Every
wait is bounded, so an agent that hangs is a result like any other.
"""

from __future__ import annotations

import difflib
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from conformance.normalise import Conversation, Item, read
from conformance.placeholders import expand_text, is_portable, placeholders, portable
from conformance.player import Player, agent
from conformance.script import translate, write
from conformance.tape import complete
from conformance.transcript import Entry, Event, Transcript, TranscriptError

ENVIRONMENT = "environment"
"""The key of a header that names variables for the agent; such an agent gets a home of its own."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One lane in which the agent did something else, with a diff for people."""

    lane: str
    diff: str


@dataclass(frozen=True, slots=True)
class Replay:
    """How a replay went. ``live`` is what really passed, as a portable transcript."""

    differences: tuple[Difference, ...]
    hung: str | None
    """What the agent was waited for in vain, if it was."""
    live: Transcript

    @property
    def ok(self) -> bool:
        """Whether the agent did what the recording says."""
        return not self.differences and self.hung is None

    def __str__(self) -> str:
        parts = [f"hung: {self.hung}"] if self.hung else []
        parts += [f"--- {found.lane}\n{found.diff}" for found in self.differences]
        return "\n".join(parts) or "as recorded"


async def replay(
    transcript: Transcript,
    command: Sequence[str],
    *,
    timeout: float = 10.0,
    env: Mapping[str, str] | None = None,
) -> Replay:
    """Play ``transcript`` to the agent that ``command`` starts.

    ``timeout`` is in seconds and bounds every single wait; ``env`` is added to the
    agent's environment, beside what the recording names. Raises ``OSError`` if the
    agent cannot be started and ``TranscriptError`` if the recording's files would
    leave the workspace.
    """
    recording = make_portable(transcript)
    script = write(recording)
    with tempfile.TemporaryDirectory(prefix="acp-replay-", ignore_cleanup_errors=True) as root:
        names = furnish(recording, root)
        given = environment(recording, names) | dict(env or {})
        async with agent(command, given) as process:
            player = Player(process, script, names, timeout)
            hung = await player.play()
    differences = compare(script.expected, player.live)
    if script.exit_status == 0 and player.exit_status not in (0, None):
        text = f"-exit status 0\n+exit status {player.exit_status}"
        differences = (*differences, Difference("exit", text))
    header = replace(recording.header, command=tuple(command))
    return Replay(differences, hung, portable(Transcript(header, tuple(player.entries)), names))


def make_portable(transcript: Transcript) -> Transcript:
    """The transcript with placeholders, which it may have already."""
    if is_portable(transcript):
        return transcript
    return portable(transcript, placeholders(transcript))


def furnish(recording: Transcript, directory: str) -> dict[str, str]:
    """Make the directories the placeholders stand for, and the files the session starts with."""
    root = Path(directory).resolve()
    used = b"".join(frame.raw for frame in recording.frames)
    alone = ENVIRONMENT in recording.header.facts
    home = str(root / "home") if alone else os.path.expanduser("~")
    names = {"home": home, "cwd": str(root / "cwd")}
    number = 2
    while b"${cwd%d}" % number in used:
        names[f"cwd{number}"] = str(root / f"cwd{number}")
        number += 1
    for path in names.values():
        if Path(path).is_relative_to(root):
            Path(path).mkdir()
    for relative, text in recording.header.files.items():
        _place(root / "cwd", relative, text)
    return names


def environment(recording: Transcript, names: Mapping[str, str]) -> dict[str, str]:
    """The variables that the header names. Raises ``TranscriptError`` if they are none."""
    given = recording.header.facts.get(ENVIRONMENT, {})
    if not (isinstance(given, dict) and all(isinstance(v, str) for v in given.values())):
        raise TranscriptError(f"the header's {ENVIRONMENT!r} is not an object of texts")
    return {name: expand_text(value, names) for name, value in given.items()}


def _place(workspace: Path, relative: str, text: str) -> None:
    path = (workspace / relative).resolve()
    if not path.is_relative_to(workspace):
        raise TranscriptError(f"the file {relative!r} of the header leaves the workspace")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8", newline="")


def compare(expected: Conversation, live: Conversation) -> tuple[Difference, ...]:
    """Every lane in which the two differ."""
    lanes = dict.fromkeys([*expected.lanes, *live.lanes])
    pairs = [(lane, expected.lanes.get(lane, []), live.lanes.get(lane, [])) for lane in lanes]
    return tuple(Difference(lane, _diff(a, b)) for lane, a, b in pairs if a != b)


def _diff(expected: list[Item], live: list[Item]) -> str:
    old = [line for item in expected for line in item.lines()]
    new = [line for item in live for line in item.lines()]
    return "\n".join(difflib.unified_diff(old, new, "recorded", "live", lineterm=""))


def update(transcript: Transcript, result: Replay) -> Transcript:
    """The recording as it should be if what the agent did now is right.

    Ids keep the values they had, so that only what really changed shows in a review.
    """
    recording = make_portable(transcript)
    ids = read(result.live.frames).names.shared(read(recording.frames).names)
    entries = tuple(_with_ids(entry, ids) for entry in result.live.entries)
    return complete(replace(recording, entries=entries))


def _with_ids(entry: Entry, ids: Mapping[tuple[str, str], str]) -> Entry:
    if isinstance(entry, Event):
        return entry
    return replace(entry, raw=translate(entry.raw, ids))
