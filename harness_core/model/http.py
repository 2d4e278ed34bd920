"""The shell around every API dialect: one streamed POST, and every failure as a ``Finish``.

It moves bytes and awaits; what they mean is the dialect's business (``Decoder``), how a failure is
worded is ``failures``'. httpx is imported with the first call, since start-up must not pay for it.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import anyio
import orjson

from harness_core.content import Audio, Chunk, Failure, Finish, Image, Json, UserMessage
from harness_core.model.failures import ApiError, Reporter
from harness_core.model.headers import request_id
from harness_core.model.protocol import ModelInfo, ModelRequest, ModelSetupError
from harness_core.stand_in import standing_in

if TYPE_CHECKING:
    import httpx
    from httpx_sse import ServerSentEvent

log = logging.getLogger(__name__)

LONGEST_ERROR = 64 * 1024
"""Bytes of an error's body that are read."""
ERROR_PATIENCE = 10.0
"""Seconds to wait for an error's body: the status alone says enough."""
LAST_BYTES_PATIENCE = 0.2
"""Seconds for the end of the HTTP body after the end of the answer, to keep the connection."""
THIS_MACHINE = ("all://localhost", "all://127.0.0.1", "all://[::1]")
"""Where no proxy can lead."""
MALFORMED = (ValueError, TypeError, KeyError, IndexError, AttributeError)
HEADERS = {
    "accept": "text/event-stream",
    "content-type": "application/json",
    "user-agent": "acp-harness",
}

TRACE = ("traceparent", "tracestate")
"""What a provider is told of a trace. Baggage may say who somebody is, and is not its concern."""


def preload() -> None:
    """Import what the first call needs. It takes its time: do it when nobody waits.

    httpx would load its command line too, and with that what that shows itself with: five
    megabytes, and twice the time that all the rest takes. It does without, if it has to.
    """
    with standing_in("httpx._main", None):
        import httpx  # noqa: F401
        import httpx_sse  # noqa: F401


class Nonsense(Exception):
    """An event that no reading of the API makes sense of."""


class Decoder(Protocol):
    """An API's events to chunks, without I/O. One object per call."""

    @property
    def done(self) -> bool:
        """Whether the answer is complete, so that nothing more need be read."""
        ...

    def feed(self, event: str, data: str) -> Sequence[Chunk]:
        """Take the next event. Raises ``ApiError``, or any of ``MALFORMED`` for nonsense."""
        ...

    def end(self) -> Sequence[Chunk]:
        """The stream is over: the last chunks, with a ``Finish`` unless it was cut."""
        ...


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a provider is and how it wants to be called. Times are in seconds."""

    provider: str
    base_url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: Mapping[str, Json] = field(default_factory=dict)
    omit: frozenset[str] = frozenset()
    """Fields of ours that it does not accept."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    hint: str = ""
    """What to check when it does not accept the key."""
    idle_timeout: float = 600.0
    connect_timeout: float = 30.0


