"""Scripted and replayed models: what they are told, in order, and nothing else."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, TypeAlias

import anyio
import pytest

from harness_core.content import (
    AssistantMessage,
    Chunk,
    Finish,
    Text,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    UserMessage,
)
from harness_core.facts import AssistantChunk, AssistantSaid, Fact, StepStart
from harness_core.model.protocol import ModelRequest
from harness_core.model.replay import ReplayModel, replies
from harness_core.model.scripted import ScriptedModel, asked, failed, said

pytestmark = pytest.mark.anyio

Ask: TypeAlias = Callable[..., Awaitable[list[Any]]]

HELLO = UserMessage("m1", (Text("Hello"),))


async def test_replies_come_in_order_and_requests_are_kept(ask: Ask) -> None:
    call = ToolCall("c1", "ls", "{}")
    model = ScriptedModel([said("one"), asked(call), failed("server"), (TextDelta("cut"),)])
    answers = [await ask(model, HELLO, system=str(n), keep=True) for n in range(4)]
    assert answers[:2] == [
        [TextDelta("one"), Finish("stop")],
        [ToolCallDelta("c1", "ls", "{}"), Finish("tool-calls")],
    ]
    assert answers[2][0].failure.code == "server"
    assert answers[3] == [TextDelta("cut")]
    assert [request.system for request in model.requests] == ["0", "1", "2", "3"]


async def test_a_reply_may_be_made_from_the_request(ask: Ask) -> None:
    def echo(request: ModelRequest) -> tuple[Chunk, ...]:
        return said(request.system)

    assert await ask(ScriptedModel([echo]), HELLO, system="Hello") == list(said("Hello"))


async def test_a_reply_may_wait_between_its_chunks_and_is_closed_with_the_stream() -> None:
    go, closed = anyio.Event(), anyio.Event()

    async def slow(_: ModelRequest) -> AsyncGenerator[Chunk, None]:
        try:
            yield TextDelta("wait")
            await go.wait()
            yield TextDelta("on")
            yield Finish("stop")
        finally:
            closed.set()

    def model() -> AsyncGenerator[Chunk, None]:
        request = ModelRequest(None, "", [HELLO])  # type: ignore[arg-type]
        return ScriptedModel([slow]).stream(request)

    with anyio.fail_after(10):
        stream = model()
        assert await anext(stream) == TextDelta("wait")
        await stream.aclose()
        assert closed.is_set()
        stream = model()
        await anext(stream)
        go.set()
        assert [chunk async for chunk in stream] == [TextDelta("on"), Finish("stop")]


async def test_a_script_that_is_over_fails_loudly(ask: Ask) -> None:
    (finish,) = await ask(ScriptedModel(), HELLO)
    assert (finish.failure.code, "no reply left" in finish.failure.message) == ("internal", True)


async def test_a_replay_says_what_was_logged_attempt_by_attempt(ask: Ask) -> None:
    facts: list[Fact] = [
        StepStart(1, 1),
        AssistantChunk(1, 1, 1, TextDelta("broken")),
        AssistantChunk(1, 1, 2, TextDelta("one")),
        AssistantChunk(1, 1, 2, Finish("tool-calls")),
        AssistantSaid(1, 1, AssistantMessage((Text("one"),))),
        StepStart(1, 2),
        AssistantChunk(1, 2, 1, TextDelta("two")),
        AssistantChunk(1, 2, 1, Finish("stop")),
    ]
    model = ReplayModel(iter(facts))
    answers = [await ask(model, HELLO, keep=True) for _ in range(3)]
    assert answers == [
        [TextDelta("broken")],
        [TextDelta("one"), Finish("tool-calls")],
        [TextDelta("two"), Finish("stop")],
    ]
    assert [list(reply) for reply in replies(facts)] == answers
    assert model.info.id == "replay:log"
