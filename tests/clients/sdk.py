"""The official Python SDK's own models as judges of what the agent sent.

The SDK reads leniently: it silently drops what it cannot read. So a message passes only if its
model gives back what went in. Fields newer than the SDK are no fault.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from acp import schema
from acp.meta import AGENT_METHODS, CLIENT_METHODS
from pydantic import BaseModel, TypeAdapter, ValidationError

NAMES = {
    "session_request_permission": "RequestPermission",
    "session_update": "SessionNotification",
    "elicitation_complete": "CompleteElicitation",
    "fs_write_text_file": "WriteTextFile",
    "fs_read_text_file": "ReadTextFile",
    "terminal_create": "CreateTerminal",
    "terminal_output": "TerminalOutput",
    "terminal_release": "ReleaseTerminal",
    "terminal_wait_for_exit": "WaitForTerminalExit",
    "terminal_kill": "KillTerminal",
    "elicitation_create": "CreateElicitation",
    "initialize": "Initialize",
    "authenticate": "Authenticate",
    "logout": "Logout",
    "session_new": "NewSession",
    "session_load": "LoadSession",
    "session_set_mode": "SetSessionMode",
    "session_set_config_option": "SetSessionConfigOption",
    "session_prompt": "Prompt",
    "session_list": "ListSessions",
    "session_delete": "DeleteSession",
    "session_fork": "ForkSession",
    "session_resume": "ResumeSession",
    "session_close": "CloseSession",
}
"""How the SDK's models are called, by its names of the methods."""


def _models() -> dict[str, Any]:
    """What the agent may call, and under ``method!`` what answers a call of the client."""
    models: dict[str, Any] = {"$/cancel_request": schema.CancelRequestNotification}
    for key, method in CLIENT_METHODS.items():
        name = NAMES.get(key, "")
        for candidate in (name, f"{name}Request", f"{name}Notification"):
            if candidate and hasattr(schema, candidate):
                models[method] = getattr(schema, candidate)
    for key, method in AGENT_METHODS.items():
        if key in NAMES and key != "session_cancel":
            models[f"{method}!"] = getattr(schema, f"{NAMES[key]}Response")
    return models


MODELS = _models()


def misread(message: dict[str, Any], request_method: str | None) -> list[str]:
    """What the SDK would not get of a message from the agent, as sentences."""
    if "method" in message:
        return list(_lost(MODELS.get(message["method"]), message.get("params"), message["method"]))
    if "result" in message and request_method is not None:
        return list(_lost(MODELS.get(f"{request_method}!"), message["result"], request_method))
    return []


def _lost(model: Any, value: Any, where: str) -> Iterator[str]:
    if model is None:
        yield f"the Python SDK knows no {where}"
        return
    adapter: TypeAdapter[BaseModel] = TypeAdapter(model)
    try:
        read = adapter.validate_python(value)
    except ValidationError as error:
        yield f"the Python SDK cannot read {where}: {error.errors(include_url=False)[:3]}"
        return
    dumped = adapter.dump_python(read, mode="json", by_alias=True, exclude_unset=True)
    yield from _unlike(value, dumped, where)


def _unlike(sent: Any, read: Any, where: str) -> Iterator[str]:
    """Where what was read is not what was sent; keys the SDK does not have are left out."""
    if isinstance(sent, dict) and isinstance(read, dict):
        for key in read:
            yield from _unlike(sent.get(key), read[key], f"{where}.{key}")
    elif isinstance(sent, list) and isinstance(read, list) and len(sent) == len(read):
        for index, (before, after) in enumerate(zip(sent, read, strict=True)):
            yield from _unlike(before, after, f"{where}[{index}]")
    elif sent != read:
        yield f"the Python SDK reads {where} as {read!r}, sent was {sent!r}"
