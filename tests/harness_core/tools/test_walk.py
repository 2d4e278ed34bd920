"""Which files a walk finds: git itself is the judge."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness_core.tools.walk import Level, walk

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git, the judge, is missing")


def plant(place: Path, tree: Mapping[str, str]) -> None:
    for path, text in tree.items():
        file = place / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())


def found(directory: Path, root: Path | None = None) -> list[str]:
    return [file.path for file in walk(directory, root or directory)]


def by_git(place: Path) -> list[str]:
    """What git would add, by its own reading of the ignore files."""
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(place),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CEILING_DIRECTORIES": str(place.parent),
    }
    (place / ".git" / "objects").mkdir(parents=True)
    (place / ".git" / "refs").mkdir()
    (place / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    listed = subprocess.run(
        ["git", "-C", str(place), "ls-files", "-coz", "--exclude-per-directory=.gitignore"],
        check=True,
        env=env,
        capture_output=True,
        timeout=60,
    )
    return sorted(listed.stdout.decode().split("\0")[:-1])


NAMES = st.sampled_from(["a", "b", "ab", "a.b", ".x", "b c", "[a]", "a-b"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
ATOMS = st.sampled_from(
    [
        "a",
        "b",
        "*",
        "**",
        "?",
        "/",
        "/",
        ".",
        "[ab]",
        "[!a]",
        "[a-b]",
        "\\",
        " ",
        "-",
        "ab",
        "[",
        "c",
    ]
)
LINES = st.builds(
    lambda again, atoms, end: again + "".join(atoms) + end,
    st.sampled_from(["", "", "", "!", "#", "\\"]),
    st.lists(ATOMS, min_size=1, max_size=5),
    st.sampled_from(["", "", "/", " ", "\\ ", "/**", "\r"]),
)
# Left out, as git has readings of its own that nobody means: a slash between brackets, and two
# stars that are a part of a name.
ODD = re.compile(r"\[[^\]]*/ | [^/!]\*\* | \*\*[^/]", re.VERBOSE)
RULES = LINES.filter(lambda line: not ODD.search(line))
IGNORES = st.dictionaries(st.sampled_from(["", "a/", "b/", "a/b/"]), st.lists(RULES, max_size=4))


@needs_git
@given(st.sets(PATHS, min_size=1, max_size=12), IGNORES)
@settings(max_examples=60, deadline=None)
def test_a_walk_finds_what_git_would_add(paths: set[str], ignores: dict[str, list[str]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        place = Path(name) / "repository"
        place.mkdir()
        directories = {str(parent) for path in paths for parent in Path(path).parents}
        tree = dict.fromkeys(paths - directories, "")
        plant(place, tree)
        for way, rules in ignores.items():
            if (place / way).is_dir():
                plant(place, {f"{way}.gitignore": "\n".join(rules)})
        assert sorted(found(place)) == by_git(place)


def test_the_order_is_stable_and_directories_are_in_place(tmp_path: Path) -> None:
    plant(tmp_path, {"b/x": "", "a": "", "c": "", "b/a": "", "B": ""})
    assert found(tmp_path) == ["B", "a", "b/a", "b/x", "c"]


def test_ignore_files_above_the_directory_count_within_the_root(tmp_path: Path) -> None:
    plant(tmp_path, {".gitignore": "*.log\n/x/skip\n", "x/a.log": "", "x/a": "", "x/skip/b": ""})
    assert found(tmp_path / "x", tmp_path) == ["a"]
    assert found(tmp_path / "x", tmp_path / "x") == ["a", "a.log", "skip/b"]


def test_an_empty_folder_of_that_name_makes_no_repository(tmp_path: Path) -> None:
    plant(tmp_path, {".gitignore": "*.log\n", "x/a.log": "", "x/a": ""})
    (tmp_path / ".git").mkdir()
    assert found(tmp_path / "x", tmp_path / "x") == ["a", "a.log"]


def test_in_a_repository_its_ignore_files_count_even_above_the_root(tmp_path: Path) -> None:
    plant(tmp_path, {".git/HEAD": "", ".gitignore": "*.log\n", "x/a.log": "", "x/a": ""})
    assert found(tmp_path / "x") == ["a"]


def test_dot_ignore_wins_over_gitignore(tmp_path: Path) -> None:
    plant(tmp_path, {".gitignore": "*.log\n", ".ignore": "!a.log\nb\n"})
    plant(tmp_path, {"a.log": "", "b.log": "", "b": ""})
    assert found(tmp_path) == [".gitignore", ".ignore", "a.log"]


def test_version_control_data_is_left_out_and_hidden_files_are_not(tmp_path: Path) -> None:
    plant(tmp_path, {".git/config": "", ".hg/x": "", ".github/ci.yml": "", ".env": ""})
    assert found(tmp_path) == [".env", ".github/ci.yml"]


def test_links_to_directories_are_not_followed(tmp_path: Path) -> None:
    plant(tmp_path, {"d/a": ""})
    (tmp_path / "d" / "up").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "link").symlink_to(tmp_path / "d" / "a")
    (tmp_path / "broken").symlink_to(tmp_path / "nowhere")
    assert found(tmp_path) == ["d/a", "link"]


def test_a_level_tells_what_is_ignored(tmp_path: Path) -> None:
    plant(tmp_path, {".gitignore": "build/\n", "build/x": "", "src/y": ""})
    listed = [(entry.name, ignored) for entry, ignored in Level.at(tmp_path, tmp_path)]
    assert listed == [(".gitignore", False), ("build", True), ("src", False)]
