"""The client's end of a connection in memory: it keeps what is written and reads when told."""

from __future__ import annotations

import json
from typing import Any


class MemorySink:
    """A sink that remembers every write; ``pending`` is what the test says the client has not read.

    ``order`` is a list that a test may share with others to see what happened first.
    """

    def __init__(self) -> None:
        self.pending = 0
        self.writes: list[bytes] = []
        self.order: list[str] = []

    def write(self, data: bytes) -> None:
        self.writes.append(data)
        self.order.append("write")

    @property
    def messages(self) -> list[dict[str, Any]]:
        """Everything that was written so far, as JSON."""
        return [json.loads(line) for line in b"".join(self.writes).splitlines()]
