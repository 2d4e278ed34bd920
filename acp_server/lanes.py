"""Lanes: what is asked under one key is done one at a time, in the order it was asked.

Different keys go on side by side. Knows nothing of what is done, or of what the keys are.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Lanes:
    """A lane for every key that somebody is in or waits for; none is kept for the others."""

    def __init__(self) -> None:
        self._lanes: dict[str, _Lane] = {}

    def __len__(self) -> int:
        """How many lanes there are now."""
        return len(self._lanes)

    @asynccontextmanager
    async def lane(self, key: str) -> AsyncIterator[None]:
        """Be the only one in the lane of ``key``; a free one is entered without waiting."""
        lane = self._lanes.setdefault(key, _Lane())
        lane.users += 1
        try:
            async with lane.lock:
                yield
        finally:
            lane.users -= 1
            if not lane.users:
                del self._lanes[key]


class _Lane:
    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0
