"""``initialize``: what the client can do, and what this agent offers.

Imports nothing heavy: this is all that answering ``initialize`` needs (V1-INIT-17).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from acp_server.framing import INVALID_PARAMS
from acp_server.rpc import RpcError
from harness_core import __version__

PROTOCOL_VERSION: Final = 1
"""The newest protocol version this agent speaks."""

AUTH_METHODS: Final[list[dict[str, Any]]] = [
    {
        "id": "key",
        "name": "API key",
        "description": (
            "Set the provider's variable (such as OPENAI_API_KEY or ANTHROPIC_API_KEY) where the "
            "editor starts the agent, or store a key with `acp-harness login`; signing in checks "
            "that it is there."
        ),
    }
]
"""What ``authenticate`` takes."""

PAGE_LOGIN: Final[dict[str, Any]] = {
    **AUTH_METHODS[0],
    "description": (
        "Asks for the provider's key on a page in your browser, unless one is stored already or "
        "set where the editor starts the agent."
    ),
}
"""The same for clients that open pages."""

TERMINAL_LOGIN: Final[dict[str, Any]] = {
    "type": "terminal",
    "id": "login",
    "name": "Store an API key",
    "description": "Asks for a key in a terminal and stores it for this user.",
    "args": ["--login"],
}
"""Offered only to clients that open terminals for it; appended to the command (V1-AUTH-03, -08)."""


OURS: Final = "acp-harness"
"""The key of our own in metadata; what clients send us stands under it too (V1-EXT-07)."""

STEERING: Final = {"supported": True}
"""``_session/steering`` is there."""


@dataclass(frozen=True, slots=True)
class ClientCapabilities:
    """What the client offers. Absent, null and malformed all mean: not (V1-INIT-09, -19)."""

    read_files: bool = False
    write_files: bool = False
    terminal: bool = False
    terminal_auth: bool = False
    boolean_options: bool = False
    elicit_form: bool = False
    elicit_url: bool = False
    notices: bool = False
    compaction: bool = False

    @classmethod
    def parse(cls, value: Any) -> ClientCapabilities:
        """From ``clientCapabilities``, whatever it is. Never raises."""
        return cls(
            read_files=_at(value, "fs", "readTextFile") is True,
            write_files=_at(value, "fs", "writeTextFile") is True,
            terminal=_at(value, "terminal") is True,
            terminal_auth=_at(value, "auth", "terminal") is True,
            boolean_options=_offered(value, "session", "configOptions", "boolean"),
            elicit_form=_offered(value, "elicitation", "form"),
            elicit_url=_offered(value, "elicitation", "url"),
            notices=_offered(value, "session", "notices"),
            compaction=_offered(value, "session", "compaction"),
        )


def _at(value: Any, *path: str) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _offered(value: Any, *path: str) -> bool:
    return isinstance(_at(value, *path), Mapping)


def requested_version(params: Mapping[str, Any]) -> int:
    """The version a client asks for. Raises ``RpcError`` (V1-INIT-15)."""
    version = params.get("protocolVersion")
    if not isinstance(version, int) or isinstance(version, bool) or not 0 <= version <= 65535:
        raise RpcError(INVALID_PARAMS, "protocolVersion must be an integer from 0 to 65535")
    return version


def initialize_result(client: ClientCapabilities) -> dict[str, Any]:
    """What this agent is and can do (V1-INIT-07, -08, -11). Whatever version was asked for, the
    answer is the newest one spoken here: 1 (V1-INIT-03, -04)."""
    logins = [PAGE_LOGIN] if client.elicit_url else AUTH_METHODS
    return {
        "protocolVersion": PROTOCOL_VERSION,
        "agentInfo": {"name": "acp-harness", "title": "ACP Harness", "version": __version__},
        "agentCapabilities": {
            "loadSession": True,
            "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
            "mcpCapabilities": {"http": True, "sse": True},
            "sessionCapabilities": {
                "list": {},
                "resume": {},
                "close": {},
                "delete": {},
                "fork": {},
                "additionalDirectories": {},
            },
            "auth": {"logout": {}},
            "_meta": {OURS: {"steering": STEERING, "fork": {"message": True}}},
        },
        "authMethods": [*logins, *([TERMINAL_LOGIN] if client.terminal_auth else [])],
        "_meta": {"steering": STEERING},  # where the clients that know it look for it
    }
