"""What two runs of the same conversation have in common.

Ids get names by first sight, times and versions become marks, paths have become
placeholders before (``placeholders``). What the agent sends is sorted into lanes:
one for the connection, one per session, and one for each kind of update that may
come at any time. Inside a lane order counts; pieces of one message are joined, so
chunking does not. Pure: frames go in one by one, lanes come out.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from conformance.dialogue import A2C, C2A, OPENING, Dialogue, Message, Role, dig
from conformance.frames import Frame

CONNECTION = "connection"
KINDS = {
    "toolCallId": "call",
    "messageId": "message",
    "terminalId": "terminal",
    "optionId": "option",
    "elicitationId": "elicitation",
    "compactionId": "compaction",
    "planId": "plan",
    "cursor": "cursor",
    "nextCursor": "cursor",
    "sessionId": "session",
}
"""Keys whose strings are ids somebody made up, and what they are called here."""
FLOATING = {
    "available_commands_update",
    "config_option_update",
    "current_mode_update",
    "notice",
    "session_info_update",
    "usage_update",
}
"""Updates that say how things are, not what happens next: their place means nothing."""
SPOKEN = {"session", "call"}
"""Kinds of ids that texts may hold too: in messages, in paths."""
TELLING = 8
"""Characters of an id that cannot be mistaken for a word."""
AMOUNTS = {"used", "cost"}
"""What a ``usage_update`` counts."""
CHUNKS = {"user_message_chunk", "agent_message_chunk", "agent_thought_chunk"}
PATCH, RUNNING = "update tool_call_update", "in_progress"
MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?")
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)


class Names:
    """Names for made-up ids, by first sight, and the way back."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, str, str], str] = {}
        self._values: dict[str, str] = {}
        self._counts: Counter[str] = Counter()

    def name(self, kind: str, value: str, scope: str = "") -> str:
        """The name of ``value``; a new one if it was never seen in this scope."""
        key = (kind, scope, value)
        if key not in self._names:
            self.bind(key, self.reserve(kind, scope))
        return self._names[key]

    def reserve(self, kind: str, scope: str = "") -> str:
        """The next name of this kind, for a value still to come."""
        prefix = f"{scope}/{kind}" if scope else kind
        self._counts[prefix] += 1
        return f"{prefix}-{self._counts[prefix]}"

    def bind(self, key: tuple[str, str, str], name: str) -> None:
        """Give ``value`` (kind, scope, value) a reserved name."""
        self._names[key] = name
        self._values[name] = key[2]

    def known(self, kind: str, value: str, scope: str = "") -> str | None:
        """The name of ``value``, if it has one."""
        return self._names.get((kind, scope, value))

    def value(self, name: str) -> str | None:
        """What was given this name."""
        return self._values.get(name)

    def in_text(self, text: str) -> str:
        """``text`` with the ids of sessions and calls in it named."""
        for (kind, _, value), name in self._names.items():
            if is_spoken(kind, value) and value in text:
                text = text.replace(value, name)
        return text

    def shared(self, other: Names) -> dict[tuple[str, str], str]:
        """(kind, our value) -> the other's value, for every name both have given."""
        return {
            (kind, value): theirs
            for (kind, _, value), name in self._names.items()
            if (theirs := other.value(name)) is not None
        }


@dataclass(slots=True, eq=False)
class Item:
    """One thing the agent did: what it was, what it said, and which frames said it.

    The text of a chunk stands apart from the rest, as it was sent, in pieces; it is put into
    normal form only when it is looked at, because there may be thousands of pieces.
    """

    label: str
    rest: Any
    frames: list[int]
    pieces: list[str] | None = None
    normal: Callable[[str], str] = str
    size: int = 0
    """How much there is of it: characters of a text; whether a patch has content."""

    @property
    def body(self) -> Any:
        """Everything it said, in normal form."""
        if self.pieces is None:
            return self.rest
        self.pieces = ["".join(self.pieces)]
        return {**self.rest, "content": {**self.rest["content"], "text": self.normal(*self.pieces)}}

    @property
    def is_answer(self) -> bool:
        return self.label.startswith(Role.ANSWER.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Item) and (self.label, self.body) == (other.label, other.body)

    def lines(self) -> list[str]:
        """The item as text for a diff."""
        text = json.dumps(self.body, indent=2, ensure_ascii=False, sort_keys=True)
        return [f"# {self.label}", *text.splitlines()]


