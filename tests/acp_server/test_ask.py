"""Questions of the model to the user: asked only where forms are offered, answers checked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from conformance.answers import constant, failing, never
from tests.acp_server.editor import local

pytestmark = pytest.mark.anyio

Flags = Mapping[str, Any]

FORM: dict[str, Any] = {"elicitation": {"form": {}}}
ASK = '!call ask {"question": "Tea or coffee?", "choices": ["tea", "coffee"]}\n!result'


async def ask(tmp_path: Path, flags: Flags, answer: Any) -> str:
    async with local(flags, answers={"elicitation/create": answer}) as editor:
        session = await editor.open(tmp_path, FORM)
        await editor.turn(session, ASK)
        (question,) = editor.requests
        (call,) = editor.screen(session).calls
        assert question.params["toolCallId"] == call
        assert question.params["mode"] == "form"
        return str(editor.screen(session).text())


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"action": "accept", "content": {"answer": "tea"}}, "The user answered: tea"),
        ({"action": "accept", "content": {"answer": "beer"}}, "what came back is no valid answer"),
        ({"action": "accept"}, "what came back is no valid answer"),
        ({"action": "accept", "content": None}, "what came back is no valid answer"),
        ({"action": "decline"}, "declined"),
        ({"action": "cancel", "content": {"answer": "tea"}}, "dismissed"),
        ({"action": "_later"}, "no answer that could be understood"),
        (None, "no answer that could be understood"),
    ],
)
async def test_every_answer_is_told_as_what_it_is(
    tmp_path: Path, flags: Flags, answer: Any, told: str
) -> None:
    assert told in await ask(tmp_path, flags, constant(answer))


async def test_an_error_is_the_calls(tmp_path: Path, flags: Flags) -> None:
    assert "the editor could not ask: no form" in await ask(
        tmp_path, flags, failing(-32603, "no form")
    )


@pytest.mark.parametrize(
    "capabilities", [{}, {"elicitation": {}}, {"elicitation": {"url": {}}}, {"elicitation": None}]
)
async def test_a_client_without_forms_has_no_such_tool(
    tmp_path: Path, flags: Flags, capabilities: dict[str, Any]
) -> None:
    async with local(flags) as editor:
        session = await editor.open(tmp_path, capabilities)
        await editor.turn(session, ASK)
        assert editor.requests == []
        assert "there is no tool 'ask'" in editor.screen(session).text()


async def test_a_question_that_is_never_answered_can_be_cancelled(
    tmp_path: Path, flags: Flags
) -> None:
    async with local(flags, answers={"elicitation/create": never}) as editor:
        session = await editor.open(tmp_path, FORM)
        running = await editor.prompt(session, ASK)
        await editor.asks("elicitation/create")
        await editor.cancel(session)
        assert (await running.result())["stopReason"] == "cancelled"


@pytest.mark.parametrize(
    "question", ["What is your password?", "Please paste the API key of the project."]
)
async def test_a_question_for_a_secret_is_not_put(
    tmp_path: Path, flags: Flags, question: str
) -> None:
    async with local(flags, answers={"elicitation/create": never}) as editor:
        session = await editor.open(tmp_path, FORM)
        await editor.turn(session, f'!call ask {{"question": "{question}"}}\n!result')
        assert editor.requests == []
        assert "not asked: a form may not ask for passwords" in editor.screen(session).text()


async def test_a_question_has_nothing_to_click(tmp_path: Path, flags: Flags) -> None:
    """The choices are still what they are: only what is read of them is another."""
    choices = ["https://a.example/x", "neither"]
    ask = {"question": "Is it [here](https://b.example)?", "choices": choices}
    answer = constant({"action": "accept", "content": {"answer": choices[0]}})
    async with local(flags, answers={"elicitation/create": answer}) as editor:
        session = await editor.open(tmp_path, FORM)
        await editor.turn(session, f"!call ask {json.dumps(ask)}\n!result")
        (question,) = editor.requests
        assert question.params["message"] == "Is it [here] (https[:]//b[.]example)?"
        (field,) = question.params["requestedSchema"]["properties"].values()
        assert [one["const"] for one in field["oneOf"]] == choices
        assert field["oneOf"][0]["title"] == "https[:]//a[.]example/x"
        assert f"The user answered: {choices[0]}" in editor.screen(session).text()
