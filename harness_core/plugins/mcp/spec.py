"""Which MCP servers there are and how each is reached: small frozen data, and the names made of it.

Pure; knows no library, no file and no session.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from harness_core.person import Nobody, Person

LONGEST_NAME = 64
"""Characters that model APIs take for the name of a tool."""


@dataclass(frozen=True, slots=True)
class StdioSpec:
    """A server that is started as a process and spoken to over its standard streams.

    ``env`` is added to the few variables that every server gets.
    """

    name: str
    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class RemoteSpec:
    """A server behind a URL. URL and headers may hold secrets and are not shown."""

    name: str
    transport: Literal["http", "sse"]
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


ServerSpec: TypeAlias = StdioSpec | RemoteSpec


@dataclass(frozen=True, slots=True)
class Place:
    """Where a session is, and who is there: what servers are told of it. Paths are absolute."""

    cwd: Path
    roots: Callable[[], Sequence[Path]]
    person: Callable[[], Person] = Nobody


def slug(name: str, taken: Container[str] = ()) -> str:
    """A server's name as it stands in the names of tools and commands; none of ``taken``.

    It has no double underscore and none at its ends, so that ``mcp__slug__tool`` reads one way.
    """
    short = re.sub(r"[^A-Za-z0-9-]+", "_", name).strip("_")[:24].strip("_") or "server"
    return short if short not in taken else f"{short[:17]}-{_digest(name)}"


def tool_name(server: str, tool: str, taken: Container[str] = ()) -> str:
    """The name under which the model knows a tool of the server with that slug; none of ``taken``.

    The same names give the same result in every session, whatever order they come in, unless two
    tools of one server differ only in characters that a name may not have.
    """
    name = f"mcp__{server}__{re.sub(r'[^A-Za-z0-9_-]', '_', tool)}"
    if len(name) <= LONGEST_NAME and name not in taken:
        return name
    return f"{name[: LONGEST_NAME - 9]}_{_digest(tool)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
