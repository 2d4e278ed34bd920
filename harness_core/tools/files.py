"""A session's file access: confined to its directories, and it remembers what was read.

Confinement is decided on real paths, with every link followed, and fails closed. What is handed on
is the path as it was named, made absolute: an editor knows its buffers by that one. Where the text
comes from and goes to is a ``FileBackend``: the disk, or an editor that holds unsaved buffers.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from harness_core.tools.disk import LocalBackend, NotText
from harness_core.tools.text import visible
from harness_core.tools.tool import ToolError


class FileBackend(Protocol):
    """Where text files are read and written. Line endings and byte order mark stay as they are."""

    async def read_text(self, path: Path) -> str:
        """The text of a file. Raises ``OSError`` or ``NotText``."""
        ...

    async def write_text(self, path: Path, text: str) -> str:
        """Create or replace a file; what it now holds (an editor may add a final newline).

        Raises ``OSError``.
        """
        ...


class Files:
    """Text files of one session below ``cwd`` and ``roots``; ``readable`` may only be read."""

    def __init__(
        self,
        cwd: Path,
        roots: Sequence[Path] = (),
        readable: Sequence[Path] = (),
        backend: FileBackend | None = None,
    ) -> None:
        self._named = tuple(Path(os.path.normpath(root)) for root in (cwd, *roots))
        self.cwd = self._named[0]
        self.backend: FileBackend = backend or LocalBackend()
        self._roots = tuple(_real(root) for root in self._named)
        self._readable = {_real(path) for path in readable}
        self._seen: dict[Path, bytes] = {}

    def allow_reading(self, path: Path) -> None:
        """Let ``path``, and what is below it, be read though it is outside the directories."""
        self._readable.add(_real(path))

    def resolve(self, path: str, *, write: bool = False) -> Path:
        """``path`` made absolute. Raises ``ToolError`` if it leads outside.

        ``..`` is taken as written, before links are followed.
        """
        try:
            place = Path(os.path.normpath(self.cwd / path))
            real = _real(place)
        except (ValueError, OSError):
            raise ToolError(f"{path!r} is not a valid path") from None
        if not self._within(real, self._roots if write else (*self._roots, *self._readable)):
            allowed = ", ".join(map(str, self._roots))
            raise ToolError(
                f"{self.name(place)} is outside the session's directories ({allowed}): only files "
                "in these can be used"
            )
        return place

    def root_of(self, path: Path) -> Path:
        """The innermost of the session's directories that ``path`` lies in, else ``path``."""
        roots = [root for root in self._named if path.is_relative_to(root)]
        return max(roots, key=lambda root: len(root.parts), default=path)

    def name(self, path: Path) -> str:
        """``path`` as it is called in messages: below ``cwd`` relative, with forward slashes."""
        try:
            return visible(path.relative_to(self.cwd).as_posix())
        except ValueError:
            return visible(str(path))

    async def read(self, path: Path) -> str:
        """The text of a resolved path, remembered as read. Raises ``ToolError``."""
        text = await self._load(path)
        self._remember(path, text)
        return text

    async def current(self, path: Path) -> str | None:
        """The text of a file that is about to be changed, ``None`` if there is no such file.

        Raises ``ToolError`` if the session has not read it, or if it has changed since.
        """
        try:
            text = await self._load(path)
        except Missing:
            return None
        seen = self._seen.get(_real(path))
        if seen is None:
            raise ToolError(f"{self.name(path)} has not been read yet: read it before changing it")
        if seen != _digest(text):
            raise ToolError(
                f"{self.name(path)} has changed since it was read: read it again, then repeat the "
                "change"
            )
        return text

    async def write(self, path: Path, text: str) -> None:
        """Create or replace a resolved path, remembered as read. Raises ``ToolError``."""
        with self.explained(path):
            held = await self.backend.write_text(path, text)
        self._remember(path, held)

    async def _load(self, path: Path) -> str:
        with self.explained(path):
            return await self.backend.read_text(path)

    def _remember(self, path: Path, text: str) -> None:
        self._seen[_real(path)] = _digest(text)

    @staticmethod
    def _within(real: Path, places: Sequence[Path]) -> bool:
        return any(real.is_relative_to(place) for place in places)

    @contextmanager
    def explained(self, path: Path) -> Iterator[None]:
        """Turn a failure about ``path`` into a ``ToolError`` that says what to do."""
        try:
            yield
        except NotText as failure:
            raise ToolError(f"{self.name(path)} {failure}") from None
        except FileNotFoundError:
            raise self.missing(path) from None
        except IsADirectoryError:
            raise ToolError(f"{self.name(path)} is a directory: use list or glob") from None
        except OSError as failure:
            raise ToolError(f"{self.name(path)}: {_reason(failure)}") from None

    def missing(self, path: Path) -> Missing:
        """That there is no ``path``, as an error that suggests what may have been meant."""
        what, parent = "file", path.parent
        while not parent.is_dir() and parent != parent.parent:
            what, path, parent = "directory", parent, parent.parent
        names = ", ".join(self.name(parent / name) for name in similar(path.name, parent))
        hint = f"; did you mean {names}?" if names else ""
        return Missing(f"there is no {what} {self.name(path)}{hint}")


class Missing(ToolError):
    """There is no such file; the message suggests others."""


def similar(name: str, directory: Path, most: int = 3) -> list[str]:
    """Names in ``directory`` that are written much like ``name``."""
    import difflib

    try:
        names = sorted(os.listdir(directory))[:5000]
    except OSError:
        return []
    folded: dict[str, str] = {}
    for known in names:
        folded.setdefault(known.casefold(), known)
    close = difflib.get_close_matches(name.casefold(), folded, most, 0.6)
    return [folded[match] for match in close]


def _reason(failure: OSError) -> str:
    match failure.errno:
        case None:  # an editor's, in its own words
            return str(failure) or "it cannot be used"
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return "permission denied, or the file is read-only"
        case errno.ENOTDIR:
            return "a part of the path is a file, not a directory"
        case errno.ENOSPC | errno.EDQUOT:
            return "the disk is full"
        case errno.ELOOP:
            return "its links lead in a circle"
        case _:
            return (failure.strerror or "it cannot be used").lower()


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
