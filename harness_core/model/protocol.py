"""What the loop expects of a model: a request in, chunks out, and nothing else.

An adapter turns every failure into a ``Finish`` chunk of kind ``error``; it raises only
``ModelSetupError``, before any chunk, when it cannot be used at all. It knows nothing of sessions,
turns, tools' execution or retries.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from harness_core.content import Chunk, Json, Message


class ModelSetupError(Exception):
    """A model cannot be used as configured. The message tells the user what to set.

    ``auth`` is true when what is missing is a credential, and ``variable`` the one that would hold
    it, if that is known.
    """

    def __init__(self, message: str, *, auth: bool = False, variable: str | None = None) -> None:
        super().__init__(message)
        self.auth = auth
        self.variable = variable


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as it is shown to the model; ``parameters`` is a JSON schema of type object."""

    name: str
    description: str
    parameters: Json


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """How the next call is to be made: which model (``provider:name``) and its knobs.

    ``max_output`` is in tokens; ``effort`` is the provider-neutral reasoning effort
    (``low``, ``medium``, ``high``). ``None`` leaves the provider's default.
    """

    model: str
    max_output: int | None = None
    temperature: float | None = None
    effort: str | None = None


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One call: everything the model sees, and ``trace`` context for whoever provides it."""

    config: ModelConfig
    system: str
    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    trace: Mapping[str, str] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What is known about a model. ``context_window`` is in tokens, ``None`` if unknown.

    ``base_url`` is where it is called, ``None`` if nowhere; ``title`` what its provider calls it.
    """

    provider: str
    name: str
    context_window: int | None = None
    images: bool = False
    audio: bool = False
    base_url: str | None = None
    title: str | None = None

    @property
    def id(self) -> str:
        """``provider:name``, as the settings spell it."""
        return f"{self.provider}:{self.name}"

    @property
    def label(self) -> str:
        """Its name for people."""
        return self.title or self.name


class Model(Protocol):
    """A language model behind some API."""

    @property
    def info(self) -> ModelInfo:
        """Name, limits and abilities, without any network."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """Call the model; the last chunk is a ``Finish``.

        Closing the generator (or cancelling whoever iterates it) ends the call at once and frees
        its connection. A stream that ends without ``Finish`` was cut.
        """
        ...

    async def aclose(self) -> None:
        """Free connections. The model may not be used afterwards."""
        ...
