"""Permission rules: what a remembered answer covers. Pure; knows no file, session or front end.

A scope is text that people can read: a tool (``edit``), the beginning of a command
(``shell:git status``), one exact command (``shell=make && ./run``), a file, or a directory and all
below it (``edit:src``), or all tools of an MCP server (``mcp__github``). The most specific rule
that covers a call decides; of two equal ones, refusal.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from harness_core.content import Json

SUBCOMMANDS = frozenset(
    "apt brew bundle cargo composer conda docker dotnet gh git go gradle helm kubectl mvn npm npx "
    "pip pip3 pnpm poetry podman rustup systemctl terraform uv yarn".split()
)
"""Commands whose first argument says what they do, so that a rule covers both words."""

INTERPRETERS = frozenset(
    "bash sh zsh dash fish env sudo doas su xargs eval exec source python python3 node ruby perl "
    "php time nohup nice ssh watch timeout find awk sed tee dd npx uvx".split()
)
"""Commands that run whatever they are given: a rule for their name would allow everything."""

EDITS = frozenset(("edit", "delete", "move"))
"""The kinds of tools that change the file they are given as ``path``."""

_PLAIN = re.compile(r"[\w@%+=:,./~^-]+(?: +[\w@%+=:,./~^\"' *-]+)*")
"""A single simple command: nothing that chains, redirects, substitutes or expands."""
_CHAIN = re.compile(r"[;&|()`\n]")
"""Where another command may begin."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What an "always" would cover: its ``key``, and ``label``, how a person reads it."""

    key: str
    label: str


@dataclass(frozen=True, slots=True)
class Rule:
    """A remembered answer."""

    scope: str
    allow: bool


def scope_of(tool: str, kind: str, arguments: Mapping[str, Json]) -> Scope:
    """The scope to offer for a call: as wide as is safe, and no wider."""
    if kind == "execute":
        return _command_scope(tool, _command(arguments))
    if tool.startswith("mcp__"):
        return Scope(tool, f"`{tool.removeprefix('mcp__').replace('__', ': ')}`")
    if kind in EDITS:
        return Scope(tool, f"{tool} of files")
    return Scope(tool, f"`{tool}`")


def _command(arguments: Mapping[str, Json]) -> str:
    """The command without the spaces around it: only those mean nothing to every shell."""
    return str(arguments.get("command", "")).strip(" ")


def _command_scope(tool: str, command: str) -> Scope:
    prefix = command_prefix(command)
    if prefix is None:
        return Scope(f"{tool}={command}", f"exactly `{_short(command)}`")
    return Scope(f"{tool}:{prefix}", f"commands that start with `{prefix}`")


def command_prefix(command: str) -> str | None:
    """The words that say what a simple command does; ``None`` if only the whole of it is safe."""
    if not _PLAIN.fullmatch(command):
        return None
    words = command.split()
    if words[0].rpartition("/")[2] in INTERPRETERS or "=" in words[0]:
        return None
    if words[0] in SUBCOMMANDS:
        if len(words) == 1 or words[1].startswith("-"):
            return None
        return " ".join(words[:2])
    return words[0]


def _short(command: str) -> str:
    line = command.splitlines()[0] if command else ""
    return line if len(line) <= 60 and line == command else f"{line[:59]}…"


def covers(scope: str, tool: str, kind: str, arguments: Mapping[str, Json]) -> bool:
    """Whether a rule for ``scope`` speaks of this call; a path is relative to the project."""
    if scope == tool:
        return True
    if tool.startswith("mcp__") and scope.startswith("mcp__") and scope.count("__") == 1:
        return tool.startswith(f"{scope}__")
    if kind == "execute" and scope == f"{tool}={_command(arguments)}":
        return True
    name, _, part = scope.partition(":")
    if name != tool or not part:
        return False
    if kind == "execute":
        command = _command(arguments)
        return _PLAIN.fullmatch(command) is not None and _begins(command, part, " ")
    return kind in EDITS and _begins(str(arguments.get("path", "")), posixpath.normpath(part), "/")


def _begins(text: str, part: str, separator: str) -> bool:
    return text == part or text.startswith(f"{part}{separator}")


def _refuses(scope: str, tool: str, kind: str, arguments: Mapping[str, Json]) -> bool:
    """Whether a refusal of ``scope`` speaks of this call: also of a command within a chain."""
    if covers(scope, tool, kind, arguments):
        return True
    name, _, prefix = scope.partition(":")
    if kind != "execute" or name != tool or not prefix:
        return False
    return any(_begins(part.strip(), prefix, " ") for part in _CHAIN.split(_command(arguments)))


def decide(
    rules: Iterable[Rule], tool: str, kind: str, arguments: Mapping[str, Json]
) -> Rule | None:
    """The rule that decides a call, ``None`` if it is to be asked."""
    speaking = [
        rule
        for rule in rules
        if (covers if rule.allow else _refuses)(rule.scope, tool, kind, arguments)
    ]
    return max(speaking, key=lambda rule: (len(rule.scope), not rule.allow), default=None)


def written(text: str, tools: Collection[str]) -> str:
    """A scope that a person wrote; ``tools`` are those that ask. Raises ``ValueError``."""
    scope = text.strip().strip("`").strip()
    tool, *part = re.split("[:=]", scope, maxsplit=1)
    if (tool in tools or tool.startswith("mcp__")) and part != [""]:
        return scope
    raise ValueError(
        f"`{scope}` is not what a permission can be for: write one of {', '.join(sorted(tools))}, "
        "a part of it (`shell:git status`, `edit:src`), or a server (`mcp__NAME`)"
    )
