"""A running command's window: the end of what it printed, and not much more traffic than that."""

from __future__ import annotations

import base64
import codecs
from itertools import accumulate

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from acp_server.limits import cost
from acp_server.terminal import LARGEST, PAUSE, WINDOW, Terminal
from harness_core.tools.output import plain_text

PIECES = st.lists(
    st.tuples(
        st.builds(
            bytes.__mul__,
            st.sampled_from(
                [b"x", b"a line\n", "日😀é".encode(), b"\xf0\x9f", b"\xff\x1b[0m", b"\x1b[3", b"\r"]
            ),
            st.sampled_from([1, 3, 100, 3000]),
        ),
        st.sampled_from([0, 1, PAUSE - 1, PAUSE, 10 * PAUSE]),
    ),
    max_size=40,
)


def fed(pieces: list[tuple[bytes, int]]) -> list[str | None]:
    """What is shown after each piece, which comes so many milliseconds after the one before."""
    terminal = Terminal()
    times = accumulate((pause for _, pause in pieces), initial=1_000)
    next(times)
    return [
        terminal.feed(base64.b64encode(data).decode(), time)
        for (data, _), time in zip(pieces, times, strict=True)
    ]


@given(PIECES)
def test_what_is_shown_is_the_end_of_what_was_printed(pieces: list[tuple[bytes, int]]) -> None:
    printed = b""
    for (data, _), shown in zip(pieces, fed(pieces), strict=True):
        printed += data
        if shown is not None:
            text = shown.removeprefix("…\n").removeprefix("…")
            whole = plain_text(codecs.getincrementaldecoder("utf-8")("replace").decode(printed))
            assert whole.endswith(text)
            assert cost(shown) <= LARGEST + 20
            assert len(text) > min(len(whole) - 4, LARGEST // 7) or b"\r" in printed


@given(PIECES)
@example([(b"a line of output\n", 0)] * 5_000)
@example([(b"a" * 16_384, 0)] * 100)
def test_a_flood_costs_little_more_than_itself(pieces: list[tuple[bytes, int]]) -> None:
    at_once = [(data, 0) for data, _ in pieces]
    sent = sum(len(shown) for shown in fed(at_once) if shown)
    assert sent <= 3 * sum(len(data) for data, _ in pieces) + WINDOW


@given(PIECES)
def test_a_trickle_costs_a_window_a_pause_at_most(pieces: list[tuple[bytes, int]]) -> None:
    sent = sum(len(shown) for shown in fed(pieces) if shown)
    pauses = sum(min(pause // PAUSE, 1) for _, pause in pieces)
    elapsed = sum(pause for _, pause in pieces) // PAUSE
    printed = sum(len(data) for data, _ in pieces)
    assert sent <= 3 * printed + (WINDOW + 2) * (1 + max(pauses, elapsed))


def test_the_first_output_is_shown_at_once() -> None:
    assert fed([(b"$ ", 0)]) == ["$ "]


def test_a_character_is_never_cut_in_two() -> None:
    smile = "😀".encode()
    assert fed([(smile[:2], 0), (smile[2:], PAUSE)]) == [None, "😀"]


@pytest.mark.parametrize("data", ["", base64.b64encode(b"").decode()])
def test_no_output_shows_nothing(data: str) -> None:
    assert Terminal().feed(data, 0) is None


def test_what_it_holds_can_be_asked_for_at_any_time() -> None:
    terminal = Terminal()
    for letter in b"abc":
        terminal.feed(base64.b64encode(bytes([letter])).decode(), 0)
    assert terminal.text == "abc"


def test_a_line_that_is_drawn_often_takes_the_room_of_one() -> None:
    drawn = [b"before\n", *[b"\r%4d %% done" % n for n in range(2_000)], b"\r", b"\n"]
    *_, shown = fed([(piece, PAUSE) for piece in drawn])
    assert shown == "before\n1999 % done\n"


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_what_came_too_soon_is_shown_when_nothing_follows_it() -> None:
    terminal = Terminal()
    assert terminal.feed(encoded("starting\n"), 1_000) == "starting\n"
    assert terminal.feed(encoded("listening\n"), 1_010) is None
    assert terminal.rest(1_000 + PAUSE - 1) is None
    assert terminal.rest(1_000 + PAUSE) == "starting\nlistening\n"
    assert terminal.rest(1_000 + 3 * PAUSE) is None
