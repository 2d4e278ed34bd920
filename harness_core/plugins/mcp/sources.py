"""Servers that do not come from the client: those of the user's settings and of ``.mcp.json``.

A project's file is code from a repository: it is read only if the user's settings allow it. Knows
no library and starts nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from harness_core.config import McpServer, Settings
from harness_core.plugins.mcp.spec import RemoteSpec, ServerSpec, StdioSpec

PROJECT_FILE = ".mcp.json"
LARGEST = 1 << 20
"""Bytes of a project's file that are read."""

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


class SourceError(ValueError):
    """A server's configuration cannot be used. The message says where and why, without values."""


def spec_of(name: str, server: McpServer) -> ServerSpec:
    """The spec of a configured server."""
    if server.command is not None:
        return StdioSpec(name, server.command, server.args, server.env)
    return RemoteSpec(
        name, "sse" if server.type == "sse" else "http", server.url or "", server.headers
    )


def from_settings(settings: Settings) -> list[ServerSpec]:
    """The servers of the user's settings."""
    return [spec_of(name, server) for name, server in settings.mcp_servers.items()]


def from_project(cwd: Path, env: Mapping[str, str]) -> tuple[list[ServerSpec], list[str]]:
    """The servers of a project's ``.mcp.json`` and, for people, what is wrong with the file."""
    path = cwd / PROJECT_FILE
    try:
        entries = _read(path)
    except SourceError as failure:
        return [], [str(failure)]
    specs, problems = [], []
    for name, entry in entries.items():
        try:
            specs.append(_project_spec(name, entry, env))
        except SourceError as failure:
            problems.append(f"{path}: server {name}: {failure}")
    return specs, problems


def _read(path: Path) -> Mapping[str, Any]:
    try:
        if not path.is_file():  # a pipe would be waited for
            return {}
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
        tree = json.loads(data.decode("utf-8-sig"))
    except OSError as failure:
        raise SourceError(f"{path} cannot be read: {failure.strerror}") from None
    except (ValueError, RecursionError) as failure:
        raise SourceError(f"{path} is not valid JSON: {failure}") from None
    servers = tree.get("mcpServers", {}) if isinstance(tree, dict) else None
    if not isinstance(servers, dict):
        raise SourceError(f'{path} must hold an object {{"mcpServers": {{name: server}}}}')
    return servers


def _project_spec(name: str, entry: object, env: Mapping[str, str]) -> ServerSpec:
    if not isinstance(entry, dict):
        raise SourceError("must be an object")
    known = {key: entry[key] for key in entry.keys() & McpServer.model_fields.keys()}
    try:
        return spec_of(name, McpServer.model_validate(expand(known, env)))
    except ValidationError as failure:
        raise SourceError(_first(failure)) from None


def _first(failure: ValidationError) -> str:
    error = failure.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in error["loc"])
    problem = error["msg"].removeprefix("Value error, ")
    return f"{where}: {problem}" if where else problem


def expand(value: Any, env: Mapping[str, str]) -> Any:
    """``value`` with ``${VAR}`` and ``${VAR:-default}`` replaced in every string of it.

    Raises ``SourceError`` for a variable that is not set and has no default.
    """
    if isinstance(value, str):
        return _VARIABLE.sub(lambda found: _look_up(found, env), value)
    if isinstance(value, list):
        return [expand(item, env) for item in value]
    if isinstance(value, dict):
        return {key: expand(item, env) for key, item in value.items()}
    return value


def _look_up(found: re.Match[str], env: Mapping[str, str]) -> str:
    name, default = found[1], found[2]
    value = env.get(name)
    if default is not None and not value:
        return default
    if value is None:
        raise SourceError(f"environment variable {name} is not set")
    return value


def merged(*sources: Iterable[ServerSpec]) -> list[ServerSpec]:
    """The servers of all sources; of two with one name the one of the later source."""
    return list({spec.name: spec for source in sources for spec in source}.values())
