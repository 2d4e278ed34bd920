"""Cancelled after any message or byte: a prompt is answered once, and the next one runs to its end.

Offsets are counted in what was seen, not in time. Whether the turn or the cancel was faster at the
very end is nobody's business; what follows is.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from conformance.answers import select
from conformance.client import NEVER, AgentRequest, Sent, encode_line, envelope
from conformance.model_server import Hang, Malformed, ModelRequest, ModelServer, Reply
from tests.acp_server.editor import Editor, local, prompt_params

pytestmark = pytest.mark.anyio

Flags = Mapping[str, Any]

SCRIPT = """\
!delay 1
!think hm
!stream 8 {i},
!call read {"path": "a"}
!call read {"path": "missing"}
!call shell {"command": "echo one; sleep 0.01; echo two"}
!plan one; [>] two
!say then
!stream 8 {i};"""
"""Something of everything; running the command has to be allowed."""

STOPS = ("cancelled", "end_turn")


class Canceller:
    """Cancels prompts of one session when the agent has sent so many messages."""

    def __init__(self, editor: Editor, session: str) -> None:
        self._editor = editor
        self._session = session
        self._due = -1
        """The message after which nothing is answered any more."""

    def permit(self, request: AgentRequest) -> Any:
        """Allow, unless the cancel comes at this question."""
        return NEVER if len(self._editor.incoming) >= self._due else select("allow")(request)

    async def begin(self, offset: int) -> Sent:
        """Send the script; returns after ``offset`` messages, or when it is answered."""
        self._due = len(self._editor.incoming) + offset
        prompt = await self._editor.prompt(self._session, SCRIPT)
        await self._editor.until(
            lambda: prompt.response or len(self._editor.incoming) >= self._due, "message"
        )
        return prompt

    async def length(self) -> int:
        """How many messages the script makes if it is let alone."""
        self._editor.answers["session/request_permission"] = select("allow")
        since = len(self._editor.incoming)
        assert await self._editor.turn(self._session, SCRIPT) == "end_turn"
        self._editor.answers["session/request_permission"] = self.permit
        return len(self._editor.incoming) - since


async def goes_on(editor: Editor, session: str, word: str) -> None:
    """Nothing is left open, and a prompt does what it says and nothing else."""
    assert editor.screen(session).open_calls == []
    since = len(editor.frames)
    assert await editor.turn(session, f"!say {word}") == "end_turn"
    assert editor.screen(session, since).text() == word


async def test_after_every_message_of_a_turn(tmp_path: Path, flags: Flags) -> None:
    (tmp_path / "a").write_text("a")
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        canceller = Canceller(editor, session)
        stops = []
        for offset in range(await canceller.length() + 1):
            prompt = await canceller.begin(offset)
            await editor.cancel(session)
            stops.append((await prompt.result())["stopReason"])
            assert len(prompt.responses) == 1
            await goes_on(editor, session, f"after {offset}")
        assert set(stops) <= {*STOPS}
        assert stops.count("cancelled") > len(stops) / 2


@pytest.mark.parametrize("seed", range(4))
async def test_in_any_way_with_other_prompts_around(
    tmp_path: Path, flags: Flags, seed: int
) -> None:
    """By session, by request, both or twice; prompts that wait; one sent together with it."""
    (tmp_path / "a").write_text("a")
    chance = random.Random(seed)
    async with local(flags) as editor:
        session = await editor.open(tmp_path)
        canceller = Canceller(editor, session)
        length = await canceller.length()
        for number in range(12):
            prompt = await canceller.begin(chance.randrange(length + 1))
            queued = [
                await editor.prompt(session, f"!say queued {number}.{one}")
                for one in range(chance.randrange(3))
            ]
            by_session = envelope("session/cancel", {"sessionId": session})
            by_request = envelope("$/cancel_request", {"requestId": prompt.id})
            cancels = chance.choices([by_session, by_request], k=chance.randrange(1, 4))
            behind = editor.expect("session/prompt", editor.fresh_id())
            params = prompt_params(session, f"!say behind {number}")
            message = {**envelope("session/prompt", params), "id": behind.id}
            await editor.send_raw(b"".join(map(encode_line, [*cancels, message])))
            answered = 0
            for sent in (prompt, *queued):
                assert (await sent.result())["stopReason"] in STOPS
                answered = max(answered, (await sent.wait()).index)
            assert await behind.result() == {"stopReason": "end_turn"}
            assert editor.screen(session, answered).text() == f"behind {number}"
            await goes_on(editor, session, f"after {number}")


ANSWER = b"".join(
    b'data: {"id":"r","object":"chat.completion.chunk","model":"m","choices":[%s]}\n\n' % choice
    for choice in (
        b'{"index":0,"delta":{"role":"assistant","content":"Gr\xc3\xbc\xc3\x9fe "}}',
        b'{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","type":"function",'
        b'"function":{"name":"list","arguments":""}}]}}',
        b'{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\\"pa"}}]}}',
        b'{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"th\\":\\".\\"}"}}]}}',
        b'{"index":0,"delta":{},"finish_reason":"tool_calls"}',
    )
)
"""An answer of a provider as bytes: text, and a call in three pieces."""


async def test_after_any_byte_of_a_providers_answer(
    tmp_path: Path, flags: Flags, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    offset = 0

    def reply(request: ModelRequest) -> Reply:
        last = request.entries[-1].text
        if last.startswith("go on"):
            return Reply.say(last)
        return Reply.of(Malformed(ANSWER[:offset]), Hang())

    async with ModelServer(reply) as server:
        providers = {"openai": {"base_url": server.openai_base_url}}
        settings = {**flags, "model": "openai:fake-model", "providers": providers}
        async with local(settings) as editor:
            session = await editor.open(tmp_path)
            for offset in (0, *random.Random(0).sample(range(len(ANSWER)), 40), len(ANSWER)):
                asked = len(server.requests)
                prompt = await editor.prompt(session, "hello")
                await server.wait_for(lambda requests, asked=asked: len(requests) > asked, 60)
                await editor.barrier()
                await editor.cancel(session)
                assert await prompt.result() == {"stopReason": "cancelled"}
                assert editor.screen(session).open_calls == []
                since = len(editor.frames)
                assert await editor.turn(session, f"go on {offset}") == "end_turn"
                assert editor.screen(session, since).text() == f"go on {offset}"
