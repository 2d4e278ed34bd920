"""What went wrong with a model call, in the words of ``Failure.code``.

Pure: from a status, headers and an error body to a ``Failure`` whose message is one bounded
sentence without secrets. Which failures are worth a retry is not decided here.
"""

from __future__ import annotations

CODES = (
    "auth",
    "rate-limit",
    "overloaded",
    "timeout",
    "transport",
    "cut",
    "empty",
    "context-overflow",
    "bad-request",
    "server",
    "internal",
)
"""Every code a ``Failure`` may carry."""

_OF_STATUS = {
    401: "auth",
    403: "auth",
    408: "timeout",
    413: "context-overflow",
    429: "rate-limit",
    503: "overloaded",
    504: "timeout",
    529: "overloaded",
}


def code_of_status(status: int) -> str:
    """The failure code that an HTTP status alone suggests."""
    if status in _OF_STATUS:
        return _OF_STATUS[status]
    return "server" if status >= 500 else "bad-request"
