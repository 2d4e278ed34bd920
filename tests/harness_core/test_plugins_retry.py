"""Retry: what is repeated, how long is waited, and when it is given up."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_core.content import Failure, Finish, TextDelta
from harness_core.facts import AssistantSaid, LlmRetry, StepStart, TurnEnd
from harness_core.model.scripted import failed, said
from harness_core.plugins.retry import TRANSIENT, backoff
from tests.harness_core.kit import VIRTUAL, world

pytestmark = pytest.mark.anyio

LASTING = ("auth", "context-overflow", "bad-request", "internal", "something new")


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return VIRTUAL


def busy(retry_after: float | None = None) -> tuple[Finish]:
    return (Finish("error", Failure("overloaded", "busy", 529, retry_after)),)


def retry(**settings: Any) -> dict[str, Any]:
    return {"retry": settings}


@pytest.mark.parametrize("code", sorted(TRANSIENT))
async def test_what_may_pass_is_repeated_inside_the_same_step(code: str) -> None:
    async with world(failed(code), (TextDelta("gone"),), said("hi")) as w:
        assert (await w.turn()).kind == "completed"
        assert [fact.failure.code for fact in w.all(LlmRetry)] == [code, "cut"]
        assert len(w.all(StepStart)) == 1
        assert w.last(AssistantSaid).message.text == "hi"


@pytest.mark.parametrize("code", LASTING)
async def test_what_will_not_pass_is_not_repeated(code: str) -> None:
    async with world(failed(code), said("never")) as w:
        assert (await w.turn()).code == code
        assert len(w.script.requests) == 1


@pytest.mark.parametrize("attempts", [0, 1, 3])
async def test_it_gives_up_after_so_many_repetitions(attempts: int) -> None:
    replies = [busy() for _ in range(attempts + 1)]
    async with world(*replies, said("never"), settings=retry(attempts=attempts)) as w:
        assert (await w.turn()).code == "overloaded"
        assert [fact.attempt for fact in w.all(LlmRetry)] == list(range(1, attempts + 1))


async def test_each_step_has_its_repetitions_anew() -> None:
    replies = [busy(), said("1"), busy(), said("2")]
    async with world(*replies, settings=retry(attempts=1)) as w:
        assert (await w.turn()).kind == "completed"
        assert (await w.turn()).kind == "completed"


async def test_it_waits_as_long_as_the_provider_asks() -> None:
    async with world(busy(retry_after=42.5), said("hi")) as w:
        await w.turn()
        assert w.last(LlmRetry).delay == 42.5
        assert anyio.current_time() == 42.5


async def test_a_shorter_wish_than_our_own_wait_does_not_shorten_it() -> None:
    async with world(busy(retry_after=0), said("hi"), settings=retry(base=8)) as w:
        await w.turn()
        assert 4 <= w.last(LlmRetry).delay <= 8


async def test_a_provider_that_asks_for_too_long_is_given_up() -> None:
    async with world(busy(retry_after=60.1), said("never")) as w:
        w.send()
        await w.idle()
        assert w.last(TurnEnd).reason.code == "overloaded"
        assert w.all(LlmRetry) == []


@given(
    attempt=st.integers(1, 10_000),
    base=st.floats(0.001, 100),
    longest=st.floats(0, 3600),
    jitter=st.floats(0, 1),
)
def test_a_wait_is_between_half_and_all_of_what_grows_and_is_bounded(
    attempt: int, base: float, longest: float, jitter: float
) -> None:
    wait = backoff(attempt, base, longest, jitter)
    whole = min(longest, base * 2.0 ** min(attempt - 1, 64))
    assert whole / 2 <= wait <= whole
    assert backoff(attempt + 1, base, longest, jitter) >= wait
