"""Which fact may follow which: every log has this shape, and what is refused changes nothing."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from harness_core.content import AssistantMessage, Text, TextDelta, ToolCall, UserMessage
from harness_core.facts import (
    AssistantChunk,
    AssistantSaid,
    Fact,
    FactRefused,
    Reason,
    SessionTitle,
    StepEnd,
    StepStart,
    ToolCalled,
    ToolReturned,
    ToolStarted,
    TurnEnd,
    TurnStart,
    UserSaid,
)
from harness_core.structure import Structure


def turn(number: int) -> Fact:
    return TurnStart(number, (f"m{number}",))


def end(number: int) -> Fact:
    return TurnEnd(number, Reason("completed"))


def said(turn: int, id: str) -> Fact:
    return UserSaid(turn, UserMessage(id, (Text("hi"),)))


def answer(turn: int, step: int, *calls: str) -> Fact:
    blocks = (ToolCall(id, "bash", "{}") for id in calls)
    return AssistantSaid(turn, step, AssistantMessage((Text("hm"), *blocks)))


def chunk(turn: int, step: int) -> Fact:
    return AssistantChunk(turn, step, 1, TextDelta("hm"))


def called(turn: int, step: int, id: str) -> Fact:
    return ToolCalled(turn, step, id, "bash", "{}")


def returned(turn: int, step: int, id: str) -> Fact:
    return ToolReturned(turn, step, id, "bash", (Text("done"),))


STEP = (turn(1), StepStart(1, 1))
CALL = (*STEP, answer(1, 1, "c"), called(1, 1, "c"))
DONE = (*CALL, returned(1, 1, "c"), StepEnd(1, 1))


def after(*facts: Fact) -> Structure:
    structure = Structure()
    for fact in facts:
        structure.accept(fact)
    return structure


def state(structure: Structure) -> dict[str, Any]:
    return copy.deepcopy(vars(structure))


@pytest.mark.parametrize(
    "facts",
    [
        (),
        (SessionTitle("a"), turn(1), SessionTitle("b"), end(1), turn(2), end(2)),
        (turn(1), said(1, "m1"), said(1, "steered"), end(1)),
        (*STEP, chunk(1, 1), said(1, "m1"), answer(1, 1), StepEnd(1, 1), StepStart(1, 2)),
        (*STEP, StepEnd(1, 1), end(1)),
        (*DONE, StepStart(1, 2), answer(1, 2, "d"), called(1, 2, "d"), returned(1, 2, "d")),
        (*CALL, ToolStarted("c"), returned(1, 1, "c"), StepEnd(1, 1), end(1)),
        (
            *(*STEP, answer(1, 1, "c", "d"), called(1, 1, "c"), called(1, 1, "d")),
            *(returned(1, 1, "d"), returned(1, 1, "c"), StepEnd(1, 1)),
        ),
    ],
)
def test_what_a_harness_writes_is_accepted(facts: tuple[Fact, ...]) -> None:
    after(*facts)


@pytest.mark.parametrize(
    ("before", "fact", "why"),
    [
        ((), turn(2), "the next turn is 1, not 2"),
        ((), turn(0), "the next turn is 1"),
        ((turn(1),), turn(2), "turn 1 is still open"),
        ((turn(1), end(1)), turn(1), "the next turn is 2"),
        ((), end(1), "turn 1 is not open"),
        ((turn(1),), end(2), "turn 2 is not open"),
        ((turn(1), end(1)), end(1), "turn 1 is not open"),
        (STEP, end(1), "step 1 is still open"),
        ((), StepStart(1, 1), "turn 1 is not open"),
        ((turn(1),), StepStart(1, 2), "the next step is 1"),
        ((turn(1),), StepStart(2, 1), "turn 2 is not open"),
        (STEP, StepStart(1, 2), "step 1 is still open"),
        (DONE, StepStart(1, 1), "the next step is 2"),
        ((turn(1),), StepEnd(1, 1), r"step 1\.1 is not open"),
        (DONE, StepEnd(1, 1), "is not open"),
        (STEP, StepEnd(1, 2), "is not open"),
        (CALL, StepEnd(1, 1), "calls without a result: c"),
        ((), said(1, "m"), "turn 1 is not open"),
        ((turn(1), said(1, "m")), said(1, "m"), "message m is there"),
        ((turn(1), said(1, "m"), end(1), turn(2)), said(2, "m"), "message m is there"),
        ((turn(1),), chunk(1, 1), "is not open"),
        (STEP, chunk(1, 2), "is not open"),
        (DONE, chunk(1, 1), "is not open"),
        ((turn(1),), answer(1, 1), "is not open"),
        ((*STEP, answer(1, 1)), answer(1, 1), r"step 1\.1 has its answer"),
        ((turn(1),), called(1, 1, "c"), "is not open"),
        (CALL, called(1, 1, "c"), "call c is there"),
        ((*DONE, StepStart(1, 2)), called(1, 2, "c"), "call c is there"),
        (STEP, ToolStarted("c"), "call c is not open"),
        ((*CALL, returned(1, 1, "c")), ToolStarted("c"), "call c is not open"),
        (STEP, returned(1, 1, "c"), "call c is not open"),
        ((*CALL, returned(1, 1, "c")), returned(1, 1, "c"), "call c is not open"),
    ],
)
def test_what_breaks_the_shape_is_refused(before: tuple[Fact, ...], fact: Fact, why: str) -> None:
    structure = after(*before)
    unchanged = state(structure)
    with pytest.raises(FactRefused, match=why):
        structure.accept(fact)
    assert state(structure) == unchanged


def test_it_knows_what_is_open() -> None:
    structure = after(*CALL, ToolStarted("c"))
    assert (structure.turn, structure.step) == (1, 1)
    assert [structure.turn_open, structure.step_open] == [True, True]
    assert list(structure.open_calls) == ["c"]
    assert structure.started == {"c"}
    structure = after(*DONE, end(1))
    assert [structure.turn_open, structure.step_open] == [False, False]
    assert not structure.open_calls
    assert not structure.started


def test_it_knows_which_calls_were_asked_for_and_not_logged() -> None:
    structure = after(*STEP, answer(1, 1, "c", "d"), called(1, 1, "c"))
    assert list(structure.asked) == ["d"]
    assert not after(*DONE).asked


@given(data=st.data())
def test_a_refusal_never_changes_what_comes_next(
    data: st.DataObject, logs: SearchStrategy[list[Fact]]
) -> None:
    facts, intruders = data.draw(logs), data.draw(logs)
    structure = after(*facts)
    unchanged = state(structure)
    for intruder in intruders:
        try:
            copy.deepcopy(structure).accept(intruder)
        except FactRefused:
            with pytest.raises(FactRefused):
                structure.accept(intruder)
            assert state(structure) == unchanged
