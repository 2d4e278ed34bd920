"""What becomes of output: bounded whatever comes, and no character is cut in two."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from harness_core.tools.output import (
    Live,
    Unescaped,
    Window,
    excerpt,
    from_whole,
    last_states,
    plain,
    whole,
)

texts = st.text(st.sampled_from("aé€😀\n"), max_size=60)
chunks = st.lists(st.binary(max_size=40), max_size=20)


@given(chunks, st.integers(1, 50), st.integers(1, 50))
def test_a_window_keeps_the_beginning_and_the_end(parts: list[bytes], head: int, tail: int) -> None:
    window, every = Window(head, tail), b"".join(parts)
    for part in parts:
        window.feed(part)
    assert window.total == len(every)
    if len(every) <= head + tail:
        assert window.data() == every
    else:
        before, _, rest = window.data().partition(b"\n[")
        _, _, after = window.data().rpartition("…]\n".encode())
        assert every.startswith(before)
        assert every.endswith(after)
        assert len(rest) < head + tail + 100


@given(st.integers(0, 2000), st.integers(1, 300))
def test_a_window_is_bounded_however_it_is_fed(count: int, size: int) -> None:
    window = Window(1000, 1000)
    for _ in range(count):
        window.feed(b"x" * size)
    assert len(window.data()) <= 2000 + 100


@given(texts, st.integers(0, 240))
def test_no_cut_splits_a_character(text: str, at: int) -> None:
    data = text.encode()
    first, last = whole(data[:at]), from_whole(data[at:])
    assert data.startswith(first)
    assert data.endswith(last)
    assert text.startswith(first.decode())
    assert text.endswith(last.decode())
    assert len(data) - len(first) - len(last) <= 4


@given(st.binary(max_size=80))
def test_cuts_of_any_bytes_lose_at_most_a_character(data: bytes) -> None:
    assert data.startswith(whole(data))
    assert data.endswith(from_whole(data))
    assert len(data) - len(whole(data)) <= 3
    assert len(data) - len(from_whole(data)) <= 3


@given(texts, st.integers(4, 40), st.integers(4, 40))
def test_an_excerpt_is_a_beginning_and_an_end(text: str, head: int, tail: int) -> None:
    data = text.encode()
    shown = excerpt(data, head, tail)
    if len(data) <= head + tail:
        assert shown.head == text
        assert not shown.left_out
    else:
        assert text.startswith(shown.head)
        assert text.endswith(shown.tail)
        assert len(shown.head.encode()) <= head
        assert len(shown.tail.encode()) <= tail
        shown_bytes = len(shown.head.encode()) + len(shown.tail.encode())
        assert shown.left_out == len(data) - shown_bytes


class Tape:
    """A ``Live`` under a clock of its own, and what it passed on, when."""

    def __init__(self) -> None:
        self.live = Live()
        self.now = 0.0
        self.pieces: list[tuple[float, bytes]] = []

    def feed(self, data: bytes) -> None:
        self.pieces += [(self.now, piece) for piece in self.live.feed(data, self.now)]

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.pieces += [(self.now, piece) for piece in self.live.due(self.now)]

    def end(self) -> bytes:
        self.pieces += [(self.now, piece) for piece in self.live.rest()]
        return b"".join(piece for _, piece in self.pieces)


@given(st.lists(st.tuples(st.binary(max_size=9), st.integers(0, 100)), max_size=30))
def test_live_output_is_passed_on_complete_and_in_order(parts: list[tuple[bytes, int]]) -> None:
    tape = Tape()
    for data, pause in parts:
        tape.feed(data)
        tape.wait(pause / 1000)
    assert tape.end() == b"".join(data for data, _ in parts)


@given(st.lists(st.integers(0, 100), max_size=60))
def test_small_pieces_are_gathered(pauses: list[int]) -> None:
    tape = Tape()
    for pause in pauses:
        tape.feed(b"x")
        tape.wait(pause / 1000)
    assert all(b - a >= Live.INTERVAL for (a, _), (b, _) in pairwise(tape.pieces))


def test_the_first_output_does_not_wait() -> None:
    tape = Tape()
    tape.feed(b"hello")
    assert tape.pieces == [(0.0, b"hello")]


@given(st.text(st.sampled_from("aé€😀"), min_size=1, max_size=30))
def test_pieces_hold_whole_characters(text: str) -> None:
    tape = Tape()
    for byte in text.encode() * 50:
        tape.feed(bytes([byte]))
        tape.wait(0.01)
    assert tape.end().decode() == text * 50
    assert [piece.decode() for _, piece in tape.pieces]


def test_a_flood_is_cut_down_to_glimpses() -> None:
    tape = Tape()
    for number in range(20_000):
        tape.feed(f"{number:08}\n".encode() * 1000)
        tape.wait(0.001)
    seconds, data = tape.now, tape.end()
    assert len(data) < Live.FULL + Live.PIECE + (seconds + 2) * (Live.GLIMPSE + 100)
    assert data.endswith(b"00019999\n")
    assert b"bytes not shown" in data
    assert max(len(piece) for _, piece in tape.pieces) <= Live.PIECE


def test_output_as_text_shows_what_a_terminal_would() -> None:
    assert plain(b"\x1b[31mred\x1b[0m \x1b]0;title\x07end") == "red end"
    assert plain(b"10%\r50%\r100%\ndone\r\n") == "100%\ndone\n"
    assert plain(b"\xff\xfe ok") == "\ufffd\ufffd ok"
    assert plain(b"\x1b]a title without an end\nnext") == "\nnext"
    assert plain(b"cut off\x1b[3") == "cut off"


PIECES = [
    b"\x1b",
    b"[",
    b"]",
    b"\\",
    b"\x07",
    b"P",
    b"3",
    b"1;2",
    b" ",
    b"m",
    b"x",
    b"\r",
    b"\n",
    b"\xc3\xbc",
]


@given(st.lists(st.sampled_from(PIECES)).map(b"".join), st.lists(st.integers(0, 9)))
def test_output_is_as_plain_in_any_pieces(data: bytes, sizes: list[int]) -> None:
    unescaped, text, rest = Unescaped(), "", data
    for size in sizes:
        text += unescaped.feed(rest[:size])
        rest = rest[size:]
    text += unescaped.feed(rest)
    assert last_states(text) == plain(data)
    assert "\x1b" not in text


@given(st.binary(max_size=200))
def test_any_output_becomes_valid_text(data: bytes) -> None:
    plain(data).encode("utf-8")
