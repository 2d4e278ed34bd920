"""One writer for each session: an operating system's lock on a file that names its owner.

The lock lives at most as long as its holder's process, so a file left behind by a dead process
locks nothing. It is exclusive within a process, too. This room is the only one that knows how a
platform locks.
"""

from __future__ import annotations

import os
import sys

from harness_core.journal.disk import PRIVATE_FILE


class Held(Exception):
    """Somebody else holds the lock; ``pid`` is who, if known."""

    def __init__(self, pid: int | None) -> None:
        super().__init__(f"held by process {pid}" if pid else "held by another process")
        self.pid = pid


if sys.platform == "win32":
    import msvcrt

    _FAR = 1 << 30
    """Windows forbids to read what is locked: lock a byte far beyond the process id."""

    def _lock(descriptor: int) -> None:
        os.lseek(descriptor, _FAR, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

    def _unlock(descriptor: int) -> None:
        os.lseek(descriptor, _FAR, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


class Lock:
    """A held lock. ``Lock.acquire`` takes it, ``release`` gives it back."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    @classmethod
    def acquire(cls, path: str) -> Lock:
        """Lock the file at ``path``, which is made if it is not there.

        Never waits. Raises ``Held``, or ``OSError`` if the file cannot be had.
        """
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE_FILE)
            try:
                _take(descriptor)
                if _is_still(path, descriptor):
                    _sign(descriptor)
                    return cls(descriptor)
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)  # its holder removed the file before letting go: try the new one

    def release(self) -> None:
        """Give the lock back. A second call has no effect."""
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            os.ftruncate(descriptor, 0)
            _unlock(descriptor)
            os.close(descriptor)

    def release_and_move(self, source: str, target: str) -> None:
        """Rename the directory that holds the lock file, and release. Raises ``OSError``."""
        if sys.platform == "win32":  # cannot rename what holds an open file
            self.release()
            os.rename(source, target)
        else:
            try:
                os.rename(source, target)
            finally:
                self.release()


def _take(descriptor: int) -> None:
    try:
        _lock(descriptor)
    except (BlockingIOError, PermissionError):
        raise Held(_owner(descriptor)) from None


def _owner(descriptor: int) -> int | None:
    os.lseek(descriptor, 0, os.SEEK_SET)
    text = os.read(descriptor, 20)
    return int(text) if text.isdigit() else None


def _is_still(path: str, descriptor: int) -> bool:
    try:
        there = os.stat(path)
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(descriptor))


def _sign(descriptor: int) -> None:
    os.ftruncate(descriptor, 0)
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.write(descriptor, str(os.getpid()).encode())
