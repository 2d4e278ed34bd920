"""``write`` and ``edit``: what they change, what they leave alone, what they refuse."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness_core.content import Text
from harness_core.tools.tool import Outcome, Tool, ToolError, ToolOutput

pytestmark = pytest.mark.anyio

Call = Callable[..., Awaitable[ToolOutput]]
Tools = Mapping[str, Tool[Any]]


def outcome(output: ToolOutput) -> Outcome:
    return Outcome(output.content, None, output.meta)


async def test_a_new_file_is_created_with_its_directories(cwd: Path, call: Call) -> None:
    await call("write", path="src/new/a.py", content="x = 1\n")
    assert (cwd / "src" / "new" / "a.py").read_bytes() == b"x = 1\n"


async def test_a_file_that_was_not_read_is_not_overwritten(cwd: Path, call: Call) -> None:
    (cwd / "a").write_text("precious")
    with pytest.raises(ToolError, match="read it before"):
        await call("write", path="a", content="x")
    with pytest.raises(ToolError, match="read it before"):
        await call("edit", path="a", old_text="precious", new_text="x")
    assert (cwd / "a").read_text() == "precious"


async def test_a_file_that_changed_meanwhile_is_not_touched(cwd: Path, call: Call) -> None:
    (cwd / "a").write_text("one\n")
    await call("read", path="a")
    (cwd / "a").write_text("two\n")
    with pytest.raises(ToolError, match="changed since"):
        await call("edit", path="a", old_text="two", new_text="x")
    await call("read", path="a")
    await call("edit", path="a", old_text="two", new_text="three")
    assert (cwd / "a").read_text() == "three\n"


async def test_edits_follow_each_other_without_reading_again(cwd: Path, call: Call) -> None:
    await call("write", path="a", content="1 2\n")
    await call("edit", path="a", old_text="1", new_text="one")
    await call("edit", path="a", old_text="2", new_text="two")
    assert (cwd / "a").read_text() == "one two\n"


async def test_a_replaced_file_keeps_its_form(cwd: Path, call: Call) -> None:
    (cwd / "a").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    await call("read", path="a")
    await call("write", path="a", content="three\nfour")
    assert (cwd / "a").read_bytes() == b"\xef\xbb\xbfthree\r\nfour\r\n"


words = st.text(st.sampled_from("ab é😀\t"), max_size=8)


@given(
    st.lists(st.tuples(words, st.sampled_from(["\n", "\r\n"])), max_size=6),
    st.sampled_from([b"", b"\xef\xbb\xbf"]),
    st.sampled_from([b"", b"\xff\xfe", "ü".encode("latin-1")]),
    words,
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
async def test_an_edit_leaves_every_other_byte_alone(
    cwd: Path, call: Call, rows: list[tuple[str, str]], mark: bytes, odd: bytes, new: str
) -> None:
    around = "".join(text + ending for text, ending in rows).encode()
    (cwd / "f").write_bytes(mark + around + odd + b"<old>" + around)
    await call("read", path="f")
    await call("edit", path="f", old_text="<old>", new_text=f"<{new}>")
    assert (cwd / "f").read_bytes() == mark + around + odd + f"<{new}>".encode() + around


async def test_a_passage_of_several_lines_is_found_in_a_crlf_file(cwd: Path, call: Call) -> None:
    (cwd / "a").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    await call("read", path="a")
    await call("edit", path="a", old_text="one\ntwo\n", new_text="1\n2\n2b\n")
    assert (cwd / "a").read_bytes() == b"1\r\n2\r\n2b\r\nthree\r\n"


async def test_a_refused_edit_says_which_file_and_why(cwd: Path, call: Call) -> None:
    await call("write", path="a", content="x\nx\n")
    with pytest.raises(ToolError, match=r"a was not changed: old_text occurs 2 times"):
        await call("edit", path="a", old_text="x", new_text="y")
    with pytest.raises(ToolError, match="nothing to change"):
        await call("edit", path="a", old_text="x", new_text="x")
    with pytest.raises(ToolError, match="there is no file b"):
        await call("edit", path="b", old_text="x", new_text="y")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write read-only files")
async def test_a_read_only_file_is_not_replaced(cwd: Path, call: Call) -> None:
    (cwd / "a").write_text("x")
    (cwd / "a").chmod(0o444)
    await call("read", path="a")
    with pytest.raises(ToolError, match="read-only"):
        await call("write", path="a", content="y")


async def test_nothing_is_written_outside(cwd: Path, tmp_path: Path, call: Call) -> None:
    (cwd / "out").symlink_to(tmp_path, target_is_directory=True)
    for path in ("../x", str(tmp_path / "x"), "out/x"):
        with pytest.raises(ToolError, match="outside"):
            await call("write", path=path, content="x")
    assert not (tmp_path / "x").exists()


async def test_the_card_of_a_change_shows_old_and_new(cwd: Path, call: Call, tools: Tools) -> None:
    arguments = {"path": "a", "content": "one\ntwo\n"}
    created = await call("write", **arguments)
    card = tools["write"].present_result(arguments, outcome(created), str(cwd))
    (diff,) = card.diffs
    assert (diff.path, diff.old, diff.new) == (str(cwd / "a"), None, "one\ntwo\n")

    arguments = {"path": "a", "old_text": "two", "new_text": "2"}
    changed = await call("edit", **arguments)
    card = tools["edit"].present_result(arguments, outcome(changed), str(cwd))
    (diff,) = card.diffs
    assert (diff.old, diff.new) == ("one\ntwo\n", "one\n2\n")
    assert [(place.path, place.line) for place in card.locations] == [(str(cwd / "a"), 2)]


def test_a_call_shows_what_it_is_about_to_change(tools: Tools) -> None:
    arguments = {"path": "src/a.py", "old_text": "x", "new_text": "y"}
    card = tools["edit"].present_call(arguments, "/project")
    assert card.title == "Edit src/a.py"
    assert card.kind == "edit"
    (diff,) = card.diffs
    assert (diff.path, diff.old, diff.new) == ("/project/src/a.py", "x", "y")


def test_a_failed_change_shows_why(tools: Tools) -> None:
    failed = Outcome((Text("a was not changed"),), "failed", None)
    card = tools["edit"].present_result({"path": "a"}, failed, "/project")
    assert card.content == failed.content
    assert not card.diffs
