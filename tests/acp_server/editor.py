"""An editor for tests: the scripted client with a few words of ACP, and a judge at the end.

``local`` runs the server inside the test over two real pipes; ``spawned`` runs the installed
command. When the block is left in peace the agent has ended by itself, and every rule of the
conversation and both generations of the schemas have been held against every frame.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, cast

from acp_server.server import PARTING, serve
from conformance.client import Answerer, Client, Sent, encode_line, envelope
from conformance.lint import lint
from conformance.process import AgentProcess
from tests.acp_server.screen import Screen

TIMEOUT = 60.0
"""Seconds that anything may take; nothing is expected to take longer than a moment."""

COMMAND = (str(Path(sys.executable).with_name("acp-harness")),)
"""The installed command, of the Python that runs the tests."""


class Editor(Client):
    """The client's end of a connection."""

    async def initialize(self, capabilities: Mapping[str, Any] | None = None) -> Any:
        params = {"protocolVersion": 1, "clientCapabilities": dict(capabilities or {})}
        return await self.request("initialize", params)

    async def new(self, cwd: Path, **more: Any) -> str:
        params = {"cwd": str(cwd), "mcpServers": [], **more}
        return str((await self.request("session/new", params))["sessionId"])

    async def open(self, cwd: Path, capabilities: Mapping[str, Any] | None = None) -> str:
        """Initialize and begin a session; its id."""
        await self.initialize(capabilities)
        return await self.new(cwd)

    async def pipelined(self, *asked: tuple[str, dict[str, Any]]) -> list[Sent]:
        """Ask all of this in one write, without waiting for an answer between."""
        sent = [self.expect(method, self.fresh_id()) for method, _ in asked]
        lines = [
            encode_line({**envelope(method, params), "id": request.id})
            for request, (method, params) in zip(sent, asked, strict=True)
        ]
        await self.send_raw(b"".join(lines))
        return sent

    async def prompt(self, session: str, *blocks: str | dict[str, Any]) -> Sent:
        """Send a prompt; what it is answered with can be awaited."""
        return await self.start("session/prompt", prompt_params(session, *blocks))

    async def turn(self, session: str, *blocks: str | dict[str, Any]) -> str:
        """Run a prompt to its end; the stop reason. Raises ``RpcError``."""
        return str((await (await self.prompt(session, *blocks)).result())["stopReason"])

    async def cancel(self, session: str) -> None:
        await self.notify("session/cancel", {"sessionId": session})

    async def close(self, session: str) -> Any:
        return await self.request("session/close", {"sessionId": session})

    async def load(self, session: str, cwd: Path, method: str = "session/load") -> Sent:
        params = {"sessionId": session, "cwd": str(cwd), "mcpServers": []}
        return await self.start(method, params)

    def updates(self, session: str, since: int = 0) -> list[dict[str, Any]]:
        """The updates of a session, from a frame on."""
        return [
            incoming.update
            for incoming in self.incoming
            if incoming.update and incoming.session == session and incoming.index >= since
        ]

    def said(self, session: str, since: int = 0) -> list[dict[str, Any]]:
        """The pieces of the agent's messages."""
        kind = "agent_message_chunk"
        return [u for u in self.updates(session, since) if u["sessionUpdate"] == kind]

    def screen(self, session: str, since: int = 0) -> Screen:
        """What the user sees of a session."""
        return Screen(self.updates(session, since))

    async def shown(self, session: str, test: Callable[[Screen], object], since: int = 0) -> Screen:
        """Wait until the user sees something that passes ``test``."""

        def look() -> Screen | None:
            screen = self.screen(session, since)
            return screen if test(screen) else None

        return await self.until(look, "update that was waited for")

    async def says(self, session: str, text: str, since: int = 0) -> Screen:
        """Wait until the agent has said this."""
        return await self.shown(session, lambda screen: text in screen.text(), since)

    async def asks(self, method: str = "session/request_permission", count: int = 1) -> Any:
        """Wait until the agent has asked this often; the last question."""

        def look() -> Any:
            asked = [request for request in self.requests if request.method == method]
            return asked[count - 1] if len(asked) >= count else None

        return await self.until(look, f"{method} number {count}")


