"""The write-behind log: nothing early, twice or lost, and the truth about what failed."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from harness_core.facts import SessionTitle
from harness_core.journal.jsonl import JsonlJournal
from harness_core.journal.layout import Place
from harness_core.journal.lock import Lock
from harness_core.journal.writer import Files, JsonlLog, Synced
from harness_core.session import Log, SessionEvent, SessionHeader

Append = Callable[[Log, Iterable[SessionEvent]], None]
Put = Callable[..., list[SessionEvent]]
Run = Callable[..., Any]

HEADER = SessionHeader("s", "/proj", 5)

posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such permissions")


def titles(first: int, count: int) -> list[SessionEvent]:
    return [
        SessionEvent("s", seq, seq, SessionTitle(f"title {seq}"))
        for seq in range(first, first + count)
    ]


def files(root: Path) -> list[str]:
    """What is on disk, without the index."""
    return sorted(
        str(path.relative_to(root))
        for path in root.rglob("*")
        if not path.name.startswith(".index")
    )


def size(path: Path) -> int:
    return path.stat().st_size


class Obstacle:
    """A file where the root should be: no session can be stored."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.parent.mkdir(parents=True)
        root.write_text("in the way")

    def remove(self) -> None:
        self.root.unlink()


@pytest.fixture
def obstacle(root: Path) -> Obstacle:
    return Obstacle(root)


@pytest.fixture
def path(root: Path) -> Path:
    return root / "s" / "log.jsonl"


@pytest.fixture
def log(journal: JsonlJournal) -> Iterator[JsonlLog]:
    log = journal.create(HEADER)
    yield log
    log.close()


# --- when something is on disk -------------------------------------------------------------------


def test_nothing_is_on_disk_before_the_first_event(root: Path, log: JsonlLog) -> None:
    log.drain()
    assert not root.exists()


def test_writing_alone_puts_nothing_on_disk(root: Path, log: JsonlLog, append: Append) -> None:
    append(log, titles(0, 3))
    assert not root.exists()
    log.drain()
    assert files(root) == ["s", "s/lock", "s/log.jsonl"]


def test_draining_puts_all_of_it_there_in_order(
    log: JsonlLog, path: Path, append: Append, journal: JsonlJournal
) -> None:
    for first in (0, 3, 6):
        append(log, titles(first, 3))
        log.drain()
        log.drain()
        assert list(journal.read("s").events) == titles(0, first + 3)
    assert path.read_bytes().count(b"\n") == 10


def test_closing_drains(log: JsonlLog, append: Append, journal: JsonlJournal) -> None:
    append(log, titles(0, 3))
    log.close()
    assert len(journal.read("s").events) == 3


@posix
def test_only_the_owner_may_look(root: Path, log: JsonlLog, append: Append) -> None:
    append(log, titles(0, 1))
    log.drain()
    log.spill("output.txt", b"secret")
    modes = {
        str(path.relative_to(root.parent)): stat.S_IMODE(path.stat().st_mode)
        for path in (root, *root.rglob("*"))
    }
    assert modes == {
        "sessions": 0o700,
        "sessions/s": 0o700,
        "sessions/s/log.jsonl": 0o600,
        "sessions/s/lock": 0o600,
        "sessions/s/outputs": 0o700,
        "sessions/s/outputs/output.txt": 0o600,
    }


@posix
def test_the_index_is_private_too(root: Path, journal: JsonlJournal, put: Put) -> None:
    put(journal, "s")
    journal.list()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in root.glob(".index*")}
    assert set(modes.values()) == {0o600}
    assert ".index.sqlite3" in modes


# --- flush ---------------------------------------------------------------------------------------


class Follower:
    """Keeps what a log tells."""

    def __init__(self) -> None:
        self.done: list[Synced] = []
        self.closes = 0

    def synced(self, done: Synced) -> None:
        self.done.append(done)

    def closed(self) -> None:
        self.closes += 1


@pytest.fixture
def follower() -> Follower:
    return Follower()


@pytest.fixture
def followed(root: Path, follower: Follower) -> Iterator[JsonlLog]:
    log = JsonlLog(Place(str(root / "s")), follower, header=b'{"a":1}')
    yield log
    log.close()


@pytest.mark.anyio
async def test_a_flush_covers_everything_written_before_it(
    followed: JsonlLog, follower: Follower, path: Path, append: Append
) -> None:
    with anyio.fail_after(30):
        append(followed, titles(0, 2))
        await followed.flush()
        append(followed, titles(2, 1))
        await followed.flush()
        await followed.flush()
    assert [done.events for done in follower.done] == [titles(0, 2), titles(2, 1)]
    assert follower.done[-1].size == size(path)


@pytest.mark.anyio
async def test_flushes_at_the_same_time_share_a_sync(
    followed: JsonlLog, follower: Follower, append: Append
) -> None:
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            for number in range(50):
                append(followed, titles(number, 1))
                group.start_soon(followed.flush)
    assert sum(len(done.events) for done in follower.done) == 50
    assert len(follower.done) <= 2


@pytest.mark.anyio
async def test_what_is_written_while_a_sync_runs_waits_for_the_next(
    followed: JsonlLog, follower: Follower, append: Append
) -> None:
    async def write_and_flush(number: int) -> None:
        append(followed, titles(number, 1))
        await followed.flush()
        assert number in {event.seq for done in follower.done for event in done.events}

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(write_and_flush, number)
                await anyio.lowlevel.checkpoint()
    told = [event.seq for done in follower.done for event in done.events]
    assert told == list(range(20))


