"""JSON-RPC: what is a request, a notification, an answer, and what goes wrong with them."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from toy.mutation import broken
from toy.wire import TOO_LONG, Wire

Json = dict[str, Any]
T = TypeVar("T")
INVALID_REQUEST, NOT_FOUND, INVALID_PARAMS, INTERNAL = -32600, -32601, -32602, -32603
AUTH_REQUIRED, NO_RESOURCE, CANCELLED = -32000, -32002, -32800


class Failure(Exception):
    """An error answer."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data

    def body(self) -> Json:
        body = {"code": self.code, "message": self.message}
        return body if self.data is None else {**body, "data": self.data}


NO_ANSWER: Any = object()
"""What a broken handler returns to leave its request open."""


class Peer:
    """One connection: dispatches what comes in, correlates what we ask."""

    def __init__(
        self,
        requests: Callable[[str, Json, Any], Awaitable[Any]],
        notifications: Callable[[str, Json], None],
        on_end: Callable[[], None],
    ) -> None:
        self._handle = requests
        self._notified = notifications
        self.wire = Wire(self._line, on_end)
        self.tasks: dict[tuple[type, Any], asyncio.Task[None]] = {}
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._next = 0

    def notify(self, method: str, params: Json) -> None:
        self.wire.send({"jsonrpc": "2.0", "method": method, "params": params})

    async def ask(self, method: str, params: Json) -> Any:
        """Ask the client. Raises ``Failure`` for an error answer."""
        id = self._next
        self._next += 1
        self._asked[id] = asyncio.get_running_loop().create_future()
        self.wire.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        try:
            return await self._asked[id]
        finally:
            del self._asked[id]

    def _line(self, line: bytes) -> None:
        if line == TOO_LONG:
            self._refuse(INVALID_REQUEST, "The line is too long")
        elif line.strip() or broken("IO-06.blank"):
            self._text(line)

    def _text(self, line: bytes) -> None:
        try:
            if broken("IO-06.crlf") and line.endswith(b"\r"):
                raise ValueError
            message = json.loads(line.decode("latin-1" if broken("IO-03") else "utf-8"))
        except (ValueError, RecursionError):
            if not broken("IO-04"):
                self._refuse(-32700, "Parse error")
            return
        self._message(message)

    def _message(self, message: Any) -> None:
        if not isinstance(message, dict):
            if not broken("IO-05"):
                self._refuse(INVALID_REQUEST, "Invalid request")
        elif "method" not in message:
            self._answered(message)
        elif "id" not in message:
            self._notified(str(message["method"]), self._params(message))
        else:
            self._requested(message)

    def _requested(self, message: Json) -> None:
        key = (type(message["id"]), message["id"])
        if key in self.tasks and not broken("RPC-05"):
            failure = Failure(INVALID_REQUEST, "This id is in use")
            self.wire.send({"jsonrpc": "2.0", "id": message["id"], "error": failure.body()})
            return
        task = asyncio.get_running_loop().create_task(self._serve(message))
        self.tasks[key] = task
        task.add_done_callback(lambda _: self.tasks.pop(key, None))

    async def _serve(self, message: Json) -> None:
        id = message["id"]
        answer: Json = {"jsonrpc": "2.0", "id": str(id) if broken("RPC-03") else id}
        try:
            result = await self._handle(str(message["method"]), self._params(message), id)
        except Failure as failure:
            answer["error"] = failure.body()
        except Exception as error:
            answer["error"] = Failure(INTERNAL, f"Something went wrong: {type(error)}").body()
        else:
            if result is NO_ANSWER:
                return
            answer["result"] = result
        self.wire.send(answer)

    def _params(self, message: Json) -> Json:
        params = message.get("params")
        if broken("RPC-06") and params is None:
            return {"\0": None}
        params = params if isinstance(params, dict) else {}
        if broken("RPC-08") and isinstance(params.get("_meta"), dict):
            return {**params, **params["_meta"]}
        return params

    def _answered(self, message: Json) -> None:
        future = self._asked.get(message.get("id", -1))
        if future is None or future.done():
            if broken("RPC-04"):
                self._refuse(INVALID_REQUEST, "Unknown id")
            return
        if "error" in message:
            error = message["error"] if isinstance(message["error"], dict) else {}
            future.set_exception(Failure(int(error.get("code", 0)), str(error.get("message"))))
        else:
            future.set_result(message.get("result"))

    def _refuse(self, code: int, text: str) -> None:
        body = Failure(code, text).body()
        self.wire.send({"jsonrpc": "2.0", "id": None, "error": body})


async def stubborn(awaitable: Awaitable[Any]) -> Any:
    """Await it to its end, deaf to cancellation: what a broken agent does."""
    task = asyncio.ensure_future(awaitable)
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            continue
    return task.result()


async def unbroken(making: Awaitable[T], drop: Callable[[T], Awaitable[None]]) -> T:
    """Await the making of a thing; if we are cancelled meanwhile, drop it once it is there."""
    task = asyncio.ensure_future(making)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.add_done_callback(lambda made: asyncio.ensure_future(drop(made.result())))
        raise


def chatter(line: str) -> None:
    """A log line on stderr that blocks when nobody reads it."""
    os.write(2, (line + "\n").encode())
