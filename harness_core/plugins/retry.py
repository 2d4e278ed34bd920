"""Retry: repeats a failed model call where that makes sense.

Exponential with jitter, bounded in number and time, honouring what the provider asks for. The loop
logs each retry before it waits, and the wait is cancelled with the turn.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from harness_core.bus import Next
from harness_core.loop import REQUEST_ERROR, RequestFailure, Retry

if TYPE_CHECKING:
    from harness_core.harness import Harness

TRANSIENT = frozenset(
    ("rate-limit", "overloaded", "timeout", "transport", "cut", "empty", "server")
)


_DOUBLINGS = 64
"""More would not make any wait longer, and less fit for a float."""


def backoff(attempt: int, base: float, longest: float, jitter: float) -> float:
    """Seconds to wait after failed ``attempt`` (from 1); ``jitter`` is from 0 to 1."""
    grown = base * 2.0 ** min(attempt - 1, _DOUBLINGS)
    return min(longest, grown) * (0.5 + jitter / 2)


def install(harness: Harness) -> None:
    """Stand at ``agent/request-error`` with the settings' ``retry`` table."""

    async def decide(
        failed: RequestFailure, following: Next[RequestFailure, Retry | None]
    ) -> Retry | None:
        failure, settings = failed.failure, failed.agent.settings.retry
        if failure.code not in TRANSIENT or failed.attempt > settings.attempts:
            return await following(failed)
        wait = backoff(failed.attempt, settings.base, settings.longest, random.random())
        if failure.retry_after is not None:
            if failure.retry_after > settings.longest:
                return await following(failed)
            wait = max(wait, failure.retry_after)
        return Retry(wait)

    harness.bus.on(REQUEST_ERROR, decide)
