"""An editor on the official Python SDK: shows updates, serves files and terminals, asks its user.

It believes nothing: whatever it is shown goes to a ``Screen``, and a terminal that the agent
forgets to release is found when the editor closes.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import acp
import anyio
from acp import schema

from tests.clients.screen import Screen

PATIENCE = 60.0
"""Seconds after which something that has not happened will not happen."""

Question = dict[str, Any]
Answer = Callable[[Question], Awaitable[Any]]
"""How the user answers a permission request: the raw result, whatever it is."""


def select(kind: str) -> Answer:
    """Choose the first option of this kind."""

    async def answer(question: Question) -> Any:
        id = next(option["optionId"] for option in question["options"] if option["kind"] == kind)
        return {"outcome": {"outcome": "selected", "optionId": id}}

    return answer


def reply(result: Any) -> Answer:
    """Send this result, sense or nonsense."""

    async def answer(_: Question) -> Any:
        return result

    return answer


def refuse(error: Exception) -> Answer:
    """Answer with an error."""

    async def answer(_: Question) -> Any:
        raise error

    return answer


async def never(_: Question) -> Any:
    """Leave the question on the screen for ever."""
    await asyncio.Event().wait()


ALLOW = select("allow_once")
CANCELLED = {"outcome": {"outcome": "cancelled"}}


@dataclass
class Terminal:
    """A command that the editor runs for the agent."""

    process: asyncio.subprocess.Process
    changed: asyncio.Event
    output: bytearray = field(default_factory=bytearray)
    reading: asyncio.Task[None] | None = None

    async def read(self) -> None:
        stdout = self.process.stdout
        while stdout is not None and (data := await stdout.read(4096)):
            self.output += data
            self.changed.set()

    @property
    def status(self) -> schema.TerminalExitStatus | None:
        code = self.process.returncode
        return None if code is None else schema.TerminalExitStatus(exit_code=abs(code))

    async def end(self) -> None:
        """Kill it if it runs, and read what is left."""
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()
        if self.reading is not None:
            await self.reading


class Editor(acp.Client):
    """What the SDK calls when the agent wants something. ``permission`` is how its user answers."""

    def __init__(self, permission: Answer = ALLOW) -> None:
        self.permission = permission
        self.screens: defaultdict[str, Screen] = defaultdict(Screen)
        self.updates: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        self.questions: list[Question] = []
        self.unsaved: dict[str, str] = {}
        """What its buffers hold that the disk does not, by path."""
        self.terminals: dict[str, Terminal] = {}
        self.released: list[Terminal] = []
        self._numbers = itertools.count(1)
        self._changed = asyncio.Event()

    async def until(self, seen: Callable[[], Any]) -> None:
        """Wait until something is true of what this editor has seen."""
        async with asyncio.timeout(PATIENCE):
            while not seen():
                self._changed.clear()
                await self._changed.wait()

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        shown = plain(update)
        self.updates[session_id].append(shown)
        self.screens[session_id].show(shown)
        self._changed.set()

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **_: Any
    ) -> Any:
        question = {
            "sessionId": session_id,
            "toolCall": plain(tool_call),
            "options": [plain(option) for option in options],
        }
        self.questions.append(question)
        self._changed.set()
        return await self.permission(question)

    # --- files ---------------------------------------------------------------------------------

    async def read_text_file(
        self,
        session_id: str,
        path: str,
        line: int | None = None,
        limit: int | None = None,
        **_: Any,
    ) -> schema.ReadTextFileResponse:
        text = self.unsaved.get(path)
        try:
            text = await anyio.Path(path).read_text() if text is None else text
        except FileNotFoundError:
            raise acp.RequestError.resource_not_found(path) from None
        lines = text.splitlines(keepends=True)
        start = max((line or 1) - 1, 0)
        end = None if limit is None else start + limit
        return schema.ReadTextFileResponse(content="".join(lines[start:end]))

    async def write_text_file(self, session_id: str, path: str, content: str, **_: Any) -> None:
        self.unsaved.pop(path, None)
        await anyio.Path(path).write_text(content)

    # --- terminals -----------------------------------------------------------------------------

    async def create_terminal(
        self,
        session_id: str,
        command: str,
        args: list[str] | None = None,
        env: list[Any] | None = None,
        cwd: str | None = None,
        output_byte_limit: int | None = None,
        **_: Any,
    ) -> schema.CreateTerminalResponse:
        process = await asyncio.create_subprocess_exec(
            command,
            *(args or []),
            cwd=cwd,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        terminal = Terminal(process, self._changed)
        terminal.reading = asyncio.create_task(terminal.read())
        id = f"term-{next(self._numbers)}"
        self.terminals[id] = terminal
        return schema.CreateTerminalResponse(terminal_id=id)

    async def terminal_output(
        self, session_id: str, terminal_id: str, **_: Any
    ) -> schema.TerminalOutputResponse:
        terminal = self._terminal(terminal_id)
        return schema.TerminalOutputResponse(
            output=terminal.output.decode(errors="replace"),
            truncated=False,
            exit_status=terminal.status,
        )

    async def wait_for_terminal_exit(
        self, session_id: str, terminal_id: str, **_: Any
    ) -> schema.WaitForTerminalExitResponse:
        code = await self._terminal(terminal_id).process.wait()
        return schema.WaitForTerminalExitResponse(exit_code=abs(code))

    async def kill_terminal(self, session_id: str, terminal_id: str, **_: Any) -> None:
        terminal = self._terminal(terminal_id)
        if terminal.process.returncode is None:
            terminal.process.kill()

    async def release_terminal(self, session_id: str, terminal_id: str, **_: Any) -> None:
        terminal = self._terminal(terminal_id)
        del self.terminals[terminal_id]
        self.released.append(terminal)
        await terminal.end()

    def _terminal(self, id: str) -> Terminal:
        if id not in self.terminals:
            raise acp.RequestError.invalid_params({"details": f"there is no terminal {id}"})
        return self.terminals[id]

    async def close(self) -> None:
        """Close the window. Raises ``AssertionError`` if the agent left terminals behind."""
        left = list(self.terminals)
        for terminal in self.terminals.values():
            await terminal.end()
        assert not left, f"the agent never released {left}"

    # --- forms and extensions ------------------------------------------------------------------

    async def create_elicitation(
        self, message: str, mode: Any, **_: Any
    ) -> schema.CancelElicitationResponse:
        return schema.CancelElicitationResponse(action="cancel")

    async def complete_elicitation(self, elicitation_id: str, **_: Any) -> None:
        return

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        raise acp.RequestError.method_not_found(method)

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        return

    def on_connect(self, conn: acp.Agent) -> None:
        return


def plain(model: Any) -> dict[str, Any]:
    """A model of the SDK as the JSON it came from."""
    value: dict[str, Any] = model.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return value
