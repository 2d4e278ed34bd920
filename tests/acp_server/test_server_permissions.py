"""Permission through the server: nothing is changed or run without a clear yes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from conformance.answers import CANCELLED, allow, constant, failing, reject, select, selected
from conformance.client import NEVER, Answerer
from tests.acp_server.editor import Editor, local

pytestmark = pytest.mark.anyio

Flags = Mapping[str, Any]

PERMISSION = "session/request_permission"
TOUCH = '!call shell {"command": "touch done"}'
WRITE = '!call write {"path": "done", "content": "x"}'
CHANGES = pytest.mark.parametrize("script", [TOUCH, WRITE], ids=["shell", "write"])


def answering(answer: Answerer) -> dict[str, Answerer]:
    return {PERMISSION: answer}


def questions(editor: Editor) -> list[dict[str, Any]]:
    return [request.params for request in editor.requests if request.method == PERMISSION]


@CHANGES
async def test_a_yes_lets_it_run(tmp_path: Path, flags: Flags, script: str) -> None:
    async with local(flags, answers=answering(allow)) as editor:
        session = await editor.open(tmp_path)
        assert await editor.turn(session, script) == "end_turn"
        (call,) = editor.screen(session).calls.values()
        assert call["status"] == "completed"
        assert (tmp_path / "done").exists()


@CHANGES
async def test_a_no_is_told_to_the_model_and_the_turn_goes_on(
    tmp_path: Path, flags: Flags, script: str
) -> None:
    async with local(flags, answers=answering(reject)) as editor:
        session = await editor.open(tmp_path)
        assert await editor.turn(session, f"{script}\n!result") == "end_turn"
        (call,) = editor.screen(session).calls.values()
        assert call["status"] == "failed"
        assert "rejected" in editor.screen(session).text()
        assert not (tmp_path / "done").exists()


HOSTILE: dict[str, Answerer] = {
    "cancelled": constant(CANCELLED),
    "an option that was not offered": constant(selected("allow_once")),
    "the kind in place of the outcome": constant({"outcome": "allow_once"}),
    "an outcome of its own": constant({"outcome": {"outcome": "approved", "optionId": "allow"}}),
    "nothing": constant(None),
    "true": constant(True),
    "an empty object": constant({}),
    "a list": constant([selected("allow")]),
    "an error": failing(),
    "an error that means something else here": failing(-32000, "no"),
}


@pytest.mark.parametrize("case", HOSTILE)
async def test_anything_else_is_not_a_yes(tmp_path: Path, flags: Flags, case: str) -> None:
    async with local(flags, answers=answering(HOSTILE[case])) as editor:
        session = await editor.open(tmp_path)
        assert await editor.turn(session, TOUCH) == "end_turn"
        (call,) = editor.screen(session).calls.values()
        assert call["status"] == "failed"
        assert not (tmp_path / "done").exists()


async def test_a_question_is_about_a_call_on_the_screen_and_shows_what_will_run(
    tmp_path: Path, flags: Flags
) -> None:
    async with local(flags, answers=answering(allow)) as editor:
        session = await editor.open(tmp_path)
        await editor.turn(session, TOUCH)
        (question,) = questions(editor)
        assert question["sessionId"] == session
        call = question["toolCall"]
        assert call["toolCallId"] in editor.screen(session).calls
        assert call["rawInput"] == {"command": "touch done"}
        assert "touch done" in call["title"]
        kinds = [option["kind"] for option in question["options"]]
        assert "allow_once" in kinds
        assert "reject_once" in kinds


async def test_a_change_is_shown_before_it_is_made(tmp_path: Path, flags: Flags) -> None:
    async with local(flags, answers=answering(allow)) as editor:
        session = await editor.open(tmp_path)
        await editor.turn(session, WRITE)
        (question,) = questions(editor)
        (diff,) = question["toolCall"]["content"]
        new = {"type": "diff", "path": str(tmp_path / "done"), "newText": "x", "oldText": None}
        assert diff == new
        names = [option["name"] for option in question["options"]]
        assert names == ["Allow", "Always allow write of files in this project", "Reject"]


@pytest.mark.parametrize(
    ("call", "after"),
    [
        ('edit {"path": "a", "old_text": "w", "new_text": "two"}', "one\n  two\nthree\n"),
        ('write {"path": "a", "content": "new"}', "new\n"),
    ],
)
async def test_a_change_of_a_file_is_shown_with_what_is_around_it(
    tmp_path: Path, flags: Flags, call: str, after: str
) -> None:
    """The passage alone is no line, and new text alone looks like a new file."""
    before = "one\n  w\nthree\n"
    (tmp_path / "a").write_text(before)
    async with local(flags, answers=answering(allow)) as editor:
        session = await editor.open(tmp_path)
        await editor.turn(session, f'!call read {{"path": "a"}}\n!say read\n!call {call}')
        (question,) = questions(editor)
        (diff,) = question["toolCall"]["content"]
        assert (diff["oldText"], diff["newText"]) == (before, after)
        assert (tmp_path / "a").read_text() == after


async def test_a_change_that_will_fail_is_asked_for_all_the_same(
    tmp_path: Path, flags: Flags
) -> None:
    (tmp_path / "a").write_text("a")
    edit = '!call edit {"path": "a", "old_text": "a", "new_text": "b"}'
    async with local(flags, answers=answering(allow)) as editor:
        session = await editor.open(tmp_path)
        await editor.turn(session, edit)
        (question,) = questions(editor)
        (diff,) = question["toolCall"]["content"]
        assert (diff["oldText"], diff["newText"]) == ("a", "b")
        (call,) = editor.screen(session).calls.values()
        assert call["status"] == "failed"


async def test_what_only_looks_is_not_asked_for(tmp_path: Path, flags: Flags) -> None:
    (tmp_path / "a").write_text("a")
    script = '!call read {"path": "a"}\n!call list {}\n!call glob {"pattern": "*"}\n!plan one'
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        assert await editor.turn(session, script) == "end_turn"
        assert questions(editor) == []
        calls = editor.screen(session).calls.values()
        assert {call["status"] for call in calls} == {"completed"}


async def test_an_always_is_remembered_and_covers_nothing_else(
    tmp_path: Path, flags: Flags
) -> None:
    other = '!call shell {"command": "rm -f done"}'
    async with local(flags, answers=answering(select("allow_always"))) as editor:
        session = await editor.open(tmp_path)
        for script in (TOUCH, TOUCH, other):
            await editor.turn(session, script)
        assert len(questions(editor)) == 2
        await editor.close(session)
        await (await editor.load(session, tmp_path)).result()
        await editor.turn(session, TOUCH)
        assert len(questions(editor)) == 2


async def test_a_permission_for_once_is_for_once(tmp_path: Path, flags: Flags) -> None:
    async with local(flags, answers=answering(select("allow_once"))) as editor:
        session = await editor.open(tmp_path)
        for _ in range(2):
            await editor.turn(session, TOUCH)
        assert len(questions(editor)) == 2


async def test_one_who_is_asked_holds_up_no_other_session(tmp_path: Path, flags: Flags) -> None:
    async with local(flags, answers=answering(constant(NEVER))) as editor:
        parked = await editor.open(tmp_path)
        prompt = await editor.prompt(parked, TOUCH)
        question = await editor.asks()
        other = await editor.new(tmp_path)
        assert await editor.turn(other, "!call list {}\n!say ok") == "end_turn"
        await editor.respond(question, selected("allow"))
        assert await prompt.result() == {"stopReason": "end_turn"}
        assert (tmp_path / "done").exists()


async def test_a_question_of_any_size_fits_in_a_line(tmp_path: Path, flags: Flags) -> None:
    command = "true " + "日" * 40_000
    async with local(flags, answers=answering(allow)) as editor:
        session = await editor.open(tmp_path)
        await editor.turn(session, f'!call shell {{"command": "{command}"}}')
        assert len(questions(editor)) == 1


async def test_a_call_that_was_answered_before_the_cancel_is_one_or_the_other(
    tmp_path: Path, flags: Flags
) -> None:
    async with local(flags, answers=answering(constant(NEVER))) as editor:
        session = await editor.open(tmp_path)
        prompt = await editor.prompt(session, TOUCH)
        question = await editor.asks()
        await editor.respond(question, selected("allow"))
        await editor.cancel(session)
        assert await prompt.result() == {"stopReason": "cancelled"}
        (call,) = editor.screen(session).calls.values()
        assert call["status"] in ("completed", "failed")


@pytest.mark.parametrize("path", ["src/a", "./x/../src/new/a", "link/a", "{cwd}/src/a"])
async def test_a_rule_for_a_directory_covers_what_really_lies_in_it(
    tmp_path: Path, flags: Flags, path: str
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "src")
    (tmp_path / "src" / "out").symlink_to(tmp_path)
    async with local(flags, answers=answering(reject)) as editor:
        session = await editor.open(tmp_path)
        await editor.turn(session, "/permissions allow write:src")
        arguments = json.dumps({"path": path.format(cwd=tmp_path), "content": "x"})
        await editor.turn(session, f"!call write {arguments}")
        assert questions(editor) == []
        assert [file.name for file in (tmp_path / "src").rglob("a")] == ["a"]
        await editor.turn(session, '!call write {"path": "src/out/b", "content": "x"}')
        assert len(questions(editor)) == 1
        assert not (tmp_path / "b").exists()


async def test_what_was_rejected_for_good_is_told_to_the_model_in_every_mode(
    tmp_path: Path, flags: Flags
) -> None:
    async with local({**flags, "mode": "auto"}, answers=answering(allow)) as editor:
        session = await editor.open(tmp_path)
        await editor.turn(session, "/permissions reject shell:touch")
        await editor.turn(session, '!call shell {"command": "true && touch done"}\n!result')
        assert "the user rejected this" in editor.screen(session).text()
        assert questions(editor) == []
        assert not (tmp_path / "done").exists()
