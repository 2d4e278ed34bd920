"""Lint over a transcript file: was it cut short, and findings with the lines that prove them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import takewhile
from pathlib import Path
from typing import Any

from conformance.dialogue import C2A, Dialogue, Role
from conformance.frames import Finding, Frame
from conformance.lint.rule import RULES
from conformance.report.summary import show
from conformance.transcript import Entry, Event, Transcript

WIDTH = 160
"""Characters of a frame that are shown."""


def left_early(transcript: Transcript) -> bool:
    """Whether the client hung up or sent a signal while it still waited for an answer."""
    before = list(takewhile(lambda entry: not _leaving(entry), transcript.entries))
    if len(before) == len(transcript.entries):
        return False
    asked = Dialogue(e for e in before if isinstance(e, Frame)).sent(C2A, Role.REQUEST)
    return any(not request.answers for request in asked)


def _leaving(entry: Entry) -> bool:
    if not isinstance(entry, Event):
        return False
    return entry.name == "signal" or (entry.name == "eof" and entry.direction is C2A)


def report(path: Path, transcript: Transcript, findings: Iterable[Finding]) -> str:
    """The findings as text, each with its frames as they stand in the file."""
    lines = [line for found in findings for line in _described(found, path, transcript)]
    return "\n".join(lines) or f"{path}: {len(transcript.frames)} frames, no findings"


def _described(found: Finding, path: Path, transcript: Transcript) -> list[str]:
    rule, places = RULES[found.rule], file_lines(transcript)
    head = f"{rule.level} {rule.id}: {found.message}  [{', '.join(rule.refs)}]"
    frames = transcript.frames
    proof = [f"  {path}:{places[index]}: {show(frames[index], WIDTH)}" for index in found.frames]
    return [head, *proof]


def report_json(path: Path, transcript: Transcript, findings: Iterable[Finding]) -> str:
    """The findings as one JSON object a line."""
    places = file_lines(transcript)
    return "\n".join(json.dumps(_data(found, path, places)) for found in findings)


def _data(found: Finding, path: Path, places: list[int]) -> dict[str, Any]:
    rule = RULES[found.rule]
    return {
        "file": str(path),
        "lines": [places[index] for index in found.frames],
        "rule": rule.id,
        "level": str(rule.level),
        "message": found.message,
        "refs": list(rule.refs),
    }


def file_lines(transcript: Transcript) -> list[int]:
    """For every frame the number of its line in the file, which starts with the header."""
    return [
        number
        for number, entry in enumerate(transcript.entries, start=2)
        if isinstance(entry, Frame)
    ]
