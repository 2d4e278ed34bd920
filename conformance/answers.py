"""What a client can answer an agent: permissions, files, terminals, questions.

Each answerer is a plain function or a small object with memory, well-behaved or hostile on
purpose. A check plugs them into a ``Client`` by method name.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from conformance.client import NEVER, AgentRequest, Answerer
from conformance.faults import RpcError
from conformance.process import group_options, kill_group

PERMISSION = "session/request_permission"
ELICITATION = "elicitation/create"
CANCELLED = {"outcome": {"outcome": "cancelled"}}


def select(kind: str) -> Answerer:
    """Choose the first option whose kind starts with ``kind`` (``allow``, ``reject_once``, …)."""

    def answer(request: AgentRequest) -> Any:
        option = option_of(request, kind)
        return CANCELLED if option is None else selected(option)

    return answer


def option_of(request: AgentRequest, kind: str) -> str | None:
    """The id of the first offered option of a kind, one-time options first."""
    options = [o for o in request.params.get("options") or [] if isinstance(o, dict)]
    fitting = [o for o in options if str(o.get("kind", "")).startswith(kind)]
    fitting.sort(key=lambda option: not str(option.get("kind")).endswith("once"))
    return str(fitting[0].get("optionId")) if fitting else None


def selected(option: str) -> dict[str, Any]:
    return {"outcome": {"outcome": "selected", "optionId": option}}


allow = select("allow")
reject = select("reject")


def constant(result: Any) -> Answerer:
    """Always this result, sense or nonsense."""
    return lambda _request: result


def failing(code: int = -32603, message: str = "the client cannot do that") -> Answerer:
    """Always an error."""

    def answer(_request: AgentRequest) -> Any:
        raise RpcError(code, message)

    return answer


def never(_request: AgentRequest) -> Any:
    """No answer at all."""
    return NEVER


class Files:
    """The editor's files: buffers over the disk. Lines count from 1, as the protocol says."""

    def __init__(self, buffers: Mapping[str, str] | None = None) -> None:
        self.buffers: dict[str, str] = dict(buffers or {})
        """Unsaved text by absolute path; it wins over the disk."""

    def answers(self, *, read: bool = True, write: bool = True) -> dict[str, Answerer]:
        found: dict[str, Answerer] = {}
        if read:
            found["fs/read_text_file"] = self.read
        if write:
            found["fs/write_text_file"] = self.write
        return found

    def read(self, request: AgentRequest) -> Any:
        text = self._text(str(request.params.get("path")))
        first = int(request.params.get("line") or 1) - 1
        limit = request.params.get("limit")
        lines = text.splitlines(keepends=True)[first:]
        return {"content": "".join(lines if limit is None else lines[: int(limit)])}

    def write(self, request: AgentRequest) -> Any:
        path, content = str(request.params.get("path")), str(request.params.get("content"))
        self.buffers[path] = content
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(content, encoding="utf-8", newline="")
        return {}

    def _text(self, path: str) -> str:
        if path in self.buffers:
            return self.buffers[path]
        try:
            return Path(path).read_bytes().decode("utf-8", "replace")
        except OSError:
            raise RpcError(-32002, f"{path} does not exist") from None


class Terminals:
    """The editor's terminals: real processes, and a memory of what was created and released."""

    def __init__(self, *, failing: Sequence[str] = ()) -> None:
        self.created: list[str] = []
        self.released: list[str] = []
        self.used_after_release: list[str] = []
        self.watched = 0
        """How often the agent looked at a terminal: waited for it or read its output."""
        self._failing = frozenset(failing)
        """Methods answered with an error, like ``terminal/wait_for_exit``."""
        self._running: dict[str, _Terminal] = {}

    def answers(self) -> dict[str, Answerer]:
        methods: dict[str, Any] = {
            "terminal/create": self._create,
            "terminal/output": self._output,
            "terminal/wait_for_exit": self._wait,
            "terminal/kill": self._kill,
            "terminal/release": self._release,
        }
        return {name: self._guarded(name, method) for name, method in methods.items()}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        """End whatever still runs."""
        for terminal in tuple(self._running.values()):
            await terminal.end()

    def _guarded(self, name: str, method: Any) -> Answerer:
        return failing() if name in self._failing else method

    async def _create(self, request: AgentRequest) -> Any:
        name = f"terminal-{len(self.created) + 1}"
        self.created.append(name)
        self._running[name] = await _Terminal.start(request.params)
        return {"terminalId": name}

    async def _output(self, request: AgentRequest) -> Any:
        self.watched += 1
        terminal = self._find(request)
        answer: dict[str, Any] = {"output": terminal.text(), "truncated": False}
        return {**answer, "exitStatus": terminal.status()} if terminal.exited else answer

    async def _wait(self, request: AgentRequest) -> Any:
        self.watched += 1
        terminal = self._find(request)
        await terminal.finished()
        return terminal.status()

    async def _kill(self, request: AgentRequest) -> Any:
        self._find(request).kill()
        return {}

    async def _release(self, request: AgentRequest) -> Any:
        name = str(request.params.get("terminalId"))
        self.released.append(name)
        terminal = self._running.pop(name, None)
        if terminal is None:
            raise RpcError(-32002, f"there is no terminal {name}")
        await terminal.end()
        return {}

    def _find(self, request: AgentRequest) -> _Terminal:
        name = str(request.params.get("terminalId"))
        if name in self.released:
            self.used_after_release.append(name)
        if name not in self._running:
            raise RpcError(-32002, f"there is no terminal {name}")
        return self._running[name]


class _Terminal:
    """One command with its output so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._output = bytearray()
        self._reader = asyncio.get_running_loop().create_task(self._read())

    @classmethod
    async def start(cls, params: Mapping[str, Any]) -> _Terminal:
        env = {str(v["name"]): str(v["value"]) for v in params.get("env") or []}
        options: dict[str, Any] = {
            "cwd": params.get("cwd"),
            "env": {**os.environ, **env},
            "stdin": asyncio.subprocess.DEVNULL,
            "stdout": asyncio.subprocess.PIPE,
            "stderr": asyncio.subprocess.STDOUT,
            **group_options(),
        }
        command, args = str(params["command"]), [str(a) for a in params.get("args") or []]
        if args:
            return cls(await asyncio.create_subprocess_exec(command, *args, **options))
        return cls(await asyncio.create_subprocess_shell(command, **options))

    @property
    def exited(self) -> bool:
        return self._process.returncode is not None

    def text(self) -> str:
        return self._output.decode(errors="replace")

    def status(self) -> dict[str, Any]:
        code = self._process.returncode
        if code is not None and code < 0:
            return {"exitCode": None, "signal": str(-code)}
        return {"exitCode": code, "signal": None}

    async def finished(self) -> None:
        await asyncio.shield(self._reader)

    def kill(self) -> None:
        if not self.exited:
            kill_group(self._process.pid)

    async def end(self) -> None:
        self.kill()
        await self._reader

    async def _read(self) -> None:
        assert self._process.stdout is not None
        while data := await self._process.stdout.read(65536):
            self._output += data
        await self._process.wait()
