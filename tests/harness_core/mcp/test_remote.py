"""Servers behind a URL, over both transports, and servers that the official library makes."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from harness_core.person import Answer, Nobody
from harness_core.plugins.mcp import RemoteSpec, StdioSpec
from tests.harness_core.mcp.bench import PATIENT, bench, words

pytestmark = pytest.mark.anyio

Transport = Literal["http", "sse"]
PATH = {"http": "mcp", "sse": "sse"}
REMOTE = Path(__file__).with_name("remote.py")

both = pytest.mark.parametrize("transport", ["http", "sse"])


@asynccontextmanager
async def serving(transport: Transport, port: int = 0) -> AsyncIterator[int]:
    """A server; its port."""
    command = [sys.executable, str(REMOTE), transport, str(port)]
    async with await anyio.open_process(command, stderr=None) as process:
        try:
            assert process.stdout is not None
            with anyio.fail_after(2 * PATIENT):
                line = await BufferedByteReceiveStream(process.stdout).receive_until(b"\n", 100)
            yield int(line)
        finally:
            process.kill()


def spec(transport: Transport, port: int, **headers: str) -> RemoteSpec:
    return RemoteSpec("far", transport, f"http://127.0.0.1:{port}/{PATH[transport]}", headers)


@both
async def test_a_remote_server_is_used_like_any_other(transport: Transport) -> None:
    async with serving(transport) as port, bench(spec(transport, port, authorization="me")) as b:
        assert words(await b.call("mcp__far__header", name="authorization")) == "me"
        assert await b.ask("mcp__far__add", a=2, b=3) == 5
        wrong = await b.call("mcp__far__add", a="x")
        assert wrong.error == "failed"
        text = words(await b.call("read_mcp_resource", server="far", uri="remote://about"))
        assert text == "a remote resource"
        await b.world.turn("/far:greet Ada")
        assert "Say hello to Ada." in b.context
        assert "Ask me for headers." in b.world.script.requests[-1].system
        assert b.notices == []


class Ada(Nobody):
    """A person who says her name."""

    modes = ("form",)

    async def fill_in(self, message: str, schema: Any, call: str | None) -> Answer:
        return Answer("accept", {"name": f"Ada, asked in {call}"})


@both
async def test_a_remote_server_can_ask_the_person(transport: Transport) -> None:
    async with serving(transport) as port, bench(spec(transport, port)) as b:
        b.world.agent.person = Ada()
        text = words(await b.call("mcp__far__ask"))
        assert text == "accept {'name': 'Ada, asked in c1'}"


@both
async def test_a_remote_server_that_begins_anew_is_had_again(transport: Transport) -> None:
    async with AsyncExitStack() as stack:
        first = AsyncExitStack()
        port = await first.enter_async_context(serving(transport))
        b = await stack.enter_async_context(bench(spec(transport, port)))
        assert await b.ask("mcp__far__add", a=2, b=3) == 5
        await first.aclose()
        await stack.enter_async_context(serving(transport, port))
        results = [await b.call("mcp__far__add", a=2, b=3)]
        if results[0].error:  # the first call may be what finds that the connection is gone
            assert "outcome is unknown" in words(results[0])
            results.append(await b.call("mcp__far__add", a=2, b=3))
        assert words(results[-1]) == "5"


async def test_a_session_that_the_server_knows_no_more_is_had_again() -> None:
    async with serving("http") as port, bench(spec("http", port)) as b:
        assert words(await b.call("mcp__far__forget")) == "forgotten"
        assert await b.ask("mcp__far__add", a=2, b=3) == 5
        assert b.notices == []


@both
async def test_a_remote_server_that_is_gone_is_told_to_the_model(transport: Transport) -> None:
    async with serving(transport) as port:
        stack = AsyncExitStack()
        b = await stack.enter_async_context(bench(spec(transport, port)))
        assert await b.ask("mcp__far__add", a=2, b=3) == 5
    async with stack:
        results = [await b.call("mcp__far__add", a=2, b=3) for _ in range(2)]
        assert [result.error for result in results] == ["failed", "failed"]
        assert "is not running: the server cannot be reached" in words(results[-1])


@both
async def test_a_server_that_is_not_there_is_told(transport: Transport, free_tcp_port: int) -> None:
    async with bench(spec(transport, free_tcp_port, authorization="secret")) as b:
        await b.world.turn()
        (notice,) = b.notices
        assert "MCP server far is not available: the server cannot be reached" in notice.title
        assert "secret" not in repr(b.world.facts)


async def test_what_is_no_mcp_server_is_told() -> None:
    async def nothing(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, nothing)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        async with bench(spec("http", port)) as b:
            await b.world.turn()
            assert "is not available: it answered: Not Found" in b.notices[0].title
        group.cancel_scope.cancel()


async def test_a_server_of_the_official_library_over_stdio() -> None:
    code = f"import runpy; runpy.run_path({str(REMOTE)!r})['server'].run('stdio')"
    async with bench(StdioSpec("official", sys.executable, ("-c", code))) as b:
        assert await b.ask("mcp__official__add", a=2, b=3) == 5
        tool = b.world.agent.tools.get("mcp__official__header")
        assert tool is not None
        assert tool.effect == "reads"
