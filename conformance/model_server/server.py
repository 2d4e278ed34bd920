"""The model server: an asyncio listener on 127.0.0.1 that answers as its script says.

It owns connections and nothing else: parsing is ``http``, meaning is ``dialect``, what to say is
``script``. Stopping it ends every hanging answer.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from conformance.model_server import http
from conformance.model_server.anthropic import Anthropic
from conformance.model_server.dialect import Answer, Dialect, encode
from conformance.model_server.openai_chat import OpenAIChat
from conformance.model_server.openai_responses import OpenAIResponses
from conformance.model_server.reply import (
    Call,
    Failure,
    Finish,
    Part,
    Text,
    ToolCall,
)
from conformance.model_server.request import ModelRequest
from conformance.model_server.script import Script, answering
from conformance.model_server.tools import resolve
from conformance.model_server.writer import StreamWriter, waited

MODEL = "fake-model"
DIALECTS: tuple[Dialect, ...] = (OpenAIChat(), Anthropic(), OpenAIResponses())


class ModelServer:
    """A scripted model behind the OpenAI and Anthropic APIs, for the length of a ``with``.

    ``script`` is a function from request to reply, a list of replies used up in order, or None
    to follow the directives in the prompts (``conformance.model_server.directives``).
    """

    def __init__(
        self, script: Script | None = None, *, port: int = 0, models: Sequence[str] = (MODEL,)
    ) -> None:
        self.requests: list[ModelRequest] = []
        """Every model request received so far, oldest first."""
        self._answer = answering(script)
        self._port = port
        self._models = tuple(models)
        self._changed = asyncio.Condition()
        self._connections: set[_Connection] = set()
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """The TCP port listened on. Raises ``RuntimeError`` before the server has started."""
        if self._server is None:
            raise RuntimeError("the model server is not running: use 'async with ModelServer()'")
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def anthropic_base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def openai_base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self), "127.0.0.1", self._port)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        await asyncio.gather(*(connection.stop() for connection in tuple(self._connections)))

    async def wait_for(
        self, condition: Callable[[list[ModelRequest]], bool], timeout: float = 5.0
    ) -> None:
        """Wait until ``condition(self.requests)`` holds. Raises ``TimeoutError`` (seconds)."""
        async with asyncio.timeout(timeout), self._changed:
            await self._changed.wait_for(lambda: condition(self.requests))

    async def handle(self, request: http.HttpRequest, send: Callable[[bytes], None]) -> bool:
        """Answer one HTTP request; False means that the connection must be dropped."""
        dialect = next((d for d in DIALECTS if d.path == request.path), None)
        if request.method == "POST" and dialect is not None:
            return await self._model_call(dialect, request, send)
        send(self._plain(request))
        return True

    def _plain(self, request: http.HttpRequest) -> bytes:
        """Everything that is not a model call."""
        if request.path.endswith("/v1/models"):
            return http.whole(200, encode(_models(self._models)))
        if request.path == "/v1/messages/count_tokens":
            return http.whole(200, encode({"input_tokens": len(request.body) // 4}))
        error = {"message": f"nothing answers {request.method} {request.path}"}
        return http.whole(404, encode({"error": error}))

    async def _model_call(
        self, dialect: Dialect, request: http.HttpRequest, send: Callable[[bytes], None]
    ) -> bool:
        try:
            call = _parsed(dialect, request, len(self.requests))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            failure = Failure(400, f"the request is not {dialect.name}: {error!r}")
            send(http.whole(400, dialect.failure(failure)))
            return True
        await self._remember(call)
        try:
            return await self._reply(dialect, call, send)
        except asyncio.CancelledError:
            call.aborted = True
            raise
        finally:
            call.finished.set()

    async def _remember(self, call: ModelRequest) -> None:
        async with self._changed:
            self.requests.append(call)
            self._changed.notify_all()

    async def _reply(
        self, dialect: Dialect, call: ModelRequest, send: Callable[[bytes], None]
    ) -> bool:
        chosen = self._answer(call)
        reply = await chosen if inspect.isawaitable(chosen) else chosen
        if isinstance(reply, Failure):
            send(_failed(dialect, reply))
            return True
        parts = _concrete(reply.parts, call)
        finish = _finish(reply.finish, parts)
        answer = Answer(f"reply-{call.index}", call.model, _wants_usage(call))
        if call.stream:
            writer = StreamWriter(dialect.stream(answer), send)
            return await writer.write(parts, finish, reply)
        content, kept = await waited(parts)
        if kept:
            send(http.whole(200, dialect.whole(answer, content, finish, reply.usage)))
        return kept


class _Connection(asyncio.Protocol):
    """One client connection: requests are answered one after the other."""

    def __init__(self, server: ModelServer) -> None:
        self._server = server
        self._parser = http.RequestParser()
        self._queue: asyncio.Queue[http.HttpRequest] = asyncio.Queue()
        self._transport: asyncio.Transport | None = None
        self._worker: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._server._connections.add(self)
        self._worker = asyncio.get_running_loop().create_task(self._work())

    def data_received(self, data: bytes) -> None:
        try:
            for request in self._parser.feed(data):
                self._queue.put_nowait(request)
        except http.BadRequest:
            self._drop()

    def connection_lost(self, _error: Exception | None) -> None:
        self._server._connections.discard(self)
        if self._worker is not None:
            self._worker.cancel()

    async def stop(self) -> None:
        """End whatever is being answered and close."""
        self._drop()
        if self._worker is not None:
            self._worker.cancel()
            with suppress(asyncio.CancelledError):
                await self._worker

    async def _work(self) -> None:
        while True:
            request = await self._queue.get()
            if not await self._server.handle(request, self._send):
                self._close()
                return

    def _send(self, data: bytes) -> None:
        if data and self._transport is not None:
            self._transport.write(data)

    def _close(self) -> None:
        """Close after what was written has left."""
        if self._transport is not None:
            self._transport.close()

    def _drop(self) -> None:
        if self._transport is not None:
            self._transport.abort()


def _parsed(dialect: Dialect, request: http.HttpRequest, index: int) -> ModelRequest:
    body = json.loads(request.body)
    if not isinstance(body, dict):
        raise ValueError("the body is not a JSON object")
    return ModelRequest(
        dialect=dialect.name,
        path=request.path,
        headers=request.headers,
        body=body,
        model=str(body.get("model", MODEL)),
        stream=bool(body.get("stream")),
        entries=tuple(dialect.entries(body)),
        tools=tuple(dialect.tools(body)),
        index=index,
    )


def _concrete(parts: Sequence[Part], call: ModelRequest) -> list[Part]:
    """Parts with calls numbered and semantic calls resolved; what fits no tool becomes text."""
    concrete: list[Part] = []
    for position, part in enumerate(parts):
        found: Part | None = resolve(part, call.tools) if isinstance(part, ToolCall) else part
        if found is None and isinstance(part, ToolCall):
            call.unfit.append(part.kind)
            found = Text(f"I have no tool to {part.kind}.")
        if isinstance(found, Call) and not found.id:
            number = f"call_{call.index}_{position}"
            found = Call(found.name, found.arguments, number, found.fragments)
        if found is not None:
            concrete.append(found)
    return concrete


def _finish(wanted: Finish, parts: Sequence[Part]) -> Finish:
    if wanted is not Finish.AUTO:
        return wanted
    called = any(isinstance(part, Call) for part in parts)
    return Finish.TOOL_CALLS if called else Finish.STOP


def _wants_usage(call: ModelRequest) -> bool:
    options: Any = call.body.get("stream_options")
    return not isinstance(options, dict) or bool(options.get("include_usage"))


def _failed(dialect: Dialect, failure: Failure) -> bytes:
    headers = {} if failure.retry_after is None else {"retry-after": f"{failure.retry_after:g}"}
    body = dialect.failure(failure) if failure.body is None else failure.body
    return http.whole(failure.status, body, headers)


def _models(names: Sequence[str]) -> dict[str, Any]:
    """A model list that clients of either API can read."""
    entries = [
        {
            "id": name,
            "object": "model",
            "type": "model",
            "display_name": name,
            "created": 0,
            "created_at": "2025-01-01T00:00:00Z",
            "owned_by": "conformance",
        }
        for name in names
    ]
    return {
        "object": "list",
        "data": entries,
        "has_more": False,
        "first_id": names[0] if names else None,
        "last_id": names[-1] if names else None,
    }
