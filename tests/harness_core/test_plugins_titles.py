"""Titles: a session is named after what was first asked of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_core.content import Audio, Image, Resource, ResourceLink, Text, UserBlock, UserMessage
from harness_core.facts import SessionTitle, UserSaid
from harness_core.model.scripted import said
from harness_core.plugins.titles import LONGEST, title_of
from tests.harness_core.kit import VIRTUAL, refuse, world

pytestmark = pytest.mark.anyio

PICTURE = Image("aGk=", "image/png")
LINK = ResourceLink("file:///a", "a")


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return VIRTUAL


@pytest.mark.parametrize(
    ("content", "title"),
    [
        ((Text("Fix the build"),), "Fix the build"),
        ((Text("\n\n  Fix\tthe   build \nand the tests"),), "Fix the build"),
        ((PICTURE, LINK, Text("  "), Text("What is this?")), "What is this?"),
        ((PICTURE,), "Image"),
        ((PICTURE, LINK), "Image"),
        ((Image("aGk=", "image/png", "file:///p/a%20plan.png?x#y"),), "a plan.png"),
        ((Image("aGk=", "image/png", "clipboard:"),), "clipboard:"),
        ((Text(" \n"), LINK, PICTURE), "a"),
        ((ResourceLink("file:///a", "a.py", title="The\nfirst"),), "The first"),
        ((ResourceLink("https://a.example/b", " "),), "Resource link"),
        ((ResourceLink("https://a.example/b", ""),), "https://a.example/b"),
        ((Resource("file:///p/q/", text="x"),), "q"),
        ((Resource("", blob=""),), "Resource"),
        ((Audio("aGk=", "audio/wav"),), "Audio"),
        ((Resource("file:///" + "x" * 100, text=""),), "x" * 71 + "…"),
        ((Text(" \n\t"),), None),
        ((), None),
        ((Text("x" * 72),), "x" * 72),
        ((Text("x" * 73),), "x" * 71 + "…"),
        ((Text("word " * 20),), ("word " * 15)[:71].rstrip() + "…"),
    ],
)
def test_the_first_line_that_says_something_or_what_is_attached(
    content: tuple[UserBlock, ...], title: str | None
) -> None:
    assert title_of(UserMessage("m", content)) == title


@given(st.text())
def test_a_title_is_one_line_and_not_long(text: str) -> None:
    title = title_of(UserMessage("m", (Text(text),)))
    assert (title is None) == (not text.split())
    attached = (Resource(text, text=""), ResourceLink(text, text), Image("aGk=", "image/png", text))
    for found in (title, *(title_of(UserMessage("m", (block,))) for block in attached)):
        if found is not None:
            assert found == found.strip()
            assert len(found.splitlines()) == 1
            assert 0 < len(found) <= LONGEST


@given(st.text(), st.text())
def test_whatever_is_attached_gives_a_title(uri: str, name: str) -> None:
    """A session without one would not be listed."""
    blocks = (ResourceLink(uri, name), Resource(uri, text=name), Image("aGk=", "image/png", uri))
    assert all(title_of(UserMessage("m", (block,))) for block in blocks)


async def test_only_the_first_prompt_names_a_session() -> None:
    async with world(said("1"), said("2")) as w:
        await w.turn("First")
        await w.turn("Second")
        assert w.all(SessionTitle) == [SessionTitle("First")]


async def test_a_prompt_that_says_nothing_leaves_it_to_the_next() -> None:
    async with world(said("1"), said("2")) as w:
        await w.turn(" ")
        assert w.all(SessionTitle) == []
        await w.turn("Second")
        assert w.all(SessionTitle) == [SessionTitle("Second")]


async def test_a_picture_alone_names_a_session() -> None:
    async with world(said("1"), said("2")) as w:
        w.agent.send(UserMessage("picture", (PICTURE,)))
        await w.idle()
        await w.turn("Second")
        assert w.all(SessionTitle) == [SessionTitle("Image")]


async def test_steering_and_context_name_nothing() -> None:
    async with world(said("1")) as w:
        w.agent.steer(w.message("context", "context"))
        await w.idle()
        assert len(w.all(UserSaid)) == 1
        assert w.all(SessionTitle) == []


async def test_a_title_given_by_somebody_else_stands() -> None:
    async with world(said("1")) as w:
        w.agent.session.append(SessionTitle("Mine"))
        await w.turn("First")
        assert w.all(SessionTitle) == [SessionTitle("Mine")]


async def test_a_title_that_is_refused_costs_nothing_and_is_tried_again() -> None:
    async with world(said("1"), said("2")) as w:
        w.agent.session.validators.append(refuse(SessionTitle, times=1))
        assert (await w.turn("First")).kind == "completed"
        assert (await w.turn("Second")).kind == "completed"
        assert w.all(SessionTitle) == [SessionTitle("Second")]
