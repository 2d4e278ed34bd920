"""A scripted ACP client for one agent process.

It sends exactly what it is told to (also nonsense), answers the agent's requests through
pluggable answerers, remembers every frame, and never waits without a deadline. What an agent
does wrong surfaces as ``Hung`` or ``Died`` (findings, not errors of the kit) or as ``RpcError``
(the agent's own error answer). It judges nothing.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeAlias, TypeVar

from conformance.faults import AgentFault, Died, Hung, RpcError, rpc_error
from conformance.frames import Direction, Frame
from conformance.incoming import ABSENT, Incoming, Json, decode_line, encode_line, envelope
from conformance.process import AgentProcess

__all__ = [
    "ABSENT",
    "NEVER",
    "AgentFault",
    "AgentRequest",
    "Answerer",
    "Client",
    "Died",
    "Hung",
    "Incoming",
    "Json",
    "RpcError",
    "Sent",
    "encode_line",
    "envelope",
]

T = TypeVar("T")
NEVER: Any = object()
"""What an answerer returns to leave a request without any answer."""
RECORDED_LINE = 32 * 1024 * 1024
"""Longer lines of ours are remembered by their first bytes only."""

Answerer: TypeAlias = "Callable[[AgentRequest], Any]"
"""Answers one request of the agent: returns the result (or an awaitable of it), ``NEVER``, or
raises ``RpcError`` to answer with an error."""


@dataclass(slots=True)
class AgentRequest:
    """A request the agent made of us."""

    client: Client
    incoming: Incoming
    answered: bool = False

    @property
    def id(self) -> Any:
        return (self.incoming.message or {}).get("id")

    @property
    def method(self) -> str:
        return self.incoming.method

    @property
    def params(self) -> Json:
        return self.incoming.params


@dataclass(slots=True)
class Sent:
    """A request of ours on its way; ``responses`` holds whatever answered it, in order."""

    id: Any
    method: str
    index: int
    client: Client
    responses: list[Incoming] = field(default_factory=list)

    @property
    def response(self) -> Incoming | None:
        return self.responses[0] if self.responses else None

    async def wait(self, timeout: float | None = None) -> Incoming:
        """The first response. Raises ``Hung`` or ``Died``."""
        return await self.client.until(lambda: self.response, f"answer to {self.method}", timeout)

    async def result(self, timeout: float | None = None) -> Any:
        """The result. Raises ``RpcError`` if the agent answered with an error."""
        message = (await self.wait(timeout)).message or {}
        if "error" in message:
            raise rpc_error(message["error"])
        return message.get("result")

    async def error(self, timeout: float | None = None) -> RpcError | None:
        """The error answer, or None if the agent answered with a result."""
        message = (await self.wait(timeout)).message or {}
        return rpc_error(message["error"]) if "error" in message else None


class Client:
    """The editor's end of one connection. Make it with ``Client.launch``."""

    def __init__(self, answers: Mapping[str, Answerer], timeout: float) -> None:
        self.timeout = timeout
        """Seconds that any single wait may take unless it says otherwise."""
        self.frames: list[Frame] = []
        self.incoming: list[Incoming] = []
        """Everything the agent sent, in order."""
        self.requests: list[AgentRequest] = []
        """The requests among it."""
        self.strays: list[Incoming] = []
        """The responses among it that answer nothing we asked, like an error with id null."""
        self.left_in_peace = False
        """True once the agent ended by itself after its stdin was closed."""
        self.complete = False
        """True if every request of ours was answered by then."""
        self.answers: dict[str, Answerer] = dict(answers)
        self._process: AgentProcess | None = None
        self._sent: dict[tuple[type, Any], list[Sent]] = {}
        self._started = time.monotonic()
        self._next_id = 0
        self._unfinished = bytearray()
        self._tick: asyncio.Future[None] | None = None
        self._answering: set[asyncio.Task[None]] = set()

    @classmethod
    @asynccontextmanager
    async def launch(
        cls,
        command: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        answers: Mapping[str, Answerer] | None = None,
        timeout: float = 10.0,
    ) -> AsyncIterator[Self]:
        """Start the agent and end it, with everything it started, when the block is left."""
        client = cls(answers or {}, timeout)
        client._process = await AgentProcess.start(
            command, cwd=cwd, env=env, on_line=client._received, on_change=client._changed
        )
        try:
            yield client
        finally:
            await client._stop_answering()
            await client.process.kill()

    @property
    def process(self) -> AgentProcess:
        if self._process is None:
            raise RuntimeError("the client was not started with Client.launch")
        return self._process

    @property
    def stderr(self) -> str:
        """The newest part of what the agent wrote to stderr."""
        return self.process.stderr.decode(errors="replace")

    # Sending.

    async def send_raw(self, data: bytes) -> None:
        """Write bytes as they are; complete lines are recorded as frames.

        Raises ``Hung`` if the agent does not read them.
        """
        self._record_ours(data)
        try:
            async with asyncio.timeout(self.timeout):
                await self.process.write(data)
        except TimeoutError:
            raise Hung(f"the agent did not read its stdin for {self.timeout:g} s") from None

    async def send(self, message: Any) -> None:
        """Write one JSON message as a line."""
        await self.send_raw(encode_line(message))

    def close_stdin(self) -> None:
        """Nothing more will be sent; what was written without a line feed is recorded as such."""
        if self._unfinished:
            frame = Frame(Direction.C2A, self._clock(), bytes(self._unfinished), terminated=False)
            self.frames.append(frame)
            self._unfinished.clear()
        self.process.close_stdin()

    async def notify(self, method: str, params: Any = ABSENT) -> None:
        await self.send(envelope(method, params))

    async def start(self, method: str, params: Any = ABSENT, *, id: Any = None) -> Sent:
        """Send a request without waiting for its answer; ``id`` overrides the numbering."""
        sent = self.expect(method, self.fresh_id() if id is None else id)
        await self.send({**envelope(method, params), "id": sent.id})
        return sent

    async def request(
        self, method: str, params: Any = ABSENT, *, timeout: float | None = None
    ) -> Any:
        """Send a request and return its result. Raises ``RpcError``, ``Hung``, ``Died``."""
        return await (await self.start(method, params)).result(timeout)

    def fresh_id(self) -> int:
        self._next_id += 1
        return self._next_id

    def expect(self, method: str, id: Any) -> Sent:
        """Register a request that is about to be sent by hand with ``send_raw``."""
        sent = Sent(id, method, len(self.frames), self)
        self._sent.setdefault((type(id), id), []).append(sent)
        return sent

    async def barrier(self) -> None:
        """A round trip: when it returns, the agent has read everything sent before it."""
        await (await self.start("_conformance.invalid/barrier", {})).wait()

    async def respond(self, request: AgentRequest, result: Any) -> None:
        """Answer a request of the agent by hand, as late as one likes."""
        request.answered = True
        await self.send({"jsonrpc": "2.0", "id": request.id, "result": result})

    async def refuse(self, request: AgentRequest, error: RpcError) -> None:
        request.answered = True
        body = {"code": error.code, "message": error.message}
        await self.send({"jsonrpc": "2.0", "id": request.id, "error": body})

    # Waiting.

    async def until(
        self, condition: Callable[[], T | None], what: str, timeout: float | None = None
    ) -> T:
        """Wait for ``condition`` to return something true; it is asked after every change.

        ``what`` completes the sentence "no … within N s". Raises ``Hung`` or ``Died``.
        """
        limit = self.timeout if timeout is None else timeout
        deadline = time.monotonic() + limit
        while not (found := condition()):
            if self.process.ended:
                raise Died(self._obituary(what))
            left = deadline - time.monotonic()
            if left <= 0:
                raise Hung(f"no {what} within {limit:g} s")
            await self._next_change(left)
        return found

    async def seen(
        self, test: Callable[[Incoming], bool], what: str, timeout: float | None = None
    ) -> Incoming:
        """The first message of the agent that passes ``test``, waiting for it if need be."""
        position = 0

        def look() -> Incoming | None:
            nonlocal position
            while position < len(self.incoming):
                candidate = self.incoming[position]
                position += 1
                if test(candidate):
                    return candidate
            return None

        return await self.until(look, what, timeout)

    async def finish(self, timeout: float) -> int | None:
        """Close stdin and let the agent end; None if it does not within ``timeout`` seconds."""
        self.close_stdin()
        try:
            code = await self.process.wait(timeout)
            async with asyncio.timeout(timeout):
                while not self.process.ended:
                    await self._next_change(timeout)
        except TimeoutError:
            return None
        self.left_in_peace = True
        self.complete = all(sent.responses for sents in self._sent.values() for sent in sents)
        return code

    # What the process tells us.

    def _received(self, raw: bytes, terminated: bool) -> None:
        index = len(self.frames)
        self.frames.append(Frame(Direction.A2C, self._clock(), raw, terminated))
        incoming = Incoming(index, decode_line(raw))
        self.incoming.append(incoming)
        if incoming.is_response:
            self._settle(incoming)
        elif incoming.is_request:
            self._asked(incoming)

    def _settle(self, incoming: Incoming) -> None:
        """File a response under the oldest unanswered request with this id, else the last one."""
        id = (incoming.message or {}).get("id")
        waiting = self._sent.get((type(id), id), []) if isinstance(id, int | float | str) else []
        if not waiting:
            self.strays.append(incoming)
        open_ones = [sent for sent in waiting if not sent.responses]
        for sent in open_ones[:1] or waiting[-1:]:
            sent.responses.append(incoming)

    def _asked(self, incoming: Incoming) -> None:
        request = AgentRequest(self, incoming)
        self.requests.append(request)
        task = asyncio.get_running_loop().create_task(self.answer(request))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def answer(self, request: AgentRequest) -> None:
        """Answer a request as ``answers`` says now; also one that was left open before."""
        answerer: Answerer = self.answers.get(request.method, not_found)
        try:
            result = answerer(request)
            if inspect.isawaitable(result):
                result = await result
        except RpcError as error:
            await self.refuse(request, error)
            return
        if result is not NEVER and not request.answered:
            await self.respond(request, result)

    async def _stop_answering(self) -> None:
        tasks = tuple(self._answering)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _record_ours(self, data: bytes) -> None:
        *lines, rest = data.split(b"\n")
        for line in lines:
            whole = bytes(self._unfinished) + line
            self._unfinished.clear()
            self.frames.append(Frame(Direction.C2A, self._clock(), whole))
        if len(self._unfinished) < RECORDED_LINE:
            self._unfinished += rest

    def _clock(self) -> float:
        return time.monotonic() - self._started

    def _changed(self) -> None:
        if self._tick is not None and not self._tick.done():
            self._tick.set_result(None)

    async def _next_change(self, timeout: float) -> None:
        if self._tick is None or self._tick.done():
            self._tick = asyncio.get_running_loop().create_future()
        await asyncio.wait([self._tick], timeout=timeout)

    def _obituary(self, what: str) -> str:
        code = self.process.code
        how = "closed its stdout" if code is None else f"exited with code {code}"
        said = f"; it wrote to stderr: {line}" if (line := telling(self.stderr)) else ""
        return f"the agent {how} while we waited for the {what}{said}"


def telling(stderr: str) -> str:
    """The line of an agent's stderr that most likely says why it ended, shortened."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or [""])[-1][:200]


def not_found(request: AgentRequest) -> Any:
    """The answer to a method this client does not offer."""
    raise RpcError(-32601, f"{request.method} is not offered by this client")
