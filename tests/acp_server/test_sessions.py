"""An ACP session over a real agent: a prompt is answered whatever breaks, and the slot is free.

What a client cannot bring about (a check that blocks, a log that refuses, an agent that ends) is
brought about at the kernel's own seams.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_server.capabilities import ClientCapabilities
from acp_server.outbox import Outbox
from acp_server.rpc import Inbound, Peer, RpcError
from acp_server.sessions import AcpSession
from harness_core.bus import Next
from harness_core.content import Text, ToolCall
from harness_core.facts import Fact, FactRefused, SessionOption, TurnEnd, TurnStart
from harness_core.harness import Harness
from harness_core.journal.memory import MemoryJournal
from harness_core.loop import PRE_STEP, Block, PreStep
from harness_core.model.scripted import ScriptedModel, asked, said
from harness_core.session import SESSION_EVENT, Session, SessionEvent
from harness_core.tools.tool import Card, ToolContext, ToolOutput
from tests.acp_server.presenting import Anything, Presenting
from tests.acp_server.screen import Screen
from tests.acp_server.sink import MemorySink

pytestmark = pytest.mark.anyio


class Desk:
    """A session, its agent, and what its client has been sent."""

    def __init__(self, session: AcpSession, sink: MemorySink) -> None:
        self.session = session
        self.agent = session.agent
        self._sink = sink

    async def prompt(self, text: str = "hello") -> str:
        """Send a prompt and await its answer, as the peer does. Raises ``RpcError``."""
        inbound = Inbound(1)
        waiter = self.session.send(inbound, (Text(text),), {})
        try:
            with anyio.fail_after(20):
                return str((await self.session.answer(waiter))["stopReason"])
        finally:
            for function in inbound.after:
                function()

    @property
    def screen(self) -> Screen:
        return Screen(m["params"]["update"] for m in self._sink.messages if "params" in m)


@asynccontextmanager
async def desk(cwd: Path, *replies: Any, tools: tuple[Presenting, ...] = ()) -> AsyncIterator[Desk]:
    """A session whose model gives these replies, and then the word "again" for ever."""
    model = ScriptedModel((*replies, *[said("again")] * 20))
    journal = MemoryJournal()
    async with Harness(journal=journal, resolve=lambda _: model, tools=tools, env={}) as harness:
        agent = await harness.create(cwd)
        sink = MemorySink()
        peer = Peer(Outbox(sink), {}, {}, lambda _: None)
        yield Desk(AcpSession(agent, peer, ClientCapabilities(), []), sink)


async def test_a_check_that_blocks_is_a_refusal_that_says_who_and_why(tmp_path: Path) -> None:
    async def block(draft: PreStep, _: Next[PreStep, PreStep]) -> PreStep:
        return PreStep(draft.agent, draft.turn, draft.step, (), Block("policy", "not on Fridays"))

    async with desk(tmp_path) as it:
        dispose = it.agent.bus.on(PRE_STEP, block)
        assert await it.prompt() == "refusal"
        assert "policy: not on Fridays" in it.screen.text()
        dispose()
        assert await it.prompt() == "end_turn"


async def test_a_turn_that_a_hook_ends_is_not_cancelled_but_says_why(tmp_path: Path) -> None:
    """``cancelled`` is the client's word alone."""

    async def stop(draft: PreStep, following: Next[PreStep, PreStep]) -> PreStep:
        draft.agent.cancel("hook", "that is enough")
        return await following(draft)

    async with desk(tmp_path) as it:
        dispose = it.agent.bus.on(PRE_STEP, stop)
        assert await it.prompt() == "end_turn"
        assert "that is enough" in it.screen.text()
        dispose()
        assert await it.prompt() == "end_turn"


async def test_a_turn_that_cannot_begin_is_an_error(tmp_path: Path) -> None:
    def refuse(_: Session, fact: Fact) -> None:
        if isinstance(fact, TurnStart):
            raise FactRefused("no turns today")

    async with desk(tmp_path) as it:
        it.agent.session.validators.append(refuse)
        with pytest.raises(RpcError) as caught:
            await it.prompt()
        assert "no turns today" in caught.value.message
        it.agent.session.validators.clear()
        assert await it.prompt() == "end_turn"


async def test_a_turn_that_cannot_end_is_an_error_and_so_is_what_follows(tmp_path: Path) -> None:
    def refuse(_: Session, fact: Fact) -> None:
        if isinstance(fact, TurnEnd):
            raise FactRefused("no end in sight")

    async with desk(tmp_path) as it:
        it.agent.session.validators.append(refuse)
        for _ in range(2):
            with pytest.raises(RpcError):
                await it.prompt()
        with anyio.fail_after(20):
            await it.session.close()


async def test_a_prompt_to_an_agent_that_has_ended_is_an_error(tmp_path: Path) -> None:
    async with desk(tmp_path) as it:
        await it.agent.dispose()
        with pytest.raises(RpcError) as caught:
            await it.prompt()
        assert "ended" in caught.value.message


async def test_a_card_that_cannot_be_drawn_keeps_no_prompt_waiting(tmp_path: Path) -> None:
    """The projector and the settlement are separate observers."""

    class Unshowable(Presenting):
        @property
        def kind(self) -> Any:
            raise RuntimeError("no kind")

        @kind.setter
        def kind(self, _: Any) -> None:
            return

    tool = Unshowable(RuntimeError("no card"))
    call = ToolCall("c1", tool.name, "{}")
    async with desk(tmp_path, asked(call), tools=(tool,)) as it:
        assert await it.prompt() == "end_turn"
        assert await it.prompt() == "end_turn"


async def test_a_tool_that_crashes_gives_no_secret_away(tmp_path: Path) -> None:
    class Leaky(Presenting):
        async def execute(self, arguments: Anything, context: ToolContext) -> ToolOutput:
            raise RuntimeError("sk-very-secret")

    tool = Leaky(Card(title="Leak"))
    async with desk(tmp_path, asked(ToolCall("c1", tool.name, "{}")), tools=(tool,)) as it:
        it.agent.session.append(SessionOption("mode", "auto"))
        assert await it.prompt() == "end_turn"
        assert it.screen.calls["c1"]["status"] == "failed"
        sent = str(it.screen.items)
        assert "sk-very-secret" not in sent
        assert "Traceback" not in sent


async def test_an_observer_that_fails_is_nobody_elses_problem(tmp_path: Path) -> None:
    def fail(_: SessionEvent) -> None:
        raise RuntimeError("not my day")

    async with desk(tmp_path, said("hello")) as it:
        it.agent.session.bus.on(SESSION_EVENT, fail)
        assert await it.prompt() == "end_turn"
        assert it.screen.text() == "hello"


async def test_nothing_is_sent_for_a_session_that_was_closed(tmp_path: Path) -> None:
    async with desk(tmp_path) as it:
        await it.prompt()
        await it.session.close()
        before = len(it.screen.items)
        it.session.update({"sessionUpdate": "plan", "entries": []})
        await anyio.lowlevel.checkpoint()
        assert len(it.screen.items) == before
