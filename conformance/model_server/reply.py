"""What a scripted model may answer: the parts of a reply, and failures.

Pure data, in no provider's words. How a part looks on the wire is the business of the dialects;
which reply is given to which request is the business of the script.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import Any


class Finish(StrEnum):
    """Why the model stopped. ``AUTO`` is *tool calls* when there are any, else *stop*."""

    AUTO = "auto"
    STOP = "stop"
    TOOL_CALLS = "tool-calls"
    LENGTH = "length"
    REFUSAL = "refusal"


@dataclass(frozen=True, slots=True)
class Text:
    """Visible text, cut into ``chunks`` deltas of nearly equal length."""

    text: str
    chunks: int = 1

    def pieces(self) -> list[str]:
        return cut(self.text, self.chunks)


@dataclass(frozen=True, slots=True)
class Repeat:
    """``count`` deltas that are each ``text``, with ``{i}`` replaced by the delta's index."""

    text: str
    count: int

    def pieces(self) -> list[str]:
        if "{i}" not in self.text:
            return [self.text] * self.count
        return [self.text.replace("{i}", str(index)) for index in range(self.count)]


@dataclass(frozen=True, slots=True)
class Think:
    """Reasoning, cut into ``chunks`` deltas."""

    text: str
    chunks: int = 1

    def pieces(self) -> list[str]:
        return cut(self.text, self.chunks)


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call by the tool's own name; ``arguments`` is the raw text the model "wrote"."""

    name: str
    arguments: str = "{}"
    id: str = ""
    """The provider's call id; empty lets the server number it."""
    fragments: int = 1

    @classmethod
    def of(cls, name: str, arguments: Mapping[str, Any], **rest: Any) -> Call:
        return cls(name, json.dumps(arguments, ensure_ascii=False), **rest)

    def pieces(self) -> list[str]:
        return cut(self.arguments, self.fragments)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call by meaning (``read``, ``write``, ``edit``, ``shell``, ``plan``, ``ask``).

    The server names the offered tool that fits; see ``conformance.model_server.tools``.
    """

    kind: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    id: str = ""
    fragments: int = 1


@dataclass(frozen=True, slots=True)
class Delay:
    """Wait this many seconds before the next part."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait until ``event`` is set before the next part: a test holds the stream open."""

    event: asyncio.Event


@dataclass(frozen=True, slots=True)
class Malformed:
    """Bytes put into the stream as they are: broken server-sent events."""

    raw: bytes = b'data: {"choices": [{"delta"\n\n'


@dataclass(frozen=True, slots=True)
class Cut:
    """End the connection here without a finish marker.

    ``clean`` ends the HTTP body as if it were complete; otherwise the connection just drops.
    """

    clean: bool = False


@dataclass(frozen=True, slots=True)
class Hang:
    """Say nothing from here on, until the client goes away or the server stops."""


Part = Text | Repeat | Think | Call | ToolCall | Delay | Wait | Malformed | Cut | Hang


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts, disjoint: ``input`` is without the cached ones."""

    input: int = 100
    output: int = 10
    cached: int = 0
    reasoning: int = 0


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of the model, in the order in which its parts leave."""

    parts: tuple[Part, ...] = ()
    finish: Finish = Finish.AUTO
    usage: Usage | None = field(default_factory=Usage)

    @classmethod
    def of(cls, *parts: Part, finish: Finish = Finish.AUTO, usage: Usage | None = None) -> Reply:
        """A reply from its parts; ``Reply.of()`` is the empty reply."""
        return cls(parts, finish, usage or Usage())

    @classmethod
    def say(cls, text: str, chunks: int = 1) -> Reply:
        return cls.of(Text(text, chunks))


@dataclass(frozen=True, slots=True)
class Failure:
    """An HTTP error in place of a reply."""

    status: int
    message: str = "scripted failure"
    retry_after: float | None = None
    """Seconds, sent as the ``retry-after`` header."""
    body: bytes | None = None
    """Sent as it is in place of the dialect's own error body."""


def cut(text: str, count: int) -> list[str]:
    """``text`` in ``count`` nearly equal pieces (fewer if it is shorter, none if it is empty)."""
    count = max(1, min(count, len(text)))
    bounds = [index * len(text) // count for index in range(count + 1)]
    return [text[a:b] for a, b in pairwise(bounds) if a < b]
