"""Being cancelled, and awaiting something that was: two things that look the same.

``asyncio.CancelledError`` also comes out of a future that somebody else has cancelled. Taken for a
cancellation it would silently end whoever awaits, a whole agent at worst. Foreign code (listeners,
models, tools) is awaited under ``contain_leaks``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class LeakedCancellation(RuntimeError):
    """What was awaited had been cancelled, though nobody cancelled who awaits it."""


@contextmanager
def contain_leaks() -> Iterator[None]:
    """Let the current task's own cancellation through; raise ``LeakedCancellation`` for others'."""
    try:
        yield
    except asyncio.CancelledError as failure:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise LeakedCancellation("something that this waits for was cancelled") from failure
