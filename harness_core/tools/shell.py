"""``shell``: run a command in the session's directory, and end all of it when it is over."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from harness_core.content import Json
from harness_core.tools import cards
from harness_core.tools.disk import size_of
from harness_core.tools.output import Live, Window, excerpt
from harness_core.tools.process import Child, shell_command, start
from harness_core.tools.tool import (
    Arguments,
    Card,
    Outcome,
    Schema,
    Tool,
    ToolContext,
    ToolError,
    ToolOutput,
    parameter,
)

HEAD, TAIL = 10 * 1024, 20 * 1024
"""Bytes of the output that the model gets, from its beginning and from its end."""

LINGER = 0.3
"""Seconds that output may still come after the command is over."""

QUIET: Mapping[str, str] = {
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
}
"""No colours, no pagers, no editors, no questions: nobody is there to answer."""


@dataclass(frozen=True, slots=True)
class ShellArguments(Arguments):
    command: str = parameter("The command line.", min_length=1)
    timeout: float | None = parameter("Seconds after which the command is ended.", None, gt=0)


@dataclass(frozen=True, slots=True)
class Limits:
    """The ``shell`` table of the tool settings; all in seconds."""

    timeout: float = 120.0
    """For a command that names none."""
    longest: float = 600.0
    """What a command may name at most."""
    grace: float = 2.0
    """From being asked to end to being killed."""

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Limits:
        """The limits that are set. Raises ``ToolError`` for one that is not a number."""
        table = settings.get("shell", {})
        try:
            return cls(**{name: float(table[name]) for name in cls.__slots__ if name in table})
        except (TypeError, ValueError):
            raise ToolError(f"the settings of the shell tool are wrong: {dict(table)}") from None


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: ``status`` is ``None`` if its time was over."""

    status: int | None
    background: bool
    """Something it left running in the background was ended."""


class Shell(Tool[ShellArguments]):
    """Run a command."""

    name = "shell"
    description = (
        f"Run a command with {'cmd.exe' if sys.platform == 'win32' else 'bash'} in the working "
        "directory. It has no terminal and no stdin, so it cannot ask questions. stdout and stderr "
        "come together; of a long output the beginning and the end are shown and the whole is kept "
        "in a file. When the command is over, what it left running in the background is ended too. "
        "Use read, edit, glob and grep for files."
    )
    effect = "changes"
    kind = "execute"
    schema = Schema(ShellArguments)

    async def execute(self, arguments: ShellArguments, context: ToolContext) -> ToolOutput:
        limits = Limits.of(context.settings)
        timeout = min(arguments.timeout or limits.timeout, limits.longest)
        child = await _start(arguments.command, context.cwd)
        kept, live = Window(), Live()
        try:
            ended = await _run(child, context, kept, live, timeout, limits.grace)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await child.end(limits.grace, strays=True)
            raise
        finally:
            child.close()
            for piece in live.rest():
                context.output(piece)
        return _result(ended, kept, timeout, context)

    def present_call(self, arguments: Mapping[str, Json], cwd: str) -> Card:
        command = cards.string(arguments, "command").strip()
        title = cards.titled(command)
        whole = (cards.code(command),) if title != command else ()
        shown = cards.inline(title) or self.name
        return Card(title=shown, kind=self.kind, content=whole, terminal=True)

    def present_result(self, arguments: Mapping[str, Json], outcome: Outcome, cwd: str) -> Card:
        ran = outcome.error in (None, "failed", "timeout")
        content = cards.code_blocks(outcome.content) if ran else cards.texts(outcome.content)
        return Card(content=content, terminal=True)


async def _start(command: str, cwd: Path) -> Child:
    env = {**os.environ, **QUIET}
    env.pop("BASH_ENV", None)
    try:
        return await start(shell_command(command), cwd, env)
    except FileNotFoundError:
        raise ToolError(f"the working directory {cwd} does not exist any more") from None
    except (OSError, ValueError) as failure:
        raise ToolError(f"the command could not be started: {failure}") from None


async def _run(
    child: Child, context: ToolContext, kept: Window, live: Live, timeout: float, grace: float
) -> Ended:
    """See the command through: read what it prints until it is over, or its time is."""
    silent = anyio.Event()

    async def listen() -> None:
        while data := await child.read():
            kept.feed(data)
            for piece in live.feed(data, anyio.current_time()):
                context.output(piece)
        silent.set()

    async def keep_time() -> None:
        while True:
            await anyio.sleep(live.INTERVAL)
            for piece in live.due(anyio.current_time()):
                context.output(piece)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listen)
        tasks.start_soon(keep_time)
        status: int | None = None
        with anyio.move_on_after(timeout):
            status = await child.wait()
        if status is not None:
            with anyio.move_on_after(LINGER):
                await silent.wait()
        background = await child.end(grace, strays=status is None)
        with anyio.move_on_after(LINGER):
            await silent.wait()
        tasks.cancel_scope.cancel()
    return Ended(status, background)


def _result(ended: Ended, kept: Window, timeout: float, context: ToolContext) -> ToolOutput:
    """What the model is told. Raises ``ToolError`` (``timeout``)."""
    meta: dict[str, Json] = {"bytes": kept.total}
    lines = [_shown(kept, context, meta)]
    if ended.status is None:
        lines.append(f"[timeout: not finished after {timeout:g} s, and ended]")
        raise ToolError("\n".join(lines), code="timeout", meta=meta)
    if ended.background:
        lines.append("[background processes were still running and were ended]")
    lines.append(f"[{_status(ended.status)}]")
    meta["exit_code"] = ended.status
    return ToolOutput.text("\n".join(lines), meta, is_error=ended.status != 0)


def _shown(kept: Window, context: ToolContext, meta: dict[str, Json]) -> str:
    """The output as the model gets it; a long one is spilled to a file, which ``meta`` names."""
    data = kept.data()
    shown = excerpt(data, HEAD, TAIL)
    if not shown.left_out:
        return shown.head.removesuffix("\n") or "(no output)"
    name = re.sub(r"[^A-Za-z0-9_-]", "_", context.call_id)[:80]
    path = str(context.spill(f"shell-{name}.txt", data))
    meta["spilled"] = path
    return (
        f"{shown.head}\n[… {size_of(shown.left_out)} left out; the output is in {path}: use read "
        f"or grep …]\n{shown.tail}".removesuffix("\n")
    )


def _status(status: int) -> str:
    if status >= 0:
        return f"exit code {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"ended by {name}"
