"""The installed agent with a real model behind it: what it streams, and a tool that it calls.

The model is so small that what it says is beside the point. That it is said token by token, that
its call is understood and a real tool run, and that its counters arrive, is the point.
"""

from __future__ import annotations

import os
import sysconfig
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from conformance.client import Client, Incoming
from harness_core.model.choices import Lists, Times, discover
from harness_core.model.settings import ModelSettings, ProviderSettings

pytestmark = pytest.mark.anyio

PATIENCE = 600.0
"""Seconds for one turn: a machine with one busy core makes a few tokens a second."""
POEM = "Roses are red,\nviolets are blue.\n"
SETTINGS = """
temperature = 0
max_output = {tokens}

[tools]
disabled = ["write", "edit", "list", "glob", "grep", "shell", "plan"]

[retry]
attempts = 0

[providers.openai]
kind = "{kind}"
body = {body}
"""


class Run:
    """One turn of the agent, as its client saw it."""

    def __init__(self, client: Client, session: str) -> None:
        self._client = client
        self._session = session

    async def prompt(self, text: str) -> str:
        """The stop reason of a turn."""
        block = {"type": "text", "text": text}
        asked = {"sessionId": self._session, "prompt": [block]}
        answer = await self._client.request("session/prompt", asked, timeout=PATIENCE)
        return str(answer["stopReason"])

    def updates(self, kind: str) -> list[Incoming]:
        return [seen for seen in self._client.incoming if seen.kind == kind]

    def texts(self) -> list[str]:
        return [seen.update["content"]["text"] for seen in self.updates("agent_message_chunk")]

    def fields(self) -> dict[str, Any]:
        """What is known of the first tool call in the end."""
        told: dict[str, Any] = {}
        for seen in (*self.updates("tool_call"), *self.updates("tool_call_update")):
            id = seen.update["toolCallId"]
            if told.setdefault("toolCallId", id) == id:
                told |= seen.update
        return told


@asynccontextmanager
async def agent(home: Path, base_url: str, settings: str) -> AsyncIterator[Run]:
    work = home / "work"
    work.mkdir()
    (work / "poem.txt").write_text(POEM)
    (home / "settings.toml").write_text(settings)
    async with Client.launch([installed()], cwd=work, env=environment(home, base_url)) as client:
        await client.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        asked = {"cwd": str(work), "mcpServers": []}
        opened = await client.request("session/new", asked)
        yield Run(client, opened["sessionId"])


def installed() -> str:
    return str(Path(sysconfig.get_path("scripts")) / "acp-harness")


def environment(home: Path, base_url: str) -> Mapping[str, str]:
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(home),
        "ACP_HARNESS_CONFIG": str(home / "settings.toml"),
        "ACP_HARNESS_DATA_DIR": str(home / "data"),
        "ACP_HARNESS_MODEL": "openai:gemma",
        "OPENAI_BASE_URL": base_url,
    }


def tell(*words: object) -> None:
    """For who runs it with ``-s``: what a real model said."""
    print("\n   ", *words)


DIALECTS = ["openai", "openai-responses"]


@pytest.mark.parametrize("kind", DIALECTS)
async def test_a_real_answer_is_streamed(real_model: str, tmp_path: Path, kind: str) -> None:
    settings = SETTINGS.format(kind=kind, tokens=40, body="{ tools = [] }")
    async with agent(tmp_path, real_model, settings) as run:
        began = time.monotonic()
        reason = await run.prompt("Roses are red, violets are")
        took = time.monotonic() - began
    tell(f"{kind}: {len(run.texts())} chunks in {took:.1f} s, {reason}: {''.join(run.texts())!r}")
    assert len(run.texts()) > 1
    assert "".join(run.texts()).strip()
    assert reason in ("end_turn", "max_tokens")


READ = (
    'name = "read", description = "Reads a file.", parameters = { type = "object", '
    'properties = { path = { enum = ["poem.txt"] } }, required = ["path"] }'
)
TOOLS = {
    "openai": f'{{ type = "function", function = {{ {READ} }} }}',
    "openai-responses": f'{{ type = "function", {READ} }}',
}
STOP = r'["</tool_call>", "\n"]'


@pytest.mark.parametrize("kind", DIALECTS)
async def test_a_real_call_runs_a_real_tool(real_model: str, tmp_path: Path, kind: str) -> None:
    """The server holds the model to a tool's schema from the moment it opens a call."""
    body = f"{{ tools = [{TOOLS[kind]}], stop = {STOP} }}"
    settings = "max_steps = 2\n" + SETTINGS.format(kind=kind, tokens=60, body=body)
    async with agent(tmp_path, real_model, settings) as run:
        reason = await run.prompt("Read poem.txt")
    call = run.fields()
    tell(f"{kind}: {call['rawInput']} {call['status']}, {reason}: {''.join(run.texts())!r}")
    assert (call["kind"], call["status"]) == ("read", "completed")
    assert call["rawInput"]["path"] == "poem.txt"
    assert "violets are blue" in str(call["content"])
    assert reason in ("end_turn", "max_tokens", "max_turn_requests")


async def test_it_is_found_with_its_context_window(real_model: str) -> None:
    nobody = ProviderSettings(base_url="http://127.0.0.1:1/v1")
    local = dict.fromkeys(("ollama", "lmstudio", "vllm"), nobody)
    local["llamacpp"] = ProviderSettings(base_url=real_model)
    lists = Lists(near=Times(30.0, 60.0))
    (found,) = await discover(ModelSettings(None, local), {}, lists)
    assert (found.id, found.context_window) == ("llamacpp:gemma", 4096)
    assert not found.images
