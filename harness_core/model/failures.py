"""What went wrong with a model call, in the words of ``Failure.code``.

Pure: from a status, headers and an error body to a ``Failure`` whose message is one bounded
sentence without secrets. Which failures are worth a retry is not decided here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import orjson

from harness_core.content import Failure, Json
from harness_core.model.headers import LONGEST_ID, request_id, retry_after

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
    "setup",
    "internal",
)
"""Every code a ``Failure`` may carry."""

LONGEST_TEXT = 300
"""Characters of a provider's own words that are repeated."""

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

_OF_KIND = {
    "authentication_error": "auth",
    "permission_error": "auth",
    "invalid_api_key": "auth",
    "api_key_invalid": "auth",
    "rate_limit_error": "rate-limit",
    "rate_limit_exceeded": "rate-limit",
    "resource_exhausted": "rate-limit",
    "overloaded_error": "overloaded",
    "overloaded": "overloaded",
    "unavailable": "overloaded",
    "timeout_error": "timeout",
    "request_too_large": "context-overflow",
    "invalid_request_error": "bad-request",
    "not_found_error": "bad-request",
    "model_not_found": "bad-request",
}
"""What providers call an error's type, code or status."""

_OUR_FAULT = re.compile(r"(?:invalid|unsupported|image|empty_image|failed_to_download)_")
"""How codes begin that complain of something in the request."""

_DECISIVE = {
    "context_length_exceeded": "context-overflow",
    "exceed_context_size_error": "context-overflow",
    # No wait helps here, although it comes with the status of a rate limit.
    "insufficient_quota": "bad-request",
    "billing_error": "bad-request",
    "api_key_invalid": "auth",
    "invalid_api_key": "auth",
}
"""Kinds that say more than the HTTP status they come with."""

_OVERFLOW = re.compile(
    r"maximum context length|context[ _]length|context window|context limit|available context size"
    r"|prompt is too long|input is too long|(?:input|prompt).{0,40}too many tokens"
    r"|reduce the length of the (?:messages|prompt|input)|token count.{0,40}exceeds the maximum",
    re.IGNORECASE,
)
_BAD_KEY = re.compile(
    r"(?:api[ _-]?key|x-api-key).{0,20}(?:not valid|invalid|incorrect)"
    r"|(?:invalid|incorrect).{0,10}api[ _-]?key",
    re.IGNORECASE,
)
_SECRET = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai|key|hf|ghp|pat|tok)[-_](?=[\w*.-]*[\d*])[\w*.-]{8,}"
    r"|\bAIza[\w-]{8,}"
    r"|\beyJ[\w-]{8,}(?:\.[\w-]+)*"
    r"|(?<=[Bb]earer )\S+"
    r"|(?<=[?&]key=)[^&\s]+"
    r"|(?<=://)[^/@\s]+(?=@)"
    r"|\b(?=\w*\d)(?=\w*[A-Za-z])\w{32,}",
)
REDACTED = "[redacted]"
SHORTEST_SECRET = 8
"""Characters; a shorter key is a placeholder, and a word that may stand in any text."""


class ApiError(Exception):
    """A provider answered with an error object, with a status or in the middle of a stream."""

    def __init__(self, body: Json) -> None:
        super().__init__("the provider sent an error")
        self.body = body


def code_of_status(status: int) -> str:
    """The failure code that an HTTP status alone suggests."""
    if status in _OF_STATUS:
        return _OF_STATUS[status]
    return "server" if status >= 500 else "bad-request"


