"""The editor's terminals when the editor does not answer: nobody waits for it for long.

On a clock that jumps; with an editor that answers is dealt in ``test_server_delegation``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from itertools import repeat
from typing import Any

import anyio
import pytest

from acp_server.client_terminal import ANSWER, GOODBYE, ClientTerminals
from harness_core.facts import TurnEnd
from harness_core.model.scripted import asked, said
from harness_core.tools.pipeline import EXECUTE
from harness_core.tools.shell import Shell
from tests.harness_core.kit import World, call, play, world

ANSWERS: dict[str, Any] = {
    "terminal/create": {"terminalId": "t"},
    "terminal/wait_for_exit": {"exitCode": 0},
    "terminal/output": {"output": "printed", "exitStatus": {"exitCode": 0}},
    "terminal/kill": {},
    "terminal/release": {},
}


class Mute:
    """An editor that never answers some methods; what it was asked, in order."""

    def __init__(self, silent: Collection[str]) -> None:
        self.asked: list[str] = []
        self.heard = anyio.Event()
        """Set when it was asked what it does not answer."""
        self.answers: list[asyncio.Future[Any]] = []
        """What it owes."""
        self._silent = silent

    async def ask(self, method: str, params: dict[str, Any]) -> Any:
        self.asked.append(method.removeprefix("terminal/"))
        if method.removeprefix("terminal/") not in self._silent:
            return ANSWERS[method]
        self.heard.set()
        owed = asyncio.get_running_loop().create_future()
        self.answers.append(owed)
        return await owed


def using(made: World, editor: Mute) -> ClientTerminals:
    """Have the agent's commands run in the editor."""
    terminals = ClientTerminals(editor.ask, lambda: True, lambda call, terminal: None)
    made.agent.bus.on(EXECUTE, terminals.execute)
    return terminals


COMMAND = asked(call("c1", "shell", '{"command": "make", "timeout": 100}'))


@pytest.mark.parametrize(
    "silent",
    [
        {"create"},
        {"wait_for_exit"},
        {"output"},
        {"wait_for_exit", "kill"},
        {"wait_for_exit", "kill", "release"},
        {"output", "kill", "release"},
        {"release"},
    ],
    ids=lambda silent: ", ".join(sorted(silent)),
)
def test_a_cancel_waits_for_no_editor(silent: set[str]) -> None:
    async def scene() -> None:
        async with world(COMMAND, more=repeat(said("next")), tools=[Shell()]) as made:
            editor = Mute(silent)
            using(made, editor)
            made.send()
            await editor.heard.wait()
            cancelled = anyio.current_time()
            made.agent.cancel()
            await made.idle()
            assert anyio.current_time() - cancelled <= 2 * GOODBYE
            assert editor.asked.count("release") == (0 if silent == {"create"} else 1)
            assert editor.asked[-1] in ("create", "release")
            assert "kill" in editor.asked or not silent & {"wait_for_exit", "output"}
            assert (await made.turn()).kind == "completed"

    play(scene)


@pytest.mark.parametrize(
    ("silent", "told", "longest"),
    [
        ({"output"}, "did not say what it printed", ANSWER),
        ({"wait_for_exit", "kill"}, "not finished after 100 s", 100),
        ({"wait_for_exit", "kill", "output"}, "did not say what it printed", 100 + ANSWER),
        ({"release"}, "printed", 0),
    ],
    ids=["output", "kill", "kill, output", "release"],
)
def test_a_call_goes_on_without_an_answer(silent: set[str], told: str, longest: float) -> None:
    async def scene() -> None:
        async with world(COMMAND, more=repeat(said("next")), tools=[Shell()]) as made:
            editor = Mute(silent)
            using(made, editor)
            assert (await made.turn()).kind == "completed"
            assert anyio.current_time() <= longest + 2 * GOODBYE
            assert told in made.result_text("c1")
            assert editor.asked.count("release") == 1

    play(scene)


def test_a_terminal_that_comes_after_a_cancel_is_released() -> None:
    async def scene() -> None:
        async with world(COMMAND, more=repeat(said("next")), tools=[Shell()]) as made:
            editor = Mute({"create"})
            using(made, editor)
            made.send()
            await editor.heard.wait()
            made.agent.cancel()
            await made.until_logged(TurnEnd)
            (owed,) = editor.answers
            owed.set_result({"terminalId": "late"})
            await anyio.sleep(1)  # on this clock: until nothing can happen any more
            assert editor.asked == ["create", "release"]

    play(scene)
