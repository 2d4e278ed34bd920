"""What a server offers, and how talking to it can fail: our own words for the protocol's.

Everything but ``connection`` and ``blocks`` speaks of servers in these words alone, so that the
library is loaded only when a server is connected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness_core.content import Json


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool as its server describes it; ``schema`` is JSON that a model can be given."""

    name: str
    title: str
    description: str
    schema: Mapping[str, Json]
    read_only: bool


@dataclass(frozen=True, slots=True)
class PromptArgument:
    """Something a prompt is made with."""

    name: str
    required: bool


@dataclass(frozen=True, slots=True)
class OfferedPrompt:
    """A prompt as its server describes it."""

    name: str
    description: str
    arguments: tuple[PromptArgument, ...] = ()


@dataclass(frozen=True, slots=True)
class Offer:
    """Everything a server offers. ``instructions`` are its own words on how to use it."""

    tools: tuple[OfferedTool, ...] = ()
    prompts: tuple[OfferedPrompt, ...] = ()
    has_resources: bool = False
    instructions: str = ""


@dataclass(frozen=True, slots=True)
class ListedResource:
    """A resource, or with ``template`` a pattern of the URIs of some."""

    uri: str
    name: str
    description: str = ""
    mime_type: str = ""
    template: bool = False


class ServerError(Exception):
    """The server answered with an error, or with nonsense. The message is for people and models."""


class ConnectionGone(ServerError):
    """The connection ended while a request was under way: nobody knows what came of it."""


class SessionExpired(ServerError):
    """The server does not know this connection any more; it has not looked at the request."""
