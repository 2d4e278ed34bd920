"""The installed command comes to its end: by itself, whatever goes on, and nothing stays behind."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from conformance.client import NEVER
from conformance.process import alive, survivors
from tests.acp_server.editor import COMMAND, TIMEOUT, Editor, judge, spawned

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="POSIX shells and signals"),
]

Env = Mapping[str, str]

SLEEP = """!call shell {"command": "sleep 600 & echo be''gun; wait"}"""
LEFT_EARLY = ["answer.before-exit", "turn.uninvited-cancel"]


@pytest.fixture
def env(env: dict[str, str]) -> dict[str, str]:
    return {**env, "ACP_HARNESS_MODE": "auto"}


async def running(editor: Editor, cwd: Path) -> str:
    """Begin a session and a command in it that runs in two processes; the session's id."""
    session = await editor.open(cwd)
    await editor.prompt(session, SLEEP)
    await editor.shown(session, lambda screen: "begun" in str(screen.calls))
    return session


async def ended(editor: Editor) -> None:
    """Whatever the agent has started is gone, though the agent itself may be gone before."""
    async with asyncio.timeout(TIMEOUT):
        while survivors(editor.process.marker):  # noqa: ASYNC110 - strangers give no sign
            await asyncio.sleep(0.01)


async def goes_on(cwd: Path, env: Env, session: str, said: str = "") -> None:
    """Another process opens the session, and everything in it is closed."""
    async with spawned(cwd, env) as editor:
        await editor.initialize()
        await (await editor.load(session, cwd)).result()
        screen = editor.screen(session)
        assert screen.open_calls == []
        assert said in screen.text()
        assert await editor.turn(session, "!say again") == "end_turn"


async def test_end_of_input_when_idle(tmp_path: Path, env: Env) -> None:
    async with spawned(tmp_path, env) as editor:
        session = await editor.open(tmp_path)
        await editor.turn(session, "!say ok")


async def test_end_of_input_while_a_command_runs(tmp_path: Path, env: Env) -> None:
    async with spawned(tmp_path, env, allowed=LEFT_EARLY) as editor:
        session = await running(editor, tmp_path)
        assert await editor.finish(TIMEOUT) == 0
        assert survivors(editor.process.marker) == []
        assert editor.screen(session).open_calls == []
    await goes_on(tmp_path, env, session)


async def test_end_of_input_while_permission_is_asked_for(tmp_path: Path, env: Env) -> None:
    answers = {"session/request_permission": lambda _: NEVER}
    asking = {**env, "ACP_HARNESS_MODE": "ask"}
    async with spawned(tmp_path, asking, answers=answers, allowed=LEFT_EARLY) as editor:
        session = await editor.open(tmp_path)
        prompt = await editor.prompt(session, SLEEP)
        await editor.asks()
        assert await editor.finish(TIMEOUT) == 0
        assert await prompt.result() == {"stopReason": "cancelled"}


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
async def test_a_signal_to_leave_while_a_command_runs(tmp_path: Path, env: Env, name: str) -> None:
    async with spawned(tmp_path, env, allowed=LEFT_EARLY) as editor:
        session = await running(editor, tmp_path)
        editor.process.signal(getattr(signal, name))
        assert await editor.process.wait(TIMEOUT) == 0
        assert survivors(editor.process.marker) == []
    await goes_on(tmp_path, env, session)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_signals_while_it_leaves_change_nothing(
    tmp_path: Path, env: Env, number: signal.Signals
) -> None:
    async with spawned(tmp_path, env) as editor:
        await editor.open(tmp_path)
        editor.close_stdin()
        await editor.until(lambda: editor.process.ended, "end of stdout")
        with suppress(ProcessLookupError):
            while editor.process.code is None:
                os.kill(editor.process.pid, number)
                await asyncio.sleep(0)
        assert await editor.process.wait(TIMEOUT) == 0


async def test_a_hang_up_that_was_to_be_ignored_is(tmp_path: Path, env: Env) -> None:
    async with spawned(tmp_path, env, command=("nohup", *COMMAND)) as editor:
        session = await editor.open(tmp_path)
        editor.process.signal(signal.SIGHUP)
        assert await editor.turn(session, "!say still here") == "end_turn"


async def test_a_client_that_closes_its_reading_end(tmp_path: Path, env: Env) -> None:
    async with spawned(tmp_path, env, allowed=LEFT_EARLY, silent=False) as editor:
        session = await editor.open(tmp_path)
        await editor.prompt(session, "!delay 1\n!stream 100000 {i};")
        await editor.says(session, "1;")
        editor.process.close_stdout()
        assert await editor.process.wait(TIMEOUT) == 0
    await goes_on(tmp_path, env, session, "1;")


