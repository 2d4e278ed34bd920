"""What a Responses stream says, event by event, as chunks.

A sans-I/O state machine. An answer is a list of items (messages, reasoning, calls); each is
announced, grows by deltas and is closed whole, and servers leave out any of the three. So what was
not streamed is taken from what is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import orjson

from harness_core.content import (
    Chunk,
    Failure,
    Finish,
    Json,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    UsageReport,
)
from harness_core.model.failures import ApiError
from harness_core.model.openai_stream import Names, usage
from harness_core.model.seals import seal

COUNTERS = Names("input_tokens", "output_tokens")
LENGTHS = ("max_output_tokens", "max_tokens", "length")
REFUSALS = ("content_filter", "refusal")
"""Why an answer is incomplete."""
PARAGRAPH = "\n\n"
"""Between the parts of a reasoning summary."""


@dataclass(slots=True)
class Item:
    """An item of the answer in the making; ``call`` is the id of a tool call, once it is known."""

    call: str = ""
    streamed: bool = False
    """Whether any of it came as a delta."""


class ResponseDecoder:
    """The chunks of one answer of ``provider``, whose name marks what only it can read again."""

    def __init__(self, provider: str) -> None:
        self.done = False
        self._provider = provider
        self._items: dict[Json, Item] = {}
        self._spoke = self._called = False
        self._refusal = ""
        self._response: Json = None

    def feed(self, event: str, data: str) -> Sequence[Chunk]:
        """See ``Decoder.feed``. Events and items of unknown types are ignored."""
        if not data or data.startswith("[DONE]"):
            return ()
        body = orjson.loads(data)
        kind = body.get("type") or event
        if handle := EVENTS.get(kind):
            return handle(self, body)
        if kind == "error" or body.get("error"):
            raise ApiError(body)
        # An answer that did not stream is the response itself.
        return self._whole(body) if body.get("object") == "response" else ()

    def end(self) -> Sequence[Chunk]:
        """See ``Decoder.end``: the marker is the closing response."""
        if self._response is None:
            return ()
        counts = self._response.get("usage")
        last: list[Chunk] = [UsageReport(usage(counts, COUNTERS))] if counts else []
        return [*last, self._finish()]

    # --- items ---------------------------------------------------------------------------------

    def _item(self, body: Json) -> Item:
        """The item that an event is about."""
        key = _key(body)
        if key not in self._items:
            self._items[key] = Item()
        return self._items[key]

    def _text(self, body: Json) -> Sequence[Chunk]:
        self._item(body).streamed = self._spoke = True
        return (TextDelta(body["delta"]),)

    def _refused(self, body: Json) -> Sequence[Chunk]:
        self._item(body).streamed = True
        self._refusal += body["delta"]
        return ()

    def _thought(self, body: Json) -> Sequence[Chunk]:
        self._item(body).streamed = True
        return (ReasoningDelta(body["delta"]),)

    def _part(self, body: Json) -> Sequence[Chunk]:
        """A part of a reasoning summary begins."""
        return (ReasoningDelta(PARAGRAPH),) if self._item(body).streamed else ()

    def _arguments(self, body: Json) -> Sequence[Chunk]:
        item = self._item(body)
        if not (item.call and body["delta"]):
            return ()
        item.streamed = True
        return (ToolCallDelta(item.call, arguments=body["delta"]),)

    def _begun(self, body: Json) -> Sequence[Chunk]:
        item = self._items[_key(body)] = Item()
        opened = body["item"]
        return self._open_call(item, opened) if opened["type"] == "function_call" else ()

    def _closed(self, body: Json) -> Sequence[Chunk]:
        item, closed = self._item(body), body["item"]
        match closed["type"]:
            case "function_call":
                return self._close_call(item, closed)
            case "message" if not item.streamed:
                return self._message(closed)
            case "reasoning":
                return self._reasoning(item, closed)
        return ()

    def _open_call(self, item: Item, call: Json) -> list[Chunk]:
        self._called = True
        item.call = call.get("call_id") or call["id"]
        return [ToolCallDelta(item.call, call["name"])]

    def _close_call(self, item: Item, call: Json) -> list[Chunk]:
        chunks: list[Chunk] = [] if item.call else self._open_call(item, call)
        if call.get("arguments") and not item.streamed:
            chunks.append(ToolCallDelta(item.call, arguments=call["arguments"]))
        return chunks

    def _message(self, message: Json) -> list[Chunk]:
        parts = message.get("content") or []
        self._refusal += "".join(part["refusal"] for part in parts if part.get("refusal"))
        texts = [part["text"] for part in parts if part.get("text")]
        self._spoke = self._spoke or bool(texts)
        return [TextDelta(text) for text in texts]

    def _reasoning(self, item: Item, reasoning: Json) -> list[Chunk]:
        """Only the closed item has the whole encrypted content."""
        parts = reasoning.get("summary") or reasoning.get("content") or []
        text = "" if item.streamed else PARAGRAPH.join(part["text"] for part in parts)
        encrypted = reasoning.get("encrypted_content")
        signature = seal(self._provider, reasoning.get("id", ""), encrypted) if encrypted else None
        return [ReasoningDelta(text, signature)] if text or signature else []

    # --- the end -------------------------------------------------------------------------------

    def _whole(self, response: Json) -> list[Chunk]:
        chunks: list[Chunk] = []
        for index, item in enumerate(response.get("output") or []):
            chunks += self._closed({"output_index": index, "item": item})
        self._over({"response": response})
        return chunks

    def _over(self, body: Json) -> Sequence[Chunk]:
        """The answer is complete, incomplete or failed."""
        response = body["response"]
        error = response.get("error")
        if (response.get("status") == "failed" or error) and not _is_policy(error):
            raise ApiError({"error": error or {}})
        self._response, self.done = response, True
        return ()

    def _finish(self) -> Finish:
        if error := self._response.get("error"):
            return Finish("refusal", explanation=error.get("message"))
        if reason := (self._response.get("incomplete_details") or {}).get("reason"):
            return self._incomplete(reason)
        if self._refusal:
            return Finish("refusal", explanation=self._refusal)
        if not (self._called or self._spoke):
            return Finish("error", Failure("empty", "the model answered nothing"))
        return Finish("tool-calls" if self._called else "stop")

    def _incomplete(self, reason: str) -> Finish:
        if reason in LENGTHS:
            return Finish("max-tokens")
        if reason in REFUSALS:
            return Finish("refusal", explanation=self._refusal or None)
        words = f"the provider broke off the answer ({reason})"
        return Finish("error", Failure("server", words))


def _key(body: Json) -> Json:
    """What tells items apart: their place where it is said, since some servers change the ids."""
    place = body.get("output_index")
    if place is not None:
        return place
    return body.get("item_id") or (body.get("item") or {}).get("id")


def _is_policy(error: Json) -> bool:
    """Whether an error is the provider's decision not to answer this."""
    return bool(error) and "policy" in str(error.get("code"))


EVENTS: dict[str, Callable[[ResponseDecoder, Json], Sequence[Chunk]]] = {
    "response.output_text.delta": ResponseDecoder._text,
    "response.refusal.delta": ResponseDecoder._refused,
    "response.reasoning_summary_part.added": ResponseDecoder._part,
    "response.reasoning_summary_text.delta": ResponseDecoder._thought,
    "response.reasoning_text.delta": ResponseDecoder._thought,
    "response.function_call_arguments.delta": ResponseDecoder._arguments,
    "response.output_item.added": ResponseDecoder._begun,
    "response.output_item.done": ResponseDecoder._closed,
    "response.completed": ResponseDecoder._over,
    "response.incomplete": ResponseDecoder._over,
    "response.failed": ResponseDecoder._over,
}
"""What is done with an event, by its type."""
