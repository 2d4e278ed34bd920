"""What the kernel's tests share: a world of real parts, and a clock that never waits.

A ``World`` is a harness over a scripted model, a journal in memory and small tools. Under
``VIRTUAL`` time jumps to the next timer as soon as nothing else can run, and a program in which
nothing can ever run again fails at once instead of hanging.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, TypeVar

import anyio

from harness_core.agent import (
    AGENT_ERROR,
    INBOX_CLAIMED,
    INBOX_DISCARDED,
    Agent,
    AgentFailure,
    InboxChange,
)
from harness_core.config import Config
from harness_core.content import Chunk, Text, ToolCall, UserMessage
from harness_core.facts import (
    Fact,
    FactRefused,
    Reason,
    RequestContext,
    RequestHeader,
    ToolReturned,
    TurnEnd,
)
from harness_core.harness import DEFAULT_PLUGINS, Harness, Plugin
from harness_core.history import derive_messages
from harness_core.journal.memory import MemoryJournal
from harness_core.journal.protocol import Stored
from harness_core.loop import Loop
from harness_core.model.protocol import Model, ModelInfo, ModelRequest
from harness_core.model.scripted import Reply, ScriptedModel
from harness_core.session import SESSION_EVENT, Log, Session, SessionEvent, SessionHeader
from harness_core.tools.tool import Arguments, Effect, Schema, Tool, ToolContext, ToolOutput

F = TypeVar("F", bound=Fact)

LONG = 100_000.0
"""Seconds after which something that waits is taken for hanging; on the virtual clock."""


# --- a clock that never waits ------------------------------------------------------------------


class Stuck(Exception):
    """Nothing can ever happen again: everything waits, or turns in circles, for good."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time jumps to the next timer. It knows no threads and no sockets."""

    def __init__(self) -> None:
        self.now = 0.0
        self.rounds = 0
        """How often the loop went round since the clock last moved."""
        super().__init__(_Jump(self))

    def time(self) -> float:
        return self.now


class _Jump(selectors.SelectSelector):
    """Instead of waiting, moves the clock."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        self._loop.rounds += 1
        if (timeout is None and not ready) or self._loop.rounds > 20_000:
            raise Stuck
        if timeout and not ready:
            self._loop.now += timeout
            self._loop.rounds = 0
        return ready


VIRTUAL = ("asyncio", {"loop_factory": VirtualLoop})
"""The anyio backend with that clock."""


def play(scene: Callable[[], Awaitable[None]]) -> None:
    """Run ``scene`` on a clock of its own, in bounded virtual time."""

    async def bounded() -> None:
        with anyio.fail_after(LONG):
            await scene()

    anyio.run(bounded, backend="asyncio", backend_options={"loop_factory": VirtualLoop})


# --- what the model sees -----------------------------------------------------------------------


def logged_request(events: Iterable[SessionEvent]) -> ModelRequest:
    """The request that a log tells of: its messages, and the folded header and context."""
    events = list(events)
    (*_, header) = (e.fact for e in events if isinstance(e.fact, RequestHeader))
    (*_, context) = (e.fact for e in events if isinstance(e.fact, RequestContext))
    return ModelRequest(header.config, context.system, derive_messages(events), context.tools)


class WatchedModel:
    """Another model, and on every call the check that it sees exactly what is in the log."""

    def __init__(self, inner: Model, agents: Callable[[], Iterable[Agent]]) -> None:
        self._inner = inner
        self._agents = agents
        self.unlogged: list[tuple[ModelRequest, list[ModelRequest]]] = []
        """Requests that no running agent's log tells of, each with what the logs tell."""

    @property
    def info(self) -> ModelInfo:
        return self._inner.info

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        running = [agent for agent in self._agents() if agent.turn is not None]
        told = [logged_request(agent.session.events) for agent in running]
        if request not in told:
            self.unlogged.append((request, told))
        async with aclosing(self._inner.stream(request)) as chunks:
            async for chunk in chunks:
                yield chunk


