"""The agent through the official Python SDK: turns, and the whole life of a session."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import acp
import pytest

from tests.clients.editor import Editor, never
from tests.clients.harness import POEM, Agent
from tests.clients.screen import differences
from tests.clients.window import NOTHING, Window, open_window

pytestmark = pytest.mark.anyio

EVERYTHING_AT_ONCE = (
    "!think Somebody should know the poem.",
    "!say I will look at it.",
    '!call read {"path": "poem.txt"}',
    "!say Now I change it.",
    '!call edit {"path": "poem.txt", "old_text": "blue", "new_text": "violet"}',
    "!say It is better now.",
)
LONG = ("!delay 5", "!stream 2000 {i} ")


async def test_a_turn_has_thoughts_text_a_read_a_question_and_an_edit(agent: Agent) -> None:
    editor = Editor()
    async with open_window(agent, editor) as window:
        session = await window.new()
        assert await window.prompt(session, *EVERYTHING_AT_ONCE) == "end_turn"

    screen = window.screen(session)
    read, edit = screen.calls.values()
    assert screen.texts("thought") == ["Somebody should know the poem."]
    assert screen.texts() == ["I will look at it.", "Now I change it.", "It is better now."]
    assert (read.fields["kind"], read.status) == ("read", "completed")
    assert "violets are blue" in read.text
    assert [question["toolCall"]["toolCallId"] for question in editor.questions] == [edit.id]
    better = POEM.replace("blue", "violet")
    assert (edit.fields["kind"], edit.status) == ("edit", "completed")
    assert edit.diffs == [
        {"type": "diff", "path": str(agent.file), "oldText": POEM, "newText": better}
    ]
    assert agent.file.read_text() == better


async def test_a_command_shows_its_output_while_it_runs(agent: Agent) -> None:
    go = agent.work / "go"
    command = "echo early; sleep 0.06; echo soon; while [ ! -e go ]; do sleep 0.02; done; echo late"
    async with open_window(agent, offers=NOTHING) as window:
        session = await window.new()
        turn = window.start(session, f'!call shell {{"command": "{command}"}}', "!say Done.")
        screen = await window.sees(session, "early\nsoon")
        (call,) = screen.calls.values()
        assert call.status == "in_progress"
        assert "late" not in call.text
        go.touch()
        assert await turn == "end_turn"
    assert call.status == "completed"
    assert "late" in call.text
    assert screen.texts() == ["Done."]


async def test_a_plan_is_shown_whole_each_time(agent: Agent) -> None:
    async with open_window(agent) as window:
        session = await window.new()
        stop = await window.prompt(
            session,
            "!plan [>] read; write",
            "!say One is done.",
            "!plan [x] read; [>] write; rest",
        )
        assert stop == "end_turn"
    plans = [update["entries"] for update in window.shown(session, "plan")]
    assert [[(e["content"], e["status"]) for e in plan] for plan in plans] == [
        [("read", "in_progress"), ("write", "pending")],
        [("read", "completed"), ("write", "in_progress"), ("rest", "pending")],
    ]


async def test_a_cancelled_stream_ends_the_turn_and_the_next_prompt_works(agent: Agent) -> None:
    async with open_window(agent) as window:
        session = await window.new()
        turn = window.start(session, *LONG)
        screen = await window.sees(session, "3 ")
        await window.connection.cancel(session_id=session)
        assert await turn == "cancelled"
        assert await window.prompt(session, "!say Here I am.") == "end_turn"
        assert screen.texts()[-1] == "Here I am."
        assert differences(screen, await window.load(session)) == []


async def test_a_cancelled_command_ends_with_its_turn(agent: Agent) -> None:
    async with open_window(agent, offers=NOTHING) as window:
        session = await window.new()
        turn = window.start(session, '!call shell {"command": "echo on; sleep 600; touch late"}')
        screen = await window.sees(session, "on")
        await window.connection.cancel(session_id=session)
        assert await turn == "cancelled"
        (call,) = screen.calls.values()
        assert call.status == "failed"
        assert not (agent.work / "late").exists()
        assert await window.prompt(session, "!say Next.") == "end_turn"


async def test_cancel_and_the_next_prompt_in_one_breath(agent: Agent) -> None:
    async with open_window(agent) as window:
        session = await window.new()
        first = window.start(session, *LONG)
        await window.sees(session, "1 ")
        await window.connection.cancel(session_id=session)
        assert await window.prompt(session, "!say Second.") == "end_turn"
        assert await first == "cancelled"
        assert window.screen(session).texts()[-1] == "Second."


async def test_a_second_prompt_waits_for_its_turn(agent: Agent) -> None:
    async with open_window(agent, offers=NOTHING) as window:
        session = await window.new()
        wait = "while [ ! -e go ]; do sleep 0.02; done"
        first = window.start(session, f'!call shell {{"command": "{wait}"}}', "!say First.")
        await window.editor.until(lambda: window.editor.questions)
        second = window.start(session, "!say Second.")
        (agent.work / "go").touch()
        assert [await first, await second] == ["end_turn", "end_turn"]
        assert window.screen(session).texts() == ["First.", "Second."]


async def test_cancelling_when_nothing_runs_is_harmless(agent: Agent) -> None:
    async with open_window(agent) as window:
        session = await window.new()
        await window.connection.cancel(session_id=session)
        assert await window.prompt(session, "!say Well?") == "end_turn"
        await window.connection.cancel(session_id=session)
        await window.connection.cancel(session_id=session)
        assert await window.prompt(session, "!say Still well.") == "end_turn"


async def test_several_sessions_at_once_do_not_mix(agent: Agent) -> None:
    folders = [_project(agent.root / name) for name in ("red", "green", "blue")]
    async with open_window(agent) as window:
        sessions = [await window.new(folder) for folder in folders]
        assert len(set(sessions)) == len(sessions)
        stops = await asyncio.gather(
            *(
                window.prompt(
                    session,
                    "!delay 2",
                    f"!stream 40 {folder.name} ",
                    '!call shell {"command": "pwd > here; cat name >> here"}',
                    "!say End.",
                )
                for session, folder in zip(sessions, folders, strict=True)
            )
        )
    assert stops == ["end_turn"] * 3
    for session, folder in zip(sessions, folders, strict=True):
        screen = window.screen(session)
        assert screen.texts() == [f"{folder.name} " * 40, "End."]
        assert (folder / "here").read_text() == f"{folder.resolve()}\n{folder.name}"


def _project(folder: Path) -> Path:
    folder.mkdir()
    (folder / "name").write_text(folder.name)
    return folder


async def test_a_long_answer_is_whole_and_in_order(agent: Agent) -> None:
    async with open_window(agent) as window:
        session = await window.new()
        assert await window.prompt(session, "!stream 3000 {i}\\n") == "end_turn"
        assert window.screen(session).text().split() == [str(i) for i in range(1, 3001)]


async def test_any_text_comes_back_as_it_went(agent: Agent) -> None:
    text = "Messgerät 日本 😀 a\u2028b\u2029c\u0085d \u202e"
    async with open_window(agent) as window:
        session = await window.new()
        assert await window.prompt(session, f"!say {text}") == "end_turn"
        assert window.screen(session).texts() == [text]


async def test_a_turn_may_stop_for_other_reasons(agent: Agent) -> None:
    async with open_window(agent) as window:
        session = await window.new()
        assert await window.prompt(session, "!say Once upon a time", "!stop length") == "max_tokens"
        assert await window.prompt(session, "!refuse I would rather not.") == "refusal"
        assert await window.prompt(session, "!say On we go.") == "end_turn"


async def test_a_failing_model_is_an_error_and_the_session_goes_on(agent: Agent) -> None:
    async with open_window(agent) as window:
        session = await window.new()
        with pytest.raises(acp.RequestError) as failure:
            await window.prompt(session, "!fail 400 the model has had enough")
        assert "the model has had enough" in str(failure.value)
        assert await window.prompt(session, "!say On we go.") == "end_turn"


async def test_a_session_lives_on_in_another_process(agent: Agent) -> None:
    async with open_window(agent) as window:
        session, other = await window.new(), await window.new(agent.home)
        await window.prompt(session, *EVERYTHING_AT_ONCE)
        await window.prompt(session, "!plan [x] edit; [>] praise", "!say What a poem!")
        await window.prompt(session, '!call shell {"command": "wc -l poem.txt"}')
        await window.prompt(other, "!say Elsewhere.")
        seen = window.screen(session)

    async with open_window(agent) as window:
        assert differences(seen, await window.load(session)) == []
        assert await _listed(window, agent.work) == [session]
        assert await _listed(window) == [other, session]
        assert await window.prompt(session, "!context") == "end_turn"
        assert "What a poem!" in window.screen(session).texts()[-1]
        await window.connection.close_session(session_id=session)
        with pytest.raises(acp.RequestError) as failure:
            await window.prompt(session, "!say Anybody here?")
        assert failure.value.code == -32002

    async with open_window(agent) as window:
        await window.connection.resume_session(cwd=str(agent.work), session_id=session)
        assert window.screen(session).items == []
        assert await window.prompt(session, "!context") == "end_turn"
        assert "What a poem!" in window.screen(session).text()
        await window.delete(session)
        await window.delete(session)
        assert await _listed(window) == [other]

    async with open_window(agent) as window:
        with pytest.raises(acp.RequestError) as failure:
            await window.load(session)
        assert failure.value.code == -32002
        assert await _listed(window) == [other]


async def test_a_session_without_a_prompt_lives_on_too(agent: Agent) -> None:
    """Some editors open a session in one process and prompt in another."""
    async with open_window(agent) as window:
        session = await window.new()
    async with open_window(agent) as window:
        await window.connection.resume_session(cwd=str(agent.work), session_id=session)
        assert await window.prompt(session, "!say Hello.") == "end_turn"


async def test_modes_and_options_agree_and_last(agent: Agent) -> None:
    editor = Editor(never)
    async with open_window(agent, editor) as window:
        opened = await window.connection.new_session(cwd=str(agent.work))
        session, modes = opened.session_id, opened.modes
        assert modes is not None
        assert modes.current_mode_id != "auto"
        await window.connection.set_session_mode(mode_id="auto", session_id=session)
        changed = window.shown(session, "config_option_update")[-1]
        assert _current(changed["configOptions"], "mode") == "auto"
        assert (
            await window.prompt(session, '!call shell {"command": "touch unasked"}') == "end_turn"
        )
        answer = await window.connection.set_config_option(
            config_id="mode", session_id=session, value=modes.current_mode_id
        )
        options = [option.model_dump(by_alias=True) for option in answer.config_options]
        assert _current(options, "mode") == modes.current_mode_id
        mode = window.shown(session, "current_mode_update")[-1]
        assert mode["currentModeId"] == modes.current_mode_id
        await window.connection.set_session_mode(mode_id="auto", session_id=session)
        with pytest.raises(acp.RequestError) as unknown_mode:
            await window.connection.set_session_mode(mode_id="chaos", session_id=session)
        with pytest.raises(acp.RequestError) as unknown_option:
            await window.connection.set_config_option(
                config_id="chaos", session_id=session, value="auto"
            )
        assert (unknown_mode.value.code, unknown_option.value.code) == (-32602, -32602)
    assert (agent.work / "unasked").exists()

    async with open_window(agent, editor) as window:
        loaded = await window.connection.load_session(cwd=str(agent.work), session_id=session)
        assert loaded.modes is not None
        assert loaded.modes.current_mode_id == "auto"


def _current(options: list[dict[str, Any]], id: str) -> Any:
    return next(option["currentValue"] for option in options if option["id"] == id)


async def _listed(window: Window, cwd: Path | None = None) -> list[str]:
    response = await window.connection.list_sessions(cwd=str(cwd) if cwd else None)
    return [info.session_id for info in response.sessions]
