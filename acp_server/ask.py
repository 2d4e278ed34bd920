"""``ask``: a question of the model to the user, as a form in the editor (C.19).

There only for clients that announced forms. One question, free text or a choice; whatever does not
clearly accept is told to the model as what it is. Never for secrets (V1-ELIC-06).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness_core.content import Json, Text
from harness_core.person import Person, Unanswered, Unasked
from harness_core.tools.tool import (
    Arguments,
    Card,
    Outcome,
    Schema,
    Tool,
    ToolContext,
    ToolError,
    ToolOutput,
    parameter,
)

UNWILLING = {
    "decline": "The user declined to answer. Go on without an answer, or stop.",
    "cancel": "The user dismissed the question without an answer.",
}


@dataclass(frozen=True, slots=True)
class AskArguments(Arguments):
    question: str = parameter("The question, complete in itself.", min_length=1, max_length=2000)
    choices: tuple[str, ...] = parameter(
        "The answers to choose from; without any, the user writes one.", (), max_length=20
    )


class AskUser(Tool[AskArguments]):
    """Ask the user."""

    name = "ask"
    description = (
        "Ask the user a question when you cannot go on without knowing, and neither the files nor "
        "the conversation tell. Offer choices where you can. Never ask for passwords, keys or "
        "other secrets."
    )
    effect = "none"
    kind = "other"
    schema = Schema(AskArguments)

    def __init__(self, person: Person) -> None:
        self._person = person

    async def execute(self, arguments: AskArguments, context: ToolContext) -> ToolOutput:
        asked = form(arguments.choices)
        try:
            answer = await self._person.fill_in(arguments.question, asked, context.call_id)
        except Unasked as failure:
            raise ToolError(f"not asked: {failure}") from None
        except Unanswered as failure:
            raise ToolError(f"not answered: {failure}") from None
        if answer.action != "accept":
            return ToolOutput.text(UNWILLING[answer.action])
        return ToolOutput.text(f"The user answered: {answer.content['answer']}")

    def present_call(self, arguments: Mapping[str, Json], cwd: str) -> Card:
        question = arguments.get("question")
        about = (Text(question),) if isinstance(question, str) else ()
        return Card(title="Question", kind=self.kind, content=about)

    def present_result(self, arguments: Mapping[str, Json], outcome: Outcome, cwd: str) -> Card:
        return Card(content=outcome.content)


def form(choices: tuple[str, ...]) -> dict[str, Any]:
    """A flat schema with the one field ``answer`` (V1-ELIC-07)."""
    answer: dict[str, Any] = {"type": "string", "title": "Answer"}
    if choices:
        answer["enum"] = list(choices)
    return {"type": "object", "properties": {"answer": answer}, "required": ["answer"]}
