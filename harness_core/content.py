"""Provider-neutral content: blocks, messages, usage and the chunks of a model's stream.

Plain frozen data that is JSON by construction (orjson writes it, pydantic reads it back). Nothing
here knows a provider's dialect, a protocol's wire form or the session it is part of.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from harness_core.frozen import Frozen

Json: TypeAlias = Annotated[Any, Frozen()]
"""Any JSON value. What may really stand there is decided where a fact is accepted; once it is in
the log, nobody can change it."""


@dataclass(frozen=True, slots=True)
class Text:
    """Plain or Markdown text."""

    text: str
    type: Literal["text"] = "text"


@dataclass(frozen=True, slots=True)
class Image:
    """An image, inline. ``data`` is base64."""

    data: str
    mime_type: str
    uri: str | None = None
    type: Literal["image"] = "image"


@dataclass(frozen=True, slots=True)
class Audio:
    """A sound, inline. ``data`` is base64."""

    data: str
    mime_type: str
    type: Literal["audio"] = "audio"


@dataclass(frozen=True, slots=True)
class ResourceLink:
    """A reference to something that is not embedded; ``size`` is in bytes."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    type: Literal["resource_link"] = "resource_link"


@dataclass(frozen=True, slots=True)
class Resource:
    """An embedded resource: exactly one of ``text`` and ``blob`` (base64) is set."""

    uri: str
    text: str | None = None
    blob: str | None = None
    mime_type: str | None = None
    type: Literal["resource"] = "resource"


@dataclass(frozen=True, slots=True)
class Reasoning:
    """What the model thought aloud; ``signature`` is the provider's seal, passed back unread."""

    text: str
    signature: str | None = None
    type: Literal["reasoning"] = "reasoning"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool the model asks for. ``arguments`` is the raw JSON text, exactly as it came."""

    id: str
    name: str
    arguments: str
    type: Literal["tool_call"] = "tool_call"


UserBlock: TypeAlias = Text | Image | Audio | ResourceLink | Resource
AssistantBlock: TypeAlias = Text | Reasoning | ToolCall
ResultBlock: TypeAlias = Text | Image | Audio | ResourceLink | Resource


@dataclass(frozen=True, slots=True)
class UserMessage:
    """Something said to the model. ``source`` tells who: a prompt, steering, or added context."""

    id: str
    content: tuple[UserBlock, ...]
    source: str = "prompt"
    role: Literal["user"] = "user"

    @property
    def command(self) -> tuple[str, str] | None:
        """The name and the words after it if this is a prompt that begins with ``/name``."""
        first = self.content[0] if self.content else None
        if self.source != "prompt" or not isinstance(first, Text):
            return None
        called = re.match(r"/(\S+)\s*", first.text)
        return called and (called[1], first.text[called.end() :].rstrip())


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """One answer of the model: text, reasoning and tool calls in the order they came."""

    content: tuple[AssistantBlock, ...]
    role: Literal["assistant"] = "assistant"

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls it asks for, in the model's order."""
        return tuple(block for block in self.content if isinstance(block, ToolCall))

    @property
    def text(self) -> str:
        """Its visible text, joined."""
        return "".join(block.text for block in self.content if isinstance(block, Text))


@dataclass(frozen=True, slots=True)
class ToolMessage:
    """The result of one tool call, as the model sees it."""

    call_id: str
    name: str
    content: tuple[ResultBlock, ...]
    error: bool = False
    role: Literal["tool"] = "tool"


Message: TypeAlias = UserMessage | AssistantMessage | ToolMessage


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one model call. The counters are disjoint: their sum is what was processed."""

    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int = 0

    @property
    def context(self) -> int:
        """Tokens that the conversation occupies after this call."""
        return self.input + self.cache_read + self.cache_write + self.output + self.reasoning


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a model call failed.

    ``code`` is one of ``auth``, ``rate-limit``, ``overloaded``, ``timeout``, ``transport``, ``cut``
    (the stream ended without its finish marker), ``empty``, ``context-overflow``, ``bad-request``,
    ``server``, ``setup`` (not usable as configured), ``internal``. ``message`` is one sentence
    without secrets. ``status`` is the HTTP status, ``retry_after`` seconds that the provider asks
    to wait.
    """

    code: str
    message: str
    status: int | None = None
    retry_after: float | None = None
    request_id: str | None = None


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of visible text."""

    text: str
    type: Literal["text"] = "text"


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """A piece of reasoning; the ``signature`` usually comes alone, at the end."""

    text: str
    signature: str | None = None
    type: Literal["reasoning"] = "reasoning"


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A piece of a tool call. The first one of an ``id`` carries the ``name``."""

    id: str
    name: str = ""
    arguments: str = ""
    type: Literal["tool_call"] = "tool_call"


@dataclass(frozen=True, slots=True)
class UsageReport:
    """Token counts; the last one of a stream wins."""

    usage: Usage
    type: Literal["usage"] = "usage"


FinishKind: TypeAlias = Literal["stop", "tool-calls", "max-tokens", "refusal", "error"]


@dataclass(frozen=True, slots=True)
class Finish:
    """The end marker of a stream. ``failure`` is set exactly when ``kind`` is ``error``."""

    kind: FinishKind
    failure: Failure | None = None
    explanation: str | None = None
    """A provider's own words on a refusal."""
    type: Literal["finish"] = "finish"


Chunk: TypeAlias = TextDelta | ReasoningDelta | ToolCallDelta | UsageReport | Finish
