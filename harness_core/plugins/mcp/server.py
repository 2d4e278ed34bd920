"""One server of one session: the task that owns its connection, and how it comes back.

The connection is opened, held and closed in one task, from the start of the session to its end. A
server that ends is started again when it is next wanted, a bounded number of times. What it offers
is kept across its ends. Knows no tool registry and no log.
"""

from __future__ import annotations

import importlib
import logging
import math
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import anyio
import anyio.to_thread

from harness_core.plugins.mcp.offer import ConnectionGone, Offer, ServerError, SessionExpired
from harness_core.plugins.mcp.spec import Place, ServerSpec

if TYPE_CHECKING:
    from harness_core.plugins.mcp.connection import Connection

log = logging.getLogger(__name__)

T = TypeVar("T")

START = 60.0
"""Seconds from starting a server to its first lists; some download themselves first."""

AGAIN = (0.0, 0.5, 2.0)
"""Seconds before each attempt to have a server back for a request."""


class Server:
    """A server. ``run`` it in a task of its own; ``stop`` ends that.

    ``changed`` is called when what it offers is known or has changed, ``failed`` with a sentence
    when it could not be started or read.
    """

    def __init__(
        self,
        spec: ServerSpec,
        slug: str,
        place: Place,
        changed: Callable[[Server], None],
        failed: Callable[[Server, str], None],
    ) -> None:
        self.spec = spec
        self.slug = slug
        self.offer = Offer()
        self.begun = anyio.Event()
        """Set when the library is there and the first attempt begins."""
        self.settled = anyio.Event()
        """Whether it is known if the first attempt succeeded."""
        self._place = place
        self._changed = changed
        self._failed = failed
        self._life = anyio.CancelScope()
        self._ended = anyio.Event()
        self._connection: Connection | None = None
        self._why = ""
        """Why there is no connection."""
        self._told = False
        """Whether somebody was told, since it was last there."""
        self._wanted = anyio.Event()
        self._tried = anyio.Event()
        """Set when the attempt that is under way, or the next one, has an outcome."""

    @property
    def name(self) -> str:
        """Its name, as it was configured."""
        return self.spec.name

    # --- its life ------------------------------------------------------------------------------

    async def run(self) -> None:
        """Own the connection until stopped. Raises nothing."""
        try:
            with self._life:
                while True:
                    await self._attempt()
                    await self._wanted.wait()
        finally:
            self._ended.set()
            self._settle()
            self._connection = None

    async def stop(self) -> None:
        """End it, and wait until its process is gone; bounded."""
        self._life.cancel()
        await self._ended.wait()

    async def _attempt(self) -> None:
        """Connect, and hold the connection until it ends."""
        try:
            await anyio.to_thread.run_sync(_load_library, abandon_on_cancel=True)
        except ImportError as failure:
            self._lost("the library for it is not installed properly", failure)
            return
        from harness_core.plugins.mcp.connection import connected, sentence

        self.begun.set()

        with anyio.CancelScope(deadline=anyio.current_time() + START) as starting:
            try:
                async with connected(self.spec, self._place) as connection:
                    await self._greet(connection)
                    starting.deadline = math.inf
                    await self._follow(connection)
            except Exception as failure:
                self._lost(sentence(failure), failure)
        if starting.cancelled_caught:
            self._lost(f"it did not answer within {START:.0f} s")

    async def _greet(self, connection: Connection) -> None:
        self.offer = await connection.offer()
        self._connection, self._told = connection, False
        self._changed(self)
        self._settle()

    async def _follow(self, connection: Connection) -> None:
        """Read its lists again whenever it says that they changed, until it is gone."""
        while not connection.gone:
            await connection.news.wait()
            connection.news = anyio.Event()
            if not connection.gone:
                await self._read_again(connection)
        self._lost("it ended")

    async def _read_again(self, connection: Connection) -> None:
        try:
            offer = await connection.offer()
        except ServerError as failure:
            log.warning("MCP server %s: its lists could not be read: %s", self.name, failure)
            return
        if offer != self.offer:
            self.offer = offer
            self._changed(self)

    def _lost(self, why: str, failure: Exception | None = None) -> None:
        """There is no connection, or none any more; the next attempt waits until it is wanted."""
        log.info("MCP server %s: %s", self.name, why)
        log.debug("MCP server %s", self.name, exc_info=failure)
        self._why = why
        never_up, self._connection = self._connection is None, None
        if never_up and not self._told:
            self._told = True
            self._failed(self, why)
        self._settle()
        self._wanted, self._tried = anyio.Event(), anyio.Event()

    def _settle(self) -> None:
        self.begun.set()
        self.settled.set()
        self._tried.set()

    # --- its use -------------------------------------------------------------------------------

    async def use(self, request: Callable[[Connection], Awaitable[T]]) -> T:
        """Make a request, on a server that is started again if it has ended.

        Raises ``ServerError``; ``ConnectionGone`` if it ended while the request was under way.
        """
        for delay in AGAIN:
            await anyio.sleep(delay)
            connection = await self._reach()
            if connection is None:
                continue
            try:
                return await request(connection)
            except ConnectionGone:
                connection.lose()
                raise
            except SessionExpired as failure:
                self._why = str(failure)
        raise ServerError(f"it is not running: {self._why}")

    async def _reach(self) -> Connection | None:
        """The connection, after one attempt to have it back if need be."""
        if self._ended.is_set():
            return None
        if self._connection is None or self._connection.gone:
            tried = self._tried
            self._wanted.set()
            await tried.wait()
        return self._connection


def _load_library() -> None:
    """Import what takes a second, in a thread: the agent goes on answering."""
    importlib.import_module("harness_core.plugins.mcp.connection")
