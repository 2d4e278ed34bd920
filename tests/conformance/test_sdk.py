"""The official Python SDK's client, an independent judge, through the recording proxy."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import acp
import anyio
from acp.schema import (
    AllowedOutcome,
    ClientCapabilities,
    CreateTerminalResponse,
    RequestPermissionResponse,
    TerminalOutputResponse,
    WaitForTerminalExitResponse,
)

from conformance.lint import EVERYBODY, lint
from conformance.lint.file import left_early
from conformance.replay import replay
from conformance.transcript import load
from tests.conformance.editor import TOY

PROMPTS = ("think so; tool; ask; say $CWD is fine", "terminal; say done", "read a.txt")


class Client(acp.Client):
    """Says yes to everything and remembers what it saw."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def on_connect(self, conn: acp.Agent) -> None:
        """Nothing to do."""

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.seen.append(update.session_update)

    async def request_permission(
        self, session_id: str, tool_call: Any, options: Any, **_: Any
    ) -> RequestPermissionResponse:
        chosen = AllowedOutcome(outcome="selected", option_id=options[0].option_id)
        return RequestPermissionResponse(outcome=chosen)

    async def create_terminal(
        self, session_id: str, command: str, *_: Any, **__: Any
    ) -> CreateTerminalResponse:
        return CreateTerminalResponse(terminal_id="t1")

    async def terminal_output(
        self, session_id: str, terminal_id: str, **_: Any
    ) -> TerminalOutputResponse:
        return TerminalOutputResponse(output="a.txt", truncated=False)

    async def wait_for_terminal_exit(
        self, session_id: str, terminal_id: str, **_: Any
    ) -> WaitForTerminalExitResponse:
        return WaitForTerminalExitResponse(exit_code=0)

    async def release_terminal(self, session_id: str, terminal_id: str, **_: Any) -> None:
        return None


async def work_through(command: list[str], cwd: Path) -> list[str]:
    """One session with the official client; returns the kinds of updates it saw."""
    client = Client()
    async with acp.spawn_agent_process(client, *command) as (agent, _):
        terminals = ClientCapabilities(terminal=True)
        await agent.initialize(acp.PROTOCOL_VERSION, client_capabilities=terminals)
        session = await agent.new_session(cwd=str(cwd), mcp_servers=[])
        for prompt in PROMPTS:
            answer = await agent.prompt(
                session_id=session.session_id, prompt=[acp.text_block(prompt)]
            )
            assert answer.stop_reason == "end_turn"
    return client.seen


def test_the_official_client_notices_no_proxy_and_its_recording_replays(tmp_path: Path) -> None:
    work, tape = tmp_path / "work", tmp_path / "tape.jsonl"
    work.mkdir()
    (work / "a.txt").write_text("content of a")
    options = ["-o", str(tape), "--portable", "--workspace", str(work)]
    proxy = [sys.executable, "-m", "conformance", "record", *options, "--"]
    direct = asyncio.run(work_through(TOY, work))
    recorded = asyncio.run(work_through([*proxy, *TOY], work))
    assert sorted(direct) == sorted(recorded)
    assert "tool_call_update" in recorded
    transcript = load(tape)
    complete = not left_early(transcript)
    assert lint(transcript.frames, complete=complete, actors=EVERYBODY) == []
    (work / "a.txt").unlink()

    async def again() -> str:
        return str(await replay(transcript, TOY, timeout=20))

    assert anyio.run(again) == "as recorded"
