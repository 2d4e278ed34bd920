"""The fact vocabulary of a session, and its run-time registry.

A fact is typed, frozen, and JSON. A plugin adds its own by defining a class::

    class Weather(Fact, type="weather/seen", ignorable=True):
        sky: str

``ignorable`` says whether a reader that does not know the type may skip it; every other unknown
type makes a log refuse to load. Facts know nothing of sessions, disks or front ends.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, dataclass_transform

from harness_core.content import (
    AssistantMessage,
    Chunk,
    Failure,
    Json,
    ResultBlock,
    Usage,
    UserMessage,
)
from harness_core.frozen import freeze
from harness_core.model.protocol import ModelConfig, ToolSpec


class FactError(ValueError):
    """Data that is not a valid fact. The message names the type and what is wrong."""


class FactRefused(FactError):
    """A fact may not be appended here and now; nothing is in the log."""


class UnknownFact(FactError):
    """A type that nobody here has registered and that may not be skipped."""


FactClass: TypeAlias = "builtins.type[Fact]"


@dataclass_transform(frozen_default=True)
class Fact:
    """Something that happened. Subclass with ``type="domain/name"`` to add to the vocabulary.

    A field that holds containers is ``Json`` or made of tuples, so that nobody can change it later.
    Raises ``TypeError`` if the type is taken already, or if a field's name begins with an
    underscore: such fields are not written.
    """

    type: ClassVar[str] = ""
    ignorable: ClassVar[bool] = False
    registry: ClassVar[dict[str, FactClass]] = {}

    def __init_subclass__(cls, *, type: str, ignorable: bool = False) -> None:
        if type in Fact.registry:
            raise TypeError(f"fact type {type!r} is registered by {Fact.registry[type]!r}")
        cls.type, cls.ignorable = type, ignorable
        made: Any = dataclass(frozen=True)(cls)
        if private := [field.name for field in fields(made) if field.name.startswith("_")]:
            raise TypeError(f"{type}: {', '.join(private)} would not be written: name it otherwise")
        Fact.registry[type] = cls


def decode(type: str, data: Json, *, writer: str | None = None, ignorable: bool = False) -> Fact:
    """A fact from its logged type and data. Raises ``UnknownFact`` or ``FactError``.

    ``writer`` names who wrote an unknown type, ``ignorable`` whether it may be skipped, if the log
    says so.
    """
    if type not in Fact.registry:
        if ignorable:
            return Opaque(type, freeze(data), writer)
        by = f" (written by {writer})" if writer else ""
        raise UnknownFact(f"unknown fact type {type!r}{by}: enable the plugin that defines it")
    try:
        fact: Fact = _reader(type)(data)
    except ValueError as failure:
        raise FactError(f"not a valid {type} fact: {_first_problem(failure)}") from None
    return fact


class Opaque(Fact, type="session/opaque", ignorable=True):
    """A fact of a type that this reader does not know and may skip, kept as it was written."""

    original: str
    data: Json
    writer: str | None = None


@cache
def _reader(type: str) -> Callable[[Json], Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(Fact.registry[type]).validator.validate_python


class Tagged:
    """Marks a union whose members are told apart by ``type``: reading tries one, not each."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic import Field

        return handler(Annotated[source, Field(discriminator="type")])


def _first_problem(failure: Any) -> str:
    error = failure.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part) for part in error["loc"])
    return f"{where}: {error['msg']}" if where else str(error["msg"])


@cache
def field_names(cls: type[Any]) -> tuple[str, ...]:
    """The fields of a dataclass, in order."""
    return tuple(field.name for field in fields(cls))


# --- turns and steps ---------------------------------------------------------------------------

ReasonKind: TypeAlias = Literal[
    "completed",
    "max-tokens",
    "max-steps",
    "refused",
    "blocked",
    "aborted",
    "error",
    "interrupted",
]
Cause: TypeAlias = Literal["user", "hook", "parent", "disposed"]


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a turn ended. Which fields are set depends on ``kind``.

    ``blocked`` sets ``by`` and ``why``; ``refused`` may set ``why``; ``aborted`` sets ``cause`` and
    may set ``why``; ``error`` sets ``message`` and ``code`` and may set ``status`` (HTTP) and
    ``request_id``. ``interrupted`` is written only by crash repair.
    """

    kind: ReasonKind
    by: str | None = None
    why: str | None = None
    cause: Cause | None = None
    message: str | None = None
    code: str | None = None
    status: int | None = None
    request_id: str | None = None


class TurnStart(Fact, type="turn/start"):
    """A turn opened and claimed these queued messages: the pair has an identity."""

    turn: int
    messages: tuple[str, ...]


class TurnEnd(Fact, type="turn/end"):
    """A turn closed. Exactly one for each committed ``turn/start``."""

    turn: int
    reason: Reason


class StepStart(Fact, type="step/start"):
    """One model call, and the tools it asks for, begins."""

    turn: int
    step: int


class StepEnd(Fact, type="step/end"):
    """The step is over: every call it made has a result."""

    turn: int
    step: int


# --- conversation ------------------------------------------------------------------------------


class UserSaid(Fact, type="user/message"):
    """A message entered the conversation: a prompt, steering, or injected context."""

    turn: int
    message: UserMessage


class AssistantChunk(Fact, type="assistant/chunk"):
    """A piece of the model's raw stream. ``attempt`` counts retries within the step, from 1."""

    turn: int
    step: int
    attempt: int
    chunk: Annotated[Chunk, Tagged()]


