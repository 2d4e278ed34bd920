"""Searching: the same lines as the plain reading finds, and the shortcut never loses one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness_core.tools.search import Query, needle, search

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git, the judge, is missing")

ATOMS = st.sampled_from(
    [
        "a",
        "b",
        "K",
        "é",
        ".",
        r"\w",
        r"\s",
        r"\.",
        "[ab]",
        "[^a]",
        r"[\]x]",
        "(a)",
        "(?:ab)",
        "(a|b)",
    ]
)
REPEATS = st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{0,1}", "*?"])
PIECES = st.builds(lambda atom, repeat: atom + repeat, ATOMS, REPEATS)
SEQUENCES = st.lists(PIECES, min_size=1, max_size=5).map("".join)
PATTERNS = st.builds(
    lambda start, parts, end: start + "|".join(parts) + end,
    st.sampled_from(["", "", "^", r"\b"]),
    st.lists(SEQUENCES, min_size=1, max_size=2),
    st.sampled_from(["", "", "$"]),
)
LINES = st.text(st.sampled_from("abkKé. ]x\u212a"), max_size=10)


@given(PATTERNS, LINES)
@settings(max_examples=200)
def test_every_match_contains_the_needle(pattern: str, line: str) -> None:
    if found := re.search(pattern, line):
        assert needle(pattern) in found[0]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("def foo", "def foo"),
        (r"class \w+Errors\(", "Errors("),
        ("colou?r", "colo"),
        ("a+b", "a"),
        ("(foo|bar)_tail", "_tail"),
        ("foo|bar", ""),
        ("x{2}yz", "yz"),
        (r"\d+", ""),
        ("(?i)foo", ""),
        (r"\x41bc", ""),
        ("foo(?=bar)", ""),
        ("a{", ""),
    ],
)
def test_the_needle_of_usual_patterns(pattern: str, expected: str) -> None:
    assert needle(pattern) == expected


def found(place: Path, pattern: str, **more: Any) -> list[tuple[str, int, str]]:
    """The matching lines of a search: path, number, text."""
    query = Query(pattern, str(place), str(place), **{"limit": 10**6, "budget": 10**9, **more})
    *hits, _ = search(query)
    return [
        (hit["path"], number, text)
        for hit in hits
        for number, text, matches in hit["rows"]
        if matches
    ]


TREES = st.dictionaries(
    st.sampled_from(["a.txt", "b/c.txt", "b/d.py", "é.txt"]),
    st.lists(LINES, max_size=6),
    min_size=1,
)


@given(TREES, PATTERNS, st.booleans(), st.sampled_from(["\n", "\r\n"]))
@settings(max_examples=150, deadline=None)
def test_a_search_finds_the_lines_that_match(
    tree: dict[str, list[str]], pattern: str, ignore_case: bool, newline: str
) -> None:
    regex = re.compile(pattern, re.IGNORECASE if ignore_case else 0)
    with tempfile.TemporaryDirectory() as name:
        for path, lines in tree.items():
            file = Path(name, path)
            file.parent.mkdir(exist_ok=True)
            file.write_bytes("".join(line + newline for line in lines).encode())
        expected = [
            (path, number, line)
            for path in sorted(tree)
            for number, line in enumerate(tree[path], 1)
            if regex.search(line)
        ]
        assert found(Path(name), pattern, ignore_case=ignore_case) == expected


@needs_git
@given(TREES, st.text(st.sampled_from("abk. ^$*"), min_size=1, max_size=4), st.booleans())
@settings(max_examples=30, deadline=None)
def test_literal_text_is_found_where_git_grep_finds_it(
    tree: dict[str, list[str]], text: str, ignore_case: bool
) -> None:
    with tempfile.TemporaryDirectory() as name:
        for path, lines in tree.items():
            file = Path(name, path)
            file.parent.mkdir(exist_ok=True)
            file.write_bytes("".join(line + "\n" for line in lines).encode())
        listed = subprocess.run(
            ["git", "grep", "--no-index", "-nzF", *(["-i"] if ignore_case else []), "-e", text],
            cwd=name,
            env={"PATH": os.environ["PATH"], "HOME": name, "LC_ALL": "C.UTF-8"},
            capture_output=True,
            timeout=60,
            check=False,
        )
        by_git = [tuple(row.split("\0")) for row in listed.stdout.decode().split("\n")[:-1]]
        ours = found(Path(name), text, literal=True, ignore_case=ignore_case)
        assert sorted((path, str(number), line) for path, number, line in ours) == sorted(by_git)


def test_binary_files_and_links_are_not_searched(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"needle\0")
    (tmp_path / "text").write_bytes(b"needle \xff\n")
    (tmp_path / "link").symlink_to("text")
    assert found(tmp_path, "needle") == [("text", 1, "needle \ufffd")]


def test_a_long_line_is_cut_around_its_match(tmp_path: Path) -> None:
    (tmp_path / "min.js").write_text("x" * 5000 + "needle" + "y" * 5000)
    ((_, _, line),) = found(tmp_path, "needle")
    assert "needle" in line
    assert len(line) < 400


def test_what_stops_a_search_is_said(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\n" * 10)
    (tmp_path / "b").write_text("x\n")

    def stopped(**more: Any) -> str | None:
        *_, end = search(Query("x", str(tmp_path), str(tmp_path), **more))
        reason: str | None = end["end"]["stopped"]
        return reason

    assert stopped(limit=11) is None
    assert stopped(limit=10) == "limit"
    assert stopped(limit=3) == "limit"
    assert stopped(limit=1, names=True) == "limit"
    assert stopped(limit=2, names=True) is None
    assert stopped(seconds=-1.0) == "time"
