"""Where the files of a session are, and which names may become a path.

Session ids come from clients: whatever they hold, no path leaves the root. Names that begin with a
dot are the journal's own and can never be a session.
"""

from __future__ import annotations

import os
import re
import uuid
from dataclasses import dataclass

from harness_core.journal.disk import remove_tree, sync_directory
from harness_core.journal.protocol import SessionNotFound

_LOG = "log.jsonl"
_TRASH = ".trash-"
_DEVICES = r"(?!(?i:con|prn|aux|nul|com\d|lpt\d)(\.|$))"
"""Names that Windows gives to devices, whatever follows their dot."""
_ID = re.compile(_DEVICES + r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9_-])?", re.ASCII)
_STRANGE = re.compile(r"[^A-Za-z0-9._-]+", re.ASCII)


def is_id(text: str) -> bool:
    """Whether ``text`` can be a session's id: a file name on every platform, and only a name."""
    return _ID.fullmatch(text) is not None


def check_id(text: str) -> None:
    """Raises ``ValueError`` if ``text`` cannot be a session's id."""
    if not is_id(text):
        raise ValueError(
            f"{text[:128]!r} cannot be a session id: use 1 to 128 letters, digits, '-', '_' or '.',"
            " with a letter or digit first"
        )


def file_name(text: str) -> str:
    """A file name on every platform that reminds of ``text``."""
    name = _STRANGE.sub("_", text)[:100].strip("._")
    return name if is_id(name) else f"output-{name}".rstrip("-")


@dataclass(frozen=True, slots=True)
class Place:
    """The paths of one session."""

    directory: str

    @property
    def log(self) -> str:
        """The log: a header line, then one event a line."""
        return os.path.join(self.directory, _LOG)

    @property
    def lock(self) -> str:
        """The file that its writer locks."""
        return os.path.join(self.directory, "lock")

    @property
    def outputs(self) -> str:
        """The directory of outputs too large for the log."""
        return os.path.join(self.directory, "outputs")


def sync_names(place: Place) -> None:
    """Make the names that lead to a session's log safe. Raises ``OSError``."""
    root = os.path.dirname(place.directory)
    for directory in (place.directory, root, os.path.dirname(root)):
        sync_directory(directory)


class Layout:
    """The directories under one root."""

    def __init__(self, root: str) -> None:
        self.root = os.path.abspath(root)

    def place(self, session: str) -> Place:
        """Where a session is or would be. Raises ``SessionNotFound`` for an impossible id."""
        if not is_id(session):
            raise SessionNotFound.of(session)
        return Place(os.path.join(self.root, session))

    def trash(self) -> str:
        """A new name for a directory on its way out."""
        return os.path.join(self.root, _TRASH + uuid.uuid4().hex)

    def ids(self) -> list[str]:
        """Every name that can be a session's, in no order. Raises ``OSError``."""
        return [name for name in os.listdir(self.root) if is_id(name)]

    def status(self, id: str) -> os.stat_result | None:
        """The state of a session's log; ``None`` while there is none."""
        try:
            return os.stat(f"{self.root}{os.sep}{id}{os.sep}{_LOG}")
        except OSError:  # nothing is stored yet, or it is being deleted
            return None

    def sweep(self) -> None:
        """Remove what deletions cut short have left. Raises ``OSError``."""
        for name in os.listdir(self.root):
            if name.startswith(_TRASH):
                remove_tree(os.path.join(self.root, name))