def paced(*items: Chunk | float | BaseException) -> Reply:
    """A reply with waits in it: a number is seconds of silence, an exception is raised."""

    async def answer() -> AsyncGenerator[Chunk, None]:
        for item in items:
            if isinstance(item, BaseException):
                raise item
            if isinstance(item, int | float):
                await anyio.sleep(item)
            else:
                yield item

    return lambda _: answer()


# --- tools -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Words(Arguments):
    """Parameters of the tests' tools."""

    word: str = ""
    """Any word."""
    count: int = 1
    """Any number."""


WORDS = Schema(Words)

Body = Callable[[Words, ToolContext], Awaitable[Any]]


class Doing(Tool[Words]):
    """A tool whose body is a function."""

    def __init__(self, name: str, body: Body, effect: Effect = "reads") -> None:
        self.name = name
        self.description = f"Does {name}."
        self.effect = effect
        self._body = body

    @property
    def schema(self) -> Schema[Words]:
        return WORDS

    async def execute(self, arguments: Words, context: ToolContext) -> ToolOutput:
        output: ToolOutput = await self._body(arguments, context)
        return output


def bound() -> AbstractContextManager[object]:
    """A limit for what waits: generous, and no time at all on the virtual clock."""
    return anyio.fail_after(LONG if isinstance(asyncio.get_running_loop(), VirtualLoop) else 30)


async def echo(arguments: Words, _: ToolContext) -> ToolOutput:
    """A body that returns its word."""
    return ToolOutput.text(arguments.word * arguments.count)


def call(id: str, name: str = "echo", arguments: str = "{}") -> ToolCall:
    """A call of a tool."""
    return ToolCall(id, name, arguments)


# --- a journal that fails when told to ---------------------------------------------------------


class FlakyLog:
    """A log whose flushes fail or take time as its journal is told."""

    def __init__(self, inner: Log, journal: FlakyJournal) -> None:
        self._inner = inner
        self._journal = journal
        self.flushed = 0
        """How many events the last good flush made safe."""
        self._written = 0

    def write(self, event: SessionEvent, line: bytes) -> None:
        self._written += 1
        self._inner.write(event, line)

    def drain(self) -> None:
        self._inner.drain()

    async def flush(self) -> None:
        written = self._written
        self._journal.flushes += 1
        number = self._journal.flushes
        if self._journal.flush_time:
            await anyio.sleep(self._journal.flush_time)
        if self._journal.fails(number):
            raise OSError(28, "No space left on device")
        self.flushed = written

    def spill(self, name: str, data: bytes) -> str:
        return self._inner.spill(name, data)

    def close(self) -> None:
        self._inner.close()
        if self._journal.fails_to_close:
            raise OSError(5, "Input/output error")


class FlakyJournal(MemoryJournal):
    """A journal in memory whose nth flush may fail."""

    def __init__(self, fails: Callable[[int], bool] = lambda _: False) -> None:
        super().__init__()
        self.fails = fails
        self.flushes = 0
        self.flush_time = 0.0
        self.fails_to_close = False

    def create(self, header: SessionHeader) -> FlakyLog:  # type: ignore[override]
        return FlakyLog(super().create(header), self)

    def open(self, session: str) -> tuple[Stored, FlakyLog]:  # type: ignore[override]
        stored, log = super().open(session)
        return stored, FlakyLog(log, self)


def refuse(*types: type[Fact], times: int = 10**9) -> Callable[[Session, Fact], None]:
    """A validator that refuses facts of these types, so many times."""
    left = times

    def validate(_: Session, fact: Fact) -> None:
        nonlocal left
        if isinstance(fact, types) and left > 0:
            left -= 1
            raise FactRefused(f"{fact.type} is refused by the test")

    return validate


# --- the world ---------------------------------------------------------------------------------


