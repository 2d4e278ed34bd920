"""Where logs live. The kernel knows the protocol alone; ``jsonl`` is the default, ``memory`` the
one for tests and embedders that keep nothing."""

from harness_core.journal.protocol import (
    CorruptLog,
    Journal,
    JournalError,
    Page,
    SessionExists,
    SessionLocked,
    SessionNotFound,
    Stored,
    Summary,
)

__all__ = [
    "CorruptLog",
    "Journal",
    "JournalError",
    "Page",
    "SessionExists",
    "SessionLocked",
    "SessionNotFound",
    "Stored",
    "Summary",
]
