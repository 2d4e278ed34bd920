"""What MCP servers ask, as the client gets it: its modes only, its ids, and nobody's secrets.

The servers are of the official library, and so are their pages.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_server.elicitation import require_harmless
from conformance.answers import constant, failing, never
from conformance.client import Answerer
from harness_core.person import Unasked
from tests.acp_server.editor import Editor, local
from tests.harness_core.mcp.test_questions import ASKING, FORM

pytestmark = pytest.mark.anyio

Flags = Mapping[str, Any]

ELICIT = "elicitation/create"
COMPLETE = "elicitation/complete"
FORMS: dict[str, Any] = {"elicitation": {"form": {}}}
PAGES: dict[str, Any] = {"elicitation": {"url": {}}}
BOTH: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}}
SECRET = {"type": "object", "properties": {"api_key": {"type": "string"}}}
YES = constant({"action": "accept"})


@asynccontextmanager
async def asking(
    cwd: Path, flags: Flags, capabilities: Mapping[str, Any], answer: Answerer
) -> AsyncIterator[tuple[Editor, str]]:
    """An editor, and a session with a server that asks."""
    settings = {**flags, "mcp_wait": 60.0, "mode": "auto"}
    server = {"name": "asking", "command": sys.executable, "args": [str(ASKING)], "env": []}
    async with local(settings, answers={ELICIT: answer}) as editor:
        await editor.initialize(capabilities)
        yield editor, await editor.new(cwd, mcpServers=[server])


async def told(editor: Editor, session: str, tool: str, **arguments: Any) -> str:
    """What came of a call."""
    since = len(editor.frames)
    await editor.turn(session, f"!call mcp__asking__{tool} {json.dumps(arguments)}\n!result")
    return str(editor.screen(session, since).text())


def completed(editor: Editor) -> list[str]:
    """The pages that the editor was told are done with, by id."""
    return [m.params["elicitationId"] for m in editor.incoming if m.method == COMPLETE]


async def look(url: str) -> None:
    async with httpx.AsyncClient(trust_env=False) as browser:
        assert (await browser.get(url)).text == "OK"


# --- pages ----------------------------------------------------------------------------------------


async def test_a_page_of_a_server_is_opened_completed_and_told_apart(
    tmp_path: Path, flags: Flags
) -> None:
    async with asking(tmp_path, flags, PAGES, YES) as (editor, session):
        for id in ("one", "two"):
            assert '"accept"' in await told(editor, session, "page", id=id)
        first, second = (request.params for request in editor.requests)
        calls = list(editor.screen(session).calls)
        assert first.keys() == {
            *("mode", "sessionId", "toolCallId", "message", "elicitationId", "url")
        }
        assert [p["mode"] for p in (first, second)] == ["url", "url"]
        assert [p["sessionId"] for p in (first, second)] == [session, session]
        assert [p["toolCallId"] for p in (first, second)] == calls
        assert len({first["elicitationId"], second["elicitationId"], "one", "two"}) == 4
        assert completed(editor) == []
        await look(second["url"])
        await editor.until(lambda: completed(editor), "completion")
        await look(first["url"])
        await editor.until(lambda: len(completed(editor)) > 1, "completion")
        assert completed(editor) == [second["elicitationId"], first["elicitationId"]]


async def test_a_call_that_needs_a_page_goes_on_when_that_is_done(
    tmp_path: Path, flags: Flags
) -> None:
    async def agree(request: Any) -> Any:
        await look(request.params["url"])
        return {"action": "accept"}

    async with asking(tmp_path, flags, PAGES, agree) as (editor, session):
        assert "the door is open" in await told(editor, session, "guarded", ids=["a", "b"])
        pages = [request.params["elicitationId"] for request in editor.requests]
        assert sorted(completed(editor)) == sorted(pages)


async def test_a_page_that_is_not_opened_is_told_as_what_it_is(
    tmp_path: Path, flags: Flags
) -> None:
    async with asking(tmp_path, flags, PAGES, YES) as (editor, session):
        for answer, reason in (
            (constant({"action": "decline"}), "and they declined"),
            (constant({"action": "cancel"}), "and they dismissed the question"),
            (constant({"action": "_later"}), "no answer that could be understood"),
            (constant({"action": 5}), "no answer that could be understood"),
            (constant(None), "no answer that could be understood"),
            (failing(-32603, "no browser"), "the editor could not ask: no browser"),
        ):
            editor.answers[ELICIT] = answer
            said = await told(editor, session, "guarded", ids=["a"])
            assert "it needs the user to open a page of 127.0.0.1 first" in said
            assert reason in said
            assert editor.requests[-1].params["url"] not in said
        assert completed(editor) == []


@pytest.mark.parametrize("tool", ["page", "guarded"])
async def test_a_question_that_is_never_answered_goes_with_its_turn(
    tmp_path: Path, flags: Flags, tool: str
) -> None:
    async with asking(tmp_path, flags, PAGES, never) as (editor, session):
        arguments = {"ids": ["a"]} if tool == "guarded" else {}
        prompt = await editor.prompt(
            session, f"!call mcp__asking__{tool} {json.dumps(arguments)}\n!result"
        )
        question = await editor.asks(ELICIT)
        await editor.cancel(session)
        assert (await prompt.result())["stopReason"] == "cancelled"
        taken_back = await editor.seen(lambda m: m.method == "$/cancel_request", "withdrawal")
        assert taken_back.params == {"requestId": question.id}


# --- only as offered ------------------------------------------------------------------------------


@pytest.mark.parametrize("capabilities", [{}, {"elicitation": {}}, FORMS])
async def test_without_pages_nobody_is_sent_to_one(
    tmp_path: Path, flags: Flags, capabilities: dict[str, Any]
) -> None:
    """Nor is a form made of it: whatever needs a page may not pass through the conversation."""
    async with asking(tmp_path, flags, capabilities, YES) as (editor, session):
        assert '"url"' not in await told(editor, session, "offered")
        said = await told(editor, session, "guarded", ids=["a"])
        assert "a page of 127.0.0.1 first (Sign in first), but this editor does not open" in said
        assert "Traceback" not in await told(editor, session, "page")
        assert editor.requests == []


@pytest.mark.parametrize("capabilities", [{}, PAGES])
async def test_without_forms_there_is_none(
    tmp_path: Path, flags: Flags, capabilities: dict[str, Any]
) -> None:
    async with asking(tmp_path, flags, capabilities, YES) as (editor, session):
        assert '"form"' not in await told(editor, session, "offered")
        await told(editor, session, "form", schema=FORM)
        assert editor.requests == []


async def test_a_server_gets_no_secret_by_a_form(tmp_path: Path, flags: Flags) -> None:
    async with asking(tmp_path, flags, BOTH, YES) as (editor, session):
        assert "may not ask for passwords" in await told(editor, session, "form", schema=SECRET)
        said = await told(editor, session, "form", schema=FORM, message="Enter your password")
        assert "may not ask for passwords" in said
        assert editor.requests == []


# --- forms ----------------------------------------------------------------------------------------


async def test_a_form_of_a_server_is_filled_in_and_held_against_it_again(
    tmp_path: Path, flags: Flags
) -> None:
    async with asking(tmp_path, flags, BOTH, YES) as (editor, session):
        for answer, expected in (
            ({"action": "accept", "content": {"name": "Ada", "more": 1}}, '"name": "Ada"'),
            ({"action": "accept", "content": {"name": 5}}, "no valid answer to it"),
            ({"action": "accept"}, "no valid answer to it"),
            ({"action": "accept", "content": None}, "no valid answer to it"),
            ({"action": "decline", "content": {"name": "Ada"}}, '"decline"'),
            ({"action": "cancel"}, '"cancel"'),
            ({"action": "_later"}, "no answer that could be understood"),
        ):
            editor.answers[ELICIT] = constant(answer)
            said = await told(editor, session, "form", schema=FORM, message="At https://a.b?")
            assert expected in said
            assert '"more"' not in said
            assert editor.requests[-1].params == {
                "sessionId": session,
                "toolCallId": list(editor.screen(session).calls)[-1],
                "mode": "form",
                "message": "MCP server asking asks: At https[:]//a[.]b?",
                "requestedSchema": FORM,
            }


# --- addresses ------------------------------------------------------------------------------------


async def test_nobody_is_sent_to_an_address_that_is_not_safe(tmp_path: Path, flags: Flags) -> None:
    async with asking(tmp_path, flags, PAGES, YES) as (editor, session):
        for url in ("http://pages.example/a", "https://ada:pw@pages.example/a"):
            said = await told(editor, session, "page", url=url)
            assert '"action"' not in said
            assert "a page to open" in said or "a URL to open" in said
        assert editor.requests == []


@pytest.mark.parametrize(
    "url",
    [
        "https://pages.example/sign-in?state=x&client_id=y&code_challenge=z#top",
        "https://pages.example:8443",
        "http://127.0.0.1:1234/a",
        "http://[::1]/a",
        "http://localhost:80",
        "http://app.localhost/a",
    ],
)
def test_a_page_is_on_the_web_behind_tls_or_on_this_machine(url: str) -> None:
    require_harmless(url)


@pytest.mark.parametrize(
    "url",
    [
        *("", "pages.example", "//pages.example/a", "https://", "https:///a", "https://[::1"),
        *("http://pages.example/a", "http://localhost.pages.example/a", "http://10.0.0.1/a"),
        *("ftp://pages.example/a", "file:///etc/hosts", "javascript:alert(1)", "vscode://x/y"),
        *("https://ada@pages.example/a", "https://ada:pw@pages.example", "http://@localhost/"),
        *("https://pages.example/a b", "https://pages.example/\n", "https://pages.example\\@x.y"),
        *("https://pages.example/é", "https://pages.example:99999/", "https://pages.example:x/"),
        *("https://pages.example/?api_key=x", "https://pages.example/#access_token=x"),
        *("https://pages.example/?a=b&Password=", f"https://pages.example/{'x' * 9_000}"),
    ],
)
def test_other_addresses_are_refused(url: str) -> None:
    with pytest.raises(Unasked):
        require_harmless(url)


@given(
    st.sampled_from(["https", "http", "HTTPS", "ftp"]),
    st.text(max_size=12),
    st.text(max_size=12),
)
def test_what_is_allowed_has_no_userinfo_and_no_other_scheme(
    scheme: str, authority: str, rest: str
) -> None:
    url = f"{scheme}://{authority}{rest}"
    try:
        require_harmless(url)
    except Unasked:
        return
    parts = urlsplit(url)
    assert parts.scheme in ("https", "http")
    assert (parts.username, parts.password) == (None, None)
    assert url.isascii()
    assert not any(character.isspace() for character in url)
