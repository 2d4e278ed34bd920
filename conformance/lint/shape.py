"""Rules about the form of single messages: schema, unknown keys, nulls, error texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from conformance.dialogue import A2C, C2A, Dialogue, Message, Role
from conformance.frames import Direction, Level
from conformance.lint.rule import BOTH, Broken, broken, rule
from conformance.schema import Generation, unknown_keys, validate_frame

FREE = {"_meta", "rawInput", "rawOutput", "data"}
"""Keys under which a sender may put what it likes."""
WITHDRAWN = dict.fromkeys(
    ("session/new", "session/load", "session/resume", "session/fork"), ("result.models",)
)
"""Keys by the method whose answer had them in an unstable draft; options took their place."""
MEANT = {"oldText", "exitCode", "signal"}
"""Keys for which null is a statement of its own."""


@rule("schema.valid", Level.MUST, "every message obeys the schema", "V1-RPC-01", versions=BOTH)
def valid(dialogue: Dialogue) -> Iterator[Broken]:
    for message in _objects(dialogue):
        for problem in _problems(message, dialogue, Generation.NOVEMBER_UNSTABLE):
            yield broken(problem, message)


@rule(
    "client.schema",
    Level.MUST,
    "every message of the client obeys the schema",
    "V1-RPC-01",
    actor="client",
    versions=BOTH,
)
def client_schema(dialogue: Dialogue) -> Iterator[Broken]:
    for message in _objects(dialogue, C2A):
        for problem in _problems(message, dialogue, Generation.NOVEMBER_UNSTABLE):
            yield broken(problem, message)


@rule(
    "schema.stable", Level.REC, "no message needs an unstable schema", "V1-INIT-06", versions=BOTH
)
def stable(dialogue: Dialogue) -> Iterator[Broken]:
    yield from _only_here(dialogue, Generation.NOVEMBER, "in the stable schema")


@rule("schema.august", Level.REC, "clients of August 2026 read every message", "V1-INIT-10")
def august(dialogue: Dialogue) -> Iterator[Broken]:
    yield from _only_here(dialogue, Generation.AUGUST_UNSTABLE, "in the schema of August 2026")


def _only_here(dialogue: Dialogue, generation: Generation, where: str) -> Iterator[Broken]:
    """What this generation refuses in messages the newest one accepts."""
    for message in _objects(dialogue):
        problems = _problems(message, dialogue, generation)
        if problems and not _problems(message, dialogue, Generation.NOVEMBER_UNSTABLE):
            yield from (broken(f"{where}, {problem}", message) for problem in problems)


@rule("schema.unknown-keys", Level.MUST, "no keys of one's own", "V1-EXT-01", versions=BOTH)
def no_unknown_keys(dialogue: Dialogue) -> Iterator[Broken]:
    for message, path in _unknown(dialogue):
        if path not in WITHDRAWN.get(message.method or "", ()):
            text = f"{path} is not a specified field; custom data belongs in _meta"
            yield broken(text, message)


@rule("schema.withdrawn", Level.REC, "no fields of drafts that were withdrawn", "V1-EXT-01")
def no_withdrawn_keys(dialogue: Dialogue) -> Iterator[Broken]:
    """They were specified once, and clients of that time may still read them."""
    for message, path in _unknown(dialogue):
        if path in WITHDRAWN.get(message.method or "", ()):
            yield broken(f"{path} belongs to a draft that was withdrawn", message)


def _unknown(dialogue: Dialogue) -> Iterator[tuple[Message, str]]:
    for message in _objects(dialogue):
        for path in unknown_keys(message.value, A2C, message.method, version=dialogue.version):
            yield message, path


@rule("schema.null", Level.REC, "absent fields are left out, not null", "V1-INIT-09", versions=BOTH)
def no_null(dialogue: Dialogue) -> Iterator[Broken]:
    for message in _objects(dialogue):
        for part in ("params", "result"):
            for path in _nulls(message.value.get(part), part, message.kind):
                yield broken(f"{path} is null; leave it out", message)


def _nulls(value: Any, path: str, kind: str | None) -> Iterator[str]:
    """Paths of nulls that say nothing; ``session_info_update`` clears fields with them."""
    items: Iterator[tuple[str, str, Any]] = iter(())
    if isinstance(value, dict):
        items = ((key, f"{path}.{key}", inner) for key, inner in value.items() if key not in FREE)
    elif isinstance(value, list):
        items = (("", f"{path}[{index}]", inner) for index, inner in enumerate(value))
    for key, inner_path, inner in items:
        if inner is not None:
            yield from _nulls(inner, inner_path, kind)
        elif key not in MEANT and kind != "session_info_update":
            yield inner_path


@rule(
    "error.message", Level.REC, "an error says what is wrong, in a line", "V1-RPC-08", versions=BOTH
)
def error_message(dialogue: Dialogue) -> Iterator[Broken]:
    for message, error in _errors(dialogue):
        text = error.get("message")
        if isinstance(text, str) and (not text.strip() or "\n" in text.strip()):
            yield broken("the error message is not one line of text", message)


@rule("error.traceback", Level.REC, "errors carry no traceback", "V1-RPC-08", versions=BOTH)
def error_traceback(dialogue: Dialogue) -> Iterator[Broken]:
    for message, error in _errors(dialogue):
        text = str(error)
        if "Traceback (most recent call last)" in text or "\\n    at " in text:
            yield broken("the error carries a traceback", message)


def _errors(dialogue: Dialogue) -> Iterator[tuple[Message, dict[str, Any]]]:
    for message in dialogue.sent(A2C, Role.ANSWER):
        if isinstance(error := message.value.get("error"), dict):
            yield message, error


def _objects(dialogue: Dialogue, direction: Direction = A2C) -> Iterator[Message]:
    return (message for message in dialogue.sent(direction) if isinstance(message.value, dict))


def _problems(message: Message, dialogue: Dialogue, generation: Generation) -> list[str]:
    method = message.method if message.role is Role.ANSWER else None
    return validate_frame(
        message.value, message.direction, method, generation=generation, version=dialogue.version
    )
