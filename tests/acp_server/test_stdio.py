"""The standard streams: guarded against everybody else, read and written in threads."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from acp_server.stdio import AHEAD, CHUNK, Reader, Writer

pytestmark = pytest.mark.anyio

POLLUTER = """
import os, subprocess, sys
from acp_server.stdio import guard
source, target = guard()
print("printed")
sys.stdout.write("written\\n")
os.write(1, b"raw\\n")
sys.__stdout__.write("the original\\n"); sys.__stdout__.flush()
subprocess.run([sys.executable, "-c", "print('of a child')"])
child = subprocess.run([sys.executable, "-c", "import sys; print(repr(sys.stdin.read()))"],
                       stderr=subprocess.DEVNULL, stdout=subprocess.PIPE)
os.write(target, b"frame " + child.stdout)
os.write(target, b"read " + os.read(source, 100))
"""


def test_nothing_but_our_frames_reaches_stdout_and_nobody_reads_our_input() -> None:
    done = subprocess.run(
        [sys.executable, "-c", POLLUTER],
        input=b"for us",
        cwd=Path(__file__).parents[2],
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.splitlines() == [b"frame ''", b"read for us"]
    told = [b"printed", b"written", b"raw", b"the original", b"of a child"]
    assert sorted(done.stderr.splitlines()) == sorted(told)


# --- reading --------------------------------------------------------------------------------------


class Heard:
    """What a reader has handed on, and whether it has come to the end."""

    def __init__(self) -> None:
        self.data = b""
        self.ended = asyncio.Event()

    def feed(self, data: bytes) -> None:
        self.data += data
        if not data:
            self.ended.set()


async def test_everything_is_read_up_to_the_end() -> None:
    source, target = os.pipe()
    heard = Heard()
    Reader(source, heard.feed).start()
    data = b"0123456789" * (CHUNK // 4)
    await asyncio.to_thread(write_and_close, target, data)
    await asyncio.wait_for(heard.ended.wait(), 30)
    assert heard.data == data


def write_and_close(fd: int, data: bytes) -> None:
    with os.fdopen(fd, "wb") as file:
        file.write(data)


async def test_what_cannot_be_read_is_the_end(tmp_path: Path) -> None:
    directory = os.open(tmp_path, os.O_RDONLY)
    heard = Heard()
    Reader(directory, heard.feed).start()
    await asyncio.wait_for(heard.ended.wait(), 30)


async def test_a_reader_does_not_run_ahead_of_what_is_handled(tmp_path: Path) -> None:
    """A client that writes faster than it is served fills its pipe, not our memory."""
    file = tmp_path / "input"
    file.write_bytes(b"x" * (4 * AHEAD * CHUNK))
    source = os.open(file, os.O_RDONLY)
    place = os.dup(source)
    heard = Heard()
    ahead: list[int] = []

    def feed(data: bytes) -> None:
        ahead.append(os.lseek(place, 0, os.SEEK_CUR) - len(heard.data))
        heard.feed(data)

    Reader(source, feed).start()
    while os.lseek(place, 0, os.SEEK_CUR) < AHEAD * CHUNK:
        pass  # the event loop stands still, as it does while a large message is handled
    await asyncio.wait_for(heard.ended.wait(), 30)
    os.close(place)
    assert max(ahead) <= (AHEAD + 2) * CHUNK


# --- writing --------------------------------------------------------------------------------------


class Told:
    """What a writer has told the event loop."""

    def __init__(self) -> None:
        self.drained = asyncio.Event()
        self.broken = asyncio.Event()

    def writer(self, fd: int) -> Writer:
        return Writer(fd, self.drained.set, self.broken.set)


async def read_all(fd: int) -> bytes:
    def read() -> bytes:
        with os.fdopen(fd, "rb") as file:
            return file.read()

    return await asyncio.to_thread(read)


async def test_everything_is_written_in_order() -> None:
    source, target = os.pipe()
    told = Told()
    writer = told.writer(target)
    reading = asyncio.ensure_future(read_all(source))
    pieces = [f"{n}\n".encode() * 1_000 for n in range(200)]
    for piece in pieces:
        writer.write(piece)
        writer.write(b"")
    await asyncio.wait_for(told.drained.wait(), 30)
    writer.close(30)
    writer.write(b"too late")
    assert await asyncio.wait_for(reading, 30) == b"".join(pieces)
    assert writer.pending == 0


async def test_what_is_not_read_is_pending() -> None:
    source, target = os.pipe()
    told = Told()
    writer = told.writer(target)
    writer.write(b"x" * 1_000_000)
    assert writer.pending == 1_000_000
    writer.close(0.01)
    assert not told.drained.is_set()
    assert len(await asyncio.wait_for(read_all(source), 30)) == 1_000_000


async def test_a_broken_pipe_is_told_once_and_what_is_written_then_is_dropped() -> None:
    source, target = os.pipe()
    os.close(source)
    told = Told()
    writer = told.writer(target)
    writer.write(b"x")
    await asyncio.wait_for(told.broken.wait(), 30)
    pending = writer.pending
    writer.write(b"x" * 1_000)
    assert writer.pending == pending
    writer.close(30)


def test_threads_outlive_their_event_loop_in_peace() -> None:
    """At the end of the process a client may still write, or begin to read again."""
    (source, ours), (theirs, target) = os.pipe(), os.pipe()

    async def use(feed: Callable[[bytes], None]) -> None:
        Reader(source, feed).start()
        Told().writer(target).write(b"x" * 1_000_000)

    asyncio.run(use(lambda _: None))
    os.close(ours)
    with os.fdopen(theirs, "rb") as file:
        file.read(1_000_000)
