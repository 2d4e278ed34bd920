"""One line from an agent, and the plain envelopes of JSON-RPC."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
ABSENT: Any = object()
"""Stands for params that are not sent at all."""


@dataclass(frozen=True, slots=True)
class Incoming:
    """One line from the agent; ``message`` is None if it is not a JSON object."""

    index: int
    """Its place among all frames of this client."""
    message: Json | None

    @property
    def method(self) -> str:
        method = (self.message or {}).get("method")
        return method if isinstance(method, str) else ""

    @property
    def params(self) -> Json:
        params = (self.message or {}).get("params")
        return params if isinstance(params, dict) else {}

    @property
    def session(self) -> str:
        return str(self.params.get("sessionId", ""))

    @property
    def is_response(self) -> bool:
        return self.message is not None and "method" not in self.message and "id" in self.message

    @property
    def is_request(self) -> bool:
        return bool(self.method) and "id" in (self.message or {})

    @property
    def update(self) -> Json:
        """The payload of a ``session/update``, empty for anything else."""
        update = self.params.get("update") if self.method == "session/update" else None
        return update if isinstance(update, dict) else {}

    @property
    def kind(self) -> str:
        return str(self.update.get("sessionUpdate", ""))


def envelope(method: str, params: Any) -> Json:
    message: Json = {"jsonrpc": "2.0", "method": method}
    return message if params is ABSENT else {**message, "params": params}


def encode_line(message: Any) -> bytes:
    """One line of JSON in UTF-8; text is not escaped, so separators travel raw."""
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def decode_line(raw: bytes) -> Json | None:
    """The JSON object on a line, or None."""
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
