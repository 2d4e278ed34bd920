"""The server of one connection: from bytes on stdin to methods, and back to stdout.

Owns the order of life: answer ``initialize`` with what is loaded already, bring up the harness
right after, and take everything down when the client goes. Knows the method table, not the methods.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from acp_server.capabilities import ClientCapabilities, initialize_result, requested_version
from acp_server.framing import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    LineSplitter,
    Oversized,
    parse,
)
from acp_server.outbox import Outbox
from acp_server.rpc import Handler, Inbound, Params, Peer, RpcError
from acp_server.stdio import Reader, Writer

if TYPE_CHECKING:
    from acp_server.host import Host

log = logging.getLogger(__name__)

METHODS: Final[Mapping[str, str]] = {
    "authenticate": "authenticate",
    "logout": "logout",
    "session/new": "new",
    "session/load": "load",
    "session/resume": "resume",
    "session/list": "list_sessions",
    "session/set_mode": "set_mode",
    "session/set_config_option": "set_option",
    "session/fork": "fork",
    "session/close": "close",
    "session/delete": "delete",
    "session/prompt": "prompt",
    "session/cancel": "cancel",
    "_session/steering": "steer",
}
"""ACP methods and the ``Host`` methods that serve them."""

HEARD: Final = ("session/cancel",)
"""Those that are notifications."""

PARTING: Final = [getattr(signal, n) for n in ("SIGTERM", "SIGHUP") if hasattr(signal, n)]
"""Signals that say the client has gone; Emacs ends what it started with SIGHUP when it is left."""

LAST_ANSWERS = 5.0
"""Seconds that requests have to be answered after the client closed its end."""

LAST_BYTES = 1.0
"""Seconds that the client has to read what is left."""


class Server:
    """Serves one client over two descriptors."""

    def __init__(self, source: int, target: int, flags: Mapping[str, Any]) -> None:
        self._flags = flags
        self._initialized = False
        self._busy = False
        """Whether anything but ``initialize`` was asked for."""
        self.client = ClientCapabilities()
        self._gone = asyncio.Event()
        self._wanted = asyncio.Event()
        self._host: asyncio.Future[Host] = asyncio.get_running_loop().create_future()
        self._splitter = LineSplitter()
        self._writer = Writer(target, self._drained, self._lost)
        self._outbox = Outbox(self._writer)
        handlers = {method: self._lazily(name) for method, name in METHODS.items()}
        immediate = {"initialize": self._initialize}
        self._peer = Peer(self._outbox, handlers, immediate, self._admit, HEARD)
        self._reader = Reader(source, self._feed)

    async def run(self) -> None:
        """Serve until the client has gone."""
        self._reader.start()
        self._heed_signals()
        life = asyncio.ensure_future(self._live())
        await self._gone.wait()
        self._peer.lose()
        if not self._wanted.is_set():
            life.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await life
        self._outbox.finish()
        self._heed_no_signals()
        self._writer.close(LAST_BYTES)

    async def _live(self) -> None:
        """Bring up the harness when it is wanted, and take it down when the client has gone."""
        await self._wanted.wait()
        try:
            from acp_server.bringup import bring_up

            async with bring_up(self._flags, self._peer, self.client) as host:
                self._host.set_result(host)
                await self._gone.wait()
                host.leave()
                await self._peer.settle(LAST_ANSWERS)
        except Exception as failure:
            await self._live_without(failure)

    async def _live_without(self, failure: Exception) -> None:
        """The harness cannot be had: every request that needs it is told why."""
        if not isinstance(failure, RpcError):
            log.exception("the agent failed")
            failure = RpcError(INTERNAL_ERROR, "the agent could not start; see its log")
        if not self._host.done():
            self._host.set_exception(failure)
            self._host.exception()  # also if nobody asks, it has been seen
        await self._gone.wait()
        await self._peer.settle(LAST_ANSWERS)

    def _heed_signals(self) -> None:
        """SIGTERM and a hang-up are the same as the end of input (V1-IO-16). An interrupt is the
        editor's."""
        loop = asyncio.get_running_loop()
        for number in PARTING:
            if number != signal.SIGTERM and signal.getsignal(number) is signal.SIG_IGN:
                continue  # started with nohup, as the editor may be
            with contextlib.suppress(NotImplementedError):  # no such thing on Windows
                loop.add_signal_handler(number, self._gone.set)
        signal.signal(signal.SIGINT, lambda *_: None)  # unlike SIG_IGN not inherited by children

    def _heed_no_signals(self) -> None:
        """All is said and saved: a client that loses patience now does not make it look like a
        failure. An ignored signal stays ignored while the interpreter shuts down; a handled one
        does not."""
        for number in (*PARTING, signal.SIGINT):
            with contextlib.suppress(NotImplementedError):
                asyncio.get_running_loop().remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)

    # --- in and out ----------------------------------------------------------------------------

    def _feed(self, data: bytes) -> None:
        for line in self._splitter.feed(data) if data else self._splitter.finish():
            if isinstance(line, Oversized):
                text = f"a line of {line.size} bytes is longer than this agent reads"
                self._peer.refuse(RpcError(INVALID_REQUEST, text))
            elif (message := parse(line)) is not None:
                self._peer.receive(message)
        if not data:
            self._gone.set()

    def _drained(self) -> None:
        self._outbox.flush()
        if self._initialized:
            self._wanted.set()

    def _lost(self) -> None:
        self._gone.set()

    # --- the protocol's frame ------------------------------------------------------------------

    def _admit(self, method: str) -> None:
        """Nothing works before ``initialize``, and it works again only until something did."""
        if method == "initialize":
            if self._busy:
                raise RpcError(INVALID_REQUEST, "initialize must come first, once")
        elif not self._initialized:
            raise RpcError(INVALID_REQUEST, "call initialize first")
        else:
            self._busy = True
            self._wanted.set()

    def _initialize(self, params: Params) -> Params:
        requested_version(params)
        self.client = ClientCapabilities.parse(params.get("clientCapabilities"))
        self._initialized = True
        return initialize_result(self.client)

    def _lazily(self, name: str) -> Handler:
        async def handler(inbound: Inbound, params: Params) -> Params:
            if not self._host.done():
                await asyncio.wait({self._host})
            method: Handler = getattr(self._host.result(), name)
            return await method(inbound, params)

        return handler


async def serve(source: int, target: int, flags: Mapping[str, Any]) -> None:
    """Serve ACP on two descriptors until the client has gone."""
    await Server(source, target, flags).run()
