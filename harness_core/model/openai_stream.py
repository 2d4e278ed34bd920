"""What a chat-completions stream says, event by event, as chunks.

A sans-I/O state machine. Compatible servers deviate in every direction, so it trusts little: calls
may come without index, without id, with an id that was used before, in fragments or whole.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

import orjson

from harness_core.content import (
    Chunk,
    Failure,
    Finish,
    FinishKind,
    Json,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    Usage,
    UsageReport,
)
from harness_core.model.failures import ApiError

KINDS: dict[str, FinishKind] = {
    "length": "max-tokens",
    "max_tokens": "max-tokens",
    "model_length": "max-tokens",
    "content_filter": "refusal",
    "refusal": "refusal",
    "tool_calls": "tool-calls",
    "function_call": "tool-calls",
}
"""Reasons to finish that are not just the end of what there was to say."""

BREAKDOWNS = {
    "error": "server",
    "network_error": "server",
    "insufficient_system_resource": "overloaded",
}
"""Reasons to finish that are failures of the provider."""


@dataclass(slots=True)
class Call:
    """A tool call in the making. ``theirs`` is the provider's id, ``id`` the one in use."""

    id: str
    theirs: str
    name: str = ""
    held: list[str] = field(default_factory=list)
    """Argument text that came before the name."""
    arguments: str = ""


class Calls:
    """The tool calls of one answer: which fragment belongs to which."""

    def __init__(self, used: AbstractSet[str]) -> None:
        self._used = set(used)
        self._calls: list[Call] = []
        self._at: dict[int, Call] = {}

    def __bool__(self) -> bool:
        return any(call.name for call in self._calls)

    def feed(self, item: Json) -> ToolCallDelta | None:
        """Take a fragment; ``None`` while its call has no name yet."""
        function = item.get("function") or {}
        id, name = item.get("id") or "", function.get("name") or ""
        call = self._find(item.get("index"), id, name)
        arguments = _argument_text(function.get("arguments"))
        call.arguments += arguments
        if call.name:
            return ToolCallDelta(call.id, arguments=arguments) if arguments else None
        call.held.append(arguments)
        if not name:
            return None
        call.name = name
        return ToolCallDelta(call.id, name, "".join(call.held))

    def _find(self, index: int | None, id: str, name: str) -> Call:
        if index is None:
            known = (call for call in self._calls if id and call.theirs == id)
            found = next(known, None) or (self._calls[-1] if self._calls and not id else None)
        else:
            found = self._at.get(index)
        if found is None or _is_another(found, id, name):
            found = self._new(id)
        if index is not None:
            self._at[index] = found
        return found

    def _new(self, theirs: str) -> Call:
        id = theirs
        while not id or id in self._used:
            id = f"call_{uuid.uuid4().hex[:24]}"
        self._used.add(id)
        self._calls.append(Call(id, theirs))
        return self._calls[-1]


def _is_another(call: Call, id: str, name: str) -> bool:
    """Whether a fragment opens a new call, although its index points at this one."""
    if not call.name or not name:
        return False
    if id and call.theirs:
        return id != call.theirs
    return _is_complete(call.arguments)


def _is_complete(arguments: str) -> bool:
    try:
        orjson.loads(arguments)
    except ValueError:
        return False
    return True


def _argument_text(arguments: Json) -> str:
    """Arguments as text: some servers send the object itself."""
    if isinstance(arguments, str):
        return arguments
    return "" if arguments is None else orjson.dumps(arguments).decode()


class ChatDecoder:
    """The chunks of one answer. ``used`` are the call ids of the conversation so far."""

    def __init__(self, used: AbstractSet[str] = frozenset()) -> None:
        self.done = False
        self._calls = Calls(used)
        self._spoke = False
        self._refusal = ""
        self._reason: str | None = None
        self._usage: Json = None

    def feed(self, event: str, data: str) -> Sequence[Chunk]:
        """See ``Decoder.feed``."""
        if data.startswith("[DONE]"):
            self.done = True
            return ()
        if not data:
            return ()
        body = orjson.loads(data)
        if body.get("error") or event == "error":
            raise ApiError(body)
        if usage := body.get("usage"):
            self._usage = usage
        choices = body.get("choices")
        return self._choice(choices[0]) if choices else ()

    def end(self) -> Sequence[Chunk]:
        """See ``Decoder.end``: the marker is a finish reason, or else ``[DONE]``."""
        last: list[Chunk] = [UsageReport(usage(self._usage))] if self._usage else []
        if self._reason is not None or self.done:
            last.append(self._finish())
        return last

    def _choice(self, choice: Json) -> list[Chunk]:
        if reason := choice.get("finish_reason"):
            self._reason = reason
        chunks: list[Chunk] = []
        delta = choice.get("delta") or choice.get("message")
        if not delta:
            return chunks
        thought = delta.get("reasoning_content") or delta.get("reasoning")
        if thought and isinstance(thought, str):
            chunks.append(ReasoningDelta(thought))
        if content := delta.get("content"):
            chunks += (TextDelta(content),) if isinstance(content, str) else _parts(content)
            self._spoke = True
        if refusal := delta.get("refusal"):
            self._refusal += refusal
        if items := delta.get("tool_calls"):
            chunks += filter(None, map(self._calls.feed, items))
        return chunks

    def _finish(self) -> Finish:
        reason = self._reason or "stop"
        if reason in BREAKDOWNS:
            words = f"the provider broke off the answer ({reason})"
            return Finish("error", Failure(BREAKDOWNS[reason], words))
        if self._refusal:
            return Finish("refusal", explanation=self._refusal)
        kind = KINDS.get(reason, "stop")
        if kind in ("stop", "tool-calls"):
            kind = "tool-calls" if self._calls else "stop"
            if not self._calls and not self._spoke:
                return Finish("error", Failure("empty", "the model answered nothing"))
        return Finish(kind)


def _parts(content: Json) -> Iterator[Chunk]:
    """Content that some servers send as a list of parts."""
    for part in content:
        if part.get("type") == "thinking":
            yield from (ReasoningDelta(p["text"]) for p in part["thinking"] if p.get("text"))
        elif text := part.get("text"):
            yield TextDelta(text)


@dataclass(frozen=True, slots=True)
class Names:
    """What an API calls the tokens that it was given, and those that it made."""

    given: str
    made: str


CHAT = Names("prompt_tokens", "completion_tokens")


def usage(counts: Json, names: Names = CHAT) -> Usage:
    """Disjoint counters: theirs count cached tokens as input and mostly reasoning as output."""
    given, made = _count(counts, names.given), _count(counts, names.made)
    details = counts.get(f"{names.given}_details") or {}
    read = _count(details, "cached_tokens") or _count(counts, "prompt_cache_hit_tokens")
    write = _count(details, "cache_write_tokens")
    reasoning = _count(counts.get(f"{names.made}_details") or {}, "reasoning_tokens")
    apart = _count(counts, "total_tokens") >= given + made + reasoning
    return Usage(
        input=max(0, given - read - write),
        cache_read=read,
        cache_write=write,
        output=made if apart else max(0, made - reasoning),
        reasoning=reasoning,
    )


def _count(counts: Json, name: str) -> int:
    value = counts.get(name)
    return int(value) if value else 0
