"""How a server is reached: the library's transports, set up our way.

A process gets the session's directory, a small environment and a place for what it writes on
stderr: the log. Loaded only when a server is connected, since the library is not light.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TextIO

import anyio
import httpx2
from mcp.client import session
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import JSONRPCRequest

from harness_core.plugins.mcp.spec import RemoteSpec, ServerSpec, StdioSpec

if TYPE_CHECKING:
    from mcp.client._transport import ReadStream, TransportStreams, WriteStream
    from mcp.shared.message import SessionMessage

log = logging.getLogger(__name__)

INHERITED = (
    "ALL_PROXY HTTPS_PROXY HTTP_PROXY LANG LC_ALL LC_CTYPE NODE_EXTRA_CA_CERTS NO_PROXY "
    "SSL_CERT_DIR SSL_CERT_FILE TMPDIR TZ XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME "
    "XDG_RUNTIME_DIR all_proxy https_proxy http_proxy no_proxy"
).split()
"""Variables that a server gets beside the library's few (HOME, PATH and the like): what programs
need to reach the network and their files. Keys of model providers are not among them."""

REACHED, SILENCE = 30.0, 900.0
"""Seconds to reach a remote server, and between two bytes of its answer: tools may take long."""

LONGEST_LINE = 4_000
"""Characters of one line on a server's stderr that are logged."""

CHATTY = {"mcp": "CRITICAL", "httpx2": "WARNING", "httpcore2": "WARNING"}
"""Loggers of the libraries, and from where on they are heard unless somebody has set them. They log
URLs, and a traceback for every line that a server prints where it should not."""


def hush() -> None:
    """Make the libraries' loggers say no more than people should see."""
    for name, level in CHATTY.items():
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET:
            logger.setLevel(level)
    logging.getLogger("client").addFilter(_not_the_librarys)


def _not_the_librarys(record: logging.LogRecord) -> bool:
    """The library also logs under a name that anybody may use."""
    return record.pathname != session.__file__


@asynccontextmanager
async def opened(
    spec: ServerSpec, cwd: Path, closed: Callable[[], None], modes: Collection[str] = ()
) -> AsyncIterator[TransportStreams]:
    """The two streams of a connection; ``closed`` is called when the server's end has closed.

    Of elicitation, at most these ``modes`` are announced.
    """
    hush()
    async with AsyncExitStack() as stack:
        if isinstance(spec, StdioSpec):
            streams = await stack.enter_async_context(_process(spec, cwd))
        else:
            streams = await _remote(spec, stack)
        yield Watched(streams[0], closed), Announcing(streams[1], modes)


@asynccontextmanager
async def _process(spec: StdioSpec, cwd: Path) -> AsyncIterator[TransportStreams]:
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    parameters = StdioServerParameters(
        command=spec.command,
        args=list(spec.args),
        env=inherited | dict(spec.env),
        cwd=cwd,
        encoding_error_handler="replace",
    )
    with log_of(spec.name) as stderr:
        async with stdio_client(parameters, stderr) as streams:
            stderr.close()
            yield streams


def log_of(name: str) -> TextIO:
    """A file for a server's stderr: each line of it is logged. It is the caller's to close."""
    source, target = os.pipe()
    threading.Thread(
        target=_log_lines, args=(name, source), name=f"mcp {name}", daemon=True
    ).start()
    return os.fdopen(target, "w", encoding="utf-8")


def _log_lines(name: str, source: int) -> None:
    with os.fdopen(source, encoding="utf-8", errors="replace") as lines:
        while line := lines.readline(LONGEST_LINE):
            if text := line.rstrip():
                log.info("%s: %s", name, text)


async def _remote(spec: RemoteSpec, stack: AsyncExitStack) -> TransportStreams:
    headers = dict(spec.headers)
    if spec.transport == "sse":
        streams: TransportStreams = await stack.enter_async_context(
            sse_client(spec.url, headers, REACHED, SILENCE)
        )
        return streams
    timeout = httpx2.Timeout(REACHED, read=SILENCE)
    client = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=timeout))
    return await stack.enter_async_context(streamable_http_client(spec.url, http_client=client))


class _Closing:
    """What both kinds of streams are beside what they carry."""

    _stream: Any

    async def aclose(self) -> None:
        """Close it."""
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()


class Announcing(_Closing):
    """A stream that announces only these modes of elicitation: the library would say both."""

    def __init__(self, stream: WriteStream[SessionMessage], modes: Collection[str]) -> None:
        self._stream = stream
        self._modes = modes

    async def send(self, item: SessionMessage, /) -> None:
        """Pass a message on."""
        match item.message:
            case JSONRPCRequest(
                method="initialize", params={"capabilities": {"elicitation": _} as announced}
            ):
                announced["elicitation"] = {mode: {} for mode in self._modes}
        await self._stream.send(item)


class Watched(_Closing):
    """A stream that tells when it has ended."""

    _stream: ReadStream[SessionMessage | Exception]

    def __init__(
        self, stream: ReadStream[SessionMessage | Exception], closed: Callable[[], None]
    ) -> None:
        self._stream = stream
        self._closed = closed

    @property
    def last_context(self) -> Any:
        """The sender's context, which some transports pass along."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        """The next message."""
        try:
            return await self._stream.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._closed()
            raise

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None
