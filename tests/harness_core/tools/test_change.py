"""What a result keeps of a change is bounded, and shows the change."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness_core.tools.cards import CARD_BYTES, cost
from harness_core.tools.change import CONTEXT, change, diffs, first_line
from harness_core.tools.text import split
from harness_core.tools.tool import Diff

big = "".join(f"line {number} of a long file\n" for number in range(1, 5001))


def test_a_small_change_is_kept_whole() -> None:
    meta = change("a\nb\nc\n", "a\nB\nc\n")
    assert diffs("/p", meta) == (Diff("/p", "a\nB\nc\n", "a\nb\nc\n"),)
    assert first_line(meta) == 2


def test_a_new_file_has_no_old_text() -> None:
    assert diffs("/p", change(None, "a\n")) == (Diff("/p", "a\n", None),)


def test_of_a_large_file_only_the_changed_passages_are_kept() -> None:
    new = big.replace("line 100 ", "LINE 100 ").replace("line 4000 ", "LINE 4000 ")
    meta = change(big, new)
    first, second = diffs("/p", meta)
    assert first_line(meta) == 100
    assert first.old is not None
    assert first.old.splitlines()[3] == "line 100 of a long file"
    assert first.new.splitlines()[3] == "LINE 100 of a long file"
    assert len(first.new.splitlines()) == 7
    assert "LINE 4000 of a long file" in second.new


def test_passages_that_do_not_fit_are_counted() -> None:
    new = big.replace("0 of", "0 OF")
    meta = change(big, new)
    assert meta["left_out"] > 0


def test_a_result_that_something_else_replaced_has_no_diffs() -> None:
    assert diffs("/p", None) == ()
    assert first_line({"other": 1}) == 1


def test_an_insertion_and_a_deletion_far_apart_are_two_passages() -> None:
    lines = big.splitlines(keepends=True)[:1500]
    new = [*lines[:10], "inserted\n", *lines[10:1400], *lines[1401:]]
    first, second = diffs("/p", change("".join(lines), "".join(new)))
    assert "inserted" in first.new
    assert second.old is not None
    assert second.old.replace("line 1401 of a long file\n", "") == second.new


rows = st.lists(st.sampled_from(["a\n", "b\n", "c\n"]), max_size=60)


@given(rows, rows)
def test_passages_undo_the_change_where_they_say(old: list[str], new: list[str]) -> None:
    pad = [f"{number} {'x' * 100}\n" for number in range(200)]
    before, after = "".join([*pad, *old, *pad]), "".join([*pad, *new, *pad])
    turned = split(after)
    for passage in reversed(change(before, after)["passages"]):
        start, shown = max(0, passage["line"] - 1 - CONTEXT), split(passage["new"])
        assert turned[start : start + len(shown)] == shown
        turned[start : start + len(shown)] = split(passage["old"])
    assert "".join(turned) == before


texts = st.text(st.sampled_from('ab\n\r\t\x00"é😀\ufeff\udc80')).map(lambda text: text * 400)


@given(st.none() | texts, texts)
def test_what_is_kept_fits_a_card(old: str | None, new: str) -> None:
    meta = change(old, new)
    kept = sum(cost(p["new"]) + cost(p.get("old", "")) for p in meta["passages"])
    assert kept <= CARD_BYTES * 1.1
