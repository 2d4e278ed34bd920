"""``list``, ``glob`` and ``grep`` as the model uses them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from harness_core.content import Text
from harness_core.tools import glob, grep
from harness_core.tools.tool import ToolError, ToolOutput

pytestmark = pytest.mark.anyio

Call = Callable[..., Awaitable[ToolOutput]]


@pytest.fixture
def project(cwd: Path) -> Path:
    for path, text in {
        ".gitignore": "build/\n*.log\n",
        "README.md": "# Project\n\nHello, world.\n",
        "src/main.py": "import os\n\n\ndef main():\n    print('hello')\n\n\nmain()\n",
        "src/app/[id].tsx": "export const hello = 1\n",
        "build/out.py": "hello\n",
        "debug.log": "hello\n",
    }.items():
        (cwd / path).parent.mkdir(parents=True, exist_ok=True)
        (cwd / path).write_text(text)
    return cwd


def text_of(output: ToolOutput) -> str:
    (block,) = output.content
    assert isinstance(block, Text)
    return block.text


async def test_list_names_entries_and_what_is_ignored(project: Path, call: Call) -> None:
    listed = text_of(await call("list"))
    assert listed == ".gitignore\nREADME.md\nsrc/\n(2 ignored: build, debug.log)"
    assert text_of(await call("list", path="build")) == "out.py"
    (project / "empty").mkdir()
    assert text_of(await call("list", path="empty")) == "(the directory is empty)"


async def test_list_of_what_is_no_directory_helps(project: Path, call: Call) -> None:
    with pytest.raises(ToolError, match=r"README.md is not a directory: use read"):
        await call("list", path="README.md")
    with pytest.raises(ToolError, match=r"no directory srx|no file srx; did you mean src\?"):
        await call("list", path="srx")


async def test_a_long_list_is_bounded(cwd: Path, call: Call) -> None:
    for number in range(1100):
        (cwd / f"f{number:04}").touch()
    assert text_of(await call("list")).endswith(
        "f0999\n(only the first 1000 of 1100 entries: use glob to find the others)"
    )


async def test_glob_finds_files_that_are_not_ignored(project: Path, call: Call) -> None:
    assert text_of(await call("glob", pattern="*.py")) == "src/main.py"
    assert text_of(await call("glob", pattern="*.py", path="src")) == "src/main.py"
    assert text_of(await call("glob", pattern=f"{project}/src/*.py")) == "src/main.py"
    assert text_of(await call("glob", pattern="*.{md,tsx}")) == "README.md\nsrc/app/[id].tsx"


async def test_glob_without_a_match_says_so(project: Path, call: Call) -> None:
    assert text_of(await call("glob", pattern="*.rs")) == "No files match."
    assert "write \\[" in text_of(await call("glob", pattern="**/[id].tsx"))
    with pytest.raises(ToolError, match="not a valid glob"):
        await call("glob", pattern="[")


async def test_many_files_are_cut_with_a_note(cwd: Path, call: Call) -> None:
    for number in range(glob.MOST + 1):
        (cwd / f"f{number:04}").touch()
    rows = text_of(await call("glob", pattern="*")).split("\n")
    assert len(rows) == glob.MOST + 1
    assert rows[-1] == f"(only the first {glob.MOST} files: narrow the pattern or the path)"
    (cwd / "f0000").unlink()
    assert len(text_of(await call("glob", pattern="*")).split("\n")) == glob.MOST


async def test_grep_shows_file_number_and_line(project: Path, call: Call) -> None:
    assert text_of(await call("grep", pattern="hello")) == (
        "src/app/[id].tsx\n1:export const hello = 1\nsrc/main.py\n5:    print('hello')"
    )


async def test_grep_options(project: Path, call: Call) -> None:
    async def grepped(pattern: str, **more: Any) -> str:
        return text_of(await call("grep", pattern=pattern, **more))

    assert await grepped("hello", glob="*.py") == "src/main.py\n5:    print('hello')"
    assert await grepped("HELLO", ignore_case=True, path="README.md") == (
        "README.md\n3:Hello, world."
    )
    assert await grepped("main()", literal=True, files_only=True) == "src/main.py (2)"
    assert await grepped("print", context=1) == (
        "src/main.py\n4-def main():\n5:    print('hello')\n6-"
    )
    assert await grepped("import|^main", context=0, path="src/main.py") == (
        "src/main.py\n1:import os\n--\n8:main()"
    )
    assert await grepped("hello", path="debug.log") == "debug.log\n1:hello"
    assert await grepped("nowhere") == "No matches in 4 files."


async def test_a_wrong_pattern_is_explained(project: Path, call: Call) -> None:
    with pytest.raises(ToolError, match=r"cannot be searched for: .*unterminated"):
        await call("grep", pattern="(hello")
    with pytest.raises(ToolError, match="cannot be searched for: a \\[ is not closed"):
        await call("grep", pattern="hello", glob="[")


async def test_many_matches_are_cut_with_a_note(cwd: Path, call: Call) -> None:
    (cwd / "a").write_text("hello\n" * 1000)
    rows = text_of(await call("grep", pattern="hello")).split("\n")
    assert len(rows) == 202
    assert rows[-1] == "(there are more matches: narrow the pattern, the path or the glob)"


async def test_a_search_that_hangs_in_its_pattern_can_be_cancelled(cwd: Path, call: Call) -> None:
    (cwd / "a").write_text("a" * 50_000 + "b")
    with anyio.fail_after(grep.PATIENCE / 2):
        with anyio.move_on_after(1) as scope:
            await call("grep", pattern="(a+)+$")
        assert scope.cancelled_caught


async def test_names_that_are_not_utf8_do_not_break_anything(cwd: Path, call: Call) -> None:
    try:
        with open(bytes(cwd) + b"/b\xff.txt", "w") as file:  # noqa: ASYNC230 - a test's set-up
            file.write("hello\n")
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    for output in (
        await call("list"),
        await call("glob", pattern="*.txt"),
        await call("grep", pattern="hello"),
    ):
        assert text_of(output).startswith("b\ufffd.txt")
