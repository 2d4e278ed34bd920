"""What servers ask of the person: as it can be asked, for the call it is for, honestly answered.

The servers are of the official library; the person is one that the test plays.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import (
    URL_ELICITATION_REQUIRED,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
)

from harness_core.person import Answer, Mode, Unanswered, Unasked
from harness_core.plugins.mcp import StdioSpec
from harness_core.plugins.mcp.offer import ServerError
from harness_core.plugins.mcp.questions import PagesWanted, Questions, Work, pages_of
from tests.harness_core.kit import play
from tests.harness_core.mcp.bench import Bench, bench, until, words

pytestmark = pytest.mark.anyio

ASKING = Path(__file__).with_name("asking.py")
FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@dataclass
class Asked:
    """A question that was put to the person."""

    message: str
    call: str | None
    schema: Mapping[str, Any] | None = None
    page: str | None = None
    url: str | None = None


Reaction = Callable[[Asked], Awaitable[Answer]]


@dataclass
class Played:
    """A person who can be asked in some ways, and does what the test says."""

    react: Reaction
    modes: Collection[Mode] = ("form", "url")
    asked: list[Asked] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    withdrawn: int = 0

    async def fill_in(self, message: str, schema: Mapping[str, Any], call: str | None) -> Answer:
        return await self._answer(Asked(message, call, schema))

    async def visit(self, page: str, message: str, url: str, call: str | None) -> Answer:
        return await self._answer(Asked(message, call, page=page, url=url))

    def visited(self, page: str) -> None:
        self.done.append(page)

    async def _answer(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        try:
            return await self.react(asked)
        except anyio.get_cancelled_exc_class():
            self.withdrawn += 1
            raise


def each(answers: Iterable[Answer | Exception]) -> Reaction:
    """One answer after the other."""
    left = iter(answers)

    async def react(_: Asked) -> Answer:
        answer = next(left)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return react


def failing(failure: Exception) -> Reaction:
    return each(repeat(failure))


async def never(_: Asked) -> Answer:
    await anyio.sleep_forever()
    raise AssertionError


async def visit(asked: Asked) -> None:
    """Look at a page."""
    assert asked.url is not None
    async with httpx.AsyncClient(trust_env=False) as browser:
        assert (await browser.get(asked.url)).text == "OK"


async def looking(asked: Asked) -> Answer:
    """Agrees, and looks at the page at once."""
    await visit(asked)
    return Answer("accept")


@asynccontextmanager
async def asking(person: Played) -> AsyncIterator[Bench]:
    async with bench(StdioSpec("asking", sys.executable, (str(ASKING),))) as b:
        b.world.agent.person = person  # before the server's process is there
        yield b


async def ask(b: Bench, tool: str, **arguments: Any) -> Any:
    result = await b.call(f"mcp__asking__{tool}", **arguments)
    assert result.error is None, words(result)
    return json.loads(words(result))


# --- what is announced ----------------------------------------------------------------------------


@pytest.mark.parametrize("modes", [(), ("form",), ("url",), ("form", "url")])
async def test_a_server_is_told_how_it_may_ask(modes: Collection[Mode]) -> None:
    async with asking(Played(never, modes)) as b:
        said = (await ask(b, "offered"))["elicitation"]
        assert said == ({mode: {} for mode in modes} or None)


# --- forms ----------------------------------------------------------------------------------------


async def test_a_form_is_asked_for_its_call_and_answered() -> None:
    expected = [
        (Answer("accept", {"name": "Ada"}), {"action": "accept", "content": {"name": "Ada"}}),
        (Answer("accept"), {"action": "accept", "content": {}}),
        (Answer("decline", {"name": "Ada"}), {"action": "decline", "content": None}),
        (Answer("cancel"), {"action": "cancel", "content": None}),
    ]
    person = Played(each([answer for answer, _ in expected]))
    async with asking(person) as b:
        for _, told in expected:
            assert await ask(b, "form", schema=FORM, message="Your name?") == told
    assert [asked.call for asked in person.asked] == ["c1", "c2", "c3", "c4"]
    for asked in person.asked:
        assert asked.message == "MCP server asking asks: Your name?"
        assert asked.schema is not None
        assert asked.schema["properties"] == FORM["properties"]


async def test_what_is_no_answer_is_an_error_to_the_server() -> None:
    for failure in (Unasked("not like this"), Unanswered("not like this")):
        async with asking(Played(failing(failure))) as b:
            for tool, arguments in (("form", {"schema": FORM}), ("page", {})):
                result = await b.call(f"mcp__asking__{tool}", **arguments)
                assert result.error == "failed"
                assert "not like this" in words(result)


async def test_a_question_ends_with_the_turn_it_was_asked_in() -> None:
    person = Played(never)
    async with asking(person) as b:
        for count, (tool, arguments) in enumerate((("form", {"schema": FORM}), ("page", {})), 1):
            b.queue(f"mcp__asking__{tool}", **arguments)
            b.world.send()
            await until(lambda count=count: len(person.asked) == count)
            b.world.agent.cancel()
            await b.world.idle()
            await until(lambda count=count: person.withdrawn == count)
        assert (await ask(b, "offered"))["elicitation"]


# --- pages ----------------------------------------------------------------------------------------


async def test_agreeing_to_open_a_page_is_an_answer_and_no_completion() -> None:
    actions: list[Any] = ["accept", "decline", "cancel"]
    person = Played(each([Answer(action) for action in actions]))
    async with asking(person) as b:
        for action in actions:
            assert await ask(b, "page") == {"action": action}
    assert [asked.call for asked in person.asked] == ["c1", "c2", "c3"]
    assert {asked.message for asked in person.asked} == {
        "MCP server asking wants you to open a page: Look at this"
    }
    assert person.done == []


async def test_a_completion_is_told_with_the_persons_id_for_what_was_agreed_to() -> None:
    yes, no = Answer("accept"), Answer("decline")
    person = Played(each([yes, yes, yes, no]))
    async with asking(person) as b:
        for id in ("one", "two", "one", "one"):
            await ask(b, "page", id=id)
        one, two, again, declined = person.asked
        ids = {asked.page for asked in person.asked}
        assert len(ids) == 4
        assert not ids & {"one", "two"}
        await visit(two)
        await until(lambda: person.done)
        assert person.done == [two.page]
        await visit(two)
        await visit(declined)
        await until(lambda: len(person.done) > 1)
        assert person.done == [two.page, one.page, again.page]


# --- what has to be done first --------------------------------------------------------------------


async def test_a_call_that_needs_pages_is_made_again_when_all_are_done() -> None:
    person = Played(looking)
    async with asking(person) as b:
        result = await b.call("mcp__asking__guarded", ids=["one", "two"])
        assert (result.error, words(result)) == (None, "the door is open")
        assert [asked.call for asked in person.asked] == ["c1", "c1"]
        assert person.done == [asked.page for asked in person.asked]
        result = await b.call("mcp__asking__guarded", ids=["one"], always=True)
        assert result.error == "failed"
        assert "one page after another" in words(result)
        assert len(person.asked) == 2 + 3


async def test_a_call_whose_page_is_not_opened_says_so() -> None:
    reasons = {
        "and they declined": Answer("decline"),
        "and they dismissed the question": Answer("cancel"),
        "but this editor does not open pages": Unasked("this editor does not open pages"),
        "but the editor has gone": Unanswered("the editor has gone"),
    }
    person = Played(each(list(reasons.values())))
    async with asking(person) as b:
        for count, reason in enumerate(reasons, 1):
            result = await b.call("mcp__asking__guarded", ids=["one", "two"])
            assert result.error == "failed"
            needs = f"it needs the user to open a page of 127.0.0.1 first (Sign in first), {reason}"
            assert words(result) == f"MCP server asking: {needs}"
            assert len(person.asked) == count


async def test_without_a_person_a_call_that_needs_pages_says_so() -> None:
    async with bench(StdioSpec("asking", sys.executable, (str(ASKING),))) as b:
        result = await b.call("mcp__asking__guarded", ids=["one"])
        assert "open a page of 127.0.0.1 first (Sign in first), but nobody" in words(result)


async def test_a_call_that_waits_for_a_page_can_be_cancelled_and_made_again() -> None:
    person = Played(each([Answer("accept")]))
    async with asking(person) as b:
        b.queue("mcp__asking__guarded", ids=["one"])
        b.world.send()
        await until(lambda: person.asked)
        b.world.agent.cancel()
        await b.world.idle()
        await visit(person.asked[0])
        await until(lambda: person.done)
        result = await b.call("mcp__asking__guarded", ids=["one"])
        assert words(result) == "the door is open"


# --- without a server -----------------------------------------------------------------------------

CONTEXT: Any = None
"""The library's, of which nothing is wanted."""


