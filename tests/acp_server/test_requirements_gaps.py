"""Single promises of the protocol that no other test states, each as a user would notice it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from acp_server.capabilities import ClientCapabilities, initialize_result
from acp_server.projection import State, project
from conformance.answers import Terminals, constant
from conformance.client import RpcError
from harness_core.content import AssistantMessage, Usage
from harness_core.facts import AssistantSaid, RequestHeader
from harness_core.model.prices import Cost
from harness_core.model.protocol import ModelConfig
from harness_core.session import SessionEvent
from tests.acp_server.editor import Editor, local, spawned

pytestmark = pytest.mark.anyio

Flags = Mapping[str, Any]


CATEGORIES = {"mode", "model", "thought_level"}
RESERVED = {"traceparent", "tracestate", "baggage"}
PRINT = "import os; print('to print'); os.write(1, b'to descriptor')"
MISSING_SERVER = {"name": "missing", "command": "/no/such/program", "args": [], "env": []}
NOTICES: dict[str, Any] = {"session": {"notices": {}}}


def kinds(editor: Editor, session: str, since: int = 0) -> list[str]:
    return [update["sessionUpdate"] for update in editor.updates(session, since)]


async def system_prompt(editor: Editor, session: str) -> str:
    since = len(editor.frames)
    await editor.turn(session, "!context system")
    return editor.screen(session, since).text()


# --- capabilities ---------------------------------------------------------------------------------


def test_every_capability_is_stated() -> None:
    offered = initialize_result(ClientCapabilities())["agentCapabilities"]
    assert offered["loadSession"] is True
    assert offered["promptCapabilities"].keys() == {"image", "audio", "embeddedContext"}
    assert offered["mcpCapabilities"]["http"] is True
    assert {"list", "resume", "close", "delete", "fork"} <= offered["sessionCapabilities"].keys()
    assert offered["auth"] == {"logout": {}}


def members(value: Any) -> Iterator[tuple[str, Any]]:
    """Every member of every object in a value."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if isinstance(value, dict):
        yield from value.items()
    for one in inner:
        yield from members(one)


async def test_metadata_of_ours_uses_no_reserved_name(tmp_path: Path, flags: Flags) -> None:
    async with local({**flags, "mode": "auto"}) as editor:
        session = await editor.open(tmp_path)
        await editor.turn(session, '!plan one\n!call shell {"command": "echo x"}\n!say ok')
        metadata = [
            meta
            for incoming in editor.incoming
            for name, meta in members(incoming.message)
            if name == "_meta"
        ]
        assert metadata
        assert not [meta for meta in metadata if RESERVED & meta.keys()]


# --- signing in and out ---------------------------------------------------------------------------


async def test_a_terminal_login_cannot_be_called_and_names_no_command(flags: Flags) -> None:
    async with local(flags) as editor:
        offered = await editor.initialize({"auth": {"terminal": True}})
        (login,) = [m for m in offered["authMethods"] if m.get("type") == "terminal"]
        assert login.keys() <= {"type", "id", "name", "description", "args", "env"}
        with pytest.raises(RpcError) as refused:
            await editor.request("authenticate", {"methodId": login["id"]})
        assert refused.value.code == -32602


