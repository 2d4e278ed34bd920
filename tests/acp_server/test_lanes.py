"""Lanes: one at a time under a key, in the order of arrival, and no key is kept for ever."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_server.lanes import Lanes

pytestmark = pytest.mark.anyio


async def tick(times: int = 1) -> None:
    for _ in range(times):
        await asyncio.sleep(0)


async def test_a_free_lane_is_entered_without_waiting() -> None:
    lanes = Lanes()
    entered: list[str] = []

    async def enter() -> None:
        async with lanes.lane("a"):
            entered.append("a")

    task = asyncio.ensure_future(enter())
    await tick()
    assert entered == ["a"]
    await task


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3)), max_size=12))
async def test_each_key_is_served_one_at_a_time_in_the_order_of_arrival(
    visits: list[tuple[str, int]],
) -> None:
    lanes = Lanes()
    inside: set[str] = set()
    served: list[int] = []

    async def visit(number: int, key: str, ticks: int) -> None:
        async with lanes.lane(key):
            assert key not in inside
            inside.add(key)
            await tick(ticks)
            inside.remove(key)
            served.append(number)

    await asyncio.gather(*(visit(n, key, ticks) for n, (key, ticks) in enumerate(visits)))
    for key in "ab":
        mine = [number for number, (other, _) in enumerate(visits) if other == key]
        assert [number for number in served if number in mine] == mine
    assert len(lanes) == 0


async def test_keys_do_not_wait_for_each_other() -> None:
    lanes = Lanes()
    async with lanes.lane("a"), asyncio.timeout(5), lanes.lane("b"):
        pass


@pytest.mark.parametrize("ending", [ValueError, asyncio.CancelledError])
async def test_whoever_leaves_by_a_failure_leaves(ending: type[BaseException]) -> None:
    lanes = Lanes()
    with pytest.raises(ending):
        async with lanes.lane("a"):
            raise ending
    async with asyncio.timeout(5), lanes.lane("a"):
        pass


async def test_whoever_gives_up_waiting_holds_up_nobody() -> None:
    lanes = Lanes()

    async def enter() -> None:
        async with lanes.lane("a"):
            pass

    async with lanes.lane("a"):
        impatient = asyncio.ensure_future(enter())
        patient = asyncio.ensure_future(enter())
        await tick(3)
        impatient.cancel()
        await tick(3)
        assert not patient.done()
    await asyncio.wait_for(patient, 5)
    assert impatient.cancelled()
