"""The Anthropic messages dialect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from conformance.model_server.dialect import Answer, Content, decoded, deltas, encode, event
from conformance.model_server.reply import Call, Failure, Finish, Repeat, Text, Think, Usage
from conformance.model_server.request import Entry, OfferedTool, text_of

REASONS = {
    Finish.STOP: "end_turn",
    Finish.TOOL_CALLS: "tool_use",
    Finish.LENGTH: "max_tokens",
    Finish.REFUSAL: "refusal",
}
ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}
SIGNATURE = "c2NyaXB0ZWQtc2lnbmF0dXJl"


class MessageStream:
    """``message_start``, content blocks, ``message_delta``, ``message_stop``.

    Text that follows text stays in one block, also when the script paused in between.
    """

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._index = -1
        self._open = ""

    def begin(self) -> bytes:
        message = {
            **_message(self._answer),
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": counts(Usage(0, 1)),
        }
        return _named({"type": "message_start", "message": message}) + _named({"type": "ping"})

    def part(self, part: Content) -> bytes:
        match part:
            case Call():
                block = {"type": "tool_use", "id": part.id, "name": part.name, "input": {}}
                opened = self._close() + self._start("tool_use", block)
                return opened + self._deltas("input_json_delta", "partial_json", part.pieces())
            case Think():
                block = {"type": "thinking", "thinking": "", "signature": ""}
                opened = self._switch("thinking", block)
                return opened + self._deltas("thinking_delta", "thinking", part.pieces())
            case Text() | Repeat():
                opened = self._switch("text", {"type": "text", "text": ""})
                return opened + self._deltas("text_delta", "text", part.pieces())

    def end(self, finish: Finish, usage: Usage | None) -> bytes:
        delta = {"stop_reason": REASONS[finish], "stop_sequence": None}
        counted = counts(usage or Usage(0, 0))
        last = {"type": "message_delta", "delta": delta, "usage": counted}
        return self._close() + _named(last) + _named({"type": "message_stop"})

    def _switch(self, kind: str, block: Mapping[str, Any]) -> bytes:
        return b"" if self._open == kind else self._close() + self._start(kind, block)

    def _start(self, kind: str, block: Mapping[str, Any]) -> bytes:
        self._open = kind
        self._index += 1
        return _named({"type": "content_block_start", "index": self._index, "content_block": block})

    def _close(self) -> bytes:
        if not self._open:
            return b""
        signed = self._open == "thinking"
        self._open = ""
        signature = self._delta({"type": "signature_delta", "signature": SIGNATURE})
        stop = _named({"type": "content_block_stop", "index": self._index})
        return (signature if signed else b"") + stop

    def _deltas(self, kind: str, key: str, pieces: Sequence[str]) -> bytes:
        return deltas(self._delta({"type": kind, key: "@@"}), pieces)

    def _delta(self, delta: Mapping[str, Any]) -> bytes:
        return _named({"type": "content_block_delta", "index": self._index, "delta": delta})


class Anthropic:
    """``POST /v1/messages``."""

    name = "anthropic"
    path = "/v1/messages"

    def entries(self, body: Mapping[str, Any]) -> Sequence[Entry]:
        system = text_of(body.get("system"))
        first = [Entry("system", system)] if system else []
        return first + [entry for message in body.get("messages", []) for entry in _split(message)]

    def tools(self, body: Mapping[str, Any]) -> Sequence[OfferedTool]:
        return [
            OfferedTool(tool["name"], tool.get("description") or "", tool.get("input_schema") or {})
            for tool in body.get("tools") or []
            if "name" in tool
        ]

    def stream(self, answer: Answer) -> MessageStream:
        return MessageStream(answer)

    def whole(
        self, answer: Answer, parts: Sequence[Content], finish: Finish, usage: Usage | None
    ) -> bytes:
        return encode(
            {
                **_message(answer),
                "content": [_whole_block(part) for part in parts],
                "stop_reason": REASONS[finish],
                "stop_sequence": None,
                "usage": counts(usage or Usage(0, 0)),
            }
        )

    def failure(self, failure: Failure) -> bytes:
        kind = ERRORS.get(failure.status, "api_error")
        return encode({"type": "error", "error": {"type": kind, "message": failure.message}})


def _named(value: Mapping[str, Any]) -> bytes:
    return event(value, str(value["type"]))


def _message(answer: Answer) -> dict[str, Any]:
    return {"id": answer.id, "type": "message", "role": "assistant", "model": answer.model}


def _split(message: Mapping[str, Any]) -> list[Entry]:
    """A user message may hold tool results and text: each result is an entry of its own."""
    content = message.get("content")
    role = str(message.get("role", "user"))
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    results = [Entry("tool", text_of(b)) for b in blocks if b.get("type") == "tool_result"]
    rest = [b for b in blocks if b.get("type") not in {"tool_result", "tool_use"}]
    calls = tuple(str(b["name"]) for b in blocks if b.get("type") == "tool_use")
    if not rest and not calls:
        return results
    return [*results, Entry(role, text_of(rest), calls)]


def _whole_block(part: Content) -> dict[str, Any]:
    match part:
        case Call():
            called = decoded(part.arguments)
            return {"type": "tool_use", "id": part.id, "name": part.name, "input": called}
        case Think():
            return {"type": "thinking", "thinking": part.text, "signature": SIGNATURE}
        case Text() | Repeat():
            return {"type": "text", "text": "".join(part.pieces())}


def counts(usage: Usage) -> dict[str, int]:
    """Token counts the Anthropic way: disjoint, reasoning is part of the output."""
    return {
        "input_tokens": usage.input,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": usage.output + usage.reasoning,
    }
