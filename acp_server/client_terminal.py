"""Commands in the editor's terminal: embedded in the tool call, always released (C.14).

Stands at ``tools/execute`` around the shell tool, so policy and approval have come first. A command
that the client cannot start is an error the model sees; nothing is run a second time elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import anyio

from acp_server.rpc import ConnectionLost, PeerError
from harness_core.bus import Next
from harness_core.tools.output import plain_text
from harness_core.tools.pipeline import Call
from harness_core.tools.process import shell_command
from harness_core.tools.shell import QUIET, Limits, Shell
from harness_core.tools.tool import ToolError, ToolOutput

Ask: TypeAlias = Callable[[str, dict[str, Any]], Awaitable[Any]]

OUTPUT = 64_000
"""Bytes of output that the client keeps for us; the oldest go first."""

ANSWER = 30.0
"""Seconds that a client has to say what a command has printed."""

GOODBYE = 0.5
"""Seconds that a client has to say that a command was ended, or a terminal released."""


class ClientTerminals:
    """Runs the shell tool's commands in the client while ``wanted`` says so.

    ``embed`` shows a terminal in a tool call: it must be called before the terminal is released.
    """

    def __init__(
        self, ask: Ask, wanted: Callable[[], bool], embed: Callable[[str, str], None]
    ) -> None:
        self._ask = ask
        self._wanted = wanted
        self._embed = embed
        self._goodbyes: set[asyncio.Future[None]] = set()
        """Last words to the client that it has not answered."""

    async def execute(self, call: Call, following: Next[Call, ToolOutput]) -> ToolOutput:
        """At ``tools/execute``: take the shell's calls, let the others through."""
        if not (isinstance(call.tool, Shell) and self._wanted()):
            return await following(call)
        limits = Limits.of(call.agent.settings.tools)
        timeout = min(call.arguments.get("timeout") or limits.timeout, limits.longest)
        terminal = await self._create(call)
        try:
            return await self._see_through(call, terminal, timeout)
        finally:
            await self._goodbye("terminal/release", terminal)

    async def _create(self, call: Call) -> str:
        """Start the command. A terminal that comes after a cancel is released all the same."""
        program, *arguments = shell_command(str(call.arguments["command"]))
        params = {
            "command": program,
            "args": arguments,
            "env": [{"name": name, "value": value} for name, value in QUIET.items()],
            "cwd": str(call.agent.cwd),
            "outputByteLimit": OUTPUT,
        }
        asking = asyncio.ensure_future(self._ask("terminal/create", params))
        try:
            await asyncio.wait({asking})  # it may ask its user first
            answer = asking.result()
        except asyncio.CancelledError:
            asking.add_done_callback(self._release_late)
            raise
        except PeerError as error:
            raise ToolError(f"the editor did not start it: {error.message}") from None
        except ConnectionLost:
            raise ToolError("the editor has gone") from None
        terminal = answer.get("terminalId") if isinstance(answer, Mapping) else None
        if not isinstance(terminal, str):
            raise ToolError("the editor gave no terminal")
        return terminal

    def _release_late(self, asked: asyncio.Future[Any]) -> None:
        """A terminal that was created after its turn was over is nobody's: release it."""
        if asked.cancelled() or asked.exception() is not None:
            return
        terminal = asked.result().get("terminalId") if isinstance(asked.result(), Mapping) else None
        if isinstance(terminal, str):
            self._say("terminal/release", terminal)

    async def _see_through(self, call: Call, terminal: str, timeout: float) -> ToolOutput:
        self._embed(call.id, terminal)
        over = False
        try:
            with anyio.move_on_after(timeout):
                await self._ask("terminal/wait_for_exit", {"terminalId": terminal})
                over = True
            if not over:
                await self._goodbye("terminal/kill", terminal)
            with anyio.fail_after(ANSWER):
                answer = await self._ask("terminal/output", {"terminalId": terminal})
        except TimeoutError:
            raise ToolError("the editor did not say what it printed", code="timeout") from None
        except PeerError as error:
            raise ToolError(f"the editor lost the command: {error.message}") from None
        except ConnectionLost:
            raise ToolError("the editor has gone") from None
        except anyio.get_cancelled_exc_class():
            await self._goodbye("terminal/kill", terminal)
            raise
        if not over:
            text = f"{_text(answer)}\n[timeout: not finished after {timeout:g} s, and ended]"
            raise ToolError(text, code="timeout")
        return result(answer)

    async def _goodbye(self, method: str, terminal: str) -> None:
        """Say it whatever happens, and wait for the answer a moment, also when cancelled."""
        said = self._say(method, terminal)
        with anyio.CancelScope(shield=True):
            await asyncio.wait({said}, timeout=GOODBYE)

    def _say(self, method: str, terminal: str) -> asyncio.Future[None]:
        """Ask without waiting, and take no offence at any answer."""
        said = asyncio.ensure_future(self._quietly(method, terminal))
        self._goodbyes.add(said)
        said.add_done_callback(self._goodbyes.discard)
        return said

    async def _quietly(self, method: str, terminal: str) -> None:
        try:
            await self._ask(method, {"terminalId": terminal})
        except (PeerError, ConnectionLost):
            return


def _text(answer: Any) -> str:
    """The output in an answer, made plain: it is a pseudo terminal's."""
    output = answer.get("output") if isinstance(answer, Mapping) else None
    text = output if isinstance(output, str) else ""
    cut = "[the beginning is left out]\n" if text and answer.get("truncated") is True else ""
    return cut + (plain_text(text).removesuffix("\n") or "(no output)")


def result(answer: Any) -> ToolOutput:
    """What the model is told of a command that has ended."""
    status = answer.get("exitStatus") if isinstance(answer, Mapping) else None
    status = status if isinstance(status, Mapping) else {}
    code, signal = status.get("exitCode"), status.get("signal")
    ending = f"ended by {signal}" if signal else f"exit code {0 if code is None else code}"
    failed = bool(signal) or code not in (0, None)
    return ToolOutput.text(f"{_text(answer)}\n[{ending}]", {"exit_code": code}, is_error=failed)
