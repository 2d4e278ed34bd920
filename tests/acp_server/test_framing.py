"""Framing: where lines end, what they are, and how ours are written.

Everything is fed in every chunking; nothing that a client sends may raise.
"""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from acp_server.framing import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    Invalid,
    LineSplitter,
    Message,
    Notification,
    Oversized,
    Request,
    Response,
    classify,
    encode,
    loads,
    parse,
)

TEXT = st.text(st.sampled_from('aé"\\\0\n\r\v\f\x1c\x7f\x85\u2028\u2029\ufeff\uffff日\U0001f600'))
SCALARS = st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
NUMBERS = st.integers(-(2**63), 2**64 - 1)
JSON = st.recursive(
    SCALARS | NUMBERS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=12,
)
MANGLED = st.text(st.sampled_from('a\\"\n\0é日\u2028\U0001f600\ud800\udbff\udc00\udfff'))
"""Text that may hold halves of surrogate pairs."""

LINES = st.lists(st.binary(max_size=12) | st.sampled_from([b"\n", b"\r\n", b"\n\n", b"{}", b""]))


def cut(data: bytes, sizes: Iterable[int]) -> list[bytes]:
    """``data`` in pieces of these sizes; the rest is one piece."""
    pieces = []
    for size in sizes:
        pieces.append(data[:size])
        data = data[size:]
    return [*pieces, data]


def split(pieces: Iterable[bytes], limit: int = 1 << 20) -> list[bytes | Oversized]:
    splitter = LineSplitter(limit)
    lines = [line for piece in pieces for line in splitter.feed(piece)]
    return lines + splitter.finish()


# --- lines -------------------------------------------------------------------------------------


@given(LINES.map(b"".join), st.lists(st.integers(0, 9)))
def test_lines_do_not_depend_on_how_the_bytes_arrive(data: bytes, sizes: list[int]) -> None:
    expected = data.split(b"\n")
    if not expected[-1]:
        expected.pop()
    assert split(cut(data, sizes)) == expected


@given(LINES.map(b"".join), st.lists(st.integers(0, 9)), st.integers(0, 8))
def test_a_line_above_the_limit_is_dropped_and_measured_and_its_neighbours_are_not(
    data: bytes, sizes: list[int], limit: int
) -> None:
    lines = data.removesuffix(b"\n").split(b"\n") if data else []
    expected = [line if len(line) <= limit else Oversized(len(line)) for line in lines]
    assert split(cut(data, sizes), limit) == expected


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085", "\v", "\f", "\x1c", "\r"])
def test_nothing_but_a_line_feed_ends_a_line(separator: str) -> None:
    line = f"before{separator}after".encode()
    assert split([line + b"\n"]) == [line]


@pytest.mark.parametrize("piece", [1, 2, 4096], ids="pieces of {} bytes".format)
def test_memory_stays_bounded_whatever_a_client_sends(piece: int) -> None:
    splitter = LineSplitter(limit=1 << 14)
    data = b"x" * piece
    tracemalloc.start()
    try:
        for _ in range((1 << 15) // piece):
            assert splitter.feed(data) == []
        for _ in range(64):
            assert splitter.feed(b"y" * (1 << 14)) == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 16
    assert splitter.feed(b"\n{}\n") == [Oversized((1 << 15) + (1 << 20)), b"{}"]


# --- what a line is ----------------------------------------------------------------------------


def request(**fields: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **fields}).encode()


MESSAGES: dict[str, tuple[bytes, Message]] = {
    "a request": (
        request(id=1, method="m", params={"a": 1}),
        Request(1, "m", {"a": 1}),
    ),
    "an id that is a string": (request(id="1", method="m"), Request("1", "m", {})),
    "an id that is empty": (request(id="", method="m"), Request("", "m", {})),
    "an id of zero": (request(id=0, method="m"), Request(0, "m", {})),
    "a negative id": (request(id=-5, method="m"), Request(-5, "m", {})),
    "an id beyond a double": (request(id=2**53 + 1, method="m"), Request(2**53 + 1, "m", {})),
    "an id of null": (request(id=None, method="m"), Request(None, "m", {})),
    "params of null": (request(id=1, method="m", params=None), Request(1, "m", {})),
    "unknown fields": (request(id=1, method="m", x=1), Request(1, "m", {})),
    "a notification": (request(method="m", params={"a": 1}), Notification("m", {"a": 1})),
    "a notification whose params are a list": (
        request(method="m", params=[]),
        Notification("m", {}),
    ),
    "a result": (request(id=3, result={"a": 1}), Response(3, {"a": 1})),
    "a result of null": (request(id=3, result=None), Response(3, None)),
    "an error": (request(id=3, error={"code": 1}), Response(3, None, {"code": 1})),
    "an error to nobody": (request(id=None, error={"code": 1}), Response(None, None, {"code": 1})),
    "an answer whose id is none of ours": (request(id=1.5, result=1), Response(None, 1)),
    "an answer without an id": (request(result=1), Response(None, 1)),
    "an answer that forgot jsonrpc": (b'{"id":3,"result":1}', Response(3, 1)),
}


@pytest.mark.parametrize("case", MESSAGES)
@pytest.mark.parametrize("frame", ["{}", "{}\r", " \t{} ", "\ufeff{}"])
def test_a_message_is_told_by_its_members(case: str, frame: str) -> None:
    line, expected = MESSAGES[case]
    assert parse(frame.format(line.decode()).encode()) == expected


@pytest.mark.parametrize("line", [b"", b" ", b"\r", b"\t \r", b"\xef\xbb\xbf", b"\xef\xbb\xbf\r"])
def test_a_blank_line_is_nothing(line: bytes) -> None:
    assert parse(line) is None


