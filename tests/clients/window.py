"""A window of the official SDK's editor: a running agent, and what a person does with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import acp
from acp import schema
from acp.client.connection import ClientSideConnection
from acp.meta import AGENT_METHODS
from acp.utils import request_model_from_dict

from tests.clients.editor import PATIENCE, Editor, plain
from tests.clients.harness import Agent
from tests.clients.screen import Screen

EVERYTHING = schema.ClientCapabilities(
    fs=schema.FileSystemCapabilities(read_text_file=True, write_text_file=True),
    terminal=True,
)
NOTHING = schema.ClientCapabilities()


@dataclass
class Window:
    """An editor connected to a running agent: what a person can do there."""

    agent: Agent
    editor: Editor
    connection: ClientSideConnection
    hello: schema.InitializeResponse

    async def new(self, cwd: Path | None = None) -> str:
        """Open a session; returns its id."""
        response = await self.connection.new_session(cwd=str(cwd or self.agent.work))
        return response.session_id

    async def load(self, session: str) -> Screen:
        """Load a session; returns what was replayed."""
        self.editor.screens.pop(session, None)
        await self.connection.load_session(cwd=str(self.agent.work), session_id=session)
        return self.editor.screens[session]

    async def prompt(self, session: str, *lines: str) -> str:
        """Send a prompt and wait for its stop reason. Raises ``acp.RequestError``."""
        blocks: list[Any] = [acp.text_block("\n".join(lines))]
        self.editor.screens[session].typed([plain(block) for block in blocks])
        async with asyncio.timeout(PATIENCE):
            response = await self.connection.prompt(session_id=session, prompt=blocks)
        return response.stop_reason

    def start(self, session: str, *lines: str) -> asyncio.Task[str]:
        """Send a prompt and do not wait."""
        return asyncio.create_task(self.prompt(session, *lines))

    async def delete(self, session: str) -> None:
        """Delete a session. This SDK has the method's models, but no call for it."""
        await request_model_from_dict(
            self.connection._conn,
            AGENT_METHODS["session_delete"],
            schema.DeleteSessionRequest(session_id=session),
            schema.DeleteSessionResponse,
        )

    def screen(self, session: str) -> Screen:
        """What this editor shows of a session."""
        return self.editor.screens[session]

    def shown(self, session: str, kind: str) -> list[dict[str, Any]]:
        """Every update of this kind."""
        return [u for u in self.editor.updates[session] if u["sessionUpdate"] == kind]

    async def sees(self, session: str, text: str) -> Screen:
        """Wait until this text is on the screen: said by the agent, or printed by a call."""
        screen = self.screen(session)
        await self.editor.until(
            lambda: any(text in shown for shown in [screen.text(), *screen.printed()])
        )
        return screen


@asynccontextmanager
async def open_window(
    agent: Agent,
    editor: Editor | None = None,
    offers: schema.ClientCapabilities = EVERYTHING,
    *,
    leaves: int = 0,
) -> AsyncIterator[Window]:
    """Start the agent as an editor does, and close it by the end of its stdin.

    The agent must leave by itself, with the status ``leaves``.
    """
    editor = editor or Editor()
    command, *arguments = agent.command()
    async with acp.spawn_agent_process(
        editor,
        command,
        *arguments,
        env=agent.env,
        cwd=agent.root,
        transport_kwargs={"shutdown_timeout": PATIENCE},
        use_unstable_protocol=True,
    ) as (connection, process):
        hello = await connection.initialize(
            protocol_version=acp.PROTOCOL_VERSION,
            client_capabilities=offers,
            client_info=schema.Implementation(name="window", version="1"),
        )
        yield Window(agent, editor, connection, hello)
    await editor.close()
    assert process.returncode == leaves
