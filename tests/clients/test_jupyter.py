"""The agent in notebooks: a Jupyter kernel that makes a prompt of each cell."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio import StreamReader, StreamWriter
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.clients.harness import EDIT, LOOK, POEM, Agent
from tests.clients.install import HERE, environment

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="uses named pipes, and signals to groups"),
]

PATIENCE = 60.0
KERNEL = "acp-harness"


@dataclass(frozen=True, slots=True)
class Notebook:
    """An open notebook."""

    stdin: StreamWriter
    stdout: StreamReader

    async def do(self, action: str, argument: str = "") -> list[tuple[str, dict[str, Any]]]:
        """What the notebook program answers; its docstring lists what there is to do."""
        self.stdin.write(json.dumps({action: argument}).encode() + b"\n")
        async with asyncio.timeout(PATIENCE):
            shown: list[tuple[str, dict[str, Any]]] = json.loads(await self.stdout.readline())
        return shown

    async def magic(self, line: str) -> None:
        """Run a line that the notebook keeps for itself."""
        await self.do("run", line)

    async def cell(self, *lines: str) -> str:
        """The output of a cell that begins with text: a first line with ``!`` is not sent."""
        shown = await self.do("run", "\n".join(["Please:", *lines]))
        return "".join(
            content["data"]["text/plain"] for kind, content in shown if kind == "execute_result"
        )


async def run(*command: str) -> None:
    """Run a command that waits for the other end of a pipe."""
    process = await asyncio.create_subprocess_exec(*command, stdout=DEVNULL)
    async with asyncio.timeout(PATIENCE):
        assert await process.wait() == 0


@pytest.fixture
async def notebook(agent: Agent) -> AsyncIterator[Notebook]:
    """A notebook in the project. When it is closed, its kernel ends the agent with a signal."""
    agent.impatient = True
    python = environment("jupyter")
    command, *arguments = agent.command()
    kernel = {
        "argv": [str(python), "-m", "agent_client_kernel", "-f", "{connection_file}"],
        "display_name": "ACP Harness",
        "language": "text",
        "env": {"ACP_AGENT_COMMAND": command, "ACP_AGENT_ARGS": " ".join(arguments)},
    }
    folder = agent.root / "jupyter" / "kernels" / KERNEL
    folder.mkdir(parents=True)
    (folder / "kernel.json").write_text(json.dumps(kernel))
    log = agent.root / "jupyter" / "log"
    with log.open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(
            *(str(python), str(HERE / "notebook.py"), KERNEL),
            env={**agent.env, "JUPYTER_PATH": str(agent.root / "jupyter")},
            cwd=agent.work,
            stdin=PIPE,
            stdout=PIPE,
            stderr=stderr,
        )
    assert process.stdin is not None
    assert process.stdout is not None
    yield Notebook(process.stdin, process.stdout)
    process.stdin.close()
    async with asyncio.timeout(PATIENCE):
        assert await process.wait() == 0, log.read_text()


async def test_cells_are_the_turns_of_one_conversation(agent: Agent, notebook: Notebook) -> None:
    answer = await notebook.cell("!think Hm.", "!say I look.", LOOK, "!say I change.", EDIT)
    assert answer == "I look.I change.Done."
    assert agent.file.read_text() == POEM.replace("blue", "green")
    assert "[assistant] I change." in await notebook.cell("!context")


async def test_a_notebook_that_denies_everything_is_obeyed(
    agent: Agent, notebook: Notebook
) -> None:
    await notebook.magic("%agent permissions deny")
    assert await notebook.cell(LOOK, EDIT) == "Done."
    assert agent.file.read_text() == POEM


async def test_an_interrupt_is_the_notebooks_and_the_turn_goes_on(
    agent: Agent, notebook: Notebook
) -> None:
    """It reaches the whole process group as a signal, and cancels nothing in the protocol."""
    begun, go = str(agent.work / "begun"), str(agent.work / "go")
    os.mkfifo(begun)
    os.mkfifo(go)
    wait = '!call shell {"command": "echo > begun; cat go"}'
    await notebook.do("start", "\n".join(["Please:", LOOK, wait, EDIT]))
    await run("cat", begun)
    await notebook.do("interrupt")
    await run("cp", os.devnull, go)
    assert (await notebook.cell("!say Next.")).endswith("Next.")
    assert agent.file.read_text() == POEM.replace("blue", "green")
    assert '"SIGINT"' in agent.tapes[-1].read_text()
