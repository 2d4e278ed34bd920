"""What the tool tests share: an in-memory ``ToolContext``, and a way to call a tool by name."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from harness_core.facts import Fact
from harness_core.tools.builtin import builtin_tools
from harness_core.tools.files import Files
from harness_core.tools.tool import Tool, ToolOutput

LIMIT = 60.0
"""Seconds that any call may take before the test fails."""


class Context:
    """A ``ToolContext`` that keeps everything in memory, but for spilled files."""

    def __init__(self, cwd: Path, spills: Path) -> None:
        self.call_id = "call:1"
        self.cwd = cwd
        self.roots = (cwd,)
        self.files = Files(cwd)
        self.settings: dict[str, Any] = {}
        self.facts: list[Fact] = []
        self.printed: list[bytes] = []
        self.news = anyio.Event()
        self._spills = spills

    def output(self, data: bytes, stream: str = "stdout") -> None:
        self.printed.append(data)
        self.news.set()

    async def until_printed(self, data: bytes) -> None:
        """Wait until the live output contains ``data``."""
        with anyio.fail_after(LIMIT):
            while data not in b"".join(self.printed):
                self.news = anyio.Event()
                await self.news.wait()

    def append(self, fact: Fact) -> None:
        self.facts.append(fact)

    def spill(self, name: str, data: bytes) -> Path:
        path = self._spills / name
        path.write_bytes(data)
        self.files.allow_reading(path)
        return path


Call = Callable[..., Awaitable[ToolOutput]]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    place.mkdir()
    return place


@pytest.fixture
def context(cwd: Path, tmp_path: Path) -> Context:
    spills = tmp_path / "spills"
    spills.mkdir()
    return Context(cwd, spills)


@pytest.fixture
def tools() -> dict[str, Tool[Any]]:
    return {tool.name: tool for tool in builtin_tools({})}


@pytest.fixture
def call(context: Context, tools: dict[str, Tool[Any]]) -> Call:
    """Call a tool in ``context`` as the pipeline does: validate the raw JSON, then execute."""

    async def run(name: str, **arguments: Any) -> ToolOutput:
        tool = tools[name]
        with anyio.fail_after(LIMIT):
            return await tool.execute(tool.schema.validate(json.dumps(arguments)), context)

    return run
