"""Files through the editor: reads see unsaved text, writes go through its buffers (C.13).

A ``FileBackend`` for one session. Which paths may be touched, and whether a change is approved, is
decided before anything comes here. What the editor cannot serve (a directory, something binary)
is left to the disk.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from acp_server.framing import NOT_FOUND
from acp_server.rpc import ConnectionLost, PeerError
from harness_core.tools.disk import LocalBackend

Ask: TypeAlias = Callable[[str, dict[str, Any]], Awaitable[Any]]


class ClientFiles:
    """Asks the client for files while ``wanted`` says so, and the disk otherwise."""

    def __init__(self, ask: Ask, wanted: Callable[[], bool]) -> None:
        self._ask = ask
        self._wanted = wanted
        self._disk = LocalBackend()

    async def read_text(self, path: Path) -> str:
        """The text of a file as the editor sees it. Raises ``OSError`` or ``NotText``.

        The disk is asked first whether this can be a text: a directory or something binary is not
        for the editor. Of a file that is on neither side, some editors say that it is empty.
        """
        try:
            stored: str | None = await self._disk.read_text(path)
        except FileNotFoundError:
            stored = None
        if self._wanted():
            text = await self._read(path)
            if text or stored is not None:
                return text
        if stored is None:
            raise FileNotFoundError(str(path))
        return stored

    async def _read(self, path: Path) -> str:
        try:
            answer = await self._ask("fs/read_text_file", {"path": str(path)})
        except PeerError as error:
            if error.code == NOT_FOUND:
                raise FileNotFoundError(str(path)) from None
            raise OSError(f"the editor did not give it: {error.message}") from None
        except ConnectionLost:
            raise OSError("the editor has gone") from None
        text = answer.get("content") if isinstance(answer, Mapping) else None
        if not isinstance(text, str):
            raise OSError("the editor gave no text")
        return text

    async def write_text(self, path: Path, text: str) -> str:
        """Create or replace a file through the editor; what it now holds. Raises ``OSError``."""
        if not self._wanted() or not _is_unicode(text):
            return await self._disk.write_text(path, text)
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            await self._ask("fs/write_text_file", {"path": str(path), "content": text})
        except PeerError as error:
            raise OSError(f"the editor did not write it: {error.message}") from None
        except ConnectionLost:
            raise OSError("the editor has gone") from None
        try:
            return await self._read(path)
        except OSError:  # it took the text; what it holds now we cannot know better
            return text


def _is_unicode(text: str) -> bool:
    """Whether JSON can carry it: bytes that are not UTF-8 stand in a text as lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
