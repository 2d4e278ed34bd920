"""A model that says what it is told: for tests, and for whoever embeds the harness."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Sequence
from contextlib import aclosing
from typing import TypeAlias

from harness_core.content import (
    Chunk,
    Failure,
    Finish,
    TextDelta,
    ToolCall,
    ToolCallDelta,
)
from harness_core.model.protocol import ModelInfo, ModelRequest

Answer: TypeAlias = Sequence[Chunk] | AsyncGenerator[Chunk, None]
Reply: TypeAlias = Sequence[Chunk] | Callable[[ModelRequest], Answer]
"""Chunks, or a function of the request; an async generator may wait between its chunks."""


def said(text: str) -> tuple[Chunk, ...]:
    """A reply of one piece of text."""
    return TextDelta(text), Finish("stop")


def asked(*calls: ToolCall) -> tuple[Chunk, ...]:
    """A reply that asks for these tools, side by side."""
    deltas = (ToolCallDelta(call.id, call.name, call.arguments) for call in calls)
    return *deltas, Finish("tool-calls")


def failed(code: str, message: str = "told to fail") -> tuple[Chunk, ...]:
    """A reply that fails at once."""
    return (Finish("error", Failure(code, message)),)


class ScriptedModel:
    """Gives one reply per call, in order, exactly as it is: without ``Finish`` it is cut.

    ``requests`` are the calls so far. When no reply is left, every call fails (``internal``).
    """

    def __init__(
        self,
        replies: Iterable[Reply] = (),
        *,
        info: ModelInfo = ModelInfo("scripted", "scripted", images=True, audio=True),  # noqa: B008
    ) -> None:
        self.requests: list[ModelRequest] = []
        self._replies = iter(replies)
        self._info = info

    @property
    def info(self) -> ModelInfo:
        return self._info

    async def aclose(self) -> None:
        """There is nothing to free."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """The next reply."""
        self.requests.append(request)
        reply = next(self._replies, failed("internal", "the script has no reply left"))
        answer = reply(request) if callable(reply) else reply
        if not isinstance(answer, AsyncIterable):
            for chunk in answer:
                yield chunk
            return
        async with aclosing(answer) as chunks:
            async for chunk in chunks:
                yield chunk
