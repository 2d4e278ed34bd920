"""What a provider's response headers say: the call's name, and how long to wait.

Pure, for header names in lower case or in a case-insensitive mapping.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

LONGEST_ID = 128
"""Characters of a call's name that are kept."""

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_LIMITS = re.compile(r"(?:x|anthropic)-ratelimit-(.+)-reset|(?:x-)?ratelimit-reset-?(.*)")


def request_id(headers: Mapping[str, str]) -> str | None:
    """The provider's name for a call, to quote to its support."""
    for name in ("x-request-id", "request-id", "x-amzn-requestid", "cf-ray"):
        if found := headers.get(name):
            return found[:LONGEST_ID]
    return None


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds that the provider asks to wait, from any of the headers that say so."""
    if milliseconds := _number(headers.get("retry-after-ms", "")):
        return milliseconds / 1000
    if stated := headers.get("retry-after"):
        seconds = _number(stated)
        return seconds if seconds is not None else _until(stated, now)
    waits = [
        wait
        for name, value in headers.items()
        if (match := _LIMITS.fullmatch(name.lower()))
        and _used_up(headers, match[1] or match[2])
        and (wait := _wait(value, now)) is not None
    ]
    return max(waits, default=None)


def _used_up(headers: Mapping[str, str], what: str) -> bool:
    """Whether the limit that a reset belongs to is the one that was hit."""
    if not what:
        return True
    names = (f"x-ratelimit-remaining-{what}", f"anthropic-ratelimit-{what}-remaining")
    return any(headers.get(name, "").strip() == "0" for name in names)


def _wait(value: str, now: float) -> float | None:
    """Seconds from a duration (``1m30s``), an epoch time in s or ms, or a date."""
    number = _number(value)
    if number is not None:
        moment = number / 1000 if number > 1e11 else number
        return max(0.0, moment - now) if moment > 1e9 else number
    if parts := _DURATION.findall(value):
        return sum(float(amount) * _SECONDS[unit] for amount, unit in parts)
    return _until(value, now)


def _number(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None


def _until(value: str, now: float) -> float | None:
    # Slow to import, and hardly ever needed.
    from datetime import datetime
    from email.utils import parsedate_to_datetime

    for parse in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            return max(0.0, parse(value).timestamp() - now)
        except (ValueError, TypeError, OverflowError, OSError):
            continue
    return None