async def test_signed_out_means_signed_out_until_signed_in(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.mkdir()
    stored = config / "credentials.json"
    stored.write_text('{"OPENAI_API_KEY": "one"}')
    env = {
        "PATH": os.environ["PATH"],
        "ACP_HARNESS_CONFIG": str(config / "settings.toml"),
        "ACP_HARNESS_DATA_DIR": str(tmp_path / "data"),
        "ACP_HARNESS_MODEL": "openai:some-model",
        "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
    }
    async with spawned(tmp_path, env) as editor:
        (method,) = (await editor.initialize())["authMethods"]
        assert await editor.new(tmp_path)
        assert await editor.request("logout", {}) == {}
        assert not stored.exists()
        with pytest.raises(RpcError) as refused:
            await editor.new(tmp_path)
        assert refused.value.code == -32000
        assert refused.value.data["authMethods"] == [method]
        stored.write_text('{"OPENAI_API_KEY": "two"}')
        assert await editor.request("authenticate", {"methodId": method["id"]}) == {}
        assert await editor.new(tmp_path)


# --- directories ----------------------------------------------------------------------------------


async def test_commands_and_the_model_know_the_same_directory(tmp_path: Path, flags: Flags) -> None:
    places = [tmp_path / "here", tmp_path / "there"]
    async with local({**flags, "mode": "auto"}) as editor:
        await editor.initialize()
        for place in places:
            place.mkdir()
        sessions = [await editor.new(place) for place in places]
        script = '!call shell {"command": "pwd > where; pwd"}\n!result'
        prompts = [await editor.prompt(session, script) for session in sessions]
        for place, session, prompt in zip(places, sessions, prompts, strict=True):
            assert await prompt.result() == {"stopReason": "end_turn"}
            assert (place / "where").read_text().strip() == str(place.resolve())
            told = await system_prompt(editor, session)
            assert [str(place) in told for place in places] == [at is place for at in places]


async def test_a_directory_named_twice_counts_once(tmp_path: Path, flags: Flags) -> None:
    (tmp_path / "proj").mkdir()
    more = [tmp_path / "b", tmp_path / "a"]
    for directory in more:
        directory.mkdir()
        (directory / "AGENTS.md").write_text(f"the rules of {directory.name}")
    async with local(flags) as editor:
        await editor.initialize()
        named = [str(directory) for directory in (*more, *more)]
        session = await editor.new(tmp_path / "proj", additionalDirectories=named)
        told = await system_prompt(editor, session)
        assert [told.count(f"the rules of {name}") for name in "ab"] == [1, 1]
        assert told.index("the rules of b") < told.index("the rules of a")


async def test_a_fork_inherits_no_additional_directories(tmp_path: Path, flags: Flags) -> None:
    inside, beside = tmp_path / "inside", tmp_path / "beside"
    for directory in (inside, beside):
        directory.mkdir()
    (beside / "file").write_text("beside")
    async with local(flags) as editor:
        await editor.initialize()
        session = await editor.new(inside, additionalDirectories=[str(beside)])
        read = f'!call read {{"path": "{beside}/file"}}'
        await editor.turn(session, read)
        params = {"sessionId": session, "cwd": str(inside), "mcpServers": []}
        fork = (await editor.request("session/fork", params))["sessionId"]
        await editor.turn(fork, read)
        statuses = [
            [call["status"] for call in editor.screen(one).calls.values()]
            for one in (session, fork)
        ]
        assert statuses == [["completed"], ["failed"]]


# --- lists ----------------------------------------------------------------------------------------


async def test_a_page_of_the_list_is_bounded_and_its_times_are_utc(
    tmp_path: Path, flags: Flags
) -> None:
    async with local(flags) as editor:
        await editor.initialize()
        for _ in range(60):
            session = await editor.new(tmp_path)
            await editor.turn(session, "!say ok")
            await editor.close(session)
        page = await editor.request("session/list", {})
        assert 0 < len(page["sessions"]) < 60
        assert page["nextCursor"]
        for info in page["sessions"]:
            assert datetime.fromisoformat(info["updatedAt"]).utcoffset() == timedelta(0)


# --- modes and options ----------------------------------------------------------------------------


async def opened(editor: Editor, cwd: Path) -> tuple[str, list[dict[str, Any]]]:
    state = await editor.request("session/new", {"cwd": str(cwd), "mcpServers": []})
    return state["sessionId"], state["configOptions"]


def values(option: Mapping[str, Any]) -> list[str]:
    nested = [one["options"] if "group" in one else [one] for one in option["options"]]
    return [one["value"] for group in nested for one in group]


async def test_options_have_an_order_defaults_and_known_categories(
    tmp_path: Path, flags: Flags
) -> None:
    async with local(flags) as editor:
        await editor.initialize()
        _, options = await opened(editor, tmp_path)
        assert [option["id"] for option in options] == ["mode", "model", "thought_level"]
        for option in options:
            assert option["currentValue"] in values(option)
            assert option["category"] in CATEGORIES or option["category"].startswith("_")


async def test_a_changed_option_is_answered_and_announced_with_the_whole_list(
    tmp_path: Path, flags: Flags
) -> None:
    async with local(flags) as editor:
        await editor.initialize()
        session, before = await opened(editor, tmp_path)
        params = {"sessionId": session, "configId": "thought_level", "value": "high"}
        answered = (await editor.request("session/set_config_option", params))["configOptions"]
        changed = [
            {**o, "currentValue": "high"} if o["id"] == "thought_level" else o for o in before
        ]
        assert answered == changed
        told = [u for u in editor.updates(session) if u["sessionUpdate"] == "config_option_update"]
        assert [update["configOptions"] for update in told] == [changed]


async def test_the_mode_can_be_set_while_a_turn_runs(tmp_path: Path, flags: Flags) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        running = await editor.prompt(session, "!say go\n!hang")
        await editor.says(session, "go")
        await editor.request("session/set_mode", {"sessionId": session, "modeId": "plan"})
        told = [u for u in editor.updates(session) if u["sessionUpdate"] == "current_mode_update"]
        assert [update["currentModeId"] for update in told] == ["plan"]
        assert running.response is None
        await editor.cancel(session)
        assert (await running.result())["stopReason"] == "cancelled"


@pytest.mark.parametrize("capabilities", [{}, {"session": {"configOptions": {"boolean": None}}}])
async def test_no_boolean_option_is_shown_to_others(
    tmp_path: Path, flags: Flags, capabilities: dict[str, Any]
) -> None:
    async with local(flags) as editor:
        await editor.initialize(capabilities)
        session, begun = await opened(editor, tmp_path)
        params = {"sessionId": session, "configId": "mode", "value": "auto"}
        changed = (await editor.request("session/set_config_option", params))["configOptions"]
        await editor.turn(session, "!say ok")
        again = (await (await editor.load(session, tmp_path)).result())["configOptions"]
        assert {option["type"] for option in (*begun, *changed, *again)} == {"select"}


# --- questions ------------------------------------------------------------------------------------


async def test_a_question_is_a_flat_form_of_its_session(tmp_path: Path, flags: Flags) -> None:
    """One plain field, whatever the model asks: no address to click, nothing marked as secret."""
    answer = constant({"action": "accept", "content": {"answer": "blue"}})
    async with local(flags, answers={"elicitation/create": answer}) as editor:
        await editor.initialize({"elicitation": {"form": {}}})
        other, session = await editor.new(tmp_path), await editor.new(tmp_path)
        await editor.turn(session, '!call ask {"question": "Which colour?"}\n!result')
        (question,) = editor.requests
        assert question.params["sessionId"] == session != other
        schema = question.params["requestedSchema"]
        assert schema["type"] == "object"
        assert schema["properties"] == {"answer": {"type": "string", "title": "Answer"}}
        assert "The user answered: blue" in editor.screen(session).text()


async def test_the_model_is_told_to_ask_for_no_secrets(tmp_path: Path, flags: Flags) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path, {"elicitation": {"form": {}}})
        await editor.turn(session, "!context tools")
        assert "Never ask for passwords, keys or other secrets" in editor.screen(session).text()


