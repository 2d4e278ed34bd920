"""Whole turns through the server: what is asked is answered, and everything shown before it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from conformance.client import RpcError
from tests.acp_server.editor import local, prompt_params
from tests.acp_server.screen import Screen

pytestmark = pytest.mark.anyio

Flags = Mapping[str, Any]


async def test_text_and_thoughts_are_shown_before_the_answer(tmp_path: Path, flags: Flags) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        assert await editor.turn(session, "!think hm\n!say Hello\\nthere") == "end_turn"
        screen = editor.screen(session)
        assert screen.text() == "Hello\nthere"
        assert screen.text("agent_thought_chunk") == "hm"


async def test_an_answer_of_any_length_is_shown(tmp_path: Path, flags: Flags) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        text = 'x"\u2028日' * 20_000
        await editor.turn(session, f"!stream 3 {text}")
        assert editor.screen(session).text() == text * 3


@pytest.mark.parametrize(
    ("script", "stop"),
    [
        ("!say Once\n!stop", "end_turn"),
        ("!say Once upon a time\n!stop length", "max_tokens"),
        ("!refuse I would rather not.", "refusal"),
        ('!loop list {"path": "."}', "max_turn_requests"),
    ],
)
async def test_every_end_has_its_stop_reason(
    tmp_path: Path, flags: Flags, script: str, stop: str
) -> None:
    async with local({**flags, "max_steps": 3}) as editor:
        session = await editor.open(tmp_path)
        assert await editor.turn(session, script) == stop
        assert await editor.turn(session, "!say still here") == "end_turn"


async def test_a_refusal_is_told_and_its_prompt_is_forgotten(tmp_path: Path, flags: Flags) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        await editor.turn(session, "!say first")
        await editor.turn(session, "something bad\n!refuse I would rather not.")
        assert "I would rather not." in editor.screen(session).text()
        since = len(editor.frames)
        await editor.turn(session, "!context")
        context = editor.screen(session, since).text()
        assert "!say first" in context
        assert "something bad" not in context
        assert "rather not" not in context


# --- what a prompt may hold -----------------------------------------------------------------------


async def test_links_and_embedded_files_reach_the_model(tmp_path: Path, flags: Flags) -> None:
    link = {"type": "resource_link", "uri": "file:///linked.py", "name": "linked.py"}
    file = {"type": "resource", "resource": {"uri": "file:///in.py", "text": "print('in')"}}
    picture = {"type": "image", "data": "AAAA", "mimeType": "image/png", "annotations": None}
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        await editor.turn(session, "!context", link, file, picture)
        context = editor.screen(session).text()
        assert "file:///linked.py" in context
        assert "print('in')" in context
        assert "image/png" in context


@pytest.mark.parametrize(
    "prompt",
    [
        [],
        None,
        [{"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}],
        [{"type": "text", "text": "a"}, {"type": "video"}],
        [{"type": "text"}],
        [{"type": "text", "text": ""}],
        [{"type": "text", "text": ""}, {"type": "text", "text": " \n"}],
        [{"type": "text", "text": "a"}, {"type": "image", "data": "", "mimeType": "image/png"}],
        [{"type": "text", "text": "a"}, {"type": "image", "data": "%", "mimeType": "image/png"}],
        [{"type": "text", "text": "a"}, {"type": "image", "data": "AAAA", "mimeType": ""}],
        [{"type": "text", "text": "a"}, {"type": "image", "data": "AAAA", "mimeType": "image/x"}],
        [{"type": "resource", "resource": {"uri": "file:///a", "blob": "%"}}],
    ],
)
async def test_a_prompt_that_cannot_be_taken_begins_no_turn(
    tmp_path: Path, flags: Flags, prompt: Any
) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        params = {"sessionId": session, "prompt": prompt}
        with pytest.raises(RpcError) as caught:
            await editor.request("session/prompt", params)
        assert caught.value.code == -32602
        assert [u["sessionUpdate"] for u in editor.updates(session)] == [
            "available_commands_update"
        ]
        await editor.turn(session, "!context")
        assert editor.screen(session).text() == "[user] !context"


async def test_empty_text_is_left_out(tmp_path: Path, flags: Flags) -> None:
    link = {"type": "resource_link", "uri": "https://a.example/b", "name": "b"}
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        await editor.turn(session, "", "!context", "", link, "")
        assert editor.screen(session).text() == "[user] !context\n[b](https://a.example/b)"


@pytest.mark.parametrize(
    ("block", "title"),
    [
        ({"type": "image", "data": "AAAA", "mimeType": "image/png"}, "Image"),
        ({"type": "resource_link", "uri": "https://a.example/b", "name": "b.md"}, "b.md"),
        ({"type": "resource", "resource": {"uri": "file:///p/in.py", "text": "x"}}, "in.py"),
    ],
)
async def test_a_session_that_began_with_an_attachment_alone_is_listed(
    tmp_path: Path, flags: Flags, block: dict[str, Any], title: str
) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        assert await editor.turn(session, block) == "end_turn"
        listed = (await editor.request("session/list", {"cwd": str(tmp_path)}))["sessions"]
        assert [(info["sessionId"], info["title"]) for info in listed] == [(session, title)]
        titles = [u.get("title") for u in editor.updates(session) if "title" in u]
        assert titles == [title]


async def test_meta_never_passes_for_a_parameter(tmp_path: Path, flags: Flags) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        for meta in ({"sessionId": "other", "session_id": "other", "prompt": []}, 5, None):
            params = prompt_params(session, "!say ok")
            result = await editor.request("session/prompt", {**params, "_meta": meta, "x": 1})
            assert result == {"stopReason": "end_turn"}


# --- what the model does --------------------------------------------------------------------------


async def test_a_tool_goes_from_pending_to_running_to_done(tmp_path: Path, flags: Flags) -> None:
    (tmp_path / "a.txt").write_text("the content of a")
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        await editor.turn(session, '!call read {"path": "a.txt"}\n!say I see:\n!result')
        statuses = [u["status"] for u in editor.updates(session) if "status" in u]
        assert statuses == ["pending", "in_progress", "completed"]
        (call,) = editor.screen(session).calls.values()
        assert call["kind"] == "read"
        assert call["locations"] == [{"path": str(tmp_path / "a.txt")}]
        assert call["rawInput"] == {"path": "a.txt"}
        assert "the content of a" in editor.screen(session).text()


@pytest.mark.parametrize(
    "call",
    [
        '!call read {"path": "missing.txt"}',
        '!call read {"path": 5}',
        "!call read {}",
        "!call nothing_like_that {}",
        '!call shell {"command": "exit 3"}',
    ],
)
async def test_a_tool_that_fails_is_shown_as_failed_and_the_turn_goes_on(
    tmp_path: Path, flags: Flags, call: str
) -> None:
    async with local({**flags, "mode": "auto"}) as editor:
        session = await editor.open(tmp_path)
        assert await editor.turn(session, f"{call}\n!say and on\n!result") == "end_turn"
        (shown,) = editor.screen(session).calls.values()
        assert shown["status"] == "failed"
        assert "and on" in editor.screen(session).text()


async def test_a_call_with_wrong_arguments_shows_no_change(tmp_path: Path, flags: Flags) -> None:
    script = '!call edit {"path": "a"}\n!call write {"path": "a", "text": "b"}'
    async with local({**flags, "mode": "auto"}) as editor:
        session = await editor.open(tmp_path)
        await editor.turn(session, script)
        for update in editor.updates(session):
            if update.get("status") != "failed":
                assert not {"content", "locations"} & update.keys() or "messageId" in update
        edit, write = editor.screen(session).calls.values()
        assert (edit["title"], edit["rawInput"]) == ("Edit a", {"path": "a"})
        assert (write["title"], write["rawInput"]) == ("Write a", {"path": "a", "text": "b"})
        for call in (edit, write):
            assert call["status"] == "failed"
            assert "invalid arguments" in str(call["content"])


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
async def test_output_is_as_plain_while_it_runs_as_in_the_end(tmp_path: Path, flags: Flags) -> None:
    """Colours mean nothing in text; a line that is drawn again shows what it shows now."""
    command = r"printf '\033[31mred\033[0m\n10%%\r50%%'; until [ -e go ]; do sleep 0.02; done"
    script = f"!call shell {json.dumps({'command': command})}"
    async with local({**flags, "mode": "auto"}) as editor:
        session = await editor.open(tmp_path)
        prompt = await editor.prompt(session, script)
        shown = await editor.shown(session, lambda screen: "50%" in card(screen))
        assert card(shown) == "```\nred\n50%\n```"
        (tmp_path / "go").touch()
        await prompt.result()
        assert card(editor.screen(session)) == "```\nred\n50%\n[exit code 0]\n```"


def card(screen: Screen) -> str:
    """The text of the content of the one call."""
    (call,) = screen.calls.values() or ({},)
    return "".join(item["content"]["text"] for item in call.get("content", ()))


async def test_calls_side_by_side_each_have_their_own_card(tmp_path: Path, flags: Flags) -> None:
    for name in "abcd":
        (tmp_path / name).write_text(f"this is {name}")
    script = "\n".join(f'!call read {{"path": "{name}"}}' for name in "abcd")
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        await editor.turn(session, script)
        await editor.turn(session, script)
        calls = editor.screen(session).calls
        assert [call["rawInput"]["path"] for call in calls.values()] == list("abcd") * 2
        assert {call["status"] for call in calls.values()} == {"completed"}


async def test_a_change_is_shown_as_a_diff(tmp_path: Path, flags: Flags) -> None:
    (tmp_path / "old.txt").write_text("one\ntwo\n")
    script = """\