def form() -> ElicitRequestFormParams:
    return ElicitRequestFormParams(message="Well?", requested_schema=FORM)


def wanted(*ids: str) -> PagesWanted:
    return PagesWanted(
        "first",
        [
            ElicitRequestURLParams(message="Look", url="https://pages.example/x", elicitation_id=id)
            for id in ids
        ],
    )


def test_a_page_that_is_never_said_to_be_done_is_not_waited_for_for_ever() -> None:
    async def scene() -> None:
        questions = Questions("silent", Played(each([Answer("accept")])))
        with pytest.raises(ServerError, match="Ask the user, and call it again"):
            await questions.visit_all(wanted("one"), "c1")

    play(scene)


def test_a_person_may_think_longer_than_a_server_may_take() -> None:
    async def slowly(_: Asked) -> Answer:
        await anyio.sleep(1000)
        return Answer("accept", {"name": "Ada"})

    async def scene() -> None:
        questions, work = Questions("patient", Played(slowly)), Work("c1", 30)
        with questions.during(work), work.limit:
            result = await questions.elicit(CONTEXT, form())
            assert result == ElicitResult(action="accept", content={"name": "Ada"})
            await anyio.sleep(29)
        assert not work.limit.cancelled_caught
        with questions.during(work), work.limit:
            await anyio.sleep(2)
        assert work.limit.cancelled_caught

    play(scene)


