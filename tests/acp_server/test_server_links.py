"""Linked files over the wire: read through the editor, shown as links, never in a turn's way."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from conformance.answers import Files, allow, failing, never
from tests.acp_server.editor import local

pytestmark = pytest.mark.anyio

Flags = Mapping[str, Any]

FS = {"fs": {"readTextFile": True, "writeTextFile": True}}


def link(path: Path, fragment: str = "") -> dict[str, Any]:
    return {"type": "resource_link", "uri": path.as_uri() + fragment, "name": path.name}


async def test_the_model_is_given_what_a_link_leads_to_and_people_see_the_link(
    tmp_path: Path, flags: Flags
) -> None:
    file = tmp_path / "a.txt"
    file.write_text("as it was\n")
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        await editor.turn(session, "!context", link(file))
        said = editor.screen(session).text()
        assert f"[a.txt]({file.as_uri()})" in said
        assert f'<resource uri="{file.as_uri()}">\n     1\tas it was\n</resource>' in said
        assert editor.requests == []
    file.write_text("as it became\n")
    async with local(flags) as editor:
        await editor.initialize()
        await (await editor.load(session, tmp_path)).result()
        users = [
            update["content"]
            for update in editor.updates(session)
            if update["sessionUpdate"] == "user_message_chunk"
        ]
        assert users == [{"type": "text", "text": "!context"}, link(file)]
        since = len(editor.frames)
        await editor.turn(session, "!context")
        said = editor.screen(session, since).text()
        assert "as it was" in said
        assert "as it became" not in said


async def test_the_editors_unsaved_text_is_what_is_read_and_may_be_edited(
    tmp_path: Path, flags: Flags
) -> None:
    file = tmp_path / "a.txt"
    file.write_text("on disk\n")
    files = Files({str(file): "unsaved\n"})
    answers = {**files.answers(), "session/request_permission": allow}
    async with local(flags, answers=answers) as editor:
        session = await editor.open(tmp_path, FS)
        edit = '!call edit {"path": "a.txt", "old_text": "unsaved", "new_text": "saved"}'
        await editor.turn(session, f"!context\n{edit}\n!say done", link(file))
        said = editor.screen(session).text()
        assert "     1\tunsaved" in said
        assert "on disk" not in said
        assert files.buffers[str(file)] == "saved\n"


async def test_a_file_out_of_reach_stays_a_reference_and_is_not_asked_for(
    tmp_path: Path, flags: Flags
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    secret = tmp_path / "secret.txt"
    secret.write_text("secret words")
    async with local(flags, answers=Files().answers()) as editor:
        session = await editor.open(project, FS)
        assert await editor.turn(session, "!context", link(secret)) == "end_turn"
        said = editor.screen(session).text()
        assert f"{secret.as_uri()} was not read: " in said
        assert "secret words" not in said
        assert editor.requests == []


async def test_an_editor_that_fails_leaves_a_reference(tmp_path: Path, flags: Flags) -> None:
    file = tmp_path / "a.txt"
    file.write_text("on disk\n")
    async with local(flags, answers={"fs/read_text_file": failing()}) as editor:
        session = await editor.open(tmp_path, FS)
        assert await editor.turn(session, "!context", link(file)) == "end_turn"
        said = editor.screen(session).text()
        assert f"{file.as_uri()} was not read: a.txt: the editor did not give it" in said


async def test_a_prompt_can_be_cancelled_while_its_links_are_read(
    tmp_path: Path, flags: Flags
) -> None:
    file = tmp_path / "a.txt"
    file.write_text("on disk\n")
    async with local(flags, answers={"fs/read_text_file": never}) as editor:
        session = await editor.open(tmp_path, FS)
        prompt = await editor.prompt(session, "!say hello", link(file))
        await editor.asks("fs/read_text_file")
        await editor.cancel(session)
        assert (await prompt.result())["stopReason"] == "cancelled"
        assert await editor.turn(session, "!context") == "end_turn"
        assert f"[user] !say hello\n[a.txt]({file.as_uri()})" in editor.screen(session).text()


async def test_in_plan_mode_links_are_read_and_nobody_is_asked(
    tmp_path: Path, flags: Flags
) -> None:
    file = tmp_path / "a.txt"
    file.write_text("a plan\n")
    for mode in ("ask", "plan"):
        async with local({**flags, "mode": mode}) as editor:
            session = await editor.open(tmp_path)
            await editor.turn(session, "!context", link(file, "#L1"))
            assert "     1\ta plan" in editor.screen(session).text()
            assert editor.requests == []
