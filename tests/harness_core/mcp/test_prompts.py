"""Prompts as slash commands, and resources as two tools."""

from __future__ import annotations

import pytest

from harness_core.content import Image
from harness_core.plugins.mcp.offer import OfferedPrompt, PromptArgument, ServerError
from harness_core.plugins.mcp.prompts import arguments_of
from tests.harness_core.mcp.bench import bench, tiny, until, words

pytestmark = pytest.mark.anyio


# --- prompts --------------------------------------------------------------------------------------

TWO = OfferedPrompt("p", "", (PromptArgument("first", False), PromptArgument("rest", True)))
NONE = OfferedPrompt("p", "")


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("a b", {"first": "a", "rest": "b"}),
        ("a b c  d", {"first": "a", "rest": "b c d"}),
        ("'a b' c", {"first": "a b", "rest": "c"}),
        ("rest=x a", {"rest": "x", "first": "a"}),
        ("rest=x", {"rest": "x"}),
        ("other=x y", {"first": "other=x", "rest": "y"}),
        ("it's so", {"first": "it's", "rest": "so"}),
    ],
)
def test_words_are_arguments(text: str, arguments: dict[str, str]) -> None:
    assert arguments_of(TWO, text) == arguments


@pytest.mark.parametrize("text", ["", "a", "first=a"])
def test_what_is_missing_is_told(text: str) -> None:
    with pytest.raises(ServerError, match="it needs rest"):
        arguments_of(TWO, text)


def test_words_without_arguments_are_left_out() -> None:
    assert arguments_of(NONE, "a b=c") == {}


@pytest.mark.parametrize("space", [" ", "\n", "\t "])
async def test_a_prompt_is_expanded_beside_what_was_typed(space: str) -> None:
    async with bench(tiny("My server", "prompts")) as b:
        await b.world.turn(f"/My_server:greet{space}the world")
        assert 'greet {"who": "the world"}' in b.context
        assert "[assistant]\nCertainly." in b.context
        assert b.world.script.requests[-1].messages[0].content[0].text == (  # type: ignore[union-attr]
            f"/My_server:greet{space}the world"
        )


async def test_commands_have_names_that_can_be_typed() -> None:
    async with bench(tiny("tiny", "prompts")) as b:
        await until(lambda: b.servers.prompts)
        assert {command.name: command.hint for command in b.servers.prompts} == {
            "tiny:greet": "who",
            "tiny:two_words": "[first] rest",
            "tiny:plain": "",
        }


@pytest.mark.parametrize("text", ["/tiny:greet", "/tiny:greet   "])
async def test_a_prompt_that_cannot_be_had_is_told(text: str) -> None:
    async with bench(tiny("tiny", "prompts")) as b:
        await b.world.turn(text)
        assert "/tiny:greet, which failed: it needs who" in b.context


@pytest.mark.parametrize("text", ["/tiny:unknown", "tiny:greet x", "/other:greet x", "/"])
async def test_other_text_is_text(text: str) -> None:
    async with bench(tiny("tiny", "prompts")) as b:
        await b.world.turn(text)
        assert b.context == ""


# --- resources ------------------------------------------------------------------------------------


async def test_resources_are_listed_and_read() -> None:
    async with bench(tiny("tiny", "resources"), tiny("bare")) as b:
        listed = words(await b.call("list_mcp_resources"))
        assert "tiny://one (one): First." in listed
        assert "tiny://{which} (any, a template" in listed
        assert "bare" not in listed
        text = words(await b.call("read_mcp_resource", server="tiny", uri="tiny://one"))
        assert text == "the text of tiny://one"
        picture = await b.call("read_mcp_resource", server="tiny", uri="tiny://picture")
        assert picture.content == (Image("AAAA", "image/png"),)


async def test_an_unknown_server_is_answered_with_those_there_are() -> None:
    async with bench(tiny("tiny", "resources")) as b:
        for tool, more in (("list_mcp_resources", {}), ("read_mcp_resource", {"uri": "x"})):
            result = await b.call(tool, server="nobody", **more)
            assert result.error == "failed"
            assert "these do: tiny" in words(result)


async def test_without_resources_there_are_no_tools_for_them() -> None:
    async with bench(tiny("tiny", "resources"), tiny("bare")) as b:
        await b.world.turn()
        assert {"list_mcp_resources", "read_mcp_resource"} <= b.tools
        b.servers.set([tiny("bare")])
        assert not {"list_mcp_resources", "read_mcp_resource"} & b.tools
