"""Frames read as a conversation: who asked what, which answer belongs to it, which session.

Pure and forgiving: it pairs and groups whatever it finds, and leaves it to the
lint rules to say what is wrong. Knows JSON-RPC and the methods that open and close
ACP sessions; knows no files, processes or schemas.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any

import orjson

from conformance.frames import Direction, Frame

C2A, A2C = Direction.C2A, Direction.A2C


VERSIONS = (1, 2)
"""The protocol versions that are specified."""


class Role(Enum):
    """What a line is meant to be."""

    REQUEST = "request"
    NOTIFICATION = "notification"
    ANSWER = "answer"
    GARBAGE = "garbage"
    """Not a JSON object, or neither a call nor an answer."""


@dataclass(eq=False, slots=True)
class Message:
    """One frame, read. ``index`` is its place in the run."""

    index: int
    frame: Frame
    value: Any
    """The JSON value, ``None`` if there is none."""
    role: Role
    request: Message | None = None
    """For an answer: the request it answers, if it answers one."""
    answers: list[Message] = field(default_factory=list)
    """For a request: everything that answered it."""

    @property
    def direction(self) -> Direction:
        return self.frame.direction

    @property
    def method(self) -> str | None:
        """The method that was called; for an answer, that of its request."""
        if self.role is Role.ANSWER:
            return self.request.method if self.request else None
        return self.value["method"] if self.role is not Role.GARBAGE else None

    @property
    def params(self) -> dict[str, Any]:
        """The parameters of a call, empty if there are none."""
        return _object(self.value.get("params")) if isinstance(self.value, dict) else {}

    @property
    def result(self) -> dict[str, Any] | None:
        """The result of a successful answer, if it is an object."""
        result = self.value.get("result") if isinstance(self.value, dict) else None
        return result if isinstance(result, dict) else None

    @property
    def answer(self) -> Message | None:
        """The first answer a request got."""
        return self.answers[0] if self.answers else None

    @property
    def session(self) -> str | None:
        """The session a call names, or the one its request named for an answer."""
        source = self.request if self.role is Role.ANSWER else self
        named = source.params.get("sessionId") if source else None
        return named if isinstance(named, str) else None

    @property
    def update(self) -> dict[str, Any]:
        """The update of a ``session/update``, empty for everything else."""
        return _object(self.params.get("update")) if self.method == "session/update" else {}

    @property
    def kind(self) -> str | None:
        """The discriminator of an update."""
        kind = self.update.get("sessionUpdate")
        return kind if isinstance(kind, str) else None


@dataclass(frozen=True, slots=True)
class Span:
    """From a request to its answer, as indexes; an answer that never came is infinity."""

    request: Message

    @property
    def start(self) -> int:
        return self.request.index

    @property
    def end(self) -> float:
        return self.request.answer.index if self.request.answer else math.inf

    def __contains__(self, index: int) -> bool:
        return self.start < index < self.end


@dataclass(slots=True)
class Session:
    """What the client did with one session id."""

    id: str
    announced: float = math.inf
    """Index at which the client was told the id or named it first."""
    prompts: list[Span] = field(default_factory=list)
    loads: list[Span] = field(default_factory=list)
    resumes: list[Span] = field(default_factory=list)
    closes: list[Span] = field(default_factory=list)
    cancels: list[int] = field(default_factory=list)

    def prompting(self, index: int) -> list[Span]:
        """The prompts that waited for their answer at this index."""
        return [span for span in self.prompts if index in span]

    def loading(self, index: int) -> bool:
        """Whether a load waited for its answer at this index."""
        return any(index in span for span in self.loads)


class Dialogue:
    """A whole conversation. Index a message by its frame's place in the run."""

    def __init__(self, frames: Iterable[Frame] = (), *, complete: bool = True) -> None:
        self.complete = complete
        """Whether the client waited for everything it asked for."""
        self.messages: list[Message] = []
        self._asked: dict[tuple[Direction, str], list[Message]] = {}
        for frame in frames:
            self.add(frame)

    def add(self, frame: Frame) -> Message:
        """Read one more frame and tie it to what it answers."""
        message = _read(len(self.messages), frame)
        self.messages.append(message)
        if message.role is Role.REQUEST:
            self._asked.setdefault((message.direction, id_key(message)), []).append(message)
        elif message.role is Role.ANSWER and "id" in message.value:
            self._tie(message)
        return message

    def _tie(self, answer: Message) -> None:
        """To the oldest request of its id without an answer, else to the newest.

        One more with id null is about a line that could not be read.
        """
        other = C2A if answer.direction is A2C else A2C
        candidates = self._asked.get((other, id_key(answer)), [])
        waiting = [request for request in candidates if not request.answers]
        again = [] if answer.value["id"] is None else candidates[::-1]
        if request := next(iter(waiting + again), None):
            answer.request = request
            request.answers.append(answer)

    def sent(self, direction: Direction, role: Role | None = None) -> Iterator[Message]:
        """Messages that went this way, of this role if one is given."""
        for message in self.messages:
            if message.direction is direction and role in (None, message.role):
                yield message

    def calls(self, *methods: str) -> Iterator[Message]:
        """Requests and notifications of these methods, in either direction."""
        for message in self.messages:
            if message.role in (Role.REQUEST, Role.NOTIFICATION) and message.method in methods:
                yield message

    def updates(self, *kinds: str) -> Iterator[Message]:
        """Updates from the agent, of these kinds if any are given."""
        for message in self.calls("session/update"):
            if message.direction is A2C and (not kinds or message.kind in kinds):
                yield message

    @cached_property
    def version(self) -> int:
        """The negotiated protocol version; 1 until an agent says otherwise.

        An agent that claims a version nobody has specified is judged by version 1.
        """
        for call in self.calls("initialize"):
            if call.answer and call.answer.result:
                version = call.answer.result.get("protocolVersion")
                return int(version) if version in VERSIONS else 1
        return 1

    @cached_property
    def initialized(self) -> Message | None:
        """The first ``initialize`` request that succeeded, else the first one."""
        calls = [call for call in self.calls("initialize") if call.direction is C2A]
        good = [call for call in calls if call.answer and call.answer.result is not None]
        return next(iter(good + calls), None)

    @property
    def client(self) -> dict[str, Any]:
        """What the client announced: its ``initialize`` parameters."""
        return self.initialized.params if self.initialized else {}

    @property
    def agent(self) -> dict[str, Any]:
        """What the agent announced: its ``initialize`` result."""
        answer = self.initialized.answer if self.initialized else None
        return (answer.result if answer else None) or {}

    @cached_property
    def sessions(self) -> dict[str, Session]:
        """Every session the client was told of or named, by id."""
        return _sessions(self.messages)