REFUSED: dict[str, tuple[bytes, int, Any]] = {
    "an open brace": (b"{", PARSE_ERROR, None),
    "a shell's greeting": (b"Welcome back", PARSE_ERROR, None),
    "a terminal title before a message": (
        b"\x1b]0;t\x07" + request(id=1, method="m"),
        PARSE_ERROR,
        None,
    ),
    "two messages on a line": (request(id=1, method="m") * 2, PARSE_ERROR, None),
    "bytes that are not UTF-8": (b'{"a":"\xff"}', PARSE_ERROR, None),
    "bytes that are not UTF-8 beside an escape": (b'{"a":"\\ud800\xff"}', PARSE_ERROR, None),
    "NaN": (b'{"a":NaN}', PARSE_ERROR, None),
    "NaN beside an escape": (b'{"a":[NaN,"\\ud800"]}', PARSE_ERROR, None),
    "a number": (b"42", INVALID_REQUEST, None),
    "a string": (b'"x"', INVALID_REQUEST, None),
    "null": (b"null", INVALID_REQUEST, None),
    "an empty batch": (b"[]", INVALID_REQUEST, None),
    "a batch": (b"[" + request(id=1, method="m") + b"]", INVALID_REQUEST, None),
    "an empty object": (b"{}", INVALID_REQUEST, None),
    "no jsonrpc": (b'{"id":7,"method":"m"}', INVALID_REQUEST, 7),
    "another jsonrpc": (b'{"jsonrpc":"1.0","id":"a","method":"m"}', INVALID_REQUEST, "a"),
    "a method that is a number": (request(id=7, method=1), INVALID_REQUEST, 7),
    "no method": (request(id=7), INVALID_REQUEST, 7),
    "an id that is a boolean": (request(id=True, method="m"), INVALID_REQUEST, None),
    "an id that is false": (request(id=False, method="m"), INVALID_REQUEST, None),
    "an id that is a fraction": (request(id=1.5, method="m"), INVALID_REQUEST, None),
    "an id that is an object": (request(id={}, method="m"), INVALID_REQUEST, None),
    "an id beyond 64 bits": (request(id=2**64, method="m"), INVALID_REQUEST, None),
    "an id beyond 64 bits beside an escape": (
        request(id=2**70, method="\ud800"),
        INVALID_REQUEST,
        None,
    ),
    "params that are a list": (request(id=7, method="m", params=[]), INVALID_PARAMS, 7),
    "params that are a string": (request(id=7, method="m", params="x"), INVALID_PARAMS, 7),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_message_is_answered_with_the_error_that_the_protocol_names(case: str) -> None:
    line, code, id = REFUSED[case]
    message = parse(line)
    assert isinstance(message, Invalid)
    assert (message.code, message.id) == (code, id)


def answerable(message: Message | None) -> bool:
    """Whether an answer under the message's id is a line."""
    id = None if message is None or isinstance(message, Notification) else message.id
    return encode({"jsonrpc": "2.0", "id": id, "result": {}}).endswith(b"\n")


@given(st.binary())
@example(b'{"id":\xff')
@example(b"[" * 100_000)
@example(b'{"a":' * 100_000 + b'"\\ud800"' + b"}" * 100_000)
@example(b'{"a":"\\ud800","b":' + b"[" * 900 + b"]" * 900 + b"}")
@example(b'{"a":"\\ud800","b":' + b"9" * 5000 + b"}")
def test_no_bytes_are_too_strange_to_be_told_what_they_are(line: bytes) -> None:
    assert answerable(parse(line))


ODD_ID = JSON | st.integers() | MANGLED
OBJECTS = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | JSON,
        "id": ODD_ID,
        "method": MANGLED | JSON,
        "params": st.dictionaries(MANGLED, JSON) | JSON,
        "result": JSON,
        "error": JSON,
        "x": MANGLED,
    },
)


@given(OBJECTS)
def test_every_object_has_its_kind_and_an_id_that_can_be_answered(fields: dict[str, Any]) -> None:
    assert answerable(parse(json.dumps(fields).encode()))
    assert classify(loads(json.dumps(fields).encode()))


# --- text that is not quite text ----------------------------------------------------------------


@given(MANGLED, MANGLED)
def test_half_a_surrogate_pair_becomes_a_replacement_character(key: str, text: str) -> None:
    read = loads(json.dumps({key: [text]}).encode())
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert list(read.values()) == [[whole]]
    assert encode({"text": read})


def test_an_emoji_in_two_escapes_stays_an_emoji() -> None:
    assert loads(b'["\\ud83d\\ude00","\\ud83d","\\ude00 x"]') == [
        "\U0001f600",
        "\ufffd",
        "\ufffd x",
    ]


# --- what we write ------------------------------------------------------------------------------


@given(st.dictionaries(TEXT, JSON))
@example({"a": "\u2028\u2029\u0085\n\r\v\f\x1c", "\u2028": 1})
def test_a_message_is_one_line_for_every_reader_and_reads_back_as_itself(
    message: dict[str, Any],
) -> None:
    line = encode(message)
    assert line.endswith(b"\n")
    assert len(line.decode().splitlines()) == 1
    assert json.loads(line) == loads(line) == message


def test_text_beyond_ascii_travels_as_utf8() -> None:
    assert encode({"a": "Messgerät 日本 😀"}) == '{"a":"Messgerät 日本 😀"}\n'.encode()


def test_what_is_not_json_is_refused() -> None:
    with pytest.raises(TypeError):
        encode({"a": object()})
