"""What the model tests share: asyncio, a way to ask, and a server that sends bytes as told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio
import pytest

from harness_core.content import Chunk, Message
from harness_core.model.protocol import Model, ModelConfig, ModelRequest, ToolSpec

Ask = Callable[..., Awaitable[list[Chunk]]]
RawServer = Callable[..., AbstractAsyncContextManager[str]]


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def ask() -> Ask:
    """Call a model to the end of its stream, in bounded time, and close it unless it is kept."""

    async def ask(
        model: Model,
        *messages: Message,
        system: str = "",
        tools: Iterable[ToolSpec] = (),
        max_output: int | None = None,
        temperature: float | None = None,
        effort: str | None = None,
        keep: bool = False,
    ) -> list[Chunk]:
        config = ModelConfig(model.info.id, max_output, temperature, effort)
        request = ModelRequest(config, system, messages, tuple(tools))
        with anyio.fail_after(20):
            chunks = [chunk async for chunk in model.stream(request)]
            if not keep:
                await model.aclose()
        return chunks

    return ask


@pytest.fixture(scope="session")
def raw_server() -> RawServer:
    """A server on loopback that answers every request with these bytes, one HTTP chunk a piece."""

    @asynccontextmanager
    async def serve(
        pieces: Iterable[bytes],
        *,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        complete: bool = True,
    ) -> AsyncIterator[str]:
        sent = {"content-type": "text/event-stream", "transfer-encoding": "chunked"}
        head = "".join(f"{k}: {v}\r\n" for k, v in (sent | dict(headers or {})).items())
        body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces if piece)
        answer = f"HTTP/1.1 {status} Told\r\n{head}\r\n".encode() + body
        answer += b"0\r\n\r\n" if complete else b""

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:  # somebody connected, and asked nothing
                writer.close()
                return
            lines = head.decode("latin-1").lower().split("\r\n")
            length = next(line for line in lines if line.startswith("content-length:"))
            await reader.readexactly(int(length.partition(":")[2]))
            writer.write(answer)
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    return serve
