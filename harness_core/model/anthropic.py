"""Anthropic's Messages API.

This file says how a request looks on the wire; what comes back is ``anthropic_stream``'s business,
how hard the model is asked to think ``anthropic_thinking``'s.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from harness_core.content import (
    AssistantBlock,
    AssistantMessage,
    Json,
    Message,
    Reasoning,
    Resource,
    ResultBlock,
    Text,
    ToolCall,
    ToolMessage,
    UserBlock,
    UserMessage,
)
from harness_core.model.anthropic_stream import REDACTED, MessageDecoder
from harness_core.model.anthropic_thinking import thinking
from harness_core.model.arguments import sendable
from harness_core.model.http import HttpModel
from harness_core.model.protocol import ModelRequest, ToolSpec
from harness_core.model.readable import picture, readable
from harness_core.model.seals import is_own

DEFAULT_MAX_TOKENS = 32_000
"""The API wants a limit. Every model since Claude 4 allows this much."""
CACHED = {"type": "ephemeral"}
NOT_AN_ID = re.compile(r"[^a-zA-Z0-9_-]")


class AnthropicModel(HttpModel):
    """``POST {base_url}/v1/messages``."""

    path = "/v1/messages"

    def body(self, request: ModelRequest) -> dict[str, Json]:
        config = request.config
        limit = config.max_output or DEFAULT_MAX_TOKENS
        body: dict[str, Json] = {
            "model": self.info.name,
            "max_tokens": limit,
            "messages": _cached(self._turns(request.messages)),
            "stream": True,
        }
        if request.system:
            body["system"] = [{**_text(request.system), "cache_control": CACHED}]
        if request.tools:
            tools = [_tool(tool) for tool in request.tools]
            body["tools"] = [*tools[:-1], {**tools[-1], "cache_control": CACHED}]
        knobs = thinking(self.info.name, config.effort, limit, request.messages)
        if config.temperature is not None and "thinking" not in knobs:
            # A thinking model accepts no temperature but its own.
            knobs["temperature"] = config.temperature
        return body | knobs

    def decoder(self, request: ModelRequest) -> MessageDecoder:
        return MessageDecoder()

    def _turns(self, messages: Sequence[Message]) -> list[dict[str, Json]]:
        """The conversation with alternating roles; results of parallel calls stay together."""
        turns: list[dict[str, Json]] = []
        for message in messages:
            role = "assistant" if isinstance(message, AssistantMessage) else "user"
            blocks = list(self._blocks(message))
            if turns and turns[-1]["role"] == role:
                turns[-1]["content"] += blocks
            elif blocks:
                turns.append({"role": role, "content": blocks})
        return turns

    def _blocks(self, message: Message) -> Iterable[Json]:
        match message:
            case UserMessage(content=content):
                return self._shown(content)
            case AssistantMessage(content=said):
                return filter(None, map(_said, said))
            case ToolMessage():
                return [self._result(message)]

    def _result(self, message: ToolMessage) -> Json:
        result: dict[str, Json] = {"type": "tool_result", "tool_use_id": _id(message.call_id)}
        if content := self._shown(message.content):
            result["content"] = content
        if message.error:
            result["is_error"] = True
        return result

    def _shown(self, blocks: Iterable[UserBlock | ResultBlock]) -> list[Json]:
        return [shown for block in blocks if (shown := self._block(block))]

    def _block(self, block: UserBlock | ResultBlock) -> Json:
        """The block in the API's words; ``None`` for blank text, which it does not accept."""
        if self.info.images and (image := picture(block)):
            return {"type": "image", "source": _source(image.data, image.mime_type)}
        if isinstance(block, Resource) and block.blob and block.mime_type == "application/pdf":
            return {"type": "document", "source": _source(block.blob, block.mime_type)}
        text = readable(block)
        return _text(text) if text.strip() else None


def _said(block: AssistantBlock) -> Json:
    match block:
        case Text(text=text):
            return _text(text) if text.strip() else None
        case Reasoning(signature=str(seal)) if seal.startswith(REDACTED):
            return {"type": "redacted_thinking", "data": seal.removeprefix(REDACTED)}
        case Reasoning(text=text, signature=str(seal)) if is_own(seal):
            return {"type": "thinking", "thinking": text, "signature": seal}
        case Reasoning():
            # Without their own seal it is somebody else's thought, and refused.
            return None
        case ToolCall(id=id, name=name, arguments=arguments):
            given = sendable(arguments)[1]
            return {"type": "tool_use", "id": _id(id), "name": name, "input": given}


def _cached(turns: list[dict[str, Json]]) -> list[dict[str, Json]]:
    """Mark the end of the conversation, so that the next call finds all of this in the cache."""
    if turns:
        *before, last = turns[-1]["content"]
        if last["type"] not in ("thinking", "redacted_thinking"):
            turns[-1]["content"] = [*before, {**last, "cache_control": CACHED}]
    return turns


def _text(text: str) -> dict[str, Json]:
    return {"type": "text", "text": text}


def _source(data: str, mime_type: str) -> Json:
    return {"type": "base64", "media_type": mime_type, "data": data}


def _tool(tool: ToolSpec) -> dict[str, Json]:
    described = {"name": tool.name, "description": tool.description}
    return {**described, "input_schema": tool.parameters}


def _id(id: str) -> str:
    """A call id as the API accepts it: other providers mint ids that it does not."""
    return NOT_AN_ID.sub("_", id)
