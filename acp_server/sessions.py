"""An ACP session: a live agent, its projector and the prompts that wait for their turn.

The projector and each settlement are separate observers of the same log: a projector that throws
cannot starve a settlement.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from acp_server.commands import explain
from acp_server.framing import INTERNAL_ERROR
from acp_server.permission import PermissionDesk
from acp_server.projection import State, Update, project, replay
from acp_server.rpc import Inbound, Peer, RpcError
from acp_server.settlement import CANCELLED, Outcome, Settlement
from harness_core.agent import AGENT_DISPOSED, INBOX_DISCARDED, Agent, InboxChange
from harness_core.bus import Next
from harness_core.content import UserBlock, UserMessage
from harness_core.facts import TurnEnd, TurnStart
from harness_core.harness import new_id
from harness_core.loop import PRE_STEP, PreStep
from harness_core.session import SESSION_EVENT, SessionEvent
from harness_core.tools.pipeline import APPROVE

log = logging.getLogger(__name__)

NOT_ECHOED = "user_message_chunk"
"""Live prompts are not sent back to the client that wrote them (B.1)."""


class AcpSession:
    """One session on one connection."""

    def __init__(self, agent: Agent, peer: Peer) -> None:
        self.agent = agent
        self.peer = peer
        self._state = self._fresh_state()
        for event in agent.session.events:
            project(event, self._state)
        self._waiting: dict[str, Waiter] = {}
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._even = asyncio.Event()
        self._even.set()
        self._closed = False
        agent.bus.on(SESSION_EVENT, self._show)
        agent.bus.on(SESSION_EVENT, self._settle)
        agent.bus.on(INBOX_DISCARDED, self._discarded)
        agent.bus.on(AGENT_DISPOSED, self._disposed)
        agent.bus.on(APPROVE, PermissionDesk(self).approve)
        agent.bus.on(PRE_STEP, self._take_turns)
        agent.bus.on(PRE_STEP, explain)

    @property
    def id(self) -> str:
        """The session's id."""
        return self.agent.session.id

    def _fresh_state(self) -> State:
        return State(str(self.agent.cwd), self.agent.tools.get)

    # --- to the client -------------------------------------------------------------------------

    def _show(self, event: SessionEvent) -> None:
        for update in project(event, self._state):
            if update["sessionUpdate"] != NOT_ECHOED:
                self.update(update)

    def update(self, update: Update) -> None:
        """Send a ``session/update``; it leaves after the log was handed to the system."""
        if not self._closed:
            params = {"sessionId": self.id, "update": update}
            self.peer.notify("session/update", params, self.agent.session.log.drain)

    async def request(self, method: str, params: dict[str, Any]) -> Any:
        """Ask the client something about this session. Raises as ``Peer.request``."""
        params = {"sessionId": self.id, **params}
        return await self.peer.request(method, params, self.agent.session.log.drain)

    def replay(self) -> None:
        """Send the whole conversation (V1-LOAD-02)."""
        for update in replay(list(self.agent.session.events), self._fresh_state()):
            self.update(update)

    # --- prompts -------------------------------------------------------------------------------

    async def prompt(self, inbound: Inbound, content: tuple[UserBlock, ...]) -> dict[str, Any]:
        """Run one prompt to its answer. Raises ``RpcError`` if its turn fails (V1-TURN-05).

        The waiter is in place before the message is queued, and everything of its turn is flushed
        and queued for the client before this returns (V1-TURN-04).
        """
        message = UserMessage(new_id(), content)
        waiter = self._waiting[message.id] = Waiter(message.id)
        self._quiet.clear()
        inbound.on_cancel = lambda: self.cancel_prompt(message.id)
        inbound.after.append(lambda: self._answered(message.id))
        self.agent.send(message)
        outcome = await waiter.outcome
        try:
            await self.agent.session.flush()
        except Exception as failure:
            raise RpcError(
                INTERNAL_ERROR,
                "this turn could not be saved: check that the disk is writable and not full",
                {"reason": "not-saved", "details": str(failure)},
            ) from None
        if outcome.error is not None:
            raise outcome.error
        return {"stopReason": outcome.stop}

    def _answered(self, message: str) -> None:
        self._waiting.pop(message, None)
        if not self._waiting:
            self._quiet.set()
        if not any(waiter.outcome.done() for waiter in self._waiting.values()):
            self._even.set()

    async def _take_turns(self, draft: PreStep, following: Next[PreStep, PreStep]) -> PreStep:
        """A turn shows nothing before the one before it is answered: clients add what they are
        shown to the prompt that they wait for."""
        await self._even.wait()
        return await following(draft)

    def _settle(self, event: SessionEvent) -> None:
        if not isinstance(event.fact, TurnStart | TurnEnd):  # what streams concerns nobody here
            return
        for waiter in self._waiting.values():
            outcome = waiter.settlement.observe(event)
            if outcome is not None:
                self._owe(waiter, outcome)

    def _discarded(self, change: InboxChange) -> None:
        waiter = self._waiting.get(change.message.id)
        if waiter is not None:
            failed = RpcError(INTERNAL_ERROR, change.why, {"reason": "refused"})
            self._owe(waiter, Outcome(None, failed) if change.failed else CANCELLED)

    def _disposed(self, _: Agent) -> None:
        gone = RpcError(INTERNAL_ERROR, "the session ended before the turn did")
        for waiter in self._waiting.values():
            self._owe(waiter, Outcome(None, gone))

    def _owe(self, waiter: Waiter, outcome: Outcome) -> None:
        """The outcome is known; until the answer is sent, nothing new is begun."""
        waiter.settle(outcome)
        self._even.clear()

    def cancel(self) -> None:
        """``session/cancel``: the running turn and everything queued (V1-CANCEL-02, V1-TURN-07)."""
        for id in list(self._waiting):
            self.agent.discard(id)
        self.agent.cancel("user")

    def cancel_prompt(self, message: str) -> None:
        """``$/cancel_request`` naming one prompt (V1-CREQ-05)."""
        waiter = self._waiting.get(message)
        if waiter is None or self.agent.discard(message):
            return
        if self.agent.turn is not None and waiter.settlement.turn == self.agent.turn.number:
            self.agent.cancel("user")

    # --- the end -------------------------------------------------------------------------------

    async def close(self) -> None:
        """End it: the turn is cancelled, its prompt answered, and nothing follows (V1-CLOSE-05)."""
        await self.agent.dispose()
        await self._quiet.wait()
        self._closed = True


class Waiter:
    """A prompt's settlement and the future that its request awaits."""

    def __init__(self, message: str) -> None:
        self.settlement = Settlement(message)
        self.outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

    def settle(self, outcome: Outcome) -> None:
        """Set the outcome; only the first counts."""
        if not self.outcome.done():
            self.outcome.set_result(outcome)