def prompt_params(session: str, *blocks: str | dict[str, Any]) -> dict[str, Any]:
    """The parameters of a prompt; a string is a block of text."""
    prompt = [
        {"type": "text", "text": block} if isinstance(block, str) else block for block in blocks
    ]
    return {"sessionId": session, "prompt": prompt}


def judge(editor: Editor, allowed: Collection[str] = ()) -> None:
    """Hold every rule but those ``allowed`` to be broken against the whole conversation."""
    findings = lint(editor.frames, complete=editor.complete)
    assert [finding for finding in findings if finding.rule not in allowed] == []


# --- inside the test ------------------------------------------------------------------------------


class LocalAgent(AgentProcess, asyncio.Protocol):
    """The server as a task of the test, at the other end of two pipes."""

    def __init__(self, editor: Editor) -> None:
        super().__init__(editor._received, editor._changed)
        self._task: asyncio.Task[None] | None = None
        self._in: asyncio.WriteTransport | None = None
        self._out: asyncio.ReadTransport | None = None

    async def connect(self, flags: Mapping[str, Any]) -> None:
        loop = asyncio.get_running_loop()
        source, ours_in = os.pipe()
        ours_out, target = os.pipe()
        self._in, _ = await loop.connect_write_pipe(lambda: self, os.fdopen(ours_in, "wb", 0))
        self._out, _ = await loop.connect_read_pipe(lambda: self, os.fdopen(ours_out, "rb", 0))
        self._task = asyncio.ensure_future(serve(source, target, flags))

    def data_received(self, data: bytes) -> None:
        self.pipe_data_received(1, data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._out is not None and self._out.is_closing():
            self._end()

    @property
    def pid(self) -> int:
        return os.getpid()

    @property
    def code(self) -> int | None:
        return 0 if self._task is not None and self._task.done() else None

    def _pipe(self, fd: int) -> Any:
        return (self._in, self._out)[fd]

    async def wait(self, timeout: float) -> int:
        assert self._task is not None
        await asyncio.wait_for(asyncio.shield(self._task), timeout)
        return 0

    def signal(self, number: int) -> None:
        os.kill(os.getpid(), number)

    async def kill(self) -> None:
        assert self._task is not None
        self.close_stdin()
        self.close_stdout()
        with suppress(asyncio.CancelledError, TimeoutError):
            await asyncio.wait_for(self._task, TIMEOUT)


@asynccontextmanager
async def local(
    flags: Mapping[str, Any],
    *,
    answers: Mapping[str, Answerer] | None = None,
    allowed: Collection[str] = (),
) -> AsyncIterator[Editor]:
    """An editor whose agent runs inside the test with these settings."""
    editor = Editor(answers or {}, TIMEOUT)
    agent = LocalAgent(editor)
    editor._process = cast(AgentProcess, agent)
    signals = {number: signal.getsignal(number) for number in (signal.SIGINT, *PARTING)}
    await agent.connect(flags)
    try:
        yield editor
        assert await editor.finish(TIMEOUT) == 0
        judge(editor, allowed)
    finally:
        await editor._stop_answering()
        await agent.kill()
        for number, handler in signals.items():
            signal.signal(number, handler)


# --- the installed command ------------------------------------------------------------------------


@asynccontextmanager
async def spawned(
    cwd: Path,
    env: Mapping[str, str],
    *,
    command: Sequence[str] = COMMAND,
    answers: Mapping[str, Answerer] | None = None,
    allowed: Collection[str] = (),
    silent: bool = True,
) -> AsyncIterator[Editor]:
    """An editor whose agent is a process of its own, with exactly this environment."""
    async with Editor.launch(command, cwd=cwd, env=env, answers=answers, timeout=TIMEOUT) as editor:
        yield editor
        assert await editor.finish(TIMEOUT) == 0
        judge(editor, allowed)
        if silent:
            assert editor.stderr == ""
