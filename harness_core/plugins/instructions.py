"""Instructions: what a project tells its agents in ``AGENTS.md`` becomes part of the prompt.

Per root, earlier roots first (V1-DIR-07): ``AGENTS.md``, or ``CLAUDE.md`` where there is none.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from harness_core.agent import Agent

if TYPE_CHECKING:
    from harness_core.harness import Harness

NAMES = ("AGENTS.md", "CLAUDE.md")
LONGEST = 32_000
"""Characters of one file that are used."""


def read_instructions(root: Path) -> str:
    """The instructions of a root, or nothing. Never fails: an unreadable file says nothing."""
    for path in (root / name for name in NAMES):
        text = _beginning(path)
        if text is not None:
            cut = "\n[cut here]" if len(text) > LONGEST else ""
            text = text[:LONGEST].strip()
            return f"Instructions of {path}:\n\n{text}{cut}" if text else ""
    return ""


def _beginning(path: Path) -> str | None:
    """As much of a file as is used, and a character more; ``None`` if it is no readable file."""
    try:
        if not path.is_file():  # a pipe would be waited for
            return None
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(LONGEST + 1)
    except OSError:
        return None


def install(harness: Harness) -> None:
    """Add the prompt section ``instructions``."""

    async def section(agent: Agent) -> str:
        return "\n\n".join(filter(None, map(read_instructions, agent.roots)))

    harness.runtime.prompt.add("instructions", section)
