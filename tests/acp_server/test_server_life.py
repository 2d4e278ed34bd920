"""The life of a connection: what comes first, what may come when, and how it ends."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from conformance.client import ABSENT, NEVER
from tests.acp_server.editor import TIMEOUT, Editor, local, prompt_params

pytestmark = pytest.mark.anyio

Flags = Mapping[str, Any]

INITIALIZE = {"protocolVersion": 1}
LEFT_EARLY = ["answer.before-exit", "turn.uninvited-cancel"]


async def error_code(editor: Editor, method: str, params: Any = ABSENT) -> int | None:
    error = await (await editor.start(method, params)).error()
    return None if error is None else error.code


# --- initialize -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1, 2, 999, 65535])
async def test_any_version_is_answered_with_the_one_spoken_here(flags: Flags, version: int) -> None:
    async with local(flags) as editor:
        result = await editor.request("initialize", {"protocolVersion": version})
        assert result["protocolVersion"] == 1
        assert result["agentInfo"]["name"] == "acp-harness"


@pytest.mark.parametrize(
    "params",
    [
        ABSENT,
        None,
        {},
        {"protocolVersion": None},
        {"protocolVersion": "1"},
        {"protocolVersion": "2024-11-05"},
        {"protocolVersion": -1},
        {"protocolVersion": 70_000},
        {"protocolVersion": 1.5},
        {"protocolVersion": True},
    ],
)
async def test_what_is_no_version_is_refused_and_a_later_one_taken(
    flags: Flags, params: Any
) -> None:
    async with local(flags) as editor:
        assert await error_code(editor, "initialize", params) == -32602
        assert (await editor.initialize())["protocolVersion"] == 1


@pytest.mark.parametrize("capabilities", [ABSENT, None, 5, "x", [], {"fs": 7, "terminal": "yes"}])
async def test_any_capabilities_will_do(tmp_path: Path, flags: Flags, capabilities: Any) -> None:
    """And without a clear offer nothing of the client is used."""
    params = dict(INITIALIZE)
    if capabilities is not ABSENT:
        params["clientCapabilities"] = capabilities
    async with local({**flags, "mode": "auto"}) as editor:
        await editor.request("initialize", params)
        session = await editor.new(tmp_path)
        script = '!call write {"path": "a", "content": "b"}\n!call shell {"command": "cat a"}'
        assert await editor.turn(session, script) == "end_turn"
        assert editor.requests == []


@pytest.mark.parametrize(
    "method",
    ["session/new", "session/prompt", "session/list", "authenticate", "unknown", "_x/y"],
)
async def test_nothing_is_served_before_initialize(flags: Flags, method: str) -> None:
    async with local(flags) as editor:
        assert await error_code(editor, method, {}) == -32600
        await editor.notify("session/cancel", {"sessionId": "s"})
        await editor.notify("unknown", {})
        assert await editor.initialize()


async def test_initialize_may_be_repeated_until_something_was_asked(flags: Flags) -> None:
    async with local(flags) as editor:
        await editor.initialize()
        assert await editor.initialize()
        assert await editor.request("session/list", {}) == {"sessions": []}
        assert await error_code(editor, "initialize", INITIALIZE) == -32600


async def test_everything_may_be_asked_in_one_write(tmp_path: Path, flags: Flags) -> None:
    asked: list[tuple[str, Any]] = [
        ("initialize", INITIALIZE),
        ("session/new", {"cwd": str(tmp_path), "mcpServers": []}),
        ("session/list", {}),
        ("session/prompt", prompt_params("nope", "hello")),
    ]
    async with local(flags) as editor:
        sent = await editor.pipelined(*asked)
        errors = [await request.error() for request in sent]
        assert [error and error.code for error in errors] == [None, None, None, -32002]
        assert (await sent[0].wait()).index < (await sent[1].wait()).index


# --- methods --------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["foo/bar", "_x/y", "session/unheard", "fs/read_text_file", ""])
async def test_an_unknown_request_is_said_to_be_unknown(flags: Flags, method: str) -> None:
    async with local(flags) as editor:
        await editor.initialize()
        assert await error_code(editor, method, {}) == -32601


async def test_an_unknown_notification_is_ignored(flags: Flags) -> None:
    async with local(flags) as editor:
        await editor.initialize()
        for method in ("foo/bar", "$/foo", "_x/y", "initialized", "session/prompt"):
            await editor.notify(method, {})
        await editor.barrier()
        assert len(editor.incoming) == 2


async def test_a_notification_of_a_request_does_nothing(tmp_path: Path, flags: Flags) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        await editor.notify("session/prompt", prompt_params(session, "!say unasked"))
        await editor.barrier()
        assert await editor.turn(session, "!say asked") == "end_turn"
        assert editor.screen(session).text() == "asked"


# --- signing in -----------------------------------------------------------------------------------


async def test_signing_in_needs_a_method_that_was_offered(flags: Flags) -> None:
    async with local(flags) as editor:
        offered = (await editor.initialize())["authMethods"]
        for id in ("nope", "", 5, None):
            assert await error_code(editor, "authenticate", {"methodId": id}) == -32602
        for method in offered:
            assert await editor.request("authenticate", {"methodId": method["id"]}) == {}


async def test_a_model_without_its_key_says_how_to_sign_in(
    tmp_path: Path, flags: Flags, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    async with local({**flags, "model": "anthropic:any"}) as editor:
        (method,) = (await editor.initialize())["authMethods"]
        sent = await editor.start("authenticate", {"methodId": method["id"]})
        error = await sent.error()
        assert error is not None
        assert error.code == -32000
        assert "ANTHROPIC_API_KEY" in error.message
        session = await editor.new(tmp_path)
        error = await (await editor.prompt(session, "hello")).error()
        assert error is not None
        assert error.code == -32000
        assert error.data["authMethods"] == [method]


# --- the end --------------------------------------------------------------------------------------


async def test_when_the_client_goes_its_prompts_end_as_cancelled(
    tmp_path: Path, flags: Flags
) -> None:
    async with local({**flags, "mode": "auto"}, allowed=LEFT_EARLY) as editor:
        session = await editor.open(tmp_path)
        running = await editor.prompt(
            session, '!call shell {"command": "echo $((6*7)); sleep 600"}'
        )
        queued = await editor.prompt(session, "!say queued")
        await editor.shown(session, lambda screen: "42" in str(screen.calls))
        assert await editor.finish(TIMEOUT) == 0
        assert await running.result() == await queued.result() == {"stopReason": "cancelled"}
        assert editor.screen(session).open_calls == []


async def test_when_the_client_goes_no_question_is_waited_for(tmp_path: Path, flags: Flags) -> None:
    answers = {"session/request_permission": lambda _: NEVER}
    async with local(flags, answers=answers, allowed=LEFT_EARLY) as editor:
        session = await editor.open(tmp_path)
        prompt = await editor.prompt(session, '!call shell {"command": "touch done"}')
        await editor.asks()
        assert await editor.finish(TIMEOUT) == 0
        assert await prompt.result() == {"stopReason": "cancelled"}
        assert not (tmp_path / "done").exists()


async def test_what_was_asked_right_before_the_end_is_answered(
    tmp_path: Path, flags: Flags
) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        await editor.turn(session, "!say before")
    async with local(flags, allowed=LEFT_EARLY) as editor:
        await editor.initialize()
        load = await editor.load(session, tmp_path)
        prompt = await editor.prompt(session, "!hang")
        listed = await editor.start("session/list", {})
        assert await editor.finish(TIMEOUT) == 0
        assert await load.result() is not None
        assert await prompt.result() == {"stopReason": "cancelled"}
        assert len((await listed.result())["sessions"]) == 1


async def test_a_client_that_goes_before_or_after_initialize_leaves_nothing(flags: Flags) -> None:
    async with local(flags):
        pass
    async with local(flags) as editor:
        await editor.initialize()


async def test_a_client_that_stops_reading_for_good_is_gone(tmp_path: Path, flags: Flags) -> None:
    async with local(flags, allowed=LEFT_EARLY) as editor:
        session = await editor.open(tmp_path)
        await editor.prompt(session, "!delay 1\n!stream 100000 {i}")
        await editor.says(session, "1")
        editor.process.close_stdout()
        assert await editor.process.wait(TIMEOUT) == 0


async def test_sigterm_is_the_end_of_input(tmp_path: Path, flags: Flags) -> None:
    async with local(flags, allowed=LEFT_EARLY) as editor:
        session = await editor.open(tmp_path)
        prompt = await editor.prompt(session, "!say begun\n!hang")
        await editor.says(session, "begun")
        os.kill(os.getpid(), signal.SIGTERM)
        assert await editor.process.wait(TIMEOUT) == 0
        assert await prompt.result() == {"stopReason": "cancelled"}


async def test_an_interrupt_is_not_for_the_agent(tmp_path: Path, flags: Flags) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        prompt = await editor.prompt(session, "!delay 1\n!stream 20 {i};")
        await editor.says(session, "3;")
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(0)
        assert await prompt.result() == {"stopReason": "end_turn"}
        assert editor.screen(session).text().endswith("20;")
