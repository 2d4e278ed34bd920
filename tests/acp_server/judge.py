"""The judge of frames: the official schemas of both generations, and the size of a line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from acp_server.framing import encode
from conformance.frames import Direction
from conformance.schema import Generation, unknown_keys, validate_frame

PUBLISHED = (Generation.AUGUST_UNSTABLE, Generation.NOVEMBER)
LONGEST_LINE = 64 * 1024


def faults(message: dict[str, Any], answers: str | None = None) -> list[str]:
    """What is wrong with a message of ours; ``answers`` is the method it is the answer to."""
    found = [
        f"{generation.name}: {problem}"
        for generation in PUBLISHED
        for problem in validate_frame(message, Direction.A2C, answers, generation=generation)
    ]
    return found + [f"unknown key {key}" for key in unknown_keys(message, Direction.A2C, answers)]


def framed(update: Mapping[str, Any], session: str = "s1") -> dict[str, Any]:
    """An update as it travels."""
    params = {"sessionId": session, "update": update}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def sound(update: Mapping[str, Any], longest: int = LONGEST_LINE) -> None:
    """An update is valid for both generations, holds no null, and its line is not too long."""
    message = framed(update)
    assert faults(message) == []
    assert len(encode(message)) < longest
    assert update["sessionUpdate"] == "session_info_update" or None not in update.values()
