"""What goes wrong with an agent: it hangs, it dies, or it answers with an error."""

from __future__ import annotations

from typing import Any


class AgentFault(Exception):
    """The agent left us without what we waited for."""


class Hung(AgentFault):
    """Nothing happened within the time allowed."""


class Died(AgentFault):
    """The agent's process or its stdout ended while we waited."""


class RpcError(Exception):
    """A JSON-RPC error answer, from the agent or to it."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.data = data


def rpc_error(error: Any) -> RpcError:
    """An error object as an exception; what is missing or malformed shows as such."""
    fields = error if isinstance(error, dict) else {}
    code = fields.get("code")
    message = fields.get("message")
    return RpcError(
        code if isinstance(code, int) else 0,
        message if isinstance(message, str) else f"(no message: {error!r})",
        fields.get("data"),
    )
