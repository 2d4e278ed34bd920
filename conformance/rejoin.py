"""Puts back together what a stream cut through: a path whose pieces went in several chunks.

A model streams tokens, so a directory's name often arrives in pieces that no
placeholder could replace. The pieces move into the chunk in which the path began.
Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from conformance.dialogue import Dialogue, Message, dig
from conformance.frames import Frame

CHUNKS = ("user_message_chunk", "agent_message_chunk", "agent_thought_chunk")


@dataclass(slots=True)
class Piece:
    """One text chunk and the text it is to have."""

    message: Message
    text: str


def rejoin(frames: Sequence[Frame], words: Iterable[str]) -> list[Frame]:
    """The frames with every one of ``words`` whole in one chunk, wherever it was cut."""
    pattern = re.compile("|".join(map(re.escape, sorted(words, key=len, reverse=True))) or "(?!)")
    result = list(frames)
    for run in _runs(Dialogue(frames)):
        texts = [piece.text for piece in run]
        for piece, text in zip(run, whole(texts, pattern), strict=True):
            if text != piece.text:
                result[piece.message.index] = _with_text(piece.message, text)
    return result


def whole(texts: Sequence[str], pattern: re.Pattern[str]) -> list[str]:
    """The same text in as many pieces, none of which ends inside a match."""
    joined = "".join(texts)
    spans = [found.span() for found in pattern.finditer(joined)]
    cuts, end = [0], 0
    for text in texts:
        end += len(text)
        cuts.append(next((stop for start, stop in spans if start < end < stop), end))
    return [joined[start:stop] for start, stop in pairwise(cuts)]


def _runs(dialogue: Dialogue) -> list[list[Piece]]:
    """Text chunks of one message, in order; a message is told by all but its text."""
    runs: list[list[Piece]] = []
    current: dict[str | None, tuple[str, list[Piece]]] = {}
    for message in dialogue.updates():
        text = dig(message.update, "content", "text")
        if message.kind not in CHUNKS or not isinstance(text, str):
            current.pop(message.session, None)
            continue
        key = json.dumps(_changed(message.value, ""))
        if message.session not in current or current[message.session][0] != key:
            runs.append([])
            current[message.session] = (key, runs[-1])
        current[message.session][1].append(Piece(message, text))
    return runs


def _with_text(message: Message, text: str) -> Frame:
    raw = json.dumps(_changed(message.value, text), ensure_ascii=False)
    return replace(message.frame, raw=raw.encode("utf-8", "surrogatepass"))


def _changed(value: dict[str, Any], text: str) -> dict[str, Any]:
    update = value["params"]["update"]
    changed = {**update, "content": {**update["content"], "text": text}}
    return {**value, "params": {**value["params"], "update": changed}}
