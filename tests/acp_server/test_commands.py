"""Slash commands: a prompt that begins with a known name means more; anything else is text."""

from __future__ import annotations

import pytest

from acp_server.commands import COMMANDS, Command, announced, explanation
from harness_core.content import Image, Text, UserMessage
from tests.acp_server.judge import sound


def meaning(text: str, source: str = "prompt") -> str | None:
    found = explanation(UserMessage("m1", (Text(text),), source))
    if found is None:
        return None
    (block,) = found.content
    assert isinstance(block, Text)
    assert found.source == "context"
    assert found.id != "m1"
    return block.text


def test_the_list_is_valid_and_its_names_can_be_typed() -> None:
    sound(announced())
    names = [command["name"] for command in announced()["availableCommands"]]
    assert len(set(names)) == len(names)
    assert not any(name.startswith("/") or " " in name or not name for name in names)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
@pytest.mark.parametrize("rest", ["", " ", " src only", "\nsrc only", "\t"])
def test_a_known_command_is_explained_beside_what_was_typed(command: Command, rest: str) -> None:
    told = meaning(f"/{command.name}{rest}")
    assert told is not None
    assert command.prompt in told


@pytest.mark.parametrize(
    "text", ["", "/", "/ init", "/unknown x", "/initx", "//init", " /init", "init", "/INIT", "/\n"]
)
def test_anything_else_goes_to_the_model_as_it_is(text: str) -> None:
    assert meaning(text) is None


@pytest.mark.parametrize("source", ["steering", "context", "hook"])
def test_only_a_prompt_is_a_command(source: str) -> None:
    assert meaning("/init", source) is None


def test_a_message_without_leading_text_is_no_command() -> None:
    assert explanation(UserMessage("m1", ())) is None
    picture = Image("AA==", "image/png")
    assert explanation(UserMessage("m1", (picture, Text("/init")))) is None
    assert explanation(UserMessage("m1", (Text("/init"), picture))) is not None
