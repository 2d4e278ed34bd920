"""The shell around the dialects: connections, proxies, and failures nobody foresaw."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeAlias

import pytest

from harness_core.content import Finish, Text, TextDelta, UserMessage
from harness_core.model.http import Endpoint
from harness_core.model.openai import OpenAIModel
from harness_core.model.protocol import ModelInfo, ToolSpec

pytestmark = pytest.mark.anyio

Ask: TypeAlias = Callable[..., Awaitable[list[Any]]]
RawServer: TypeAlias = Callable[..., AbstractAsyncContextManager[str]]

HELLO = UserMessage("m1", (Text("Hello"),))
ANSWER = (
    b'data: {"choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
)


def model(base_url: str, **rest: Any) -> OpenAIModel:
    return OpenAIModel(ModelInfo("acme", "m"), Endpoint("acme", base_url, **rest))


async def test_a_connection_serves_many_calls(ask: Ask) -> None:
    """Although an answer is complete, for the reader, before its HTTP body is."""
    connections = 0

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = head.lower().split(b"content-length:")[1].split(b"\r\n")[0]
            await reader.readexactly(int(length))
            writer.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
                b"transfer-encoding: chunked\r\n\r\n%x\r\n%s\r\n" % (len(ANSWER), ANSWER)
            )
            await writer.drain()
            writer.write(b"0\r\n\r\n")

    def contained(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def serve() -> None:
            try:
                await handle(reader, writer)
            except asyncio.IncompleteReadError:
                writer.close()

        tasks.append(asyncio.ensure_future(serve()))

    tasks: list[asyncio.Future[None]] = []
    server = await asyncio.start_server(contained, "127.0.0.1", 0)
    async with server:
        asked = model(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        for _ in range(3):
            answer = await ask(asked, HELLO, keep=True)
            assert answer == [TextDelta("Hi"), Finish("stop")]
        await asked.aclose()
        await asyncio.wait_for(asyncio.gather(*tasks), 10)
    assert connections == 1


async def test_a_key_that_cannot_be_sent_is_not_repeated(ask: Ask, raw_server: RawServer) -> None:
    async with raw_server([ANSWER]) as url:
        chunks = await ask(model(url, headers={"authorization": "Bearer one\ntwo"}), HELLO)
    (finish,) = chunks
    assert finish.failure.code == "bad-request"
    assert "key" in finish.failure.message
    assert "two" not in finish.failure.message


async def test_an_unforeseen_failure_is_a_failure_too(
    ask: Ask, caplog: pytest.LogCaptureFixture
) -> None:
    tool = ToolSpec("odd", "", {"default": object()})
    (finish,) = await ask(model("http://127.0.0.1:1"), HELLO, tools=[tool])
    assert finish.failure.code == "internal"
    assert "unforeseen" in caplog.text


def test_a_proxy_that_cannot_be_used_is_said_before_any_call() -> None:
    """The environment's proxies are respected, so a wrong one is the user's to correct."""
    code = """
import anyio
from harness_core.content import Text, UserMessage
from harness_core.model.http import Endpoint
from harness_core.model.openai import OpenAIModel
from harness_core.model.protocol import ModelConfig, ModelInfo, ModelRequest, ModelSetupError

async def main():
    model = OpenAIModel(ModelInfo("acme", "m"), Endpoint("acme", "https://llm.example"))
    request = ModelRequest(ModelConfig("acme:m"), "", [UserMessage("m", (Text("hi"),))])
    try:
        async for chunk in model.stream(request):
            print(chunk)
    except ModelSetupError as error:
        print("setup:", error)

anyio.run(main)
"""
    env = {**os.environ, "ALL_PROXY": "gopher://127.0.0.1:1"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=env,
    )
    assert done.stdout.startswith("setup: acme cannot be connected to as configured: ")
    assert "gopher" in done.stdout
