"""Cancelling at every moment: the prompt is answered as cancelled, and the session lives on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from conformance.answers import CANCELLED, selected
from conformance.client import NEVER, Answerer, RpcError, encode_line, envelope
from tests.acp_server.editor import Editor, local, prompt_params

pytestmark = pytest.mark.anyio

Flags = Mapping[str, Any]

STOPPED = {"stopReason": "cancelled"}
SLEEP = """!call shell {"command": "echo be''gun; sleep 600"}"""
"""Prints a word that its command line does not contain."""


async def lives_on(editor: Editor, session: str, remembered: str = "") -> None:
    """The session takes the next prompt and knows what was before."""
    since = len(editor.frames)
    assert await editor.turn(session, "!context") == "end_turn"
    assert remembered in editor.screen(session, since).text()
    assert editor.screen(session).open_calls == []


async def together(editor: Editor, *messages: dict[str, Any]) -> None:
    """Send these in one write."""
    await editor.send_raw(b"".join(map(encode_line, messages)))


def cancel_of(session: str) -> dict[str, Any]:
    return envelope("session/cancel", {"sessionId": session})


# --- the moments ----------------------------------------------------------------------------------


async def test_while_the_model_says_nothing(tmp_path: Path, flags: Flags) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        prompt = await editor.prompt(session, "!say begun\n!hang")
        await editor.says(session, "begun")
        await editor.cancel(session)
        assert await prompt.result() == STOPPED
        await lives_on(editor, session, "[assistant] begun")


async def test_before_the_first_token(tmp_path: Path, flags: Flags) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        prompt = await editor.prompt(session, "!hang")
        await editor.barrier()
        await editor.cancel(session)
        assert await prompt.result() == STOPPED
        await lives_on(editor, session)


@pytest.mark.parametrize("script", ["!hang", "!say hello", SLEEP, "!stream 100000 x"])
async def test_right_behind_the_prompt_in_one_write(
    tmp_path: Path, flags: Flags, script: str
) -> None:
    async with local({**flags, "mode": "auto"}) as editor:
        session = await editor.open(tmp_path)
        prompt = editor.expect("session/prompt", editor.fresh_id())
        message = envelope("session/prompt", prompt_params(session, script))
        await together(editor, {**message, "id": prompt.id}, cancel_of(session))
        assert await prompt.result() == STOPPED
        await lives_on(editor, session)


async def test_in_the_middle_of_a_stream(tmp_path: Path, flags: Flags) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        for place in (1, 7, 30):
            since = len(editor.frames)
            prompt = await editor.prompt(session, "!delay 1\n!stream 100000 <{i}>")
            await editor.says(session, f"<{place}>", since)
            await editor.cancel(session)
            assert await prompt.result() == STOPPED
        await lives_on(editor, session, "<1><2><3>")


async def test_in_the_middle_of_a_flood(tmp_path: Path, flags: Flags) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        prompt = await editor.prompt(session, "!stream 1000000 x")
        await editor.says(session, "xxxx")
        await editor.cancel(session)
        assert await prompt.result() == STOPPED
        await lives_on(editor, session)


async def test_while_a_command_runs(tmp_path: Path, flags: Flags) -> None:
    async with local({**flags, "mode": "auto"}) as editor:
        session = await editor.open(tmp_path)
        prompt = await editor.prompt(session, SLEEP)
        await editor.shown(session, lambda screen: "begun" in str(screen.calls))
        await editor.cancel(session)
        assert await prompt.result() == STOPPED
        (call,) = editor.screen(session).calls.values()
        assert call["status"] == "failed"
        assert "begun" in str(call["content"])
        await lives_on(editor, session)


async def test_while_calls_run_side_by_side_and_others_wait(tmp_path: Path, flags: Flags) -> None:
    (tmp_path / "a").write_text("a")
    script = f'!call read {{"path": "a"}}\n{SLEEP}\n{SLEEP}\n!call read {{"path": "a"}}'
    async with local({**flags, "mode": "auto"}) as editor:
        session = await editor.open(tmp_path)
        prompt = await editor.prompt(session, script)
        await editor.shown(session, lambda screen: "begun" in str(screen.calls))
        await editor.cancel(session)
        assert await prompt.result() == STOPPED
        statuses = [call["status"] for call in editor.screen(session).calls.values()]
        assert statuses == ["completed", "failed", "failed", "failed"]
        await lives_on(editor, session)


async def test_while_a_failed_call_waits_to_be_repeated(tmp_path: Path, flags: Flags) -> None:
    retry = {"attempts": 3, "base": 60.0, "longest": 60.0}
    async with local({**flags, "retry": retry}) as editor:
        session = await editor.open(tmp_path)
        prompt = await editor.prompt(session, "!say part\n!fail 503")
        await editor.says(session, "starts again")
        await editor.cancel(session)
        assert await prompt.result() == STOPPED
        await lives_on(editor, session)


@pytest.mark.parametrize(
    "answer",
    [NEVER, CANCELLED, selected("allow"), selected("nonsense"), None, {"outcome": "allow_once"}],
    ids=["never", "cancelled", "allowed", "unknown", "null", "malformed"],
)
async def test_while_a_permission_is_asked_for(tmp_path: Path, flags: Flags, answer: Any) -> None:
    """Whatever the client answers after it has cancelled, or if it never does."""
    async with local(flags, answers={"session/request_permission": lambda _: NEVER}) as editor:
        session = await editor.open(tmp_path)
        prompt = await editor.prompt(session, '!call shell {"command": "touch done"}')
        question = await editor.asks()
        await editor.cancel(session)
        if answer is not NEVER:
            await editor.respond(question, answer)
        assert await prompt.result() == STOPPED
        withdrawn = [
            incoming.params["requestId"]
            for incoming in editor.incoming
            if incoming.method == "$/cancel_request"
        ]
        assert withdrawn == [question.id]
        await lives_on(editor, session)
        assert not (tmp_path / "done").exists()


async def test_a_late_answer_is_ignored(tmp_path: Path, flags: Flags) -> None:
    async with local(flags, answers={"session/request_permission": lambda _: NEVER}) as editor:
        session = await editor.open(tmp_path)
        prompt = await editor.prompt(session, '!call shell {"command": "touch done"}')
        question = await editor.asks()
        await editor.cancel(session)
        assert await prompt.result() == STOPPED
        await editor.respond(question, selected("allow"))
        await editor.refuse(question, RpcError(-32603, "Permission denied"))
        await lives_on(editor, session)
        assert not (tmp_path / "done").exists()


@pytest.mark.parametrize("what", ["idle", "twice", "unknown", "malformed"])
async def test_when_there_is_nothing_to_cancel_nothing_happens(
    tmp_path: Path, flags: Flags, what: str
) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        assert await editor.turn(session, "!say ok") == "end_turn"
        since = len(editor.frames)
        extra: dict[str, Any] = {"sessionId": session, "reason": "user", "_meta": {}}
        params = {
            "idle": extra,
            "twice": extra,
            "unknown": {"sessionId": "nope"},
            "malformed": {"sessionId": 5},
        }[what]
        for _ in range(2 if what == "twice" else 1):
            await editor.notify("session/cancel", params)
        await editor.barrier()
        assert [i for i in editor.incoming if i.index >= since and not i.is_response] == []
        await lives_on(editor, session, "[assistant] ok")


async def test_around_the_last_token(tmp_path: Path, flags: Flags) -> None:
    """Each prompt has one valid answer, whichever was faster; the next one is not touched."""
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        for number in range(100):
            prompt = await editor.prompt(session, f"!stream 3 {number},{{i}};")
            await editor.says(session, f"{number},{1 + number % 3};")
            await editor.cancel(session)
            stop = (await prompt.result())["stopReason"]
            assert stop in ("end_turn", "cancelled")
            assert len(prompt.responses) == 1
        await lives_on(editor, session, "99,1;")


# --- queued prompts -------------------------------------------------------------------------------


async def test_queued_prompts_are_cancelled_too(tmp_path: Path, flags: Flags) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        running = await editor.prompt(session, "!say begun\n!hang")
        queued = [await editor.prompt(session, f"!say queued {n}") for n in range(3)]
        await editor.says(session, "begun")
        await editor.cancel(session)
        for prompt in (running, *queued):
            assert await prompt.result() == STOPPED
        assert "queued" not in editor.screen(session).text()
        await lives_on(editor, session)


async def test_a_prompt_sent_together_with_the_cancel_runs(tmp_path: Path, flags: Flags) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        first = await editor.prompt(session, "!say begun\n!hang")
        await editor.says(session, "begun")
        second = editor.expect("session/prompt", editor.fresh_id())
        message = envelope("session/prompt", prompt_params(session, "!say second"))
        await together(editor, cancel_of(session), {**message, "id": second.id})
        assert await first.result() == STOPPED
        assert await second.result() == {"stopReason": "end_turn"}
        answered = (await first.wait()).index
        assert editor.screen(session, answered).text() == "second"


# --- by the id of the request ---------------------------------------------------------------------


async def test_a_running_prompt_is_cancelled_by_its_id(tmp_path: Path, flags: Flags) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        running = await editor.prompt(session, "!say begun\n!hang")
        queued = await editor.prompt(session, "!say queued")
        await editor.says(session, "begun")
        await editor.notify("$/cancel_request", {"requestId": running.id})
        assert await running.result() == STOPPED
        assert await queued.result() == {"stopReason": "end_turn"}


async def test_a_queued_prompt_is_cancelled_by_its_id(tmp_path: Path, flags: Flags) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        running = await editor.prompt(session, "!say begun\n!hang")
        queued = await editor.prompt(session, "!say queued")
        await editor.says(session, "begun")
        await editor.notify("$/cancel_request", {"requestId": queued.id})
        assert await queued.result() == STOPPED
        assert running.response is None
        await editor.cancel(session)
        assert await running.result() == STOPPED
        assert "queued" not in editor.screen(session).text()


async def test_a_prompt_is_cancelled_by_an_id_that_comes_right_behind_it(
    tmp_path: Path, flags: Flags
) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        prompt = editor.expect("session/prompt", "p")
        message = envelope("session/prompt", prompt_params(session, "!hang"))
        stop = envelope("$/cancel_request", {"requestId": "p"})
        await together(editor, {**message, "id": "p"}, stop)
        assert await prompt.result() == STOPPED
        await lives_on(editor, session)


@pytest.mark.parametrize("id", ["1", "nope", None, 99, True, {}])
async def test_another_id_cancels_nothing(tmp_path: Path, flags: Flags, id: Any) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        prompt = await editor.prompt(session, "!say begun\n!hang")
        await editor.says(session, "begun")
        await editor.notify("$/cancel_request", {"requestId": id})
        await editor.barrier()
        assert prompt.response is None
        await editor.cancel(session)
        assert await prompt.result() == STOPPED


# --- closing is cancelling ------------------------------------------------------------------------


@pytest.mark.parametrize("script", ["!say begun\n!hang", SLEEP])
async def test_closing_answers_the_prompt_then_the_close_then_is_silent(
    tmp_path: Path, flags: Flags, script: str
) -> None:
    async with local({**flags, "mode": "auto"}) as editor:
        session = await editor.open(tmp_path)
        running = await editor.prompt(session, script)
        queued = await editor.prompt(session, "!say queued")
        await editor.shown(session, lambda screen: "begun" in screen.text() + str(screen.calls))
        closed = await editor.start("session/close", {"sessionId": session})
        assert await closed.result() == {}
        assert await running.result() == STOPPED
        assert await queued.result() == STOPPED
        order = [(await sent.wait()).index for sent in (running, closed)]
        assert order == sorted(order)
        assert (await queued.wait()).index < order[1]
        assert editor.screen(session).open_calls == []
        await editor.barrier()
        assert editor.updates(session, order[1]) == []


async def test_closing_does_not_wait_for_a_client_that_never_answers(
    tmp_path: Path, flags: Flags
) -> None:
    answers: dict[str, Answerer] = {"session/request_permission": lambda _: NEVER}
    async with local(flags, answers=answers) as editor:
        session = await editor.open(tmp_path)
        prompt = await editor.prompt(session, '!call shell {"command": "touch done"}')
        await editor.asks()
        assert await editor.close(session) == {}
        assert await prompt.result() == STOPPED
        assert not (tmp_path / "done").exists()
