"""Rules about the lines themselves: bytes, characters, JSON syntax, size."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from conformance.dialogue import A2C, C2A, Dialogue, Message
from conformance.frames import Level
from conformance.lint.rule import BOTH, Broken, broken, rule

LONG_LINE = 64 * 1024
"""Bytes; the read limit of older clients."""
SEPARATORS = {"\u2028": "U+2028", "\u2029": "U+2029", "\u0085": "U+0085"}


class _NotStrict(ValueError):
    """Something Python's parser lets pass and JSON does not."""


@rule("io.utf8", Level.MUST, "every line is UTF-8", "V1-IO-01", versions=BOTH)
def utf8(dialogue: Dialogue) -> Iterator[Broken]:
    for message in dialogue.sent(A2C):
        try:
            message.frame.raw.decode("utf-8")
        except UnicodeDecodeError as error:
            yield broken(f"byte {error.start} is not UTF-8", message)


@rule("io.json", Level.MUST, "every line is one JSON object", "V1-IO-02", "V1-IO-03", versions=BOTH)
def json_object(dialogue: Dialogue) -> Iterator[Broken]:
    for message in dialogue.sent(A2C):
        if problem := _not_an_object(message.frame.raw):
            yield broken(problem, message)


def _not_an_object(raw: bytes) -> str | None:
    text = raw.decode("utf-8", "replace")
    if not text.strip():
        return "a blank line"
    if text.startswith("\ufeff"):
        return "the line starts with a byte order mark"
    try:
        value = json.loads(text, parse_constant=_refuse)
    except RecursionError:
        return None
    except _NotStrict as error:
        return str(error)
    except json.JSONDecodeError as error:
        more = "more than one value" if error.msg == "Extra data" else "not JSON"
        return f"{more}: {error.msg} at column {error.colno}"
    return None if isinstance(value, dict) else f"a JSON {_kind(value)} instead of an object"


def _refuse(constant: str) -> Any:
    raise _NotStrict(f"{constant} is not JSON")


def _kind(value: Any) -> str:
    kinds = {list: "array", str: "string", bool: "boolean", type(None): "null"}
    return kinds.get(type(value), "number")


@rule("io.terminated", Level.MUST, "every line ends with a line feed", "V1-IO-02", versions=BOTH)
def terminated(dialogue: Dialogue) -> Iterator[Broken]:
    for message in dialogue.sent(A2C):
        if dialogue.complete and not message.frame.terminated:
            yield broken("the last line has no line feed", message)


@rule("io.carriage-return", Level.REC, "lines end with LF alone", "V1-IO-09", versions=BOTH)
def carriage_return(dialogue: Dialogue) -> Iterator[Broken]:
    for message in dialogue.sent(A2C):
        if message.frame.raw.endswith(b"\r"):
            yield broken("the line ends with CR LF", message)


@rule("io.surrogates", Level.REC, "no lone surrogates", "V1-IO-13", versions=BOTH)
def surrogates(dialogue: Dialogue) -> Iterator[Broken]:
    for message in dialogue.sent(A2C):
        if b"\\u" in message.frame.raw and _has_surrogate(message.value):
            yield broken("a string holds a surrogate without its other half", message)


def _has_surrogate(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


@rule("io.separators", Level.REC, "no raw Unicode line separators", "V1-IO-02", versions=BOTH)
def separators(dialogue: Dialogue) -> Iterator[Broken]:
    for message in dialogue.sent(A2C):
        text = message.frame.raw.decode("utf-8", "replace")
        names = [name for mark, name in SEPARATORS.items() if mark in text]
        if names:
            yield broken(f"{', '.join(names)} unescaped; some clients cut the line there", message)


@rule("io.duplicate-keys", Level.REC, "no key twice in one object", "V1-IO-13", versions=BOTH)
def duplicate_keys(dialogue: Dialogue) -> Iterator[Broken]:
    for message in dialogue.sent(A2C):
        if isinstance(message.value, dict) and (key := _duplicate(message)):
            yield broken(f"{json.dumps(key)} stands twice in one object", message)


def _duplicate(message: Message) -> str | None:
    twice: list[str] = []

    def note(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            keys = [key for key, _ in pairs]
            twice.extend(key for key in found if keys.count(key) > 1)
        return found

    json.loads(message.frame.raw, object_pairs_hook=note)
    return next(iter(twice), None)


@rule("io.line-size", Level.REC, "lines stay under 64 KiB", "V1-IO-10", versions=BOTH)
def line_size(dialogue: Dialogue) -> Iterator[Broken]:
    for message in dialogue.sent(A2C):
        if (size := len(message.frame.raw) + 1) > LONG_LINE:
            yield broken(f"a line of {size} bytes; older clients read {LONG_LINE} at most", message)


@rule("io.first-line", Level.REC, "the initialize answer comes first", "V1-IO-03", versions=BOTH)
def first_line(dialogue: Dialogue) -> Iterator[Broken]:
    asked = next(dialogue.sent(C2A), None)
    first = next(dialogue.sent(A2C), None)
    if asked and first and asked.method == "initialize" and first.request is not asked:
        yield broken("the first line is not the answer to initialize", asked, first)
