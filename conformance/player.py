"""Plays a script to a living agent: sends what is due, notes what comes, keeps the time.

The only part of a replay that waits. Every wait is bounded, and reading never
stops for writing: what is to be sent goes through an outbox.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import orjson
from anyio.abc import Process

from conformance.dialogue import C2A, NAMING, OPENING, Dialogue, Message, Role, dig
from conformance.frames import Direction, Frame
from conformance.lines import LineCutter
from conformance.normalise import Conversation, is_floating
from conformance.placeholders import expand, expand_text, text_hider
from conformance.process import group_options, kill_group
from conformance.script import NOT_RECORDED, Reply, Script, Step, missing, translate
from conformance.transcript import Entry, Event

PATIENCE = 1.0
"""Seconds to wait for an update that may come at any time, and may never come."""
GRACE = 2.0
"""Seconds between asking an agent to end and killing it."""


@asynccontextmanager
async def agent(command: Sequence[str], env: Mapping[str, str] | None) -> AsyncIterator[Process]:
    """The agent's process, ended with all its group at the end. Its stderr is ours."""
    merged = {**os.environ, **(env or {})}
    process = await anyio.open_process(list(command), stderr=None, env=merged, **group_options())
    try:
        yield process
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process)


async def _end(process: Process) -> None:
    if process.returncode is None:
        process.terminate()
        with anyio.move_on_after(GRACE):
            await process.wait()
    kill_group(process.pid)
    await process.aclose()


@dataclass(slots=True)
class Due:
    """A live question and the recorded reply to it, which may have to wait for steps."""

    request: Message
    reply: Reply | None

    def payable(self, steps: int) -> bool:
        return self.reply is None or self.reply.after_steps <= steps


def workplaces(dialogue: Dialogue) -> Iterator[str]:
    """The directories in which sessions were really opened."""
    for call in dialogue.calls(*OPENING, *NAMING):
        cwd = call.params.get("cwd")
        if isinstance(cwd, str) and call.answer and call.answer.result is not None:
            yield cwd


