"""The agent through ``acp-client``: a client that offers nothing, and ends agents with SIGTERM."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections.abc import Awaitable, Callable
from types import ModuleType
from typing import Any

import pytest

from tests.clients.harness import EDIT, LOOK, POEM, Agent
from tests.clients.install import from_pypi

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="it starts agents with its own environment"),
]

Permission = Callable[[dict[str, Any]], Awaitable[str | None]]
PATIENCE = 60.0


@pytest.fixture(scope="module")
def acp_client() -> ModuleType:
    """The installed client; it is one module."""
    file = from_pypi("acp-client", "0.1.0") / "acp_client" / "__init__.py"
    spec = importlib.util.spec_from_file_location("acp_client", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def allow(question: dict[str, Any]) -> str | None:
    option: str = question["options"][0]["optionId"]
    return option


def command(agent: Agent) -> list[str]:
    """The agent's command in its own environment: this client would give it ours."""
    agent.impatient = True
    return [
        "env",
        "-i",
        *(f"{name}={value}" for name, value in agent.env.items()),
        *agent.command(),
    ]


async def test_a_conversation_goes_on_in_another_process(
    agent: Agent, acp_client: ModuleType
) -> None:
    first = acp_client.Agent(command(agent), agent.work, permission=allow)
    async with asyncio.timeout(PATIENCE):
        answer = await first.ask("\n".join(["!say I look.", LOOK, "!say I change.", EDIT]))
    session = first.session
    await first.stop()
    assert answer == "I look.I change.Done."
    assert agent.file.read_text() == POEM.replace("blue", "green")

    updates: list[dict[str, Any]] = []
    second = acp_client.Agent(command(agent), agent.work, session=session)
    async with asyncio.timeout(PATIENCE):
        await second.start(updates.append)
        kinds = [update["sessionUpdate"] for update in updates]
        assert kinds[0] == "user_message_chunk"
        assert kinds.count("tool_call") == 2
        assert second.session == session
        assert "I change." in await second.ask("!context")
    await second.stop()


async def test_a_client_without_a_user_turns_everything_down(
    agent: Agent, acp_client: ModuleType
) -> None:
    client = acp_client.Agent(command(agent), agent.work)
    async with asyncio.timeout(PATIENCE):
        await client.ask(LOOK)
        await client.ask(EDIT)
    await client.stop()
    assert agent.file.read_text() == POEM


async def test_who_stops_waiting_stops_the_turn(agent: Agent, acp_client: ModuleType) -> None:
    client = acp_client.Agent(command(agent), agent.work)
    heard = asyncio.Event()
    turn = asyncio.create_task(
        client.ask("!delay 5\n!stream 5000 {i} ", lambda text: heard.set() if text else None)
    )
    async with asyncio.timeout(PATIENCE):
        await heard.wait()
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        assert (await client.ask("!say Next.")).endswith("Next.")
    await client.stop()
