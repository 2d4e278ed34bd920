"""Commands and skills as files: found, named, described and filled in."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from harness_core.plugins.prompt_files import (
    PromptFile,
    find_commands,
    find_skills,
    folders,
    skills_section,
    split,
)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_a_projects_commands_come_before_the_users_and_ours_before_others(tmp_path: Path) -> None:
    project, home, config = tmp_path / "p", tmp_path / "h", tmp_path / "c"
    write(project / ".acp-harness/commands/fix.md", "ours")
    write(project / ".claude/commands/fix.md", "theirs")
    write(project / ".claude/commands/git/commit.md", "commit it")
    write(home / ".claude/commands/mine.md", "mine")
    write(config / "commands/fix.md", "the user's")
    found = {file.name: file.body for file in find_commands(folders([project], home, config))}
    assert found == {"fix": "ours", "git:commit": "commit it", "mine": "mine"}


def test_front_matter_describes_and_is_not_part_of_the_text(tmp_path: Path) -> None:
    front = "description: Fix an issue\nargument-hint: '[number]'\nallowed-tools: x"
    text = f"---\n{front}\n---\nFix $1.\n"
    write(tmp_path / "commands/fix.md", text)
    (file,) = find_commands([tmp_path])
    assert (file.description, file.hint, file.body) == ("Fix an issue", "[number]", "Fix $1.")


def test_without_front_matter_the_first_line_describes(tmp_path: Path) -> None:
    write(tmp_path / "commands/fix.md", "# Fix it\n\nNow.")
    (file,) = find_commands([tmp_path])
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


@given(st.text())
def test_any_text_splits(text: str) -> None:
    fields, body = split(text)
    assert text.endswith(body)
    assert fields or body == text or text.startswith("---")


def test_skills_are_named_by_their_folder_or_themselves(tmp_path: Path) -> None:
    write(
        tmp_path / "skills/pdf/SKILL.md", "---\nname: pdf-forms\ndescription: Fill forms\n---\nHow"
    )
    write(tmp_path / "skills/plain/SKILL.md", "Do it plainly")
    write(tmp_path / "skills/none/README.md", "no skill")
    skills = find_skills([tmp_path, tmp_path / "missing"])
    assert [(s.name, s.description) for s in skills] == [
        ("pdf-forms", "Fill forms"),
        ("plain", "Do it plainly"),
    ]
    assert str(tmp_path / "skills/pdf/SKILL.md") in skills_section(skills)
    assert skills_section([]) == ""


def test_what_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "commands").mkdir()
    (tmp_path / "commands" / "gone.md").symlink_to(tmp_path / "nowhere")
    write(tmp_path / "commands/ok.md", "fine")
    assert [file.name for file in find_commands([tmp_path])] == ["ok"]
