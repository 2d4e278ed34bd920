"""The OpenAI Responses dialect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from conformance.model_server.dialect import Answer, Content, encode, event
from conformance.model_server.openai_chat import CREATED, openai_failure
from conformance.model_server.reply import Call, Failure, Finish, Repeat, Text, Think, Usage
from conformance.model_server.request import Entry, OfferedTool, text_of

INCOMPLETE = {Finish.LENGTH: "max_output_tokens", Finish.REFUSAL: "content_filter"}
ASSISTANT_ITEMS = {"reasoning", "function_call", "custom_tool_call", "local_shell_call"}


class ResponseStream:
    """``response.created``, output items, then completed or incomplete.

    Text that follows text stays in one item, also when the script paused in between.
    """

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._items: list[dict[str, Any]] = []
        self._open: _OpenItem | None = None
        self._sequence = 0

    def begin(self) -> bytes:
        started = _response(self._answer, [], "in_progress")
        return self._event("response.created", response=started) + self._event(
            "response.in_progress", response=started
        )

    def part(self, part: Content) -> bytes:
        opened = self._switch(part)
        assert self._open is not None
        self._open.pieces += part.pieces()
        return opened + b"".join(self._deltas(part.pieces()))

    def end(self, finish: Finish, usage: Usage | None) -> bytes:
        closed = self._close()
        reason = INCOMPLETE.get(finish)
        status = "incomplete" if reason else "completed"
        response = _response(self._answer, self._items, status, reason, usage)
        return closed + self._event(f"response.{status}", response=response)

    def _switch(self, part: Content) -> bytes:
        if self._open and self._open.shape is not CALL and self._open.shape is shape_of(part):
            return b""
        closed = self._close()
        identity = f"item_{self._answer.id}_{len(self._items)}"
        self._open = _OpenItem(identity, shape_of(part), part)
        announced = {**self._open.item(""), "status": "in_progress"}
        return closed + self._item_event("added", announced) + self._parts("added", "")

    def _close(self) -> bytes:
        if (current := self._open) is None:
            return b""
        text = "".join(current.pieces)
        shape = current.shape
        done = self._event(f"{shape.event}.done", **self._place(), **{shape.key: text})
        closed = done + self._parts("done", text) + self._item_event("done", current.item(text))
        self._items.append(current.item(text))
        self._open = None
        return closed

    def _parts(self, what: str, text: str) -> bytes:
        assert self._open is not None
        shape = self._open.shape
        if not shape.part_event:
            return b""
        part = {"type": shape.part_type, "text": text}
        return self._event(f"{shape.part_event}.{what}", **self._place(), part=part)

    def _deltas(self, pieces: Sequence[str]) -> Iterator[bytes]:
        """Delta events, built from one ready-made event: thousands must cost little."""
        assert self._open is not None
        name = f"{self._open.shape.event}.delta"
        template = {"type": name, **self._place(), "delta": "@@", "sequence_number": "@@"}
        before, between, after = event(template, name).split(b'"@@"')
        for piece in pieces:
            yield before + encode(piece) + between + b"%d" % self._sequence + after
            self._sequence += 1

    def _place(self) -> dict[str, Any]:
        assert self._open is not None
        where = {"output_index": len(self._items), "item_id": self._open.identity}
        index = self._open.shape.index
        return {**where, index: 0} if index else where

    def _item_event(self, what: str, item: Mapping[str, Any]) -> bytes:
        return self._event(f"response.output_item.{what}", output_index=len(self._items), item=item)

    def _event(self, name: str, **fields: Any) -> bytes:
        number = self._sequence
        self._sequence += 1
        return event({"type": name, "sequence_number": number, **fields}, name)


@dataclass(frozen=True, slots=True)
class _Shape:
    """How one kind of output item is spelled in events."""

    event: str
    key: str
    index: str = ""
    part_event: str = ""
    part_type: str = ""


CALL = _Shape("response.function_call_arguments", "arguments")
THINK = _Shape(
    "response.reasoning_summary_text",
    "text",
    "summary_index",
    "response.reasoning_summary_part",
    "summary_text",
)
TEXT = _Shape(
    "response.output_text", "text", "content_index", "response.content_part", "output_text"
)


def shape_of(part: Content) -> _Shape:
    match part:
        case Call():
            return CALL
        case Think():
            return THINK
        case Text() | Repeat():
            return TEXT


@dataclass(slots=True)
class _OpenItem:
    """The output item that is being streamed."""

    identity: str
    shape: _Shape
    part: Content
    pieces: list[str] = field(default_factory=list)

    def item(self, text: str) -> dict[str, Any]:
        match self.part:
            case Call(name=name, id=call_id):
                return _item(Call(name, text, call_id), self.identity)
            case Think():
                return _item(Think(text), self.identity)
            case Text() | Repeat():
                return _item(Text(text), self.identity)


class OpenAIResponses:
    """``POST /v1/responses``."""

    name = "openai-responses"
    path = "/v1/responses"

    def entries(self, body: Mapping[str, Any]) -> Sequence[Entry]:
        instructions = body.get("instructions")
        first = [Entry("system", instructions)] if instructions else []
        given = body.get("input", [])
        if isinstance(given, str):
            return [*first, Entry("user", given)]
        return first + _grouped(given)

    def tools(self, body: Mapping[str, Any]) -> Sequence[OfferedTool]:
        return [
            OfferedTool(tool["name"], tool.get("description") or "", tool.get("parameters") or {})
            for tool in body.get("tools") or []
            if tool.get("type") == "function"
        ]

    def stream(self, answer: Answer) -> ResponseStream:
        return ResponseStream(answer)

    def whole(
        self, answer: Answer, parts: Sequence[Content], finish: Finish, usage: Usage | None
    ) -> bytes:
        items = [_item(part, f"item_{answer.id}_{n}") for n, part in enumerate(parts)]
        reason = INCOMPLETE.get(finish)
        status = "incomplete" if reason else "completed"
        return encode(_response(answer, items, status, reason, usage))

    def failure(self, failure: Failure) -> bytes:
        return openai_failure(failure)


def _grouped(items: Sequence[Mapping[str, Any]]) -> list[Entry]:
    """Reasoning, calls and text that follow one another were one answer of the model."""
    entries: list[Entry] = []
    open_answer = False
    for item in items:
        entry = _entry(item)
        if entry.role == "assistant" and open_answer:
            last = entries.pop()
            entry = Entry("assistant", last.text + entry.text, last.calls + entry.calls)
        open_answer = entry.role == "assistant"
        entries.append(entry)
    return entries


def _entry(item: Mapping[str, Any]) -> Entry:
    kind = str(item.get("type", "message"))
    if kind in ASSISTANT_ITEMS:
        return Entry("assistant", "", (str(item["name"]),) if "name" in item else ())
    if kind.endswith("_output"):
        return Entry("tool", text_of(item.get("output")))
    role = str(item.get("role", "user"))
    return Entry("system" if role == "developer" else role, text_of(item.get("content")))


def _item(part: Content, identity: str) -> dict[str, Any]:
    match part:
        case Call():
            return {
                "type": "function_call",
                "id": identity,
                "call_id": part.id,
                "name": part.name,
                "arguments": part.arguments,
                "status": "completed",
            }
        case Think():
            summary = [{"type": "summary_text", "text": part.text}] if part.text else []
            return {"type": "reasoning", "id": identity, "summary": summary}
        case Text() | Repeat():
            return {
                "type": "message",
                "id": identity,
                "role": "assistant",
                "status": "completed",
                "content": [_output_text(text)] if (text := "".join(part.pieces())) else [],
            }


def _output_text(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": []}


def _response(
    answer: Answer,
    items: Sequence[Mapping[str, Any]],
    status: str,
    reason: str | None = None,
    usage: Usage | None = None,
) -> dict[str, Any]:
    return {
        "id": answer.id,
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "error": None,
        "incomplete_details": {"reason": reason} if reason else None,
        "model": answer.model,
        "output": list(items),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": counts(usage) if usage else None,
    }


def counts(usage: Usage) -> dict[str, Any]:
    """Token counts the way the Responses API nests them."""
    given = usage.input + usage.cached
    made = usage.output + usage.reasoning
    return {
        "input_tokens": given,
        "input_tokens_details": {"cached_tokens": usage.cached},
        "output_tokens": made,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": given + made,
    }
