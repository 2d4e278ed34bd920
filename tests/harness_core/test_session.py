"""The contract of appending: refuse and leave nothing, or commit and tell everybody."""

from __future__ import annotations

import enum
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from harness_core.bus import Bus
from harness_core.content import Failure, Finish, Json, TextDelta
from harness_core.facts import (
    Fact,
    FactRefused,
    LlmRetry,
    Reason,
    SessionOption,
    SessionTitle,
    ToolReturned,
    TurnEnd,
    TurnStart,
)
from harness_core.journal.memory import MemoryJournal
from harness_core.session import (
    SESSION_EVENT,
    SESSION_FLUSH,
    ReentrantAppend,
    Session,
    SessionClosed,
    SessionEvent,
    SessionHeader,
    decode_line,
    encode,
)
from tests.harness_core.kit import LONG, VIRTUAL

HEADER = SessionHeader("s", "/proj", 1)


class Lines:
    """A log that keeps its lines where a test can see them."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.flushed = 0

    def write(self, event: SessionEvent, line: bytes) -> None:
        self.lines.append(line)

    def drain(self) -> None: ...

    async def flush(self) -> None:
        self.flushed += 1

    def spill(self, name: str, data: bytes) -> str:
        raise OSError("nowhere")

    def close(self) -> None: ...


class Noted(Fact, type="test/noted", ignorable=True):
    """A plugin's fact that holds any JSON."""

    value: Json


# --- commit --------------------------------------------------------------------------------------


def test_seq_is_the_index_and_time_is_epoch_milliseconds(session: Session) -> None:
    clock = iter([5.0, 4.9, 4.8])
    session = Session(HEADER, Lines(), Bus(), clock=lambda: next(clock))
    for title in "abc":
        session.append(SessionTitle(title))
    assert [event.seq for event in session.events] == [0, 1, 2]
    assert [event.time for event in session.events] == [5000, 4900, 4800]


def test_an_append_is_told_once_after_it_is_in_the_log(session: Session) -> None:
    told: list[tuple[SessionEvent, int]] = []
    session.bus.on(SESSION_EVENT, lambda event: told.append((event, len(session.events))))
    event = session.append(SessionTitle("a"))
    assert told == [(event, 1)]


def test_an_event_cannot_be_changed(session: Session) -> None:
    event: Any = session.append(SessionTitle("a"))
    for name, value in (("seq", 9), ("time", 9), ("fact", None)):
        with pytest.raises(AttributeError):
            setattr(event, name, value)


def test_what_the_producer_does_later_does_not_reach_the_log(session: Session) -> None:
    value = {"list": [1]}
    event = session.append(Noted(value))
    value["list"].append(2)
    assert event.fact == Noted({"list": [1]})


def test_an_observer_cannot_rewrite_what_the_next_one_sees(session: Session) -> None:
    seen: list[Fact] = []

    def rewrite(event: SessionEvent) -> None:
        assert isinstance(event.fact, Noted)
        event.fact.value["list"].append(2)

    session.bus.on(SESSION_EVENT, rewrite)
    session.bus.on(SESSION_EVENT, lambda event: seen.append(event.fact))
    session.append(Noted({"list": [1]}))
    assert seen == [Noted({"list": [1]})]


@given(data=st.data())
def test_the_live_log_is_what_a_reader_gets(
    data: st.DataObject, logs: SearchStrategy[list[Fact]]
) -> None:
    lines = Lines()
    session = Session(HEADER, lines, Bus())
    facts = data.draw(logs)
    for fact in facts:
        session.append(fact)
    assert [event.fact for event in session.events] == facts
    assert [decode_line("s", line) for line in lines.lines] == session.events
    assert [encode(event) for event in session.events] == lines.lines


# --- refuse --------------------------------------------------------------------------------------


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Odd:
    when: date


def circle() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def tower(height: int) -> Any:
    value: Any = 0
    for _ in range(height):
        value = {"deeper": value}
    return value


NOT_JSON = [
    math.nan,
    math.inf,
    -math.inf,
    {1: "number as key"},
    {None: "nothing as key"},
    {("a", "b"): "tuple as key"},
    "\ud800",
    {"\udfff": "surrogate as key"},
    [["deep", {"in": ["\ud83d"]}]],
    2**64,
    -(2**63) - 1,
    b"bytes",
    {1, 2},
    Colour.RED,
    date(2026, 1, 1),
    Decimal("1.5"),
    Odd(date(2026, 1, 1)),
    object(),
    print,
    circle(),
    tower(300),
    tower(5000),
]


