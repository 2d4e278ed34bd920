"""How a check says what it found: it returns, it fails with evidence, or it does not apply."""

from __future__ import annotations

from typing import Any, NoReturn

from conformance.faults import RpcError
from conformance.incoming import Incoming


class CheckFailed(Exception):
    """The agent broke the rule under test; ``evidence`` are the messages that show it."""

    def __init__(self, message: str, *evidence: Incoming) -> None:
        super().__init__(message)
        self.evidence = evidence


class NotApplicable(Exception):
    """The check cannot say anything about this agent; the text is the reason, in a sentence."""


def fail(message: str, *evidence: Incoming) -> NoReturn:
    raise CheckFailed(message, *evidence)


def require(condition: object, message: str, *evidence: Incoming) -> None:
    """Raise ``CheckFailed`` with ``message`` unless ``condition`` is true."""
    if not condition:
        raise CheckFailed(message, *evidence)


def require_code(error: RpcError | None, *codes: int, what: str) -> RpcError:
    """``what`` must have been answered by an error with one of ``codes`` (any, if none given)."""
    if error is None:
        fail(f"{what} was answered with a result, not with an error")
    wanted = " or ".join(map(str, codes))
    require(
        not codes or error.code in codes, f"{what} was answered with {error}, expected {wanted}"
    )
    return error


def require_object(result: Any, what: str) -> dict[str, Any]:
    """``what`` must be a JSON object."""
    if not isinstance(result, dict):
        fail(f"{what} is {result!r}, expected an object")
    return result
