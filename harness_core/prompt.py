"""The system prompt: named sections, assembled anew for each request and logged when it changed.

A section is a function from an agent to text; plugins add theirs. Nothing here talks to a model.
"""

from __future__ import annotations

import platform
from collections.abc import Awaitable, Callable
from datetime import date
from typing import TYPE_CHECKING, TypeAlias

from harness_core.bus import Disposer

if TYPE_CHECKING:
    from harness_core.agent import Agent

Section: TypeAlias = Callable[["Agent"], Awaitable[str]]

IDENTITY = """\
You are a coding agent inside the user's editor. You work in their project with the tools you are \
given, and what you write is shown to them as Markdown.

- Look before you change: read the files and search for what already exists.
- Make the change that was asked for, completely, in the style of the code around it; no more.
- Check your work by running what the project offers: its tests, its linter, its build.
- For work of several steps keep a plan with the plan tool and keep it current.
- When a tool is rejected, do not try to get the same effect another way; ask.
- Be brief and honest: say what you did, what you saw, and what you could not do."""


class Prompt:
    """The sections of the system prompt, in the order they were added."""

    def __init__(self) -> None:
        self._sections: dict[str, Section] = {}
        self.add("identity", _identity)
        self.add("environment", _environment)

    def add(self, name: str, section: Section) -> Disposer:
        """Add a section. Raises ``ValueError`` if the name is taken."""
        if name in self._sections:
            raise ValueError(f"there is a prompt section {name!r} already")
        self._sections[name] = section

        def dispose() -> None:
            if self._sections.get(name) is section:
                del self._sections[name]

        return dispose

    async def assemble(self, agent: Agent) -> str:
        """The system prompt for the agent's next request."""
        texts = [await section(agent) for section in self._sections.values()]
        return "\n\n".join(text for text in texts if text)


async def _identity(_: Agent) -> str:
    return IDENTITY


async def _environment(agent: Agent) -> str:
    more = "".join(f"\n- additional directory: {root}" for root in agent.roots[1:])
    return (
        "Environment:\n"
        f"- working directory (relative paths are below it): {agent.cwd}{more}\n"
        f"- operating system: {platform.system()}\n"
        f"- date: {date.today().isoformat()}"
    )