@pytest.mark.anyio
async def test_a_cancelled_flush_breaks_nothing(
    followed: JsonlLog, follower: Follower, append: Append
) -> None:
    with anyio.fail_after(30):
        append(followed, titles(0, 1))
        with anyio.CancelScope() as scope:
            scope.cancel()
            await followed.flush()
        append(followed, titles(1, 1))
        await followed.flush()
    assert [event.seq for done in follower.done for event in done.events] == [0, 1]


@pytest.mark.anyio
async def test_a_follower_that_fails_does_not_fail_the_flush(
    root: Path, append: Append, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Follower):
        def synced(self, done: Synced) -> None:
            raise RuntimeError("broken follower")

    log = JsonlLog(Place(str(root / "s")), Broken(), header=b"{}")
    append(log, titles(0, 1))
    with anyio.fail_after(30):
        await log.flush()
    log.close()
    assert "broken follower" in caplog.text


@pytest.mark.anyio
async def test_a_flush_of_a_closed_log_says_what_was_not_synced(
    followed: JsonlLog, follower: Follower, append: Append
) -> None:
    append(followed, titles(0, 1))
    followed.close()
    followed.close()
    assert follower.closes == 1
    with anyio.fail_after(30), pytest.raises(OSError, match="closed before it was synced"):
        await followed.flush()


@pytest.mark.anyio
async def test_outputs_are_synced_with_the_log(
    log: JsonlLog, append: Append, journal: JsonlJournal
) -> None:
    log.spill("before-any-event.txt", b"1")
    with anyio.fail_after(30):
        await log.flush()
        append(log, titles(0, 1))
        os.unlink(log.spill("removed.txt", b"2"))
        await log.flush()
        log.spill("outputs-removed.txt", b"3")
        shutil.rmtree(log.place.outputs)
        await log.flush()
    assert len(journal.read("s").events) == 1


# --- failures ------------------------------------------------------------------------------------


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.anyio
async def test_a_failure_is_said_once_kept_retried_and_over_when_it_is_over(
    obstacle: Obstacle,
    log: JsonlLog,
    journal: JsonlJournal,
    append: Append,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with anyio.fail_after(30):
        for number in range(3):
            append(log, titles(number, 1))
            log.drain()
            with pytest.raises(OSError, match=r"log\.jsonl"):
                await log.flush()
        assert len(errors(caplog)) == 1
        assert "cannot save" in errors(caplog)[0]
        obstacle.remove()
        log.drain()
        await log.flush()
    assert list(journal.read("s").events) == titles(0, 3)
    assert "is saved again" in caplog.text


def test_closing_with_something_unsaved_is_said(
    obstacle: Obstacle, log: JsonlLog, append: Append, caplog: pytest.LogCaptureFixture
) -> None:
    append(log, titles(0, 1))
    log.close()
    assert "bytes unsaved" in caplog.text


@pytest.mark.anyio
@pytest.mark.parametrize("moment", ["first", "later"])
async def test_a_log_whose_files_were_removed_is_not_called_safe(
    root: Path, log: JsonlLog, append: Append, moment: str
) -> None:
    with anyio.fail_after(30):
        append(log, titles(0, 1))
        log.drain()
        if moment == "later":
            await log.flush()
            append(log, titles(1, 1))
        shutil.rmtree(root / "s")
        for _ in range(2):
            with pytest.raises(FileNotFoundError):
                await log.flush()


def test_a_second_process_with_the_same_new_id_does_not_mix_in(
    root: Path, journal: JsonlJournal, append: Append, put: Put, caplog: pytest.LogCaptureFixture
) -> None:
    mine = journal.create(HEADER)
    other = JsonlJournal(root)
    theirs = put(other, "s")
    append(mine, titles(0, 1))
    mine.drain()
    mine.close()
    other.close()
    assert list(journal.read("s").events) == theirs
    assert "cannot save" in caplog.text


@posix
def test_a_full_disk_tears_doubles_and_loses_nothing(
    root: Path, journal: JsonlJournal, run: Run
) -> None:
    """A real limit on the file's size, raised byte by byte: every write is cut somewhere else."""
    program = run("""
        import anyio, logging, resource

        logging.disable(logging.WARNING)

        def limit(size):
            hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))

        async def main():
            log = journal.create(SessionHeader("s", "/proj", 5))
            refused = 0
            for seq in range(40):
                log.write(*title("s", seq))
                for size in range(seq * 70, seq * 70 + 140, 7):
                    limit(size)
                    log.drain()
                    try:
                        await log.flush()
                    except OSError as failure:
                        refused += 1
                        assert failure.filename.endswith("log.jsonl"), failure
            limit(resource.RLIM_INFINITY)
            await log.flush()
            log.close()
            say("done", refused)

        anyio.run(main)
    """)
    out, _ = program.communicate(timeout=120)
    done, refused = out.split()
    assert done == "done"
    assert int(refused) > 50
    stored = journal.read("s")
    assert (stored.torn, stored.damage) == (0, None)
    assert [event.fact for event in stored.events] == [
        SessionTitle(f"title {seq}") for seq in range(40)
    ]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has /dev/full")
@pytest.mark.anyio
async def test_a_device_without_space_is_an_error_as_long_as_it_has_none(
    tmp_path: Path, follower: Follower, append: Append, caplog: pytest.LogCaptureFixture
) -> None:
    full = Files(Lock.acquire(str(tmp_path / "lock")), os.open("/dev/full", os.O_WRONLY))
    log = JsonlLog(Place(str(tmp_path)), follower, files=full)
    with anyio.fail_after(30):
        for number in range(3):
            append(log, titles(number, 1))
            log.drain()
            with pytest.raises(OSError) as caught:
                await log.flush()
            assert caught.value.errno == errno.ENOSPC
    assert len(errors(caplog)) == 1
    assert follower.done == []
    log.close()
