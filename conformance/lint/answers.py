"""Rules about requests and answers: one each, with the id that was asked."""

from __future__ import annotations

import json
from collections.abc import Iterator

from conformance.dialogue import A2C, C2A, Dialogue, Message, Role, id_key
from conformance.frames import Direction, Level
from conformance.lint.rule import BOTH, Broken, broken, rule

HUGE = 1 << 20
"""Bytes of a client line that an agent may refuse for its size alone."""


@rule(
    "answer.once", Level.MUST, "every request gets exactly one answer", "V1-TURN-05", versions=BOTH
)
def once(dialogue: Dialogue) -> Iterator[Broken]:
    yield from _not_once(dialogue, C2A)


@rule(
    "answer.before-exit",
    Level.REC,
    "nothing asked stays open when the client leaves",
    "V1-IO-08",
    versions=BOTH,
)
def before_exit(dialogue: Dialogue) -> Iterator[Broken]:
    for request in dialogue.sent(C2A, Role.REQUEST):
        if not dialogue.complete and not request.answers:
            yield broken(f"{_name(request)} had no answer when the client left", request)


@rule(
    "answer.known-id",
    Level.MUST,
    "an answer carries the id that was asked",
    "V1-RPC-03",
    versions=BOTH,
)
def known_id(dialogue: Dialogue) -> Iterator[Broken]:
    yield from _strangers(dialogue, A2C)


@rule(
    "answer.notification",
    Level.MUST,
    "notifications are never answered",
    "V1-RPC-02",
    versions=BOTH,
)
def notification(dialogue: Dialogue) -> Iterator[Broken]:
    """An answer without an id is right for an unreadable line and wrong for all else."""
    unreadable = 0
    for message in dialogue.messages:
        if message.direction is C2A:
            unreadable += _unreadable(message)
        elif _anonymous(message):
            if not unreadable:
                text = "an answer with id null, though no line of the client was unreadable"
                yield broken(text, message)
            unreadable = max(0, unreadable - 1)


@rule("request.id-reuse", Level.REC, "an id in use is not used again", "V1-RPC-10", versions=BOTH)
def id_reuse(dialogue: Dialogue) -> Iterator[Broken]:
    pending: dict[str, Message] = {}
    for message in dialogue.messages:
        if message.direction is A2C and message.role is Role.REQUEST:
            if (first := pending.get(id_key(message))) is not None:
                yield broken(
                    f"id {id_key(message)} is still waiting for its answer", first, message
                )
            pending[id_key(message)] = message
        elif message.direction is C2A and message.request is not None:
            pending.pop(id_key(message), None)


@rule(
    "client.answer-once",
    Level.MUST,
    "the client answers every request once",
    "V1-RPC-01",
    actor="client",
    versions=BOTH,
)
def client_once(dialogue: Dialogue) -> Iterator[Broken]:
    yield from _not_once(dialogue, A2C)


@rule(
    "client.known-id",
    Level.MUST,
    "the client answers with the id that was asked",
    "V1-RPC-03",
    actor="client",
    versions=BOTH,
)
def client_known_id(dialogue: Dialogue) -> Iterator[Broken]:
    yield from _strangers(dialogue, C2A)


def _not_once(dialogue: Dialogue, asker: Direction) -> Iterator[Broken]:
    for request in dialogue.sent(asker, Role.REQUEST):
        if not request.answers and dialogue.complete and _has_id(request):
            yield broken(f"{_name(request)} was never answered", request)
        if len(request.answers) > 1:
            times = len(request.answers)
            yield broken(f"{_name(request)} was answered {times} times", request, *request.answers)


def _strangers(dialogue: Dialogue, answerer: Direction) -> Iterator[Broken]:
    """Answers whose id nobody asked with."""
    for answer in dialogue.sent(answerer, Role.ANSWER):
        if answer.request is None and not _anonymous(answer) and not _corrects(answer, dialogue):
            shown = id_key(answer) if "id" in answer.value else "missing"
            yield broken(f"nothing was asked with the id {shown}{_hint(answer, dialogue)}", answer)


def _corrects(answer: Message, dialogue: Dialogue) -> bool:
    """Whether it is an error for an object that is no request but carries this id."""
    return "error" in answer.value and any(
        other.role is Role.GARBAGE
        and other.direction is not answer.direction
        and isinstance(other.value, dict)
        and other.value.get("id") == answer.value.get("id")
        for other in dialogue.messages[: answer.index]
    )


def _hint(answer: Message, dialogue: Dialogue) -> str:
    for request in dialogue.messages[: answer.index]:
        if request.role is Role.REQUEST and request.direction is not answer.direction:
            asked = request.value["id"]
            if str(asked) == str(answer.value.get("id")):
                return f"; {request.method} was asked with {json.dumps(asked)}"
    return ""


def _anonymous(message: Message) -> bool:
    return (
        message.role is Role.ANSWER and message.value.get("id", 0) is None and not message.request
    )


def _unreadable(message: Message) -> bool:
    """Whether an agent may say that it could not tell the id of this line."""
    if message.role is Role.GARBAGE or len(message.frame.raw) > HUGE:
        return True
    value = message.value
    bad_params = not isinstance(value.get("params"), dict | list | None)
    bad_id = message.role is Role.REQUEST and not _has_id(message)
    return value.get("jsonrpc") != "2.0" or bad_params or bad_id


def _has_id(request: Message) -> bool:
    """Whether the id is one an answer can carry."""
    identity = request.value["id"]
    return isinstance(identity, int | str) and not isinstance(identity, bool)


def _name(request: Message) -> str:
    return f"{request.method} (id {id_key(request)})"
