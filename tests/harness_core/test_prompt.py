"""The system prompt: named sections in order."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness_core.agent import Agent
from harness_core.facts import RequestContext
from harness_core.history import repair
from harness_core.model.scripted import said
from harness_core.prompt import IDENTITY
from tests.harness_core.kit import VIRTUAL, world

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return VIRTUAL


def saying(text: str):
    async def section(_: Agent) -> str:
        return text

    return section


async def test_it_says_who_it_is_and_where() -> None:
    async with world(said("1")) as w:
        w.agent.set_roots([Path("/elsewhere")])
        await w.turn()
        system = w.last(RequestContext).system
        assert system.startswith(IDENTITY)
        assert str(w.agent.cwd) in system
        assert f"- additional directory: {Path('/elsewhere')}" in system


async def test_sections_come_in_the_order_they_were_added_and_can_be_taken_away() -> None:
    async with world(said("1"), said("2")) as w:
        prompt = w.harness.runtime.prompt
        take_away = prompt.add("one", saying("SECTION ONE"))
        prompt.add("nothing", saying(""))
        prompt.add("two", saying("SECTION TWO"))
        await w.turn()
        assert w.last(RequestContext).system.endswith("SECTION ONE\n\nSECTION TWO")
        take_away()
        take_away()
        await w.turn()
        assert "SECTION ONE" not in w.last(RequestContext).system
        prompt.add("one", saying("AGAIN"))


async def test_a_name_is_taken_once() -> None:
    async with world() as w:
        with pytest.raises(ValueError, match="identity"):
            w.harness.runtime.prompt.add("identity", saying("I am another"))


async def test_an_old_disposer_does_not_take_away_a_new_section_of_that_name() -> None:
    async with world(said("1")) as w:
        prompt = w.harness.runtime.prompt
        take_away = prompt.add("one", saying("OLD"))
        take_away()
        prompt.add("one", saying("NEW"))
        take_away()
        await w.turn()
        assert w.last(RequestContext).system.endswith("NEW")


async def test_a_failing_section_ends_the_turn_and_not_the_session() -> None:
    async with world(said("next")) as w:

        async def fail(_: Agent) -> str:
            raise RuntimeError

        remove = w.harness.runtime.prompt.add("broken", fail)
        assert (await w.turn()).kind == "error"
        assert repair(w.agent.session.events) == []
        remove()
        assert (await w.turn()).kind == "completed"
