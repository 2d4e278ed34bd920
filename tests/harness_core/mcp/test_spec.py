"""The names that servers and their tools have for the model."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from harness_core.plugins.mcp import RemoteSpec, StdioSpec, slug, tool_name

texts = st.text(max_size=100)


@given(texts, st.lists(texts, max_size=8, unique=True))
def test_every_name_can_be_given_to_a_model_and_none_twice(server: str, tools: list[str]) -> None:
    short = slug(server)
    taken: set[str] = set()
    for tool in tools:
        name = tool_name(short, tool, taken)
        assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name)
        assert name.startswith(f"mcp__{short}__")
        assert name not in taken
        taken.add(name)


@given(st.lists(texts, max_size=8, unique=True))
def test_servers_are_told_apart(names: list[str]) -> None:
    taken: set[str] = set()
    for name in names:
        short = slug(name, taken)
        assert short not in taken
        assert "__" not in short
        assert len(short) <= 26
        taken.add(short)


def test_plain_names_stay_as_they_are() -> None:
    assert tool_name(slug("github"), "create_issue") == "mcp__github__create_issue"
    assert slug("my server") == "my_server"
    assert tool_name("a", "x.y") == "mcp__a__x_y"


def test_a_name_does_not_depend_on_what_came_before_unless_it_must() -> None:
    long = "t" * 80
    assert tool_name("a", long) == tool_name("a", long, {"mcp__a__other"})
    assert tool_name("a", long) != tool_name("a", long + "u")
    assert tool_name("a", "x.y") != tool_name("a", "x y", {tool_name("a", "x.y")})


def test_what_may_be_secret_is_not_shown() -> None:
    remote = RemoteSpec("n", "http", "https://h/?token=hidden", {"Authorization": "hidden"})
    assert "hidden" not in repr([remote, StdioSpec("n", "c", (), {"KEY": "hidden"})])
