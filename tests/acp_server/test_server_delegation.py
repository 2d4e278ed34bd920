"""The editor's files and terminals: used where offered, consistently, and always given back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from conformance.answers import Files, Terminals, constant, failing, never, select
from conformance.client import AgentRequest
from tests.acp_server.editor import local

pytestmark = pytest.mark.anyio

Flags = Mapping[str, Any]

FS = {"fs": {"readTextFile": True, "writeTextFile": True}}
TERMINAL = {"terminal": True}


@pytest.fixture
def auto(flags: Flags) -> Flags:
    return {**flags, "mode": "auto"}


def results(editor: Any, session: str) -> str:
    calls = editor.screen(session).calls.values()
    return "\n".join(str(call.get("content")) for call in calls)


# --- files ----------------------------------------------------------------------------------------


async def test_unsaved_text_is_read_and_an_edit_goes_through_the_editor(
    tmp_path: Path, auto: Flags
) -> None:
    file = tmp_path / "a.txt"
    file.write_text("on disk\n")
    files = Files({str(file): "unsaved\r\nlines\r\n"})
    async with local(auto, answers=files.answers()) as editor:
        session = await editor.open(tmp_path, FS)
        edit = '!call edit {"path": "a.txt", "old_text": "unsaved", "new_text": "saved"}'
        await editor.turn(session, f'!call read {{"path": "a.txt"}}\n!say then\n{edit}\n!say done')
        assert "unsaved" in results(editor, session)
        assert files.buffers[str(file)] == "saved\r\nlines\r\n"


async def test_a_new_file_goes_through_the_editor(tmp_path: Path, auto: Flags) -> None:
    files = Files()
    async with local(auto, answers=files.answers()) as editor:
        session = await editor.open(tmp_path, FS)
        await editor.turn(session, '!call write {"path": "sub/b.txt", "content": "new"}\n!say ok')
        assert files.buffers == {str(tmp_path / "sub" / "b.txt"): "new"}


async def test_a_missing_file_is_missing_however_the_editor_says_so(
    tmp_path: Path, auto: Flags
) -> None:
    for answer in (constant({"content": ""}), failing(-32002, "no such file")):
        async with local(auto, answers={"fs/read_text_file": answer}) as editor:
            session = await editor.open(tmp_path, FS)
            await editor.turn(session, '!call read {"path": "gone.txt"}\n!say ok')
            assert "gone.txt" in results(editor, session)
            assert [c["status"] for c in editor.screen(session).calls.values()] == ["failed"]


@pytest.mark.parametrize("answer", [{"content": 5}, {}, None, [], "text"])
async def test_nonsense_from_the_editor_is_an_error_of_the_call(
    tmp_path: Path, auto: Flags, answer: Any
) -> None:
    (tmp_path / "a.txt").write_text("on disk\n")
    async with local(auto, answers={"fs/read_text_file": constant(answer)}) as editor:
        session = await editor.open(tmp_path, FS)
        await editor.turn(session, '!call read {"path": "a.txt"}\n!say ok')
        assert [c["status"] for c in editor.screen(session).calls.values()] == ["failed"]


@pytest.mark.parametrize(
    "capabilities",
    [{}, {"fs": {"readTextFile": True}}, {"fs": {"writeTextFile": True}}, {"fs": None}],
)
async def test_half_an_offer_is_none(
    tmp_path: Path, auto: Flags, capabilities: dict[str, Any]
) -> None:
    (tmp_path / "a.txt").write_text("on disk\n")
    async with local(auto) as editor:
        session = await editor.open(tmp_path, capabilities)
        await editor.turn(session, '!call read {"path": "a.txt"}\n!say ok')
        assert "on disk" in results(editor, session)
        assert editor.requests == []


async def test_a_setting_turns_it_off(tmp_path: Path, auto: Flags) -> None:
    (tmp_path / "a.txt").write_text("on disk\n")
    async with local({**auto, "delegate": False}) as editor:
        session = await editor.open(tmp_path, {**FS, **TERMINAL})
        read = '!call read {"path": "a.txt"}'
        await editor.turn(session, f'{read}\n!call shell {{"command": "echo here"}}\n!say ok')
        assert "on disk" in results(editor, session)
        assert "here" in results(editor, session)
        assert editor.requests == []


async def test_policy_comes_before_the_editor(tmp_path: Path, flags: Flags) -> None:
    files = Files()
    answers = {**files.answers(), "session/request_permission": select("reject_once")}
    async with local(flags, answers=answers) as editor:
        session = await editor.open(tmp_path, FS)
        outside = '!call write {"path": "/etc/x", "content": "new"}'
        inside = '!call write {"path": "b.txt", "content": "new"}'
        await editor.turn(session, f"{outside}\n{inside}\n!say ok")
        assert files.buffers == {}


# --- terminals ------------------------------------------------------------------------------------


async def test_a_command_runs_in_the_editors_terminal_and_is_embedded(
    tmp_path: Path, auto: Flags
) -> None:
    async with Terminals() as terminals, local(auto, answers=terminals.answers()) as editor:
        session = await editor.open(tmp_path, TERMINAL)
        script = '!call shell {"command": "echo out; pwd; exit 3"}\n!result'
        await editor.turn(session, script)
        (call,) = editor.screen(session).calls.values()
        assert call["content"] == [{"type": "terminal", "terminalId": terminals.created[0]}]
        assert call["status"] == "failed"
        assert f"out\n{tmp_path.resolve()}\n[exit code 3]" in editor.screen(session).text()
        assert terminals.released == terminals.created


async def test_a_replay_shows_text_and_no_terminal(tmp_path: Path, auto: Flags) -> None:
    async with Terminals() as terminals, local(auto, answers=terminals.answers()) as editor:
        session = await editor.open(tmp_path, TERMINAL)
        await editor.turn(session, '!call shell {"command": "echo out"}\n!say ok')
        since = len(editor.frames)
        await (await editor.load(session, tmp_path)).result()
        (call,) = editor.screen(session, since).calls.values()
        assert "out" in str(call["content"])
        assert "terminal" not in str(call["content"])


async def test_a_timeout_kills_and_releases(tmp_path: Path, auto: Flags) -> None:
    async with Terminals() as terminals, local(auto, answers=terminals.answers()) as editor:
        session = await editor.open(tmp_path, TERMINAL)
        script = '!call shell {"command": "echo before; sleep 60", "timeout": 1}\n!result'
        await editor.turn(session, script)
        assert "timeout: not finished after 1 s" in editor.screen(session).text()
        assert terminals.released == terminals.created


async def test_a_cancel_kills_and_releases(tmp_path: Path, auto: Flags) -> None:
    async with Terminals() as terminals, local(auto, answers=terminals.answers()) as editor:
        session = await editor.open(tmp_path, TERMINAL)
        running = await editor.prompt(session, '!call shell {"command": "sleep 60"}\n!say no')
        await editor.asks("terminal/wait_for_exit")
        await editor.cancel(session)
        assert (await running.result())["stopReason"] == "cancelled"
        assert "terminal/kill" in [request.method for request in editor.requests]
        assert terminals.released == terminals.created
        assert await editor.turn(session, "!say next") == "end_turn"


async def test_a_terminal_that_comes_after_the_cancel_is_released(
    tmp_path: Path, auto: Flags
) -> None:
    async with local(auto, answers={"terminal/create": never}) as editor:
        session = await editor.open(tmp_path, TERMINAL)
        running = await editor.prompt(session, '!call shell {"command": "sleep 60"}\n!say no')
        asked: AgentRequest = await editor.asks("terminal/create")
        await editor.cancel(session)
        assert (await running.result())["stopReason"] == "cancelled"
        await editor.respond(asked, {"terminalId": "late"})
        released = await editor.asks("terminal/release")
        assert released.params["terminalId"] == "late"
        await editor.respond(released, {})


@pytest.mark.parametrize("method", ["terminal/create", "terminal/wait_for_exit", "terminal/output"])
async def test_an_error_of_the_editor_is_the_calls_and_all_is_released(
    tmp_path: Path, auto: Flags, method: str
) -> None:
    async with (
        Terminals(failing=[method]) as terminals,
        local(auto, answers=terminals.answers()) as editor,
    ):
        session = await editor.open(tmp_path, TERMINAL)
        assert await editor.turn(session, '!call shell {"command": "true"}\n!say ok') == "end_turn"
        assert [c["status"] for c in editor.screen(session).calls.values()] == ["failed"]
        assert terminals.released == terminals.created


async def test_a_terminals_output_is_plain_and_a_missing_signal_is_fine(
    tmp_path: Path, auto: Flags
) -> None:
    answers = {
        "terminal/create": constant({"terminalId": "t"}),
        "terminal/wait_for_exit": constant({"exitCode": 0}),
        "terminal/output": constant(
            {"output": "\x1b[1ma\x1b[0m\r\nb\r\n", "truncated": True, "exitStatus": {"exitCode": 0}}
        ),
        "terminal/release": constant(None),
    }
    async with local(auto, answers=answers) as editor:
        session = await editor.open(tmp_path, TERMINAL)
        await editor.turn(session, '!call shell {"command": "x"}\n!result')
        told = "[the beginning is left out]\na\nb\n[exit code 0]"
        assert told in editor.screen(session).text()
