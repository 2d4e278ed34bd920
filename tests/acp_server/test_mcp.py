"""MCP servers that a client names: never in its way, seen when they fail, gone with the session."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from conformance.client import RpcError
from tests.acp_server.editor import Editor, local, spawned
from tests.harness_core.mcp.bench import alive, pids, until
from tests.harness_core.mcp.bench import tiny as spec

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="looks at processes by POSIX means"),
]

Flags = Mapping[str, Any]

SILENT = {
    "name": "silent",
    "command": sys.executable,
    "args": ["-c", "import time; time.sleep(600)"],
    "env": [],
}
MISSING = {"name": "missing", "command": "/no/such/program", "args": [], "env": []}


def tiny(name: str = "tiny", *words: str, log: Path | None = None) -> dict[str, Any]:
    """A tiny server as a client names it."""
    made = spec(name, *words, log=log)
    env = [{"name": key, "value": value} for key, value in made.env.items()]
    return {"name": name, "command": made.command, "args": list(made.args), "env": env}


def patient(flags: Flags) -> Flags:
    """Turns wait for servers as long as a slow machine may need."""
    return {**flags, "mcp_wait": 60.0, "mode": "auto"}


# --- beginning ------------------------------------------------------------------------------------


async def test_a_session_begins_whatever_its_servers_do(tmp_path: Path, flags: Flags) -> None:
    async with local({**flags, "mcp_wait": 0.05}) as editor:
        await editor.initialize()
        session = await editor.new(tmp_path, mcpServers=[SILENT, MISSING])
        assert await editor.turn(session, "!say at work") == "end_turn"
        assert await editor.turn(session, "!say at work") == "end_turn"
        text = editor.screen(session).text()
        assert "MCP server silent is still starting" in text
        assert "at work" in text


async def test_a_turn_that_waits_for_a_server_can_be_cancelled(
    tmp_path: Path, flags: Flags
) -> None:
    async with local({**flags, "mcp_wait": 600.0}) as editor:
        await editor.initialize()
        session = await editor.new(tmp_path, mcpServers=[SILENT])
        prompt = await editor.prompt(session, "!say hello")
        await editor.cancel(session)
        assert (await prompt.result())["stopReason"] == "cancelled"


async def test_a_server_that_is_missing_is_seen_by_name(tmp_path: Path, flags: Flags) -> None:
    async with local(patient(flags)) as editor:
        await editor.initialize()
        session = await editor.new(tmp_path, mcpServers=[MISSING, tiny()])
        await editor.turn(session, '!call mcp__tiny__echo {"word": "hi"}\n!say done\n!result')
        screen = editor.screen(session)
        assert (
            "MCP server missing is not available: /no/such/program was not found" in screen.text()
        )
        (call,) = screen.calls.values()
        assert (call["title"], call["kind"], call["status"]) == (
            "Echo it (tiny)",
            "read",
            "completed",
        )
        assert '{"word": "hi"}' in screen.text()


async def test_what_only_looks_is_not_asked_for_and_the_rest_is(
    tmp_path: Path, flags: Flags
) -> None:
    async def allow(_: Any) -> dict[str, Any]:
        return {"outcome": {"outcome": "selected", "optionId": "allow"}}

    answers = {"session/request_permission": allow}
    async with local({**patient(flags), "mode": "ask"}, answers=answers) as editor:
        await editor.initialize()
        session = await editor.new(tmp_path, mcpServers=[tiny()])
        await editor.turn(session, "!call mcp__tiny__echo {}\n!call mcp__tiny__where {}")
        asked = [r for r in editor.requests if r.method == "session/request_permission"]
        assert [r.params["toolCall"]["title"] for r in asked] == ["where (tiny)"]


@pytest.mark.parametrize(
    "servers",
    [
        [{"type": "acp", "name": "x", "serverId": "y"}],
        [{"type": "http", "name": "x", "url": "ftp://h", "headers": []}],
        [MISSING, MISSING],
        [{"name": "x", "args": [], "env": []}],
    ],
)
async def test_a_list_that_cannot_be_meant_is_refused(
    tmp_path: Path, flags: Flags, servers: list[Any]
) -> None:
    async with local(flags) as editor:
        await editor.initialize()
        with pytest.raises(RpcError) as caught:
            await editor.new(tmp_path, mcpServers=servers)
        assert caught.value.code == -32602


# --- commands -------------------------------------------------------------------------------------


def commands(editor: Editor, session: str, since: int = 0) -> list[str]:
    """The commands that were announced last."""
    kind = "available_commands_update"
    found = [u for u in editor.updates(session, since) if u["sessionUpdate"] == kind]
    return [command["name"] for command in found[-1]["availableCommands"]] if found else []


async def test_prompts_of_servers_are_announced_as_commands(tmp_path: Path, flags: Flags) -> None:
    async with local(patient(flags)) as editor:
        await editor.initialize()
        session = await editor.new(tmp_path, mcpServers=[tiny("My server", "prompts")])
        await editor.until(
            lambda: "My_server:greet" in commands(editor, session), "command of the server"
        )
        assert {"init", "My_server:two_words", "My_server:plain"} <= {*commands(editor, session)}
        await editor.turn(session, "/My_server:greet Ada\n!context")
        assert "Ada" in editor.screen(session).text()


async def test_prompts_that_a_server_changes_are_announced_and_used(
    tmp_path: Path, flags: Flags
) -> None:
    async with local(patient(flags)) as editor:
        await editor.initialize()
        session = await editor.new(tmp_path, mcpServers=[tiny("tiny", "prompts")])
        await editor.turn(session, '!call mcp__tiny__compose {"word": "one"}')
        await editor.until(
            lambda: "tiny:composed" in commands(editor, session), "command of the server"
        )
        assert "tiny:greet" not in commands(editor, session)
        await editor.turn(session, "/tiny:composed\n!context")
        assert "composed {}" in editor.screen(session).text()
        since = len(editor.frames)
        await editor.turn(session, '!call mcp__tiny__compose {"word": "one"}\n!say ok')
        await editor.turn(session, "!say nothing changed")
        assert commands(editor, session, since) == []


# --- sessions of their own, and ends --------------------------------------------------------------


async def test_each_session_has_servers_of_its_own(tmp_path: Path, flags: Flags) -> None:
    logs = [tmp_path / "one.log", tmp_path / "two.log"]
    async with local(patient(flags)) as editor:
        await editor.initialize()
        one, two = [await editor.new(tmp_path, mcpServers=[tiny(log=log)]) for log in logs]
        for session in (one, two):
            await editor.turn(session, "!call mcp__tiny__where {}")
        (first,), (second,) = map(pids, logs)
        assert first != second
        await editor.close(one)
        assert not alive(first)
        assert alive(second)
        await editor.turn(two, "!call mcp__tiny__echo {}")
        assert {c["status"] for c in editor.screen(two).calls.values()} == {"completed"}


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
async def test_a_session_that_is_opened_again_has_the_servers_named_then(
    tmp_path: Path, flags: Flags, method: str
) -> None:
    old, new = tmp_path / "old.log", tmp_path / "new.log"
    async with local(patient(flags)) as editor:
        await editor.initialize()
        session = await editor.new(tmp_path, mcpServers=[tiny("old", log=old)])
        await editor.turn(session, "!call mcp__old__echo {}")
        for again in (True, False):
            if again:
                await editor.close(session)
            params = {"sessionId": session, "cwd": str(tmp_path)}
            await editor.request(method, {**params, "mcpServers": [tiny("new", log=new)]})
            since = len(editor.frames)
            await editor.turn(session, "!call mcp__new__echo {}\n!say ok")
            (call,) = [
                call
                for call in editor.screen(session, since).calls.values()
                if call["title"].startswith("Echo it (new)")
            ]
            assert call["status"] == "completed"
        assert len(pids(new)) == 1
        assert not alive(pids(old)[0])


@pytest.mark.parametrize("end", ["the end of input", "SIGTERM"])
async def test_no_server_outlives_the_agent(tmp_path: Path, end: str) -> None:
    log = tmp_path / "log"
    env = {
        "PATH": os.environ["PATH"],
        "ACP_HARNESS_CONFIG": str(tmp_path / "none.toml"),
        "ACP_HARNESS_DATA_DIR": str(tmp_path / "data"),
        "ACP_HARNESS_MCP_WAIT": "60",
    }
    servers = [tiny(log=log), tiny("other", "stubborn", log=log)]
    async with spawned(tmp_path, env) as editor:
        await editor.initialize()
        session = await editor.new(tmp_path, mcpServers=servers)
        await editor.turn(session, "!call mcp__tiny__junk {}")
        assert len(pids(log)) == 2
        assert all(map(alive, pids(log)))
        if end == "SIGTERM":
            editor.process.signal(signal.SIGTERM)
    await until(lambda: not any(map(alive, pids(log))))
