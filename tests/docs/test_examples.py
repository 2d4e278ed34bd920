"""The Python in the guides runs as it stands."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from harness_core.content import Text, UserMessage
from harness_core.facts import Fact, ToolReturned, TurnEnd
from harness_core.harness import DEFAULT_PLUGINS, Harness
from harness_core.journal.memory import MemoryJournal

GUIDE = Path(__file__).parents[2] / "docs" / "embedding.md"


def blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)


def test_the_first_example_prints_an_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = blocks()[0].replace("/path/to/project", str(tmp_path))
    exec(compile(source, str(GUIDE), "exec", dont_inherit=True), {"__name__": "__main__"})
    assert capsys.readouterr().out == "Hello!\n[completed]\n"


def test_the_tool_and_the_plugin_do_what_they_say(tmp_path: Path) -> None:
    names: dict[str, Any] = {"__name__": "guide"}
    for source in blocks()[1:]:
        exec(compile(source, str(GUIDE), "exec", dont_inherit=True), names)
    Fact.registry.pop("no-force-push/refused")
    results: list[ToolReturned] = []

    async def run() -> None:
        plugins = [*DEFAULT_PLUGINS, names["install"]]
        async with Harness(journal=MemoryJournal(), plugins=plugins) as harness:
            harness.runtime.tools.register(names["Weather"]())
            agent = await harness.create(tmp_path)
            script = '!call weather {"city": "Ulm"}\n!call shell {"command": "git push --force"}'
            agent.send(UserMessage("m1", (Text(script),)))
            await agent.when_idle()
            facts = [event.fact for event in agent.session.events]
            results.extend(fact for fact in facts if isinstance(fact, ToolReturned))
            assert isinstance(facts[-1], TurnEnd)

    asyncio.run(run())
    weather, shell = results
    assert weather.content == (Text("It rains in Ulm."),)
    assert shell.error == "denied"
    assert "force pushes are not allowed here" in str(shell.content)
