"""Just enough HTTP/1.1 for a model server: requests in, plain or chunked answers out.

The parser is sans-I/O: feed it bytes, take requests. It knows nothing of models.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

END_OF_HEAD = b"\r\n\r\n"
MAX_HEAD = 64 * 1024
LAST_CHUNK = b"0\r\n\r\n"


class BadRequest(ValueError):
    """The bytes are not an HTTP/1.1 request this server understands."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request with its whole body; header names are lower case."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


class RequestParser:
    """Bytes in any chunking to requests. Raises ``BadRequest``; then the connection is lost."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[HttpRequest]:
        self._buffer += data
        while (request := self._take()) is not None:
            yield request

    def _take(self) -> HttpRequest | None:
        end = self._buffer.find(END_OF_HEAD)
        if end < 0:
            if len(self._buffer) > MAX_HEAD:
                raise BadRequest("the request head is too long")
            return None
        method, path, headers = _head(bytes(self._buffer[:end]))
        taken = self._body(end + len(END_OF_HEAD), headers)
        if taken is None:
            return None
        body, consumed = taken
        del self._buffer[:consumed]
        return HttpRequest(method, path, headers, body)

    def _body(self, start: int, headers: Mapping[str, str]) -> tuple[bytes, int] | None:
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return self._chunked(start)
        length = int(headers.get("content-length", "0"))
        if len(self._buffer) < start + length:
            return None
        return bytes(self._buffer[start : start + length]), start + length

    def _chunked(self, start: int) -> tuple[bytes, int] | None:
        body = bytearray()
        while (line := self._buffer.find(b"\r\n", start)) >= 0:
            size = int(self._buffer[start:line].split(b";")[0], 16)
            end = line + 2 + size
            if len(self._buffer) < end + 2:
                return None
            body += self._buffer[line + 2 : end]
            start = end + 2
            if size == 0:
                return bytes(body), start
        return None


def _head(raw: bytes) -> tuple[str, str, dict[str, str]]:
    first, *lines = raw.decode("latin-1").split("\r\n")
    try:
        method, target, _version = first.split(" ")
        pairs = (line.split(":", 1) for line in lines)
        headers = {name.strip().lower(): value.strip() for name, value in pairs}
        int(headers.get("content-length", "0"))
    except ValueError:
        raise BadRequest("the request head is not HTTP/1.1") from None
    return method, target.split("?", 1)[0], headers


def head(status: int, headers: Mapping[str, str]) -> bytes:
    """A response head; ``status`` may be one that the registry does not know (529)."""
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Overloaded"
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{k}: {v}" for k, v in headers.items())]
    return "\r\n".join(lines).encode("latin-1") + END_OF_HEAD


def whole(status: int, body: bytes, headers: Mapping[str, str] | None = None) -> bytes:
    """A complete JSON response."""
    fields = {"content-type": "application/json", "content-length": str(len(body))}
    return head(status, {**fields, **(headers or {})}) + body


def chunk(data: bytes) -> bytes:
    """One piece of a chunked body; empty data would end it, so it yields nothing."""
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""


STREAM_HEAD = head(
    200,
    {
        "content-type": "text/event-stream",
        "cache-control": "no-cache",
        "transfer-encoding": "chunked",
    },
)