def test_the_servers_time_goes_on_when_the_last_of_its_questions_is_answered() -> None:
    async def scene() -> None:
        delays = iter([10, 1000])

        async def slowly(_: Asked) -> Answer:
            await anyio.sleep(next(delays))
            return Answer("decline")

        questions, work = Questions("curious", Played(slowly)), Work("c1", 30)
        with questions.during(work), work.limit:
            async with anyio.create_task_group() as group:
                for _ in range(2):
                    group.start_soon(questions.elicit, CONTEXT, form())
            await anyio.sleep(29)
        assert not work.limit.cancelled_caught

    play(scene)


def test_a_question_amid_several_calls_is_for_none_of_them_and_ends_with_the_last() -> None:
    async def scene() -> None:
        person = Played(never)
        questions = Questions("busy", person)
        results = []

        async def elicit() -> None:
            results.append(await questions.elicit(CONTEXT, form()))

        async with anyio.create_task_group() as group:
            with questions.during(Work("c1", 30)):
                with questions.during(Work("c2", 30)):
                    group.start_soon(elicit)
                    await anyio.wait_all_tasks_blocked()
                await anyio.wait_all_tasks_blocked()
                assert results == []
            await anyio.wait_all_tasks_blocked()
            assert results == [ElicitResult(action="cancel")]
        assert [asked.call for asked in person.asked] == [None]

    play(scene)


def test_a_question_outside_every_call_is_asked_all_the_same() -> None:
    async def scene() -> None:
        person = Played(each([Answer("decline")]))
        questions = Questions("eager", person)
        assert await questions.elicit(CONTEXT, form()) == ElicitResult(action="decline")
        assert [asked.call for asked in person.asked] == [None]

    play(scene)


@pytest.mark.parametrize("data", [None, 5, {}, {"elicitations": []}, {"elicitations": [{"x": 1}]}])
def test_an_error_that_names_no_pages_is_an_error(data: Any) -> None:
    assert pages_of(MCPError(URL_ELICITATION_REQUIRED, "first", data)) is None
    assert pages_of(MCPError(-32603, "first", {"elicitations": [ONE]})) is None
    found = pages_of(MCPError(URL_ELICITATION_REQUIRED, "first", {"elicitations": [ONE]}))
    assert found is not None
    assert [page.url for page in found.pages] == [ONE["url"]]


ONE = {"mode": "url", "message": "m", "url": "https://pages.example/x", "elicitationId": "one"}
