"""A tool whose cards are whatever a test wants them to be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness_core.tools.tool import (
    Arguments,
    Card,
    Kind,
    Outcome,
    Schema,
    Tool,
    ToolContext,
    ToolOutput,
)


@dataclass(frozen=True, slots=True)
class Anything(Arguments):
    """No arguments that matter."""


class Presenting(Tool[Anything]):
    """Shows ``call`` and ``result``; an exception in their place is raised."""

    name = "presenting"
    description = "shows what it is told to"
    schema = Schema(Anything)

    def __init__(
        self, call: Card | Exception, result: Card | Exception | None = None, kind: Kind = "other"
    ) -> None:
        self.call = call
        self.result = result if result is not None else call
        self.kind = kind

    async def execute(self, arguments: Anything, context: ToolContext) -> ToolOutput:
        return ToolOutput.text("done")

    def present_call(self, arguments: Mapping[str, Any], cwd: str) -> Card:
        return self._shown(self.call)

    def present_result(self, arguments: Mapping[str, Any], outcome: Outcome, cwd: str) -> Card:
        return self._shown(self.result)

    def _shown(self, card: Card | Exception) -> Card:
        if isinstance(card, Exception):
            raise card
        return card
