"""What a Messages stream says, event by event, as chunks. A sans-I/O state machine."""

from __future__ import annotations

from collections.abc import Sequence

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

REDACTED = "redacted:"
"""Marks, in a signature, thinking that the provider has encrypted."""

KINDS: dict[str, FinishKind] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool-calls",
    "max_tokens": "max-tokens",
    "model_context_window_exceeded": "max-tokens",
    "refusal": "refusal",
}


class MessageDecoder:
    """The chunks of one answer."""

    def __init__(self) -> None:
        self.done = False
        self._call: str | None = None
        self._input: Json = None
        self._spoke = self._called = False
        self._reason: str | None = None
        self._explanation: str | None = None
        self._counts: dict[str, Json] = {}

    def feed(self, event: str, data: str) -> Sequence[Chunk]:
        """See ``Decoder.feed``. Events and deltas of unknown types are ignored."""
        if not data:
            return ()
        body = orjson.loads(data)
        match body["type"]:
            case "content_block_delta":
                return self._delta(body["delta"])
            case "content_block_start":
                return self._start(body["content_block"])
            case "content_block_stop":
                return self._stop()
            case "message_start":
                self._count(body["message"].get("usage"))
            case "message_delta":
                self._last_words(body)
            case "message_stop":
                self.done = True
            case "error":
                raise ApiError(body)
        return ()

    def end(self) -> Sequence[Chunk]:
        """See ``Decoder.end``."""
        last: list[Chunk] = [UsageReport(usage(self._counts))] if self._counts else []
        if self._reason is not None or self.done:
            last.append(self._finish(self._reason or "end_turn"))
        return last

    def _delta(self, delta: Json) -> Sequence[Chunk]:
        match delta["type"]:
            case "text_delta":
                self._spoke = True
                return (TextDelta(delta["text"]),)
            case "thinking_delta":
                return (ReasoningDelta(delta["thinking"]),)
            case "signature_delta":
                return (ReasoningDelta("", delta["signature"]),)
            case "input_json_delta" if self._call and delta["partial_json"]:
                self._input = None
                return (ToolCallDelta(self._call, arguments=delta["partial_json"]),)
        return ()

    def _start(self, block: Json) -> Sequence[Chunk]:
        match block["type"]:
            case "text" if block.get("text"):
                self._spoke = True
                return (TextDelta(block["text"]),)
            case "thinking" if block.get("thinking"):
                return (ReasoningDelta(block["thinking"]),)
            case "redacted_thinking":
                return (ReasoningDelta("", REDACTED + block["data"]),)
            case "tool_use":
                self._call, self._input = block["id"], block.get("input") or {}
                self._called = True
                return (ToolCallDelta(block["id"], block["name"]),)
        return ()

    def _stop(self) -> Sequence[Chunk]:
        """A call whose input did not stream has it from the start, or has none."""
        call, given = self._call, self._input
        self._call = self._input = None
        if call is None or given is None:
            return ()
        return (ToolCallDelta(call, arguments=orjson.dumps(given).decode()),)

    def _last_words(self, body: Json) -> None:
        self._count(body.get("usage"))
        delta = body["delta"]
        self._reason = delta.get("stop_reason") or self._reason
        if details := delta.get("stop_details"):
            self._explanation = details.get("explanation")

    def _count(self, counts: Json) -> None:
        """Counters are cumulative, and a later event need not repeat them all."""
        self._counts |= {name: n for name, n in (counts or {}).items() if n is not None}

    def _finish(self, reason: str) -> Finish:
        if reason == "pause_turn":
            # Only tools that run at the provider pause a turn, and none were offered.
            words = "the provider paused its answer, and how to resume it is not known here"
            return Finish("error", Failure("server", words))
        kind = KINDS.get(reason, "stop")
        if kind in ("stop", "tool-calls"):
            kind = "tool-calls" if self._called else "stop"
            if not (self._called or self._spoke):
                return Finish("error", Failure("empty", "the model answered nothing"))
        return Finish(kind, explanation=self._explanation)


def usage(counts: Json) -> Usage:
    """Disjoint counters: theirs are, but for the reasoning, which is part of the output."""
    reasoning = (counts.get("output_tokens_details") or {}).get("thinking_tokens") or 0
    return Usage(
        input=counts.get("input_tokens", 0),
        cache_read=counts.get("cache_read_input_tokens", 0),
        cache_write=counts.get("cache_creation_input_tokens", 0),
        output=max(0, counts.get("output_tokens", 0) - reasoning),
        reasoning=reasoning,
    )