# --- notices --------------------------------------------------------------------------------------


async def test_a_notice_is_live_only_and_a_line_of_text_for_other_clients(
    tmp_path: Path, flags: Flags
) -> None:
    told = "MCP server missing is not available"
    async with local({**flags, "mcp_wait": 60.0}) as editor:
        await editor.initialize(NOTICES)
        session = await editor.new(tmp_path, mcpServers=[MISSING_SERVER])
        await editor.turn(session, "!say at work")
        (notice,) = [u for u in editor.updates(session) if u["sessionUpdate"] == "notice"]
        assert told in notice["title"]
        assert editor.screen(session).text() == "at work"
        since = len(editor.frames)
        await (await editor.load(session, tmp_path)).result()
        assert "notice" not in kinds(editor, session, since)
        assert told not in editor.screen(session, since).text()
    async with local({**flags, "mcp_wait": 60.0}) as editor:
        await editor.initialize()
        session = await editor.new(tmp_path, mcpServers=[MISSING_SERVER])
        await editor.turn(session, "!say at work")
        assert "notice" not in kinds(editor, session)
        assert told in editor.screen(session).text()


# --- terminals ------------------------------------------------------------------------------------


async def test_a_cancel_withdraws_the_wait_for_a_terminal(tmp_path: Path, flags: Flags) -> None:
    settings = {**flags, "mode": "auto"}
    async with Terminals() as terminals, local(settings, answers=terminals.answers()) as editor:
        session = await editor.open(tmp_path, {"terminal": True})
        running = await editor.prompt(session, '!call shell {"command": "sleep 60"}')
        waiting = await editor.asks("terminal/wait_for_exit")
        await editor.cancel(session)
        assert (await running.result())["stopReason"] == "cancelled"
        withdrawn = [
            incoming.params["requestId"]
            for incoming in editor.incoming
            if incoming.method == "$/cancel_request"
        ]
        assert withdrawn == [waiting.id]


