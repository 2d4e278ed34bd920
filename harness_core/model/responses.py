"""OpenAI's Responses API, spoken without any state at the provider.

Nothing is stored there: every call carries the whole conversation, and reasoning travels along
encrypted. This file says how a request looks on the wire; what comes back is
``responses_stream``'s business.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence

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
from harness_core.model.arguments import sendable
from harness_core.model.http import HttpModel
from harness_core.model.protocol import ModelRequest, ToolSpec
from harness_core.model.readable import blank, picture, readable
from harness_core.model.responses_stream import ResponseDecoder
from harness_core.model.seals import unseal

ENCRYPTED = "reasoning.encrypted_content"
THOUGHTLESS = re.compile(r"(?:.*/)?(?:ft:)?(?:gpt-[34]|chatgpt-|gpt-.*-chat)")
"""OpenAI's models that do not reason, and refuse to be asked for reasoning."""
LONGEST_ID = 64
"""Characters that the API accepts in the id of a call."""


class ResponsesModel(HttpModel):
    """``POST {base_url}/responses``."""

    path = "/responses"

    def body(self, request: ModelRequest) -> dict[str, Json]:
        config = request.config
        body: dict[str, Json] = {
            "model": self.info.name,
            "input": [item for message in request.messages for item in self._items(message)],
            "stream": True,
            "store": False,
        }
        if not THOUGHTLESS.match(self.info.name):
            body["include"] = [ENCRYPTED]
        if request.tools:
            body["tools"] = [_tool(tool) for tool in request.tools]
        effort = config.effort
        knobs = {
            "instructions": request.system or None,
            "max_output_tokens": config.max_output,
            "temperature": config.temperature,
            "reasoning": {"effort": effort, "summary": "auto"} if effort else None,
        }
        return body | {name: value for name, value in knobs.items() if value is not None}

    def decoder(self, request: ModelRequest) -> ResponseDecoder:
        return ResponseDecoder(self.info.provider)

    def _items(self, message: Message) -> Iterable[Json]:
        match message:
            case UserMessage(content=content) if not all(map(blank, content)):
                yield {"type": "message", "role": "user", "content": self._parts(content)}
            case AssistantMessage(content=said):
                yield from self._said(said)
            case ToolMessage(call_id=id, content=content):
                output = self._output(content)
                yield {"type": "function_call_output", "call_id": _id(id), "output": output}

    def _said(self, blocks: Sequence[AssistantBlock]) -> Iterator[Json]:
        """Reasoning only together with what came of it: alone the API refuses it."""
        thoughts: list[Json] = []
        for block in blocks:
            if isinstance(block, Reasoning):
                thoughts += self._thought(block)
            elif not blank(block):
                yield from thoughts
                yield _call(block) if isinstance(block, ToolCall) else _spoken(block)
                thoughts = []

    def _thought(self, block: Reasoning) -> Iterator[Json]:
        """What this provider has encrypted itself; nobody else's thought is accepted."""
        if opened := unseal(block.signature, self.info.provider):
            id, encrypted = opened
            summary = [{"type": "summary_text", "text": block.text}] if block.text else []
            item = {"type": "reasoning", "summary": summary, "encrypted_content": encrypted}
            yield {**item, "id": id} if id else item

    def _output(self, blocks: Sequence[ResultBlock]) -> Json:
        """Plain text where that is enough: not every compatible server knows parts here."""
        if any(self._shown(block) for block in blocks):
            return self._parts(blocks)
        return "\n".join(map(readable, blocks))

    def _parts(self, blocks: Iterable[UserBlock | ResultBlock]) -> list[Json]:
        return [
            self._shown(block) or {"type": "input_text", "text": readable(block)}
            for block in blocks
            if not blank(block)
        ]

    def _shown(self, block: UserBlock | ResultBlock) -> Json:
        """The block as something to look at; ``None`` if only text will do."""
        if not self.info.images:
            return None
        if image := picture(block):
            url = f"data:{image.mime_type};base64,{image.data}"
            return {"type": "input_image", "image_url": url, "detail": "auto"}
        if isinstance(block, Resource) and block.blob and block.mime_type == "application/pdf":
            data = f"data:application/pdf;base64,{block.blob}"
            name = block.uri.rpartition("/")[2] or "document.pdf"
            return {"type": "input_file", "filename": name, "file_data": data}
        return None


def _spoken(block: Text) -> Json:
    part = {"type": "output_text", "text": block.text, "annotations": []}
    return {"type": "message", "role": "assistant", "content": [part]}


def _call(call: ToolCall) -> Json:
    given = {"name": call.name, "arguments": sendable(call.arguments)[0]}
    return {"type": "function_call", "call_id": _id(call.id), **given}


def _tool(tool: ToolSpec) -> Json:
    """Not strict: strictness, which is their default, refuses most schemas of real tools."""
    described = {"name": tool.name, "description": tool.description}
    return {"type": "function", **described, "parameters": tool.parameters, "strict": False}


def _id(id: str) -> str:
    """A call id as the API accepts it: other providers mint longer ones."""
    return id if len(id) <= LONGEST_ID else f"call_{hashlib.sha256(id.encode()).hexdigest()[:32]}"
