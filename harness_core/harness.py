"""The composition root: puts the parts together and owns the agents' lives.

async with Harness(config=Config.load(), journal=journal) as harness:
    agent = await harness.create("/path/to/project")
    agent.send(UserMessage("m1", (Text("hello"),)))
    await agent.when_idle()
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self
from weakref import WeakValueDictionary

import anyio
import anyio.to_thread

from harness_core.agent import AGENT_CREATED, AGENT_DISPOSED, Agent
from harness_core.bus import Bus
from harness_core.config import Config, Settings
from harness_core.facts import SeedEnd
from harness_core.history import repair
from harness_core.journal import Journal, Page, Stored
from harness_core.loop import Loop, StepLoop
from harness_core.model.protocol import Model, ModelInfo
from harness_core.model.settings import ModelSettings
from harness_core.plugins import (
    approvals,
    instructions,
    links,
    local_commands,
    mcp,
    options,
    retry,
    skills,
    titles,
)
from harness_core.plugins.rule_store import RuleStore
from harness_core.prompt import Prompt
from harness_core.runtime import Runtime
from harness_core.session import (
    SESSION_CREATED,
    SESSION_DISPOSED,
    Log,
    Session,
    SessionEvent,
    SessionHeader,
    encode,
)
from harness_core.structure import Structure
from harness_core.tools.pipeline import Pipeline
from harness_core.tools.registry import ToolRegistry
from harness_core.tools.tool import Tool

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

log = logging.getLogger(__name__)

Plugin = Callable[["Harness"], None]

DEFAULT_PLUGINS: tuple[Plugin, ...] = (
    instructions.install,
    skills.install,
    links.install,
    mcp.install,
    approvals.install,
    options.install,
    local_commands.install,
    retry.install,
    titles.install,
)


class ForkError(ValueError):
    """The fork point lies inside a turn, or beyond the log."""


class Harness:
    """Runs agents over a journal. Use as an async context manager.

    ``tools`` replaces the built-in ones, ``resolve`` how a model is made from its id, ``loop`` what
    a turn does; ``rules`` is where permissions are remembered beyond a session. Raises
    ``ConfigError``.
    """

    def __init__(
        self,
        *,
        journal: Journal,
        config: Config | None = None,
        env: Mapping[str, str] | None = None,
        loop: Loop | None = None,
        resolve: Callable[[str], Model] | None = None,
        tools: Iterable[Tool[Any]] | None = None,
        rules: RuleStore | None = None,
        plugins: Sequence[Plugin] = DEFAULT_PLUGINS,
    ) -> None:
        self.bus = Bus()
        self.journal = journal
        self.config = config or Config()
        self.settings: Settings = self.config.for_cwd(None)
        self.loop: Loop = loop or StepLoop()
        self.memory = approvals.Memory(rules)
        self.agents: dict[str, Agent] = {}
        registry = ToolRegistry(self.bus)
        for tool in _builtin(self.settings) if tools is None else tools:
            registry.register(tool)
        self._env = os.environ if env is None else env
        self.runtime = Runtime(
            resolve or self._resolve,
            registry,
            Pipeline(),
            Prompt(),
        )
        self._tasks: TaskGroup | None = None
        self._locks: WeakValueDictionary[str, anyio.Lock] = WeakValueDictionary()
        self.bus.on(AGENT_DISPOSED, self._forget)
        for plugin in plugins:
            plugin(self)

    def _resolve(self, id: str) -> Model:
        from harness_core.model.catalogue import resolve

        return resolve(id, ModelSettings(id, self.settings.providers), self._env)

    async def set_environment(self, env: Mapping[str, str]) -> None:
        """Look for keys in ``env`` from now on; models that were made are made again."""
        self._env = env
        await self.runtime.forget_models()

    def models(self) -> list[ModelInfo]:
        """The models to choose from, as far as they are known without asking anybody."""
        from harness_core.model.choices import known_models

        return known_models(self._model_settings(), self._env)

    async def find_models(self) -> list[ModelInfo]:
        """The models to choose from, after their providers were asked. Raises nothing."""
        from harness_core.model.choices import available_models

        return await available_models(self._model_settings(), self._env)

    def _model_settings(self) -> ModelSettings:
        return ModelSettings(self.settings.model, self.settings.providers)

    async def __aenter__(self) -> Self:
        self._tasks = await anyio.create_task_group().__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._tasks is not None
        tasks, self._tasks = self._tasks, None
        async with AsyncExitStack() as last:
            # All drivers have ended by then; what failed was the caller's and goes on as it is.
            last.push_async_callback(tasks.__aexit__, None, None, None)
            last.callback(self.journal.close)
            last.callback(self.bus.scope.close)
            with anyio.CancelScope(shield=True):
                async with anyio.create_task_group() as group:
                    for agent in list(self.agents.values()):
                        group.start_soon(self.dispose, agent)
                await self.runtime.aclose()

    # --- sessions ------------------------------------------------------------------------------

    async def create(
        self, cwd: str | Path, roots: Sequence[Path] = (), id: str | None = None
    ) -> Agent:
        """A new session in ``cwd`` (absolute). Raises ``ConfigError``, ``SessionExists``."""
        header = SessionHeader(id or new_id(), str(cwd), int(time.time() * 1000))
        return self._bring_up(header, self.journal.create(header), (), roots)

    async def resume(self, id: str, roots: Sequence[Path] = ()) -> Agent:
        """Continue a stored session; one that is live already is returned as it is.

        One that is ending is continued when it has ended. An interrupted turn is closed first.
        Raises ``JournalError``, ``FactError`` or ``ConfigError``.
        """
        async with self._lock(id):
            agent = self.agents.get(id)
            if agent is not None and not agent.closing:
                return agent
            if agent is not None:
                await agent.dispose()
            stored, log = await self._open(id)
            return self._bring_up(stored.header, log, stored.events, roots)

    async def _open(self, id: str) -> tuple[Stored, Log]:
        """Read and lock a session in a thread; whoever is cancelled leaves nothing locked."""
        opening = asyncio.ensure_future(anyio.to_thread.run_sync(self.journal.open, id))
        try:
            await asyncio.wait({opening})
        except asyncio.CancelledError:
            opening.add_done_callback(_close_unused)
            with anyio.CancelScope(shield=True):
                await asyncio.wait({opening})
            raise
        return opening.result()

    async def fork(
        self, id: str, cwd: str | Path, roots: Sequence[Path] = (), at: int | None = None
    ) -> Agent:
        """A new session with the first ``at`` events of another (all by default, to the last turn).

        Raises ``ForkError`` if ``at`` is inside a turn, ``JournalError``, ``FactError``.
        """
        source = await self.read(id)
        events = prefix(source.events, at)
        header = SessionHeader(new_id(), str(cwd), int(time.time() * 1000), id, len(events))
        log = self.journal.create(header)
        copies = [replace(event, session=header.id) for event in events]
        return self._bring_up(header, log, copies, roots, kind="fork")

    def _bring_up(
        self,
        header: SessionHeader,
        log: Log,
        events: Sequence[SessionEvent],
        roots: Sequence[Path],
        kind: Literal["resume", "fork"] = "resume",
    ) -> Agent:
        try:
            return self._wake_up(header, log, events, roots, kind)
        except BaseException:
            log.close()
            raise

    def _wake_up(
        self,
        header: SessionHeader,
        log: Log,
        events: Sequence[SessionEvent],
        roots: Sequence[Path],
        kind: Literal["resume", "fork"],
    ) -> Agent:
        if self._tasks is None:
            raise RuntimeError("the harness is not running: use it as an async context manager")
        settings = self.config.for_cwd(Path(header.cwd))
        session = Session(header, log, self.bus, events)
        if events:
            self._seed(session, kind)
        agent = Agent(session, self.runtime, self.loop, settings, tuple(roots))
        self.agents[header.id] = agent
        self.bus.emit(SESSION_CREATED, header)
        self.bus.emit(AGENT_CREATED, agent)
        self._tasks.start_soon(self._drive, agent)
        return agent

    def _seed(self, session: Session, kind: Literal["resume", "fork"]) -> None:
        if kind == "fork":
            for event in session.events:
                session.log.write(event, encode(event))
        if session.structure.turn_open:
            for fact in repair(session.events):
                session.append(fact)
        session.append(SeedEnd(kind))

    async def _drive(self, agent: Agent) -> None:
        try:
            await agent.run()
        except Exception:
            log.exception("the agent of session %s failed", agent.session.id)

    def spawn(self, body: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run ``body``, which contains its failures, beside the agents; the end waits for it."""
        if self._tasks is None:
            raise RuntimeError("the harness is not running: use it as an async context manager")
        self._tasks.start_soon(body)

    def _forget(self, agent: Agent) -> None:
        self.agents.pop(agent.session.id, None)
        self.bus.emit(SESSION_DISPOSED, agent.session.header)

    async def dispose(self, agent: Agent) -> None:
        """End an agent and release its session; everything is flushed."""
        await agent.dispose()

    async def read(self, id: str) -> Stored:
        """Look at a session, live or stored, without changing it. Raises ``JournalError``."""
        agent = self.agents.get(id)
        if agent is not None:
            return Stored(agent.session.header, tuple(agent.session.events))
        return await anyio.to_thread.run_sync(self.journal.read, id)

    async def header(self, id: str) -> SessionHeader:
        """What is fixed of a session, live or stored. Raises ``JournalError``."""
        agent = self.agents.get(id)
        if agent is not None:
            return agent.session.header
        return await anyio.to_thread.run_sync(self.journal.header, id)

    async def list(self, cwd: str | None = None, cursor: str | None = None) -> Page:
        """Stored sessions, last updated first. Raises ``ValueError`` for a bad cursor."""
        return await anyio.to_thread.run_sync(self.journal.list, cwd, cursor)

    async def delete(self, id: str) -> bool:
        """End a session if it is live, and remove it; whether there was one."""
        async with self._lock(id):
            agent = self.agents.get(id)
            if agent is not None:
                await self.dispose(agent)
            return await anyio.to_thread.run_sync(self.journal.delete, id)

    def _lock(self, id: str) -> anyio.Lock:
        """Held by whoever opens or deletes that session."""
        return self._locks.setdefault(id, anyio.Lock())


def _builtin(settings: Settings) -> Iterable[Tool[Any]]:
    from harness_core.tools.builtin import builtin_tools

    return builtin_tools(settings.tools)


def _close_unused(opening: asyncio.Future[tuple[Stored, Log]]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result()[1].close()


def new_id() -> str:
    """A session id nobody else has."""
    return os.urandom(12).hex()


def prefix(events: Sequence[SessionEvent], at: int | None) -> Sequence[SessionEvent]:
    """The first ``at`` events, by default all outside an open turn. Raises ``ForkError``."""
    structure, outside = Structure(), 0
    for event in events if at is None else events[:at]:
        structure.accept(event.fact)
        if not structure.turn_open:
            outside = event.seq + 1
    if at is not None and (at != outside or at > len(events)):
        raise ForkError(f"cannot fork at {at}: it is inside a turn or beyond the log")
    return events[:outside]
