"""What the journal asks of the file system, and how each platform does it.

Private files and directories, and the sync that survives a power cut. Nothing here knows what is in
the files.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys

PRIVATE_FILE = 0o600
PRIVATE_DIRECTORY = 0o700

_BINARY: int = getattr(os, "O_BINARY", 0)
_NO_SYNC = frozenset((errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES))
"""How file systems say that a directory cannot be synced."""


def make_directory(path: str) -> None:
    """A directory that only its owner may enter, if it is not there. Raises ``OSError``."""
    os.makedirs(path, mode=PRIVATE_DIRECTORY, exist_ok=True)


def create_file(path: str) -> int:
    """A new private file to append to. Raises ``FileExistsError`` or another ``OSError``."""
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | _BINARY, PRIVATE_FILE)


def append_to_file(path: str) -> int:
    """An existing file to append to. Raises ``OSError``."""
    return os.open(path, os.O_WRONLY | os.O_APPEND | _BINARY)


def write_file(path: str, data: bytes) -> None:
    """A new private file with ``data``, or none. Raises ``FileExistsError``, ``OSError``."""
    descriptor = create_file(path)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
    except OSError:
        os.unlink(path)
        raise


def sync_file(descriptor: int) -> None:
    """Return when the file's bytes, and its length, are on the medium. Raises ``OSError``."""
    if sys.platform == "darwin":
        import fcntl

        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    elif sys.platform == "win32":
        os.fsync(descriptor)
    else:
        os.fdatasync(descriptor)


def _sync_directory(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_path(path: str) -> None:
    """Sync the file at ``path``. Raises ``OSError``."""
    descriptor = append_to_file(path)
    try:
        sync_file(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(path: str) -> None:
    """Return when the names in a directory are on the medium, where a platform can say so.

    Raises ``OSError`` if the directory is gone or the medium fails.
    """
    if sys.platform != "win32":
        try:
            _sync_directory(path)
        except OSError as failure:
            if failure.errno not in _NO_SYNC:
                raise


def remove_tree(path: str) -> bool:
    """Remove a directory and all in it; whether nothing is left."""
    shutil.rmtree(path, ignore_errors=True)
    return not os.path.lexists(path)
