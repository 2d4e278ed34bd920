"""Slash commands: answered here, expanded beside the prompt, or left to the model."""

from __future__ import annotations

import os
import sys
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


def announcements(editor: Editor, session: str, since: int = 0) -> list[dict[str, Any]]:
    """The commands of each announcement, by name."""
    return [
        {command["name"]: command for command in update["availableCommands"]}
        for update in editor.updates(session, since)
        if update["sessionUpdate"] == "available_commands_update"
    ]


async def commands(editor: Editor, session: str) -> dict[str, Any]:
    await editor.barrier()
    (announced,) = announcements(editor, session)
    return announced


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


# --- following the disk ---------------------------------------------------------------------------


async def test_a_command_is_used_at_once_and_announced_when_the_list_is_another(
    tmp_path: Path, flags: Flags
) -> None:
    file = tmp_path / ".claude" / "commands" / "fix.md"
    file.parent.mkdir(parents=True)
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        for text, told in (
            ("Fix it", ["Fix it"]),
            ("---\ndescription: Fix it\n---\nMend it", []),
            ("---\ndescription: Mend it\n---\nMend it", ["Mend it"]),
        ):
            file.write_text(text)
            since = len(editor.frames)
            said = await answer(editor, session, "/fix\n!context")
            assert f"which means: {text.splitlines()[-1]}" in said
            found = announcements(editor, session, since)
            assert [one["fix"]["description"] for one in found] == told
        file.unlink()
        since = len(editor.frames)
        assert "which means" not in (await answer(editor, session, "/fix\n!context"))[-20:]
        assert ["fix" in one for one in announcements(editor, session, since)] == [False]


async def test_a_turn_that_changes_nothing_announces_nothing(tmp_path: Path, flags: Flags) -> None:
    async with local({**flags, "mode": "auto"}) as editor:
        session = await editor.open(tmp_path)
        await editor.turn(session, '!call write {"path": "a.md", "content": "x"}\n!say ok')
        await editor.turn(session, "/help")
        assert len(announcements(editor, session)) == 1


async def test_a_skill_that_the_agent_writes_is_announced_in_the_turn_and_known_to_the_model(
    tmp_path: Path, flags: Flags
) -> None:
    skill = '{"path": ".claude/skills/pdf/SKILL.md", "content": "Fill forms"}'
    async with local({**flags, "mode": "auto"}) as editor:
        session = await editor.open(tmp_path)
        since = len(editor.frames)
        said = await answer(editor, session, f"!call write {skill}\n!context system")
        assert "pdf: Fill forms" in said
        (found,) = announcements(editor, session, since)
        assert found["pdf"]["description"] == "Fill forms"


async def test_what_changed_while_a_turn_ran_is_announced_before_it_is_answered(
    tmp_path: Path, flags: Flags
) -> None:
    folder = tmp_path / ".claude" / "commands"
    folder.mkdir(parents=True)
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        prompt = await editor.prompt(session, "!say begun\n!hang")
        await editor.says(session, "begun")
        (folder / "late.md").write_text("Do it late")
        await editor.cancel(session)
        answered = (await prompt.wait()).index
        assert "late" in announcements(editor, session)[-1]
        assert announcements(editor, session, answered) == []


async def test_each_session_follows_its_own_directories(tmp_path: Path, flags: Flags) -> None:
    async with local(flags) as editor:
        await editor.initialize()
        places = [tmp_path / "one", tmp_path / "two"]
        for place in places:
            place.mkdir()
        one, two = [await editor.new(place) for place in places]
        folder = places[0] / ".acp-harness" / "commands"
        folder.mkdir(parents=True)
        (folder / "mine.md").write_text("Mine")
        for session in (one, two):
            await editor.turn(session, "!say ok")
        assert "mine" in announcements(editor, one)[-1]
        assert len(announcements(editor, two)) == 1


async def test_a_directory_that_is_added_by_a_load_brings_its_commands(
    tmp_path: Path, flags: Flags
) -> None:
    inside, beside = tmp_path / "inside", tmp_path / "beside"
    inside.mkdir()
    folder = beside / ".claude" / "commands"
    folder.mkdir(parents=True)
    (folder / "fix.md").write_text("Fix it")
    async with local(flags) as editor:
        session = await editor.open(inside)
        await editor.turn(session, "!say ok")
        params = {"sessionId": session, "cwd": str(inside), "mcpServers": []}
        params["additionalDirectories"] = [str(beside)]
        await editor.request("session/resume", params)
        await editor.barrier()
        assert "fix" in announcements(editor, session)[-1]
        assert "which means: Fix it" in await answer(editor, session, "/fix\n!context")


async def test_a_broken_file_is_told_once_and_stops_nothing(tmp_path: Path, flags: Flags) -> None:
    folder = tmp_path / ".claude" / "commands"
    folder.mkdir(parents=True)
    (folder / "front.md").write_text("---\ndescription: x\nno end")
    (folder / "ok.md").write_text("Fine")
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        assert "ok" in (await commands(editor, session))
        told = await answer(editor, session, "/ok\n!context")
        assert f"{folder / 'front.md'} is not used: its front matter has no end" in told
        assert "which means: Fine" in told
        assert "is not used" not in await answer(editor, session, "!say again")
        (folder / "latin.md").write_bytes("Grüße".encode("latin-1"))
        told = await answer(editor, session, "!say again")
        assert "latin.md is not used: it is not UTF-8 text" in told
        assert "front.md" not in told


async def test_of_very_many_broken_files_a_few_are_named(tmp_path: Path, flags: Flags) -> None:
    folder = tmp_path / ".claude" / "commands"
    folder.mkdir(parents=True)
    for number in range(100):
        (folder / f"{number}.md").write_text("---\nno end")
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        told = await answer(editor, session, "!say ok")
        assert told.count("is not used") == 3
        assert "97 more files of commands and skills are not used" in told


@pytest.mark.skipif(sys.platform != "linux", reason="file names of any bytes")
async def test_a_name_that_is_no_text_hides_no_other_command(tmp_path: Path, flags: Flags) -> None:
    folder = tmp_path / ".claude" / "skills"
    for name in (b"Gr\xfc\xdfe", b"ok"):
        skill = folder / os.fsdecode(name) / "SKILL.md"
        skill.parent.mkdir(parents=True)
        skill.write_text("Do it")
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        assert "ok" in (await commands(editor, session))
        assert "- ok: Do it" in await answer(editor, session, "!context system")
