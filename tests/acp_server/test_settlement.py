"""Settlement: a prompt is answered by the exact turn that claimed it, and by nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_server.capabilities import AUTH_METHODS
from acp_server.framing import AUTH_REQUIRED, INTERNAL_ERROR
from acp_server.settlement import Outcome, Settlement
from harness_core.facts import (
    Fact,
    Reason,
    SessionTitle,
    StepEnd,
    StepStart,
    TurnEnd,
    TurnStart,
)
from harness_core.session import SessionEvent

ANSWERS: dict[str, tuple[Reason, str | None]] = {
    "completed": (Reason("completed"), "end_turn"),
    "max-tokens": (Reason("max-tokens"), "max_tokens"),
    "max-steps": (Reason("max-steps"), "max_turn_requests"),
    "refused": (Reason("refused", why="no"), "refusal"),
    "blocked": (Reason("blocked", by="hook", why="no"), "refusal"),
    "aborted by the user": (Reason("aborted", cause="user"), "cancelled"),
    "aborted by disposal": (Reason("aborted", cause="disposed"), "cancelled"),
    "aborted by a parent": (Reason("aborted", cause="parent"), "cancelled"),
    "aborted by a hook": (Reason("aborted", cause="hook", why="no"), "end_turn"),
    "error": (Reason("error", message="it broke", code="server", status=500), None),
    "interrupted": (Reason("interrupted"), None),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_every_reason_has_its_answer(case: str) -> None:
    reason, stop = ANSWERS[case]
    outcome = Outcome.of(reason)
    assert outcome.stop == stop
    assert (outcome.error is None) is (stop is not None)


def test_a_failed_turn_is_an_error_with_structured_data() -> None:
    reason = Reason("error", message="it broke", code="server", status=503, request_id="r1")
    error = Outcome.of(reason).error
    assert error is not None
    assert error.body() == {
        "code": INTERNAL_ERROR,
        "message": "it broke",
        "data": {"reason": "server", "details": "it broke", "status": 503, "requestId": "r1"},
    }


def test_a_missing_credential_is_an_error_that_tells_how_to_sign_in() -> None:
    error = Outcome.of(Reason("error", message="no key", code="auth", status=401)).error
    assert error is not None
    assert error.code == AUTH_REQUIRED
    assert error.data["authMethods"] == AUTH_METHODS


def test_an_error_without_details_is_a_whole_sentence_still() -> None:
    error = Outcome.of(Reason("error")).error
    assert error is not None
    assert error.message
    assert error.data["reason"] == "error"


@pytest.mark.parametrize("length", [2_000, 1_000_000])
def test_an_error_is_short_whatever_a_provider_says(length: int) -> None:
    error = Outcome.of(Reason("error", message="x" * length, code="server")).error
    assert error is not None
    assert len(str(error.body())) < 20_000


# --- whose turn is it -----------------------------------------------------------------------------

PROMPTS = [f"m{n}" for n in range(6)]
REASONS = st.sampled_from([reason for reason, _ in ANSWERS.values()])
NOISE = st.lists(st.sampled_from(["step", "title"]), max_size=2)
TURNS = st.lists(st.tuples(st.integers(0, 3), NOISE, REASONS), max_size=6)


def log_of(turns: Sequence[tuple[int, list[str], Reason]], finished: bool) -> list[SessionEvent]:
    """A log whose turns claim so many of the prompts, in order, as a turn claims steering too."""
    facts: list[Fact] = []
    prompts = iter(PROMPTS)
    for number, (count, noise, reason) in enumerate(turns, 1):
        claimed = tuple(id for _, id in zip(range(count), prompts, strict=False))
        facts.append(TurnStart(number, claimed))
        for step, what in enumerate(noise, 1):
            facts += (
                [StepStart(number, step), StepEnd(number, step)]
                if what == "step"
                else [SessionTitle(f"title {step}")]
            )
        facts.append(TurnEnd(number, replace(reason, request_id=f"turn {number}")))
    if not finished and facts:
        facts.pop()
    return [SessionEvent("s1", seq, 0, fact) for seq, fact in enumerate(facts)]


def expected(log: Sequence[SessionEvent], message: str) -> list[Any]:
    """The reasons of the turns that claimed ``message``: at most one."""
    turns = {
        event.fact.turn
        for event in log
        if isinstance(event.fact, TurnStart) and message in event.fact.messages
    }
    return [
        event.fact.reason
        for event in log
        if isinstance(event.fact, TurnEnd) and event.fact.turn in turns
    ]


@given(TURNS, st.booleans(), st.integers(0, 10))
def test_each_prompt_settles_once_with_the_turn_that_claimed_it(
    turns: list[tuple[int, list[str], Reason]], finished: bool, late: int
) -> None:
    log = log_of(turns, finished)
    for message in [*PROMPTS, "never sent"]:
        settlement = Settlement(message)
        outcomes = [outcome for event in log if (outcome := settlement.observe(event))]
        reasons = expected(log, message)
        assert [str(outcome) for outcome in outcomes] == [str(Outcome.of(r)) for r in reasons]
        assert len(outcomes) <= 1

    late_comer = Settlement("never sent")
    assert [late_comer.observe(event) for event in log[late:]] == [None] * len(log[late:])
