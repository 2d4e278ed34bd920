"""A client that does anything at any time: everything is answered, and nothing gets stuck.

Random sequences of what clients can do, over a real connection, with several sessions and an
unhelpful user. The judge of every conversation holds the rules of the protocol against the frames.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from conformance.answers import CANCELLED, selected
from conformance.client import NEVER, AgentRequest, Sent
from harness_core.history import repair
from harness_core.journal.jsonl import JsonlJournal
from harness_core.journal.protocol import SessionNotFound
from tests.acp_server.editor import Editor, local

SCRIPTS = (
    "!say a",
    "!think hm\n!stream 30 {i}",
    "!hang",
    "!fail 500 it broke",
    "!cut",
    "!refuse no",
    "!usage 5 6\n!stop length",
    '!call write {"path": "a.txt", "content": "x"}\n!call write {"path": "b.txt", "content": "y"}',
    '!call shell {"command": "echo one; echo two"}\n!result',
    '!call list {"path": "."}\n!call nothing {}\n!call read {"path": 5}',
    "!plan one; two",
    "/status",
    "/mode auto",
    "/fork",
)
ANSWERS: tuple[Any, ...] = (selected("allow"), selected("reject"), CANCELLED, NEVER, None, {"x": 1})

STEERED = (
    "turn.unprompted",
    "turn.late-update",
    "turn.late-permission",
    "load.late-replay",
    "resume.replay",
)
"""Rules that do not hold when steering has begun a turn: nobody has prompted it."""
FAILED = ("turn.cancel-error",)
"""What a client cannot tell apart: that a turn failed before its cancel came, or because of it."""

Step: TypeAlias = tuple[str, int, int]
STEPS = st.tuples(
    st.sampled_from(
        "new prompt prompt prompt prompt cancel cancel cancel_request steer close load resume fork "
        "delete mode option list wait look look".split()
    ),
    st.integers(0, 5),
    st.integers(0, 99),
)


def script(number: int) -> str:
    return SCRIPTS[number % len(SCRIPTS)]


class Somebody:
    """Does what the steps say. ``sessions`` are all that ever were."""

    def __init__(self, editor: Editor, cwd: Path, answers: list[Any]) -> None:
        self.editor = editor
        self.cwd = cwd
        self.sessions: list[str] = []
        self.sent: list[Sent] = []
        self._answers = answers
        editor.answers["session/request_permission"] = self._permit

    def _permit(self, _: AgentRequest) -> Any:
        return self._answers.pop() if self._answers else NEVER

    async def do(self, step: Step) -> None:
        name, which, how = step
        if not self.sessions:
            self.sessions.append(await self.editor.new(self.cwd))
        session = self.sessions[which % len(self.sessions)]
        opening = {"sessionId": session, "cwd": str(self.cwd), "mcpServers": []}
        of = {"sessionId": session}
        text = [{"type": "text", "text": script(how)}]
        match name:
            case "new":
                self.sessions.append(await self.editor.new(self.cwd))
            case "prompt":
                await self._ask("session/prompt", {**of, "prompt": text})
            case "steer":
                await self._ask("_session/steering", {**of, "prompt": text})
            case "cancel":
                await self.editor.cancel(session)
            case "cancel_request" if self.sent:
                id = self.sent[how % len(self.sent)].id
                await self.editor.notify("$/cancel_request", {"requestId": id})
            case "close" | "delete":
                await self._ask(f"session/{name}", of)
            case "load" | "resume" | "fork":
                await self._ask(f"session/{name}", opening)
            case "mode":
                mode = ("ask", "auto", "plan", "accept-edits", "no such")[how % 5]
                await self._ask("session/set_mode", {**of, "modeId": mode})
            case "option":
                change = {"configId": "mode", "value": ("ask", "plan", 5)[how % 3]}
                await self._ask("session/set_config_option", {**of, **change})
            case "list":
                await self._ask("session/list", {})
            case "wait" if self.sent:
                await asyncio.wait(
                    [asyncio.ensure_future(self.sent[how % len(self.sent)].wait())], timeout=0.02
                )
            case "look":
                await self.editor.barrier()

    async def _ask(self, method: str, params: Mapping[str, Any]) -> None:
        self.sent.append(await self.editor.start(method, params))

    async def leave(self) -> None:
        """Nothing hangs: all is answered, and every open session answers once more."""
        for sent in self.sent:
            if sent.method == "session/fork" and (done := (await sent.wait()).message or {}):
                self.sessions += [done["result"]["sessionId"]] if "result" in done else []
        for session in self.sessions:
            await self.editor.cancel(session)
        for sent in self.sent:
            await sent.wait()
        for session in self.sessions:
            last = await self.editor.prompt(session, "!say still here")
            error = await last.error()
            assert error is None or error.code == -32002


def play(scene: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(scene(), 120))


@settings(
    max_examples=25,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
@example([("prompt", 0, 3)], [])  # it fails, and is cancelled before that is told
@example([("fork", 0, 0), ("cancel_request", 0, 0)], [])
@example([("delete", 0, 0), ("prompt", 0, 0), ("cancel_request", 0, 2)], [])
@example([("steer", 0, 12), ("load", 0, 0), ("steer", 0, 8), ("fork", 0, 0)], [NEVER])
@given(st.lists(STEPS, max_size=30), st.lists(st.sampled_from(ANSWERS), max_size=6))
def test_whatever_a_client_does_everything_is_answered(
    steps: list[Step], answers: list[Any]
) -> None:
    with tempfile.TemporaryDirectory() as place:
        cwd, data = Path(place, "cwd"), Path(place, "data")
        cwd.mkdir()
        flags = {"model": "demo:demo", "data_dir": str(data), "retry": {"attempts": 0}}

        async def scene() -> None:
            async with local(flags, allowed=allowed) as editor:
                await editor.initialize()
                somebody = Somebody(editor, cwd, list(answers))
                for step in steps:
                    await somebody.do(step)
                await somebody.leave()
                ids.extend(somebody.sessions)

        ids: list[str] = []
        allowed: set[str] = set()
        for name, _, how in steps:
            allowed |= set(STEERED) if name == "steer" else set()
            allowed |= set(FAILED) if script(how).startswith(("!fail", "!cut")) else set()
        play(scene)
        journal = JsonlJournal(data / "sessions")
        for id in ids:
            with suppress(SessionNotFound):
                assert repair(journal.read(id).events) == []
