"""File access: confined whatever the path, atomic, and aware of what was read."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness_core.tools.disk import LocalBackend, replace
from harness_core.tools.files import Files, Missing
from harness_core.tools.tool import ToolError

pytestmark = pytest.mark.anyio

PARTS = st.sampled_from(["a", "b", "..", ".", "out", "in", "up", "loop", "x.txt", "", "//"])


@given(st.lists(PARTS, max_size=7).map("/".join), st.booleans())
@settings(deadline=None)
def test_no_path_leads_out(path: str, from_root: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        outside = Path(os.path.realpath(name))
        root = outside / "root"
        (root / "a" / "b").mkdir(parents=True)
        (outside / "secret").mkdir()
        (root / "a" / "out").symlink_to(outside / "secret", target_is_directory=True)
        (root / "a" / "in").symlink_to(root / "a" / "b", target_is_directory=True)
        (root / "up").symlink_to("..", target_is_directory=True)
        (root / "loop").symlink_to("loop")
        given = f"{root}/{path}" if from_root else path
        try:
            place = Files(root).resolve(given, write=True)
        except ToolError:
            return
        assert place.is_absolute()
        assert Path(os.path.realpath(place)).is_relative_to(root)


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x", "out/x", "out", "nul\0l"])
def test_what_is_outside_is_refused(cwd: Path, tmp_path: Path, path: str) -> None:
    (cwd / "out").symlink_to(tmp_path, target_is_directory=True)
    with pytest.raises(ToolError, match=r"outside the session's directories|not a valid path"):
        Files(cwd).resolve(path)


def test_a_sibling_with_the_same_prefix_is_outside(cwd: Path) -> None:
    cwd.with_name(cwd.name + "-evil").mkdir()
    with pytest.raises(ToolError):
        Files(cwd).resolve(f"../{cwd.name}-evil/x")


def test_additional_directories_count_and_readable_ones_may_only_be_read(
    cwd: Path, tmp_path: Path
) -> None:
    files = Files(cwd, [tmp_path / "other"], [tmp_path / "spills"])
    assert files.resolve("../other/x", write=True) == tmp_path / "other" / "x"
    assert files.resolve(str(tmp_path / "spills" / "x")) == tmp_path / "spills" / "x"
    with pytest.raises(ToolError):
        files.resolve(str(tmp_path / "spills" / "x"), write=True)


async def test_a_file_behind_a_link_stays_behind_it(cwd: Path) -> None:
    (cwd / "real.txt").write_text("old")
    (cwd / "link.txt").symlink_to("real.txt")
    files = Files(cwd)
    link = files.resolve("link.txt", write=True)
    await files.read(link)
    await files.write(link, "new")
    assert link.is_symlink()
    assert (cwd / "real.txt").read_text() == "new"
    assert await files.current(files.resolve("real.txt")) == "new"


async def test_a_change_needs_a_read_first(cwd: Path) -> None:
    (cwd / "a").write_text("x")
    files = Files(cwd)
    with pytest.raises(ToolError, match="has not been read yet"):
        await files.current(cwd / "a")
    await files.read(cwd / "a")
    assert await files.current(cwd / "a") == "x"


async def test_a_file_that_changed_since_it_was_read_is_refused(cwd: Path) -> None:
    (cwd / "a").write_text("x")
    files = Files(cwd)
    await files.read(cwd / "a")
    (cwd / "a").write_text("y")
    with pytest.raises(ToolError, match="changed since it was read"):
        await files.current(cwd / "a")


async def test_what_the_session_wrote_it_has_read(cwd: Path) -> None:
    files = Files(cwd)
    assert await files.current(cwd / "a") is None
    await files.write(cwd / "a", "x")
    assert await files.current(cwd / "a") == "x"


async def test_each_session_has_its_own_memory(cwd: Path) -> None:
    await Files(cwd).write(cwd / "a", "x")
    with pytest.raises(ToolError, match="has not been read yet"):
        await Files(cwd).current(cwd / "a")


async def test_a_missing_file_suggests_others(cwd: Path) -> None:
    (cwd / "src").mkdir()
    (cwd / "src" / "Settings.py").touch()
    files = Files(cwd)
    with pytest.raises(Missing, match=r"no file src/setings.py; did you mean src/Settings.py\?"):
        await files.read(files.resolve("src/setings.py"))
    with pytest.raises(Missing, match=r"no directory scr; did you mean src\?"):
        await files.read(files.resolve("scr/deep/x.py"))


async def test_what_is_no_text_is_refused_with_a_reason(cwd: Path) -> None:
    (cwd / "binary").write_bytes(b"a\0b")
    (cwd / "dir").mkdir()
    (cwd / "huge").write_bytes(b"x" * 20_000_000)
    files = Files(cwd)
    for name, reason in (("binary", "binary"), ("dir", "use list"), ("huge", "use grep")):
        with pytest.raises(ToolError, match=f"^{name} .*{reason}"):
            await files.read(cwd / name)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no named pipes in directories")
async def test_a_named_pipe_does_not_hang(cwd: Path) -> None:
    os.mkfifo(cwd / "pipe")
    with pytest.raises(ToolError, match="not a regular file"):
        await Files(cwd).read(cwd / "pipe")


async def test_a_large_file_is_read_and_written_whole(cwd: Path) -> None:
    text = "line\n" * 500_000
    files = Files(cwd)
    await files.write(cwd / "large", text)
    assert await files.read(cwd / "large") == text


@given(st.binary(max_size=200).filter(lambda data: b"\0" not in data))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_bytes_survive_reading_and_writing(cwd: Path, data: bytes) -> None:
    (cwd / "f").write_bytes(data)
    backend = LocalBackend()
    await backend.write_text(cwd / "f", await backend.read_text(cwd / "f"))
    assert (cwd / "f").read_bytes() == data


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes")
def test_a_replaced_file_keeps_its_mode(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_bytes(b"old")
    script.chmod(0o750)
    replace(script, b"new")
    assert script.read_bytes() == b"new"
    assert stat.S_IMODE(script.stat().st_mode) == 0o750


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    with pytest.raises(OSError):
        replace(tmp_path / "f", b"x")
    assert os.listdir(tmp_path) == ["f"]


def test_missing_directories_are_made(tmp_path: Path) -> None:
    replace(tmp_path / "a" / "b" / "c", b"x")
    assert (tmp_path / "a" / "b" / "c").read_bytes() == b"x"


class Editor:
    """An editor with unsaved buffers, which adds a final newline when it saves."""

    def __init__(self) -> None:
        self.buffers: dict[Path, str] = {}

    async def read_text(self, path: Path) -> str:
        if path not in self.buffers:
            raise FileNotFoundError(path)
        return self.buffers[path]

    async def write_text(self, path: Path, text: str) -> str:
        self.buffers[path] = text if text.endswith("\n") else text + "\n"
        return self.buffers[path]


async def test_an_editor_can_stand_in_for_the_disk(cwd: Path) -> None:
    editor = Editor()
    files = Files(cwd, backend=editor)
    (cwd / "a").write_text("on disk")
    editor.buffers[cwd / "a"] = "unsaved\r\n"
    assert await files.read(cwd / "a") == "unsaved\r\n"
    await files.write(cwd / "a", "changed")
    assert await files.current(cwd / "a") == "changed\n"
    assert (cwd / "a").read_text() == "on disk"