class HttpModel(ABC):
    """A model behind a streaming HTTP API; a dialect adds its path, body and decoder."""

    path: str

    def __init__(self, info: ModelInfo, endpoint: Endpoint) -> None:
        self._info = info
        self.endpoint = endpoint
        self._reporter = Reporter(endpoint.provider, endpoint.secrets, endpoint.hint)
        self._client: httpx.AsyncClient | None = None

    @property
    def info(self) -> ModelInfo:
        return self._info

    @abstractmethod
    def body(self, request: ModelRequest) -> dict[str, Json]:
        """The request as the API wants it."""

    @abstractmethod
    def decoder(self, request: ModelRequest) -> Decoder:
        """A fresh decoder for the answer to ``request``."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """Call the API. Raises ``ModelSetupError`` before any chunk; see ``Model.stream``."""
        if complaint := unsupported(request, self._info):
            yield Finish("error", Failure("bad-request", complaint))
            return
        client, decoder = self._connected(), self.decoder(request)
        headers: Mapping[str, str] = {}
        try:
            async with client.stream(
                "POST",
                self._url,
                content=self._content(request),
                headers={name: value for name, value in request.trace.items() if name in TRACE},
            ) as response:
                headers = response.headers
                if not response.is_success:
                    yield Finish("error", await self._refusal(response))
                    return
                async with aclosing(_events(response)) as events:
                    async for event in events:
                        for chunk in _fed(decoder, event):
                            yield chunk
                        if decoder.done:
                            break
                    for chunk in decoder.end():
                        yield _named(chunk, headers)
                    await _read_to_end(events)
        except Exception as failure:
            if decoder.done:
                log.debug("after the end of an answer", exc_info=failure)
            else:
                yield Finish("error", self._failure(failure, headers))

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    @property
    def _url(self) -> str:
        return self.endpoint.base_url.rstrip("/") + self.path

    def _content(self, request: ModelRequest) -> bytes:
        own, added = self.body(request), self.endpoint.body
        kept = {name: value for name, value in own.items() if name not in self.endpoint.omit}
        return orjson.dumps({**kept, **added})

    def _connected(self) -> httpx.AsyncClient:
        if self._client is None:
            self._client = client(self.endpoint, self._reporter)
        return self._client

    async def _refusal(self, response: httpx.Response) -> Failure:
        body = bytearray()
        with anyio.move_on_after(ERROR_PATIENCE):
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) >= LONGEST_ERROR:
                    break
        now = time.time()
        return self._reporter.refused(response.status_code, response.headers, bytes(body), now)

    def _failure(self, failure: Exception, headers: Mapping[str, str]) -> Failure:
        """What broke, from the inside of an answer or before its first byte."""
        import httpx
        from httpx_sse import SSEError

        match failure:
            case ApiError(body=body):
                return self._reporter.interrupted(body, headers)
            case SSEError():
                code, what = "bad-request", "did not answer with an event stream: check base_url"
            case httpx.ConnectTimeout():
                code, what = "timeout", "could not be reached in time"
            case httpx.TimeoutException():
                code, what = "timeout", f"said nothing for {self.endpoint.idle_timeout:g} seconds"
            case httpx.ConnectError() | httpx.ProxyError():
                code, what = "transport", f"could not be reached at {self._url}: {failure}"
            case httpx.LocalProtocolError() | httpx.UnsupportedProtocol() | httpx.InvalidURL():
                code, what = "bad-request", "cannot be called so: check its base_url, key, headers"
            case httpx.HTTPError():
                code, what = "transport", "closed the connection in the middle of its answer"
            case Nonsense():
                code, what = "transport", "sent an event that makes no sense"
            case _:
                log.error("a model call failed for an unforeseen reason", exc_info=failure)
                code, what = "internal", f"could not be called ({type(failure).__name__})"
        return self._reporter.broken(code, what, headers)


def client(endpoint: Endpoint, reporter: Reporter) -> httpx.AsyncClient:
    """A client that respects the environment's proxies. Raises ``ModelSetupError``."""
    preload()
    import httpx

    idle, connect = endpoint.idle_timeout, endpoint.connect_timeout
    try:
        return httpx.AsyncClient(
            headers={**HEADERS, **endpoint.headers},
            timeout=httpx.Timeout(idle, connect=connect, pool=connect),
            # Loading certificates takes longer than a local server takes to answer.
            verify=not endpoint.base_url.startswith("http://"),
            mounts=dict.fromkeys(THIS_MACHINE),
        )
    except (ImportError, OSError, ValueError, httpx.InvalidURL) as failure:
        what = f"cannot be connected to as configured: {failure}"
        raise ModelSetupError(reporter.broken("internal", what).message) from None


def _events(response: httpx.Response) -> AsyncGenerator[ServerSentEvent, None]:
    """The events of an answer; one that came whole, as JSON, counts as one."""
    from httpx_sse import EventSource

    whole = response.headers.get("content-type", "").startswith("application/json")
    return _only_event(response) if whole else EventSource(response).aiter_sse()


async def _only_event(response: httpx.Response) -> AsyncGenerator[ServerSentEvent, None]:
    from httpx_sse import ServerSentEvent

    yield ServerSentEvent(data=(await response.aread()).decode("utf-8", "replace"))


def _fed(decoder: Decoder, event: ServerSentEvent) -> Sequence[Chunk]:
    try:
        return decoder.feed(event.event, event.data)
    except MALFORMED as failure:
        log.debug("malformed event", exc_info=failure)
        raise Nonsense from failure


def _named(chunk: Chunk, headers: Mapping[str, str]) -> Chunk:
    """A failure that the decoder found, with the provider's name for the call."""
    if isinstance(chunk, Finish) and chunk.failure and not chunk.failure.request_id:
        return replace(chunk, failure=replace(chunk.failure, request_id=request_id(headers)))
    return chunk


async def _read_to_end(events: AsyncGenerator[ServerSentEvent, None]) -> None:
    """Read what follows the answer, if it comes at once: then the connection can be used again."""
    with anyio.move_on_after(LAST_BYTES_PATIENCE):
        async for _ in events:
            pass


def unsupported(request: ModelRequest, info: ModelInfo) -> str | None:
    """Why the newest thing that was said cannot be put to this model, if it cannot.

    Older messages, and context, are not held against it: what they carry is named in their place.
    """
    said = (m for m in reversed(request.messages) if isinstance(m, UserMessage))
    last = next((message for message in said if message.source != "context"), None)
    for block in last.content if last is not None else ():
        if isinstance(block, Audio) and not info.audio:
            return f"{info.id} takes no audio: send text, or choose a model that does"
        if isinstance(block, Image) and not info.images:
            return f"{info.id} takes no images: send text, or choose a model that does"
    return None
