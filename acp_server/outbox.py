"""The one ordered way out: requests, answers and updates leave in the order they were produced.

What is put within one tick of the event loop leaves in one write, after the log lines behind it
were handed to the operating system. While the client does not read, adjacent text chunks of a
message are merged, so that memory is bounded by the text itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from acp_server.framing import INTERNAL_ERROR, encode

log = logging.getLogger(__name__)

HIGH_WATER = 1 << 20
"""Bytes that may wait in the writer before updates are held and merged."""

LONGEST_TEXT = 8_000
"""Characters of text in one update; with every character escaped a line stays below 64 KiB."""


class Sink(Protocol):
    """Where encoded lines go."""

    pending: int

    def write(self, data: bytes) -> None:
        """Accept bytes; never blocks."""
        ...


class Outbox:
    """Holds messages for the rest of a tick, and longer while the client does not read."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._loop = asyncio.get_running_loop()
        self._messages: list[Mapping[str, Any]] = []
        self._drains: dict[Callable[[], None], None] = {}
        self._scheduled = False

    def put(self, message: Mapping[str, Any], drain: Callable[[], None] | None = None) -> None:
        """Queue ``message``; ``drain`` runs before it leaves (write-behind of its facts)."""
        if drain is not None:
            self._drains[drain] = None
        if self._congested and self._messages and _merge(self._messages[-1], message):
            return
        self._messages.append(message)
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self.flush)

    @property
    def _congested(self) -> bool:
        return self._sink.pending > HIGH_WATER

    def flush(self) -> None:
        """Hand everything to the sink now, unless the client is not reading."""
        self._scheduled = False
        if not self._messages or self._congested:
            return
        self._send()

    def _send(self) -> None:
        for drain in self._drains:
            drain()
        self._drains.clear()
        messages, self._messages = self._messages, []
        self._sink.write(b"".join(map(_line, messages)))

    def finish(self) -> None:
        """Hand over what is left, whatever the client does."""
        if self._messages:
            self._send()


def _line(message: Mapping[str, Any]) -> bytes:
    """The line of a message. If it is no JSON, whoever waits for it is told (V1-TURN-05), and the
    messages around it are not lost with it."""
    try:
        return encode(message)
    except TypeError:
        log.exception("a message cannot be written")
    if "id" not in message or "method" in message:
        return b""
    error = {"code": INTERNAL_ERROR, "message": "the answer could not be written; see the log"}
    return encode({"jsonrpc": "2.0", "id": message["id"], "error": error})


def text_chunk(message: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The ``update`` of a ``session/update`` that is a text chunk, else ``None``."""
    update: Mapping[str, Any] | None = message.get("params", {}).get("update")
    if update is None or not str(update.get("sessionUpdate", "")).endswith("_chunk"):
        return None
    return update if update["content"]["type"] == "text" else None


def _merge(last: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Add a text chunk to the one before it, if both belong to one message."""
    before, after = text_chunk(last), text_chunk(new)
    if before is None or after is None:
        return False
    same = last["params"]["sessionId"] == new["params"]["sessionId"]
    if not (same and mergeable(before, after)):
        return False
    before["content"]["text"] += after["content"]["text"]
    return True


def mergeable(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether two updates are text of one message, and short enough to be one."""
    return (
        "messageId" in after
        and before.get("messageId") == after["messageId"]
        and before["sessionUpdate"] == after["sessionUpdate"]
        and "text" in before["content"]
        and "text" in after["content"]
        and len(before["content"]["text"]) + len(after["content"]["text"]) <= LONGEST_TEXT
    )
