"""Globs read as people write them."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_core.tools.globs import BadGlob, compile_glob, expand

CASES = [
    ("*.py", ["a.py", "x/a.py", "x/y/a.py", ".py"], ["a.pyc", "a.py/b"]),
    ("src/*.py", ["src/a.py"], ["a.py", "src/x/a.py", "y/src/a.py"]),
    ("src/**/*.py", ["src/a.py", "src/x/y/a.py"], ["a.py", "srcs/a.py"]),
    ("**/*.py", ["a.py", "x/y/a.py"], ["a.js"]),
    ("src/**", ["src/a", "src/x/b"], ["src", "a/src/b"]),
    ("**", ["a", "x/b"], []),
    ("./a.py", ["a.py", "x/a.py"], []),
    ("/a.py", ["a.py"], ["x/a.py"]),
    ("*.{ts,tsx}", ["a.ts", "x/b.tsx"], ["a.js", "a.{ts,tsx}"]),
    ("{src,test}/**/*.{c,h}", ["src/a.c", "test/x/y.h"], ["lib/a.c"]),
    ("a{b,{c,d}}", ["ab", "ac", "ad"], ["a", "abc"]),
    ("a{b}", ["a{b}"], ["ab"]),
    ("file?.txt", ["file1.txt"], ["file.txt", "file12.txt", "x/file/.txt"]),
    ("[abc].py", ["a.py"], ["d.py", "ab.py"]),
    ("[!abc].py", ["d.py"], ["a.py"]),
    ("[a-c0-9]", ["b", "5"], ["d", "-"]),
    ("[]x]", ["]", "x"], ["a"]),
    ("[[:digit:]]*", ["1a"], ["a1"]),
    (r"\[id\].tsx", ["[id].tsx"], ["i.tsx"]),
    (r"a\*b", ["a*b"], ["axb"]),
    ("a*b*c", ["abc", "aXbYbZc"], ["acb", "abcd"]),
    ("übung*", ["übung.py", "x/übungen"], ["ubung"]),
]


@pytest.mark.parametrize(("pattern", "matching", "others"), CASES)
def test_a_glob_matches_what_it_says(pattern: str, matching: list[str], others: list[str]) -> None:
    glob = compile_glob(pattern)
    assert [path for path in matching if not glob.match(path)] == []
    assert [path for path in others if glob.match(path)] == []


@pytest.mark.parametrize("pattern", ["[abc", "a\\", "[[:nope:]]", "{a,b}" * 9])
def test_a_glob_that_means_nothing_is_refused(pattern: str) -> None:
    with pytest.raises(BadGlob):
        compile_glob(pattern)


@given(st.text("ab*?[]!-{},\\/.", max_size=20), st.text("ab/.", max_size=20))
def test_any_glob_is_read_or_refused(pattern: str, path: str) -> None:
    with contextlib.suppress(BadGlob):
        compile_glob(pattern).match(path)


@given(st.text("ab*", min_size=1, max_size=8), st.text("ab", min_size=1, max_size=8))
def test_stars_stand_for_any_text_in_a_name(pattern: str, name: str) -> None:
    def stands(pattern: str, name: str) -> bool:
        if not pattern:
            return not name
        if pattern[0] == "*":
            return any(stands(pattern[1:], name[at:]) for at in range(len(name) + 1))
        return name.startswith(pattern[0]) and stands(pattern[1:], name[1:])

    assert bool(compile_glob(pattern).match(name)) == stands(pattern, name)


def test_many_stars_do_not_take_exponential_time() -> None:
    assert not compile_glob("*a" * 30 + "b").match("a" * 250)


def test_braces_are_written_out_in_order() -> None:
    assert expand("{a,b}{c,}") == ["ac", "a", "bc", "b"]