@dataclass
class Conversation:
    """A dialogue as it unfolds, with what the agent did sorted into lanes.

    ``hide`` puts placeholders into texts that may still name directories.
    """

    hide: Callable[[str], str] = str
    dialogue: Dialogue = field(default_factory=Dialogue)
    names: Names = field(default_factory=Names)
    lanes: dict[str, list[Item]] = field(default_factory=dict)
    _opening: dict[Message, str] = field(default_factory=dict)

    def add(self, frame: Frame) -> Message:
        """Take one more frame, in either direction."""
        message = self.dialogue.add(frame)
        self._name_session(message)
        if message.direction is A2C:
            self._sort(message)
        return message

    def _name_session(self, message: Message) -> None:
        """Sessions are named in the order the client asks for them, not as answers come."""
        if message.direction is C2A and message.method in OPENING:
            self._opening[message] = self.names.reserve("session")
        elif message.direction is C2A and message.session is not None:
            self.names.name("session", message.session)
        opened = dig(message.result, "sessionId")
        if message.request in self._opening and isinstance(opened, str):
            self.names.bind(("session", "", opened), self._opening[message.request])

    def lane(self, message: Message) -> str:
        """The lane a message of the agent belongs to."""
        if message.session is None or message.method in OPENING:
            return CONNECTION
        session = self.names.name("session", message.session)
        return f"{session} {message.kind}" if message.kind in FLOATING else session

    def item(self, message: Message) -> Item:
        """The message in normal form."""
        if message.role is Role.GARBAGE:
            return Item("line", message.frame.raw.decode("utf-8", "replace"), [message.index])
        said, scope, label = _said(message), self._scope(message), _label(message)
        text = dig(message.update, "content", "text") if message.kind in CHUNKS else None
        if not isinstance(text, str):
            shown = int(label == PATCH and "content" in message.update)
            return Item(label, self._body(said, scope), [message.index], size=shown)
        rest = self._body({**said, "content": {**said["content"], "text": ""}}, scope)
        normal = partial(self._text, scope=scope, key="text")
        return Item(label, rest, [message.index], [text], normal, len(text))

    def _scope(self, message: Message) -> str:
        return self.lane(message).split(" ")[0]

    def _sort(self, message: Message) -> None:
        if message.role is Role.REQUEST:
            self.names.name("request", json.dumps(message.value["id"]))
        lane, item = self.lanes.setdefault(self.lane(message), []), self.item(message)
        _replace_live_output(lane, item)
        if not (lane and _join(lane[-1], item)):
            lane.append(item)

    def _body(self, value: Any, scope: str, key: str = "") -> Any:
        if isinstance(value, dict):
            return {k: self._body(v, scope, k) for k, v in value.items()}
        if isinstance(value, list):
            return [self._body(item, scope, key) for item in value]
        if key == "requestId":
            return self.names.known("request", json.dumps(value)) or value
        return self._text(value, scope, key) if isinstance(value, str) else value

    def _text(self, text: str, scope: str, key: str) -> str:
        if key in KINDS:
            return self.names.name(KINDS[key], text, "" if key == "sessionId" else scope)
        marked = MOMENT.sub("<time>", self.names.in_text(self.hide(text)))
        return UUID.sub(lambda found: self.names.name("uuid", found[0].lower()), marked)


def is_spoken(kind: str, value: str) -> bool:
    """Whether an id is looked for in texts as well."""
    return kind in SPOKEN and len(value) >= TELLING


def is_floating(lane: str) -> bool:
    """Whether a lane holds updates that may come at any time."""
    return " " in lane


def _label(message: Message) -> str:
    if message.kind is not None:
        return f"update {message.kind}"
    return f"{message.role.value} {message.method}"


def _said(message: Message) -> Any:
    """What a message says besides its envelope."""
    if message.kind == "usage_update":
        return _without_amounts(message.update)
    if message.kind is not None:
        return message.update
    if message.role is not Role.ANSWER:
        return message.value.get("params")
    said = {key: message.value[key] for key in ("result", "error") if key in message.value}
    return _without_version(said) if message.method == "initialize" else said


def _without_amounts(update: dict[str, Any]) -> dict[str, Any]:
    """How many tokens a conversation takes depends on the length of paths, among other things."""
    return {key: "<amount>" if key in AMOUNTS else value for key, value in update.items()}


def _without_version(said: dict[str, Any]) -> dict[str, Any]:
    info = dig(said, "result", "agentInfo")
    if dig(info, "version") is None:
        return said
    return {"result": {**said["result"], "agentInfo": {**info, "version": "<version>"}}}


def _join(last: Item, item: Item) -> bool:
    """Join ``item`` to ``last`` if the two are pieces of one thing."""
    if last.label != item.label:
        return False
    joined = _join_text(last, item) or _join_patch(last, item) or _poll(last, item)
    if joined:
        last.frames += item.frames
    return joined


def _join_text(last: Item, item: Item) -> bool:
    """Adjacent text chunks of one message; ids and paths may have been cut through."""
    if last.pieces is None or item.pieces is None or last.rest != item.rest:
        return False
    last.pieces += item.pieces
    last.size += item.size
    return True


def _replace_live_output(lane: list[Item], item: Item) -> None:
    """What a running call showed in the meantime depends on the time; what replaces it counts."""
    if item.label != PATCH or "content" not in item.rest or item.rest.get("status") == RUNNING:
        return
    for old in lane:
        same = old.label == PATCH and old.rest.get("toolCallId") == item.rest.get("toolCallId")
        if same and old.rest.get("status") == RUNNING:
            old.rest = {key: value for key, value in old.rest.items() if key != "content"}


def _poll(last: Item, item: Item) -> bool:
    """Asking for a terminal's output again and again."""
    return item.label == "request terminal/output" and last.rest == item.rest


def _join_patch(last: Item, item: Item) -> bool:
    """Adjacent updates of one tool call in one status: the patches add up."""
    if item.label != PATCH:
        return False
    same = last.rest.get("toolCallId") == item.rest.get("toolCallId")
    status = item.rest.get("status")
    if not same or status not in (None, last.rest.get("status")):
        return False
    last.rest = {**last.rest, **item.rest, **({} if status else _status(last.rest))}
    last.size = max(last.size, item.size)
    return True


def _status(body: dict[str, Any]) -> dict[str, Any]:
    return {"status": body["status"]} if "status" in body else {}


def read(frames: tuple[Frame, ...]) -> Conversation:
    """A whole recording in normal form."""
    conversation = Conversation()
    for frame in frames:
        conversation.add(frame)
    return conversation
