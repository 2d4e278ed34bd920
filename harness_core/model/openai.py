"""OpenAI's chat completions, as spoken by OpenAI and by everything compatible with it.

This file says how a request looks on the wire; what comes back is ``openai_stream``'s business.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from harness_core.content import (
    AssistantMessage,
    Audio,
    Image,
    Json,
    Message,
    Reasoning,
    Resource,
    ResultBlock,
    ToolCall,
    ToolMessage,
    UserBlock,
    UserMessage,
)
from harness_core.model.arguments import sendable
from harness_core.model.http import Endpoint, HttpModel
from harness_core.model.openai_stream import ChatDecoder
from harness_core.model.protocol import ModelInfo, ModelRequest, ToolSpec
from harness_core.model.readable import blank, picture, readable

AUDIO_FORMATS = {
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
}
PICTURES_FOLLOW = "The images that the tools returned:"


class OpenAIModel(HttpModel):
    """``POST {base_url}/chat/completions``.

    ``reasoning_field`` names the field in which the provider wants reasoning back with the tool
    calls that came of it, ``limit_field`` the one for the longest answer.
    """

    path = "/chat/completions"

    def __init__(
        self,
        info: ModelInfo,
        endpoint: Endpoint,
        *,
        reasoning_field: str | None = None,
        limit_field: str = "max_tokens",
    ) -> None:
        super().__init__(info, endpoint)
        self._reasoning_field = reasoning_field
        self._limit_field = limit_field

    def body(self, request: ModelRequest) -> dict[str, Json]:
        config = request.config
        body: dict[str, Json] = {
            "model": self.info.name,
            "messages": list(self._messages(request)),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if request.tools:
            body["tools"] = [_tool(tool) for tool in request.tools]
        knobs = {
            self._limit_field: config.max_output,
            "temperature": config.temperature,
            "reasoning_effort": config.effort,
        }
        return body | {name: value for name, value in knobs.items() if value is not None}

    def decoder(self, request: ModelRequest) -> ChatDecoder:
        used = {
            call.id
            for message in request.messages
            if isinstance(message, AssistantMessage)
            for call in message.calls
        }
        return ChatDecoder(used)

    def _messages(self, request: ModelRequest) -> Iterator[Json]:
        if request.system:
            yield {"role": "system", "content": request.system}
        pictures: list[Json] = []
        for message in request.messages:
            if pictures and not isinstance(message, ToolMessage):
                yield _pictures(pictures)
                pictures = []
            yield from self._message(message)
            if isinstance(message, ToolMessage):
                pictures += self._parts(block for block in message.content if self._shown(block))
        if pictures:
            yield _pictures(pictures)

    def _message(self, message: Message) -> Iterator[Json]:
        match message:
            case UserMessage(content=content) if not all(map(blank, content)):
                yield {"role": "user", "content": self._told(content)}
            case ToolMessage(call_id=id, content=content):
                # Only text may stand here; pictures follow in a message of their own.
                text = "\n".join(map(readable, content))
                yield {"role": "tool", "tool_call_id": id, "content": text}
            case AssistantMessage() if message.text.strip() or message.calls:
                yield self._assistant(message)

    def _assistant(self, message: AssistantMessage) -> Json:
        text = message.text if message.text.strip() else None
        said: dict[str, Json] = {"role": "assistant", "content": text}
        if message.calls:
            said["tool_calls"] = [_call(call) for call in message.calls]
        if message.calls and self._reasoning_field:
            # Whoever wants it back wants the field even when nothing was thought.
            thoughts = (b.text for b in message.content if isinstance(b, Reasoning))
            said[self._reasoning_field] = "".join(thoughts)
        return said

    def _told(self, blocks: Sequence[UserBlock]) -> Json:
        """Plain text where that is enough: not every compatible server knows parts."""
        if any(self._shown(block) for block in blocks):
            return self._parts(blocks)
        return "\n".join(map(readable, blocks))

    def _parts(self, blocks: Iterable[UserBlock | ResultBlock]) -> list[Json]:
        return [
            self._shown(block) or _text(readable(block)) for block in blocks if not blank(block)
        ]

    def _shown(self, block: UserBlock | ResultBlock) -> Json:
        """The block as something to look at or listen to; ``None`` if only text will do."""
        if isinstance(block, Image | Resource) and self.info.images and (image := picture(block)):
            url = f"data:{image.mime_type};base64,{image.data}"
            return {"type": "image_url", "image_url": {"url": url}}
        if isinstance(block, Audio) and self.info.audio and block.mime_type in AUDIO_FORMATS:
            sound = {"data": block.data, "format": AUDIO_FORMATS[block.mime_type]}
            return {"type": "input_audio", "input_audio": sound}
        return None


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


def _pictures(parts: list[Json]) -> Json:
    return {"role": "user", "content": [_text(PICTURES_FOLLOW), *parts]}


def _tool(tool: ToolSpec) -> Json:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _call(call: ToolCall) -> Json:
    function = {"name": call.name, "arguments": sendable(call.arguments)[0]}
    return {"id": call.id, "type": "function", "function": function}
