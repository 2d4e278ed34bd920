"""The client's part of a recording, as a script that can be played to another agent.

A step is something the client does on its own: a request, a notification, a line
of any kind, hanging up. It waits until the agent has come as far as it had in the
recording. A reply answers the agent and waits for its question, and for the steps
that had gone before it. Pure; who plays the script keeps the time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from conformance.dialogue import C2A, Message, Role
from conformance.frames import Direction, Frame
from conformance.normalise import KINDS, Conversation, Item, is_spoken
from conformance.transcript import Event, Transcript

Progress = dict[str, tuple[int, int, int]]
"""Lane -> how many answers there are, how many items since, and how much of the last one.

Compared in this order: who answered has come that far, whatever was left out before.
"""
NOWHERE = (0, 0, 0)
NOT_RECORDED = {"code": -32601, "message": "The recording holds no answer to this request."}


@dataclass(frozen=True, slots=True)
class Step:
    """Something the client does once the agent has come this far; no frame means hanging up."""

    frame: Frame | None
    after: Progress

    def __str__(self) -> str:
        if self.frame is None:
            return "hanging up"
        return f"sending {self.frame.raw[:100].decode('utf-8', 'replace')}"


@dataclass(slots=True)
class Reply:
    """What the client answered to one request of the agent; ``None`` if it never did."""

    lane: str
    asked: Item
    answer: Message | None
    after_steps: int
    used: bool = False


@dataclass
class Script:
    """The steps in order, the replies, and what all of it led to."""

    steps: list[Step]
    replies: list[Reply]
    expected: Conversation
    exit_status: int | None = None

    def reply_to(self, lane: str, asked: Item) -> Reply | None:
        """The recorded reply that fits a live question best: same words, else same method.

        Each is used once, except that a question asked again gets its last answer again.
        """
        same = [r for r in self.replies if r.asked == asked]
        alike = [r for r in self.replies if r.lane == lane and r.asked.label == asked.label]
        fresh = [r for r in (*same, *alike) if not r.used]
        reply = next(iter(fresh + same[::-1]), None)
        if reply is not None:
            reply.used = True
        return reply


def write(transcript: Transcript) -> Script:
    """The script of a portable transcript."""
    conversation = Conversation()
    steps: list[Step] = []
    asked: list[tuple[Message, str, Item]] = []
    answered: dict[Message, int] = {}
    status = None
    for entry in transcript.entries:
        if isinstance(entry, Event):
            if entry.name == "eof" and entry.direction is Direction.C2A:
                steps.append(Step(None, progress(conversation)))
            if entry.name == "exit" and isinstance(entry.detail, int):
                status = entry.detail
            continue
        message = conversation.add(entry)
        if message.direction is not C2A:
            if message.role is Role.REQUEST:
                asked.append((message, conversation.lane(message), conversation.item(message)))
        elif message.request is not None:
            answered.setdefault(message.request, len(steps))
        else:
            steps.append(Step(entry, progress(conversation)))
    if all(step.frame is not None for step in steps):
        steps.append(Step(None, progress(conversation)))
    replies = [
        Reply(lane, item, message.answer, answered.get(message, 0)) for message, lane, item in asked
    ]
    return Script(steps, replies, conversation, status)


def progress(conversation: Conversation) -> Progress:
    """How far the agent has come, in every lane."""
    return {name: _come(lane) for name, lane in conversation.lanes.items() if lane}


def _come(lane: list[Item]) -> tuple[int, int, int]:
    answers = [index for index, item in enumerate(lane) if item.is_answer]
    since = len(lane) - 1 - (answers[-1] if answers else -1)
    return len(answers), since, lane[-1].size if since else 0


def missing(wanted: Progress, conversation: Conversation) -> dict[str, str]:
    """The lanes in which the agent has yet to come this far, each with how far it is."""
    now = progress(conversation)
    return {
        lane: _gap(lane, now.get(lane, NOWHERE), goal)
        for lane, goal in wanted.items()
        if now.get(lane, NOWHERE) < goal
    }


def _gap(lane: str, now: tuple[int, int, int], goal: tuple[int, int, int]) -> str:
    text = f"{lane}: {now[0]} of {goal[0]} answers seen"
    return text if goal[0] > now[0] else f"{text}, after that {now[1]} of {goal[1]} items"


def translate(raw: bytes, ids: Mapping[tuple[str, str], str]) -> bytes:
    """A line with made-up ids replaced, otherwise as it was; ``ids`` is ``Names.shared``."""
    try:
        found = list(_made_up(orjson.loads(raw)))
    except (orjson.JSONDecodeError, RecursionError):
        return raw
    tokens = {
        _token(was, kind, was): _token(now, kind, was)
        for kind, was in found
        if (now := ids.get((kind, was), was)) != was
    }
    if not tokens:
        return raw
    pattern = re.compile(b"|".join(map(re.escape, sorted(tokens, key=len, reverse=True))))
    return pattern.sub(lambda found: tokens[found[0]], raw)


def _token(text: str, kind: str, was: str) -> bytes:
    """How an id stands in a line; one that texts hold too is found inside of them."""
    quoted = json.dumps(text, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return quoted[1:-1] if is_spoken(kind, was) else quoted


def _made_up(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """(kind, id) of every made-up id in a JSON value."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _made_up(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from _made_up(inner, key)
    elif isinstance(value, str) and key in KINDS:
        yield KINDS[key], value
