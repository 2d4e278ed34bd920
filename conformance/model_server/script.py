"""Scripts: what answers a model request, from a list, a function, or directives in the prompt.

Nothing here does I/O or knows a dialect.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from conformance.model_server.directives import PLAIN, DirectiveError, Plan, parse
from conformance.model_server.reply import Failure, Reply
from conformance.model_server.request import ModelRequest

Answering = Callable[[ModelRequest], Reply | Failure | Awaitable[Reply | Failure]]
Script = Answering | Sequence[Reply | Failure]
"""Either a function of the request, or replies used up in order."""


def answering(script: Script | None) -> Answering:
    """A function for any form of script; None means directives."""
    if script is None:
        return Directives()
    return script if callable(script) else InOrder(script)


class InOrder:
    """Replies used up one per request; afterwards every request fails loudly with HTTP 500."""

    def __init__(self, replies: Sequence[Reply | Failure]) -> None:
        self._rest = iter(tuple(replies))

    def __call__(self, _request: ModelRequest) -> Reply | Failure:
        return next(self._rest, Failure(500, "the script has no reply left"))


class Directives:
    """Follows the directives of the current turn's newest user message that holds any.

    Which reply of the turn is due is read off the conversation (assistant messages since that
    prompt), so a retried or replayed request gets the same answer; only ``@retry`` counts.
    """

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()

    def __call__(self, request: ModelRequest) -> Reply | Failure:
        try:
            found = _current(request)
        except DirectiveError as error:
            return Failure(400, str(error))
        if found is None:
            return Reply.say(PLAIN)
        plan, call = found
        key = _fingerprint(request)
        attempt = self._seen[key]
        self._seen[key] += 1
        return plan.reply(call, attempt)


def _current(request: ModelRequest) -> tuple[Plan, int] | None:
    """The plan in force and how many model calls its turn has already had."""
    calls = 0
    for entry in reversed(request.turn):
        if entry.role == "assistant":
            calls += 1
        elif entry.role == "user" and (plan := parse(entry.text)):
            return plan, calls
    return None


def _fingerprint(request: ModelRequest) -> str:
    conversation = repr([(e.role, e.text, e.calls) for e in request.entries])
    return hashlib.sha256(conversation.encode("utf-8", "surrogatepass")).hexdigest()
