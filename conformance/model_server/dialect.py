"""What a model API's dialect must offer, and the pieces all of them share.

A dialect parses requests into ``ModelRequest`` fields and encodes a reply, streamed or whole.
It does no I/O and makes no decisions; one module per dialect.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from conformance.model_server.reply import Call, Failure, Finish, Repeat, Text, Think, Usage
from conformance.model_server.request import Entry, OfferedTool

Content = Text | Repeat | Think | Call
"""The parts that have a form on the wire."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The identity of one reply on the wire."""

    id: str
    model: str
    include_usage: bool = True


class Stream(Protocol):
    """One streamed answer in the making; every method returns bytes ready to be sent."""

    def begin(self) -> bytes: ...

    def part(self, part: Content) -> bytes: ...

    def end(self, finish: Finish, usage: Usage | None) -> bytes: ...


class Dialect(Protocol):
    """One model API: its path, its requests, its answers."""

    name: str
    path: str

    def entries(self, body: Mapping[str, Any]) -> Sequence[Entry]: ...

    def tools(self, body: Mapping[str, Any]) -> Sequence[OfferedTool]: ...

    def stream(self, answer: Answer) -> Stream: ...

    def whole(
        self, answer: Answer, parts: Sequence[Content], finish: Finish, usage: Usage | None
    ) -> bytes: ...

    def failure(self, failure: Failure) -> bytes: ...


def encode(value: Any) -> bytes:
    """Compact JSON in UTF-8; text stays unescaped so that separators reach the client raw."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def event(value: Any, name: str = "") -> bytes:
    """One server-sent event, named if the dialect names its events."""
    prefix = f"event: {name}\n".encode() if name else b""
    return prefix + b"data: " + encode(value) + b"\n\n"


def deltas(template: bytes, pieces: Iterable[str]) -> bytes:
    """One event per piece from a ready-made event holding the JSON string ``"@@"`` once.

    Thousands of deltas then cost one string encoding each.
    """
    before, after = template.split(b'"@@"')
    return b"".join(before + encode(piece) + after for piece in pieces)


def joined(parts: Sequence[Content], kind: type[Think] | tuple[type[Text], type[Repeat]]) -> str:
    """All text of one kind in a reply that is not streamed."""
    return "".join(piece for part in parts if isinstance(part, kind) for piece in part.pieces())


def decoded(arguments: str) -> Any:
    """Call arguments as JSON for dialects that carry an object; bad text becomes a string."""
    try:
        return json.loads(arguments)
    except ValueError:
        return {"_raw": arguments}
