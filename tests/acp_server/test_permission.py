"""Permission: only a clear yes is a yes, and the question can be answered."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from acp_server.framing import encode
from acp_server.permission import DECISIONS, decision, options

SAID = st.sampled_from(
    [
        "selected",
        "cancelled",
        "allow",
        "allow-always",
        "reject",
        "allow_once",
        "outcome",
        "optionId",
        "Allow",
        "",
    ]
)
ANSWERS = st.recursive(
    st.none() | st.booleans() | st.integers() | SAID,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(SAID, inner, max_size=3),
    max_leaves=6,
)


def chosen(option: Any) -> dict[str, Any]:
    return {"outcome": {"outcome": "selected", "optionId": option}}


@pytest.mark.parametrize(
    ("option", "meaning"),
    [("allow", "allow-once"), ("allow-always", "allow-always"), ("reject", "reject-once")],
)
def test_an_offered_option_means_what_it_says(option: str, meaning: str) -> None:
    assert decision(chosen(option)) == meaning
    assert decision({**chosen(option), "_meta": {"a": 1}}) == meaning


def test_a_cancelled_question_is_cancelled() -> None:
    assert decision({"outcome": {"outcome": "cancelled"}}) == "cancelled"


@given(ANSWERS)
@example(None)
@example({"outcome": "allow_once"})
@example({"outcome": "selected", "optionId": "allow"})
@example({"optionId": "allow"})
@example({"outcome": {"outcome": "selected"}})
@example({"outcome": {"outcome": "allowed", "optionId": "allow"}})
@example({"outcome": {"outcome": "cancelled", "optionId": "allow"}})
@example([chosen("allow")])
@example(chosen("allow_once"))
@example(chosen(["allow"]))
@example(chosen({"allow": "allow"}))
def test_nothing_else_is_a_yes(answer: Any) -> None:
    if answer not in (chosen("allow"), chosen("allow-always")):
        match answer:
            case {"outcome": {"outcome": "selected", "optionId": "allow" | "allow-always"}}:
                return
        assert decision(answer) not in ("allow-once", "allow-always")


@given(ANSWERS)
def test_whatever_option_is_named_only_those_offered_count(option: Any) -> None:
    offered = isinstance(option, str) and option in DECISIONS
    assert decision(chosen(option)) == (DECISIONS[option] if offered else "unavailable")


@pytest.mark.parametrize("label", ["", "shell", "`rm -rf build`", "x" * 100_000])
def test_the_options_can_be_told_apart_and_one_of_them_is_no(label: str) -> None:
    offered = options(label)
    assert len({option["optionId"] for option in offered}) == len(offered)
    assert {option["optionId"] for option in offered} == set(DECISIONS)
    assert [option["kind"] for option in offered] == ["allow_once", "allow_always", "reject_once"]
    assert all(option["name"] for option in offered)
    assert len(encode(offered)) < 2_000


def test_an_always_says_what_it_covers() -> None:
    assert "`make test`" in options("`make test`")[1]["name"]
