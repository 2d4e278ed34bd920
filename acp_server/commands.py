"""Slash commands: prompts with a short name.

A command arrives as ordinary text that starts with ``/name`` (V1-CMD-02) and stays in the log as it
was typed; the model is told beside it what it means. Anything else goes to the model as it is.
Commands that the agent answers by itself, and prompts of MCP servers, are announced here and served
by their plugins. Commands and skills that people keep as files come from ``prompt_files``. What was
announced is announced again when it has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from acp_server.limits import Budget, cut
from harness_core.bus import Next
from harness_core.content import Text, UserMessage
from harness_core.loop import PreStep
from harness_core.plugins.local_commands import LOCAL
from harness_core.plugins.mcp import servers_of
from harness_core.plugins.mcp.prompts import PromptCommand
from harness_core.plugins.prompt_files import PromptFile
from harness_core.plugins.skills import prompt_files_of

if TYPE_CHECKING:
    from acp_server.sessions import AcpSession

LISTED, ABOUT = 40_000, 400
"""Bytes of all commands of servers, and of what is said about one."""


@dataclass(frozen=True, slots=True)
class Command:
    """A named prompt. ``hint`` tells what may follow the name."""

    name: str
    description: str
    prompt: str
    hint: str


COMMANDS = (
    Command(
        "init",
        "Write an AGENTS.md that tells coding agents how to work in this project",
        "Look through this project and write an AGENTS.md for coding agents at its root, or "
        "improve the one that is there: what it is, how it is laid out, how to build, test and "
        "check it, and the conventions a change must keep. Be short and exact.",
        "what to pay attention to",
    ),
    Command(
        "review",
        "Review the uncommitted changes of this project",
        "Review the uncommitted changes of this project (git status, git diff). Report real "
        "problems first, each with file and line and why it is one. Change nothing.",
        "what to look for",
    ),
)


class CommandDesk:
    """Keeps the client of one session informed of its commands (V1-CMD-01)."""

    def __init__(self, session: AcpSession) -> None:
        self._session = session
        self._files = prompt_files_of(session.agent)
        self._servers = servers_of(session.agent)
        self._told: dict[str, Any] | None = None

    def announce(self) -> None:
        """Tell what there is, and from here on what it has become."""
        self._told = None
        self._files.changed = self._servers.prompts_changed = self._tell
        self._files.look()
        self._tell()

    def look(self) -> None:
        """Find out whether files have changed since the last step of a turn began."""
        self._files.look()

    def _tell(self) -> None:
        update = announced(self._files.named, self._servers.prompts)
        if update != self._told:
            self._told = update
            self._session.update(update)


def announced(
    files: Iterable[PromptFile] = (), prompts: Iterable[PromptCommand] = ()
) -> dict[str, Any]:
    """The ``available_commands_update``: ours, people's files, servers' prompts (V1-CMD-01).

    The list is always whole, so texts are cut, and what finds no room is left out.
    """
    room = Budget(LISTED)
    found = [_entry(c.name, c.description, c.hint) for c in LOCAL.values()]
    found += [_entry(c.name, c.description, c.hint) for c in COMMANDS]
    taken = {entry["name"] for entry in found}
    others: list[PromptFile | PromptCommand] = [f for f in files if f.name not in taken]
    others += prompts
    for prompt in others:
        entry = _entry(prompt.name, cut(prompt.description, ABOUT), cut(prompt.hint, ABOUT))
        if room.take(entry):
            found.append(entry)
    return {"sessionUpdate": "available_commands_update", "availableCommands": found}


def _entry(name: str, description: str, hint: str) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": name, "description": description}
    return {**entry, "input": {"hint": hint}} if hint else entry


def explanation(
    message: UserMessage, files: Callable[[], Iterable[PromptFile]] = tuple
) -> UserMessage | None:
    """What a command in ``message`` means, as context for the model; ``None`` if it is none.

    ``files`` is asked only if it may be one.
    """
    if message.command is None:
        return None
    name, words = message.command
    meaning = next((c.prompt for c in COMMANDS if c.name == name), None)
    if meaning is None:
        meaning = next((f.expand(words) for f in files() if f.name == name), None)
    if meaning is None:
        return None
    text = f"The user gave the command /{name}, which means: {meaning}"
    return UserMessage(f"{message.id}-command", (Text(text),), source="context")


async def explain(draft: PreStep, following: Next[PreStep, PreStep]) -> PreStep:
    """At ``agent/pre-step``: put the meaning of each command beside it."""
    messages: list[UserMessage] = []
    for message in draft.messages:
        meaning = explanation(message, lambda: prompt_files_of(draft.agent).named)
        messages += [message] if meaning is None else [message, meaning]
    return await following(replace(draft, messages=tuple(messages)))
