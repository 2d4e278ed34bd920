"""The turn correlation, nothing else: one prompt's way through the log to its answer.

A settlement is fed every event of its session, and knows from the exact pair ``turn/start`` …
``turn/end`` which turn is its own. It is free of I/O; who awaits it is not its business.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from acp_server.capabilities import AUTH_METHODS
from acp_server.framing import AUTH_REQUIRED, INTERNAL_ERROR
from acp_server.limits import cut
from acp_server.rpc import RpcError
from harness_core.facts import Reason, TurnEnd, TurnStart
from harness_core.session import SessionEvent

StopReason: TypeAlias = Literal[
    "end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"
]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a prompt is answered: a stop reason, or an error."""

    stop: StopReason | None
    error: RpcError | None = None

    @classmethod
    def of(cls, reason: Reason) -> Outcome:
        """The answer that a ``turn/end`` means (V1-STOP-01 to -06)."""
        match reason.kind:
            case "completed":
                return cls("end_turn")
            case "max-tokens":
                return cls("max_tokens")
            case "max-steps":
                return cls("max_turn_requests")
            case "refused" | "blocked":
                return cls("refusal")
            case "aborted":
                return cls("end_turn" if reason.cause == "hook" else "cancelled")
            case "error" | "interrupted":
                return cls(None, error_of(reason))


CANCELLED = Outcome("cancelled")


SENTENCE, DETAILS = 500, 8_000
"""Bytes of an error's message, and of the details in its data."""


def error_of(reason: Reason) -> RpcError:
    """A failed turn as a JSON-RPC error with structured data and no traceback (V1-STOP-06)."""
    text = reason.message or "the turn was interrupted"
    data: dict[str, object] = {
        "reason": reason.code or reason.kind,
        "details": cut(text, DETAILS),
    }
    if reason.status is not None:
        data["status"] = reason.status
    if reason.request_id is not None:
        data["requestId"] = reason.request_id
    if reason.code == "auth":
        data["authMethods"] = AUTH_METHODS
    code = AUTH_REQUIRED if reason.code == "auth" else INTERNAL_ERROR
    return RpcError(code, cut(" ".join(text.split()), SENTENCE), data)


class Settlement:
    """One prompt: waiting, then bound to a turn, then settled."""

    def __init__(self, message: str) -> None:
        self.message = message
        self.turn: int | None = None

    def observe(self, event: SessionEvent) -> Outcome | None:
        """Take the next event of the session; the outcome, once, when it is this prompt's."""
        match event.fact:
            case TurnStart(turn=turn, messages=ids) if self.message in ids:
                self.turn = turn
            case TurnEnd(turn=turn, reason=reason) if turn == self.turn:
                return Outcome.of(reason)
        return None
