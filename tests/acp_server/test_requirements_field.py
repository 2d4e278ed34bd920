"""What real editors do and real agents have failed at, where no other test looks."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from acp_server.server import METHODS
from conformance.answers import Files, constant, failing, never
from conformance.client import AgentRequest, Answerer, encode_line
from tests.acp_server.editor import COMMAND, TIMEOUT, Editor, local

pytestmark = pytest.mark.anyio

Flags = Mapping[str, Any]

FS = {"fs": {"readTextFile": True, "writeTextFile": True}}
LEFT_EARLY = ["answer.before-exit", "turn.uninvited-cancel", "terminal.released"]
INITIALIZE = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}


@pytest.fixture
def auto(flags: Flags) -> Flags:
    return {**flags, "mode": "auto"}


def statuses(editor: Editor, session: str) -> list[str]:
    return [call["status"] for call in editor.screen(session).calls.values()]


# --- files of the editor --------------------------------------------------------------------------


async def test_a_large_file_of_the_editor_is_read(tmp_path: Path, auto: Flags) -> None:
    file = tmp_path / "large.txt"
    file.touch()
    files = Files({str(file): "first\n" + "x" * 1_000_000})
    async with local(auto, answers=files.answers()) as editor:
        session = await editor.open(tmp_path, FS)
        await editor.turn(session, '!call read {"path": "large.txt", "limit": 1}\n!result')
        assert statuses(editor, session) == ["completed"]
        assert "first" in editor.screen(session).text()


async def test_an_editor_that_adds_a_final_newline_can_be_edited_again(
    tmp_path: Path, auto: Flags
) -> None:
    file = tmp_path / "a.txt"
    file.touch()
    files = Files({str(file): "one"})

    def write(request: AgentRequest) -> Any:
        files.buffers[request.params["path"]] = request.params["content"].rstrip("\n") + "\n"

    edits = '!call edit {"path": "a.txt", "old_text": "one", "new_text": "two"}\n!say then\n'
    edits += '!call edit {"path": "a.txt", "old_text": "two", "new_text": "three"}'
    answers = {**files.answers(), "fs/write_text_file": write}
    async with local(auto, answers=answers) as editor:
        session = await editor.open(tmp_path, FS)
        await editor.turn(session, f'!call read {{"path": "a.txt"}}\n!say then\n{edits}')
        assert statuses(editor, session) == ["completed"] * 3
        assert files.buffers[str(file)] == "three\n"


async def test_an_editor_that_denies_a_file_is_an_error_of_the_call(
    tmp_path: Path, auto: Flags
) -> None:
    (tmp_path / "a.txt").write_text("on disk")
    answers = {"fs/read_text_file": failing(-32603, "Permission denied")}
    async with local(auto, answers=answers) as editor:
        session = await editor.open(tmp_path, FS)
        await editor.turn(session, '!call read {"path": "a.txt"}\n!result')
        assert statuses(editor, session) == ["failed"]
        assert "permission denied" in editor.screen(session).text().lower()


@pytest.mark.parametrize(
    ("method", "script"),
    [
        ("fs/read_text_file", '!call read {"path": "a.txt"}'),
        ("fs/write_text_file", '!call write {"path": "b.txt", "content": "new"}'),
        ("elicitation/create", '!call ask {"question": "Really?"}'),
        ("terminal/create", '!call shell {"command": "true"}'),
        ("terminal/output", '!call shell {"command": "true"}'),
    ],
)
async def test_a_cancel_while_the_editor_owes_an_answer(
    tmp_path: Path, auto: Flags, method: str, script: str
) -> None:
    (tmp_path / "a.txt").write_text("on disk")
    capabilities = {**FS, "terminal": True, "elicitation": {"form": {}}}
    answers: dict[str, Answerer] = {
        **Files().answers(),
        "terminal/create": constant({"terminalId": "t"}),
        "terminal/wait_for_exit": constant({"exitCode": 0}),
        "terminal/kill": never,
        "terminal/release": never,
        method: never,
    }
    async with local(auto, answers=answers) as editor:
        session = await editor.open(tmp_path, capabilities)
        running = await editor.prompt(session, script)
        await editor.asks(method)
        other = await editor.new(tmp_path)
        assert await editor.turn(other, "!say not held up") == "end_turn"
        await editor.cancel(session)
        assert await running.result() == {"stopReason": "cancelled"}
        assert statuses(editor, session) == ["failed"]
        assert await editor.turn(session, "!say next") == "end_turn"


# --- sessions beside each other -------------------------------------------------------------------


async def test_opening_sessions_ends_no_other(tmp_path: Path, flags: Flags) -> None:
    async with local(flags) as editor:
        stored = await editor.open(tmp_path)
        await editor.turn(stored, "!say stored")
        await editor.close(stored)
        busy = await editor.new(tmp_path)
        running = await editor.prompt(busy, "!delay 1\n!stream 50 {i};")
        await editor.says(busy, "3;")
        await editor.new(tmp_path)
        await (await editor.load(stored, tmp_path)).result()
        assert await running.result() == {"stopReason": "end_turn"}
        assert editor.screen(busy).text().endswith("50;")


async def test_a_remote_server_that_never_answers_holds_up_nothing(
    tmp_path: Path, flags: Flags
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        server = {"type": "http", "name": "mute", "url": url, "headers": []}
        async with local({**flags, "mcp_wait": 0.05}) as editor:
            await editor.initialize()
            session = await editor.new(tmp_path, mcpServers=[server])
            assert await editor.turn(session, "!say at work") == "end_turn"
            assert "MCP server mute is still starting" in editor.screen(session).text()


# --- the connection -------------------------------------------------------------------------------


async def test_every_wrong_parameter_is_refused_at_once(tmp_path: Path, flags: Flags) -> None:
    """Left out, null, of another kind, or called something else: some clients do all of these."""
    async with local(flags, allowed=["client.schema"]) as editor:
        session = await editor.open(tmp_path)
        cwd, prompt = str(tmp_path), [{"type": "text", "text": "!say no"}]
        right: dict[str, dict[str, Any]] = {
            "authenticate": {"methodId": "key"},
            "session/new": {"cwd": cwd},
            "session/load": {"sessionId": session, "cwd": cwd},
            "session/resume": {"sessionId": session, "cwd": cwd},
            "session/fork": {"sessionId": session, "cwd": cwd},
            "session/set_mode": {"sessionId": session, "modeId": "ask"},
            "session/set_config_option": {"sessionId": session, "configId": "mode", "value": "ask"},
            "session/prompt": {"sessionId": session, "prompt": prompt},
            "_session/steering": {"sessionId": session, "prompt": prompt},
            "session/close": {"sessionId": session},
            "session/delete": {"sessionId": session},
        }
        assert METHODS.keys() - right.keys() == {"session/cancel", "session/list", "logout"}
        for method, params in right.items():
            for key, value in params.items():
                rest = {name: other for name, other in params.items() if name != key}
                for wrong in ({}, {key: None}, {key: {"x": 1}}, {f"{key}Id": value}):
                    error = await (await editor.start(method, {**rest, **wrong})).error()
                    assert error is not None, (method, wrong)
                    assert error.code == -32602, (method, wrong)
        assert await editor.turn(session, "!say still here") == "end_turn"
        assert editor.screen(session).text() == "still here"


async def test_an_answer_without_an_id_is_ignored(tmp_path: Path, flags: Flags) -> None:
    """Some clients answer notifications that they do not know."""
    async with local(flags, allowed=["client.known-id", "client.schema"]) as editor:
        session = await editor.open(tmp_path)
        await editor.barrier()
        since = len(editor.frames)
        error = {"code": -32601, "message": "Method not found"}
        await editor.send_raw(encode_line({"jsonrpc": "2.0", "id": None, "error": error}))
        await editor.barrier()
        assert len([i for i in editor.incoming if i.index >= since]) == 1
        assert await editor.turn(session, "!say ok") == "end_turn"


async def test_when_the_client_goes_its_terminal_is_not_waited_for(
    tmp_path: Path, auto: Flags
) -> None:
    answers = {
        "terminal/create": lambda _: {"terminalId": "t"},
        "terminal/wait_for_exit": never,
    }
    async with local(auto, answers=answers, allowed=LEFT_EARLY) as editor:
        session = await editor.open(tmp_path, {"terminal": True})
        running = await editor.prompt(session, '!call shell {"command": "sleep 600"}')
        await editor.asks("terminal/wait_for_exit")
        assert await editor.finish(TIMEOUT) == 0
        assert await running.result() == {"stopReason": "cancelled"}


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell and SIGKILL")
def test_an_agent_ends_by_itself_when_its_wrapper_was_killed(tmp_path: Path) -> None:
    """Its output ends only when the agent, which inherited it, has ended too."""
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    wrapped = ["sh", "-c", '"$@"; :', "sh", *COMMAND]
    with subprocess.Popen(
        wrapped, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as wrapper:
        assert wrapper.stdin is not None
        assert wrapper.stdout is not None
        wrapper.stdin.write(encode_line(INITIALIZE))
        wrapper.stdin.flush()
        assert json.loads(wrapper.stdout.readline())["id"] == 0
        wrapper.send_signal(signal.SIGKILL)
        rest, told = wrapper.communicate(timeout=60)
    assert (rest, told) == (b"", b"")
