"""MCP: the tools, resources and prompts of servers that the client or the user names.

``spec`` and ``sources`` say which servers there are; ``server`` keeps one of them running,
``servers`` those of a session; ``connection``, ``transport`` and ``blocks`` speak the library's
language, and are loaded only when a server is connected. ``tools`` and ``prompts`` are what the
agent gets of it all.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from harness_core.agent import AGENT_CREATED, Agent
from harness_core.bus import Next
from harness_core.facts import Noticed
from harness_core.loop import PRE_STEP, PreStep
from harness_core.plugins.mcp.servers import Servers
from harness_core.plugins.mcp.sources import from_project, from_settings, merged
from harness_core.plugins.mcp.spec import RemoteSpec, ServerSpec, StdioSpec, slug, tool_name

if TYPE_CHECKING:
    from harness_core.harness import Harness

__all__ = [
    "RemoteSpec",
    "ServerSpec",
    "Servers",
    "StdioSpec",
    "install",
    "servers_of",
    "slug",
    "tool_name",
]

KEY = "mcp"


def servers_of(agent: Agent) -> Servers:
    """The servers of an agent. Raises ``KeyError`` if the plugin is not installed."""
    servers: Servers = agent.live[KEY]
    return servers


def install(harness: Harness) -> None:
    """Give every agent the configured servers; stand at ``agent/pre-step``; add to the prompt."""

    def created(agent: Agent) -> None:
        specs = from_settings(agent.settings)
        problems: list[str] = []
        if agent.settings.project_mcp:
            project, problems = from_project(agent.cwd, os.environ)
            specs = merged(specs, project)
        servers = agent.live[KEY] = Servers(harness, agent, specs)
        for problem in problems:
            servers.notice(Noticed("warning", problem))
        servers.set(())

    async def before(draft: PreStep, following: Next[PreStep, PreStep]) -> PreStep:
        return await following(await servers_of(draft.agent).before(draft))

    async def section(agent: Agent) -> str:
        return servers_of(agent).instructions

    harness.bus.on(AGENT_CREATED, created)
    harness.bus.on(PRE_STEP, before)
    harness.runtime.prompt.add("mcp", section)