async def test_a_client_that_does_not_read_stderr(tmp_path: Path, env: Env) -> None:
    """Debug logging fills the pipe; nothing waits for it, and the end does not either."""
    loud = {**env, "ACP_HARNESS_LOG_LEVEL": "debug", "PYTHONASYNCIODEBUG": "1"}
    async with spawned(tmp_path, loud, silent=False) as editor:
        editor.process.pause(2)
        session = await editor.open(tmp_path)
        await log_much(editor)
        assert await editor.turn(session, "!say ok") == "end_turn"
        assert await editor.finish(TIMEOUT) == 0


async def log_much(editor: Editor) -> None:
    """Make the agent log more than a pipe holds."""
    for id in range(2_000):
        await editor.send({"jsonrpc": "2.0", "id": f"stray-{id:0>50}", "result": {}})
    await editor.barrier()


async def test_an_agent_whose_wrapper_is_killed_ends_with_its_input(
    tmp_path: Path, env: Env
) -> None:
    wrapper = ("/bin/sh", "-c", f"{COMMAND[0]}; :")
    async with Editor.launch(wrapper, cwd=tmp_path, env=env, timeout=TIMEOUT) as editor:
        session = await running(editor, tmp_path)
        marker, shell = editor.process.marker, editor.process.pid
        agents = [pid for pid in survivors(marker) if pid != shell]
        assert agents
        os.kill(shell, signal.SIGKILL)
        editor.process.close_stdin()
        await asyncio.wait_for(gone(agents), TIMEOUT)
        assert survivors(marker) == []
        judge(editor, LEFT_EARLY)
    await goes_on(tmp_path, env, session)


async def gone(pids: list[int]) -> None:
    while any(map(alive, pids)):  # noqa: ASYNC110 - processes of others give no sign
        await asyncio.sleep(0.01)


async def test_an_agent_is_one_process(tmp_path: Path, env: Env) -> None:
    async with spawned(tmp_path, env) as editor:
        session = await editor.open(tmp_path)
        await editor.turn(session, "!say ok")
        assert survivors(editor.process.marker) == [editor.process.pid]


async def test_what_was_answered_survives_a_kill(tmp_path: Path, env: Env) -> None:
    for _ in range(3):
        async with Editor.launch(COMMAND, cwd=tmp_path, env=env, timeout=TIMEOUT) as editor:
            session = await editor.open(tmp_path)
            await editor.turn(session, "!stream 50 {i};")
            editor.process.signal(signal.SIGKILL)
            await editor.process.wait(TIMEOUT)
        await goes_on(tmp_path, env, session, "49;50;")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are found in /proc")
async def test_a_command_does_not_outlive_an_agent_that_is_killed(tmp_path: Path, env: Env) -> None:
    async with Editor.launch(COMMAND, cwd=tmp_path, env=env, timeout=TIMEOUT) as editor:
        await running(editor, tmp_path)
        editor.process.signal(signal.SIGKILL)
        await editor.process.wait(TIMEOUT)
        await ended(editor)


async def test_what_was_seen_survives_a_kill(tmp_path: Path, env: Env) -> None:
    async with Editor.launch(COMMAND, cwd=tmp_path, env=env, timeout=TIMEOUT) as editor:
        session = await editor.open(tmp_path)
        await editor.prompt(session, f"!stream 50 {{i}};\n{SLEEP}")
        await editor.shown(session, lambda screen: "begun" in str(screen.calls))
        editor.process.signal(signal.SIGKILL)
        await editor.process.wait(TIMEOUT)
    await goes_on(tmp_path, env, session, "49;50;")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
async def test_memory_does_not_grow_with_the_sessions_that_were(tmp_path: Path, env: Env) -> None:
    """After the first ones, which load what all need, and the list of models."""
    async with spawned(tmp_path, env) as editor:
        await editor.turn(await editor.open(tmp_path), "/model")

        async def resident(sessions: int) -> int:
            for _ in range(sessions):
                session = await editor.new(tmp_path)
                await editor.turn(session, '!say ok\n!call list {"path": "."}')
                await editor.close(session)
            pages = Path(f"/proc/{editor.process.pid}/statm").read_text().split()[1]
            return int(pages)

        warm = await resident(60)
        assert await resident(240) < 1.1 * warm
