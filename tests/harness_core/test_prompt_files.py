"""Commands and skills as files: found, named, described and filled in."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness_core.plugins.prompt_files import (
    MOST,
    FrontMatterError,
    PromptFile,
    PromptFiles,
    folders,
    skills_section,
    split,
)

posix = pytest.mark.skipif(sys.platform == "win32", reason="links and pipes")


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def looked(*places: Path | str) -> PromptFiles:
    files = PromptFiles(lambda: places)
    files.look()
    return files


def test_a_projects_commands_come_before_the_users_and_ours_before_others(tmp_path: Path) -> None:
    project, home, config = tmp_path / "p", tmp_path / "h", tmp_path / "c"
    write(project / ".acp-harness/commands/fix.md", "ours")
    write(project / ".claude/commands/fix.md", "theirs")
    write(project / ".claude/commands/git/commit.md", "commit it")
    write(home / ".claude/commands/mine.md", "mine")
    write(config / "commands/fix.md", "the user's")
    files = looked(*folders([project], home, config))
    found = {file.name: file.body for file in files.commands}
    assert found == {"fix": "ours", "git:commit": "commit it", "mine": "mine"}


LINES = ["---", " ---", "a: b", "a", "  a", "- a", "", "\r", "a: |", "\u2028", "#"]


def test_front_matter_describes_and_is_not_part_of_the_text(tmp_path: Path) -> None:
    front = "description: Fix an issue\nargument-hint: '[number]'\nallowed-tools: x"
    text = f"---\n{front}\n---\nFix $1.\n"
    write(tmp_path / "commands/fix.md", text)
    (file,) = looked(tmp_path).commands
    assert (file.description, file.hint, file.body) == ("Fix an issue", "[number]", "Fix $1.")


def test_without_front_matter_the_first_line_describes(tmp_path: Path) -> None:
    write(tmp_path / "commands/fix.md", "# Fix it\n\nNow.")
    (file,) = looked(tmp_path).commands
    assert file.description == "Fix it"


def prompt(body: str) -> PromptFile:
    return PromptFile("x", "", "", Path("x.md"), body)


def test_arguments_fill_their_places_or_follow() -> None:
    assert prompt("a $ARGUMENTS b").expand("1 2") == "a 1 2 b"
    assert prompt("$2-$1-$3").expand("x y") == "y-x-"
    assert prompt("do it").expand("now") == "do it\n\nnow"
    assert prompt("do it").expand("") == "do it"


@given(st.text())
def test_arguments_are_never_expanded_themselves(arguments: str) -> None:
    assert prompt("<$ARGUMENTS>").expand(arguments) == f"<{arguments}>"


@given(st.text() | st.lists(st.sampled_from(LINES)).map("\n".join))
@example("---")
@example("---\n---")
@example("---\n x\n---\n")
def test_any_text_splits_or_says_why_not(text: str) -> None:
    try:
        fields, body = split(text)
    except FrontMatterError:
        assert text.startswith("---")
    else:
        assert text.endswith(body)
        assert fields or body == text or text.startswith("---")


@pytest.mark.parametrize(
    ("front", "description"),
    [
        ("description: plain: with a colon", "plain: with a colon"),
        ("description: 'quoted'", "quoted"),
        ('description: say "it"', 'say "it"'),
        ("description: >-\n  folded\n  text", "folded text"),
        ("description: |\n\n  a block", "a block"),
        ("description:\n  on the next line", "on the next line"),
        ("# a comment\ntools:\n- one\n  - two\nmeta: {\n}\ndescription: last", "last"),
        ("description: carriage\r\nname: x\r", "carriage"),
    ],
)
def test_a_description_is_read_however_it_is_written(front: str, description: str) -> None:
    fields, body = split(f"---\n{front}\n---\nText")
    assert (fields["description"], body) == (description, "Text")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("---\ndescription: x\nText", "has no end"),
        ("---\ndescription: x\njust words\n---\nText", "line 3"),
    ],
)
def test_broken_front_matter_says_what_to_change(text: str, told: str) -> None:
    with pytest.raises(FrontMatterError, match=told):
        split(text)


def test_skills_are_named_by_their_folder_or_themselves(tmp_path: Path) -> None:
    write(
        tmp_path / "skills/pdf/SKILL.md", "---\nname: pdf-forms\ndescription: Fill forms\n---\nHow"
    )
    write(tmp_path / "skills/plain/SKILL.md", "Do it plainly")
    write(tmp_path / "skills/none/README.md", "no skill")
    skills = looked(tmp_path, tmp_path / "missing").skills
    assert [(s.name, s.description) for s in skills] == [
        ("pdf-forms", "Fill forms"),
        ("plain", "Do it plainly"),
    ]
    assert str(tmp_path / "skills/pdf/SKILL.md") in skills_section(skills)
    assert skills_section([]) == ""


@posix
def test_a_link_to_nothing_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "commands").mkdir()
    (tmp_path / "commands" / "gone.md").symlink_to(tmp_path / "nowhere")
    write(tmp_path / "commands/ok.md", "fine")
    assert [file.name for file in looked(tmp_path).commands] == ["ok"]


# --- following the disk ---------------------------------------------------------------------------


def names(files: PromptFiles) -> list[str]:
    files.look()
    return [file.name for file in files.named]


def test_what_is_added_changed_and_removed_is_found(tmp_path: Path) -> None:
    files = looked(tmp_path)
    changes: list[list[str]] = []
    files.changed = lambda: changes.append([file.body for file in files.named])
    for body in ("one", "two", "two"):  # as many bytes, and perhaps in the same tick of the clock
        write(tmp_path / "commands/a.md", body)
        files.look()
    write(tmp_path / "skills/s/SKILL.md", "skill")
    files.look()
    (tmp_path / "commands/a.md").unlink()
    files.look()
    files.look()
    assert changes == [["one"], ["two"], ["two", "skill"], ["skill"]]


@posix
def test_a_file_that_has_long_been_the_same_is_not_read_again(tmp_path: Path) -> None:
    (tmp_path / "commands").mkdir()
    (tmp_path / "commands/a.md").symlink_to(__file__)
    files = looked(tmp_path)
    (kept,) = files.commands
    files.look()
    assert files.commands[0] is kept


def test_a_change_that_keeps_size_and_time_is_found(tmp_path: Path) -> None:
    file = tmp_path / "commands/a.md"
    files = looked(tmp_path)
    for text in ("one", "two"):
        write(file, text)
        os.utime(file, (1, 1))
        files.look()
        assert [found.body for found in files.commands] == [text]


def test_a_skill_gives_way_to_a_command_of_its_name(tmp_path: Path) -> None:
    write(tmp_path / "commands/a.md", "command")
    write(tmp_path / "skills/a/SKILL.md", "skill")
    assert [file.body for file in looked(tmp_path).named] == ["command"]


def test_what_is_hidden_is_not_looked_at(tmp_path: Path) -> None:
    for hidden in ("commands/.a.md", "commands/.git/b.md", "skills/.c/SKILL.md"):
        write(tmp_path / hidden, "hidden")
    assert names(looked(tmp_path)) == []


@posix
def test_a_broken_file_is_left_out_and_named(tmp_path: Path) -> None:
    write(tmp_path / "commands/ok.md", "fine")
    write(tmp_path / "commands/front.md", "---\ndescription: x\n")
    (tmp_path / "commands/latin.md").write_bytes("Gr\u00fc\u00dfe".encode("latin-1"))
    (tmp_path / "skills/loop").mkdir(parents=True)
    (tmp_path / "skills/loop/SKILL.md").symlink_to("SKILL.md")
    files = looked(tmp_path)
    assert names(files) == ["ok"]
    told = {problem.partition(" is not used: ")[::2] for problem in files.problems}
    assert {(Path(path).name, why[:20]) for path, why in told} == {
        ("front.md", "its front matter has"),
        ("latin.md", "it is not UTF-8 text"),
        ("SKILL.md", "it cannot be read (T"),
    }
    write(tmp_path / "commands/front.md", "---\ndescription: x\n---\nmended")
    (tmp_path / "commands/latin.md").unlink()
    (tmp_path / "skills/loop/SKILL.md").unlink()
    assert names(files) == ["front", "ok"]
    assert files.problems == []


@pytest.mark.skipif(sys.platform != "linux", reason="file names of any bytes")
def test_a_name_that_nobody_can_type_is_left_out(tmp_path: Path) -> None:
    write(tmp_path / "commands/ok.md", "fine")
    write(tmp_path / "commands" / os.fsdecode(b"Gr\xfc\xdfe.md"), "text")
    files = looked(tmp_path)
    assert names(files) == ["ok"]
    (problem,) = files.problems
    assert problem.endswith("Gr\ufffd\ufffde.md is not used: its name is not UTF-8")


@posix
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "commands").mkdir()
    os.mkfifo(tmp_path / "commands/a.md")
    assert names(looked(tmp_path)) == []


def test_a_folder_of_very_many_files_is_not_read_to_its_end(tmp_path: Path) -> None:
    for number in range(MOST + 1):
        write(tmp_path / f"commands/{number // 100}/{number}.md", "x")
    files = looked(tmp_path)
    assert len(files.commands) <= MOST
    (problem,) = files.problems
    assert f"it holds more than {MOST} entries" in problem


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    write(tmp_path / "commands/a.md", "\ufeff---\ndescription: marked\n---\nbody")
    (file,) = looked(tmp_path).commands
    assert (file.description, file.body) == ("marked", "body")
