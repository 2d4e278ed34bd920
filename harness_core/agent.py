"""An agent: one session brought to life, with an inbox, a driver and a way to end.

The agent decides *when* turns run and guarantees how they close; *what* a turn does is the loop's
business. Everything durable goes through ``session.append``; what is announced here is transient.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import anyio
import anyio.lowlevel

from harness_core.bus import Bus, Emit
from harness_core.cancellation import contain_leaks
from harness_core.content import UserMessage
from harness_core.facts import Cause, Fact, Reason, StepEnd, TurnEnd, TurnStart, UserSaid
from harness_core.history import NEVER_STARTED, close_calls
from harness_core.inbox import Inbox
from harness_core.person import Nobody, Person
from harness_core.session import Session
from harness_core.tools.registry import ToolRegistry

if TYPE_CHECKING:
    from harness_core.config import Settings
    from harness_core.loop import Loop
    from harness_core.runtime import Runtime
    from harness_core.tools.files import FileBackend, Files

log = logging.getLogger(__name__)

Status: TypeAlias = Literal["idle", "running"]

ABORTED = "This call was aborted before it finished; what it had done so far may remain."

PART_GRACE = 10.0
"""Seconds that a part of an agent may take to close when the agent ends."""


@dataclass(frozen=True, slots=True)
class StatusChange:
    """An agent became idle or running."""

    agent: Agent
    status: Status


@dataclass(frozen=True, slots=True)
class InboxChange:
    """A message came in, was claimed by a turn, or will never be; ``why`` tells the last."""

    agent: Agent
    message: UserMessage
    why: str = ""
    failed: bool = False
    """Whether it was discarded because no turn was possible, not because somebody wanted it."""


@dataclass(frozen=True, slots=True)
class AgentFailure:
    """Something failed. ``message`` is one sentence without secrets."""

    agent: Agent
    message: str
    code: str
    turn: int | None = None


AGENT_CREATED = Emit["Agent"]("agent/created", "An agent is live and can be sent to.")
AGENT_DISPOSED = Emit["Agent"]("agent/disposed", "An agent has ended; nothing follows.")
AGENT_STATUS = Emit[StatusChange]("agent/status", "An agent became idle or running.")
AGENT_ERROR = Emit[AgentFailure]("agent/error", "Something failed; tells before a turn closes.")
SESSION_START = Emit["Agent"]("agent/session-start", "Before the first turn: inject context here.")
INBOX_INSERTED = Emit[InboxChange]("agent/inbox/inserted", "A message waits.")
INBOX_CLAIMED = Emit[InboxChange]("agent/inbox/claimed", "A turn has taken a message.")
INBOX_DISCARDED = Emit[InboxChange]("agent/inbox/discarded", "A message was dropped unclaimed.")


class AgentDisposed(RuntimeError):
    """The agent has ended or is ending; it takes no more messages."""


class Turn:
    """A running turn, as the loop sees it."""

    def __init__(self, agent: Agent, number: int, messages: tuple[UserMessage, ...]) -> None:
        self.agent = agent
        self.number = number
        self.messages = messages
        self.unsaid = messages
        """What was claimed and no step has logged yet."""
        self.cause: Cause | None = None
        """Set as soon as somebody wants it to end."""
        self.why: str | None = None
        self.trace: Mapping[str, str] = {}
        """W3C trace context, by header name: whoever is called during the turn is told."""
        self.scope = anyio.CancelScope()

    def cancel(self, cause: Cause, why: str | None = None) -> None:
        """Ask it to end. Only the first cause counts."""
        if self.cause is None:
            self.cause, self.why = cause, why
            self.scope.cancel()

    @property
    def steered(self) -> bool:
        """Whether something was steered since the last step."""
        return self.agent.inbox.steered

    def take_steering(self) -> tuple[UserMessage, ...]:
        """Claim what was steered since the last step."""
        self.unsaid = self.agent.claim_steering()
        return self.unsaid


class Agent:
    """A live agent over one session. Made by ``Harness``; driven by ``send``."""

    def __init__(
        self,
        session: Session,
        runtime: Runtime,
        loop: Loop,
        settings: Settings,
        roots: tuple[Path, ...] = (),
    ) -> None:
        self.session = session
        self.runtime = runtime
        self.loop = loop
        self.settings = settings
        self.bus: Bus = session.bus
        self.cwd = Path(session.header.cwd)
        self.roots = (self.cwd, *roots)
        self.tools = ToolRegistry(self.bus, runtime.tools)
        """The tools of all agents, and this one's own."""
        self.inbox = Inbox(_message_ids(session))
        self.turn: Turn | None = None
        self.status: Status = "idle"
        self.live: dict[str, Any] = {}
        """Live objects that plugins keep with this agent, by name."""
        self.closers: list[Callable[[], Awaitable[None]]] = []
        """Awaited when the agent ends, last in first out, each contained and bounded."""
        self.file_backend: FileBackend | None = None
        """Where text files are read and written; the disk if a front end sets nothing else."""
        self.person: Person = Nobody()
        """Who can be asked; set by a front end."""
        self._files: Files | None = None
        self._wake = anyio.Event()
        self._idle = anyio.Event()
        self._idle.set()
        self._closing = False
        self._ended = anyio.Event()

    @property
    def closing(self) -> bool:
        """Whether it has ended or is ending."""
        return self._closing

    @property
    def files(self) -> Files:
        """Confined file access that remembers what this session has read."""
        if self._files is None:
            from harness_core.tools.files import Files

            self._files = Files(self.cwd, self.roots[1:], backend=self.file_backend)
        return self._files

    def set_roots(self, roots: Sequence[Path]) -> None:
        """Replace the additional directories."""
        self.roots = (self.cwd, *roots)
        self._files = None

    # --- what others ask of it -----------------------------------------------------------------

    def send(self, message: UserMessage) -> None:
        """Queue a prompt for a turn of its own and wake the agent.

        Raises ``AgentDisposed`` or ``DuplicateMessage``.
        """
        self._admit()
        self.inbox.queue(message)
        self._inserted(message)

    def steer(self, message: UserMessage, *, wake: bool = True) -> None:
        """Queue for the next step of the running turn, or for the next turn if none runs.

        Raises ``AgentDisposed`` or ``DuplicateMessage``.
        """
        self._admit()
        self.inbox.steer(message, wake=wake)
        self._inserted(message)

    def inject(self, message: UserMessage) -> None:
        """Steer without waking: context that goes along with whatever comes next."""
        self.steer(message, wake=False)

    def cancel(self, cause: Cause = "user", why: str | None = None) -> None:
        """End the running turn. Queued prompts stay; what was steered goes with the next of them.
        Idle, or a second time: no effect."""
        self.inbox.calm()
        if self.turn is not None:
            self.turn.cancel(cause, why)

    def discard(self, id: str, why: str = "cancelled") -> bool:
        """Take a message back before a turn claims it; whether it was still waiting."""
        message = self.inbox.remove(id)
        if message is not None:
            self.bus.emit(INBOX_DISCARDED, InboxChange(self, message, why))
        return message is not None

    async def when_idle(self) -> None:
        """Wait until nothing runs and nothing is queued."""
        await self._idle.wait()

    async def dispose(self) -> None:
        """End: no more messages, the turn aborted and closed, everything flushed. Memoised."""
        if not self._closing:
            self._closing = True
            for message in self.inbox.waiting:
                self.discard(message.id, "disposed")
            self.cancel("disposed")
            self._wake.set()
        await self._ended.wait()

    # --- the driver ----------------------------------------------------------------------------

    async def run(self) -> None:
        """Run turns as messages come, until disposed. The harness starts it once."""
        try:
            self.bus.emit(SESSION_START, self)
            while not self._closing:
                if self.inbox.ready:
                    await self._run_turn()
                else:
                    wake = self._wake = anyio.Event()
                    self._set_status("idle")
                    await wake.wait()
        finally:
            with anyio.CancelScope(shield=True):
                await self._end()

    async def _end(self) -> None:
        self._closing = True
        for message in self.inbox.waiting:
            self.discard(message.id, "disposed")
        while self.closers:
            await self._contained(self.closers.pop())
        await self._flush()
        self._set_status("idle")
        self.bus.emit(AGENT_DISPOSED, self)
        try:
            self.session.close()
        except Exception:
            log.exception("the log of session %s could not be closed", self.session.id)
        self._ended.set()

    async def _contained(self, closer: Callable[[], Awaitable[None]]) -> None:
        try:
            with anyio.fail_after(PART_GRACE), contain_leaks():
                await closer()
        except Exception:
            log.exception("a part of the agent of session %s did not close", self.session.id)

    def _set_status(self, status: Status) -> None:
        if status == "running" and self._idle.is_set():
            self._idle = anyio.Event()
        if status != self.status:
            self.status = status
            self.bus.emit(AGENT_STATUS, StatusChange(self, status))
        if status == "idle" and not self.inbox.ready:
            self._idle.set()

    async def _run_turn(self) -> None:
        turn = self._begin()
        if turn is None:
            await anyio.lowlevel.checkpoint()
            return
        self._set_status("running")
        reason = Reason("aborted", cause="disposed")
        try:
            with turn.scope, contain_leaks():
                reason = _require_reason(await self.loop.run(turn))
        except Exception as failure:
            log.exception("turn %s of session %s failed", turn.number, self.session.id)
            reason = self._unexpected(failure)
        finally:
            self._close(turn, reason)
        await self._flush()

    def _begin(self) -> Turn | None:
        """Claim and open: one synchronous section, so that the pair carries its identity."""
        claim = self.inbox.claim()
        number = self.session.structure.turn + 1
        self.turn = turn = Turn(self, number, claim.messages)
        try:
            self.session.append(TurnStart(number, claim.ids))
        except Exception as failure:
            self.turn = None
            self.error(f"the turn could not begin: {failure}", "refused")
            for message in claim.messages:
                gone = InboxChange(self, message, f"no turn is possible: {failure}", failed=True)
                self.bus.emit(INBOX_DISCARDED, gone)
            return None
        self._tell_claimed(claim.messages)
        return turn

    def _close(self, turn: Turn, reason: Reason) -> None:
        """Append what is owed and the one ``turn/end``. Nothing here waits."""
        self.turn = None
        if turn.cause is not None:
            reason = Reason("aborted", cause=turn.cause, why=turn.why)
        if reason.kind == "error":
            self.error(reason.message or "", reason.code or "", turn.number)
        structure = self.session.structure
        if reason.kind in ("aborted", "error"):
            for message in turn.unsaid:
                if message.id not in structure.message_ids:
                    self._owe(UserSaid(turn.number, message))
        if structure.step_open:
            for result in close_calls(structure, ABORTED, NEVER_STARTED):
                self._owe(result)
            self._owe(StepEnd(turn.number, structure.step))
        if not self._owe(TurnEnd(turn.number, reason)):
            # The pair cannot be completed: nothing more may happen in this session.
            self._closing = True

    def _owe(self, fact: Fact) -> bool:
        """Append a closing fact, retried once if refused."""
        for final in (False, True):
            try:
                self.session.append(fact)
                return True
            except Exception as failure:
                if final:
                    self.error(f"{fact.type} could not be logged: {failure}", "refused")
        return False

    async def _flush(self) -> None:
        try:
            await self.session.flush()
        except Exception as failure:
            self.error(f"the session could not be saved: {failure}", "not-saved")

    def _unexpected(self, failure: Exception) -> Reason:
        code = getattr(failure, "code", "internal")
        what = str(failure) if isinstance(failure, Explained) else type(failure).__name__
        message = f"the turn failed: {what}"
        return Reason("error", message=message, code=code if isinstance(code, str) else "internal")

    # --- small things --------------------------------------------------------------------------

    def error(self, message: str, code: str, turn: int | None = None) -> None:
        """Announce a failure."""
        self.bus.emit(AGENT_ERROR, AgentFailure(self, message, code, turn))

    def claim_steering(self) -> tuple[UserMessage, ...]:
        """Take all pending steering for the running turn, and tell."""
        taken = self.inbox.take_steering()
        self._tell_claimed(taken)
        return taken

    def _tell_claimed(self, messages: tuple[UserMessage, ...]) -> None:
        for message in messages:
            self.bus.emit(INBOX_CLAIMED, InboxChange(self, message))

    def _admit(self) -> None:
        if self._closing:
            raise AgentDisposed(f"the agent of session {self.session.id} has ended")

    def _inserted(self, message: UserMessage) -> None:
        if self.inbox.ready and self._idle.is_set():
            self._idle = anyio.Event()
        self.bus.emit(INBOX_INSERTED, InboxChange(self, message))
        self._wake.set()


def _require_reason(reason: object) -> Reason:
    if not isinstance(reason, Reason):
        raise TypeError(f"the loop returned {type(reason).__name__}, not why the turn ends")
    return reason


def _message_ids(session: Session) -> Iterator[str]:
    """Every message that the session's log knows of."""
    for event in session.events:
        if isinstance(event.fact, TurnStart):
            yield from event.fact.messages
        elif isinstance(event.fact, UserSaid):
            yield event.fact.message.id


class Explained(Exception):
    """A failure whose message is made for people and holds no secret."""
