"""What the demo model can be told to do: the vocabulary of its scripts, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from harness_core.content import Failure, FinishKind, Usage


@dataclass(frozen=True, slots=True)
class Say:
    """A line of visible text, word by word."""

    text: str


@dataclass(frozen=True, slots=True)
class Think:
    """A line of reasoning, word by word."""

    text: str


@dataclass(frozen=True, slots=True)
class Repeat:
    """``count`` text deltas; ``{i}`` in ``text`` is the number of the delta, from 1."""

    count: int
    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call; ``forever`` repeats the answer it belongs to in every step."""

    name: str
    arguments: str
    forever: bool = False


@dataclass(frozen=True, slots=True)
class Show:
    """Say something about the request: its conversation, the last result, or the language."""

    what: Literal["context", "system", "tools", "result", "help"]


@dataclass(frozen=True, slots=True)
class Delay:
    """Wait this many seconds before each delta that follows in this answer."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Report:
    """Report these token counts in place of the estimated ones."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class End:
    """End the answer here, for a reason of one's own."""

    kind: FinishKind
    failure: Failure | None = None
    explanation: str | None = None


@dataclass(frozen=True, slots=True)
class Cut:
    """End the stream here without a finish marker."""


@dataclass(frozen=True, slots=True)
class Hang:
    """Say nothing more until cancelled."""


Action: TypeAlias = Say | Think | Repeat | Call | Show | Delay | Report | End | Cut | Hang
Answer: TypeAlias = tuple[Action, ...]