# --- costs ----------------------------------------------------------------------------------------


def test_a_cost_is_the_sum_of_the_session_with_its_currency() -> None:
    state = State("/p", lambda name: None, price=lambda model, usage: Cost(0.25))
    facts = [
        RequestHeader(ModelConfig("some:model"), 1000),
        *[AssistantSaid(turn, 1, AssistantMessage(()), Usage(input=10)) for turn in (1, 2)],
    ]
    updates = [
        update
        for seq, fact in enumerate(facts)
        for update in project(SessionEvent("s", seq, 0, fact), state)
    ]
    costs = [{"amount": amount, "currency": "USD"} for amount in (0.25, 0.5)]
    assert [update["cost"] for update in updates] == costs


# --- streams --------------------------------------------------------------------------------------


async def test_large_prompts_are_taken(tmp_path: Path, flags: Flags) -> None:
    picture = {"type": "image", "mimeType": "image/png", "data": "A" * 6_000_000}
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        for prompt in (f"{'long ' * 20_000}\n!say ok", f"{'long ' * 1_000_000}\n!say ok"):
            assert await editor.turn(session, prompt) == "end_turn"
        assert await editor.turn(session, "!say I see", picture) == "end_turn"


async def test_odd_line_separators_are_text(tmp_path: Path, flags: Flags) -> None:
    text = "a\u2028b\u2029c\u0085d\x0be\x0cf"
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        line = json.dumps(
            {
                "jsonrpc": "2.0",
                "id": "odd",
                "method": "session/prompt",
                "params": {
                    "sessionId": session,
                    "prompt": [{"type": "text", "text": f"!say {text}"}],
                },
            },
            ensure_ascii=False,
        )
        sent = editor.expect("session/prompt", "odd")
        await editor.send_raw(line.encode() + b"\n")
        assert await sent.result() == {"stopReason": "end_turn"}
        assert editor.screen(session).text() == text


def test_what_anybody_prints_goes_to_stderr() -> None:
    """Also what a library prints, or writes to the descriptor, after the streams were taken."""
    program = f"""
from acp_server.stdio import guard
import os
_, target = guard()
{PRINT}
os.system("echo to child")
os.write(target, b"protocol")
"""
    done = subprocess.run(
        [sys.executable, "-u", "-c", program], capture_output=True, timeout=60, check=True
    )
    assert done.stdout == b"protocol"
    for said in (b"to print", b"to descriptor", b"to child"):
        assert said in done.stderr
