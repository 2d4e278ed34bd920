"""Forking a session, and steering a turn that runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from conformance.client import RpcError
from tests.acp_server.editor import Editor, local, prompt_params

pytestmark = pytest.mark.anyio

Flags = Mapping[str, Any]


async def fork(editor: Editor, session: str, cwd: Path, message: str | None = None) -> str:
    params: dict[str, Any] = {"sessionId": session, "cwd": str(cwd), "mcpServers": []}
    if message is not None:
        params["_meta"] = {"acp-harness": {"message": message}}
    return str((await editor.request("session/fork", params))["sessionId"])


async def context(editor: Editor, session: str) -> str:
    since = len(editor.frames)
    await editor.turn(session, "!context")
    return editor.screen(session, since).text()


async def test_a_fork_has_the_past_and_a_future_of_its_own(tmp_path: Path, flags: Flags) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        await editor.turn(session, "!say first")
        copy = await fork(editor, session, tmp_path)
        assert copy != session
        await editor.turn(copy, "!say only in the fork")
        assert "!say first" in await context(editor, copy)
        assert "only in the fork" not in await context(editor, session)


async def test_a_fork_at_a_message_of_the_agent_keeps_its_turn(
    tmp_path: Path, flags: Flags
) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        for word in ("one", "two", "three"):
            await editor.turn(session, f"!say {word}")
        id = editor.said(session)[1]["messageId"]
        past = await context(editor, await fork(editor, session, tmp_path, id))
        assert ("one" in past, "two" in past, "three" in past) == (True, True, False)


async def test_a_fork_at_a_message_of_the_user_leaves_it_out(tmp_path: Path, flags: Flags) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        for word in ("one", "two"):
            await editor.turn(session, f"!say {word}")
        since = len(editor.frames)
        await (await editor.load(session, tmp_path)).result()
        said = [
            update["messageId"]
            for update in editor.updates(session, since)
            if update["sessionUpdate"] == "user_message_chunk"
        ]
        past = await context(editor, await fork(editor, session, tmp_path, said[1]))
        assert ("one" in past, "two" in past) == (True, False)


async def test_a_fork_of_a_running_session_ends_before_its_turn(
    tmp_path: Path, flags: Flags
) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        await editor.turn(session, "!say one")
        running = await editor.prompt(session, "!say two\n!hang")
        await editor.says(session, "two")
        past = await context(editor, await fork(editor, session, tmp_path))
        assert ("one" in past, "two" in past) == (True, False)
        await editor.cancel(session)
        assert (await running.result())["stopReason"] == "cancelled"


@pytest.mark.parametrize(
    ("session", "message", "code"), [("nope", None, -32002), (None, "msg-9-1", -32602)]
)
async def test_what_cannot_be_forked_is_refused(
    tmp_path: Path, flags: Flags, session: str | None, message: str | None, code: int
) -> None:
    async with local(flags) as editor:
        ours = await editor.open(tmp_path)
        await editor.turn(ours, "!say one")
        with pytest.raises(RpcError) as refused:
            await fork(editor, session or ours, tmp_path, message)
        assert refused.value.code == code


# --- steering -------------------------------------------------------------------------------------


async def steer(editor: Editor, session: str, text: str, **meta: Any) -> Any:
    params = prompt_params(session, text)
    if meta:
        params["_meta"] = {"steering": meta}
    return await editor.request("_session/steering", params)


async def test_steering_reaches_the_turn_that_runs(tmp_path: Path, flags: Flags) -> None:
    async with local({**flags, "mode": "auto"}) as editor:
        session = await editor.open(tmp_path)
        script = '!say working\n!call shell {"command": "until [ -e go ]; do sleep 0.02; done"}'
        running = await editor.prompt(session, script)
        await editor.says(session, "working")
        assert await steer(editor, session, "!say steered") == {"outcome": "injected"}
        (tmp_path / "go").touch()
        assert (await running.result())["stopReason"] == "end_turn"
        assert "steered" in editor.screen(session).text()


async def test_with_no_turn_steering_starts_one_unless_a_prompt_is_wanted(
    tmp_path: Path, flags: Flags
) -> None:
    async with local(flags, allowed=["turn.unprompted"]) as editor:
        session = await editor.open(tmp_path)
        wanted = await steer(editor, session, "!say no", idleBehavior="promptRequired")
        assert wanted == {"outcome": "promptRequired", "reason": "noRunningTurn"}
        assert await steer(editor, session, "!say yes") == {"outcome": "startedNewTurn"}
        await editor.says(session, "yes")
        assert "no" not in editor.screen(session).text()
