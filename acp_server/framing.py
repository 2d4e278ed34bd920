"""Bytes to messages and back, without any I/O.

Owns: where a line ends, what is JSON, which kind of JSON-RPC message a line is, and how an outgoing
message is written. Knows no method and no session.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import orjson

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
CANCELLED: Final = -32800
AUTH_REQUIRED: Final = -32000
NOT_FOUND: Final = -32002

Id: TypeAlias = "int | str | None"

MAX_LINE = 64 * 1024 * 1024
"""Bytes of the longest line that is read (V1-IO-10)."""

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Oversized:
    """A line longer than the limit was dropped; ``size`` is in bytes."""

    size: int


class LineSplitter:
    """Cuts a byte stream at ``\\n`` alone, whatever the chunking (V1-IO-02). Memory is bounded."""

    def __init__(self, limit: int = MAX_LINE) -> None:
        self.limit = limit
        self._line = bytearray()
        self._size = 0

    def feed(self, data: bytes) -> list[bytes | Oversized]:
        """The lines completed by ``data``, without their line feeds."""
        *ended, rest = data.split(b"\n")
        lines: list[bytes | Oversized] = []
        for piece in ended:
            self._add(piece)
            lines.append(self._take())
        self._add(rest)
        return lines

    def finish(self) -> list[bytes | Oversized]:
        """What is left when the stream has ended: a last line without line feed (V1-IO-09)."""
        return [self._take()] if self._size else []

    def _add(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size <= self.limit:
            self._line += piece
        else:
            self._line.clear()

    def _take(self) -> bytes | Oversized:
        size = self._size
        line = bytes(self._line) if size <= self.limit else Oversized(size)
        self._line.clear()
        self._size = 0
        return line


@dataclass(frozen=True, slots=True)
class Request:
    """A request that wants an answer under ``id``."""

    id: Id
    method: str
    params: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Notification:
    """A message that is never answered."""

    method: str
    params: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Response:
    """An answer to a request of ours. ``error`` is whatever the peer put there."""

    id: Id
    result: Any = None
    error: Any = None


@dataclass(frozen=True, slots=True)
class Invalid:
    """A line that is no message; answered with this error, under its id if it has a usable one."""

    code: int
    message: str
    id: Id = None


Message: TypeAlias = Request | Notification | Response | Invalid


def parse(line: bytes) -> Message | None:
    """What a line is; ``None`` for a blank one. Never raises."""
    text = line.removeprefix(_BOM).strip()
    if not text:
        return None
    try:
        data = loads(text)
    except (ValueError, RecursionError):
        return Invalid(PARSE_ERROR, "this line is not valid JSON")
    if not isinstance(data, dict):
        what = "a batch" if isinstance(data, list) else "not an object"
        return Invalid(INVALID_REQUEST, f"a message must be one JSON object; this is {what}")
    return classify(data)


def classify(data: dict[str, Any]) -> Message:
    """Which kind of JSON-RPC message an object is (V1-RPC-06).

    An answer is an answer whatever its id: it may never be answered itself (V1-RPC-07).
    """
    id = data.get("id")
    if "method" not in data and ("result" in data or "error" in data):
        return Response(id if _is_id(id) else None, data.get("result"), data.get("error"))
    if not _is_id(id):
        return Invalid(INVALID_REQUEST, "id must be an integer of 64 bits or a string")
    if data.get("jsonrpc") != "2.0":
        return Invalid(INVALID_REQUEST, 'jsonrpc must be "2.0"', id)
    method, params = data.get("method"), data.get("params")
    if not isinstance(method, str):
        return Invalid(INVALID_REQUEST, "method must be a string", id)
    if params is None:
        params = {}
    if not isinstance(params, dict):
        if "id" not in data:
            return Notification(method, {})
        return Invalid(INVALID_PARAMS, "params must be an object", id)
    return Request(id, method, params) if "id" in data else Notification(method, params)


def _is_id(value: Any) -> bool:
    if isinstance(value, int):
        return not isinstance(value, bool) and -(2**63) <= value < 2**63
    return value is None or isinstance(value, str)


def loads(text: bytes) -> Any:
    """Strict JSON, but for lone surrogates: editors cut strings in the middle of a pair.

    They become replacement characters. Raises ``ValueError`` or ``RecursionError``.
    """
    try:
        return orjson.loads(text)
    except ValueError:
        if b"\\u" not in text:
            raise
        return _mended(json.loads(text.decode("utf-8"), parse_constant=_refuse))


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _mended(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_mended(item) for item in value]
    if isinstance(value, dict):
        return {_mended(key): _mended(item) for key, item in value.items()}
    return value


_SEPARATORS = (
    (b"\xe2\x80\xa8", b"\\u2028"),
    (b"\xe2\x80\xa9", b"\\u2029"),
    (b"\xc2\x85", b"\\u0085"),
)


def encode(message: Any) -> bytes:
    """One line, ended by its line feed, that no reader can cut in two.

    Some clients end lines at U+2028, U+2029 and U+0085 as well, so these leave escaped. They can
    only stand inside strings. Raises ``TypeError`` for what is not JSON.
    """
    line = orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE)
    if not line.isascii():
        for raw, escaped in _SEPARATORS:
            if raw in line:
                line = line.replace(raw, escaped)
    return line
