"""What a check gets to work with: a fresh home and workspace, a scripted model, agent processes.

Every check has its own context; nothing is shared between checks but the profile.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

from conformance import answers
from conformance.checks.editor import NO_CAPABILITIES, Editor, Session, tool
from conformance.checks.profile import Profile, writing
from conformance.checks.verdict import NotApplicable
from conformance.client import Answerer
from conformance.faults import Hung
from conformance.model_server import MODEL, ModelServer

T = TypeVar("T")

KEPT = (
    *("PATH", "PATHEXT", "SYSTEMROOT", "SYSTEMDRIVE", "COMSPEC", "WINDIR", "TEMP", "TMP"),
    *("TMPDIR", "USER", "LOGNAME", "LANG", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"),
)
"""The variables of our own environment an agent gets; no key and no proxy is among them."""
API_KEY = "sk-conformance-9f1c2a7be4"
"""The key agents are given for the scripted model; it must never be shown."""
FINISH_SECONDS = 2.0
"""How long an agent that is known to exit on EOF may take to do so after a check."""
POLL_SECONDS = 0.01


class Context:
    """The world of one check. Use it as an async context manager."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        timeout: float = 10.0,
        profile: Profile | None = None,
    ) -> None:
        self.command = tuple(command)
        self.timeout = timeout
        """Seconds that any single wait may take."""
        self.profile = profile or Profile()
        self.model = ModelServer()
        """Follows the directives in prompts; ``model.requests`` is what the agent asked of it."""
        self.editors: list[Editor] = []
        """Every connection of this check, for the record."""
        self._env = dict(env or {})
        self._root = Path()

    async def __aenter__(self) -> Self:
        self._make_folders()
        await self.model.__aenter__()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.model.__aexit__(None, None, None)
        shutil.rmtree(self._root, ignore_errors=True)

    @property
    def home(self) -> Path:
        """The agent's HOME, empty at first and the same for all processes of the check."""
        return self._root / "home"

    @property
    def cwd(self) -> Path:
        """The workspace sessions are opened in."""
        return self._root / "work"

    @property
    def start(self) -> Path:
        """Where agent processes are started: where we were, so that relative commands work.

        It is never the workspace.
        """
        return Path.cwd()

    @property
    def elsewhere(self) -> Path:
        """A directory of the check that the agent knows nothing of."""
        return self._root / "elsewhere"

    def _make_folders(self) -> None:
        self._root = Path(tempfile.mkdtemp(prefix="acp-conformance-")).resolve()
        for folder in (self.home, self.cwd, self.elsewhere):
            folder.mkdir()

    def put(self, name: str, text: str) -> Path:
        """Write a file of the workspace."""
        path = self.cwd / name
        path.write_text(text, encoding="utf-8", newline="")
        return path

    def harmless_call(self, name: str = "notes.txt") -> str:
        """The directive for a call that only looks: read a file, else echo its name."""
        if "read" in self.profile.tools:
            return tool("read", path=str(self.put(name, "some notes\n")))
        return tool("shell", command=f"echo some notes # {name}")

    def asking_call(self, name: str) -> str:
        """The directive for a call that asks for permission and leaves ``name`` in the workspace.

        Needs an agent with the need ``permission``.
        """
        return writing(self.profile.asks or "shell", str(self.cwd / name))

    def ran(self, name: str) -> bool:
        """Whether ``asking_call(name)`` was executed."""
        return (self.cwd / name).exists()

    def folder(self, name: str) -> Path:
        """A new empty directory outside the workspace."""
        path = self._root / name
        path.mkdir()
        return path

    def environment(self, *, model: bool = True, **extra: str) -> dict[str, str]:
        """The agent's whole environment; ``model=False`` leaves out all credentials."""
        kept = {k: v for k, v in os.environ.items() if k in KEPT or k.startswith("LC_")}
        base = {**kept, "HOME": str(self.home), "USERPROFILE": str(self.home), "TERM": "dumb"}
        quiet = {"BROWSER": "false", "NO_BROWSER": "1", "NO_PROXY": "127.0.0.1,localhost"}
        pointed = self._pointed() if model else {}
        return {**base, **quiet, **pointed, **extra}

    @property
    def settings(self) -> dict[str, str]:
        """What the user added to the environment that has nothing of the scripted model in it."""
        return {k: v for k, v in self._env.items() if filled(v, self._places) == v}

    @property
    def _places(self) -> dict[str, str]:
        return {
            "openai_base_url": self.model.openai_base_url,
            "anthropic_base_url": self.model.anthropic_base_url,
            "api_key": API_KEY,
            "model": MODEL,
            "home": str(self.home),
            "cwd": str(self.cwd),
        }

    def _pointed(self) -> dict[str, str]:
        """What points an agent at the scripted model, and what the user added to that."""
        places = self._places
        known = {
            "OPENAI_BASE_URL": places["openai_base_url"],
            "OPENAI_API_KEY": API_KEY,
            "ANTHROPIC_BASE_URL": places["anthropic_base_url"],
            "ANTHROPIC_API_KEY": API_KEY,
        }
        return known | {name: filled(value, places) for name, value in self._env.items()}

    @asynccontextmanager
    async def agent(
        self,
        answering: Mapping[str, Answerer] | None = None,
        *,
        env: Mapping[str, str] | None = None,
        command: Sequence[str] | None = None,
        end: bool = True,
    ) -> AsyncIterator[Editor]:
        """A new agent process; permissions are granted unless ``answering`` says otherwise.

        When the block is left in peace, stdin is closed and late messages are awaited, so that
        they get into the record; ``end=False`` leaves that out.
        """
        async with Editor.launch(
            command or self.command,
            cwd=self.start,
            env=self.environment() if env is None else env,
            answers={answers.PERMISSION: answers.allow, **(answering or {})},
            timeout=self.timeout,
        ) as editor:
            self.editors.append(editor)
            yield editor
            if end:
                await editor.finish(FINISH_SECONDS if self.profile.exits_on_eof else 0.0)

    @asynccontextmanager
    async def connection(
        self,
        answering: Mapping[str, Answerer] | None = None,
        *,
        capabilities: Any = NO_CAPABILITIES,
        **options: Any,
    ) -> AsyncIterator[Editor]:
        """A new agent process, initialized and, if that is needed, logged in."""
        async with self.agent(answering, **options) as editor:
            await editor.initialize(capabilities)
            if self.profile.login is not None:
                await editor.request("authenticate", {"methodId": self.profile.login})
            yield editor

    @asynccontextmanager
    async def session(
        self,
        answering: Mapping[str, Answerer] | None = None,
        *,
        capabilities: Any = NO_CAPABILITIES,
        **options: Any,
    ) -> AsyncIterator[Session]:
        """A new agent process with a session in the workspace."""
        async with self.connection(answering, capabilities=capabilities, **options) as editor:
            yield await editor.new_session(self.cwd)

    @property
    def model_texts(self) -> str:
        """Everything the model has been shown so far, joined."""
        return "\n".join(request.text for request in self.model.requests)

    def shown_with(self, text: str) -> str:
        """Everything the model has been shown together with ``text``, joined.

        Agents ask their model for titles and the like when they please. What a later prompt
        brings to it is in the requests that show that prompt.
        """
        return "\n".join(r.text for r in self.model.requests if text in r.text)

    def require_tools(self) -> None:
        """Give up if the agent had no tool for something the prompt wanted done.

        The profile knows the tools of a client without capabilities; with others they may differ.
        """
        unfit = [kind for request in self.model.requests for kind in request.unfit]
        if unfit:
            raise NotApplicable(f"the agent offers its model no {unfit[0]} tool here")

    async def eventually(
        self, condition: Callable[[], T | None], what: str, timeout: float | None = None
    ) -> T:
        """Poll something outside the protocol, like a file. Raises ``Hung``."""
        limit = self.timeout if timeout is None else timeout
        deadline = time.monotonic() + limit
        while not (found := condition()):
            if time.monotonic() > deadline:
                raise Hung(f"no {what} within {limit:g} s")
            await asyncio.sleep(POLL_SECONDS)
        return found


def filled(text: str, places: Mapping[str, str]) -> str:
    """``text`` with every ``{name}`` of ``places`` replaced; other braces stay as they are."""
    for name, value in places.items():
        text = text.replace(f"{{{name}}}", value)
    return text
