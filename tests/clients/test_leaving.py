"""The editor closes: whatever goes on, the agent ends it, answers, saves, and leaves with 0."""

from __future__ import annotations

import os
import sys

import acp
import pytest

from tests.clients.editor import Editor, never
from tests.clients.harness import Agent
from tests.clients.window import NOTHING, open_window

pytestmark = pytest.mark.anyio


async def test_an_idle_agent_leaves(agent: Agent) -> None:
    async with open_window(agent):
        pass


@pytest.mark.skipif(sys.platform == "win32", reason="asks the system for a process by its id")
async def test_a_busy_agent_leaves(agent: Agent) -> None:
    """One session streams, one runs a command, and one has asked its user something."""
    editor = Editor()
    async with open_window(agent, editor, NOTHING) as window:
        streaming, running, asking = [await window.new() for _ in range(3)]
        command = '!call shell {"command": "echo $$ > pid; echo on; sleep 600"}'
        turns = [window.start(running, command)]
        await window.sees(running, "on")
        editor.permission = never
        turns.append(window.start(asking, '!call shell {"command": "touch never"}'))
        await editor.until(lambda: len(editor.questions) == 2)
        turns.append(window.start(streaming, "!delay 4", "!stream 5000 {i} "))
        await window.sees(streaming, "3 ")

    for turn in turns:
        # The SDK stops to listen before it closes the agent's stdin, so it misses the answer.
        with pytest.raises(ConnectionError):
            await turn
    with pytest.raises(ProcessLookupError):
        os.kill(int((agent.work / "pid").read_text()), 0)
    assert not (agent.work / "never").exists()

    async with open_window(agent) as window:
        for session in (streaming, running, asking):
            await window.load(session)
            assert await window.prompt(session, "!say Again.") == "end_turn"


async def test_an_unknown_session_is_refused(agent: Agent) -> None:
    async with open_window(agent) as window:
        with pytest.raises(acp.RequestError) as load:
            await window.load("nobody")
        with pytest.raises(acp.RequestError) as prompt:
            await window.prompt("nobody", "!say Hello?")
        assert (load.value.code, prompt.value.code) == (-32002, -32002)
