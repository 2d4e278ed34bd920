"""The person behind a session, as far as somebody may ask: what a front end makes of it.

Whoever asks (a tool, an MCP server) speaks these words alone. Pure; knows no front end's protocol.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from harness_core.content import Json

Action: TypeAlias = Literal["accept", "decline", "cancel"]
Mode: TypeAlias = Literal["form", "url"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a person answered. ``content`` fits the form; it is empty unless accepted."""

    action: Action
    content: Mapping[str, Json] = field(default_factory=dict)


class Unasked(Exception):
    """The question may not be asked like this, and was not. The message says why."""


class Unanswered(Exception):
    """It was asked, and nothing came back that counts as an answer. The message says what did."""


class Person(Protocol):
    """Somebody to ask, in some ``modes``. ``call`` is the tool call that the question is for.

    Both ways of asking raise ``Unasked`` or ``Unanswered``; cancelling takes the question back.
    """

    @property
    def modes(self) -> Collection[Mode]:
        """How it can be asked; often not at all."""
        ...

    async def fill_in(self, message: str, schema: Mapping[str, Json], call: str | None) -> Answer:
        """Have a form filled in: a flat JSON schema of texts, numbers, yes or no, and choices."""
        ...

    async def visit(self, page: str, message: str, url: str, call: str | None) -> Answer:
        """Have a URL opened. ``page`` is a new id; accepting is consent to open, not completion."""
        ...

    def visited(self, page: str) -> None:
        """What had to be done on that page is done."""
        ...


class Nobody:
    """Where there is no person, or none that may be asked."""

    modes: Collection[Mode] = ()

    async def fill_in(self, message: str, schema: Mapping[str, Json], call: str | None) -> Answer:
        """Raises ``Unasked``."""
        raise Unasked("nobody can be asked here")

    async def visit(self, page: str, message: str, url: str, call: str | None) -> Answer:
        """Raises ``Unasked``."""
        raise Unasked("nobody can be asked here")

    def visited(self, page: str) -> None:
        """Nobody was sent anywhere."""
