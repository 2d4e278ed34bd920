"""Plays a scenario to an agent and makes a portable transcript of it.

The kit's own client speaks; what passed becomes a transcript by the kit's own means. Every wait is
bounded.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance.client import ABSENT, Client, Json, Sent
from conformance.dialogue import OPENING
from conformance.frames import Direction
from conformance.placeholders import portable
from conformance.tape import complete, kit_version
from conformance.transcript import Entry, Event, Header, Transcript
from corpus.steps import Ask, CancelLast, HangUp, Line, Scenario, Settled, Step, Tell, Until

PATIENCE = 30.0
"""Seconds that any single wait may take."""
COMMON = {
    "HOME": "${home}",
    "USERPROFILE": "${home}",
    "ACP_HARNESS_DATA_DIR": "${home}/data",
    "ACP_HARNESS_CONFIG": "${home}/settings.toml",
    "ACP_HARNESS_MODEL": "demo:demo",
    "ACP_HARNESS_RETRY__ATTEMPTS": "0",
}
"""What every agent of the corpus is started with: alone, offline, the same each time."""


class Unplayable(Exception):
    """The agent does not offer what the scenario needs."""


@dataclass
class Stage:
    """One running scenario."""

    client: Client
    places: dict[str, str]
    """Placeholder -> what it stands for; sessions are added as they are opened."""
    hung_up: int | None = None
    """How many frames there were when stdin was closed."""
    _sent: list[Sent] = field(default_factory=list)
    _since: int = 0
    """How many lines the agent had sent at the last request."""

    async def play(self, steps: Sequence[Step]) -> None:
        """All steps, then the end. Raises ``AgentFault`` for an agent that does not follow."""
        for step in steps:
            await self.take(step)
        if self.hung_up is None:
            await self.settled()
            await self._hang_up()

    async def take(self, step: Step) -> None:
        match step:
            case Ask():
                await self._ask(step)
            case Tell(method=method, params=params):
                await self.client.notify(method, self._filled(params))
            case Line():
                await self._line(step)
            case Until(text=text, times=times):
                await self._until(text, times)
            case Settled():
                await self.settled()
            case CancelLast():
                await self.client.notify("$/cancel_request", {"requestId": self._sent[-1].id})
            case HangUp():
                await self._hang_up()

    async def _ask(self, step: Ask) -> None:
        self._since = len(self.client.incoming)
        sent = await self.client.start(step.method, self._filled(step.params), id=step.id)
        self._sent.append(sent)
        if step.wait:
            await self.answered(sent)

    def _opened(self) -> list[str]:
        """The ids of the sessions, in the order in which they were asked for."""
        news = [sent for sent in self._sent if sent.method in OPENING]
        answers = [sent.response.message or {} for sent in news if sent.response]
        return [str(answer["result"]["sessionId"]) for answer in answers if "result" in answer]

    async def _line(self, step: Line) -> None:
        """Send it and wait for what it brings: its answers end somewhere, so count lines."""
        before = len(self.client.incoming)
        raw = self._expand(step.raw.decode("utf-8", "surrogateescape"))
        data = raw.encode("utf-8", "surrogateescape")
        await self.client.send_raw(data if step.open_end else data + b"\n")
        if step.answers:
            wanted = before + step.answers
            incoming = self.client.incoming
            await self.client.until(lambda: len(incoming) >= wanted, "answer", PATIENCE)

    async def _until(self, text: str, times: int) -> None:
        since = self._since

        def seen() -> bool:
            frames = (self.client.frames[m.index].raw for m in self.client.incoming[since:])
            return sum(text.encode() in raw for raw in frames) >= times

        await self.client.until(seen, f"line with {text!r}", PATIENCE)

    async def settled(self) -> None:
        for sent in self._sent:
            await self.answered(sent)

    async def answered(self, sent: Sent) -> None:
        """Wait for an answer; if it opens a session, the session can be named from now on."""
        await sent.wait(PATIENCE)
        for number, opened in enumerate(self._opened(), 1):
            self.places[f"session{number}"] = opened

    async def _hang_up(self) -> None:
        self.client.close_stdin()
        self.hung_up = len(self.client.frames)
        if await self.client.finish(PATIENCE) is None:
            raise TimeoutError("the agent does not end")

    def _filled(self, params: Any) -> Any:
        if params is ABSENT:
            return params
        return json.loads(self._expand(json.dumps(params, ensure_ascii=False)))

    def _expand(self, text: str) -> str:
        for name, value in self.places.items():
            text = text.replace(f"${{{name}}}", value)
        return text


async def record(scenario: Scenario, command: Sequence[str]) -> Transcript:
    """The transcript of a scenario with the agent that ``command`` starts.

    Raises ``Unplayable`` if the agent lacks what it needs, ``AgentFault`` if it fails on the way.
    """
    environment = {**COMMON, **scenario.settings}
    async with _stage(scenario, command, environment) as stage:
        await stage.play(scenario.steps)
    facts = {
        "title": scenario.title,
        "features": list(scenario.features),
        "environment": environment,
        "kit": kit_version(),
    }
    entries = tuple(_entries(stage))
    header = Header(("acp-harness",), stage.places["cwd"], dict(scenario.files), facts)
    names = {name: path for name, path in stage.places.items() if not name.startswith("session")}
    return portable(complete(Transcript(header, entries)), names)


def _entries(stage: Stage) -> list[Entry]:
    frames: list[Entry] = list(stage.client.frames)
    assert stage.hung_up is not None
    frames.insert(stage.hung_up, Event("eof", 0.0, Direction.C2A))
    end = Event("eof", 0.0, Direction.A2C), Event("exit", 0.0, detail=stage.client.process.code)
    return [*frames, *end]


@asynccontextmanager
async def _stage(
    scenario: Scenario, command: Sequence[str], environment: Mapping[str, str]
) -> AsyncIterator[Stage]:
    """A workspace, a home and an agent, all gone afterwards."""
    root = tempfile.mkdtemp(prefix="acp-corpus-")
    places = _furnished(Path(root), scenario.files)
    try:
        env = {**_inherited(), **_expanded(environment, places)}
        await _require(scenario.needs, command, env, places["cwd"])
        start = Path(places["home"])
        async with Client.launch(command, cwd=start, env=env, answers=scenario.answers) as client:
            yield Stage(client, places)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _furnished(root: Path, files: Mapping[str, str]) -> dict[str, str]:
    """Make the directories and the files of the workspace; returns what each is called."""
    places = {name: str(root.resolve() / name) for name in ("cwd", "cwd2", "home")}
    for place in places.values():
        Path(place).mkdir()
    for name, text in files.items():
        path = Path(places["cwd"], name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")
    return places


def _inherited() -> dict[str, str]:
    """What an agent needs of our environment; no key is among it."""
    kept = ("PATH", "SYSTEMROOT", "COMSPEC", "PATHEXT", "TEMP", "TMP", "TMPDIR", "LANG")
    return {name: os.environ[name] for name in kept if name in os.environ}


def _expanded(environment: Mapping[str, str], places: Mapping[str, str]) -> dict[str, str]:
    found = {}
    for name, value in environment.items():
        for place, path in places.items():
            value = value.replace(f"${{{place}}}", path)
        found[name] = value
    return found


async def _require(need: str, command: Sequence[str], env: Mapping[str, str], cwd: str) -> None:
    """Try whether the agent offers it, in a process of its own. Raises ``Unplayable``."""
    if not need:
        return
    async with Client.launch(command, cwd=Path(cwd), env=env, timeout=PATIENCE) as client:
        await client.request("initialize", {"protocolVersion": 1})
        result: Json = await client.request("session/new", {"cwd": cwd, "mcpServers": []})
        if need.startswith("new."):
            offered = need.removeprefix("new.") in result
        else:
            error = await (await client.start(need, {})).error()
            offered = error is None or error.code != -32601
        if not offered:
            raise Unplayable(f"the agent does not offer {need}")
