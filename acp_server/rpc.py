"""The JSON-RPC peer: what comes in is dispatched, what we ask is correlated.

jsonrpcserver dispatches requests and notifications to their handlers; a pending table correlates
answers to what we asked; ``$/cancel_request`` works both ways. Owns ids and errors, knows no
method but that one. Handlers of one connection start in the order their messages came in.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from acp_server.framing import (
    CANCELLED,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Id,
    Invalid,
    Message,
    Notification,
    Request,
    Response,
)
from acp_server.jsonrpc import jsonrpcserver

if TYPE_CHECKING:
    from acp_server.outbox import Outbox

log = logging.getLogger(__name__)

Params: TypeAlias = Mapping[str, Any]
Handler: TypeAlias = "Callable[[Inbound, Params], Awaitable[Params]]"
Immediate: TypeAlias = Callable[[Params], Params]


class ErrorAnswer(Exception):
    """A request was answered with an error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class RpcError(ErrorAnswer):
    """Ours. ``message`` is one short sentence; details go to ``data`` (V1-RPC-08)."""

    def body(self) -> dict[str, Any]:
        """The JSON-RPC error object; ``data`` is omitted if there is none."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.data is not None:
            error["data"] = self.data
        return error


class PeerError(ErrorAnswer):
    """The peer's: it never passes for one of ours."""


class ConnectionLost(Exception):
    """The connection ended before the peer answered."""


class Inbound:
    """A request being served: what follows its answer, and what happens if that is not wanted.

    A handler finishes what it has begun (V1-CREQ-01) unless it says otherwise.
    """

    def __init__(self, id: Id) -> None:
        self.id = id
        self.after: list[Callable[[], object]] = []
        """Run right after the answer was queued."""
        self.task: asyncio.Task[None] | None = None
        self._unwanted = False
        self._on_cancel: Callable[[], object] | None = None

    def when_unwanted(self, function: Callable[[], object]) -> None:
        """Call ``function`` once the peer does not want the answer any more, which may be now."""
        self._on_cancel = function
        if self._unwanted:
            function()

    def abort(self) -> None:
        """End the handler at its next await and answer -32800 (V1-CREQ-02)."""
        if self.task is not None:
            self.task.cancel()

    def cancel(self) -> None:
        """The peer does not want the answer any more."""
        if not self._unwanted:
            self._unwanted = True
            if self._on_cancel is not None:
                self._on_cancel()