class Player:
    """One run of a script. ``names`` says which directory each placeholder stands for."""

    def __init__(
        self, process: Process, script: Script, names: Mapping[str, str], timeout: float
    ) -> None:
        self.live = Conversation(hide=text_hider(names))
        self.entries: list[Entry] = []
        """What passed, in order, as it really was."""
        self.exit_status: int | None = None
        """The agent's own, if it ended by itself."""
        self._process, self._script, self._names = process, script, names
        self._timeout, self._start = timeout, time.monotonic()
        self._roots = [path for name, path in names.items() if name != "home"]
        self._workplaces = {expand_text(cwd, names) for cwd in workplaces(script.expected.dialogue)}
        self._owed: list[Due] = []
        self._steps = 0
        self._given_up: set[str] = set()
        self._ended = False
        self._news = anyio.Event()
        self._outbox, self._outgoing = anyio.create_memory_object_stream[bytes | None](float("inf"))

    async def play(self) -> str | None:
        """Play everything; returns what was waited for in vain, if anything was."""
        async with anyio.create_task_group() as tasks, self._outbox, self._outgoing:
            tasks.start_soon(self._listen)
            tasks.start_soon(self._write)
            trouble = await self._act()
            tasks.cancel_scope.cancel()
        return trouble

    async def _act(self) -> str | None:
        for step in self._script.steps:
            if trouble := await self._ready_for(step):
                return trouble
            self._take(step)
        running = {"": "the end of its output"}
        if await self._until(lambda: {} if self._ended else running, self._timeout):
            return f"the agent does not end though its stdin was closed {self._timeout:g} s ago"
        return await self._leave()

    async def _ready_for(self, step: Step) -> str | None:
        """Wait for what the step waits for; returns what is missing, if that matters."""
        lacking = await self._until(lambda: self._missing(step, floating=False), self._timeout)
        if lacking:
            return f"{self._excuse()} ({'; '.join(lacking.values())}) before {step}"
        self._given_up |= (await self._until(lambda: self._missing(step), PATIENCE)).keys()
        return None

    def _missing(self, step: Step, *, floating: bool = True) -> dict[str, str]:
        lacking = missing(step.after, self.live)
        return {
            lane: text
            for lane, text in lacking.items()
            if lane not in self._given_up and (floating or not is_floating(lane))
        }

    async def _until(self, lacking: Callable[[], dict[str, str]], timeout: float) -> dict[str, str]:
        """Wait until nothing is lacking, time is up or the agent is gone; returns what lacks."""
        with anyio.move_on_after(timeout):
            while lacking() and not self._ended:
                self._news = anyio.Event()
                await self._news.wait()
        return lacking()

    def _excuse(self) -> str:
        return "the agent ended" if self._ended else f"nothing came for {self._timeout:g} s"

    async def _leave(self) -> str | None:
        with anyio.move_on_after(self._timeout):
            self.exit_status = await self._process.wait()
            self.entries.append(Event("exit", self._now(), detail=self.exit_status))
            return None
        return f"the agent closed its stdout and did not end within {self._timeout:g} s"

    # -- sending -------------------------------------------------------------------

    def _take(self, step: Step) -> None:
        self._steps += 1
        if step.frame is None:
            self.entries.append(Event("eof", self._now(), C2A))
            self._outbox.send_nowait(None)
            return
        self._send(translate(step.frame.raw, self._ids()), step.frame.terminated)
        self._pay()

    def _pay(self) -> None:
        """Send every reply whose time has come."""
        payable = [due for due in self._owed if due.payable(self._steps)]
        self._owed = [due for due in self._owed if due not in payable]
        for due in payable:
            if answer := self._answer(due):
                self._send(answer)

    def _answer(self, due: Due) -> bytes | None:
        """The recorded answer with live ids; ``None`` if the client never gave one."""
        identity = due.request.value["id"]
        if due.reply is None:
            return orjson.dumps({"jsonrpc": "2.0", "id": identity, "error": NOT_RECORDED})
        if due.reply.answer is None:
            return None
        raw = translate(due.reply.answer.frame.raw, self._ids())
        same = due.reply.answer.value["id"] == identity
        return raw if same else orjson.dumps({**orjson.loads(raw), "id": identity})

    def _ids(self) -> dict[tuple[str, str], str]:
        return self._script.expected.names.shared(self.live.names)

    def _send(self, raw: bytes, terminated: bool = True) -> None:
        real = expand(raw, self._names)
        self._note(Frame(Direction.C2A, self._now(), real, terminated))
        self._make_directory(self.live.dialogue.messages[-1])
        self._outbox.send_nowait(real + b"\n" * terminated)

    def _make_directory(self, message: Message) -> None:
        """A session may work below one of the directories we made."""
        cwd = dig(message.params, "cwd")
        named = message.method in OPENING | NAMING and isinstance(cwd, str)
        wanted = named and cwd in self._workplaces
        if wanted and any(Path(cwd).is_relative_to(root) for root in self._roots):
            Path(cwd).mkdir(parents=True, exist_ok=True)

    async def _write(self) -> None:
        stdin = self._process.stdin
        assert stdin is not None, "open_process makes a pipe"
        async for data in self._outgoing:
            try:
                await (stdin.aclose() if data is None else stdin.send(data))
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return

    # -- receiving -----------------------------------------------------------------

    async def _listen(self) -> None:
        cutter, stdout = LineCutter(), self._process.stdout
        assert stdout is not None, "open_process makes a pipe"
        async for chunk in stdout:
            for line in cutter.feed(chunk):
                self._receive(line)
            self._news.set()
        if rest := cutter.rest():
            self._receive(rest, terminated=False)
        self._ended = True
        self._news.set()

    def _receive(self, line: bytes, terminated: bool = True) -> None:
        message = self._note(Frame(Direction.A2C, self._now(), line, terminated))
        if message.role is Role.REQUEST:
            asked = self.live.item(message)
            self._owed.append(Due(message, self._script.reply_to(self.live.lane(message), asked)))
            self._pay()

    def _note(self, frame: Frame) -> Message:
        self.entries.append(frame)
        return self.live.add(frame)

    def _now(self) -> float:
        return time.monotonic() - self._start
