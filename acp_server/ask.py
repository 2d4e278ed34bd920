"""``ask``: a question of the model to the user, as a form in the editor (C.19).

There only for clients that announced forms. One question, free text or a choice; whatever does not
clearly accept is told to the model as what it is. Never for secrets (V1-ELIC-06).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from acp_server.rpc import ConnectionLost, PeerError
from harness_core.content import Json, Text
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

Ask: TypeAlias = Callable[[str, dict[str, Any]], Awaitable[Any]]

UNANSWERED = {
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

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def execute(self, arguments: AskArguments, context: ToolContext) -> ToolOutput:
        params = {
            "mode": "form",
            "message": arguments.question,
            "toolCallId": context.call_id,
            "requestedSchema": form(arguments.choices),
        }
        try:
            return answered(await self._ask("elicitation/create", params), arguments.choices)
        except PeerError as error:
            raise ToolError(f"the question could not be asked: {error.message}") from None
        except ConnectionLost:
            raise ToolError("the editor has gone") from None

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
        answer["enum"] = list(dict.fromkeys(choices))
    return {"type": "object", "properties": {"answer": answer}, "required": ["answer"]}


def answered(result: Any, choices: tuple[str, ...]) -> ToolOutput:
    """What the model is told. What the client sends is checked again (V1-ELIC-08, -09)."""
    match result:
        case {"action": "accept", "content": {"answer": str(text)}} if (
            not choices or text in choices
        ):
            return ToolOutput.text(f"The user answered: {text}")
        case {"action": "accept"}:
            return ToolOutput.text("The user accepted, but gave no valid answer.", is_error=True)
        case {"action": str(action)} if action in UNANSWERED:
            return ToolOutput.text(UNANSWERED[action])
    return ToolOutput.text("The editor gave no answer that could be understood.", is_error=True)
