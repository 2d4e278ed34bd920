"""One settings tree: defaults < user file < project file < environment < flags.

The project file is code from a repository, so it may only choose what cannot leak a key or widen
what runs unasked. Every mistake names the file or variable and the key.
"""

from __future__ import annotations

import logging
import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from harness_core.model.settings import ProviderSettings

log = logging.getLogger(__name__)

PREFIX = "ACP_HARNESS_"
NOT_SETTINGS = frozenset(("CONFIG", "HOME"))
"""Variables with our prefix that say where things are, not how they work."""

PROJECT_FILE = ".acp-harness/settings.toml"
PROJECT_KEYS = frozenset(("model", "max_output", "temperature", "effort", "max_steps", "tools"))


class ConfigError(Exception):
    """The settings are wrong. The message says where and what to change."""


class Retry(BaseModel):
    """How failed model calls are repeated. Times are in seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)

    attempts: int = Field(default=3, ge=0, description="repetitions after the first failure")
    base: float = Field(default=1.0, ge=0, description="wait before the first repetition")
    longest: float = Field(
        default=60.0, ge=0, description="longest wait; a provider that asks for more fails"
    )


class McpServer(BaseModel):
    """An MCP server: a command to start, or a URL to connect to."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    type: Literal["stdio", "http", "streamable-http", "sse"] | None = None
    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict, repr=False)
    url: str | None = Field(None, pattern=r"^https?://", repr=False)
    headers: dict[str, str] = Field(default_factory=dict, repr=False)

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("needs either a command or a url")
        if self.type is not None and (self.type == "stdio") != (self.command is not None):
            raise ValueError("type stdio goes with a command, http and sse with a url")
        return self


class Settings(BaseModel):
    """Everything that can be set. The names are those of the TOML files."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)

    model: str = Field("demo:demo", description="`provider:name` of the model")
    max_output: int | None = Field(None, gt=0, description="tokens of one answer at most")
    temperature: float | None = Field(None, ge=0, description="sampling temperature")
    effort: str | None = Field(None, description="reasoning effort: low, medium or high")
    max_steps: int = Field(200, gt=0, description="model calls in one turn at most")
    mode: Literal["ask", "accept-edits", "plan", "auto"] = Field(
        "ask", description="`ask` before anything is changed or run, `accept-edits`, `plan`, `auto`"
    )
    delegate: bool = Field(
        True, description="use the editor's files and terminals where it offers them"
    )
    retry: Retry = Field(Retry(), description="how failed model calls are repeated")
    tools: dict[str, Any] = Field(default_factory=dict, description="per tool: its own table")
    providers: dict[str, ProviderSettings] = Field(
        default_factory=dict, description="per provider: kind, base_url, api_key_env, headers"
    )
    mcp_servers: dict[str, McpServer] = Field(
        default_factory=dict, description="MCP servers of every session: command and args, or url"
    )
    project_mcp: bool = Field(False, description="start the servers of a project's `.mcp.json`")
    mcp_wait: float = Field(
        5.0, ge=0, description="seconds that a turn waits for MCP servers that are starting"
    )
    data_dir: str | None = Field(None, description="where sessions are kept")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "warning", description="what goes to the log"
    )
    log_file: str | None = Field(None, description="where the log goes; stderr if not set")


@dataclass(frozen=True)
class Layer:
    """Settings from one source; ``name`` says where a key of it is, for a person."""

    tree: Mapping[str, Any]
    name: Callable[[Sequence[str]], str]

    def knows(self, keys: Sequence[str]) -> bool:
        """Whether it says anything at ``keys``."""
        here: Any = self.tree
        for key in keys:
            if not isinstance(here, Mapping) or key not in here:
                return False
            here = here[key]
        return True


@dataclass(frozen=True)
class Config:
    """The sources, read once; ``for_cwd`` adds a project's file."""

    user: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    flags: Mapping[str, Any] = field(default_factory=dict)
    user_path: Path = Path("settings.toml")

    @classmethod
    def load(
        cls, env: Mapping[str, str] | None = None, flags: Mapping[str, Any] | None = None
    ) -> Config:
        """Read the user's file and the environment. Raises ``ConfigError``."""
        env = os.environ if env is None else env
        path = user_file(env)
        config = cls(_read(path), _from_environment(env), dict(flags or {}), path)
        config.for_cwd(None)
        return config

    def for_cwd(self, cwd: Path | None) -> Settings:
        """The settings of a session in ``cwd``. Raises ``ConfigError``."""
        layers = (
            Layer(self.user, _in_file(self.user_path)),
            Layer(_project(cwd), _in_file((cwd or Path()) / PROJECT_FILE)),
            Layer(self.environment, _variable),
            Layer(self.flags, lambda keys: f"flag {'.'.join(keys)}"),
        )
        tree: dict[str, Any] = {}
        for layer in layers:
            tree = _merge(tree, layer.tree)
        try:
            return Settings.model_validate(tree)
        except ValidationError as failure:
            raise ConfigError(_explain(failure, layers)) from None