class Peer:
    """One end of a connection. ``immediate`` handlers answer before the next line is read.

    Of the ``handlers``, those named in ``heard`` serve notifications too; without an id the others
    would have nobody to answer. ``admit`` may refuse a request by raising ``RpcError``, and a
    notification likewise, silently.
    """

    def __init__(
        self,
        outbox: Outbox,
        handlers: Mapping[str, Handler],
        immediate: Mapping[str, Immediate],
        admit: Callable[[str], None],
        heard: Collection[str] = (),
    ) -> None:
        self._outbox = outbox
        self._handlers = handlers
        self._immediate = immediate
        self._admit = admit
        self._heard = heard
        self._inbound: dict[Id, Inbound] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._hearing: set[asyncio.Task[None]] = set()
        """Notifications that are being handled."""
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._last_id = -1
        self._lost = False

    # --- in ------------------------------------------------------------------------------------

    def receive(self, message: Message) -> None:
        """Take one incoming message. Never raises, never blocks."""
        match message:
            case Request():
                self._request(message)
            case Notification(method="$/cancel_request", params=params):
                self._cancel_request(params)
            case Notification():
                self._notification(message)
            case Response():
                self._in_order(message)
            case Invalid(code=code, message=text, id=id):
                self._answer_error(id, RpcError(code, text))

    def refuse(self, error: RpcError) -> None:
        """Answer a line that could not even be read."""
        self._answer_error(None, error)

    def _request(self, request: Request) -> None:
        try:
            self._admit(request.method)
            if request.id in self._inbound:
                raise RpcError(INVALID_REQUEST, "a request with this id is still being served")
            if request.method in self._immediate:
                self._answer(request.id, self._immediate[request.method](request.params))
            elif request.method not in self._handlers:
                raise RpcError(METHOD_NOT_FOUND, f"there is no method {request.method[:200]}")
            else:
                self._start(request)
        except RpcError as error:
            self._answer_error(request.id, error)

    def _start(self, request: Request) -> None:
        inbound = Inbound(request.id)
        self._inbound[request.id] = inbound
        inbound.task = self._spawn(self._serve(request, inbound))

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _serve(self, request: Request, inbound: Inbound) -> None:
        try:
            outcome = await _dispatch(self._handlers, request, inbound)
        except asyncio.CancelledError:
            outcome = RpcError(CANCELLED, "the request was cancelled")
        self._inbound.pop(request.id, None)
        if isinstance(outcome, RpcError):
            self._answer_error(request.id, outcome)
        else:
            self._answer(request.id, outcome)
        for function in inbound.after:
            function()

    def _notification(self, notification: Notification) -> None:
        try:
            self._admit(notification.method)
        except RpcError:
            return
        if notification.method in self._heard:
            task = self._spawn(self._hear(notification))
            self._hearing.add(task)
            task.add_done_callback(self._hearing.discard)

    async def _hear(self, notification: Notification) -> None:
        outcome = await _dispatch(self._handlers, notification, Inbound(None))
        if isinstance(outcome, RpcError):
            log.info("notification %s: %s", notification.method, outcome)

    def _cancel_request(self, params: Params) -> None:
        id = params.get("requestId")
        if isinstance(id, int | str) and not isinstance(id, bool) and id in self._inbound:
            self._inbound[id].cancel()

    def _in_order(self, response: Response) -> None:
        """Take an answer after the notifications that came before it: a client that cancels a turn
        and then answers its question has cancelled the turn (V1-PERM-04, V1-RPC-11)."""
        if self._hearing:
            self._spawn(self._later(response, set(self._hearing)))
        else:
            self._response(response)

    async def _later(self, response: Response, earlier: set[asyncio.Task[None]]) -> None:
        await asyncio.wait(earlier)
        self._response(response)

    def _response(self, response: Response) -> None:
        future = self._pending.pop(response.id, None) if isinstance(response.id, int) else None
        if future is None or future.done():
            log.info("an answer to nothing we asked, id %r", response.id)
        elif response.error is not None:
            future.set_exception(_peer_error(response.error))
        else:
            future.set_result(response.result)

    # --- out -----------------------------------------------------------------------------------

    def _answer(self, id: Id, result: Params) -> None:
        self._outbox.put({"jsonrpc": "2.0", "id": id, "result": result})

    def _answer_error(self, id: Id, error: RpcError) -> None:
        self._outbox.put({"jsonrpc": "2.0", "id": id, "error": error.body()})

    def notify(self, method: str, params: Params, drain: Callable[[], None] | None = None) -> None:
        """Send a notification; ``drain`` runs before it leaves."""
        self._outbox.put({"jsonrpc": "2.0", "method": method, "params": params}, drain)

    async def request(
        self, method: str, params: Params, drain: Callable[[], None] | None = None
    ) -> Any:
        """Ask the peer. Raises ``PeerError`` or ``ConnectionLost``.

        When the caller is cancelled, the peer is told so and a late answer is ignored
        (V1-CANCEL-08).
        """
        if self._lost:
            raise ConnectionLost("the client has gone")
        self._last_id += 1
        id = self._last_id
        future = asyncio.get_running_loop().create_future()
        self._pending[id] = future
        message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        self._outbox.put(message, drain)
        try:
            return await future
        except asyncio.CancelledError:
            if self._pending.pop(id, None) is not None:
                self.notify("$/cancel_request", {"requestId": id})
            raise

    # --- the end -------------------------------------------------------------------------------

    def lose(self) -> None:
        """The client has gone: whatever we asked it will never be answered."""
        self._lost = True
        for future in self._pending.values():
            if not future.done():
                future.set_exception(ConnectionLost("the client has gone"))
        self._pending.clear()

    async def settle(self, timeout: float) -> None:
        """Wait until every request is answered, at most ``timeout`` seconds, then end the rest."""
        if self._tasks:
            _, late = await asyncio.wait(set(self._tasks), timeout=timeout)
            for task in late:
                task.cancel()


@dataclass(frozen=True, slots=True)
class Job:
    """A message on its way through jsonrpcserver to its handler."""

    name: str
    handler: Handler
    inbound: Inbound


async def _dispatch(
    handlers: Mapping[str, Handler], message: Request | Notification, inbound: Inbound
) -> Params | RpcError:
    """Let jsonrpcserver call the handler; its own error codes never pass through."""
    body = {"jsonrpc": "2.0", "method": message.method, "params": message.params, "id": 0}
    response: Any = await jsonrpcserver().async_dispatch_to_response(
        body,  # the deserializer hands it on
        {message.method: _call},
        context=Job(message.method, handlers[message.method], inbound),
        deserializer=_as_is,
        validator=_as_is,
    )
    result: Params | RpcError = response._value.result
    return result


async def _call(job: Job, /, **params: Any) -> Any:
    """The handler as jsonrpcserver wants it: keyword arguments in, a result object out."""
    success = jsonrpcserver().Success
    try:
        return success(await job.handler(job.inbound, params))
    except RpcError as error:
        return success(error)
    except Exception:
        log.exception("method %s failed", job.name)
        return success(RpcError(INTERNAL_ERROR, f"{job.name} failed; details are in the log"))


def _as_is(message: Any) -> Any:
    return message


def _peer_error(error: Any) -> PeerError:
    if not isinstance(error, Mapping):
        return PeerError(INTERNAL_ERROR, "the client answered with a malformed error")
    code, message = error.get("code"), error.get("message")
    return PeerError(
        code if isinstance(code, int) and not isinstance(code, bool) else INTERNAL_ERROR,
        message if isinstance(message, str) else "no message",
        error.get("data"),
    )
