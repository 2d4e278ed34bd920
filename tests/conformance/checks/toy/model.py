"""The model over HTTP: one streamed chat completion at a time, on asyncio streams."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from toy.mutation import broken
from toy.peer import INTERNAL, Failure, Json, stubborn

ATTEMPTS = 2


class CutOff(Exception):
    """The stream ended without its finish marker."""


@dataclass(slots=True)
class Answer:
    """What one model call said."""

    text: str = ""
    calls: list[Json] = field(default_factory=list)
    finish: str = ""
    tokens: int = 0

    def message(self) -> Json:
        message: Json = {"role": "assistant", "content": self.text}
        return {**message, "tool_calls": self.calls} if self.calls else message


async def ask(
    messages: list[Json], tools: list[Json], on_delta: Callable[[str, str], None]
) -> Answer:
    """One model call; deltas are told as (kind, text). Raises ``Failure``."""
    for attempt in range(ATTEMPTS):
        try:
            return await _attempt(messages, tools, on_delta)
        except CutOff:
            if attempt == ATTEMPTS - 1:
                break
    raise Failure(INTERNAL, "The model's answer was cut off")


async def _attempt(
    messages: list[Json], tools: list[Json], on_delta: Callable[[str, str], None]
) -> Answer:
    url = urlsplit(os.environ["OPENAI_BASE_URL"])
    reader, writer = await asyncio.open_connection(url.hostname, url.port, limit=2**24)
    try:
        body = {
            "model": "toy",
            "stream": True,
            "stream_options": {"include_usage": True},
            "messages": messages,
            "tools": tools,
        }
        data = json.dumps(body).encode()
        head = f"POST {url.path}/chat/completions HTTP/1.1\r\nHost: model\r\n"
        writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        return await _read(reader, on_delta)
    finally:
        writer.close()


async def _read(reader: asyncio.StreamReader, on_delta: Callable[[str, str], None]) -> Answer:
    status = int((await reader.readline()).split()[1])
    while (await reader.readline()).strip():
        pass
    if status != 200:
        raise await _refusal(reader, status)
    answer = Answer()
    async for event in _events(reader):
        if event == "[DONE]":
            return answer
        _apply(json.loads(event), answer, on_delta)
    if broken("TURN-07.cut"):
        return answer
    raise CutOff


async def _refusal(reader: asyncio.StreamReader, status: int) -> Failure:
    body = (await reader.read(4096)).decode(errors="replace") if broken("RPC-11") else ""
    if broken("TURN-07.server"):
        await stubborn(asyncio.sleep(600))
    return Failure(INTERNAL, f"The model refused the request with HTTP {status}. {body}".strip())


async def _events(reader: asyncio.StreamReader) -> AsyncIterator[str]:
    """The data of server-sent events out of a chunked body."""
    buffer = b""
    while True:
        size = (await reader.readline()).strip()
        if not size or int(size, 16) == 0:
            return
        try:
            buffer += (await reader.readexactly(int(size, 16) + 2))[:-2]
        except asyncio.IncompleteReadError:
            return
        *events, buffer = buffer.split(b"\n\n")
        for event in events:
            if event.startswith(b"data: "):
                yield event[6:].decode()


def _apply(event: Any, answer: Answer, on_delta: Callable[[str, str], None]) -> None:
    if event.get("usage"):
        answer.tokens = event["usage"]["total_tokens"]
    for choice in event.get("choices", []):
        answer.finish = choice.get("finish_reason") or answer.finish
        delta = choice["delta"]
        if delta.get("content"):
            answer.text += delta["content"]
            on_delta("text", delta["content"])
        if delta.get("reasoning_content"):
            on_delta("thought", delta["reasoning_content"])
        for part in delta.get("tool_calls", []):
            _call_part(part, answer)


def _call_part(part: Json, answer: Answer) -> None:
    if part["index"] == len(answer.calls):
        function = {"name": part["function"]["name"], "arguments": ""}
        answer.calls.append({"id": part["id"], "type": "function", "function": function})
    answer.calls[part["index"]]["function"]["arguments"] += part["function"]["arguments"]