!call read {"path": "old.txt"}
!say then
!call edit {"path": "old.txt", "old_text": "two", "new_text": "2"}
!call write {"path": "new.txt", "content": "new\\n"}"""
    async with local({**flags, "mode": "auto"}) as editor:
        session = await editor.open(tmp_path)
        await editor.turn(session, script)
        _, edit, write = editor.screen(session).calls.values()
        (changed,) = [item for item in edit["content"] if item["type"] == "diff"]
        assert changed["path"] == str(tmp_path / "old.txt")
        assert "two" in changed["oldText"]
        assert "2" in changed["newText"]
        (created,) = [item for item in write["content"] if item["type"] == "diff"]
        assert created["path"] == str(tmp_path / "new.txt")
        assert (created["oldText"], created["newText"]) == (None, "new\n")


async def test_every_plan_is_whole(tmp_path: Path, flags: Flags) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        await editor.turn(session, "!plan [>] one; two\n!say on\n!plan [x] one; [>] two")
        plans = [u["entries"] for u in editor.updates(session) if u["sessionUpdate"] == "plan"]
        assert [[(e["content"], e["status"]) for e in plan] for plan in plans] == [
            [("one", "in_progress"), ("two", "pending")],
            [("one", "completed"), ("two", "in_progress")],
        ]


async def test_each_message_has_an_id_of_its_own(tmp_path: Path, flags: Flags) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        await editor.turn(session, "!say one two\n!call list {}\n!say three four")
        await editor.turn(session, "!say five six")
        said = [item for item in editor.screen(session).items if item[0] == "agent_message_chunk"]
        assert len({id for _, id in said}) == len(said) == 3


async def test_usage_is_what_the_last_request_took_not_a_sum(tmp_path: Path, flags: Flags) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        for _ in range(4):
            await editor.turn(session, "!usage 1000 10\n!call list {}\n!say ok\n!usage 2000 20")
        reports = [u for u in editor.updates(session) if u["sessionUpdate"] == "usage_update"]
        assert [report["used"] for report in reports] == [1010, 2020] * 4
        assert {report["size"] for report in reports} == {200_000}


async def test_a_session_is_named_after_its_first_prompt(tmp_path: Path, flags: Flags) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        await editor.turn(session, "Mend the roof\n!say ok")
        await editor.turn(session, "And the door\n!say ok")
        titles = [u for u in editor.updates(session) if u["sessionUpdate"] == "session_info_update"]
        assert [title["title"] for title in titles] == ["Mend the roof"]
        (listed,) = (await editor.request("session/list", {}))["sessions"]
        assert listed["title"] == "Mend the roof"


# --- commands -------------------------------------------------------------------------------------


async def test_a_command_means_more_than_its_name(tmp_path: Path, flags: Flags) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        await editor.turn(session, "/init and be short\n!context")
        context = editor.screen(session).text()
        assert "[user] /init and be short" in context
        assert "AGENTS.md" in context


async def test_an_unknown_command_is_text(tmp_path: Path, flags: Flags) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        await editor.turn(session, "/unknown x\n!context")
        assert editor.screen(session).text() == "[user] /unknown x\n!context"


# --- several prompts ------------------------------------------------------------------------------


async def test_overlapping_prompts_run_one_after_the_other(tmp_path: Path, flags: Flags) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        words = ["one", "two", "three"]
        prompts = [await editor.prompt(session, f"!delay 1\n!stream 9 {word} ") for word in words]
        since = 0
        for word, prompt in zip(words, prompts, strict=True):
            answer = await prompt.wait()
            said = [
                incoming.update["content"]["text"].strip()
                for incoming in editor.incoming
                if since < incoming.index < answer.index and incoming.kind == "agent_message_chunk"
            ]
            assert set(said) == {word}
            since = answer.index
        assert [(await prompt.result())["stopReason"] for prompt in prompts] == ["end_turn"] * 3


async def test_the_next_prompt_is_taken_as_soon_as_one_is_answered(
    tmp_path: Path, flags: Flags
) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        for number in range(20):
            since = len(editor.frames)
            assert await editor.turn(session, f"!say {number}") == "end_turn"
            assert editor.screen(session, since).text() == str(number)


async def test_sessions_do_not_mix(tmp_path: Path, flags: Flags) -> None:
    async with local(flags) as editor:
        await editor.initialize()
        names = ["left", "right", "middle"]
        for name in names:
            (tmp_path / name).mkdir()
            (tmp_path / name / "me").write_text(f"I am {name}")
        sessions = [await editor.new(tmp_path / name) for name in names]
        script = '!delay 1\n!stream 20 {i} \n!call read {"path": "me"}\n!result'
        prompts = [await editor.prompt(session, script) for session in sessions]
        for prompt in prompts:
            assert await prompt.result() == {"stopReason": "end_turn"}
        for name, session in zip(names, sessions, strict=True):
            text = editor.screen(session).text()
            assert text.startswith("1 2 3 4")
            assert f"I am {name}" in text


async def test_a_session_that_waits_holds_up_no_other(tmp_path: Path, flags: Flags) -> None:
    async with local(flags) as editor:
        first = await editor.open(tmp_path)
        parked = await editor.prompt(first, "!say parked\n!hang")
        await editor.says(first, "parked")
        second = await editor.new(tmp_path)
        assert await editor.turn(second, "!say ok") == "end_turn"
        assert await editor.request("session/list", {})
        assert parked.response is None
        await editor.cancel(first)
        assert await parked.result() == {"stopReason": "cancelled"}
