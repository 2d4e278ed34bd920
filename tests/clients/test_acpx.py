"""The agent through ``acpx``: a command line that starts a new agent for every prompt."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.clients.harness import EDIT, LOOK, POEM, Agent
from tests.clients.install import from_npm

PATIENCE = 120.0
"""Seconds for one run of the client; it starts the agent, too."""
SHELL = '!call shell {"command": "wc -l poem.txt"}'
TURNED_DOWN = 5
"""The status it leaves with when every permission that was asked for was refused."""


@dataclass(frozen=True, slots=True)
class Client:
    """The installed client, set to print the frames of both directions."""

    modules: Path
    agent: Agent

    def run(self, policy: str, *words: str) -> tuple[int, list[dict[str, Any]]]:
        """The client's exit status, and each frame that passed."""
        node = self.modules / "node" / "bin" / "node"
        acpx = self.modules / "acpx" / "dist" / "cli.js"
        wire = ["--format", "json", "--json-strict", "--cwd", str(self.agent.work)]
        started = ["--agent", " ".join(self.agent.command())]
        done = subprocess.run(
            [str(node), str(acpx), *wire, policy, *started, *words],
            env=self.agent.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def client(agent: Agent) -> Client:
    """It ends agents that are slow to leave with a signal."""
    agent.impatient = True
    return Client(from_npm("acpx", {"acpx": "0.19.1", "node": "22.23.3"}), agent)


def methods(frames: list[dict[str, Any]]) -> set[str]:
    return {frame["method"] for frame in frames if "method" in frame}


def test_a_turn_uses_the_clients_files_and_terminal(agent: Agent, client: Client) -> None:
    script = "\n".join(["!think Hm.", LOOK, "!say I change.", EDIT, SHELL])
    status, frames = client.run("--approve-all", "exec", script)
    assert status == 0
    assert frames[-1]["result"]["stopReason"] == "end_turn"
    assert agent.file.read_text() == POEM.replace("blue", "green")
    assert methods(frames) >= {
        "fs/read_text_file",
        "fs/write_text_file",
        "session/request_permission",
        "terminal/create",
        "terminal/release",
    }


def test_a_user_who_refuses_everything_is_obeyed(agent: Agent, client: Client) -> None:
    status, frames = client.run("--deny-all", "exec", "\n".join([LOOK, "!say No?", EDIT]))
    assert status == TURNED_DOWN
    assert frames[-1]["result"]["stopReason"] == "end_turn"
    assert agent.file.read_text() == POEM
