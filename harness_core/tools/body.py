"""A tool's body: what it may use of its surroundings, and how it is run.

A body is foreign code. Whatever it does, it holds nobody up longer than its grace, ends no process,
and leaves nothing in the log when its call is over. Knows nothing of approvals and other checks.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from harness_core.cancellation import LeakedCancellation
from harness_core.facts import Fact, ToolPrinted
from harness_core.tools.files import Files
from harness_core.tools.tool import ToolError, ToolOutput

if TYPE_CHECKING:
    from harness_core.agent import Agent

log = logging.getLogger(__name__)


async def run_body(body: Awaitable[ToolOutput], grace: float) -> ToolOutput:
    """Run ``body`` in a task of its own, so that one that ignores cancellation is left behind.

    ``grace`` is how many seconds it may take to end. Raises what the body raises, and
    ``LeakedCancellation``.
    """
    task = asyncio.ensure_future(_staying(body))
    task.add_done_callback(_look_at)
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        task.cancel()
        with anyio.CancelScope(shield=True):
            _, late = await asyncio.wait({task}, timeout=grace)
        if late:
            log.error("a tool did not end %s s after it was cancelled", grace)
        raise
    if task.cancelled():
        raise LeakedCancellation("something that the tool waited for was cancelled")
    return task.result()


async def _staying(body: Awaitable[ToolOutput]) -> ToolOutput:
    """``body``, which may fail but not end the process."""
    try:
        return await body
    except SystemExit as failure:
        raise RuntimeError(f"a tool tried to exit with {failure.code!r}") from failure


def _look_at(task: asyncio.Task[ToolOutput]) -> None:
    """Take note of how a body ended, so that asyncio does not complain of one left behind."""
    if not task.cancelled():
        task.exception()


class Context:
    """What a body may use of its surroundings: ``ToolContext`` over a live agent."""

    def __init__(self, agent: Agent, call_id: str) -> None:
        self._agent = agent
        self.call_id = call_id

    @property
    def cwd(self) -> Path:
        """The session's directory."""
        return self._agent.cwd

    @property
    def roots(self) -> tuple[Path, ...]:
        """Where files may be."""
        return self._agent.roots

    @property
    def files(self) -> Files:
        """The session's confined file access."""
        return self._agent.files

    @property
    def settings(self) -> Mapping[str, Any]:
        """The ``tools`` table of the settings."""
        return self._agent.settings.tools

    @property
    def trace(self) -> Mapping[str, str]:
        """The trace context of the turn."""
        turn = self._agent.turn
        return {} if turn is None else turn.trace

    def output(self, data: bytes, stream: str = "stdout") -> None:
        """Log live output, unless the call is over already."""
        if self.call_id in self._agent.session.structure.open_calls:
            self.append(ToolPrinted(self.call_id, stream, base64.b64encode(data).decode()))

    def append(self, fact: Fact) -> None:
        """Append a fact to the session's log. Raises ``ToolError`` when the call is over."""
        if self.call_id not in self._agent.session.structure.open_calls:
            raise ToolError("this call is over", code="aborted")
        self._agent.session.append(fact)

    def spill(self, name: str, data: bytes) -> Path:
        """Keep a large output in a file of the session."""
        path = Path(self._agent.session.log.spill(name, data))
        self._agent.files.allow_reading(path)
        return path
