"""Slash commands: answered here, expanded beside the prompt, or left to the model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.acp_server.editor import Editor, local

pytestmark = pytest.mark.anyio

Flags = Mapping[str, Any]


async def answer(editor: Editor, session: str, text: str) -> str:
    since = len(editor.frames)
    assert await editor.turn(session, text) == "end_turn"
    return str(editor.screen(session, since).text())


async def commands(editor: Editor, session: str) -> dict[str, Any]:
    (update,) = [
        u for u in editor.updates(session) if u["sessionUpdate"] == "available_commands_update"
    ]
    return {command["name"]: command for command in update["availableCommands"]}


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("/help", "`/permissions [allow|reject|revoke name]`"),
        ("/status", "log.jsonl"),
        ("/mode", "The mode is `ask`"),
        ("/mode yolo", "There is no mode `yolo`"),
        ("/mode\nyolo\n", "There is no mode `yolo`"),
        ("/model", "- `demo:demo`"),
        ("/model x", "There is no model `x`"),
        ("/permissions", "No answers are remembered in this project"),
        ("/permissions revoke x", "There is no answer remembered for `x`"),
        ("/permissions allow x", "`x` is not what a permission can be for"),
        ("/permissions reject read", "`read` is not what a permission can be for"),
        ("/permissions allow `edit:src`", "`edit:src` is always allowed in this project"),
    ],
)
async def test_a_command_of_ours_is_answered_without_a_model(
    tmp_path: Path, flags: Flags, command: str, told: str
) -> None:
    async with local({**flags, "model": "openai:unreachable"}) as editor:
        session = await editor.open(tmp_path)
        assert told in (await answer(editor, session, command)).replace("openai:unreachable", "")


async def test_a_command_is_told_and_changes_what_it_says(tmp_path: Path, flags: Flags) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        assert "Auto" in await answer(editor, session, "/mode auto")
        modes = [u for u in editor.updates(session) if u["sessionUpdate"] == "current_mode_update"]
        assert [update["currentModeId"] for update in modes] == ["auto"]


async def test_an_export_holds_the_conversation_and_overwrites_nothing(
    tmp_path: Path, flags: Flags
) -> None:
    async with local({**flags, "mode": "auto"}) as editor:
        session = await editor.open(tmp_path)
        await editor.turn(
            session, '!say Hello there\n!call shell {"command": "echo out"}\n!say bye'
        )
        await answer(editor, session, "/export talk.md")
        text = (tmp_path / "talk.md").read_text(encoding="utf-8")
        assert "## You" in text
        assert "Hello there" in text
        assert "out\n[exit code 0]" in text
        assert "there already" in await answer(editor, session, "/export talk.md")
        assert "outside" in await answer(editor, session, "/export /etc/talk.md")


async def test_a_fork_by_command_can_be_opened(tmp_path: Path, flags: Flags) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        await editor.turn(session, "!say one")
        told = await answer(editor, session, "/fork")
        fork = told.split("`")[1]
        await (await editor.load(fork, tmp_path)).result()
        assert editor.screen(fork).text() == "one"


async def test_files_of_the_project_are_commands(tmp_path: Path, flags: Flags) -> None:
    folder = tmp_path / ".acp-harness" / "commands"
    folder.mkdir(parents=True)
    (folder / "fix.md").write_text("---\ndescription: Fix an issue\n---\nFix issue $1 now")
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        await editor.turn(session, "!say hi")
        listed = await commands(editor, session)
        assert listed["fix"]["description"] == "Fix an issue"
        said = await answer(editor, session, "/fix 42\n!context")
        assert "which means: Fix issue 42" in said


async def test_a_skill_is_named_to_the_model_and_may_be_read(tmp_path: Path, flags: Flags) -> None:
    skill = tmp_path / ".claude" / "skills" / "pdf" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\ndescription: Fill PDF forms\n---\nUse pdftk.")
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        assert f"pdf: Fill PDF forms ({skill})" in await answer(editor, session, "!context system")
        assert "pdf" in await commands(editor, session)


async def test_what_is_typed_is_what_a_replay_shows(tmp_path: Path, flags: Flags) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        await editor.turn(session, "/review\n!say reviewed")
        since = len(editor.frames)
        await (await editor.load(session, tmp_path)).result()
        said = [
            update["content"]["text"]
            for update in editor.updates(session, since)
            if update["sessionUpdate"] == "user_message_chunk"
        ]
        assert said == ["/review\n!say reviewed"]


async def test_an_unknown_command_goes_to_the_model(tmp_path: Path, flags: Flags) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        assert await answer(editor, session, "/nope\n!say the model saw it") == "the model saw it"