@dataclass(frozen=True, slots=True)
class Reporter:
    """Puts the errors of one provider into words. ``hint`` says where its key comes from."""

    provider: str
    secrets: tuple[str, ...] = ()
    hint: str = ""

    def refused(self, status: int, headers: Mapping[str, str], body: bytes, now: float) -> Failure:
        """An answer with an error status; ``now`` is the time in epoch seconds."""
        error = _parse(body)
        text, kinds = _text(error), set(_kinds(error))
        code = _code(text, kinds, status)
        words = text or _plain(body) or "it did not say why"
        key = f" ({self.hint})" if code == "auth" and self.hint else ""
        return Failure(
            code,
            f"{self.provider} answered HTTP {status}: {self.clean(words)}{key}",
            status=status,
            retry_after=retry_after(headers, now) if status >= 408 else None,
            request_id=request_id(headers),
        )

    def interrupted(self, error: Json, headers: Mapping[str, str]) -> Failure:
        """An error object in the middle of a stream."""
        text, kinds = _text(error), set(_kinds(error))
        code = _code(text, kinds, _numeric(error))
        words = self.clean(text or "it did not say why")
        failure = self.broken(code, f"broke off: {words}", headers)
        return failure if failure.request_id else replace(failure, request_id=_named(error))

    def broken(self, code: str, what: str, headers: Mapping[str, str] | None = None) -> Failure:
        """A failure of our own words: ``what`` completes a sentence about the provider."""
        id = request_id(headers) if headers else None
        return Failure(code, f"{self.provider} {self.clean(what)}", request_id=id)

    def clean(self, text: str) -> str:
        """The text as a bounded line without anything that looks like a secret."""
        for secret in self.secrets:
            if len(secret) >= SHORTEST_SECRET:
                text = text.replace(secret, REDACTED)
        line = _SECRET.sub(REDACTED, " ".join(text[: 10 * LONGEST_TEXT].split()))
        return line if len(line) <= LONGEST_TEXT else line[: LONGEST_TEXT - 1] + "…"


# --- what an error says ------------------------------------------------------------------------


def _parse(body: bytes) -> Json:
    try:
        return orjson.loads(body)
    except ValueError:
        return None


def _text(error: Json) -> str:
    """The words of an error object, whichever of the usual shapes it has."""
    if isinstance(error, str):
        return error
    if isinstance(error, list):
        return _text(error[0]) if error else ""
    if not isinstance(error, dict):
        return ""
    for key in ("error", "message", "detail", "msg", "error_description"):
        if found := _text(error.get(key)):
            return found
    return ""


def _kinds(error: Json) -> Iterator[str]:
    """Everything an error object calls itself."""
    if isinstance(error, list):
        error = error[0] if error else None
    if not isinstance(error, dict):
        return
    for key in ("type", "code", "status", "reason"):
        if isinstance(error.get(key), str):
            yield error[key].lower()
    yield from _kinds(error.get("error"))
    details = error.get("details")
    for detail in details if isinstance(details, list) else ():
        yield from _kinds(detail)


def _numeric(error: Json) -> int | None:
    """An HTTP status that an error object carries as its code."""
    inner = error.get("error", error) if isinstance(error, dict) else None
    code = inner.get("code") if isinstance(inner, dict) else None
    return code if isinstance(code, int) and 400 <= code < 600 else None


def _named(error: Json) -> str | None:
    """The call's name, where an error object itself tells it."""
    id = error.get("request_id") if isinstance(error, dict) else None
    return id[:LONGEST_ID] if isinstance(id, str) else None


def _code(text: str, kinds: set[str], status: int | None) -> str:
    for kind in kinds & _DECISIVE.keys():
        return _DECISIVE[kind]
    if status != 429 and _OVERFLOW.search(text):
        return "context-overflow"
    if status == 400 and _BAD_KEY.search(text):
        return "auth"
    if status is not None:
        return code_of_status(status)
    if known := sorted(kinds & _OF_KIND.keys()):
        return _OF_KIND[known[0]]
    return "bad-request" if any(map(_OUR_FAULT.match, kinds)) else "server"


def _plain(body: bytes) -> str:
    """A body that is no error object, if a person can read it."""
    text = body[:4096].decode("utf-8", "replace").strip()
    return "" if text.startswith(("<", "{", "[")) or "\ufffd" in text else text
