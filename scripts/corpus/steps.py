"""What a client does in a scenario, step by step, as data. Knows no process and no file.

In every text ``${cwd}``, ``${cwd2}`` and ``${home}`` stand for directories, ``${session1}`` for the
id of the first session that was opened, and so on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from conformance.client import ABSENT, Answerer

FIRST = "${session1}"


@dataclass(frozen=True, slots=True)
class Ask:
    """A request. ``wait`` for its answer; without it the next step follows at once."""

    method: str
    params: Any = ABSENT
    wait: bool = True
    id: int | str | None = None


@dataclass(frozen=True, slots=True)
class Tell:
    """A notification."""

    method: str
    params: Any = ABSENT


@dataclass(frozen=True, slots=True)
class Line:
    """Bytes as they are, up to but without a line feed unless ``open_end``.

    ``answers`` is how many lines the agent has to send for it, whatever they are.
    """

    raw: bytes
    answers: int = 1
    open_end: bool = False


@dataclass(frozen=True, slots=True)
class Until:
    """Wait until a line from the agent holds this text, as often as ``times`` says.

    Only lines since the last request count.
    """

    text: str
    times: int = 1


@dataclass(frozen=True, slots=True)
class Settled:
    """Wait until every request was answered."""


@dataclass(frozen=True, slots=True)
class HangUp:
    """Close the agent's stdin; every scenario ends with it by itself."""


@dataclass(frozen=True, slots=True)
class CancelLast:
    """``$/cancel_request`` for the request that was sent last."""


Step: TypeAlias = "Ask | Tell | Line | Until | Settled | HangUp | CancelLast"


@dataclass(frozen=True, slots=True)
class Scenario:
    """One conversation to record.

    ``features`` are the tags it covers. ``files`` is what the workspace holds at first. ``answers``
    gives the client's answers to the agent's requests, by method. ``settings`` are environment
    variables of the agent beyond those that all scenarios have. ``needs`` names what the agent must
    offer: a method, or ``new.KEY`` for a key of the answer to ``session/new``.
    """

    name: str
    title: str
    features: tuple[str, ...]
    steps: tuple[Step, ...]
    files: Mapping[str, str] = field(default_factory=dict)
    answers: Mapping[str, Answerer] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    needs: str = ""


# -- words for what clients do all the time ----------------------------------------------------

CLIENT = {"name": "corpus", "title": "Corpus", "version": "1"}
FILES = {"fs": {"readTextFile": True, "writeTextFile": True}}
TERMINAL = {"terminal": True}


def hello(capabilities: Any = ABSENT, version: Any = 1, **fields: Any) -> Ask:
    """``initialize``."""
    params: dict[str, Any] = {"protocolVersion": version, "clientInfo": CLIENT, **fields}
    if capabilities is not ABSENT:
        params["clientCapabilities"] = capabilities
    return Ask("initialize", params)


def new(cwd: str = "${cwd}", *, wait: bool = True, **fields: Any) -> Ask:
    """``session/new``."""
    return Ask("session/new", {"cwd": cwd, "mcpServers": [], **fields}, wait)


def reopen(method: str, session: str = FIRST, cwd: str = "${cwd}") -> Ask:
    """``session/load`` or ``session/resume``."""
    return Ask(method, {"sessionId": session, "cwd": cwd, "mcpServers": []})


def of_session(method: str, session: str = FIRST, **fields: Any) -> Ask:
    """A request about one session."""
    return Ask(method, {"sessionId": session, **fields})


def prompt(*lines: str, session: str = FIRST, wait: bool = True) -> Ask:
    """``session/prompt`` with one block of text."""
    return blocks({"type": "text", "text": "\n".join(lines)}, session=session, wait=wait)


def blocks(*content: Mapping[str, Any], session: str = FIRST, wait: bool = True) -> Ask:
    """``session/prompt`` with any content."""
    return Ask("session/prompt", {"sessionId": session, "prompt": list(content)}, wait)


def cancel(session: str = FIRST, **fields: Any) -> Tell:
    """``session/cancel``."""
    return Tell("session/cancel", {"sessionId": session, **fields})


def call(tool: str, /, **arguments: Any) -> str:
    """The demo model's directive for a tool call."""
    return f"!call {tool} {json.dumps(arguments, ensure_ascii=False)}"


def message(**fields: Any) -> bytes:
    """A line of JSON with these members."""
    return json.dumps({"jsonrpc": "2.0", **fields}).encode()


def started(*steps: Step) -> Sequence[Step]:
    """Initialize, one session, then these steps."""
    return (hello(), new(), *steps)
