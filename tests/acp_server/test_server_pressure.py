"""A client that does not read: the agent goes on, hears it, and loses and reorders nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.acp_server.editor import TIMEOUT, local

pytestmark = pytest.mark.anyio

Flags = Mapping[str, Any]

DELTAS = 12_000


async def appears(path: Path) -> None:
    """Wait for a file that the agent makes: what it writes to us is not read."""
    async with asyncio.timeout(TIMEOUT):
        while not path.exists():  # noqa: ASYNC110 - files give no sign
            await asyncio.sleep(0.01)


async def test_a_client_that_reads_nothing_can_still_cancel(tmp_path: Path, flags: Flags) -> None:
    script = f'!stream {DELTAS} {{i}},\n!call shell {{"command": "touch done"}}\n!hang'
    async with local({**flags, "mode": "auto"}) as editor:
        session = await editor.open(tmp_path)
        editor.process.pause(1)
        prompt = await editor.prompt(session, script)
        await appears(tmp_path / "done")
        await editor.cancel(session)
        await editor.notify("session/cancel", {"sessionId": session})
        editor.process.resume(1)
        assert await prompt.result() == {"stopReason": "cancelled"}
        expected = "".join(f"{i}," for i in range(1, DELTAS + 1))
        assert editor.screen(session).text() == expected
        assert len(editor.incoming) < DELTAS / 2
        assert await editor.turn(session, "!say ok") == "end_turn"


async def test_several_sessions_share_a_slow_client(tmp_path: Path, flags: Flags) -> None:
    script = '!stream 2000 {i},\n!call shell {"command": "touch done"}\n!stream 2000 {i};'
    async with local({**flags, "mode": "auto"}) as editor:
        await editor.initialize()
        places = [tmp_path / name for name in "abc"]
        for place in places:
            place.mkdir()
        sessions = [await editor.new(place) for place in places]
        editor.process.pause(1)
        prompts = [await editor.prompt(session, script) for session in sessions]
        for place in places:
            await appears(place / "done")
        editor.process.resume(1)
        for session, prompt in zip(sessions, prompts, strict=True):
            assert await prompt.result() == {"stopReason": "end_turn"}
            text = editor.screen(session).text()
            assert text.startswith("1,2,3,")
            assert "1999,2000,1;2;" in text
            assert text.endswith("1999;2000;")


async def test_what_a_command_prints_costs_little_more_than_itself(
    tmp_path: Path, flags: Flags
) -> None:
    command = "seq 35000"
    async with local({**flags, "mode": "auto"}) as editor:
        session = await editor.open(tmp_path)
        before = editor.process.bytes_out
        await editor.turn(session, f'!call shell {{"command": "{command}"}}')
        printed = len("".join(f"{n}\n" for n in range(1, 35_001)))
        assert editor.process.bytes_out - before < 3 * printed + 100_000


async def test_the_last_line_before_a_pause_is_shown(tmp_path: Path, flags: Flags) -> None:
    """A server that says that it listens and then waits has said so."""
    command = "echo star''ting; sleep 0.1; echo liste''ning; sleep 600"
    async with local({**flags, "mode": "auto"}) as editor:
        session = await editor.open(tmp_path)
        prompt = await editor.prompt(session, f'!call shell {{"command": "{command}"}}')
        await editor.shown(session, lambda screen: "listening" in str(screen.calls))
        await editor.cancel(session)
        await prompt.result()
