"""How calls and results look: titles a person can judge, absolute places, bounded size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_core.content import Image, ResourceLink, Text
from harness_core.tools.builtin import builtin_tools
from harness_core.tools.cards import fenced, inline
from harness_core.tools.tool import Card, Outcome, Tool

TOOLS: Mapping[str, Tool[Any]] = {tool.name: tool for tool in builtin_tools({})}
NAMES = st.sampled_from(list(TOOLS))

TITLES = [
    ("read", {"path": "src/a.py"}, "Read src/a.py"),
    ("read", {"path": "src/a.py", "offset": 1, "limit": 20}, "Read src/a.py (lines 1–20)"),
    ("read", {"path": "/p/src/a.py", "offset": 50}, "Read src/a.py (from line 50)"),
    ("read", {"path": "/other/a.py"}, "Read /other/a.py"),
    ("write", {"path": "a", "content": "x"}, "Write a"),
    ("edit", {"path": "./x/../a"}, "Edit a"),
    ("list", {}, "List /p"),
    ("glob", {"pattern": "*.py", "path": "src"}, "Find `*.py` in src"),
    ("grep", {"pattern": "def `x`"}, "Search `` def `x` ``"),
    ("shell", {"command": "git status"}, "`git status`"),
    ("shell", {"command": "echo a\necho b"}, "`echo a echo b`"),
    ("plan", {"entries": []}, "Update the plan"),
    ("read", {}, "Read"),
    ("edit", {"path": 5}, "Edit"),
    ("glob", {}, "Find"),
    ("grep", {}, "Search"),
    ("shell", {}, "shell"),
]


@pytest.mark.parametrize(("name", "arguments", "title"), TITLES)
def test_titles(name: str, arguments: Mapping[str, Any], title: str) -> None:
    assert TOOLS[name].present_call(arguments, "/p").title == title


def test_a_command_that_does_not_fit_the_title_is_shown_in_full() -> None:
    command = "for x in a b; do\n  echo $x\ndone"
    card = TOOLS["shell"].present_call({"command": command}, "/p")
    assert card.terminal
    assert card.content == (Text(f"```\n{command}\n```"),)


@pytest.mark.parametrize(
    ("error", "shown"),
    [(None, "```\nx\n```"), ("failed", "```\nx\n```"), ("timeout", "```\nx\n```")]
    + [(error, "x") for error in ("denied", "aborted", "invalid-arguments")],
)
def test_output_is_code_and_what_we_say_of_a_command_is_not(error: str | None, shown: str) -> None:
    card = TOOLS["shell"].present_result({}, Outcome((Text("x"),), error, None), "/p")
    assert card.content == (Text(shown),)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=50),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
KEYS = st.sampled_from(
    ["path", "content", "old_text", "new_text", "pattern", "command", "offset", "limit", "entries"]
)
LONG = {"<x>": "x" * 200_000, "<nul>": "\x00" * 100_000, "<mixed>": "é😀\n`" * 50_000}
"""What short names in generated values stand for, so that a failure can be read."""
TEXTS = st.sampled_from(list(LONG)) | st.text(max_size=50)
ARGUMENTS = st.dictionaries(KEYS, JSON | TEXTS) | st.builds(
    lambda path, rest: {**rest, "path": path}, st.text(max_size=50), st.dictionaries(KEYS, TEXTS)
)


def long(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: LONG.get(value, value) if isinstance(value, str) and key != "path" else value
        for key, value in arguments.items()
    }


def size(card: Card) -> int:
    return len(orjson.dumps(asdict(card)))


@given(NAMES, ARGUMENTS)
def test_any_arguments_make_a_bounded_card(name: str, arguments: dict[str, Any]) -> None:
    card = TOOLS[name].present_call(long(arguments), "/p")
    assert card.title
    assert card.kind == TOOLS[name].kind
    assert all(place.path.startswith("/") for place in card.locations)
    assert size(card) < 48 * 1024


@given(NAMES, ARGUMENTS, st.lists(TEXTS, max_size=3), JSON, st.none() | st.just("failed"))
def test_any_outcome_makes_a_bounded_card(
    name: str, arguments: dict[str, Any], texts: list[str], meta: Any, error: str | None
) -> None:
    outcome = Outcome(tuple(Text(LONG.get(text, text)) for text in texts), error, meta)
    card = TOOLS[name].present_result(long(arguments), outcome, "/p")
    assert size(card) < 48 * 1024


def test_a_large_image_becomes_a_link_on_the_card() -> None:
    image = Image("A" * 400_000, "image/png", "file:///p/a.png")
    card = TOOLS["read"].present_result({"path": "a.png"}, Outcome((image,), None, None), "/p")
    assert card.content == (
        ResourceLink("file:///p/a.png", "a.png", mime_type="image/png", size=300_000),
    )


@given(st.text(st.sampled_from("`a \n")))
def test_code_survives_being_quoted(code: str) -> None:
    quoted = fenced(code)
    ticks = quoted[: len(quoted) - len(quoted.lstrip("`"))]
    assert quoted.count(ticks) == 2
    assert inline(code).strip("` \n") == code.strip("` \n")