def user_file(env: Mapping[str, str]) -> Path:
    """Where the user's settings are: ``ACP_HARNESS_CONFIG``, else the platform's place."""
    if override := env.get(PREFIX + "CONFIG"):
        return Path(override)
    from platformdirs import user_config_dir

    return Path(user_config_dir("acp-harness", appauthor=False)) / "settings.toml"


def data_dir(settings: Settings) -> Path:
    """Where sessions are kept: the setting, else the platform's place."""
    if settings.data_dir:
        return Path(settings.data_dir).expanduser()
    from platformdirs import user_data_dir

    return Path(user_data_dir("acp-harness", appauthor=False))


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as failure:
        raise ConfigError(f"{path} cannot be read: {failure}") from None
    except tomllib.TOMLDecodeError as failure:
        raise ConfigError(f"{path} is not valid TOML: {failure}") from None


def _project(cwd: Path | None) -> dict[str, Any]:
    if cwd is None:
        return {}
    path = cwd / PROJECT_FILE
    tree = _read(path)
    for key in sorted(tree.keys() - PROJECT_KEYS):
        log.warning("%s: %s can only be set in your own settings; ignored", path, key)
    return {key: value for key, value in tree.items() if key in PROJECT_KEYS}


def _from_environment(env: Mapping[str, str]) -> dict[str, Any]:
    """``ACP_HARNESS_RETRY__ATTEMPTS=0`` sets ``attempts`` in the table ``retry``."""
    tree: dict[str, Any] = {}
    for name, value in sorted(env.items(), key=lambda pair: pair[0].lower()):
        key = name.removeprefix(PREFIX)
        if key == name or key in NOT_SETTINGS or not value:
            continue
        *tables, last = key.lower().split("__")
        here = tree
        for table in tables:
            here = here.setdefault(table, {})
            if not isinstance(here, dict):
                raise ConfigError(
                    f"{name}: {table} is set to a value already; unset one of the two"
                )
        here[last] = value
    return tree


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        merged[key] = _merge(old, value) if both else value  # type: ignore[arg-type]
    return merged


def _explain(failure: ValidationError, layers: Sequence[Layer]) -> str:
    lines = []
    for error in failure.errors(include_url=False, include_context=False, include_input=False):
        keys = tuple(str(part) for part in error["loc"])
        hint = f"; known are {', '.join(Settings.model_fields)}"
        unknown = error["type"] == "extra_forbidden" and len(keys) == 1
        lines.append(f"{_where(keys, layers)}: {error['msg'].lower()}{hint if unknown else ''}")
    return "; ".join(lines)


def _where(keys: Sequence[str], layers: Sequence[Layer]) -> str:
    """Where a setting was made: the highest layer that knows the most of its keys."""
    for depth in range(len(keys), 0, -1):
        for layer in reversed(layers):
            if layer.knows(keys[:depth]):
                return layer.name(keys)
    return f"setting {'.'.join(keys)}"


def _in_file(path: Path) -> Callable[[Sequence[str]], str]:
    return lambda keys: f"{path}: {'.'.join(keys)}"


def _variable(keys: Sequence[str]) -> str:
    return PREFIX + "__".join(keys).upper()
