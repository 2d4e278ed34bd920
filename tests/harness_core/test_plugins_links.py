"""Links: files that a prompt links to are read once, as the read tool would, and kept."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_core.bus import Next
from harness_core.content import (
    AssistantMessage,
    Image,
    Resource,
    ResourceLink,
    Text,
    UserBlock,
    UserMessage,
)
from harness_core.facts import ToolReturned, UserSaid
from harness_core.history import derive_messages
from harness_core.journal.memory import MemoryJournal
from harness_core.loop import PRE_STEP, Block, PreStep
from harness_core.model.readable import joined
from harness_core.model.scripted import asked, said
from harness_core.plugins.links import HEAD, ROOM, Target, linked, target
from harness_core.tools.builtin import builtin_tools
from harness_core.tools.files import Files
from harness_core.tools.read import PAGE_LINES
from tests.harness_core.kit import VIRTUAL, World, call, world

pytestmark = pytest.mark.anyio

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
posix = pytest.mark.skipif(os.name == "nt", reason="paths are written otherwise there")


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return VIRTUAL


def link(path: Path | str, fragment: str = "") -> ResourceLink:
    uri = path if isinstance(path, str) else path.as_uri()
    return ResourceLink(uri + fragment, "linked")


async def beside(cwd: Path, *blocks: UserBlock) -> str:
    """What the model is given beside a message of these blocks."""
    found = await linked(Files(cwd), UserMessage("m", blocks))
    return "" if found is None else joined(found.content)


# --- addresses ------------------------------------------------------------------------------------


@posix
@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///p/a.py", "/p/a.py"),
        ("file:/p/a.py", "/p/a.py"),
        ("FILE://localhost/p/a.py", "/p/a.py"),
        ("file://LOCALHOST/p/a.py", "/p/a.py"),
        ("file:///p/a%20b%23c%C3%A9.py", "/p/a b#cé.py"),
        ("file:///p/a b.py", "/p/a b.py"),
        ("file:///p/a.py?symbol=f", "/p/a.py"),
        ("file:///p/a.py#section", "/p/a.py"),
        ("file:///p/", "/p/"),
    ],
)
def test_an_address_is_a_path(uri: str, path: str) -> None:
    assert target(uri) == Target(path)


@pytest.mark.parametrize("uri", ["", "a.py", "/p/a.py", "https://a.example/b", "file:", "file:a"])
def test_any_other_address_is_left_alone(uri: str) -> None:
    assert target(uri) is None


def test_another_machine_is_known_as_one() -> None:
    assert target("file://server/share/a.py") == Target("/share/a.py", host="server")


@pytest.mark.parametrize(
    ("fragment", "first", "count"),
    [
        ("L10", 10, 1),
        ("L10-20", 10, 11),
        ("L10-L20", 10, 11),
        ("L10:20", 10, 11),
        ("l10-l20", 10, 11),
        ("10-20", 10, 11),
        ("L10,5-20,7", 10, 11),
        ("L10C5-L20C7", 10, 11),
        ("L10:3", 10, 1),
        ("L0-2", 1, 2),
        ("L10-", 1, PAGE_LINES),
        ("L" + "9" * 5_000, 1, PAGE_LINES),
        ("L²", 1, PAGE_LINES),
    ],
)
def test_a_fragment_may_name_lines(fragment: str, first: int, count: int) -> None:
    found = target(f"file:///a#{fragment}")
    assert found is not None
    assert (found.offset, found.limit) == (first, count)


@given(st.text())
def test_whatever_an_address_is_it_leads_somewhere_or_nowhere(rest: str) -> None:
    for uri in (
        rest,
        f"file://{rest}",
        f"file:///{rest}",
        f"file:///a#{rest}",
        f"file:///a#L{rest}",
    ):
        found = target(uri)
        assert found is None or (found.offset >= 1 and found.limit >= 1)
        if found is not None:
            found.path.encode()


# --- what is read ---------------------------------------------------------------------------------


async def test_a_text_is_given_with_its_address_and_numbered_lines(tmp_path: Path) -> None:
    file = tmp_path / "a b.py"
    file.write_text("one\ntwo\n")
    assert await beside(tmp_path, Text("see"), link(file)) == (
        f'{HEAD}\n<resource uri="{file.as_uri()}">\n     1\tone\n     2\ttwo\n</resource>'
    )


async def test_lines_are_given_if_lines_are_linked(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("".join(f"line {n}\n" for n in range(1, 10)))
    told = await beside(tmp_path, link(file, "#L3:4"))
    assert "     3\tline 3\n     4\tline 4\n(lines 3 to 4 of 9; go on with offset=5)" in told
    assert "line 2" not in told
    assert "line 5" not in told


async def test_a_long_file_is_cut_and_says_how_to_go_on(tmp_path: Path) -> None:
    file = tmp_path / "long.txt"
    file.write_text("word\n" * 5_000)
    assert "of 5000; go on with offset=" in await beside(tmp_path, link(file))


async def test_an_image_is_an_image(tmp_path: Path) -> None:
    file = tmp_path / "a.png"
    file.write_bytes(PNG)
    found = await linked(Files(tmp_path), UserMessage("m", (link(file),)))
    assert found is not None
    *_, name, image = found.content
    assert name == Text("a.png (image/png, 28 bytes)")
    assert isinstance(image, Image)
    assert (image.mime_type, image.uri) == ("image/png", file.as_uri())


def folder(cwd: Path) -> str:
    (cwd / "sub").mkdir()
    return (cwd / "sub").as_uri()


def binary(cwd: Path) -> str:
    (cwd / "a.bin").write_bytes(b"\0\1")
    return (cwd / "a.bin").as_uri()


def pipe(cwd: Path) -> str:
    os.mkfifo(cwd / "pipe")
    return (cwd / "pipe").as_uri()


def outside(cwd: Path) -> str:
    (cwd.parent / "secret").write_text("secret words")
    return (cwd.parent / "secret").as_uri()


def climbing(cwd: Path) -> str:
    return outside(cwd) and f"{cwd.as_uri()}/../secret"


def symlink(cwd: Path) -> str:
    outside(cwd)
    (cwd / "inside").symlink_to(cwd.parent / "secret")
    return (cwd / "inside").as_uri()


def past_the_end(cwd: Path) -> str:
    (cwd / "short").write_text("one\n")
    return (cwd / "short").as_uri() + "#L7"


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (folder, "sub is a directory"),
        (binary, "a.bin is a binary file (2 bytes)"),
        pytest.param(
            pipe,
            "pipe is not a regular file",
            marks=pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here"),
        ),
        (outside, "is outside the session's directories"),
        (climbing, "is outside the session's directories"),
        pytest.param(symlink, "is outside the session's directories", marks=posix),
        (past_the_end, "the file has 1 lines: there is no line 7"),
        (lambda cwd: f"{cwd.as_uri()}/gone", "there is no file gone"),
        (lambda cwd: f"{cwd.as_uri()}/%00", "is not a valid path"),
        (lambda cwd: f"{cwd.as_uri()}/{'x' * 5_000}", "too long"),
        (lambda _: "file://server/a", "it is on another machine"),
    ],
)
async def test_what_cannot_be_read_is_said_to_be_unread(
    tmp_path: Path, make: Callable[[Path], str], why: str
) -> None:
    cwd = tmp_path / "project"
    cwd.mkdir()
    uri = make(cwd)
    told = await beside(cwd, link(uri))
    assert told.startswith(f"{HEAD}\n{uri} was not read: ")
    assert why in told
    assert "secret words" not in told


async def test_additional_directories_are_in_reach(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    (second / "a.txt").write_text("over there")
    message = UserMessage("m", (link(second / "a.txt"),))
    found = await linked(Files(first, [second]), message)
    assert found is not None
    assert "over there" in joined(found.content)


async def test_other_links_and_attachments_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    uri = (tmp_path / "a.txt").as_uri()
    blocks = (Text(uri), Resource(uri, text="unsaved"), link("https://a.example/b"))
    assert await beside(tmp_path, *blocks) == ""


async def test_each_file_is_read_once_and_not_more_than_there_is_room_for(tmp_path: Path) -> None:
    files = [tmp_path / f"{n}.txt" for n in range(40)]
    for file in files:
        file.write_text(f"{file.name}\n" + "x" * 1_000 + "\n" * 30_000)
    picture = tmp_path / "a.png"
    picture.write_bytes(PNG)
    told = await beside(tmp_path, *(link(file) for file in files for _ in "ab"))
    assert told.count("     1\t0.txt") == 1
    assert told.count("was not read: there is too much before it: use read") > 20
    assert len(told) < 2 * ROOM
    pictures = [ResourceLink(f"{picture.as_uri()}?{n}", "a.png") for n in range(40)]
    found = await linked(Files(tmp_path), UserMessage("m", tuple(pictures)))
    assert found is not None
    assert sum(isinstance(block, Image) for block in found.content) == 4


# --- in a turn ------------------------------------------------------------------------------------


def prompt(w: World, *blocks: UserBlock, source: str = "prompt") -> UserMessage:
    return UserMessage(w.message().id, blocks, source)


def given_to_model(w: World) -> list[str]:
    return [joined(m.content) for m in w.script.requests[-1].messages if m.role == "user"]


async def test_the_model_is_given_the_file_and_the_log_keeps_what_it_was_given(
    tmp_path: Path,
) -> None:
    file = tmp_path / "a.txt"
    file.write_text("as it was\n")
    async with world(said("1"), said("2"), cwd=str(tmp_path)) as w:
        sent = prompt(w, Text("see"), link(file))
        w.agent.send(sent)
        await w.idle()
        file.write_text("as it became\n")
        await w.turn("and now?")
        assert w.all(UserSaid)[0].message == sent
        told = given_to_model(w)
        assert len(told) == 3
        assert "as it was" in told[1]
        assert "as it became" not in "".join(told)


async def test_a_stored_session_gives_the_same_though_the_file_is_gone(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("as it was\n")
    journal = MemoryJournal()
    async with world(said("1"), cwd=str(tmp_path), journal=journal) as w:
        w.agent.send(prompt(w, link(file)))
        await w.idle()
        before = derive_messages(w.agent.session.events)
        id = w.agent.session.id
    file.unlink()
    _, read, _ = after = derive_messages(journal.read(id).events)
    assert after == before
    assert isinstance(read, UserMessage)
    assert "as it was" in joined(read.content)


async def test_what_is_steered_is_read_and_what_is_context_is_not(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("contents\n")
    async with world(said("1"), said("2"), cwd=str(tmp_path)) as w:
        w.agent.steer(prompt(w, link(file), source="context"))
        await w.idle()
        assert "contents" not in "".join(given_to_model(w))
        w.agent.steer(prompt(w, link(file), source="steering"))
        await w.idle()
        assert "contents" in given_to_model(w)[-1]


async def test_what_was_blocked_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("contents\n")

    async def refuse(draft: PreStep, _: Next[PreStep, PreStep]) -> PreStep:
        return PreStep(draft.agent, draft.turn, draft.step, draft.messages, Block("test", "no"))

    async with world(cwd=str(tmp_path)) as w:
        w.agent.bus.on(PRE_STEP, refuse)
        w.agent.send(prompt(w, link(file)))
        await w.idle()
        assert w.all(UserSaid) == []
        assert not await w.agent.files.current(file.with_name("gone"))
        with pytest.raises(Exception, match="has not been read yet"):
            await w.agent.files.current(file)


EDIT = json.dumps({"path": "a.txt", "old_text": "old", "new_text": "new"})


@pytest.mark.parametrize("changed", [False, True])
async def test_a_file_that_was_read_this_way_may_be_edited_until_it_changes(
    tmp_path: Path, changed: bool
) -> None:
    file = tmp_path / "a.txt"
    file.write_text("old\n")
    replies = (said("seen"), asked(call("c1", "edit", EDIT)), said("done"))
    async with world(*replies, cwd=str(tmp_path), tools=builtin_tools({})) as w:
        w.agent.send(prompt(w, Text("edit this"), link(file)))
        await w.idle()
        if changed:
            file.write_text("old, and more\n")
        await w.turn("now")
        result = w.last(ToolReturned)
        assert (result.error is not None) == changed
        assert file.read_text() == ("old, and more\n" if changed else "new\n")
        assert ("has changed since it was read" in joined(result.content)) == changed


async def test_an_answer_of_the_model_leads_nowhere(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("contents\n")
    async with world(said(f"see {file.as_uri()}"), said("2"), cwd=str(tmp_path)) as w:
        await w.turn(f"[a]({file.as_uri()})")
        await w.turn()
        answers = [m for m in w.script.requests[-1].messages if isinstance(m, AssistantMessage)]
        assert len(answers) == 1
        assert "contents" not in "".join(given_to_model(w))
