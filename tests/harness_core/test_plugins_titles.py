"""Titles: a session is named after what was first asked of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_core.content import Image, ResourceLink, Text, UserBlock, UserMessage
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
        ((PICTURE,), None),
        ((Text(" \n\t"),), None),
        ((), None),
        ((Text("x" * 72),), "x" * 72),
        ((Text("x" * 73),), "x" * 71 + "…"),
        ((Text("word " * 20),), ("word " * 15)[:71].rstrip() + "…"),
    ],
)
def test_the_first_line_that_says_something(
    content: tuple[UserBlock, ...], title: str | None
) -> None:
    assert title_of(UserMessage("m", content)) == title


@given(st.text())
def test_a_title_is_one_line_and_not_long(text: str) -> None:
    title = title_of(UserMessage("m", (Text(text),)))
    if title is None:
        assert not text.split()
    else:
        assert title == title.strip()
        assert len(title.splitlines()) == 1
        assert 0 < len(title) <= LONGEST


async def test_only_the_first_prompt_names_a_session() -> None:
    async with world(said("1"), said("2")) as w:
        await w.turn("First")
        await w.turn("Second")
        assert w.all(SessionTitle) == [SessionTitle("First")]


async def test_a_prompt_that_says_nothing_leaves_it_to_the_next() -> None:
    async with world(said("1"), said("2")) as w:
        w.agent.send(UserMessage("picture", (PICTURE,)))
        await w.idle()
        assert w.all(SessionTitle) == []
        await w.turn("Second")
        assert w.all(SessionTitle) == [SessionTitle("Second")]


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
