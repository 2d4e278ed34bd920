"""The agent through ``acpc``: a command line that prints what is said and decides by policy."""

from __future__ import annotations

import asyncio
import json
import shlex
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.clients.harness import EDIT, LOOK, POEM, Agent
from tests.clients.install import environment

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="this client is not made for Windows"),
]

PATIENCE = 60.0
INTERRUPTED = 130
"""The status it leaves with when its turn was cancelled."""
RUN = f"from acpc import cli, runner; runner._SHUTDOWN_TIMEOUT = {PATIENCE}; cli.cli()"
"""The client's main program, but it gives the agent as long as a busy machine may need to leave."""


@dataclass(frozen=True, slots=True)
class Client:
    """The installed client, and the agent that it knows by the name ``ours``."""

    python: Path
    agent: Agent

    async def start(self, *words: str) -> Process:
        """Start a prompt."""
        settings = self.agent.root / "settings"
        entry = {"identity": "ours", "name": "", "author": "", "install_command": ""}
        entry["run_command"] = shlex.join(self.agent.command())
        agents = settings / "acpc" / "agents"
        agents.mkdir(parents=True, exist_ok=True)
        lines = [f"{name} = {json.dumps(value)}\n" for name, value in entry.items()]
        (agents / "ours.toml").write_text("".join(lines))
        return await asyncio.create_subprocess_exec(
            *(str(self.python), "-c", RUN, "prompt", "ours", *words),
            env={**self.agent.env, "XDG_CONFIG_HOME": str(settings)},
            cwd=self.agent.work,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
        )

    async def run(self, *words: str) -> tuple[str, str]:
        """What was said in a turn that ended well, and what the client says of it."""
        process = await self.start(*words)
        async with asyncio.timeout(PATIENCE):
            said, remarks = await process.communicate()
        assert process.returncode == 0, remarks.decode()
        return said.decode(), remarks.decode()


@pytest.fixture
def client(agent: Agent) -> Client:
    return Client(environment("acpc"), agent)


async def test_a_conversation_goes_on_in_another_process(agent: Agent, client: Client) -> None:
    script = "\n".join(["!think Hm.", "!say I look.", LOOK, "!say I change.", EDIT])
    said, remarks = await client.run("--permissions", "all", script)
    assert said == "I look.I change.Done."
    assert "permission: edit Edit poem.txt -> allow" in remarks
    assert agent.file.read_text() == POEM.replace("blue", "green")

    said, _ = await client.run("--last", "!context")
    replayed, _, context = said.partition("[user]")
    assert replayed == "I look.I change.Done."
    assert "[assistant] I change." in context


async def test_a_policy_that_denies_everything_is_obeyed(agent: Agent, client: Client) -> None:
    _, remarks = await client.run("--permissions", "none", "\n".join([LOOK, EDIT]))
    assert "permission: edit Edit poem.txt -> deny" in remarks
    assert agent.file.read_text() == POEM


async def test_an_interrupt_cancels_the_turn_and_keeps_the_session(client: Client) -> None:
    process = await client.start("!delay 5\n!stream 5000 {i} ")
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE):
        await process.stdout.readuntil(b"3 ")
        process.send_signal(signal.SIGINT)
        await process.communicate()
    assert process.returncode == INTERRUPTED
    said, _ = await client.run("--last", "!say Next.")
    assert said.endswith("Next.")
