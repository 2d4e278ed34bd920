"""Permission rules: what a remembered answer covers, and that it never covers more."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness_core.plugins.rule_store import RuleStore, RuleStoreError
from harness_core.plugins.rules import (
    Rule,
    command_prefix,
    covers,
    decide,
    scope_of,
    written,
)


def shell(command: str) -> tuple[str, str, dict[str, str]]:
    return "shell", "execute", {"command": command}


@pytest.mark.parametrize(
    ("command", "prefix"),
    [
        ("git status", "git status"),
        ("git status --short src", "git status"),
        ("ls -la", "ls"),
        ("pytest tests/a.py -k 'x y'", "pytest"),
        ("npm run build", "npm run"),
        ("git", None),
        ("git --no-pager log", None),
        ("python x.py", None),
        ("sudo ls", None),
        ("/usr/bin/env ls", None),
        ("FOO=1 make", None),
        ("git status; rm -rf /", None),
        ("git status && rm x", None),
        ("git status | tee x", None),
        ("ls > x", None),
        ("ls $(rm x)", None),
        ("ls `rm x`", None),
        ("ls\nrm x", None),
        ("git status\n", None),
        ("git status\r", None),
        ("git status\u00a0", None),
        ("", None),
    ],
)
def test_a_prefix_is_offered_only_for_a_simple_command(command: str, prefix: str | None) -> None:
    assert command_prefix(command) == prefix


@given(st.text())
def test_an_answer_always_covers_the_call_it_was_given_for(command: str) -> None:
    assert covers(scope_of(*shell(command)).key, *shell(command))


@given(
    st.sampled_from(["git status", "ls", "npm run"]),
    st.text(),
    st.sampled_from([";", "&", "|", ">", "<", "`", "$", "(", ")", "\n", "\\", "#", "{", "!"]),
    st.text(),
)
@example("git status", "", "\n", "")
def test_a_rule_for_a_prefix_never_covers_what_chains_or_expands(
    prefix: str, before: str, special: str, after: str
) -> None:
    assert not covers(f"shell:{prefix}", *shell(f"{prefix} {before}{special}{after}"))


def test_a_prefix_ends_with_a_word() -> None:
    assert covers("shell:git status", *shell("git status -s"))
    assert not covers("shell:git status", *shell("git statusx"))
    assert not covers("shell:git status", *shell("git stash"))


def test_an_exact_command_covers_nothing_else() -> None:
    assert covers("shell=make && ./x", *shell("make && ./x"))
    assert not covers("shell=make && ./x", *shell("make && ./x y"))


def test_a_server_covers_its_tools_and_no_other_server() -> None:
    assert covers("mcp__github", "mcp__github__issue", "other", {})
    assert not covers("mcp__git", "mcp__github__issue", "other", {})
    assert scope_of("mcp__github__issue", "other", {}).label == "`github: issue`"
    assert scope_of("edit", "edit", {}).label == "edit of files"


@pytest.mark.parametrize("scope", ["edit:src", "edit:src/", "edit:./src", "edit:src/../src"])
def test_a_path_covers_itself_and_all_below_it(scope: str) -> None:
    for path, inside in [
        ("src", True),
        ("src/a.py", True),
        ("src/deep/b.py", True),
        ("srcs/a.py", False),
        ("a/src/a.py", False),
        ("src.py", False),
    ]:
        assert covers(scope, "edit", "edit", {"path": path}) is inside
        assert not covers(scope, "write", "edit", {"path": path})
        assert not covers(scope, "edit", "read", {"path": path})


def test_a_refusal_covers_a_command_in_a_chain_and_a_permission_does_not() -> None:
    rules = [Rule("shell", allow=True), Rule("shell:git push", allow=False)]
    for command in ("cd x && git push", "(git push)", "true; git push -f", "a\ngit push\n"):
        assert decide(rules, *shell(command)) == Rule("shell:git push", allow=False)
        assert decide([Rule("shell:git push", allow=True)], *shell(command)) is None
    assert decide(rules, *shell("git pushed")) == Rule("shell", allow=True)


@pytest.mark.parametrize(
    "scope", ["edit", "edit:src", "shell:git status", "shell=make && ./x", "mcp__git", "mcp__a__b"]
)
def test_a_scope_that_a_person_writes_is_taken_as_it_is(scope: str) -> None:
    assert written(f" `{scope}` ", {"edit", "shell"}) == scope


@pytest.mark.parametrize("scope", ["", "edits", "read:x", "edit:", "shell=", ":x", "shell git"])
def test_a_scope_that_covers_nothing_is_refused_with_what_is_known(scope: str) -> None:
    with pytest.raises(ValueError, match="write one of edit, shell"):
        written(scope, {"edit", "shell"})


def test_the_most_specific_rule_decides_and_refusal_wins_a_tie() -> None:
    rules = [Rule("shell", allow=True), Rule("shell:git push", allow=False)]
    assert decide(rules, *shell("git push")) == Rule("shell:git push", allow=False)
    assert decide(rules, *shell("git status")) == Rule("shell", allow=True)
    tie = [Rule("edit", allow=True), Rule("edit", allow=False)]
    assert decide(tie, "edit", "edit", {}) == Rule("edit", allow=False)
    assert decide(rules, "edit", "edit", {}) is None


def test_a_store_remembers_by_project_and_forgets_what_is_revoked(tmp_path: Path) -> None:
    store = RuleStore(tmp_path / "deep" / "permissions.json")
    store.remember("/a", Rule("edit", allow=True))
    store.remember("/a", Rule("edit", allow=False))
    store.remember("/b", Rule("shell:ls", allow=True))
    again = RuleStore(store.path)
    assert again.rules("/a") == [Rule("edit", allow=False)]
    assert again.projects().keys() == {"/a", "/b"}
    assert again.revoke("/a", "edit")
    assert not again.revoke("/a", "edit")
    assert again.projects().keys() == {"/b"}
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600


@pytest.mark.parametrize("text", ["{", "[]", '{"/a": {"edit": 1}}', '{"/a": []}'])
def test_a_file_that_is_none_is_named_and_never_overwritten(tmp_path: Path, text: str) -> None:
    path = tmp_path / "permissions.json"
    path.write_text(text)
    with pytest.raises(RuleStoreError, match=r"permissions\.json"):
        RuleStore(path).remember("/a", Rule("edit", allow=True))
    assert path.read_text() == text
