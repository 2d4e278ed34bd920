"""A loaded session looks as it did when it was left, whatever had happened in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from conformance.answers import allow, reject
from conformance.client import Answerer, RpcError
from tests.acp_server.editor import Editor, local
from tests.acp_server.screen import Screen

pytestmark = pytest.mark.anyio

Flags = Mapping[str, Any]

PICTURE = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
LINK = {"type": "resource_link", "uri": "file:///a.py", "name": "a.py"}
FILE = {"type": "resource", "resource": {"uri": "file:///b.py", "text": "print()"}}

CONVERSATIONS: dict[str, list[list[Any]]] = {
    "text and thoughts": [["hello\n!think hm\n!say one two\n!say three"], ["!say four"]],
    "attachments": [["look\n!say I see", PICTURE, LINK, FILE, "and this"]],
    "long texts": [[f"{'long ' * 20_000}\n!stream 3 {'日' * 9_000}"]],
    "a flood": [["!stream 3000 {i},"]],
    "tools": [
        ['!say first\n!call read {"path": "a.txt"}\n!call list {}\n!say then\n!result'],
        ['!call read {"path": "missing"}\n!say so'],
    ],
    "plans": [["!plan [>] one; two\n!say on\n!plan [x] one; [x] two\n!say done"]],
    "changes": [
        [
            '!call read {"path": "a.txt"}\n!say so\n'
            '!call edit {"path": "a.txt", "old_text": "one", "new_text": "1"}\n'
            '!call write {"path": "new.txt", "content": "new"}'
        ]
    ],
    "commands that print": [
        ['!call shell {"command": "for i in 1 2 3; do echo line $i; done; exit 3"}\n!say so']
    ],
    "broken attempts": [["!say Once\n!cut"], ["!say again"]],
    "ends": [["!refuse no"], ["!say a\n!stop length"], ["!fail 500 it broke"], ["!loop list {}"]],
    "usage": [["!say a\n!usage 100 10"], ["!say b\n!usage 200 20"]],
}
BESIDES = (
    "user_message_chunk",
    "available_commands_update",
    "config_option_update",
    "current_mode_update",
)
"""What belongs to the prompts and to the session, not to what happened in its turns."""


async def played(editor: Editor, session: str, conversation: list[list[Any]]) -> None:
    """Hold the conversation; prompts may fail."""
    for prompt in conversation:
        sent = await editor.prompt(session, *prompt)
        await sent.wait()


async def loaded(flags: Flags, cwd: Path, session: str) -> Screen:
    """The session as another process shows it."""
    async with local(flags) as editor:
        await editor.initialize()
        await (await editor.load(session, cwd)).result()
        return editor.screen(session)


def same(live: Screen, again: Screen) -> None:
    """What happened in the turns looks the same; that one failed, its answer told live."""
    shown = [
        (item, blocks)
        for item, blocks in again.without(*BESIDES).items()
        if not (item[1].startswith("end-") and "turn failed" in blocks[0]["text"])
    ]
    assert shown == list(live.without(*BESIDES).items())
    assert again.usage == live.usage
    assert again.open_calls == []


@pytest.mark.parametrize("case", CONVERSATIONS)
@pytest.mark.parametrize("answer", [allow, reject], ids=["allowed", "rejected"])
async def test_a_replay_looks_like_the_live_run(
    tmp_path: Path, flags: Flags, case: str, answer: Answerer
) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    settings = {**flags, "max_steps": 3, "retry": {"attempts": 1, "base": 0.0}}
    answers = {"session/request_permission": answer}
    async with local(settings, answers=answers) as editor:
        session = await editor.open(tmp_path)
        await played(editor, session, CONVERSATIONS[case])
        live = editor.screen(session)
    again = await loaded(settings, tmp_path, session)
    same(live, again)
    users = [item for item in again.items if item[0] == "user_message_chunk"]
    assert len(users) == len(CONVERSATIONS[case])


async def test_what_a_user_said_comes_back_as_it_was(tmp_path: Path, flags: Flags) -> None:
    prompts = [["first\n!say a", PICTURE, LINK], [FILE, "second\n!say b"]]
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        await played(editor, session, prompts)
    again = await loaded(flags, tmp_path, session)
    said = [value for item, value in again.items.items() if item[0] == "user_message_chunk"]
    assert said == [
        [{"type": "text", "text": "first\n!say a"}, PICTURE, LINK],
        [FILE, {"type": "text", "text": "second\n!say b"}],
    ]


async def test_a_cancelled_turn_comes_back_with_its_calls_closed(
    tmp_path: Path, flags: Flags
) -> None:
    settings = {**flags, "mode": "auto"}
    async with local(settings) as editor:
        session = await editor.open(tmp_path)
        prompt = await editor.prompt(
            session, """!say begun\n!call shell {"command": "echo he''re; sleep 600"}"""
        )
        await editor.shown(session, lambda screen: "here" in str(screen.calls))
        await editor.cancel(session)
        await prompt.result()
        live = editor.screen(session)
    again = await loaded(settings, tmp_path, session)
    same(live, again)
    assert "here" in str(again.calls)


async def test_turns_can_be_told_apart(tmp_path: Path, flags: Flags) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        for number in range(3):
            await editor.turn(session, f"!say answer {number}")
    again = await loaded(flags, tmp_path, session)
    kinds = ("user_message_chunk", "agent_message_chunk")
    messages = [(item[0], value) for item, value in again.items.items() if item[0] in kinds]
    assert [kind for kind, _ in messages] == list(kinds) * 3
    texts = [blocks[0]["text"] for _, blocks in messages]
    assert texts[1::2] == ["answer 0", "answer 1", "answer 2"]


async def test_a_picture_too_large_for_many_clients_is_named_in_a_replay(
    tmp_path: Path, flags: Flags
) -> None:
    large = {**PICTURE, "data": "A" * 2_000_000}
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        assert await editor.turn(session, "!say I see", large) == "end_turn"
    again = await loaded(flags, tmp_path, session)
    assert "image/png" in again.text("user_message_chunk")


async def test_a_turn_that_failed_says_so_in_a_replay(tmp_path: Path, flags: Flags) -> None:
    """A load does not run it again; it tells what the answer had told."""
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        with pytest.raises(RpcError) as told:
            await editor.turn(session, "!fail 500 it broke")
    again = await loaded(flags, tmp_path, session)
    assert again.text() == f"*This turn failed: {told.value.message}*"
