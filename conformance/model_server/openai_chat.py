"""The OpenAI chat-completions dialect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from conformance.model_server.dialect import Answer, Content, deltas, encode, event, joined
from conformance.model_server.reply import Call, Failure, Finish, Repeat, Text, Think, Usage
from conformance.model_server.request import Entry, OfferedTool, text_of

REASONS = {
    Finish.STOP: "stop",
    Finish.TOOL_CALLS: "tool_calls",
    Finish.LENGTH: "length",
    Finish.REFUSAL: "content_filter",
}
CREATED = 1_700_000_000
"""A fixed time keeps answers reproducible byte for byte."""


class ChatStream:
    """``chat.completion.chunk`` events, the usage chunk if asked for, then ``[DONE]``."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._calls = 0

    def begin(self) -> bytes:
        return self._event({"role": "assistant", "content": ""})

    def part(self, part: Content) -> bytes:
        match part:
            case Call():
                return self._call(part)
            case Think():
                return deltas(self._event({"reasoning_content": "@@"}), part.pieces())
            case Text() | Repeat():
                return deltas(self._event({"content": "@@"}), part.pieces())

    def end(self, finish: Finish, usage: Usage | None) -> bytes:
        last = self._event({}, REASONS[finish])
        if usage is not None and self._answer.include_usage:
            last += event({**self._frame(), "choices": [], "usage": counts(usage)})
        return last + b"data: [DONE]\n\n"

    def _call(self, call: Call) -> bytes:
        index = self._calls
        self._calls += 1
        function = {"name": call.name, "arguments": ""}
        opening = {"index": index, "id": call.id, "type": "function", "function": function}
        more = {"index": index, "function": {"arguments": "@@"}}
        return self._event({"tool_calls": [opening]}) + deltas(
            self._event({"tool_calls": [more]}), call.pieces()
        )

    def _event(self, delta: Mapping[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return event({**self._frame(), "choices": [choice]})

    def _frame(self) -> dict[str, Any]:
        return {
            "id": self._answer.id,
            "object": "chat.completion.chunk",
            "created": CREATED,
            "model": self._answer.model,
        }


class OpenAIChat:
    """``POST /v1/chat/completions``."""

    name = "openai-chat"
    path = "/v1/chat/completions"

    def entries(self, body: Mapping[str, Any]) -> Sequence[Entry]:
        return [_entry(message) for message in body.get("messages", [])]

    def tools(self, body: Mapping[str, Any]) -> Sequence[OfferedTool]:
        functions = (tool.get("function") or {} for tool in body.get("tools") or [])
        return [
            OfferedTool(f["name"], f.get("description") or "", f.get("parameters") or {})
            for f in functions
            if "name" in f
        ]

    def stream(self, answer: Answer) -> ChatStream:
        return ChatStream(answer)

    def whole(
        self, answer: Answer, parts: Sequence[Content], finish: Finish, usage: Usage | None
    ) -> bytes:
        message: dict[str, Any] = {"role": "assistant", "content": joined(parts, (Text, Repeat))}
        if reasoning := joined(parts, Think):
            message["reasoning_content"] = reasoning
        if calls := [_whole_call(part) for part in parts if isinstance(part, Call)]:
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "finish_reason": REASONS[finish]}
        return encode(
            {
                "id": answer.id,
                "object": "chat.completion",
                "created": CREATED,
                "model": answer.model,
                "choices": [choice],
                **({"usage": counts(usage)} if usage else {}),
            }
        )

    def failure(self, failure: Failure) -> bytes:
        return openai_failure(failure)


def _entry(message: Mapping[str, Any]) -> Entry:
    role = str(message.get("role", "user"))
    calls = tuple(call["function"]["name"] for call in message.get("tool_calls") or [])
    known = {"developer": "system", "function": "tool"}
    return Entry(known.get(role, role), text_of(message.get("content")), calls)


def _whole_call(call: Call) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def counts(usage: Usage) -> dict[str, Any]:
    """Token counts the way chat completions nest them: the prompt includes cached tokens."""
    prompt = usage.input + usage.cached
    completion = usage.output + usage.reasoning
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }


def openai_failure(failure: Failure) -> bytes:
    """The error body both OpenAI dialects use."""
    kinds = {401: "authentication_error", 429: "rate_limit_error", 400: "invalid_request_error"}
    kind = kinds.get(failure.status, "server_error")
    error = {"message": failure.message, "type": kind, "param": None, "code": None}
    return encode({"error": error})
