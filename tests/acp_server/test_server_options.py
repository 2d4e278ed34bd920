"""Modes and config options: one source for both APIs, announced, checked, and remembered."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from conformance.answers import select
from conformance.client import RpcError
from tests.acp_server.editor import Editor, local

pytestmark = pytest.mark.anyio

Flags = Mapping[str, Any]

BOOLEANS: dict[str, Any] = {"session": {"configOptions": {"boolean": {}}}}
SHELL = '!call shell {"command": "echo ran > ran.txt"}'
WRITE = '!call write {"path": "new.txt", "content": "x"}'


def value(options: list[dict[str, Any]], id: str) -> Any:
    return next(option["currentValue"] for option in options if option["id"] == id)


def last(editor: Editor, session: str, kind: str) -> dict[str, Any]:
    return [u for u in editor.updates(session) if u["sessionUpdate"] == kind][-1]


async def new(editor: Editor, cwd: Path) -> Any:
    return await editor.request("session/new", {"cwd": str(cwd), "mcpServers": []})


async def set_option(editor: Editor, session: str, id: str, value: Any, **more: Any) -> Any:
    params = {"sessionId": session, "configId": id, "value": value, **more}
    return (await editor.request("session/set_config_option", params))["configOptions"]


async def test_both_apis_begin_alike_and_stay_alike(tmp_path: Path, flags: Flags) -> None:
    async with local(flags) as editor:
        await editor.initialize()
        state = await new(editor, tmp_path)
        session = state["sessionId"]
        assert state["modes"]["currentModeId"] == value(state["configOptions"], "mode") == "ask"
        listed = await set_option(editor, session, "mode", "plan")
        assert value(listed, "mode") == "plan"
        assert last(editor, session, "current_mode_update")["currentModeId"] == "plan"
        await editor.request("session/set_mode", {"sessionId": session, "modeId": "auto"})
        announced = last(editor, session, "config_option_update")["configOptions"]
        assert value(announced, "mode") == "auto"
        assert [o["id"] for o in announced] == [o["id"] for o in state["configOptions"]]


async def test_a_session_keeps_its_options_when_it_is_loaded_again(
    tmp_path: Path, flags: Flags
) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        await set_option(editor, session, "mode", "accept-edits")
        await set_option(editor, session, "thought_level", "high")
        await editor.turn(session, "!say hello")
    async with local({**flags, "mode": "plan"}) as editor:
        await editor.initialize()
        state = await (await editor.load(session, tmp_path)).result()
        assert state["modes"]["currentModeId"] == "accept-edits"
        assert value(state["configOptions"], "thought_level") == "high"


@pytest.mark.parametrize(
    ("id", "given", "told"),
    [
        ("mood", "x", "mode, model"),
        ("mode", "yolo", "accept-edits"),
        ("mode", True, "accept-edits"),
        ("thought_level", "extreme", "high"),
        ("delegate", False, "mode, model"),
    ],
)
async def test_what_is_not_offered_is_refused_with_what_is(
    tmp_path: Path, flags: Flags, id: str, given: Any, told: str
) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        with pytest.raises(RpcError, match=told) as refused:
            await set_option(editor, session, id, given)
        assert refused.value.code == -32602
        assert not [u for u in editor.updates(session) if "option" in u["sessionUpdate"]]


async def test_an_unknown_mode_and_an_unknown_session_are_refused(
    tmp_path: Path, flags: Flags
) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        for given, code in (
            ({"sessionId": session, "modeId": "x"}, -32602),
            ({"sessionId": "x", "modeId": "ask"}, -32002),
        ):
            with pytest.raises(RpcError) as refused:
                await editor.request("session/set_mode", given)
            assert refused.value.code == code


async def test_booleans_are_shown_to_clients_that_know_them(tmp_path: Path, flags: Flags) -> None:
    async with local(flags) as editor:
        await editor.initialize(BOOLEANS)
        session = (await new(editor, tmp_path))["sessionId"]
        listed = await set_option(editor, session, "delegate", False, type="boolean")
        assert value(listed, "delegate") is False
        with pytest.raises(RpcError, match="boolean"):
            await set_option(editor, session, "delegate", "no")


async def test_in_plan_mode_nothing_is_changed_and_nobody_is_asked(
    tmp_path: Path, flags: Flags
) -> None:
    async with local({**flags, "mode": "plan"}) as editor:
        session = await editor.open(tmp_path)
        await editor.turn(session, f"{SHELL}\n{WRITE}\n!say done")
        statuses = [call["status"] for call in editor.screen(session).calls.values()]
        assert statuses == ["failed", "failed"]
        assert editor.requests == []
        assert list(tmp_path.iterdir()) == []


async def test_accepting_edits_still_asks_before_running(tmp_path: Path, flags: Flags) -> None:
    answers = {"session/request_permission": select("reject_once")}
    async with local({**flags, "mode": "accept-edits"}, answers=answers) as editor:
        session = await editor.open(tmp_path)
        await editor.turn(session, f"{WRITE}\n{SHELL}\n!say done")
        assert [request.method for request in editor.requests] == ["session/request_permission"]
        assert [path.name for path in tmp_path.iterdir()] == ["new.txt"]


async def test_a_mode_can_change_while_a_turn_runs(tmp_path: Path, flags: Flags) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        running = await editor.prompt(session, "!say go\n!hang")
        await editor.says(session, "go")
        assert value(await set_option(editor, session, "mode", "auto"), "mode") == "auto"
        await editor.cancel(session)
        assert (await running.result())["stopReason"] == "cancelled"
        await editor.turn(session, f"{WRITE}\n!say done")
        assert (tmp_path / "new.txt").exists()


async def test_the_chosen_model_is_the_one_that_is_called(tmp_path: Path, flags: Flags) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        assert await editor.turn(session, "/model nowhere:x") == "end_turn"
        with pytest.raises(RpcError, match="nowhere"):
            await editor.turn(session, "!say hello")
        await editor.turn(session, "/model demo:demo")
        assert await editor.turn(session, "!say hello") == "end_turn"


# --- what is remembered ---------------------------------------------------------------------------


async def test_always_holds_for_the_project_until_it_is_revoked(
    tmp_path: Path, flags: Flags
) -> None:
    answers = {"session/request_permission": select("allow_always")}
    listing = '!call shell {"command": "ls -a"}\n!say done'
    async with local(flags, answers=answers) as editor:
        session = await editor.open(tmp_path)
        await editor.turn(session, listing)
        option = editor.requests[0].params["options"][1]
        assert option["name"] == "Always allow commands that start with `ls` in this project"
        other = await editor.new(tmp_path)
        await editor.turn(other, '!call shell {"command": "ls"}\n!say done')
        assert len(editor.requests) == 1
        await editor.turn(other, '!call shell {"command": "ls; true"}\n!say done')
        assert len(editor.requests) == 2
    async with local(flags, answers=answers) as editor:
        session = await editor.open(tmp_path)
        await editor.turn(session, listing)
        assert editor.requests == []
        await editor.turn(session, "/permissions")
        assert "shell:ls" in editor.screen(session).text()
        await editor.turn(session, "/permissions revoke shell:ls")
        await editor.turn(session, listing)
        assert len(editor.requests) == 1
