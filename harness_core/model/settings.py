"""What can be set about models: which one, and where its provider is.

Small frozen data that a settings file fills. It knows no file format and no environment; what a
missing value means is the catalogue's business.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness_core.content import Json


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """A provider of one's own, or changes to a built-in one. ``None`` leaves the default.

    Times are in seconds. ``idle_timeout`` is the longest silence between two bytes of an answer.
    """

    kind: str | None = None
    """The API it speaks: ``openai``, ``openai-responses``, ``anthropic`` or ``demo``."""
    title: str | None = None
    """What people call it."""
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    api_key_env: str | None = None
    """The environment variable that holds the key."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Sent with every call, in place of our own of that name."""
    body: Mapping[str, Json] = field(default_factory=dict)
    """Added to the body of every call, in place of our own fields of that name."""
    omit: tuple[str, ...] = ()
    """Fields of our own that are left out of the body, for a server that rejects them."""
    images: bool | None = None
    audio: bool | None = None
    """Whether its models take images and sounds."""
    reasoning_field: str | None = None
    """The field in which an ``openai`` provider wants a model's reasoning back, if it does."""
    context_windows: Mapping[str, int] = field(default_factory=dict)
    """In tokens, by model name (without the provider)."""
    idle_timeout: float = 600.0
    connect_timeout: float = 30.0


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Everything that can be set about models. ``model`` is ``provider:name``."""

    model: str | None = None
    providers: Mapping[str, ProviderSettings] = field(default_factory=dict)
