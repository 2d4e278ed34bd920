"""What the agent does on the editor's side: files in its buffers, commands in its terminals."""

from __future__ import annotations

import acp
import pytest
from acp import schema

from tests.clients.editor import Editor
from tests.clients.harness import LOOK, POEM, Agent
from tests.clients.window import EVERYTHING, open_window

pytestmark = pytest.mark.anyio

EDIT = '!call edit {"path": "poem.txt", "old_text": "black", "new_text": "golden"}'
UNSAVED = POEM.replace("blue", "black")


async def test_the_agent_reads_and_changes_what_the_user_sees(agent: Agent) -> None:
    editor = Editor()
    editor.unsaved[str(agent.file)] = UNSAVED
    async with open_window(agent, editor) as window:
        session = await window.new()
        assert await window.prompt(session, LOOK, "!say Now.", EDIT) == "end_turn"
        read, edit = window.screen(session).calls.values()
        assert "violets are black" in read.text
        assert [(diff["oldText"], diff["newText"]) for diff in edit.diffs] == [
            (UNSAVED, UNSAVED.replace("black", "golden"))
        ]
    assert agent.file.read_text() == UNSAVED.replace("black", "golden")


async def test_an_editor_that_only_reads_is_not_asked_to_write(agent: Agent) -> None:
    reads = schema.ClientCapabilities(fs=schema.FileSystemCapabilities(read_text_file=True))
    async with open_window(agent, offers=reads) as window:
        session = await window.new()
        change = EDIT.replace("black", "blue")
        assert await window.prompt(session, LOOK, "!say Now.", change) == "end_turn"
    assert agent.file.read_text() == POEM.replace("blue", "golden")


async def test_a_command_runs_in_the_editors_terminal(agent: Agent) -> None:
    editor = Editor()
    async with open_window(agent, editor) as window:
        session = await window.new()
        command = '!call shell {"command": "cat poem.txt; exit 3"}'
        assert await window.prompt(session, command, "!say Well:", "!result") == "end_turn"
        (call,) = window.screen(session).calls.values()
        assert call.terminal
        assert call.status == "failed"
        assert "violets are blue" in window.screen(session).texts()[-1]
        assert "exit code 3" in window.screen(session).texts()[-1]
    (terminal,) = editor.released
    assert terminal.output.decode() == POEM


async def test_a_cancelled_command_leaves_no_terminal(agent: Agent) -> None:
    editor = Editor()
    async with open_window(agent, editor) as window:
        session = await window.new()
        turn = window.start(session, '!call shell {"command": "echo on; exec sleep 600"}')
        await editor.until(lambda: any(t.output for t in editor.terminals.values()))
        await window.connection.cancel(session_id=session)
        assert await turn == "cancelled"
        (call,) = window.screen(session).calls.values()
        assert call.status == "failed"
        assert await window.prompt(session, "!say Next.") == "end_turn"
    assert len(editor.released) == 1


class NoTerminals(Editor):
    """It announces terminals, and then has none to give."""

    async def create_terminal(self, *_: object, **__: object) -> schema.CreateTerminalResponse:
        raise acp.RequestError.internal_error({"details": "out of terminals"})


async def test_an_editor_without_a_terminal_to_give_is_an_error_of_the_call(agent: Agent) -> None:
    async with open_window(agent, NoTerminals(), EVERYTHING) as window:
        session = await window.new()
        stop = await window.prompt(session, '!call shell {"command": "touch x"}', "!say Pity.")
        assert stop == "end_turn"
        (call,) = window.screen(session).calls.values()
        assert call.status == "failed"
        assert window.screen(session).texts() == ["Pity."]
    assert not (agent.work / "x").exists()