def dig(value: Any, *path: str) -> Any:
    """Follow keys through nested objects; ``None`` where the way ends."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def facts(dialogue: Dialogue) -> dict[str, Any]:
    """Who spoke and what they announced, for the header of a transcript."""
    agent, client = dialogue.agent, dialogue.client
    found = {
        "protocolVersion": agent.get("protocolVersion"),
        "agent": agent.get("agentInfo"),
        "client": client.get("clientInfo"),
        "agentCapabilities": agent.get("agentCapabilities"),
        "clientCapabilities": client.get("clientCapabilities"),
    }
    return {key: value for key, value in found.items() if value is not None}


def parse_json(raw: bytes) -> Any:
    """The JSON value of a line, read as a lenient peer would; raises ``ValueError``."""
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return json.loads(raw)


def _read(index: int, frame: Frame) -> Message:
    try:
        value = parse_json(frame.raw)
    except (ValueError, RecursionError):
        return Message(index, frame, None, Role.GARBAGE)
    return Message(index, frame, value, _role(value))


def _role(value: Any) -> Role:
    match value:
        case {"method": str(), "id": _}:
            return Role.REQUEST
        case {"method": str()}:
            return Role.NOTIFICATION
        case {"method": _}:
            return Role.GARBAGE
        case {"result": _} | {"error": _}:
            return Role.ANSWER
    return Role.GARBAGE


def id_key(message: Message) -> str:
    """The id as text that tells ``1`` from ``"1"``."""
    return json.dumps(message.value.get("id"))


OPENING = {"session/new", "session/fork"}
"""Methods whose answer brings a new session id."""
NAMING = {"session/load", "session/resume"}
"""Methods by which the client brings up an id it knows from before."""


def _sessions(messages: Iterable[Message]) -> dict[str, Session]:
    sessions: dict[str, Session] = {}
    for message in messages:
        for name in _named(message):
            _note(sessions.setdefault(name, Session(name)), message)
    return sessions


def _named(message: Message) -> list[str]:
    """The sessions a message makes known: the client names them, the agent opens or lists them."""
    if message.role is not Role.ANSWER:
        return [message.session] if message.direction is C2A and message.session else []
    if message.method in OPENING:
        names = [dig(message.result, "sessionId")]
    elif message.method == "session/list":
        listed = dig(message.result, "sessions")
        names = [dig(item, "sessionId") for item in listed] if isinstance(listed, list) else []
    else:
        names = []
    return [name for name in names if isinstance(name, str)]


def _note(session: Session, message: Message) -> None:
    session.announced = min(session.announced, message.index)
    if message.role is Role.ANSWER:
        return
    match message.method:
        case "session/prompt":
            session.prompts.append(Span(message))
        case "session/load":
            session.loads.append(Span(message))
        case "session/resume":
            session.resumes.append(Span(message))
        case "session/close" | "session/delete":
            session.closes.append(Span(message))
        case "session/cancel":
            session.cancels.append(message.index)


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
