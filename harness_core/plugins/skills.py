"""Skills: the system prompt names them, the model reads the files of those it needs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from harness_core.agent import Agent
from harness_core.config import user_file
from harness_core.plugins.prompt_files import (
    PromptFile,
    find_commands,
    find_skills,
    folders,
    skills_section,
)

if TYPE_CHECKING:
    from harness_core.harness import Harness


def places(agent: Agent) -> list[Path]:
    """Where an agent's commands and skills are looked for."""
    return folders(agent.roots, Path.home(), user_file(os.environ).parent)


def commands_and_skills(agent: Agent) -> list[PromptFile]:
    """What people can call by name now: commands, and skills whose name no command has."""
    here = places(agent)
    found = {file.name: file for file in find_commands(here)}
    for skill in find_skills(here):
        found.setdefault(skill.name, skill)
    return list(found.values())


def install(harness: Harness) -> None:
    """Add the prompt section ``skills``."""

    async def section(agent: Agent) -> str:
        skills = find_skills(places(agent))
        for skill in skills:
            agent.files.allow_reading(skill.path.parent)
        return skills_section(skills)

    harness.runtime.prompt.add("skills", section)
