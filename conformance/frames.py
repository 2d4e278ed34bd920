"""What every room of the kit agrees on: frames, findings and results.

Pure data. Nothing here knows processes, files or how a report looks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Direction(StrEnum):
    """Which way a frame went: ``c2a`` client to agent, ``a2c`` agent to client."""

    C2A = "c2a"
    A2C = "a2c"


@dataclass(frozen=True, slots=True)
class Frame:
    """One line on the wire, exactly as it was sent, without its line feed.

    ``time`` is seconds since the recording began; it never decides order.
    """

    direction: Direction
    time: float
    raw: bytes
    terminated: bool = True
    """False for the last bytes of a stream that ended without a line feed."""


class Level(StrEnum):
    """How binding a check is: the specification's word, or our own recommendation."""

    MUST = "MUST"
    SHOULD = "SHOULD"
    MAY = "MAY"
    REC = "REC"


class Status(StrEnum):
    """How a check ended. ``died`` and ``hung`` are findings about the agent, not kit errors."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    DIED = "died"
    HUNG = "hung"


@dataclass(frozen=True, slots=True)
class Finding:
    """One broken rule, what was seen, and the frames that prove it (indexes into the run)."""

    rule: str
    message: str
    frames: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The outcome of one check of the catalogue against one agent command."""

    id: str
    title: str
    level: Level
    refs: tuple[str, ...]
    status: Status
    seconds: float
    findings: tuple[Finding, ...] = ()
    reason: str = ""
    """Why it was skipped, in a sentence."""
    frames: tuple[Frame, ...] = ()
    """The whole conversation, kept when the check did not pass."""


@dataclass(frozen=True, slots=True)
class Run:
    """All results of one ``check`` run, with what is known about the agent."""

    command: tuple[str, ...]
    agent: dict[str, Any] = field(default_factory=dict)
    """The agent's ``initialize`` result, empty if it never answered."""
    results: tuple[CheckResult, ...] = ()
