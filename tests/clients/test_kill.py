"""The agent is killed in the middle of things, and another process opens the session.

Everything the client had seen is there, the turn is closed as interrupted, and the session goes
on. The moments are what the client has seen, never a time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from tests.clients.editor import Answer, Editor, never, select
from tests.clients.harness import Agent
from tests.clients.screen import FINAL, Screen, differences
from tests.clients.window import NOTHING, open_window

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL on Windows"),
]

Seen = Callable[[Screen], object]
SCRIPT = (
    "!think A long story.",
    "!delay 4",
    "!stream 60 {i} ",
    '!call read {"path": "poem.txt"}',
    "!plan [x] read; [>] run",
    "!say Now I run something.",
    """!call shell {"command": "printf '%s\\\\n' first second; sleep 600"}""",
)


def running(screen: Screen) -> object:
    return [call for call in screen.calls.values() if "second" in call.text]


def answered(screen: Screen) -> object:
    return [call for call in screen.calls.values() if call.status == "completed"]


MOMENTS: dict[str, Seen] = {
    "a-thought": lambda screen: screen.text("thought"),
    "the-first-word": lambda screen: "1 " in screen.text(),
    "the-middle-of-a-stream": lambda screen: "30 " in screen.text(),
    "a-call": lambda screen: screen.calls,
    "a-result": answered,
    "a-plan": lambda screen: screen.plan,
    "a-running-command": running,
}


@pytest.mark.parametrize("seen", MOMENTS.values(), ids=MOMENTS.keys())
async def test_what_was_seen_survives_a_kill(agent: Agent, seen: Seen) -> None:
    session, before = await _killed(agent, seen, select("allow_once"))
    await _goes_on(agent, session, before)


async def test_what_was_seen_survives_a_kill_at_a_question(agent: Agent) -> None:
    def asked(screen: Screen) -> object:
        return "Now I run something." in screen.text() and editor.questions

    editor = Editor(never)
    session, before = await _killed(agent, asked, never, editor)
    await _goes_on(agent, session, before)


async def _killed(
    agent: Agent, seen: Seen, permission: Answer, editor: Editor | None = None
) -> tuple[str, Screen]:
    """Run a turn after a finished one, and kill the agent when the editor has seen something."""
    editor = editor or Editor(permission)
    async with open_window(agent, editor, NOTHING, leaves=-9) as window:
        session = await window.new()
        assert await window.prompt(session, "!say I am finished.") == "end_turn"
        turn = window.start(session, *SCRIPT)
        screen = window.screen(session)
        await editor.until(lambda: seen(screen))
        agent.kill()
        with pytest.raises(ConnectionError):
            await turn
    return session, screen


async def _goes_on(agent: Agent, session: str, before: Screen) -> None:
    """Open it in a new process: nothing is lost, nothing is open, and it can be used."""
    async with open_window(agent, offers=NOTHING) as window:
        after = await window.load(session)
        assert differences(before, after, cut=True) == []
        assert "stopped" in after.texts()[-1]
        assert {call.status for call in after.calls.values()} <= FINAL
        assert await window.prompt(session, "!context") == "end_turn"
        assert "I am finished." in after.texts()[-1]
        assert before.texts()[-1].strip() in after.texts()[-1]
        assert differences(after, await window.load(session)) == []


async def test_an_answered_turn_survives_a_kill_at_once(agent: Agent) -> None:
    """Nothing is interrupted: what was answered had been saved."""
    session, seen = "", Screen()
    for number in range(4):
        async with open_window(agent, offers=NOTHING, leaves=-9) as window:
            if session:
                assert differences(seen, await window.load(session)) == []
            else:
                session = await window.new()
            look = '!call read {"path": "poem.txt"}'
            assert await window.prompt(session, f"!say Answer {number}.", look) == "end_turn"
            agent.kill()
        seen = window.screen(session)


async def test_a_session_can_be_killed_again_and_again(agent: Agent) -> None:
    session, words = "", ["red-5 ", "green-5 ", "blue-5 "]
    for word in words:
        async with open_window(agent, offers=NOTHING, leaves=-9) as window:
            if session:
                await window.load(session)
            else:
                session = await window.new()
            turn = window.start(session, "!delay 4", f"!stream 500 {word.replace('5', '{i}')}")
            await window.sees(session, word)
            agent.kill()
            with pytest.raises(ConnectionError):
                await turn
    async with open_window(agent, offers=NOTHING) as window:
        replayed = await window.load(session)
        assert [word for word in words if word in replayed.text()] == words
        assert await window.prompt(session, "!say At last.") == "end_turn"
