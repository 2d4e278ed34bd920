"""A world with MCP servers: real processes, and a model that calls what the test says."""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import anyio

from harness_core.content import Text
from harness_core.facts import Noticed, ToolReturned, UserSaid
from harness_core.model.scripted import Reply, asked, said
from harness_core.plugins.mcp import Servers, ServerSpec, StdioSpec, servers_of
from tests.harness_core.kit import World, call, world

TINY = Path(__file__).with_name("tiny.py")
T = TypeVar("T")

PATIENT = 30.0
"""Seconds that a turn waits for servers here, where machines may be slow."""


def tiny(name: str = "tiny", *words: str, log: Path | None = None, **env: str) -> StdioSpec:
    """A tiny server that offers what ``words`` say and writes what it gets to ``log``."""
    env = {**env, "TINY_LOG": str(log)} if log else env
    return StdioSpec(name, sys.executable, (str(TINY), *words), env)


def silent(name: str = "silent") -> StdioSpec:
    """A server that reads nothing, says nothing and does not end by itself."""
    return StdioSpec(name, sys.executable, ("-c", "import time; time.sleep(600)"))


class Bench:
    """A world, and a few words to work its servers with."""

    def __init__(self, made: World, replies: deque[Reply]) -> None:
        self.world = made
        self._replies = replies
        self._calls = 0

    @property
    def servers(self) -> Servers:
        return servers_of(self.world.agent)

    @property
    def tools(self) -> set[str]:
        return {tool.name for tool in self.world.agent.tools}

    @property
    def notices(self) -> list[Noticed]:
        return self.world.all(Noticed)

    @property
    def context(self) -> str:
        """The text of what was put beside prompts."""
        said = [f.message for f in self.world.all(UserSaid) if f.message.source == "context"]
        return "\n".join(b.text for m in said for b in m.content if isinstance(b, Text))

    def queue(self, *tools: str, **arguments: Any) -> list[str]:
        """Let the model call tools side by side in its next step; the ids of the calls."""
        calls = []
        for tool in tools:
            self._calls += 1
            calls.append(call(f"c{self._calls}", tool, json.dumps(arguments)))
        self._replies.append(asked(*calls))
        return [one.id for one in calls]

    async def call(self, tool: str, **arguments: Any) -> ToolReturned:
        """Have the model call a tool; its result."""
        (id,) = self.queue(tool, **arguments)
        await self.world.turn()
        return self.world.result(id)

    async def ask(self, tool: str, **arguments: Any) -> Any:
        """The text of a tool's result, from JSON."""
        return json.loads(words(await self.call(tool, **arguments)))


def words(result: ToolReturned) -> str:
    """The text of a result."""
    return "\n".join(block.text for block in result.content if isinstance(block, Text))


@asynccontextmanager
async def bench(
    *specs: ServerSpec, cwd: Path | str = "/", settings: Mapping[str, Any] | None = None
) -> AsyncIterator[Bench]:
    """A bench whose agent was given these servers."""
    replies: deque[Reply] = deque()

    def next_reply() -> Iterator[Reply]:
        while True:
            yield replies.popleft() if replies else said("done")

    settings = {"mcp_wait": PATIENT, **(settings or {})}
    async with world(more=next_reply(), cwd=str(cwd), settings=settings) as made:
        servers_of(made.agent).set(specs)
        yield Bench(made, replies)


async def until(look: Callable[[], T]) -> T:
    """Poll until ``look`` finds something, in bounded time."""
    with anyio.fail_after(PATIENT):
        while not (found := look()):  # noqa: ASYNC110 - processes give no sign
            await anyio.sleep(0.02)
    return found


def heard(log: Path) -> list[dict[str, Any]]:
    """What a tiny server has got; the first entry of each start is its process id."""
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def pids(log: Path) -> list[int]:
    """The processes that have written to ``log``."""
    return [entry["pid"] for entry in heard(log) if "pid" in entry]


def alive(pid: int) -> bool:
    """Whether a process runs; one that nobody has asked about its end does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"
