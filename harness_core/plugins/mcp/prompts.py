"""Prompts of servers as slash commands: ``/server:prompt words``.

What was typed stays in the log as it is; the model is given the prompt's content beside it. The
parsing is pure.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness_core.content import Text, UserBlock, UserMessage
from harness_core.plugins.mcp.offer import OfferedPrompt, ServerError
from harness_core.plugins.mcp.server import Server


@dataclass(frozen=True, slots=True)
class PromptCommand:
    """A prompt and the name it is called by: no whitespace, unique in the session (V1-CMD-03)."""

    name: str
    server: Server
    prompt: OfferedPrompt

    @property
    def description(self) -> str:
        """What people read beside the name."""
        return self.prompt.description or f"Prompt of {self.server.name}"

    @property
    def hint(self) -> str:
        """What may follow the name; empty if nothing."""
        return " ".join(
            argument.name if argument.required else f"[{argument.name}]"
            for argument in self.prompt.arguments
        )


def commands_of(servers: Iterable[Server]) -> list[PromptCommand]:
    """The commands of all servers, each name once."""
    found: dict[str, PromptCommand] = {}
    for server in servers:
        for prompt in server.offer.prompts:
            name = f"{server.slug}:{'_'.join(prompt.name.split())}"
            found.setdefault(name, PromptCommand(name, server, prompt))
    return list(found.values())


def called(
    message: UserMessage, commands: Iterable[PromptCommand]
) -> tuple[PromptCommand, str] | None:
    """The command that a prompt calls, and the words after it."""
    if message.command is None:
        return None
    name, words = message.command
    found = next((command for command in commands if command.name == name), None)
    return None if found is None else (found, words)


def arguments_of(prompt: OfferedPrompt, words: str) -> dict[str, str]:
    """The words after a command as arguments. Raises ``ServerError`` if one is missing.

    ``name=value`` names one; the others are filled in order, and the last takes all that is left.
    Quotes hold words together.
    """
    names = [argument.name for argument in prompt.arguments]
    values: dict[str, str] = {}
    rest = []
    for word in _split(words):
        name, equals, value = word.partition("=")
        if equals and name in names:
            values[name] = value
        else:
            rest.append(word)
    open_names = [name for name in names if name not in values]
    for position, name in enumerate(open_names):
        if position < len(rest):
            last = position == len(open_names) - 1
            values[name] = " ".join(rest[position:]) if last else rest[position]
    missing = [a.name for a in prompt.arguments if a.required and a.name not in values]
    if missing:
        raise ServerError(f"it needs {', '.join(missing)}")
    return values


def _split(words: str) -> Sequence[str]:
    try:
        return shlex.split(words)
    except ValueError:  # an apostrophe is no quote
        return words.split()


async def expansion(message: UserMessage, command: PromptCommand, words: str) -> UserMessage:
    """The content of the prompt, or why it cannot be had, as context beside ``message``."""
    content: tuple[UserBlock, ...]
    try:
        arguments = arguments_of(command.prompt, words)
        got = await command.server.use(lambda c: c.prompt(command.prompt.name, arguments))
        content = (Text(f"The user gave the command /{command.name}, which means:"), *got)
    except ServerError as failure:
        why = f"The user gave the command /{command.name}, which failed: {failure}. Tell them so."
        content = (Text(why),)
    return UserMessage(f"{message.id}-command", content, source="context")
