"""The servers of one session: which run, what of theirs is registered, what people must know.

The list is declared; what runs is made to fit it. Nothing here waits for a server but a turn's
first step, and that for a bounded time. Knows no library and no front end.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio

from harness_core.agent import Agent
from harness_core.bus import Disposer
from harness_core.content import UserMessage
from harness_core.facts import Noticed
from harness_core.loop import PreStep
from harness_core.plugins.mcp.prompts import PromptCommand, called, commands_of, expansion
from harness_core.plugins.mcp.server import Server
from harness_core.plugins.mcp.spec import Place, ServerSpec, slug, tool_name
from harness_core.plugins.mcp.tools import ListResourcesTool, McpTool, ReadResourceTool
from harness_core.tools.tool import Tool

if TYPE_CHECKING:
    from harness_core.harness import Harness

log = logging.getLogger(__name__)


INSTRUCTIONS = 4_000
"""Characters of a server's instructions that the model is given."""


class Servers:
    """The MCP servers of one agent. ``configured`` are those that do not come from its client."""

    def __init__(self, harness: Harness, agent: Agent, configured: Sequence[ServerSpec]) -> None:
        self._harness = harness
        self._agent = agent
        self._configured = configured
        self._place = Place(agent.cwd, lambda: agent.roots, lambda: agent.person)
        self._servers: dict[str, Server] = {}
        self._registered: dict[str, list[Disposer]] = {}
        """By server, what takes its tools away."""
        self._resource_tools: list[Disposer] = []
        self._excused: set[Server] = set()
        """Servers that a turn does not wait for any more."""
        self._notices: list[Noticed] = []
        self.prompts: list[PromptCommand] = []
        """The slash commands that there are now."""
        self.prompts_changed: Callable[[], None] = lambda: None
        """Called when they are others; a front end sets it."""
        agent.closers.append(self.close)

    # --- which there are -----------------------------------------------------------------------

    def set(self, specs: Iterable[ServerSpec]) -> None:
        """Have the servers of the client's list run, and the configured ones; no others.

        Returns at once. One with the name of a configured one takes its place.
        """
        wanted = {spec.name: spec for spec in (*self._configured, *specs)}
        for name, server in list(self._servers.items()):
            if wanted.get(name) != server.spec:
                self._remove(name)
        for name, spec in wanted.items():
            if name not in self._servers:
                self._add(spec)
        self._show()

    def _add(self, spec: ServerSpec) -> None:
        taken = {server.slug for server in self._servers.values()}
        server = Server(spec, slug(spec.name, taken), self._place, self._changed, self._failed)
        self._servers[spec.name] = server
        self._harness.spawn(server.run)

    def _remove(self, name: str) -> None:
        server = self._servers.pop(name)
        self._unregister(name)
        self._harness.spawn(server.stop)

    async def close(self) -> None:
        """End all; returns when their processes are gone."""
        async with anyio.create_task_group() as group:
            for name, server in self._servers.items():
                self._unregister(name)
                group.start_soon(server.stop)

    # --- what they offer -----------------------------------------------------------------------

    def _changed(self, server: Server) -> None:
        if self._servers.get(server.name) is not server:
            return
        self._unregister(server.name)
        for offered in server.offer.tools:
            name = tool_name(server.slug, offered.name, self._agent.tools)
            self._register(server.name, McpTool(name, server, offered))
        self._show()

    def _register(self, server: str, tool: Tool[Any]) -> None:
        try:
            disposer = self._agent.tools.register(tool)
        except ValueError as failure:
            log.warning("MCP server %s: %s", server, failure)
            return
        self._registered.setdefault(server, []).append(disposer)

    def _unregister(self, server: str) -> None:
        for dispose in self._registered.pop(server, ()):
            dispose()

    def _show(self) -> None:
        """What depends on the offers of all: the tools for resources, and the commands."""
        if bool(self._with_resources()) != bool(self._resource_tools):
            self._toggle_resource_tools()
        prompts = commands_of(self._servers.values())
        if prompts != self.prompts:
            self.prompts = prompts
            self.prompts_changed()

    def _with_resources(self) -> list[Server]:
        return [server for server in self._servers.values() if server.offer.has_resources]

    def _toggle_resource_tools(self) -> None:
        if self._resource_tools:
            while self._resource_tools:
                self._resource_tools.pop()()
            return
        for tool in (
            ListResourcesTool(self._with_resources),
            ReadResourceTool(self._with_resources),
        ):
            self._resource_tools.append(self._agent.tools.register(tool))

    @property
    def instructions(self) -> str:
        """What the servers say of their use, for the system prompt."""
        said = {server.name: server.offer.instructions for server in self._servers.values()}
        return "\n\n".join(
            f"Instructions of MCP server {name}:\n\n{text[:INSTRUCTIONS].strip()}"
            for name, text in said.items()
            if text.strip()
        )

    # --- what people must know -----------------------------------------------------------------

    def _failed(self, server: Server, why: str) -> None:
        title = f"MCP server {server.name} is not available: {why}"
        self.notice(Noticed("warning", title, "The agent goes on without its tools."))

    def notice(self, notice: Noticed) -> None:
        """Have people told at the next step of a turn."""
        self._notices.append(notice)

    # --- at agent/pre-step ---------------------------------------------------------------------

    async def before(self, draft: PreStep) -> PreStep:
        """Wait for servers that are still starting, tell what failed, and expand commands."""
        await self._wait()
        notices, self._notices = self._notices, []
        for notice in notices:
            self._agent.session.append(notice)
        messages: list[UserMessage] = []
        for message in draft.messages:
            messages.append(message)
            if (call := called(message, self.prompts)) is not None:
                messages.append(await expansion(message, *call))
        return replace(draft, messages=tuple(messages))

    async def _wait(self) -> None:
        """For each server that is starting once, and for all of them together a bounded time."""
        waiting = [s for s in self._servers.values() if not s.settled.is_set()]
        waiting = [server for server in waiting if server not in self._excused]
        for server in waiting:  # loading the library is our own slowness, not theirs
            await server.begun.wait()
        with anyio.move_on_after(self._agent.settings.mcp_wait):
            for server in waiting:
                await server.settled.wait()
        for server in waiting:
            if not server.settled.is_set():
                self._excused.add(server)
                title = f"MCP server {server.name} is still starting"
                self.notice(Noticed("info", title, "Its tools are added as soon as it is ready."))
