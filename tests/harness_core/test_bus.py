"""The four verbs, scopes, disposers and parents of the bus."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from collections.abc import Iterator

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_core.bus import Bus, Emit, Next, Parallel, Point, Scope, Serial, Waterfall
from harness_core.cancellation import LeakedCancellation
from tests.harness_core.kit import VIRTUAL

pytestmark = pytest.mark.anyio

SAID = "session/test-said"
CHAIN = "agent/test-chain"
ROW = "agent/test-row"
CROWD = "tools/test-crowd"


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return VIRTUAL


@pytest.fixture(scope="module", autouse=True)
def points() -> Iterator[None]:
    """Points of every verb, for this module alone."""
    before = dict(Point.registry)
    Emit[str](SAID, "Somebody said something.")
    Waterfall[int, int](CHAIN, "A number on its way.")
    Serial[str](ROW, "One after the other.")
    Parallel[str](CROWD, "All together.")
    yield
    Point.registry.clear()
    Point.registry.update(before)


# --- points ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("ui/click", "belongs to one of"),
        (SAID, "is declared already"),
    ],
)
def test_a_name_that_may_not_be_is_refused(name: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Emit[str](name, "")
    assert name not in Point.registry or name == SAID


# --- emit --------------------------------------------------------------------------------------


def test_emit_tells_everybody_in_order_whatever_one_of_them_throws(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bus, heard = Bus(), []

    def fail(_: str) -> None:
        raise RuntimeError("broken listener")

    bus.on(Point.registry[SAID], lambda said: heard.append(("first", said)))
    bus.on(Point.registry[SAID], fail)
    bus.on(Point.registry[SAID], lambda said: heard.append(("last", said)))
    with caplog.at_level(logging.ERROR):
        bus.emit(Point.registry[SAID], "hi")
    assert heard == [("first", "hi"), ("last", "hi")]
    assert f"a listener of {SAID} failed" in caplog.text


def test_what_is_sent_on_a_child_is_heard_by_its_parents_first() -> None:
    root, heard = Bus(), []
    middle = Bus(root)
    leaf, sibling = Bus(middle), Bus(middle)
    for name, bus in (("leaf", leaf), ("sibling", sibling), ("middle", middle), ("root", root)):
        bus.on(Point.registry[SAID], lambda said, name=name: heard.append(name))
    leaf.emit(Point.registry[SAID], "x")
    assert heard == ["root", "middle", "leaf"]
    heard.clear()
    root.emit(Point.registry[SAID], "x")
    assert heard == ["root"]


# --- waterfall ---------------------------------------------------------------------------------


async def double(value: int) -> int:
    return value * 2


async def test_a_waterfall_goes_down_and_comes_back_through_every_listener() -> None:
    bus, way = Bus(), []

    def listener(name: str, plus: int) -> object:
        async def hear(value: int, following: Next[int, int]) -> int:
            way.append((name, value))
            answer = await following(value + plus)
            way.append((name, answer))
            return answer + plus

        return hear

    bus.on(Point.registry[CHAIN], listener("a", 1))
    bus.on(Point.registry[CHAIN], listener("b", 10))
    assert await bus.waterfall(Point.registry[CHAIN], 0, double) == 22 + 10 + 1
    assert way == [("a", 0), ("b", 1), ("b", 22), ("a", 32)]


async def test_a_waterfall_without_listeners_is_the_last_word() -> None:
    assert await Bus().waterfall(Point.registry[CHAIN], 4, double) == 8


async def test_a_listener_of_a_waterfall_may_answer_alone_or_throw() -> None:
    bus, below = Bus(), []

    async def answer(value: int, _: Next[int, int]) -> int:
        return -value

    async def never(value: int, following: Next[int, int]) -> int:
        below.append(value)
        return await following(value)

    bus.on(Point.registry[CHAIN], answer)
    bus.on(Point.registry[CHAIN], never)
    assert await bus.waterfall(Point.registry[CHAIN], 3, double) == -3
    assert below == []

    async def fail(value: int, _: Next[int, int]) -> int:
        raise LookupError("no way")

    bus = Bus()
    bus.on(Point.registry[CHAIN], fail)
    with pytest.raises(LookupError):
        await bus.waterfall(Point.registry[CHAIN], 3, double)


# --- serial and parallel -----------------------------------------------------------------------


async def test_serial_awaits_one_by_one_and_stops_at_a_throw() -> None:
    bus, heard = Bus(), []

    async def slow(said: str) -> None:
        heard.append("slow begins")
        await anyio.sleep(1)
        heard.append("slow ends")

    async def fail(said: str) -> None:
        heard.append("fail")
        raise LookupError(said)

    async def never(said: str) -> None:
        heard.append("never")

    for listener in (slow, fail, never):
        bus.on(Point.registry[ROW], listener)
    with pytest.raises(LookupError):
        await bus.serial(Point.registry[ROW], "x")
    assert heard == ["slow begins", "slow ends", "fail"]


async def test_parallel_lets_all_settle_then_raises_the_first_registered_failure() -> None:
    bus, heard = Bus(), []

    def listener(name: str, seconds: float, failure: Exception | None = None) -> object:
        async def hear(_: str) -> None:
            await anyio.sleep(seconds)
            heard.append(name)
            if failure is not None:
                raise failure

        return hear

    bus.on(Point.registry[CROWD], listener("late failure", 3, KeyError("first")))
    bus.on(Point.registry[CROWD], listener("early failure", 1, LookupError("second")))
    bus.on(Point.registry[CROWD], listener("good", 2))
    began = anyio.current_time()
    with pytest.raises(KeyError):
        await bus.parallel(Point.registry[CROWD], "x")
    assert heard == ["early failure", "good", "late failure"]
    assert anyio.current_time() - began == 3


@pytest.mark.parametrize("listeners", [0, 1, 2])
async def test_parallel_is_cancelled_with_whoever_awaits_it(listeners: int) -> None:
    bus, ended = Bus(), []

    async def wait(_: str) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(1)

    for _ in range(listeners):
        bus.on(Point.registry[CROWD], wait)
    with anyio.move_on_after(1):
        await bus.parallel(Point.registry[CROWD], "x")
    assert len(ended) == listeners


@pytest.mark.parametrize("verb", ["waterfall", "serial", "parallel", "parallel of two"])
async def test_a_cancellation_that_leaks_out_of_a_listener_is_a_failure_of_its_own(
    verb: str,
) -> None:
    bus = Bus()

    async def leak(*_: object) -> int:
        gone: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        gone.cancel()
        return await gone

    for name in (CHAIN, ROW, CROWD):
        bus.on(Point.registry[name], leak)
    if verb == "parallel of two":
        bus.on(Point.registry[CROWD], leak)
    sending = {
        "waterfall": lambda: bus.waterfall(Point.registry[CHAIN], 1, double),
        "serial": lambda: bus.serial(Point.registry[ROW], "x"),
    }
    send = sending.get(verb, lambda: bus.parallel(Point.registry[CROWD], "x"))
    with pytest.raises(LeakedCancellation):
        await send()


# --- disposers and scopes ----------------------------------------------------------------------


def test_a_disposer_takes_away_its_own_registration_and_no_other() -> None:
    bus, heard = Bus(), []
    dispose = bus.on(Point.registry[SAID], heard.append)
    bus.on(Point.registry[SAID], heard.append)
    dispose()
    dispose()
    bus.emit(Point.registry[SAID], "once")
    assert heard == ["once"]


def test_a_listener_may_take_itself_away_while_it_is_told() -> None:
    bus, heard = Bus(), []

    def once(said: str) -> None:
        heard.append(said)
        dispose()

    dispose = bus.on(Point.registry[SAID], once)
    bus.on(Point.registry[SAID], heard.append)
    bus.emit(Point.registry[SAID], "a")
    bus.emit(Point.registry[SAID], "b")
    assert heard == ["a", "a", "b"]


def test_a_scope_drops_in_reverse_order_each_contained_and_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scope, dropped = Scope(), []

    def fail() -> None:
        dropped.append("fails")
        raise RuntimeError

    scope.add(lambda: dropped.append("first"))
    scope.add(fail)
    early = scope.add(lambda: dropped.append("early"))
    scope.add(lambda: dropped.append("last"))
    early()
    scope.close()
    scope.close()
    early()
    assert dropped == ["early", "last", "fails", "first"]
    assert "a disposer failed" in caplog.text


def test_a_closed_scope_drops_at_once() -> None:
    scope, dropped = Scope(), []
    scope.close()
    scope.add(lambda: dropped.append(1))
    assert dropped == [1]


def test_a_registration_may_belong_to_a_scope_of_its_own() -> None:
    bus, plugin, heard = Bus(), Scope(), []
    bus.on(Point.registry[SAID], heard.append, plugin)
    plugin.close()
    bus.emit(Point.registry[SAID], "x")
    bus.on(Point.registry[SAID], heard.append, plugin)
    bus.emit(Point.registry[SAID], "y")
    bus.scope.close()
    assert heard == []


def test_what_was_disposed_is_let_go() -> None:
    class Listener:
        def hear(self, _: str) -> None: ...

    bus, listener = Bus(), Listener()
    dispose = bus.on(Point.registry[SAID], listener.hear)
    gone = weakref.ref(listener)
    del listener
    gc.collect()
    assert gone() is not None
    dispose()
    gc.collect()
    assert gone() is None


@given(st.lists(st.one_of(st.just("on"), st.integers(0, 9)), max_size=30))
def test_listeners_are_those_registered_and_not_disposed_in_order(script: list[object]) -> None:
    bus, heard = Bus(), []
    model: list[tuple[int, object]] = []
    for number, action in enumerate(script):
        if action == "on":
            model.append(
                (number, bus.on(Point.registry[SAID], lambda _, n=number: heard.append(n)))
            )
        elif model:
            model.pop(action % len(model))[1]()
    bus.emit(Point.registry[SAID], "x")
    assert heard == [number for number, _ in model]
