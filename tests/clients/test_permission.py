"""What a user may answer to a question, and that only a clear yes is a yes."""

from __future__ import annotations

from typing import Any

import acp
import pytest

from tests.clients.editor import CANCELLED, Answer, Editor, never, refuse, reply, select
from tests.clients.harness import EDIT, LOOK, POEM, Agent
from tests.clients.window import open_window

pytestmark = pytest.mark.anyio

BACK = '!call edit {"path": "poem.txt", "old_text": "green", "new_text": "blue"}'


def selected(option: Any) -> Answer:
    return reply({"outcome": {"outcome": "selected", "optionId": option}})


NOT_A_YES = {
    "reject-once": select("reject_once"),
    "unknown-option": selected("allow_everything"),
    "kind-for-id": selected("allow_once"),
    "option-is-no-text": selected(True),
    "option-missing": reply({"outcome": {"outcome": "selected"}}),
    "unknown-outcome": reply({"outcome": {"outcome": "granted", "optionId": "allow"}}),
    "bare-kind": reply({"outcome": "allow_once"}),
    "no-outcome": reply({}),
    "null": reply(None),
    "a-list": reply(["allow"]),
    "a-text": reply("allow"),
    "an-error": refuse(acp.RequestError.internal_error({"details": "no user here"})),
    "not-implemented": refuse(acp.RequestError.method_not_found("session/request_permission")),
}


async def test_whatever_is_no_yes_is_a_no(agent: Agent) -> None:
    editor = Editor()
    async with open_window(agent, editor) as window:
        for name, editor.permission in NOT_A_YES.items():
            session = await window.new()
            await window.prompt(session, LOOK)
            assert await window.prompt(session, EDIT, "!say As you like.") == "end_turn", name
            _, call = window.screen(session).calls.values()
            assert (name, call.status) == (name, "failed")
            assert (name, agent.file.read_text()) == (name, POEM)
            assert window.screen(session).texts()[-1] == "As you like."
    assert len(editor.questions) == len(NOT_A_YES)


async def test_a_question_offers_a_yes_and_a_no(agent: Agent) -> None:
    editor = Editor()
    async with open_window(agent, editor) as window:
        await window.prompt(await window.new(), EDIT)
    (question,) = editor.questions
    kinds = [option["kind"] for option in question["options"]]
    assert kinds[:2] == ["allow_once", "allow_always"]
    assert "reject_once" in kinds


async def test_once_is_once_and_always_is_always(agent: Agent) -> None:
    editor = Editor()
    async with open_window(agent, editor) as window:
        session = await window.new()
        await window.prompt(session, LOOK)
        await window.prompt(session, EDIT)
        editor.permission = select("allow_always")
        await window.prompt(session, BACK)
        assert len(editor.questions) == 2
        editor.permission = never
        assert await window.prompt(session, EDIT) == "end_turn"
        assert len(editor.questions) == 2
    assert agent.file.read_text() == POEM.replace("blue", "green")


async def test_a_user_who_cancels_the_turn_at_a_question(agent: Agent) -> None:
    editor = Editor(never)
    async with open_window(agent, editor) as window:
        session = await window.new()
        await window.prompt(session, LOOK)
        turn = window.start(session, EDIT)
        await editor.until(lambda: editor.questions)
        editor.permission = select("allow_once")
        await window.connection.cancel(session_id=session)
        assert await turn == "cancelled"
        _, call = window.screen(session).calls.values()
        assert call.status == "failed"
        assert agent.file.read_text() == POEM
        assert await window.prompt(session, EDIT) == "end_turn"
    assert agent.file.read_text() == POEM.replace("blue", "green")


async def test_an_editor_that_answers_cancelled_before_it_cancels(agent: Agent) -> None:
    """The order in which well-behaved editors do it (V1-PERM-04)."""
    editor = Editor()
    async with open_window(agent, editor) as window:

        async def cancel(_: Any) -> Any:
            await window.connection.cancel(session_id=session)
            return CANCELLED

        editor.permission = cancel
        session = await window.new()
        assert await window.prompt(session, EDIT, "!say Never said.") == "cancelled"
        assert window.screen(session).texts() == []
        assert agent.file.read_text() == POEM
        assert await window.prompt(session, "!say Next.") == "end_turn"


async def test_a_question_holds_up_nobody_else(agent: Agent) -> None:
    editor = Editor(never)
    async with open_window(agent, editor) as window:
        waiting = await window.new()
        turn = window.start(waiting, EDIT)
        await editor.until(lambda: editor.questions)
        other = await window.new()
        assert await window.prompt(other, "!say Served.") == "end_turn"
        assert (await window.connection.list_sessions()).sessions
        await window.connection.close_session(session_id=waiting)
        assert await turn == "cancelled"
