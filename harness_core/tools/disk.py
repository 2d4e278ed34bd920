"""Files on the local disk: whole reads with a bound, writes that are atomic and keep the mode.

Knows nothing of roots or of what a session has read: ``Files`` asks first, then calls this.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import anyio.to_thread

from harness_core.tools.text import decode, encode

T = TypeVar("T")

LARGEST = 16 * 1024 * 1024
"""Bytes of a text file that is read or changed as a whole."""

SMALL = 256 * 1024
"""Bytes up to which a thread costs more than the read itself."""


class NotText(Exception):
    """A file that cannot be opened as text. The message goes on after the file's name."""


class LocalBackend:
    """The ``FileBackend`` of the disk."""

    async def read_text(self, path: Path) -> str:
        """The text of a file, unchanged. Raises ``OSError`` or ``NotText``."""
        size = regular(path).st_size
        if size > LARGEST:
            raise NotText(
                f"has {size_of(size)}, and files over {size_of(LARGEST)} are not opened as a "
                "whole: use grep, or shell with head, tail or sed"
            )
        data = await _aside(size, path.read_bytes)
        if b"\0" in data:
            raise NotText(f"is a binary file ({size_of(size)}): it cannot be opened as text")
        return decode(data)

    async def write_text(self, path: Path, text: str) -> str:
        """Create or replace a file; what it now holds. Raises ``OSError``."""
        data = encode(text)
        await _aside(len(data), lambda: replace(path, data))
        return text


def regular(path: Path) -> os.stat_result:
    """The status of a regular file. Raises ``OSError``, or ``NotText`` for a pipe or device.

    Opening a named pipe would wait for its other end, and a device may never end.
    """
    status = path.stat()
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(f"{path} is a directory")
    if not stat.S_ISREG(status.st_mode):
        raise NotText("is not a regular file but a pipe, a socket or a device")
    return status


def head(path: Path, count: int = 16) -> bytes:
    """The first bytes of a regular file; nothing of anything else, or of what is not there."""
    try:
        regular(path)
    except (FileNotFoundError, NotText):
        return b""
    with open(path, "rb") as file:
        return file.read(count)


def replace(path: Path, data: bytes) -> None:
    """Put ``data`` in the place of ``path`` (of its target, if it is a link), all or nothing.

    Mode, extended attributes and flags stay; missing directories are made. Raises ``OSError``.
    """
    target = Path(os.path.realpath(path))
    old = target if target.exists() else None
    if old and not os.access(old, os.W_OK):
        raise PermissionError(f"{target} is read-only")
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{os.urandom(8).hex()}.tmp")
    try:
        with open(draft, "xb") as file:
            if old:
                shutil.copystat(old, draft)
            file.write(data)
        os.replace(draft, target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def size_of(count: int) -> str:
    """A number of bytes as people write it."""
    for unit, factor in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} bytes"


async def _aside(size: int, work: Callable[[], T]) -> T:
    """Run ``work`` off the event loop if it handles more than a little."""
    if size <= SMALL:
        return work()
    return await anyio.to_thread.run_sync(work)
