"""Commands and skills of one agent, and what they do for its model.

They follow the disk: looked for before every step, so that what was changed meanwhile counts. The
system prompt names the skills; the model reads the files of those it needs.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness_core.agent import AGENT_CREATED, Agent
from harness_core.bus import Next
from harness_core.config import user_file
from harness_core.facts import Noticed
from harness_core.loop import PRE_STEP, PreStep
from harness_core.plugins.prompt_files import PromptFiles, folders, skills_section

if TYPE_CHECKING:
    from harness_core.harness import Harness

KEY, TOLD = "prompt-files", "prompt-files-told"

FEW = 3
"""Files that are named, each in a notice of its own, if several cannot be used."""


def prompt_files_of(agent: Agent) -> PromptFiles:
    """The files of an agent. Raises ``KeyError`` if the plugin is not installed."""
    files: PromptFiles = agent.live[KEY]
    return files


def install(harness: Harness) -> None:
    """Give every agent its files; stand at ``agent/pre-step``; add to the prompt."""

    def created(agent: Agent) -> None:
        home, config = Path.home(), user_file(os.environ).parent
        agent.live[KEY] = PromptFiles(lambda: folders(agent.roots, home, config))
        agent.live[TOLD] = []

    async def before(draft: PreStep, following: Next[PreStep, PreStep]) -> PreStep:
        agent = draft.agent
        files = prompt_files_of(agent)
        files.look()
        told, agent.live[TOLD] = agent.live[TOLD], files.problems
        for notice in _notices([problem for problem in files.problems if problem not in told]):
            agent.session.append(notice)
        return await following(draft)

    async def section(agent: Agent) -> str:
        skills = prompt_files_of(agent).skills
        for skill in skills:
            agent.files.allow_reading(skill.path.parent)
        return skills_section(skills)

    harness.bus.on(AGENT_CREATED, created)
    harness.bus.on(PRE_STEP, before)
    harness.runtime.prompt.add("skills", section)


def _notices(problems: Sequence[str]) -> list[Noticed]:
    notices = [Noticed("warning", problem) for problem in problems[:FEW]]
    if len(problems) > FEW:
        more = f"{len(problems) - FEW} more files of commands and skills are not used"
        notices.append(Noticed("warning", more))
    return notices
