"""Two lanes: prompts for turns, steering for steps; what wakes, what goes together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_core.content import Text, UserMessage
from harness_core.inbox import DuplicateMessage, Inbox


def message(id: str) -> UserMessage:
    return UserMessage(id, (Text(id),))


def ids(messages: tuple[UserMessage, ...]) -> list[str]:
    return [one.id for one in messages]


def test_a_claim_is_one_prompt_and_before_it_all_steering() -> None:
    inbox = Inbox()
    for id in ("p1", "p2"):
        inbox.queue(message(id))
    inbox.steer(message("s1"), wake=True)
    inbox.steer(message("s2"), wake=False)
    assert ids(inbox.waiting) == ["s1", "s2", "p1", "p2"]
    assert inbox.claim().ids == ("s1", "s2", "p1")
    assert inbox.claim().ids == ("p2",)
    assert not inbox.ready


def test_steering_wakes_and_injected_context_does_not() -> None:
    inbox = Inbox()
    inbox.steer(message("context"), wake=False)
    assert not inbox.ready
    inbox.steer(message("steering"), wake=True)
    assert inbox.ready
    assert inbox.claim().ids == ("context", "steering")


def test_context_alone_does_not_wake_when_the_steering_beside_it_is_taken_back() -> None:
    inbox = Inbox()
    inbox.steer(message("context"), wake=False)
    inbox.steer(message("steering"), wake=True)
    assert inbox.remove("steering") is not None
    assert not inbox.ready
    assert ids(inbox.waiting) == ["context"]


def test_an_id_is_taken_once_and_for_all() -> None:
    inbox = Inbox(seen=["old"])
    inbox.queue(message("m"))
    inbox.claim()
    for id in ("m", "old"):
        with pytest.raises(DuplicateMessage, match=id):
            inbox.queue(message(id))
        with pytest.raises(DuplicateMessage, match=id):
            inbox.steer(message(id), wake=True)
    assert not inbox.ready


def test_what_is_not_there_cannot_be_taken_back() -> None:
    inbox = Inbox()
    inbox.queue(message("m"))
    inbox.claim()
    assert inbox.remove("m") is None
    assert inbox.remove("other") is None


Action = st.sampled_from(["queue", "steer", "inject", "remove", "claim", "take"])


@given(st.lists(st.tuples(Action, st.integers(0, 9)), max_size=40))
def test_every_message_leaves_once_and_in_order(script: list[tuple[str, int]]) -> None:
    inbox = Inbox()
    prompts: list[str] = []
    steering: list[tuple[str, bool]] = []
    for number, (action, pick) in enumerate(script):
        id = f"m{number}"
        waiting = [one for one, _ in steering] + prompts
        match action:
            case "queue":
                inbox.queue(message(id))
                prompts.append(id)
            case "steer" | "inject":
                inbox.steer(message(id), wake=action == "steer")
                steering.append((id, action == "steer"))
            case "remove" if waiting:
                gone = waiting[pick % len(waiting)]
                removed = inbox.remove(gone)
                assert removed is not None
                assert removed.id == gone
                prompts = [one for one in prompts if one != gone]
                steering = [pair for pair in steering if pair[0] != gone]
            case "claim":
                expected = [one for one, _ in steering] + prompts[:1]
                assert ids(inbox.claim().messages) == expected
                prompts, steering = prompts[1:], []
            case "take":
                assert ids(inbox.take_steering()) == [one for one, _ in steering]
                steering = []
        assert ids(inbox.waiting) == [one for one, _ in steering] + prompts
        assert inbox.ready == (bool(prompts) or any(wakes for _, wakes in steering))