@dataclass
class World:
    """A harness with one agent, and what was heard of it."""

    harness: Harness
    script: ScriptedModel
    agent: Agent = field(init=False)
    errors: list[AgentFailure] = field(default_factory=list)
    claimed: list[str] = field(default_factory=list)
    discarded: dict[str, InboxChange] = field(default_factory=dict)
    sent: int = 0

    def message(self, text: str = "hello", source: str = "prompt") -> UserMessage:
        """A message with an id of its own."""
        self.sent += 1
        return UserMessage(f"m{self.sent}", (Text(text),), source)

    def send(self, text: str = "hello") -> str:
        """Send a prompt; its id."""
        message = self.message(text)
        self.agent.send(message)
        return message.id

    async def turn(self, text: str = "hello") -> Reason:
        """Send a prompt and wait until nothing runs; how the last turn ended."""
        self.send(text)
        await self.idle()
        return self.last(TurnEnd).reason

    async def idle(self) -> None:
        """Wait until nothing runs and nothing is queued, in bounded time."""
        with bound():
            await self.agent.when_idle()

    @property
    def facts(self) -> list[Fact]:
        """The log."""
        return [event.fact for event in self.agent.session.events]

    @property
    def types(self) -> list[str]:
        """The types of the log's facts."""
        return [fact.type for fact in self.facts]

    def all(self, kind: type[F]) -> list[F]:
        """The facts of a type."""
        return [fact for fact in self.facts if isinstance(fact, kind)]

    def last(self, kind: type[F]) -> F:
        """The last fact of a type."""
        return self.all(kind)[-1]

    def result(self, call_id: str) -> ToolReturned:
        """The one result of a call."""
        (result,) = (fact for fact in self.all(ToolReturned) if fact.call_id == call_id)
        return result

    def result_text(self, call_id: str) -> str:
        """The text of a call's result."""
        return "".join(b.text for b in self.result(call_id).content if isinstance(b, Text))

    async def until_logged(self, kind: type[Fact], times: int = 1) -> None:
        """Wait until the log has so many facts of that type, in bounded time."""
        logged = anyio.Event()

        def look(_: object = None) -> None:
            if len(self.all(kind)) >= times:
                logged.set()

        stop = self.agent.bus.on(SESSION_EVENT, look)
        look()
        with bound():
            await logged.wait()
        stop()


def adopt(world: World, agent: Agent) -> None:
    """Make ``agent`` the one that is listened to."""
    world.agent = agent
    agent.bus.on(AGENT_ERROR, world.errors.append)
    agent.bus.on(INBOX_CLAIMED, lambda change: world.claimed.append(change.message.id))
    agent.bus.on(
        INBOX_DISCARDED, lambda change: world.discarded.update({change.message.id: change})
    )


@asynccontextmanager
async def world(
    *replies: Reply,
    tools: Iterable[Tool[Any]] = (Doing("echo", echo),),
    plugins: Iterable[Plugin] = DEFAULT_PLUGINS,
    settings: Mapping[str, Any] | None = None,
    journal: MemoryJournal | None = None,
    loop: Loop | None = None,
    cwd: str = "/nowhere",
    grace: float = 5.0,
    more: Iterable[Reply] = (),
) -> AsyncIterator[World]:
    """A world whose model gives these replies. Fails if the model saw what is not in the log."""
    script = ScriptedModel(chain(replies, more))
    watched: WatchedModel = WatchedModel(script, lambda: harness.agents.values())
    harness = Harness(
        journal=FlakyJournal() if journal is None else journal,
        config=Config(flags={"mode": "auto", **(settings or {})}),
        resolve=lambda _: watched,
        tools=tools,
        plugins=tuple(plugins),
        loop=loop,
    )
    harness.runtime.pipeline.grace = grace
    async with harness:
        made = World(harness, script)
        adopt(made, await harness.create(cwd))
        yield made
    assert watched.unlogged == [], "the model saw something that is not in the log"