class AssistantSaid(Fact, type="assistant/message"):
    """The assembled answer: authoritative for history. ``interrupted`` marks a visible prefix."""

    turn: int
    step: int
    message: AssistantMessage
    usage: Usage | None = None
    interrupted: bool = False


class ToolCalled(Fact, type="tool/call"):
    """A tool was asked for. ``arguments`` is the raw JSON text of the model."""

    turn: int
    step: int
    call_id: str
    name: str
    arguments: str


class ToolArguments(Fact, type="tool/arguments"):
    """The arguments were rewritten before execution, by whom and to what."""

    call_id: str
    arguments: str
    by: str


class ToolStarted(Fact, type="tool/start", ignorable=True):
    """The body of a call began to run: after approval, before any effect."""

    call_id: str


class ToolPrinted(Fact, type="tool/output"):
    """Live output of a running command. ``data`` is base64."""

    call_id: str
    stream: str
    data: str


class ToolReturned(Fact, type="tool/result"):
    """The result of a call; every call gets exactly one. ``error`` is a code, see ``ToolError``."""

    turn: int
    step: int
    call_id: str
    name: str
    content: tuple[ResultBlock, ...]
    error: str | None = None
    meta: Json = None


# --- approvals ---------------------------------------------------------------------------------

Decision: TypeAlias = Literal[
    "allow-once",
    "allow-always",
    "reject-once",
    "reject-always",
    "cancelled",
    "unavailable",
]


class ApprovalAsked(Fact, type="approval/asked"):
    """A call waits for a person. ``reason`` is shown to them."""

    call_id: str
    reason: str


class ApprovalDecided(Fact, type="approval/decided"):
    """What came of it. ``by`` is ``user``, ``rule``, or the name of a plugin."""

    call_id: str
    decision: Decision
    by: str


class ApprovalRule(Fact, type="approval/rule"):
    """A remembered "always". The last rule of a ``scope`` wins; ``revoked`` takes it back."""

    scope: str
    allow: bool
    revoked: bool = False


# --- what the session shows --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlanEntry:
    """One line of a plan."""

    content: str
    priority: Literal["high", "medium", "low"] = "medium"
    status: Literal["pending", "in_progress", "completed", "cancelled"] = "pending"


class PlanWrite(Fact, type="plan/write"):
    """The whole plan; the last one wins."""

    entries: tuple[PlanEntry, ...]


class Noticed(Fact, type="session/notice", ignorable=True):
    """Something people should know that is not part of the conversation: a server that is gone."""

    severity: Literal["info", "warning", "error"]
    title: str
    description: str | None = None


class SessionTitle(Fact, type="session/title"):
    """The title; the last one wins, no other place stores it."""

    title: str | None


class SessionOption(Fact, type="session/option"):
    """A setting of this session; the last one of an ``id`` wins."""

    id: str
    value: str | bool


class SeedEnd(Fact, type="session/seed-end"):
    """End of what a resume or a fork inherited."""

    kind: Literal["resume", "fork"]


# --- what the model was given ------------------------------------------------------------------


class RequestHeader(Fact, type="request/header"):
    """How models are called from here on. Written only when changed.

    ``context_window`` is in tokens, ``None`` if nobody knows.
    """

    config: ModelConfig
    context_window: int | None = None


class RequestContext(Fact, type="request/context"):
    """System prompt and tools of the requests from here on. Written only when changed."""

    system: str
    tools: tuple[ToolSpec, ...]


class LlmRetry(Fact, type="llm/retry"):
    """A failed attempt will be repeated after ``delay`` seconds; its text is discarded."""

    turn: int
    step: int
    attempt: int
    delay: float
    failure: Failure


# --- compaction --------------------------------------------------------------------------------


class CompactionStart(Fact, type="compaction/start"):
    """Older facts are about to be summarised for the model; people keep seeing them."""

    id: str


class CompactionSummary(Fact, type="compaction/summary"):
    """``message`` replaces, for the model, everything with ``seq`` below ``before``."""

    id: str
    before: int
    message: UserMessage


class CompactionEnd(Fact, type="compaction/end"):
    """The bracket closes. Only a ``completed`` one takes effect."""

    id: str
    outcome: Literal["completed", "failed", "cancelled"]
    error: str | None = None
