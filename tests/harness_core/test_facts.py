"""The fact vocabulary: what is written is what is read, and what nobody knows is named."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from harness_core.content import Json, Text
from harness_core.facts import (
    Fact,
    FactError,
    FactRefused,
    Opaque,
    PlanWrite,
    ToolReturned,
    TurnStart,
    UnknownFact,
    decode,
)
from harness_core.frozen import freeze
from harness_core.session import SessionEvent, decode_line, encode

FactsOf = Callable[[type[Fact]], SearchStrategy[Fact]]

TYPES = sorted(
    type
    for type, cls in Fact.registry.items()
    if cls.__module__ == Fact.__module__ and cls is not Opaque
)


def through_the_log(fact: Fact) -> Fact:
    """What a reader gets."""
    return decode_line("s", encode(SessionEvent("s", 0, 1, fact))).fact


@pytest.fixture
def registry() -> Iterator[dict[str, type[Fact]]]:
    """The registry; types that a test adds are gone after it."""
    before = dict(Fact.registry)
    yield Fact.registry
    for type in Fact.registry.keys() - before.keys():
        del Fact.registry[type]


@pytest.mark.parametrize("type", TYPES)
@settings(max_examples=30)
@given(data=st.data())
def test_every_fact_reads_back_equal(type: str, data: st.DataObject, facts_of: FactsOf) -> None:
    event = SessionEvent("s", 7, 1_730_000_000_000, data.draw(facts_of(Fact.registry[type])))
    assert decode_line("s", encode(event)) == event


@given(data=st.data())
def test_a_line_is_one_line_of_json(data: st.DataObject, any_facts: SearchStrategy[Fact]) -> None:
    fact = data.draw(any_facts)
    line = encode(SessionEvent("s", 3, 4, fact))
    assert b"\n" not in line
    record = orjson.loads(line)
    assert (record["seq"], record["time"], record["type"]) == (3, 4, fact.type)


def test_the_design_names_these_types() -> None:
    assert set(TYPES) >= {
        "turn/start",
        "turn/end",
        "step/start",
        "step/end",
        "user/message",
        "assistant/chunk",
        "assistant/message",
        "tool/call",
        "tool/output",
        "tool/result",
        "approval/asked",
        "approval/decided",
        "approval/rule",
        "plan/write",
        "request/header",
        "request/context",
        "llm/retry",
        "compaction/start",
        "compaction/summary",
        "compaction/end",
        "session/title",
        "session/option",
        "session/seed-end",
    }


# --- plugins -------------------------------------------------------------------------------------


def test_a_plugin_adds_its_own_fact_and_its_lines_say_who_wrote_them(
    registry: dict[str, type[Fact]],
) -> None:
    class Seen(Fact, type="weather/seen"):
        sky: str

    line = encode(SessionEvent("s", 0, 1, Seen("blue")))
    assert orjson.loads(line)["writer"] == __name__
    assert decode_line("s", line).fact == Seen("blue")
    assert registry["weather/seen"] is Seen


def test_a_type_can_be_taken_once(registry: dict[str, type[Fact]]) -> None:
    with pytest.raises(TypeError, match="turn/start"):

        class Again(Fact, type="turn/start"):
            pass

    assert registry["turn/start"] is TurnStart


def test_a_field_that_would_not_be_written_is_refused(registry: dict[str, type[Fact]]) -> None:
    with pytest.raises(TypeError, match="_secret"):

        class Hiding(Fact, type="hiding/something"):
            _secret: str

    assert "hiding/something" not in registry


def test_facts_are_frozen() -> None:
    fact: Any = TurnStart(1, ("m",))
    with pytest.raises(AttributeError):
        fact.turn = 2


def test_an_unknown_fact_names_its_type_and_its_writer() -> None:
    with pytest.raises(UnknownFact, match=r"'mars/landed' \(written by acp_mars\).*plugin"):
        decode("mars/landed", {}, writer="acp_mars")


def test_an_unknown_fact_that_may_be_skipped_is_kept_as_it_was_written() -> None:
    line = b'{"seq":0,"time":1,"type":"mars/seen","data":{"a":[1]},"ignorable":true,"writer":"w"}'
    event = decode_line("s", line)
    assert event.fact == Opaque("mars/seen", {"a": [1]}, "w")
    assert orjson.loads(encode(event)) == orjson.loads(line)


@pytest.mark.parametrize("flag", [b'"yes"', b"1", b"null", b"false"])
def test_only_true_makes_an_unknown_fact_ignorable(flag: bytes) -> None:
    line = b'{"seq":0,"time":1,"type":"mars/seen","data":{},"ignorable":%s}' % flag
    with pytest.raises(UnknownFact):
        decode_line("s", line)


# --- what is not a fact --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type", "data", "where"),
    [
        ("turn/start", {"turn": "one", "messages": []}, "turn"),
        ("turn/start", {"turn": 1}, "messages"),
        ("turn/start", [], "turn/start"),
        ("turn/end", {"turn": 1, "reason": {"kind": "bored"}}, "reason.kind"),
        ("assistant/chunk", {"turn": 1, "step": 1, "attempt": 1, "chunk": {"type": "?"}}, "chunk"),
    ],
)
def test_bad_data_is_named(type: str, data: Json, where: str) -> None:
    with pytest.raises(FactError, match=rf"{type}.*{where}|not a valid {where}"):
        decode(type, data)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b"null",
        b"{}",
        b'"text"',
        b'{"seq":0,"time":1,"type":"turn/start"}',
        b'{"seq":"0","time":1,"type":"turn/start","data":{}}',
        b'{"seq":0,"time":null,"type":"turn/start","data":{}}',
        b'{"seq":0,"time":1,"type":[],"data":{}}',
        b'{"seq":0,"time":1,"type":"plan/write","data":{"entries":[{"content":"\xff"}]}}',
        b"[" * 3000,
    ],
)
def test_a_line_that_is_no_event_is_a_value_error(line: bytes) -> None:
    with pytest.raises(ValueError):
        decode_line("s", line)


@given(st.binary())
def test_no_bytes_break_the_reader(line: bytes) -> None:
    with pytest.raises(ValueError):
        decode_line("s", line)


def test_an_error_does_not_repeat_what_the_data_held() -> None:
    with pytest.raises(FactError) as caught:
        decode("plan/write", {"entries": "token-4711"})
    assert "4711" not in str(caught.value)


def test_a_list_where_a_tuple_belongs_is_read_as_a_tuple() -> None:
    fact: Any = PlanWrite([])  # type: ignore[arg-type]
    assert through_the_log(fact) == PlanWrite(())


# --- frozen values -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda meta: meta.update(a=1),
        lambda meta: meta.__setitem__("a", 1),
        lambda meta: meta.pop("list"),
        lambda meta: meta.clear(),
        lambda meta: meta["list"].append(4),
        lambda meta: meta["list"].sort(),
        lambda meta: meta["list"].__setitem__(0, 5),
        lambda meta: meta["list"][2].setdefault("deep", 5),
    ],
)
def test_what_was_read_cannot_be_changed(change: Callable[[Any], object]) -> None:
    meta = {"list": [1, 2, {"deep": [3]}]}
    fact = through_the_log(ToolReturned(1, 1, "c", "n", (Text("x"),), None, meta))
    assert isinstance(fact, ToolReturned)
    with pytest.raises(TypeError, match="copy"):
        change(fact.meta)
    assert fact.meta == meta


def test_frozen_values_are_plain_values_to_readers_and_in_copies() -> None:
    frozen = freeze({"a": [1, {"b": (2,)}]})
    plain = {"a": [1, {"b": [2]}]}
    assert orjson.dumps(frozen) == orjson.dumps(plain)
    for copied in (copy.deepcopy(frozen), pickle.loads(pickle.dumps(frozen))):
        copied["a"][1]["b"].append(3)
        assert copied == {"a": [1, {"b": [2, 3]}]}
    shallow = dict(frozen)
    shallow["c"] = 1
    assert frozen == plain


def test_frozen_values_may_be_logged_again() -> None:
    fact = through_the_log(ToolReturned(1, 1, "c", "n", (), None, {"a": [1]}))
    assert through_the_log(fact) == fact


def test_refusals_are_fact_errors_and_fact_errors_are_value_errors() -> None:
    assert issubclass(FactRefused, FactError)
    assert issubclass(FactError, ValueError)
