"""Whatever is switched on, and whoever prints: stdout holds messages, people read stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from conformance.answers import Files, constant, select
from tests.acp_server.editor import TIMEOUT, prompt_params, spawned
from tests.harness_core.mcp.bench import tiny

pytestmark = pytest.mark.anyio

Env = Mapping[str, str]

LOUD = (sys.executable, "-W", "default", "-X", "dev", "-m", "acp_server")

KEYRING = """
import logging, os, sys, warnings

print("Loaded cached credentials.")
sys.stdout.write("half a line")
os.write(1, b"to the descriptor")
os.system("echo from a child; echo and its errors >&2")
warnings.warn("this library is deprecated", DeprecationWarning)
logging.getLogger("keyring").warning("a record of a library")

priority = 5

def get_keyring():
    return sys.modules[__name__]

def get_password(service, entry):
    print("The keyring was unlocked.")
    return '{"SOME_API_KEY": "secret-of-the-keyring"}'
"""
"""A library that is loaded if it is installed, and says whatever comes to its mind."""

EVERYTHING = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    "auth": {"terminal": True},
    "elicitation": {"form": {}, "url": {}},
    "session": {"configOptions": {"boolean": {}}, "notices": {}, "compaction": {}},
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project in which something is wrong everywhere."""
    place = tmp_path / "project"
    files = {
        "AGENTS.md": "Be careful.",
        ".acp-harness/settings.toml": 'log_level = "debug"\nmax_steps = 9\n',
        ".claude/commands/broken.md": "---\nno end",
        ".claude/commands/fix.md": "Fix it",
        ".claude/skills/pdf/SKILL.md": "Fill forms",
        ".mcp.json": json.dumps({"mcpServers": {"strange": {"type": "x"}}}),
    }
    for name, text in files.items():
        file = place / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return place


@pytest.fixture
def loud(tmp_path: Path, env: Env) -> Env:
    """Every optional feature is on, with a library that prints and everything that warns."""
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "keyring.py").write_text(KEYRING, encoding="utf-8")
    server = tiny()
    settings = tmp_path / "settings.toml"
    settings.write_text(
        f"""
mode = "auto"
log_level = "debug"
project_mcp = true
mcp_wait = 60
[providers.strange]
kind = "openai"
base_url = "http://127.0.0.1:9/v1"
[mcp_servers.tiny]
command = {json.dumps(server.command)}
args = {json.dumps(server.args)}
[mcp_servers.missing]
command = "/no/such/program"
[mcp_servers.refused]
url = "http://127.0.0.1:9/mcp"
""",
        encoding="utf-8",
    )
    return {
        **env,
        "ACP_HARNESS_CONFIG": str(settings),
        "PYTHONPATH": str(tmp_path / "library"),
        "PYTHONASYNCIODEBUG": "1",
        "TERM": "xterm-256color",
        "FORCE_COLOR": "1",
    }


async def test_with_everything_on_stdout_holds_messages_only(project: Path, loud: Env) -> None:
    answers = {
        **Files().answers(),
        "session/request_permission": select("allow_always"),
        "elicitation/create": constant({"action": "accept", "content": {"answer": "yes"}}),
    }
    shell = r"printf '\033]0;title\007\033[31mred'; echo err >&2; python3 -c 'print(1)'"
    calls: list[tuple[str, dict[str, Any]]] = [
        ("mcp__tiny__junk", {}),
        ("shell", {"command": shell}),
        ("write", {"path": "a.txt", "content": "x"}),
        ("read", {"path": "AGENTS.md"}),
        ("ask", {"question": "Really?"}),
        ("nothing_like_that", {}),
    ]
    script = "\n".join(f"!call {name} {json.dumps(given)}" for name, given in calls)
    async with spawned(project, loud, command=LOUD, answers=answers, silent=False) as editor:
        offered = await editor.initialize(EVERYTHING)
        session = await editor.new(project)
        assert await editor.turn(session, f"!think hm\n!plan one\n{script}") == "end_turn"
        for command in ("/status", "/export", "/fix now", "/mode ask", "/fork"):
            await editor.turn(session, command)
        await (await editor.prompt(session, "!fail 500 it broke")).error()
        running = await editor.prompt(session, "!say begun\n!hang")
        await editor.says(session, "begun")
        await editor.request("_session/steering", prompt_params(session, "more"))
        await editor.cancel(session)
        await running.result()
        await editor.request("authenticate", {"methodId": offered["authMethods"][0]["id"]})
        params = {"sessionId": session, "cwd": str(project), "mcpServers": []}
        await editor.request("session/fork", params)
        await editor.close(session)
        await editor.request("session/load", params)
        await editor.request("session/delete", {"sessionId": session})
        assert await editor.finish(TIMEOUT) == 0
        assert editor.strays == []
        for told in (
            "Loaded cached credentials.",
            "half a line",
            "to the descriptor",
            "from a child",
            "this library is deprecated",
            "The keyring was unlocked.",
            "log_level can only be set in your own settings",
        ):
            assert told in editor.stderr
        assert "secret-of-the-keyring" not in editor.stderr