@pytest.mark.parametrize("value", NOT_JSON, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("wrap", [lambda v: v, lambda v: [v], lambda v: {"a": (0, v)}])
def test_what_is_not_lossless_json_is_refused_and_leaves_nothing(
    value: Any, wrap: Callable[[Any], Any]
) -> None:
    lines, told = Lines(), list[SessionEvent]()
    session = Session(HEADER, lines, Bus())
    session.bus.on(SESSION_EVENT, told.append)
    with pytest.raises(FactRefused, match="test/noted"):
        session.append(Noted(wrap(value)))
    assert (session.events, lines.lines, told) == ([], [], [])
    assert session.append(SessionTitle("next")).seq == 0


def test_a_refusal_says_where(session: Session) -> None:
    with pytest.raises(FactRefused, match=r"test/noted\.value\.a\[1\]: nan"):
        session.append(Noted({"a": [0, math.nan]}))


@pytest.mark.parametrize("value", [2**64 - 1, -(2**63), 1e308, 5e-324, 0.1, "\U0001f600\u2028\0"])
def test_extreme_json_is_kept_exactly(session: Session, value: Any) -> None:
    fact = session.append(Noted(value)).fact
    assert fact == Noted(value)


def test_what_has_the_wrong_type_is_refused_rather_than_never_read_again(
    session: Session,
) -> None:
    for fact in (
        LlmRetry(1, 1, 1, "soon", Failure("timeout", "slow")),  # type: ignore[arg-type]
        TurnEnd(1, "completed"),  # type: ignore[arg-type]
        SessionTitle(5),  # type: ignore[arg-type]
        ToolReturned(1, 1, "c", "n", (TextDelta("text"), Finish("stop"))),  # type: ignore[arg-type]
    ):
        with pytest.raises(FactRefused, match=f"not a valid {fact.type} fact"):
            session.append(fact)
    assert session.events == []


def test_a_validator_may_refuse(session: Session) -> None:
    def no_titles(_: Session, fact: Fact) -> None:
        if isinstance(fact, SessionTitle):
            raise FactRefused("no titles here")

    session.validators.append(no_titles)
    with pytest.raises(FactRefused, match="no titles here"):
        session.append(SessionTitle("a"))
    assert session.events == []
    assert session.append(SessionOption("o", True)).seq == 0


def test_the_structure_refuses_and_nothing_is_in_the_log(session: Session) -> None:
    with pytest.raises(FactRefused, match="turn 1 is not open"):
        session.append(TurnEnd(1, Reason("completed")))
    assert session.events == []


def test_a_closed_session_takes_nothing(session: Session) -> None:
    session.append(SessionTitle("a"))
    session.close()
    session.close()
    with pytest.raises(SessionClosed):
        session.append(SessionTitle("b"))
    assert len(session.events) == 1


# --- observers -----------------------------------------------------------------------------------


def test_an_observer_may_not_append(session: Session) -> None:
    caught: list[Exception] = []

    def greedy(event: SessionEvent) -> None:
        try:
            session.append(SessionTitle("again"))
        except ReentrantAppend as failure:
            caught.append(failure)

    session.bus.on(SESSION_EVENT, greedy)
    session.append(SessionTitle("a"))
    assert len(session.events) == len(caught) == 1


def test_a_validator_may_not_append_either(session: Session) -> None:
    def sneak(session: Session, fact: Fact) -> None:
        session.append(SessionTitle("sneaky"))

    session.validators.append(sneak)
    with pytest.raises(ReentrantAppend):
        session.append(SessionTitle("a"))
    assert session.events == []


def test_a_failing_observer_changes_nothing(
    session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[int] = []

    def broken(event: SessionEvent) -> None:
        raise RuntimeError("broken observer")

    session.bus.on(SESSION_EVENT, broken)
    session.bus.on(SESSION_EVENT, lambda event: told.append(event.seq))
    with caplog.at_level(logging.ERROR):
        event = session.append(SessionTitle("a"))
    assert session.events == [event]
    assert told == [0]
    assert "broken observer" in caplog.text


def test_the_parents_observers_hear_it_and_other_sessions_do_not() -> None:
    bus, journal = Bus(), MemoryJournal()
    sessions = [
        Session(header, journal.create(header), bus)
        for header in (HEADER, replace(HEADER, id="other"))
    ]
    all_told: list[str] = []
    own_told: list[str] = []
    bus.on(SESSION_EVENT, lambda event: all_told.append(event.session))
    sessions[0].bus.on(SESSION_EVENT, lambda event: own_told.append(event.session))
    for session in sessions:
        session.append(SessionTitle("a"))
    assert (all_told, own_told) == (["s", "other"], ["s"])


# --- deferral ------------------------------------------------------------------------------------


def test_deferred_functions_run_after_every_observer_in_order(session: Session) -> None:
    order: list[str] = []

    def first(event: SessionEvent) -> None:
        if event.seq == 0:
            session.defer(lambda: order.append("deferred 1"))
            session.defer(lambda: session.append(SessionTitle("b")))
            session.defer(lambda: order.append("deferred 2"))

    session.bus.on(SESSION_EVENT, first)
    session.bus.on(SESSION_EVENT, lambda event: order.append(f"observed {event.seq}"))
    session.append(SessionTitle("a"))
    assert order == ["observed 0", "deferred 1", "observed 1", "deferred 2"]


def test_outside_an_append_it_runs_at_once(session: Session) -> None:
    order: list[str] = []
    session.defer(lambda: order.append("ran"))
    order.append("after")
    assert order == ["ran", "after"]


def test_a_failing_deferred_function_is_contained(
    session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    order: list[str] = []

    def broken(event: SessionEvent) -> None:
        session.defer(lambda: 1 / 0)
        session.defer(lambda: order.append("next"))

    session.bus.on(SESSION_EVENT, broken)
    with caplog.at_level(logging.ERROR):
        session.append(SessionTitle("a"))
    assert order == ["next"]
    assert "deferred function" in caplog.text


def test_deferral_may_go_on_for_long(session: Session) -> None:
    def again(event: SessionEvent) -> None:
        if event.seq < 5000:
            session.defer(lambda: session.append(SessionTitle(str(event.seq))))

    session.bus.on(SESSION_EVENT, again)
    session.append(SessionTitle("a"))
    assert len(session.events) == 5001


def test_what_was_deferred_runs_also_when_the_append_is_refused(session: Session) -> None:
    order: list[str] = []

    def refuse(session: Session, fact: Fact) -> None:
        session.defer(lambda: order.append("deferred"))
        raise FactRefused("no")

    session.validators.append(refuse)
    with pytest.raises(FactRefused):
        session.append(SessionTitle("a"))
    assert order == ["deferred"]


# --- flush ---------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_flush_awaits_the_log_and_everybody_else() -> None:
    lines = Lines()
    session = Session(HEADER, lines, Bus())
    others: list[str] = []

    async def other(header: SessionHeader) -> None:
        await anyio.lowlevel.checkpoint()
        others.append(header.id)

    session.bus.on(SESSION_FLUSH, other)
    with anyio.fail_after(10):
        await session.flush()
    assert (lines.flushed, others) == (1, ["s"])


@pytest.mark.anyio
async def test_flush_raises_what_failed_when_all_have_settled() -> None:
    lines = Lines()
    session = Session(HEADER, lines, Bus())

    async def broken(header: SessionHeader) -> None:
        raise OSError("full")

    session.bus.on(SESSION_FLUSH, broken)
    with anyio.fail_after(10), pytest.raises(OSError, match="full"):
        await session.flush()
    assert lines.flushed == 1


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", [VIRTUAL], ids=["virtual"])
async def test_a_flush_does_not_wait_for_good() -> None:
    lines = Lines()
    session = Session(HEADER, lines, Bus())
    session.bus.on(SESSION_FLUSH, lambda _: anyio.sleep_forever())
    with anyio.fail_after(LONG / 2), pytest.raises(TimeoutError, match="within 30 s"):
        await session.flush()
    assert lines.flushed == 1


def test_a_session_continues_where_its_events_end(session: Session) -> None:
    session.append(TurnStart(1, ("m",)))
    again = Session(HEADER, Lines(), Bus(), session.events)
    with pytest.raises(FactRefused, match="turn 1 is still open"):
        again.append(TurnStart(2, ("n",)))
    assert again.append(SessionTitle("a")).seq == 1
