"""The client's part of a recording, as a script that can be played to another agent.

A step is something the client does on its own: a request, a notification, a line
of any kind, hanging up. It waits until the agent has come as far as it had in the
recording. A reply answers the agent and waits for its question, and for the steps
that had gone before it. Pure; who plays the script keeps the time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from conformance.dialogue import C2A, Message, Role
from conformance.frames import Direction, Frame
from conformance.normalise import KINDS, Conversation, Item, Names
from conformance.transcript import Event, Transcript

Progress = dict[str, tuple[int, int]]
"""Lane -> how many items there are, and how much of the last one."""
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
    answer: dict[str, Any] | None
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
        Reply(lane, item, _answer(message), answered.get(message, 0))
        for message, lane, item in asked
    ]
    return Script(steps, replies, conversation, status)


def _answer(request: Message) -> dict[str, Any] | None:
    return request.answer.value if request.answer else None


def progress(conversation: Conversation) -> Progress:
    """How far the agent has come, in every lane whose order counts."""
    return {
        name: (len(items), items[-1].size)
        for name, items in conversation.lanes.items()
        if items and " " not in name
    }


def missing(wanted: Progress, conversation: Conversation) -> list[str]:
    """What the agent has yet to do to have come this far, as sentences."""
    now = progress(conversation)
    lanes = [lane for lane, goal in wanted.items() if now.get(lane, (0, 0)) < goal]
    return [f"{lane}: {now.get(lane, (0, 0))[0]} of {wanted[lane][0]} items seen" for lane in lanes]


def translate(raw: bytes, recorded: Names, live: Names) -> bytes:
    """A recorded line of the client with the ids the live agent made up."""
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return raw
    changed = translated(value, recorded.shared(live))
    return raw if changed == value else orjson.dumps(changed)


def translated(value: Any, ids: Mapping[tuple[str, str], str], key: str = "") -> Any:
    """A JSON value with made-up ids replaced; ``ids`` maps (kind, id) to the other id."""
    if isinstance(value, dict):
        return {k: translated(v, ids, k) for k, v in value.items()}
    if isinstance(value, list):
        return [translated(item, ids, key) for item in value]
    if isinstance(value, str) and key in KINDS:
        return ids.get((KINDS[key], value), value)
    return value
