"""An ACP session: a live agent, its projector and the prompts that wait for their turn.

The projector and each settlement are separate observers of the same log: a projector that throws
cannot starve a settlement.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

from acp_server.ask import AskUser
from acp_server.capabilities import ClientCapabilities
from acp_server.client_files import ClientFiles
from acp_server.client_terminal import ClientTerminals
from acp_server.commands import CommandDesk, explain
from acp_server.elicitation import ClientUser
from acp_server.framing import INTERNAL_ERROR
from acp_server.options import OptionsDesk
from acp_server.permission import PermissionDesk
from acp_server.projection import State, Update, project, rest
from acp_server.replay import replay
from acp_server.rpc import Inbound, Peer, RpcError
from acp_server.settlement import CANCELLED, Outcome, Settlement
from acp_server.terminal import PAUSE
from harness_core.agent import (
    AGENT_DISPOSED,
    INBOX_CLAIMED,
    INBOX_DISCARDED,
    Agent,
    AgentDisposed,
    InboxChange,
)
from harness_core.bus import Next
from harness_core.content import Usage, UserBlock, UserMessage
from harness_core.facts import SessionOption, ToolPrinted, TurnEnd, TurnStart
from harness_core.harness import new_id
from harness_core.loop import PRE_STEP, PreStep
from harness_core.model.prices import Cost, cost
from harness_core.model.protocol import ModelInfo, ModelSetupError
from harness_core.plugins.options import DELEGATE, MODE, options
from harness_core.session import SESSION_EVENT, SessionEvent
from harness_core.tools.pipeline import APPROVE, EXECUTE

log = logging.getLogger(__name__)

GONE = Outcome(None, RpcError(INTERNAL_ERROR, "the session ended before the turn did"))
"""What becomes of a prompt whose agent has failed."""

LULL = (PAUSE + 50) / 1000
"""Seconds after which nothing more is expected to follow what a command has printed."""

NOT_ECHOED = "user_message_chunk"
"""Live prompts are not sent back to the client that wrote them (B.1)."""


class AcpSession:
    """One session on one connection."""

    def __init__(
        self, agent: Agent, peer: Peer, client: ClientCapabilities, models: Sequence[ModelInfo]
    ) -> None:
        self.agent = agent
        self.peer = peer
        self._client = client
        self.options = OptionsDesk(agent, client.boolean_options, models)
        self.commands = CommandDesk(self)
        self._terminals: dict[str, str] = {}
        """The client's terminal that shows a call, by call id."""
        self._state = self._fresh_state()
        self._seen = 0
        """How many of the session's events the state knows."""
        self._waiting: dict[str, Waiter] = {}
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._owed = 0
        self._even = asyncio.Event()
        self._even.set()
        self._closed = False
        agent.bus.on(SESSION_EVENT, self._show)
        agent.bus.on(SESSION_EVENT, self._settle)
        agent.bus.on(INBOX_CLAIMED, self._claimed)
        agent.bus.on(INBOX_DISCARDED, self._discarded)
        agent.bus.on(AGENT_DISPOSED, self._disposed)
        agent.bus.on(APPROVE, PermissionDesk(self).approve)
        agent.bus.on(PRE_STEP, self._take_turns)
        agent.bus.on(PRE_STEP, explain)
        self._delegate()

    def _delegate(self) -> None:
        """Use the editor's files and terminals, where it offers them and the user wants it, and
        let it ask the user."""
        if self._client.read_files and self._client.write_files:
            self.agent.file_backend = ClientFiles(self.request, self._delegating)
        if self._client.terminal:
            terminals = ClientTerminals(self.request, self._delegating, self._embed)
            self.agent.bus.on(EXECUTE, terminals.execute)
        user = self.agent.person = ClientUser(self._client, self.request, self.peer.notify)
        if "form" in user.modes:
            self.agent.tools.register(AskUser(user))

    def _delegating(self) -> bool:
        return options(self.agent)[DELEGATE] is True

    def _embed(self, call: str, terminal: str) -> None:
        """Show a terminal in its tool call, from here on (V1-TERM-06)."""
        self._terminals[call] = terminal
        self.update(
            {
                "sessionUpdate": "tool_call_update",
                "toolCallId": call,
                "content": [{"type": "terminal", "terminalId": terminal}],
            }
        )

    @property
    def id(self) -> str:
        """The session's id."""
        return self.agent.session.id

    def _fresh_state(self) -> State:
        return State(
            str(self.agent.cwd),
            self.agent.tools.get,
            notices=self._client.notices,
            price=self._price,
        )

    def _price(self, model: str, usage: Usage) -> Cost | None:
        """What a call cost, if its provider is known here and its price to anybody."""
        if model.startswith(("demo:", "local:")):
            return None
        try:
            return cost(self.agent.runtime.model(model).info, usage)
        except ModelSetupError:
            return None

    # --- to the client -------------------------------------------------------------------------

    def _show(self, event: SessionEvent) -> None:
        if self._seen < event.seq:
            for untold in self.agent.session.events[self._seen : event.seq]:
                project(untold, self._state)
        self._seen = event.seq + 1
        for update in project(event, self._state):
            if update["sessionUpdate"] != NOT_ECHOED:
                self.update(self._with_terminal(update))
        match event.fact:
            case SessionOption() as fact:
                self._option_changed(fact)
            case ToolPrinted(call_id=call):
                asyncio.get_running_loop().call_later(LULL, self._show_rest, call)

    def _show_rest(self, call: str) -> None:
        """Show what a command printed last, though nothing has followed it."""
        for update in rest(call, self._state, int(time.time() * 1000)):
            self.update(self._with_terminal(update))

    def _with_terminal(self, update: Update) -> Update:
        """A call that a terminal shows keeps showing it; the text is for those who come later."""
        terminal = self._terminals.get(update.get("toolCallId", ""))
        if terminal is not None and "content" in update:
            return {**update, "content": [{"type": "terminal", "terminalId": terminal}]}
        return update

    def offer(self, models: Sequence[ModelInfo]) -> None:
        """Other models can be chosen from now."""
        self.options.models = models
        self._tell_options()

    def _tell_options(self) -> None:
        listed = self.options.listed()
        self.update({"sessionUpdate": "config_option_update", "configOptions": listed})

    def _option_changed(self, fact: SessionOption) -> None:
        """Tell of a change through both APIs, whoever made it (V1-MODE-03, V1-CFG-05)."""
        self._tell_options()
        if fact.id == MODE:
            self.update({"sessionUpdate": "current_mode_update", "currentModeId": fact.value})

    def update(self, update: Update) -> None:
        """Send a ``session/update``; it leaves after the log was handed to the system."""
        if not self._closed:
            params = {"sessionId": self.id, "update": update}
            self.peer.notify("session/update", params, self.agent.session.log.drain)

    async def request(self, method: str, params: dict[str, Any]) -> Any:
        """Ask the client something about this session. Raises as ``Peer.request``.

        What a turn asks goes on with the trace of its prompt (V1-EXT-04).
        """
        turn = self.agent.turn
        meta = {"_meta": turn.trace} if turn is not None and turn.trace else {}
        params = {"sessionId": self.id, **params, **meta}
        return await self.peer.request(method, params, self.agent.session.log.drain)

    def replay(self) -> None:
        """Send the whole conversation (V1-LOAD-02)."""
        events, state = self.agent.session.events, self._fresh_state()
        for update in replay(events, state):
            self.update(update)
        self._state, self._seen = state, len(events)

    # --- prompts -------------------------------------------------------------------------------

    def send(
        self, inbound: Inbound, content: tuple[UserBlock, ...], trace: Mapping[str, str]
    ) -> Waiter:
        """Queue a prompt. Its waiter is in place before its message is. Never waits."""
        waiter = Waiter(new_id(), inbound, trace)
        id = waiter.settlement.message
        self._waiting[id] = waiter
        self._quiet.clear()
        inbound.after.append(lambda: self._answered(id))
        try:
            self.agent.send(UserMessage(id, content))
        except AgentDisposed:
            self._decide(waiter, GONE)
        inbound.when_unwanted(lambda: self.cancel_prompt(id))
        return waiter

    async def answer(self, waiter: Waiter) -> dict[str, Any]:
        """Await a prompt's outcome. Raises ``RpcError`` if its turn failed (V1-TURN-05).

        Everything of its turn is flushed and queued for the client before this returns
        (V1-TURN-04).
        """
        outcome = await waiter.outcome
        try:
            await self.agent.session.flush()
        except Exception as failure:
            raise RpcError(
                INTERNAL_ERROR,
                "this turn could not be saved: check that the disk is writable and not full",
                {"reason": "not-saved", "details": str(failure)},
            ) from None
        if outcome.error is None:
            return {"stopReason": outcome.stop}
        if waiter.unwanted:  # it failed before it could be cancelled (V1-CANCEL-03)
            return {"stopReason": "cancelled"}
        raise outcome.error

    def _answered(self, message: str) -> None:
        self._waiting.pop(message, None)
        if not self._waiting:
            self._quiet.set()

    def owe(self, inbound: Inbound) -> None:
        """What ``inbound`` is answered is known: until it is sent, no turn shows anything new.
        Clients take what they are shown for a part of what they wait for."""
        self._owed += 1
        self._even.clear()
        inbound.after.append(self._pay)

    def _pay(self) -> None:
        self._owed -= 1
        if not self._owed:
            self._even.set()

    async def _take_turns(self, draft: PreStep, following: Next[PreStep, PreStep]) -> PreStep:
        await self._even.wait()
        return await following(draft)

    def _settle(self, event: SessionEvent) -> None:
        if not isinstance(event.fact, TurnStart | TurnEnd):  # what streams concerns nobody here
            return
        for waiter in self._waiting.values():
            outcome = waiter.settlement.observe(event)
            if outcome is not None:
                self._decide(waiter, outcome)
        if isinstance(event.fact, TurnEnd):
            self.commands.look()

    def _claimed(self, change: InboxChange) -> None:
        waiter, turn = self._waiting.get(change.message.id), self.agent.turn
        if waiter is not None and turn is not None:
            turn.trace = waiter.trace

    def _discarded(self, change: InboxChange) -> None:
        waiter = self._waiting.get(change.message.id)
        if waiter is not None:
            failed = RpcError(INTERNAL_ERROR, change.why, {"reason": "refused"})
            self._decide(waiter, Outcome(None, failed) if change.failed else CANCELLED)

    def _disposed(self, _: Agent) -> None:
        for waiter in self._waiting.values():
            self._decide(waiter, GONE)

    def _decide(self, waiter: Waiter, outcome: Outcome) -> None:
        """Settle a prompt; only the first outcome counts."""
        if not waiter.outcome.done():
            waiter.outcome.set_result(outcome)
            self.owe(waiter.inbound)

    def cancel(self) -> None:
        """``session/cancel``: the running turn and everything queued (V1-CANCEL-02, V1-TURN-07)."""
        for id, waiter in list(self._waiting.items()):
            waiter.unwanted = True
            self.agent.discard(id)
        self.agent.cancel("user")

    def cancel_prompt(self, message: str) -> None:
        """``$/cancel_request`` naming one prompt (V1-CREQ-05)."""
        waiter = self._waiting.get(message)
        if waiter is None:
            return
        waiter.unwanted = True
        turn = self.agent.turn
        if not self.agent.discard(message) and turn and waiter.settlement.turn == turn.number:
            self.agent.cancel("user")

    # --- the end -------------------------------------------------------------------------------

    async def close(self) -> None:
        """End it: the turn is cancelled, its prompt answered, and nothing follows (V1-CLOSE-05)."""
        await self.agent.dispose()
        await self._quiet.wait()
        self._closed = True


class Waiter:
    """A prompt's settlement, its request, and the future that awaits its outcome."""

    def __init__(self, message: str, inbound: Inbound, trace: Mapping[str, str]) -> None:
        self.settlement = Settlement(message)
        self.inbound = inbound
        self.unwanted = False
        """Whether the client has cancelled it."""
        self.trace = trace
        self.outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
