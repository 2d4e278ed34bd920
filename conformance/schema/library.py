"""The shelf: which schema files exist and which definition belongs to which method.

Knows files and definitions. Nothing here looks at a message.
"""

from __future__ import annotations

import json
from enum import StrEnum
from functools import cache, cached_property
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal

from conformance.frames import Direction
from conformance.schema.compiler import compile_schema

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

Kind = Literal["Request", "Notification", "Response"]
Schema = dict[str, Any]

Question = tuple[str, Direction, str | None, str]
"""What was asked, the direction, the method answered, and the shape of the message."""
REMEMBERED = 10_000
KINDS: tuple[Kind, ...] = ("Request", "Notification", "Response")


class Generation(StrEnum):
    """A published state of the protocol's schemas.

    August 2026 was published with its unstable parts only.
    """

    AUGUST_UNSTABLE = "2026-08-unstable"
    NOVEMBER = "2026-11"
    NOVEMBER_UNSTABLE = "2026-11-unstable"


GENERATIONS: tuple[Generation, ...] = tuple(Generation)
LATEST = Generation.NOVEMBER

SIDES = {
    Direction.C2A: {"agent", "both", "protocol"},
    Direction.A2C: {"client", "both", "protocol"},
}
"""Who handles a message that goes this way, in the words of ``x-side``."""


class Library:
    """All definitions of one schema file, with validators compiled on demand."""

    def __init__(self, defs: Schema) -> None:
        self.defs = defs
        self._sound: set[Question] = set()
        self._compiled: dict[str, Validator] = {}

    def definition(self, method: str, kind: Kind, direction: Direction) -> str | None:
        """The definition of a request, notification or response of ``method``, if it has one.

        ``direction`` is the way the request or notification goes; for a response
        it is the way of the request that it answers.
        """
        return self._methods.get((method, kind, direction))

    def validator(self, name: str) -> Validator:
        """A compiled validator for the definition ``name``."""
        if name not in self._compiled:
            self._compiled[name] = compile_schema({"$ref": f"#/$defs/{name}", "$defs": self.defs})
        return self._compiled[name]

    def holds(self, schema: Schema, value: Any) -> bool:
        """Whether ``value`` satisfies ``schema``, a piece of one of our definitions."""
        return bool(self._base.evolve(schema=schema).is_valid(value))

    def is_sound(self, question: Question) -> bool:
        """Whether this question was asked before and nothing was wrong."""
        return question in self._sound

    def note_sound(self, question: Question) -> None:
        """Remember that nothing was wrong; forgets all when there is too much to remember."""
        if len(self._sound) >= REMEMBERED:
            self._sound.clear()
        self._sound.add(question)

    @cached_property
    def _base(self) -> Validator:
        return compile_schema({"$defs": self.defs})

    @cached_property
    def _methods(self) -> dict[tuple[str, Kind, Direction], str]:
        return {
            (definition["x-method"], kind, direction): name
            for name, definition in self.defs.items()
            if "x-method" in definition
            for kind in KINDS
            if name.endswith(kind)
            for direction, sides in SIDES.items()
            if definition["x-side"] in sides
        }


@cache
def load(generation: Generation, version: int = 1) -> Library:
    """The library of one generation for one protocol version (1 or 2).

    Raises ``LookupError`` for a protocol version that has no schema.
    """
    if version not in (1, 2):
        raise LookupError(f"there is no schema for protocol version {version}")
    folder = generation.value.removesuffix("-unstable")
    name = f"v{version}.json" if folder == generation.value else f"v{version}.unstable.json"
    text = (files("conformance.schema") / folder / name).read_text("utf-8")
    return Library(json.loads(text)["$defs"])
