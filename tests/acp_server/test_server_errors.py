"""What fails is said: by an error that tells what to do, after everything the turn had shown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from conformance.client import RpcError
from tests.acp_server.editor import Editor, local

pytestmark = pytest.mark.anyio

Flags = Mapping[str, Any]


async def failed(editor: Editor, session: str, script: str) -> RpcError:
    """The error that a prompt is answered with; the session is usable afterwards."""
    with pytest.raises(RpcError) as caught:
        await editor.turn(session, script)
    assert editor.screen(session).open_calls == []
    assert await editor.turn(session, "!say still here") == "end_turn"
    return caught.value


# --- the model ------------------------------------------------------------------------------------


async def test_a_provider_that_refuses_the_key_says_how_to_sign_in(
    tmp_path: Path, flags: Flags
) -> None:
    async with local(flags) as editor:
        offered = (await editor.initialize())["authMethods"]
        session = await editor.new(tmp_path)
        error = await failed(editor, session, "!fail 401 this key is not known")
        assert error.code == -32000
        assert "this key is not known" in error.message
        assert error.data["authMethods"] == offered


@pytest.mark.parametrize(
    ("script", "data"),
    [
        ("!fail 500 it broke", {"reason": "server", "status": 500, "details": "it broke"}),
        ("!fail 429 slow down", {"reason": "rate-limit", "status": 429, "details": "slow down"}),
        ("!say part\n!cut", {"reason": "cut"}),
        ("!fail context-overflow", {"reason": "context-overflow"}),
        ("!call list {}\n!fail 503 busy", {"reason": "overloaded", "details": "busy"}),
    ],
)
async def test_a_failed_turn_is_an_error_with_its_reason(
    tmp_path: Path, flags: Flags, script: str, data: dict[str, Any]
) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        error = await failed(editor, session, script)
        assert error.code == -32603
        assert error.message
        assert {key: error.data[key] for key in data} == data


async def test_an_error_is_short_whatever_the_provider_says(tmp_path: Path, flags: Flags) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        error = await failed(editor, session, f"!fail 500 {'long ' * 50_000}")
        assert len(error.message) < 1_000


async def test_a_failed_call_is_repeated_and_what_it_showed_is_marked(
    tmp_path: Path, flags: Flags
) -> None:
    retry = {"attempts": 2, "base": 0.0}
    async with local({**flags, "retry": retry}) as editor:
        session = await editor.open(tmp_path)
        error = await failed(editor, session, "!say Once\n!cut")
        assert error.data["reason"] == "cut"
        screen = editor.screen(session)
        said = [item for item in screen.items if item[0] == "agent_message_chunk"]
        assert len(said) == 4
        assert screen.text().count("Once") == 3
        assert screen.text().count("starts again") == 2


# --- settings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"max_steps": "many"}, "max_steps"),
        ({"modle": "demo:demo"}, "modle"),
        ({"retry": {"attempts": -1}}, "retry.attempts"),
        ({"log_file": "/no/such/directory/log"}, "log_file"),
    ],
)
async def test_wrong_settings_are_said_when_a_session_is_wanted(
    tmp_path: Path, flags: Flags, wrong: dict[str, Any], named: str
) -> None:
    """The agent does not refuse to start: nobody would see why."""
    async with local({**flags, **wrong}) as editor:
        assert await editor.initialize()
        for method, params in (
            ("session/new", {"cwd": str(tmp_path), "mcpServers": []}),
            ("session/list", {}),
        ):
            with pytest.raises(RpcError) as caught:
                await editor.request(method, params)
            assert caught.value.code == -32603
            assert named in caught.value.message
            assert caught.value.data == {"reason": "settings"}


async def test_wrong_settings_are_said_to_a_client_in_a_hurry_too(
    tmp_path: Path, flags: Flags
) -> None:
    asked: list[tuple[str, dict[str, Any]]] = [
        ("initialize", {"protocolVersion": 1}),
        ("session/new", {"cwd": str(tmp_path)}),
        ("session/list", {}),
    ]
    async with local({**flags, "max_steps": "many"}) as editor:
        sent = await editor.pipelined(*asked)
        errors = [await request.error() for request in sent]
        assert [error and error.data for error in errors] == [None, *[{"reason": "settings"}] * 2]


async def test_a_wrong_file_is_named(
    tmp_path: Path, flags: Flags, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("model = ")
    monkeypatch.setenv("ACP_HARNESS_CONFIG", str(file))
    async with local(flags) as editor:
        await editor.initialize()
        with pytest.raises(RpcError) as caught:
            await editor.new(tmp_path)
        assert str(file) in caught.value.message


async def test_a_wrong_file_of_a_project_is_that_projects_problem(
    tmp_path: Path, flags: Flags
) -> None:
    wrong, right = tmp_path / "wrong", tmp_path / "right"
    for project, steps in ((wrong, '"many"'), (right, "3")):
        (project / ".acp-harness").mkdir(parents=True)
        (project / ".acp-harness" / "settings.toml").write_text(f"max_steps = {steps}\n")
    async with local(flags) as editor:
        await editor.initialize()
        with pytest.raises(RpcError) as caught:
            await editor.new(wrong)
        assert "max_steps" in caught.value.message
        session = await editor.new(right)
        assert await editor.turn(session, "!loop list {}") == "max_turn_requests"
        await editor.close(session)
        (right / ".acp-harness" / "settings.toml").write_text("max_steps = -1\n")
        with pytest.raises(RpcError) as caught:
            await (await editor.load(session, right)).result()
        assert "max_steps" in caught.value.message


async def test_what_nobody_has_foreseen_is_told_to_the_log_alone(
    tmp_path: Path, flags: Flags
) -> None:
    log = tmp_path / "log"
    wrong = {**flags, "data_dir": "~nobody_of_that_name/data", "log_file": str(log)}
    async with local(wrong) as editor:
        await editor.initialize()
        with pytest.raises(RpcError) as caught:
            await editor.new(tmp_path)
        assert (caught.value.code, caught.value.data) == (-32603, None)
        assert "log" in caught.value.message
    assert "Traceback" in log.read_text()


async def test_a_model_that_does_not_exist_is_said_in_the_turn(
    tmp_path: Path, flags: Flags
) -> None:
    async with local({**flags, "model": "nobody:nothing"}) as editor:
        session = await editor.open(tmp_path)
        with pytest.raises(RpcError) as caught:
            await editor.turn(session, "hello")
        assert "nobody" in caught.value.message


# --- the disk -------------------------------------------------------------------------------------


async def test_a_session_that_cannot_be_saved_says_so(tmp_path: Path, flags: Flags) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    async with local({**flags, "data_dir": str(in_the_way / "data")}) as editor:
        session = await editor.open(tmp_path)
        with pytest.raises(RpcError) as caught:
            await editor.turn(session, "!say hello")
        assert caught.value.code == -32603
        assert caught.value.data["reason"] == "not-saved"
        assert "saved" in caught.value.message


async def test_a_broken_log_is_named_and_only_that_session_is_lost(
    tmp_path: Path, flags: Flags
) -> None:
    async with local(flags) as editor:
        broken, whole = await editor.open(tmp_path), await editor.new(tmp_path)
        for session in (broken, whole):
            await editor.turn(session, "!say hello")
    garble(Path(flags["data_dir"]), broken)
    async with local(flags) as editor:
        await editor.initialize()
        with pytest.raises(RpcError) as caught:
            await (await editor.load(broken, tmp_path)).result()
        assert caught.value.code == -32603
        assert broken in caught.value.message
        await (await editor.load(whole, tmp_path)).result()
        assert editor.screen(whole).text() == "hello"


async def test_what_a_plugin_wrote_that_is_not_here_is_named(tmp_path: Path, flags: Flags) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        await editor.turn(session, "!say hello")
    (log,) = Path(flags["data_dir"]).rglob("log.jsonl")
    foreign = {"type": "weather/seen", "data": {"sky": "blue"}, "writer": "weather"}
    append(log, foreign)
    async with local(flags) as editor:
        await editor.initialize()
        params = {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []}
        for method in ("session/load", "session/resume", "session/fork"):
            with pytest.raises(RpcError) as caught:
                await editor.request(method, params)
            assert caught.value.code == -32603
            assert "weather/seen" in caught.value.message
            assert caught.value.data == {"sessionId": session}


def append(log: Path, fact: Mapping[str, Any]) -> None:
    """Add a line to a log as it would be written."""
    lines = log.read_bytes().splitlines(keepends=True)
    last = json.loads(lines[-1])
    line = {"seq": last["seq"] + 1, "time": last["time"], **fact}
    log.write_bytes(b"".join(lines) + json.dumps(line).encode() + b"\n")


def garble(data: Path, session: str) -> None:
    """Spoil a line in the middle of a session's log."""
    (log,) = (path for path in data.rglob("log.jsonl") if session in str(path))
    lines = log.read_bytes().splitlines(keepends=True)
    lines[3] = b"spoiled\n"
    log.write_bytes(b"".join(lines))


async def test_a_session_that_is_open_elsewhere_is_refused(tmp_path: Path, flags: Flags) -> None:
    async with local(flags) as first:
        session = await first.open(tmp_path)
        await first.turn(session, "!say hello")
        async with local(flags) as second:
            await second.initialize()
            with pytest.raises(RpcError) as caught:
                await (await second.load(session, tmp_path)).result()
            assert caught.value.code == -32603
            assert "in use" in caught.value.message
            with pytest.raises(RpcError):
                await second.request("session/delete", {"sessionId": session})
        assert await first.turn(session, "!say still here") == "end_turn"
